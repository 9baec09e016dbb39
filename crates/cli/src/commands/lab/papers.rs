//! `festina lab ledger` and `festina lab readings`: verdicts on the papers' statements.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use festina_lab::experiment::Experiment;
use festina_lab::ledger::{self, Row};
use festina_lab::plan::{Plan, Scale};
use festina_lab::report::Report;
use festina_lab::runner::{self, BEAT, RunOptions};

use super::job::Job;
use super::{Ground, STORE, named};
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
    /// Update ledger.json, ledger.csv and the tables of the pages in this folder; rows of experiments that are not run stay as they are
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
    /// Run nothing but a probe of each experiment, and say which rows of the folder's ledger are of code that gave other results
    #[arg(long, requires = "docs", conflicts_with_all = ["quick", "quick_for", "seeds"])]
    check: bool,
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
    fn run(&self, experiment: &'static dyn Experiment, plan: Plan, folder: &str) -> Result<Report<'static>> {
        let scale = if plan.scale() == Scale::Quick { "-quick" } else { "" };
        let shared = if experiment.runs_as() == experiment.name() { folder } else { experiment.runs_as() };
        let store = self.out.join(format!("{shared}{scale}")).join(STORE);
        let folder = self.out.join(format!("{folder}{scale}"));
        let options = RunOptions {
            jobs: self.jobs.map(usize::from),
            beat: BEAT,
            store,
            code_version: runner::CODE_VERSION.to_owned(),
        };
        let name = experiment.name().to_owned();
        let command = format!("festina lab run {name}");
        Job { ground: Ground::Simulator, experiment, plan, command, name, folder, options }.run()
    }
}

/// Runs the experiments of the papers and prints the verdicts on their statements, or updates the documents.
pub(super) fn ledger(arguments: &LedgerArgs) -> Result<()> {
    let LedgerArgs { papers, docs, check, seeds } = arguments;
    papers.check()?;
    let kept = docs.as_deref().map_or(Ok(Vec::new()), kept)?;
    if *check {
        return judge_age(papers, &kept);
    }
    if docs.is_none() {
        output::promise_json();
    }
    let mut outcomes = Vec::new();
    for experiment in ledger::experiments().into_iter().filter(|it| papers.wants(*it)) {
        let scale = papers.scale(experiment);
        let mut plan = festina_lab::readings::plan_of_statements(experiment, scale)?;
        let mut extent = if scale == Scale::Quick { "quick".to_owned() } else { String::new() };
        if let Some(seeds) = *seeds {
            extent += if extent.is_empty() { "" } else { ", " };
            let _ = write!(extent, "{} runs", plan.set_repetitions(seeds));
        }
        let report = papers.run(experiment, plan, experiment.name())?;
        let (checks, scoreboard) = (report.checks().to_vec(), report.scoreboard().to_vec());
        let probe = runner::probe(experiment);
        outcomes.push(ledger::Outcome { experiment: experiment.name(), extent, probe, checks, scoreboard });
    }
    let rows = ledger::rows(&outcomes, &kept);
    match docs {
        Some(docs) => write_documents(docs, &rows),
        None => output::print(ledger::row::to_json(&rows).trim_end_matches('\n')),
    }
}

/// The name of the ledger in the folder of documents.
const LEDGER: &str = "ledger.json";

/// The rows of the folder's ledger.
fn kept(docs: &Path) -> Result<Vec<Row>> {
    let path = docs.join(LEDGER);
    let earlier = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows = ledger::row::parse(&earlier).map_err(|error| {
        let problem = format!("{} is no ledger that festina lab ledger wrote: {error}", path.display());
        UsageError::new(problem)
    })?;
    Ok(rows)
}

/// Writes the rows, and what follows from them in the pages.
fn write_documents(docs: &Path, rows: &[Row]) -> Result<()> {
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&docs.join(LEDGER), &ledger::row::to_json(rows))?;
    write(&docs.join("ledger.csv"), &ledger::row::to_csv(rows))?;
    for (page, table) in ledger::page::tables(rows) {
        let path = docs.join(page);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let Some(text) = ledger::page::with_table(&text, &table) else {
            bail!("{} has no marks between which the table stands", path.display());
        };
        write(&path, &text)?;
    }
    output::notice(&format!("{} rows are in {}.", rows.len(), docs.join(LEDGER).display()));
    Ok(())
}

/// Compares the probe of each experiment with that of its rows.
fn judge_age(papers: &PapersArgs, rows: &[Row]) -> Result<()> {
    let (mut lines, mut older, mut tested) = (Vec::new(), 0, 0);
    for experiment in ledger::experiments().into_iter().filter(|it| papers.wants(*it)) {
        let of: Vec<&Row> = rows.iter().filter(|row| row.experiment == experiment.name()).collect();
        let probe = runner::probe(experiment);
        let old = of.iter().filter(|row| row.is_older(&probe)).count();
        tested += of.len();
        if old > 0 {
            lines.push(format!("{}: {old} of {} rows are of older code or checks", experiment.name(), of.len()));
        }
        older += old;
    }
    lines.push(format!("Of {tested} rows, {older} are of older code or checks."));
    output::print(&lines.join("\n"))?;
    if older > 0 {
        bail!(
            "{older} rows are of older code or checks; festina lab ledger --only NAME --docs DIR runs an experiment again"
        );
    }
    Ok(())
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
            let checks = papers.run(experiment, plan, &folder)?.checks().to_vec();
            outcomes.push(readings::Outcome { combination, experiment: experiment.name(), checks });
        }
    }
    output::print(readings::table(&outcomes).trim_end_matches('\n'))
}
