//! What the default may send, and the delays that it must keep.

use festina_units::{Duration, Probability};

use super::{EXCHANGE, EXCHANGES, GAME, MESSAGE, PACKETS, PING_PONG, TRAFFIC_NAMES, per};
use crate::count::as_f64;
use crate::experiment::Check;
use crate::scenario::fate::{self, MESSAGES};
use crate::scenario::looks::default_sender;
use crate::summary::{PointSummary, Results};

/// The most packets of both ends where nothing is lost.
const PER_EXCHANGE_MAX: f64 = 2.1;
const PER_MESSAGE_MAX: f64 = 1.15;

/// Minimum number of delays beyond a quantile; with fewer it is not decided.
const BEYOND_MIN: f64 = 10.0;
/// How far above its baseline a p99 may lie by chance: a share of it plus an absolute time.
const NOISE_SHARE: f64 = 0.03;
const NOISE: Duration = Duration::from_millis(1);
const BASELINE_LOSS_PERCENT: u32 = 5;
const BASELINE_RTT: Duration = Duration::from_millis(100);

/// The p99 of the default's messages and exchanges at 5 % loss. The source is this experiment at full scale (`festina lab run
/// request-reply`, 50,000 exchanges or 100,000 messages a point or more) at commit 447e684, whose default put every unacknowledged message
/// into the next packet too, regardless of losses.
struct Baseline {
    traffic: &'static str,
    series: &'static str,
    p99: Duration,
}

const BASELINES: [Baseline; 8] = [
    Baseline { traffic: TRAFFIC_NAMES[0], series: MESSAGE, p99: Duration::from_micros(155_100) },
    Baseline { traffic: TRAFFIC_NAMES[1], series: MESSAGE, p99: Duration::from_micros(155_100) },
    Baseline { traffic: TRAFFIC_NAMES[2], series: MESSAGE, p99: Duration::from_micros(155_100) },
    Baseline { traffic: TRAFFIC_NAMES[3], series: MESSAGE, p99: Duration::from_micros(83_400) },
    Baseline { traffic: TRAFFIC_NAMES[4], series: MESSAGE, p99: Duration::from_micros(150_100) },
    Baseline { traffic: TRAFFIC_NAMES[0], series: EXCHANGE, p99: Duration::from_micros(205_100) },
    Baseline { traffic: TRAFFIC_NAMES[1], series: EXCHANGE, p99: Duration::from_micros(206_000) },
    Baseline { traffic: TRAFFIC_NAMES[2], series: EXCHANGE, p99: Duration::from_micros(210_100) },
];

pub(super) fn checks(results: &Results) -> Vec<Check> {
    let default = default_sender();
    let mut checks = vec![
        fate::delivered_check(results),
        frugal_check(
            results,
            format!(
                "{default} at 0% loss, answers at once: at most {PER_EXCHANGE_MAX} packets of both ends per exchange."
            ),
            [PING_PONG, EXCHANGES],
            PER_EXCHANGE_MAX,
        ),
        frugal_check(
            results,
            format!(
                "{default} at 0% loss, 30 Hz both ways: at most {PER_MESSAGE_MAX} packets of both ends per message."
            ),
            [GAME, MESSAGES],
            PER_MESSAGE_MAX,
        ),
    ];
    checks.extend(BASELINES.iter().map(|baseline| baseline.check(results)));
    checks
}

/// The point of a sender.
pub(super) fn find<'r>(
    results: &'r Results,
    sender: &str,
    traffic: &str,
    loss: Probability,
) -> Option<&'r PointSummary> {
    results.points().iter().find(|summary| {
        let point = summary.point();
        point.choice("sender") == sender && point.choice("traffic") == traffic && point.probability("loss") == loss
    })
}

/// Checks that without loss the default sends at most this many packets per message or exchange.
fn frugal_check(results: &Results, statement: String, [traffic, each]: [&str; 2], most: f64) -> Check {
    let point = find(results, default_sender(), traffic, Probability::ZERO);
    match point.and_then(|summary| per(summary, PACKETS, each)) {
        None => Check::skipped(statement, format!("{} at these conditions", default_sender())),
        Some(packets) => Check::new(statement, packets <= most, format!("{packets:.3}")),
    }
}

impl Baseline {
    fn check(&self, results: &Results) -> Check {
        let Self { traffic, series, p99: baseline } = self;
        let (default, ms) = (default_sender(), |delay: Duration| delay.as_secs_f64() * 1e3);
        let statement = format!(
            "{default}, {traffic}, {BASELINE_LOSS_PERCENT}% loss: the p99 of {series}s is at most the {:.1} ms of constant redundancy.",
            ms(*baseline)
        );
        let point = find(results, default, traffic, Probability::from_percent(BASELINE_LOSS_PERCENT));
        let point = point.filter(|summary| summary.point().duration("rtt") == BASELINE_RTT);
        let delays = point.and_then(|summary| summary.series().get(*series)).map(|series| series.all());
        let delays = delays.filter(|delays| as_f64(delays.count()) * 0.01 >= BEYOND_MIN);
        match delays.and_then(|delays| delays.quantile(0.99)) {
            None => Check::skipped(statement, format!("a thousand {series}s of {default} at these conditions")),
            Some(p99) => {
                let most = baseline.mul_f64(1.0 + NOISE_SHARE) + NOISE;
                Check::new(statement, p99 <= most, format!("{:.1} ms", ms(p99)))
            }
        }
    }
}
