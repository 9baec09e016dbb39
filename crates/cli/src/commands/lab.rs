//! `festina lab`: published experiments as commands.

mod durations;
mod job;
mod listing;
mod memory;
mod new;
mod papers;
mod playground;
mod progress;
mod status;
mod submit;
mod sweep;
mod view;
mod work;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use festina_lab::experiment::{Experiment, Verdict};
use festina_lab::experiments;
use festina_lab::plan::Scale;
use festina_lab::report::{Report, write_index};
use festina_lab::runner;
use festina_units::ByteCount;

use self::job::Job;
use crate::args;
use crate::output;
#[cfg(target_os = "linux")]
use crate::real;
use crate::usage::UsageError;

const RUN_EXAMPLES: &str = "\
Examples:
  festina lab run md1 --quick              seconds; then open lab/md1-quick/report.html
  festina lab run md1                      at the scale of the publication
  festina lab run mine.toml --seeds 30     a plan of your own, each point 30 times
  festina lab run md1 --json | jq .checks  the summary for programs
  festina lab run replay --quick --capture packets      and packets/replay-quick-*.pcapng for Wireshark
  festina lab run thin-latency --real      with sockets and the kernel's TCP, through an emulated network

An interrupted run continues where it stopped. Processes with the same --out, on any number of machines, share the runs.";

const CHECK_EXAMPLES: &str = "\
Examples:
  festina lab check md1 --quick
  festina lab check md1 && echo the shape holds

Exit code 1: a check is broken. 3: none is, but fewer than nine tenths of them were tested.";

/// The folder of finished runs within the folder of a report.
const STORE: &str = "runs";

/// Subcommands of `festina lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments, and how long each takes
    List(listing::ListArgs),
    /// Describe an experiment, or a plan: its parameters and checks
    Show(listing::ShowArgs),
    /// Write a commented plan of a scenario of your own: links, flows, figures
    New(new::NewArgs),
    /// Run an experiment and write its report
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Put a plan into a shared folder, where any number of processes, or a Slurm cluster, work on it
    #[command(after_help = submit::EXAMPLES)]
    Submit(submit::SubmitArgs),
    /// Work on a submitted plan, together with other processes
    Work(work::WorkArgs),
    /// Tell how far a submitted plan is
    Status(status::StatusArgs),
    /// Print the report of a finished run, or open a plan in the simulator's page
    View(view::ViewArgs),
    /// Run an experiment and check its results
    #[command(after_help = CHECK_EXAMPLES)]
    Check(PlanArgs),
    /// Run the experiments of the papers and print a verdict on each of their statements, as JSON
    Ledger(papers::LedgerArgs),
    /// Run the experiments of P06 and P10 under each reading of points that the papers leave open, and print the verdicts, as tab-separated values
    Readings(papers::ReadingsArgs),
    /// Remove finished runs of other versions of the code
    Prune(PruneArgs),
}

/// Arguments of `festina lab prune`.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// The folder for reports and finished runs; no run may be under way in it
    #[arg(long, value_name = "DIR", default_value = "lab")]
    out: PathBuf,
}

/// Arguments of `festina lab run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Print the results as JSON; the text goes to standard error
    #[arg(long)]
    json: bool,
    /// Also write all recorded delays as samples.csv, which may take gigabytes
    #[arg(long)]
    samples: bool,
    #[command(flatten)]
    capture: CaptureArgs,
}

/// Which packets are written as captures.
#[derive(Debug, Args)]
#[group(id = "captures")]
pub(crate) struct CaptureArgs {
    /// Write the packets of one run into this folder, a pcapng file for each pair of neighbours in the network
    #[arg(long = "capture", value_name = "DIR")]
    #[cfg_attr(target_os = "linux", arg(conflicts_with = "real"))]
    folder: Option<PathBuf>,
    /// Only those of the link NAME and the one that leads back, such as sender>receiver
    #[arg(long = "capture-link", value_name = "NAME", requires = "folder")]
    link: Option<String>,
    /// The point of the sweep to capture, counted from 1 in the order of the tables; its first repetition is captured
    #[arg(long = "capture-point", value_name = "N", requires = "folder", default_value_t = 1)]
    #[arg(value_parser = args::positive_number)]
    point: u64,
}

