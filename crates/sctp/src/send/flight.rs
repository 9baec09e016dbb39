//! The messages of an association until they are settled: those that wait for TSNs, their chunks on the way to the peer, and the peer's window.

mod partial;
mod streams;

use festina_units::{Duration, Instant};

use super::backlog::Surroundings;
use super::messages::{Fate, Left};
use super::queue::{Room, SendBuffer};
use super::scheduler::{Piece, Turn};
use super::window::PeerWindow;
use crate::config::Config;
use crate::error::{ProtocolViolation, SendError, SendErrorKind};
use crate::event::{AbandonReason, Event, Events, ProtocolEvent, RetransmissionCause};
use crate::message::{Message, MessageId};
use crate::outstanding::{Acknowledgement, Chunk, ChunkState, Credit, Digest, Form, Ledger, PathId, SackTerms};
use crate::stats::AbandonedStats;
use crate::wire::{FragmentHeader, Framing, PacketBuilder, StreamId, Tsn};
use partial::Partial;
use streams::OutboundStreams;

/// Messages from `send` until each is acknowledged for good or abandoned. It knows of no packet and of no timer for a loss.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(super) buffer: SendBuffer,
    pub(super) streams: OutboundStreams,
    pub(super) ledger: Ledger,
    pub(super) window: PeerWindow,
    pub(super) partial: Option<Box<Partial>>,
    /// The peer supports FORWARD-TSN, or I-FORWARD-TSN with I-DATA.
    pub(super) forwards: bool,
    /// The peer passes over abandoned chunks that lie apart, too.
    pub(super) apart: bool,
    /// The chunk that carries messages.
    pub(super) framing: Framing,
    /// No more messages will come.
    pub(super) closing: bool,
    /// More chunks than a thin stream has were outstanding at some time since all was last acknowledged.
    pub(super) is_burst: bool,
    pub(super) messages_acked: u64,
    pub(super) messages_abandoned: u64,
}

/// Values of a path on which partial reliability depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathTerms {
    /// Smoothed round-trip time; RTO before it was measured.
    pub(super) round_trip: Duration,
    /// Time after a transmission at which its acknowledgement is overdue.
    pub(super) patience: Duration,
    /// Bytes of DATA chunks in a packet, headers included.
    pub(super) packet_bytes: usize,
}

impl Flight {
    pub(super) fn new(config: &Config, first_tsn: Tsn, peer_a_rwnd: u32, outbound_streams: u16) -> Self {
        Self {
            buffer: SendBuffer::new(config),
            streams: OutboundStreams::new(outbound_streams),
            ledger: new_ledger(first_tsn),
            window: PeerWindow::new(peer_a_rwnd),
            partial: None,
            forwards: false,
            apart: false,
            framing: Framing::Data,
            closing: false,
            is_burst: false,
            messages_acked: 0,
            messages_abandoned: 0,
        }
    }

    /// Sets the results of the handshake: the chunk type for messages, and whether the peer can skip abandoned messages, also by single chunks
    /// (`apart`). [`Sender::establish`](super::Sender::establish) follows.
    pub(crate) fn agree(&mut self, framing: Framing, forwards: bool, apart: bool) {
        if framing != self.framing {
            self.ledger.reframe(framing);
        }
        self.framing = framing;
        self.forwards = forwards;
        self.apart = apart;
        self.ledger.set_buries(apart);
    }

    /// No more messages will come: the last chunk asks for a SACK without delay (RFC 7053 §4, SHUTDOWN-PENDING).
    pub(crate) fn closing(&mut self) {
        self.closing = true;
    }

    /// The peer restarted (RFC 9260 §5.2.4 A): unacknowledged messages have failed. Sending resumes when [`Sender::establish`](super::Sender::establish)
    /// passes the peer's new limits. The caller [resets](super::SendPath::reset_for_restart) the paths.
    pub(crate) fn reset_for_restart(&mut self, first_tsn: Tsn, events: &mut Events) {
        self.fail_all(events);
        self.streams.clear();
        self.ledger = new_ledger(first_tsn);
        self.window = PeerWindow::new(0);
        self.closing = false;
    }

