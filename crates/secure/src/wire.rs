//! Bytes of a datagram: long and short headers, and the frames of the handshake. `docs/secure-format.md` shows every bit.
//!
//! Headers keep the version-independent layout of QUIC (RFC 8999 §5), and the protected bits are those of RFC 9001 §5.4.1.

/// The version in long headers: `FST` and the number of the format.
pub(crate) const VERSION: u32 = 0x4653_5401;
/// Length of a connection ID in bytes.
pub const CONNECTION_ID_BYTES: usize = 8;
/// Length of the authentication tag in bytes (RFC 9001 §5.3).
pub(crate) const TAG_BYTES: usize = 16;
/// Bytes that a protected packet has in addition to its chunks.
pub(crate) const SHORT_OVERHEAD_BYTES: usize = SHORT_HEADER_BYTES + NUMBER_BYTES + TAG_BYTES;

/// Length of a long header without its packet number.
pub const LONG_HEADER_BYTES: usize = 1 + 4 + 2 * (1 + CONNECTION_ID_BYTES) + LENGTH_BYTES;
/// Length of a short header without its packet number.
pub const SHORT_HEADER_BYTES: usize = 1 + CONNECTION_ID_BYTES;
/// Length of a packet number in a long header, and of most in short ones.
pub(crate) const NUMBER_BYTES: usize = 2;
/// Length of the packet number in the other short headers.
pub(crate) const WIDE_NUMBER_BYTES: usize = 4;
/// Bytes that a packet with a long header has in addition to its frames.
pub(crate) const LONG_OVERHEAD_BYTES: usize = LONG_HEADER_BYTES + NUMBER_BYTES + TAG_BYTES;
/// Bytes of a fragment frame before the handshake bytes.
pub(crate) const FRAGMENT_HEADER_BYTES: usize = 1 + 2 + 2;
/// Bytes of a message frame before the payload.
pub(crate) const MESSAGE_HEADER_BYTES: usize = 1 + 2 + 4 + 2;

/// Maximum number of bytes of frames in a packet with a long header, whose length field has two bytes.
pub(crate) const LONG_PAYLOAD_BYTES_MAX: usize = 0xffff - NUMBER_BYTES - TAG_BYTES;

const LENGTH_BYTES: usize = 2;
/// High bits of a short header: 96 to 127, outside of every range of RFC 7983.
const SHORT: u8 = 0b0110_0000;
/// High bits of a long header: 192 to 255.
const LONG: u8 = 0b1100_0000;
const EARLY: u8 = 0b1101_0000;
const HANDSHAKE: u8 = 0b1110_0000;
/// The key phase in a short header (RFC 9001 §6).
const KEY_PHASE: u8 = 0b100;
/// Bits that are zero before protection (RFC 9000 §17.2, §17.3.1).
const SHORT_RESERVED: u8 = 0b1_1000;
const LONG_RESERVED: u8 = 0b1100;
/// The length of the packet number minus one.
const NUMBER_LENGTH: u8 = 0b11;

/// Identifies a connection in the packets that its holder receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub [u8; CONNECTION_ID_BYTES]);

/// Keys that protect a packet with a long header (RFC 9001 §4.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Keys that follow from the connection ID that the client chose (RFC 9001 §5.2).
    Initial,
    /// Keys of TLS 1.3's early data, from a session that is resumed (RFC 9001 §4.6).
    Early,
    /// Keys of the TLS handshake.
    Handshake,
}

/// A received long header; its first byte and its packet number are still protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongHeader {
    /// Keys that protect the packet.
    pub level: Level,
    /// Connection ID of the receiver.
    pub destination: ConnectionId,
    /// Connection ID of the sender.
    pub source: ConnectionId,
    /// Length of the packet number and all that follows.
    pub length: usize,
}

/// The packet at the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// A packet of the handshake.
    Long(LongHeader),
    /// A packet with a short header reaches to the end of its datagram.
    Short(ConnectionId),
}

