//! Every experiment at quick scale: what the publication says in words holds.

use std::fs;
use std::path::PathBuf;

use festina_lab::experiment::{Experiment, Verdict};
use festina_lab::experiments;
use festina_lab::plan::{Plan, Scale};
use festina_lab::report::Report;
use festina_lab::runner::{self, Outcome, RunOptions, Shard};
use festina_lab::summary::Results;

fn results(experiment: &dyn Experiment) -> Results {
    let store = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("quick-{}", experiment.name()));
    // What an earlier test left may be of other code.
    if store.exists() {
        fs::remove_dir_all(&store).expect("the folder for temporary files can be emptied");
    }
    let options = RunOptions { jobs: None, shard: Shard::WHOLE, store, code_version: "test".to_owned() };
    let plan = Plan::own(experiment, Scale::Quick);
    match runner::run(experiment, &plan, &options, &|_| {}).expect("the store can be used") {
        Outcome::Complete(results) => *results,
        Outcome::Partial { missing, .. } => panic!("{}: {missing} runs are missing", experiment.name()),
    }
}

#[test]
fn no_check_of_any_experiment_is_broken_at_quick_scale_and_its_figures_can_be_drawn() {
    let mut broken = Vec::new();
    for experiment in experiments::ALL {
        let results = results(*experiment);
        for check in experiment.checks(&results) {
            if let Verdict::Broken(seen) = &check.verdict {
                broken.push(format!("{}: {} ({seen})", experiment.name(), check.statement));
            }
        }
        Report::new(*experiment, results).unwrap_or_else(|error| panic!("{}: {error}", experiment.name()));
    }
    assert!(broken.is_empty(), "broken checks:\n{}", broken.join("\n"));
}
