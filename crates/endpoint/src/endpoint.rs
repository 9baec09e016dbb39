//! An endpoint that owns its associations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use festina_sctp::{self as sctp, Event, Message, Ports, ReceivedMessage, Transmit};
use festina_secure::wire::ConnectionId;
use festina_secure::{Connect, FULL, HandshakeError, NO_SUCH_PORT, Path, SecureAssociation};
use festina_units::{Duration, Instant};

use crate::channel::{Channel, Core, Handled, Plain, Secure};
use crate::demux::{Demux, Key, Name, Origin, Refusal, Side};
use crate::handshakes::Handshakes;
use crate::owner::{Datagram, Owner};
use crate::protocols::Protocols;
use crate::request::{PlainVerdict, Request, Verdict};
use crate::sources::Sources;
use crate::strays::Strays;

/// An association of an [`Endpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(u64);

/// What an endpoint has to tell.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// A client is there: of a plain association when its handshake is complete, of a protected one when it is authenticated.
    Accepted(AssociationId),
    /// An event of an association.
    Association(AssociationId, Event),
    /// The association is over and forgotten. These are the messages that were not taken.
    Ended {
        /// The association.
        association: AssociationId,
        /// Messages that [`Endpoint::poll_message`] would have returned.
        messages: Vec<ReceivedMessage>,
        /// Early messages of a client.
        early: Vec<Message>,
    },
    /// An early message of a client that is not authenticated: see [`Endpoint::tell_early`].
    Early(Origin, Message),
}

/// Any number of associations over one socket, without the socket.
///
/// The caller passes datagrams and the time in, and after each call takes datagrams, events and the next deadline out: [`handle_datagram`](Self::handle_datagram),
/// [`handle_timeout`](Self::handle_timeout), [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
/// [`poll_deadline`](Self::poll_deadline). The same calls and the same secrets give the same packets, but for the key shares of TLS.
///
/// Requests for ports that are listened on are accepted within the limits of [`Admission`](sctp::Admission).
pub struct Endpoint {
    strays: Strays<House>,
    house: House,
}

/// How an endpoint begins.
pub struct Setup {
    /// Settings and the secret of cookies.
    pub context: Arc<sctp::Context>,
    /// Plain, encrypted or both.
    pub protocols: Protocols,
    /// For encrypted clients.
    pub listener: Option<festina_secure::Listener>,
    /// Spreads the sites of strangers over shares of CPU time.
    pub secret: [u8; 16],
    /// The CPU time of this thread, from which the shares of handshakes are taken. A constant switches the shares off.
    pub cpu_time: fn() -> Duration,
}

struct Resident {
    core: Core,
    key: Key,
    origin: Option<Origin>,
    sources: Sources,
    deadline: Option<Instant>,
    /// It is in the list of those that may have packets to send.
    is_ready: bool,
    is_over: bool,
}

impl Resident {
    /// Its peer has sent no message.
    fn brought_nothing(&self) -> bool {
        self.core.stats().received.chunks == 0 && !self.core.secure().is_some_and(Secure::has_early)
    }
}

/// The associations, by their handles.
pub(crate) struct House {
    context: Arc<sctp::Context>,
    demux: Demux<AssociationId>,
    residents: BTreeMap<AssociationId, Resident>,
    next_id: u64,
    deadlines: BTreeSet<(Instant, AssociationId)>,
    /// Those that may have packets to send.
    ready: VecDeque<AssociationId>,
    listener: sctp::Listener,
    ports: BTreeMap<u16, Accepting>,
    /// Answers to strangers.
    answers: VecDeque<(Transmit, Option<IpAddr>, Vec<u8>)>,
    /// Associations of authenticated clients for which there is no room, until their ABORTs are sent.
    refused: Vec<Core>,
    events: VecDeque<EndpointEvent>,
    dropped: usize,
    decide: Decide,
    tells_early: bool,
}

/// Decides on the request of an encrypted client.
type Decide = Box<dyn FnMut(&Request) -> Verdict + Send>;

/// Associations of a port that the application has not taken, and places of those on their way.
#[derive(Debug, Default)]
struct Accepting {
    waiting: VecDeque<AssociationId>,
    places: Arc<()>,
}

impl Accepting {
    fn len(&self) -> usize {
        self.waiting.len() + Arc::strong_count(&self.places) - 1
    }

