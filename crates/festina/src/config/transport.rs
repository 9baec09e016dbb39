//! Settings of associations.

use festina_sctp::recovery::redundancy::Redundancy;
use festina_sctp::{
    self as sctp, ConfigError, CongestionControl, MultihomingError, PathPolicy, PeerRestart, SendBufferPolicy,
    StreamScheduler,
};
use festina_units::Duration;

use crate::recovery::Profile;

/// Settings of the associations of an endpoint: loss recovery, timers, buffers, streams. Each method returns the settings with one changed. Ranges
/// are checked by [`Transport::validate`] and when an endpoint is opened. The defaults follow RFC 9260 §16, except for Festina's own loss recovery
/// and congestion control. Settings that few programs need are in [`Expert`](super::Expert).
///
/// ```
/// use festina::{Duration, Profile, Transport};
///
/// let transport = Transport::default()
///     .with_profile(Profile::Rfc9260)
///     .with_send_buffer_bytes(64 << 10)
///     .with_peer_timeout(Duration::from_secs(10))
///     .with_expert(|expert| expert.with_rto_initial(Duration::from_millis(300)));
/// assert_eq!(transport.send_buffer_bytes(), 64 << 10);
/// assert!(transport.validate().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Transport {
    pub(super) core: sctp::Config,
    /// The default follows from encryption and the congestion controller.
    pub(super) peer_batches: Option<bool>,
    /// The default follows from the endpoint's address.
    pub(super) has_packet_bytes_max: bool,
    /// The default follows from the endpoint's addresses.
    pub(super) paths_max: Option<usize>,
    pub(super) path_policy: PathPolicy,
}

impl Default for Transport {
    fn default() -> Self {
        // The core turns ECN off, since it cannot know whether its caller sees the IP header. This crate does.
        let carrier = sctp::Carrier { ecn: true, ..sctp::Carrier::default() };
        // Nor does it know of other clients, which must not repeat lost requests at the same moment.
        let retries = sctp::Retries { spread: true, ..sctp::Retries::default() };
        let core = sctp::Config { carrier, retries, ..sctp::Config::default() };
        Self {
            core,
            peer_batches: None,
            has_packet_bytes_max: false,
            paths_max: None,
            path_policy: PathPolicy::default(),
        }
    }
}

/// Getters.
impl Transport {
    /// Returns the congestion controller.
    pub fn congestion(&self) -> CongestionControl {
        self.core.congestion
    }

    /// Returns the silence after which a peer counts as unreachable.
    pub fn peer_timeout(&self) -> Option<Duration> {
        self.core.peer_timeout
    }

