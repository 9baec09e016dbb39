//! Settings of an endpoint. Only methods are public, so that new settings do not break existing code.

use std::sync::{Arc, LazyLock};

use festina_sctp::recovery::Mechanisms;
use festina_sctp::recovery::redundancy::Redundancy;
use festina_sctp::{
    self as sctp, ConfigError, CongestionControl, Expiry, PeerRestart, SendBufferPolicy, StreamScheduler,
};
use festina_units::Duration;

use crate::recovery::Profile;
use crate::security::Security;

/// Settings of an endpoint and of its associations. Each method returns the settings with one changed. Ranges are checked by [`Config::validate`] and
/// when an endpoint is bound. The defaults follow RFC 9260 §16, except for Festina's own loss recovery and congestion control.
///
/// By default associations are encrypted. Listening then needs an identity, and servers are trusted whose certificate a certificate authority of the
/// operating system has signed: [`with_security`](Self::with_security). [`plain`](Self::plain) speaks plain SCTP.
///
/// ```
/// use festina::{Config, Duration, Profile};
///
/// let config = Config::default()
///     .with_profile(Profile::Rfc9260)
///     .with_send_buffer_bytes(64 << 10)
///     .with_peer_timeout(Duration::from_secs(10));
/// assert_eq!(config.send_buffer_bytes(), 64 << 10);
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Config(sctp::Config, Option<Arc<Security>>, Chosen);

/// Settings whose default follows from the others and from the endpoint's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chosen {
    peer_batches: Option<bool>,
    packet_bytes_max: bool,
}

/// Two configurations with security settings are equal only if these are clones of each other.
impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        (&self.0, self.2) == (&other.0, other.2)
            && self.1.as_ref().map(Arc::as_ptr) == other.1.as_ref().map(Arc::as_ptr)
    }
}

/// The default settings of encryption.
static ENCRYPTED: LazyLock<Arc<Security>> = LazyLock::new(Arc::default);

impl Default for Config {
    fn default() -> Self {
        let Self(core, _, chosen) = Self::plain();
        Self(core, Some(Arc::clone(&ENCRYPTED)), chosen)
    }
}

impl Config {
    /// Returns the default settings for plain SCTP, which unmodified peers understand: nothing is encrypted, and peers are not authenticated.
    pub fn plain() -> Self {
        // The core turns ECN off, since it cannot know whether its caller sees the IP header. This crate does.
        let carrier = sctp::Carrier { ecn: true, ..sctp::Carrier::default() };
        // Nor does it know of other clients, which must not repeat lost requests at the same moment.
        let retries = sctp::Retries { spread: true, ..sctp::Retries::default() };
        Self(sctp::Config { carrier, retries, ..sctp::Config::default() }, None, Chosen::default())
    }
}

/// Getters.
impl Config {
    /// Returns the congestion controller.
    pub fn congestion(&self) -> CongestionControl {
        self.0.congestion
    }

    /// Returns the silence after which a peer counts as unreachable.
    pub fn peer_timeout(&self) -> Option<Duration> {
        self.0.peer_timeout
    }

