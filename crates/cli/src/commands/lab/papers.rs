//! `festina lab ledger` and `festina lab readings`: verdicts on the papers' statements.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use festina_lab::experiment::Experiment;
use festina_lab::plan::{Plan, Scale};
use festina_lab::report::Report;
use festina_lab::runner::{self, RunOptions, Shard};

use super::{Ground, Job, STORE, named};
use crate::output;
use crate::usage::UsageError;

/// Arguments of `festina lab ledger` and `festina lab readings`.
#[derive(Debug, Args)]
pub(crate) struct PapersArgs {
    /// Run a small version
    #[arg(long)]
    quick: bool,
    /// Run these experiments as with --quick, and the others whole
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "quick")]
    quick_for: Vec<String>,
    /// Only these experiments; the statements of all others count as not tested
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// The folder for reports and finished runs, which are reused
    #[arg(long, value_name = "DIR", default_value = "lab")]
    out: PathBuf,
    /// Number of threads; one per processor if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

/// Arguments of `festina lab ledger`.
#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    #[command(flatten)]
    papers: PapersArgs,
    /// Copy the rows of all other experiments from this earlier ledger
    #[arg(long, value_name = "FILE", requires = "only")]
    keep: Option<PathBuf>,
    /// Number of runs of each point of these experiments, each with another seed
    #[arg(long, value_name = "N", requires = "only")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(festina_lab::plan::REPETITIONS_MAX)))]
    seeds: Option<u32>,
}

/// Arguments of `festina lab readings`.
#[derive(Debug, Args)]
pub(crate) struct ReadingsArgs {
    #[command(flatten)]
    papers: PapersArgs,
    /// Only combinations that have all of these readings, such as cumulative,200ms
    #[arg(long, value_name = "READINGS", value_delimiter = ',')]
    under: Vec<String>,
}

impl PapersArgs {
    /// Whether an experiment is among those that were asked for.
    fn wants(&self, experiment: &dyn Experiment) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == experiment.name())
    }

    /// Refuses names that no experiment has.
    fn check(&self) -> Result<(), UsageError> {
        self.only.iter().chain(&self.quick_for).try_for_each(|name| named(name).map(|_| ()))
    }

    fn scale(&self, experiment: &dyn Experiment) -> Scale {
        let is_quick = self.quick || self.quick_for.iter().any(|name| name == experiment.name());
        if is_quick { Scale::Quick } else { Scale::Full }
    }

    /// Runs a plan below this folder. Experiments that are views of the same runs share them.
    fn run(&self, experiment: &'static dyn Experiment, plan: Plan, folder: &str) -> Result<Option<Report<'static>>> {
        let scale = if plan.scale() == Scale::Quick { "-quick" } else { "" };
        let shared = if experiment.runs_as() == experiment.name() { folder } else { experiment.runs_as() };
        let store = self.out.join(format!("{shared}{scale}")).join(STORE);
        let folder = self.out.join(format!("{folder}{scale}"));
        let options = RunOptions {
            jobs: self.jobs.map(usize::from),
            shard: Shard::WHOLE,
            store,
            code_version: runner::CODE_VERSION.to_owned(),
        };
        let name = experiment.name().to_owned();
        let command = format!("festina lab run {name}");
        Job { ground: Ground::Simulator, experiment, plan, command, name, folder, options }.run()
    }
}

/// Runs the experiments of the papers and prints the verdicts on their statements.
pub(super) fn ledger(arguments: &LedgerArgs) -> Result<()> {
    use festina_lab::ledger::{self, Kept};
    let LedgerArgs { papers, keep, seeds } = arguments;
    papers.check()?;
    let kept = match keep {
        Some(path) => kept(path)?,
        None => Kept::default(),
    };
    let mut outcomes = Vec::new();
    for experiment in ledger::experiments().into_iter().filter(|it| papers.wants(*it)) {
        let scale = papers.scale(experiment);
        let mut plan = festina_lab::readings::plan_of_statements(experiment, scale)?;
        let mut extent = if scale == Scale::Quick { "quick".to_owned() } else { String::new() };
        if let Some(seeds) = *seeds {
            extent += if extent.is_empty() { "" } else { ", " };
            let _ = write!(extent, "{} runs", plan.set_repetitions(seeds));
        }
        if let Some(report) = papers.run(experiment, plan, experiment.name())? {
            let (checks, scoreboard) = (report.checks().to_vec(), report.scoreboard().to_vec());
            outcomes.push(ledger::Outcome { experiment: experiment.name(), extent, checks, scoreboard });
        }
    }
    output::print(ledger::table(&outcomes, &kept).trim_end_matches('\n'))
}

/// The rows of an earlier ledger.
fn kept(path: &Path) -> Result<festina_lab::ledger::Kept> {
    let earlier = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let kept = festina_lab::ledger::Kept::parse(&earlier);
    if kept.is_empty() {
        let problem =
            format!("--keep {}: there is no row of a ledger in it; festina lab ledger writes one", path.display());
        return Err(UsageError::new(problem).into());
    }
    Ok(kept)
}

/// Runs the experiments of P06 and P10 under each reading and prints what survives.
pub(super) fn readings(arguments: &ReadingsArgs) -> Result<()> {
    use festina_lab::readings::{self, Combination};
    let ReadingsArgs { papers, under } = arguments;
    papers.check()?;
    let combinations: Vec<Combination> = Combination::all().into_iter().filter(|it| it.has(under)).collect();
    if combinations.is_empty() {
        let problem = format!("--under {}: no combination of readings has all of these", under.join(","));
        return Err(UsageError::new(problem).into());
    }
    let mut outcomes = Vec::new();
    for combination in combinations {
        for experiment in readings::experiments().into_iter().filter(|it| papers.wants(*it)) {
            let plan = combination.plan(experiment, papers.scale(experiment))?;
            let folder = format!("{}-{}", experiment.name(), combination.name());
            if let Some(report) = papers.run(experiment, plan, &folder)? {
                let checks = report.checks().to_vec();
                outcomes.push(readings::Outcome { combination, experiment: experiment.name(), checks });
            }
        }
    }
    output::print(readings::table(&outcomes).trim_end_matches('\n'))
}
