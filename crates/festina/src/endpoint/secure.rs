//! The encrypted side of an endpoint: how associations begin, and what belongs to one.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use festina_sctp::{self as sctp, Message, PathKnowledge, Ports};
use festina_secure::wire::{destination_id, destination_id_of_any_version};
use festina_secure::{
    Connect, FULL, HalfOpenLimits, HandshakeError, Listener, NO_SUCH_PORT, OVERHEAD_BYTES, REFUSED, SecureAssociation,
};
use festina_units::{Duration, Instant};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::demux::{Key, Side};
use super::options::{Answer, ConnectOptions, Request};
use super::shared::{Shared, warn_of};
use super::{Inner, lock};
use crate::association::{Association, Core, Secure};
use crate::config::Config;
use crate::error::{BindError, ConnectError};
use crate::security::{SecurityError, SecurityFailure, TlsSettings};

/// The smallest packet limit of the core.
const PACKET_BYTES_MIN: usize = 384;

/// Advice for an endpoint without a trust.
const NO_TRUST: &str = "no trust in servers is set (Security::with_server_trust); plain SCTP begins with Config::plain";

/// The TLS settings of an encrypted endpoint.
#[derive(Debug)]
pub(super) struct SecureSide {
    client: Option<Arc<ClientConfig>>,
    /// Taken by the driver, which runs all handshakes of strangers without a lock.
    listener: Mutex<Option<Listener>>,
    can_listen: bool,
}

/// What becomes of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Admit,
    /// A close frame with this code.
    Refuse(u16),
    /// No answer: the client may ask again.
    Ignore,
}

/// The settings of the core: room is left for the overhead of protected packets.
pub(super) fn core_config(config: Config) -> sctp::Config {
    let is_encrypted = config.security().is_some();
    let mut core = config.into_core();
    if is_encrypted && core.limits.packet_bytes_max >= PACKET_BYTES_MIN {
        let bytes = core.limits.packet_bytes_max - OVERHEAD_BYTES;
        core.limits.packet_bytes_max = bytes.max(PACKET_BYTES_MIN);
    }
    core
}

impl SecureSide {
    pub(super) fn new(
        context: &Arc<sctp::Context>,
        TlsSettings { client, server }: TlsSettings,
        secret: [u8; 32],
    ) -> Result<Self, BindError> {
        let listener = server.map(|server| Listener::new(context, server, secret, HalfOpenLimits::default()));
        let listener = listener.transpose().map_err(|error| SecurityError::Settings(error.to_string()))?;
        let can_listen = listener.is_some();
        Ok(Self { client, listener: Mutex::new(listener), can_listen })
    }

    pub(super) fn can_listen(&self) -> bool {
        self.can_listen
    }

    pub(super) fn take_listener(&self) -> Option<Listener> {
        lock(&self.listener).take()
    }

    /// Begins an association with a server.
    pub(super) fn connect(
        &self,
        now: Instant,
        context: &Arc<sctp::Context>,
        (remote, ports): (SocketAddr, Ports),
        options: &ConnectOptions,
        known: Option<&PathKnowledge>,
    ) -> Result<Core, SecurityFailure> {
        let unusable = |problem: String| SecurityFailure::Settings(problem);
        let tls = self.client.as_ref().ok_or_else(|| unusable(NO_TRUST.to_owned()))?;
        let server_name = match &options.server_name {
            Some(name) => ServerName::try_from(name.clone())
                .map_err(|_| unusable(format!("{name} is neither a host name nor an IP address")))?,
            None => ServerName::from(remote.ip().to_canonical()),
        };
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| unusable(format!("there are no random numbers: {error}")))?;
        let request = Connect { tls, server_name, remote, ports, token: &options.token, random, known };
        let mut association =
            SecureAssociation::connect(now, context, request).map_err(|error| SecurityFailure::of(&error))?;
        for message in &options.early {
            if let Err(message) = association.send_early(message.clone()) {
                let sent = association.send(now, message);
                sent.map_err(|error| unusable(format!("an early message cannot be sent: {error}")))?;
            }
        }
        let secure = Secure::new(association, None, VecDeque::new());
        Ok(Core::Secure(Box::new(secure.expect("a client's association is never half-open"))))
    }
}

