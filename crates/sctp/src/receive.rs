//! The receiving side of an association (RFC 9260 §6.2, §6.5 to §6.7, §6.9; RFC 3758 §3.6; RFC 8260 §2): DATA or I-DATA chunks come in,
//! whole messages and SACKs go out.
//!
//! - `tracker`: which TSNs have arrived
//! - `assembly`: fragments become messages, and messages come in the order of their streams
//! - `window`: how much may still come
//! - `sack`: when to acknowledge
//! - `recovery`: lost chunks that are computed
//!
//! A message that comes whole and in order takes the short way: a slice of its packet is pushed to the queue. There is no
//! copy, no allocation (but the queue's own growth) and no look-up besides the stream's entry in a flat table.
//!
//! # The receive buffer
//! The window that is advertised is the receive buffer less everything held, as allocated: messages that the application has
//! not fetched, messages that wait for an earlier one of their stream, and fragments. A slice counts as the whole packet that
//! it keeps alive, once per packet in the queue to the application. What counts as allocated in full is the packet that is
//! handed in, so it must not share its memory with others.
//!
//! Held data is a slice if it makes up half of its packet at least, and a copy otherwise. A message that the application
//! can fetch at once is a slice however small it is, while less than half of the buffer is used and its packet has at most
//! 2 KiB. Fragments below 512 bytes are gathered in buffers, so that a message in fragments of one byte costs about its bytes.
//!
//! The peer counts payload, and does not know the memory cost of its messages: a message of 64 bytes may take three times as much. So
//! the window is the payload that fits into the rest of a buffer and a quarter, judged by recent messages, and at most the rest
//! of the buffer. Data sent before the peer learned of that is kept up to a buffer and a quarter.
//!
//! A chunk that comes beyond that is dropped. Accepted data is never discarded again, although RFC 9260 §6.2 would
//! have the highest chunk make room for a lower one.
//!
//! Messages are only ever delivered whole, so four rules keep a full buffer from standing still for ever. None of them holds
//! beyond two buffers and 4 KiB, except the last, which goes 8 KiB further:
//!
//! - The chunk that the cumulative TSN waits for is accepted, however full the buffer is, if later ones are held already.
//! - It is accepted as well if the application has nothing to fetch, so that only this chunk can bring progress.
//! - While no TSN is missing and the application has nothing to fetch, a quarter of the buffer stays open. All that is held
//!   then is a message that lacks its end, and one chunk per round trip would complete it too slowly.
//! - A message in one chunk that the application can fetch at once is accepted while there is no other to fetch; and above a buffer and
//!   a quarter, up to 8 KiB more, while all fetchable messages take no more than that. The data that fills the buffer then waits for such
//!   messages, and one in each packet would bring it no further than a packet per message.
//!
//! An honest peer never meets the limit of two buffers with an application that fetches: its outstanding data and the data
//! held above a gap was all within a window of one buffer, and a message has at most the size of the buffer. Its part that was
//! not kept as a slice within the first buffer costs at most a fifth more than its bytes.
//!
//! # Bounds
//! Against any peer, with an application that fetches nothing, memory as allocated is at most two receive buffers + 64 KiB:
//!
//! - what counts towards the window: two receive buffers + 12 KiB, and what the buffer of the last fragment grew by, 4 KiB
//! - 1,024 TSN ranges: 16 KiB
//! - the table of streams: 16 KiB; more counts towards the window (at most 128 KiB in all; a small receive
//!   buffer allows for fewer streams, see `Limits::inbound_streams`). With I-DATA an entry has twice the size, and a second table of
//!   16 KiB for free, with entries of 8 bytes, names the unordered messages that were skipped
//! - 64 duplicate TSNs, the first 64 entries of the queue to the application: 4 KiB
//! - the TSNs above the cumulative one: 32,767; chunks beyond are dropped
//!
//! While the peer sends REPAIR chunks that were agreed on, 110 KiB more (see `recovery`).

use bytes::Bytes;
use festina_units::Instant;
use thiserror::Error;

use self::assembly::cost::Fill;
use self::assembly::ready::Ready;
use self::assembly::{Assembly, Piece, SkipsSoFar};
use self::recovery::Recovery;
use self::sack::SackSchedule;
use self::tracker::{Place, Spot, Tracker};
use self::window::{RELIEF_BYTES, Use, Window};
use crate::bounds::SKIP_MAX;
use crate::config::{Config, SackPolicy};
use crate::message::ReceivedMessage;
use crate::stats::ReceivedStats;
use crate::wire::{Data, ForwardTsn, Framing, IData, IForwardTsn, PacketBuilder, RepairChunk, StreamId, Tsn};

