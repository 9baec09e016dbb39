//! Standard output and standard error, which may be closed: a closed pipe is an error like any
//! other, never a panic. Text of peers is not trusted either: [`escape`] keeps it from controlling a terminal.

mod colour;
mod escape;
mod fold;
mod notices;

use std::io::{self, IsTerminal as _, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use festina::ReceivedMessage;
use serde::Serialize;
use tokio::sync::Mutex;

pub(crate) use self::colour::{Verdict, coloured};
use self::escape::escaped;
pub(crate) use self::fold::{folded, folded_behind};
pub(crate) use self::notices::{all_noticed, write_in_the_background};
use crate::{address, signal};

/// How the bytes of a received message are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// With a line feed after each message; as they are to a pipe or a file, escaped to a terminal.
    Lines,
    /// As they are, even to a terminal, with nothing between messages.
    Raw,
    /// Two hexadecimal digits per byte, one line per message.
    Hex,
    /// A JSON object, one line per message: who sent it, how, and its bytes, as text if they are text.
    Json,
}

const CANNOT_PRINT: &str = "cannot write to standard output";

/// How long a reader that takes nothing may keep a program that was asked to end.
const READER_MAX: Duration = Duration::from_secs(1);

/// Whether standard output is to hold JSON and is still empty.
static OWES_JSON: AtomicBool = AtomicBool::new(false);

/// The error of a standard output that cannot be written.
pub(crate) fn cannot_print(error: io::Error) -> anyhow::Error {
    anyhow::Error::from(error).context(CANNOT_PRINT)
}

/// From this call on, [`print_failure`] prints JSON unless something else was printed before.
pub(crate) fn promise_json() {
    OWES_JSON.store(true, Ordering::Relaxed);
}

/// Standard output holds something, or belongs to others.
pub(crate) fn is_used() {
    OWES_JSON.store(false, Ordering::Relaxed);
}

/// Prints why there is no result, for programs that read JSON. Nothing is printed behind results.
pub(crate) fn print_failure(problem: &str) {
    if OWES_JSON.swap(false, Ordering::Relaxed) {
        // What cannot be printed was reported on standard error.
        let _ = print(&serde_json::json!({ "error": problem }).to_string());
    }
}

/// Reports that the program ends because of a signal. Does not wait for long for readers.
pub(crate) fn interrupted() {
    let (sender, done) = mpsc::channel();
    std::thread::spawn(move || {
        notices::write_now("festina: interrupted");
        print_failure("interrupted");
        let _ = sender.send(());
    });
    let _ = done.recv_timeout(READER_MAX);
}

/// Prints one message on standard output while other tasks continue; see [`print_in_turn`].
///
/// # Errors
/// As [`print_in_turn`].
pub(crate) async fn print_message(message: ReceivedMessage, from: SocketAddr, format: Format) -> Result<()> {
    if let Format::Json = format {
        return print_in_turn(serde_json::to_string(&MessageJson::of(&message, from))?).await;
    }
    in_turn(move || {
        let mut out = io::stdout().lock();
        let to_terminal = out.is_terminal();
        write_message(&mut out, message.payload(), format, to_terminal).context(CANNOT_PRINT)
    })
    .await
}

/// Prints text as [`print`] does, while other tasks continue, and returns when it is printed: a reader that pauses holds up those who
/// print and no others.
///
/// # Errors
/// If standard output cannot be written, or if its reader takes nothing for [`READER_MAX`] after the program was asked to end.
pub(crate) async fn print_in_turn(text: String) -> Result<()> {
    in_turn(move || print(&text)).await
}

async fn in_turn(write: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    /// Held by the one thread that writes, also when its caller has given up.
    static TURN: Mutex<()> = Mutex::const_new(());
    let writing = async {
        is_used();
        let turn = TURN.lock().await;
        let written = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            write()
        });
        written.await?
    };
    tokio::select! {
        biased;
        written = writing => written,
        () = signal::overdue(READER_MAX) => Err(anyhow!("the program was ended before all output was read")),
    }
}

/// A received message for programs. Either `text` or `hex` is null.
#[derive(Serialize)]
struct MessageJson<'a> {
    from: String,
    stream: u16,
    ppid: u32,
    unordered: bool,
    bytes: usize,
    text: Option<&'a str>,
    hex: Option<String>,
}

impl<'a> MessageJson<'a> {
    fn of(message: &'a ReceivedMessage, from: SocketAddr) -> Self {
        let text = std::str::from_utf8(message.payload()).ok();
        Self {
            from: address::canonical(from).to_string(),
            stream: message.stream().0,
            ppid: message.ppid(),
            unordered: message.is_unordered(),
            bytes: message.payload().len(),
            text,
            hex: text.is_none().then(|| hexadecimal(message.payload())),
        }
    }
}

