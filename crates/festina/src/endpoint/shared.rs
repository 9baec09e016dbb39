//! What the handles of an endpoint, its driver and its associations share.

mod protected;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use festina_endpoint::demux::{Refusal, Side};
use festina_endpoint::destinations::Destinations;
use festina_endpoint::{Core, Demux, Key, Origin, Plain};
use festina_sctp::{self as sctp, PathKnowledge, Ports};
use festina_units::Instant;

use super::accept::{AcceptQueue, Accepting};
use super::alarm::Bell;
use super::lock;
use super::options::{ConnectOptions, EndpointStats, ListenOptions};
use super::refusals::Refusal as SendRefusal;
use super::secure::SecureSide;
use super::socket::{Socket, SocketCounters};
use super::timers::Timers;
use super::tray::Tray;
use crate::association::{Association, Inner, Waiters};
use crate::clock;
use crate::config::EndpointConfig;
use crate::error::{BindError, ConnectError, ListenError};
use crate::recovery::Profile;
use crate::runtime::Runtime;
use crate::security::{ClientSecurity, SecurityFailure, ServerSecurity};

/// Local SCTP ports that [`Shared::connect`] chooses from.
const FIRST_EPHEMERAL_PORT: u16 = 32_768;

/// One endpoint. Its locks are leaves: while one of them is held, no other lock is taken. The exception is `accepting`, which may be held while
/// `demux` is taken.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) socket: Socket,
    pub(crate) tray: Tray,
    context: Arc<sctp::Context>,
    /// Only on an encrypted endpoint.
    pub(super) secure: Option<Box<SecureSide>>,
    pub(crate) timers: Timers,
    pub(super) demux: Mutex<Demux<Arc<Inner>>>,
    pub(super) accepting: Mutex<Accepting>,
    pub(super) destinations: Mutex<Destinations>,
    backlog: Mutex<Backlog>,
    /// Endpoint and listener handles.
    handles: AtomicUsize,
    closing: AtomicBool,
    /// The driver has ended.
    gone: AtomicBool,
    numbers: Numbers,
    pub(super) counters: Counters,
}

/// Numbers that differ from association to association.
#[derive(Debug)]
struct Numbers {
    next_id: AtomicU64,
    /// Where the nonces begin: drawn at random.
    first_nonce: u64,
}

impl Numbers {
    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn nonce(&self, id: u64) -> u64 {
        self.first_nonce.wrapping_add(id)
    }
}

/// Counts hits of a limit. Logs the first, second, fourth and so on, so that peers cannot flood the log.
pub(super) fn warn_of(counter: &AtomicU64, message: &'static str) {
    let times = counter.fetch_add(1, Ordering::Relaxed) + 1;
    if times.is_power_of_two() {
        tracing::warn!(times, "{message}");
    }
}

/// Relaxed atomics: each is a statistic by itself.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) packets_received: AtomicU64,
    pub(super) bytes_received: AtomicU64,
    pub(super) packets_dropped: AtomicU64,
    pub(super) congestion_marked: AtomicU64,
    pub(super) strays_shed: AtomicU64,
    pub(super) inits_sifted: AtomicU64,
    pub(super) receive_errors: AtomicU64,
    pub(super) accept_queue_overflows: AtomicU64,
    pub(super) associations_refused: AtomicU64,
}

/// Associations with something left to send, and the driver that takes care of them.
#[derive(Debug, Default)]
struct Backlog {
    associations: Vec<Arc<Inner>>,
    driver: Option<Waker>,
    /// Tasks that wait until the socket is closed.
    closed: Waiters,
}