    /// An association waits no longer.
    fn leave(&mut self, id: AssociationId) {
        self.waiting.retain(|waiting| *waiting != id);
    }
}

/// Why a connection cannot begin.
#[derive(Debug)]
#[non_exhaustive]
pub enum BeginError {
    /// Caller: its ports are in use with that peer.
    Taken,
    /// Caller: there are too many associations.
    Full,
    /// Caller: an SCTP port or the peer's UDP port is 0.
    PortZero,
    /// TLS refuses its settings.
    Handshake(HandshakeError),
}

impl fmt::Display for BeginError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Taken => "the ports are taken by another association with this peer",
            Self::Full => "the endpoint already has the maximum number of associations",
            Self::PortZero => "port 0 names no port",
            Self::Handshake(error) => return error.fmt(formatter),
        })
    }
}

impl std::error::Error for BeginError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Handshake(error) => error.source(),
            _ => None,
        }
    }
}

impl Endpoint {
    /// An endpoint without associations.
    pub fn new(Setup { context, protocols, listener, secret, cpu_time }: Setup) -> Self {
        let is_plain = protocols == Protocols::Plain;
        let handshakes = (!is_plain).then(|| Box::new(Handshakes::new(listener, secret, cpu_time)));
        Self { strays: Strays::new(&context.config().admission, protocols, handshakes), house: House::new(context) }
    }

    /// Accepts clients of an SCTP port.
    ///
    /// # Errors
    /// [`BeginError::PortZero`].
    pub fn listen(&mut self, port: u16) -> Result<(), BeginError> {
        self.house.listen(port)
    }

    /// Has `decide` judge the requests of encrypted clients for ports that are listened on, before TLS reads their hellos. All are admitted
    /// otherwise. [`Verdict::Hold`] keeps no request here: it is answered as [`Verdict::Ignore`].
    pub fn decide_by(&mut self, decide: impl FnMut(&Request) -> Verdict + Send + 'static) {
        self.house.decide_by(decide);
    }

    /// Takes the next association of a port that a client has set up. Those that have ended without a message are left out.
    pub fn accept(&mut self, port: u16) -> Option<AssociationId> {
        self.house.accept(port)
    }

    /// Has early messages told as events when they arrive, before their clients are authenticated. By default they wait in the association
    /// ([`Secure::next_early`]).
    pub fn tell_early(&mut self) {
        self.house.tells_early = true;
    }

    /// Begins a plain association. `nonce` differs from call to call.
    ///
    /// # Errors
    /// See [`BeginError`].
    pub fn connect_plain(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        ports: Ports,
        nonce: u64,
    ) -> Result<AssociationId, BeginError> {
        let association = sctp::Association::connect(now, &self.house.context, remote, ports, nonce);
        self.house.begin(Core::Plain(Plain(association)))
    }

    /// Begins an encrypted association.
    ///
    /// # Errors
    /// See [`BeginError`].
    pub fn connect(&mut self, now: Instant, request: Connect<'_>) -> Result<AssociationId, BeginError> {
        let association =
            SecureAssociation::connect(now, &self.house.context, request).map_err(BeginError::Handshake)?;
        let secure = Secure::new(association, None, VecDeque::new());
        let secure = secure.expect("a client's association is never half-open");
        let id = self.house.begin(Core::Secure(Box::new(secure)))?;
        if let Some(resident) = self.house.residents.get(&id) {
            self.house.demux.note_hello(resident.key);
        }
        Ok(id)
    }

    /// Lends an association, whose packets and events are taken afterwards. `None` once it is forgotten.
    pub fn change<R>(&mut self, id: AssociationId, change: impl FnOnce(&mut Core) -> R) -> Option<R> {
        let resident = self.house.residents.get_mut(&id)?;
        let result = change(&mut resident.core);
        self.house.touch(id);
        Some(result)
    }

    /// The association of the core.
    pub fn association(&self, id: AssociationId) -> Option<&Core> {
        self.house.residents.get(&id).map(|resident| &resident.core)
    }

    /// The next message of an association.
    pub fn poll_message(&mut self, id: AssociationId) -> Option<ReceivedMessage> {
        self.change(id, Channel::poll_message)?
    }

    /// Number of associations.
    pub fn len(&self) -> usize {
        self.house.demux.len()
    }

