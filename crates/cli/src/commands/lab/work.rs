//! `festina lab work`: one of several processes that work on a submitted plan.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use festina_lab::runner::{self, Progress, Worked};

use super::job::Job;
use super::progress::Shown;
use super::{memory, publish, sweep};
use crate::args;
use crate::output;

/// Arguments of `festina lab work`.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// The folder that `festina lab submit` printed
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Number of threads; one per processor if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// End after this number of runs
    #[arg(long, value_name = "N", value_parser = args::positive_number, conflicts_with = "report")]
    runs: Option<u64>,
    /// Write the report when all runs are finished
    #[arg(long)]
    report: bool,
}

/// Works until nothing remains.
pub(super) fn run(arguments: &WorkArgs) -> Result<()> {
    let job = sweep::open(&arguments.folder, arguments.jobs)?;
    if arguments.report {
        let report = job.run()?;
        let folder = std::path::absolute(&job.folder).unwrap_or_else(|_| job.folder.clone());
        return publish(&job, &report, folder.parent().unwrap_or(Path::new(".")), false);
    }
    let worked = work(&job, arguments.runs)?;
    let Worked { computed, missing, total, given_up } = worked;
    for (point, claim) in &given_up {
        output::notice(&format!(
            "warning: three processes ended during a run of {point}; without {} workers try again",
            output::name(claim)
        ));
    }
    let store = output::name(&job.options.store);
    output::notice(&format!(
        "runs computed here: {computed}, kept in {store}; {missing} of all {total} runs are missing"
    ));
    match given_up.len() {
        0 => Ok(()),
        count => bail!("runs given up: {count}, each after the end of three processes; is the memory too small?"),
    }
}

fn work(job: &Job, runs_max: Option<u64>) -> Result<Worked> {
    memory::announce(job.experiment, &job.plan, job.options.jobs);
    let shown = Shown::new(job.experiment.name(), job.options.store.clone());
    let told = |progress: Progress| shown.set(progress);
    Ok(runner::work(job.experiment, &job.plan, &job.options, runs_max, &told)?)
}
