//! Every experiment at quick scale: what our own requirements say holds, and what the papers say is as the list below has it.

mod scratch;

use festina_lab::experiment::{Experiment, Verdict};
use festina_lab::experiments;
use festina_lab::ledger::{self, Outcome as Ran};
use festina_lab::plan::{Plan, Scale};
use festina_lab::report::Report;
use festina_lab::runner::{self, Outcome, RunOptions, Shard};
use rayon::prelude::*;
use scratch::Scratch;

/// Requirements of Festina's own that it does not meet. The list gets longer only with a set-up that a paper states and that was not run before.
const KNOWN_BROKEN: &[&str] = &[
    // At the 250 ms of P06 it finds 0.87 of them if bursts last 2 s.
    "p10-fig1: Festina's analysis finds the losses of all streams of Linux's TCP together within a twentieth.",
];

/// Statements of papers that our runs contradict. Each change of the list is a finding: look into it before you change it.
const CONTRADICTED: &[&str] = &[
    "fairness-crowd: less-than-early-retransmit",
    "p06-table2: fast-rare",
    "p06-table3: each-step-both",
    "p06-table3: fast-explodes",
    "p06-table3: restart-adds",
    "p06-table3: timeouts-remain",
    "p10-fig4: greatly-reduced",
    "p10-fig4: follows-losses",
    "p10-fig8a: better-than-tcp",
    "p10-fig8a: costs-little",
    "p10-fig8a: gap",
    "p10-fig8a: tcp-maxima",
    "p10-fig8b: later-more",
    "p10-fig9: bundling-first",
    "p10-fig9: fewer-timeouts",
    "p10-fig9: lksctp-bundled-spurious",
    "p10-fig9: rtt-later",
    "p10-fig9: rtt-more-fast",
    "p10-fig9: timeouts-second",
    "r12-sequences: fig6-gain",
    "r12-sequences: reliable-faster",
    "r15-classes: Fewer kinds make as many clusters, too.",
    "r15-classes: Each cluster has flows of one kind: the adjusted Rand index is above 0.9.",
    "r15-syslog-congestion: not-clearly",
    "r15-tail-loss: TCP: tcp-tlpr is the fastest of tcp-standard, tcp-rtor, tcp-tlp and itself in almost all cases, 90% (recovery).",
    "r15-tail-loss: SCTP: tlpr is the fastest of rfc9260, rto-restart, tlp and itself in almost all cases, 90% (recovery).",
    "g02-fig10: ecn-min-buf-tails",
    "g02-fig10: ecn-tcp-tails",
];

/// Runs, judges and draws an experiment.
fn report(experiment: &'static dyn Experiment) -> Report<'static> {
    let store = Scratch::new(&format!("quick-{}", experiment.name()));
    let options =
        RunOptions { jobs: Some(1), shard: Shard::WHOLE, store: store.to_owned(), code_version: "test".to_owned() };
    let plan = Plan::own(experiment, Scale::Quick);
    let results = match runner::run(experiment, &plan, &options, &|_| {}).expect("the store can be used") {
        Outcome::Complete(results) => *results,
        Outcome::Partial { missing, .. } => panic!("{}: {missing} runs are missing", experiment.name()),
    };
    Report::new(experiment, results).unwrap_or_else(|error| panic!("{}: {error}", experiment.name()))
}

#[test]
fn the_broken_checks_at_quick_scale_are_those_that_are_known_to_be_and_the_ledger_names_every_check() {
    let mut broken = Vec::new();
    let mut unexpected = Vec::new();
    let mut ran = Vec::new();
    let reports: Vec<_> = experiments::ALL.par_iter().with_max_len(1).map(|experiment| report(*experiment)).collect();
    for (experiment, report) in experiments::ALL.iter().zip(&reports) {
        for check in report.checks() {
            if let Verdict::Broken(seen) = &check.verdict {
                let name = if check.id.is_empty() { &check.statement } else { &check.id };
                let name = format!("{}: {name}", experiment.name());
                if !KNOWN_BROKEN.iter().chain(CONTRADICTED).any(|known| name == *known) {
                    unexpected.push(format!("{name} ({seen})"));
                }
                broken.push(name);
            }
        }
        if ledger::experiments().iter().any(|it| it.name() == experiment.name()) {
            let (checks, scoreboard) = (report.checks().to_vec(), report.scoreboard().to_vec());
            ran.push(Ran { experiment: experiment.name(), extent: "quick".to_owned(), checks, scoreboard });
        }
    }
    assert!(unexpected.is_empty(), "broken checks:\n{}", unexpected.join("\n"));
    let mended: Vec<_> =
        KNOWN_BROKEN.iter().chain(CONTRADICTED).filter(|known| broken.iter().all(|name| name != *known)).collect();
    assert!(mended.is_empty(), "no longer broken, so take them off the list: {mended:#?}");
    let complaints = ledger::complaints(&ran);
    assert!(complaints.is_empty(), "{complaints:#?}");
}
