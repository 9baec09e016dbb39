//! The TLS 1.3 handshake of one side: rustls, and the handshake bytes of each level in both directions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::quic::{self, DirectionalKeys, KeyChange, Keys, Version};
use rustls::{ClientConfig, Error, InvalidMessage, ServerConfig, Side, client};

use crate::bounds::{CHAIN_BYTES_MAX, CHAIN_LENGTH_MAX};
use crate::error::HandshakeError;
use crate::messages::{ClientHello, chain_bytes, chain_length, is_complete, may_be_hello, split_message};
use crate::reassembly::Reassembly;
use crate::sessions::Recall;

/// Handshake bytes that a peer may send at one level: a client's hello with a token and post-quantum keys, or a chain of certificates.
pub(crate) const LEVEL_BYTES_MAX: [usize; 3] = [8 << 10, 32 << 10, 8 << 10];
/// Bytes that frame the certificates in their message (RFC 8446 §4.4.2). Extensions of certificates count as bytes of the chain.
const CHAIN_FRAME_BYTES: usize = 1 + 3 + CHAIN_LENGTH_MAX * (3 + 2);
/// Bytes of the protocols of ALPN that fit into a hello, each with a byte for its length.
pub const ALPN_BYTES_MAX: usize = 4 << 10;
/// The alert `decode_error` (RFC 8446 §6.2).
const DECODE_ERROR: u8 = 50;

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
    /// Messages with the keys of the handshake that are not complete.
    unfinished: Vec<u8>,
    /// On a server, until TLS has answered.
    pending: Option<Box<Pending>>,
    /// On a server, once its client's hello is there.
    offer: Option<Box<Offer>>,
}

/// A server's handshake that TLS has not begun. The hello waits for the decision to admit the client, since the answer costs a signature.
struct Pending {
    config: Arc<ServerConfig>,
    /// Other settings, for clients that want other kinds of keys.
    others: Arc<[Arc<ServerConfig>]>,
    tried: usize,
    parameters: Vec<u8>,
    /// The hello as far as it was received.
    hello: Vec<u8>,
}

/// A client's offer, read before TLS.
#[derive(Debug)]
pub(crate) struct Offer {
    /// The blob of parameters.
    pub(crate) parameters: Vec<u8>,
    pub(crate) server_name: Option<String>,
    /// The protocol that ALPN will choose.
    pub(crate) alpn: Option<Vec<u8>>,
}

impl Pending {
    /// Reads the hello once it is complete.
    fn offer(&self) -> Result<Option<Offer>, HandshakeError> {
        if may_be_hello(&self.hello) && !is_complete(&self.hello) {
            return Ok(None);
        }
        let malformed = || HandshakeError::Tls {
            error: Error::InvalidMessage(InvalidMessage::MissingData("ClientHello")),
            alert: Some(DECODE_ERROR),
        };
        let hello = ClientHello::read(&self.hello).ok_or_else(malformed)?;
        Ok(Some(Offer {
            parameters: hello.parameters.ok_or(HandshakeError::Parameters)?.to_vec(),
            server_name: hello.server_name.and_then(|name| match ServerName::try_from(name) {
                Ok(ServerName::DnsName(name)) => Some(name.as_ref().to_ascii_lowercase()),
                _ => None,
            }),
            alpn: hello.choose_protocol(&self.config.alpn_protocols),
        }))
    }

    /// The next settings, at the beginning of the handshake.
    fn next(&mut self) -> Option<quic::Connection> {
        let config = Arc::clone(self.others.get(self.tried)?);
        self.tried += 1;
        quic::ServerConnection::new(config, Version::V1, self.parameters.clone()).ok().map(quic::Connection::Server)
    }
}

/// Whether the certificate resolver of a server's settings has returned nothing.
fn wants_other_keys(error: &Error) -> bool {
    matches!(error, Error::General(problem) if problem == "no server certificate chain resolved")
}

