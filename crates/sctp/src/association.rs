//! The association: the facade of the core. Glue only; the rooms beneath do the work.

mod addresses;
mod context;
mod control;
mod cookie;
mod extensions;
mod handshake;
mod homes;
mod input;
mod knowledge;
mod listener;
mod marks;
mod multihoming;
mod naming;
mod negotiation;
mod out_of_band;
mod output;
mod packet;
mod path;
mod paths;
mod reconfiguration;
mod reply;
mod retry;
mod search;
mod sharing;
mod shutdown;
mod siphash;
mod state;
mod timing;
mod transmit;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use festina_recovery::Mechanisms;
use festina_recovery::rtt::AssumedRoundTrip;
use festina_units::{Duration, EcnCodepoint, Instant};

pub use context::{Context, Ports};
pub use extensions::Extensions;
pub use homes::{Multihoming, MultihomingError, PathPolicy, UnknownPathPolicy};
pub use knowledge::PathKnowledge;
pub use listener::{Incoming, Listener, named_addresses};
pub use multihoming::{PathStatus, transport_address};
pub use out_of_band::{OutOfBandError, OutOfBandInit, outstanding_tsns, reset_by_peer};
pub use paths::PathState;
pub use state::AssociationState;
pub use transmit::{Fragmentation, Transmit};

use crate::error::{ClosedReason, PacketDropped, SendError, SendErrorKind};
use crate::event::{Event, Events};
use crate::message::{Message, MessageId, ReceivedMessage};
use crate::path_id::PathId;
use crate::receive::Receiver;
use crate::send::{FlightAgain, SendPath, Sender, TimerExpiry};
use crate::stats::{AbandonedStats, PathStats, Stats};
use crate::wire::{Cause, Packet, StreamId, Tsn};
use context::Purpose;
use control::Control;
use cookie::{Cookie, Tags};
use handshake::{PeerTraits, Streams};
use input::parse_protected;
use path::{Path, initial_window_bytes};
use paths::Paths;
use reply::Due;
use retry::Repeat;
use shutdown::Ending;
use state::State;

/// A pause that no association lives to see.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// Maximum bytes of an error cause kept for the application.
const CAUSE_INFO_BYTES_MAX: usize = 64;

/// One end of an SCTP association (RFC 9260), without a clock or a socket.
///
/// Its methods are of four kinds, used in this order: one mutation (`handle_packet`, `handle_timeout`, `send`, `shutdown`,
/// `abort`, `set_mechanisms`); then draining (`poll_transmit` until `None`, `poll_event` until `None`, and `poll_message` as
/// the application reads, after which `poll_transmit` again, since a window update may be due); then `poll_deadline` to
/// know when to call `handle_timeout`. Getters may be called at any time.
#[derive(Debug)]
pub struct Association {
    context: Arc<Context>,
    state: State,
    ports: Ports,
    tags: Tags,
    first_tsn: Tsn,
    streams: Streams,
    peer: PeerTraits,
    ending: Ending,
    readable_told: bool,
    paths: Paths,
    sender: Sender,
    receiver: Option<Receiver>,
    control: Control,
    events: Events,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    packets_sent: u64,
    bytes_sent: u64,
    packets_received: u64,
    bytes_received: u64,
    packets_dropped: u64,
    messages_taken: u64,
}

impl Counters {
    fn note_received(&mut self, bytes: usize, result: Result<(), PacketDropped>) -> Result<(), PacketDropped> {
        match result {
            Ok(()) => {
                self.packets_received += 1;
                self.bytes_received += bytes as u64;
            }
            Err(_) => self.packets_dropped += 1,
        }
        result
    }
}

impl Association {
    /// Starts an association with a peer: `poll_transmit` then returns an INIT. `nonce` must differ between the associations of one context; the tag
    /// and the first TSN are derived from it.
    pub fn connect(now: Instant, context: &Arc<Context>, remote: SocketAddr, ports: Ports, nonce: u64) -> Self {
        Self::connect_knowing(now, context, remote, ports, nonce, None)
    }

