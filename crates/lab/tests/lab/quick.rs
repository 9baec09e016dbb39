//! Every experiment at quick scale: what our own requirements say holds, and what the papers say is as the list below has it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Once;

use festina_lab::experiment::{Experiment, Verdict};
use festina_lab::experiments;
use festina_lab::ledger::{self, Outcome};
use festina_lab::plan::{Plan, Point, Scale};
use festina_lab::report::Report;
use festina_lab::runner::{self, BEAT, RunOptions};
use festina_lab::samples::Samples;
use festina_lab::summary::Results;
use rayon::prelude::*;

use crate::scratch::Scratch;
use crate::seeds;

/// Requirements of Festina's own that it does not meet. The list gets longer only with a set-up that a paper states and that was not run before.
const KNOWN_BROKEN: &[&str] = &[
    // At the 250 ms of P06 it finds 0.87 of them if bursts last 2 s.
    "p10-fig1: Festina's analysis finds the losses of all streams of Linux's TCP together within a twentieth.",
];

/// Statements of papers that our runs contradict. Each change of the list is a finding: look into it before you change it.
const CONTRADICTED: &[&str] = &[
    "fairness-crowd: less-than-early-retransmit",
    "fairness-crowd: less-than-limited-transmit",
    "p06-table2: bundling-rto",
    "p06-table2: steadier-rto",
    "p10-fig4: follows-losses",
    "p10-fig4: mostly-too-long",
    "p10-fig8a: better-than-tcp",
    "p10-fig8a: costs-little",
    "p10-fig8a: gap",
    "p10-fig8a: lksctp-third-mean",
    "p10-fig8a: tcp-maxima",
    "p10-fig8b: later-more",
    "p10-fig9: bundling-first",
    "p10-fig9: fewer-timeouts",
    "p10-fig9: lksctp-bundled-spurious",
    "p10-fig9: lksctp-first-20",
    "p10-fig9: lksctp-second-75",
    "p10-fig9: rtt-later",
    "p10-fig9: rtt-more-fast",
    "p10-fig9: timeouts-second",
    "p10-fig10: lower-rtt",
    "p10-fig13: timer-fix",
    "r12-sequences: fig6-gain",
    "r15-classes: Fewer kinds make as many clusters, too.",
    "r15-classes: Each cluster has flows of one kind: the adjusted Rand index is above 0.9.",
    "r15-syslog-congestion: not-clearly",
    "r15-tail-loss: SCTP: tlpr is the fastest of rfc9260, rto-restart, tlp and itself in almost all cases, 90% (recovery). (the timer of the probe restarts)",
    "r15-tail-loss: tlpr-best",
    "g02-fig5: two-zero-follows-throughput",
    "g02-fig7: ecn-fewer-mice",
    "g02-fig10: ecn-min-buf-tails",
    "g02-fig10: ecn-tcp-tails",
];

/// Not judged here, since the few runs of quick scale decide them by their seeds: `TEST_SEEDS=0..20` prints how often each check is broken. Full
/// scale judges them.
const BY_LUCK: &[&str] = &[];

/// Run with `TEST_SEEDS=full` only: each takes more than two seconds of CPU time by `durations.csv` of the command.
const LONG: &[&str] = &[
    "first-message",
    "bulk",
    "p10-fig1",
    "p10-fig8a",
    "p10-fig8b",
    "p10-fig9",
    "p10-fig10",
    "p10-fig11",
    "p10-fig13",
    "p10-fig14",
    "r12-fig3",
    "r12-fig4",
    "r12-fig7",
    "r15-classes",
    "r15-slow-start",
    "r15-congestion",
    "r15-web",
    "r15-parking-lot",
    "r15-buffering",
    "r15-syslog-trace",
    "r15-syslog-congestion",
    "g02-table1",
    "g02-table2",
    "g02-table3",
    "g02-fig9",
    "g02-fig10",
];

fn is_run(experiment: &str) -> bool {
    seeds::is_full() || !LONG.contains(&experiment)
}

