//! What happened inside an association, told to its owner through [`Association::poll_event`](crate::Association::poll_event).

use std::collections::VecDeque;

use bytes::Bytes;
use festina_units::{Duration, Instant};

use crate::error::ClosedReason;
use crate::message::MessageId;
use crate::wire::{ReConfigResult, StreamId};

/// Something that happened. Received messages do not come this way but through
/// [`Association::poll_message`](crate::Association::poll_message), so that a slow reader closes the window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete (COMMUNICATION UP, RFC 9260 §11.2.4).
    Established {
        /// Streams that may be sent on: the smaller of what both sides allow.
        outbound_streams: u16,
        /// Streams that the peer may send on.
        inbound_streams: u16,
    },
    /// The peer lost its state and made the association anew; messages not yet acknowledged have failed (RFC 9260 §11.2.7).
    PeerRestarted,
    /// At least one message waits for `poll_message`. Told once until they have all been taken.
    Readable,
    /// The send buffer, once full, has drained to the low-water mark.
    Writable,
    /// Everything sent so far has been acknowledged (SENDER DRY, RFC 6458 §6.1.11).
    Drained,
    /// The peer asked for an orderly end: it takes no more messages.
    PeerShutdown,
    /// The association is over. Nothing follows.
    Closed(ClosedReason),
    /// The path stopped answering (`true`: it answers again) (NETWORK STATUS CHANGE, RFC 9260 §11.2.3).
    PathReachable(bool),
    /// The system refused a packet as too large for the path, so that later ones are smaller.
    PacketSizeLimited {
        /// The largest SCTP packet from now on, in bytes.
        packet_bytes_max: usize,
    },
    /// The peer reported an error that does not end the association.
    PeerError {
        /// The cause code of RFC 9260 §3.3.10.
        code: u16,
        /// The bytes of a cause that holds a text (12, 13) or that is unknown, at most 64 of them; empty for the others.
        info: Bytes,
    },
    /// The first chunk of a message left for the first time. Only with `message_events`.
    MessageSent {
        /// Which message.
        id: MessageId,
        /// When.
        at: Instant,
    },
    /// Every chunk of a message has been acknowledged: it reached the peer. Only with `message_events`, or if the message asks for it.
    MessageDelivered {
        /// Which message.
        id: MessageId,
        /// When the acknowledgement came.
        at: Instant,
    },
    /// These messages will not be delivered. Always reported; messages with consecutive identities share an event, so that the end of an
    /// association with a full send buffer costs one or two.
    MessagesAbandoned {
        /// The first message.
        first: MessageId,
        /// The last one, which may be the first; all between them are abandoned, too.
        last: MessageId,
        /// Why.
        reason: AbandonReason,
        /// Some of them has left: the peer may have received it. Otherwise nothing of it ever leaves.
        sent: bool,
    },
    /// Streams have begun anew at sequence number 0 (RFC 6525 §5). Outbound ones take messages again. Messages that came before on inbound
    /// ones may still wait for `poll_message`.
    StreamsReset {
        /// Whose messages.
        direction: Direction,
        /// The streams; none stand for all.
        streams: Box<[StreamId]>,
    },
    /// More of a stream waits unread than `Limits::stream_unread_bytes_max` allows: messages that follow those already received on it are dropped,
    /// until the application [resumes](crate::Association::resume_stream) the stream or the peer resets it.
    StreamDiscarded {
        /// The inbound stream.
        stream: StreamId,
    },
    /// Streams were added (RFC 6525 §5).
    StreamsAdded {
        /// Streams that may be sent on now.
        outbound_streams: u16,
        /// Streams that the peer may send on now.
        inbound_streams: u16,
    },
    /// The peer refused a request, or did not answer it. Outbound streams take messages again, with their previous numbering.
    StreamRequestFailed {
        /// The request.
        request: StreamRequest,
        /// The peer's result code.
        result: ReConfigResult,
    },
    /// A chunk was sent again. Only with `message_events`.
    Retransmitted {
        /// The message that the chunk belongs to.
        id: MessageId,
        /// Its TSN as on the wire.
        tsn: u32,
        /// Why.
        cause: RetransmissionCause,
        /// When.
        at: Instant,
    },
    /// A round-trip time was measured, by DATA, the handshake or a HEARTBEAT. Only with `message_events`.
    RoundTripMeasured {
        /// When the acknowledgement came.
        at: Instant,
        /// The new sample.
        rtt: Duration,
        /// SRTT, this sample included.
        srtt: Duration,
        /// The retransmission timeout that follows from it, by the rules that hold now (RFC 9260 §6.3.1).
        rto: Duration,
    },
}

/// One of the two directions of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From this side to the peer.
    Outbound,
    /// From the peer to this side.
    Inbound,
}

/// A request of this side about streams (RFC 6525).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamRequest {
    /// Reset these streams; an empty list means all.
    Reset(Direction, Box<[StreamId]>),
    /// Add this many streams.
    Add(Direction, u16),
}

