//! `festina lab view`: the report of a finished run, and the playground with the network and traffic of a plan or result.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use festina_lab::report;

use super::playground;
use crate::output;
use crate::usage::UsageError;

/// Arguments of `festina lab view`.
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// The folder of a run within --out, such as md1-quick, the latest run if left out; or a plan (FILE.toml) or result (summary.json), whose
    /// round-trip time, loss and interval are opened in the simulator's page
    #[arg(value_name = "NAME|FILE")]
    name: Option<String>,
    /// The folder for reports and finished runs
    #[arg(long, value_name = "DIR", default_value = "lab")]
    out: PathBuf,
    /// The simulator's page, which site/playground/build makes: a file or an address. By default playground.html beside the build's folder of this
    /// command
    #[arg(long, value_name = "FILE|URL")]
    page: Option<String>,
}

/// Prints the text of a report and the path of its page.
pub(super) fn run(arguments: &ViewArgs) -> Result<()> {
    let out = &arguments.out;
    if let Some(settings) = arguments.name.as_deref().map(playground::settings_of).transpose()?.flatten() {
        return playground::open(arguments.page.as_deref(), &settings);
    }
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