/// Bytes that are no packet of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than the header needs, or than it announces.
    #[error("the datagram is cut short")]
    Truncated,
    /// The first byte belongs to another protocol, or is reserved.
    #[error("the first byte, {0}, is of another protocol")]
    FirstByte(u8),
    /// A long header of another version.
    #[error("version {0:#010x} is unknown")]
    Version(u32),
    /// Connection IDs have 8 bytes.
    #[error("a connection ID has a length other than 8")]
    ConnectionId,
}

/// Returns the destination's connection ID of a datagram, by which an endpoint finds the connection.
///
/// # Errors
/// The datagram does not begin with a packet of this format.
pub fn destination_id(datagram: &[u8]) -> Result<ConnectionId, HeaderError> {
    Ok(match read_header(datagram)? {
        Header::Long(header) => header.destination,
        Header::Short(destination) => destination,
    })
}

/// Returns whether the first byte is one of this format. Plain SCTP over UDP may begin with any byte.
#[must_use]
pub fn has_first_byte(datagram: &[u8]) -> bool {
    is_short(datagram) || datagram.first().is_some_and(|first| matches!(first & 0b1111_0000, LONG | EARLY | HANDSHAKE))
}

/// Returns whether a datagram begins with a short header, which established associations use.
#[must_use]
pub fn is_short(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0b1110_0000 == SHORT)
}

/// Returns the destination's connection ID of a long header of any version, such as a version negotiation (RFC 8999 §5.1). `None` if it has
/// another length than those of this format.
#[must_use]
pub fn destination_id_of_any_version(datagram: &[u8]) -> Option<ConnectionId> {
    let (&first, rest) = datagram.split_first()?;
    let (id, _) = split_id(rest.get(4..)?).ok()?;
    (first >= LONG).then_some(id)
}

/// Reads the header of the packet at the front of `bytes`.
///
/// # Errors
/// The bytes do not begin with a packet of this format.
pub fn read_header(bytes: &[u8]) -> Result<Header, HeaderError> {
    let (&first, rest) = bytes.split_first().ok_or(HeaderError::Truncated)?;
    if first & 0b1110_0000 == SHORT {
        let id = rest.first_chunk().ok_or(HeaderError::Truncated)?;
        return Ok(Header::Short(ConnectionId(*id)));
    }
    let level = match first & 0b1111_0000 {
        LONG => Level::Initial,
        EARLY => Level::Early,
        HANDSHAKE => Level::Handshake,
        _ => return Err(HeaderError::FirstByte(first)),
    };
    let (version, rest) = rest.split_first_chunk().ok_or(HeaderError::Truncated)?;
    let version = u32::from_be_bytes(*version);
    if version != VERSION {
        return Err(HeaderError::Version(version));
    }
    let (destination, rest) = split_id(rest)?;
    let (source, rest) = split_id(rest)?;
    let (length, rest) = rest.split_first_chunk().ok_or(HeaderError::Truncated)?;
    let length = usize::from(u16::from_be_bytes(*length));
    if length > rest.len() {
        return Err(HeaderError::Truncated);
    }
    Ok(Header::Long(LongHeader { level, destination, source, length }))
}

fn split_id(bytes: &[u8]) -> Result<(ConnectionId, &[u8]), HeaderError> {
    let (&length, rest) = bytes.split_first().ok_or(HeaderError::Truncated)?;
    if usize::from(length) != CONNECTION_ID_BYTES {
        return Err(HeaderError::ConnectionId);
    }
    let (id, rest) = rest.split_first_chunk().ok_or(HeaderError::Truncated)?;
    Ok((ConnectionId(*id), rest))
}

