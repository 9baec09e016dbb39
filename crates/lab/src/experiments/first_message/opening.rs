//! Associations that begin one after the other, each with one message.

use std::sync::Arc;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::sctp_host::{SctpHost, SctpSender};
use festina_models::workload::{Periodic, Replay, Workload};
use festina_netsim::{Duplex, LinkConfig, LossModel, NoTap, Node, NodeId, Simulation, Tap, Topology};
use festina_sctp::Config;
use festina_units::{ByteCount, Duration, Instant};

use super::credentials::Credentials;
use super::secure::{SecureHost, Writing};
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

/// Messages of the association that teaches the path to the others.
const TEACHING_PAUSE: Duration = Duration::from_millis(250);
const TEACHING_SIZE: ByteCount = ByteCount::from_bytes(100);
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

/// The encrypted contenders, with their names in plans: a full handshake, and a resumed session with an early message.
pub(super) const SECURE: &str = "festina-secure";
pub(super) const SECURE_EARLY: &str = "festina-secure-0rtt";

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Plain,
    Secure { resumes: bool },
}

impl Layer {
    /// The layer of a sender, and the name of the sender above it.
    fn of(sender: &str) -> (Self, &str) {
        match sender {
            SECURE => (Self::Secure { resumes: false }, "festina"),
            SECURE_EARLY => (Self::Secure { resumes: true }, "festina"),
            plain => (Self::Plain, plain),
        }
    }
}

/// What a point describes.
#[derive(Clone, Debug)]
pub(super) struct Openings {
    layer: Layer,
    config: Config,
    link: LinkConfig,
    size: ByteCount,
    is_known: bool,
    associations: u32,
}

impl Openings {
    pub(super) fn at(point: &Point) -> Self {
        let (layer, sender) = Layer::of(point.choice("sender"));
        let stack = Stack::sctp(Sender::named(sender).mechanisms(), Duration::from_millis(200));
        let Stack::Sctp { receiver, .. } = stack else { unreachable!("every sender is one over SCTP") };
        // Nothing but what the messages need.
        let mut config = *receiver;
        config.timers.heartbeat_interval = None;
        let loss = LossModel::Independent(point.probability("loss"));
        Self {
            layer,
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
        let tap = tap(&path.topology);
        let ends = [path.sender, path.receiver];
        match self.layer {
            Layer::Plain => self.observe(path.topology, ends, (self.plain_hosts(seed, ends), seed), tap, |hosts| {
                let records = StreamRecord::observe(hosts[0], hosts[1]);
                // The first is the one that teaches, if it came about.
                let openings =
                    records.iter().filter(|record| record.truth().messages.iter().all(|sent| sent.due_at >= FIRST_AT));
                let delays = openings.map(|record| match record.truth().messages.as_slice() {
                    [message] => message.delay(),
                    _ => None,
                });
                delays.collect()
            }),
            Layer::Secure { resumes } => {
                let hosts = (self.secure_hosts(seed, ends, resumes), seed);
                self.observe(path.topology, ends, hosts, tap, |[client, server]| client.delays(server))
            }
        }
    }

    /// Runs the hosts until all messages are delivered, whose delays `delays` knows.
    fn observe<N: Node<Packet>, T: Tap<Packet>>(
        &self,
        topology: Topology,
        ends: [NodeId; 2],
        (hosts, seed): ([N; 2], u64),
        tap: T,
        delays: impl Fn([&N; 2]) -> Vec<Option<Duration>>,
    ) -> (Samples, T) {
        let [sender, receiver] = ends;
        let links = [(sender, receiver), (receiver, sender)]
            .map(|(from, to)| topology.route(from, to).expect("a path joins both ends")[0]);
        let mut simulation: Simulation<Packet, N, T> = Simulation::with_tap(topology, hosts.into(), seed, tap);
        simulation.run_until(FIRST_AT - APART);
        let before = links.map(|link| simulation.link_counters(link));
        let mut drained = FIRST_AT + APART * self.associations;
        let end = drained + DRAIN_MAX;
        let delays: Vec<Duration> = loop {
            drained += DRAIN_STEP;
            simulation.run_until(drained);
            let delivered = delays(ends.map(|end| simulation.node(end))).into_iter().flatten().collect::<Vec<_>>();
            if delivered.len() >= self.associations as usize || drained >= end {
                break delivered;
            }
        };
        let mut samples = Samples::new();
        samples.set(MESSAGES, f64::from(self.associations));
        samples.set(DELIVERED, as_f64(delays.len()));
        for delay in delays {
            samples.tally(DELIVERY, delay);
        }
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

    fn plain_hosts(&self, seed: u64, [sender, receiver]: [NodeId; 2]) -> [Host; 2] {
        let host = |node| SctpHost::new(node, seed, self.config.clone()).expect("the settings are within their ranges");
        let teacher = Workload::Periodic(Periodic { interval: TEACHING_PAUSE, size: TEACHING_SIZE });
        let teacher = SctpSender { stops_at: Some(TAUGHT_AT), ..SctpSender::new(receiver, teacher) };
        let sending = (0..self.associations).fold(host(sender).with_sender(&teacher), |host, index| {
            let once = Replay::new([(Duration::ZERO, self.size)]).expect("one write of at least a byte");
            let at = FIRST_AT + APART * index;
            host.with_sender(&SctpSender {
                connects_at: at,
                starts_at: at,
                message_bytes_max: usize::MAX,
                knows_from: self.is_known.then_some(0),
                ..SctpSender::new(receiver, Workload::Replay(once))
            })
        });
        [Host::from(sending), Host::from(host(receiver).listening())]
    }

    fn secure_hosts(&self, seed: u64, ends: [NodeId; 2], resumes: bool) -> [SecureHost; 2] {
        let credentials = Arc::new(Credentials::new(resumes));
        let client = SecureHost::client(ends, seed, &self.config, &credentials, (resumes, self.is_known));
        let teaching = Writing {
            next_at: Some(Instant::from_secs(1)),
            every: Some((TEACHING_PAUSE, TAUGHT_AT)),
            bytes: usize::try_from(TEACHING_SIZE.bytes()).unwrap_or(usize::MAX),
        };
        let client = (0..self.associations).fold(client.with_writing(teaching), |client, index| {
            let bytes = usize::try_from(self.size.bytes()).unwrap_or(usize::MAX);
            client.with_writing(Writing { next_at: Some(FIRST_AT + APART * index), every: None, bytes })
        });
        let [sender, receiver] = ends;
        [client, SecureHost::server([receiver, sender], seed, &self.config, &credentials)]
    }
}
