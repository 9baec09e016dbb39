//! Limits for the default's cost, and the delays that it must reach.

use festina_units::{Duration, Probability};

use super::{CHANGE, INDEPENDENT, WINDOWS_MS, costs, window_name};
use crate::experiment::Check;
use crate::scenario::fate::{self, DELIVERY};
use crate::scenario::looks::default_sender;
use crate::summary::{PointSummary, Results, SeriesSummary};

/// Minimum number of delays beyond a quantile; with fewer it is not decided.
const BEYOND_MIN: f64 = 10.0;

/// The most that the default may cost, in multiples of the standard's cost.
struct Budget {
    loss_percent: u32,
    /// The place in [`costs`], and its name.
    cost: usize,
    what: &'static str,
    times_max: f64,
}

const BUDGETS: [Budget; 4] = [
    Budget { loss_percent: 0, cost: 1, what: "bytes", times_max: 1.02 },
    Budget { loss_percent: 0, cost: 0, what: "packets", times_max: 1.05 },
    Budget { loss_percent: 1, cost: 1, what: "bytes", times_max: 2.1 },
    Budget { loss_percent: 5, cost: 1, what: "bytes", times_max: 3.2 },
];

/// Quantiles are known to a thousandth.
const RESOLUTION: f64 = 1.001;

/// What the default must reach with messages of 100 bytes and a round-trip time of 100 ms.
struct Goal {
    iat_ms: u64,
    quantile: f64,
    delay_ms_max: u64,
}

const GOALS: [Goal; 6] = [
    Goal { iat_ms: 20, quantile: 0.99, delay_ms_max: 70 },
    Goal { iat_ms: 20, quantile: 0.999, delay_ms_max: 90 },
    Goal { iat_ms: 50, quantile: 0.99, delay_ms_max: 100 },
    Goal { iat_ms: 50, quantile: 0.999, delay_ms_max: 150 },
    Goal { iat_ms: 250, quantile: 0.99, delay_ms_max: 155 },
    Goal { iat_ms: 250, quantile: 0.999, delay_ms_max: 260 },
];
const GOALS_LOSS_PERCENT: u32 = 5;
const GOALS_RTT: Duration = Duration::from_millis(100);

/// Time after the start of losses at which the delays must have settled, in milliseconds.
const SETTLED_MS: u64 = 2_000;
/// The highest permitted ratio of the p99 after that time to the p99 under lasting losses.
const SETTLED_TIMES_MAX: f64 = 1.1;

pub(super) fn checks(results: &Results) -> Vec<Check> {
    let mut checks = vec![fate::delivered_check(results)];
    checks.extend(BUDGETS.iter().map(|budget| budget.check(results)));
    checks.extend(GOALS.iter().map(|goal| goal.check(results)));
    checks.push(settled_check(results));
    checks
}

/// The point of a sender.
pub(super) fn find<'r>(
    results: &'r Results,
    sender: &str,
    iat: Duration,
    loss: Probability,
    pattern: &str,
) -> Option<&'r PointSummary> {
    results.points().iter().find(|summary| {
        let point = summary.point();
        point.choice("sender") == sender
            && point.duration("iat") == iat
            && point.probability("loss") == loss
            && point.choice("pattern") == pattern
    })
}

/// The intervals of the plan, rising.
pub(super) fn intervals(results: &Results) -> Vec<Duration> {
    let mut intervals: Vec<Duration> = results.points().iter().map(|point| point.point().duration("iat")).collect();
    intervals.sort_unstable();
    intervals.dedup();
    intervals
}

/// A quantile of a series, if enough delays lie beyond it.
pub(super) fn decided(series: &SeriesSummary, quantile: f64) -> Option<Duration> {
    let beyond = crate::count::as_f64(series.all().count()) * (1.0 - quantile);
    // Half a delay, for the product is not exact.
    if beyond + 0.5 < BEYOND_MIN { None } else { series.all().quantile(quantile) }
}

