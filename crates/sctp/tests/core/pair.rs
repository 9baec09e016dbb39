//! Two endpoints joined by a link in each direction, in virtual time.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use festina_netsim::{JitterShape, Link, LinkConfig, LinkCounters, LinkPacket, RandomStream};
use festina_sctp::wire::Packet;
use festina_sctp::{
    Association, ClosedReason, Config, Context, Event, Expiry, Fragmentation, Incoming, Listener, PacketDropped,
    PathKnowledge, Ports, ReceivedMessage, Stats,
};
use festina_units::{ByteCount, Duration, EcnCodepoint, Instant, Probability};

/// A packet on a link, with its ECN field.
#[derive(Clone, Debug)]
pub(crate) struct Datagram(pub(crate) Vec<u8>, pub(crate) EcnCodepoint);

impl LinkPacket for Datagram {
    fn size(&self) -> ByteCount {
        ByteCount::from_bytes(self.0.len() as u64)
    }

    fn corrupt(&mut self, entropy: u64) {
        let bits = self.0.len() as u64 * 8;
        if let Some(bit) = entropy.checked_rem(bits) {
            self.0[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
        }
    }
}

/// One endpoint with at most one association.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    pub(crate) context: Arc<Context>,
    pub(crate) listener: Listener,
    pub(crate) association: Option<Association>,
    pub(crate) events: Vec<Event>,
    pub(crate) received: Vec<ReceivedMessage>,
    /// Every packet that this host sent.
    pub(crate) packets_sent: u64,
    /// A running hash over the bytes and times of all packets sent: equal traces have equal hashes.
    pub(crate) trace: u64,
    pub(crate) dropped: Vec<PacketDropped>,
    /// Whether messages are taken as soon as they come.
    pub(crate) reads: bool,
    /// All packets that it sent and when, if they are kept.
    pub(crate) kept: Option<Vec<(Instant, Vec<u8>)>>,
    pub(crate) window: WindowOracle,
}

pub(crate) const SERVER_PORT: u16 = 5_000;
pub(crate) const CLIENT_PORT: u16 = 5_001;

/// Two hosts and the links between them.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) hosts: [Host; 2],
    /// `links[0]` carries what `hosts[0]` sends.
    pub(crate) links: [Link<Datagram>; 2],
    pub(crate) routers: Routers,
    /// No sender may believe in a shorter round trip, if that is watched.
    pub(crate) srtt_min: Option<Duration>,
    /// How often a host was drained.
    drains: u32,
    buffer: Vec<u8>,
}

/// What routers do with packets that are capable of ECN, behind all that the links do.
#[derive(Debug)]
pub(crate) struct Routers {
    pub(crate) random: RandomStream,
    pub(crate) marks: Probability,
    pub(crate) drops: Probability,
    /// Packets marked and dropped so far.
    pub(crate) marked: u64,
    pub(crate) dropped: u64,
}

impl Routers {
    /// They pass packets on.
    fn new(seed: u64) -> Self {
        let random = RandomStream::new(seed, "routers");
        Self { random, marks: Probability::ZERO, drops: Probability::ZERO, marked: 0, dropped: 0 }
    }

    /// The ECN field with which a packet arrives; `None` if it does not.
    fn pass(&mut self, ecn: EcnCodepoint) -> Option<EcnCodepoint> {
        if ecn != EcnCodepoint::Capable {
            return Some(ecn);
        }
        if self.random.chance(self.drops) {
            self.dropped += 1;
            return None;
        }
        if !self.random.chance(self.marks) {
            return Some(ecn);
        }
        self.marked += 1;
        Some(EcnCodepoint::CongestionExperienced)
    }
}

impl Host {
    pub(crate) fn new(index: u8, config: Config) -> Self {
        let context = Context::new(config, [index + 1; 16]).unwrap();
        let mut listener = Listener::new(&context);
        listener.listen(if index == 0 { CLIENT_PORT } else { SERVER_PORT });
        Self {
            address: SocketAddr::from(([192, 0, 2, index + 1], 9_899)),
            listener,
            context,
            association: None,
            events: Vec::new(),
            received: Vec::new(),
            packets_sent: 0,
            trace: 0xcbf2_9ce4_8422_2325,
            dropped: Vec::new(),
            reads: true,
            kept: None,
            window: WindowOracle::default(),
        }
    }

    pub(crate) fn association(&mut self) -> &mut Association {
        self.association.as_mut().expect("the host has an association")
    }

    pub(crate) fn closed(&self) -> Option<&ClosedReason> {
        self.events.iter().rev().find_map(|event| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
    }
}

impl Pair {
    pub(crate) fn new(configs: [Config; 2], links: [LinkConfig; 2], seed: u64) -> Self {
        let [client, server] = configs;
        let [there, back] = links;
        Self {
            now: Instant::from_secs(1),
            hosts: [Host::new(0, client), Host::new(1, server)],
            links: [Link::new(there, seed, "there"), Link::new(back, seed, "back")],
            routers: Routers::new(seed),
            srtt_min: None,
            drains: 0,
            buffer: Vec::new(),
        }
    }

