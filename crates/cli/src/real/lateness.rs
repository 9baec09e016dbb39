//! The emulator's error. A verdict that rests on a run with too large an error is undecided.

use festina_emulate::Lateness;
use festina_lab::evidence::{Bound, Estimate, Evidence, Judgement};
use festina_lab::experiment::{Check, Verdict};
use festina_lab::samples::Samples;
use festina_lab::summary::{PointSummary, Repeated};

use super::hosts::milliseconds;

/// The error that 99 of 100 packets do not exceed.
pub(super) const P99_MS: &str = "p99 of the emulator's lateness (ms)";
const MEAN_MS: &str = "mean of the emulator's lateness (ms)";
const MAX_MS: &str = "longest lateness of the emulator (ms)";

/// The error up to which a run counts, of 99 of 100 packets.
const P99_MS_MAX: f64 = 0.5;

/// Adds the emulator's error to what a run measured.
pub(super) fn note(samples: &mut Samples, lateness: &Lateness) {
    samples.set(P99_MS, milliseconds(lateness.quantile(990)));
    samples.set(MEAN_MS, milliseconds(lateness.mean()));
    samples.set(MAX_MS, milliseconds(lateness.max));
}

/// Returns the largest error of all runs of these points, if a run was too late to count.
fn excess_ms<'a>(points: impl IntoIterator<Item = &'a PointSummary>) -> Option<f64> {
    let late = points.into_iter().filter_map(|point| point.values().get(P99_MS));
    let late_ms = late.flat_map(Repeated::values).copied().fold(0.0, f64::max);
    (late_ms > P99_MS_MAX).then_some(late_ms)
}

fn reason(late_ms: f64) -> String {
    format!("the emulator was {late_ms:.1} ms late at p99")
}

/// Judges an estimate that rests on these points, unless the emulator was too late in one of their runs.
pub(super) fn judge(
    evidence: &mut Evidence,
    points: &[&PointSummary],
    what: String,
    estimate: Option<Estimate>,
    bound: Bound,
) {
    match (estimate, excess_ms(points.iter().copied())) {
        (Some(estimate), Some(late_ms)) => {
            evidence.judged(Judgement::Undecided, format!("{what} {estimate}, but {}", reason(late_ms)));
        }
        (estimate, _) => evidence.cell(what, estimate, bound),
    }
}

/// Makes a check undecided if the emulator was too late in a run of these points.
pub(super) fn qualify(check: Check, points: &[PointSummary]) -> Check {
    let Some(late_ms) = excess_ms(points) else { return check };
    let verdict = match check.verdict {
        Verdict::Holds(seen) | Verdict::Broken(seen) => Verdict::Undecided(format!("{}; {seen}", reason(late_ms))),
        other => other,
    };
    Check { verdict, ..check }
}
