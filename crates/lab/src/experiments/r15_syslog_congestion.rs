//! `r15-syslog-congestion`: log lines beside TCP flows, through one bottleneck and through several in a row (R15, Papers VI and VII).

use super::r15_syslog::{self, NR_SACK, PR_SCTP, SCTP, Scope, TCP, bars};
use crate::evidence::Bound;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::Results;

/// "Clearly": by more than this share of the other's average delay. The bound is ours.
const CLEARLY: f64 = 0.1;

/// What tells points with the same senders apart.
const CELLS: &[&str] = &["size", "important", "hops"];

/// Delay and loss of log lines with competing traffic.
#[derive(Clone, Copy, Debug)]
pub struct R15SyslogCongestion;

impl Experiment for R15SyslogCongestion {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r15-syslog-congestion.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r15_syslog::run(point, seed)
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let scope = Scope { results, names: CELLS, is_meant: &|_| true };
        let statement = "PR-SCTP's average delay is not clearly shorter than TCP's: by less than a tenth.";
        let mut checks =
            vec![scope.average([PR_SCTP, TCP], Bound::MoreThan(1.0 - CLEARLY), statement).id("not-clearly")];
        let statement = "PR-SCTP with NR-SACK has a shorter average delay than PR-SCTP without, in general: in the mean over all cells.";
        checks.push(scope.shorter_in_general([NR_SACK, PR_SCTP], statement).id("nr-sack-pr-sctp"));
        for (than, id) in [(TCP, "nr-sack-tcp"), (SCTP, "nr-sack-sctp")] {
            let statement =
                format!("PR-SCTP with NR-SACK has a shorter average delay than {than}, in the mean over all cells.");
            checks.push(scope.shorter_in_general([NR_SACK, than], &statement).id(id));
        }
        // No id: reliable lines of one sender and unreliable ones of another could not differ otherwise.
        checks.extend(scope.important_lines().map(|check| check.id("")));
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
