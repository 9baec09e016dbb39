//! An SCTP association over a protected channel, with the interface of [`festina_sctp::Association`].

mod input;
mod moving;
mod naming;
mod output;
#[cfg(test)]
mod tests;

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;
use std::sync::Arc;

use festina_sctp::wire::COMMON_HEADER_BYTES;
use festina_sctp::{
    Association, ClosedReason, Context, Event, Message, MessageId, OutOfBandInit, PathId, PathKnowledge, Ports,
    ReceivedMessage, SendError, SendErrorKind,
};
use festina_units::{Duration, Instant};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, HandshakeKind};

use crate::address::Proofs;
use crate::channel::{CHALLENGE_BYTES, Channel, Ids};
use crate::error::{HandshakeError, REFUSED};
use crate::foreign::Foreign;
use crate::parameters::{FURTHER_IDS_MAX, Parameters, ResetToken, TOKEN_BYTES_MAX};
use crate::path::Path;
use crate::reset::ResetKey;
use crate::sessions::{Recall, Resumption};
use crate::wire::{ConnectionId, SHORT_OVERHEAD_BYTES};
use moving::Moves;

/// Bytes by which a datagram may exceed `Limits::packet_bytes_max` of the core's settings.
pub const OVERHEAD_BYTES: usize = SHORT_OVERHEAD_BYTES - COMMON_HEADER_BYTES;
/// How long a server keeps a handshake that the client does not complete.
pub const HALF_OPEN_LIFETIME: Duration = Duration::from_secs(30);
/// Length of a datagram that challenges an address, with a long packet number.
const CHALLENGE_DATAGRAM_BYTES: usize = SHORT_OVERHEAD_BYTES + 2 + CHALLENGE_BYTES;
/// How long a closed association answers a peer that has missed the end.
pub const LINGER: Duration = Duration::from_secs(10);

/// A client's settings for one connection. Its debug output has only the length of the token, which is often a secret.
#[derive(Clone)]
pub struct Connect<'a> {
    /// TLS settings: trusted roots or a verifier, the client's certificate, ALPN. TLS 1.3 is used.
    pub tls: &'a Arc<ClientConfig>,
    /// Sessions that may be resumed; `None` leaves them to the TLS settings.
    pub resumption: Option<&'a Resumption>,
    /// The name that the server's certificate must have.
    pub server_name: ServerName<'static>,
    /// The server's address.
    pub remote: SocketAddr,
    /// SCTP ports.
    pub ports: Ports,
    /// Bytes for the acceptor, at most 1,024, such as a matchmaker's ticket. Anyone on the path can read them, and copy them into a hello
    /// of their own.
    pub token: &'a [u8],
    /// Random bytes, used for one association.
    pub random: [u8; 16],
    /// Path state from an earlier association to the server.
    pub known: Option<&'a PathKnowledge>,
}

/// A client's request, as the acceptor sees it. Nothing in it is authentic until the association is established. Its debug output has only the length
/// of the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// The client's bytes for the acceptor.
    pub token: Vec<u8>,
    /// SCTP ports, as the server sees them.
    pub ports: Ports,
    /// The server name that the client asked for.
    pub server_name: Option<String>,
    /// The protocol that ALPN chose.
    pub alpn: Option<Vec<u8>>,
    /// Whether the client has shown that it receives at its address.
    pub is_address_proved: bool,
}

impl core::fmt::Debug for Connect<'_> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { tls, resumption, server_name, remote, ports, token, random: _, known } = self;
        let mut fields = formatter.debug_struct("Connect");
        fields.field("tls", tls).field("resumption", resumption).field("server_name", server_name);
        fields
            .field("remote", remote)
            .field("ports", ports)
            .field("token_bytes", &token.len())
            .field("known", known)
            .finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Hello {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { token, ports, server_name, alpn, is_address_proved } = self;
        let mut fields = formatter.debug_struct("Hello");
        fields.field("token_bytes", &token.len()).field("ports", ports).field("server_name", server_name);
        fields.field("alpn", alpn).field("is_address_proved", is_address_proved).finish()
    }
}

/// The addresses of both ends.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// The peer's address in the handshake.
    remote: SocketAddr,
    /// A server's own address on the path in use, if it has several.
    local: Option<IpAddr>,
    /// The same for the datagram that was written last.
    sent_from: Option<IpAddr>,
}

/// A server's handshake until the client's Finished was received.
#[derive(Debug)]
struct HalfOpen {
    nonce: u64,
    proofs: Arc<Proofs>,
    started_at: Instant,
    /// Time of the answer, if it was sent only once.
    answered_at: Option<Instant>,
    answers: u32,
    hello: Option<(Hello, OutOfBandInit)>,
    is_admitted: bool,
    /// Makes tokens of resets.
    resets: Option<Arc<ResetKey>>,
}