    /// Queues a message.
    ///
    /// # Errors
    /// Caller: the message cannot be sent, or not now.
    #[inline]
    pub(super) fn push(
        &mut self,
        now: Instant,
        message: Message,
        id: MessageId,
        events: &mut Events,
    ) -> Result<(), SendError> {
        if !self.buffer.fits(&message, self.streams.count()) {
            return Err(self.buffer.fault(message, self.streams.count()));
        }
        if self.streams.is_resetting(message.stream) {
            return Err(SendError::new(message, SendErrorKind::StreamResetting));
        }
        if message.is_tracked() {
            return self.push_partial(now, message, id, events);
        }
        if !self.buffer.has_room(message.payload.len(), Room::default()) {
            return Err(self.buffer.refuse(message));
        }
        self.buffer.push(now, message, id);
        Ok(())
    }

    /// Updates the limit on unsent data, if that follows the window of a path with these surroundings.
    #[inline]
    pub(super) fn follow_window(&mut self, now: Instant, surroundings: impl FnOnce(&Ledger) -> Surroundings) {
        self.buffer.follow(now, || surroundings(&self.ledger));
    }

    /// Returns the next piece as a chunk, with its header.
    pub(super) fn cut_chunk(
        &mut self,
        turn: Turn,
        now: Instant,
        path: PathId,
        asks: bool,
        tail_asks: bool,
        events: &mut Events,
    ) -> Option<(Chunk, FragmentHeader)> {
        let tsn = self.ledger.next_tsn();
        let Piece { payload, message: slot, fragment, ends } = self.buffer.cut(turn, self.framing.alternates())?;
        let is_tail = tail_asks && self.buffer.is_empty();
        let message = self.buffer.message_mut(slot)?;
        message.last_tsn = Tsn::wrap(tsn).0;
        if fragment == 0 {
            message.number = self.streams.number(self.framing, message.stream, message.unordered);
            let id = message.id;
            events.push_message_event(|| Event::Protocol(ProtocolEvent::MessageSent { id, at: now }));
        }
        if ends {
            self.streams.left(message.stream);
        }
        let chunk = Chunk {
            payload,
            sent_at: now,
            message: slot,
            fragment,
            form: Form::new(self.framing, ends),
            immediate_ack: message.immediate_ack && ends || is_tail || asks,
            state: ChunkState::InFlight,
            transmissions: 1,
            miss_indications: 0,
            fast_retransmitted: false,
            resent: None,
            path,
        };
        let header = message.header(tsn, &chunk);
        Some((chunk, header))
    }

    /// Applies an acknowledgement to the chunks, their messages and the peer's window. Fills in the blank `digest`. Returns `false`,
    /// without any change, if a later one is known.
    ///
    /// # Errors
    /// Peer: it acknowledged a TSN that was never sent, or something is missing again that was to be kept for good.
    pub(super) fn apply(
        &mut self,
        now: Instant,
        acknowledgement: Acknowledgement<'_>,
        terms: SackTerms,
        digest: &mut Digest,
        events: &mut Events,
    ) -> Result<bool, ProtocolViolation> {
        let forwarded = self.forwarded();
        let Self { ledger, buffer, partial, messages_acked, .. } = self;
        // The last chunk of a message completes it.
        let settle = |message, payload_bytes| {
            let Some(Left { id, fate }) = buffer.release(message, payload_bytes) else { return };
            let confirm = match fate {
                Fate::Plain => false,
                Fate::Tracked => partial.as_mut().is_some_and(|partial| partial.forget(message)),
                Fate::Abandoned => return,
            };
            *messages_acked += 1;
            if confirm {
                events.push(Event::MessageDelivered { id, at: now });
            } else {
                events.push_message_event(|| Event::MessageDelivered { id, at: now });
            }
        };
        if !ledger.apply(acknowledgement, terms, forwarded, digest, settle)? {
            return Ok(false);
        }
        if let Some(sack) = acknowledgement.sack {
            self.window.told(sack.a_rwnd);
        }
        self.window.handle_sack(self.ledger.first_tsn());
        digest.answered = digest.credits.paths_where(Credit::is_answer);
        if let Some(probe) = self.window.probe().and_then(|tsn| self.ledger.get(tsn)) {
            digest.answered.insert(probe.path);
        }
        digest.window_opened = self.resend_window_probe();
        Ok(true)
    }

