//! An association as a stream and a sink.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use festina_sctp::{ClosedReason, Message, ReceivedMessage, SendError, SendErrorKind};
use futures_core::Stream;
use futures_sink::Sink;

use super::Association;
use super::delivery::Watch;
use super::inner::{Inner, Source, Waiter};

/// The messages from the peer. Ends with the association; [`closed`](Association::closed) returns the reason.
#[derive(Debug)]
pub struct Messages {
    waiter: Waiter<Arc<Inner>>,
    association: Association,
}

impl Messages {
    pub(super) fn new(association: Association) -> Self {
        Self { waiter: Waiter::reader(association.inner().clone()), association }
    }

    /// Returns the association.
    pub fn association(&self) -> &Association {
        &self.association
    }
}

impl Stream for Messages {
    type Item = ReceivedMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ReceivedMessage>> {
        let this = &mut *self;
        Poll::Ready(ready!(this.association.inner().poll_recv(context, &mut this.waiter, Source::Others)).ok())
    }
}

/// Sends messages to the peer.
///
/// `feed` only queues a message. Messages fed one after the other share packets and system calls. They are sent by `flush`, or earlier if anything
/// else makes the association send. A burst of small messages thus costs far less with `feed` and one `flush` than with repeated calls of
/// [`Association::send`].
///
/// `flush` completes when the messages were passed to the network as far as congestion control and the peer's window allow; [`Association::drained`]
/// waits for the peer's acknowledgement. Closing the sink shuts the association down.
pub struct MessageSink {
    writer: Waiter<Arc<Inner>>,
    watcher: Waiter<Arc<Inner>>,
    association: Association,
    /// A message that did not fit into the send buffer.
    held: Option<Message>,
}

impl MessageSink {
    pub(super) fn new(association: Association) -> Self {
        let inner = association.inner();
        Self { writer: Waiter::writer(inner.clone()), watcher: Waiter::watcher(inner.clone()), association, held: None }
    }

    /// Returns the association.
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// Queues the held message, if there is one.
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if self.held.is_none() {
            return Poll::Ready(Ok(()));
        }
        ready!(self.association.inner().poll_send(context, &mut self.writer, &mut self.held, Watch::No))?;
        Poll::Ready(Ok(()))
    }
}

impl Sink<Message> for MessageSink {
    type Error = SendError;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.poll_held(context)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), SendError> {
        match self.association.inner().queue(message) {
            Ok(_) => Ok(()),
            Err(SendError { kind: SendErrorKind::BufferFull, message }) => {
                self.held = Some(message);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        ready!(self.poll_held(context))?;
        self.association.inner().flush();
        Poll::Ready(Ok(()))
    }

    /// Flushes, shuts the association down and waits for its end. [`Association::closed`] returns the reason if that was not a graceful shutdown.
    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        ready!(self.as_mut().poll_flush(context))?;
        let this = &mut *self;
        this.association.inner().shutdown();
        let _: ClosedReason = ready!(this.association.inner().poll_closed(context, &mut this.watcher));
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for MessageSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MessageSink").field("association", &self.association).finish_non_exhaustive()
    }
}
