//! Stream reconfiguration (RFC 6525): resetting streams and adding streams.
//!
//! This side has one request under way at a time (§5.1.1). Further requests wait in [`Wishes`], where those for the same stream are merged. A stream
//! to be reset takes no messages until the peer has answered. Its request is sent once the peer has received everything sent on it, so that old and
//! new sequence numbers cannot meet.

mod answer;

use std::collections::BTreeSet;

use festina_units::Instant;

use super::Association;
use super::extensions::Extensions;
use super::reply::{Due, Reply};
use super::retry::{Repeat, RetryTimer};
use super::state::State;
use crate::error::{ClosedReason, ReconfigureError};
use crate::event::{Direction, Event, StreamRequest};
use crate::path_id::PathId;
use crate::wire::{ChunkOut, PacketBuilder, ReConfigParameter, ReConfigResult, StreamId, StreamList, Tsn};
use answer::Answer;

/// Bytes of a packet around the streams of a request: common header, and the headers of chunk and parameter with its numbers.
const AROUND_STREAMS_BYTES: usize = 12 + 4 + 16;

/// What stream reconfiguration remembers. On the heap: most associations never use it.
#[derive(Debug)]
pub(super) struct Reconfiguration {
    /// The number of this side's next request.
    next_request: u32,
    /// The number that the peer's next request must have.
    expected: u32,
    wishes: Wishes,
    /// Streams whose request is sent once the peer has everything up to a TSN.
    draining: Option<Draining>,
    pending: Option<Pending>,
    /// What the peer's last two requests were answered, the newest first: a repetition gets the same answer.
    answers: [Option<Answer>; 2],
    /// Streams that the peer was asked to add and has not refused: it may, and may do so before it answers.
    promised_streams: u16,
}

/// What the application, or the peer, wants of this side and has not been asked for yet.
#[derive(Debug, Default)]
struct Wishes {
    /// Outgoing streams to reset.
    resets: StreamSet,
    /// Incoming streams that the peer is to reset.
    peer_resets: StreamSet,
    /// Outgoing streams to add.
    outbound: u16,
    /// Incoming streams to add.
    inbound: u16,
    /// The request of the peer that this side's next reset answers.
    answers: Option<u32>,
}

/// A set of streams; at most one entry for each that exists.
#[derive(Debug, Default)]
struct StreamSet {
    all: bool,
    streams: BTreeSet<StreamId>,
}

/// Streams whose last messages still have to be acknowledged before their reset is requested.
#[derive(Debug)]
struct Draining {
    /// None stands for all.
    streams: Box<[StreamId]>,
    /// The last TSN that one of them may have used.
    last_tsn: u64,
}

/// A request under way.
#[derive(Debug)]
struct Pending {
    number: u32,
    request: Request,
    timer: RetryTimer,
    /// How often the peer has answered that it is busy.
    busy: u32,
}

/// The requested change; an empty list of streams means all.
#[derive(Debug)]
enum Request {
    Reset { streams: Box<[StreamId]>, response: u32, last_tsn: Tsn },
    PeerReset { streams: Box<[StreamId]> },
    AddOutbound(u16),
    AddInbound(u16),
}

impl StreamSet {
    fn insert(&mut self, streams: impl Iterator<Item = StreamId>, is_all: bool) {
        self.all |= is_all;
        self.streams.extend(streams);
    }

    /// Takes up to `max` streams out, as a request lists them; `None` if there are none.
    fn take(&mut self, max: usize) -> Option<Box<[StreamId]>> {
        if std::mem::take(&mut self.all) {
            self.streams.clear();
            return Some(Box::default());
        }
        let taken: Box<[_]> = std::iter::from_fn(|| self.streams.pop_first()).take(max).collect();
        (!taken.is_empty()).then_some(taken)
    }
}

impl Reconfiguration {
    fn new(first_tsn: u32, peer_first_tsn: u32) -> Self {
        Self {
            next_request: first_tsn,
            expected: peer_first_tsn,
            wishes: Wishes::default(),
            draining: None,
            pending: None,
            answers: [None; 2],
            promised_streams: 0,
        }
    }

