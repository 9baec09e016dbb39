//! Associations: sending, receiving, ending.

use std::collections::VecDeque;
use std::future::poll_fn;
#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use festina_sctp::{ClosedReason, Event, Message, MessageId, ReceivedMessage, SendError, SendErrorKind};
use festina_units::Duration;

use super::readiness::{ReadyKind, Signal};
use super::shared::Shared;
use super::source::Source;
use super::wait::wait;
use super::{TimedOut, WaitError};
use crate::association::{Inner, Messages, Waiter, Watch};
use crate::error::TryRecvError;

/// A connection with one peer that carries messages both ways.
///
/// Calls without a time limit never wait. Dropping it shuts the association down gracefully in the background.
#[derive(Debug)]
pub struct Association {
    association: crate::Association,
    messages: Source<Messages>,
    events: Source<Events>,
    /// Last: everything else goes before the thread.
    _shared: Arc<Shared>,
}

impl Association {
    pub(super) fn new(association: crate::Association, shared: &Arc<Shared>, token: u64) -> Self {
        let signal = |kind| Signal::new(&shared.ready, kind, token);
        let messages = Source::new(association.messages(), signal(ReadyKind::Message));
        let events = Source::new(Events::new(&association), signal(ReadyKind::Event));
        Self { association, messages, events, _shared: shared.clone() }
    }

    pub(super) fn native(&self) -> &crate::Association {
        &self.association
    }

    /// Sets the token by which [`Endpoint::ready`](super::Endpoint::ready) reports the association. Initially that of its
    /// [`Connecting`](super::Connecting), or 0.
    pub fn set_token(&self, token: u64) {
        self.messages.signal().set_token(token);
        self.events.signal().set_token(token);
    }

    /// Sends a message, waiting only while the send buffer is full. On return it is in the send buffer, and in most cases has been sent.
    ///
    /// # Errors
    /// Each [`SendError`] returns the message. It is [`SendErrorKind::BufferFull`](crate::SendErrorKind::BufferFull) if the time limit has passed.
    pub fn send(
        &self,
        message: impl Into<Message>,
        limit: impl Into<Option<Duration>>,
    ) -> Result<MessageId, SendError> {
        let inner = self.association.inner();
        let (message, limit) = match (self.association.try_send(message), limit.into()) {
            (Err(SendError { kind: SendErrorKind::BufferFull, message }), limit) if limit != Some(Duration::ZERO) => {
                (message, limit)
            }
            (tried, _) => return tried,
        };
        let (mut message, mut waiter) = (Some(message), Waiter::writer(&**inner));
        let sent = wait(poll_fn(|context| inner.poll_send(context, &mut waiter, &mut message, Watch::No)), limit);
        sent.unwrap_or_else(|TimedOut| {
            let message = message.expect("a message that is not sent yet is handed back");
            Err(SendError::new(message, SendErrorKind::BufferFull))
        })
    }

    /// Sends messages in this order, waiting only while the send buffer is full. They share packets and system calls, as with
    /// [`festina::Association::send_many`](crate::Association::send_many). Sent messages are removed from the front of the queue.
    ///
    /// # Errors
    /// As [`Association::send`]. The message that failed is at the front of the queue; the error contains a copy of it.
    pub fn send_many(
        &self,
        messages: &mut VecDeque<Message>,
        limit: impl Into<Option<Duration>>,
    ) -> Result<(), SendError> {
        let limit = limit.into();
        self.association.send_queue(messages, |poll| wait(poll_fn(poll), limit).ok())
    }

    /// Receives the next message; `None` after the last one of an association that was shut down gracefully.
    ///
    /// # Errors
    /// The time limit has passed, or the association ended in another way and the last message was taken.
    pub fn recv(&self, limit: impl Into<Option<Duration>>) -> Result<Option<ReceivedMessage>, WaitError<ClosedReason>> {
        match self.messages.next(limit.into()) {
            Ok(Some(message)) => Ok(Some(message)),
            Ok(None) => match self.association.close_reason() {
                Some(ClosedReason::Shutdown) | None => Ok(None),
                Some(reason) => Err(WaitError::Failed(reason)),
            },
            Err(TimedOut) => Err(WaitError::TimedOut),
        }
    }

    /// Returns the next message if one is available, and `None` after the last message of an association that was shut down gracefully.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if there is none now; [`TryRecvError::Closed`] if the association ended in another way and the last message was taken.
    pub fn try_recv(&self) -> Result<Option<ReceivedMessage>, TryRecvError> {
        match self.messages.poll() {
            Poll::Ready(Some(message)) => Ok(Some(message)),
            Poll::Ready(None) => TryRecvError::without_message(self.association.close_reason()),
            Poll::Pending => Err(TryRecvError::Empty),
        }
    }

    /// Waits for the next event; `None` after [`Event::Closed`] was returned. See [`festina::Association::event`](crate::Association::event).
    ///
    /// # Errors
    /// The time limit passed.
    pub fn event(&self, limit: impl Into<Option<Duration>>) -> Result<Option<Event>, TimedOut> {
        self.events.next(limit.into())
    }

    /// Returns the next event if one is available.
    pub fn try_event(&self) -> Option<Event> {
        match self.events.poll() {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// Waits until the peer has acknowledged everything sent so far.
    ///
    /// # Errors
    /// The time limit passed, or the association ended before.
    pub fn drained(&self, limit: impl Into<Option<Duration>>) -> Result<(), WaitError<ClosedReason>> {
        let drained = wait(self.association.drained(), limit.into()).map_err(|TimedOut| WaitError::TimedOut)?;
        drained.map_err(WaitError::Failed)
    }

    /// Shuts the association down gracefully: refuses new messages, and waits until the peer has received everything and confirms. The shutdown
    /// continues after the time limit.
    ///
    /// # Errors
    /// The time limit has passed, or the association ended in another way.
    pub fn shutdown(&self, limit: impl Into<Option<Duration>>) -> Result<(), WaitError<ClosedReason>> {
        let ended = wait(self.association.shutdown(), limit.into()).map_err(|TimedOut| WaitError::TimedOut)?;
        ended.map_err(WaitError::Failed)
    }

    /// Waits until the association has ended, and returns the reason.
    ///
    /// # Errors
    /// The time limit has passed.
    pub fn closed(&self, limit: impl Into<Option<Duration>>) -> Result<ClosedReason, TimedOut> {
        wait(self.association.closed(), limit.into())
    }

    /// Returns a descriptor that is readable when [`Association::recv`] would not wait. It stays so until [`Association::try_recv`] has found
    /// nothing.
    ///
    /// # Errors
    /// The system has no descriptor left.
    #[cfg(unix)]
    pub fn message_descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.messages.descriptor()
    }

    /// Returns a descriptor that is readable when [`Association::event`] would not wait. It stays so until [`Association::try_event`] has found
    /// nothing.
    ///
    /// # Errors
    /// The system has no descriptor left.
    #[cfg(unix)]
    pub fn event_descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.events.descriptor()
    }
}

/// The events of an association as a stream.
#[derive(Debug)]
struct Events(Waiter<Arc<Inner>>);

impl Events {
    fn new(association: &crate::Association) -> Self {
        Self(Waiter::watcher(association.inner().clone()))
    }
}

impl futures_core::Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let inner = self.0.inner().clone();
        inner.poll_event(context, &mut self.0)
    }
}
