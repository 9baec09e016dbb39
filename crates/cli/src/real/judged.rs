//! For tests: the verdicts of an experiment on invented numbers.

use std::path::PathBuf;

use festina_lab::experiment::{Check, Experiment};
use festina_lab::plan::{PlanFile, Point, Scale};
use festina_lab::runner::{self, BEAT, MeasureError, RunOptions};
use festina_lab::samples::Samples;

/// The checks of an experiment on a plan whose points measure these samples. The name is that of the test.
pub(super) fn checks_of(
    test: &str,
    experiment: &dyn Experiment,
    plan: &str,
    measure: impl Fn(&Point, u64) -> Samples + Sync,
) -> Vec<Check> {
    let store: PathBuf = std::env::temp_dir().join(format!("festina-real-{}-{test}", std::process::id()));
    let options = RunOptions { jobs: Some(1), beat: BEAT, store: store.clone(), code_version: "1".to_owned() };
    let plan = PlanFile::parse("one.toml", plan).and_then(|file| file.plan(experiment, Scale::Full));
    let plan = plan.expect("it makes sense");
    let measure = |point: &Point, seed: u64| Ok::<_, MeasureError>(measure(point, seed));
    let results = runner::run_with(experiment, &plan, &options, &measure, &|_| {}).expect("nothing fails");
    std::fs::remove_dir_all(store).expect("it is ours");
    experiment.checks(&results)
}

/// The verdicts in words.
pub(super) fn words(checks: &[Check]) -> Vec<&'static str> {
    checks.iter().map(|check| check.verdict.word()).collect()
}