/// Why an association did not come up, by the error of its channel.
pub(super) fn connect_error(
    error: &HandshakeError,
    remote: SocketAddr,
    options: &ConnectOptions,
    after: Duration,
) -> ConnectError {
    match error {
        HandshakeError::Refused(NO_SUCH_PORT) => ConnectError::NotListening { remote, port: options.peer_port },
        HandshakeError::Refused(FULL) => ConnectError::PeerFull { remote },
        HandshakeError::NoAnswer(None) => ConnectError::Timeout { remote, after },
        error => ConnectError::Security { remote, failure: SecurityFailure::of(error) },
    }
}

impl Shared {
    /// Whether the endpoint encrypts all its associations.
    pub(super) fn is_encrypted(&self) -> bool {
        self.secure.is_some()
    }

    /// The association that has the connection ID of a protected packet.
    pub(super) fn find_protected(&self, packet: &[u8]) -> Option<Arc<Inner>> {
        let id = destination_id(packet).ok().or_else(|| destination_id_of_any_version(packet))?;
        lock(&self.demux).find_by_id(id).cloned()
    }

    /// The association whose hello may be answered by a packet in another protocol.
    pub(super) fn find_by_remote(&self, remote: SocketAddr) -> Option<Arc<Inner>> {
        lock(&self.demux).find_by_remote(remote).cloned()
    }

    /// Decides on a client's request for an SCTP port. The application's code runs without any lock.
    pub(super) fn judge(&self, request: &Request, port: u16) -> Verdict {
        let queue = lock(&self.accepting).queue(port).cloned();
        let Some(queue) = queue else { return Verdict::Refuse(NO_SUCH_PORT) };
        if queue.is_full() {
            warn_of(
                &self.counters.accept_queue_overflows,
                "the accept queue is full: a handshake is left to be repeated",
            );
            return Verdict::Ignore;
        }
        match queue.options.answer_request(request) {
            Answer::Accept => {}
            Answer::Refuse => return Verdict::Refuse(REFUSED),
            Answer::Ignore => return Verdict::Ignore,
        }
        if !lock(&self.demux).admits(request.remote.ip()) {
            warn_of(&self.counters.associations_refused, "too many associations: a peer is refused");
            return Verdict::Refuse(FULL);
        }
        Verdict::Admit
    }

    /// Hands an early message to the listener's handler, or returns it if there is none.
    pub(super) fn offer_early(&self, request: &Request, port: u16, message: Message) -> Option<Message> {
        let queue = lock(&self.accepting).queue(port).cloned();
        queue?.options.take_early(request, message)
    }

    /// Adds a protected association whose client is authenticated.
    pub(super) fn adopt_protected(self: &Arc<Self>, secure: Secure, port: u16, source: Option<IpAddr>) {
        let core = Core::Secure(Box::new(secure));
        let (key, original) = (core.key(), core.original_id());
        let inner = Inner::new(self.clone(), self.next_id(), core, source);
        let queue = lock(&self.accepting).queue(port).cloned();
        let Some(queue) = queue else { return inner.abort(b"nothing listens any more") };
        let inserted = lock(&self.demux).insert(key, original, &inner, Side::Peer);
        match inserted {
            Ok(()) => {
                let association = Association::new(inner);
                association.inner().start(None);
                queue.push(association);
            }
            Err(_) => inner.abort(b"there is no room for another association"),
        }
    }

    /// Keeps an association that is over in the endpoint, to answer a peer that has missed the end. Returns `false` if that cannot be.
    pub(crate) fn linger(&self, now: Instant, key: Key, learned: Option<PathKnowledge>) -> bool {
        let mut demux = lock(&self.demux);
        let is_own = demux.side(key) == Some(Side::Own);
        let stays = demux.linger(key);
        let last = demux.is_empty();
        drop(demux);
        if stays {
            self.note_end(now, key, learned.filter(|_| is_own), last);
        }
        stays
    }
}
