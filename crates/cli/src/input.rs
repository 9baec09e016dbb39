//! Standard input, line by line.

use std::io;

use bytes::Bytes;
use tokio::sync::mpsc;

/// Lines read ahead of the network.
const LINES_AHEAD: usize = 64;

/// The lines of standard input without their line ends. Empty lines are left out, for SCTP has no empty message.
///
/// A thread of its own reads, for a read from a terminal cannot be cancelled and would keep the runtime from ending.
pub(crate) fn lines() -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = next_line(&mut input).transpose() {
            let failed = line.is_err();
            if sender.blocking_send(line).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

fn next_line(input: &mut impl io::BufRead) -> io::Result<Option<Bytes>> {
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        if !line.is_empty() {
            return Ok(Some(line.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_their_ends_and_empty_ones_vanish() {
        let mut input = io::Cursor::new(b"one\r\n\n\ntwo\nlast without an end");
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).expect("memory can be read") {
            lines.push(line);
        }
        assert_eq!(lines, [&b"one"[..], b"two", b"last without an end"]);
    }
}