    /// From now on, every SRTT is held against the shortest round trip over `links`. One tick of the coarsest clock is forgiven.
    pub(crate) fn watch_round_trips(&mut self, links: &[LinkConfig; 2]) {
        let shortest = |link: &LinkConfig| match link.jitter.shape {
            JitterShape::None => link.delay,
            JitterShape::Uniform { range } => link.delay.saturating_sub(range),
            JitterShape::Normal { .. } => Duration::ZERO,
        };
        let round_trip: Duration = links.iter().map(shortest).sum();
        self.srtt_min = Some(round_trip.saturating_sub(Duration::from_millis(4)));
    }

    pub(crate) fn connect(&mut self, from: usize, nonce: u64) {
        self.connect_knowing(from, nonce, None);
    }

    pub(crate) fn connect_knowing(&mut self, from: usize, nonce: u64, known: Option<PathKnowledge>) {
        let (local, peer) = if from == 0 { (CLIENT_PORT, SERVER_PORT) } else { (SERVER_PORT, CLIENT_PORT) };
        let remote = self.hosts[1 - from].address;
        let host = &mut self.hosts[from];
        let ports = Ports { local, peer };
        let known = known.as_ref();
        host.association = Some(Association::connect_knowing(self.now, &host.context, remote, ports, nonce, known));
        self.drain(from);
    }

    /// Sends the host's packets and collects its events.
    pub(crate) fn drain(&mut self, index: usize) {
        let (now, link, srtt_min) = (self.now, &mut self.links[index], self.srtt_min);
        let Host { association, context, events, received, packets_sent, trace, reads, kept, window, .. } =
            &mut self.hosts[index];
        let Some(association) = association else { return };
        loop {
            let before = association.stats();
            self.buffer.clear();
            if let Some(transmit) = association.poll_transmit(now, &mut self.buffer) {
                assert_eq!(transmit.len, self.buffer.len());
                window.check(&before, &association.stats(), context.config());
                let packet = Packet::parse(&self.buffer).expect("a packet that was sent has a right checksum");
                assert!(packet.chunks().all(|chunk| chunk.is_ok()), "a packet that was sent is well formed");
                *packets_sent += 1;
                note_trace(trace, now, &self.buffer);
                if let Some(kept) = kept {
                    kept.push((now, self.buffer.clone()));
                }
                let mtu = link.config().mtu;
                if transmit.fragmentation == Fragmentation::Needed {
                    link.set_mtu(None);
                }
                link.send(now, Datagram(self.buffer.clone(), transmit.ecn));
                link.set_mtu(mtu);
            } else if let Some(message) = reads.then(|| association.poll_message()).flatten() {
                received.push(message);
            } else {
                break;
            }
        }
        while let Some(event) = association.poll_event() {
            events.push(event);
        }
        // A look at the clock when nothing is due makes nothing due earlier, unless the sender looks at lifetimes only when it sends. Not each time,
        // because a look hides an earlier omission.
        let deadline = association.poll_deadline();
        let is_awake = matches!(context.config().partial_reliability.expiry, Expiry::WhenOverdue | Expiry::AtOnce);
        self.drains += 1;
        if is_awake && self.drains.is_multiple_of(8) && deadline.is_none_or(|deadline| deadline > now) {
            association.handle_timeout(now);
            let then = association.poll_deadline();
            assert_eq!(
                Instant::earliest([deadline, then]),
                deadline,
                "a look at the clock moved it to {then:?}: {association:#?}"
            );
        }
        if let (Some(least), Some(srtt)) = (srtt_min, association.stats().path.srtt) {
            assert!(srtt >= least, "SRTT is {srtt:?}, and no round trip takes less than {least:?}");
        }
    }

    /// Gives a packet to a host, as its socket would.
    pub(crate) fn deliver(&mut self, index: usize, from: SocketAddr, ecn: EcnCodepoint, packet: Vec<u8>) {
        let (now, packet) = (self.now, Bytes::from(packet));
        let host = &mut self.hosts[index];
        let known = host.association.as_mut().filter(|association| !association.is_closed());
        if let Some(association) = known {
            host.dropped.extend(association.handle_packet(now, from, ecn, &packet).err());
        } else {
            let mut reply = Vec::new();
            match host.listener.handle_packet(now, from, &packet, &|_| false, &mut reply) {
                Incoming::Accepted(association) => host.association = Some(*association),
                Incoming::Reply => {
                    host.packets_sent += 1;
                    self.links[index].send(now, Datagram(reply, EcnCodepoint::NotCapable));
                }
                Incoming::Ignored(dropped) => host.dropped.push(dropped),
                other => panic!("{other:?}"),
            }
        }
        self.drain(index);
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let links = self.links.iter().filter_map(Link::poll_deadline);
        let timers = self.hosts.iter().filter_map(|host| host.association.as_ref()?.poll_deadline());
        links.chain(timers).min()
    }