mod apart;
mod assembly;
mod recovery;
mod sack;
mod tracker;
mod window;

/// The receiving side. The order of calls: [`handle_data`](Self::handle_data) or its like for each chunk of a packet, then
/// [`packet_done`](Self::packet_done), then all that [`poll_message`](Self::poll_message) returns, then
/// [`write_sack`](Self::write_sack) if [`sack_wanted`](Self::sack_wanted).
#[derive(Debug)]
pub(crate) struct Receiver {
    tracker: Tracker,
    assembly: Assembly,
    ready: Ready,
    window: Window,
    sack: SackSchedule,
    inbound_streams: u16,
    /// What the peer has abandoned so far.
    skips_so_far: SkipsSoFar,
    /// Both sides know FORWARD-TSN, so that the peer may.
    may_skip: bool,
    message_bytes_max: u32,
    counts: Counts,
    /// While the peer sends sums of its chunks.
    recovery: Option<Box<Recovery>>,
}

/// For [`ReceivedStats`].
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    messages: u64,
    chunks: u64,
    duplicates: u64,
    chunks_dropped: u64,
}

/// What became of a DATA or I-DATA chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataVerdict {
    /// New and kept.
    Accepted,
    /// Received before.
    Duplicate,
    /// The window is closed, or the TSN is out of reach: as if it had been lost, but a SACK says so at once.
    DroppedNoSpace,
    /// New, acknowledged and discarded: there is no such stream. To be answered with the error cause (RFC 9260 §6.5).
    InvalidStream(StreamId),
}

/// The peer did what ends the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ReceiveError {
    /// A DATA or I-DATA chunk without payload (RFC 9260 §6.2, §3.3.10.9).
    #[error("DATA chunk {tsn} has no user data")]
    NoUserData {
        /// Its TSN.
        tsn: Tsn,
    },
    /// The chunks contradict each other, or a message is too long; the text goes into the ABORT.
    #[error("{0}")]
    ProtocolViolation(&'static str),
}

impl From<&'static str> for ReceiveError {
    fn from(what: &'static str) -> Self {
        Self::ProtocolViolation(what)
    }
}

impl Receiver {
    /// A receiver that has got nothing yet. `peer_first_tsn` is the initial TSN of the peer's INIT or INIT ACK;
    /// `inbound_streams` and `framing` are what the handshake agreed on.
    pub(crate) fn new(config: &Config, peer_first_tsn: Tsn, inbound_streams: u16, framing: Framing) -> Self {
        let message_bytes_max = config.limits.message_bytes_max.min(config.limits.receive_buffer_bytes);
        let mut ready = Ready::default();
        ready.limit_streams(config.limits.stream_unread_bytes_max);
        Self {
            tracker: Tracker::new(peer_first_tsn),
            assembly: Assembly::new(framing),
            ready,
            window: Window::new(&config.limits),
            sack: SackSchedule::new(&config.sack, config.limits.packet_bytes_max),
            inbound_streams,
            skips_so_far: SkipsSoFar::None,
            may_skip: false,
            message_bytes_max: u32::try_from(message_bytes_max).unwrap_or(u32::MAX),
            counts: Counts::default(),
            recovery: None,
        }
    }

    /// Whether one SACK may answer a batch of packets: the peer's Supported Extensions say so.
    pub(crate) fn answer_batches(&mut self, is_agreed: bool) {
        self.sack.answer_batches(is_agreed);
    }

    /// Whether the peer may abandon messages: both sides know FORWARD-TSN (RFC 3758 §3.3).
    pub(crate) fn expect_skips(&mut self, is_agreed: bool) {
        self.may_skip = is_agreed;
    }

    /// Takes one DATA chunk. `packet` is the packet that holds `data.payload`; slices of it may be kept, and count as
    /// much as the packet.
    ///
    /// # Errors
    /// The peer broke the protocol, and the association must be aborted.
    ///
    /// # Panics
    /// If `data.payload` does not lie within `packet`.
    #[inline]
    pub(crate) fn handle_data(&mut self, data: &Data<'_>, packet: &Bytes) -> Result<DataVerdict, ReceiveError> {
        self.handle_piece(data, packet)
    }

    /// Takes one I-DATA chunk, as [`handle_data`](Self::handle_data) takes DATA.
    ///
    /// # Errors
    /// The peer broke the protocol, and the association must be aborted.
    pub(crate) fn handle_i_data(&mut self, data: &IData<'_>, packet: &Bytes) -> Result<DataVerdict, ReceiveError> {
        self.handle_piece(data, packet)
    }

