//! Connects to a host that may have several addresses, and may be out of reach for some time.

mod silence;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use festina::{Association, BindError, ConnectError, Endpoint};

use crate::keys::Client;
use crate::{address, output};

/// Pauses between attempts: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Connects to the first of a host's addresses that answers (Happy Eyeballs, RFC 8305).
pub(crate) struct Dialer {
    client: Client,
    /// Whether an attempt was made before. Only the first one is narrated, since [`Pauses`] reports failures of those that are repeated.
    is_used: AtomicBool,
    /// Endpoints for IPv4 and IPv6, opened on first use.
    endpoints: [Mutex<Option<Opened>>; 2],
    /// The own addresses, if not any.
    via: Vec<IpAddr>,
    /// Further addresses of the host that an earlier association has learned.
    learned: Mutex<Vec<SocketAddr>>,
}

/// An endpoint, and the own addresses that the host had not when it was opened.
#[derive(Clone)]
struct Opened {
    endpoint: Endpoint,
    absent: Vec<IpAddr>,
}

impl Opened {
    /// Returns whether it has all own addresses that can be bound now.
    fn is_whole(&self) -> bool {
        self.absent.iter().all(|&own| UdpSocket::bind((own, 0)).is_err())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dialer {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            is_used: AtomicBool::new(false),
            endpoints: Default::default(),
            via: Vec::new(),
            learned: Mutex::default(),
        }
    }

    /// Connects from the first of these addresses of the family of the peer, and names the others to it.
    pub(crate) fn via(mut self, addresses: &[IpAddr]) -> Self {
        self.via = addresses.iter().map(IpAddr::to_canonical).collect();
        self
    }