/// A time in milliseconds for programs: whole nanoseconds, without the digits that a calculation in seconds leaves behind them.
pub(crate) fn json_ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Prints text on standard output, with a line feed after it. Waits for the reader: tasks, and commands that end in good order on Ctrl-C, call
/// [`print_in_turn`] instead.
pub(crate) fn print(text: &str) -> Result<()> {
    is_used();
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
        Format::Hex | Format::Json => writeln!(out, "{}", hexadecimal(payload))?,
    }
    out.flush()
}

/// Writes a notice to standard error, without control characters. Does not wait for the reader while tasks run.
pub(crate) fn notice(text: &str) {
    notices::write(escaped(text.as_bytes()));
}

/// The name of a file in one line, for standard output, without control characters.
pub(crate) fn name(path: &Path) -> String {
    escaped(path.as_os_str().as_encoded_bytes()).replace('\n', "\\x0a").replace('\t', "\\x09")
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
    let line = in_plain_words(&told.join(": "));
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    let hint = match kinds.last() {
        Some(io::ErrorKind::AddrNotAvailable) => "; this host has no such address",
        Some(io::ErrorKind::AddrInUse) => "; choose another port, or end the program that uses this one",
        _ => "",
    };
    line + hint
}

/// Without the words that the standard library puts around errors of the operating system: a number behind them, and the name of a function in
/// front.
pub(crate) fn in_plain_words(line: &str) -> String {
    let line = line.replace("failed to lookup address information: ", "");
    let mut parts = line.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| line + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// Whether the error is that the reader of our output has left.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Turns a closed pipe into a failure, for a transfer that is incomplete without its reader. Other errors stay as they are.
pub(crate) fn cut_by_reader(error: anyhow::Error) -> anyhow::Error {
    if is_closed_pipe(&error) { anyhow!("standard output was closed before the transfer was complete") } else { error }
}

#[cfg(test)]
mod tests {
    use festina::Message;

    use super::*;

    #[test]
    fn json_has_times_in_milliseconds_with_the_digits_of_their_nanoseconds_alone() {
        let shown = [282_784, 40_861_695, 179_967, 1].map(|ns| json_ms(Duration::from_nanos(ns)).to_string());
        assert_eq!(shown, ["0.282784", "40.861695", "0.179967", "0.000001"]);
    }

    #[cfg(target_os = "linux")] // The number is Linux's.
    #[test]
    fn the_operating_system_s_errors_have_no_numbers_and_a_port_in_use_gets_a_hint() {
        let error = anyhow::Error::from(io::Error::from_raw_os_error(98)).context("cannot listen");
        let hint = "; choose another port, or end the program that uses this one";
        assert_eq!(causes(&error), format!("cannot listen: Address already in use{hint}"));
        assert_eq!(in_plain_words("a (os error 2): b (os error 98), c (os"), "a: b, c (os");
        assert_eq!(in_plain_words("failed to lookup address information: Name unknown"), "Name unknown");
        let error = anyhow::Error::from(io::Error::from_raw_os_error(99)).context("cannot listen");
        assert!(causes(&error).ends_with("; this host has no such address"), "{error:#}");
    }

    #[test]
    fn a_message_for_programs_has_text_or_hexadecimal_digits() {
        let from = "[::ffff:192.0.2.1]:5".parse().expect("an address");
        for (payload, expected) in
            [(&b"a\"b"[..], r#""text":"a\"b","hex":null"#), (b"\xff\x00", r#""text":null,"hex":"ff00""#)]
        {
            let message = Message::new(payload).on_stream(3).with_ppid(7).unordered();
            let message = ReceivedMessage::from(message);
            let json = serde_json::to_string(&MessageJson::of(&message, from)).expect("plain values");
            assert!(
                json.starts_with(r#"{"from":"192.0.2.1:5","stream":3,"ppid":7,"unordered":true,"bytes":"#),
                "{json}"
            );
            assert!(json.ends_with(&format!("{expected}}}")), "{json}");
        }
    }

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
    fn every_cause_is_told_once() {
        let error = anyhow::Error::from(io::Error::other("no room")).context("cannot write: no room").context("failed");
        assert_eq!(causes(&error), "failed: cannot write: no room");
    }

    #[test]
    fn a_closed_pipe_is_recognized_below_any_context() {
        let closed = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("while printing");
        assert!(is_closed_pipe(&closed));
        assert!(!is_closed_pipe(&cut_by_reader(closed)));
        assert!(!is_closed_pipe(&anyhow::Error::from(io::Error::from(io::ErrorKind::NotFound))));
    }

    #[test]
    fn the_name_of_a_file_is_one_line_that_commands_no_terminal() {
        for (name_of_file, shown) in [("a b/ö.pcap", "a b/ö.pcap"), ("\x1b[2J\n\t\x07", "\\x1b[2J\\x0a\\x09\\x07")] {
            assert_eq!(name(Path::new(name_of_file)), shown);
        }
    }
}
