//! `urgent`: small urgent messages beside one large message on the same association.

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::sctp_host::{CompanionDelivery, SctpHost, SctpSender, companion_deliveries};
use festina_models::workload::{Periodic, Replay, Workload};
use festina_netsim::{Duplex, LinkConfig, Path, QueueLimit, Simulation, Topology};
use festina_recovery::Profile;
use festina_sctp::{Config, StreamScheduler};
use festina_units::{ByteCount, Duration, Instant};

use crate::count::as_f64;
use crate::experiment::{Description, Experiment};
use crate::figure::{DelayDistribution, Figure, Threshold};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::Results;

/// From when the application has an urgent message to when it leaves.
const WAIT: &str = "wait in the sender";
/// From there to its delivery.
const TRAVEL: &str = "after the sender";
const UNDELIVERED: &str = "undelivered";
/// When the large message was delivered, in seconds after it was written.
const BULK: &str = "s for the large message";
/// How long the longest way takes if nothing but queue and propagation delays it, in milliseconds.
const QUEUE: &str = "ms of queue and propagation";

/// A wait in the sender is short up to this, at the 99th percentile.
const WAIT_MAX: Duration = Duration::from_millis(3);

const INTERLEAVED: &str = "interleaved";

/// MTU 1500 less the IPv4 header.
const PACKET_BYTES_MAX: usize = 1_480;
const IP_PACKET_BYTES: u64 = 1_500;
/// By then the handshake is over.
const STARTS_AT: Instant = Instant::from_secs(1);
const STEP: Duration = Duration::from_secs(1);
/// A run is given up after this multiple of the time that the link needs.
const PATIENCE: u32 = 4;

/// Urgent messages beside a large one.
#[derive(Clone, Copy, Debug)]
pub struct Urgent;

impl Experiment for Urgent {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/urgent.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let scene = Scene::of(point);
        let mut samples = Samples::new();
        let (deliveries, bulk) = scene.run(seed);
        let mut undelivered = 0_u64;
        for CompanionDelivery { due_at, left_at, delivered_at } in deliveries {
            if let Some(left_at) = left_at {
                samples.tally(WAIT, left_at - due_at);
                delivered_at.into_iter().for_each(|at| samples.tally(TRAVEL, at - left_at));
            }
            undelivered += u64::from(delivered_at.is_none());
        }
        samples.set(UNDELIVERED, as_f64(undelivered));
        samples.set(QUEUE, scene.longest_way().as_secs_f64() * 1e3);
        bulk.into_iter().for_each(|time| samples.set(BULK, time.as_secs_f64()));
        samples
    }

    fn is_random(&self, _point: &Point) -> bool {
        false
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[UNDELIVERED, BULK, QUEUE]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let mut figure = DelayDistribution::new(
            "Urgent messages beside a large one: their wait in the sender",
            &results.plan().conditions(),
        );
        figure.threshold(Threshold::new(WAIT_MAX, "3 ms"));
        for summary in results.points() {
            let point = summary.point();
            if let Some(waits) = summary.series().get(WAIT) {
                figure.curve(&format!("{}, {}", point.choice("sender"), point.choice("framing")), waits.all());
            }
        }
        vec![figure.figure()]
    }
}

/// What a point describes.
struct Scene {
    config: Config,
    bulk: ByteCount,
    urgent: Periodic,
    link: LinkConfig,
    rate_bps: f64,
    queue_packets: u64,
}

impl Scene {
    fn of(point: &Point) -> Self {
        let profile: Profile = point.choice("sender").parse().expect("a plan can choose only from profiles");
        let (bulk, rate) = (point.bytes("bulk"), point.bandwidth("rate"));
        let mut config = Config {
            interleaving: point.choice("framing") == INTERLEAVED,
            scheduler: StreamScheduler::Priority,
            peer_timeout: None,
            ..Config::published(profile)
        };
        // Both buffers hold the large message and the urgent ones.
        let bytes = usize::try_from(bulk.bytes()).unwrap_or(usize::MAX);
        config.limits.packet_bytes_max = PACKET_BYTES_MAX;
        config.limits.message_bytes_max = bytes;
        config.limits.send_buffer_bytes = bytes * 2 + (1 << 20);
        config.limits.send_low_water_bytes = bytes;
        config.limits.receive_buffer_bytes = bytes * 2 + (1 << 20);
        let queue_packets = point.count("queue");
        let queue = QueueLimit::packets(usize::try_from(queue_packets).unwrap_or(usize::MAX));
        Self {
            config,
            bulk,
            urgent: Periodic { interval: point.duration("interval"), size: point.bytes("size") },
            link: LinkConfig { rate: Some(rate), delay: point.duration("rtt") / 2, queue, ..LinkConfig::default() },
            rate_bps: as_f64(rate.bits_per_second()),
            queue_packets,
        }
    }

    /// What the link needs for the large message.
    fn carrying(&self) -> Duration {
        Duration::from_secs_f64(as_f64(self.bulk.bytes() * 8) / self.rate_bps)
    }

    /// Through a full queue, behind the packet that is being transmitted, in a full packet of its own.
    fn longest_way(&self) -> Duration {
        let packets = as_f64(self.queue_packets + 2);
        self.link.delay + Duration::from_secs_f64(packets * as_f64(IP_PACKET_BYTES * 8) / self.rate_bps)
    }

    /// How the urgent messages fared, and how long the large one took.
    fn run(&self, seed: u64) -> (Vec<CompanionDelivery>, Option<Duration>) {
        let Path { topology, sender: from, receiver: to, .. } = Topology::path(&[Duplex::symmetric(self.link.clone())]);
        let large = Replay::new([(Duration::ZERO, self.bulk)]).expect("there is one write");
        let stops_at = STARTS_AT + self.carrying();
        let sending = SctpSender {
            starts_at: STARTS_AT,
            stops_at: Some(stops_at),
            message_bytes_max: usize::try_from(self.bulk.bytes()).unwrap_or(usize::MAX),
            companion: Some(Workload::Periodic(self.urgent)),
            ..SctpSender::new(to, Workload::Replay(large))
        };
        let host = |node| {
            SctpHost::new(node, seed, self.config.clone()).expect("the experiment's settings are within their ranges")
        };
        let hosts = vec![host(from).with_sender(&sending).into(), host(to).listening().into()];
        let mut simulation: Simulation<Packet, Host> = Simulation::new(topology, hosts, seed);
        let given_up_at = STARTS_AT + self.carrying() * PATIENCE + STEP * 10;
        let mut now = stops_at;
        let mut bulk = None;
        loop {
            simulation.run_until(now);
            let [sender, receiver] =
                [from, to].map(|node| simulation.node(node).as_sctp().expect("both ends are of SCTP"));
            let deliveries = companion_deliveries(sender, receiver);
            if bulk.is_none() && receiver.received(0).bytes >= self.bulk.bytes() {
                bulk = Some(now - STARTS_AT);
            }
            let is_over = bulk.is_some() && deliveries.iter().all(|delivery| delivery.delivered_at.is_some());
            if is_over || now >= given_up_at {
                return (deliveries, bulk);
            }
            now += STEP;
        }
    }
}
