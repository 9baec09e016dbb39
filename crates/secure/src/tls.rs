//! The TLS 1.3 handshake of one side: rustls, and the handshake bytes of each level in both directions.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::quic::{self, DirectionalKeys, KeyChange, Keys, Version};
use rustls::{ClientConfig, Error, ServerConfig, Side, client};

use crate::error::HandshakeError;
use crate::reassembly::Reassembly;
use crate::sessions::Recall;

/// Handshake bytes that a peer may send at one level: a client's hello with a token and post-quantum keys, or a chain of certificates.
pub(crate) const LEVEL_BYTES_MAX: [usize; 3] = [8 << 10, 32 << 10, 8 << 10];
/// Bytes of a chain of certificates that fit into a handshake.
pub const CHAIN_BYTES_MAX: usize = 30 << 10;
/// Bytes of the protocols of ALPN that fit into a hello, each with a byte for its length.
pub const ALPN_BYTES_MAX: usize = 4 << 10;

/// The keys that protect handshake bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Space {
    Initial = 0,
    Handshake = 1,
    /// Keys of the established connection: session tickets.
    Traffic = 2,
}

/// Keys that became available.
pub(crate) enum NewKeys {
    /// Keys of a resumed session, for one direction. Both members are the same, one to seal and one to open.
    Early(Keys),
    Handshake(Keys),
    Traffic(KeyChange),
}

/// One side's TLS.
pub(crate) struct Tls {
    connection: quic::Connection,
    /// The level at which TLS writes and reads.
    space: Space,
    outgoing: [Vec<u8>; 3],
    incoming: [Reassembly; 3],
    /// Handshake bytes that TLS has processed.
    read_bytes: usize,
    /// The sessions of a client, unless they are left to its settings.
    recall: Option<Arc<Recall>>,
    /// On a server, until its settings suit the hello.
    others: Option<Box<Others>>,
}

/// A server's other settings, for clients that want other kinds of keys.
struct Others {
    configs: Arc<[Arc<ServerConfig>]>,
    tried: usize,
    parameters: Vec<u8>,
    /// The hello as far as it was received.
    hello: Vec<u8>,
}

impl Others {
    /// The next settings, at the beginning of the handshake.
    fn next(&mut self) -> Option<quic::Connection> {
        let config = Arc::clone(self.configs.get(self.tried)?);
        self.tried += 1;
        quic::ServerConnection::new(config, Version::V1, self.parameters.clone()).ok().map(quic::Connection::Server)
    }
}

/// Whether the certificate resolver of a server's settings has returned nothing.
fn wants_other_keys(error: &Error) -> bool {
    matches!(error, Error::General(problem) if problem == "no server certificate chain resolved")
}

impl Tls {
    /// A client, whose hello is written already.
    pub(crate) fn client(
        config: &Arc<ClientConfig>,
        server_name: ServerName<'static>,
        parameters: Vec<u8>,
        recall: Option<Recall>,
    ) -> Result<(Self, Vec<NewKeys>), HandshakeError> {
        if config.alpn_protocols.iter().map(|protocol| protocol.len() + 1).sum::<usize>() > ALPN_BYTES_MAX {
            return Err(HandshakeError::Settings);
        }
        let (mut config, recall) = (Arc::clone(config), recall.map(Arc::new));
        if let Some(recall) = &recall {
            let store: Arc<Recall> = Arc::clone(recall);
            Arc::make_mut(&mut config).resumption = client::Resumption::store(store);
        }
        let client = quic::ClientConnection::new(config, Version::V1, server_name, parameters)?;
        let mut tls = Self { recall, ..Self::new(quic::Connection::Client(client)) };
        let keys = tls.write();
        if tls.is_too_long() {
            return Err(HandshakeError::Settings);
        }
        Ok((tls, keys))
    }

    /// A server. `configs` are its settings, and others that are tried in turn if the client wants keys of another kind.
    pub(crate) fn server(
        (config, configs): (&Arc<ServerConfig>, &Arc<[Arc<ServerConfig>]>),
        parameters: Vec<u8>,
    ) -> Result<Self, HandshakeError> {
        let server = quic::ServerConnection::new(Arc::clone(config), Version::V1, parameters.clone())?;
        let others = Others { configs: Arc::clone(configs), tried: 0, parameters, hello: Vec::new() };
        let others = (!configs.is_empty()).then(|| Box::new(others));
        Ok(Self { others, ..Self::new(quic::Connection::Server(server)) })
    }

    fn new(connection: quic::Connection) -> Self {
        let incoming = LEVEL_BYTES_MAX.map(Reassembly::new);
        let outgoing = [const { Vec::new() }; 3];
        Self { connection, space: Space::Initial, outgoing, incoming, read_bytes: 0, recall: None, others: None }
    }

