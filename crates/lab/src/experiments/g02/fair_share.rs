//! G02's statement on the number of mice that take half of the bottleneck.

use super::{MICE_SHARE, QUEUES};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::Check;
use crate::experiments::r12;
use crate::summary::{Repeated, Results};

/// The share of the mice in each run: with this marking, queue, path and number of them.
fn share_of_mice(results: &Results, settings: &[(&str, &str)]) -> Option<Repeated> {
    results.matching(settings).next()?.values().get(MICE_SHARE).cloned()
}

/// With ECN "the ratio of mice to elephants needed is much smaller" (§4.4).
pub(super) fn checks(results: &Results) -> Vec<Check> {
    QUEUES.map(|(queue, words)| fewer_mice(results, queue).under(words)).into()
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