    /// Returns the maximum message size in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.core.limits.message_bytes_max
    }

    /// Returns the size of the send buffer in bytes.
    pub fn send_buffer_bytes(&self) -> usize {
        self.core.limits.send_buffer_bytes
    }

    /// Returns the policy for unsent data in the send buffer.
    pub fn send_buffer(&self) -> SendBufferPolicy {
        self.core.limits.send_buffer
    }

    /// Returns the size of the receive buffer in bytes.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.core.limits.receive_buffer_bytes
    }

    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.core.validate()?;
        let paths_max = self.paths_max.unwrap_or(1);
        match (sctp::Multihoming { paths_max, ..sctp::Multihoming::default() }).validate() {
            Err(MultihomingError::OutOfRange(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes settings of the core, the crate `festina-sctp`, except for [`Admission`](crate::Admission).
    pub fn from_core(core: sctp::Config) -> Self {
        let peer_batches = Some(core.sack.peer_batches);
        Self { core, peer_batches, has_packet_bytes_max: true, paths_max: None, path_policy: PathPolicy::default() }
    }

    /// Returns the settings of the core for plain associations, as simulated hosts take them.
    #[must_use]
    pub fn into_core(self) -> sctp::Config {
        self.into_core_for(false, 0)
    }

    /// Packets are `spare_bytes` larger than the default on all paths.
    pub(crate) fn into_core_for(mut self, is_encrypted: bool, spare_bytes: usize) -> sctp::Config {
        // Encrypted peers know the extension, and others cannot read it.
        let suits = is_encrypted && self.core.congestion.is_always_paced();
        self.core.sack.peer_batches = self.peer_batches.unwrap_or(suits);
        let carried = sctp::Limits::default().packet_bytes_max + spare_bytes;
        let limits = &mut self.core.limits;
        let wanted = if self.has_packet_bytes_max { limits.packet_bytes_max } else { carried };
        // Routers may drop larger ones silently, and a chunk cannot be cut again.
        if wanted > carried {
            limits.packet_bytes_searched_max = limits.packet_bytes_searched_max.max(Some(wanted));
        }
        limits.packet_bytes_max = wanted.min(carried);
        self.core
    }
}

/// Loss recovery, congestion control and timers.
impl Transport {
    /// Sets the loss-recovery mechanisms of the sender to those of a profile, [`Profile::Festina`] by default. Nothing else depends on the profile.
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.core.mechanisms = profile.mechanisms();
        self
    }

    /// Sets the [`Redundancy`]: copies of messages that are sent before any loss is detected. It is the mechanism that applications change most
    /// often.
    pub fn with_redundancy(mut self, redundancy: Redundancy) -> Self {
        self.core.mechanisms.redundancy = redundancy;
        self
    }

    /// Sets the congestion controller, CUBIC by default.
    pub fn with_congestion(mut self, congestion: CongestionControl) -> Self {
        self.core.congestion = congestion;
        self
    }

    /// Sets the silence after which a peer counts as gone, from 1 s to a day. The association then ends with
    /// [`ClosedReason::PeerUnreachable`](crate::ClosedReason::PeerUnreachable), within 1.4 times this time. The default is 60 s.
    /// With `None` the rules of RFC 9260 §8.1 apply: [`Expert::with_association_retries`](super::Expert::with_association_retries).
    pub fn with_peer_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.core.peer_timeout = timeout.into();
        self
    }

    /// Sets the heartbeat interval of an idle path, 30 s by default; `None` sends none. With the default peer timeout an idle association already
    /// sends one after 15 s.
    pub fn with_heartbeat_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.core.timers.heartbeat_interval = interval.into();
        self
    }

    /// Sets the maximum number of paths of an association, from 1 to 8: 8 by default if the endpoint has several addresses
    /// ([`ServerConfig::with_other_addresses`](crate::ServerConfig::with_other_addresses)), and 1 otherwise. Each address of the peer is a path, once a
    /// heartbeat there was answered. Data is sent on one; when it does not answer, another takes over within about two round trips.
    /// [`Event::PathConfirmed`](crate::Event::PathConfirmed) and [`Event::PathReachable`](crate::Event::PathReachable) report changes.
    pub fn with_paths_max(mut self, paths: usize) -> Self {
        self.paths_max = Some(paths);
        self
    }

    /// Sets how several active paths share the packets of an association: [`PathPolicy::Repairs`] by default.
    pub fn with_path_policy(mut self, policy: PathPolicy) -> Self {
        self.path_policy = policy;
        self
    }

    /// Sets the maximum delay of acknowledgements, 200 ms by default and at most 500 ms (RFC 9260 §6.2). Zero acknowledges every packet at once.
    pub fn with_sack_delay(mut self, delay: Duration) -> Self {
        self.core.sack.delay = delay;
        self
    }
}

/// Buffer and message sizes.
impl Transport {
    /// Sets the maximum size of SCTP packets in bytes, with the common header but without IP and UDP headers: from 384 to 65,480. The default, 1,232,
    /// fits into IPv6's minimum MTU with UDP encapsulation. An encrypted endpoint counts its overhead of 15 bytes as part of the packet, and bound to
    /// an IPv4 address takes the default as 1,252, which fits into as many bytes.
    ///
    /// Packets are larger than the default only on paths that are found to carry them: while more is queued than fits into a packet, probes look for
    /// the largest size up to this one (RFC 8899). 8,972 suits networks with an MTU of 9,000. Packets get smaller again if the path carries no large
    /// ones any more, but never because data is lost. An encrypted peer must allow larger packets by the same setting.
    /// [`Stats::packet_bytes_max`](crate::Stats::packet_bytes_max) is the present size.
    pub fn with_packet_bytes_max(mut self, bytes: usize) -> Self {
        self.core.limits.packet_bytes_max = bytes;
        self.has_packet_bytes_max = true;
        self
    }

    /// Sets the maximum size of messages sent and received, in bytes: 1 MiB by default, at most the receive buffer, since messages are delivered
    /// whole. If the receive buffer is smaller than the default, received messages are limited to the buffer. A larger message from the peer ends the
    /// association.
    pub fn with_message_bytes_max(mut self, bytes: usize) -> Self {
        self.core.limits.message_bytes_max = bytes;
        self
    }