/// Appends a long header with a packet number of two bytes, for frames of `payload_bytes`.
pub(crate) fn write_long_header(
    buffer: &mut Vec<u8>,
    level: Level,
    destination: ConnectionId,
    source: ConnectionId,
    number: u64,
    payload_bytes: usize,
) {
    let kind = match level {
        Level::Initial => LONG,
        Level::Early => EARLY,
        Level::Handshake => HANDSHAKE,
    };
    buffer.push(kind | 1);
    buffer.extend_from_slice(&VERSION.to_be_bytes());
    for ConnectionId(id) in [destination, source] {
        buffer.push(8);
        buffer.extend_from_slice(&id);
    }
    let length = NUMBER_BYTES + payload_bytes + TAG_BYTES;
    buffer.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    let [.., high, low] = number.to_be_bytes();
    buffer.extend_from_slice(&[high, low]);
}

/// Writes a short header of [`SHORT_HEADER_BYTES`] and a packet number, which takes the rest of `header`: 1 to 4 bytes. Other lengths leave
/// `header` as it is.
pub(crate) fn write_short_header(header: &mut [u8], destination: ConnectionId, key_phase: bool, number: u64) {
    let Some(([first, id @ ..], truncated)) = header.split_first_chunk_mut::<SHORT_HEADER_BYTES>() else { return };
    let length_bits = match truncated.len() {
        1 => 0,
        2 => 1,
        3 => 2,
        4 => 3,
        _ => return,
    };
    *first = SHORT | if key_phase { KEY_PHASE } else { 0 } | length_bits;
    *id = destination.0;
    for (byte, value) in truncated.iter_mut().rev().zip(number.to_le_bytes()) {
        *byte = value;
    }
}

/// The first byte of a header whose protection was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstByte(pub(crate) u8);

impl FirstByte {
    /// Returns the length of the packet number.
    #[must_use]
    pub(crate) fn number_bytes(self) -> usize {
        usize::from(self.0 & NUMBER_LENGTH) + 1
    }

    /// Returns the key phase (RFC 9001 §6).
    #[must_use]
    pub(crate) fn key_phase(self) -> bool {
        self.0 & KEY_PHASE != 0
    }

    /// Returns whether all reserved bits are zero, which is required only of authenticated packets (RFC 9000 §17.3.1).
    #[must_use]
    pub(crate) fn reserved_bits_are_zero(self) -> bool {
        let reserved = if self.0 & 0x80 == 0 { SHORT_RESERVED } else { LONG_RESERVED };
        self.0 & reserved == 0
    }
}

/// A frame in a packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Handshake bytes of TLS.
    Fragment {
        /// Number of the first byte.
        offset: u16,
        /// The handshake bytes.
        bytes: &'a [u8],
    },
    /// The server asks a client to prove its address: the client repeats its hello with this token (RFC 9000 §8.1.2).
    Retry(&'a [u8]),
    /// The token of a [`Frame::Retry`].
    Token(&'a [u8]),
    /// The handshake failed: a TLS alert (RFC 9001 §4.8), or a refusal by the application with 256 and more.
    Close {
        /// The alert or refusal.
        code: u16,
    },
    /// A message sent with the client's hello, in a packet with early keys.
    Message {
        /// Its stream. It is delivered regardless of the stream's order.
        stream: u16,
        /// Payload protocol identifier (RFC 9260 §3.3.1).
        ppid: u32,
        /// The payload.
        bytes: &'a [u8],
    },
    /// The server has delivered this number of messages from the client's packet with early keys.
    EarlyReceived {
        /// Number of messages.
        count: u8,
    },
    /// The client has several addresses. Only the server can read them.
    Addresses {
        /// Connection IDs for packets to the addresses that are not those of the handshake.
        ids: &'a [u8],
        /// The INIT chunk of the hello, with the addresses.
        init: &'a [u8],
    },
    /// The connection ID that takes the place of the client's at the next move.
    Spare(ConnectionId),
}

const PADDING: u8 = 0;
const FRAGMENT: u8 = 1;
const RETRY: u8 = 2;
const TOKEN: u8 = 3;
const CLOSE: u8 = 4;
const MESSAGE: u8 = 5;
const EARLY_RECEIVED: u8 = 6;
const ADDRESSES: u8 = 7;
const SPARE: u8 = 8;

/// A payload that is not a sequence of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the payload is no sequence of frames")]
pub struct MalformedFrame;

/// Walks the frames of a payload. The walk ends after the first malformed frame.
#[derive(Clone, Debug)]
pub struct Frames<'a>(pub &'a [u8]);

