//! A host with one association over which its application both writes and reads.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use festina_models::packet::{Packet, Payload};
use festina_netsim::{Node, NodeId};
use festina_sctp::{Association, Config, Context, Incoming, Listener, Message, Ports};
use festina_units::{Duration, EcnCodepoint, Instant};

const SERVER_PORT: u16 = 5000;
const CLIENT_PORT: u16 = 10_000;

/// What an application does. Messages are numbered by their PPID.
#[derive(Clone, Debug)]
pub(super) enum Application {
    /// Writes a request at `next_at` and the next as soon as the answer is there.
    Asks { next_at: Option<Instant> },
    /// Answers each request, with its number, so long after it came.
    Answers { after: Duration, due: VecDeque<(Instant, u32)> },
    /// Writes a message every `interval`, the next at `next_at`.
    Writes { interval: Duration, next_at: Instant },
}

/// When messages were written or came, with their numbers.
pub(super) type Log = Vec<(u32, Instant)>;

/// One of the two hosts.
pub(super) struct Peer {
    node: NodeId,
    remote: NodeId,
    context: Arc<Context>,
    state: State,
    application: Application,
    /// When the application writes no more; answers are still given.
    stops_at: Instant,
    /// What each message carries.
    payload: Bytes,
    written: Log,
    received: Log,
    packets_sent: u64,
    replies: VecDeque<Bytes>,
    buffer: Vec<u8>,
}

enum State {
    ToConnect,
    Listening(Box<Listener>),
    Associated(Box<Association>),
}

/// What a peer is made of.
pub(super) struct Making {
    pub(super) config: Config,
    pub(super) application: Application,
    pub(super) stops_at: Instant,
    pub(super) payload: Bytes,
}

impl Peer {
    /// The one that connects, as the simulation begins.
    ///
    /// # Panics
    /// If a setting of the core is out of range: that is a bug of the experiment.
    pub(super) fn client(node: NodeId, remote: NodeId, secret: [u8; 16], making: Making) -> Self {
        let context = context(&making, secret);
        Self::new(node, remote, context, State::ToConnect, making)
    }

    /// The one that is connected to.
    ///
    /// # Panics
    /// As [`client`](Self::client).
    pub(super) fn server(node: NodeId, remote: NodeId, secret: [u8; 16], making: Making) -> Self {
        let context = context(&making, secret);
        let mut listener = Listener::new(&context);
        listener.listen(SERVER_PORT);
        Self::new(node, remote, context, State::Listening(Box::new(listener)), making)
    }

    fn new(node: NodeId, remote: NodeId, context: Arc<Context>, state: State, making: Making) -> Self {
        let Making { application, stops_at, payload, .. } = making;
        Self {
            node,
            remote,
            context,
            state,
            application,
            stops_at,
            payload,
            written: Log::new(),
            received: Log::new(),
            packets_sent: 0,
            replies: VecDeque::new(),
            buffer: Vec::new(),
        }
    }

    /// What the application wrote, in that order.
    pub(super) fn written(&self) -> &Log {
        &self.written
    }

    /// The received messages, in order.
    pub(super) fn received(&self) -> &Log {
        &self.received
    }

    /// Processes the received messages, and lets the application write the messages that are due.
    fn digest(&mut self, now: Instant) {
        let State::Associated(association) = &mut self.state else { return };
        while association.poll_event().is_some() {}
        while let Some(message) = association.poll_message() {
            self.received.push((message.ppid(), now));
            self.application.note(now, message.ppid());
        }
        while let Some(number) = self.application.take_due(now, self.stops_at, self.written.len()) {
            let message = Message::new(self.payload.clone()).with_ppid(number);
            association.send(now, message).expect("a thin stream never fills the send buffer");
            self.written.push((number, now));
        }
    }
}

fn context(making: &Making, secret: [u8; 16]) -> Arc<Context> {
    Context::new(making.config.clone(), secret).expect("the experiment's settings are within their ranges")
}

impl Application {
    /// A message came.
    fn note(&mut self, now: Instant, number: u32) {
        match self {
            Self::Asks { next_at } => *next_at = Some(now),
            Self::Answers { after, due } => due.push_back((now + *after, number)),
            Self::Writes { .. } => {}
        }
    }

    /// When the next message is due.
    fn next_at(&self, stops_at: Instant) -> Option<Instant> {
        let next_at = match self {
            Self::Asks { next_at } => *next_at,
            Self::Answers { due, .. } => return due.front().map(|(at, _)| *at),
            Self::Writes { next_at, .. } => Some(*next_at),
        };
        next_at.filter(|at| *at < stops_at)
    }

    /// The number of a message that is due, the one after `written` others.
    fn take_due(&mut self, now: Instant, stops_at: Instant, written: usize) -> Option<u32> {
        self.next_at(stops_at).filter(|at| *at <= now)?;
        let number = u32::try_from(written).ok();
        match self {
            Self::Asks { next_at } => {
                *next_at = None;
                number
            }
            Self::Answers { due, .. } => due.pop_front().map(|(_, number)| number),
            Self::Writes { interval, next_at } => {
                *next_at += *interval;
                number
            }
        }
    }
}

impl Node<Packet> for Peer {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        let Payload::Sctp(bytes) = &packet.payload else { return };
        let from = address(self.remote);
        match &mut self.state {
            State::ToConnect => {}
            State::Associated(association) => {
                // Late packets of the handshake may be refused. The application need not know.
                let _refused = association.handle_packet(now, from, packet.ecn, bytes).is_err();
            }
            State::Listening(listener) => {
                let mut reply = Vec::new();
                match listener.handle_packet(now, from, bytes, &|_tag| false, &mut reply) {
                    Incoming::Reply => self.replies.push_back(Bytes::from(reply)),
                    Incoming::Accepted(association) => self.state = State::Associated(association),
                    _ => {}
                }
            }
        }
        self.digest(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &mut self.state {
            State::ToConnect => {
                let ports = Ports { local: CLIENT_PORT, peer: SERVER_PORT };
                let association = Association::connect(now, &self.context, address(self.remote), ports, 0);
                self.state = State::Associated(Box::new(association));
            }
            State::Associated(association) => association.handle_timeout(now),
            State::Listening(_) => {}
        }
        self.digest(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let bytes = match (self.replies.pop_front(), &mut self.state) {
            (Some(reply), _) => reply,
            (None, State::Associated(association)) => {
                self.buffer.clear();
                association.poll_transmit(now, &mut self.buffer)?;
                Bytes::copy_from_slice(&self.buffer)
            }
            (None, _) => return None,
        };
        let serial = self.packets_sent;
        self.packets_sent += 1;
        Some(Packet {
            source: self.node,
            destination: self.remote,
            flow: self.node.0.into(),
            serial,
            ecn: EcnCodepoint::NotCapable,
            payload: Payload::Sctp(bytes),
        })
    }

    fn poll_deadline(&self) -> Option<Instant> {
        match &self.state {
            State::ToConnect => Some(Instant::ZERO),
            State::Listening(_) => None,
            State::Associated(association) => {
                let write = self.application.next_at(self.stops_at);
                Instant::earliest([association.poll_deadline(), write])
            }
        }
    }
}

/// The address by which the core knows a host.
fn address(node: NodeId) -> SocketAddr {
    let [_, high, middle, low] = node.0.saturating_add(1).to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(10, high, middle, low), 9899))
}