    #[inline]
    fn handle_piece(&mut self, piece: &impl Piece, packet: &Bytes) -> Result<DataVerdict, ReceiveError> {
        if piece.payload().is_empty() {
            return Err(ReceiveError::NoUserData { tsn: piece.tsn() });
        }
        self.sack.saw_data(piece.immediate(), !self.tracker.is_contiguous(), packet.len());
        let spot = match self.tracker.place(piece.tsn().unwrap(self.tracker.cumulative())) {
            Place::New(spot) => spot,
            Place::Received => {
                self.sack.saw_duplicate(piece.tsn());
                self.counts.duplicates += 1;
                return Ok(DataVerdict::Duplicate);
            }
            Place::OutOfReach => return Ok(self.drop_chunk()),
        };
        let verdict = if piece.stream().0 >= self.inbound_streams {
            self.assembly.take_outside(spot, self.may_skip, &mut self.ready)?;
            DataVerdict::InvalidStream(piece.stream())
        } else {
            let held = self.held();
            if !self.has_room(held, spot, piece) {
                return Ok(self.drop_chunk());
            }
            let fill = Fill { used_bytes: held.used_bytes, buffer_bytes: self.window.buffer_bytes() };
            let &mut Self { skips_so_far, may_skip, message_bytes_max, .. } = self;
            let place = assembly::Place { spot: &spot, packet, fill, skips_so_far, may_skip, message_bytes_max };
            piece.enter(&mut self.assembly, &place, &mut self.ready)?;
            self.window.note_cost(piece.payload().len(), self.used_bytes().saturating_sub(held.used_bytes));
            self.counts.chunks += 1;
            DataVerdict::Accepted
        };
        self.sack.saw_new();
        self.tracker.record(spot);
        // No run of fragments begins right above the cumulative TSN otherwise.
        if spot.is_next && spot.after_received {
            self.assembly.advance(self.tracker.cumulative(), &mut self.ready);
        }
        if self.recovery.is_some() {
            self.show_decoder(spot.tsn, piece);
        }
        Ok(verdict)
    }

    /// A chunk was accepted while the peer sends sums.
    #[cold]
    fn show_decoder(&mut self, tsn: u64, piece: &impl Piece) {
        let (framing, tracker) = (self.assembly.framing(), &self.tracker);
        self.recovery.take_if(|recovery| !recovery.handle_source(tsn, piece, framing, tracker));
    }

    /// Takes a sum of the peer's chunks, which was agreed on. [`poll_recovered`](Self::poll_recovered) then returns the chunks that it brings back.
    pub(crate) fn handle_repair(&mut self, repair: &RepairChunk<'_>) {
        let framing = self.assembly.framing();
        self.recovery.get_or_insert_default().handle_repair(repair, framing, &self.tracker);
    }

    /// The next chunk that was lost and computed, without padding: to be handled as one that has arrived in a packet of its own.
    pub(crate) fn poll_recovered(&mut self) -> Option<Bytes> {
        self.recovery.as_mut()?.poll_recovered()
    }

    /// Takes one FORWARD-TSN chunk (RFC 3758 §3.6) of a packet of `packet_bytes`. It is acknowledged as DATA would be.
    pub(crate) fn handle_forward_tsn(&mut self, forward: &ForwardTsn<'_>, packet_bytes: usize) {
        if let Some(new_cumulative) = self.forward_to(forward.new_cumulative, forward.streams().len(), packet_bytes) {
            let passed = new_cumulative - self.tracker.cumulative();
            self.assembly.forward((new_cumulative, passed), self.inbound_streams, forward.streams(), &mut self.ready);
            self.skip_to(new_cumulative);
        }
    }

    /// Takes one I-FORWARD-TSN chunk (RFC 8260 §2.3.1), as [`handle_forward_tsn`](Self::handle_forward_tsn) takes FORWARD-TSN.
    pub(crate) fn handle_i_forward_tsn(&mut self, forward: &IForwardTsn<'_>, packet_bytes: usize) {
        if let Some(new_cumulative) = self.forward_to(forward.new_cumulative, forward.streams().len(), packet_bytes) {
            self.assembly.forward_interleaved(self.inbound_streams, forward.streams(), &mut self.ready);
            self.skip_to(new_cumulative);
        }
    }

