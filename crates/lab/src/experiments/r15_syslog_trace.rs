//! `r15-syslog-trace`: log lines as R15 found them in an operational network, beside TCP flows (R15, Papers V and VII).

use super::r12;
use super::r15_syslog::{self, PR_SCTP, Scope, average, bars, syslog_senders};
use crate::assumption::{Assumption, chosen, stated};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Parameter, Point};
use crate::samples::Samples;
use crate::summary::{PointSummary, Results};

/// The length that Paper IV assumed.
const ASSUMED: &str = "250B";

/// What tells points with the same senders apart.
const CELLS: &[&str] = &["size", "load"];

/// Delay and loss of log lines with the statistics of real ones.
#[derive(Clone, Copy, Debug)]
pub struct R15SyslogTrace;

impl Experiment for R15SyslogTrace {
    fn description(&self) -> Description {
        Description {
            name: "r15-syslog-trace",
            title: "Log lines with the statistics of real ones beside TCP, by class and sender",
            reference: "Rajiullah et al. 2015, trace-based experiments (Paper V §3 and §4, Paper VII §5.3)",
            about: concat!(
                "Many machines' log lines cross one association: at random times (exponential gaps), of normally distributed length, 7.6% of them \
             important. Now and then there is a burst: more lines, and 5.3% of them are important, as Paper V found on the day of its highest \
             load. In the public summary the mean gap of its finest sample lacks a digit, and so does its inverse; 0.73 s and 1.36 lines a \
             second are the only matching pair. Then 600 such machines are the 30% load of lines of 90 bytes. They share a bottleneck of \
             10 Mbit/s, whose queue holds 73 KB, with four \
             greedy TCP flows (New Reno with SACK); the round-trip time without queues is 80 ms. The load is the lines' bytes outside bursts, as a \
             share of 2 Mbit/s. Length and load of both papers are not in the text, nor are the traces public.\n\n",
                syslog_senders!()
            ),
            plan: include_str!("../../../../experiments/r15-syslog-trace.toml"),
            question: "Which transport is best for log lines as real ones are, beside TCP flows?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        r15_syslog::parameters()
    }

    fn assumptions(&self) -> Vec<Assumption> {
        r15_syslog::assumptions(&[
            stated("size", "§6, Paper V: Paper IV assumed 250 bytes").of(&[ASSUMED]),
            chosen("size", "§6, Paper V: \"a far lower mean message size\" than 250 bytes; which is not recovered"),
            stated("sizes", "Paper V §3.1: normally distributed; the deviation, a third of the mean, is our choice")
                .of(&["normal"]),
            stated("important", "Paper V §3.3: 7.6% of all messages").of(&["7.6%"]),
            chosen("important", "Paper V found 7.6%"),
            stated("burst_important", "Paper V §3.3: 5.3% on the day of the highest load").of(&["5.3%"]),
            stated("burst_important", "Paper V §3.3: 2.9% on the day of the second highest load").of(&["2.9%"]),
            chosen(
                "exponential gaps",
                "Paper V §3.2 fits them with an error of at most 9.7%; each machine's rate is chosen, see above",
            )
            .beside_the_plan(),
        ])
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r15_syslog::run(point, seed)
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let is_of_trace =
            |summary: &PointSummary| summary.point().value("size").is_some_and(|it| it.to_string() != ASSUMED);
        let scope = Scope { results, names: CELLS, is_meant: &is_of_trace };
        let mut checks = vec![length_check(results)];
        checks.push(scope.nr_sack_gains());
        checks.extend(scope.nr_sack());
        checks.extend(scope.important_lines());
        checks.extend(scope.own());
        checks
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r15_syslog::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        bars(&Scope { results, names: CELLS, is_meant: &|_| true })
    }
}

/// What the length of lines does to PR-SCTP, the bytes being the same.
fn length_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for load in r12::values(results, "load") {
        for size in r12::values(results, "size").iter().filter(|size| *size != ASSUMED) {
            let at = |size: &str| {
                let settings = [("sender", PR_SCTP), ("size", size), ("load", load.as_str())];
                results.matching(&settings).find_map(average)
            };
            let ratio = at(size).zip(at(ASSUMED)).and_then(|(short, long)| Estimate::ratio(short, long));
            evidence.cell(format!("load {load}, {size} over {ASSUMED}: ratio"), ratio, Bound::MoreThan(1.0));
        }
    }
    evidence.check(
        "PR-SCTP's average delay is longer with short lines than with lines of 250 bytes, the bytes being the same.",
    ).id("short-lines")
}