    /// Returns the maximum message size in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.0.limits.message_bytes_max
    }

    /// Returns the size of the send buffer in bytes.
    pub fn send_buffer_bytes(&self) -> usize {
        self.0.limits.send_buffer_bytes
    }

    /// Returns the policy for unsent data in the send buffer.
    pub fn send_buffer(&self) -> SendBufferPolicy {
        self.0.limits.send_buffer
    }

    /// Returns the size of the receive buffer in bytes.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.0.limits.receive_buffer_bytes
    }

    /// Returns the maximum number of associations that peers of one IP address may set up.
    pub fn associations_per_address_max(&self) -> usize {
        self.0.admission.associations_per_address_max
    }

    /// Returns the maximum number of out-of-the-blue packets processed per second.
    pub fn strays_per_second_max(&self) -> u32 {
        self.0.admission.strays_per_second_max
    }

    /// The TLS settings, if the endpoint is encrypted.
    pub fn security(&self) -> Option<&Security> {
        self.1.as_deref()
    }

    /// The same settings for plain SCTP.
    pub(crate) fn without_security(&self) -> Self {
        Self(self.0.clone(), None, self.2)
    }

    /// Creates unencrypted settings from those of the core, which has more of them. The interface of `festina_sctp` is unstable.
    pub fn from_core(core: sctp::Config) -> Self {
        let peer_batches = Some(core.sack.peer_batches);
        Self(core, None, Chosen { peer_batches, packet_bytes_max: true })
    }

    /// Returns the settings of the core, for programs that run it without an endpoint. The interface of `festina_sctp` is unstable.
    #[must_use]
    pub fn into_core(self) -> sctp::Config {
        let Self(mut core, security, chosen) = self;
        // Encrypted peers know the extension, and others cannot read it.
        let suits = security.is_some() && core.congestion.is_always_paced();
        core.sack.peer_batches = chosen.peer_batches.unwrap_or(suits);
        core
    }

    /// Whether the packet size is the default.
    pub(crate) fn has_default_packet_bytes_max(&self) -> bool {
        !self.2.packet_bytes_max
    }

    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.0.validate()
    }
}

/// Loss recovery and congestion control.
impl Config {
    /// Sets the loss-recovery mechanisms of the sender to those of a profile, [`Profile::Festina`] by default. Nothing else depends on the profile.
    pub fn with_profile(self, profile: Profile) -> Self {
        self.with_mechanisms(profile.mechanisms())
    }

    /// Sets single loss-recovery mechanisms instead of a profile's. The interface of `festina_sctp` is unstable.
    pub fn with_mechanisms(mut self, mechanisms: Mechanisms) -> Self {
        self.0.mechanisms = mechanisms;
        self
    }

    /// Sets the [`Redundancy`]: copies of messages that are sent before any loss is detected. It is the mechanism that applications change most
    /// often.
    pub fn with_redundancy(mut self, redundancy: Redundancy) -> Self {
        self.0.mechanisms.redundancy = redundancy;
        self
    }

    /// Sets whether the probes of [`Profile::Festina`] are patient, which they are not by default: behind a late round trip, one that exceeds the
    /// shortest by more than half and by more than 10 ms, a probe waits for one and a half times as long as that. Use it where a thin stream fills
    /// much of a slow link, so that its messages queue: probes for messages that are not lost lengthen the queue. Has no effect on other profiles,
    /// and [`with_profile`](Self::with_profile) resets it.
    pub fn with_patient_probes(mut self, patient: bool) -> Self {
        self.0.mechanisms = self.0.mechanisms.with_patient_probes(patient);
        self
    }

    /// Sets the congestion controller, CUBIC by default.
    pub fn with_congestion(mut self, congestion: CongestionControl) -> Self {
        self.0.congestion = congestion;
        self
    }
}

/// Encryption.
impl Config {
    /// Sets the identity of this side, the peers that it trusts, and other settings of encryption: see [`security`](crate::security). The endpoint
    /// accepts no unencrypted associations, except by [`Security::with_plain_clients`]. By default, it trusts the roots of the operating system to
    /// connect, and has no identity, so that it cannot listen.
    pub fn with_security(mut self, security: Security) -> Self {
        self.1 = Some(Arc::new(security));
        self
    }
}

