//! A peer played by hand: it speaks raw packets to one association or listener, in virtual time.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use festina_sctp::{
    Association, AssociationState, ClosedReason, Config, Context, Event, Incoming, Listener, Message, Ports, Profile,
    ReceivedMessage,
};
use festina_units::{Duration, EcnCodepoint, Instant};

use super::packet::{
    COOKIE_ACK, COOKIE_ECHO, INIT, INIT_ACK, Init, SHUTDOWN_ACK, STATE_COOKIE, Sack, Sent, chunk, packet, shutdown, tlv,
};

/// The port of the association under test.
pub(crate) const LOCAL_PORT: u16 = 5_000;
/// The peer's port.
pub(crate) const PEER_PORT: u16 = 6_000;
/// The peer's own verification tag, unless a test chooses another.
pub(crate) const PEER_TAG: u32 = 0x7eed_0001;
/// The window that the peer advertises.
pub(crate) const PEER_WINDOW: u32 = 1 << 20;

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The settings of RFC 9260 §16 without heartbeats, which would get in the way of most tests.
pub(crate) fn config() -> Config {
    let mut config = Config::published(Profile::Rfc9260);
    config.timers.heartbeat_interval = None;
    config
}

/// What the peer says in its INIT or INIT ACK. Its TSNs begin at 1.
pub(crate) fn offer() -> Init {
    let (a_rwnd, outbound, inbound) = (PEER_WINDOW, 10, 10);
    Init { tag: PEER_TAG, a_rwnd, outbound, inbound, tsn: 1, parameters: Vec::new() }
}

/// The offer as an INIT ACK with an invalid cookie.
pub(crate) fn init_ack() -> Init {
    Init { parameters: tlv(STATE_COOKIE, b"a cookie"), ..offer() }
}

/// The peer, the association under test, and all packets that came back.
pub(crate) struct Peer {
    pub(crate) now: Instant,
    pub(crate) address: SocketAddr,
    pub(crate) context: Arc<Context>,
    pub(crate) listener: Listener,
    pub(crate) association: Option<Association>,
    pub(crate) events: Vec<Event>,
    pub(crate) received: Vec<ReceivedMessage>,
    /// Whether messages are read as soon as they come.
    pub(crate) reads: bool,
    /// The ECN field of packets to the association.
    pub(crate) ecn: EcnCodepoint,
    /// The tag for packets to the association.
    pub(crate) tag: u32,
    /// The association's first TSN; tests count its TSNs from 1.
    pub(crate) initial_tsn: u32,
    sent: Vec<Sent>,
}

impl Peer {
    /// A peer that faces a listener.
    pub(crate) fn new(config: Config) -> Self {
        Self::of(Context::new(config, [7; 16]).expect("the settings are in range"))
    }

    /// The same with this context.
    pub(crate) fn of(context: Arc<Context>) -> Self {
        let mut listener = Listener::new(&context);
        listener.listen(LOCAL_PORT);
        Self {
            now: Instant::from_secs(1_000),
            address: SocketAddr::from(([192, 0, 2, 1], 9_899)),
            context,
            listener,
            association: None,
            events: Vec::new(),
            received: Vec::new(),
            reads: true,
            ecn: EcnCodepoint::NotCapable,
            tag: 0,
            initial_tsn: 0,
            sent: Vec::new(),
        }
    }

    /// A peer that faces an association in COOKIE-WAIT, whose INIT waits to be taken.
    pub(crate) fn connecting(config: Config) -> Self {
        let mut peer = Self::new(config);
        peer.connect(1);
        peer
    }

    pub(crate) fn connect(&mut self, nonce: u64) {
        let ports = Ports { local: LOCAL_PORT, peer: PEER_PORT };
        self.association = Some(Association::connect(self.now, &self.context, self.address, ports, nonce));
        self.drain();
    }

    /// A peer that faces an association in COOKIE-ECHOED, whose COOKIE ECHO waits to be taken.
    pub(crate) fn cookie_echoed(config: Config, init_ack: &Init) -> Self {
        let mut peer = Self::connecting(config);
        let init = peer.take_one().init();
        (peer.tag, peer.initial_tsn) = (init.tag, init.tsn);
        peer.give(&[init_ack.chunk(INIT_ACK)]);
        peer
    }

