//! Data channels, by the names of the WebRTC interface.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use festina::{
    Association, Duration, Message, MessageId, ReceivedMessage, SendError, SendErrorKind, StreamHandle, StreamId,
    StreamReader,
};
use futures_core::Stream as _;
use tokio::sync::watch;

use crate::dcep::{self, ChannelOptions, Dcep};
use crate::message::ChannelMessage;
use crate::repeat::{self, Repeats};

/// How often a channel whose buffered amount is to become low is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// State of a data channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyState {
    /// Messages can be sent.
    Open,
    /// This side has closed it; messages of the peer may still arrive.
    Closing,
    /// The peer has closed it, or the association is over.
    Closed,
}

/// A data channel. Clones are the same channel; it is closed when the last one is dropped.
#[derive(Clone, Debug)]
pub struct DataChannel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    label: String,
    options: ChannelOptions,
    stream: StreamHandle,
    incoming: Mutex<Incoming>,
    /// Of a channel whose messages the page repeats.
    repeats: Option<Mutex<Repeats>>,
    /// Of the largest message that the browser takes.
    bytes_max: usize,
    state: watch::Sender<ReadyState>,
    low_threshold: AtomicUsize,
}

/// Messages of the peer: from a reader while the channel is open, afterwards those left.
#[derive(Debug, Default)]
struct Incoming {
    reader: Option<StreamReader>,
    rest: VecDeque<ReceivedMessage>,
}

impl DataChannel {
    /// Returns the channel without keeping it open.
    pub(crate) fn downgrade(&self) -> WeakChannel {
        WeakChannel(Arc::downgrade(&self.shared))
    }

    /// `None` if the stream has a reader, which is a channel that is not closed.
    pub(crate) fn new(
        (association, bytes_max): (&Association, usize),
        stream: StreamId,
        label: String,
        options: ChannelOptions,
    ) -> Option<Self> {
        let stream = association.stream(stream);
        let incoming = Mutex::new(Incoming { reader: Some(stream.read().ok()?), rest: VecDeque::new() });
        let repeats = (options.protocol == repeat::PROTOCOL).then(Mutex::default);
        let (state, _) = watch::channel(ReadyState::Open);
        Some(Self {
            shared: Arc::new(Shared {
                label,
                options,
                stream,
                incoming,
                repeats,
                bytes_max,
                state,
                low_threshold: AtomicUsize::new(0),
            }),
        })
    }

    /// Returns the label that the side which opened the channel gave it.
    pub fn label(&self) -> &str {
        &self.shared.label
    }

    /// Returns the settings that the side which opened the channel gave it.
    pub fn options(&self) -> &ChannelOptions {
        &self.shared.options
    }

    /// Returns the number of the channel, which is that of its streams in both directions.
    pub fn id(&self) -> StreamId {
        self.shared.stream.id()
    }

    /// Returns the state.
    pub fn ready_state(&self) -> ReadyState {
        *self.shared.state.borrow()
    }

    /// Returns the number of bytes of this channel's messages that have not been sent yet (`bufferedAmount`). Sent messages that may be retransmitted
    /// do not count.
    pub fn buffered_amount(&self) -> usize {
        self.shared.stream.queued_bytes()
    }

    /// Returns the largest buffered amount that counts as low (`bufferedAmountLowThreshold`), by default 0.
    pub fn buffered_amount_low_threshold(&self) -> usize {
        self.shared.low_threshold.load(Ordering::Relaxed)
    }

    /// Sets the largest buffered amount that counts as low.
    pub fn set_buffered_amount_low_threshold(&self, bytes: usize) {
        self.shared.low_threshold.store(bytes, Ordering::Relaxed);
    }

