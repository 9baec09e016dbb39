//! Settings that few programs need.

use festina_sctp::recovery::Mechanisms;
use festina_sctp::{self as sctp, Expiry, SendBufferPolicy};
use festina_units::Duration;

use super::transport::Transport;

/// Settings of associations that few programs need, such as timers of the protocol: [`Transport::with_expert`]. Each method returns the settings with
/// one changed.
#[derive(Clone, Debug)]
#[must_use]
pub struct Expert(Transport);

impl Transport {
    /// Changes settings that few programs need.
    pub fn with_expert(self, change: impl FnOnce(Expert) -> Expert) -> Self {
        change(Expert(self)).0
    }
}

/// Timers and retry limits.
impl Expert {
    /// Sets the retransmission timeout before the first RTT sample, 1 s by default; at least 1 ms. On a path with a longer round trip the first
    /// packets are sent twice.
    pub fn with_rto_initial(mut self, timeout: Duration) -> Self {
        self.0.core.timers.rto_initial = timeout;
        self
    }

    /// Sets the maximum retransmission timeout, 60 s by default; at least 1 ms.
    pub fn with_rto_max(mut self, timeout: Duration) -> Self {
        self.0.core.timers.rto_max = timeout;
        self
    }

    /// Sets the lower bound of the retransmission timeout (RFC 9260 §16), instead of that of the [`Profile`](crate::Profile), which has to be set
    /// before. A bound far above the round trip makes repairs of losses that nothing else reveals late.
    pub fn with_rto_min(mut self, timeout: Duration) -> Self {
        let mechanisms = &mut self.0.core.mechanisms;
        (mechanisms.normal.rto_min, mechanisms.thin.rto_min) = (timeout, timeout);
        self
    }

    /// Sets the lifetime of a state cookie, 60 s by default; at least 1 ms.
    pub fn with_cookie_lifetime(mut self, lifetime: Duration) -> Self {
        self.0.core.timers.cookie_lifetime = lifetime;
        self
    }

    /// Sets the time limit for progress of an orderly shutdown, 30 s by default. Progress means that the peer has acknowledged another sixteenth of
    /// the data that was outstanding at the start. At the limit an ABORT ends the association.
    pub fn with_shutdown_stall(mut self, stall: Duration) -> Self {
        self.0.core.timers.shutdown_stall = stall;
        self
    }

    /// Sets the overall limit from this side's first SHUTDOWN to the end. `None`, the default, means 5 times the maximum retransmission timeout (RFC
    /// 9260 §9.2, T5).
    pub fn with_shutdown_guard(mut self, guard: impl Into<Option<Duration>>) -> Self {
        self.0.core.timers.shutdown_guard = guard.into();
        self
    }

    /// Sets the maximum number of retransmissions of INIT and COOKIE ECHO (Max.Init.Retransmits), 8 by default.
    pub fn with_handshake_retries(mut self, retries: u32) -> Self {
        self.0.core.retries.init_max = retries;
        self
    }

    /// Sets the number of consecutive timeouts after which a peer counts as unreachable: Association.Max.Retrans, 10 by default. The peer must also
    /// have acknowledged nothing for `unreachable_after_min`, 5 minutes by default. Ignored with a [peer timeout](Transport::with_peer_timeout).
    pub fn with_association_retries(mut self, retries: u32, unreachable_after_min: Duration) -> Self {
        self.0.core.retries.association_max = retries;
        self.0.core.retries.unreachable_after_min = unreachable_after_min;
        self
    }

    /// Sets the number of consecutive timeouts after which a path counts as inactive (Path.Max.Retrans), 5 by default.
    pub fn with_path_retries(mut self, retries: u32) -> Self {
        self.0.core.retries.path_max = retries;
        self
    }
}

/// Loss recovery, the send buffer, and path state.
impl Expert {
    /// Sets single loss-recovery mechanisms. [`Transport::with_profile`] sets all of them, and [`Transport::with_redundancy`] the most common one.
    pub fn with_mechanisms(mut self, mechanisms: Mechanisms) -> Self {
        self.0.core.mechanisms = mechanisms;
        self
    }

