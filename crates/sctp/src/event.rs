//! Events of an association, returned by [`Association::poll_event`](crate::Association::poll_event).

use core::net::SocketAddr;
use std::collections::VecDeque;

use bytes::Bytes;
use festina_units::{Duration, Instant};

use crate::error::ClosedReason;
use crate::message::MessageId;
use crate::path_id::PathId;
use crate::wire::{ReConfigResult, StreamId};

/// An event of an association. Received messages are not events but come from [`Association::poll_message`](crate::Association::poll_message), so
/// that a slow reader closes the window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete (COMMUNICATION UP, RFC 9260 §11.2.4).
    Established {
        /// Number of streams to the peer: the smaller of both sides' limits.
        outbound_streams: u16,
        /// Number of streams from the peer.
        inbound_streams: u16,
    },
    /// The peer lost its state and restarted the association; unacknowledged messages have failed (RFC 9260 §11.2.7).
    PeerRestarted,
    /// At least one message waits for `poll_message`. Reported again only after all are taken.
    Readable,
    /// The send buffer was full and has drained to the low-water mark.
    Writable,
    /// Everything sent so far has been acknowledged or abandoned (SENDER DRY, RFC 6458 §6.1.11).
    Drained,
    /// The peer has started a graceful shutdown and accepts no more messages.
    PeerShutdown,
    /// The association has ended. No event follows.
    Closed(ClosedReason),
    /// A path stopped answering or answers again (NETWORK STATUS CHANGE, RFC 9260 §11.2.3).
    PathReachable {
        /// The path.
        path: PathId,
        /// Whether it answers.
        reachable: bool,
    },
    /// One of several paths may have failed, so others carry its data, or it has answered since (POTENTIALLY FAILED, RFC 7829 §5).
    #[non_exhaustive]
    PathSuspected {
        /// The path.
        path: PathId,
        /// Whether it may have failed.
        suspected: bool,
    },
    /// An address that the peer has named answered a heartbeat, so it is the peer's and its path may carry data (RFC 9260 §5.4).
    PathConfirmed {
        /// The path.
        path: PathId,
        /// Its destination.
        remote: SocketAddr,
    },
    /// The peer of an encrypted association was found at another address, which it has proved. Packets are sent there from now on.
    PeerMoved {
        /// The path that now leads there.
        path: PathId,
        /// The new address.
        remote: SocketAddr,
    },
    /// Packets become smaller: the system refused one as too large, or probes show that the path carries no large ones any more.
    #[non_exhaustive]
    PacketSizeLimited {
        /// The path.
        path: PathId,
        /// The new maximum size of SCTP packets in bytes.
        packet_bytes_max: usize,
    },
    /// The peer reported an error that does not end the association.
    PeerError {
        /// The cause code of RFC 9260 §3.3.10.
        code: u16,
        /// The bytes of a cause with a text (12, 13) or of an unknown cause, at most 64 of them; empty for others.
        info: Bytes,
    },
    /// Every chunk of a message was acknowledged: it reached the peer. Only with `message_events`, or if the message requests it.
    #[non_exhaustive]
    MessageDelivered {
        /// The message.
        id: MessageId,
        /// When the acknowledgement arrived.
        at: Instant,
    },
    /// These messages will not be delivered. Always reported. Messages with consecutive identities share an event, so that the end of an association
    /// with a full send buffer costs one or two events.
    #[non_exhaustive]
    MessagesAbandoned {
        /// The first message.
        first: MessageId,
        /// The last one, possibly the same; all between them are abandoned too.
        last: MessageId,
        /// The reason.
        reason: AbandonReason,
        /// Whether part of them was sent, so that the peer may have received it. Otherwise no part will ever be sent.
        sent: bool,
    },
    /// Streams were reset to sequence number 0 (RFC 6525 §5). Outbound ones take messages again. Messages received earlier on inbound ones may still
    /// wait for `poll_message`.
    StreamsReset {
        /// Direction of the streams.
        direction: Direction,
        /// The streams; an empty list means all.
        streams: Box<[StreamId]>,
    },
    /// A stream has reached `Limits::stream_unread_bytes_max`. Messages after those already received on it are discarded until the application
    /// [resumes](crate::Association::resume_stream) the stream or the peer resets it.
    StreamDiscarded {
        /// The inbound stream.
        stream: StreamId,
    },
    /// Streams were added (RFC 6525 §5).
    StreamsAdded {
        /// New number of streams to the peer.
        outbound_streams: u16,
        /// New number of streams from the peer.
        inbound_streams: u16,
    },
    /// The peer refused a request, or did not answer it. Outbound streams take messages again, with their previous numbering.
    StreamRequestFailed {
        /// The request.
        request: StreamRequest,
        /// The peer's result code.
        result: ReConfigResult,
    },
    /// An observation for measurements. Only with `message_events`.
    Protocol(ProtocolEvent),
}