impl Budget {
    fn check(&self, results: &Results) -> Check {
        let Self { loss_percent, cost, what, times_max } = self;
        let default = default_sender();
        let statement = format!(
            "{default} at {loss_percent}% loss: both ends together send at most {times_max} times the {what} of rfc9260, at every \
             interval."
        );
        let loss = Probability::from_percent(*loss_percent);
        let ratios = intervals(results).into_iter().filter_map(|iat| {
            let of = |sender| Some(costs(find(results, sender, iat, loss, INDEPENDENT)?)[*cost]);
            Some((iat, of(default)? / of("rfc9260")?))
        });
        let ratios: Vec<(Duration, f64)> = ratios.collect();
        if ratios.is_empty() {
            return Check::skipped(statement, format!("{default} and rfc9260 at this loss"));
        }
        let seen: Vec<String> =
            ratios.iter().map(|(iat, ratio)| format!("{ratio:.2} at {} ms", iat.as_millis())).collect();
        Check::new(statement, ratios.iter().all(|(_, ratio)| ratio <= times_max), seen.join(", "))
    }
}

impl Goal {
    fn check(&self, results: &Results) -> Check {
        let Self { iat_ms, quantile, delay_ms_max } = self;
        let (default, percent) = (default_sender(), quantile * 100.0);
        let statement = format!(
            "{default} at iat {iat_ms}ms and {GOALS_LOSS_PERCENT}% loss: {percent}% of the messages within {delay_ms_max} ms."
        );
        let loss = Probability::from_percent(GOALS_LOSS_PERCENT);
        let point = find(results, default, Duration::from_millis(*iat_ms), loss, INDEPENDENT);
        let point = point.filter(|summary| summary.point().duration("rtt") == GOALS_RTT);
        let Some(delays) = point.and_then(|summary| summary.series().get(DELIVERY)) else {
            return Check::skipped(statement, format!("{default} at these conditions"));
        };
        match decided(delays, *quantile) {
            None => Check::skipped(statement, format!("ten messages beyond, of {}", delays.all().count())),
            Some(delay) => {
                let seen = format!("{:.1} ms, of {} messages", delay.as_secs_f64() * 1e3, delays.all().count());
                Check::new(statement, delay <= Duration::from_millis(*delay_ms_max).mul_f64(RESOLUTION), seen)
            }
        }
    }
}

/// Whether the default is where lasting losses bring it, soon after the first of them.
fn settled_check(results: &Results) -> Check {
    let default = default_sender();
    let statement = format!(
        "{default}, once {GOALS_LOSS_PERCENT}% have been lost for {} s after none: the p99 is at most {SETTLED_TIMES_MAX} times that of \
         lasting losses, at every interval.",
        SETTLED_MS / 1_000
    );
    let loss = Probability::from_percent(GOALS_LOSS_PERCENT);
    let window = WINDOWS_MS.iter().find(|window| window.start == SETTLED_MS).map(window_name).unwrap_or_default();
    let settled = intervals(results).into_iter().filter_map(|iat| {
        let p99 =
            |pattern, series: &str| decided(find(results, default, iat, loss, pattern)?.series().get(series)?, 0.99);
        Some((iat, p99(CHANGE, &window)?, p99(INDEPENDENT, DELIVERY)?))
    });
    let settled: Vec<(Duration, Duration, Duration)> = settled.collect();
    if settled.is_empty() {
        return Check::skipped(statement, "a thousand messages of that time");
    }
    let ms = |delay: Duration| delay.as_secs_f64() * 1e3;
    let seen = settled.iter().map(|(iat, after, lasting)| {
        format!("{:.0} against {:.0} ms at {} ms", ms(*after), ms(*lasting), iat.as_millis())
    });
    let holds = settled.iter().all(|(_, after, lasting)| *after <= lasting.mul_f64(SETTLED_TIMES_MAX));
    Check::new(statement, holds, seen.collect::<Vec<_>>().join(", "))
}
