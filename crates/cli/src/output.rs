//! Standard output and standard error, neither of which may be trusted to be there: a closed pipe is an error like any
//! other, never a panic.

use std::io::{self, Write};

use anyhow::{Context as _, Result};
use bytes::Bytes;

/// How the bytes of a received message are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// As they are, with a line feed after each message.
    Lines,
    /// As they are, with nothing between messages.
    Raw,
    /// Two hexadecimal digits per byte, one line per message.
    Hex,
}

const CANNOT_PRINT: &str = "cannot write to standard output";

/// Prints the bytes of one message on standard output.
pub(crate) fn print_message(payload: &Bytes, format: Format) -> Result<()> {
    write_message(&mut io::stdout().lock(), payload, format).context(CANNOT_PRINT)
}

/// Prints text on standard output, with a line feed after it.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context(CANNOT_PRINT)
}

fn write_message(out: &mut impl Write, payload: &[u8], format: Format) -> io::Result<()> {
    match format {
        Format::Lines => {
            out.write_all(payload)?;
            out.write_all(b"\n")?;
        }
        Format::Raw => out.write_all(payload)?,
        Format::Hex => {
            let line: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(out, "{line}")?;
        }
    }
    out.flush()
}

/// Tells on standard error what is going on. Nobody there to read it is no reason to stop.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Tells on standard error what went wrong, in one line.
pub(crate) fn complain(problem: &str) {
    let line: Vec<&str> = problem.split_whitespace().collect();
    notice(&format!("festina: {}", line.join(" ")));
}

/// The error and its causes, from the outermost inwards, without those that the one before has told already.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut told = Vec::<String>::new();
    for cause in error.chain().map(ToString::to_string) {
        if !told.last().is_some_and(|before| before.contains(&cause)) {
            told.push(cause);
        }
    }
    told.join(": ")
}

/// Whether the error is that the reader of our output has left.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_written_as_lines_raw_or_in_hexadecimal_digits() {
        for (format, expected) in [(Format::Lines, "ab\nab\n"), (Format::Raw, "abab"), (Format::Hex, "6162\n6162\n")] {
            let mut out = Vec::new();
            for _ in 0..2 {
                write_message(&mut out, b"ab", format).expect("memory can be written");
            }
            assert_eq!(out, expected.as_bytes(), "{format:?}");
        }
    }

    #[test]
    fn every_cause_is_told_once() {
        let error = anyhow::Error::from(io::Error::other("no room")).context("cannot write: no room").context("failed");
        assert_eq!(causes(&error), "failed: cannot write: no room");
    }

    #[test]
    fn a_closed_pipe_is_recognized_below_any_context() {
        let closed = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("while printing");
        assert!(is_closed_pipe(&closed));
        assert!(!is_closed_pipe(&anyhow::Error::from(io::Error::from(io::ErrorKind::NotFound))));
    }
}
