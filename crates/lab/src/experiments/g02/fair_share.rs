//! G02's statements on the number of mice.

use super::{MICE_SHARE, QUEUES};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::Check;
use crate::experiments::r12;
use crate::summary::{Repeated, Results};

/// The share of the mice in each run: with this marking, queue, path and number of them.
fn share_of_mice(results: &Results, settings: &[(&str, &str)]) -> Option<Repeated> {
    results.matching(settings).next()?.values().get(MICE_SHARE).cloned()
}

/// What §4.4 says of the number of mice: with ECN they reach half of the bottleneck; "with TCP, in some configurations (lower bandwidth and
/// smaller RTT), the mice were not able to achieve 50 percent even with very large numbers"; and with ECN "the ratio of mice to elephants needed
/// is much smaller".
pub(super) fn mice(results: &Results) -> Vec<Check> {
    let share = |marking: &str, rate: &str, rtt: &str, mice: &str| {
        let settings = [("queue", QUEUES[0].0), ("marking", marking), ("rate", rate), ("rtt", rtt), ("mice", mice)];
        share_of_mice(results, &settings).and_then(|share| Estimate::of(&share))
    };
    let mut stated = Evidence::new();
    for (marking, percent) in [("off", 30.0), ("dred", 50.0)] {
        let ours = share(marking, "30Mbit/s", "100ms", "80");
        stated.cell(format!("% with marking {marking}:"), ours, Bound::Within(percent - 5.0, percent + 5.0));
    }
    let most = counts(results).pop().map(|(_, mice)| mice).unwrap_or_default();
    let (mut half, mut short_of_half) = (Evidence::new(), Evidence::new());
    for Path { rate, rtt } in paths(results) {
        let what = format!("% of {most} mice at {rate}, {rtt}:");
        half.cell(what.clone(), share("dred", &rate, &rtt, &most), Bound::MoreThan(50.0));
        if (rate.as_str(), rtt.as_str()) == ("12Mbit/s", "25ms") {
            short_of_half.cell(what, share("off", &rate, &rtt, &most), Bound::LessThan(50.0));
        }
    }
    let mut checks = vec![
        half.check("With ECN enough mice take half of the bottleneck.").id("ecn-mice-half"),
        short_of_half
            .check("Without ECN even the largest number of mice takes less than half at 12 Mbit/s and 25 ms.")
            .id("mice-short-of-half"),
        stated
            .check("At 30 Mbit/s and 100 ms, 80 mice take about 30% of the bottleneck without ECN and 50% with it.")
            .id("eighty-mice"),
    ];
    checks.extend(QUEUES.map(|(queue, words)| fewer_mice(results, queue).under(words)));
    checks
}

/// A path of `g02-fig7`, as its plan writes it.
struct Path {
    rate: String,
    rtt: String,
}

fn paths(results: &Results) -> Vec<Path> {
    let [rates, rtts] = ["rate", "rtt"].map(|name| r12::values(results, name));
    rates.iter().flat_map(|rate| rtts.iter().map(|rtt| Path { rate: rate.clone(), rtt: rtt.clone() })).collect()
}

/// The numbers of mice in the plan, in ascending order, and as it writes them.
fn counts(results: &Results) -> Vec<(f64, String)> {
    let counts = r12::values(results, "mice").into_iter();
    let mut counts: Vec<(f64, String)> = counts.filter_map(|count| Some((count.parse().ok()?, count))).collect();
    counts.sort_by(|one, other| one.0.total_cmp(&other.0));
    counts
}

/// That with ECN fewer mice take half of the bottleneck. Without ECN the queue has this length.
fn fewer_mice(results: &Results, queue: &str) -> Check {
    let counts = counts(results);
    let most = counts.last().map_or(0.0, |(count, _)| *count);
    let mut evidence = Evidence::new();
    for Path { rate, rtt } in paths(results) {
        let needed = |marking: &str, queue: &str| {
            let of = |(count, mice): &(f64, String)| {
                let settings = [("queue", queue), ("marking", marking), ("rate", &rate), ("rtt", &rtt), ("mice", mice)];
                Some((*count, share_of_mice(results, &settings)?))
            };
            mice_for_half(&counts.iter().filter_map(of).collect::<Vec<_>>())
        };
        let (marked, plain) = (needed("dred", QUEUES[0].0), needed("off", queue));
        let what = format!("mice for a half, with ECN over without, at {rate}, {rtt}:");
        let never = |numbers: &Option<Repeated>| {
            numbers.as_ref().is_some_and(|it| it.values().iter().all(|&count| count >= most))
        };
        let ratio = marked.as_ref().zip(plain.as_ref()).filter(|_| !(never(&marked) && never(&plain)));
        evidence.cell(what, ratio.and_then(|(marked, plain)| Estimate::ratio(marked, plain)), Bound::LessThan(1.0));
    }
    evidence.check("With ECN fewer mice take half of the bottleneck.").id("ecn-fewer-mice")
}

/// How many mice take half of the bottleneck in each run, between the numbers that were run; the largest if no number does.
fn mice_for_half(shares: &[(f64, Repeated)]) -> Option<Repeated> {
    let (_, first) = shares.first()?;
    let needed = |repetition, _| {
        let (mut count, mut share) = (0.0, 0.0);
        for (next, shares) in shares {
            let after = shares.at(repetition).unwrap_or(share);
            if after >= 50.0 {
                return count + (next - count) * (50.0 - share) / (after - share);
            }
            (count, share) = (*next, after);
        }
        count
    };
    Some(first.with_each(needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(each: &[f64]) -> Repeated {
        each.iter().copied().collect()
    }

    #[test]
    fn the_number_that_takes_half_lies_between_those_that_were_run() {
        let needed = |shares: &[(f64, Repeated)]| mice_for_half(shares).map(|it| it.values().to_vec());
        let run = [(10.0, shares(&[20.0, 60.0, 10.0])), (20.0, shares(&[60.0, 70.0, 30.0]))];
        assert_eq!(needed(&run), Some(vec![17.5, 10.0 * 50.0 / 60.0, 20.0]), "a third run never gets there");
        assert_eq!(needed(&[]), None);
    }
}
