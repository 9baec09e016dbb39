//! The command line: parsing it, and one line about each mistake in it.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser};

use crate::commands::Command;
use crate::{EXIT_FAILURE, EXIT_USAGE, files, log, output};

const ABOUT: &str = "Low-latency messages over SCTP, and a laboratory that shows what loss recovery is worth";

const LONG_ABOUT: &str = "\
Low-latency messages over SCTP (RFC 9260) in user space, carried in UDP (RFC 6951).

Festina repairs lost packets of thin streams in about one round trip. `festina compare` shows the effect in half a minute; \
`listen`, `send` and `ping` encrypt between each other, and talk with --plain to any SCTP peer that speaks UDP encapsulation; \
`emulate` is a bad network to try them on.";

const EXAMPLES: &str = "\
Examples:
  festina compare                                    the comparison, and compare.html to look at
  festina listen 127.0.0.1:9899 --echo               a peer that answers
  festina ping 127.0.0.1:9899 -c 10                  the delay of messages to it
  echo hello | festina send 127.0.0.1:9899           a line as a message
  festina emulate udp --listen 127.0.0.1:9000 --to 127.0.0.1:9899 --delay 50ms --loss 5%
  festina perf -c 192.0.2.7                          the throughput of a path to `festina perf -s`
  festina emulate run --delay 50ms --server 'festina listen 10.77.0.2' -- festina send 10.77.0.2
  festina key                                        the fingerprint of this user's key
  festina lab list                                   the experiments that can be run

Write values with their units: durations 250ms 1.5s 10us 2m, rates 10Mbit/s, sizes 1200 or 64KiB, probabilities 5% or 0.05.
Exit code: 0 done, 1 failed, 2 invalid command line, 3 lab check could not test enough.";

#[derive(Debug, Parser)]
#[command(name = "festina", version, long_version = LONG_VERSION.as_str(), about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Report which associations come up and go down, and why; twice for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// The version, the commit if the build knows it, and the features.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = [
        ("kafka", cfg!(feature = "kafka")),
        ("parquet", cfg!(feature = "parquet")),
        ("png", cfg!(feature = "png")),
        ("web", cfg!(feature = "web")),
    ];
    let names: Vec<&str> = features.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let commit = option_env!("FESTINA_COMMIT").unwrap_or("unknown");
    format!("{}\ncommit: {commit}\noptional features: {names}", env!("CARGO_PKG_VERSION"))
});

/// The command line, for those who describe it.
pub(crate) fn definition() -> clap::Command {
    files::described(Arguments::command())
}

/// Reads the command line. If it asks for help or makes no sense, that has been answered, and the exit code is returned.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    let mut definition = definition();
    let values = definition.try_get_matches_from_mut(std::env::args_os()).map_err(|error| answer(&error))?;
    let arguments = Arguments::from_arg_matches(&values).map_err(|error| answer(&error.format(&mut definition)))?;
    let (command, values) = innermost(&definition, &values);
    files::check(command, values).map_err(|error| {
        output::complain(&format!("{error}{}", see_help()));
        ExitCode::from(EXIT_USAGE)
    })?;
    if values.try_get_one("json").is_ok_and(|wanted| wanted == Some(&true)) {
        output::promise_json();
    }
    log::begin(arguments.verbose);
    Ok(arguments.command)
}

/// The subcommand that was called, and its values.
fn innermost<'a>(mut command: &'a clap::Command, mut values: &'a ArgMatches) -> (&'a clap::Command, &'a ArgMatches) {
    while let Some((name, below)) = values.subcommand()
        && let Some(sub) = command.find_subcommand(name)
    {
        (command, values) = (sub, below);
    }
    (command, values)
}

/// The command that the words of this process name, such as `festina tunnel tcp`, as far as they name one.
pub(crate) fn command_in_words(words: impl Iterator<Item = OsString>) -> String {
    let mut command = definition();
    let mut path = "festina".to_owned();
    for word in words.skip(1) {
        let Some(sub) = word.to_str().and_then(|word| command.find_subcommand(word)) else { continue };
        path = format!("{path} {}", sub.get_name());
        command = sub.clone();
    }
    path
}

