//! `festina lab view`: the report of a finished run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use festina_lab::report;

use crate::output;
use crate::usage::UsageError;

/// Arguments of `festina lab view`.
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// The folder of a run within --out, such as md1-quick; the latest run if left out
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The folder for reports and finished runs
    #[arg(long, value_name = "DIR", default_value = "lab")]
    out: PathBuf,
}

/// Prints the text of a report and the path of its page.
pub(super) fn run(arguments: &ViewArgs) -> Result<()> {
    let out = &arguments.out;
    let folder = match &arguments.name {
        Some(name) => out.join(name),
        None => latest(out)?.ok_or_else(|| {
            UsageError::new(format!("there is no report in {}; `festina lab run NAME` writes one", out.display()))
        })?,
    };
    let text = fs::read_to_string(folder.join(report::TEXT))
        .with_context(|| format!("there is no report in {}", folder.display()))?;
    output::print(&format!("{text}\nThe report is {}.", output::name(&folder.join(report::PAGE))))
}

/// The folder with the report that was written last.
fn latest(out: &Path) -> Result<Option<PathBuf>> {
    let mut latest = None;
    for entry in fs::read_dir(out).with_context(|| format!("cannot read {}", out.display()))? {
        let folder = entry.with_context(|| format!("cannot read {}", out.display()))?.path();
        if let Ok(written) = fs::metadata(folder.join(report::TEXT)).and_then(|file| file.modified()) {
            latest = latest.max(Some((written, folder)));
        }
    }
    Ok(latest.map(|(_, folder)| folder))
}
