//! `mathis`: the throughput of one greedy TCP flow against the square-root law.

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::tcp::{DelayedAck, Growth, SendBufferLimit, TcpConfig};
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::workload::{Greedy, Workload};
use festina_netsim::{Duplex, LinkConfig, LossModel, Simulation, Topology};
use festina_units::{ByteCount, Duration, Instant, Probability};

use crate::count::as_f64;
use crate::evidence::Estimate;
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Results};

/// Segments delivered in each round trip.
const WINDOW: &str = "segments per round trip";
/// Timeouts for each thousand round trips.
const TIMEOUTS: &str = "timeouts per thousand round trips";

/// When the first slow start and its aftermath are over.
const MEASURES_FROM: Duration = Duration::from_secs(60);
/// Losses up to which the law has to hold; beyond, windows are so small that timeouts take their share.
const VALID_UP_TO: Probability = Probability::from_ppb(3_000_000);
/// Delayed acknowledgements come after this at the latest, as on today's stacks; after 200 ms they would make a timer of 200
/// ms expire for nothing.
const ACK_DELAY: Duration = Duration::from_millis(40);
/// Room for any window that occurs.
const BUFFER_BYTES: u64 = 1 << 30;

/// One greedy flow over a path with random loss.
#[derive(Clone, Copy, Debug)]
pub struct Mathis;

impl Experiment for Mathis {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/mathis.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let rtt = point.duration("rtt");
        let back = LinkConfig { delay: rtt / 2, ..LinkConfig::default() };
        let forth = LinkConfig { loss: LossModel::Independent(point.probability("loss")), ..back.clone() };
        let path = Topology::path(&[Duplex { forward: forth, backward: back }]);
        let config = config(point);
        let greedy = Workload::Greedy(Greedy { size: ByteCount::from_bytes(64 << 10) });
        let flow = TcpSender { starts_at: Instant::ZERO, ..TcpSender::new(path.receiver, config, greedy) };
        let (sender, receiver) = (path.sender, path.receiver);
        let hosts: Vec<Host> = vec![
            TcpHost::new(sender, seed).with_sender(flow).into(),
            TcpHost::new(receiver, seed).listening(config).into(),
        ];
        let mut simulation: Simulation<Packet, Host> = Simulation::new(path.topology, hosts, seed);
        let mut measure = |until: Instant| {
            simulation.run_until(until);
            let host = |node| simulation.node(node).as_tcp().expect("both hosts speak TCP");
            (host(receiver).totals().bytes_received, host(sender).counters(0).map_or(0, |counters| counters.timeouts))
        };
        let start = Instant::ZERO + MEASURES_FROM;
        let (bytes_before, timeouts_before) = measure(start);
        let (bytes, timeouts) = measure(start + point.duration("duration"));
        let round_trips = point.duration("duration").as_secs_f64() / rtt.as_secs_f64();
        let segments = as_f64(bytes - bytes_before) / as_f64(point.bytes("mss").bytes());
        let mut samples = Samples::new();
        samples.set(WINDOW, segments / round_trips);
        samples.set(TIMEOUTS, as_f64(timeouts - timeouts_before) * 1e3 / round_trips);
        samples
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let entry = |summary: &PointSummary| {
            let what = format!("{WINDOW}, {}", results.plan().label(summary.point()));
            let window = summary.values().get(WINDOW).and_then(Estimate::of);
            let entry = Entry::value(what, "", law(summary.point()), window);
            match why(summary) {
                Some(why) => entry.because(why),
                None => entry,
            }
        };
        results.points().iter().map(entry).collect()
    }

    /// The numbers say it all.
    fn figures(&self, _results: &Results) -> Vec<Figure> {
        Vec::new()
    }
}

fn config(point: &Point) -> TcpConfig {
    let recovery = if point.choice("recovery") == "sack" { TcpConfig::sack() } else { TcpConfig::new_reno() };
    let delayed_ack =
        if is_delayed(point) { DelayedAck { delay: ACK_DELAY, ..DelayedAck::default() } } else { DelayedAck::OFF };
    TcpConfig {
        mss_bytes: u32::try_from(point.bytes("mss").bytes()).unwrap_or(u32::MAX),
        receive_buffer_bytes: BUFFER_BYTES,
        send_buffer: SendBufferLimit::Bytes(BUFFER_BYTES),
        growth: Growth::PerAck,
        delayed_ack,
        ..recovery
    }
}

fn is_delayed(point: &Point) -> bool {
    point.choice("acks") == "delayed"
}

/// The mean window of the law, in segments.
fn law(point: &Point) -> f64 {
    let factor = if is_delayed(point) { 3.0 / 4.0 } else { 3.0 / 2.0 };
    (factor / point.probability("loss").as_fraction()).sqrt()
}

fn why(summary: &PointSummary) -> Option<String> {
    let timeouts = summary.values().get(TIMEOUTS)?.mean()?;
    (summary.point().probability("loss") > VALID_UP_TO).then(|| {
        format!(
            "the law has no timeouts; there were {timeouts:.0} in a thousand round trips, and each costs several round trips"
        )
    })
}