impl<'a> Frames<'a> {
    fn read(&mut self, kind: u8) -> Option<Frame<'a>> {
        Some(match kind {
            FRAGMENT => {
                let offset = self.number()?;
                let length = self.number()?;
                Frame::Fragment { offset, bytes: self.split(length.into())? }
            }
            RETRY | TOKEN => {
                let length = *self.split(1)?.first()?;
                let bytes = self.split(length.into())?;
                if kind == RETRY { Frame::Retry(bytes) } else { Frame::Token(bytes) }
            }
            CLOSE => Frame::Close { code: self.number()? },
            MESSAGE => {
                let stream = self.number()?;
                let ppid = u32::from_be_bytes(*self.split(4)?.first_chunk()?);
                let length = self.number()?;
                Frame::Message { stream, ppid, bytes: self.split(length.into())? }
            }
            EARLY_RECEIVED => Frame::EarlyReceived { count: *self.split(1)?.first()? },
            ADDRESSES => {
                let count = *self.split(1)?.first()?;
                let ids = self.split(usize::from(count) * CONNECTION_ID_BYTES)?;
                let length = self.number()?;
                Frame::Addresses { ids, init: self.split(length.into())? }
            }
            SPARE => Frame::Spare(ConnectionId(*self.split(CONNECTION_ID_BYTES)?.first_chunk()?)),
            _ => return None,
        })
    }

    fn number(&mut self) -> Option<u16> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*number))
    }

    fn split(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, MalformedFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&kind, rest) = self.0.split_first()?;
            self.0 = rest;
            if kind == PADDING {
                continue;
            }
            let frame = self.read(kind);
            if frame.is_none() {
                self.0 = &[];
            }
            return Some(frame.ok_or(MalformedFrame));
        }
    }
}

