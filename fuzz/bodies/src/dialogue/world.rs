//! Both hosts, the network between them, and the invariants after every step.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use bytes::Bytes;
use festina_sctp::wire::{Chunk, CommonHeader, Packet};
use festina_sctp::{Association, ClosedReason, Incoming, Message, StreamId};
use festina_units::{Duration, Instant};

use super::heap::{live_bytes, on_behalf_of};
use super::host::Host;
use super::ledger::{HEADER_BYTES, Ledger};
use super::network::{Arrival, DELAY_MAX, Network, received, time};
use super::plan::{Ending, MessagePlan, Opening, Operation, Plan, Tear};
use crate::chunks::{Forgery, TagPlan};
use crate::forge::{ecn_of, forge, learn};
use crate::settings::{config, index, mechanisms};

/// Calls until no timer is due, as in the target `association`.
const TIMERS_AT_ONCE_MAX: usize = 2;
/// Packets that one call may release.
const PACKETS_PER_CALL_MAX: usize = 400;
/// Packets that one host may send in a second of virtual time, in addition to those for its messages.
const PACKETS_PER_SECOND_MAX: usize = 4_000;
/// Packets that one message may need, copies and answers included.
const PACKETS_PER_MESSAGE_MAX: usize = 20;
/// Bytes of long messages that allow one more packet.
const BYTES_PER_PACKET: usize = 50;
/// Packets, heartbeats not counted, that one host may send once the link has recovered, in addition to those for the
/// messages of both hosts.
const RECOVERY_PACKETS_MAX: usize = 200;
/// Packets that one message may need on a recovered link.
const RECOVERY_PACKETS_PER_MESSAGE_MAX: usize = 2;
/// Bytes of long messages that allow one more packet on a recovered link.
const RECOVERY_BYTES_PER_PACKET: usize = 100;
/// Maximum of each wait, and of all waits together.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Maximum lifetime of a message.
const LIFETIME_MAX: Duration = Duration::from_secs(3_600);
/// Time within which a recovered link delivers everything, or the peer counts as dead.
const RECOVERY_MAX: Duration = Duration::from_secs(30 * 60);
/// Ports that a host may have moved by.
const PORTS_MOVED_MAX: u16 = 100;
/// A handshake takes fewer packets and timers. After that, a tear is an ordinary restart.
const STEPS_BEFORE_TEAR_MAX: u8 = 8;
/// A handshake over the link at its best takes 42 ms.
const LATE_MS_MAX: u8 = 64;

/// The hosts and the network.
pub(crate) struct World {
    now: Instant,
    hosts: [Host; 2],
    network: Network,
    ledger: Ledger,
    /// Whether an attacker has sent anything.
    attacked: bool,
    /// Whether a host has lost its state.
    restarted: bool,
    /// The network was not good until this time, or affected packets in transit until then.
    disturbed_until: Instant,
    /// The second in which packets are counted, and how many each host has sent in it.
    second: u64,
    packets: [usize; 2],
    /// Packets other than heartbeats that each host has sent since the link recovered.
    recovery_packets: [usize; 2],
    waited: Duration,
    trace: DefaultHasher,
}

impl World {
    /// Runs the plan, checks everything, and returns the hash of all packets.
    pub(crate) fn run(plan: &Plan) -> u64 {
        let mut config = config(&plan.setup);
        config.limits.message_bytes_max = config.limits.message_bytes_max.max(HEADER_BYTES);
        let mut ledger = Ledger::default();
        let hosts = [0, 1].map(|index| Host::new(index, config.clone(), ledger.open()));
        let mut world = Self {
            now: Instant::from_secs(1_000),
            hosts,
            network: Network::new(plan.seed),
            ledger,
            attacked: false,
            restarted: false,
            disturbed_until: Instant::ZERO,
            second: 0,
            packets: [0; 2],
            recovery_packets: [0; 2],
            waited: Duration::ZERO,
            trace: DefaultHasher::new(),
        };
        world.open(plan.opening);
        for operation in &plan.operations.0 {
            world.act(operation);
        }
        world.end(plan.ending);
        world.trace.finish()
    }

    fn open(&mut self, opening: Opening) {
        self.connect(0);
        if opening != Opening::Client {
            self.connect(1);
        }
        if let Opening::Torn(Tear { at, steps, late_ms }) = opening {
            (0..steps % STEPS_BEFORE_TEAR_MAX).for_each(|_| self.step());
            let late = Duration::from_millis((late_ms % LATE_MS_MAX).into());
            self.network.delay(1 - index(at), late);
            self.restart(index(at), true);
        }
    }

    /// Goes to the next packet or timer.
    fn step(&mut self) {
        if let Some(at) = self.next_at() {
            self.run_until(at);
        }
    }

