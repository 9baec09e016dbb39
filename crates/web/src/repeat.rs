//! Messages that a page repeats until the server has them (the JavaScript module `festina-web`): each has a number, is delivered once, and is
//! acknowledged whenever it comes.
//!
//! A browser repairs its messages by its own rules, and none of these is for thin streams. So a page numbers its messages on a channel without
//! retransmissions and sends them again until they are acknowledged.

use bytes::Bytes;

use crate::message::ChannelMessage;

/// The subprotocol of such channels.
pub(crate) const PROTOCOL: &str = "repeat.festina";

const BINARY: u8 = 0;
const TEXT: u8 = 1;
/// First character of a text that acknowledges. A server's own text that begins with it begins with two.
const ACKNOWLEDGES: char = '\u{6}';
const HEADER_BYTES: usize = 5;
/// Repetitions are known for as many numbers behind the highest, a multiple of 64. At most 256 messages of a page wait.
const REMEMBERED: u32 = 1_024;
/// Earlier messages that an acknowledgement names.
const NAMED: u32 = 32;

/// The numbers that have come on a channel.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// One more than the highest number.
    next: Option<u32>,
    /// By number modulo [`REMEMBERED`], those that have come.
    come: [u64; REMEMBERED as usize / 64],
}

/// A message of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// `None` for a repetition.
    pub(crate) message: Option<ChannelMessage>,
    /// The message that acknowledges it.
    pub(crate) acknowledgement: String,
}

impl Repeats {
    /// Takes the payload of a message; `None` if it is malformed.
    pub(crate) fn take(&mut self, bytes: &Bytes) -> Option<Arrival> {
        let number = u32::from_be_bytes(bytes.get(1..HEADER_BYTES)?.try_into().ok()?);
        let payload = bytes.slice(HEADER_BYTES..);
        let message = match *bytes.first()? {
            BINARY => ChannelMessage::Binary(payload),
            TEXT => ChannelMessage::Text(payload),
            _ => return None,
        };
        let message = self.is_new(number).then_some(message);
        let before = (0..NAMED).filter(|back| self.has(number.wrapping_sub(back + 1)));
        let before: u32 = before.fold(0, |mask, back| mask | 1 << back);
        Some(Arrival { message, acknowledgement: format!("{ACKNOWLEDGES}{number:08x}{before:08x}") })
    }

    /// Notes a number and returns whether it has not come before. Those too old to know have.
    fn is_new(&mut self, number: u32) -> bool {
        let next = *self.next.get_or_insert(number);
        let ahead = number.wrapping_sub(next);
        if ahead <= u32::MAX / 2 {
            for skipped in 0..ahead.saturating_add(1).min(REMEMBERED) {
                let (word, bit) = Self::place(number.wrapping_sub(skipped));
                self.come[word] &= !bit;
            }
            self.next = Some(number.wrapping_add(1));
        } else if next.wrapping_sub(number) > REMEMBERED {
            return false;
        }
        let (word, bit) = Self::place(number);
        let is_new = self.come[word] & bit == 0;
        self.come[word] |= bit;
        is_new
    }

    fn has(&self, number: u32) -> bool {
        let (word, bit) = Self::place(number);
        let back = self.next.map_or(0, |next| next.wrapping_sub(number));
        (1..=REMEMBERED).contains(&back) && self.come[word] & bit != 0
    }

    fn place(number: u32) -> (usize, u64) {
        let place = number % REMEMBERED;
        ((place / 64) as usize, 1 << (place % 64))
    }
}

/// Writes a message of the server for such a channel, so that none seems to acknowledge.
pub(crate) fn escaped(message: ChannelMessage) -> ChannelMessage {
    match message {
        ChannelMessage::Text(text) if text.first().is_some_and(|first| char::from(*first) == ACKNOWLEDGES) => {
            ChannelMessage::Text([&text[..1], &text[..]].concat().into())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, number: u32) -> Bytes {
        [&[kind][..], &number.to_be_bytes(), b"x"].concat().into()
    }

    fn delivered(repeats: &mut Repeats, number: u32) -> bool {
        repeats.take(&frame(TEXT, number)).expect("it is well-formed").message.is_some()
    }

    #[test]
    fn a_message_is_delivered_once_and_acknowledged_each_time() {
        let mut repeats = Repeats::default();
        let first = repeats.take(&frame(TEXT, 7)).expect("well-formed");
        assert_eq!(first.message, Some(ChannelMessage::from("x")));
        assert_eq!(first.acknowledgement, "\u{6}0000000700000000");
        let again = repeats.take(&frame(TEXT, 7)).expect("well-formed");
        assert_eq!(again, Arrival { message: None, acknowledgement: first.acknowledgement });
        // One that is late, and what the acknowledgement of a later one says of it.
        assert!(delivered(&mut repeats, 10) && delivered(&mut repeats, 8));
        let later = repeats.take(&frame(BINARY, 11)).expect("well-formed");
        assert_eq!(later.acknowledgement, "\u{6}0000000b0000000d");
    }

    #[test]
    fn no_text_of_the_server_seems_to_acknowledge() {
        assert_eq!(escaped("\u{6}0000000700000000".into()), "\u{6}\u{6}0000000700000000".into());
        assert_eq!(escaped("7".into()), "7".into());
        assert_eq!(escaped(vec![6].into()), vec![6].into());
    }

    #[test]
    fn numbers_wrap_and_any_order_delivers_each_once() {
        let mut repeats = Repeats::default();
        let first = u32::MAX - 500;
        assert!(delivered(&mut repeats, first));
        // Blocks of seven, backwards, each twice.
        let numbers: Vec<u32> = (1..=1_400).map(|number| first.wrapping_add(number)).collect();
        for block in numbers.chunks(7) {
            assert!(block.iter().rev().all(|&number| delivered(&mut repeats, number)));
            assert!(!block.iter().any(|&number| delivered(&mut repeats, number)));
        }
        assert!(!delivered(&mut repeats, first), "too old to know");
    }

    #[test]
    fn a_jump_forgets_what_is_behind_and_garbage_is_refused() {
        let mut repeats = Repeats::default();
        assert!(delivered(&mut repeats, 3) && delivered(&mut repeats, 3 + REMEMBERED));
        assert!(delivered(&mut repeats, 4), "it is the last one that is remembered");
        assert!(!delivered(&mut repeats, 3));
        assert!(delivered(&mut repeats, 1 << 30) && !delivered(&mut repeats, 1 << 30));
        for garbage in [&b""[..], b"\x01\0\0\0", b"\x02\0\0\0\0", b"\xff\0\0\0\0x"] {
            assert_eq!(repeats.take(&Bytes::from_static(garbage)), None);
        }
    }
}