    /// As [`connect`](Self::connect), seeded from an earlier association to this destination: the first losses are repaired as quickly as later ones.
    pub fn connect_knowing(
        now: Instant,
        context: &Arc<Context>,
        remote: SocketAddr,
        ports: Ports,
        nonce: u64,
        known: Option<&PathKnowledge>,
    ) -> Self {
        let tag = handshake::fresh_tag(context, &[nonce]);
        let mut association = Self::new(now, context, remote, ports, Tags { local: tag, peer: 0 });
        if let Some(known) = known.filter(|_| association.paths.primary().sending.copies_control_early()) {
            association.assume(now, known);
        }
        association.begin_handshake(now);
        association
    }

    /// Creates an association from a valid cookie. The caller then passes that cookie to it again, which confirms it.
    fn accept(now: Instant, context: &Arc<Context>, remote: SocketAddr, cookie: &Cookie) -> Self {
        let remote = transport_address(remote, cookie.address);
        let mut association = Self::new(now, context, remote, cookie.ports, cookie.tags);
        association.begin_handshake(now);
        let round_trip = handshake::cookie_round_trip(now, cookie, context.config());
        let sending = &mut association.paths.primary_mut().sending;
        // A peer that repeats COOKIE ECHO early makes it longer than it is: the first round trip that is measured takes its place.
        let measured = round_trip.filter(|_| !sending.copies_control_early());
        if let (Some(round_trip), None) = (round_trip, measured) {
            sending.assume_round_trip(AssumedRoundTrip::once(round_trip));
        }
        association.adopt_peer(now, cookie.tags.peer, &cookie.peer, measured);
        association.peer.addresses = cookie.addresses.clone();
        association
    }

    fn new(now: Instant, context: &Arc<Context>, remote: SocketAddr, ports: Ports, tags: Tags) -> Self {
        let config = context.config();
        let first_tsn = cookie::first_tsn(context, tags.local);
        let (mechanisms, initial_window) = (Arc::clone(context.mechanisms()), initial_window_bytes(remote));
        let sending = SendPath::new(now, PathId::PRIMARY, config, mechanisms, initial_window);
        Self {
            context: Arc::clone(context),
            state: State::Closed,
            ports,
            tags,
            first_tsn,
            streams: Streams::default(),
            peer: PeerTraits::default(),
            ending: Ending::default(),
            readable_told: false,
            paths: Paths::new(Path::new(now, remote, sending)),
            sender: Sender::new(config, first_tsn, 0, config.limits.outbound_streams),
            receiver: None,
            control: Control::default(),
            events: Events::new(config.message_events),
            counters: Counters::default(),
        }
    }

