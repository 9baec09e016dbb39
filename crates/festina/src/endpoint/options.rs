//! Endpoint options and statistics.

use std::fmt;
use std::sync::Arc;

use festina_endpoint::Request;
use festina_sctp::Message;
use festina_units::Duration;

use crate::recovery::Profile;
use crate::{DEFAULT_SCTP_PORT, program};

/// Options for one association.
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct ConnectOptions {
    pub(super) peer_port: u16,
    pub(super) local_port: Option<u16>,
    pub(super) profile: Option<Profile>,
    pub(super) handshake_timeout: Duration,
    pub(super) server_name: Option<String>,
    pub(super) token: Vec<u8>,
    pub(super) early: Vec<Message>,
}

/// Shows only the length of the token, which is often a secret.
impl fmt::Debug for ConnectOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer_port, local_port, profile, handshake_timeout, server_name, token, early } = self;
        let mut fields = formatter.debug_struct("ConnectOptions");
        fields.field("peer_port", peer_port).field("local_port", local_port).field("profile", profile);
        fields.field("handshake_timeout", handshake_timeout).field("server_name", server_name);
        fields.field("token_bytes", &token.len()).field("early", early).finish()
    }
}

impl Default for ConnectOptions {
    /// [`DEFAULT_SCTP_PORT`] at the peer, any free local port, the endpoint's loss recovery, and 15 seconds for the handshake.
    fn default() -> Self {
        Self {
            peer_port: DEFAULT_SCTP_PORT,
            local_port: None,
            profile: None,
            handshake_timeout: Duration::from_secs(15),
            server_name: None,
            token: Vec::new(),
            early: Vec::new(),
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

/// Encrypted associations. A plain endpoint ignores the server's name, and refuses tokens and early messages.
impl ConnectOptions {
    /// The name that the server's certificate must have: a host name or an IP address. The default is that of the [`Host`](crate::Host)
    /// that is connected to. Where fingerprints are trusted, names are not checked.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Bytes for the acceptor, at most 1,024, such as a matchmaker's ticket: see [`ListenOptions::decide`]. Anyone on the path can read
    /// them, and copy them into a request of their own.
    pub fn token(mut self, token: impl Into<Vec<u8>>) -> Self {
        self.token = token.into();
        self
    }

    /// Sends a message with the first packet if an earlier session with the server can be resumed and its listener takes early messages, and
    /// otherwise as soon as the handshake allows. **It must be safe to repeat**: anyone on the path can copy the packet. The server receives it by
    /// [`Association::try_recv_early`](crate::Association::try_recv_early) or [`ListenOptions::on_early`], or else as any other message.
    pub fn early_message(mut self, message: impl Into<Message>) -> Self {
        self.early.push(message.into());
        self
    }

    /// Whether plain associations lack something that these options ask for. (The name of a server is also set by the host.)
    pub(super) fn needs_encryption(&self) -> bool {
        !self.token.is_empty() || !self.early.is_empty()
    }

    /// The server's name, unless the options name one.
    pub(super) fn server_name_or(mut self, name: &str) -> Self {
        self.server_name.get_or_insert_with(|| name.to_owned());
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

/// Decides how a listener answers a client.
type Judge = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// Takes early messages.
type EarlyHandler = Arc<dyn Fn(&Request, Message) + Send + Sync>;

/// Options for a listener.
#[derive(Clone, Default)]
#[must_use]
pub struct ListenOptions {
    judge: Option<Judge>,
    holds: bool,
    early: Option<EarlyHandler>,
}

impl ListenOptions {
    /// Calls `decide` with each client's request before any answer but a demand to prove the address. It runs on the endpoint's task for each such
    /// packet, so it should be quick. If it panics, the client is refused. By default all are accepted, within the endpoint's limits:
    /// [`Admission::with_associations_max`](crate::Admission::with_associations_max) and related settings.
    ///
    /// A plain client shows only its address. It is asked about at its INIT, and again at its COOKIE ECHO, whose sender has proved that it receives
    /// there.
    ///
    /// ```
    /// use festina::{Answer, ListenOptions};
    ///
    /// let from_here = ListenOptions::default()
    ///     .decide(|request| if request.remote.ip().is_loopback() { Answer::Accept } else { Answer::Ignore });
    /// let with_ticket = ListenOptions::default()
    ///     .decide(|request| if request.token.starts_with(b"ticket ") { Answer::Accept } else { Answer::Refuse });
    /// ```
    pub fn decide(mut self, decide: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        self.judge = Some(Arc::new(decide));
        self
    }

    /// Has each request that [`decide`](Self::decide) accepts wait for a decision that may take time, for example to look up a ticket: see
    /// [`Listener::request`](crate::Listener::request). The client waits for at most 30 s and its own time limit. Plain clients are refused.
    pub fn hold_requests(mut self) -> Self {
        self.holds = true;
        self
    }

    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    /// Has `handle` take early messages as they arrive, one round trip before the association can be accepted. A message may be a copy that somebody
    /// else has sent again, and the client is not authenticated. It runs on the endpoint's task and should be quick. By default, they wait for
    /// [`Association::try_recv_early`](crate::Association::try_recv_early).
    pub fn on_early(mut self, handle: impl Fn(&Request, Message) + Send + Sync + 'static) -> Self {
        self.early = Some(Arc::new(handle));
        self
    }

    pub(super) fn answer(&self, request: &Request) -> Answer {
        let judge = |decide: &Judge| program::call("decide", Answer::Refuse, || decide(request));
        self.judge.as_ref().map_or(Answer::Accept, judge)
    }

    /// Whether plain associations lack something that these options ask for.
    pub(super) fn needs_encryption(&self) -> bool {
        self.holds || self.early.is_some()
    }

    /// Hands an early message to the handler, or returns it if there is none.
    pub(super) fn take_early(&self, request: &Request, message: Message) -> Option<Message> {
        match &self.early {
            Some(handle) => {
                program::call("on_early", (), || handle(request, message));
                None
            }
            None => Some(message),
        }
    }
}

impl fmt::Debug for ListenOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ListenOptions").field("decides", &self.judge.is_some()).finish()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_no_token() {
        let token = b"ticket".to_vec();
        let options = ConnectOptions::default().token(token.clone());
        let hello = festina_secure::Hello {
            token,
            ports: festina_sctp::Ports { local: 1, peer: 2 },
            server_name: None,
            alpn: None,
            is_address_proved: true,
        };
        for text in [format!("{options:?}"), format!("{hello:?}")] {
            assert!(text.contains("token_bytes: 6") && !text.contains("116, 105"), "{text}");
        }
    }
}
