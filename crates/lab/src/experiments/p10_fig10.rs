//! `p10-fig10`: the second retransmission beside web traffic, by the interval between messages (P10 §6.2, Fig. 10).

use super::p10_congested::{loss_entry, run};
use super::p10_fig8::{Case, Measure};
use crate::evidence::{Bound, Estimate};
use crate::experiment::{Description, Experiment};
use crate::figure::{Axis, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Point, Value, definition};
use crate::samples::Samples;
use crate::scenario::{Group, Ordinal};
use crate::scoreboard::Entry;
use crate::summary::{Repeated, Results};

/// Why lksctp is so early at 20 messages a second.
const WHY_EARLY: &str = "At 20 messages a second our lksctp gets three more reports, and retransmits fast once more, before the answer to the \
     first fast retransmission can be back; most of these second retransmissions are spurious.";

/// Mean and 99th percentile of the second retransmission over the interval between messages.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig10;

impl Experiment for P10Fig10 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p10-fig10.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        run(point, seed)
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let cells =
            Curves::new(results, "100ms").ratios((Group::AllMods, Measure::P99), (Group::Lksctp, Measure::Mean));
        let rows = cells.into_iter().map(|(interval_ms, ratio)| {
            let what = format!("99% of all modifications over the mean of lksctp, interval {interval_ms:.0} ms");
            Entry::inequality(what, "", Bound::LessThan(1.0), ratio).because(WHY_EARLY)
        });
        std::iter::once(loss_entry(results)).chain(rows).collect()
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let curves = Curves::new(results, "100ms");
        let conditions = results.plan().conditions();
        vec![
            curves.figure(Measure::Mean, "Mean delay of the second retransmission", &conditions),
            curves.figure(Measure::P99, "99th percentile of the delay of the second retransmission", &conditions),
        ]
    }
}

/// The second retransmission at each interval, under one round-trip time.
struct Curves<'r> {
    /// The interval in milliseconds, rising.
    cases: Vec<(f64, Case<'r>)>,
}

impl<'r> Curves<'r> {
    fn new(results: &'r Results, rtt: &str) -> Self {
        let intervals = results.plan().sweep().iter().filter(|(name, _)| *name == "interval");
        let mut cases: Vec<_> = intervals
            .flat_map(|(_, values)| values)
            .filter_map(|value| {
                let Value::Duration(interval) = value else { return None };
                let case = Case::new(results, &[("interval", value.to_string()), ("rtt", rtt.to_owned())]);
                Some((interval.as_secs_f64() * 1e3, case))
            })
            .collect();
        cases.sort_by(|(interval, _), (other, _)| interval.total_cmp(other));
        Self { cases }
    }

    /// A measure at each interval, in each repetition.
    fn repeated(&self, group: Group, measure: Measure) -> Vec<(f64, Option<Repeated>)> {
        self.cases
            .iter()
            .map(|(interval, case)| (*interval, case.repeated_ms(group, Ordinal::Second, measure)))
            .collect()
    }

    /// How many times as high one is as the other at each interval.
    fn ratios(&self, over: (Group, Measure), under: (Group, Measure)) -> Vec<(f64, Option<Estimate>)> {
        self.cases.iter().map(|(interval, case)| (*interval, case.ratio(Ordinal::Second, over, under))).collect()
    }

    fn figure(&self, measure: Measure, title: &str, conditions: &str) -> Figure {
        let series: Vec<PointSeries> = Group::ALL
            .into_iter()
            .map(|group| {
                let points = self.repeated(group, measure).into_iter().filter_map(|(interval, values)| {
                    let estimate = Estimate::of(&values?)?;
                    let whisker = estimate.interval().map(|[low, high]| (low, high));
                    Some(PlotPoint { x: interval, y: estimate.mean, whisker })
                });
                PointSeries::new(group.title(), points)
            })
            .filter(|series| !series.points.is_empty())
            .collect();
        let values = || series.iter().flat_map(|series| &series.points);
        let highest = values().map(|point| point.whisker.map_or(point.y, |(_, high)| high)).fold(1.0, f64::max);
        let longest = values().map(|point| point.x).fold(1.0, f64::max);
        let x = Axis::from_zero("interval between messages", longest, Unit::Milliseconds);
        let label = format!("{} from the first transmission to the 2nd retransmission", measure.name());
        let y = Axis::from_zero(&label, highest, Unit::Milliseconds);
        Figure { points: PointSeries::told_apart(series), ..Figure::new(title, conditions, x, y) }
    }
}