    /// Sets the size of the send buffer: bytes queued or not yet acknowledged, 4 MiB by default, from 1,500 to 1 GiB. Each message counts its payload
    /// plus 128 bytes. A higher low-water mark is lowered to it.
    pub fn with_send_buffer_bytes(mut self, bytes: usize) -> Self {
        self.core.limits.send_buffer_bytes = bytes;
        self.core.limits.send_low_water_bytes = self.core.limits.send_low_water_bytes.min(bytes);
        self
    }

    /// Sets the target for the wait of a message in the send buffer, from 1 ms to a day. Beyond it the buffer counts as full, so that the application
    /// decides as late as possible which message to send. `None`, the default, sets no limit. C and Python call it the send delay, and commands
    /// `--send-delay`.
    pub fn with_send_delay(mut self, delay: impl Into<Option<Duration>>) -> Self {
        self.core.limits.send_buffer = delay.into().map_or(SendBufferPolicy::Fixed, SendBufferPolicy::Target);
        self
    }

    /// Sets the size of the receive buffer: the window advertised when it is empty, in bytes, 1 MiB by default, from 1,500 to 1 GiB. The memory
    /// allocated for a peer never exceeds twice this plus 64 KiB.
    pub fn with_receive_buffer_bytes(mut self, bytes: usize) -> Self {
        self.core.limits.receive_buffer_bytes = bytes;
        self
    }

    /// Sets the maximum unread bytes of one stream, each message counted with 64 bytes more; from 1 byte, without limit by default. All streams share
    /// the receive buffer, so an unread stream can fill it and block the others. When a stream reaches the limit, its further messages are discarded,
    /// and [`Event::StreamDiscarded`](crate::Event::StreamDiscarded) reports it. Messages received before can still be read.
    /// [`StreamHandle::resume`](crate::StreamHandle::resume) or a reset by the peer ends the discarding.
    pub fn with_stream_unread_bytes_max(mut self, bytes: usize) -> Self {
        self.core.limits.stream_unread_bytes_max = Some(bytes);
        self
    }
}

/// Streams and events.
impl Transport {
    /// Sets the numbers of outbound streams requested and of inbound streams accepted: from 1 to 65,535, the defaults. A receive buffer below 448 KiB
    /// allows fewer inbound streams: 8,192 plus one per 8 bytes.
    pub fn with_streams(mut self, outbound: u16, inbound: u16) -> Self {
        (self.core.limits.outbound_streams, self.core.limits.inbound_streams) = (outbound, inbound);
        self
    }

    /// Sets the order in which streams send. The default is the order of the calls.
    pub fn with_scheduler(mut self, scheduler: StreamScheduler) -> Self {
        self.core.scheduler = scheduler;
        self
    }

    /// Offers message interleaving (RFC 8260) to the peer, so that a small message need not wait for a large one on another stream. The scheduler
    /// decides the order; with [`StreamScheduler::FirstComeFirstServed`] nothing alternates. No further message of several packets begins while messages
    /// that have begun hold half of the peer's receive buffer. Off by default: each message costs 4 more bytes.
    pub fn with_interleaving(mut self, offered: bool) -> Self {
        self.core.interleaving = offered;
        self
    }

    /// Sets the handling of a peer that has lost its state and sets the association up again: [`PeerRestart::Continue`] by default.
    ///
    /// With [`PeerRestart::End`], [`Association::recv`](crate::Association::recv) returns everything received before the restart and then
    /// [`ClosedReason::PeerRestarted`](crate::ClosedReason::PeerRestarted); a listener accepts the restarted peer as a new association.
    pub fn with_peer_restart(mut self, restart: PeerRestart) -> Self {
        self.core.peer_requests.restart = restart;
        self
    }

    /// Sets whether a peer may move: to another UDP port (RFC 6951 §5.4) or, if it is authenticated by encryption, to an address that it has not named. On by
    /// default. With `false`, packets from elsewhere are dropped, and [`EndpointStats::packets_dropped`](crate::EndpointStats::packets_dropped)
    /// counts them: a client whose NAT changes its port or address has to connect again.
    pub fn with_peer_moves(mut self, allowed: bool) -> Self {
        self.core.peer_requests.moves = allowed;
        self
    }

    /// Reports the progress of every message: [`ProtocolEvent::MessageSent`](crate::ProtocolEvent::MessageSent) and similar events. Off by default.
    pub fn with_message_events(mut self, wanted: bool) -> Self {
        self.core.message_events = wanted;
        self
    }
}