    /// Handles a packet received with this ECN field. Its payloads are kept by reference, so `packet` should own little more than the packet.
    ///
    /// # Errors
    /// Why the packet, or the rest of it, was dropped. No such error is fatal, and each is already counted.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        from: SocketAddr,
        ecn: EcnCodepoint,
        packet: &Bytes,
    ) -> Result<(), PacketDropped> {
        let is_protected = self.peer.out_of_band || self.context.config().carrier.protected_by_dtls;
        let parsed = if is_protected { parse_protected(packet, self.peer.out_of_band) } else { Packet::parse(packet) };
        let result = match parsed {
            Ok(parsed) => self.receive(now, (from, ecn), packet, &parsed),
            Err(error) => Err(error.into()),
        };
        self.counters.note_received(packet.len(), result)
    }

    /// Runs all timers that have expired by `now`. An early call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.peer_gone_at().is_some_and(|at| now >= at) {
            self.close(ClosedReason::PeerUnreachable);
        }
        self.handle_state_timeout(now);
        if matches!(self.state, State::Closed) {
            return;
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.handle_timeout(now);
        }
        self.handle_send_timeouts(now);
        self.handle_reconfiguration_timeout(now);
        self.advance_reconfiguration(now);
        self.advance_shutdown(now);
        self.handle_heartbeat_timeouts(now);
        self.handle_search_timeouts(now);
    }

    /// Queues a message. It may be called before the association is established.
    ///
    /// # Errors
    /// The message comes back with the reason.
    pub fn send(&mut self, now: Instant, message: Message) -> Result<MessageId, SendError> {
        if !self.state.takes_messages() || self.ending.requested {
            return Err(SendError::new(message, SendErrorKind::Closed));
        }
        let bytes_max = self.peer.buffer_bytes as usize;
        if message.payload.len() > bytes_max && bytes_max > 0 && !self.context.config().limits.exceeds_peer_buffer {
            return Err(SendError::new(message, SendErrorKind::TooLong { bytes_max }));
        }
        let id = MessageId(self.counters.messages_taken);
        let path = self.paths.primary_mut();
        let silence = path.silence(now);
        self.sender.send((now, silence), &mut path.sending, message, id, &mut self.events)?;
        self.counters.messages_taken += 1;
        if path.sending.may_search() {
            self.search_if_worthwhile(now);
        }
        Ok(id)
    }

    /// Aborts the association and sends up to 64 bytes of `reason` to the peer (RFC 9260 §9.1).
    pub fn abort(&mut self, reason: &[u8]) {
        let reason = reason.get(..CAUSE_INFO_BYTES_MAX).unwrap_or(reason);
        self.abort_with(Cause::UserInitiatedAbort(reason), ClosedReason::AbortedLocally);
    }

    /// Changes how losses are recovered, from now on.
    pub fn set_mechanisms(&mut self, now: Instant, mechanisms: Mechanisms) {
        for path in self.paths.iter_mut() {
            self.sender.set_mechanisms(now, &mut path.sending, &mechanisms);
        }
        let pace = self.paths.primary().sending.control_pace();
        if let State::CookieWait { t1 } | State::CookieEchoed { t1, .. } = &mut self.state {
            *t1 = t1.with_copies(pace);
        }
    }

    /// Appends the next packet to `buffer`, if one may leave now.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.write_packet(now, true, buffer)
    }

    /// The next thing that happened.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// The next whole message, in the order of its stream. Messages that had come before the end can be read after it.
    pub fn poll_message(&mut self) -> Option<ReceivedMessage> {
        let message = self.receiver.as_mut().and_then(Receiver::poll_message);
        if message.is_none() {
            self.readable_told = false;
        }
        message
    }

    /// Discards the unread messages of an inbound stream and all that arrive on it from now on, so that an unread stream does not fill the shared
    /// receive buffer. They are still acknowledged to the peer. This lasts until [`resume_stream`](Self::resume_stream), until the peer resets the
    /// stream (see [`request_reset`](Self::request_reset)), or until the peer restarts. Returns the number of unread messages discarded. Like
    /// [`poll_message`](Self::poll_message) it may trigger a SACK that advertises the room. Does nothing before the peer is known.
    pub fn discard_stream(&mut self, stream: StreamId) -> usize {
        self.receiver.as_mut().map_or(0, |receiver| receiver.discard_stream(stream))
    }

    /// Returns the limit on unread bytes of one stream: [`Limits::stream_unread_bytes_max`](crate::Limits::stream_unread_bytes_max).
    pub fn stream_unread_bytes_max(&self) -> Option<usize> {
        self.context.config().limits.stream_unread_bytes_max
    }

    /// Receives messages again on a stream that [`discard_stream`](Self::discard_stream) or
    /// [`Limits::stream_unread_bytes_max`](crate::Limits::stream_unread_bytes_max) had dropped.
    pub fn resume_stream(&mut self, stream: StreamId) {
        if let Some(receiver) = &mut self.receiver {
            receiver.resume_stream(stream);
        }
    }

    /// Whether a packet must be sent at once. [`poll_message`](Self::poll_message) can change only this, so a caller that takes many messages need
    /// not poll for packets after each.
    pub fn acknowledges_now(&self) -> bool {
        self.receiver.as_ref().is_some_and(Receiver::sack_wanted)
    }

    /// When `handle_timeout` wants to be called next.
    pub fn poll_deadline(&self) -> Option<Instant> {
        if matches!(self.state, State::Closed) {
            return None;
        }
        let receiver = self.receiver.as_ref().and_then(Receiver::deadline);
        let sender_waits = self.t1_repeats_data();
        let first = self.paths.first();
        let sender = if sender_waits { None } else { self.sender.deadline(core::iter::once(&first.sending)) };
        let path = first.deadline(|| self.quiet_max());
        let others = if self.paths.are_several() { self.deadline_of_others(sender_waits) } else { None };
        let (gone, reconfiguration) = (self.peer_gone_at(), self.reconfiguration_deadline());
        Instant::earliest([self.state.deadline(), receiver, gone, reconfiguration, sender, path, others])
    }

    /// Several paths have deadlines of their own, and those of their supervision.
    #[cold]
    fn deadline_of_others(&self, sender_waits: bool) -> Option<Instant> {
        let senders = || self.sender.deadline(self.paths.iter().map(|path| &path.sending));
        let sender = if sender_waits { None } else { senders() };
        let paths = self.paths.iter().filter_map(|path| path.deadline(|| self.quiet_max())).min();
        Instant::earliest([sender, paths, self.supervision_deadline()])
    }

    /// Whether the association has ended.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Where the association is in its life.
    pub fn state(&self) -> AssociationState {
        self.state.name()
    }

    /// The verification tag that packets for this side carry. It changes when the peer restarts, and when it finds a cookie stale.
    pub fn local_tag(&self) -> u32 {
        self.tags.local
    }

    /// The destination of the path of the handshake.
    pub fn remote(&self) -> SocketAddr {
        self.paths.first().remote
    }

    /// The SCTP ports.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Extensions that the peer said it supports; none before the handshake.
    pub fn peer_extensions(&self) -> Extensions {
        self.peer.extensions
    }

    /// How losses are recovered now.
    pub fn mechanisms(&self) -> &Mechanisms {
        self.paths.primary().sending.mechanisms()
    }

    /// Whether `Config::message_events` asks for all events of messages.
    pub fn has_message_events(&self) -> bool {
        self.context.config().message_events
    }

    /// Returns the sender's present view of each path, the path of the handshake first.
    pub fn path_stats(&self) -> impl Iterator<Item = PathStats> {
        self.paths.iter().map(|path| self.sender.stats_on(&path.sending).path)
    }

    /// Returns the association's counters, and the gauges of the path that new data leaves by.
    pub fn stats(&self) -> Stats {
        let mut stats = self.sender.stats_on(&self.paths.primary().sending);
        if let Some(receiver) = &self.receiver {
            receiver.fill_stats(&mut stats.received);
        }
        stats.sent.packets = self.counters.packets_sent;
        stats.sent.bytes = self.counters.bytes_sent;
        stats.sent.messages = self.counters.messages_taken;
        stats.received.packets = self.counters.packets_received;
        stats.received.bytes = self.counters.bytes_received;
        stats.received.packets_dropped = self.counters.packets_dropped;
        if let Some(marks) = self.control.known_marks() {
            marks.fill_stats(&mut stats);
        }
        stats
    }

    /// Sets a stream's value for [`Config::scheduler`](crate::Config::scheduler): its priority (0 is the highest), or its weight (RFC 8260
    /// §4.3.3). Other schedulers ignore it. Messages that are partly sent are not affected.
    pub fn set_stream_value(&mut self, stream: StreamId, value: u16) {
        self.sender.flight.set_stream_value(stream, value);
    }

    /// What partial reliability gave up of the messages on one stream (RFC 7496 §4.3). Events [say](Event::MessagesAbandoned) which.
    pub fn abandoned_on(&self, stream: StreamId) -> AbandonedStats {
        self.sender.flight.abandoned_on(stream)
    }

    /// Returns the number of payload bytes queued on one stream and not sent yet. Takes time for each queued message.
    pub fn queued_bytes_on(&self, stream: StreamId) -> usize {
        self.sender.flight.queued_bytes_on(stream)
    }

    fn handle_state_timeout(&mut self, now: Instant) {
        let config = self.context.config();
        let init_max = config.retries.init_max;
        let shutdown_max = config.peer_timeout.map_or(config.retries.association_max, |_| u32::MAX);
        let pause_max = if self.state.expects_answers() { self.t2_pause_max() } else { config.timers.rto_max };
        let may_be_cut_off = || self.paths.iter().all(|path| path.silence(now) >= config.timers.shutdown_stall / 2);
        let is_asked = || self.paths.iter().any(Path::is_asked);
        let patience = config.peer_timeout.filter(|_| is_asked() && may_be_cut_off());
        let (timer, retries_max, due, given_up) = match &mut self.state {
            State::CookieWait { t1 } => (t1, init_max, Due::INIT, ClosedReason::HandshakeTimeout),
            State::CookieEchoed { t1, .. } => (t1, init_max, Due::COOKIE_ECHO, ClosedReason::HandshakeTimeout),
            State::ShutdownPending { drain } | State::ShutdownReceived { drain } => {
                if drain.is_over(now) && !patience.is_some_and(|time| drain.extend(now, time)) {
                    self.abort_shutdown();
                }
                return;
            }
            State::ShutdownSent { guard_at, .. } if now >= *guard_at => return self.abort_shutdown(),
            State::ShutdownSent { t2, .. } => (t2, shutdown_max, Due::SHUTDOWN, ClosedReason::PeerUnreachable),
            State::ShutdownAckSent { t2 } => (t2, shutdown_max, Due::SHUTDOWN_ACK, ClosedReason::PeerUnreachable),
            State::Closed | State::Established => return,
        };
        let Some(repeat) = timer.due(now) else { return };
        let reason = match repeat {
            Repeat::Uncalled => FlightAgain::Uncalled,
            Repeat::Timeout if timer.retransmissions > 0 => FlightAgain::PathBroken,
            Repeat::Copy | Repeat::Timeout => FlightAgain::Overdue,
        };
        match repeat {
            Repeat::Uncalled | Repeat::Copy => timer.copied(now),
            Repeat::Timeout if timer.retransmissions >= retries_max => return self.close(given_up),
            Repeat::Timeout => timer.back_off(now, pause_max),
        }
        if repeat == Repeat::Timeout {
            self.shutdown_timed_out(now);
        }
        self.control.set(due);
        if self.t1_repeats_data() {
            self.sender.repeat_flight(now, &mut self.paths.primary_mut().sending, reason);
        }
    }

    /// Whether T1 repeats the DATA sent with COOKIE ECHO: the sender's own timers wait meanwhile.
    fn t1_repeats_data(&self) -> bool {
        self.state.is_cookie_echoed() && self.paths.primary().sending.copies_control_early()
    }

    /// When the peer counts as gone if nothing comes by any path.
    #[inline]
    fn peer_gone_at(&self) -> Option<Instant> {
        if self.paths.are_several() {
            return self.peer_gone_on_all_at();
        }
        let path = self.paths.first();
        if !(path.may_be_gone() && self.state.expects_answers()) {
            return None;
        }
        path.gone_at(self.context.config().peer_timeout?)
    }

    /// As [`peer_gone_at`](Self::peer_gone_at), with several paths.
    #[cold]
    fn peer_gone_on_all_at(&self) -> Option<Instant> {
        if !(self.confirmed_paths().all(Path::may_be_gone) && self.state.expects_answers()) {
            return None;
        }
        let peer_timeout = self.context.config().peer_timeout?;
        let mut gone = self.confirmed_paths().map(|path| path.gone_among_others_at(peer_timeout));
        gone.try_fold(Instant::ZERO, |latest, gone| Some(latest.max(gone?)))
    }

    fn handle_send_timeouts(&mut self, now: Instant) {
        if self.t1_repeats_data() {
            return;
        }
        // Until DATA may leave alone, T1 decides whether the peer is there.
        let timeouts_count = self.state.sends_data();
        let mut is_dead = false;
        let expiries = self.sender.handle_timeout(now, &mut self.paths, &mut self.events);
        let are_several = self.paths.are_several();
        for id in self.paths.ids().filter(|_| timeouts_count) {
            match *expiries.of(id) {
                Some(expiry) if are_several => is_dead |= self.path_timed_out(now, id, expiry),
                Some(TimerExpiry::Timeout { counts: true }) => is_dead |= self.path_failed(now, id),
                _ => {}
            }
        }
        if are_several {
            is_dead |= self.silent_paths_failed(now);
        }
        if is_dead {
            self.close(ClosedReason::PeerUnreachable);
        }
    }

    fn handle_heartbeat_timeouts(&mut self, now: Instant) {
        let quiet = self.quiet_max();
        let expects_answers = self.context.config().peer_timeout.is_some() && self.state.expects_answers();
        let (mut is_ready, mut is_dead) = (false, false);
        for id in self.paths.ids() {
            if self.paths.of(id).heartbeat_deadline(|| quiet).is_none_or(|deadline| now < deadline) {
                continue;
            }
            let is_missed = self.paths.of(id).heartbeat_missed(now);
            is_dead |= is_missed && self.heartbeat_counts(id) && self.path_failed(now, id);
            let asks_again = self.probes_again(id) || expects_answers && self.paths.of(id).is_asked();
            if is_missed && self.probes_rarely(now, id) {
                continue;
            }
            let (path, context) = (self.paths.of_mut(id), &self.context);
            let pause = path.heartbeat_pause(now, context, self.tags.local);
            if !is_missed {
                path.send_heartbeat_if_idle(now, pause.unwrap_or(Duration::MAX), quiet);
            } else if asks_again {
                path.heartbeat_at_once();
            } else {
                path.set_heartbeat(now, pause);
            }
            is_ready |= path.heartbeat_ready();
        }
        if is_dead {
            return self.close(ClosedReason::PeerUnreachable);
        }
        // As long as data is sent now and then, the learned path state is worth its memory.
        if is_ready {
            self.give_back_memory();
        }
    }

    fn give_back_memory(&mut self) {
        self.sender.give_back_memory(&mut self.paths);
        self.events.give_back_memory();
        if let Some(receiver) = &mut self.receiver {
            receiver.give_back_memory();
        }
    }

    fn handle_heartbeat_ack(&mut self, now: Instant, info: &[u8]) {
        if self.is_probe_answer(now, info) {
            return;
        }
        let Self { context, sender, paths, events, tags, .. } = self;
        let loses_data = paths.others.as_ref().is_some_and(|others| others.loses_data());
        for id in paths.ids() {
            let path = paths.of_mut(id);
            let pause = path.heartbeat_pause(now, context, tags.local);
            let is_timed = context.config().peer_timeout.is_some();
            if let Some(answer) = path.heartbeat_acked(now, info, pause) {
                if let Some(round_trip) = answer.round_trip.filter(|_| !loses_data) {
                    sender.handle_round_trip(now, &mut path.sending, round_trip, events);
                    if is_timed {
                        path.sending.shorten_timeout(now);
                    }
                }
                path.confirm(events);
                paths.answered(now, id, events);
                self.close_left(now);
                return self.apply_packet_sizes(now);
            }
        }
    }

    fn arm_heartbeats(&mut self, now: Instant) {
        for path in self.paths.iter_mut() {
            path.set_heartbeat(now, path.heartbeat_pause(now, &self.context, self.tags.local));
        }
    }

    /// Silence of both sides after which this side sends a heartbeat.
    #[inline]
    fn quiet_max(&self) -> Duration {
        self.context.config().peer_timeout.map_or(NEVER, |timeout| timeout / 4)
    }
}

/// The bytes of an error cause that the application may want to see.
fn cause_info(cause: &Cause<'_>) -> Bytes {
    let bytes = match cause {
        Cause::UserInitiatedAbort(bytes) | Cause::ProtocolViolation(bytes) | Cause::Unknown { value: bytes, .. } => {
            bytes
        }
        _ => return Bytes::new(),
    };
    Bytes::copy_from_slice(bytes.get(..CAUSE_INFO_BYTES_MAX).unwrap_or(bytes))
}

#[cfg(test)]
mod tests;