    /// Begins a request.
    fn begin(&mut self, timer: RetryTimer, request: Request) {
        if let Request::AddInbound(streams) = request {
            self.promised_streams = self.promised_streams.saturating_add(streams);
        }
        self.pending = Some(Pending { number: self.take_number(), request, timer, busy: 0 });
    }

    fn take_number(&mut self) -> u32 {
        let number = self.next_request;
        self.next_request = number.wrapping_add(1);
        number
    }

    /// The next request that need not wait for anything.
    fn next_at_once(&mut self, streams_max: usize) -> Option<Request> {
        let Wishes { peer_resets, outbound, inbound, .. } = &mut self.wishes;
        if *outbound > 0 {
            return Some(Request::AddOutbound(std::mem::take(outbound)));
        }
        if *inbound > 0 {
            return Some(Request::AddInbound(std::mem::take(inbound)));
        }
        peer_resets.take(streams_max).map(|streams| Request::PeerReset { streams })
    }
}

impl Request {
    fn kind(&self) -> StreamRequest {
        match self {
            Self::Reset { streams, .. } => StreamRequest::Reset(Direction::Outbound, streams.clone()),
            Self::PeerReset { streams } => StreamRequest::Reset(Direction::Inbound, streams.clone()),
            &Self::AddOutbound(streams) => StreamRequest::Add(Direction::Outbound, streams),
            &Self::AddInbound(streams) => StreamRequest::Add(Direction::Inbound, streams),
        }
    }

    /// Writes the request with its number. Returns whether there was room.
    fn write(&self, request: u32, packet: &mut PacketBuilder<'_>) -> bool {
        let bytes = |streams: &[StreamId]| streams.iter().flat_map(|stream| stream.0.to_be_bytes()).collect::<Vec<_>>();
        let list = match self {
            Self::Reset { streams, .. } | Self::PeerReset { streams } => bytes(streams),
            Self::AddOutbound(_) | Self::AddInbound(_) => Vec::new(),
        };
        let streams = StreamList::from_bytes(&list).unwrap_or(StreamList::ALL);
        let parameter = match *self {
            Self::Reset { response, last_tsn, .. } => {
                ReConfigParameter::OutgoingReset { request, response, last_tsn, streams }
            }
            Self::PeerReset { .. } => ReConfigParameter::IncomingReset { request, streams },
            Self::AddOutbound(streams) => ReConfigParameter::AddOutgoing { request, streams },
            Self::AddInbound(streams) => ReConfigParameter::AddIncoming { request, streams },
        };
        packet.chunk(&ChunkOut::ReConfig(&[parameter]))
    }
}

impl Association {
    /// Resets outgoing streams, so that their sequence numbers restart at 0 (RFC 6525 §5.1.2). An empty slice means all streams. They take no
    /// messages until [`Event::StreamsReset`] or [`Event::StreamRequestFailed`] reports the result. Earlier messages on them are delivered before the
    /// reset. Streams that already wait for a reset are not reset twice.
    ///
    /// # Errors
    /// [`ReconfigureError`] states whether the caller or the peer is the cause. Nothing has changed.
    pub fn reset_streams(&mut self, now: Instant, streams: &[StreamId]) -> Result<(), ReconfigureError> {
        self.may_reconfigure(streams, self.streams.outbound)?;
        let (fresh, is_all) = self.sender.flight.begin_reset(streams);
        self.reconfiguration().wishes.resets.insert(fresh.into_iter(), is_all);
        self.advance_reconfiguration(now);
        Ok(())
    }

    /// Asks the peer to reset streams on which it sends (§5.1.3). An empty slice means all streams. [`Event::StreamsReset`] reports the reset, and
    /// [`Event::StreamRequestFailed`] a refusal.
    ///
    /// # Errors
    /// [`ReconfigureError`] states whether the caller or the peer is the cause. Nothing has changed.
    pub fn request_reset(&mut self, now: Instant, streams: &[StreamId]) -> Result<(), ReconfigureError> {
        self.may_reconfigure(streams, self.streams.inbound)?;
        self.reconfiguration().wishes.peer_resets.insert(streams.iter().copied(), streams.is_empty());
        self.advance_reconfiguration(now);
        Ok(())
    }

