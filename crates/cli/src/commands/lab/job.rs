//! A plan that makes sense, and its folder.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use festina_lab::capture::{CaptureError, PACKETS_MAX};
use festina_lab::experiment::Experiment;
#[cfg(target_os = "linux")]
use festina_lab::plan::Point;
use festina_lab::plan::{Plan, PlanFile, Scale, is_printable};
use festina_lab::report::{INDEX, Report};
use festina_lab::runner::{self, BEAT, Progress, RunOptions};

use super::progress::Shown;
use super::{CaptureArgs, Ground, PlanArgs, STORE, memory};
use crate::output;
#[cfg(target_os = "linux")]
use crate::real;
use crate::usage::UsageError;

/// A plan that makes sense, ready to run.
pub(super) struct Job {
    pub(super) ground: Ground,
    pub(super) experiment: &'static dyn Experiment,
    pub(super) plan: Plan,
    /// What files and folders are named after.
    pub(super) name: String,
    /// What to type to get the same results; where they go and how many threads run changes nothing.
    pub(super) command: String,
    /// Where the report goes.
    pub(super) folder: PathBuf,
    pub(super) options: RunOptions,
}

impl Job {
    /// The job that the command line asks for.
    pub(super) fn of(arguments: &PlanArgs) -> Result<Self> {
        let ground = arguments.ground();
        let text = &arguments.plan;
        let (experiment, plan, name) = match PlanText::read(text)? {
            Some(file) => file.plan(arguments.scale(), ground)?,
            None => {
                let experiment = ground.named(text)?;
                // On other ground one experiment may go by several names.
                (experiment, Plan::own(experiment, arguments.scale()), experiment.name().to_owned())
            }
        };
        let (quick, seeds, jobs) = (arguments.quick, arguments.seeds, arguments.jobs);
        let named = Named { ground, experiment, name, typed: text, quick, seeds };
        named.job(plan, |name| arguments.out.join(name), jobs)
    }

    /// Writes the packets of one run.
    pub(super) fn capture(&self, folder: &Path, arguments: &CaptureArgs) -> Result<()> {
        let points = self.plan.points();
        let point = usize::try_from(arguments.point).ok().and_then(|number| points.get(number - 1));
        let Some(point) = point else {
            let (number, count) = (arguments.point, points.len());
            let problem = format!("there is no point {number} to capture; the plan has {count}, counted from 1");
            return Err(UsageError::new(problem).into());
        };
        let Some(capture) = self.experiment.capture(point, self.plan.repetition_seed(0)) else {
            let name = self.experiment.name();
            return Err(UsageError::new(format!("the experiment {name} has no packets to capture")).into());
        };
        let stem = format!("{}-point{}", self.name, arguments.point);
        let written = capture.write(folder, &stem, arguments.link.as_deref()).map_err(|error| match error {
            CaptureError::UnknownLink { .. } => UsageError::new(error.to_string()).into(),
            _ => anyhow::Error::from(error),
        })?;
        for path in written {
            output::notice(&format!("The packets of {} are in {}.", self.plan.label(point), path.display()));
        }
        match capture.beyond_max() {
            0 => {}
            left => output::notice(&format!("Only the first {PACKETS_MAX} packets are captured, {left} are not.")),
        }
        Ok(())
    }

    /// Runs the plan, together with other processes that do.
    pub(super) fn run(&self) -> Result<Report<'static>> {
        memory::announce(self.experiment, &self.plan, self.options.jobs);
        let shown = Shown::new(self.experiment.name(), self.options.store.clone());
        let told = |progress: Progress| shown.set(progress);
        let results = match self.ground {
            Ground::Simulator => runner::run(self.experiment, &self.plan, &self.options, &told),
            #[cfg(target_os = "linux")]
            Ground::Kernel => {
                let measure = |point: &Point, seed| real::measure(self.experiment, point, seed).map_err(Into::into);
                runner::run_with(self.experiment, &self.plan, &self.options, &measure, &told)
            }
        };
        drop(shown);
        Ok(Report::new(self.experiment, results?)?.with_command(self.command.clone()))
    }
}