/// The results of an experiment at quick scale. A long one runs once, so that a panic is noticed, and has results without samples: its checks and
/// published numbers are the same and none is judged. `shift` gives all runs other seeds.
fn results(experiment: &'static dyn Experiment, shift: u64) -> Results {
    let store = Scratch::new(&format!("quick-{}-{shift}", experiment.name()));
    let options = RunOptions { jobs: Some(1), beat: BEAT, store: store.to_owned(), code_version: "test".to_owned() };
    let plan = Plan::own(experiment, Scale::Quick);
    let first = Once::new();
    let run = |point: &Point, seed: u64| {
        if is_run(experiment.name()) {
            return Ok(experiment.run(point, seed.wrapping_add(shift)));
        }
        first.call_once(|| drop(experiment.run(point, seed)));
        Ok(Samples::new())
    };
    runner::run_with(experiment, &plan, &options, &run, &|_| {}).expect("the store can be used")
}

/// The broken checks of an experiment, by their names in the lists and with the numbers seen. Draws its report, too.
fn broken(experiment: &'static dyn Experiment, results: &Results) -> Vec<(String, String)> {
    let report =
        Report::new(experiment, results.clone()).unwrap_or_else(|error| panic!("{}: {error}", experiment.name()));
    let broken = report.checks().iter().filter_map(|check| match &check.verdict {
        Verdict::Broken(seen) => {
            let name = if check.id.is_empty() { &check.statement } else { &check.id };
            Some((format!("{}: {name}", experiment.name()), seen.clone()))
        }
        _ => None,
    });
    broken.collect()
}

#[test]
fn the_broken_checks_at_quick_scale_are_those_that_are_known_to_be_and_the_ledger_names_every_check() {
    let known: Vec<&str> = KNOWN_BROKEN.iter().chain(CONTRADICTED).copied().collect();
    let experiment_of = |known: &str| known.split(": ").next().unwrap_or_default().to_owned();
    let named = known.iter().map(|known| experiment_of(known)).chain(LONG.iter().map(|name| (*name).to_owned()));
    let unknown: Vec<String> = named.filter(|name| experiments::find(name).is_none()).collect();
    assert!(unknown.is_empty(), "no such experiments: {unknown:#?}");

    let mut all_broken: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let shifts: Range<u64> = seeds::extent(0..1, 0..1);
    let mut all = Vec::new();
    for shift in shifts.clone() {
        let judged = |experiment: &&'static dyn Experiment| {
            let results = results(*experiment, shift);
            let broken = if is_run(experiment.name()) { broken(*experiment, &results) } else { Vec::new() };
            (results, broken)
        };
        let (results, found): (Vec<Results>, Vec<_>) = experiments::ALL.par_iter().with_max_len(1).map(judged).unzip();
        found.into_iter().flatten().for_each(|(name, seen)| all_broken.entry(name).or_default().push(seen));
        all = results;
    }
    let rounds = shifts.end - shifts.start;
    let shares: BTreeMap<&str, usize> = all_broken.iter().map(|(name, seen)| (name.as_str(), seen.len())).collect();
    println!("broken, of {rounds}: {shares:#?}");
    let is_judged = |name: &str| !BY_LUCK.contains(&name);
    let unexpected: Vec<_> =
        all_broken.iter().filter(|(name, _)| is_judged(name) && !known.contains(&name.as_str())).collect();
    assert!(unexpected.is_empty(), "broken checks: {unexpected:#?}");
    let is_mended = |known: &&&str| {
        let times = shares.get(**known).map_or(0, |&times| times as u64);
        is_judged(known) && is_run(&experiment_of(known)) && times < rounds
    };
    let mended: Vec<_> = known.iter().filter(is_mended).collect();
    assert!(mended.is_empty(), "no longer broken, so take them off the list: {mended:#?}");

    let of_ledger = |experiment: &dyn Experiment| ledger::experiments().iter().any(|it| it.name() == experiment.name());
    let outcomes = experiments::ALL.iter().zip(&all).filter(|(experiment, _)| of_ledger(**experiment));
    let outcomes = outcomes.map(|(experiment, results)| Outcome {
        experiment: experiment.name(),
        extent: "quick".to_owned(),
        probe: String::new(),
        checks: experiment.all_checks(results),
        scoreboard: experiment.scoreboard(results),
    });
    let complaints = ledger::complaints(&outcomes.collect::<Vec<_>>());
    assert!(complaints.is_empty(), "{complaints:#?}");
}