    /// A probe of the closed window was dropped by the peer; as the window has opened, it is sent again without waiting for its backed-off
    /// timer. Returns whether that is so.
    fn resend_window_probe(&mut self) -> bool {
        let Some(tsn) = self.window.probe() else { return false };
        let fits = |payload_bytes| payload_bytes <= self.window.available_bytes(0);
        let opened = self.ledger.get(tsn).is_some_and(|chunk| fits(chunk.payload.len()));
        if opened {
            self.ledger.lose(tsn, RetransmissionCause::Probe);
            self.window.opened();
        }
        opened
    }

    /// Payload bytes of one stream that have not been sent.
    pub(crate) fn queued_bytes_on(&self, stream: StreamId) -> usize {
        self.buffer.queued_bytes_on(stream)
    }

    /// Abandoned messages of one stream, by policy.
    pub(crate) fn abandoned_on(&self, stream: StreamId) -> AbandonedStats {
        self.partial.as_ref().map_or_else(Default::default, |partial| partial.abandoned_on(stream))
    }

    /// The highest TSN skipped by a FORWARD-TSN; 0 if none was.
    pub(super) fn forwarded(&self) -> u64 {
        self.partial.as_ref().map_or(0, |partial| partial.forwarded())
    }

    /// Nothing queued and nothing outstanding: SHUTDOWN may go.
    pub(crate) fn is_drained(&self) -> bool {
        self.buffer.is_empty() && self.ledger.is_empty()
    }

    /// Payload bytes that are queued or not acknowledged yet, and their number with all bytes abandoned so far. Only an acknowledgement makes the latter
    /// smaller once no more messages come.
    pub(crate) fn left_bytes(&self) -> (usize, u64) {
        let left_bytes = self.buffer.used_bytes();
        (left_bytes, left_bytes as u64 + self.partial.as_ref().map_or(0, |partial| partial.abandoned_bytes()))
    }

    /// Returns whether the queue is empty.
    pub(super) fn is_all_sent(&self) -> bool {
        self.buffer.queued_bytes() == 0
    }

    /// Returns whether a chunk that probes the peer's closed window is outstanding.
    pub(super) fn is_probing_window(&self) -> bool {
        self.window.probe().is_some()
    }

    /// The association has ended: abandons every unacknowledged message. The caller [stops](super::SendPath::stop) the paths.
    pub(crate) fn fail_all(&mut self, events: &mut Events) {
        let mut failed = Vec::new();
        while let Some((slot, bytes, state)) =
            self.ledger.pop(|chunk| (chunk.message, chunk.payload.len(), chunk.state))
        {
            if state == ChunkState::NonRenegable {
                continue;
            }
            let id = self.buffer.message(slot).map(|message| message.id);
            let is_news = !state.is_abandoned();
            failed.extend(id.filter(|_| is_news).map(|id| (id, AbandonReason::UnacknowledgedAtEnd)));
            self.buffer.release(slot, bytes);
        }
        while let Some((id, has_tsn)) = self.buffer.discard() {
            let reason = if has_tsn { AbandonReason::UnacknowledgedAtEnd } else { AbandonReason::UnsentAtEnd };
            failed.push((id, reason));
        }
        // Streams that take turns leave them out of order.
        failed.sort_unstable_by_key(|&(id, _)| id);
        failed.dedup_by_key(|&mut (id, _)| id);
        self.messages_abandoned += failed.len() as u64;
        for (id, reason) in failed {
            let sent = reason == AbandonReason::UnacknowledgedAtEnd;
            if sent {
                self.partial.get_or_insert_default().note_sent_at_end();
            }
            events.push_abandoned(id, reason, sent);
        }
        if let Some(partial) = &mut self.partial {
            partial.clear();
        }
        self.streams.forget_resets();
        self.window.opened();
    }