/// The plan, its scale and the output folder.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The name of an experiment, or a plan in a file whose name ends in .toml
    #[arg(value_name = "NAME|FILE.toml")]
    plan: String,
    /// Run a small version that takes seconds
    #[arg(long)]
    quick: bool,
    /// Number of runs of each point, each with another seed
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(festina_lab::plan::REPETITIONS_MAX)))]
    seeds: Option<u32>,
    /// The folder for reports and finished runs
    #[arg(long, value_name = "DIR", default_value = "lab")]
    out: PathBuf,
    /// Number of threads; one per processor if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Measure with real sockets through an emulated network instead of simulating: thin-latency, the experiments on log lines, the tables of G02.
    /// Needs root
    #[cfg(target_os = "linux")]
    #[arg(long)]
    real: bool,
}

impl PlanArgs {
    fn scale(&self) -> Scale {
        if self.quick { Scale::Quick } else { Scale::Full }
    }

    /// What carries the packets.
    fn ground(&self) -> Ground {
        match () {
            #[cfg(target_os = "linux")]
            () if self.real => Ground::Kernel,
            () => Ground::Simulator,
        }
    }
}

/// What carries the packets of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    /// The laboratory's own.
    Simulator,
    /// Sockets of this machine, in real time.
    #[cfg(target_os = "linux")]
    Kernel,
}

impl Ground {
    fn experiments(self) -> &'static [&'static dyn Experiment] {
        match self {
            Self::Simulator => experiments::ALL,
            #[cfg(target_os = "linux")]
            Self::Kernel => real::ALL,
        }
    }

    /// The experiment of this name.
    fn named(self, name: &str) -> Result<&'static dyn Experiment, UsageError> {
        match self {
            Self::Simulator => named(name),
            #[cfg(target_os = "linux")]
            Self::Kernel => real::find(name).ok_or_else(|| {
                let known = real::names().join(", ");
                UsageError::new(format!(
                    "\"{name}\" cannot be run with --real; there are {known}, or a plan in a file FILE.toml"
                ))
            }),
        }
    }
}

/// Runs the part that must precede other threads.
pub(crate) fn without_threads(command: &LabCommand) -> Option<Result<()>> {
    match command {
        #[cfg(target_os = "linux")]
        LabCommand::Run(RunArgs { plan, .. }) | LabCommand::Check(plan) if plan.real => {
            festina_emulate::hosts::gain_privilege().err().map(|error| Err(error.into()))
        }
        _ => None,
    }
}

/// Runs a subcommand of `festina lab`.
pub(crate) fn run(command: LabCommand) -> Result<()> {
    let _warning = memory::watch();
    match command {
        LabCommand::List(arguments) => output::print(&listing::list(&arguments)),
        LabCommand::Show(arguments) => output::print(listing::show(&arguments)?.trim_end()),
        LabCommand::New(arguments) => new::run(&arguments),
        LabCommand::Run(arguments) => run_plan(&arguments),
        LabCommand::Submit(arguments) => submit::run(&arguments),
        LabCommand::Work(arguments) => work::run(&arguments),
        LabCommand::Status(arguments) => status::run(&arguments),
        LabCommand::View(arguments) => view::run(&arguments),
        LabCommand::Check(arguments) => check(&arguments),
        LabCommand::Ledger(arguments) => papers::ledger(&arguments),
        LabCommand::Readings(arguments) => papers::readings(&arguments),
        LabCommand::Prune(arguments) => prune(&arguments),
    }
}

/// The experiment of this name.
fn named(name: &str) -> Result<&'static dyn Experiment, UsageError> {
    experiments::find(name).ok_or_else(|| {
        let names = experiments::ALL.iter().map(|experiment| experiment.name());
        let advice = match args::most_similar(name, names) {
            Some(similar) => format!("did you mean {similar}?"),
            None => "a plan of your own is a file FILE.toml".to_owned(),
        };
        UsageError::new(format!("there is no experiment \"{name}\", festina lab list names them all; {advice}"))
    })
}