/// Timers and retry limits.
impl Config {
    /// Sets the silence after which a peer counts as gone, from 1 s to a day. The association then ends with
    /// [`ClosedReason::PeerUnreachable`](crate::ClosedReason::PeerUnreachable), within 1.4 times this time. The default is 60 s.
    /// With `None` the rules of RFC 9260 §8.1 apply: [`with_association_retries`](Self::with_association_retries).
    pub fn with_peer_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.0.peer_timeout = timeout.into();
        self
    }

    /// Sets the heartbeat interval of an idle path, 30 s by default; `None` sends none. With the default peer timeout an idle association already
    /// sends one after 15 s.
    pub fn with_heartbeat_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.0.timers.heartbeat_interval = interval.into();
        self
    }

    /// Sets the retransmission timeout before the first RTT sample, 1 s by default; at least 1 ms. On a path with a longer round trip the first
    /// packets are sent twice.
    pub fn with_rto_initial(mut self, timeout: Duration) -> Self {
        self.0.timers.rto_initial = timeout;
        self
    }

    /// Sets the maximum retransmission timeout, 60 s by default; at least 1 ms.
    pub fn with_rto_max(mut self, timeout: Duration) -> Self {
        self.0.timers.rto_max = timeout;
        self
    }

    /// Sets the lifetime of a state cookie, 60 s by default; at least 1 ms.
    pub fn with_cookie_lifetime(mut self, lifetime: Duration) -> Self {
        self.0.timers.cookie_lifetime = lifetime;
        self
    }

    /// Sets the time limit for progress of an orderly shutdown, 30 s by default. Progress means that the peer has acknowledged another sixteenth of
    /// the data that was outstanding at the start. At the limit an ABORT ends the association.
    pub fn with_shutdown_stall(mut self, stall: Duration) -> Self {
        self.0.timers.shutdown_stall = stall;
        self
    }

    /// Sets the overall limit from this side's first SHUTDOWN to the end. `None`, the default, means 5 times the maximum retransmission timeout (RFC
    /// 9260 §9.2, T5).
    pub fn with_shutdown_guard(mut self, guard: impl Into<Option<Duration>>) -> Self {
        self.0.timers.shutdown_guard = guard.into();
        self
    }

    /// Sets the maximum number of retransmissions of INIT and COOKIE ECHO (Max.Init.Retransmits), 8 by default.
    pub fn with_handshake_retries(mut self, retries: u32) -> Self {
        self.0.retries.init_max = retries;
        self
    }

    /// Sets the number of consecutive timeouts after which a peer counts as unreachable: Association.Max.Retrans, 10 by default. The peer must also
    /// have acknowledged nothing for `unreachable_after_min`, 5 minutes by default. Ignored with a [`peer_timeout`](Self::with_peer_timeout).
    pub fn with_association_retries(mut self, retries: u32, unreachable_after_min: Duration) -> Self {
        self.0.retries.association_max = retries;
        self.0.retries.unreachable_after_min = unreachable_after_min;
        self
    }

    /// Sets the number of consecutive timeouts after which a path counts as inactive (Path.Max.Retrans), 5 by default.
    pub fn with_path_retries(mut self, retries: u32) -> Self {
        self.0.retries.path_max = retries;
        self
    }
}

/// Buffer and message sizes.
impl Config {
    /// Sets the maximum size of SCTP packets in bytes, with the common header but without IP and UDP headers: from 384 to 65,480. The default, 1,232,
    /// fits into IPv6's minimum MTU with UDP encapsulation. An encrypted endpoint counts its overhead of 15 bytes as part of the packet, and bound to
    /// an IPv4 address takes the default as 1,252, which fits into as many bytes.
    pub fn with_packet_bytes_max(mut self, bytes: usize) -> Self {
        self.0.limits.packet_bytes_max = bytes;
        self.2.packet_bytes_max = true;
        self
    }

    /// Sets the maximum size of messages sent and received, in bytes: 1 MiB by default, at most the receive buffer, since messages are delivered
    /// whole. If the receive buffer is smaller than the default, received messages are limited to the buffer. A larger message from the peer ends the
    /// association.
    pub fn with_message_bytes_max(mut self, bytes: usize) -> Self {
        self.0.limits.message_bytes_max = bytes;
        self
    }

