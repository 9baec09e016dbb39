//! The messages of a tunnel of connections: the number of the connection (32 bits, network byte order), a byte for the type, and its content.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

const HEADER_BYTES: usize = 5;

/// The entrance opens a connection.
const OPEN: u8 = 0;
/// The exit has connected to the server.
const OPENED: u8 = 1;
/// Bytes follow.
const DATA: u8 = 2;
/// No more data comes from this side.
const END: u8 = 3;
/// The other side may send this number of bytes more (32 bits).
const CREDIT: u8 = 4;
/// The connection is broken; the reason follows.
const RESET: u8 = 5;

/// A message about one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Open,
    Opened,
    Data(Bytes),
    End,
    Credit(usize),
    Reset(String),
}

impl Frame {
    /// Writes the message about the connection with this number.
    pub(super) fn encode(&self, number: u32) -> Bytes {
        let credit;
        let (kind, content) = match self {
            Self::Open => (OPEN, &[][..]),
            Self::Opened => (OPENED, &[][..]),
            Self::Data(data) => (DATA, &data[..]),
            Self::End => (END, &[][..]),
            Self::Credit(bytes) => {
                credit = u32::try_from(*bytes).unwrap_or(u32::MAX).to_be_bytes();
                (CREDIT, &credit[..])
            }
            Self::Reset(reason) => (RESET, reason.as_bytes()),
        };
        let mut message = BytesMut::with_capacity(HEADER_BYTES + content.len());
        message.put_u32(number);
        message.put_u8(kind);
        message.put_slice(content);
        message.freeze()
    }

    /// Reads a message: the number of the connection, and the frame. `None` if it is none.
    pub(super) fn decode(mut message: Bytes) -> Option<(u32, Self)> {
        let (number, kind) = (message.try_get_u32().ok()?, message.try_get_u8().ok()?);
        let frame = match kind {
            OPEN if message.is_empty() => Self::Open,
            OPENED if message.is_empty() => Self::Opened,
            DATA if !message.is_empty() => Self::Data(message),
            END if message.is_empty() => Self::End,
            CREDIT if message.len() == 4 => Self::Credit(usize::try_from(message.get_u32()).ok()?),
            RESET => Self::Reset(String::from_utf8_lossy(&message).into_owned()),
            _ => return None,
        };
        Some((number, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_read_as_it_was_written() {
        let data = Frame::Data(Bytes::from_static(b"data"));
        for frame in [Frame::Open, Frame::Opened, data, Frame::End, Frame::Credit(70_000), Frame::Reset("why".into())] {
            assert_eq!(Frame::decode(frame.encode(0x0102_0304)), Some((0x0102_0304, frame)));
        }
    }

    #[test]
    fn messages_that_are_no_frames_are_refused() {
        for message in
            [&b""[..], b"\0\0\0\x01", b"\0\0\0\x01\x06", b"\0\0\0\x01\x00x", b"\0\0\0\x01\x02", b"\0\0\0\x01\x04\0"]
        {
            assert_eq!(Frame::decode(Bytes::from_static(message)), None, "{message:?}");
        }
    }
}
