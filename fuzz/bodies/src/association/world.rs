//! Two hosts, the links between them, and the invariants after every step.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use festina_sctp::wire::{CommonHeader, Packet};
use festina_sctp::{Association, Config, Context, Event, Incoming, Listener, Message, Ports};
use festina_units::{Duration, Instant};

use super::plan::{MessagePlan, Operation};
use crate::chunks::{Forgery, TagPlan};
use crate::forge::{Knowledge, ecn_of, forge, learn, seal};
use crate::settings::{Setup, Side, config, index, mechanisms};

const PORTS: [u16; 2] = [5_001, 5_000];
/// Maximum number of packets in transit on one link; more push out the oldest.
const LINK_PACKETS_MAX: usize = 256;
/// Packets that an attacker remembers.
const SEEN_MAX: usize = 64;
/// Calls until no timer is due. One is enough, unless a stream becomes thin by the packets sent then, and as a thin one
/// should have sent a probe long ago.
const TIMERS_AT_ONCE_MAX: usize = 2;
/// Packets that one call may release: the largest window in chunks of one byte that could need a packet each is far below.
const PACKETS_PER_CALL_MAX: usize = 400;
/// Events that may wait for an application that does not poll them, in addition to those of its own messages and of retransmissions.
const EVENTS_MAX: usize = 1_000;
/// After the end only packets that were waiting as a whole are sent.
const LAST_PACKETS_MAX: usize = 16;

/// One endpoint with at most one association.
struct Host {
    address: SocketAddr,
    context: Arc<Context>,
    listener: Listener,
    association: Option<Association>,
    ports: Ports,
    nonce: u64,
    knowledge: Knowledge,
    established: bool,
    closed: bool,
    messages_sent: usize,
    /// Retransmitted chunks when events were last polled.
    retransmitted: usize,
}

/// The hosts and the links.
pub(crate) struct World {
    now: Instant,
    hosts: [Host; 2],
    /// The packets in transit towards each host.
    links: [VecDeque<Vec<u8>>; 2],
    seen: VecDeque<Vec<u8>>,
}

impl Host {
    fn new(index: usize, config: Config) -> Self {
        let context = Context::new(config, [7 + index as u8; 16]).expect("the settings are in range");
        let mut listener = Listener::new(&context);
        listener.listen(PORTS[index]);
        Self {
            address: SocketAddr::from(([192, 0, 2, 1 + index as u8], 9_899)),
            listener,
            context,
            association: None,
            ports: Ports { local: PORTS[index], peer: PORTS[1 - index] },
            nonce: 0,
            knowledge: Knowledge::default(),
            established: false,
            closed: false,
            messages_sent: 0,
            retransmitted: 0,
        }
    }

    fn adopt(&mut self, association: Association) {
        self.association = Some(association);
        self.established = false;
        self.closed = false;
        self.messages_sent = 0;
        self.retransmitted = 0;
    }

    fn living(&mut self) -> Option<&mut Association> {
        self.association.as_mut().filter(|association| !association.is_closed())
    }

    fn local_tag(&self) -> u32 {
        self.association.as_ref().map_or(0, Association::local_tag)
    }

