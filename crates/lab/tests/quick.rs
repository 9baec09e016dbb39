//! Every experiment at quick scale: what the publication says in words holds.

use std::fs;
use std::path::PathBuf;

use festina_lab::experiment::{Experiment, Verdict};
use festina_lab::experiments;
use festina_lab::plan::{Plan, Scale};
use festina_lab::report::Report;
use festina_lab::runner::{self, Outcome, RunOptions, Shard};
use festina_lab::summary::Results;

/// Requirements of Festina's own that it does not meet. The list only gets shorter.
const KNOWN_BROKEN: &[&str] = &[
    "bulk: At 50 Mbit/s, 40 ms and 0.1% loss, the goodput of festina is at least that of Linux's CUBIC.",
    "cost: festina at 0% loss: both ends together send at most 1.02 times the bytes of rfc9260, at every interval.",
    "cost: festina at 0% loss: both ends together send at most 1.05 times the packets of rfc9260, at every interval.",
    "cost: festina at 1% loss: both ends together send at most 2.1 times the bytes of rfc9260, at every interval.",
    "request-reply: festina at 0% loss, 30 Hz both ways: at most 1.15 packets of both ends per message.",
];

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
fn no_check_is_broken_at_quick_scale_but_those_that_are_known_to_be_and_all_figures_can_be_drawn() {
    let mut broken = Vec::new();
    let mut unexpected = Vec::new();
    for experiment in experiments::ALL {
        let results = results(*experiment);
        for check in experiment.checks(&results) {
            if let Verdict::Broken(seen) = &check.verdict {
                let name = format!("{}: {}", experiment.name(), check.statement);
                if !KNOWN_BROKEN.contains(&name.as_str()) {
                    unexpected.push(format!("{name} ({seen})"));
                }
                broken.push(name);
            }
        }
        Report::new(*experiment, results).unwrap_or_else(|error| panic!("{}: {error}", experiment.name()));
    }
    assert!(unexpected.is_empty(), "broken checks:\n{}", unexpected.join("\n"));
    let mended: Vec<_> = KNOWN_BROKEN.iter().filter(|known| broken.iter().all(|name| name != *known)).collect();
    assert!(mended.is_empty(), "no longer broken, so take them off the list: {mended:#?}");
}