fn run_plan(arguments: &RunArgs) -> Result<()> {
    let job = Job::of(&arguments.plan)?;
    if let Some(folder) = &arguments.capture.folder {
        job.capture(folder, &arguments.capture)?;
    }
    let report = job.run()?;
    let report = if arguments.samples { report.with_samples() } else { report };
    publish(&job, &report, &arguments.plan.out, arguments.json)
}

/// Writes the report and the list of reports in `out`, prints the text or JSON, and fails if a check is broken.
fn publish(job: &Job, report: &Report<'_>, out: &Path, is_json: bool) -> Result<()> {
    let written = report.write(&job.folder, &job.options)?;
    if let Some(reason) = written.no_picture {
        output::notice(&format!("no PNG was written: {reason}"));
    }
    if written.samples == Some(0) {
        output::notice("samples.csv is empty: this experiment records no single delays; values.csv has its numbers");
    }
    if let Some(earlier) = written.replaced {
        let folder = output::name(&job.folder);
        output::notice(&format!("the report in {folder} replaces that of another plan of this name: {earlier}"));
    }
    let index = write_index(out)?;
    let page = job.folder.join("report.html");
    let end = format!("The report is {}; all runs are listed in {}.", output::name(&page), output::name(&index));
    let text = report.text();
    if is_json {
        output::notice(&format!("{text}\n\n{end}"));
        output::print(&report.json()?)?;
    } else {
        let text = match text.strip_suffix(&report.checks_text()) {
            Some(before) => before.to_owned() + &coloured_checks(report),
            None => text,
        };
        output::print(&format!("{text}\n\n{end}"))?;
    }
    judge(report)
}

/// The lines about the checks, each with its verdict in colour on a terminal.
fn coloured_checks(report: &Report<'_>) -> String {
    let lines = report.checks_text();
    let coloured = lines.lines().zip(report.checks()).map(|(line, check)| {
        let word = check.verdict.word();
        let rest = line.strip_prefix(word).unwrap_or(line);
        let verdict = match check.verdict {
            Verdict::Holds(_) => output::Verdict::Good,
            Verdict::Broken(_) => output::Verdict::Bad,
            Verdict::Undecided(_) | Verdict::Skipped(_) => output::Verdict::Doubtful,
        };
        output::coloured(word, verdict) + rest
    });
    coloured.collect::<Vec<_>>().join("\n")
}

fn check(arguments: &PlanArgs) -> Result<()> {
    let report = Job::of(arguments)?.run()?;
    output::print(&coloured_checks(&report))?;
    judge(&report)?;
    if report.is_hardly_tested() {
        let (all, tested) = report.tested();
        return Err(Untested { all, tested }.into());
    }
    Ok(())
}

fn prune(arguments: &PruneArgs) -> Result<()> {
    let folder = &arguments.out;
    let failed = || format!("cannot tidy up {}", folder.display());
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder).with_context(failed)? {
        let store = entry.with_context(failed)?.path().join(STORE);
        if store.is_dir() {
            let pruned = runner::prune(&store, runner::CODE_VERSION).with_context(failed)?;
            files += pruned.files;
            bytes += pruned.bytes;
        }
    }
    output::print(&format!("Finished runs removed: {files}, together {}", ByteCount::from_bytes(bytes)))
}

/// Fewer than nine tenths of the checks were tested.
#[derive(Debug)]
pub(crate) struct Untested {
    all: usize,
    tested: usize,
}

impl std::fmt::Display for Untested {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { all, tested } = self;
        write!(f, "{tested} of {all} checks were tested, too few to say that the shape holds")
    }
}

impl std::error::Error for Untested {}

/// A broken check is a failure.
fn judge(report: &Report<'_>) -> Result<()> {
    let broken = report.broken().count();
    match report.broken().next() {
        None => Ok(()),
        Some(first) if broken == 1 => bail!("a check is broken: {}", first.statement),
        Some(first) => bail!("{broken} checks are broken, the first: {}", first.statement),
    }
}
