//! The verdict of a statement from its checks, under each reading of its paper.

use super::together;
use crate::experiment::Check;

/// What the checks of a statement come to under one reading of the paper.
struct Reading {
    /// As `by the text`.
    name: &'static str,
    verdict: &'static str,
    seen: String,
    /// What would decide those that are undecided or lack data.
    would_decide: String,
}

impl Reading {
    fn of(under: &'static str, checks: &[&Check]) -> Self {
        let checks = || checks.iter().filter(|check| check.under == under);
        let words: Vec<&str> = checks().map(|check| check.verdict.word()).collect();
        let seen = checks().map(|check| {
            let seen = check.verdict.seen();
            seen.strip_prefix(&check.would_decide).map_or(seen, |seen| seen.trim_start_matches("; "))
        });
        let mut would_decide: Vec<&str> = checks().map(|check| check.would_decide.as_str()).collect();
        would_decide.retain(|what| !what.is_empty());
        would_decide.dedup();
        Self {
            name: if under.is_empty() { "by the text" } else { under },
            verdict: together(&words),
            seen: seen.collect::<Vec<_>>().join("; "),
            would_decide: would_decide.join(", "),
        }
    }
}

/// The verdict of a statement's checks, their numbers, and why it is undecided. If the paper leaves readings open, it holds or is broken only if it is
/// so under each.
pub(super) fn by_checks(checks: &[&Check]) -> (&'static str, String, String) {
    let mut under: Vec<&'static str> = Vec::new();
    checks.iter().for_each(|check| {
        if !under.contains(&check.under) {
            under.push(check.under);
        }
    });
    let readings: Vec<Reading> = under.iter().map(|under| Reading::of(under, checks)).collect();
    let [reading] = readings.as_slice() else { return by_readings(&readings) };
    let reason = if reading.verdict == "undecided" { &reading.would_decide } else { "" };
    (reading.verdict, reading.seen.clone(), reason.to_owned())
}

/// The same of several readings.
fn by_readings(readings: &[Reading]) -> (&'static str, String, String) {
    let with =
        |verdict: &str| -> Vec<&str> { readings.iter().filter(|it| it.verdict == verdict).map(|it| it.name).collect() };
    let [holds, broken, undecided, lacking] = ["holds", "broken", "undecided", "not tested"].map(with);
    let verdict = match () {
        () if lacking.len() == readings.len() => "not tested",
        () if holds.len() == readings.len() => "holds",
        () if broken.len() == readings.len() => "broken",
        () => "undecided",
    };
    let told = readings.iter().filter(|it| it.verdict != "not tested" || verdict == "not tested");
    let seen = told.map(|Reading { name, verdict, seen, .. }| format!("{name}: {verdict}, {seen}"));
    let mut seen = seen.collect::<Vec<_>>().join("; ");
    if !lacking.is_empty() && verdict != "not tested" {
        seen += &format!("; without data for {} readings", lacking.len());
    }
    let reason = match () {
        () if verdict != "undecided" => String::new(),
        () if !holds.is_empty() && !broken.is_empty() => {
            format!("turns with the reading of the paper: holds ({}), broken ({})", holds.join("; "), broken.join("; "))
        }
        () => {
            let open = readings.iter().filter(|it| undecided.contains(&it.name) || lacking.contains(&it.name));
            let open = open.map(|Reading { name, would_decide, .. }| match would_decide.as_str() {
                "" if lacking.contains(name) => format!("{name}: no data"),
                "" => format!("{name}: the intervals overlap"),
                what => format!("{name}: {what}"),
            });
            open.collect::<Vec<_>>().join("; ")
        }
    };
    (verdict, seen, reason)
}