    fn act(&mut self, operation: &Operation) {
        let now = self.now;
        match operation {
            Operation::Send { from, message, count } => self.send(index(*from), message, *count),
            Operation::Read { at, count } => self.read(index(*at), usize::from(*count)),
            Operation::ReadAll { at, on } => {
                self.hosts[index(*at)].reads = *on;
                self.settle(index(*at));
            }
            Operation::Wait(span) => {
                let span = time(*span, WAIT_MAX - self.waited);
                self.waited += span;
                self.run_until(now + span);
            }
            Operation::Step => self.step(),
            Operation::Late { to, by } => {
                let by = time(*by, DELAY_MAX);
                self.disturbed_until = self.disturbed_until.max(now + by);
                self.network.delay(index(*to), by);
            }
            Operation::Link { to, link } => self.network.set_link(index(*to), *link),
            Operation::Pad { to, packets, padding } => self.network.pad(index(*to), *packets, *padding),
            Operation::SetMechanisms { at, mechanisms: plan } => {
                self.with_association(index(*at), |association| association.set_mechanisms(now, mechanisms(plan)));
            }
            Operation::Reset { at, asked, stream } => self.reset(index(*at), *asked, *stream),
            Operation::AddStreams { at, outbound, inbound } => {
                let (outbound, inbound) = (u16::from(*outbound), u16::from(*inbound));
                // Refused for a reason; which one is for other tests.
                self.with_association(index(*at), |association| {
                    let _refused = association.add_streams(now, outbound, inbound);
                });
            }
            Operation::SetStreamValue { at, stream, value } => {
                let (stream, value) = (StreamId(u16::from(*stream)), u16::from(*value));
                self.with_association(index(*at), |association| association.set_stream_value(stream, value));
            }
            Operation::Connect { at } => {
                if !self.hosts[index(*at)].is_living() && self.ledger.has_room() {
                    self.connect(index(*at));
                }
            }
            Operation::Shutdown { at } => self.shutdown(index(*at)),
            Operation::Abort { at } => self.with_association(index(*at), |association| association.abort(b"enough")),
            Operation::Restart { at, connects } => self.restart(index(*at), *connects),
            Operation::Rebind { at } => {
                // The peer's probes go to the old address until this host sends, and it may have nothing to send.
                self.disturbed_until = Instant::MAX;
                let address = &mut self.hosts[index(*at)].address;
                address.set_port(9_899 + (address.port() + 1 - 9_899) % PORTS_MOVED_MAX);
            }
            Operation::Attack { to, forgery } => self.attack(index(*to), forgery),
        }
    }

    fn end(&mut self, ending: Ending) {
        self.network.heal();
        self.recovery_packets = [0; 2];
        let (side, deaf) = match ending {
            Ending::Drained(side) | Ending::AtOnce(side) => (index(side), false),
            Ending::Deaf(side) => (index(side), true),
        };
        for at in 0..2 {
            self.hosts[at].reads = !(deaf && at != side);
            self.settle(at);
        }
        if matches!(ending, Ending::Drained(_)) {
            self.run_until(self.now + RECOVERY_MAX);
            if self.hosts.iter().all(Host::is_established) && !self.attacked {
                self.check_drained();
            }
        }
        self.shut_down_and_wait(side);
        // A peer without an association may have been revived by a late packet, and has to end as well.
        for at in [1 - side, side, 1 - side] {
            self.shut_down_and_wait(at);
        }
        for at in 0..2 {
            self.hosts[at].read(usize::MAX, &mut self.ledger);
        }
        for host in &self.hosts {
            assert!(!host.is_living(), "all peers have ended, and yet one host lives");
        }
        self.check_recovery_packets();
        self.ledger.check_all_complete();
        self.ledger.check_confirmed();
    }

    /// Checks that an association that shuts down ends, regardless of its peer.
    fn shut_down_and_wait(&mut self, at: usize) {
        let session = self.hosts[at].session;
        self.shutdown(at);
        self.run_until(self.now + RECOVERY_MAX);
        let host = &self.hosts[at];
        let state = host.association.as_ref().map(Association::state);
        assert!(!host.is_living() || host.session != session, "told to shut down, and yet it lives: {state:?}");
    }

    /// Checks that few packets left over the good link: one that is repeated without effect makes many.
    fn check_recovery_packets(&self) {
        let (messages, bytes) = self.ledger.sent();
        // A forged message may fill the buffer for good, and a host that has moved may be out of reach: linear timeouts
        // without a cap then go on for as long.
        if self.attacked || self.disturbed_until == Instant::MAX {
            return;
        }
        let packets_max =
            RECOVERY_PACKETS_MAX + RECOVERY_PACKETS_PER_MESSAGE_MAX * messages + bytes / RECOVERY_BYTES_PER_PACKET;
        let packets = self.recovery_packets;
        assert!(
            packets.iter().all(|&count| count <= packets_max),
            "{packets:?} packets over a good link, and {packets_max} are enough"
        );
    }

