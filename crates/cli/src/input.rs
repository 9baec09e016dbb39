//! Standard input as messages: line by line, or in blocks; and as a [`Stream`].

mod stream;

use std::io::{self, BufRead, Read as _};

use bytes::Bytes;
use tokio::sync::mpsc;

pub(crate) use self::stream::Stream;

/// Messages read ahead of the network.
const MESSAGES_AHEAD: usize = 64;

/// A line end may be a carriage return and a line feed.
const LINE_END_BYTES_MAX: usize = 2;

/// The lines of standard input without their line ends. Empty lines are left out, for SCTP has no empty message. A line
/// of more than `bytes_max` is an error, and the end.
pub(crate) fn lines(bytes_max: usize) -> mpsc::Receiver<io::Result<Bytes>> {
    read(move |input| next_line(input, bytes_max))
}

/// Standard input as it is, in blocks of at most `bytes_max`, each of the bytes available when it is read.
pub(crate) fn blocks(bytes_max: usize) -> mpsc::Receiver<io::Result<Bytes>> {
    read(move |input| next_block(input, bytes_max))
}

/// A thread of its own reads, for a read from a terminal cannot be cancelled and would keep the runtime from ending.
fn read(
    mut next: impl FnMut(&mut io::StdinLock<'static>) -> io::Result<Option<Bytes>> + Send + 'static,
) -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(MESSAGES_AHEAD);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(message) = next(&mut input).transpose() {
            let failed = message.is_err();
            if sender.blocking_send(message).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

fn next_line(input: &mut impl BufRead, bytes_max: usize) -> io::Result<Option<Bytes>> {
    let read_max = u64::try_from(bytes_max.saturating_add(LINE_END_BYTES_MAX)).unwrap_or(u64::MAX);
    loop {
        let mut line = Vec::new();
        if input.take(read_max).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        if line.len() > bytes_max {
            return Err(io::Error::other(format!(
                "a line has more than the {bytes_max} bytes that fit into a message"
            )));
        }
        if !line.is_empty() {
            return Ok(Some(line.into()));
        }
    }
}

fn next_block(input: &mut impl BufRead, bytes_max: usize) -> io::Result<Option<Bytes>> {
    let mut block = vec![0; bytes_max];
    let length = loop {
        match input.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    block.truncate(length);
    Ok((length > 0).then(|| block.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_their_ends_and_empty_ones_vanish() {
        let mut input = io::Cursor::new(b"one\r\n\n\ntwo\nlast without an end");
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input, 100).expect("memory can be read") {
            lines.push(line);
        }
        assert_eq!(lines, [&b"one"[..], b"two", b"last without an end"]);
    }

    #[test]
    fn a_line_is_taken_up_to_the_limit_and_refused_beyond_it() {
        for fits in ["12345", "12345\n", "12345\r\n"] {
            let line = next_line(&mut io::Cursor::new(fits), 5).expect("memory can be read");
            assert_eq!(line.as_deref(), Some(&b"12345"[..]), "{fits:?}");
        }
        assert!(next_line(&mut io::Cursor::new("123456\n"), 5).is_err());
        assert!(next_line(&mut io::BufReader::new(io::repeat(0)), 5).is_err(), "endless input is not read to its end");
    }

    #[test]
    fn blocks_hold_every_byte() {
        let mut input = io::Cursor::new(b"a\r\n\n\0bc");
        let mut blocks = Vec::new();
        while let Some(block) = next_block(&mut input, 3).expect("memory can be read") {
            blocks.push(block);
        }
        assert_eq!(blocks, [&b"a\r\n"[..], b"\n\0b", b"c"]);
    }
}