/// The end of a complaint about the command line.
pub(crate) fn see_help() -> String {
    format!(" (see `{} --help`)", command_in_words(std::env::args_os()))
}

fn answer(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print().and_then(|()| io::stdout().flush()) {
            // A reader that left before the help was written is no failure.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                output::complain(&output::causes(&output::cannot_print(error)));
                ExitCode::from(EXIT_FAILURE)
            }
            _ => ExitCode::SUCCESS,
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(EXIT_USAGE)
        }
        _ => {
            output::complain(&format!("{}{}", one_line(error), see_help()));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// The first paragraph of the parser's complaint in one line, with its suggestion if it has one.
fn one_line(error: &clap::Error) -> String {
    if let Some(value) = negative_value(error) {
        return format!("{value} is not a flag, and values here cannot be negative");
    }
    if is_iperf_port(error) {
        return "the port belongs to the address: -c HOST:PORT or -s ADDRESS:PORT".to_owned();
    }
    let text = error.render().to_string();
    let paragraph: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let mut line = paragraph.join(" ");
    if let Some(problem) = line.strip_prefix("error: ") {
        line = problem.to_owned();
    }
    let line = output::in_plain_words(&range_in_words(&line));
    let suggestion = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
        .into_iter()
        .find_map(|kind| error.get(kind));
    match suggestion {
        Some(suggestion) => format!("{line}; did you mean {suggestion}?"),
        None => line,
    }
}

/// Whether somebody gives `festina perf` its port as iperf3 takes it.
fn is_iperf_port(error: &clap::Error) -> bool {
    let is = |kind, text: &str| error.get(kind).is_some_and(|value| value.to_string().contains(text));
    error.kind() == ErrorKind::UnknownArgument
        && is(ContextKind::InvalidArg, "-p")
        && is(ContextKind::Usage, "festina perf")
}

/// `7 is not in 8..=9` as people write it.
fn range_in_words(line: &str) -> String {
    let Some((before, range)) = line.split_once(" is not in ") else { return line.to_owned() };
    let Some((low, high)) = range.split_once("..=") else { return line.to_owned() };
    format!("{before} is not from {low} to {high}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::one_of;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn the_help_names_every_profile_congestion_control_and_redundancy_that_can_be_chosen() {
        let profiles = one_of(festina::Profile::all());
        let published = one_of(festina_sctp::Profile::all());
        for (path, profiles) in
            [("listen", &profiles), ("send", &profiles), ("ping", &profiles), ("compare", &published)]
        {
            let error = Arguments::try_parse_from(["festina"].iter().chain(&[path, "--help"])).expect_err("help");
            let help = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(help.contains(profiles), "{help}");
            assert!(help.contains(&one_of(festina::CongestionControl::all())), "{help}");
            assert!(path == "compare" || help.contains(&one_of(&festina::Redundancy::NAMED)), "{help}");
        }
    }

    #[test]
    fn no_module_uses_the_ones_above_it() {
        fn files(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(folder).expect("the folder is there") {
                let path = entry.expect("the folder can be read").path();
                if path.is_dir() { files(&path, found) } else { found.push(path) }
            }
        }
        let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut found = Vec::new();
        files(&sources, &mut found);
        let top = ["main.rs", "command_line.rs"].map(|name| sources.join(name));
        for file in found.iter().filter(|file| !top.contains(file)) {
            let text = std::fs::read_to_string(file).expect("it is text");
            let uses = |module: &str| text.contains(&format!("crate::{module}"));
            assert!(!uses("command_line"), "{}", file.display());
            let is_command = file.starts_with(sources.join("commands")) || file.ends_with("commands.rs");
            assert!(is_command || !uses("commands"), "{}", file.display());
        }
    }

    /// Calls a function for each subcommand, with its words.
    fn walk(command: &clap::Command, words: &str, visit: &mut impl FnMut(&str, &clap::Command)) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let words = format!("{words} {}", sub.get_name());
            visit(words.trim(), sub);
            walk(sub, &words, visit);
        }
    }

    /// The value that an option takes by name, `None` for a switch.
    fn value(argument: &clap::Arg) -> Option<String> {
        let names = argument.get_value_names().filter(|_| argument.get_action().takes_values())?;
        Some(names.iter().map(|name| name.as_str()).collect())
    }

    #[test]
    #[cfg(target_os = "linux")] // Elsewhere some commands are missing.
    fn an_option_means_the_same_in_every_command_and_the_guide_lists_them() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/start/command-line.md");
        let guide = std::fs::read_to_string(guide).expect("the guide is there");
        for (option, value_name, default, words) in [
            ("json", None, None, "JSON"),
            ("force", None, None, "Replace files"),
            ("out", Some("DIR"), Some("lab"), "The folder for reports and finished runs"),
            ("pcap", Some("FILE"), None, "ecord every packet"),
            ("seed", Some("NUMBER"), Some("1"), "same seed"),
        ] {
            let mut commands = Vec::new();
            walk(&definition(), "", &mut |path, command| {
                let Some(argument) = command.get_arguments().find(|argument| argument.get_long() == Some(option))
                else {
                    return;
                };
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert_eq!(value(argument).as_deref(), value_name, "{path} --{option}");
                let defaults: Vec<_> = argument.get_default_values().iter().filter_map(|text| text.to_str()).collect();
                assert_eq!(defaults.first().copied(), default, "{path} --{option}");
                assert!(help.contains(words), "{path} --{option}: {help}");
                commands.push(format!("`{path}`"));
            });
            let form = value_name.map_or(format!("`--{option}`"), |name| format!("`--{option} {name}`"));
            let row = guide.lines().find(|line| line.starts_with(&format!("| {form} |"))).unwrap_or_default();
            assert!(
                row.ends_with(&format!(" | {} |", commands.join(", "))),
                "{form} belongs to {}",
                commands.join(", ")
            );
        }
    }

    #[test]
    fn every_size_may_have_a_unit() {
        walk(&definition(), "", &mut |path, command| {
            for argument in command.get_arguments() {
                assert_ne!(value(argument).as_deref(), Some("BYTES"), "{path}: {argument} takes a size without units");
            }
        });
        for line in [
            "ping localhost --size 120B",
            "ping localhost --size 120",
            "send localhost --block 64KiB",
            "send localhost --packet-size 1400B",
            "listen :9899 --block 1kB --packet-size 1400",
            "perf -c localhost --length 64KiB --packet-size 9kB",
            "tunnel exit --to localhost:1 --packet-size 1400B",
            "compare --size 1KiB",
        ] {
            let arguments = Arguments::try_parse_from(["festina"].into_iter().chain(line.split(' ')));
            assert!(arguments.is_ok(), "{line}: {arguments:?}");
        }
        for (size, problem) in
            [("7B", "7 is not from 8 to 1048576"), ("2MiB", "2097152 is not from"), ("ten", "byte count")]
        {
            let error = Arguments::try_parse_from(["festina", "ping", "localhost", "--size", size]).expect_err(size);
            assert!(one_line(&error).contains(problem), "{error}");
        }
    }

    #[test]
    fn the_words_of_a_process_name_its_command_although_flags_stand_between() {
        for (words, command) in [
            ("festina", "festina"),
            ("festina -v tunnel --pcap x tcp --to y", "festina tunnel tcp"),
            ("festina nothing", "festina"),
            ("/usr/bin/festina perf -p 5", "festina perf"),
        ] {
            assert_eq!(command_in_words(words.split(' ').map(OsString::from)), command, "{words}");
        }
    }

    #[test]
    fn missing_arguments_are_named_in_one_line() {
        let error = Arguments::try_parse_from(["festina", "ping"]).expect_err("the address is missing");
        assert_eq!(one_line(&error), "the following required arguments were not provided: <ADDRESS>");
    }
}
