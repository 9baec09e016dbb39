//! What a client says first on each association, and what a server answers.
//!
//! The first message is 4 bytes `FPF1`, the role, and two numbers in network byte order: the size of the server's messages in
//! bytes (32 bits), and for how many milliseconds it sends them (64 bits). A server that is sent bulk data answers with messages
//! of 64 bits: how many bytes of it have arrived.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

const MAGIC: &[u8; 4] = b"FPF1";
const HELLO_BYTES: usize = MAGIC.len() + 1 + 4 + 8;

/// The longest that a client may ask a server to send for.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);
/// The largest messages that it may ask for.
const MESSAGE_BYTES_MAX: u32 = 1 << 20;

/// What an association is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hello {
    /// The server echoes messages.
    Echo,
    /// The client sends; the server counts, and says how many bytes have come.
    Upload,
    /// The server sends messages of `message_bytes` for this time.
    Download { message_bytes: u32, time: Duration },
}

impl Hello {
    pub(super) fn encode(self) -> Bytes {
        let (role, message_bytes, time) = match self {
            Self::Echo => (b'e', 0, Duration::ZERO),
            Self::Upload => (b'u', 0, Duration::ZERO),
            Self::Download { message_bytes, time } => (b'd', message_bytes, time),
        };
        let mut message = BytesMut::with_capacity(HELLO_BYTES);
        message.put_slice(MAGIC);
        message.put_u8(role);
        message.put_u32(message_bytes);
        message.put_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        message.freeze()
    }

    /// `None` for any other message, or a request beyond the limits.
    pub(super) fn decode(mut message: Bytes) -> Option<Self> {
        if message.len() != HELLO_BYTES || message.split_to(MAGIC.len()) != MAGIC[..] {
            return None;
        }
        let (role, message_bytes, time) = (message.get_u8(), message.get_u32(), message.get_u64());
        match role {
            b'e' => Some(Self::Echo),
            b'u' => Some(Self::Upload),
            b'd' => {
                let time = Duration::from_millis(time);
                let is_allowed = time <= TIME_MAX && (1..=MESSAGE_BYTES_MAX).contains(&message_bytes);
                is_allowed.then_some(Self::Download { message_bytes, time })
            }
            _ => None,
        }
    }
}

/// The number of bytes that a server reports as received. `None` if the message is no report, or one that cannot be true: bytes do not get fewer, and
/// no more arrive than were sent.
pub(super) fn arrived(mut message: Bytes, possible: RangeInclusive<u64>) -> Option<u64> {
    let bytes = message.try_get_u64().ok().filter(|_| message.is_empty())?;
    possible.contains(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood_and_nothing_else() {
        let download = Hello::Download { message_bytes: 1_000, time: Duration::from_millis(1_500) };
        for hello in [Hello::Echo, Hello::Upload, download] {
            assert_eq!(Hello::decode(hello.encode()), Some(hello));
        }
        let whole = download.encode();
        for length in 0..whole.len() {
            assert_eq!(Hello::decode(whole.slice(..length)), None);
        }
        let endless = Hello::Download { message_bytes: 1_000, time: TIME_MAX * 2 };
        let huge = Hello::Download { message_bytes: MESSAGE_BYTES_MAX + 1, time: TIME_MAX };
        let empty = Hello::Download { message_bytes: 0, time: TIME_MAX };
        for too_much in [endless, huge, empty] {
            assert_eq!(Hello::decode(too_much.encode()), None);
        }
        assert_eq!(Hello::decode(Bytes::from_static(b"GET / HTTP/1.1 xx")), None);
    }

    #[test]
    fn a_report_has_eight_bytes_and_a_possible_number_and_no_request_is_one() {
        let report = |bytes: u64| Bytes::copy_from_slice(&bytes.to_be_bytes());
        assert_eq!(arrived(report(7), 7..=9), Some(7));
        assert_eq!((arrived(report(6), 7..=9), arrived(report(10), 7..=9)), (None, None));
        for hello in [Hello::Echo, Hello::Upload, Hello::Download { message_bytes: 1, time: TIME_MAX }] {
            assert_eq!(arrived(hello.encode(), 0..=u64::MAX), None);
        }
        assert_eq!(arrived(Bytes::from_static(b"1234567"), 0..=u64::MAX), None);
    }
}