    /// Allows sending messages that are larger than the peer's receive buffer. A peer that delivers messages whole, as Festina does, ends the
    /// association when it receives one, so they are refused by default ([`SendErrorKind::TooLong`](crate::SendErrorKind::TooLong)). Peers that deliver large
    /// messages in parts, such as Linux and usrsctp, accept them.
    pub fn with_messages_beyond_peer_buffer(mut self, allowed: bool) -> Self {
        self.0.limits.exceeds_peer_buffer = allowed;
        self
    }

    /// Sets the size of the send buffer: bytes queued or not yet acknowledged, 4 MiB by default, from 1,500 to 1 GiB. Each message counts its payload
    /// plus 128 bytes. A higher low-water mark is lowered to it.
    pub fn with_send_buffer_bytes(mut self, bytes: usize) -> Self {
        self.0.limits.send_buffer_bytes = bytes;
        self.0.limits.send_low_water_bytes = self.0.limits.send_low_water_bytes.min(bytes);
        self
    }

    /// Sets the target for the wait of a message in the send buffer, from 1 ms to a day. Beyond it the buffer counts as full, so that the application
    /// decides as late as possible which message to send. `None`, the default, sets no limit. C and Python call it the send delay, and commands
    /// `--send-delay`.
    pub fn with_send_delay(self, delay: impl Into<Option<Duration>>) -> Self {
        self.with_send_buffer(delay.into().map_or(SendBufferPolicy::Fixed, SendBufferPolicy::Target))
    }

    /// Sets how much of the send buffer may hold unsent data: by default all of it. With [`FollowsWindow`](SendBufferPolicy::FollowsWindow) it
    /// follows the congestion window; for a limit in time see [`with_send_delay`](Self::with_send_delay).
    pub fn with_send_buffer(mut self, policy: SendBufferPolicy) -> Self {
        self.0.limits.send_buffer = policy;
        self
    }

    /// Sets the low-water mark: senders blocked by a full send buffer resume when it has drained to this size, 1 MiB by default, at most the buffer's
    /// size.
    pub fn with_send_low_water_bytes(mut self, bytes: usize) -> Self {
        self.0.limits.send_low_water_bytes = bytes;
        self
    }

    /// Sets the size of the receive buffer: the window advertised when it is empty, in bytes, 1 MiB by default, from 1,500 to 1 GiB. The memory
    /// allocated for a peer never exceeds twice this plus 64 KiB.
    pub fn with_receive_buffer_bytes(mut self, bytes: usize) -> Self {
        self.0.limits.receive_buffer_bytes = bytes;
        self
    }

    /// Sets the maximum unread bytes of one stream, each message counted with 64 bytes more; from 1 byte, without limit by default. All streams share
    /// the receive buffer, so an unread stream can fill it and block the others. When a stream reaches the limit, its further messages are discarded,
    /// and [`Event::StreamDiscarded`](crate::Event::StreamDiscarded) reports it. Messages received before can still be read.
    /// [`Stream::resume`](crate::Stream::resume) or a reset by the peer ends the discarding.
    pub fn with_stream_unread_bytes_max(mut self, bytes: usize) -> Self {
        self.0.limits.stream_unread_bytes_max = Some(bytes);
        self
    }

    /// Sets the numbers of outbound streams requested and of inbound streams accepted: from 1 to 65,535, the defaults. A receive buffer below 448 KiB
    /// allows fewer inbound streams: 8,192 plus one per 8 bytes.
    pub fn with_streams(mut self, outbound: u16, inbound: u16) -> Self {
        (self.0.limits.outbound_streams, self.0.limits.inbound_streams) = (outbound, inbound);
        self
    }

    /// Sets how many packets one acknowledgement may release (Max.Burst, RFC 9260 §6.1), 4 by default. No effect with a congestion controller that
    /// paces.
    pub fn with_burst_packets_max(mut self, packets: u32) -> Self {
        self.0.limits.burst_packets_max = packets;
        self
    }
}

