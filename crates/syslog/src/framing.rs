//! Lines out of a stream of bytes (RFC 6587 §3.4): octet counting, a line feed after each message, or whichever a message begins with.
//!
//! [`Framer`] holds at most one message of the limit and what was pushed last. A message beyond the limit is cut, marked, and its rest is
//! skipped up to where the next one begins.

use bytes::{Buf as _, Bytes, BytesMut};

/// How messages are told apart in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// The length in decimal digits, a space, the message (RFC 6587 §3.4.1).
    OctetCounting,
    /// A line feed ends a message (RFC 6587 §3.4.2); a carriage return before it is no part of the message.
    Newline,
    /// A message that begins with a digit above zero is counted, any other ends with a line feed.
    #[default]
    Detected,
}

/// One message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The bytes, never empty, without the frame.
    pub bytes: Bytes,
    /// Something is missing at the end: the message was beyond the limit, or the stream ended within it.
    pub cut: bool,
}

/// Takes bytes as they come and gives messages.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    bytes_max: usize,
    pending: BytesMut,
    /// Bytes at the front of `pending` that hold no line feed.
    searched: usize,
    skip: Skip,
}

/// What is left of a message that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    Nothing,
    Bytes(usize),
    ToNewline,
}

/// The most digits of a length: 99,999,999 bytes.
const COUNT_DIGITS_MAX: usize = 8;

/// What a length in front of a message is.
enum Count {
    /// The digits and the space take `header` bytes; the message takes `length`.
    Whole { header: usize, length: usize },
    /// More bytes are needed.
    Partial,
    /// It is no length.
    None,
}

impl Framer {
    /// A framer whose messages have `bytes_max` bytes at most.
    pub fn new(framing: Framing, bytes_max: usize) -> Self {
        Self { framing, bytes_max: bytes_max.max(1), pending: BytesMut::new(), searched: 0, skip: Skip::Nothing }
    }

    /// Takes the next bytes of the stream. Call [`next_frame`](Self::next_frame) until it returns `None` before the next push, so that no more than
    /// one message is held.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Bytes held now.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// The next message, or `None` if more bytes are needed.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            self.skip_rest();
            if self.skip != Skip::Nothing || self.pending.is_empty() {
                return None;
            }
            let count = if self.searched > 0 { Count::None } else { self.count() };
            let frame = match count {
                Count::Whole { header, length } => self.counted(header, length)?,
                Count::Partial => return None,
                Count::None => self.terminated()?,
            };
            if !frame.bytes.is_empty() {
                return Some(frame);
            }
        }
    }

    /// The stream is over: what is left, if anything. It counts as cut if a length said that it goes on.
    pub fn finish(&mut self) -> Option<Frame> {
        if let Some(frame) = self.next_frame() {
            return Some(frame);
        }
        if self.skip != Skip::Nothing || self.pending.is_empty() {
            return None;
        }
        let header = match if self.searched > 0 { Count::None } else { self.count() } {
            Count::Whole { header, .. } => header,
            _ => 0,
        };
        let mut rest = self.pending.split();
        rest.advance(header);
        self.searched = 0;
        trim_end(&mut rest);
        let cut = header > 0 || rest.len() > self.bytes_max;
        rest.truncate(self.bytes_max);
        let bytes = rest.freeze();
        (!bytes.is_empty()).then_some(Frame { bytes, cut })
    }

    fn skip_rest(&mut self) {
        match self.skip {
            Skip::Nothing => {}
            Skip::Bytes(rest) => {
                let skipped = rest.min(self.pending.len());
                self.pending.advance(skipped);
                self.skip = if skipped == rest { Skip::Nothing } else { Skip::Bytes(rest - skipped) };
            }
            Skip::ToNewline => match memchr::memchr(b'\n', &self.pending) {
                Some(end) => {
                    self.pending.advance(end + 1);
                    self.skip = Skip::Nothing;
                }
                None => self.pending.clear(),
            },
        }
    }

    fn count(&self) -> Count {
        if self.framing == Framing::Newline || !matches!(self.pending[0], b'1'..=b'9') {
            return Count::None;
        }
        let digits = self.pending.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > COUNT_DIGITS_MAX {
            return Count::None;
        }
        match self.pending.get(digits) {
            None => Count::Partial,
            Some(b' ') => {
                let length = self.pending[..digits].iter().fold(0, |sum, byte| sum * 10 + usize::from(byte - b'0'));
                Count::Whole { header: digits + 1, length }
            }
            Some(_) => Count::None,
        }
    }

    fn counted(&mut self, header: usize, length: usize) -> Option<Frame> {
        let wanted = length.min(self.bytes_max);
        if self.pending.len() < header + wanted {
            return None;
        }
        self.pending.advance(header);
        let mut bytes = self.pending.split_to(wanted);
        let cut = length > wanted;
        if cut {
            self.skip = Skip::Bytes(length - wanted);
        } else {
            // Senders that count the line feed in mean the message without it.
            trim_end(&mut bytes);
        }
        Some(Frame { bytes: bytes.freeze(), cut })
    }

    fn terminated(&mut self) -> Option<Frame> {
        let end = memchr::memchr(b'\n', &self.pending[self.searched..]).map(|at| at + self.searched);
        match end {
            Some(end) if end <= self.bytes_max + 1 => {
                let mut bytes = self.pending.split_to(end);
                self.pending.advance(1);
                self.searched = 0;
                trim_end(&mut bytes);
                let cut = bytes.len() > self.bytes_max;
                bytes.truncate(self.bytes_max);
                Some(Frame { bytes: bytes.freeze(), cut })
            }
            // One byte more may be the carriage return of a message of the limit.
            _ if self.pending.len() > self.bytes_max + 1 => {
                let bytes = self.pending.split_to(self.bytes_max).freeze();
                self.skip = Skip::ToNewline;
                self.searched = 0;
                Some(Frame { bytes, cut: true })
            }
            _ => {
                self.searched = self.pending.len();
                None
            }
        }
    }
}