/// An observation of the protocol at work, for measurements. Only with `message_events`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolEvent {
    /// The first chunk of a message was sent for the first time.
    #[non_exhaustive]
    MessageSent {
        /// The message.
        id: MessageId,
        /// When it was sent.
        at: Instant,
    },
    /// A chunk was retransmitted.
    #[non_exhaustive]
    Retransmitted {
        /// The chunk's message.
        id: MessageId,
        /// Its TSN as on the wire.
        tsn: u32,
        /// The cause.
        cause: RetransmissionCause,
        /// The path on which it was sent.
        path: PathId,
        /// When it was sent.
        at: Instant,
    },
    /// DATA, the handshake or a HEARTBEAT gave an RTT sample.
    #[non_exhaustive]
    RoundTripMeasured {
        /// The path.
        path: PathId,
        /// When the acknowledgement arrived.
        at: Instant,
        /// The new sample.
        rtt: Duration,
        /// SRTT, including this sample.
        srtt: Duration,
        /// The resulting retransmission timeout, by the rules now in force (RFC 9260 §6.3.1).
        rto: Duration,
    },
}

/// A direction of an association.
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

/// Why a message was abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbandonReason {
    /// Its lifetime has ended.
    Expired,
    /// It would exceed its maximum number of retransmissions.
    RetransmissionsExhausted,
    /// The send buffer was full, and a message of higher priority needed the room.
    Evicted,
    /// A newer message with the same key replaced it.
    Replaced,
    /// The association ended or restarted before any part of it was in flight.
    UnsentAtEnd,
    /// The association ended or restarted; the peer may have received it.
    UnacknowledgedAtEnd,
    /// The handshake agreed on too few streams for it.
    StreamRefused,
}

/// Why the sender retransmitted a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetransmissionCause {
    /// T3-rtx expired for this chunk. It was the earliest one; or it was last sent at least one RTO ago and not reported missing; or it was marked as
    /// lost by that timeout and sent in a packet of its own.
    Timeout,
    /// Reported missing often enough for fast retransmit.
    Fast,
    /// Reported missing, but not often enough; bundled into a packet that was sent anyway ("reported lost and bundled", Pedersen et al. 2006 §3.3).
    ReportedBundled,
    /// Proactive: bundled into a packet that was sent anyway ("unsolicited bundling", Pedersen et al. 2006 §3.3).
    Bundled,
    /// A probe ahead of the timeout.
    Probe,
    /// Proactive, in a packet of its own: redundancy requested by the application.
    Copy,
}

impl RetransmissionCause {
    /// Returns the cause of a chunk with `miss_indications` that is bundled into a packet sent anyway.
    pub(crate) fn bundled(miss_indications: u8) -> Self {
        if miss_indications > 0 { Self::ReportedBundled } else { Self::Bundled }
    }

    /// Returns whether a report, a timer or a probe indicated a loss.
    pub(crate) fn is_called_for(self) -> bool {
        matches!(self, Self::Timeout | Self::Fast | Self::Probe)
    }

    /// Returns whether the chunk was bundled into a packet that was sent anyway.
    pub fn is_bundled(self) -> bool {
        matches!(self, Self::ReportedBundled | Self::Bundled)
    }
}

/// Maximum number of queued errors reported by the peer. Further ones are dropped, so that a peer cannot fill the memory of an application that does
/// not poll events.
const PEER_ERRORS_MAX: u8 = 16;

/// Maximum number of queued stream changes requested by the peer. Beyond it the peer is asked to wait.
const CHANGES_MAX: u8 = 16;

/// Events for which memory is kept while the queue is empty: enough for a thin stream.
const EVENTS_KEPT: usize = 4;

/// The queued events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    message_events: bool,
    /// Number of queued [`Event::PeerError`]s.
    peer_errors: u8,
    /// Lower bound of the number of queued changes that the peer asked for.
    changes: u8,
}

impl Events {
    pub(crate) fn new(message_events: bool) -> Self {
        Self { queue: VecDeque::new(), message_events, peer_errors: 0, changes: 0 }
    }

    /// Queues an event that is always reported.
    pub(crate) fn push(&mut self, event: Event) {
        debug_assert!(!matches!(self.queue.back(), Some(Event::Closed(_))), "{event:?} after the end");
        self.queue.push_back(event);
    }

    /// Queues an error reported by the peer, unless too many are queued.
    pub(crate) fn push_peer_error(&mut self, code: u16, info: impl FnOnce() -> Bytes) {
        if self.peer_errors < PEER_ERRORS_MAX {
            self.peer_errors += 1;
            self.push(Event::PeerError { code, info: info() });
        }
    }

    /// Returns whether there is room for another change requested by the peer.
    pub(crate) fn takes_changes(&self) -> bool {
        self.changes < CHANGES_MAX
    }

    /// Queues a change requested by the peer.
    pub(crate) fn push_change(&mut self, event: Event) {
        self.changes = self.changes.saturating_add(1);
        self.push(event);
    }

    /// Reports an abandoned message, in the same event as the one before it if that was just reported for the same reason.
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

    /// Queues a message's progress event, if the owner has enabled them.
    #[inline]
    pub(crate) fn push_message_event(&mut self, event: impl FnOnce() -> Event) {
        if self.message_events {
            self.queue.push_back(event());
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        // Fast path: drivers poll after each packet.
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

    /// The association is idle: frees all memory of the queue.
    pub(crate) fn give_back_memory(&mut self) {
        self.queue.shrink_to_fit();
    }
}