/// Early messages: those to be sent on a client, those received on a server.
#[derive(Debug, Default)]
struct Early {
    sent: Vec<Message>,
    received: VecDeque<Message>,
    has_left: bool,
}

/// One end of an SCTP association over a protected channel, without a clock or a socket.
///
/// It is used like [`festina_sctp::Association`]: after each mutation, drain [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event)
/// and [`poll_message`](Self::poll_message), then ask [`poll_deadline`](Self::poll_deadline). Datagrams are routed to it by their [destination's
/// connection ID](crate::wire::destination_id), as [`takes`](Self::takes) decides. Callers with many associations keep maps by [`id`](Self::id) and
/// [`origin`](Self::origin) that decide the same.
///
/// A server's association is created by a [`Listener`](crate::Listener). It waits in [`hello`](Self::hello) for [`admit`](Self::admit) or
/// [`refuse`](Self::refuse).
#[derive(Debug)]
pub struct SecureAssociation {
    context: Arc<Context>,
    channel: Channel,
    ends: Ends,
    ports: Ports,
    core: Option<Box<Association>>,
    half_open: Option<Box<HalfOpen>>,
    early: Early,
    /// The peer's INIT was adopted.
    is_adopted: bool,
    /// Another protocol that was received instead of an answer.
    foreign: Option<Foreign>,
    /// When a closed association stops answering.
    ends_at: Option<Instant>,
    has_ended: bool,
    /// When a server forgets the keys of the handshake.
    handshake_ends_at: Option<Instant>,
    /// The server is known to have a client's last handshake bytes.
    is_confirmed: bool,
    /// The type of the chunk that answers a peer that has missed the end, and its path.
    late_answer: Option<(u8, PathId)>,
    /// On a server, once its client is authenticated. On a client, once its server has sent from elsewhere.
    moves: Option<Box<Moves>>,
}