    /// Requests more streams in either direction (§5.1.5, §5.1.6). [`Event::StreamsAdded`] reports the new numbers, [`Event::StreamRequestFailed`] a
    /// refusal.
    ///
    /// # Errors
    /// [`ReconfigureError`] states whether the caller or the peer is the cause. Nothing has changed.
    pub fn add_streams(&mut self, now: Instant, outbound: u16, inbound: u16) -> Result<(), ReconfigureError> {
        self.may_reconfigure(&[], 0)?;
        let (outbound_before, inbound_before) = (self.streams.outbound, self.streams.inbound);
        let wishes = &mut self.reconfiguration().wishes;
        let sum =
            |before: u16, wished: u16, more: u16| before.checked_add(wished)?.checked_add(more).map(|_| wished + more);
        let outbound = sum(outbound_before, wishes.outbound, outbound).ok_or(ReconfigureError::TooManyStreams)?;
        let inbound = sum(inbound_before, wishes.inbound, inbound).ok_or(ReconfigureError::TooManyStreams)?;
        (wishes.outbound, wishes.inbound) = (outbound, inbound);
        self.advance_reconfiguration(now);
        Ok(())
    }

    fn may_reconfigure(&self, streams: &[StreamId], count: u16) -> Result<(), ReconfigureError> {
        if !matches!(self.state, State::Established) {
            return Err(ReconfigureError::NotEstablished);
        }
        if !self.peer.agreed.contains(Extensions::RE_CONFIG) {
            return Err(ReconfigureError::NotSupported);
        }
        match streams.iter().find(|stream| stream.0 >= count) {
            Some(&stream) => Err(ReconfigureError::NoSuchStream { stream, streams: count }),
            None => Ok(()),
        }
    }

    fn reconfiguration(&mut self) -> &mut Reconfiguration {
        let (first_tsn, peer_first_tsn) = (self.first_tsn.0, self.peer.first_tsn);
        let fresh = || Box::new(Reconfiguration::new(first_tsn, peer_first_tsn));
        self.control.reconfiguration.get_or_insert_with(fresh)
    }

    /// Starts the next request, if none is under way and nothing blocks it.
    #[inline]
    pub(super) fn advance_reconfiguration(&mut self, now: Instant) {
        if self.control.reconfiguration.is_some() && matches!(self.state, State::Established) {
            self.begin_next_request(now);
        }
    }

    #[cold]
    fn begin_next_request(&mut self, now: Instant) {
        let streams_max = self.context.config().limits.packet_bytes_max.saturating_sub(AROUND_STREAMS_BYTES) / 2;
        let Self { sender, paths, control, .. } = self;
        let Some(state) = control.reconfiguration.as_deref_mut().filter(|state| state.pending.is_none()) else {
            return;
        };
        if state.draining.is_none() {
            let Wishes { resets, .. } = &mut state.wishes;
            let drained = sender.flight.drained_resets(resets.all, &resets.streams, streams_max);
            state.draining = drained.map(|(streams, last_tsn)| {
                resets.all &= !streams.is_empty();
                streams.iter().for_each(|stream| {
                    resets.streams.remove(stream);
                });
                Draining { streams, last_tsn }
            });
        }
        let drained = state.draining.take_if(|draining| sender.flight.is_acknowledged(draining.last_tsn));
        let request = match drained {
            Some(Draining { streams, last_tsn }) => {
                let response = state.wishes.answers.take().unwrap_or(state.expected.wrapping_sub(1));
                Some(Request::Reset { streams, response, last_tsn: Tsn::wrap(last_tsn) })
            }
            None => state.next_at_once(streams_max),
        };
        if let Some(request) = request {
            state.begin(RetryTimer::start(now, paths.primary().sending.rto()), request);
            control.set(Due::RE_CONFIG);
        }
    }

