//! The `festina` command: arguments in, calls out.
//!
//! - [`command_line`] reads the command line; bad flags get one line and exit code 2
//! - [`commands`] holds one file per subcommand
//! - [`compare`] is the machinery of `festina compare`
//! - [`link`] reads what an emulated link is like
//! - [`capture`]: packets into a file
//! - [`log`]: what the library reports, with `-v`
//! - `real` is the machinery of `festina lab run --real`
//! - [`keys`]: the user's key, and known peers
//! - [`dial`]: associations with a host that may have several addresses
//! - [`args`] and [`usage`], on which all others rest: the values of options, and the error for those that make no sense
//! - [`files`]: the files of a command line, and the rule that keeps them from being overwritten
//! - [`address`], [`input`], [`output`] and [`signal`]: host names, standard input, standard output, Ctrl-C
#![forbid(unsafe_code)]

mod address;
mod args;
mod capture;
mod command_line;
mod commands;
mod compare;
mod dial;
mod files;
mod input;
mod keys;
mod link;
mod log;
mod output;
#[cfg(target_os = "linux")]
mod real;
mod scratch;
mod signal;
mod usage;

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use commands::lab::Untested;
use commands::{Command, EndedWith};
use usage::UsageError;

/// What went wrong was what the caller asked for.
const EXIT_USAGE: u8 = 2;
/// What went wrong was what happened then.
const EXIT_FAILURE: u8 = 1;
/// Nothing went wrong, but too little was tested to say so.
const EXIT_UNTESTED: u8 = 3;

/// Two are enough for any of the commands, and leave the rest of the machine to others.
const WORKER_THREADS: usize = 2;

/// How long to wait at the end for blocking calls, such as a write to a pipe whose reader has paused. Results have been printed by then.
const BLOCKING_CALLS_MAX: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let command = match command_line::parse() {
        Ok(command) => command,
        Err(exit_code) => return exit_code,
    };
    commands::without_threads(&command).map_or_else(|| with_threads(command), exit_code)
}

/// Reports an error, and returns the exit code for it.
fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has closed it, as in `festina ping ... | head`: that is no failure.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(EndedWith(code)) = error.downcast_ref() {
                return ExitCode::from(*code);
            }
            let (problem, is_usage) = (output::causes(&error), error.is::<UsageError>());
            let help = if is_usage { command_line::see_help() } else { String::new() };
            output::complain(&format!("{problem}{help}"));
            output::print_failure(&problem);
            ExitCode::from(match () {
                () if is_usage => EXIT_USAGE,
                () if error.is::<Untested>() => EXIT_UNTESTED,
                () => EXIT_FAILURE,
            })
        }
    }
}

fn with_threads(command: Command) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKER_THREADS).enable_all().build();
    // Behind a pointer the commands are compiled once, and not again for each way in which the runtime polls this.
    let running: Pin<Box<dyn Future<Output = anyhow::Result<()>>>> =
        Box::pin(commands::run(command, command_line::definition));
    let runtime = match runtime.context("cannot start") {
        Ok(runtime) => runtime,
        Err(error) => return exit_code(Err(error)),
    };
    output::write_in_the_background();
    let exit_code = runtime.block_on(async {
        signal::watch(output::interrupted);
        let exit_code = exit_code(running.await);
        output::all_noticed().await;
        exit_code
    });
    runtime.shutdown_timeout(BLOCKING_CALLS_MAX);
    exit_code
}
