//! `p10-fig10`: the second retransmission beside web traffic, by the interval between messages (P10 §6.2, Fig. 10).

use super::p10_congested::{loss_comparison, p10_network, parameters, run};
use super::p10_fig8::{Case, Measure};
use crate::experiment::{Check, Comparison, Experiment};
use crate::figure::{Axis, Curve, Figure, Unit};
use crate::plan::{Parameter, Point, Value};
use crate::samples::Samples;
use crate::scenario::{Group, Ordinal};
use crate::summary::Results;

/// A 99th percentile is stable if the largest is at most this many times the smallest.
const STABLE: f64 = 1.5;

/// Mean and 99th percentile of the second retransmission over the interval between messages.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig10;

impl Experiment for P10Fig10 {
    fn name(&self) -> &'static str {
        "p10-fig10"
    }

    fn title(&self) -> &'static str {
        "Delay of the second retransmission beside web traffic by packet rate"
    }

    fn reference(&self) -> &'static str {
        "Petlund et al. 2010, Fig. 10 (section 6.2)"
    }

    fn about(&self) -> &'static str {
        concat!(
            "As p10-fig8b, for 4 to 20 messages a second, that is for intervals from 250 down to 50 ms. Shown are mean and 99th \
             percentile of the time from the first transmission of a chunk to its second retransmission.\n\n",
            p10_network!(),
        )
    }

    fn plan(&self) -> &'static str {
        include_str!("../../../../experiments/p10-fig10.toml")
    }

    fn parameters(&self) -> Vec<Parameter> {
        parameters()
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        run(point, seed)
    }

    fn comparisons(&self, results: &Results) -> Vec<Comparison> {
        vec![loss_comparison(results)]
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let curves = Curves::new(results);
        vec![curves.below_check(), curves.far_check(), curves.closing_check(), curves.stable_check()]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let curves = Curves::new(results);
        let conditions = results.plan().conditions();
        vec![
            curves.figure(Measure::Mean, "Mean delay of the second retransmission", &conditions),
            curves.figure(Measure::P99, "99th percentile of the delay of the second retransmission", &conditions),
        ]
    }
}

/// The second retransmission at each interval.
struct Curves<'r> {
    /// The interval in milliseconds, rising.
    cases: Vec<(f64, Case<'r>)>,
}

impl<'r> Curves<'r> {
    fn new(results: &'r Results) -> Self {
        let intervals = results.plan().sweep().iter().filter(|(name, _)| *name == "interval");
        let mut cases: Vec<_> = intervals
            .flat_map(|(_, values)| values)
            .filter_map(|value| {
                let Value::Duration(interval) = value else { return None };
                let case = Case::new(results, &[("interval", value.to_string())]);
                Some((interval.as_secs_f64() * 1e3, case))
            })
            .collect();
        cases.sort_by(|(interval, _), (other, _)| interval.total_cmp(other));
        Self { cases }
    }

    /// The interval and what was measured there.
    fn points(&self, group: Group, measure: Measure) -> Vec<(f64, f64)> {
        let value = |case: &Case<'_>| case.ms(group, Ordinal::Second, measure);
        self.cases.iter().filter_map(|(interval, case)| Some((*interval, value(case)?))).collect()
    }

    /// Both measures at the intervals that have both.
    fn pairs(&self, first: (Group, Measure), second: (Group, Measure)) -> Vec<[f64; 3]> {
        let seconds = self.points(second.0, second.1);
        let firsts = self.points(first.0, first.1).into_iter();
        firsts
            .filter_map(|(interval, value)| {
                let (_, other) = seconds.iter().find(|(at, _)| *at == interval)?;
                Some([interval, value, *other])
            })
            .collect()
    }

    /// "The 99th percentile for all modifications ... remains below the average value for standard SCTP."
    fn below_check(&self) -> Check {
        let pairs = self.pairs((Group::AllMods, Measure::P99), (Group::Lksctp, Measure::Mean));
        judge(
            "At every packet rate the 99% of all modifications is below the mean of lksctp.",
            &pairs,
            "all modifications' 99% and lksctp's mean",
            |pairs| pairs.iter().all(|[_, p99, mean]| p99 < mean),
        )
    }

    /// "The 99th percentiles are far above the other values."
    fn far_check(&self) -> Check {
        let pairs = self.pairs((Group::Lksctp, Measure::P99), (Group::AllMods, Measure::P99));
        judge(
            "At every packet rate the 99% of lksctp is far above that of all modifications: at least twice.",
            &pairs,
            "lksctp's 99% and all modifications'",
            |pairs| pairs.iter().all(|[_, lksctp, all]| *lksctp >= 2.0 * all),
        )
    }

    /// "The distance to the 99th percentiles for the minimum RTO modification decreases as the interarrival time increases."
    fn closing_check(&self) -> Check {
        let pairs = self.pairs((Group::Lksctp, Measure::P99), (Group::ModMinRto, Measure::P99));
        judge(
            "The 99% of lksctp is farther from that of the lowered RTO.Min at the shortest interval than at the longest.",
            &pairs,
            "lksctp's 99% and mod min rto's",
            |pairs| match pairs {
                [[_, lksctp, min_rto], .., [_, last_lksctp, last_min_rto]] => {
                    lksctp - min_rto > last_lksctp - last_min_rto
                }
                _ => false,
            },
        )
    }

    /// "The 99th percentile for all modifications is stable."
    fn stable_check(&self) -> Check {
        let pairs = self.pairs((Group::AllMods, Measure::P99), (Group::AllMods, Measure::Mean));
        judge(
            "The 99% of all modifications is stable: at no interval more than one and a half times that at another.",
            &pairs,
            "99% and mean of all modifications",
            |pairs| {
                let p99 = pairs.iter().map(|[_, p99, _]| *p99);
                p99.clone().fold(0.0, f64::max) <= STABLE * p99.fold(f64::INFINITY, f64::min)
            },
        )
    }

    fn figure(&self, measure: Measure, title: &str, conditions: &str) -> Figure {
        let curves: Vec<Curve> = Group::ALL
            .into_iter()
            .map(|group| Curve { name: group.title().to_owned(), points: self.points(group, measure) })
            .filter(|curve| !curve.points.is_empty())
            .collect();
        let values = || curves.iter().flat_map(|curve| &curve.points);
        let highest = values().map(|(_, ms)| *ms).fold(1.0, f64::max);
        let longest = values().map(|(interval, _)| *interval).fold(1.0, f64::max);
        let x = Axis::from_zero("interval between messages", longest, Unit::Milliseconds);
        let y =
            Axis::from_zero("from the first transmission to the second retransmission", highest, Unit::Milliseconds);
        Figure { curves, ..Figure::new(title, conditions, x, y) }
    }
}

/// Skips the statement unless there are two intervals at least.
fn judge(statement: &str, pairs: &[[f64; 3]], what: &str, holds: impl Fn(&[[f64; 3]]) -> bool) -> Check {
    if pairs.len() < 2 {
        return Check::skipped(statement, "too few second retransmissions, intervals or groups");
    }
    let seen: Vec<String> = pairs
        .iter()
        .map(|[interval, first, second]| format!("{first:.0} and {second:.0} at {interval:.0} ms"))
        .collect();
    Check::new(statement, holds(pairs), format!("{what} in ms: {}", seen.join("; ")))
}
