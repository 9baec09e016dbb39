//! `festina lab new`: a plan to begin with.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use festina_lab::experiment::Experiment as _;
use festina_lab::experiments::Scenario;
use festina_lab::plan::definition;

use crate::output;
use crate::usage::UsageError;

/// Arguments of `festina lab new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The file to write, which must not exist yet; its name ends in .toml
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
}

/// Writes the commented plan of the experiment `scenario`. It never overwrites a file.
pub(crate) fn run(arguments: &NewArgs) -> Result<()> {
    let file = &arguments.file;
    let shown = file.display();
    if file.extension().is_none_or(|extension| extension != "toml") {
        let problem =
            format!("{shown} does not end in .toml, by which `festina lab run` knows plans; write {shown}.toml");
        return Err(UsageError::new(problem).into());
    }
    let mut created = match File::create_new(file) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let problem = format!("{shown} exists already and was not changed; choose another name");
            return Err(UsageError::new(problem).into());
        }
        created => created.with_context(|| format!("cannot write {shown}"))?,
    };
    created
        .write_all(definition::values(Scenario.description().plan).as_bytes())
        .with_context(|| format!("cannot write {shown}"))?;
    output::print(&format!("{shown} is a plan. Change it, then: festina lab run {shown} --quick"))
}
