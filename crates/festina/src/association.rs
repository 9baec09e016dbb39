//! An association as applications hold it.

mod delivery;
mod inner;
mod one_stream;
mod secure;
mod stream;
mod waiters;

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use festina_sctp::{
    AbandonedStats, AssociationState, ClosedReason, Event, Mechanisms, Message, MessageId, Ports, Profile,
    ReceivedMessage, ReconfigureError, SendError, Stats, StreamId, StreamScheduler,
};

pub(crate) use self::delivery::Watch;
pub use self::delivery::{Delivery, Outcome};
pub(crate) use self::inner::{Core, Inner, Secure, Source, Waiter};
pub use self::one_stream::{Stream, StreamReader};
pub use self::stream::{MessageSink, Messages};
pub(crate) use self::waiters::Waiters;
use crate::error::TryRecvError;

/// A connection with one peer that carries messages both ways.
///
/// Clones are cheap and name the same association. Dropping the last one ends it in the background and in good order:
/// what was sent is still delivered, what arrives later is thrown away. A peer that does not take what was sent cannot keep it alive:
/// the limits are those of [`shutdown`](Self::shutdown).
///
/// Received messages wait in the association's receive buffer until they are taken. A slow reader fills that buffer, and the
/// peer of this one association then stops sending; no other association is held up.
///
/// Every method may be called from any number of tasks at the same time. Methods that are not `async` never wait and work
/// outside of a runtime too.
pub struct Association {
    inner: Arc<Inner>,
}

/// How many streams an association has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Streams {
    /// Those to the peer.
    pub outbound: u16,
    /// Those from the peer.
    pub inbound: u16,
}

