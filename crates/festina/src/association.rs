//! Association handles.

mod delivery;
mod inner;
mod one_stream;
mod secure;
mod stream;
mod waiters;

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use festina_sctp::Mechanisms;
use festina_sctp::recovery::redundancy::Redundancy;
use festina_sctp::{
    AbandonedStats, AssociationState, ClosedReason, ConfigError, Event, Message, MessageId, PathId, PathStats,
    PathStatus, Ports, ReceivedMessage, ReconfigureError, SendError, SendErrorKind, Stats, StreamId, StreamScheduler,
};

pub(crate) use self::delivery::Watch;
pub use self::delivery::{Delivery, Outcome};
pub(crate) use self::inner::{Inner, Source, Waiter};
pub use self::one_stream::{StreamHandle, StreamReader};
pub use self::stream::{MessageSink, Messages};
pub(crate) use self::waiters::Waiters;
use crate::config::Transport;
use crate::error::{TryRecvError, WrongScheduler};
use crate::recovery::Profile;

/// A connection with one peer that carries messages both ways.
///
/// Clones are cheap and refer to the same association. Dropping the last clone shuts the association down gracefully in the background: sent messages
/// are still delivered, and messages that arrive later are discarded. A peer that does not acknowledge cannot keep it alive: the limits of
/// [`shutdown`](Self::shutdown) apply.
///
/// Received messages wait in the association's receive buffer until the application takes them. If the application reads slowly and the buffer fills
/// up, the peer of this association stops sending; no other association is affected.
///
/// All methods may be called from any number of tasks at the same time. Methods that are not `async` never wait and also work outside a runtime.
pub struct Association {
    inner: Arc<Inner>,
}

/// Numbers of streams of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Streams {
    /// Number of streams to the peer.
    pub outbound: u16,
    /// Number of streams from the peer.
    pub inbound: u16,
}