impl Frame<'_> {
    /// Appends the frame. Fragments and tokens are never longer than their length fields can state.
    pub fn write(&self, buffer: &mut Vec<u8>) {
        match *self {
            Self::Fragment { offset, bytes } => {
                buffer.push(FRAGMENT);
                buffer.extend_from_slice(&offset.to_be_bytes());
                buffer.extend_from_slice(&u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes());
                buffer.extend_from_slice(bytes);
            }
            Self::Retry(token) | Self::Token(token) => {
                buffer.push(if matches!(self, Self::Retry(_)) { RETRY } else { TOKEN });
                buffer.push(u8::try_from(token.len()).unwrap_or(u8::MAX));
                buffer.extend_from_slice(token);
            }
            Self::Close { code } => {
                buffer.push(CLOSE);
                buffer.extend_from_slice(&code.to_be_bytes());
            }
            Self::Message { stream, ppid, bytes } => {
                buffer.push(MESSAGE);
                buffer.extend_from_slice(&stream.to_be_bytes());
                buffer.extend_from_slice(&ppid.to_be_bytes());
                buffer.extend_from_slice(&u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes());
                buffer.extend_from_slice(bytes);
            }
            Self::EarlyReceived { count } => buffer.extend_from_slice(&[EARLY_RECEIVED, count]),
            Self::Addresses { ids, init } => {
                let count = u8::try_from(ids.len() / CONNECTION_ID_BYTES).unwrap_or(u8::MAX);
                buffer.extend_from_slice(&[ADDRESSES, count]);
                buffer.extend_from_slice(ids);
                buffer.extend_from_slice(&u16::try_from(init.len()).unwrap_or(u16::MAX).to_be_bytes());
                buffer.extend_from_slice(init);
            }
            Self::Spare(ConnectionId(id)) => {
                buffer.push(SPARE);
                buffer.extend_from_slice(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TO: ConnectionId = ConnectionId([1, 2, 3, 4, 5, 6, 7, 8]);
    const FROM: ConnectionId = ConnectionId([9; 8]);

    #[test]
    fn protected_first_bytes_lie_outside_of_the_ranges_of_rfc_7983() {
        let (mut short, mut long) = ([0; SHORT_HEADER_BYTES + WIDE_NUMBER_BYTES], Vec::new());
        write_short_header(&mut short, TO, true, 0);
        write_long_header(&mut long, Level::Handshake, TO, FROM, 0, 20);
        for mask in 0..32 {
            let (short, long) = (short[0] ^ mask, long[0] ^ mask & 0x0f);
            for first in [short, long] {
                assert!(!(0..=3).contains(&first) && !(16..=79).contains(&first) && !(128..=191).contains(&first));
            }
            assert_eq!(read_header(&[short, 1, 2, 3, 4, 5, 6, 7, 8]), Ok(Header::Short(TO)));
        }
    }

    #[test]
    fn a_long_header_keeps_the_invariants_of_rfc_8999() {
        let mut bytes = Vec::new();
        write_long_header(&mut bytes, Level::Initial, TO, FROM, 0x0102, 2);
        #[rustfmt::skip]
        let expected = [
            0xc1, b'F', b'S', b'T', 1,
            8, 1, 2, 3, 4, 5, 6, 7, 8,
            8, 9, 9, 9, 9, 9, 9, 9, 9,
            0, 20, 1, 2,
        ];
        assert_eq!(bytes, expected);
        bytes.extend_from_slice(&[0; 18]);
        let header = LongHeader { level: Level::Initial, destination: TO, source: FROM, length: 20 };
        assert_eq!(read_header(&bytes), Ok(Header::Long(header)));
        for cut in 0..bytes.len() {
            assert_eq!(read_header(&bytes[..cut]), Err(HeaderError::Truncated), "{cut}");
        }
        bytes[4] = 2;
        assert_eq!(read_header(&bytes), Err(HeaderError::Version(0x4653_5402)));
        assert_eq!(destination_id_of_any_version(&bytes), Some(TO));
        assert_eq!((0..=255).filter(|first| is_short(&[*first])).collect::<Vec<u8>>(), (96..=127).collect::<Vec<u8>>());
        assert!(!is_short(&[]));
        assert_eq!(destination_id_of_any_version(&bytes[..13]), None);
    }

    #[test]
    fn other_protocols_and_other_lengths_of_connection_ids_are_told_apart() {
        for first in [0, 3, 22, 64, 128, 0xf1] {
            assert_eq!(read_header(&[first; 40]), Err(HeaderError::FirstByte(first)));
        }
        let mut bytes = Vec::new();
        write_long_header(&mut bytes, Level::Initial, TO, FROM, 0, 0);
        bytes[5] = 20;
        assert_eq!(read_header(&bytes), Err(HeaderError::ConnectionId));
    }

    #[test]
    fn frames_are_read_as_they_were_written_and_padding_is_passed_over() {
        let frames = [
            Frame::Fragment { offset: 700, bytes: b"hello" },
            Frame::Token(b"token"),
            Frame::Retry(b""),
            Frame::Close { code: 0x128 },
            Frame::Message { stream: 3, ppid: 0x0102_0304, bytes: b"early" },
            Frame::EarlyReceived { count: 2 },
            Frame::Addresses { ids: &[5; 16], init: b"INIT" },
        ];
        let mut bytes = vec![0; 3];
        for frame in &frames {
            frame.write(&mut bytes);
            bytes.push(0);
        }
        assert_eq!(Frames(&bytes).collect::<Result<Vec<_>, _>>(), Ok(frames.to_vec()));
        for malformed in [&[8][..], &[7, 1, 5, 5], &[7, 0, 0, 2, 9]] {
            assert_eq!(Frames(malformed).next(), Some(Err(MalformedFrame)));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_keep_the_walk_over_frames_or_headers_going(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _header = read_header(&bytes);
            let count = Frames(&bytes).count();
            prop_assert!(count <= bytes.len());
        }
    }
}
