//! `festina completions` and `festina man`: the command line, described for shells and for `man`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
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

/// Arguments of `festina man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder to write the pages to, for example ~/.local/share/man/man1
    folder: PathBuf,
}

/// Prints the script that makes a shell complete the command line.
pub(crate) fn run(arguments: &CompletionsArgs, mut definition: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut definition, "festina", &mut script);
    output::print(String::from_utf8(script)?.trim_end())
}

/// Writes a manual page for the command and one for each subcommand.
pub(crate) fn write_manual(arguments: &ManArgs, definition: clap::Command) -> Result<()> {
    let folder = &arguments.folder;
    let cannot_write = || format!("cannot write manual pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot_write)?;
    clap_mangen::generate_to(definition, folder).with_context(cannot_write)
}