    /// Writes the request under way, which is due.
    pub(super) fn write_reconfiguration(&mut self, now: Instant, path: PathId, packet: &mut PacketBuilder<'_>) {
        let pending = self.control.reconfiguration.as_ref().and_then(|state| state.pending.as_ref());
        match pending.filter(|_| matches!(self.state, State::Established)) {
            Some(pending) if pending.request.write(pending.number, packet) => self.paths.of_mut(path).asked(now),
            Some(_) => return,
            None => {}
        }
        self.control.unset(Due::RE_CONFIG);
    }

    /// When the pending request is retransmitted.
    pub(super) fn reconfiguration_deadline(&self) -> Option<Instant> {
        let pending = self.control.reconfiguration.as_ref()?.pending.as_ref()?;
        matches!(self.state, State::Established).then(|| pending.timer.deadline())
    }

    /// T-reconf expired (§5.1.1): retransmits the request and counts an error of the path.
    pub(super) fn handle_reconfiguration_timeout(&mut self, now: Instant) {
        if self.reconfiguration_deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        let pause_max = self.t2_pause_max();
        let id = self.paths.repairs();
        let control = &mut self.control;
        let pending = control.reconfiguration.as_mut().and_then(|state| state.pending.as_mut());
        if let Some(Pending { timer, .. }) = pending
            && timer.due(now) == Some(Repeat::Timeout)
        {
            timer.back_off(now, pause_max);
            control.set(Due::RE_CONFIG);
            if self.path_failed(now, id) {
                self.close(ClosedReason::PeerUnreachable);
            }
        }
    }

    /// The peer has answered a request of this side (§5.2.7).
    fn handle_re_config_response(&mut self, now: Instant, response: u32, result: ReConfigResult) {
        let rto = self.paths.primary().sending.rto();
        let busy_max = self.context.config().retries.association_max;
        let Some(state) = self.control.reconfiguration.as_deref_mut() else { return };
        let Some(mut pending) = state.pending.take_if(|pending| pending.number == response) else { return };
        self.paths.answered(now, self.paths.repairs(), &mut self.events);
        // The peer waits for an answer to a request of its own, which may be lost. It has counted this one, so the next has a number of its own.
        let is_busy = result == ReConfigResult::AlreadyInProgress && pending.busy < busy_max;
        if is_busy {
            pending.busy += 1;
            pending.number = state.take_number();
        }
        // Asked again later; that is no error (§5.2.7, H).
        if is_busy || result == ReConfigResult::InProgress {
            pending.timer = RetryTimer::start(now, rto);
            state.pending = Some(pending);
            return self.control.unset(Due::RE_CONFIG);
        }
        self.control.unset(Due::RE_CONFIG);
        self.settle_request(pending.request, result);
        self.advance_reconfiguration(now);
    }

    fn settle_request(&mut self, request: Request, result: ReConfigResult) {
        let is_done = result.is_success();
        if let Request::Reset { streams, .. } = &request {
            self.sender.flight.end_reset(streams, is_done);
        }
        if let (false, &Request::AddInbound(streams)) = (is_done, &request) {
            let promised = &mut self.reconfiguration().promised_streams;
            *promised = promised.saturating_sub(streams);
        }
        if !is_done {
            return self.events.push(Event::StreamRequestFailed { request: request.kind(), result });
        }
        match request {
            Request::Reset { streams, .. } => {
                self.events.push(Event::StreamsReset { direction: Direction::Outbound, streams });
            }
            // The peer's own request follows.
            Request::PeerReset { .. } | Request::AddInbound(_) => {}
            Request::AddOutbound(streams) => {
                self.streams.outbound = self.streams.outbound.saturating_add(streams);
                self.sender.flight.set_stream_count(self.streams.outbound);
                self.report_streams();
            }
        }
    }

    fn report_streams(&mut self) {
        let (outbound_streams, inbound_streams) = (self.streams.outbound, self.streams.inbound);
        self.events.push(Event::StreamsAdded { outbound_streams, inbound_streams });
    }

    fn reply_to_request(&mut self, response: u32, result: ReConfigResult) {
        self.control.reply_with(|| Reply::ReConfigResponse { response, result });
    }
}