impl Shared {
    pub(super) fn new(
        runtime: Arc<dyn Runtime>,
        socket: Socket,
        config: &EndpointConfig,
    ) -> Result<(Arc<Self>, Bell), BindError> {
        let (mut secret, mut first_nonce, mut proof_secret, mut site_secret) = ([0; 16], [0; 8], [0; 32], [0; 16]);
        let no_randomness = |error: getrandom::Error| BindError::Randomness(std::io::Error::other(error.to_string()));
        getrandom::fill(&mut secret).map_err(no_randomness)?;
        getrandom::fill(&mut first_nonce).map_err(no_randomness)?;
        let client = config.client.as_ref().map(ClientSecurity::build).transpose()?;
        let server = config.server.as_ref().map(ServerSecurity::build).transpose()?.unwrap_or_default();
        let core = config.core(socket.local_addr());
        let multihoming = config.multihoming(&socket.addresses());
        let with = |core, secret| -> Result<_, BindError> {
            Ok(match &multihoming {
                Some(multihoming) => sctp::Context::multihomed(core, secret, multihoming.clone())?,
                None => sctp::Context::new(core, secret)?,
            })
        };
        let context = with(core, secret)?;
        let plain = if server.plain_clients {
            getrandom::fill(&mut secret).map_err(no_randomness)?;
            with(config.plain_core(), secret)?
        } else {
            context.clone()
        };
        let secure = if config.is_encrypted() {
            getrandom::fill(&mut proof_secret).map_err(no_randomness)?;
            getrandom::fill(&mut site_secret).map_err(no_randomness)?;
            let secrets = (proof_secret, site_secret, socket.local_addr());
            Some(Box::new(SecureSide::new(&context, (client, server), secrets)?))
        } else {
            None
        };
        let (accept_queue_max, memory) = (context.config().admission.accept_queue_max, context.config().memory);
        let accepting = Accepting::new(sctp::Listener::new(&plain), accept_queue_max, config.can_listen);
        let demux = Mutex::new(Demux::new(&context));
        let (timers, bell) = Timers::new(&runtime).map_err(BindError::Timer)?;
        let shared = Arc::new(Self {
            runtime,
            socket,
            tray: Tray::default(),
            context,
            secure,
            timers,
            demux,
            accepting: Mutex::new(accepting),
            destinations: Mutex::new(Destinations::new(memory)),
            backlog: Mutex::default(),
            handles: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            numbers: Numbers { next_id: AtomicU64::new(0), first_nonce: u64::from_le_bytes(first_nonce) },
            counters: Counters::default(),
        });
        Ok((shared, bell))
    }

    pub(super) fn handle_added(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn handle_dropped(&self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wake_driver();
        }
    }

    /// Returns whether no handle and no association is left.
    pub(super) fn is_abandoned(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0 && self.is_idle()
    }