    /// The new cumulative TSN; `None` if the chunk is out of date or of another association, or if the skipped messages might need more
    /// memory than there is.
    fn forward_to(&mut self, new_cumulative: Tsn, streams: usize, packet_bytes: usize) -> Option<u64> {
        self.sack.saw_data(false, !self.tracker.is_contiguous(), packet_bytes);
        let new_cumulative = new_cumulative.unwrap(self.tracker.cumulative());
        // A single stream costs no more than a DATA chunk may, and is always accepted. Senders shorten lists that are repeated without effect.
        let growth_bytes =
            if streams > 1 { self.assembly.forward_growth_bytes_max((streams, self.inbound_streams)) } else { 0 };
        if new_cumulative <= self.tracker.cumulative() {
            self.sack.saw_old_forward();
        } else if new_cumulative - self.tracker.cumulative() > self.skip_max()
            || !self.window.has_room_for_tables(self.used_bytes(), growth_bytes)
        {
            self.drop_chunk();
        } else {
            return Some(new_cumulative);
        }
        None
    }

    fn skip_max(&self) -> u64 {
        SKIP_MAX.max(2 * self.window.buffer_bytes() as u64)
    }

    /// Moves the cumulative TSN. Fragments above it have been looked at.
    fn skip_to(&mut self, new_cumulative: u64) {
        (self.skips_so_far, self.may_skip) = (self.skips_so_far.max(SkipsSoFar::UpToTsn), true);
        self.tracker.forward(new_cumulative);
        self.assembly.advance(self.tracker.cumulative(), &mut self.ready);
        self.sack.saw_new();
    }

    fn drop_chunk(&mut self) -> DataVerdict {
        self.sack.saw_dropped();
        self.counts.chunks_dropped += 1;
        DataVerdict::DroppedNoSpace
    }

    /// Whether a new chunk may be kept; the module's documentation says why.
    #[inline]
    fn has_room(&self, held: Use, spot: Spot, piece: &impl Piece) -> bool {
        self.window.has_room(held, piece.payload().len(), spot.is_next) || self.brings_relief(spot, piece, held)
    }

    /// Whether the chunk is a message that the application can fetch at once, and there is no other or they are few.
    #[cold]
    fn brings_relief(&self, spot: Spot, piece: &impl Piece, held: Use) -> bool {
        let is_fetched_at_once = piece.beginning() && piece.end() && self.assembly.is_due(piece);
        let is_alone = spot.is_next && !held.has_ready;
        is_fetched_at_once
            && (is_alone || self.ready.fetchable_within(RELIEF_BYTES))
            && self.window.has_room_for_relief(held, piece.payload().len(), is_alone)
    }

    #[inline]
    fn used_bytes(&self) -> usize {
        self.ready.held_bytes()
    }

    #[inline]
    fn held(&self) -> Use {
        Use {
            used_bytes: self.used_bytes(),
            has_ready: self.ready.has_message(),
            has_gap: !self.tracker.is_contiguous(),
        }
    }

    /// Ends a packet: makes the one SACK decision for it. Does nothing if it held no DATA or its like.
    #[inline]
    pub(crate) fn packet_done(&mut self, now: Instant) {
        self.ready.packet_done();
        self.sack.packet_done(now, self.tracker.gaps());
    }

    /// Whether a SACK must leave now.
    #[inline]
    pub(crate) fn sack_wanted(&self) -> bool {
        self.sack.is_wanted()
    }

    /// Whether there is something to acknowledge, now or with the next packet that leaves anyway.
    #[inline]
    pub(crate) fn sack_useful(&self) -> bool {
        self.sack.is_useful()
    }

    /// Makes the next packet carry a SACK, ahead of the schedule.
    pub(crate) fn request_sack(&mut self) {
        self.sack.request();
    }

    /// Changes when acknowledgements are delayed.
    pub(crate) fn set_sack_policy(&mut self, policy: &SackPolicy) {
        self.sack.set_policy(policy);
    }

    /// Writes a SACK with as many gap ack blocks and duplicate TSNs as fit, and clears what waited for it. Where the peer understands
    /// NR-SACK (`nr_sack`), one with gap ack blocks says that none of them will be taken back. Returns whether there was room for one.
    pub(crate) fn write_sack(&mut self, nr_sack: bool, packet: &mut PacketBuilder<'_>) -> bool {
        if let Some(recovery) = &mut self.recovery {
            recovery.write_report(packet);
        }
        let held = self.held();
        let open_bytes = self.window.open_bytes(held);
        let a_rwnd = u32::try_from(open_bytes).unwrap_or(u32::MAX);
        let (cumulative, blocks, duplicates) =
            (self.cumulative_tsn(), self.tracker.gap_ack_blocks(), self.sack.duplicates());
        let written = if nr_sack && !self.tracker.is_contiguous() {
            packet.nr_sack((cumulative, a_rwnd), std::iter::empty(), blocks, duplicates)
        } else {
            packet.sack(cumulative, a_rwnd, blocks, duplicates)
        };
        if written {
            self.window.note_advertised(open_bytes, held);
            self.sack.sent();
        }
        written
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.sack.deadline()
    }