/// Why a message was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbandonReason {
    /// Its lifetime ended.
    Expired,
    /// It would have to be retransmitted more often than its limit allows.
    RetransmissionsExhausted,
    /// The send buffer was full, and a message of higher priority came.
    Evicted,
    /// A newer message with the same key took its place.
    Replaced,
    /// The association ended or restarted first, with nothing of it on the way.
    UnsentAtEnd,
    /// The association ended or restarted first; the peer may have received it.
    UnacknowledgedAtEnd,
    /// The handshake allowed fewer streams than the message's.
    StreamRefused,
}

/// What made the sender send a chunk again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetransmissionCause {
    /// T3-rtx expired for this chunk: it was the earliest, or last left at least one RTO ago and was not reported missing, or it was
    /// taken for lost by that timeout and left in a packet of its own.
    Timeout,
    /// Reported missing often enough.
    Fast,
    /// Reported missing, but not often enough, when there was room in a packet that left anyway ("reported lost and bundled",
    /// Pedersen et al. 2006 §3.3).
    ReportedBundled,
    /// Uncalled for: there was room in a packet that left anyway ("unsolicited bundling", Pedersen et al. 2006 §3.3).
    Bundled,
    /// A probe ahead of the timeout.
    Probe,
    /// Uncalled for, in a packet of its own: redundancy that the application asked for.
    Copy,
}

impl RetransmissionCause {
    /// Returns the cause of a chunk with `miss_indications` that is bundled into a packet sent anyway.
    pub(crate) fn bundled(miss_indications: u8) -> Self {
        if miss_indications > 0 { Self::ReportedBundled } else { Self::Bundled }
    }

    /// Returns whether something speaks for a loss: a report, a timer or a probe.
    pub(crate) fn is_called_for(self) -> bool {
        matches!(self, Self::Timeout | Self::Fast | Self::Probe)
    }

    /// Whether the chunk rode along in a packet that left anyway.
    pub fn is_bundled(self) -> bool {
        matches!(self, Self::ReportedBundled | Self::Bundled)
    }
}

/// Errors reported by the peer that may wait at once; more are not told, so that a peer cannot fill the memory of an application
/// that does not ask for events.
const PEER_ERRORS_MAX: u8 = 16;

/// Changes of streams that the peer asked for and that may wait at once; it is asked to wait with more.
const CHANGES_MAX: u8 = 16;

/// Events for which memory is kept while none waits: what a thin stream needs.
const EVENTS_KEPT: usize = 4;

/// The events that wait to be polled.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    message_events: bool,
    /// How many of the events are [`Event::PeerError`].
    peer_errors: u8,
    /// Lower bound of the number of queued changes that the peer asked for.
    changes: u8,
}

impl Events {
    pub(crate) fn new(message_events: bool) -> Self {
        Self { queue: VecDeque::new(), message_events, peer_errors: 0, changes: 0 }
    }

    /// Queues an event that is always told.
    pub(crate) fn push(&mut self, event: Event) {
        self.queue.push_back(event);
    }

    /// Queues an error that the peer reported, unless too many wait.
    pub(crate) fn push_peer_error(&mut self, code: u16, info: impl FnOnce() -> Bytes) {
        if self.peer_errors < PEER_ERRORS_MAX {
            self.peer_errors += 1;
            self.queue.push_back(Event::PeerError { code, info: info() });
        }
    }

    /// Returns whether there is room for another change that the peer asks for.
    pub(crate) fn takes_changes(&self) -> bool {
        self.changes < CHANGES_MAX
    }

    /// Queues a change that the peer asked for.
    pub(crate) fn push_change(&mut self, event: Event) {
        self.changes = self.changes.saturating_add(1);
        self.queue.push_back(event);
    }

    /// Reports that a message was given up, together with the one before it if that was reported just now for the same reason.
    pub(crate) fn push_abandoned(&mut self, id: MessageId, reason: AbandonReason, sent: bool) {
        if let Some(Event::MessagesAbandoned { last, reason: before, sent: was_sent, .. }) = self.queue.back_mut()
            && *before == reason
            && *was_sent == sent
            && last.0.checked_add(1) == Some(id.0)
        {
            *last = id;
        } else {
            self.queue.push_back(Event::MessagesAbandoned { first: id, last: id, reason, sent });
        }
    }

    /// Queues an event of a message's way, if the owner asked for those.
    #[inline]
    pub(crate) fn push_message_event(&mut self, event: impl FnOnce() -> Event) {
        if self.message_events {
            self.queue.push_back(event());
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        // Drivers ask after each packet.
        if self.queue.is_empty() { None } else { self.pop_first() }
    }

    fn pop_first(&mut self) -> Option<Event> {
        let event = self.queue.pop_front();
        self.peer_errors -= u8::from(matches!(event, Some(Event::PeerError { .. })));
        if matches!(event, Some(Event::StreamsReset { .. } | Event::StreamsAdded { .. })) {
            self.changes = self.changes.saturating_sub(1);
        }
        if self.queue.is_empty() && self.queue.capacity() > EVENTS_KEPT {
            self.queue = VecDeque::new();
        }
        event
    }

    /// The association is idle: gives back even what a thin stream needs.
    pub(crate) fn give_back_memory(&mut self) {
        self.queue.shrink_to_fit();
    }
}
