//! Handles of single streams.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use festina_sctp::{
    AbandonedStats, ClosedReason, Message, MessageId, ReceivedMessage, ReconfigureError, SendError, StreamId,
};

use super::delivery::Delivery;
use super::inner::{Inner, Source, Waiter};
use super::{Association, unless_shut_down};
use crate::error::{StreamTaken, TryRecvError, WrongScheduler};

/// A handle of one stream, from [`Association::stream`]. It also keeps the association open.
///
/// ```
/// # use festina::{ClientConfig, DEFAULT_SCTP_PORT, Endpoint, ServerConfig};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::plain()).await?;
/// # let listener = server.listen(DEFAULT_SCTP_PORT)?;
/// # let client = Endpoint::client("127.0.0.1:0".parse()?, ClientConfig::plain()).await?;
/// # let association = client.connect(server.local_addr()).await?;
/// # let peer = listener.accept().await.ok_or("closed")?;
/// // A separate task can read the chat; everything else comes from `recv`.
/// let mut chat = peer.stream(1).read()?;
/// association.stream(1).send("good game").await?;
/// association.send("x=3 y=4").await?;
/// assert_eq!(chat.recv().await?.expect("a message").payload(), "good game");
/// assert_eq!(peer.recv().await?.expect("a message").payload(), "x=3 y=4");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StreamHandle {
    association: Association,
    id: StreamId,
}

impl StreamHandle {
    pub(super) fn new(association: Association, id: StreamId) -> Self {
        Self { association, id }
    }

    /// Returns the stream's number.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Returns the stream's association.
    pub fn association(&self) -> &Association {
        &self.association
    }

    fn addressed(&self, message: impl Into<Message>) -> Message {
        message.into().on_stream(self.id)
    }

    /// Sends a message on this stream, as [`Association::send`] does.
    ///
    /// # Errors
    /// As [`Association::send`].
    pub async fn send(&self, message: impl Into<Message>) -> Result<MessageId, SendError> {
        self.association.send(self.addressed(message)).await
    }

    /// Sends a message on this stream, as [`Association::send_confirmed`] does.
    ///
    /// # Errors
    /// As [`Association::send`].
    pub async fn send_confirmed(&self, message: impl Into<Message>) -> Result<Delivery, SendError> {
        self.association.send_confirmed(self.addressed(message)).await
    }

    /// Sends a message on this stream without waiting.
    ///
    /// # Errors
    /// As [`Association::try_send`].
    pub fn try_send(&self, message: impl Into<Message>) -> Result<MessageId, SendError> {
        self.association.try_send(self.addressed(message))
    }

    /// Reads this stream separately: the reader gets its messages instead of [`Association::recv`], until the reader is dropped. Its unread messages
    /// then come from `recv`.
    ///
    /// All streams share one receive buffer (RFC 9260 §6.2). Up to 256 KiB of messages, each counted with 128 bytes more, are sorted into queues for
    /// readers. Beyond that every stream stops until a reader takes some. So read all streams that the peer uses, [discard](Self::discard) the
    /// others, or [limit](crate::Transport::with_stream_unread_bytes_max) the unread bytes of each.
    ///
    /// # Errors
    /// If the stream already has a reader.
    pub fn read(&self) -> Result<StreamReader, StreamTaken> {
        let inner = self.association.inner();
        if !inner.take_stream(self.id) {
            return Err(StreamTaken(self.id));
        }
        let waiter = Waiter::stream_reader(inner.clone(), self.id);
        Ok(StreamReader { waiter: Some(waiter), stream: self.clone() })
    }

    /// Resets this side's stream (RFC 6525 §5.1.2), as [`Association::reset_streams`] does.
    ///
    /// # Errors
    /// As [`Association::reset_streams`].
    pub fn reset(&self) -> Result<(), ReconfigureError> {
        self.association.reset_streams(&[self.id])
    }

    /// Asks the peer to reset its stream of this number, as [`Association::request_reset`] does.
    ///
    /// # Errors
    /// As [`Association::request_reset`].
    pub fn request_reset(&self) -> Result<(), ReconfigureError> {
        self.association.request_reset(&[self.id])
    }

    /// Discards the unread messages of the stream and all that arrive from now on, as [`Association::discard_stream`] does.
    pub fn discard(&self) -> usize {
        self.association.discard_stream(self.id)
    }

    /// Receives messages of the stream again, as [`Association::resume_stream`] does.
    pub fn resume(&self) {
        self.association.resume_stream(self.id);
    }

    /// Sets the stream's priority, as [`Association::set_stream_priority`] does.
    ///
    /// # Errors
    /// As [`Association::set_stream_priority`].
    pub fn set_priority(&self, priority: u16) -> Result<(), WrongScheduler> {
        self.association.set_stream_priority(self.id, priority)
    }

    /// Sets the stream's weight, as [`Association::set_stream_weight`] does.
    ///
    /// # Errors
    /// As [`Association::set_stream_weight`].
    pub fn set_weight(&self, weight: u16) -> Result<(), WrongScheduler> {
        self.association.set_stream_weight(self.id, weight)
    }

    /// Returns the number of payload bytes that are queued on this stream and not sent yet, as [`Association::queued_bytes_on`] does.
    pub fn queued_bytes(&self) -> usize {
        self.association.queued_bytes_on(self.id)
    }

    /// Returns the counts of abandoned messages on this stream.
    pub fn abandoned(&self) -> AbandonedStats {
        self.association.abandoned_on(self.id)
    }
}

/// Receives the messages of one stream, from [`StreamHandle::read`]; also a [`futures_core::Stream`]. Dropping it returns the stream to
/// [`Association::recv`].
#[derive(Debug)]
pub struct StreamReader {
    /// `None` only while it is dropped.
    waiter: Option<Waiter<Arc<Inner>>>,
    stream: StreamHandle,
}

impl StreamReader {
    /// Returns the stream that this reads.
    pub fn stream(&self) -> &StreamHandle {
        &self.stream
    }

    /// Receives the next message of the stream. Returns `None` after the last message of an association that was shut down gracefully.
    ///
    /// Dropping the future before it is ready loses no message.
    ///
    /// # Errors
    /// The reason why the association has ended in another way, after the last message.
    pub async fn recv(&mut self) -> Result<Option<ReceivedMessage>, ClosedReason> {
        unless_shut_down(poll_fn(|context| self.poll(context)).await)
    }

    /// Returns the next message of the stream if one is available, and `None` after the last message of an association that was shut down gracefully.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if there is none now; [`TryRecvError::Closed`] if the association ended in another way and the last message was taken.
    pub fn try_recv(&mut self) -> Result<Option<ReceivedMessage>, TryRecvError> {
        self.stream.association.inner().try_recv(Source::Stream(self.stream.id))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<ReceivedMessage, ClosedReason>> {
        let source = Source::Stream(self.stream.id);
        match &mut self.waiter {
            Some(waiter) => self.stream.association.inner().poll_recv(context, waiter, source),
            None => Poll::Pending,
        }
    }
}

impl futures_core::Stream for StreamReader {
    type Item = ReceivedMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ReceivedMessage>> {
        Poll::Ready(ready!(self.poll(context)).ok())
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        // The waiter leaves its place while there is one.
        self.waiter = None;
        self.stream.association.inner().give_stream_back(self.stream.id);
    }
}
