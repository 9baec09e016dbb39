//! The checks of the papers' experiments notice a wrong model: with a doubled or too low RTO, without fast retransmission, with the senders
//! mistaken for each other, or with one that repeats everything, a check that holds otherwise is broken or undecided.

use std::collections::BTreeMap;
use std::ops::Range;

use festina_lab::experiment::{Check, Verdict};
use festina_lab::experiments;
use festina_lab::plan::{PlanFile, Scale};
use festina_lab::runner::{self, BEAT, RunOptions};
use festina_lab::scenario::Fault;
use rayon::prelude::*;

use crate::scratch::Scratch;
use crate::seeds;

/// Experiments, and what makes their plans as small as still shows a fault.
const EXPERIMENTS: [(&str, &str); 20] = [
    ("p06-table2", "repetitions = 4"),
    ("p06-table3", "repetitions = 4"),
    ("p10-table1", "repetitions = 3\nparameters.packets = 500"),
    (
        "p10-fig1",
        "repetitions = 3\nparameters.stack = \"linux\"\nparameters.burst = \"0s\"\nparameters.loss = \"1%\"\nparameters.players = 10",
    ),
    ("p10-fig4", "repetitions = 4"),
    ("p10-fig8a", "repetitions = 4"),
    (
        "p10-fig8b",
        "repetitions = 4\nparameters.group = [\"lksctp\", \"all-mods\"]\nparameters.clients = 130\nparameters.streams = 150\n\
         parameters.duration = \"8s\"",
    ),
    ("p10-fig9", "repetitions = 3\nparameters.rtt = \"100ms\"\nparameters.duration = \"1m\""),
    (
        "p10-fig10",
        "repetitions = 6\nparameters.group = [\"lksctp\", \"all-mods\"]\nparameters.rtt = \"100ms\"\n\
         parameters.interval = [\"50ms\", \"250ms\"]\nparameters.streams = 100\nparameters.duration = \"20s\"",
    ),
    (
        "p10-fig11",
        "repetitions = 8\nparameters.rate = [\"500kbit/s\", \"100kbit/s\"]\nparameters.interval = \"2s\"\nparameters.duration = \"2m\"",
    ),
    ("p10-fig12", "repetitions = 12\nparameters.rate = [\"100kbit/s\", \"400kbit/s\"]\nparameters.duration = \"2m\""),
    // High loss, so that few players show the effect of the paper's traffic of twelve hours.
    (
        "p10-fig13",
        "repetitions = 6\nparameters.players = 20\nparameters.duration = \"5m\"\nparameters.loss = \"1%\"\n\
         parameters.loss_in_burst = \"100%\"\nparameters.burst = \"50ms\"",
    ),
    ("r15-classes", "repetitions = 3\nparameters.kinds = [6, 2]\nparameters.flows = 6"),
    ("r15-slow-start", "repetitions = 3\nparameters.rate = \"10Gbit/s\"\nparameters.transfers = 10"),
    ("r15-tail-loss", "repetitions = 1"),
    (
        "r15-congestion",
        "repetitions = 5\nparameters.sender = [\"tcp-standard\", \"tcp-tlpr\", \"tcp-rack\", \"rfc9260\", \"festina\"]\n\
         parameters.interval = \"20ms\"\nparameters.duration = \"20s\"",
    ),
    (
        "r15-web",
        "repetitions = 6\nparameters.sender = [\"tcp-standard\", \"tcp-tlpr\", \"tcp-rack\", \"rfc9260\", \"rack\", \"festina\"]\n\
         parameters.pages = 30",
    ),
    ("r15-syslog-loss", "repetitions = 4\nparameters.loss = [\"2%\", \"5%\"]"),
    ("r15-syslog-trace", "repetitions = 3"),
    ("r15-syslog-congestion", "repetitions = 3"),
];

/// Those that run without `TEST_SEEDS=full`: a quick one of each kind.
const SHORT: [&str; 5] = ["p06-table3", "p10-table1", "p10-fig4", "r15-tail-loss", "r15-syslog-loss"];

/// The checks of an experiment with a model that has a fault.
fn checks(seed: u64, name: &str, model: &str, settings: &str, fault: &str) -> Vec<Check> {
    let experiment = experiments::find(name).expect("the experiment is there");
    let text = format!("experiment = \"{name}\"\nseed = {seed}\n[quick]\nparameters.fault = \"{fault}\"\n{settings}\n");
    let plan = PlanFile::parse("wrong.toml", &text).and_then(|file| file.plan(experiment, Scale::Quick));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let store = Scratch::new(&format!("wrong-{seed}-{name}-{model}"));
    let options = RunOptions { jobs: Some(1), beat: BEAT, store: store.to_owned(), code_version: "test".to_owned() };
    let results = runner::run(experiment, &plan, &options, &|_| {}).expect("the store can be used");
    experiment.checks(&results)
}

