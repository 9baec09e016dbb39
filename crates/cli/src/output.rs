//! Standard output and standard error, neither of which may be trusted to be there: a closed pipe is an error like any
//! other, never a panic. What peers sent is not trusted either: [`escape`] keeps it from commanding a terminal.

mod escape;

use std::io::{self, IsTerminal as _, Write};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use festina::ClosedReason;

use self::escape::{escaped, escaped_line};

/// How the bytes of a received message are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// With a line feed after each message; as they are to a pipe or a file, escaped to a terminal.
    Lines,
    /// As they are, even to a terminal, with nothing between messages.
    Raw,
    /// Two hexadecimal digits per byte, one line per message.
    Hex,
}

const CANNOT_PRINT: &str = "cannot write to standard output";

/// Prints the bytes of one message on standard output.
pub(crate) fn print_message(payload: &Bytes, format: Format) -> Result<()> {
    let mut out = io::stdout().lock();
    let to_terminal = out.is_terminal();
    write_message(&mut out, payload, format, to_terminal).context(CANNOT_PRINT)
}

/// Prints text on standard output, with a line feed after it.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context(CANNOT_PRINT)
}

fn write_message(out: &mut impl Write, payload: &[u8], format: Format, to_terminal: bool) -> io::Result<()> {
    match format {
        Format::Lines if to_terminal => writeln!(out, "{}", escaped(payload))?,
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

/// Tells on standard error what is going on, without control characters. Nobody there to read it is no reason to stop.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", escaped(text.as_bytes()));
}

/// Tells on standard error what went wrong, in one line.
pub(crate) fn complain(problem: &str) {
    let line: Vec<&str> = problem.split_whitespace().collect();
    notice(&format!("festina: {}", line.join(" ")));
}

/// Why an association ended, with the peer's own words if it gave any.
pub(crate) fn end_of(reason: &ClosedReason) -> String {
    match reason {
        ClosedReason::AbortedByPeer { info, .. } if !info.is_empty() => format!("{reason}: {}", escaped_line(info)),
        reason => reason.to_string(),
    }
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
                write_message(&mut out, b"ab", format, false).expect("memory can be written");
            }
            assert_eq!(out, expected.as_bytes(), "{format:?}");
        }
    }

    #[test]
    fn a_message_commands_a_terminal_only_if_raw_bytes_are_asked_for() {
        let clear_screen = b"\x1b[2J\xff";
        for (format, to_terminal, expected) in [
            (Format::Lines, true, &b"\\x1b[2J\\xff\n"[..]),
            (Format::Lines, false, b"\x1b[2J\xff\n"),
            (Format::Raw, true, b"\x1b[2J\xff"),
            (Format::Raw, false, b"\x1b[2J\xff"),
            (Format::Hex, true, b"1b5b324aff\n"),
        ] {
            let mut out = Vec::new();
            write_message(&mut out, clear_screen, format, to_terminal).expect("memory can be written");
            assert_eq!(out, expected, "{format:?} {to_terminal}");
        }
    }

    #[test]
    fn a_peers_reason_is_told_in_one_line_without_control_characters() {
        let told = |info| end_of(&ClosedReason::AbortedByPeer { code: 12, info: Bytes::from_static(info) });
        assert_eq!(
            told(b"bye\nroot connected\x1b]0;x\x07"),
            "aborted by the peer (cause 12): bye\\x0aroot connected\\x1b]0;x\\x07"
        );
        assert_eq!(told(b""), "aborted by the peer (cause 12)");
        assert_eq!(end_of(&ClosedReason::Shutdown), "shut down in good order");
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
