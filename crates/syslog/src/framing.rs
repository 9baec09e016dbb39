//! Lines out of a stream of bytes (RFC 6587 §3.4): octet counting, a line feed or a NUL after each message, or detected.
//!
//! [`Framer`] holds at most one message of the limit and the bytes pushed last. A message beyond the limit is cut and marked, and its rest is
//! skipped up to the start of the next one. A length that cannot be right is an error, since nothing after it can be trusted: neither its message nor
//! a line feed that happens to come later.

use std::fmt;

use bytes::{Buf as _, Bytes, BytesMut};
use festina_units::Preview;
use thiserror::Error;

/// How messages are delimited in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// The length in decimal digits, a space, the message (RFC 6587 §3.4.1).
    OctetCounting,
    /// A line feed ends a message (RFC 6587 §3.4.2); a carriage return before it is no part of the message. In a connection, a NUL ends one, too:
    /// Python's `SysLogHandler` sends it instead of a line feed.
    Newline,
    /// A message that starts with a length, a space and a priority such as `<13>` is octet-counted, and so are all after it. Any other ends with a
    /// line feed or a NUL. A line may start with a number.
    #[default]
    Detected,
}

/// One message of a stream.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// The bytes, never empty, without the frame.
    pub bytes: Bytes,
    /// Something is missing at the end: the message was beyond the limit, or the stream ended within it.
    pub cut: bool,
}

impl fmt::Debug for Frame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, cut } = self;
        formatter.debug_struct("Frame").field("bytes", &Preview(bytes)).field("cut", cut).finish()
    }
}

/// A stream that does not keep to octet counting. The connection has to be closed: the start of the next message is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FramingError {
    /// A message does not start with a length.
    #[error("a message does not start with its length")]
    NoLength,
    /// The length is beyond [`COUNT_MAX`].
    #[error("the length of a message exceeds {COUNT_MAX} bytes")]
    TooLong,
}

/// Takes bytes as they come and gives messages.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    bytes_max: usize,
    pending: BytesMut,
    /// Bytes at the front of `pending` that hold no end of a line.
    searched: usize,
    skip: Skip,
    is_file: bool,
    /// Bytes pushed so far.
    pushed: u64,
}

/// The rest of a truncated message, which is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    Nothing,
    Bytes(usize),
    ToEndOfLine,
    /// All of the stream, after an error.
    Everything,
}

/// Maximum length that a message may announce, in bytes: four times the longest that a relay can be configured to keep. It limits the data lost to a
/// wrong length.
pub const COUNT_MAX: usize = 1 << 20;

/// The most digits of a length.
const COUNT_DIGITS_MAX: usize = 7;

/// The most digits of a priority.
const PRIORITY_DIGITS_MAX: usize = 3;

/// A length in front of a message.
enum Count {
    /// The digits and the space take `header` bytes; the message takes `length`.
    Whole {
        header: usize,
        length: usize,
    },
    /// More bytes are needed.
    Partial,
    /// The message ends with a line feed.
    None,
    Wrong(FramingError),
}

impl Framer {
    /// Returns a framer for messages of at most `bytes_max` bytes.
    pub fn new(framing: Framing, bytes_max: usize) -> Self {
        let (pending, skip) = (BytesMut::new(), Skip::Nothing);
        Self { framing, bytes_max: bytes_max.max(1), pending, searched: 0, skip, is_file: false, pushed: 0 }
    }

    /// Returns a framer for the lines of a file, which skips NULs at the beginning of a line: a file that was truncated under its writer begins
    /// with a hole. If it starts in the middle of a truncated line, it skips the rest of it.
    pub(crate) fn of_file(bytes_max: usize, in_cut_line: bool) -> Self {
        let skip = if in_cut_line { Skip::ToEndOfLine } else { Skip::Nothing };
        Self { skip, is_file: true, ..Self::new(Framing::Newline, bytes_max) }
    }

