//! Bars of the senders side by side.

use super::{Case, Cases, Family};
use crate::figure::{Bar, BarChart, Figure, Unit};

/// The delays of all senders of a protocol, in a group for each case, which `label` names. `None` if there are none.
pub(crate) fn chart(
    title: &str,
    subtitle: &str,
    value: &str,
    cases: &Cases<'_>,
    family: &Family,
    label: impl Fn(&Case<'_>) -> String,
) -> Option<Figure> {
    let mut chart = BarChart::new(title, subtitle, &format!("mean {value}"), Unit::Milliseconds);
    for case in cases.iter() {
        let mut bars = Vec::new();
        for (sender, estimate) in case.delays_ms().filter(|(sender, _)| family.has(sender)) {
            let series = chart.series.iter().position(|known| known == sender).unwrap_or_else(|| {
                chart.series.push(sender.to_owned());
                chart.series.len() - 1
            });
            let bar = Bar::new(series, estimate.mean);
            let interval = estimate.interval().filter(|_| estimate.repetitions > 1);
            bars.push(interval.map_or(bar.clone(), |[low, high]| bar.whisker(low, high)));
        }
        if !bars.is_empty() {
            chart.group(&label(case), bars);
        }
    }
    (!chart.series.is_empty()).then(|| chart.figure())
}
