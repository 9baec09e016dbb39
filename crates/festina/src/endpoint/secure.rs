//! The encrypted side of an endpoint: how associations begin, and what belongs to one.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use festina_endpoint::demux::Side;
use festina_endpoint::{Channel, Core, Key, Protocols, Request, Secure, Verdict};
use festina_sctp::{self as sctp, Message, PathKnowledge, Ports};
use festina_secure::parameters::TOKEN_BYTES_MAX;
use festina_secure::wire::ConnectionId;
use festina_secure::{
    Connect, FULL, HalfOpenLimits, HandshakeError, Listener, NO_SUCH_PORT, REFUSED, SecureAssociation,
};
use festina_units::{Duration, Instant};
use rustls::pki_types::ServerName;

use super::accept::{AcceptQueue, Place};
use super::options::{Answer, ConnectOptions};
use super::requests::Held;
use super::shared::{Shared, warn_of};
use super::{Inner, lock};
use crate::address::certified;
use crate::association::Association;
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
    plain_clients: bool,
    /// Handshakes whose requests the application has decided on.
    decided: Mutex<Vec<ConnectionId>>,
    /// A listener has ended, and the driver has not looked for its requests since.
    is_withdrawn: AtomicBool,
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
        Ok(Self { client, listener, site_secret, plain_clients, decided, is_withdrawn })
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
                .map_err(|_| unusable(format!("{name} is neither a host name nor an IP address")))?,
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

impl Shared {
    /// Whether the next connection reads the roots of the operating system.
    pub(super) fn lacks_platform_roots(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.lacks_platform_roots())
    }

    /// Whether the endpoint encrypts all its associations.
    pub(super) fn is_encrypted(&self) -> bool {
        self.secure.is_some()
    }

    /// The protocols of the endpoint's packets.
    pub(super) fn protocols(&self) -> Protocols {
        match &self.secure {
            None => Protocols::Plain,
            Some(secure) if secure.plain_clients => Protocols::Both,
            Some(_) => Protocols::Encrypted,
        }
    }

    /// Decides on a client's request for an SCTP port. The application's code runs without any lock.
    pub(super) fn judge(&self, request: &Request, port: u16) -> Verdict {
        let queue = match self.queue_with_room(request.remote.ip(), port) {
            Ok(queue) => queue,
            Err(verdict) => return verdict,
        };
        match queue.options.answer(request) {
            Answer::Accept if queue.options.holds() => Verdict::Hold,
            Answer::Accept => Verdict::Admit,
            Answer::Refuse => Verdict::Refuse(REFUSED),
            Answer::Ignore => Verdict::Ignore,
        }
    }

    /// Decides on a request that the application has accepted: the limits may have been reached while it waited.
    pub(super) fn judge_accepted(&self, request: &Request, port: u16) -> Verdict {
        self.queue_with_room(request.remote.ip(), port).map_or_else(|verdict| verdict, |_| Verdict::Admit)
    }

    /// Keeps a place in the accept queue for a client that was admitted. `None` if the queue is closed or full. For clients that have not proved
    /// their addresses it is full when half of it is taken, because hellos in others' names could take all places.
    pub(super) fn keep_place(&self, port: u16, is_address_proved: bool) -> Option<Place> {
        let queue = lock(&self.accepting).queue(port).cloned();
        Place::keep(queue?, if is_address_proved { 1 } else { 2 })
    }

    fn queue_with_room(&self, peer: IpAddr, port: u16) -> Result<Arc<AcceptQueue>, Verdict> {
        let queue = lock(&self.accepting).queue(port).cloned();
        let queue = queue.ok_or(Verdict::Refuse(NO_SUCH_PORT))?;
        if self.is_full(&queue) {
            return Err(Verdict::Full);
        }
        if !self.admits(peer) {
            return Err(Verdict::Refuse(FULL));
        }
        Ok(queue)
    }

    /// Leaves a request to the application. `None` if too many wait.
    pub(super) fn hold(self: &Arc<Self>, id: ConnectionId, request: Request, port: u16) -> Option<Arc<Held>> {
        let queue = lock(&self.accepting).queue(port).cloned();
        let held = queue?.hold(id, request, self);
        if held.is_none() {
            warn_of(
                &self.counters.accept_queue_overflows,
                "too many requests wait for a decision: one is left to be repeated",
            );
        }
        held
    }

    /// The application has decided on a request: its handshake goes on.
    pub(super) fn note_decision(&self, id: ConnectionId) {
        if let Some(secure) = &self.secure {
            lock(&secure.decided).push(id);
            self.wake_driver();
        }
    }

    /// A listener has ended: its requests are to be refused.
    pub(super) fn note_withdrawal(&self) {
        if let Some(secure) = &self.secure {
            secure.is_withdrawn.store(true, Ordering::Release);
            self.wake_driver();
        }
    }

    /// Whether a listener has ended since the last call.
    pub(super) fn take_withdrawal(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.is_withdrawn.swap(false, Ordering::AcqRel))
    }

    /// The handshakes whose requests were decided on since the last call.
    pub(super) fn take_decided(&self, decided: &mut VecDeque<ConnectionId>) {
        if let Some(secure) = &self.secure {
            decided.extend(lock(&secure.decided).drain(..));
        }
    }

    /// Hands an early message to the listener's handler, or returns it if there is none.
    pub(super) fn offer_early(&self, request: &Request, port: u16, message: Message) -> Option<Message> {
        let queue = lock(&self.accepting).queue(port).cloned();
        queue?.options.take_early(request, message)
    }

    /// Adds a protected association whose client is authenticated, to the queue in which it has a place.
    pub(super) fn adopt_protected(self: &Arc<Self>, secure: Box<Secure>, (port, place): (u16, &Place)) {
        let core = Core::Secure(secure);
        let (key, origin) = (core.key(), core.origin());
        let inner = Inner::new(self.clone(), self.next_id(), core, None);
        let queue = lock(&self.accepting).queue(port).filter(|queue| place.is_in(queue)).cloned();
        let Some(queue) = queue else { return inner.abort(b"nothing listens any more") };
        let inserted = lock(&self.demux).insert(key, origin, &inner, Side::Peer);
        match inserted {
            Ok(()) => {
                let association = Association::new(inner);
                association.inner().start(None);
                queue.associations.push(association);
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
