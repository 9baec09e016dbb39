//! quinn-proto, the sans-IO core of the QUIC stack quinn, with TLS by rustls and ring.
//!
//! The server's certificate is self-signed and short, so that its whole flight fits into one packet; real chains take more.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, RandomConnectionIdGenerator, SendDatagramError, ServerConfig, StreamEvent, StreamId, TimeSource, Transmit,
    TransportConfig, VarInt,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::time_provider::TimeProvider;

use super::epoch::Epoch;
use crate::peer::{AbortUnsupported, Message, Peer, SendError};

/// Where the other endpoint seems to be; there is no network here.
const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4433));
/// The name in the certificate.
const SERVER_NAME: &str = "localhost";
/// The time of day, in seconds since 1970: certificates and tickets ask for one.
const TIME_OF_DAY: Duration = Duration::from_secs(1_700_000_000);
/// On one stream, the length of a message goes before it.
const LENGTH_BYTES: usize = 2;

/// What carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// One stream carries all, each behind its length in two bytes. In order.
    OneStream,
    /// Each has a stream of its own. Reliable, without order.
    StreamPerMessage,
    /// Each is a datagram (RFC 9221). What is lost is not sent again.
    Datagrams,
}

/// How the stack is set.
#[derive(Clone, Copy, Debug)]
pub struct QuinnSettings {
    /// What carries a message.
    pub carriage: Carriage,
    /// `None`: the defaults. Otherwise all that lowers delay or saves bytes is set, for a path with this round-trip time: it is the
    /// initial estimate; every packet is acknowledged at once, and the sender does not allow for a delay (ACK frequency); one later
    /// packet proves a loss; connection identifiers are empty; no MTU discovery.
    pub tuned_for: Option<Duration>,
    /// Each client has been connected before, without loss, and sends its first message with its first packet (0-RTT).
    pub resumes: bool,
}

/// Factory of connections.
pub struct Quinn {
    settings: QuinnSettings,
    client: ClientConfig,
    server: Arc<ServerConfig>,
    epoch: Epoch,
}

impl Quinn {
    /// A factory with a certificate of its own.
    #[must_use]
    pub fn new(settings: QuinnSettings) -> Self {
        let (mut client, mut server) = credentials(settings.resumes);
        let transport = Arc::new(transport(settings.tuned_for));
        client.transport_config(Arc::clone(&transport));
        server.transport_config(transport);
        server.time_source(Arc::new(Standstill));
        Quinn { settings, client, server: Arc::new(server), epoch: Epoch::new() }
    }

    /// A client that connects, and its server. The seed decides what the stack draws at random.
    ///
    /// # Panics
    /// If the client's configuration is refused, which is a fault of this file.
    #[must_use]
    pub fn pair(&self, seed: u64) -> [QuinnPeer; 2] {
        if self.settings.resumes {
            meet(self.connect(!seed));
        }
        self.connect(seed)
    }

    fn connect(&self, seed: u64) -> [QuinnPeer; 2] {
        let mut client = self.peer(seed, None);
        let server = self.peer(seed ^ 1 << 63, Some(Arc::clone(&self.server)));
        let at = self.epoch.at(Duration::ZERO);
        let connection = client.endpoint.connect(at, self.client.clone(), ADDRESS, SERVER_NAME);
        client.connection = Some(connection.expect("address and name are sound"));
        [client, server]
    }