    /// Goes to the next thing that happens, not beyond `limit`; `false` if nothing happens until then.
    pub(crate) fn step(&mut self, limit: Instant) -> bool {
        let Some(next) = self.next().filter(|&next| next <= limit) else {
            self.now = self.now.max(limit);
            return false;
        };
        self.now = self.now.max(next);
        for index in 0..2 {
            while let Some(Datagram(packet, ecn)) = self.links[index].poll_delivery(self.now) {
                let from = self.hosts[index].address;
                if let Some(ecn) = self.routers.pass(ecn) {
                    self.deliver(1 - index, from, ecn, packet);
                }
            }
        }
        for index in 0..2 {
            if let Some(association) = &mut self.hosts[index].association
                && association.poll_deadline().is_some_and(|deadline| deadline <= self.now)
            {
                let before = association.stats();
                association.handle_timeout(self.now);
                self.drain(index);
                let association = self.hosts[index].association();
                let after = association.stats();
                // With less new data than before, or with messages abandoned, a stream may become thin. By the rules of thin streams earlier data may
                // be overdue.
                let changed = |stats: &Stats| (stats.sent.chunks, stats.sent.messages_abandoned);
                let became_thin = changed(&after) != changed(&before) && after.path.thin && !before.path.thin;
                assert!(
                    became_thin || association.poll_deadline().is_none_or(|deadline| deadline > self.now),
                    "a timer that was handled is still due: {association:#?}"
                );
            }
        }
        true
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let limit = self.now + time;
        while self.step(limit) {}
    }

    /// Runs until the condition holds, at most an hour of virtual time.
    pub(crate) fn run_until(&mut self, condition: impl Fn(&Self) -> bool) {
        assert!(self.run_until_or(Duration::from_secs(3_600), condition), "stuck: {:#?}", self.hosts);
    }

    /// Runs until the condition holds; `false` if it does not within `time`.
    pub(crate) fn run_until_or(&mut self, time: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let limit = self.now + time;
        while !condition(self) {
            if !self.step(limit) {
                return condition(self);
            }
        }
        true
    }

    pub(crate) fn link_counters(&self) -> [LinkCounters; 2] {
        [self.links[0].counters(), self.links[1].counters()]
    }
}

/// Judges whether new data may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowOracle {
    /// As last seen.
    cwnd: u64,
    in_flight: u64,
    in_fast_recovery: bool,
    /// In flight when cwnd was last reduced, or would have been had it not been at its least; or when a mark was reported.
    reduced_at: u64,
    /// Marks that the peer had reported.
    marks_reported: u64,
    /// The latter, and as much as cwnd has been in flight ever since.
    is_marked: bool,
}

impl WindowOracle {
    /// Something happened.
    fn look(&mut self, stats: &Stats) {
        let (cwnd, in_flight) = (stats.path.cwnd_bytes, stats.path.in_flight_bytes);
        let in_fast_recovery = stats.path.in_fast_recovery;
        if cwnd < self.cwnd || (in_fast_recovery && !self.in_fast_recovery) {
            (self.reduced_at, self.is_marked) = (self.in_flight, false);
        }
        let marks_reported = stats.sent.marks_reported;
        if marks_reported > self.marks_reported {
            let coming_from = if self.is_marked { self.reduced_at } else { 0 };
            (self.reduced_at, self.is_marked) = (self.in_flight.max(coming_from), true);
        }
        self.is_marked &= in_flight >= cwnd;
        *self = Self { cwnd, in_flight, in_fast_recovery, marks_reported, ..*self };
    }

    /// New data leaves only while less than cwnd is in flight, and exceeds it by less than one packet (RFC 9260 §6.1 B); or in fast
    /// recovery or after a mark, while the sender comes down from the amount in flight before (RFC 6937 §3).
    fn check(&mut self, before: &Stats, after: &Stats, config: &Config) {
        self.look(before);
        if after.sent.chunks > before.sent.chunks {
            let (flight, cwnd) = (after.path.in_flight_bytes, after.path.cwnd_bytes);
            let coming_down = if before.path.in_fast_recovery || self.is_marked { self.reduced_at } else { 0 };
            let limits = &config.limits;
            let packet_bytes_max = limits.packet_bytes_searched_max.unwrap_or(limits.packet_bytes_max);
            let (window, allowance) = (cwnd.max(coming_down), packet_bytes_max as u64);
            assert!(
                before.path.in_flight_bytes == 0 || before.path.in_flight_bytes < window,
                "new data left at {} of {cwnd} bytes",
                before.path.in_flight_bytes
            );
            assert!(flight < window + allowance, "{flight} bytes in flight, but cwnd is {cwnd}");
        }
        self.look(after);
    }
}

/// FNV-1a over the time and the bytes of a packet.
fn note_trace(trace: &mut u64, now: Instant, packet: &[u8]) {
    for &byte in now.as_nanos().to_le_bytes().iter().chain(packet) {
        *trace = (*trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}
