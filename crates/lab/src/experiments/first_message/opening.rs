//! Associations that begin one after the other, each with one message.

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::sctp_host::{SctpHost, SctpSender};
use festina_models::workload::{Periodic, Replay, Workload};
use festina_netsim::{Duplex, LinkConfig, LossModel, NoTap, Simulation, Tap, Topology};
use festina_sctp::Config;
use festina_units::{ByteCount, Duration, Instant};

use crate::capture::Capture;
use crate::count::as_f64;
use crate::plan::Point;
use crate::samples::Samples;
use crate::scenario::fate::{DELIVERED, DELIVERY, MESSAGES};
use crate::scenario::{Sender, Stack, StreamRecord};

/// How many packets both ends sent.
pub(super) const PACKETS: &str = "packets";
/// Their bytes, IP headers included.
pub(super) const BYTES: &str = "bytes";

/// When the association ends from which the others may know the path.
const TAUGHT_AT: Instant = Instant::from_secs(20);
/// When the first association begins that counts.
const FIRST_AT: Instant = Instant::from_millis(25_000);
/// How far they keep apart. Nothing on the path is shared, so they may overlap.
const APART: Duration = Duration::from_millis(10);
/// After the last association began the network runs empty in steps of this size.
const DRAIN_STEP: Duration = Duration::from_secs(30);
/// Time after which an undelivered message counts as lost for good.
const DRAIN_MAX: Duration = Duration::from_secs(900);

/// What a point describes.
#[derive(Clone, Debug)]
pub(super) struct Openings {
    config: Config,
    link: LinkConfig,
    size: ByteCount,
    is_known: bool,
    associations: u32,
}

impl Openings {
    pub(super) fn at(point: &Point) -> Self {
        let stack = Stack::sctp(Sender::of(point).mechanisms(), Duration::from_millis(200));
        let Stack::Sctp { receiver, .. } = stack else { unreachable!("every sender is one over SCTP") };
        // Nothing but what the messages need.
        let mut config = *receiver;
        config.timers.heartbeat_interval = None;
        let loss = LossModel::Independent(point.probability("loss"));
        Self {
            config,
            link: LinkConfig { delay: point.duration("rtt") / 2, loss, ..LinkConfig::default() },
            size: point.bytes("size"),
            is_known: point.choice("destination") == "known",
            associations: u32::try_from(point.count("associations")).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn run(&self, seed: u64) -> Samples {
        self.run_with(seed, |_| NoTap).0
    }

    pub(super) fn capture(&self, seed: u64) -> Capture {
        self.run_with(seed, Capture::of).1
    }

    fn run_with<T: Tap<Packet>>(&self, seed: u64, tap: impl FnOnce(&Topology) -> T) -> (Samples, T) {
        let path = Topology::path(&[Duplex { forward: self.link.clone(), backward: self.link.clone() }]);
        let links = [(path.sender, path.receiver), (path.receiver, path.sender)]
            .map(|(from, to)| path.topology.route(from, to).expect("a path joins both ends")[0]);
        let host = |node| SctpHost::new(node, seed, self.config.clone()).expect("the settings are within their ranges");
        let teacher =
            Workload::Periodic(Periodic { interval: Duration::from_millis(250), size: ByteCount::from_bytes(100) });
        let teacher = SctpSender { stops_at: Some(TAUGHT_AT), ..SctpSender::new(path.receiver, teacher) };
        let sending = (0..self.associations).fold(host(path.sender).with_sender(&teacher), |host, index| {
            let once = Replay::new([(Duration::ZERO, self.size)]).expect("one write of at least a byte");
            let at = FIRST_AT + APART * index;
            host.with_sender(&SctpSender {
                connects_at: at,
                starts_at: at,
                message_bytes_max: usize::MAX,
                knows_from: self.is_known.then_some(0),
                ..SctpSender::new(path.receiver, Workload::Replay(once))
            })
        });
        let tap = tap(&path.topology);
        let hosts = vec![Host::from(sending), Host::from(host(path.receiver).listening())];
        let mut simulation: Simulation<Packet, Host, T> = Simulation::with_tap(path.topology, hosts, seed, tap);
        simulation.run_until(FIRST_AT - APART);
        let before = links.map(|link| simulation.link_counters(link));
        let mut drained = FIRST_AT + APART * self.associations;
        let end = drained + DRAIN_MAX;
        let records = loop {
            drained += DRAIN_STEP;
            simulation.run_until(drained);
            let records = StreamRecord::observe(simulation.node(path.sender), simulation.node(path.receiver));
            // An association that was not accepted yet has no record.
            let is_done = records.len() > self.associations as usize && records.iter().all(StreamRecord::is_delivered);
            if is_done || drained >= end {
                break records;
            }
        };
        let mut samples = Samples::new();
        samples.set(MESSAGES, f64::from(self.associations));
        // The first is the one that teaches, if it came about.
        let openings =
            records.iter().filter(|record| record.truth().messages.iter().all(|sent| sent.due_at >= FIRST_AT));
        let delays = openings.filter_map(|record| match record.truth().messages.as_slice() {
            [message] => message.delay(),
            _ => None,
        });
        let mut delivered = 0;
        for delay in delays {
            samples.tally(DELIVERY, delay);
            delivered += 1;
        }
        samples.set(DELIVERED, as_f64(delivered));
        let (mut packets, mut bytes) = (0, 0);
        for (link, before) in links.into_iter().zip(before) {
            let after = simulation.link_counters(link);
            packets += after.offered - before.offered;
            bytes += after.offered_bytes.bytes() - before.offered_bytes.bytes();
        }
        samples.set(PACKETS, as_f64(usize::try_from(packets).unwrap_or(usize::MAX)));
        samples.set(BYTES, as_f64(usize::try_from(bytes).unwrap_or(usize::MAX)));
        (samples, simulation.into_tap())
    }
}
