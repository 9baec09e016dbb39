//! A plan in a shared folder, as it was submitted: later changes of the plan's file do not matter to processes that work on it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use festina_lab::plan::{Plan, Scale};
use festina_lab::runner;
use serde::{Deserialize, Serialize};

use super::job::{Job, Named, PlanText};
use super::{Ground, PlanArgs, named};
use crate::output;
use crate::usage::UsageError;

/// The file within the folder of the report.
const FILE: &str = "sweep.json";
/// Longer files are refused.
const BYTES_MAX: u64 = 16 << 20;
/// Files of another form are refused.
const FORM: u32 = 1;

/// The file's content.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    form: u32,
    /// The name of an experiment or of a plan's file, as it was typed.
    plan: String,
    /// The plan's file, if it is one.
    file: Option<SweepFile>,
    quick: bool,
    seeds: Option<u32>,
    /// The version of the code that is to run it.
    code: String,
    /// The digest of all runs.
    digest: String,
}

/// A plan's file when it was submitted.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    /// Relative to its folder the plan names captures and traces.
    path: String,
    text: String,
}

/// Puts the plan into its folder, unless another one is there, and returns the job.
pub(super) fn submit(arguments: &PlanArgs, is_dry_run: bool) -> Result<Job> {
    if arguments.ground() != Ground::Simulator {
        let problem = "--real measures this machine, one run at a time; it cannot be submitted";
        return Err(UsageError::new(problem).into());
    }
    let job = Job::of(arguments)?;
    let folder = absolute(&job.folder)?;
    let sweep = Sweep {
        form: FORM,
        plan: arguments.plan.clone(),
        file: PlanText::read(&arguments.plan)?.map(|file| file_of(&file)).transpose()?,
        quick: arguments.quick,
        seeds: arguments.seeds,
        code: runner::CODE_VERSION.to_owned(),
        digest: runner::digest(job.experiment, &job.plan),
    };
    let path = folder.join(FILE);
    if path.exists() {
        let there = read(&path)?;
        if there.digest != sweep.digest {
            let problem = format!(
                "another plan was submitted to {}; choose another --out, or remove {} once no process works on it",
                output::name(&job.folder),
                output::name(&path)
            );
            return Err(UsageError::new(problem).into());
        }
    }
    if !is_dry_run {
        write(&path, &sweep).with_context(|| format!("cannot write {}", output::name(&path)))?;
    }
    let options = runner::RunOptions { store: folder.join(super::STORE), ..job.options };
    Ok(Job { folder, options, ..job })
}

/// The job of the plan that was submitted to `folder`.
pub(super) fn open(folder: &Path, jobs: Option<u16>) -> Result<Job> {
    let sweep = read(&folder.join(FILE))?;
    let shown = output::name(folder);
    if sweep.code != runner::CODE_VERSION {
        let problem = format!(
            "the plan in {shown} was submitted with code {}, and this command has code {}; use one build on all machines, or submit the plan again",
            sweep.code.escape_default(),
            runner::CODE_VERSION
        );
        return Err(UsageError::new(problem).into());
    }
    let scale = if sweep.quick { Scale::Quick } else { Scale::Full };
    let ground = Ground::Simulator;
    let (experiment, plan, name) = match &sweep.file {
        Some(SweepFile { path, text }) => PlanText { path: path.clone(), text: text.clone() }.plan(scale, ground)?,
        None => {
            let experiment = named(&sweep.plan)?;
            (experiment, Plan::own(experiment, scale), experiment.name().to_owned())
        }
    };
    let (quick, seeds) = (sweep.quick, sweep.seeds);
    let named = Named { ground, experiment, name, typed: &sweep.plan, quick, seeds };
    let job = named.job(plan, |_| folder.to_owned(), jobs)?;
    if runner::digest(job.experiment, &job.plan) != sweep.digest {
        let problem = format!(
            "the plan in {shown} has other runs than when it was submitted: a capture or a trace that it names has changed; submit it again with another --out"
        );
        return Err(UsageError::new(problem).into());
    }
    Ok(job)
}

/// The path from the root. Processes may run in other folders than this one.
fn absolute(folder: &Path) -> Result<PathBuf> {
    std::path::absolute(folder).with_context(|| format!("cannot find {}", output::name(folder)))
}

fn file_of(file: &PlanText) -> Result<SweepFile> {
    let path = absolute(Path::new(&file.path))?;
    let Some(path) = path.to_str() else {
        return Err(UsageError::new(format!("{} is not in UTF-8; move the plan", output::name(&path))).into());
    };
    Ok(SweepFile { path: path.to_owned(), text: file.text.clone() })
}

fn read(path: &Path) -> Result<Sweep> {
    let shown = output::name(path);
    // A pipe would keep this process for ever.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(UsageError::new(format!("{shown} is no file; remove it and submit the plan again")).into());
    }
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let problem = format!("there is no {shown}; `festina lab submit` makes the folder that this command needs");
            return Err(UsageError::new(problem).into());
        }
        file => file.with_context(|| format!("cannot read {shown}"))?,
    };
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).with_context(|| format!("cannot read {shown}"))?;
    match serde_json::from_str::<Sweep>(&text) {
        Ok(sweep) if sweep.form == FORM => Ok(sweep),
        Ok(sweep) => {
            let problem = format!("{shown} has form {} of another version of this command, not {FORM}", sweep.form);
            Err(UsageError::new(problem).into())
        }
        Err(error) => {
            let problem = format!("{shown} is damaged: {error}; remove it and submit the plan again");
            Err(UsageError::new(problem).into())
        }
    }
}

/// Writes the file as a whole or not at all.
fn write(path: &Path, sweep: &Sweep) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
    let unfinished = path.with_extension(format!("json.{}", std::process::id()));
    let text = serde_json::to_string_pretty(sweep)? + "\n";
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&unfinished, path)) {
        // The first error is the one to report.
        let _ = fs::remove_file(&unfinished);
        return Err(error.into());
    }
    Ok(())
}