    /// Whether there is no association.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Datagrams that had no effect.
    pub fn dropped(&self) -> usize {
        self.house.dropped
    }

    /// Handles a datagram. Packets of strangers beyond the limits of a turn wait: [`poll_deadline`](Self::poll_deadline) tells until when.
    pub fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        self.strays.begin_turn();
        let found = self.house.demux.find_expected(self.strays.protocols(), datagram.from, &datagram.packet).copied();
        match found {
            Some(id) => self.house.dropped += Owner::deliver(&mut self.house, now, &id, datagram),
            None if self.strays.admit(now, datagram.from, &datagram.packet) => self.strays.push(datagram),
            None => self.house.dropped += 1,
        }
        self.house.dropped += self.strays.handle(now, &mut self.house);
    }

    /// Calls the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.house.deadlines.first()
            && at <= now
        {
            self.house.deadlines.pop_first();
            if let Some(resident) = self.house.residents.get_mut(&id) {
                resident.deadline = None;
                resident.core.handle_timeout(now);
                self.house.touch(id);
            }
        }
        self.strays.begin_turn();
        self.house.dropped += self.strays.handle(now, &mut self.house);
        self.strays.expire(now, &mut self.house);
    }

    /// Appends the next datagram to `buffer`. Returns where it goes, and the own address that it leaves from if the socket has several.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<(Transmit, Option<IpAddr>)> {
        if let Some((transmit, source, bytes)) = self.house.answers.pop_front() {
            buffer.extend_from_slice(&bytes);
            return Some((transmit, source));
        }
        while let Some(core) = self.house.refused.last_mut() {
            if let Some(transmit) = core.poll_transmit(now, buffer) {
                return Some((transmit, core.source(None)));
            }
            self.house.refused.pop();
        }
        while let Some(&id) = self.house.ready.front() {
            if let Some(resident) = self.house.residents.get_mut(&id)
                && let Some(transmit) = {
                    resident.sources.supervise(now, &mut resident.core, || self.house.context.addresses(), false);
                    resident.core.poll_transmit(now, buffer)
                }
            {
                let source = resident.sources.of(|| self.house.context.addresses(), transmit.destination.ip());
                return Some((transmit, resident.core.source(source)));
            }
            self.house.ready.pop_front();
            self.house.settle(now, id);
        }
        None
    }

    /// The next event. Datagrams are taken first.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.house.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called. Datagrams are taken first.
    pub fn poll_deadline(&self, now: Instant) -> Option<Instant> {
        let waiting = self.strays.is_waiting(now).then_some(now);
        let association = self.house.deadlines.first().map(|(at, _)| *at);
        Instant::earliest([waiting, association, self.strays.deadline(now)])
    }

    /// Refuses the clients whose handshakes are not complete, listens on no port any more, and aborts all associations.
    pub fn end(&mut self, now: Instant) {
        self.strays.end(now, &mut self.house);
        self.house.stop_listening();
        let ids: Vec<AssociationId> = self.house.residents.keys().copied().collect();
        for id in ids {
            self.change(id, |core| core.abort(b"the endpoint ends"));
        }
    }
}

impl House {
    pub(crate) fn new(context: Arc<sctp::Context>) -> Self {
        Self {
            listener: sctp::Listener::new(&context),
            demux: Demux::new(&context),
            context,
            residents: BTreeMap::new(),
            next_id: 0,
            deadlines: BTreeSet::new(),
            ready: VecDeque::new(),
            ports: BTreeMap::new(),
            answers: VecDeque::new(),
            refused: Vec::new(),
            events: VecDeque::new(),
            dropped: 0,
            decide: Box::new(|_| Verdict::Admit),
            tells_early: false,
        }
    }

    pub(crate) fn listen(&mut self, port: u16) -> Result<(), BeginError> {
        if port == 0 {
            return Err(BeginError::PortZero);
        }
        self.listener.listen(port);
        self.ports.entry(port).or_default();
        Ok(())
    }

    fn stop_listening(&mut self) {
        for port in std::mem::take(&mut self.ports).into_keys() {
            self.listener.stop(port);
        }
    }

    pub(crate) fn decide_by(&mut self, decide: impl FnMut(&Request) -> Verdict + Send + 'static) {
        self.decide = Box::new(decide);
    }

