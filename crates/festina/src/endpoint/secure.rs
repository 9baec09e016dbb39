//! The encrypted side of an endpoint: how associations begin, and what belongs to one.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use festina_endpoint::{Core, Secure};
use festina_sctp::{self as sctp, PathKnowledge, Ports};
use festina_secure::parameters::TOKEN_BYTES_MAX;
use festina_secure::wire::ConnectionId;
use festina_secure::{Connect, FULL, HalfOpenLimits, HandshakeError, Listener, NO_SUCH_PORT, SecureAssociation};
use festina_units::{Duration, Instant};
use rustls::pki_types::ServerName;

use super::lock;
use super::options::ConnectOptions;
use crate::address::certified;
use crate::error::{BindError, ConnectError};
use crate::security::{ClientTls, SecurityError, SecurityFailure, ServerTls, platform};

/// The TLS settings of an encrypted endpoint.
#[derive(Debug)]
pub(super) struct SecureSide {
    /// Only on an endpoint that may connect.
    client: Option<ClientTls>,
    /// Taken by the driver, which runs all handshakes of strangers without a lock.
    listener: Mutex<Option<Listener>>,
    /// For the handshakes.
    site_secret: [u8; 16],
    pub(super) plain_clients: bool,
    /// Handshakes whose requests the application has decided on.
    pub(super) decided: Mutex<Vec<ConnectionId>>,
    /// A listener has ended, and the driver has not looked for its requests since.
    pub(super) is_withdrawn: AtomicBool,
    /// The first of several addresses, until the driver knows that it was replaced.
    pub(super) readdressed: Mutex<Option<Arc<sctp::Context>>>,
}

impl SecureSide {
    pub(super) fn new(
        context: &Arc<sctp::Context>,
        (client, server): (Option<ClientTls>, ServerTls),
        (secret, site_secret, local): ([u8; 32], [u8; 16], SocketAddr),
    ) -> Result<Self, BindError> {
        let ServerTls { configs, plain_clients, identity } = server;
        let mut servers = configs.into_iter();
        let listener = servers.next().map(|server| {
            let listener = Listener::new(context, server, secret, HalfOpenLimits::default())?;
            let listener = listener.with_other_keys(servers);
            let resets = identity.and_then(|identity| identity.reset_key(local));
            Ok(match resets {
                Some(key) => listener.with_resets(key),
                None => listener,
            })
        });
        let listener: Option<_> = listener
            .transpose()
            .map_err(|error: HandshakeError| SecurityError::Settings(SecurityFailure::of(&error).to_string()))?;
        let (listener, decided, is_withdrawn) = (Mutex::new(listener), Mutex::default(), AtomicBool::new(false));
        Ok(Self { client, listener, site_secret, plain_clients, decided, is_withdrawn, readdressed: Mutex::default() })
    }

    /// Whether the next [`connect`](Self::connect) reads the roots of the operating system.
    pub(super) fn lacks_platform_roots(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.needs_platform_roots) && !platform::are_read()
    }

    pub(super) fn take_listener(&self) -> Option<Listener> {
        lock(&self.listener).take()
    }

    /// Spreads the sites of strangers over shares of CPU time.
    pub(super) fn site_secret(&self) -> [u8; 16] {
        self.site_secret
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
        let no_client = "the endpoint is a server; to connect as well, its settings need ServerSecurity::with_client";
        let ClientTls { config: tls, resumption, needs_platform_roots } =
            self.client.as_ref().ok_or_else(|| unusable(no_client.to_owned()))?;
        if *needs_platform_roots {
            platform::roots().map_err(unusable)?;
        }
        if options.token.len() > TOKEN_BYTES_MAX {
            return Err(unusable(format!(
                "the token has {} bytes, but at most {TOKEN_BYTES_MAX} are allowed",
                options.token.len()
            )));
        }
        let server_name = match &options.server_name {
            Some(name) => ServerName::try_from(certified(name))
                .map_err(|_| unusable(format!("{name:?} is neither a host name nor an IP address")))?,
            None => ServerName::from(remote.ip().to_canonical()),
        };
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| unusable(format!("there are no random numbers: {error}")))?;
        let resumption = resumption.as_ref();
        let request = Connect { tls, resumption, server_name, remote, ports, token: &options.token, random, known };
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