/// Admission of peers, and the cache of destinations.
impl Config {
    /// Sets the maximum number of concurrent associations, including those that this side initiated: 65,536 by default, at most 2²⁴. Further peers
    /// are refused with an ABORT with the cause "Out of Resource" (RFC 9260 §3.3.10.4).
    pub fn with_associations_max(mut self, associations: usize) -> Self {
        self.0.admission.associations_max = associations;
        self
    }

    /// Sets the maximum number of concurrent associations that peers with one IP address may set up: 4,096 by default. A /64 network counts as one
    /// IPv6 address. Further peers are refused in the same way. Many peers behind one NAT need a higher limit.
    pub fn with_associations_per_address_max(mut self, associations: usize) -> Self {
        self.0.admission.associations_per_address_max = associations;
        self
    }

    /// Sets the maximum number of associations of one port that wait for [`Listener::accept`](crate::Listener::accept), 1,024 by default. An encrypted
    /// handshake that was admitted takes a place until it is complete, or for at most 30 s. Further handshakes get no answer, so that the peer repeats
    /// them.
    pub fn with_accept_queue_max(mut self, associations: usize) -> Self {
        self.0.admission.accept_queue_max = associations;
        self
    }

    /// Sets the maximum number per second of out-of-the-blue packets (mainly INITs) that are processed: 20,000 by default. Further ones are dropped
    /// unread. A burst may have a tenth of this number. For COOKIE ECHO the limit is 4 times as high, since a forged one draws no reply.
    pub fn with_strays_per_second_max(mut self, packets: u32) -> Self {
        self.0.admission.strays_per_second_max = packets;
        self
    }

    /// Sets the size and lifetime of the cache of path state per destination, an IP address and UDP port (RFC 9040). It lets the next association
    /// repair its first losses as quickly as later ones. The default is 1,024 destinations for ten minutes; 0 disables it. Only the profile `festina`
    /// uses it.
    pub fn with_destination_memory(mut self, destinations_max: usize, lifetime: Duration) -> Self {
        self.0.memory = sctp::DestinationMemory { destinations_max, lifetime };
        self
    }
}

/// Streams, acknowledgements and partial reliability.
impl Config {
    /// Sets the maximum delay of acknowledgements, 200 ms by default and at most 500 ms (RFC 9260 §6.2). Zero acknowledges every packet at once.
    pub fn with_sack_delay(mut self, delay: Duration) -> Self {
        self.0.sack.delay = delay;
        self
    }

    /// Sets how many packets with DATA share one acknowledgement at most, 2 by default, from 1 to 255.
    pub fn with_sack_every_packets(mut self, packets: u8) -> Self {
        self.0.sack.every_packets = packets;
        self
    }

    /// Sets whether the peer is asked to answer packets that it receives at the same instant with one acknowledgement for up to 16. A private
    /// extension, which only Festina knows. It saves CPU time of bulk transfers on fast paths, and is asked for with CUBIC and the
    /// background controller alone. On by default on encrypted endpoints with these. Plain ones announce nothing private by default.
    pub fn with_sack_peer_batches(mut self, batches: bool) -> Self {
        self.2.peer_batches = Some(batches);
        self
    }

    /// Sets the order in which streams send. The default is the order of the calls.
    pub fn with_scheduler(mut self, scheduler: StreamScheduler) -> Self {
        self.0.scheduler = scheduler;
        self
    }

    /// Offers message interleaving (RFC 8260) to the peer, so that a small message need not wait for a large one on another stream. The scheduler
    /// decides the order; with [`StreamScheduler::FirstComeFirstServed`] nothing alternates. No further message of several packets begins while messages
    /// that have begun hold half of the peer's receive buffer. Off by default: each message costs 4 more bytes.
    pub fn with_interleaving(mut self, offered: bool) -> Self {
        self.0.interleaving = offered;
        self
    }