    fn check_drained(&self) {
        for host in &self.hosts {
            let buffered = host.association.as_ref().map(|association| association.stats().path.send_buffer_bytes);
            assert_eq!(buffered, Some(0), "the link is good, and yet something is stuck");
            self.ledger.check_complete(host.session);
        }
    }

    fn connect(&mut self, at: usize) {
        let (now, remote) = (self.now, self.hosts[1 - at].address);
        self.hosts[at].connect(now, remote, &mut self.ledger);
        self.settle(at);
    }

    /// Messages that the other host has sent to the old incarnation may be lost with it.
    fn restart(&mut self, at: usize, connects: bool) {
        if !self.ledger.has_room() {
            return;
        }
        self.restarted = true;
        self.ledger.tear(self.hosts[1 - at].session);
        self.hosts[at].forget(&mut self.ledger);
        if connects {
            self.connect(at);
        }
    }

    fn shutdown(&mut self, at: usize) {
        let now = self.now;
        self.with_association(at, |association| association.shutdown(now));
    }

    fn reset(&mut self, at: usize, asked: bool, stream: Option<u8>) {
        let now = self.now;
        let streams: Vec<_> = stream.map(|stream| StreamId(u16::from(stream))).into_iter().collect();
        self.with_association(at, |association| {
            // Refused for a reason; which one is for other tests.
            let _refused = match asked {
                false => association.reset_streams(now, &streams),
                true => association.request_reset(now, &streams),
            };
        });
    }

    fn send(&mut self, from: usize, plan: &MessagePlan, count: u8) {
        for _ in 0..=count {
            let host = &mut self.hosts[from];
            let bytes = usize::from(plan.bytes).max(HEADER_BYTES);
            let (ledger, session) = (&mut self.ledger, host.session);
            let payload = on_behalf_of(from, || ledger.next_payload(session, bytes));
            let message = plan.message(payload, self.now);
            if !host.send(self.now, message, ledger) {
                break;
            }
            self.settle(from);
        }
    }

    fn read(&mut self, at: usize, count: usize) {
        self.hosts[at].read(count, &mut self.ledger);
        self.settle(at);
    }

    fn with_association(&mut self, at: usize, action: impl FnOnce(&mut Association)) {
        if let Some(association) = self.hosts[at].living() {
            on_behalf_of(at, || action(association));
            self.settle(at);
        }
    }

    fn attack(&mut self, to: usize, forgery: &Forgery) {
        self.attacked = true;
        self.ledger.distrust();
        let host = &self.hosts[to];
        let tag = |host: &Host| host.association.as_ref().map_or(0, Association::local_tag);
        let verification_tag = match forgery.tag {
            TagPlan::Right => tag(host),
            TagPlan::Reflected => tag(&self.hosts[1 - to]),
            TagPlan::Zero => 0,
            TagPlan::Other(tag) => tag,
        };
        let source_port = if forgery.right_ports { host.ports.peer } else { 9 };
        let header = CommonHeader { source_port, destination_port: host.ports.local, verification_tag };
        let packet = forge(header, &forgery.chunks, &host.knowledge);
        let source = self.hosts[1 - to].address;
        self.deliver(Arrival { to, source, destination: self.hosts[to].address, bytes: packet });
    }

    fn deadline(&self) -> Option<Instant> {
        self.hosts.iter().filter_map(|host| host.association.as_ref()?.poll_deadline()).min()
    }

    fn next_at(&self) -> Option<Instant> {
        [self.network.next_at(), self.deadline()].into_iter().flatten().min()
    }