impl Association {
    /// Returns a new handle of an association.
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        inner.handle_added();
        Self { inner }
    }

    /// Waits for the end of the handshake.
    pub(crate) async fn established(&self) -> Result<(), ClosedReason> {
        let mut waiter = Waiter::watcher(&*self.inner);
        poll_fn(|context| self.inner.poll_established(context, &mut waiter)).await
    }

    /// Sends a message, waiting while the send buffer is full. Returns as soon as the message is in the send buffer; in most cases it has been sent
    /// by then.
    ///
    /// If the future is dropped before it is ready, the message is not sent.
    ///
    /// # Errors
    /// Every [`SendError`] except `BufferFull`. Each returns the message.
    pub async fn send(&self, message: impl Into<Message>) -> Result<MessageId, SendError> {
        self.send_watching(message.into(), Watch::No).await
    }

    async fn send_watching(&self, message: Message, watch: Watch) -> Result<MessageId, SendError> {
        // Usually there is room, and the message need not be moved into a waiting future.
        match self.inner.try_send(message, watch) {
            Err(SendError { kind: SendErrorKind::BufferFull, message }) => self.send_waiting(message, watch).await,
            result => result,
        }
    }

    async fn send_waiting(&self, message: Message, watch: Watch) -> Result<MessageId, SendError> {
        let mut message = Some(message);
        let mut waiter = Waiter::writer(&*self.inner);
        poll_fn(|context| self.inner.poll_send(context, &mut waiter, &mut message, watch)).await
    }

    /// Sends a message as [`send`](Self::send) does, and returns a [`Delivery`] that reports its outcome.
    ///
    /// ```
    /// # use festina::{ClientConfig, DEFAULT_SCTP_PORT, Endpoint, ServerConfig};
    /// use festina::{Duration, Message, Outcome};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::plain()).await?;
    /// # let listener = server.listen(DEFAULT_SCTP_PORT)?;
    /// # let client = Endpoint::client("127.0.0.1:0".parse()?, ClientConfig::plain()).await?;
    /// # let association = client.connect(server.local_addr()).await?;
    /// # let _peer = listener.accept().await;
    /// // The position of player 7: useful for 100 ms, and useless once there is a newer one.
    /// let position = Message::new("x=3 y=4").with_lifetime(Duration::from_millis(100)).replacing(7).unordered();
    /// match association.send_confirmed(position).await?.await {
    ///     Outcome::Delivered { .. } => {}
    ///     Outcome::Abandoned { reason, sent } => println!("abandoned: {reason:?}, sent: {sent}"),
    ///     _ => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_confirmed(&self, message: impl Into<Message>) -> Result<Delivery, SendError> {
        let id = self.send_watching(message.into(), Watch::Yes).await?;
        Ok(Delivery::new(self.clone(), id))
    }

    /// Sends messages in this order, waiting while the send buffer is full. They share packets and system calls where possible, which costs far less
    /// than repeated calls of [`Association::send`]. Transmission starts when the send buffer contains all messages, is full, or has taken 256 of
    /// them.
    ///
    /// If the future is dropped before it is ready, messages not yet in the send buffer are not sent.
    ///
    /// # Errors
    /// Every [`SendError`] except `BufferFull`. Each returns the message that failed. Earlier messages are sent, later ones are dropped.
    pub async fn send_many(&self, messages: impl IntoIterator<Item = impl Into<Message>>) -> Result<(), SendError> {
        let (mut messages, mut taken) = (messages.into_iter().map(Into::into), VecDeque::new());
        let mut waiter = Waiter::writer(&*self.inner);
        poll_fn(|context| self.inner.poll_send_many(context, &mut waiter, &mut taken, &mut messages)).await
    }

    /// Sends messages in this order as [`send_many`](Self::send_many) does, but never waits. Sent messages are removed from the front of the queue.
    ///
    /// # Errors
    /// [`SendErrorKind::BufferFull`](crate::SendErrorKind::BufferFull) if there is no room for all of them now, and all others. The message that failed is then at the front of the queue;
    /// the error contains a copy of it.
    pub fn try_send_many(&self, messages: &mut VecDeque<Message>) -> Result<(), SendError> {
        self.send_queue(messages, |poll| match poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        })
    }

    /// Sends messages from the front of a queue. `drive` polls until it returns the result, or `None` to stop waiting for room.
    pub(crate) fn send_queue(
        &self,
        messages: &mut VecDeque<Message>,
        drive: impl FnOnce(&mut dyn FnMut(&mut Context<'_>) -> Poll<Result<(), SendError>>) -> Option<Result<(), SendError>>,
    ) -> Result<(), SendError> {
        let (mut taken, mut waiter) = (VecDeque::new(), Waiter::writer(&*self.inner));
        let mut rest = std::iter::from_fn(|| messages.pop_front());
        let result = drive(&mut |context| self.inner.poll_send_many(context, &mut waiter, &mut taken, &mut rest));
        let refused = match &result {
            Some(Err(error)) => Some(error.message.clone()),
            _ => None,
        };
        refused.into_iter().chain(taken).rev().for_each(|message| messages.push_front(message));
        match (result, messages.front()) {
            (Some(result), _) => result,
            (None, Some(message)) => Err(SendError::new(message.clone(), SendErrorKind::BufferFull)),
            (None, None) => Ok(()),
        }
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    /// [`SendErrorKind::BufferFull`](crate::SendErrorKind::BufferFull) if there is no room for it now, and all others. Each returns the message.
    pub fn try_send(&self, message: impl Into<Message>) -> Result<MessageId, SendError> {
        self.inner.try_send(message.into(), Watch::No)
    }

    /// Receives the next message, in the order of delivery, from all streams that have no [reader of their own](StreamHandle::read).
    ///
    /// If the peer loses its state and returns, the association continues with a new session: the first message with another value of
    /// [`restarts`](ReceivedMessage::restarts) is the first of the new session. With [`PeerRestart::End`](crate::PeerRestart::End) the association
    /// ends instead, after the last message of the old session.
    ///
    /// Returns `None` after the last message of an association that was shut down gracefully. Dropping the future before it is ready loses no
    /// message.
    ///
    /// # Errors
    /// The reason why the association has ended in another way, after the last message.
    pub async fn recv(&self) -> Result<Option<ReceivedMessage>, ClosedReason> {
        let mut waiter = Waiter::reader(&*self.inner);
        unless_shut_down(poll_fn(|context| self.inner.poll_recv(context, &mut waiter, Source::Others)).await)
    }

    /// Waits for a message and appends it to `messages`, together with all others that are available, at most `limit`. Returns their number,
    /// which is 0 only if `limit` is 0, and `None` after the last message of an association that was shut down gracefully.
    ///
    /// Dropping the future before it is ready loses no message.
    ///
    /// # Errors
    /// The reason why the association has ended in another way, after the last message.
    pub async fn recv_many(
        &self,
        messages: &mut Vec<ReceivedMessage>,
        limit: usize,
    ) -> Result<Option<usize>, ClosedReason> {
        let mut waiter = Waiter::reader(&*self.inner);
        let received = poll_fn(|context| self.inner.poll_recv_many(context, &mut waiter, messages, limit)).await;
        unless_shut_down(received)
    }

    /// Returns the next message if one is available, and `None` after the last message of an association that was shut down gracefully.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if there is none now; [`TryRecvError::Closed`] if the association ended in another way and the last message was taken.
    pub fn try_recv(&self) -> Result<Option<ReceivedMessage>, TryRecvError> {
        self.inner.try_recv(Source::Others)
    }

    /// Returns a handle of one stream, to send on it, reset it, or read it separately. Any number of handles may refer to the same stream.
    pub fn stream(&self, id: impl Into<StreamId>) -> StreamHandle {
        StreamHandle::new(self.clone(), id.into())
    }

    /// Returns the size of the largest message that can be sent, in bytes: the endpoint's
    /// [`Transport::with_message_bytes_max`](crate::Transport::with_message_bytes_max).
    pub fn message_bytes_max(&self) -> usize {
        self.inner.message_bytes_max()
    }

    /// Waits for the next event of the association. `None` after [`Event::Closed`] was returned.
    ///
    /// The events `Established`, `Readable`, `Writable` and `Drained` are not returned here, because other methods wait for them. Reading events is
    /// optional: only the latest [`EVENTS_QUEUED_MAX`](crate::EVENTS_QUEUED_MAX) unread ones are kept, and [`Association::events_missed`] counts the
    /// others.
    pub async fn event(&self) -> Option<Event> {
        let mut waiter = Waiter::watcher(&*self.inner);
        poll_fn(|context| self.inner.poll_event(context, &mut waiter)).await
    }

    /// Returns the next event if one is available. `None` does not mean that the association has ended; see [`close_reason`](Self::close_reason).
    pub fn try_event(&self) -> Option<Event> {
        self.inner.try_event()
    }

    /// Returns the number of events dropped because they were not read in time.
    pub fn events_missed(&self) -> u64 {
        self.inner.events_missed()
    }

    /// Waits until the peer has acknowledged all messages sent before, except those that are abandoned. Messages sent meanwhile do not count.
    ///
    /// # Errors
    /// The reason why the association ended before.
    pub async fn drained(&self) -> Result<(), ClosedReason> {
        let mut waiter = Waiter::watcher(&*self.inner);
        let draining = self.inner.drain();
        poll_fn(|context| draining.poll(context, &mut waiter)).await
    }

    /// Shuts the association down gracefully: refuses new messages, and waits until the peer has acknowledged all that were sent and has confirmed
    /// the shutdown (RFC 9260 §9.2). Messages of the peer can still be received meanwhile. If they exceed the receive buffer, the shutdown completes
    /// only if the application receives them.
    ///
    /// Dropping the future does not stop the shutdown. It ends regardless of the peer: an ABORT follows when the peer has acknowledged too little for
    /// [`Expert::with_shutdown_stall`](crate::Expert::with_shutdown_stall), 30 s by default, or, once everything is acknowledged, when
    /// [`Expert::with_shutdown_guard`](crate::Expert::with_shutdown_guard) has passed. A vanished peer is abandoned sooner if
    /// [`Transport::with_peer_timeout`](crate::Transport::with_peer_timeout) is shorter.
    ///
    /// # Errors
    /// The reason, if the association ended in another way. With [`ClosedReason::ShutdownTimeout`] a limit was reached, and unacknowledged messages
    /// may be lost.
    pub async fn shutdown(&self) -> Result<(), ClosedReason> {
        self.inner.shutdown();
        match self.closed().await {
            ClosedReason::Shutdown => Ok(()),
            reason => Err(reason),
        }
    }

    /// Waits until the association has ended in any way, and returns the reason.
    pub async fn closed(&self) -> ClosedReason {
        let mut waiter = Waiter::watcher(&*self.inner);
        poll_fn(|context| self.inner.poll_closed(context, &mut waiter)).await
    }

    /// Returns the reason why the association has ended, or `None` while it is open.
    pub fn close_reason(&self) -> Option<ClosedReason> {
        self.inner.close_reason()
    }

    /// Aborts the association and notifies the peer; unacknowledged messages may be lost (RFC 9260 §9.1).
    ///
    /// `reason` is sent to the peer, truncated to fit.
    pub fn abort(&self, reason: &str) {
        self.inner.abort(reason.as_bytes());
    }

    /// Returns a snapshot of counters and gauges.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Returns the gauges of each path, in the order of [`paths`](Self::paths).
    pub fn path_stats(&self) -> Vec<PathStats> {
        self.inner.path_stats()
    }

    /// Returns the state of each path to the peer, that of the handshake first. An association has one path unless both its endpoint and its peer have
    /// settings for several: [`Transport::with_paths_max`](crate::Transport::with_paths_max).
    pub fn paths(&self) -> Vec<PathStatus> {
        self.inner.paths()
    }

    /// Chooses the path that data is sent on while it answers (RFC 9260 §11.1.5), the one of the handshake by default. Returns `false`, without
    /// effect, unless there is such a path and its address is confirmed.
    pub fn set_primary_path(&self, path: PathId) -> bool {
        self.inner.set_primary(path)
    }

    /// Returns the counts of abandoned messages on one stream; [`Stats::abandoned`] has their sum (RFC 7496 §4.3, §4.4).
    pub fn abandoned_on(&self, stream: impl Into<StreamId>) -> AbandonedStats {
        self.inner.abandoned_on(stream.into())
    }

    /// Returns the number of payload bytes that are queued on one stream and not sent yet. Takes time for each queued message.
    pub fn queued_bytes_on(&self, stream: impl Into<StreamId>) -> usize {
        self.inner.queued_bytes_on(stream.into())
    }

    /// Sets the priority of a stream to the peer; 0, the default, is the highest.
    ///
    /// # Errors
    /// The endpoint does not use [`StreamScheduler::Priority`](crate::StreamScheduler::Priority).
    pub fn set_stream_priority(&self, stream: impl Into<StreamId>, priority: u16) -> Result<(), WrongScheduler> {
        self.inner.set_stream_value(StreamScheduler::Priority, stream.into(), priority)
    }

    /// Sets the weight of a stream to the peer, 1 by default.
    ///
    /// # Errors
    /// The endpoint does not use [`StreamScheduler::WeightedFairQueueing`](crate::StreamScheduler::WeightedFairQueueing).
    pub fn set_stream_weight(&self, stream: impl Into<StreamId>, weight: u16) -> Result<(), WrongScheduler> {
        self.inner.set_stream_value(StreamScheduler::WeightedFairQueueing, stream.into(), weight)
    }

    /// Resets streams to the peer: their sequence numbers restart at 0, as when data channels close (RFC 6525, RFC 8831 §6.7).
    /// [`Event::StreamsReset`] or [`Event::StreamRequestFailed`] reports the result. Messages sent earlier on them are delivered before the reset.
    /// Until the result is known, sending on them fails with [`SendErrorKind::StreamResetting`](crate::SendErrorKind::StreamResetting). An empty slice does nothing.
    ///
    /// # Errors
    /// [`ReconfigureError`] states whether the caller or the peer is the cause. Nothing has changed.
    pub fn reset_streams(&self, streams: &[StreamId]) -> Result<(), ReconfigureError> {
        if streams.is_empty() {
            return Ok(());
        }
        self.inner.reconfigure(|core, now| core.reset_streams(now, streams))
    }

    /// Resets all streams to the peer, as [`reset_streams`](Self::reset_streams) does for some.
    ///
    /// # Errors
    /// As [`reset_streams`](Self::reset_streams).
    pub fn reset_all_streams(&self) -> Result<(), ReconfigureError> {
        // In the core and in the protocol, an empty list means all streams.
        self.inner.reconfigure(|core, now| core.reset_streams(now, &[]))
    }

    /// Asks the peer to reset streams on which it sends. [`Event::StreamsReset`] reports the reset, and [`Event::StreamRequestFailed`] a refusal. An
    /// empty slice does nothing.
    ///
    /// # Errors
    /// [`ReconfigureError`] states whether the caller or the peer is the cause. Nothing has changed.
    pub fn request_reset(&self, streams: &[StreamId]) -> Result<(), ReconfigureError> {
        if streams.is_empty() {
            return Ok(());
        }
        self.inner.reconfigure(|core, now| core.request_reset(now, streams))
    }

    /// Asks the peer to reset all streams on which it sends, as [`request_reset`](Self::request_reset) does for some.
    ///
    /// # Errors
    /// As [`request_reset`](Self::request_reset).
    pub fn request_reset_all(&self) -> Result<(), ReconfigureError> {
        self.inner.reconfigure(|core, now| core.request_reset(now, &[]))
    }

    /// Requests additional streams to the peer and from it. [`Event::StreamsAdded`] reports the new numbers, and [`Event::StreamRequestFailed`] a
    /// refusal.
    ///
    /// # Errors
    /// [`ReconfigureError`] states whether the caller or the peer is the cause. Nothing has changed.
    pub fn add_streams(&self, outbound: u16, inbound: u16) -> Result<(), ReconfigureError> {
        self.inner.reconfigure(|core, now| core.add_streams(now, outbound, inbound))
    }

    /// Discards the unread messages of an inbound stream and all that arrive on it from now on, so that an unread stream does not fill the shared
    /// receive buffer. They are still acknowledged to the peer. This lasts until [`resume_stream`](Self::resume_stream), until the peer resets the
    /// stream (see [`request_reset`](Self::request_reset)), or until the peer restarts. Returns the number of unread messages discarded.
    pub fn discard_stream(&self, stream: impl Into<StreamId>) -> usize {
        self.inner.discard_stream(stream.into())
    }

    /// Receives messages again on a stream discarded by [`discard_stream`](Self::discard_stream) or
    /// [`Transport::with_stream_unread_bytes_max`](crate::Transport::with_stream_unread_bytes_max).
    pub fn resume_stream(&self, stream: impl Into<StreamId>) {
        self.inner.resume_stream(stream.into());
    }

    /// Returns the loss-recovery profile in use, or `None` if [`Expert::with_mechanisms`](crate::Expert::with_mechanisms) has set mechanisms that
    /// match none.
    pub fn profile(&self) -> Option<Profile> {
        Profile::of(self.inner.mechanisms())
    }

    /// Switches to the loss recovery of a profile, with its redundancy.
    pub fn set_profile(&self, profile: Profile) {
        self.inner.change_mechanisms(|_| profile.mechanisms());
    }

    /// Applies the loss recovery, timers, retry limits, peer timeout and delayed acknowledgement of `transport` to this association alone, from now on.
    /// The other settings of `transport` are fixed when an association begins, and are ignored. A timer that runs is not changed.
    ///
    /// # Errors
    /// A setting is out of range. Nothing has changed.
    pub fn set_timing(&self, transport: Transport) -> Result<(), ConfigError> {
        self.inner.set_timing(&transport.into_core())
    }

    /// Returns the redundancy in use.
    pub fn redundancy(&self) -> Redundancy {
        self.inner.mechanisms().redundancy
    }

    /// Changes the redundancy: copies of messages that are sent before any loss is detected.
    pub fn set_redundancy(&self, redundancy: Redundancy) {
        self.inner.change_mechanisms(|mechanisms| Mechanisms { redundancy, ..mechanisms });
    }

    /// Returns the association's number, unique within its endpoint; the field `association` in logs.
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// Returns the peer's address.
    #[doc(alias = "peer_addr")]
    pub fn remote_addr(&self) -> SocketAddr {
        self.inner.remote()
    }

    /// Returns the peer's IP addresses, each once: that of [`remote_addr`](Self::remote_addr) first, then at most 8 that the peer named in the
    /// handshake (RFC 9260 §5.1.2). Packets from all of them are accepted; only the first is known to be reachable. An encrypted association has
    /// one, which the handshake validates.
    pub fn peer_addresses(&self) -> Vec<IpAddr> {
        self.inner.peer_addresses()
    }

    /// Returns the SCTP ports of both sides.
    pub fn ports(&self) -> Ports {
        self.inner.ports()
    }

    /// Returns the state of the association.
    pub fn state(&self) -> AssociationState {
        self.inner.state()
    }

    /// Returns the numbers of streams: those agreed in the handshake and those added since.
    pub fn streams(&self) -> Streams {
        let (outbound, inbound) = self.inner.streams();
        Streams { outbound, inbound }
    }

    /// Returns the messages from the peer as a [`Stream`](futures_core::Stream) that ends with the association.
    pub fn messages(&self) -> Messages {
        Messages::new(self.clone())
    }

    /// Returns a [`Sink`](futures_sink::Sink) of messages to the peer.
    pub fn sink(&self) -> MessageSink {
        MessageSink::new(self.clone())
    }

    /// Returns both directions as a stream and a sink.
    pub fn into_stream_sink(self) -> (Messages, MessageSink) {
        (self.messages(), MessageSink::new(self))
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

/// Tells an orderly end from a failure.
fn unless_shut_down<T>(received: Result<T, ClosedReason>) -> Result<Option<T>, ClosedReason> {
    match received {
        Ok(value) => Ok(Some(value)),
        Err(ClosedReason::Shutdown) => Ok(None),
        Err(reason) => Err(reason),
    }
}

impl Clone for Association {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        self.inner.handle_dropped();
    }
}

impl fmt::Debug for Association {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Association")
            .field("id", &self.id())
            .field("remote", &self.remote_addr())
            .field("ports", &self.ports())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
