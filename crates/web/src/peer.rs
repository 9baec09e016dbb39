//! A browser and its data channels.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use festina::{
    Association, ClosedReason, Direction, Event, ReceivedMessage, SendError, SendErrorKind, Stats, StreamId,
};
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use crate::channel::{DataChannel, WeakChannel};
use crate::dcep::{self, ChannelOptions, Dcep};
use crate::gateway::PeerId;
use crate::layer::Shared;
use crate::sdp::MESSAGE_BYTES_MAX;

/// Channels that wait for [`Peer::accept_channel`]; a peer that opens more is disconnected.
const UNACCEPTED_MAX: usize = 1_024;

/// A browser that is connected. Clones are the same browser; it is disconnected when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Peer {
    id: PeerId,
    association: Association,
    shared: Arc<Shared>,
    channels: Arc<Channels>,
    unaccepted: Arc<AsyncMutex<mpsc::Receiver<DataChannel>>>,
    /// Of the largest message that the browser takes.
    bytes_max: usize,
}

/// The channels whose streams the peer has not reset, by their number.
#[derive(Debug, Default)]
struct Channels(Mutex<HashMap<StreamId, WeakChannel>>);

/// Why a channel could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Label or protocol.
    #[error("label and protocol have at most 65,535 bytes each")]
    TooLong,
    /// All numbers are in use.
    #[error("every stream of this side has a channel")]
    NoStream,
    /// The number of a channel that was agreed before.
    #[error("stream {0} has a channel already")]
    InUse(StreamId),
    /// The message that opens it was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl Peer {
    pub(crate) fn new(id: PeerId, association: Association, shared: Arc<Shared>) -> Self {
        let (sender, receiver) = mpsc::channel(UNACCEPTED_MAX);
        let channels = Arc::<Channels>::default();
        let bytes_max = shared.with(|gateway| gateway.message_bytes_max(id)).unwrap_or(MESSAGE_BYTES_MAX);
        let task = Task {
            association: association.clone(),
            channels: channels.clone(),
            unaccepted: sender,
            resetting: Vec::new(),
            bytes_max,
        };
        tokio::spawn(task.run(id, shared.clone()));
        Self { id, association, shared, channels, unaccepted: Arc::new(AsyncMutex::new(receiver)), bytes_max }
    }

    /// Returns the identity of the peer, which it keeps when it moves.
    pub fn id(&self) -> PeerId {
        self.id
    }

    /// Returns the address to which packets are sent now; `None` if the peer is gone.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.shared.with(|gateway| gateway.remote_addr(self.id))
    }

    /// Returns the SCTP association: settings, events of messages, statistics. Its messages and events are taken by the channels.
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// Returns the association's counters.
    pub fn stats(&self) -> Stats {
        self.association.stats()
    }

    /// Waits for the next channel that the browser opens; `None` if it is gone.
    pub async fn accept_channel(&self) -> Option<DataChannel> {
        self.unaccepted.lock().await.recv().await
    }

    /// Opens a channel. Messages can be sent at once.
    ///
    /// # Errors
    /// [`OpenError`]
    pub async fn open_channel(
        &self,
        label: impl Into<String>,
        options: ChannelOptions,
    ) -> Result<DataChannel, OpenError> {
        let label = label.into();
        if label.len().max(options.protocol.len()) > usize::from(u16::MAX) {
            return Err(OpenError::TooLong);
        }
        let open = Dcep::Open { label: label.clone(), options: options.clone() }.to_message();
        // The side that waited for the DTLS handshake has the odd numbers (RFC 8832 §6).
        for id in (1..self.association.streams().outbound).step_by(2).map(StreamId::from) {
            let Ok(channel) = self.negotiated_channel(id, label.clone(), options.clone()) else { continue };
            match self.association.send(open.clone().on_stream(id)).await {
                Ok(_) => return Ok(channel),
                // A channel of this number was closed just now.
                Err(error) if error.kind == SendErrorKind::StreamResetting => {
                    self.channels.lock().remove(&id);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(OpenError::NoStream)
    }

    /// Returns a channel whose number both sides have agreed on (`negotiated: true`); nothing is sent.
    ///
    /// # Errors
    /// [`OpenError::InUse`]
    pub fn negotiated_channel(
        &self,
        id: impl Into<StreamId>,
        label: impl Into<String>,
        options: ChannelOptions,
    ) -> Result<DataChannel, OpenError> {
        let id = id.into();
        let mut channels = self.channels.lock();
        let channel = DataChannel::new((&self.association, self.bytes_max), id, label.into(), options)
            .filter(|_| !channels.contains_key(&id));
        let channel = channel.ok_or(OpenError::InUse(id))?;
        channels.insert(id, channel.downgrade());
        Ok(channel)
    }

    /// Disconnects after everything sent has arrived.
    ///
    /// # Errors
    /// As [`Association::shutdown`].
    pub async fn close(&self) -> Result<(), ClosedReason> {
        self.association.shutdown().await
    }

    /// Resolves when the peer is gone.
    pub async fn closed(&self) -> ClosedReason {
        self.association.closed().await
    }
}

impl Channels {
    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, WeakChannel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer has reset these streams; all if the list is empty.
    fn close(&self, streams: &[StreamId]) {
        let closed: Vec<WeakChannel> = {
            let mut channels = self.lock();
            if streams.is_empty() {
                channels.drain().map(|(_, channel)| channel).collect()
            } else {
                streams.iter().filter_map(|id| channels.remove(id)).collect()
            }
        };
        closed.iter().for_each(WeakChannel::peer_closed);
    }
}

/// Takes what belongs to no channel yet, until the association is over.
struct Task {
    association: Association,
    channels: Arc<Channels>,
    unaccepted: mpsc::Sender<DataChannel>,
    /// Channels that the peer has opened on streams whose reset by this side it has not confirmed yet, or its answer was lost.
    resetting: Vec<DataChannel>,
    bytes_max: usize,
}

impl Task {
    async fn run(mut self, id: PeerId, shared: Arc<Shared>) {
        let mut gone = shared.watch(id);
        loop {
            tokio::select! {
                biased;
                // Before the events: the message that opens a channel comes before its end.
                message = self.association.recv() => match message {
                    Ok(Some(message)) => self.handle_message(message).await,
                    Ok(None) | Err(_) => break,
                },
                event = self.association.event() => match event {
                    Some(Event::StreamsReset { direction: Direction::Inbound, streams }) => self.channels.close(&streams),
                    Some(Event::StreamsReset { direction: Direction::Outbound, .. } | Event::StreamRequestFailed { .. }) => {
                        for channel in std::mem::take(&mut self.resetting) {
                            self.admit(channel).await;
                        }
                    }
                    Some(_) => {}
                    None => break,
                },
                reason = &mut gone => {
                    self.association.abort(reason.unwrap_or("the browser is gone"));
                    break;
                }
                () = self.unaccepted.closed() => {
                    self.association.abort("the server does not use the connection");
                    break;
                }
            }
        }
        self.channels.close(&[]);
        shared.with(|gateway| gateway.close(id));
    }

    async fn handle_message(&mut self, message: ReceivedMessage) {
        let id = message.stream();
        let parsed = if message.ppid() == dcep::DCEP { Dcep::parse(message.payload()) } else { None };
        let Some(Dcep::Open { label, options }) = parsed else {
            tracing::debug!(stream = %id, ppid = message.ppid(), "a message without a channel");
            return;
        };
        // Peers have the even numbers.
        let channel = if id.0.is_multiple_of(2) {
            DataChannel::new((&self.association, self.bytes_max), id, label, options)
        } else {
            None
        };
        let Some(channel) = channel else {
            let _ = self.association.reset_streams(&[id]);
            return;
        };
        self.channels.lock().insert(id, channel.downgrade());
        self.admit(channel).await;
    }

    /// Acknowledges a channel and hands it to the application, as soon as its stream takes messages.
    async fn admit(&mut self, channel: DataChannel) {
        match channel.acknowledge().await {
            Ok(()) => {
                if self.unaccepted.try_send(channel).is_err() {
                    self.association.abort("too many channels wait to be accepted");
                }
            }
            Err(error) if error.kind == SendErrorKind::StreamResetting => self.resetting.push(channel),
            Err(error) => tracing::debug!(%error, "a channel was not acknowledged"),
        }
    }
}