    fn run_until(&mut self, until: Instant) {
        if !self.network.is_good() {
            self.disturbed_until = self.disturbed_until.max(until);
        }
        while let Some(at) = self.next_at().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            if self.network.next_at() == Some(at) {
                if let Some(arrival) = self.network.next() {
                    self.deliver(arrival);
                }
            } else {
                self.expire();
            }
        }
        self.now = self.now.max(until);
    }

    fn expire(&mut self) {
        let now = self.now;
        for at in 0..2 {
            let is_later = (0..TIMERS_AT_ONCE_MAX).any(|_| {
                self.with_association(at, |association| association.handle_timeout(now));
                let deadline = self.hosts[at].association.as_ref().and_then(Association::poll_deadline);
                deadline.is_none_or(|deadline| deadline > now)
            });
            assert!(is_later, "a timer that was handled is still due");
        }
    }

    /// Gives a packet to a host, as its socket would, if the host still has the packet's destination address.
    fn deliver(&mut self, Arrival { to, source, destination, bytes }: Arrival) {
        if destination != self.hosts[to].address {
            return;
        }
        let now = self.now;
        let heap_before = live_bytes(to);
        let packet = on_behalf_of(to, || received(&bytes));
        let host = &mut self.hosts[to];
        if let Some(association) = host.living() {
            // The reason why a packet is dropped is for other tests.
            let _dropped = on_behalf_of(to, || association.handle_packet(now, source, ecn_of(&packet), &packet));
        } else if self.ledger.has_room() {
            let mut reply = Vec::new();
            let listener = &host.listener;
            match on_behalf_of(to, || listener.handle_packet(now, source, &packet, &|_| false, &mut reply)) {
                Incoming::Accepted(association) => host.adopt(*association, heap_before, &mut self.ledger),
                Incoming::Reply => self.transmit(to, source, reply),
                _ => assert!(reply.is_empty(), "nothing is to be sent"),
            }
        }
        drop(packet);
        self.settle(to);
    }

    /// Checks that no live peer counts as gone if the network has been good for longer than the timeout of a probe.
    fn check_end(&self, at: usize) {
        let host = &self.hosts[at];
        let timeout = host.context.config().peer_timeout.filter(|_| host.closed == Some(ClosedReason::PeerUnreachable));
        if let Some(timeout) = timeout.filter(|_| self.hosts[1 - at].is_established()) {
            let good_for = self.now.saturating_duration_since(self.disturbed_until);
            assert!(
                good_for <= timeout / 4,
                "the network has been good for {good_for:?}, and yet the peer counts as gone"
            );
        }
    }

    /// Sends the pending packets of a host, takes its events, lets its application read, and checks it.
    fn settle(&mut self, at: usize) {
        self.drain(at);
        let excused = self.attacked || self.hosts.iter().any(|host| host.has_revived);
        let was_open = self.hosts[at].closed.is_none();
        self.hosts[at].poll_events(excused, &mut self.ledger);
        if was_open && !excused && !self.restarted {
            self.check_end(at);
        }
        if self.hosts[at].reads {
            self.hosts[at].read(usize::MAX, &mut self.ledger);
            self.drain(at);
        }
        self.hosts[at].check_heap();
        if !excused {
            self.hosts[at].check_round_trip(self.network.round_trip_min());
        }
    }

    fn drain(&mut self, at: usize) {
        let now = self.now;
        let mut buffer = Vec::new();
        for _ in 0..=PACKETS_PER_CALL_MAX {
            let Some(association) = &mut self.hosts[at].association else { return };
            buffer.clear();
            let Some(transmit) = on_behalf_of(at, || association.poll_transmit(now, &mut buffer)) else { return };
            self.transmit(at, transmit.destination, buffer.clone());
        }
        panic!("one call releases packets without end");
    }

    fn transmit(&mut self, from: usize, destination: SocketAddr, bytes: Vec<u8>) {
        (self.now, from, destination, &bytes).hash(&mut self.trace);
        let [first, second] = &mut self.hosts;
        let (sender, receiver) = if from == 0 { (first, second) } else { (second, first) };
        let packet = Packet::parse(&bytes).expect("a packet that was sent is whole");
        learn(&packet, &mut sender.knowledge, &mut receiver.knowledge);
        let is_heartbeat =
            packet.chunks().all(|chunk| matches!(chunk, Ok(Chunk::Heartbeat(_) | Chunk::HeartbeatAck(_))));
        let source = sender.address;
        self.network.send(self.now, Arrival { to: 1 - from, source, destination, bytes });
        self.count_packet(from, is_heartbeat);
    }

    fn count_packet(&mut self, from: usize, is_heartbeat: bool) {
        let second = self.now.as_nanos() / 1_000_000_000;
        if second != self.second {
            (self.second, self.packets) = (second, [0; 2]);
        }
        self.packets[from] += 1;
        self.recovery_packets[from] += usize::from(!is_heartbeat);
        let (messages, bytes) = self.ledger.sent();
        let packets_max = PACKETS_PER_SECOND_MAX + PACKETS_PER_MESSAGE_MAX * messages + bytes / BYTES_PER_PACKET;
        assert!(self.packets[from] <= packets_max, "{packets_max} packets in one second");
    }
}

impl MessagePlan {
    fn message(&self, payload: Bytes, now: Instant) -> Message {
        let mut message = Message::new(payload)
            .on_stream(u16::from(self.stream))
            .unordered_if(self.unordered)
            .with_lifetime(self.lifetime.map(|span| time(span, LIFETIME_MAX)))
            .with_deadline(self.deadline.map(|span| now + time(span, LIFETIME_MAX)))
            .with_max_retransmissions(self.retransmissions.map_or(u16::MAX, u16::from))
            .with_confirmation(true);
        if self.immediate {
            message = message.with_immediate_ack();
        }
        if let Some(priority) = self.priority {
            message = message.with_priority(priority.into());
        }
        if let Some(key) = self.key {
            message = message.replacing(key.into());
        }
        message
    }
}
