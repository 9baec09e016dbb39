//! Connects to a host that may have several addresses, and may be out of reach for some time.

mod silence;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use festina::{Association, BindError, ConnectError, Endpoint};
use tokio::sync::OnceCell;

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
    endpoints: [OnceCell<Endpoint>; 2],
    /// The own addresses, if not any.
    via: Vec<IpAddr>,
}

impl Dialer {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, is_used: AtomicBool::new(false), endpoints: Default::default(), via: Vec::new() }
    }

    /// Connects from the first of these addresses of the family of the peer, and names the others to it.
    pub(crate) fn via(mut self, addresses: &[IpAddr]) -> Self {
        self.via = addresses.iter().map(IpAddr::to_canonical).collect();
        self
    }

    async fn open(&self, remote: SocketAddr) -> Result<Endpoint, BindError> {
        let own = self.via.iter().position(|own| own.is_ipv4() == remote.is_ipv4());
        if own.is_none() && !self.via.is_empty() {
            let family = if remote.is_ipv4() { "an IPv4" } else { "an IPv6" };
            let source = io::Error::other(format!("no address of --via is {family} one, as that of the peer is"));
            return Err(BindError::Socket { address: address::unspecified_for(remote), source });
        }
        let config = self.client.config.clone();
        match own {
            None => Endpoint::client(address::unspecified_for(remote), config).await,
            Some(at) => {
                let mut others = self.via.clone();
                let own = others.remove(at);
                Endpoint::client((own, 0).into(), config.with_other_addresses(others)).await
            }
        }
    }

    /// Makes an association with one of these addresses, remembers the key of a new server, and calls `on_open` for each endpoint before it is used for
    /// the first time. Prints a notice if nothing answers [at once](silence).
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
        for &remote in addresses {
            let open = || async { self.open(remote).await.inspect(&on_open) };
            match self.endpoints[usize::from(remote.is_ipv6())].get_or_try_init(open).await {
                Ok(endpoint) => ways.push((remote, endpoint.clone())),
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
            let is_heard = || self.endpoints().any(|endpoint| endpoint.stats().packets_received > 0);
            let tried = ways.iter().map(|(remote, _)| *remote).collect();
            tokio::select! {
                biased;
                ended = raced => ended,
                never = silence::narrate(tried, is_heard) => match never {},
            }
        };
        let (endpoint, association) = raced.await.map_err(|error| self.client.explain(error))?;
        self.client.met(&association)?;
        Ok((endpoint, association))
    }

    /// The endpoints that have been opened.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().filter_map(OnceCell::get)
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
    use std::net::{Ipv4Addr, UdpSocket};

    use anyhow::{Context as _, anyhow};

    use festina::{DEFAULT_SCTP_PORT, ServerConfig};

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
        assert_eq!(dialer.endpoints().count(), 1);
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