/// An experiment at a scale that the command line names.
pub(super) struct Named<'n> {
    pub(super) ground: Ground,
    pub(super) experiment: &'static dyn Experiment,
    /// The name of the experiment or of the file.
    pub(super) name: String,
    /// The plan as it was typed.
    pub(super) typed: &'n str,
    pub(super) quick: bool,
    pub(super) seeds: Option<u32>,
}

impl Named<'_> {
    /// The job in the folder that `folder` returns for its name.
    pub(super) fn job(self, mut plan: Plan, folder: impl FnOnce(&str) -> PathBuf, jobs: Option<u16>) -> Result<Job> {
        let Self { ground, experiment, mut name, typed, quick, seeds } = self;
        if let Some(seeds) = seeds {
            let possible = plan.set_repetitions(seeds);
            if possible < seeds {
                let problem = format!("with {seeds} seeds the plan has too many runs; at most {possible} are possible");
                return Err(UsageError::new(problem).into());
            }
        }
        let mut command = format!("festina lab run {typed}");
        for (is_asked_for, word) in [(ground != Ground::Simulator, "real"), (quick, "quick")] {
            if is_asked_for {
                name += &format!("-{word}");
                command += &format!(" --{word}");
            }
        }
        if let Some(seeds) = seeds {
            let _ = write!(command, " --seeds {seeds}");
        }
        let folder = folder(&name);
        let options = RunOptions {
            jobs: jobs.map(usize::from),
            beat: BEAT,
            store: folder.join(STORE),
            code_version: runner::CODE_VERSION.to_owned(),
        };
        Ok(Job { ground, experiment, plan, name, command, folder, options })
    }
}

/// The most bytes of a plan.
const PLAN_BYTES_MAX: u64 = 1 << 20;

/// The text of a plan file.
pub(super) struct PlanText {
    /// The file, by which errors name it and relative to which it names others.
    pub(super) path: String,
    pub(super) text: String,
}

impl PlanText {
    /// Reads the file of this name, unless it is the name of an experiment.
    pub(super) fn read(typed: &str) -> Result<Option<Self>, UsageError> {
        if Path::new(typed).extension().is_none_or(|extension| extension != "toml") {
            return Ok(None);
        }
        let unreadable = |error| UsageError::new(format!("cannot read the plan {typed}: {error}"));
        let mut text = String::new();
        let file = std::fs::File::open(typed).map_err(unreadable)?;
        file.take(PLAN_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > PLAN_BYTES_MAX {
            return Err(UsageError::new(format!("the plan {typed} has more than {PLAN_BYTES_MAX} bytes")));
        }
        Ok(Some(Self { path: typed.to_owned(), text }))
    }

    /// The experiment, the plan, and a name for the folder of the report.
    pub(super) fn plan(
        &self,
        scale: Scale,
        ground: Ground,
    ) -> Result<(&'static dyn Experiment, Plan, String), UsageError> {
        let refused = |error: festina_lab::plan::PlanError| UsageError::new(error.to_string());
        let file = PlanFile::parse(&self.path, &self.text).map_err(refused)?;
        let experiment = file.experiment(ground.experiments()).map_err(refused)?;
        let plan = file.plan(experiment, scale).map_err(refused)?;
        Ok((experiment, plan, self.name()?))
    }

    /// The file's name without its ending, after which a folder can be named.
    fn name(&self) -> Result<String, UsageError> {
        let name = Path::new(&self.path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_path = !matches!(Path::new(&name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
        if is_path || !is_printable(&name) || name == INDEX {
            let file = output::name(Path::new(&self.path));
            let problem = format!("the plan {file} has a name that the folder of its report cannot have; rename it");
            return Err(UsageError::new(problem));
        }
        Ok(name)
    }
}