/// The wrong models of an experiment: a name, the fault, and further settings.
fn wrong_models(name: &str) -> [(&'static str, &'static str, &'static str); 3] {
    let fault = |name: &'static str| (name, name, "");
    let [doubled, unprompted, swapped, repeated, low] =
        ["rto-doubled", "no-fast-retransmit", "swapped", "repeated", "rto-low"].map(fault);
    match name {
        // These read captures: the fault is in the capture or in its sender.
        "p10-table1" => ["missing-packets", "coarse-clock", "swapped"].map(fault),
        "p10-fig1" => ["missing-packets", "drift", "one-way"].map(fault),
        "r15-classes" => ["no-times", "blurred", "alike"].map(fault),
        "r15-slow-start" => ["other-window", "lossy", "missing-packets"].map(fault),
        // UDP and PR-SCTP, and TCP and NR-SACK, are mistaken for each other.
        "r15-syslog-loss" | "r15-syslog-trace" | "r15-syslog-congestion" => {
            ["swapped", "classes-swapped", "lossless"].map(fault)
        }
        // Its checks compare RTOs, so that one that is too long or too short everywhere is not noticed.
        "p10-fig4" => [
            ("round trips of two seconds", "none", "parameters.rtt = \"2s\""),
            swapped,
            ("hardly delayed SACKs", "none", "parameters.sack_delay = [\"20ms\", \"0s\"]"),
        ],
        // At four messages a second the modified kernel is the earlier one without fast retransmission, too.
        "p10-fig8b" => [doubled, swapped, repeated],
        // As fig8b. A sender that repeats everything has few delays.
        "p10-fig10" => [doubled, swapped, low],
        // These say that a stream takes no more than its share, which a slow timer does not change.
        "p10-fig11" | "p10-fig12" => [unprompted, swapped, repeated],
        // At 1.58 messages a second few losses are reported in time.
        "p10-fig13" => [doubled, swapped, low],
        // A long RTO makes all that R15 proposes gain more. Behind a queue the variance of round trips decides, not RTO.Min.
        "r15-congestion" => [unprompted, swapped, ("round trips of two seconds", "none", "parameters.rtt = \"2s\"")],
        "r15-web" => [unprompted, swapped, low],
        _ => [doubled, unprompted, swapped],
    }
}

/// Short by default; `TEST_SEEDS=1..21` runs it with each of these seeds of the plans.
#[test]
fn no_wrong_model_passes_the_checks_that_the_right_one_passes() {
    let seeds: Range<u64> = seeds::extent(1..2, 1..2);
    let complaints: Vec<String> = seeds.flat_map(unnoticed).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// The wrong models that no check notices with this seed.
fn unnoticed(seed: u64) -> Vec<String> {
    let runs: Vec<_> = EXPERIMENTS
        .into_iter()
        .filter(|(name, _)| seeds::is_full() || SHORT.contains(name))
        .flat_map(|(name, settings)| {
            let models = [("right", Fault::NAMES[0], "")].into_iter().chain(wrong_models(name));
            models.map(move |(model, fault, more)| (name, model, fault, format!("{settings}\n{more}")))
        })
        .collect();
    let outcomes: Vec<Vec<Check>> = runs
        .par_iter()
        .with_max_len(1)
        .map(|(name, model, fault, settings)| checks(seed, name, model, settings, fault))
        .collect();
    let mut unnoticed = Vec::new();
    for (runs, outcomes) in runs.chunks(4).zip(outcomes.chunks(4)) {
        let held: Vec<&str> = outcomes[0]
            .iter()
            .filter(|it| matches!(it.verdict, Verdict::Holds(_)))
            .map(|it| it.statement.as_str())
            .collect();
        if held.is_empty() {
            unnoticed.push(format!("seed {seed}, {}: no check holds with the right model", runs[0].0));
            continue;
        }
        for ((name, wrong_name, ..), wrong) in runs.iter().zip(outcomes).skip(1) {
            let mut noticed: BTreeMap<&str, usize> = BTreeMap::new();
            for check in wrong.iter().filter(|check| held.contains(&check.statement.as_str())) {
                *noticed.entry(check.verdict.word()).or_default() += 1;
            }
            println!("seed {seed}, {name} {wrong_name}: of {} that held {noticed:?}", held.len());
            if !["broken", "undecided"].iter().any(|word| noticed.contains_key(word)) {
                unnoticed.push(format!("seed {seed}: no check notices {name} with {wrong_name}"));
            }
        }
    }
    unnoticed
}
