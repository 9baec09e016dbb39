//! The adapter of either stack. `super` names the crate and hides what differs between the two.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{BufMut, Bytes, BytesMut};

use super::super::super::epoch::Epoch;
use super::super::{
    Carriage, LENGTH_BYTES, Quic, QuicSettings, SERVER_NAME, Standstill, TIME_OF_DAY, credentials, meet, refused,
    take_framed,
};
use super::NAME;
use super::proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use super::proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, SendDatagramError, ServerConfig, StreamEvent, StreamId, TimeSource, Transmit, TransportConfig, VarInt,
};
use crate::peer::{AbortUnsupported, Message, Peer, SendError};

/// Where the other endpoint seems to be; there is no network here.
const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4433));

/// A factory of connections.
pub struct Factory {
    settings: QuicSettings,
    client: ClientConfig,
    server: Arc<ServerConfig>,
    epoch: Epoch,
}

impl Quic for Factory {
    const NAME: &'static str = NAME;

    fn new(settings: QuicSettings) -> Self {
        let (client, server) = credentials(settings.resumes);
        let client = QuicClientConfig::try_from(client).expect("ring has the suite of initial packets");
        let server = QuicServerConfig::try_from(server).expect("ring has the suite of initial packets");
        let (mut client, mut server) =
            (ClientConfig::new(Arc::new(client)), ServerConfig::with_crypto(Arc::new(server)));
        let transport = Arc::new(transport(settings.tuned_for));
        client.transport_config(Arc::clone(&transport));
        server.transport_config(transport);
        server.time_source(Arc::new(Standstill));
        Factory { settings, client, server: Arc::new(server), epoch: Epoch::new() }
    }

    fn pair(&self, seed: u64) -> [Box<dyn Peer>; 2] {
        if self.settings.resumes {
            meet(self.connect(!seed));
        }
        self.connect(seed).map(|end| Box::new(end) as Box<dyn Peer>)
    }
}

impl Factory {
    fn connect(&self, seed: u64) -> [Connected; 2] {
        let mut client = self.peer(seed, None);
        let server = self.peer(seed ^ 1 << 63, Some(Arc::clone(&self.server)));
        let at = self.epoch.at(Duration::ZERO);
        let connection = client.endpoint.connect(at, self.client.clone(), ADDRESS, SERVER_NAME);
        client.connection = Some(connection.expect("address and name are sound"));
        [client, server]
    }

    fn peer(&self, seed: u64, server: Option<Arc<ServerConfig>>) -> Connected {
        let mut config = EndpointConfig::default();
        let mut seed_bytes = [0; 32];
        seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
        config.rng_seed(Some(seed_bytes));
        if self.settings.tuned_for.is_some() {
            super::with_empty_identifiers(&mut config);
        }
        Connected {
            endpoint: super::endpoint(Arc::new(config), server),
            connection: None,
            carriage: self.settings.carriage,
            epoch: self.epoch,
            deadline: None,
            is_connected: false,
            error: None,
            replies: VecDeque::new(),
            sending: None,
            readable: VecDeque::new(),
            partial: BTreeMap::new(),
            received: VecDeque::new(),
        }
    }
}

/// The defaults, or what [`QuicSettings::tuned_for`] says.
fn transport(tuned_for: Option<Duration>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    if let Some(round_trip) = tuned_for {
        let mut acknowledgements = AckFrequencyConfig::default();
        acknowledgements.ack_eliciting_threshold(VarInt::from_u32(0));
        acknowledgements.max_ack_delay(Some(Duration::from_millis(1)));
        acknowledgements.reordering_threshold(VarInt::from_u32(1));
        transport
            .initial_rtt(round_trip)
            .ack_frequency_config(Some(acknowledgements))
            .packet_threshold(1)
            .mtu_discovery_config(None);
    }
    transport
}

impl TimeSource for Standstill {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + TIME_OF_DAY
    }
}

/// One QUIC connection and the endpoint that it belongs to.
struct Connected {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    carriage: Carriage,
    epoch: Epoch,
    /// The next timer of the connection, cached because the connection returns it only to a mutable borrow.
    deadline: Option<Duration>,
    is_connected: bool,
    error: Option<String>,
    /// Packets of the endpoint itself.
    replies: VecDeque<Bytes>,
    /// The one stream.
    sending: Option<StreamId>,
    readable: VecDeque<StreamId>,
    /// Received parts of incomplete messages.
    partial: BTreeMap<StreamId, BytesMut>,
    received: VecDeque<Bytes>,
}

impl Connected {
    fn reply(&mut self, transmit: &Transmit, buffer: &[u8]) {
        self.replies.push_back(Bytes::copy_from_slice(&buffer[..transmit.size]));
    }

