//! `r15-syslog-trace`: log lines as R15 found them in an operational network, beside TCP flows (R15, Papers V and VII).

use super::r12;
use super::r15_syslog::{self, PR_SCTP, Scope, average, bars};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
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
        definition::of(include_str!("../../../../experiments/r15-syslog-trace.toml")).description
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