    pub(crate) fn accept(&mut self, port: u16) -> Option<AssociationId> {
        self.ports.get_mut(&port)?.waiting.pop_front()
    }

    /// The bytes of all answers to strangers.
    #[cfg(test)]
    pub(crate) fn take_answers(&mut self) -> Vec<u8> {
        self.answers.drain(..).flat_map(|(_, _, bytes)| bytes).collect()
    }

    fn begin(&mut self, core: Core) -> Result<AssociationId, BeginError> {
        if core.key().remote.port() == 0 {
            return Err(BeginError::PortZero);
        }
        self.insert(core, None, None, Side::Own).map_err(|(refusal, _)| match refusal {
            Refusal::Taken => BeginError::Taken,
            Refusal::Full => BeginError::Full,
            Refusal::PortZero => BeginError::PortZero,
        })
    }

    fn insert(
        &mut self,
        core: Core,
        origin: Option<Origin>,
        source: Option<IpAddr>,
        side: Side,
    ) -> Result<AssociationId, (Refusal, Box<Core>)> {
        let (id, key) = (AssociationId(self.next_id), core.key());
        if let Err(refusal) = self.demux.insert(key, origin, &id, side) {
            return Err((refusal, Box::new(core)));
        }
        self.next_id += 1;
        let sources = Sources::new(self.context.is_multihomed(), key.remote.ip(), source);
        self.residents
            .insert(id, Resident { core, key, origin, sources, deadline: None, is_ready: false, is_over: false });
        self.touch(id);
        Ok(id)
    }

    /// An association has changed.
    fn touch(&mut self, id: AssociationId) {
        if let Some(resident) = self.residents.get_mut(&id)
            && !std::mem::replace(&mut resident.is_ready, true)
        {
            self.ready.push_back(id);
        }
    }

    /// Brings name, deadline and events of an association up to date, after its packets were taken.
    fn settle(&mut self, now: Instant, id: AssociationId) {
        let Some(resident) = self.residents.get_mut(&id) else { return };
        resident.is_ready = false;
        let key = resident.core.key();
        if key != resident.key {
            let old = std::mem::replace(&mut resident.key, key);
            self.demux.rekey(old, key);
        }
        while let Some(event) = resident.core.poll_event() {
            self.events.push_back(EndpointEvent::Association(id, event));
        }
        if resident.core.is_closed() && !resident.is_over {
            resident.is_over = true;
            let (port, brought_nothing) = (key.ports.local, resident.brought_nothing());
            let lingers = !resident.core.is_over(now) && self.demux.linger(key);
            if !lingers {
                return self.forget(id);
            }
            if brought_nothing && let Some(accepting) = self.ports.get_mut(&port) {
                accepting.leave(id);
            }
        } else if resident.is_over && resident.core.is_over(now) {
            return self.forget(id);
        }
        let deadline = resident.core.poll_deadline();
        if deadline != resident.deadline {
            if let Some(old) = resident.deadline.take() {
                self.deadlines.remove(&(old, id));
            }
            if let Some(at) = deadline {
                self.deadlines.insert((at, id));
            }
            resident.deadline = deadline;
        }
    }

    fn forget(&mut self, id: AssociationId) {
        let Some(mut resident) = self.residents.remove(&id) else { return };
        if let Some(at) = resident.deadline {
            self.deadlines.remove(&(at, id));
        }
        self.demux.remove(resident.key, resident.origin);
        if let Some(accepting) = self.ports.get_mut(&resident.key.ports.local) {
            accepting.leave(id);
        }
        let early = std::iter::from_fn(|| resident.core.secure_mut()?.next_early()).collect();
        let messages = std::iter::from_fn(|| resident.core.poll_message()).collect();
        self.events.push_back(EndpointEvent::Ended { association: id, messages, early });
    }

    fn is_full(&self, port: u16) -> bool {
        let waiting_max = self.context.config().admission.accept_queue_max;
        self.ports.get(&port).is_some_and(|accepting| accepting.len() >= waiting_max)
    }

    /// Returns the association if there is no room for it.
    fn adopt_core(&mut self, core: Core, source: Option<IpAddr>) -> Result<(), Box<Core>> {
        let (origin, port) = (core.origin(), core.ports().local);
        if !self.ports.contains_key(&port) {
            return Err(Box::new(core));
        }
        let id = self.insert(core, origin, source, Side::Peer).map_err(|(_, core)| core)?;
        if let Some(accepting) = self.ports.get_mut(&port) {
            accepting.waiting.push_back(id);
            self.events.push_back(EndpointEvent::Accepted(id));
        }
        Ok(())
    }
}

