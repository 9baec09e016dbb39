//! `festina completions`: the command line, described for shells.

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

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
pub(crate) fn run(arguments: &CompletionsArgs, mut definition: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut definition, "festina", &mut script);
    output::print(String::from_utf8(script)?.trim_end())
}
