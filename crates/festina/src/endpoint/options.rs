//! Endpoint options and statistics.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use festina_sctp::Profile;
use festina_units::Duration;

use crate::DEFAULT_SCTP_PORT;

/// Options for one association.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct ConnectOptions {
    pub(super) peer_port: u16,
    pub(super) local_port: Option<u16>,
    pub(super) profile: Option<Profile>,
    pub(super) handshake_timeout: Duration,
}

impl Default for ConnectOptions {
    /// [`DEFAULT_SCTP_PORT`] at the peer, any free local port, the endpoint's loss recovery, and 15 seconds for the handshake.
    fn default() -> Self {
        Self {
            peer_port: DEFAULT_SCTP_PORT,
            local_port: None,
            profile: None,
            handshake_timeout: Duration::from_secs(15),
        }
    }
}

impl ConnectOptions {
    /// Sets the peer's SCTP port.
    pub fn peer_port(mut self, port: u16) -> Self {
        self.peer_port = port;
        self
    }

    /// Sets the local SCTP port, instead of any free one.
    pub fn local_port(mut self, port: u16) -> Self {
        self.local_port = Some(port);
        self
    }

    /// Sets the loss-recovery profile, instead of the endpoint's.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets the time limit of the handshake. It also ends when the INIT retransmissions are used up.
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }
}

/// The answer to a peer that requests an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Continue the handshake.
    Accept,
    /// Send an ABORT with the cause "Out of Resource" (RFC 9260 §3.3.10.4).
    Refuse,
    /// Send no answer, as if nothing listened.
    Ignore,
}

/// Decides how a listener answers a peer.
type Doorkeeper = Arc<dyn Fn(SocketAddr) -> Answer + Send + Sync>;

/// Options for a listener.
#[derive(Clone, Default)]
#[must_use]
pub struct ListenOptions {
    doorkeeper: Option<Doorkeeper>,
}

impl ListenOptions {
    /// Calls `decide` with the address of each peer that requests an association, before any answer: at its INIT, and again at its COOKIE ECHO, whose
    /// sender has proven that it receives at that address. It runs on the endpoint's task for each such packet, so it should be quick. By default all
    /// are accepted, within the endpoint's limits: [`Config::with_associations_max`](crate::Config::with_associations_max) and related settings.
    ///
    /// ```
    /// use festina::{Answer, ListenOptions};
    ///
    /// let from_here = ListenOptions::default()
    ///     .decide(|peer| if peer.ip().is_loopback() { Answer::Accept } else { Answer::Ignore });
    /// ```
    pub fn decide(mut self, decide: impl Fn(SocketAddr) -> Answer + Send + Sync + 'static) -> Self {
        self.doorkeeper = Some(Arc::new(decide));
        self
    }

    pub(super) fn answer(&self, peer: SocketAddr) -> Answer {
        self.doorkeeper.as_ref().map_or(Answer::Accept, |decide| decide(peer))
    }
}

impl fmt::Debug for ListenOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ListenOptions").field("decides", &self.doorkeeper.is_some()).finish()
    }
}

/// Counters of an endpoint since it was opened, and its number of associations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Present associations, including those in their handshake.
    pub associations: u64,
    /// SCTP packets sent.
    pub packets_sent: u64,
    /// Bytes of those packets, without IP and UDP headers.
    pub bytes_sent: u64,
    /// System calls that sent them: fewer than packets if the kernel segments them (GSO).
    pub send_calls: u64,
    /// Sends that the system refused; they count as packet loss.
    pub send_errors: u64,
    /// Sends that had to wait for room in the socket's buffer.
    pub send_blocked: u64,
    /// SCTP packets received.
    pub packets_received: u64,
    /// Bytes of those packets, without IP and UDP headers.
    pub bytes_received: u64,
    /// System calls that received them, idle ones included.
    pub receive_calls: u64,
    /// Packets received without effect: damaged, unexpected, or for no association.
    pub packets_dropped: u64,
    /// Datagrams with a congestion mark of a router (ECN CE, RFC 3168).
    pub datagrams_congestion_marked: u64,
    /// Handshakes left unanswered because the accept queue was full.
    pub accept_queue_overflows: u64,
    /// INITs and COOKIE ECHOs refused because there were too many associations, in all or with their address.
    pub associations_refused: u64,
    /// Out-of-the-blue packets dropped unread because there were too many. They also count as dropped.
    pub strays_shed: u64,
    /// Failures to receive; the endpoint tries again after a pause.
    pub receive_errors: u64,
}
