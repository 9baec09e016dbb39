//! `festina lab submit`: a plan for several processes, as an array of tasks of Slurm for example.

mod slurm;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use festina_lab::memory::largest;
use festina_lab::runner::{self, Status};
use festina_units::ByteCount;

use self::slurm::{Limits, Scripts};
use super::job::Job;
use super::{PlanArgs, memory, sweep};
use crate::output;
use crate::{args, usage::UsageError};

pub(super) const EXAMPLES: &str = "\
Examples:
  festina lab submit mine.toml --out /shared/lab          prints the commands for each machine
  festina lab submit --slurm mine.toml --tasks 100 --time 4h --sbatch=--partition=short
  festina lab submit --slurm mine.toml --dry-run          prints the scripts and submits nothing

The folder must be in a file system that all machines share. Submit the plan again to continue after all tasks have ended.";

/// Memory of a task without `--memory`, at least.
const MEMORY_MIN: ByteCount = ByteCount::from_bytes(1 << 30);

/// Arguments of `festina lab submit`.
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Submit an array of tasks to Slurm, and a job that writes the report after them
    #[arg(long)]
    slurm: bool,
    #[command(flatten)]
    array: ArrayArgs,
    /// Print the scripts for Slurm without submitting or writing anything
    #[arg(long, requires = "slurm")]
    dry_run: bool,
}

/// The array of tasks, each with `--jobs` threads, or 1.
#[derive(Debug, Args)]
struct ArrayArgs {
    /// Number of tasks, each with --jobs threads, or 1
    #[arg(long, value_name = "N", requires = "slurm", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    tasks: u16,
    /// Time limit of each task, and of the report; rounded up to minutes
    #[arg(long, value_name = "TIME", requires = "slurm", default_value = "1h", value_parser = args::positive_duration)]
    time: Duration,
    /// Memory limit of each task, and of the report; an estimate for the plan, but at least 1 GiB, if left out
    #[arg(long, value_name = "SIZE", requires = "slurm", value_parser = args::size(1_u64 << 20..=1 << 50))]
    memory: Option<u64>,
    /// Further option of sbatch, such as --partition=short; can be repeated
    #[arg(long, value_name = "OPTION", requires = "slurm", allow_hyphen_values = true)]
    sbatch: Vec<String>,
}

/// Puts the plan into its folder, and submits it or prints the commands.
pub(super) fn run(arguments: &SubmitArgs) -> Result<()> {
    let SubmitArgs { plan, slurm, array, dry_run } = arguments;
    if let Some(option) = array.sbatch.iter().find(|option| !slurm::is_option(option)) {
        let problem = format!("--sbatch {option:?}: it is no option of sbatch in one line, such as --partition=short");
        return Err(UsageError::new(problem).into());
    }
    let job = sweep::submit(plan, *dry_run)?;
    memory::announce(job.experiment, &job.plan, Some(usize::from(plan.jobs.unwrap_or(1))));
    let command = std::env::current_exe().context("cannot find the command itself")?;
    if let Some(path) = [&command, &job.folder].into_iter().find(|path| path.to_str().is_none()) {
        return Err(UsageError::new(format!("{} is not in UTF-8; choose another name", output::name(path))).into());
    }
    if !slurm {
        let [command, folder] = [&command, &job.folder].map(|path| slurm::quoted(path));
        return output::print(&format!(
            "On each machine:       {command} lab work {folder}\n\
             At the end, on one:    {command} lab work {folder} --report\n\
             To see the progress:   {command} lab status {folder}"
        ));
    }
    if let Some(c) = slurm::expanded(&job.folder) {
        let problem = format!(
            "{} has {c:?} in its name, which Slurm replaces in the names of log files; choose another --out",
            output::name(&job.folder)
        );
        return Err(UsageError::new(problem).into());
    }
    let scripts = Scripts::new(&job.name, &command, &job.folder, &limits(&job, plan, array)?);
    if *dry_run {
        return output::print(scripts.shown().trim_end());
    }
    let submitted = scripts.submit()?;
    output::print(&format!(
        "Array {} of {} tasks, and the report as job {}. To see the progress: festina lab status {}",
        submitted.array,
        scripts.tasks(),
        submitted.report,
        slurm::quoted(shorter(&job.folder))
    ))
}

fn limits<'a>(job: &Job, plan: &PlanArgs, array: &'a ArrayArgs) -> Result<Limits<'a>> {
    let store = &job.options.store;
    let status = Status::of(job.experiment, &job.plan, store, runner::CODE_VERSION)
        .with_context(|| format!("cannot read {}", output::name(store)))?;
    let threads = plan.jobs.unwrap_or(1);
    let missing = (status.total - status.finished).div_ceil(usize::from(threads));
    let estimate = || {
        let one = largest(job.experiment, &job.plan).map_or(0, |(_, memory)| memory.bytes());
        // The estimate is of the messages of a run alone.
        one.saturating_mul(2).saturating_mul(u64::from(threads)).max(MEMORY_MIN.bytes())
    };
    Ok(Limits {
        tasks: array.tasks.min(u16::try_from(missing).unwrap_or(u16::MAX)).max(1),
        threads,
        time: array.time,
        memory: ByteCount::from_bytes(array.memory.unwrap_or_else(estimate)),
        further: &array.sbatch,
    })
}

/// The folder relative to the present one, if it is within.
fn shorter(folder: &Path) -> &Path {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::new());
    folder.strip_prefix(here).unwrap_or(folder)
}