impl Owner for House {
    type Association = AssociationId;
    /// Nothing is held: all requests are accepted.
    type Held = std::convert::Infallible;
    type Place = Arc<()>;

    fn demux<R>(&mut self, look: impl FnOnce(&Demux<AssociationId>) -> R) -> R {
        look(&self.demux)
    }

    fn deliver(&mut self, now: Instant, association: &AssociationId, datagram: Datagram) -> usize {
        let Some(resident) = self.residents.get_mut(association) else { return 1 };
        let Datagram { from, source, ecn, packet } = datagram;
        let handled = resident.core.handle_packet(now, Path { remote: from, local: source }, ecn, packet);
        if handled == Handled::Proof {
            resident.sources.note(now, from.ip(), source, resident.core.state());
        }
        self.touch(*association);
        usize::from(handled == Handled::Dropped)
    }

    fn answer(&mut self, source: Option<IpAddr>, write: impl FnOnce(&mut Vec<u8>) -> Option<Transmit>) -> bool {
        let mut bytes = Vec::new();
        let transmit = write(&mut bytes);
        self.answers.extend(transmit.map(|transmit| (transmit, source, bytes)));
        transmit.is_some()
    }

    fn judge_plain(&mut self, peer: SocketAddr, port: u16) -> PlainVerdict {
        if self.is_full(port) {
            PlainVerdict::Full
        } else if !self.demux.admits(peer.ip()) {
            PlainVerdict::Refuse
        } else {
            PlainVerdict::Admit
        }
    }

    fn answer_plain(
        &mut self,
        source: Option<IpAddr>,
        write: impl FnOnce(&sctp::Listener, &dyn Fn(u32) -> bool, &mut Vec<u8>) -> Option<Transmit>,
    ) -> bool {
        let mut bytes = Vec::new();
        let in_use = |tag| self.demux.has_name(Name::Tag(tag));
        let transmit = write(&self.listener, &in_use, &mut bytes);
        self.answers.extend(transmit.map(|transmit| (transmit, source, bytes)));
        transmit.is_some()
    }

    fn adopt_plain(&mut self, association: sctp::Association, source: Option<IpAddr>) -> bool {
        self.adopt_core(Core::Plain(Plain(association)), source).is_ok()
    }

    fn judge(&mut self, request: &Request, port: u16, _is_held: bool) -> Verdict {
        if !self.ports.contains_key(&port) {
            Verdict::Refuse(NO_SUCH_PORT)
        } else if self.is_full(port) {
            Verdict::Full
        } else if !self.demux.admits(request.remote.ip()) {
            Verdict::Refuse(FULL)
        } else {
            (self.decide)(request)
        }
    }

    fn keep_place(&mut self, port: u16, is_address_proved: bool) -> Option<Arc<()>> {
        let waiting_max = self.context.config().admission.accept_queue_max / if is_address_proved { 1 } else { 2 };
        let accepting = self.ports.get(&port)?;
        (accepting.len() < waiting_max).then(|| Arc::clone(&accepting.places))
    }

    fn hold(&mut self, _id: ConnectionId, _request: Request, _port: u16) -> Option<Self::Held> {
        None
    }

    fn verdict(held: &Self::Held) -> Verdict {
        match *held {}
    }

    fn take_decided(&mut self, _decided: &mut VecDeque<ConnectionId>) {}

    fn take_withdrawal(&mut self) -> bool {
        false
    }

    fn offer_early(
        &mut self,
        _request: &Request,
        origin: Option<Origin>,
        _port: u16,
        message: Message,
    ) -> Option<Message> {
        let Some(origin) = origin.filter(|_| self.tells_early) else { return Some(message) };
        self.events.push_back(EndpointEvent::Early(origin, message));
        None
    }

    fn adopt(&mut self, association: Box<Secure>, _port: u16, _place: &Arc<()>) {
        let source = association.channel().source();
        if let Err(mut core) = self.adopt_core(Core::Secure(association), source) {
            core.abort(b"there is no room for another association");
            self.refused.push(*core);
        }
    }
}

#[cfg(test)]
mod networks;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod tests;