    fn peer(&self, seed: u64, server: Option<Arc<ServerConfig>>) -> QuinnPeer {
        let mut config = EndpointConfig::default();
        let mut seed_bytes = [0; 32];
        seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
        config.rng_seed(Some(seed_bytes));
        if self.settings.tuned_for.is_some() {
            config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
        }
        QuinnPeer {
            endpoint: Endpoint::new(Arc::new(config), server, true, None),
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

/// The defaults, or what [`QuinnSettings::tuned_for`] says.
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

/// A client and a server that know each other by a fresh certificate.
fn credentials(resumes: bool) -> (ClientConfig, ServerConfig) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("ring makes such keys");
    let mut parameters = rcgen::CertificateParams::new([SERVER_NAME.to_owned()]).expect("the name is sound");
    // Of one length always; that of a random one varies.
    parameters.serial_number = Some(1_u64.into());
    let certificate = parameters.self_signed(&key).expect("the key is sound");
    let certificate = CertificateDer::from(certificate.der().to_vec());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("the certificate is sound");
    let (provider, time) = (Arc::new(ring::default_provider()), Arc::new(Standstill));
    let versions = [&rustls::version::TLS13];
    let mut client = rustls::ClientConfig::builder_with_details(Arc::clone(&provider), Arc::clone(&time) as Arc<_>)
        .with_protocol_versions(&versions)
        .expect("ring has TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.enable_early_data = resumes;
    let mut server = rustls::ServerConfig::builder_with_details(provider, time)
        .with_protocol_versions(&versions)
        .expect("ring has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .expect("key and certificate match");
    server.max_early_data_size = if resumes { u32::MAX } else { 0 };
    let client = QuicClientConfig::try_from(client).expect("ring has the suite of initial packets");
    let server = QuicServerConfig::try_from(server).expect("ring has the suite of initial packets");
    (ClientConfig::new(Arc::new(client)), ServerConfig::with_crypto(Arc::new(server)))
}

/// A time of day that never changes.
#[derive(Debug)]
struct Standstill;

impl TimeProvider for Standstill {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(TIME_OF_DAY))
    }
}

impl TimeSource for Standstill {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + TIME_OF_DAY
    }
}

/// Lets a pair exchange packets at one instant until none is left: afterwards the client can resume.
fn meet([mut client, mut server]: [QuinnPeer; 2]) {
    let now = Duration::ZERO;
    loop {
        let mut quiet = true;
        while let Some(packet) = client.poll_packet(now) {
            server.handle_packet(now, packet);
            quiet = false;
        }
        while let Some(packet) = server.poll_packet(now) {
            client.handle_packet(now, packet);
            quiet = false;
        }
        if quiet {
            return;
        }
    }
}

/// One QUIC connection and the endpoint that it belongs to.
pub struct QuinnPeer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    carriage: Carriage,
    epoch: Epoch,
    /// The connection tells its next timer only to who may change it.
    deadline: Option<Duration>,
    is_connected: bool,
    error: Option<String>,
    /// What the endpoint itself has to send.
    replies: VecDeque<Bytes>,
    /// The one stream.
    sending: Option<StreamId>,
    readable: VecDeque<StreamId>,
    /// What has come of messages that are not complete.
    partial: BTreeMap<StreamId, BytesMut>,
    received: VecDeque<Bytes>,
}

impl QuinnPeer {
    fn reply(&mut self, transmit: &Transmit, buffer: &[u8]) {
        self.replies.push_back(Bytes::copy_from_slice(&buffer[..transmit.size]));
    }

    /// Carries events between the connection and its endpoint, and takes in what the application must know.
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
        // Whatever that sets free leaves with the next packets.
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

/// The first message of a stream, once it is complete.
fn take_framed(bytes: &mut BytesMut) -> Option<Bytes> {
    let length = bytes.get(..LENGTH_BYTES).map(|mut head| usize::from(head.get_u16()))?;
    if bytes.len() < LENGTH_BYTES + length {
        return None;
    }
    bytes.advance(LENGTH_BYTES);
    Some(bytes.split_to(length).freeze())
}

fn refused(error: &(impl ToString + ?Sized)) -> SendError {
    SendError::Refused(error.to_string())
}

/// Sends on a stream that exists.
fn write(connection: &mut Connection, id: StreamId, payload: Bytes) -> Result<(), SendError> {
    let length = payload.len();
    let written = connection.send_stream(id).write_chunks(&mut [payload]).map_err(|error| refused(&error))?;
    if written.bytes == length { Ok(()) } else { Err(refused("only a part of the message was taken")) }
}

impl Peer for QuinnPeer {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        let (at, mut buffer) = (self.epoch.at(now), Vec::new());
        match self.endpoint.handle(at, ADDRESS, None, None, BytesMut::from(packet), &mut buffer) {
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
        let transmit = connection.poll_transmit(self.epoch.at(now), 1, &mut buffer);
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
                write(connection, id, framed.freeze())
            }
            Carriage::StreamPerMessage => {
                let id = connection.streams().open(Dir::Uni).ok_or(SendError::WouldBlock)?;
                write(connection, id, payload)?;
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