    /// Has the delayed SACK leave if it is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.sack.handle_timeout(now) {
            // No second packet came within the delay: the flow has paused or is thin.
            self.give_back_memory();
        }
    }

    /// Releases the capacity of an empty queue.
    pub(crate) fn give_back_memory(&mut self) {
        self.ready.give_back_memory();
    }

    /// The next message for the application. Has a SACK leave if that opens the window enough (RFC 9260 §6.2).
    #[inline]
    pub(crate) fn poll_message(&mut self) -> Option<ReceivedMessage> {
        let message = self.ready.pop()?;
        self.counts.messages += 1;
        if self.window.is_update_due(self.held()) {
            self.sack.request();
        }
        Some(message)
    }

    /// Whether [`poll_message`](Self::poll_message) would give one.
    #[inline]
    pub(crate) fn has_message(&self) -> bool {
        self.ready.has_message()
    }

    /// Drops the unread messages of a stream and those that arrive until the stream is resumed or reset. Returns how many messages it has
    /// dropped. Has a SACK leave if that opens the window enough.
    pub(crate) fn discard_stream(&mut self, stream: StreamId) -> usize {
        let dropped = self.ready.discard(stream);
        if dropped > 0 && self.window.is_update_due(self.held()) {
            self.sack.request();
        }
        dropped
    }

    /// Keeps messages of a stream again.
    pub(crate) fn resume_stream(&mut self, stream: StreamId) {
        self.ready.resume(stream);
    }

    /// The next stream that is discarded since too much of it was unread.
    #[inline]
    pub(crate) fn poll_overrun(&mut self) -> Option<StreamId> {
        self.ready.poll_overrun()
    }

    /// The highest TSN up to which all have arrived, as on the wire.
    pub(crate) fn cumulative_tsn(&self) -> Tsn {
        Tsn::wrap(self.tracker.cumulative())
    }

    /// Handles a restart of the peer (RFC 9260 §5.2.4.1): its TSNs and SSNs restart. Messages that are whole and in order can
    /// still be fetched; the rest is gone. The counters go on.
    pub(crate) fn reset_for_restart(
        &mut self,
        config: &Config,
        peer_first_tsn: Tsn,
        inbound_streams: u16,
        framing: Framing,
    ) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.restart();
        let counts = self.counts;
        *self = Self { ready, counts, ..Self::new(config, peer_first_tsn, inbound_streams, framing) };
    }

    /// Messages that arrive from now on come from a peer that has restarted.
    pub(crate) fn peer_restarted(&mut self) {
        self.ready.peer_restarted();
    }

    /// Returns whether everything up to a TSN has arrived or was skipped.
    pub(crate) fn has_all_up_to(&self, tsn: Tsn) -> bool {
        tsn.unwrap(self.tracker.cumulative()) <= self.tracker.cumulative()
    }

    /// Resets a stream of the peer (RFC 6525 §5.2.2). Messages that wait for an unused number are delivered.
    pub(crate) fn reset_stream(&mut self, stream: StreamId) {
        self.assembly.reset_stream(stream, &mut self.ready);
        self.ready.resume(stream);
    }

    /// As [`reset_stream`](Self::reset_stream), all streams.
    pub(crate) fn reset_all_streams(&mut self) {
        self.assembly.reset_all_streams(&mut self.ready);
        self.ready.resume_all();
    }

    /// The peer may send on this many streams now.
    pub(crate) fn set_streams(&mut self, inbound_streams: u16) {
        self.inbound_streams = inbound_streams;
    }

    /// Fills in the counters of messages and chunks.
    pub(crate) fn fill_stats(&self, stats: &mut ReceivedStats) {
        let Counts { messages, chunks, duplicates, chunks_dropped } = self.counts;
        stats.messages = messages;
        stats.chunks = chunks;
        stats.duplicates = duplicates;
        stats.chunks_dropped = chunks_dropped;
    }
}

#[cfg(test)]
mod tests;