    /// Opens an endpoint for peers of this family. It goes on without own addresses that this host does not have, and says so.
    async fn open(&self, remote: SocketAddr) -> Result<Opened, BindError> {
        let (mut own, mut absent) = (self.via.clone(), Vec::new());
        loop {
            match self.open_at(&own, remote).await {
                Ok(endpoint) => return Ok(Opened { endpoint, absent }),
                Err(BindError::Socket { address, source }) if source.kind() == io::ErrorKind::AddrNotAvailable => {
                    own.retain(|own| *own != address.ip());
                    let has_another = own.iter().any(|own| own.is_ipv4() == remote.is_ipv4());
                    let error = BindError::Socket { address, source };
                    if !has_another || absent.contains(&address.ip()) {
                        return Err(error);
                    }
                    output::complain(&format!("{error}; going on without it"));
                    absent.push(address.ip());
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn open_at(&self, via: &[IpAddr], remote: SocketAddr) -> Result<Endpoint, BindError> {
        let own = via.iter().position(|own| own.is_ipv4() == remote.is_ipv4());
        if own.is_none() && !via.is_empty() {
            let family = if remote.is_ipv4() { "an IPv4" } else { "an IPv6" };
            let source = io::Error::other(format!("no address of --via is {family} one, as that of the peer is"));
            return Err(BindError::Socket { address: address::unspecified_for(remote), source });
        }
        let config = self.client.config.clone();
        match own {
            None => Endpoint::client(address::unspecified_for(remote), config).await,
            Some(at) => {
                let mut others = via.to_vec();
                let own = others.remove(at);
                Endpoint::client((own, 0).into(), config.with_other_addresses(others)).await
            }
        }
    }

    /// Returns the endpoint for peers of this family. An association that begins after an absent own address has appeared has it as well.
    async fn endpoint_for(&self, remote: SocketAddr, on_open: impl Fn(&Endpoint)) -> Result<Endpoint, BindError> {
        let place = &self.endpoints[usize::from(remote.is_ipv6())];
        let opened = lock(place).clone();
        if let Some(opened) = opened.filter(Opened::is_whole) {
            return Ok(opened.endpoint);
        }
        let opened = self.open(remote).await?;
        on_open(&opened.endpoint);
        Ok(lock(place).insert(opened).endpoint.clone())
    }

    /// Makes an association with one of these addresses or, after them, those that the peer has named before. Remembers the key of a new server, and
    /// calls `on_open` for each endpoint before it is used for the first time. Prints a notice if nothing answers [at once](silence).
    ///
    /// # Errors
    /// The error of the first address if none answers.
    pub(crate) async fn connect(
        &self,
        addresses: &[SocketAddr],
        on_open: impl Fn(&Endpoint),
    ) -> Result<(Endpoint, Association)> {
        let mut ways = Vec::new();
        let mut problem = None;
        let learned = lock(&self.learned).clone();
        let learned = learned.iter().filter(|remote| !addresses.contains(remote));
        for &remote in addresses.iter().chain(learned) {
            match self.endpoint_for(remote, &on_open).await {
                Ok(endpoint) => ways.push((remote, endpoint)),
                // A host without one of the families reaches the peer by the other.
                Err(error) => problem = Some(error),
            }
        }
        if let Some(problem) = problem.filter(|_| ways.is_empty()) {
            return Err(problem.into());
        }
        let raced = address::race(&ways, |(remote, endpoint)| {
            let options = self.client.options.clone();
            async move {
                let association = endpoint.connect_with(remote, options).await.map_err(with_advice)?;
                Ok((endpoint, association))
            }
        });
        let raced = async {
            if self.is_used.swap(true, Ordering::Relaxed) {
                return raced.await;
            }
            let is_heard = || self.endpoints().iter().any(|endpoint| endpoint.stats().packets_received > 0);
            let tried = ways.iter().map(|(remote, _)| *remote).collect();
            tokio::select! {
                biased;
                ended = raced => ended,
                never = silence::narrate(tried, is_heard) => match never {},
            }
        };
        let (endpoint, association) = raced.await.map_err(|error| self.client.explain(error))?;
        self.client.met(&association)?;
        *lock(&self.learned) = association.paths().iter().map(|path| path.remote).collect();
        Ok((endpoint, association))
    }

    /// The endpoints that are open.
    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        self.endpoints.iter().filter_map(|place| Some(lock(place).as_ref()?.endpoint.clone())).collect()
    }
}

/// Adds advice to the error of a peer that did not answer.
fn with_advice(error: ConnectError) -> anyhow::Error {
    let ConnectError::Timeout { remote, .. } = error else { return error.into() };
    let port = remote.port();
    let advice =
        format!("{error}: is a listener running there, and do firewalls pass UDP port {port} in both directions?");
    anyhow::Error::from(error).context(advice)
}

/// Growing pauses between attempts. Each is lengthened by up to a quarter, at random: programs that have lost a peer at the same moment do not return at
/// the same moment.
pub(crate) struct Pauses {
    next: Duration,
    reported: String,
}

impl Pauses {
    pub(crate) fn new() -> Self {
        Self { next: PAUSES.0, reported: String::new() }
    }

    /// Waits until the next attempt.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.take()).await;
    }

    fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = PAUSES.1.min(pause * 2);
        spread(pause)
    }

    /// Reports the error of an attempt, unless it is that of the attempt before, and waits until the next one.
    pub(crate) async fn wait_after(&mut self, error: &anyhow::Error) {
        let problem = output::causes(error);
        if problem != self.reported {
            output::complain(&format!("{problem}; trying again"));
            self.reported = problem;
        }
        self.wait().await;
    }

    /// Begins again with the shortest pause after a success that has lasted for this time, if it is longer than the longest pause.
    pub(crate) fn note_success(&mut self, lasted: Duration) {
        self.reported.clear();
        if lasted > PAUSES.1 {
            self.next = PAUSES.0;
        }
    }
}

fn spread(pause: Duration) -> Duration {
    let [random, ..] = RandomState::new().hash_one(()).to_le_bytes();
    pause + pause * u32::from(random) / 1_024
}

/// Repeats an attempt until it succeeds, or fails for a reason that does not [pass by itself](may_pass).
///
/// # Errors
/// Such a reason.
pub(crate) async fn keep_trying<T>(mut attempt: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let mut pauses = Pauses::new();
    loop {
        match attempt().await {
            Err(error) if may_pass(&error) => pauses.wait_after(&error).await,
            result => return result,
        }
    }
}

/// Whether the reason of a failure may pass by itself: the network or the peer is not there yet, or a name is not known yet. A port in use, a missing
/// privilege or the peer's refusal needs a change by the user.
pub(crate) fn may_pass(error: &anyhow::Error) -> bool {
    use io::ErrorKind::{AddrInUse, InvalidInput, PermissionDenied, Unsupported};

    if let Some(error) = error.downcast_ref::<ConnectError>() {
        return matches!(
            error,
            ConnectError::Timeout { .. }
                | ConnectError::CannotSend { .. }
                | ConnectError::NotListening { .. }
                | ConnectError::PeerFull { .. }
                | ConnectError::Ended { .. }
        );
    }
    let system = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    system.is_some_and(|error| !matches!(error.kind(), AddrInUse | InvalidInput | PermissionDenied | Unsupported))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use anyhow::{Context as _, anyhow};

    use festina::{DEFAULT_SCTP_PORT, ServerConfig, Transport};

    use super::*;

    #[tokio::test]
    async fn the_second_address_is_reached_although_the_first_one_is_silent() {
        let mute = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is free");
        let server =
            Endpoint::server((Ipv4Addr::LOCALHOST, 0).into(), ServerConfig::plain()).await.expect("loopback is free");
        let listener = server.listen(DEFAULT_SCTP_PORT).expect("the port is free");
        let addresses = [mute.local_addr().expect("bound"), server.local_addr()];
        let dialer = Dialer::new(Client::plain());
        let opened = Cell::new(0);
        let (_, association) =
            dialer.connect(&addresses, |_| opened.set(opened.get() + 1)).await.expect("the second answers");
        assert_eq!((association.remote_addr(), opened.get()), (server.local_addr(), 1));
        listener.accept().await.expect("it has been reached");
        assert_eq!(dialer.endpoints().len(), 1);
    }

    async fn server_at(addresses: [Ipv4Addr; 2]) -> Endpoint {
        let config = ServerConfig::plain().with_other_addresses([addresses[1].into()]);
        Endpoint::server((addresses[0], 0).into(), config).await.expect("loopback is free")
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_addresses_that_a_server_has_named_are_tried_too_when_it_is_called_again() {
        let loopback = [1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last));
        let server = server_at(loopback).await;
        let listener = server.listen(DEFAULT_SCTP_PORT).expect("the port is free");
        let mut client = Client::plain();
        client.config = client.config.with_transport(Transport::default().with_paths_max(8));
        let dialer = Dialer::new(client);
        let (_, association) = dialer.connect(&[server.local_addr()], |_| {}).await.expect("it answers");
        listener.accept().await.expect("it has been reached");
        association.abort("the test goes on");
        // The server's name leads to an address now that does not answer.
        let mute = UdpSocket::bind((loopback[0], 0)).expect("loopback is free");
        let (_, association) =
            dialer.connect(&[mute.local_addr().expect("bound")], |_| {}).await.expect("a named address answers");
        assert!(server.local_addrs().contains(&association.remote_addr()), "{}", association.remote_addr());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_own_address_that_the_host_lacks_is_left_out_unless_it_is_the_only_one_of_the_family() {
        let loopback = [1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last));
        let server = server_at(loopback).await;
        let listener = server.listen(DEFAULT_SCTP_PORT).expect("the port is free");
        // TEST-NET-1 is that of no host.
        let absent = IpAddr::from([192, 0, 2, 9]);
        let dialer = Dialer::new(Client::plain()).via(&[absent, loopback[1].into()]);
        let opened = Cell::new(0);
        for _ in 0..2 {
            let on_open = |_: &Endpoint| opened.set(opened.get() + 1);
            let (endpoint, _association) = dialer.connect(&[server.local_addr()], on_open).await.expect("it answers");
            listener.accept().await.expect("it has been reached");
            let own: Vec<IpAddr> = endpoint.local_addrs().iter().map(SocketAddr::ip).collect();
            assert_eq!((own, opened.get()), (vec![loopback[1].into()], 1), "the endpoint stays");
        }
        // Now the host has it.
        for place in &dialer.endpoints {
            lock(place).iter_mut().for_each(|opened| opened.absent = vec![loopback[0].into()]);
        }
        dialer.connect(&[server.local_addr()], |_| opened.set(2)).await.expect("it answers");
        assert_eq!(opened.get(), 2, "an endpoint with all addresses takes its place");

        for own in [vec![absent], vec![absent, Ipv6Addr::LOCALHOST.into()]] {
            let refused = Dialer::new(Client::plain()).via(&own).connect(&[server.local_addr()], |_| {}).await;
            let refused = refused.expect_err("the host lacks the only IPv4 address").to_string();
            assert!(refused.starts_with("cannot open a socket on 192.0.2.9:0"), "{refused}");
        }
    }

    #[tokio::test]
    async fn own_addresses_without_one_of_the_peers_family_are_an_error() {
        for (own, remote, family) in [("::1", "127.0.0.1:9", "an IPv4"), ("127.0.0.1", "[::1]:9", "an IPv6")] {
            let dialer = Dialer::new(Client::plain()).via(&[own.parse().expect("an address")]);
            let refused = dialer.connect(&[remote.parse().expect("an address")], |_| {}).await;
            let refused = refused.expect_err("no way leads there").to_string();
            assert!(
                refused.ends_with(&format!("no address of --via is {family} one, as that of the peer is")),
                "{refused}"
            );
        }
    }

    #[tokio::test]
    async fn an_attempt_is_repeated_until_it_succeeds_or_its_error_needs_a_change() {
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let absent = || with_advice(ConnectError::Timeout { remote, after: Duration::from_secs(1) });
        let unknown = || anyhow::Error::from(io::Error::other("no such host")).context("cannot find the host a");
        let early = || anyhow::Error::from(io::Error::from(io::ErrorKind::AddrNotAvailable)).context("cannot listen");
        let mut errors = vec![early(), unknown(), absent()];
        let start = tokio::time::Instant::now();
        let reached = keep_trying(async || errors.pop().map_or(Ok(7), Err)).await;
        assert_eq!(reached.expect("it succeeds in the end"), 7);
        assert!(start.elapsed() >= PAUSES.0 * (1 + 2 + 4), "it waits before each attempt");

        let in_use = || anyhow::Error::from(io::Error::from(io::ErrorKind::AddrInUse)).context("cannot listen");
        let full = || anyhow::Error::from(ConnectError::EndpointClosed);
        for error in [in_use(), full(), anyhow!("the key has changed")] {
            let mut once = Some(error);
            let ended = keep_trying(async || once.take().map_or(Ok(()), Err)).await;
            ended.context("it is not repeated").expect_err("it ends at once");
        }
    }

    #[test]
    fn pauses_grow_until_a_success_lasts() {
        let mut pauses = Pauses::new();
        for _ in 0..10 {
            pauses.take();
        }
        assert_eq!(pauses.next, PAUSES.1);
        pauses.note_success(Duration::from_secs(1));
        assert_eq!(pauses.next, PAUSES.1);
        pauses.note_success(PAUSES.1 * 2);
        assert_eq!(pauses.next, PAUSES.0);
    }

    #[test]
    fn programs_that_lost_a_peer_together_return_at_different_times() {
        let pauses: Vec<_> = (0..100).map(|_| spread(PAUSES.1)).collect();
        assert!(pauses.iter().all(|pause| (PAUSES.1..PAUSES.1 * 5 / 4).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
