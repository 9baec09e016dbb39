//! `festina completions`: the command line, described for shells.

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use festina::{CongestionControl, Profile, Redundancy};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  festina completions bash > ~/.local/share/bash-completion/completions/festina
  festina completions zsh > ~/.zfunc/_festina
  festina completions fish > ~/.config/fish/completions/festina.fish";

/// Arguments of `festina completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete commands in
    shell: Shell,
}

/// Prints the script that makes a shell complete the command line.
pub(crate) fn run(arguments: &CompletionsArgs, definition: clap::Command) -> Result<()> {
    let mut definition = with_names(definition);
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut definition, "festina", &mut script);
    output::print(String::from_utf8(script)?.trim_end())
}

/// Adds the names that can be completed to options whose parsers do not show theirs.
fn with_names(command: clap::Command) -> clap::Command {
    command.mut_subcommands(with_names).mut_args(|argument| {
        let names: Vec<&str> = match argument.get_id().as_str() {
            "profile" => Profile::all().iter().map(|profile| profile.name()).collect(),
            "profiles" => festina_sctp::Profile::all().iter().map(|profile| profile.name()).collect(),
            "congestion" => CongestionControl::all().iter().map(|control| control.name()).collect(),
            "redundancy" => Redundancy::NAMED.iter().map(|redundancy| redundancy.name()).collect(),
            _ => return argument,
        };
        argument.value_parser(PossibleValuesParser::new(names))
    })
}