fn trim_end(bytes: &mut BytesMut) {
    if bytes.last() == Some(&b'\n') {
        bytes.truncate(bytes.len() - 1);
    }
    if bytes.last() == Some(&b'\r') {
        bytes.truncate(bytes.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(framing: Framing, bytes_max: usize, input: &[u8], piece: usize) -> Vec<(Vec<u8>, bool)> {
        let mut framer = Framer::new(framing, bytes_max);
        let mut frames = Vec::new();
        for piece in input.chunks(piece) {
            framer.push(piece);
            while let Some(frame) = framer.next_frame() {
                frames.push((frame.bytes.to_vec(), frame.cut));
            }
            assert!(
                framer.pending_bytes() <= bytes_max + piece.len() + COUNT_DIGITS_MAX + 1,
                "{}",
                framer.pending_bytes()
            );
        }
        while let Some(frame) = framer.finish() {
            frames.push((frame.bytes.to_vec(), frame.cut));
        }
        frames
    }

    fn whole(lines: &[&str]) -> Vec<(Vec<u8>, bool)> {
        lines.iter().map(|line| (line.as_bytes().to_vec(), false)).collect()
    }

    #[test]
    fn both_framings_are_detected_in_one_stream_however_it_is_cut_into_pieces() {
        let input = b"<13>one\n5 <1>ab<14>two\r\n\n8 <1>x\ny z7 <2>abc\nlast";
        for piece in 1..=input.len() {
            let expected = whole(&["<13>one", "<1>ab", "<14>two", "<1>x\ny z", "<2>abc", "last"]);
            assert_eq!(frames(Framing::Detected, 100, input, piece), expected, "pieces of {piece} bytes");
        }
    }

    #[test]
    fn a_stream_of_lines_may_begin_with_digits() {
        assert_eq!(frames(Framing::Newline, 100, b"5 apples\n6 pears\n", 3), whole(&["5 apples", "6 pears"]));
        assert_eq!(
            frames(Framing::Detected, 100, b"2024-01-01 x\n123456789 y\n", 1),
            whole(&["2024-01-01 x", "123456789 y"])
        );
    }

    #[test]
    fn a_message_beyond_the_limit_is_cut_and_marked_and_the_next_one_is_whole() {
        for piece in 1..40 {
            let (cut, next) = ((b"abcd".to_vec(), true), (b"ok".to_vec(), false));
            assert_eq!(frames(Framing::Newline, 4, b"abcdefghijklm\nok\n", piece), [cut.clone(), next.clone()]);
            assert_eq!(frames(Framing::OctetCounting, 4, b"13 abcdefghijklm2 ok", piece), [cut, next]);
            assert_eq!(frames(Framing::Newline, 4, b"abcd\r\nok\n", piece), whole(&["abcd", "ok"]));
        }
    }

    #[test]
    fn a_stream_that_never_sends_a_newline_costs_one_cut_message() {
        assert_eq!(frames(Framing::Detected, 16, &[b'x'; 100_000], 1_000), [(vec![b'x'; 16], true)]);
    }

    #[test]
    fn a_counted_message_that_the_stream_does_not_finish_is_marked() {
        assert_eq!(frames(Framing::Detected, 100, b"50 half", 2), [(b"half".to_vec(), true)]);
    }

    #[test]
    fn bytes_that_are_no_text_pass() {
        assert_eq!(frames(Framing::Detected, 100, b"\0\xff\x1b[2J\n", 1), [(b"\0\xff\x1b[2J".to_vec(), false)]);
    }
}