    /// Waits until the buffered amount is low (`onbufferedamountlow`), by looking every 5 ms, or the channel is closed. Returns at once if it is.
    pub async fn buffered_amount_low(&self) {
        while self.buffered_amount() > self.buffered_amount_low_threshold() && self.ready_state() != ReadyState::Closed
        {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sends a message. Waits while the send buffer is full.
    ///
    /// # Errors
    /// [`SendError`] if the channel or its peer is closed, or the message is too large.
    pub async fn send(&self, message: impl Into<ChannelMessage>) -> Result<MessageId, SendError> {
        self.shared.stream.send(self.prepare(message)?).await
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    /// [`SendError`], also if the send buffer is full.
    pub fn try_send(&self, message: impl Into<ChannelMessage>) -> Result<MessageId, SendError> {
        self.shared.stream.try_send(self.prepare(message)?)
    }

    /// Sends a message with settings of its own, such as a deadline or a [key](Message::replacing) by which newer messages replace it. Its payload is
    /// binary; the channel's order and reliability are not applied.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_with(&self, message: Message) -> Result<MessageId, SendError> {
        self.shared.stream.send(self.check(message.with_ppid(dcep::BINARY))?).await
    }

    fn check(&self, message: Message) -> Result<Message, SendError> {
        let bytes_max = self.shared.bytes_max;
        if message.payload().len() <= bytes_max {
            return Ok(message);
        }
        Err(SendError::new(message, SendErrorKind::TooLong { bytes_max }))
    }

    fn prepare(&self, message: impl Into<ChannelMessage>) -> Result<Message, SendError> {
        let options = &self.shared.options;
        if self.shared.repeats.is_some() {
            // The page's side of the channel is without retransmissions, and repeats; this side needs not.
            return self.check(repeat::escaped(message.into()).into_message().unordered());
        }
        let message = self.check(message.into().into_message().unordered_if(!options.ordered))?;
        Ok(match (options.max_retransmits, options.max_packet_life_time) {
            (Some(retransmissions), _) => message.with_max_retransmissions(retransmissions),
            // Browsers send a message whose lifetime is 0, too.
            (None, Some(milliseconds)) => message.with_lifetime(Duration::from_millis(milliseconds.max(1).into())),
            (None, None) => message,
        })
    }

    /// Receives the next message; `None` after the last one of a channel that is closed. Dropping the future loses no message.
    pub async fn recv(&self) -> Option<ChannelMessage> {
        let mut state = self.shared.state.subscribe();
        loop {
            let received = tokio::select! {
                biased;
                received = std::future::poll_fn(|context| self.incoming().poll(context)) => received?,
                // The reader has been replaced by the messages left.
                _ = state.changed() => continue,
            };
            // An acknowledgement of the channel and messages of other protocols are none of the application's.
            let Some(message) = ChannelMessage::from_received(received) else { continue };
            let Some(repeats) = &self.shared.repeats else { return Some(message) };
            let arrival = repeats.lock().unwrap_or_else(PoisonError::into_inner).take(&message.into_bytes());
            let Some(arrival) = arrival else { continue };
            // One that finds the buffer full or is lost is made up for by that of the repetition.
            let acknowledgement = ChannelMessage::from(arrival.acknowledgement).into_message();
            let _ = self.shared.stream.try_send(acknowledgement.unordered().with_max_retransmissions(0));
            if arrival.message.is_some() {
                return arrival.message;
            }
        }
    }

    /// Closes the channel: resets the stream to the peer, who then resets the other one (RFC 8831 §6.7). Messages sent before are delivered.
    pub fn close(&self) {
        self.shared.close();
    }

    /// The peer has reset its stream, or the association is over. Later messages on the stream belong to another channel.
    pub(crate) fn peer_closed(&self) {
        self.close();
        let mut incoming = self.incoming();
        if let Some(mut reader) = incoming.reader.take() {
            while let Ok(Some(message)) = reader.try_recv() {
                incoming.rest.push_back(message);
            }
        }
        drop(incoming);
        self.shared.state.send_replace(ReadyState::Closed);
    }

    pub(crate) async fn acknowledge(&self) -> Result<(), SendError> {
        self.shared.stream.send(Dcep::Ack.to_message()).await.map(drop)
    }

    fn incoming(&self) -> MutexGuard<'_, Incoming> {
        self.shared.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A channel that is not kept open.
#[derive(Clone, Debug)]
pub(crate) struct WeakChannel(Weak<Shared>);

impl WeakChannel {
    /// The peer has reset its stream, or the association is over.
    pub(crate) fn peer_closed(&self) {
        if let Some(shared) = self.0.upgrade() {
            DataChannel { shared }.peer_closed();
        }
    }
}

impl Shared {
    fn close(&self) {
        let was_open = self.state.send_if_modified(|state| {
            let was_open = *state == ReadyState::Open;
            if was_open {
                *state = ReadyState::Closing;
            }
            was_open
        });
        if was_open && let Err(error) = self.stream.reset() {
            tracing::debug!(%error, label = self.label, "the channel is not closed for the peer");
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

impl Incoming {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<ReceivedMessage>> {
        match &mut self.reader {
            Some(reader) => std::pin::Pin::new(reader).poll_next(context),
            None => Poll::Ready(self.rest.pop_front()),
        }
    }
}
