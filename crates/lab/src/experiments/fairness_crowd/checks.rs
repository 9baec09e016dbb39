//! What standard flows may lose to a crowd.

use crate::experiment::Check;
use crate::plan::{Point, Value};
use crate::summary::{PointSummary, Repeated, Results};

use super::crowd::Crowd;
use super::{JAIN, STANDARD};

/// How much of their throughput standard flows may lose against as many thin streams of the standard.
const LOSS_MAX: f64 = 0.03;
/// By how much Jain's index may fall.
const INDEX_LOSS_MAX: f64 = 0.03;

pub(super) fn checks(results: &Results) -> Vec<Check> {
    let (_, others) = Crowd::NAMES.split_first().expect("the standard is the first");
    let mut checks: Vec<Check> = others
        .iter()
        .filter(|crowd| crowd.starts_with("festina"))
        .map(|crowd| throughput_check(results, crowd))
        .collect();
    checks.push(index_check(results));
    checks
}

fn throughput_check(results: &Results, crowd: &str) -> Check {
    let statement = format!(
        "Beside a crowd of {crowd}, however large, standard flows lose at most 3% of the throughput that they have beside as \
         many thin streams of the standard."
    );
    let changes: Vec<Change> = changes(results, crowd, STANDARD);
    let Some(worst) = changes.iter().min_by(|a, b| a.relative.total_cmp(&b.relative)) else {
        return Check::skipped(statement, "this plan lacks the crowd, or that of the standard");
    };
    let holds = changes.iter().all(|change| change.relative + change.half_width >= -LOSS_MAX);
    let seen = format!(
        "at worst {:+.1}% ± {:.1}%, with {} streams",
        worst.relative * 100.0,
        worst.half_width * 100.0,
        worst.streams
    );
    Check::new(statement, holds, seen)
}

fn index_check(results: &Results) -> Check {
    let statement = "Standard flows share as evenly beside a crowd of Festina's as beside that of the standard: Jain's index does not fall by more \
                     than 0.03.";
    let changes = Crowd::NAMES
        .iter()
        .flat_map(|crowd| changes(results, crowd, JAIN).into_iter().map(move |change| (crowd, change)));
    let changes: Vec<(&&str, Change)> = changes.collect();
    let Some((crowd, worst)) = changes.iter().min_by(|a, b| a.1.relative.total_cmp(&b.1.relative)) else {
        return Check::skipped(statement, "this plan lacks the crowd of the standard");
    };
    let holds = changes.iter().all(|(_, change)| change.relative + change.half_width >= -INDEX_LOSS_MAX);
    let seen =
        format!("at worst {:+.3} ± {:.3}, with {} streams of {crowd}", worst.relative, worst.half_width, worst.streams);
    Check::new(statement, holds, seen)
}

/// How much a number changes if a crowd takes the place of that of the standard.
struct Change {
    streams: u64,
    relative: f64,
    /// Half the width of the 95% confidence interval.
    half_width: f64,
}

fn changes(results: &Results, crowd: &str, value: &str) -> Vec<Change> {
    let of = |name: &str| -> Vec<&PointSummary> {
        results.points().iter().filter(|summary| summary.point().choice("crowd") == name).collect()
    };
    let standard = of(Crowd::NAMES[0]);
    let change = |summary: &PointSummary| {
        let twin = standard.iter().find(|twin| others(twin.point()) == others(summary.point()))?;
        let [(before, before_half), (after, after_half)] = [twin, summary].map(|summary| {
            let repeated = summary.values().get(value);
            let half_width = repeated.and_then(Repeated::half_width_95).unwrap_or_default();
            (repeated.and_then(Repeated::mean), half_width)
        });
        let (before, after) = (before?, after?);
        Some(Change {
            streams: summary.point().count("streams"),
            relative: after / before - 1.0,
            half_width: after / before * (before_half / before).hypot(after_half / after),
        })
    };
    of(crowd).into_iter().filter_map(change).collect()
}

/// The values of all parameters but the crowd's.
fn others(point: &Point) -> Vec<(&'static str, Value)> {
    point.values().iter().copied().filter(|(name, _)| *name != "crowd").collect()
}