    /// Takes the next bytes of the stream. Call [`next_frame`](Self::next_frame) until it returns `None` before the next push, so that no more than
    /// one message is held.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pushed += bytes.len() as u64;
        if self.skip != Skip::Everything {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Bytes held now.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Bytes of the stream that belong to messages given out so far or were skipped.
    pub(crate) fn consumed_bytes(&self) -> u64 {
        self.pushed - self.pending.len() as u64
    }

    /// Whether the rest of a line is being skipped that was cut.
    pub(crate) fn is_in_cut_line(&self) -> bool {
        self.skip == Skip::ToEndOfLine
    }

    /// The next message, or `None` if more bytes are needed. After an error there are no more messages.
    pub fn next_frame(&mut self) -> Option<Result<Frame, FramingError>> {
        loop {
            self.skip_rest();
            if self.is_file && self.skip == Skip::Nothing && self.searched == 0 {
                let nuls = self.pending.iter().take_while(|byte| **byte == 0).count();
                self.pending.advance(nuls);
            }
            if self.skip != Skip::Nothing || self.pending.is_empty() {
                return None;
            }
            let count = if self.searched > 0 { Count::None } else { self.count() };
            let frame = match count {
                Count::Whole { header, length } => {
                    // A sender that counts once counts always: anything else in its stream is the result of a wrong length.
                    self.framing = Framing::OctetCounting;
                    self.counted(header, length)?
                }
                Count::Partial => return None,
                Count::None => self.terminated()?,
                Count::Wrong(error) => return Some(Err(self.fail(error))),
            };
            if !frame.bytes.is_empty() {
                return Some(Ok(frame));
            }
        }
    }

    /// Ends the stream and returns the rest, if there is any. It counts as truncated if a length announced more.
    pub fn finish(&mut self) -> Option<Result<Frame, FramingError>> {
        if let Some(frame) = self.next_frame() {
            return Some(frame);
        }
        if self.skip != Skip::Nothing || self.pending.is_empty() {
            return None;
        }
        let header = match if self.searched > 0 { Count::None } else { self.count() } {
            Count::Whole { header, .. } => header,
            Count::Partial if self.framing == Framing::OctetCounting => {
                return Some(Err(self.fail(FramingError::NoLength)));
            }
            _ => 0,
        };
        let mut rest = self.pending.split();
        rest.advance(header);
        self.searched = 0;
        trim_end(&mut rest);
        let cut = header > 0 || rest.len() > self.bytes_max;
        rest.truncate(self.bytes_max);
        let bytes = rest.freeze();
        (!bytes.is_empty()).then_some(Ok(Frame { bytes, cut }))
    }

    fn fail(&mut self, error: FramingError) -> FramingError {
        self.pending.clear();
        self.skip = Skip::Everything;
        error
    }

    fn skip_rest(&mut self) {
        match self.skip {
            Skip::Nothing | Skip::Everything => {}
            Skip::Bytes(rest) => {
                let skipped = rest.min(self.pending.len());
                self.pending.advance(skipped);
                self.skip = if skipped == rest { Skip::Nothing } else { Skip::Bytes(rest - skipped) };
            }
            Skip::ToEndOfLine => match self.end_of_line(0) {
                Some(end) => {
                    self.pending.advance(end + 1);
                    self.skip = Skip::Nothing;
                }
                None => self.pending.clear(),
            },
        }
    }

    fn count(&self) -> Count {
        // Some senders end a counted message with a line feed that they do not count.
        let counts = self.framing == Framing::OctetCounting && self.pending[0] != b'\n';
        let other = if counts { Count::Wrong(FramingError::NoLength) } else { Count::None };
        if self.framing == Framing::Newline || !matches!(self.pending[0], b'1'..=b'9') {
            return other;
        }
        let digits = self.pending.iter().take(COUNT_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
        let length = self.pending[..digits].iter().fold(0, |sum, byte| sum * 10 + usize::from(byte - b'0'));
        if length > COUNT_MAX {
            return if counts { Count::Wrong(FramingError::TooLong) } else { Count::None };
        }
        let whole = Count::Whole { header: digits + 1, length };
        match self.pending.get(digits) {
            None => Count::Partial,
            Some(b' ') if counts => whole,
            Some(b' ') => match starts_with_priority(&self.pending[digits + 1..]) {
                Some(true) => whole,
                Some(false) => other,
                None => Count::Partial,
            },
            _ => other,
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

    /// The position of the first end of a line at or behind `from`.
    fn end_of_line(&self, from: usize) -> Option<usize> {
        let bytes = &self.pending[from..];
        let end = if self.is_file { memchr::memchr(b'\n', bytes) } else { memchr::memchr2(b'\n', 0, bytes) };
        end.map(|at| at + from)
    }

    fn terminated(&mut self) -> Option<Frame> {
        match self.end_of_line(self.searched) {
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
                self.skip = Skip::ToEndOfLine;
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

/// Whether bytes start with a priority, such as `<13>`; `None` if more bytes are needed.
fn starts_with_priority(bytes: &[u8]) -> Option<bool> {
    let Some((b'<', rest)) = bytes.split_first() else { return (!bytes.is_empty()).then_some(false) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match rest.get(digits) {
        _ if digits > PRIORITY_DIGITS_MAX => Some(false),
        Some(byte) => Some(*byte == b'>' && digits > 0),
        None => None,
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
    use rand_core::{RngCore as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn frames(framing: Framing, bytes_max: usize, input: &[u8], piece: usize) -> Vec<(Vec<u8>, bool)> {
        frames_of(Framer::new(framing, bytes_max), bytes_max, input, piece)
    }

    fn frames_of(mut framer: Framer, bytes_max: usize, input: &[u8], piece: usize) -> Vec<(Vec<u8>, bool)> {
        let mut frames = Vec::new();
        for piece in input.chunks(piece) {
            framer.push(piece);
            frames.extend(std::iter::from_fn(|| framer.next_frame()).map(pair));
            assert!(
                framer.pending_bytes() <= bytes_max + piece.len() + COUNT_DIGITS_MAX + 2,
                "{}",
                framer.pending_bytes()
            );
        }
        frames.extend(std::iter::from_fn(|| framer.finish()).map(pair));
        frames
    }

    /// A message and whether it was cut; an error is the message `ERROR`.
    fn pair(frame: Result<Frame, FramingError>) -> (Vec<u8>, bool) {
        frame.map_or((b"ERROR".to_vec(), false), |frame| (frame.bytes.to_vec(), frame.cut))
    }

    fn whole(lines: &[&str]) -> Vec<(Vec<u8>, bool)> {
        lines.iter().map(|line| (line.as_bytes().to_vec(), false)).collect()
    }

    #[test]
    fn both_framings_are_detected_in_one_stream_however_it_is_cut_into_pieces() {
        let input = b"<13>one\n<14>two\r\n\n5 <1>ab8 <1>x\ny z7 <2>abc\n\n6 <3>end";
        for piece in 1..=input.len() {
            let expected = whole(&["<13>one", "<14>two", "<1>ab", "<1>x\ny z", "<2>abc", "<3>end"]);
            assert_eq!(frames(Framing::Detected, 100, input, piece), expected, "pieces of {piece} bytes");
        }
    }

    #[test]
    fn a_nul_ends_a_message_of_a_connection_but_not_a_line_of_a_file() {
        let input = b"<13>one\0<14>two\0\n<15>three\r\n\0<13>abcdefghijklmnop\0<13>end\0";
        let ends: Vec<_> = ["<13>one", "<14>two", "<15>three", "<13>abcdefgh", "<13>end"]
            .map(|line| (line.as_bytes().to_vec(), line.ends_with('h')))
            .into();
        for (piece, framing) in
            (1..=input.len()).flat_map(|piece| [(piece, Framing::Detected), (piece, Framing::Newline)])
        {
            assert_eq!(frames(framing, 12, input, piece), ends, "{framing:?}, pieces of {piece} bytes");
        }
        let mut framer = Framer::new(Framing::Detected, 100);
        framer.push(b"<13>one\0");
        assert!(framer.next_frame().is_some(), "it does not wait for the next message");
        let mut of_file = Framer::of_file(100, false);
        of_file.push(b"\0\0one\0two\n");
        assert_eq!(of_file.next_frame().map(pair), Some((b"one\0two".to_vec(), false)));
    }

    #[test]
    fn a_wrong_length_after_counted_messages_is_an_error_and_not_the_start_of_a_line() {
        let error = (b"ERROR".to_vec(), false);
        // The length of the second message is too short, or too long by a part of the next length, by all of it, or by more.
        for wrong in [8, 9, 11, 12, 13, 14, 15] {
            let message = "<13>second";
            assert_eq!(message.len(), 10);
            let rest = "11 <13>a third11 <13>b third".repeat(50);
            let stream = format!("9 <13>first{wrong} {message}{rest}");
            for piece in [1, 5, 4_096] {
                let found = frames(Framing::Detected, 8_192, stream.as_bytes(), piece);
                assert_eq!(found[0], (b"<13>first".to_vec(), false));
                assert_eq!(found.last(), Some(&error), "{wrong}: {found:?}");
                assert!(found.len() <= 4, "{wrong}: {found:?}");
            }
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
        assert_eq!(frames(Framing::Detected, 100, b"50 <1>half", 2), [(b"<1>half".to_vec(), true)]);
        assert_eq!(frames(Framing::OctetCounting, 100, b"50 half", 2), [(b"half".to_vec(), true)]);
    }

    #[test]
    fn a_line_that_begins_with_a_number_swallows_no_other() {
        for line in [
            "10000000 rows read",
            "99999999 <x",
            "1048577 <13>x",
            "7 rows",
            "12",
            "1 ",
            "3",
            "5x <13>",
            "2 <b>",
            "9 <1234>",
            "5 <>",
            "7 <13",
        ] {
            for piece in 1..12 {
                let input = format!("<13>before\n{line}\n<13>after\n");
                let lines = whole(&["<13>before", line, "<13>after"]);
                assert_eq!(
                    frames(Framing::Detected, 100, input.as_bytes(), piece),
                    lines,
                    "{line} in pieces of {piece}"
                );
            }
        }
    }

    #[test]
    fn a_length_that_cannot_be_right_ends_a_counted_stream() {
        let (first, error) = ((b"<1>a".to_vec(), false), (b"ERROR".to_vec(), false));
        for rest in ["3 <1>b4 <1>c", "<1>b", "x", "0 ", "01 x", "1048577 <1>b", "99999999 <1>b", "5", "5x"] {
            for piece in 1..20 {
                let found = frames(Framing::OctetCounting, 100, format!("4 <1>a{rest}").as_bytes(), piece);
                assert_eq!(found.last(), Some(&error), "{rest} in pieces of {piece}: {found:?}");
                assert!(found.len() <= 3 && found[0] == first, "{rest}: {found:?}");
            }
        }
        assert_eq!(frames(Framing::OctetCounting, 100, b"4 <1>a\n4 <1>b\n", 3), whole(&["<1>a", "<1>b"]));
    }

    /// A wrong length or a missing end costs its own message and the next one, a cut frame one more, and an error all later messages: it is counted.
    /// Random streams of messages, one in forty of them with such a fault.
    #[test]
    fn no_message_of_any_framing_vanishes_uncounted() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut draw = |below: u64| usize::try_from(random.next_u64() % below).expect("small");
        let mut losses = [0; 4];
        for round in 0..40_000 {
            let number = round % 4;
            let framing = [Framing::Detected, Framing::Newline, Framing::OctetCounting, Framing::Newline][number];
            let counts = framing == Framing::OctetCounting || framing == Framing::Detected && draw(4) > 0;
            let bytes_max = [40, 8_192][draw(2)];
            let framer = if number == 3 { Framer::of_file(bytes_max, false) } else { Framer::new(framing, bytes_max) };
            let messages: Vec<_> =
                (0..20).map(|at| format!("<13>{at}:{}:{at};", &"some text 12 <13>, "[..draw(19)])).collect();
            let (mut stream, mut wrong) = (Vec::new(), Vec::new());
            for (at, message) in messages.iter().enumerate() {
                let is_wrong = draw(40) == 0;
                wrong.extend(is_wrong.then_some(at));
                // A stream that begins with the length 0 is one of lines.
                let length =
                    if is_wrong { (message.len() + 15).saturating_sub(draw(30)).max(1) } else { message.len() };
                if number == 3 && draw(10) == 0 && stream.last().is_none_or(|last| *last == b'\n') {
                    stream.resize(stream.len() + draw(100), 0);
                }
                match counts {
                    true => stream.extend(format!("{length} {message}").bytes()),
                    false => stream.extend(format!("{message}{}", if is_wrong { "" } else { "\n" }).bytes()),
                }
            }
            let found = frames_of(framer, bytes_max, &stream, 1 + draw(100));
            let is_error = found.last().is_some_and(|(bytes, _)| bytes == b"ERROR");
            let cut = found.iter().filter(|(_, cut)| *cut).count();
            let all: Vec<u8> = found.iter().flat_map(|(bytes, _)| bytes.iter().copied().chain([b'|'])).collect();
            let is_missing = |at: &usize| memchr::memmem::find(&all, messages[*at].as_bytes()).is_none();
            let missing: Vec<_> = (0..messages.len()).filter(is_missing).collect();
            let is_explained = match is_error {
                true => missing.iter().all(|at| wrong.first().is_some_and(|first| at >= first)),
                false => missing.len() <= 2 * wrong.len() + cut,
            };
            assert!(is_explained, "round {round}, {framing:?}: {missing:?} of {found:?}");
            losses[number] += usize::from(is_error || cut > 0);
        }
        assert!(losses.iter().all(|losses| *losses > 100), "{losses:?}");
    }

    #[test]
    fn bytes_that_are_no_text_pass() {
        assert_eq!(frames(Framing::Detected, 100, b"\xff\x1b[2J\n", 1), [(b"\xff\x1b[2J".to_vec(), false)]);
    }
}