impl SecureAssociation {
    /// Begins an association with a server: its hello waits in [`poll_transmit`](Self::poll_transmit).
    ///
    /// # Errors
    /// The TLS settings cannot be used, or the token is too long.
    pub fn connect(now: Instant, context: &Arc<Context>, request: Connect<'_>) -> Result<Self, HandshakeError> {
        let Connect { tls, resumption, server_name, remote, ports, token, random, known } = request;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(HandshakeError::Settings);
        }
        let [local, original] = [0, 8].map(|at| {
            let mut id = [0; 8];
            id.copy_from_slice(&random[at..at + 8]);
            id
        });
        let nonce = u64::from_be_bytes(local);
        let ids = Ids { local: ConnectionId(local), peer: None, original: ConnectionId(original) };
        let parameters = Parameters {
            datagram_bytes_max: u16::try_from(wanted_bytes_max(context)).ok(),
            initial_source: Some(ids.local),
            init: context.init_chunk(nonce, None),
            ports: Some((ports.local, ports.peer)),
            token: token.to_vec(),
            ..Parameters::default()
        };
        let recall = resumption.map(|resumption| Recall::new(resumption, tls, &server_name, remote.port()));
        let channel = Channel::client((tls, recall), server_name, ids, &parameters, datagram_bytes_max(context))?;
        let core = Association::connect_knowing(now, context, remote, ports, nonce, known);
        Ok(Self::new(context, channel, (remote.into(), ports), Some(core), None))
    }

    /// A server's end of a handshake that has just begun.
    pub(crate) fn half_open(
        now: Instant,
        context: &Arc<Context>,
        channel: Channel,
        path: Path,
        (nonce, proofs, resets): (u64, &Arc<Proofs>, Option<Arc<ResetKey>>),
    ) -> Self {
        let half_open = HalfOpen {
            nonce,
            proofs: Arc::clone(proofs),
            started_at: now,
            answered_at: None,
            answers: 0,
            hello: None,
            is_admitted: false,
            resets,
        };
        let ports = Ports { local: 0, peer: 0 };
        Self::new(context, channel, (path, ports), None, Some(Box::new(half_open)))
    }

    fn new(
        context: &Arc<Context>,
        channel: Channel,
        (Path { remote, local }, ports): (Path, Ports),
        core: Option<Association>,
        half_open: Option<Box<HalfOpen>>,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            channel,
            ends: Ends { remote, local, sent_from: local },
            ports,
            core: core.map(Box::new),
            half_open,
            early: Early::default(),
            is_adopted: false,
            foreign: None,
            ends_at: None,
            has_ended: false,
            handshake_ends_at: None,
            is_confirmed: false,
            late_answer: None,
            moves: None,
        }
    }

    /// Returns the connection ID of datagrams for this association.
    pub fn id(&self) -> ConnectionId {
        self.channel.ids().local
    }

    /// Returns the connection ID that takes the place of [`id`](Self::id) since the peer has moved or followed a move. The peer may also use the
    /// [next](crate::next_id) one, and the one before for a while.
    pub fn moved_id(&self) -> Option<ConnectionId> {
        Some(self.channel.local_id()).filter(|id| *id != self.id())
    }

    /// Returns, on a server, the connection ID in the client's hellos, which the client chose, and the address from which they come. A hello with this ID from another address
    /// does not belong here, also after the handshake: anyone on the path can copy the ID, and must not take the client's place with it.
    pub fn origin(&self) -> Option<(ConnectionId, SocketAddr)> {
        (self.channel.side() == rustls::Side::Server).then_some((self.channel.ids().original, self.ends.remote))
    }

    /// Returns whether a datagram with this destination ID from this address is for this association.
    pub fn takes(&self, id: ConnectionId, from: SocketAddr) -> bool {
        self.channel.use_of(id, Instant::ZERO, &self.context).is_some() || self.origin() == Some((id, from))
    }

    /// Returns whether a server's client has shown that it receives at its address: with a token, or by completing the handshake.
    pub fn is_address_proved(&self) -> bool {
        self.channel.is_address_verified()
    }

    /// Returns the number of handshake bytes that TLS has processed. A datagram that does not change it has cost little CPU time.
    pub fn handshake_bytes_read(&self) -> usize {
        self.channel.tls().read_bytes()
    }

    /// The listener has checked the client's token.
    pub(crate) fn prove_address(&mut self) {
        self.channel.verify_address();
    }

    /// The client's request that waits to be admitted or refused, on a server.
    pub fn hello(&self) -> Option<&Hello> {
        let half_open = self.half_open.as_ref().filter(|half_open| !half_open.is_admitted)?;
        half_open.hello.as_ref().filter(|_| self.channel.error().is_none()).map(|(hello, _)| hello)
    }

    /// Admits the client, so that the handshake continues: TLS reads the hello and signs the answer, which costs most of the CPU time of a handshake.
    pub fn admit(&mut self, now: Instant) {
        if self.hello().is_some()
            && let Some(half_open) = &mut self.half_open
        {
            half_open.is_admitted = true;
            let early = self.channel.read_hello();
            self.take_early(early);
            self.note_failure(now);
            if self.channel.error().is_none() {
                self.answer(now);
            }
        }
    }

    /// Asks the client to prove its address, on a server that does not admit it without a proof. The client repeats its hello with a token, after which
    /// [`is_address_proved`](Self::is_address_proved) returns true.
    pub fn demand_proof(&mut self, now: Instant) {
        if self.hello().is_some() {
            self.queue_retry(now);
        }
    }

    /// Refuses the client of a handshake that is not complete. `code` is [`REFUSED`], another of this crate's or one from
    /// [`APPLICATION_CODES`](crate::APPLICATION_CODES) on.
    pub fn refuse(&mut self, code: u16) {
        if self.half_open.is_some() && self.channel.error().is_none() {
            self.early = Early::default();
            self.channel.fail(HandshakeError::RefusedLocally(code.max(REFUSED)));
            // A client that misses the close frame repeats its hello, and is refused again.
            self.has_ended = true;
        }
    }

    /// Sends a message with the client's hello, so that it arrives half a round trip from now. It must be safe to repeat: anyone on the path can copy
    /// the packet. A copy that arrives first, at this server or at one that shares the tickets, is delivered, and this side sends the message again. Its
    /// stream, payload and payload protocol identifier are kept; it is delivered regardless of the stream's order. If the server does not accept it, it
    /// is sent like any other message once the handshake is complete.
    ///
    /// # Errors
    /// The message is returned if no session is resumed that allows it, if the hello has been sent, or if its datagram has no room left.
    pub fn send_early(&mut self, message: Message) -> Result<(), Message> {
        let may_send = !self.early.has_left && self.early.sent.len() < usize::from(u8::MAX);
        if !may_send || message.payload().is_empty() || !self.channel.add_early(&message) {
            return Err(message);
        }
        self.early.sent.push(message.unordered());
        Ok(())
    }

    /// Returns the next message that arrived with an admitted client's hello. It may be a copy: nothing shows that the client sent it now.
    pub fn poll_early(&mut self) -> Option<Message> {
        let is_waiting = self.half_open.as_ref().is_some_and(|half_open| !half_open.is_admitted);
        if is_waiting { None } else { self.early.received.pop_front() }
    }

    /// Queues a message, also during a client's handshake.
    ///
    /// # Errors
    /// As [`Association::send`]. A server's half-open association takes none.
    pub fn send(&mut self, now: Instant, message: Message) -> Result<MessageId, SendError> {
        match &mut self.core {
            Some(core) => core.send(now, message),
            None => Err(SendError::new(message, SendErrorKind::Closed)),
        }
    }

    /// Shuts down gracefully, as [`Association::shutdown`].
    pub fn shutdown(&mut self, now: Instant) {
        if let Some(core) = &mut self.core {
            core.shutdown(now);
        }
    }

    /// Ends at once, as [`Association::abort`]. A half-open association is forgotten.
    pub fn abort(&mut self, reason: &[u8]) {
        match &mut self.core {
            Some(core) => core.abort(reason),
            None => self.refuse(REFUSED),
        }
    }

    /// The next event of the association. After [`Event::Closed`], [`failure`](Self::failure) says why a handshake failed.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.core.as_mut()?.poll_event();
        if event == Some(Event::Closed(ClosedReason::HandshakeTimeout)) && self.channel.error().is_none() {
            self.channel.fail(HandshakeError::NoAnswer(self.foreign));
        }
        event
    }

    /// The next message of the established association.
    pub fn poll_message(&mut self) -> Option<ReceivedMessage> {
        self.core.as_mut().filter(|_| self.is_adopted)?.poll_message()
    }

    /// Returns whether the peer is authenticated. A server must trust nothing before.
    pub fn is_established(&self) -> bool {
        self.is_adopted
    }

    /// Why the handshake or the channel failed.
    pub fn failure(&self) -> Option<&HandshakeError> {
        self.channel.error()
    }

    /// Returns whether the association is over and nothing more will be sent, so that it may be dropped.
    pub fn is_finished(&self, now: Instant) -> bool {
        let is_over = match &self.core {
            Some(core) => core.is_closed(),
            None => self.channel.error().is_some(),
        };
        let has_passed = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        is_over && (self.has_ended || has_passed(self.ends_at)) || has_passed(self.half_open_ends_at())
    }

    /// Returns the certificates of the authenticated peer, its own first, or its raw public key (RFC 7250). `None` if the peer presented none.
    pub fn peer_identity(&self) -> Option<&[CertificateDer<'static>]> {
        self.channel.tls().connection().peer_certificates().filter(|_| self.is_adopted)
    }

    /// The protocol that ALPN chose.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.channel.tls().connection().alpn_protocol().filter(|_| self.is_adopted)
    }

    /// Returns whether an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.channel.tls().connection().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Datagrams leave from another own address from now on on some paths: as [`Association::rebind`].
    ///
    /// If they do on the only path, and the peer has given a spare connection ID, packets to it have that one from now on. Those written before must not
    /// leave from the new address: the IDs would link both.
    pub fn rebind(&mut self, now: Instant, mut is_other_network: impl FnMut(IpAddr) -> Option<bool>) {
        (self.ends.local, self.ends.sent_from) = (None, None);
        let Some(core) = self.core.as_mut().filter(|_| self.is_adopted) else { return };
        let is_known = self.channel.side() == rustls::Side::Server || self.is_confirmed;
        if is_known && is_other_network(core.remote().ip()).is_some() && self.channel.begin_move() {
            self.moves.iter_mut().for_each(|moves| moves.forget_copies());
        }
        core.rebind(now, is_other_network);
    }

    /// Switches to the next keys (RFC 9001 §6), which also happens automatically after 2^22 packets. Returns `false`, without effect, before the peer
    /// has confirmed the current ones. After 16 calls, each further one takes 64 packets sent.
    pub fn update_keys(&mut self) -> bool {
        self.is_adopted && self.channel.update_keys()
    }

    /// Returns the association below, once there is one.
    pub fn association(&self) -> Option<&Association> {
        self.core.as_deref()
    }

    /// Returns the association below, to change its settings. Packets, messages, events and timers are those of this type.
    pub fn association_mut(&mut self) -> Option<&mut Association> {
        self.core.as_deref_mut()
    }

    /// Returns the other protocol that was received instead of an answer to the hello, if any. It is not authenticated.
    pub fn foreign(&self) -> Option<Foreign> {
        self.foreign.filter(|_| !self.is_adopted)
    }

    /// Returns where datagrams are sent. A half-open server returns the address of its client's hello, although it answers datagrams from elsewhere there.
    pub fn remote(&self) -> SocketAddr {
        self.core.as_ref().map_or(self.ends.remote, |core| core.remote())
    }

    /// Returns the end of datagrams by which the server resets this association (RFC 9000 §10.3), on an established client whose server does so. They belong
    /// here whichever connection ID they have.
    pub fn reset_token(&self) -> Option<ResetToken> {
        self.channel.reset_token().filter(|_| self.is_adopted)
    }

    /// Returns the own address from which the datagram that [`poll_transmit`](Self::poll_transmit) wrote last is to be sent. `None` on a client, whose
    /// operating system chooses it for each datagram, on a server that has one address, and if the caller
    /// [chooses](Self::chooses_sources).
    pub fn source(&self) -> Option<IpAddr> {
        self.ends.sent_from
    }

    /// Returns whether the caller chooses the own address of a datagram by its destination if [`source`](Self::source) is `None`: packets to an address of
    /// the peer leave from where packets from there arrive.
    pub fn chooses_sources(&self) -> bool {
        let is_server = self.channel.side() == rustls::Side::Server;
        self.context.addresses().len() > 1 || is_server && self.context.is_multihomed()
    }

    /// The path of the core to this address, or the first.
    fn path_to(&self, remote: SocketAddr) -> PathId {
        self.core.as_ref().and_then(|core| core.path_to(remote.ip())).unwrap_or(PathId::PRIMARY)
    }

    /// The path on which datagrams are sent.
    fn path(&self) -> Path {
        self.channel.aside().unwrap_or_else(|| Path { remote: self.remote(), local: self.ends.local })
    }

    fn is_closed(&self) -> bool {
        self.core.as_ref().is_some_and(|core| core.is_closed())
    }

    fn half_open_ends_at(&self) -> Option<Instant> {
        self.half_open.as_ref().map(|half_open| half_open.started_at + HALF_OPEN_LIFETIME)
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called next.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let core = self.core.as_ref().and_then(|core| core.poll_deadline());
        let late = self.channel.late_deadline().filter(|_| !self.is_closed());
        let moves = self.moves.as_ref().and_then(|moves| moves.deadline()).filter(|_| !self.is_closed());
        let deadlines = [core, late, moves, self.ends_at, self.handshake_ends_at, self.half_open_ends_at()];
        Instant::earliest(deadlines)
    }

    /// Handles expired timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(core) = &mut self.core {
            core.handle_timeout(now);
        }
        if let Some(moved) = self.moves.as_mut().and_then(|moves| moves.handle_timeout(now, CHALLENGE_DATAGRAM_BYTES)) {
            self.follow(now, moved);
        }
        if self.ends_at.is_some_and(|at| now >= at) {
            self.ends_at = None;
            self.has_ended = true;
        }
        if self.handshake_ends_at.is_some_and(|at| now >= at) {
            self.handshake_ends_at = None;
            self.channel.forget_handshake();
        }
        if self.half_open_ends_at().is_some_and(|at| now >= at) {
            // The application has not decided, or the client has not completed its handshake, or has failed.
            if self.hello().is_some() {
                self.refuse(REFUSED);
            }
            self.half_open = None;
            self.channel.fail(HandshakeError::NoAnswer(None));
            self.has_ended = true;
        }
    }

    /// The association is over, but still answers for a while.
    fn linger(&mut self, now: Instant) {
        if !self.has_ended {
            self.ends_at.get_or_insert(now + LINGER);
        }
    }
}

/// Returns the connection IDs for packets to further addresses of this endpoint, of the association with this ID.
pub fn further_ids(context: &Context, id: ConnectionId) -> impl Iterator<Item = ConnectionId> {
    let own = context.addresses_at_first();
    let count = if own > 1 { own.min(FURTHER_IDS_MAX) } else { 0 };
    let nonce = u64::from_be_bytes(id.0);
    (1..=u8::try_from(count).unwrap_or_default())
        .map(move |number| ConnectionId(context.number_below(nonce, number).to_be_bytes()))
}

/// Returns the size of the longest datagram that an association with these settings wants to receive.
pub(crate) fn wanted_bytes_max(context: &Context) -> usize {
    let searched_max = context.config().limits.packet_bytes_searched_max.unwrap_or_default();
    datagram_bytes_max(context).max(searched_max + OVERHEAD_BYTES)
}

/// Returns the size of the longest datagram that this side sends at first.
pub(crate) fn datagram_bytes_max(context: &Context) -> usize {
    context.config().limits.packet_bytes_max + OVERHEAD_BYTES
}