    pub(crate) fn side(&self) -> Side {
        match self.connection {
            quic::Connection::Client(_) => Side::Client,
            quic::Connection::Server(_) => Side::Server,
        }
    }

    /// Processes handshake bytes. Bytes of a level that TLS does not read now are kept or ignored, never read out of order.
    ///
    /// # Errors
    /// The handshake failed.
    pub(crate) fn insert(&mut self, space: Space, offset: u16, bytes: &[u8]) -> Result<Vec<NewKeys>, HandshakeError> {
        // The peer is done with levels below; a server reads nothing at the last one.
        if space < self.space || (space == Space::Traffic && self.side() == Side::Server) {
            return Ok(Vec::new());
        }
        self.incoming[space as usize].insert(usize::from(offset), bytes).map_err(|_| HandshakeError::TooLong)?;
        let mut keys = Vec::new();
        loop {
            let ready = self.incoming[self.space as usize].read();
            if ready.is_empty() || (self.space == Space::Traffic && self.connection.is_handshaking()) {
                return Ok(keys);
            }
            self.read_bytes += ready.len();
            // These bytes are tickets, of a server that is authenticated.
            if self.space == Space::Traffic
                && let (Some(recall), Some(chain)) = (&self.recall, self.connection.peer_certificates())
            {
                recall.authenticated(chain);
            }
            let mut result = self.connection.read_hs(ready);
            if let Some(others) = &mut self.others {
                others.hello.extend_from_slice(ready);
                while result.as_ref().is_err_and(wants_other_keys)
                    && let Some(connection) = others.next()
                {
                    self.connection = connection;
                    result = self.connection.read_hs(&others.hello);
                }
            }
            if let Err(error) = result {
                return Err(HandshakeError::Tls { alert: self.connection.alert().map(u8::from), error });
            }
            if self.side() == Side::Server && !self.connection.is_handshaking() {
                self.space = Space::Traffic;
            }
            keys.extend(self.write());
            if self.is_too_long() {
                return Err(HandshakeError::TooLong);
            }
        }
    }

    /// Returns whether the peer takes less than this side has to send.
    fn is_too_long(&self) -> bool {
        self.outgoing.iter().zip(LEVEL_BYTES_MAX).any(|(bytes, max)| bytes.len() > max)
    }

    /// Takes the bytes that TLS has to send, and its new keys.
    fn write(&mut self) -> Vec<NewKeys> {
        let mut keys = Vec::new();
        if self.space == Space::Initial
            && let (Some(local), Some(remote)) = (self.early_keys(), self.early_keys())
        {
            keys.push(NewKeys::Early(Keys { local, remote }));
        }
        loop {
            let outgoing = &mut self.outgoing[self.space as usize];
            let before = outgoing.len();
            let change = self.connection.write_hs(outgoing);
            match change {
                Some(KeyChange::Handshake { keys: handshake }) => {
                    self.space = Space::Handshake;
                    keys.push(NewKeys::Handshake(handshake));
                }
                // A server still reads the client's Finished with the keys of the handshake.
                Some(change @ KeyChange::OneRtt { .. }) => {
                    if self.side() == Side::Client {
                        self.space = Space::Traffic;
                    }
                    keys.push(NewKeys::Traffic(change));
                }
                None if outgoing.len() == before => break,
                None => {}
            }
        }
        if !self.outgoing(Space::Initial).is_empty() {
            self.others = None;
        }
        keys
    }

    fn early_keys(&self) -> Option<DirectionalKeys> {
        self.connection.zero_rtt_keys()
    }

    /// Handshake bytes to send at a level, from the first one on.
    pub(crate) fn outgoing(&self, space: Space) -> &[u8] {
        &self.outgoing[space as usize]
    }

    /// Number of handshake bytes that TLS has processed, of all levels.
    pub(crate) fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    /// Number of handshake bytes of a level that were received in order.
    pub(crate) fn received(&self, space: Space) -> u16 {
        u16::try_from(self.incoming[space as usize].read_bytes()).unwrap_or(u16::MAX)
    }

    /// Frees handshake bytes of a level that are not sent again.
    pub(crate) fn forget(&mut self, space: Space) {
        self.outgoing[space as usize] = Vec::new();
        self.incoming[space as usize] = Reassembly::new(0);
    }

    /// The peer's parameters, once its hello was read.
    pub(crate) fn peer_parameters(&self) -> Option<&[u8]> {
        self.connection.quic_transport_parameters()
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    pub(crate) fn connection(&self) -> &quic::Connection {
        &self.connection
    }
}
