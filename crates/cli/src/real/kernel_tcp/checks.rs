//! Checks of the kernel's TCP, judged over the repetitions of each cell.

use festina_lab::evidence::{Bound, Estimate, Evidence};
use festina_lab::experiment::Check;
use festina_lab::summary::{PointSummary, Repeated, Results};

use super::super::lateness;
use super::{CONGESTIONS, MEAN_MS, OVER_BUDGET, STREAMS, THROUGHPUT, network};

/// Latencies that are not larger.
const ABOUT: f64 = 0.15;
/// The share of the packets that a target kept at p90 may be exceeded by.
const OVER_BUDGET_MAX: f64 = 10.0;

pub(super) fn checks(results: &Results) -> Vec<Check> {
    let controls = CONGESTIONS.into_iter().map(|congestion| (congestion, Cell::all(results, congestion)));
    controls
        .filter(|(_, cells)| !cells.is_empty())
        .flat_map(|(congestion, cells)| of_control(congestion, &cells))
        .collect()
}

fn of_control(congestion: &str, cells: &[Cell<'_>]) -> Vec<Check> {
    let with = |statement: &str| format!("With {congestion}, {statement}");
    let ratios = |pairs: &[([&str; 2], Bound)], name: &str, statement: &str| {
        let mut evidence = Evidence::new();
        for cell in cells {
            for (pair, bound) in pairs {
                cell.judge_ratio(&mut evidence, *pair, name, *bound);
            }
        }
        evidence.check(with(statement))
    };
    let order = [
        (["std", "m20"], Bound::MoreThan(1.0)),
        (["m20", "m13"], Bound::MoreThan(1.0)),
        (["m13", "m10"], Bound::MoreThan(1.0 - ABOUT)),
    ];
    vec![
        ratios(
            &order,
            MEAN_MS,
            "the mean latency falls from standard TCP over (2,0) and (1,3) to (1,0), which is not above (1,3).",
        ),
        ratios(
            &[(["m13", "std"], Bound::LessThan(0.4))],
            MEAN_MS,
            "MIN_BUF(1,3) has at most 0.4 of the default's mean latency.",
        ),
        ratios(
            &[(["m13", "std"], Bound::MoreThan(0.9))],
            THROUGHPUT,
            "MIN_BUF(1,3) has at least 0.9 of the default's throughput.",
        ),
        target_keeps_its_time(
            cells,
            with("at most one packet in ten waits longer in the send buffer than the target of 50 ms."),
        ),
        ratios(
            &[(["target", "std"], Bound::MoreThan(0.95))],
            THROUGHPUT,
            "the target of 50 ms has at least 0.95 of the default's throughput.",
        ),
    ]
}

fn target_keeps_its_time(cells: &[Cell<'_>], statement: String) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let over = cell.value("target", OVER_BUDGET).and_then(Estimate::of);
        cell.judge(&mut evidence, &["target"], "% longer", over, Bound::Within(0.0, OVER_BUDGET_MAX));
    }
    evidence.check(statement)
}

/// The streams at one rate, round-trip time and congestion control.
struct Cell<'a> {
    name: String,
    streams: [Option<&'a PointSummary>; STREAMS.len()],
}

impl<'a> Cell<'a> {
    fn all(results: &'a Results, congestion: &str) -> Vec<Self> {
        let mut cells: Vec<Self> = Vec::new();
        for summary in results.matching(&[("congestion", congestion)]) {
            let name = network(summary);
            let place = cells.iter().position(|cell| cell.name == name).unwrap_or_else(|| {
                cells.push(Self { name, streams: [None; STREAMS.len()] });
                cells.len() - 1
            });
            let stream = summary.point().choice("stream");
            if let Some(index) = STREAMS.iter().position(|known| *known == stream) {
                cells[place].streams[index] = Some(summary);
            }
        }
        cells
    }

    fn at(&self, stream: &str) -> Option<&'a PointSummary> {
        self.streams[STREAMS.iter().position(|known| *known == stream)?]
    }

    fn value(&self, stream: &str, name: &str) -> Option<&'a Repeated> {
        self.at(stream)?.values().get(name)
    }

    fn judge_ratio(&self, evidence: &mut Evidence, [over, under]: [&str; 2], name: &str, bound: Bound) {
        let pair = self.value(over, name).zip(self.value(under, name));
        let ratio = pair.and_then(|(over, under)| Estimate::ratio(over, under));
        self.judge(evidence, &[over, under], &format!("{over} over {under}"), ratio, bound);
    }

    /// Judges an estimate, unless the emulator was too late in a run that it rests on.
    fn judge(&self, evidence: &mut Evidence, streams: &[&str], what: &str, estimate: Option<Estimate>, bound: Bound) {
        let points: Vec<&PointSummary> = streams.iter().filter_map(|stream| self.at(stream)).collect();
        lateness::judge(evidence, &points, format!("{what} at {}:", self.name), estimate, bound);
    }
}