    /// Offers explicit congestion notification (RFC 3168) to the peer: routers may then mark packets with data instead of dropping them, so that
    /// nothing has to be repaired. A path that drops ECN-capable packets is detected, at the cost of at most four packets. On by default.
    pub fn with_ecn(mut self, offered: bool) -> Self {
        self.0.carrier.ecn = offered;
        self
    }

    /// Sets when the sender checks the lifetime of a message (RFC 3758 leaves it open).
    pub fn with_expiry(mut self, expiry: Expiry) -> Self {
        self.0.partial_reliability.expiry = expiry;
        self
    }

    /// Offers NR-SACK to the peer: acknowledgements that also report which chunks the receiver will not drop. On by default.
    pub fn with_nr_sack(mut self, offered: bool) -> Self {
        self.0.partial_reliability.nr_sack = offered;
        self
    }

    /// Allows the peer to reset its streams, and to ask this side to reset its own (RFC 6525). On by default, since data channels are closed that way
    /// (RFC 8831).
    pub fn with_stream_resets_by_peer(mut self, allowed: bool) -> Self {
        self.0.peer_requests.reset_streams = allowed;
        self
    }

    /// Allows the peer to add streams, up to the accepted number of inbound ones, and to ask this side to add some (RFC 6525). Off by default.
    pub fn with_streams_added_by_peer(mut self, allowed: bool) -> Self {
        self.0.peer_requests.add_streams = allowed;
        self
    }

    /// Sets the handling of a peer that has lost its state and sets the association up again: [`PeerRestart::Continue`] by default.
    ///
    /// With [`PeerRestart::End`], [`Association::recv`](crate::Association::recv) returns everything received before the restart and then
    /// [`ClosedReason::PeerRestarted`](crate::ClosedReason::PeerRestarted); a listener accepts the restarted peer as a new association.
    pub fn with_peer_restart(mut self, restart: PeerRestart) -> Self {
        self.0.peer_requests.restart = restart;
        self
    }