    /// Carries events between the connection and its endpoint, and handles those for the application.
    fn take_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.error = Some(reason.to_string()),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    self.readable.extend(std::iter::from_fn(|| connection.streams().accept(dir)));
                }
                Event::Stream(StreamEvent::Readable { id }) => self.readable.push_back(id),
                Event::DatagramReceived => {
                    self.received.extend(std::iter::from_fn(|| connection.datagrams().recv()));
                }
                _ => {}
            }
        }
        self.deadline = connection.poll_timeout().map(|at| self.epoch.since(at));
        while let Some(id) = self.readable.pop_front() {
            self.read(id);
        }
    }

    fn read(&mut self, id: StreamId) {
        let Some((_, connection)) = &mut self.connection else { return };
        let (mut stream, mut has_ended) = (connection.recv_stream(id), false);
        let Ok(mut chunks) = stream.read(true) else { return };
        let partial = self.partial.entry(id).or_default();
        while let Ok(next) = chunks.next(usize::MAX) {
            let Some(chunk) = next else {
                has_ended = true;
                break;
            };
            partial.extend_from_slice(&chunk.bytes);
        }
        // Flow control credit that this frees is sent with the next packets.
        let _ = chunks.finalize();
        match self.carriage {
            Carriage::OneStream => {
                while let Some(message) = take_framed(partial) {
                    self.received.push_back(message);
                }
            }
            _ if has_ended => self.received.extend(self.partial.remove(&id).map(BytesMut::freeze)),
            _ => {}
        }
    }
}

/// Sends on a stream that exists.
fn write(connection: &mut Connection, id: StreamId, payload: &[u8]) -> Result<(), SendError> {
    let written = connection.send_stream(id).write(payload).map_err(|error| refused(&error))?;
    if written == payload.len() { Ok(()) } else { Err(refused("only a part of the message was taken")) }
}

impl Peer for Connected {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        let (at, mut buffer) = (self.epoch.at(now), Vec::new());
        match super::handle(&mut self.endpoint, at, ADDRESS, BytesMut::from(packet), &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                match self.endpoint.accept(incoming, at, &mut buffer, None) {
                    Ok(accepted) => self.connection = Some(accepted),
                    Err(failed) => {
                        self.error = Some(failed.cause.to_string());
                        if let Some(transmit) = failed.response {
                            self.reply(&transmit, &buffer);
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.reply(&transmit, &buffer),
            None => {}
        }
        self.take_events();
    }

    fn poll_packet(&mut self, now: Duration) -> Option<Bytes> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        let (_, connection) = self.connection.as_mut()?;
        let mut buffer = Vec::new();
        let transmit = super::poll_transmit(connection, self.epoch.at(now), &mut buffer);
        self.take_events();
        buffer.truncate(transmit?.size);
        Some(Bytes::from(buffer))
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Duration) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(self.epoch.at(now));
        }
        self.take_events();
    }

    fn send(&mut self, _now: Duration, message: &Message) -> Result<(), SendError> {
        let Some((_, connection)) = &mut self.connection else { return Err(SendError::WouldBlock) };
        if !self.is_connected && !connection.has_0rtt() {
            return Err(SendError::WouldBlock);
        }
        let payload = message.payload.clone();
        match self.carriage {
            Carriage::OneStream => {
                let id = self.sending.or_else(|| connection.streams().open(Dir::Uni)).ok_or(SendError::WouldBlock)?;
                self.sending = Some(id);
                let mut framed = BytesMut::with_capacity(LENGTH_BYTES + payload.len());
                framed.put_u16(u16::try_from(payload.len()).map_err(|error| refused(&error))?);
                framed.put(payload);
                write(connection, id, &framed)
            }
            Carriage::StreamPerMessage => {
                let id = connection.streams().open(Dir::Uni).ok_or(SendError::WouldBlock)?;
                write(connection, id, &payload)?;
                connection.send_stream(id).finish().map_err(|error| refused(&error))
            }
            Carriage::Datagrams => match connection.datagrams().send(payload, false) {
                Err(SendDatagramError::Blocked(_)) => Err(SendError::WouldBlock),
                result => result.map_err(|error| refused(&error)),
            },
        }
    }

    fn receive(&mut self, _now: Duration) -> Option<Message> {
        let payload = self.received.pop_front()?;
        Some(Message { stream: 0, ppid: 53, unordered: self.carriage != Carriage::OneStream, payload })
    }

    fn shutdown(&mut self, now: Duration) {
        if let Some((_, connection)) = &mut self.connection {
            connection.close(self.epoch.at(now), VarInt::from_u32(0), Bytes::new());
        }
    }

    fn abort(&mut self, _now: Duration) -> Result<(), AbortUnsupported> {
        Err(AbortUnsupported)
    }

    fn is_connected(&self) -> bool {
        self.is_connected
    }

    fn is_closed(&self) -> bool {
        self.connection.as_ref().is_some_and(|(_, connection)| connection.is_closed())
    }

    fn error(&self) -> Option<String> {
        self.error.clone()
    }
}