#[cfg(test)]
mod tests {
    use festina_lab::experiment::Verdict;
    use festina_lab::samples::Samples;

    use super::*;
    use crate::real::judged::{checks_of as checks_on, words};
    use crate::real::kernel_tcp::Tables;
    use crate::real::lateness::P99_MS;

    /// The checks of one network in which each stream has this mean latency, throughput, share over the target and lateness.
    fn checks_of(test: &str, numbers: impl Fn(&str) -> [f64; 4] + Sync) -> Vec<Check> {
        let plan = "experiment = \"g02-tables\"\nrepetitions = 3\n[parameters]\nrate = \"12Mbit/s\"\nrtt = \"50ms\"\n";
        checks_on(&format!("tables-{test}"), &Tables, plan, |point, seed| {
            let stream = point.choice("stream");
            let [mean, throughput, over, late] = numbers(stream);
            // A hundredth of chance, another for each stream.
            let shift = stream.bytes().map(u32::from).sum::<u32>() % 64;
            let chance = 1.0 + (seed.rotate_left(shift) % 100) as f64 / 10_000.0;
            let mut samples = Samples::new();
            samples.set(MEAN_MS, mean * chance);
            samples.set(THROUGHPUT, throughput * chance);
            samples.set(OVER_BUDGET, over * chance);
            samples.set(P99_MS, late);
            samples
        })
    }

    fn good(stream: &str) -> [f64; 4] {
        match stream {
            "std" => [2_000.0, 1.4, 0.0, 0.1],
            "m20" => [130.0, 1.4, 0.0, 0.1],
            "m13" => [75.0, 1.35, 0.0, 0.1],
            "m10" => [60.0, 1.3, 0.0, 0.1],
            _ => [70.0, 1.5, 9.0, 0.1],
        }
    }

    #[test]
    fn each_statement_is_judged_by_its_own_numbers() {
        assert_eq!(words(&checks_of("good", good)), ["holds"; 5]);
        let swapped = checks_of("swapped", |stream| good(if stream == "m13" { "m20" } else { stream }));
        assert_eq!(words(&swapped)[0], "undecided", "equal latencies are in no order");
        let slow = |stream: &str| {
            let [mean, throughput, over, late] = good(stream);
            let is_slow = ["m13", "target"].contains(&stream);
            [mean, if is_slow { throughput / 2.0 } else { throughput }, over * 1.3, late]
        };
        assert_eq!(words(&checks_of("slow", slow)), ["holds", "holds", "broken", "broken", "broken"]);
        let high = checks_of("high", |stream| good(if stream == "std" { "m20" } else { stream }));
        assert_eq!(words(&high)[1], "broken", "75 of 130 ms");
    }

    #[test]
    fn nothing_is_decided_by_runs_in_which_the_emulator_was_late() {
        let late = |stream: &str| {
            let [mean, throughput, over, _] = good(stream);
            [mean, throughput, over, if stream == "m13" { 0.75 } else { 0.5 }]
        };
        let checks = checks_of("late", late);
        assert_eq!(words(&checks), ["undecided", "undecided", "undecided", "holds", "holds"]);
        let Verdict::Undecided(seen) = &checks[1].verdict else { panic!("{checks:?}") };
        assert!(seen.ends_with("but the emulator was 0.8 ms late at p99"), "{seen}");
    }
}