    /// Allows sending messages that are larger than the peer's receive buffer. A peer that delivers messages whole, as Festina does, ends the
    /// association when it receives one, so they are refused by default ([`SendErrorKind::TooLong`](crate::SendErrorKind::TooLong)). Peers that deliver large
    /// messages in parts, such as Linux and usrsctp, accept them.
    pub fn with_messages_beyond_peer_buffer(mut self, allowed: bool) -> Self {
        self.0.core.limits.exceeds_peer_buffer = allowed;
        self
    }

    /// Limits the unsent data in the send buffer to this number of congestion windows and of packets of the maximum size beyond them, by default not at
    /// all. It replaces [`Transport::with_send_delay`], which limits it in time.
    pub fn with_send_buffer_windows(mut self, windows: u32, extra_packets: u32) -> Self {
        self.0.core.limits.send_buffer = SendBufferPolicy::FollowsWindow { windows, extra_packets };
        self
    }

    /// Sets the low-water mark: senders blocked by a full send buffer resume when it has drained to this size, 1 MiB by default, at most the buffer's
    /// size.
    pub fn with_send_low_water_bytes(mut self, bytes: usize) -> Self {
        self.0.core.limits.send_low_water_bytes = bytes;
        self
    }

    /// Sets how many packets one acknowledgement may release (Max.Burst, RFC 9260 §6.1), 4 by default. No effect with a congestion controller that
    /// paces.
    pub fn with_burst_packets_max(mut self, packets: u32) -> Self {
        self.0.core.limits.burst_packets_max = packets;
        self
    }

    /// Sets the size and lifetime of the cache of path state per destination, an IP address and UDP port (RFC 9040). It lets the next association
    /// repair its first losses as quickly as later ones. The default is 1,024 destinations for ten minutes; 0 disables it. Only the profile `festina`
    /// uses it.
    pub fn with_destination_memory(mut self, destinations_max: usize, lifetime: Duration) -> Self {
        self.0.core.memory = sctp::DestinationMemory { destinations_max, lifetime };
        self
    }
}

/// Acknowledgements and extensions of the protocol.
impl Expert {
    /// Sets how many packets with DATA share one acknowledgement at most, 2 by default, from 1 to 255.
    pub fn with_sack_every_packets(mut self, packets: u8) -> Self {
        self.0.core.sack.every_packets = packets;
        self
    }

    /// Sets whether the peer is asked to answer packets that it receives at the same instant with one acknowledgement for up to 16. A private
    /// extension, which only Festina knows. It saves CPU time of bulk transfers on fast paths, and is asked for with CUBIC and the
    /// background controller alone. On by default on encrypted endpoints with these. Plain ones announce nothing private by default.
    pub fn with_sack_peer_batches(mut self, batches: bool) -> Self {
        self.0.peer_batches = Some(batches);
        self
    }

    /// Offers explicit congestion notification (RFC 3168) to the peer: routers may then mark packets with data instead of dropping them, so that
    /// nothing has to be repaired. A path that drops ECN-capable packets is detected, at the cost of at most four packets. On by default.
    pub fn with_ecn(mut self, offered: bool) -> Self {
        self.0.core.carrier.ecn = offered;
        self
    }

    /// Sets when the sender checks the lifetime of a message (RFC 3758 leaves it open).
    pub fn with_expiry(mut self, expiry: Expiry) -> Self {
        self.0.core.partial_reliability.expiry = expiry;
        self
    }

    /// Offers NR-SACK to the peer: acknowledgements that also report which chunks the receiver will not drop. On by default.
    pub fn with_nr_sack(mut self, offered: bool) -> Self {
        self.0.core.partial_reliability.nr_sack = offered;
        self
    }

    /// Allows the peer to reset its streams, and to ask this side to reset its own (RFC 6525). On by default, since data channels are closed that way
    /// (RFC 8831).
    pub fn with_stream_resets_by_peer(mut self, allowed: bool) -> Self {
        self.0.core.peer_requests.reset_streams = allowed;
        self
    }

    /// Allows the peer to add streams, up to the accepted number of inbound ones, and to ask this side to add some (RFC 6525). Off by default.
    pub fn with_streams_added_by_peer(mut self, allowed: bool) -> Self {
        self.0.core.peer_requests.add_streams = allowed;
        self
    }
}