    /// Takes all events and checks that there are not too many and that the end is the last one.
    fn poll_events(&mut self) {
        let Some(association) = &mut self.association else { return };
        let mut count = 0;
        while let Some(event) = association.poll_event() {
            assert!(!self.closed, "{event:?} after the end");
            match event {
                Event::Established { .. } => self.established = true,
                Event::Closed(_) => self.closed = true,
                _ => {}
            }
            count += 1;
        }
        let retransmitted = association.stats().sent.retransmitted.total() as usize;
        let since = retransmitted - std::mem::replace(&mut self.retransmitted, retransmitted);
        assert!(count <= EVENTS_MAX + 3 * self.messages_sent + since, "{count} events were waiting");
        assert_eq!(self.closed, association.is_closed(), "the end is reported when it comes");
    }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            now: Instant::from_secs(1_000),
            hosts: [Host::new(0, config(setup)), Host::new(1, config(setup))],
            links: [VecDeque::new(), VecDeque::new()],
            seen: VecDeque::new(),
        }
    }

    /// Both ends become established, without an attacker.
    pub(crate) fn establish(&mut self) {
        self.connect(0);
        while let Some((to, packet)) = (0..2).find_map(|to| self.links[to].pop_front().map(|packet| (to, packet))) {
            self.deliver(to, self.hosts[1 - to].address, packet);
        }
        for host in &mut self.hosts {
            host.poll_events();
            assert!(host.established, "an undisturbed handshake succeeds");
        }
    }

    pub(crate) fn act(&mut self, operation: &Operation) {
        match operation {
            Operation::Deliver { to, place } => {
                if let Some(packet) = self.take(*to, *place) {
                    self.deliver_genuine(*to, packet);
                }
            }
            Operation::DeliverAll { to, count } => {
                for _ in 0..*count {
                    let Some(packet) = self.take(*to, 0) else { break };
                    self.deliver_genuine(*to, packet);
                }
            }
            Operation::Drop { to, place } => drop(self.take(*to, *place)),
            Operation::Duplicate { to, place } => {
                if let Some(packet) = self.take(*to, *place) {
                    self.deliver_genuine(*to, packet.clone());
                    self.deliver_genuine(*to, packet);
                }
            }
            Operation::Mutate { to, place, offset, xor, seal: sealed } => {
                let Some(mut packet) = self.take(*to, *place) else { return };
                let offset = usize::from(*offset) % packet.len();
                packet[offset] ^= xor;
                if *sealed {
                    seal(&mut packet);
                }
                self.deliver_genuine(*to, packet);
            }
            Operation::Replay { to, which, port } => {
                let Some(packet) = self.seen.get(usize::from(*which) % self.seen.len().max(1)).cloned() else { return };
                let mut from = self.hosts[1 - index(*to)].address;
                from.set_port(from.port() + u16::from(*port % 2));
                self.deliver(index(*to), from, packet);
            }
            Operation::Raw { to, bytes } => self.deliver_genuine(*to, bytes.clone()),
            Operation::Forge { to, forgery } => {
                let packet = self.forge(index(*to), forgery);
                self.deliver_genuine(*to, packet);
            }
            Operation::ToListener { to, forgery, stranger } => {
                let packet = self.forge(index(*to), forgery);
                let from = if *stranger {
                    SocketAddr::from(([198, 51, 100, 1], 1))
                } else {
                    self.hosts[1 - index(*to)].address
                };
                self.deliver_to_listener(index(*to), from, &Bytes::from(packet), *stranger);
            }
            other => self.use_host(other),
        }
    }

    fn use_host(&mut self, operation: &Operation) {
        let now = self.now;
        match operation {
            Operation::Send { from, message } => self.send(index(*from), message),
            Operation::Read { at, count } => self.read(index(*at), usize::from(*count)),
            Operation::PollEvents { at } => self.hosts[index(*at)].poll_events(),
            Operation::Wait { milliseconds } => self.wait_until(now + Duration::from_millis((*milliseconds).into())),
            Operation::WaitForTimer => {
                let deadlines = self.hosts.iter().filter_map(|host| host.association.as_ref()?.poll_deadline());
                if let Some(deadline) = deadlines.min() {
                    self.wait_until(deadline);
                }
            }
            Operation::SetMechanisms { at, mechanisms: plan } => {
                if let Some(association) = &mut self.hosts[index(*at)].association {
                    association.set_mechanisms(now, mechanisms(plan));
                }
                self.drain(index(*at));
            }
            Operation::Shutdown { at } => {
                if let Some(association) = &mut self.hosts[index(*at)].association {
                    association.shutdown(now);
                }
                self.drain(index(*at));
            }
            Operation::Abort { at, reason_bytes } => {
                if let Some(association) = &mut self.hosts[index(*at)].association {
                    association.abort(&vec![b'x'; usize::from(*reason_bytes)]);
                }
                self.drain(index(*at));
            }
            Operation::Restart { at } => self.connect(index(*at)),
            Operation::StopListening { at } => {
                let host = &mut self.hosts[index(*at)];
                host.listener.stop(host.ports.local);
            }
            _ => unreachable!("the others are packets"),
        }
    }

    /// No unread event or message is left behind.
    pub(crate) fn finish(&mut self) {
        for at in 0..2 {
            self.read(at, usize::MAX);
            self.hosts[at].poll_events();
        }
    }

    fn connect(&mut self, at: usize) {
        let (now, remote) = (self.now, self.hosts[1 - at].address);
        let host = &mut self.hosts[at];
        host.nonce += 1;
        let association = Association::connect(now, &host.context, remote, host.ports, host.nonce);
        host.adopt(association);
        self.drain(at);
    }

    fn take(&mut self, to: Side, place: u8) -> Option<Vec<u8>> {
        let link = &mut self.links[index(to)];
        link.remove(usize::from(place) % link.len().max(1))
    }

    fn deliver_genuine(&mut self, to: Side, packet: Vec<u8>) {
        let from = self.hosts[1 - index(to)].address;
        self.deliver(index(to), from, packet);
    }

    /// Gives a packet to a host, as its socket would.
    fn deliver(&mut self, to: usize, from: SocketAddr, packet: Vec<u8>) {
        let (now, packet) = (self.now, Bytes::from(packet));
        if let Some(association) = self.hosts[to].living() {
            // The reason why a packet is dropped is for other tests.
            let _dropped = association.handle_packet(now, from, ecn_of(&packet), &packet);
            self.drain(to);
        } else {
            self.deliver_to_listener(to, from, &packet, false);
        }
    }

    fn deliver_to_listener(&mut self, to: usize, from: SocketAddr, packet: &Bytes, stranger: bool) {
        let now = self.now;
        let host = &mut self.hosts[to];
        let tag = host.local_tag();
        let mut reply = vec![1, 2, 3];
        let before = reply.len();
        match host.listener.handle_packet(now, from, packet, &|used| used == tag, &mut reply) {
            Incoming::Accepted(association) if !stranger => {
                host.adopt(*association);
                self.drain(to);
            }
            Incoming::Reply => {
                assert_eq!(reply[..before], [1, 2, 3], "a reply is appended");
                let packet = reply.split_off(before);
                self.note_packet(to, &packet);
                if !stranger {
                    self.put_on_link(1 - to, packet);
                }
            }
            _ => assert_eq!(reply.len(), before, "nothing is to be sent"),
        }
    }

    fn forge(&self, to: usize, forgery: &Forgery) -> Vec<u8> {
        let host = &self.hosts[to];
        let verification_tag = match forgery.tag {
            TagPlan::Right => host.local_tag(),
            TagPlan::Reflected => self.hosts[1 - to].local_tag(),
            TagPlan::Zero => 0,
            TagPlan::Other(tag) => tag,
        };
        let source_port = if forgery.right_ports { host.ports.peer } else { 9 };
        let header = CommonHeader { source_port, destination_port: host.ports.local, verification_tag };
        forge(header, &forgery.chunks, &host.knowledge)
    }

    fn send(&mut self, from: usize, plan: &MessagePlan) {
        let now = self.now;
        let host = &mut self.hosts[from];
        let Some(association) = &mut host.association else { return };
        let mut message = Message::new(vec![b'm'; plan.bytes.into()])
            .on_stream(u16::from(plan.stream))
            .unordered_if(plan.unordered)
            .with_lifetime(plan.lifetime_ms.map(|milliseconds| Duration::from_millis(milliseconds.into())));
        if plan.immediate {
            message = message.with_immediate_ack();
        }
        // A message that is not accepted is returned, and nothing else happens.
        host.messages_sent += usize::from(association.send(now, message).is_ok());
        self.drain(from);
    }

    /// Reads messages; an application that has not read for long finds no more than fits into the receive buffer.
    fn read(&mut self, at: usize, count: usize) {
        let host = &mut self.hosts[at];
        let limits = &host.context.config().limits;
        let bytes_max = 2 * limits.receive_buffer_bytes + (64 << 10);
        let Some(association) = &mut host.association else { return };
        let messages = std::iter::from_fn(|| association.poll_message()).take(count);
        let bytes: usize = messages.map(|message| message.payload().len()).sum();
        assert!(bytes <= bytes_max, "{bytes} bytes were waiting, and {bytes_max} are allowed");
        self.drain(at);
    }

    fn wait_until(&mut self, until: Instant) {
        self.now = self.now.max(until);
        for at in 0..2 {
            let now = self.now;
            let is_later = (0..TIMERS_AT_ONCE_MAX).any(|_| {
                let Some(association) = &mut self.hosts[at].association else { return true };
                association.handle_timeout(now);
                self.drain(at);
                let deadline = self.hosts[at].association.as_ref().and_then(Association::poll_deadline);
                deadline.is_none_or(|deadline| deadline > now)
            });
            assert!(is_later, "a timer that was handled is still due");
        }
    }

    /// Sends the pending packets of a host.
    fn drain(&mut self, at: usize) {
        let now = self.now;
        let mut count = 0;
        let mut buffer = Vec::new();
        loop {
            let host = &mut self.hosts[at];
            let Some(association) = &mut host.association else { return };
            buffer.clear();
            let Some(transmit) = association.poll_transmit(now, &mut buffer) else { break };
            assert_eq!(transmit.len, buffer.len());
            assert_eq!(transmit.destination.ip(), self.hosts[1 - at].address.ip());
            assert_eq!(Packet::peek(&buffer).map(|header| header.source_port), Ok(PORTS[at]));
            self.note_packet(at, &buffer);
            self.put_on_link(1 - at, buffer.clone());
            count += 1;
            assert!(count <= PACKETS_PER_CALL_MAX, "one call releases packets without end");
        }
        assert!(buffer.is_empty(), "without a packet nothing is written");
        let host = &mut self.hosts[at];
        let limits = &host.context.config().limits;
        let Some(association) = &host.association else { return };
        let buffered = association.stats().path.send_buffer_bytes;
        assert!(buffered <= limits.send_buffer_bytes.max(limits.message_bytes_max) as u64);
        if association.is_closed() {
            assert_eq!(association.poll_deadline(), None);
            assert_eq!(buffered, 0, "messages are given up at the end");
            assert!(count <= LAST_PACKETS_MAX, "{count} packets after the end");
        }
    }

    fn put_on_link(&mut self, to: usize, packet: Vec<u8>) {
        let link = &mut self.links[to];
        if link.len() == LINK_PACKETS_MAX {
            link.pop_front();
        }
        link.push_back(packet);
    }

    /// Checks a packet that a host sent, and records the data that an eavesdropper learns from it.
    fn note_packet(&mut self, from: usize, bytes: &[u8]) {
        let packet_bytes_max = self.hosts[from].context.config().limits.packet_bytes_max;
        assert!(bytes.len() <= packet_bytes_max, "a packet of {} bytes", bytes.len());
        assert_eq!(bytes.len() % 4, 0);
        let packet = Packet::parse(bytes).expect("a packet that was sent is whole");
        assert!(packet.chunks().next().is_some(), "a packet that was sent has a chunk");
        let [sender, receiver] = match &mut self.hosts {
            [first, second] if from == 0 => [first, second],
            [first, second] => [second, first],
        };
        learn(&packet, &mut sender.knowledge, &mut receiver.knowledge);
        if self.seen.len() == SEEN_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(bytes.to_vec());
    }
}