    /// Reports the progress of every message: [`ProtocolEvent::MessageSent`](crate::ProtocolEvent::MessageSent) and similar events. Off by default.
    pub fn with_message_events(mut self, wanted: bool) -> Self {
        self.0.message_events = wanted;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed_by_fields() -> sctp::Config {
        let seconds = Duration::from_secs;
        sctp::Config {
            mechanisms: Profile::Rack.mechanisms(),
            congestion: CongestionControl::Cubic,
            timers: sctp::Timers {
                rto_initial: seconds(3),
                rto_max: seconds(4),
                heartbeat_interval: None,
                cookie_lifetime: seconds(5),
                shutdown_stall: seconds(6),
                shutdown_guard: Some(seconds(7)),
            },
            retries: sctp::Retries {
                init_max: 8,
                association_max: 9,
                path_max: 11,
                unreachable_after_min: seconds(10),
                spread: true,
            },
            peer_timeout: Some(seconds(2)),
            limits: sctp::Limits {
                packet_bytes_max: 512,
                outbound_streams: 12,
                inbound_streams: 13,
                receive_buffer_bytes: 5_000,
                stream_unread_bytes_max: Some(2_000),
                send_buffer_bytes: 4_000,
                send_buffer: SendBufferPolicy::FollowsWindow { windows: 2, extra_packets: 1 },
                send_low_water_bytes: 3_000,
                message_bytes_max: 513,
                exceeds_peer_buffer: true,
                burst_packets_max: 14,
            },
            admission: sctp::Admission {
                associations_max: 15,
                associations_per_address_max: 16,
                accept_queue_max: 17,
                strays_per_second_max: 18,
            },
            memory: sctp::DestinationMemory { destinations_max: 19, lifetime: seconds(20) },
            sack: sctp::SackPolicy { delay: Duration::from_millis(21), every_packets: 22, peer_batches: true },
            scheduler: StreamScheduler::Priority,
            interleaving: true,
            partial_reliability: sctp::PartialReliability {
                expiry: Expiry::AtOnce,
                nr_sack: false,
                enhanced_forward_tsn: false,
            },
            peer_requests: sctp::PeerRequests { reset_streams: false, add_streams: true, restart: PeerRestart::End },
            // An endpoint sends over UDP or IP, never within DTLS.
            carrier: sctp::Carrier { protected_by_dtls: false, ecn: true },
            message_events: true,
        }
    }

    #[test]
    fn every_method_sets_its_field_of_the_core_and_stays_in_range() {
        let seconds = Duration::from_secs;
        let config = Config::plain()
            .with_profile(Profile::Rack)
            .with_congestion(CongestionControl::Cubic)
            .with_peer_timeout(seconds(2))
            .with_heartbeat_interval(None)
            .with_rto_initial(seconds(3))
            .with_rto_max(seconds(4))
            .with_cookie_lifetime(seconds(5))
            .with_shutdown_stall(seconds(6))
            .with_shutdown_guard(seconds(7))
            .with_handshake_retries(8)
            .with_association_retries(9, seconds(10))
            .with_path_retries(11)
            .with_packet_bytes_max(512)
            .with_message_bytes_max(513)
            .with_messages_beyond_peer_buffer(true)
            .with_send_buffer_bytes(4_000)
            .with_send_low_water_bytes(3_000)
            .with_send_buffer(SendBufferPolicy::FollowsWindow { windows: 2, extra_packets: 1 })
            .with_receive_buffer_bytes(5_000)
            .with_stream_unread_bytes_max(2_000)
            .with_peer_restart(PeerRestart::End)
            .with_streams(12, 13)
            .with_burst_packets_max(14)
            .with_associations_max(15)
            .with_associations_per_address_max(16)
            .with_accept_queue_max(17)
            .with_strays_per_second_max(18)
            .with_destination_memory(19, seconds(20))
            .with_sack_delay(Duration::from_millis(21))
            .with_sack_every_packets(22)
            .with_sack_peer_batches(true)
            .with_scheduler(StreamScheduler::Priority)
            .with_interleaving(true)
            .with_expiry(Expiry::AtOnce)
            .with_nr_sack(false)
            .with_ecn(true)
            .with_stream_resets_by_peer(false)
            .with_streams_added_by_peer(true)
            .with_message_events(true);
        assert_eq!(config.clone().into_core(), changed_by_fields());
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn batched_acknowledgements_follow_encryption_and_the_controller_whatever_the_order_of_the_calls() {
        let batches = |config: Config| config.into_core().sack.peer_batches;
        assert!(batches(Config::default()) && batches(Config::plain().with_security(Security::new())));
        assert!(!batches(Config::plain()) && !batches(Config::default().with_congestion(CongestionControl::Rfc9260)));
        assert!(batches(Config::default().with_profile(Profile::Rack)));
        assert!(batches(Config::plain().with_sack_peer_batches(true)));
        assert!(!batches(Config::default().with_sack_peer_batches(false)));
    }

    #[test]
    fn a_smaller_send_buffer_brings_its_low_water_mark_down_and_a_larger_one_leaves_it() {
        let low_water = |bytes| Config::plain().with_send_buffer_bytes(bytes).into_core().limits.send_low_water_bytes;
        assert_eq!(low_water(4_000), 4_000);
        assert_eq!(low_water(16 << 20), sctp::Limits::default().send_low_water_bytes);
    }

    #[test]
    fn a_send_delay_is_a_target_of_the_send_buffer() {
        let delay = Duration::from_millis(50);
        assert_eq!(Config::plain().with_send_delay(delay).send_buffer(), SendBufferPolicy::Target(delay));
        assert_eq!(Config::plain().with_send_delay(delay).with_send_delay(None).send_buffer(), SendBufferPolicy::Fixed);
        assert!(Config::plain().with_send_delay(Duration::ZERO).validate().is_err());
    }
}