impl Association {
    /// A new handle of an association.
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        inner.handle_added();
        Self { inner }
    }

    /// Waits until the handshake is over.
    pub(crate) async fn established(&self) -> Result<(), ClosedReason> {
        let mut waiter = Waiter::watcher(&*self.inner);
        poll_fn(|context| self.inner.poll_established(context, &mut waiter)).await
    }

    /// Sends a message, first waiting while the send buffer is full. Returns as soon as the message is in the send buffer;
    /// mostly it has left for the network by then.
    ///
    /// Dropping the future before it is ready has no effect: the message was not sent.
    ///
    /// # Errors
    /// Every [`SendError`] but `BufferFull`; each hands the message back.
    pub async fn send(&self, message: impl Into<Message>) -> Result<MessageId, SendError> {
        self.send_watching(message.into(), Watch::No).await
    }

    async fn send_watching(&self, message: Message, watch: Watch) -> Result<MessageId, SendError> {
        // Mostly there is room, and the message need not be moved to where it would wait.
        match self.inner.try_send(message, watch) {
            Err(SendError::BufferFull(message)) => self.send_waiting(message, watch).await,
            result => result,
        }
    }

    async fn send_waiting(&self, message: Message, watch: Watch) -> Result<MessageId, SendError> {
        let mut message = Some(message);
        let mut waiter = Waiter::writer(&*self.inner);
        poll_fn(|context| self.inner.poll_send(context, &mut waiter, &mut message, watch)).await
    }

    /// Sends a message as [`send`](Self::send) does, and lets the caller wait for what becomes of it.
    ///
    /// ```
    /// # use festina::{Config, DEFAULT_SCTP_PORT, Endpoint};
    /// use festina::{Duration, Message, Outcome};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = Endpoint::bind("127.0.0.1:0".parse()?, Config::default()).await?;
    /// # let listener = server.listen(DEFAULT_SCTP_PORT)?;
    /// # let client = Endpoint::bind("127.0.0.1:0".parse()?, Config::default()).await?;
    /// # let association = client.connect(server.local_addr()).await?;
    /// # let _peer = listener.accept().await;
    /// // The position of player 7: worth 100 ms, and nothing once there is a newer one.
    /// let position = Message::new("x=3 y=4").with_lifetime(Duration::from_millis(100)).replacing(7).unordered();
    /// match association.send_confirmed(position).await?.await {
    ///     Outcome::Delivered { .. } => {}
    ///     Outcome::Abandoned { reason, sent } => println!("given up: {reason:?}, sent: {sent}"),
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

    /// Sends messages in this order, waiting while the send buffer is full. They share packets and system calls as far as they fit together,
    /// which costs far less than as many calls of [`Association::send`]. Nothing leaves before the last of them is in the send buffer or the
    /// buffer is full, at most 256 messages later.
    ///
    /// Dropping the future before it is ready keeps those from being sent that are not in the send buffer yet.
    ///
    /// # Errors
    /// Every [`SendError`] but `BufferFull`; each hands back the message at which sending ended. Those before it are sent, those after it are
    /// dropped.
    pub async fn send_many(&self, messages: impl IntoIterator<Item = impl Into<Message>>) -> Result<(), SendError> {
        let (mut messages, mut taken) = (messages.into_iter().map(Into::into), VecDeque::new());
        let mut waiter = Waiter::writer(&*self.inner);
        poll_fn(|context| self.inner.poll_send_many(context, &mut waiter, &mut taken, &mut messages)).await
    }

    /// Sends messages in this order, as [`send_many`](Self::send_many) does, but never waits. Those that are sent are removed from the front of
    /// the queue.
    ///
    /// # Errors
    /// [`SendError::BufferFull`] if there is no room for all of them now, and all others. The message at which sending ended is then at the front
    /// of the queue; the error has a copy of it.
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
            Some(Err(error)) => Some(error.clone().into_message()),
            _ => None,
        };
        refused.into_iter().chain(taken).rev().for_each(|message| messages.push_front(message));
        match (result, messages.front()) {
            (Some(result), _) => result,
            (None, Some(message)) => Err(SendError::BufferFull(message.clone())),
            (None, None) => Ok(()),
        }
    }

    /// Sends a message now or not at all.
    ///
    /// # Errors
    /// [`SendError::BufferFull`] if there is no room for it now, and all others; each hands the message back.
    pub fn try_send(&self, message: impl Into<Message>) -> Result<MessageId, SendError> {
        self.inner.try_send(message.into(), Watch::No)
    }

    /// The next message from the peer, in the order of delivery, of all streams that are not [read by themselves](Stream::read).
    ///
    /// A peer that loses its state and comes back continues the association as a new session: the first message with another
    /// [`restarts`](ReceivedMessage::restarts) is its first one. With [`PeerRestart::End`](crate::PeerRestart::End) it ends the association
    /// instead, after the last message of the old session.
    ///
    /// Dropping the future before it is ready loses no message.
    ///
    /// # Errors
    /// Why the association ended, after the last message.
    pub async fn recv(&self) -> Result<ReceivedMessage, ClosedReason> {
        let mut waiter = Waiter::reader(&*self.inner);
        poll_fn(|context| self.inner.poll_recv(context, &mut waiter, Source::Others)).await
    }

    /// Waits for a message and appends it to `messages`, with as many as have come by then, `limit` at most. Returns how many; 0 only if
    /// `limit` is 0.
    ///
    /// Dropping the future before it is ready loses no message.
    ///
    /// # Errors
    /// Why the association ended, after the last message.
    pub async fn recv_many(&self, messages: &mut Vec<ReceivedMessage>, limit: usize) -> Result<usize, ClosedReason> {
        let mut waiter = Waiter::reader(&*self.inner);
        poll_fn(|context| self.inner.poll_recv_many(context, &mut waiter, messages, limit)).await
    }

    /// The next message from the peer if one is there.
    ///
    /// # Errors
    /// There is none now, or the association has ended and the last one was taken.
    pub fn try_recv(&self) -> Result<ReceivedMessage, TryRecvError> {
        self.inner.try_recv(Source::Others)
    }

    /// A handle of one stream: to send on it, to reset it, or to read it by itself. Any number of handles may name the same stream.
    pub fn stream(&self, id: impl Into<StreamId>) -> Stream {
        Stream::new(self.clone(), id.into())
    }

    /// Returns the size of the largest message that can be sent, in bytes: the endpoint's
    /// [`Config::with_message_bytes_max`](crate::Config::with_message_bytes_max).
    pub fn message_bytes_max(&self) -> usize {
        self.inner.message_bytes_max()
    }

    /// The next event of the association's life; `None` after [`Event::Closed`] was told.
    ///
    /// What other methods wait for is not told here: `Established`, `Readable`, `Writable` and `Drained`. Nobody has to
    /// call this: of events that are not taken, only the latest [`EVENTS_QUEUED_MAX`](crate::EVENTS_QUEUED_MAX) are kept.
    /// [`Association::events_missed`] counts the others.
    pub async fn event(&self) -> Option<Event> {
        let mut waiter = Waiter::watcher(&*self.inner);
        poll_fn(|context| self.inner.poll_event(context, &mut waiter)).await
    }

    /// The next event if one is there. `None` does not say whether the association is over; [`close_reason`](Self::close_reason) does.
    pub fn try_event(&self) -> Option<Event> {
        self.inner.try_event()
    }

    /// Events that were dropped because nobody took them in time.
    pub fn events_missed(&self) -> u64 {
        self.inner.events_missed()
    }

    /// Waits until the peer has acknowledged everything sent so far.
    ///
    /// # Errors
    /// Why the association ended before.
    pub async fn drained(&self) -> Result<(), ClosedReason> {
        let mut waiter = Waiter::watcher(&*self.inner);
        poll_fn(|context| self.inner.poll_drained(context, &mut waiter)).await
    }

    /// Ends the association in good order: takes no more messages, waits until the peer has acknowledged all that were sent
    /// and agreed to the end (RFC 9260 §9.2). Messages of the peer can still be received meanwhile, and have to be if it has
    /// more to say than the receive buffer holds.
    ///
    /// The end goes on when the future is dropped. It comes whatever the peer does: at the latest when the peer has acknowledged too
    /// little for [`Config::with_shutdown_stall`](crate::Config::with_shutdown_stall), 30 s by default, or, once all is acknowledged, at the end of
    /// [`Config::with_shutdown_guard`](crate::Config::with_shutdown_guard). A peer that has vanished is given up sooner if
    /// [`Config::with_peer_timeout`](crate::Config::with_peer_timeout) is shorter.
    ///
    /// # Errors
    /// Why it ended otherwise: [`ClosedReason::ShutdownTimeout`] if a limit was reached, and what was not acknowledged may be lost.
    pub async fn shutdown(&self) -> Result<(), ClosedReason> {
        self.inner.shutdown();
        match self.closed().await {
            ClosedReason::Shutdown => Ok(()),
            reason => Err(reason),
        }
    }

    /// Waits until the association is over, however it comes about; the reason.
    pub async fn closed(&self) -> ClosedReason {
        let mut waiter = Waiter::watcher(&*self.inner);
        poll_fn(|context| self.inner.poll_closed(context, &mut waiter)).await
    }

    /// Why the association is over, if it is.
    pub fn close_reason(&self) -> Option<ClosedReason> {
        self.inner.close_reason()
    }

    /// Ends the association at once and tells the peer so; what was not acknowledged may be lost (RFC 9260 §9.1).
    ///
    /// `reason` goes to the peer, as far as it fits.
    pub fn abort(&self, reason: &str) {
        self.inner.abort(reason.as_bytes());
    }

    /// A snapshot of counters and gauges.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// What partial reliability gave up of the messages on one stream; [`Stats::abandoned`] is the sum (RFC 7496 §4.3, §4.4).
    pub fn abandoned_on(&self, stream: impl Into<StreamId>) -> AbandonedStats {
        self.inner.abandoned_on(stream.into())
    }

    /// Sets the priority of a stream to the peer, where 0, the default, is the highest. It has an effect with
    /// [`StreamScheduler::Priority`](crate::StreamScheduler::Priority) only.
    pub fn set_stream_priority(&self, stream: impl Into<StreamId>, priority: u16) {
        self.inner.set_stream_value(StreamScheduler::Priority, stream.into(), priority);
    }

    /// Sets the weight of a stream to the peer, 1 by default. It has an effect with
    /// [`StreamScheduler::WeightedFairQueueing`](crate::StreamScheduler::WeightedFairQueueing) only.
    pub fn set_stream_weight(&self, stream: impl Into<StreamId>, weight: u16) {
        self.inner.set_stream_value(StreamScheduler::WeightedFairQueueing, stream.into(), weight);
    }

    /// Resets streams to the peer: their sequence numbers restart at 0, as when data channels close (RFC 6525, RFC 8831 §6.7).
    /// [`Event::StreamsReset`] or [`Event::StreamRequestFailed`] reports the result. Messages sent on them before arrive before; until then they
    /// take no messages ([`SendError::StreamResetting`]). Without streams nothing is done.
    ///
    /// # Errors
    /// Says whose fault it is. Nothing changes then.
    pub fn reset_streams(&self, streams: &[StreamId]) -> Result<(), ReconfigureError> {
        if streams.is_empty() {
            return Ok(());
        }
        self.inner.reconfigure(|core, now| core.reset_streams(now, streams))
    }

    /// Resets all streams to the peer, as [`reset_streams`](Self::reset_streams) does with some.
    ///
    /// # Errors
    /// As [`reset_streams`](Self::reset_streams).
    pub fn reset_all_streams(&self) -> Result<(), ReconfigureError> {
        // The core takes no streams for all of them, as the protocol does.
        self.inner.reconfigure(|core, now| core.reset_streams(now, &[]))
    }

    /// Asks the peer to reset streams on which it sends. [`Event::StreamsReset`] reports that it has, and [`Event::StreamRequestFailed`] that it
    /// will not. Without streams nothing is done.
    ///
    /// # Errors
    /// Says whose fault it is. Nothing changes then.
    pub fn request_reset(&self, streams: &[StreamId]) -> Result<(), ReconfigureError> {
        if streams.is_empty() {
            return Ok(());
        }
        self.inner.reconfigure(|core, now| core.request_reset(now, streams))
    }

    /// Asks the peer to reset all streams on which it sends, as [`request_reset`](Self::request_reset) does with some.
    ///
    /// # Errors
    /// As [`request_reset`](Self::request_reset).
    pub fn request_reset_all(&self) -> Result<(), ReconfigureError> {
        self.inner.reconfigure(|core, now| core.request_reset(now, &[]))
    }

    /// Asks for more streams to the peer and from it. [`Event::StreamsAdded`] says how many there are then, and
    /// [`Event::StreamRequestFailed`] that the peer will not.
    ///
    /// # Errors
    /// Says whose fault it is. Nothing changes then.
    pub fn add_streams(&self, outbound: u16, inbound: u16) -> Result<(), ReconfigureError> {
        self.inner.reconfigure(|core, now| core.add_streams(now, outbound, inbound))
    }

    /// Drops the messages that wait unread on an inbound stream, and those that arrive on it from now on, so that an unread stream does not
    /// fill the receive buffer, which all streams share. The peer has them acknowledged as usual. It holds until
    /// [`resume_stream`](Self::resume_stream), until the peer resets the stream, which [`request_reset`](Self::request_reset) asks for, or until
    /// the peer restarts. Returns how many messages it has dropped.
    pub fn discard_stream(&self, stream: impl Into<StreamId>) -> usize {
        self.inner.discard_stream(stream.into())
    }

    /// Receives messages again on a stream that [`discard_stream`](Self::discard_stream) or
    /// [`Config::with_stream_unread_bytes_max`](crate::Config::with_stream_unread_bytes_max) had dropped.
    pub fn resume_stream(&self, stream: impl Into<StreamId>) {
        self.inner.resume_stream(stream.into());
    }

    /// The loss-recovery profile, if the mechanisms in use are those of one.
    pub fn profile(&self) -> Option<Profile> {
        let mechanisms = self.mechanisms();
        Profile::all().iter().copied().find(|profile| profile.mechanisms() == mechanisms)
    }

    /// Changes loss recovery to that of a profile, from now on.
    pub fn set_profile(&self, profile: Profile) {
        self.set_mechanisms(profile.mechanisms());
    }

    /// The loss-recovery mechanisms in use.
    pub fn mechanisms(&self) -> Mechanisms {
        self.inner.mechanisms()
    }

    /// Changes the loss-recovery mechanisms one by one, from now on.
    pub fn set_mechanisms(&self, mechanisms: Mechanisms) {
        self.inner.set_mechanisms(mechanisms);
    }

    /// Names the association among all that its endpoint has had; logs have it as `association`.
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// The peer's address.
    pub fn remote_addr(&self) -> SocketAddr {
        self.inner.remote()
    }

    /// The SCTP ports of both sides.
    pub fn ports(&self) -> Ports {
        self.inner.ports()
    }

    /// Where the association is in its life.
    pub fn state(&self) -> AssociationState {
        self.inner.state()
    }

    /// The numbers of streams: those that the handshake allowed, and what was added since.
    pub fn streams(&self) -> Streams {
        let (outbound, inbound) = self.inner.streams();
        Streams { outbound, inbound }
    }

    /// The messages from the peer as a [`Stream`](futures_core::Stream) that ends with the association.
    pub fn messages(&self) -> Messages {
        Messages::new(self.clone())
    }

    /// A [`Sink`](futures_sink::Sink) of messages to the peer.
    pub fn sink(&self) -> MessageSink {
        MessageSink::new(self.clone())
    }

    /// Both directions as a stream and a sink.
    pub fn into_stream_sink(self) -> (Messages, MessageSink) {
        (self.messages(), MessageSink::new(self))
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
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
