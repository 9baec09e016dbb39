//! `slow-start`: how many rounds a transfer takes while cwnd doubles.

use festina_models::tcp::{DelayedAck, Growth, SendBufferLimit, TcpConfig};
use festina_units::Duration;

use crate::count::as_f64;
use crate::evidence::Estimate;
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Stack, ThinStream};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Results};

const ROUNDS: &str = "rounds";
/// If each window is twice the one before.
const CLOSED_FORM: &str = "rounds of the closed form";
/// If it is one and a half times.
const BY_HALF: &str = "rounds with a growth by a half";
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
        samples.set(CLOSED_FORM, rounds(point, 2.0));
        samples.set(BY_HALF, rounds(point, 1.5));
        samples.set(ROUNDS, (delay.saturating_sub(rtt / 2)).div_duration_f64(rtt) + 1.0);
        samples
    }

    fn is_random(&self, _point: &Point) -> bool {
        false
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let every_segment = results.points().iter().filter(|summary| !is_delayed(summary.point()));
        let entry = |summary: &PointSummary| {
            let what = format!("{ROUNDS}, {}", results.plan().label(summary.point()));
            let measured = summary.values().get(ROUNDS).and_then(|rounds| rounds.mean());
            Entry::value(what, "", rounds(summary.point(), 2.0), measured.map(Estimate::exact))
        };
        every_segment.map(entry).collect()
    }

    /// The numbers say it all.
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