/// Has TLS read bytes. It calls functions of the program, such as verifiers and key logs, and a panic in one of them fails this handshake only.
fn guarded(read: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let panicked = |_| Err(Error::General("a function of the program panicked".to_owned()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked)
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

    /// A server. `others` are settings that are tried in turn if the client wants keys of another kind.
    pub(crate) fn server(
        (config, others): (&Arc<ServerConfig>, &Arc<[Arc<ServerConfig>]>),
        parameters: Vec<u8>,
    ) -> Result<Self, HandshakeError> {
        let server = quic::ServerConnection::new(Arc::clone(config), Version::V1, parameters.clone())?;
        let (config, others) = (Arc::clone(config), Arc::clone(others));
        let pending = Pending { config, others, tried: 0, parameters, hello: Vec::new() };
        Ok(Self { pending: Some(Box::new(pending)), ..Self::new(quic::Connection::Server(server)) })
    }

    fn new(connection: quic::Connection) -> Self {
        Self {
            connection,
            space: Space::Initial,
            outgoing: [const { Vec::new() }; 3],
            incoming: LEVEL_BYTES_MAX.map(Reassembly::new),
            read_bytes: 0,
            recall: None,
            unfinished: Vec::new(),
            pending: None,
            offer: None,
        }
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
            let ready = self.incoming[self.space as usize].read().to_vec();
            if ready.is_empty() || (self.space == Space::Traffic && self.connection.is_handshaking()) {
                return Ok(keys);
            }
            if let Some(pending) = &mut self.pending {
                pending.hello.extend_from_slice(&ready);
                if self.offer.is_none() {
                    self.offer = pending.offer()?.map(Box::new);
                }
                return Ok(keys);
            }
            if self.space == Space::Handshake {
                self.check_chain(&ready)?;
            }
            self.read_bytes += ready.len();
            // These bytes are tickets, of a server that is authenticated.
            if self.space == Space::Traffic
                && let (Some(recall), Some(chain)) = (&self.recall, self.connection.peer_certificates())
            {
                recall.authenticated(chain);
            }
            let result = guarded(|| self.connection.read_hs(&ready));
            keys.extend(self.finish_read(result)?);
        }
    }

    /// Has TLS read the client's hello and answer it, on a server that admits the client.
    ///
    /// # Errors
    /// The handshake failed.
    pub(crate) fn read_hello(&mut self) -> Result<Vec<NewKeys>, HandshakeError> {
        let Some(mut pending) = self.pending.take() else { return Ok(Vec::new()) };
        self.read_bytes += pending.hello.len();
        let mut result = guarded(|| self.connection.read_hs(&pending.hello));
        while result.as_ref().is_err_and(wants_other_keys)
            && let Some(connection) = pending.next()
        {
            self.connection = connection;
            result = guarded(|| self.connection.read_hs(&pending.hello));
        }
        self.finish_read(result)
    }

    fn finish_read(&mut self, result: Result<(), Error>) -> Result<Vec<NewKeys>, HandshakeError> {
        if let Err(error) = result {
            return Err(HandshakeError::Tls { alert: self.connection.alert().map(u8::from), error });
        }
        // A second hello (RFC 8446 §4.1.4) must not ask for anything but the one that was admitted.
        if let (Some(offer), quic::Connection::Server(server)) = (&self.offer, &self.connection)
            && let Some(parameters) = server.quic_transport_parameters()
            && (parameters, server.server_name()) != (&offer.parameters[..], offer.server_name.as_deref())
        {
            return Err(HandshakeError::Parameters);
        }
        if self.side() == Side::Server && !self.connection.is_handshaking() {
            self.space = Space::Traffic;
        }
        let keys = self.write();
        if self.is_too_long() { Err(HandshakeError::TooLong) } else { Ok(keys) }
    }

    /// Refuses a chain of certificates that is too long, before TLS verifies it.
    fn check_chain(&mut self, ready: &[u8]) -> Result<(), HandshakeError> {
        self.unfinished.extend_from_slice(ready);
        let has_too_many_bytes =
            |rest: &[u8]| chain_bytes(rest).is_some_and(|bytes| bytes > CHAIN_BYTES_MAX + CHAIN_FRAME_BYTES);
        let mut rest = &self.unfinished[..];
        let mut is_too_long = has_too_many_bytes(rest);
        while let Some(message) = split_message(&mut rest) {
            is_too_long |= chain_length(message).is_some_and(|certificates| certificates > CHAIN_LENGTH_MAX);
            is_too_long |= has_too_many_bytes(rest);
        }
        let read = self.unfinished.len() - rest.len();
        self.unfinished.drain(..read);
        if is_too_long { Err(HandshakeError::TooLong) } else { Ok(()) }
    }

    /// A client's offer that waits for a decision, or was admitted.
    pub(crate) fn offer(&self) -> Option<&Offer> {
        self.offer.as_deref()
    }

    /// Whether a server's TLS has not read the hello.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
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