    /// Established as the server of an association; the handshake took no time.
    pub(crate) fn serving(config: Config, init_ack: &Init) -> Self {
        let mut peer = Self::cookie_echoed(config, init_ack);
        assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO]);
        peer.give(&[chunk(COOKIE_ACK, 0, b"")]);
        assert_eq!(peer.state(), AssociationState::Established);
        peer.nothing_sent();
        peer
    }

    /// Established as the server; INIT and COOKIE ECHO were sent twice, so neither gave a measurement (Karn's rule).
    pub(crate) fn unmeasured(config: Config) -> Self {
        let mut peer = Self::connecting(config);
        let init = peer.take_one().init();
        (peer.tag, peer.initial_tsn) = (init.tag, init.tsn);
        peer.wait_for_packet();
        peer.give(&[init_ack().chunk(INIT_ACK)]);
        peer.take();
        peer.wait_for_packet();
        assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO]);
        peer.give(&[chunk(COOKIE_ACK, 0, b"")]);
        assert_eq!(peer.state(), AssociationState::Established);
        peer
    }

    /// Established as the client of a listener; the handshake took no time.
    pub(crate) fn client(config: Config, init: &Init) -> Self {
        let mut peer = Self::new(config);
        let cookie = peer.begin(init);
        peer.give(&[chunk(COOKIE_ECHO, 0, &cookie)]);
        assert_eq!(peer.take_one().kinds(), [COOKIE_ACK]);
        assert_eq!(peer.state(), AssociationState::Established);
        peer
    }

    /// Established, with usual settings.
    pub(crate) fn established() -> Self {
        Self::serving(config(), &init_ack())
    }

    /// An association in SHUTDOWN-ACK-SENT faces the peer.
    pub(crate) fn facing_shutdown_ack_sent() -> Self {
        let mut peer = Self::established();
        peer.give(&[shutdown(peer.tsn(0))]);
        assert_eq!(peer.take_one().kinds(), [SHUTDOWN_ACK]);
        peer
    }

    /// Sends INIT and takes the INIT ACK, whose tag and TSN are used from here on; returns the cookie.
    pub(crate) fn begin(&mut self, init: &Init) -> Vec<u8> {
        self.give_tagged(0, &[init.chunk(INIT)]);
        let init_ack = self.take_one().init();
        (self.tag, self.initial_tsn) = (init_ack.tag, init_ack.tsn);
        init_ack.cookie()
    }

    pub(crate) fn association(&mut self) -> &mut Association {
        self.association.as_mut().expect("there is an association")
    }

    pub(crate) fn state(&self) -> AssociationState {
        self.association.as_ref().map_or(AssociationState::Closed, Association::state)
    }

    /// Why the association ended, if it did.
    pub(crate) fn closed(&self) -> Option<&ClosedReason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
    }

    pub(crate) fn payloads(&self) -> Vec<&[u8]> {
        self.received.iter().map(|message| &message.payload()[..]).collect()
    }

    /// Gives one packet with the right tag.
    pub(crate) fn give(&mut self, chunks: &[Vec<u8>]) {
        self.give_tagged(self.tag, chunks);
    }

    /// Gives one packet that the network marked.
    pub(crate) fn give_marked(&mut self, chunks: &[Vec<u8>]) {
        self.ecn = EcnCodepoint::CongestionExperienced;
        self.give(chunks);
        self.ecn = EcnCodepoint::NotCapable;
    }

    pub(crate) fn give_tagged(&mut self, tag: u32, chunks: &[Vec<u8>]) {
        self.give_bytes(packet((PEER_PORT, LOCAL_PORT), tag, chunks));
    }

    /// Gives one datagram to the association, or to the listener if there is none.
    pub(crate) fn give_bytes(&mut self, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        if let Some(association) = self.association.as_mut().filter(|association| !association.is_closed()) {
            // Tests judge dropped packets by the answers.
            let _: Result<(), _> = association.handle_packet(self.now, self.address, self.ecn, &bytes);
        } else {
            let mut reply = Vec::new();
            match self.listener.handle_packet(self.now, self.address, &bytes, &|_| false, &mut reply) {
                Incoming::Accepted(association) => self.association = Some(*association),
                Incoming::Reply => self.sent.push(Sent::read(self.address, &reply)),
                Incoming::Ignored(_) => assert!(reply.is_empty()),
                other => panic!("{other:?}"),
            }
        }
        self.drain();
    }

    /// Acknowledges the association's TSNs up to `cumulative`, counted from 1.
    pub(crate) fn ack(&mut self, cumulative: u32) {
        self.ack_gaps(cumulative, &[]);
    }

    /// The same with gap ack blocks: first and last TSN of each, counted from 1.
    pub(crate) fn ack_gaps(&mut self, cumulative: u32, blocks: &[(u32, u32)]) {
        let sack = self.sack(cumulative, PEER_WINDOW, blocks);
        self.give(&[sack.chunk()]);
    }

    pub(crate) fn ack_window(&mut self, cumulative: u32, a_rwnd: u32) {
        let sack = self.sack(cumulative, a_rwnd, &[]);
        self.give(&[sack.chunk()]);
    }

    pub(crate) fn sack(&self, cumulative: u32, a_rwnd: u32, blocks: &[(u32, u32)]) -> Sack {
        let offset = |tsn: u32| u16::try_from(tsn - cumulative).expect("a gap ack block reaches that far");
        Sack {
            cumulative: self.tsn(cumulative),
            a_rwnd,
            gaps: blocks.iter().map(|&(first, last)| (offset(first), offset(last))).collect(),
            duplicates: Vec::new(),
        }
    }

    /// The TSN on the wire of the association's TSN counted from 1.
    pub(crate) fn tsn(&self, count: u32) -> u32 {
        self.initial_tsn.wrapping_add(count).wrapping_sub(1)
    }

    /// The TSNs in a packet, counted from 1.
    pub(crate) fn tsns(&self, sent: &Sent) -> Vec<u32> {
        sent.data().iter().map(|data| data.tsn.wrapping_sub(self.initial_tsn).wrapping_add(1)).collect()
    }

    /// The TSNs of every packet sent since the last look, counted from 1.
    pub(crate) fn take_tsns(&mut self) -> Vec<Vec<u32>> {
        let sent = self.take();
        sent.iter().map(|sent| self.tsns(sent)).collect()
    }

    /// Has the association send an ordered message on stream 0.
    pub(crate) fn send(&mut self, payload: impl Into<Bytes>) {
        self.send_message(Message::new(payload));
    }

    pub(crate) fn send_message(&mut self, message: Message) {
        let now = self.now;
        self.association().send(now, message).expect("the message is taken");
        self.drain();
    }

    /// Has the association send messages that fill a packet each.
    pub(crate) fn send_full(&mut self, count: usize) {
        for _ in 0..count {
            self.send(vec![0x5a; PMDCS - 16]);
        }
    }

    pub(crate) fn shutdown(&mut self) {
        let now = self.now;
        self.association().shutdown(now);
        self.drain();
    }

    pub(crate) fn abort(&mut self, reason: &[u8]) {
        self.association().abort(reason);
        self.drain();
    }

    /// Reads one message, and lets the association send the resulting packets.
    pub(crate) fn read_one(&mut self) -> Option<ReceivedMessage> {
        let message = self.association().poll_message();
        self.drain();
        message
    }

    /// All packets sent since the last look.
    pub(crate) fn take(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }

    /// The only packet sent since the last look.
    pub(crate) fn take_one(&mut self) -> Sent {
        let [sent] = self.take().try_into().expect("exactly one packet was sent");
        sent
    }

    pub(crate) fn nothing_sent(&mut self) {
        let sent = self.take();
        assert!(sent.is_empty(), "sent {sent:?}");
    }

    /// Lets time pass, timers included.
    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
    }

    /// Lets time pass until something is sent or the association ends; says how long it took, at most an hour.
    pub(crate) fn wait_for_packet(&mut self) -> Duration {
        let (start, end) = (self.now, self.now + Duration::from_secs(3_600));
        while self.sent.is_empty() && self.closed().is_none() && self.step(end) {}
        self.now - start
    }

    /// Goes to the next timer up to `end`; false if there is none.
    fn step(&mut self, end: Instant) -> bool {
        let deadline = self.association.as_ref().and_then(Association::poll_deadline);
        self.now = deadline.filter(|&deadline| deadline <= end).unwrap_or(end).max(self.now);
        let Some(association) = self.association.as_mut().filter(|_| deadline.is_some_and(|at| at <= end)) else {
            return false;
        };
        association.handle_timeout(self.now);
        self.drain();
        true
    }

    fn drain(&mut self) {
        let Some(association) = &mut self.association else { return };
        let limit = self.context.config().limits.packet_bytes_max;
        loop {
            let mut buffer = Vec::new();
            if let Some(transmit) = association.poll_transmit(self.now, &mut buffer) {
                assert_eq!(transmit.len, buffer.len());
                assert!(buffer.len() <= limit, "§6.10: a packet of {} bytes", buffer.len());
                self.sent.push(Sent { ecn: transmit.ecn, ..Sent::read(transmit.destination, &buffer) });
            } else if let Some(message) = self.reads.then(|| association.poll_message()).flatten() {
                self.received.push(message);
            } else {
                break;
            }
        }
        while let Some(event) = association.poll_event() {
            self.events.push(event);
        }
    }
}

/// The largest DATA chunk that fits into a packet of the default size.
pub(crate) const PMDCS: usize = 1_220;
