//! Arbitrary streams for the framer: messages do not depend on the pieces in which a stream arrives, memory is bounded,
//! and a wrong length loses no more of a stream than it can announce, or ends it with an error.

use festina_syslog::framing::{COUNT_MAX, Frame, Framer, Framing, FramingError};

/// Longest message. Short, so that the fuzzer reaches it.
const LIMIT: usize = 40;

/// Longest length in front of a message, with its space and the priority of the message.
const HEADER_BYTES: usize = 13;

const LAST: &[u8] = b"<13>the last line";

type Frames = Vec<Result<Frame, FramingError>>;

fn frames(framing: Framing, stream: &[u8], piece: usize) -> Frames {
    let (mut framer, mut frames) = (Framer::new(framing, LIMIT), Vec::new());
    for piece in stream.chunks(piece.max(1)) {
        framer.push(piece);
        frames.extend(std::iter::from_fn(|| framer.next_frame()));
        assert!(framer.pending_bytes() <= LIMIT + HEADER_BYTES);
    }
    frames.extend(std::iter::from_fn(|| framer.finish()));
    frames
}

/// Runs one input.
///
/// # Panics
/// If an invariant is broken.
pub fn run(bytes: &[u8]) {
    for framing in [Framing::Detected, Framing::Newline, Framing::OctetCounting] {
        let whole = frames(framing, bytes, bytes.len());
        assert_eq!(whole, frames(framing, bytes, 1));
        assert_eq!(whole, frames(framing, bytes, 7));
        assert!(whole.iter().flatten().all(|frame| (1..=LIMIT).contains(&frame.bytes.len())));
        // Nothing comes after an error, and only octet counting has errors, detected or not.
        let errors = whole.iter().filter(|frame| frame.is_err()).count();
        assert!(errors == usize::from(whole.last().is_some_and(Result::is_err)));
        assert!(errors == 0 || framing != Framing::Newline);
        // Each message is a part of the stream, in the order of the stream.
        let mut from = 0;
        for frame in whole.iter().flatten() {
            let place = bytes[from..].windows(frame.bytes.len()).position(|window| window == frame.bytes);
            from += place.expect("a message is a part of the stream") + frame.bytes.len();
        }
    }
    // After any beginning of the stream, a line is found after the maximum that a length can announce. That needs a
    // mebibyte, so few inputs do it.
    if bytes.first().is_none_or(|first| first % 64 != 0) {
        return;
    }
    // Long lines are skipped quickly.
    let filler: Vec<u8> = (0..=COUNT_MAX).map(|at| if at % 4_096 == 0 { b'\n' } else { b'x' }).collect();
    let stream = [bytes, &filler, LAST, b"\n"].concat();
    for framing in [Framing::Detected, Framing::Newline] {
        let found = frames(framing, &stream, 1 << 16);
        match found.last() {
            Some(Ok(last)) => assert_eq!(last.bytes, LAST),
            last => assert!(last.is_some() && framing == Framing::Detected),
        }
    }
}