    /// The endpoint was closed.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// The endpoint was closed, and its work is done.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closing() && self.is_idle()
    }

    /// Replaces the socket with the first address, and tells all associations.
    pub(super) fn rebind(&self, address: SocketAddr) -> Result<(), BindError> {
        let mut addresses = self.socket.addresses();
        let old = std::mem::replace(addresses.first_mut().unwrap_or(&mut address.ip()), address.ip());
        let are_several = addresses.len() > 1;
        if are_several {
            sctp::Multihoming { addresses, ..sctp::Multihoming::default() }.validate()?;
        }
        self.socket.rebind(&*self.runtime, address).map_err(|source| BindError::Socket { address, source })?;
        // It watches the new socket from now on.
        self.wake_driver();
        let new = self.socket.local_addr().ip();
        if are_several {
            self.readdress();
        }
        let associations = lock(&self.demux).all();
        associations.iter().for_each(|association| association.rebound((old, new)));
        Ok(())
    }

    /// Opens a further socket, and tells all associations.
    pub(super) fn add_address(&self, address: SocketAddr) -> Result<(), BindError> {
        if !self.context.is_multihomed() {
            let problem = "the endpoint has settings for one path: Transport::with_paths_max allows more";
            let source = std::io::Error::new(std::io::ErrorKind::Unsupported, problem);
            return Err(BindError::Socket { address, source });
        }
        let addresses = [self.socket.addresses(), vec![address.ip()]].concat();
        sctp::Multihoming { addresses, ..sctp::Multihoming::default() }.validate()?;
        self.socket.add(&*self.runtime, address).map_err(|source| BindError::Socket { address, source })?;
        self.wake_driver();
        self.tell_addresses(None);
        Ok(())
    }

    /// Closes the socket with this address, and tells all associations.
    pub(super) fn remove_address(&self, address: IpAddr) -> Result<(), BindError> {
        self.socket.remove(address).map_err(|source| BindError::Removal { address, source })?;
        self.wake_driver();
        self.tell_addresses(Some(address));
        Ok(())
    }

    /// The settings of associations that begin now, if the addresses have changed.
    pub(crate) fn readdressed(&self) -> Option<Arc<sctp::Context>> {
        lock(&self.accepting).readdressed.clone()
    }

    /// Associations that begin from now on have the present addresses. Returns the settings before and now.
    fn readdress(&self) -> (Arc<sctp::Context>, Arc<sctp::Context>) {
        let addresses = self.socket.addresses();
        let after = self.context.with_addresses(&addresses);
        let mut accepting = lock(&self.accepting);
        accepting.core.use_addresses(&addresses);
        let before = accepting.readdressed.replace(Arc::clone(&after)).unwrap_or_else(|| Arc::clone(&self.context));
        drop(accepting);
        self.note_readdressed(&after);
        (before, after)
    }

    /// The addresses have changed; `gone` is none any more.
    fn tell_addresses(&self, gone: Option<IpAddr>) {
        let (before, after) = self.readdress();
        let associations = lock(&self.demux).all();
        associations.iter().for_each(|association| association.readdressed((&before, &after), gone));
    }

    fn is_idle(&self) -> bool {
        lock(&self.demux).is_empty() && !self.has_backlog() && !self.tray.is_blocked()
    }

    pub(super) fn listen(&self, port: u16, options: ListenOptions) -> Result<Arc<AcceptQueue>, ListenError> {
        // A plain association would be accepted unasked.
        if self.secure.is_none() && options.needs_encryption() {
            return Err(ListenError::Plain);
        }
        lock(&self.accepting).listen(port, options)
    }

    /// The listener is gone.
    pub(crate) fn stop_listening(&self, port: u16, queue: &Arc<AcceptQueue>) {
        let mut accepting = lock(&self.accepting);
        // After the endpoint was closed, the port is free already.
        if accepting.queue(port).is_some_and(|present| Arc::ptr_eq(present, queue)) {
            accepting.stop(port);
        }
        drop(accepting);
        queue.close();
        self.note_withdrawal();
    }

    /// Begins the handshake with a peer.
    pub(super) fn connect(
        self: &Arc<Self>,
        remote: SocketAddr,
        options: &ConnectOptions,
    ) -> Result<Association, ConnectError> {
        if self.is_closing() {
            return Err(ConnectError::EndpointClosed);
        }
        let address =
            self.socket.peer_address(remote).map_err(|problem| ConnectError::BadAddress { remote, problem })?;
        if self.secure.is_none() && options.needs_encryption() {
            let problem = "a token and early messages need an encrypted endpoint";
            return Err(ConnectError::Security { remote, failure: SecurityFailure::Settings(problem.to_owned()) });
        }
        let to = &self.readdressed().unwrap_or_else(|| Arc::clone(&self.context));
        loop {
            let id = self.next_id();
            let local = match options.local_port {
                Some(port) => port,
                None => self.free_port(address, options.peer_port, id).ok_or(ConnectError::NoPortLeft { remote })?,
            };
            let ports = Ports { local, peer: options.peer_port };
            let nonce = self.numbers.nonce(id);
            let now = clock::now();
            // Only the profile `festina` uses cached path state.
            let asks = options.profile.is_none_or(|profile| profile == Profile::Festina);
            let known = if asks { lock(&self.destinations).recall(now, address) } else { None };
            let known = known.as_ref();
            let core = match &self.secure {
                None => Core::Plain(Plain(sctp::Association::connect_knowing(now, to, address, ports, nonce, known))),
                Some(secure) => secure
                    .connect(now, to, (address, ports), options, known)
                    .map_err(|failure| ConnectError::Security { remote, failure })?,
            };
            let key = core.key();
            let inner = Inner::new(self.clone(), id, core, None);
            let mut demux = lock(&self.demux);
            let inserted = demux.insert(key, None, &inner, Side::Own);
            if inserted.is_ok() && self.is_encrypted() {
                demux.note_hello(key);
            }
            drop(demux);
            match inserted {
                Ok(()) => {
                    let association = Association::new(inner);
                    let mechanisms = options.profile.map(Profile::mechanisms);
                    association.inner().start(mechanisms);
                    // `close` may have looked for associations just before this one was added.
                    if self.is_closing() {
                        association.inner().abort(b"");
                        return Err(ConnectError::EndpointClosed);
                    }
                    return Ok(association);
                }
                Err(Refusal::Full) => {
                    let associations_max = self.context.config().admission.associations_max;
                    return Err(ConnectError::TooManyAssociations { associations_max });
                }
                Err(Refusal::PortZero) => {
                    return Err(ConnectError::BadAddress { remote, problem: "SCTP port 0 names no port" });
                }
                Err(Refusal::Taken) if options.local_port.is_some() => {
                    return Err(ConnectError::PortInUse { remote, port: local });
                }
                Err(Refusal::Taken) => {}
            }
        }
    }

    /// A local port that no association with the peer uses. Each association starts its search somewhere else.
    fn free_port(&self, remote: SocketAddr, peer: u16, id: u64) -> Option<u16> {
        let count = u64::from(u16::MAX - FIRST_EPHEMERAL_PORT) + 1;
        let demux = lock(&self.demux);
        (0..count)
            .map(|step| (self.numbers.nonce(id).wrapping_add(step)) % count)
            .filter_map(|offset| FIRST_EPHEMERAL_PORT.checked_add(u16::try_from(offset).ok()?))
            .find(|local| !demux.has_path(remote, Ports { local: *local, peer }, !self.is_encrypted()))
    }

    pub(super) fn next_id(&self) -> u64 {
        self.numbers.next_id()
    }

    /// The own IP addresses, one for each socket.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.socket.addresses()
    }

    /// Whether plain associations may have several paths.
    pub(crate) fn is_multihomed(&self) -> bool {
        self.context.is_multihomed()
    }

    pub(crate) fn message_bytes_max(&self) -> usize {
        self.context.config().limits.message_bytes_max
    }

    pub(crate) fn scheduler(&self) -> sctp::StreamScheduler {
        self.context.config().scheduler
    }

    pub(super) fn admission(&self) -> &sctp::Admission {
        &self.context.config().admission
    }

    /// Whether the packet carries the own tag of an association.
    pub(super) fn is_expected(&self, from: SocketAddr, packet: &[u8]) -> bool {
        lock(&self.demux).find_expected(self.protocols(), from, packet).is_some()
    }

    /// Gives a packet to whom it belongs; for associations that is [`Inner::handle_packets`]' work.
    pub(super) fn find(&self, from: SocketAddr, packet: &[u8]) -> Option<Arc<Inner>> {
        lock(&self.demux).find(self.protocols(), from, packet).cloned()
    }

    /// Returns whether the accept queue is full, and counts that.
    pub(super) fn is_full(&self, queue: &AcceptQueue) -> bool {
        let is_full = queue.is_full();
        if is_full {
            warn_of(
                &self.counters.accept_queue_overflows,
                "the accept queue is full: a handshake is left to be repeated",
            );
        }
        is_full
    }

    /// Returns whether a peer at this address may set up another association, and counts it if not.
    pub(super) fn admits(&self, peer: IpAddr) -> bool {
        let admits = lock(&self.demux).admits(peer);
        if !admits {
            warn_of(&self.counters.associations_refused, "too many associations: a peer is refused");
        }
        admits
    }

    /// An association's own tag changed, or its peer's UDP port.
    pub(crate) fn rekey(&self, old: Key, new: Key) {
        lock(&self.demux).rekey(old, new);
    }

    /// An association is over, and has learned this of the path to its peer.
    pub(crate) fn remove(&self, now: Instant, key: Key, origin: Option<Origin>, learned: Option<PathKnowledge>) {
        let mut demux = lock(&self.demux);
        let is_own = demux.side(key) == Some(Side::Own);
        let removed = demux.remove(key, origin);
        let last = demux.is_empty();
        drop(demux);
        self.note_end(now, key, learned.filter(|_| is_own), last);
        drop(removed);
    }

    /// One association less, and perhaps the `last`.
    pub(super) fn note_end(&self, now: Instant, key: Key, learned: Option<PathKnowledge>, last: bool) {
        if let Some(learned) = learned {
            lock(&self.destinations).learn(now, key.remote, learned);
        }
        if last && (self.handles.load(Ordering::Acquire) == 0 || self.is_closing()) {
            self.wake_driver();
        }
    }

    /// An association has packets for which the socket has no room, or messages that wait for each other.
    pub(crate) fn wait_for_driver(&self, association: &Arc<Inner>) {
        lock(&self.backlog).associations.push(association.clone());
        self.wake_driver();
    }

    pub(super) fn has_backlog(&self) -> bool {
        !lock(&self.backlog).associations.is_empty()
    }

    pub(super) fn take_backlog(&self) -> Vec<Arc<Inner>> {
        std::mem::take(&mut lock(&self.backlog).associations)
    }

    /// The driver that [`Shared::wake_driver`] wakes.
    pub(super) fn set_driver(&self, waker: &Waker) {
        let mut backlog = lock(&self.backlog);
        if backlog.driver.as_ref().is_some_and(|driver| driver.will_wake(waker)) {
            return;
        }
        let replaced = backlog.driver.replace(waker.clone());
        drop(backlog);
        drop(replaced);
    }

    pub(crate) fn wake_driver(&self) {
        let driver = lock(&self.backlog).driver.clone();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// No more associations, and an end in good order for those that there are.
    pub(super) fn close(&self) {
        self.stop_everything().iter().for_each(Inner::shutdown);
        self.wake_driver();
    }

    /// Whether the driver has ended: nothing is received or sent any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// The driver is going away, and the endpoint with it.
    pub(super) fn driver_gone(&self) {
        self.gone.store(true, Ordering::SeqCst);
        for association in self.stop_everything() {
            association.abort(b"the endpoint is gone");
        }
        drop(self.take_backlog());
        self.timers.clear();
        self.socket.close();
        let waiters = lock(&self.backlog).closed.take();
        waiters.wake();
    }

    /// Tells associations which of their packets the system refused to send.
    pub(super) fn pass_refusals_on(&self) {
        if !self.socket.refusals.is_waiting() {
            return;
        }
        for (destination, refusal) in self.socket.refusals.take() {
            match &refusal {
                SendRefusal::TooLarge { packet_bytes_max } => {
                    tracing::info!(%destination, packet_bytes_max, "a packet was too large for the path");
                }
                SendRefusal::NoWay { cause, .. } => {
                    tracing::debug!(%destination, cause, "the system does not send there");
                    if self.replaces_lost_address(destination) {
                        continue;
                    }
                }
            }
            let concerned = lock(&self.demux).to(destination);
            concerned.iter().for_each(|association| association.refused(&refusal));
        }
    }

    /// A client's own address is gone: takes the one that leads to the destination now. A server stays: at another
    /// address it could listen to a network that it is to be hidden from.
    fn replaces_lost_address(&self, destination: SocketAddr) -> bool {
        if lock(&self.accepting).can_listen {
            return false;
        }
        let Some(instead) = self.socket.address_instead(destination) else { return false };
        match self.rebind(instead) {
            Ok(()) => tracing::info!(%instead, "the own address is gone, another takes its place"),
            Err(error) => tracing::warn!(%error, "the own address is gone"),
        }
        true
    }

    fn stop_everything(&self) -> Vec<Arc<Inner>> {
        self.closing.store(true, Ordering::Release);
        let queues = lock(&self.accepting).stop_all();
        queues.iter().for_each(|queue| queue.close());
        self.note_withdrawal();
        lock(&self.demux).all()
    }

    /// Ready when the socket is closed.
    pub(super) fn poll_closed(&self, context: &mut Context<'_>, key: &mut Option<u64>) -> Poll<()> {
        let mut backlog = lock(&self.backlog);
        // The driver closes the socket before it takes the waiters out.
        if self.socket.is_closed() {
            return Poll::Ready(());
        }
        let key = *key.get_or_insert_with(|| self.numbers.next_id());
        let replaced = backlog.closed.register(key, context.waker());
        drop(backlog);
        drop(replaced);
        Poll::Pending
    }

    pub(crate) fn stats(&self) -> EndpointStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let SocketCounters { packets_sent, bytes_sent, send_calls, send_errors, send_blocked, receive_calls } =
            &self.socket.counters;
        EndpointStats {
            associations: lock(&self.demux).len() as u64,
            packets_sent: read(packets_sent),
            bytes_sent: read(bytes_sent),
            send_calls: read(send_calls),
            send_errors: read(send_errors),
            send_blocked: read(send_blocked),
            packets_received: read(&self.counters.packets_received),
            bytes_received: read(&self.counters.bytes_received),
            receive_calls: read(receive_calls),
            packets_dropped: read(&self.counters.packets_dropped),
            datagrams_congestion_marked: read(&self.counters.congestion_marked),
            accept_queue_overflows: read(&self.counters.accept_queue_overflows),
            associations_refused: read(&self.counters.associations_refused),
            strays_shed: read(&self.counters.strays_shed),
            receive_errors: read(&self.counters.receive_errors),
        }
    }
}
