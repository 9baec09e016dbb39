//! Every experiment at quick scale: what our own requirements say holds, and what the papers say is as the list below has it.

use std::fs;
use std::path::PathBuf;

use festina_lab::experiment::{Experiment, Verdict};
use festina_lab::experiments;
use festina_lab::ledger::{self, Outcome as Ran};
use festina_lab::plan::{Plan, Scale};
use festina_lab::report::Report;
use festina_lab::runner::{self, Outcome, RunOptions, Shard};
use festina_lab::summary::Results;

/// Requirements of Festina's own that it does not meet. The list only gets shorter.
const KNOWN_BROKEN: &[&str] = &[];

/// Statements of papers that our runs contradict. Each change of the list is a finding: look into it before you change it.
const CONTRADICTED: &[&str] = &[
    "p10-fig8a: TCP's maximum of the 1st and 2nd retransmission is lower than with all modifications.",
    "p10-fig8a: All modifications need slightly more bandwidth than lksctp: at most a retransmission more for ten messages.",
    "p10-fig8b: Relative to lksctp, the modifications improve later retransmissions more, on average over them.",
    "p10-fig8b: All modifications need slightly more bandwidth than lksctp: at most a retransmission more for ten messages.",
    "p10-fig9: All modifications: the share of timeouts among the first retransmissions is slightly lower than with lksctp: by at \
     most a quarter.",
    "p10-fig9: All modifications: bundling is the major cause of the first retransmission.",
    "p10-fig9: The longer the round-trip time, the later the first retransmissions in the mean.",
    "p10-fig13: The gain is mainly due to the fix of the timer's restart: more of it is lost without it than without the lower RTO.Min.",
    "r12-fig7: At 72 bytes, 30% load and 1% important messages, NR-SACK lowers their average delay by more than 75%.",
    "r12-sequences: Case 2: NR-SACK saves two round trips.",
    "r15-classes: Fewer kinds make as many clusters, too.",
    "r15-classes: Each cluster has flows of one kind: the adjusted Rand index is above 0.9.",
    "r15-syslog-congestion: PR-SCTP's average delay is not clearly shorter than TCP's: by less than a tenth.",
    "r15-tail-loss: TCP: tcp-tlpr is faster than tcp-standard, tcp-rtor, tcp-tlp in almost all cases, 90% (recovery).",
    "r15-tail-loss: TCP: tcp-tlpr-rtor is faster than tcp-standard, tcp-rtor, tcp-tlp in almost all cases, 90% (recovery).",
    "r15-tail-loss: SCTP: tlpr is faster than rfc9260, rto-restart, tlp in almost all cases, 90% (recovery).",
    "g02-table3: MIN_BUF(1,3) loses less than a tenth of TCP's throughput, and (2,0) has about the same.",
    "g02-fig10: With ECN a smaller share of standard TCP's packets arrives within 200 ms.",
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
fn the_broken_checks_at_quick_scale_are_those_that_are_known_to_be_and_the_ledger_names_every_check() {
    let mut broken = Vec::new();
    let mut unexpected = Vec::new();
    let mut ran = Vec::new();
    for experiment in experiments::ALL {
        let results = results(*experiment);
        let checks = experiment.checks(&results);
        for check in &checks {
            if let Verdict::Broken(seen) = &check.verdict {
                let name = format!("{}: {}", experiment.name(), check.statement);
                if !KNOWN_BROKEN.iter().chain(CONTRADICTED).any(|known| name == *known) {
                    unexpected.push(format!("{name} ({seen})"));
                }
                broken.push(name);
            }
        }
        let scoreboard = experiment.scoreboard(&results);
        if ledger::experiments().iter().any(|it| it.name() == experiment.name()) {
            ran.push(Ran { experiment: experiment.name(), extent: "quick".to_owned(), checks, scoreboard });
        }
        Report::new(*experiment, results).unwrap_or_else(|error| panic!("{}: {error}", experiment.name()));
    }
    assert!(unexpected.is_empty(), "broken checks:\n{}", unexpected.join("\n"));
    let mended: Vec<_> =
        KNOWN_BROKEN.iter().chain(CONTRADICTED).filter(|known| broken.iter().all(|name| name != *known)).collect();
    assert!(mended.is_empty(), "no longer broken, so take them off the list: {mended:#?}");
    let complaints = ledger::complaints(&ran);
    assert!(complaints.is_empty(), "{complaints:#?}");
}