    /// Payload bytes of the next new chunk in an empty packet, which holds `payload_max`.
    pub(super) fn next_piece_bytes(&self, payload_max: usize) -> Option<usize> {
        self.buffer.front().map(|unsent| unsent.rest.len().min(payload_max))
    }

    /// Nothing may be outstanding while the next chunk waits for the peer's window: then that is to be probed.
    pub(super) fn update_window(&mut self, now: Instant, payload_max: usize, rto: impl FnOnce() -> Duration) {
        let next_piece_bytes = self.next_piece_bytes(payload_max);
        let blocked =
            self.ledger.is_empty() && next_piece_bytes.is_some_and(|bytes| bytes > self.window.available_bytes(0));
        self.window.update(blocked, || now + rto());
    }

    /// Returns whether the message in front must not be sent any more.
    #[inline]
    pub(super) fn front_is_stale(&self, now: Instant) -> bool {
        let may_be_stale = !self.buffer.is_empty() && (self.partial.is_some() || self.streams.may_refuse());
        may_be_stale && self.buffer.front_stale(now, self.streams.count()).is_some()
    }

    /// Drops the messages in front that must not be sent any more. Whether there were any.
    #[inline]
    pub(super) fn drop_stale(&mut self, now: Instant, events: &mut Events) -> bool {
        let is_stale = self.front_is_stale(now);
        if is_stale {
            self.give_up_what_is_stale(now, events);
            self.report_room(events);
        }
        is_stale
    }

    /// Nothing is queued or outstanding any more: memory stays for a thin stream, and for another burst if this was one.
    pub(super) fn drained(&mut self, events: &mut Events) {
        events.push(Event::Drained);
        if !std::mem::take(&mut self.is_burst) {
            self.buffer.calm_down();
            self.ledger.calm_down();
        }
    }

    /// Abandons messages whose lifetime has ended, and those that would exceed their retransmissions. Returns whether there were any.
    #[inline]
    pub(super) fn abandon_what_is_over(
        &mut self,
        now: Instant,
        terms: impl FnOnce() -> PathTerms,
        events: &mut Events,
    ) -> bool {
        let may_be_over = self.partial.is_some() || self.ledger.lost().chunks > 0;
        may_be_over && self.give_up_what_is_over(now, terms(), events)
    }

    /// Messages were abandoned: reports the free space, and decides whether a FORWARD-TSN is needed.
    pub(super) fn gave_up(&mut self, now: Instant, terms: impl FnOnce() -> PathTerms, events: &mut Events) {
        self.report_room(events);
        self.judge_forward(now, terms, false);
    }

    /// Messages were abandoned or acknowledged (`by_ack`): decides how far the peer is to be moved, and when FORWARD-TSN is sent.
    pub(super) fn judge_forward(&mut self, now: Instant, terms: impl FnOnce() -> PathTerms, by_ack: bool) {
        if let Some(mut partial) = self.partial.take() {
            partial.judge_forward(now, terms(), self, by_ack);
            self.partial = Some(partial);
        }
    }

    /// Writes FORWARD-TSN if there is something to tell. Returns whether it did.
    pub(super) fn write_forward(
        &mut self,
        now: Instant,
        terms: impl FnOnce() -> PathTerms,
        packet: &mut PacketBuilder<'_>,
    ) -> bool {
        let Some(mut partial) = self.partial.take() else { return false };
        let written = partial.write_forward(now, terms(), self, packet);
        self.partial = Some(partial);
        written
    }

    /// Messages were abandoned: reports the free space.
    pub(super) fn report_room(&mut self, events: &mut Events) {
        if self.is_drained() {
            self.drained(events);
        }
        if self.buffer.take_writable() {
            events.push(Event::Writable);
        }
    }
}

/// TSNs are unwrapped from here on, far enough from zero that a predecessor always exists.
fn new_ledger(first_tsn: Tsn) -> Ledger {
    Ledger::new((1 << 32) + u64::from(first_tsn.0))
}
