//! The command line.

use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use festina_units::duration;

use crate::commands::{
    compare, completions, emulate, lab, listen, perf, ping, send, syslog, tcp_proxy, tcp_watch, trace, tunnel,
};
use crate::{EXIT_USAGE, log, output};

const ABOUT: &str = "Low-latency messages over SCTP, and a laboratory that shows what loss recovery is worth";

const LONG_ABOUT: &str = "\
Low-latency messages over SCTP (RFC 9260) in user space, carried in UDP (RFC 6951).

Festina repairs lost packets of thin streams in about one round trip. `festina compare` shows the effect in half a minute; \
`listen`, `send` and `ping` talk to any SCTP peer that speaks UDP encapsulation; `emulate` is a \
bad network to try them on.";

const EXAMPLES: &str = "\
Examples:
  festina compare                                    the comparison, and compare.html to look at
  festina listen 127.0.0.1:9899 --echo               a peer that answers
  festina ping 127.0.0.1:9899 -c 10                  the delay of messages to it
  echo hello | festina send 127.0.0.1:9899           a line as a message
  festina emulate udp --listen 127.0.0.1:9000 --to 127.0.0.1:9899 --delay 50ms --loss 5%
  festina perf -c 192.0.2.7                          the throughput of a path to `festina perf -s`
  festina emulate run --delay 50ms --server 'festina listen 10.77.0.2' -- festina send 10.77.0.2
  festina lab list                                   the experiments that can be run

Write values with their units: durations 250ms 1.5s 10us 2m, rates 10Mbit/s, sizes 64KiB, probabilities 5% or 0.05.
Exit code: 0 done, 1 failed, 2 invalid command line, 3 lab check could not test enough.";

#[derive(Debug, Parser)]
#[command(name = "festina", version, about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Report which associations come up and go down, and why; twice for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Wait for peers and print their messages, like netcat
    Listen(listen::ListenArgs),
    /// Send lines or files as messages and print the answers
    Send(send::SendArgs),
    /// Measure the delay of messages to a peer
    Ping(ping::PingArgs),
    /// Measure the throughput of a path and the delay of a concurrent thin stream
    Perf(Box<perf::PerfArgs>),
    /// Carry the datagrams or connections of unmodified programs between two hosts
    #[command(subcommand)]
    Tunnel(tunnel::TunnelCommand),
    /// Emulate a network with delay, loss and limited rate
    #[command(subcommand)]
    Emulate(emulate::EmulateCommand),
    /// Compare loss-recovery profiles on thin streams over a lossy network
    Compare(compare::CompareArgs),
    /// Run published experiments and compare the results with the publication
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Analyse the streams of packet captures
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Forward TCP connections with short send buffers
    TcpProxy(tcp_proxy::TcpProxyArgs),
    /// Show how long data waits in the kernel's send buffers
    TcpWatch(tcp_watch::TcpWatchArgs),
    /// Relay and collect log lines: the important ones reliably, the rest while they are fresh
    #[command(subcommand)]
    Syslog(syslog::SyslogCommand),
    /// Print a script that completes this command line in a shell
    Completions(completions::CompletionsArgs),
    /// Write manual pages, one for each subcommand
    Man(completions::ManArgs),
}

/// The command line, for those who describe it.
pub(crate) fn definition() -> clap::Command {
    Arguments::command()
}

/// The names of all of these, as a help text lists them: "a, b or c".
pub(crate) fn one_of(items: &[impl ToString]) -> String {
    listed(items, "or")
}

/// The same with this word before the last one.
pub(crate) fn listed(items: &[impl ToString], word: &str) -> String {
    let names: Vec<String> = items.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} {word} {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Flags that each make sense but not together, or values that a parser alone cannot judge.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl UsageError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Reads the command line. If it asks for help or makes no sense, that has been answered, and the exit code is returned.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    match Arguments::try_parse() {
        Ok(arguments) => {
            log::begin(arguments.verbose);
            Ok(arguments.command)
        }
        Err(error) => Err(answer(&error)),
    }
}

fn answer(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that left before the help was written is no failure.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(EXIT_USAGE)
        }
        _ => {
            output::complain(&one_line(error));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// The first paragraph of the parser's complaint in one line, with its suggestion if it has one.
fn one_line(error: &clap::Error) -> String {
    if let Some(value) = negative_value(error) {
        return format!("{value} is not a flag, and values here cannot be negative");
    }
    let text = error.render().to_string();
    let paragraph: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let mut line = paragraph.join(" ");
    if let Some(problem) = line.strip_prefix("error: ") {
        line = problem.to_owned();
    }
    let suggestion = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
        .into_iter()
        .find_map(|kind| error.get(kind));
    match suggestion {
        Some(suggestion) => format!("{line}; did you mean {suggestion}?"),
        None => line,
    }
}

/// The one of these names that a mistyped one is likely to mean, by the measure that the parser has for flags.
pub(crate) fn most_similar<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let rated = names.map(|name| (strsim::jaro(typed, name), name)).filter(|&(likeness, _)| likeness > 0.8);
    rated.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, name)| name)
}

/// What the parser took for a flag, if that was rather a negative number.
fn negative_value(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) if error.kind() == ErrorKind::UnknownArgument => {
            let digits = argument.strip_prefix('-')?;
            digits.starts_with(|first: char| first.is_ascii_digit()).then_some(argument)
        }
        _ => None,
    }
}

/// Longer times would leave the range of the clock when they are added to it.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Reads a duration; zero is allowed.
pub(crate) fn any_duration(text: &str) -> Result<Duration, String> {
    match duration::parse(text).map_err(|error| error.to_string())? {
        duration if duration > DURATION_MAX => Err("it is longer than a year".to_owned()),
        duration => Ok(duration),
    }
}

/// Reads a number above zero.
pub(crate) fn positive_number(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("it is no whole number above zero".to_owned()),
    }
}

/// Reads a duration above zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match any_duration(text)? {
        Duration::ZERO => Err("it must be longer than zero".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn names_are_listed_as_a_sentence_has_them() {
        assert_eq!(one_of(&["a", "b", "c"]), "a, b or c");
        assert_eq!(listed(&["a", "b"], "and"), "a and b");
        assert_eq!(one_of(&["a"]), "a");
    }

    #[test]
    fn the_help_names_every_profile_and_congestion_control_that_can_be_chosen() {
        for path in [&["listen"][..], &["send"], &["ping"], &["compare"]] {
            let error = Arguments::try_parse_from(["festina"].iter().chain(path).chain(&["--help"])).expect_err("help");
            let help = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(help.contains(&one_of(festina::Profile::all())), "{help}");
            assert!(help.contains(&one_of(festina::CongestionControl::all())), "{help}");
        }
    }

    #[test]
    fn missing_arguments_are_named_in_one_line() {
        let error = Arguments::try_parse_from(["festina", "ping"]).expect_err("the address is missing");
        assert_eq!(one_line(&error), "the following required arguments were not provided: <ADDRESS>");
    }
}
