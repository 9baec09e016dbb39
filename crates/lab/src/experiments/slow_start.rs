//! `slow-start`: how many rounds a transfer takes while cwnd doubles.

use festina_models::tcp::{DelayedAck, Growth, SendBufferLimit, TcpConfig};
use festina_units::Duration;

use crate::count::as_f64;
use crate::experiment::{Check, Comparison, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Stack, ThinStream};
use crate::summary::{PointSummary, Results};

const ROUNDS: &str = "rounds";
/// Delayed acknowledgements come after this at the latest, as on today's stacks.
const ACK_DELAY: Duration = Duration::from_millis(40);
/// Room for the largest transfer at once.
const BUFFER_BYTES: u64 = 1 << 30;

/// One transfer of a given size over a path that loses nothing.
#[derive(Clone, Copy, Debug)]
pub struct SlowStart;

impl Experiment for SlowStart {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/slow-start.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let rtt = point.duration("rtt");
        let config = TcpConfig {
            mss_bytes: u32::try_from(point.bytes("mss").bytes()).unwrap_or(u32::MAX),
            initial_window_segments: u32::try_from(point.count("initial_window")).unwrap_or(u32::MAX),
            receive_buffer_bytes: BUFFER_BYTES,
            send_buffer: SendBufferLimit::Bytes(BUFFER_BYTES),
            growth: Growth::PerAck,
            delayed_ack: if is_delayed(point) {
                DelayedAck { delay: ACK_DELAY, ..DelayedAck::default() }
            } else {
                DelayedAck::OFF
            },
            ..TcpConfig::sack()
        };
        let once = Duration::from_secs(3_600);
        let stream = ThinStream::periodic(Stack::tcp(config), once, point.bytes("size"), Duration::from_secs(1), rtt);
        let run = stream.run(seed);
        let delay = run.record.truth().messages.first().and_then(|message| message.delay());
        let delay = delay.expect("nothing is lost");
        let mut samples = Samples::new();
        samples.set(ROUNDS, (delay.saturating_sub(rtt / 2)).div_duration_f64(rtt) + 1.0);
        samples
    }

    fn comparisons(&self, results: &Results) -> Vec<Comparison> {
        let every_segment = results.points().iter().filter(|summary| !is_delayed(summary.point()));
        let comparison = |summary: &PointSummary| Comparison {
            what: format!("{ROUNDS}, {}", results.plan().label(summary.point())),
            unit: "",
            published: rounds(summary.point(), 2.0),
            measured: measured(summary),
            why: None,
        };
        every_segment.map(comparison).collect()
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        vec![exact_check(results), delayed_check(results)]
    }

    /// The comparisons say it all.
    fn figures(&self, _results: &Results) -> Vec<Figure> {
        Vec::new()
    }
}

fn is_delayed(point: &Point) -> bool {
    point.choice("acks") == "delayed"
}

/// Rounds if each window is `growth` times the one before.
fn rounds(point: &Point, growth: f64) -> f64 {
    let [size, mss] = ["size", "mss"].map(|name| as_f64(point.bytes(name).bytes()));
    let windows = (size / mss).ceil() / as_f64(point.count("initial_window"));
    // n rounds send (growth^n - 1) / (growth - 1) initial windows. A transfer that fills its last window exactly must not take
    // a round more because of rounding.
    ((windows * (growth - 1.0) + 1.0).log(growth) - 1e-9).ceil()
}

fn measured(summary: &PointSummary) -> Option<f64> {
    summary.values().get(ROUNDS)?.mean()
}

fn exact_check(results: &Results) -> Check {
    let statement = "If every segment is acknowledged, the rounds are those of the closed form.";
    let comparisons = SlowStart.comparisons(results);
    if comparisons.is_empty() {
        return Check::skipped(statement, "this plan has delayed acknowledgements only");
    }
    let differ = |comparison: &&Comparison| {
        comparison.measured.is_none_or(|measured| (measured - comparison.published).abs() > 1e-6)
    };
    let wrong: Vec<&str> = comparisons.iter().filter(differ).map(|comparison| comparison.what.as_str()).collect();
    let seen = format!("{} of {} differ: {}", wrong.len(), comparisons.len(), wrong.join("; "));
    let all = format!("all {} agree", comparisons.len());
    Check::new(statement, wrong.is_empty(), if wrong.is_empty() { all } else { seen })
}

fn delayed_check(results: &Results) -> Check {
    let statement = "With delayed acknowledgements, a transfer takes no fewer rounds than the closed form says, and at most \
                     two more than with a growth by a half.";
    let delayed: Vec<&PointSummary> = results.points().iter().filter(|summary| is_delayed(summary.point())).collect();
    if delayed.is_empty() {
        return Check::skipped(statement, "this plan has none");
    }
    let mut most = 0.0_f64;
    let mut holds = true;
    for summary in delayed {
        let (low, high) = (rounds(summary.point(), 2.0), rounds(summary.point(), 1.5) + 2.0);
        let rounds = measured(summary).unwrap_or(f64::INFINITY);
        holds &= low - 1e-6 <= rounds && rounds <= high + 1e-6;
        most = most.max(rounds / low);
    }
    Check::new(statement, holds, format!("at most {most:.2} times the closed form"))
}
