//! Settings of an endpoint, by methods alone: code that sets some keeps compiling when others come.

use festina_sctp::recovery::Mechanisms;
use festina_sctp::recovery::redundancy::Redundancy;
use festina_sctp::{
    self as sctp, ConfigError, CongestionControl, Expiry, PeerRestart, Profile, SendBufferPolicy, StreamScheduler,
};
use festina_units::Duration;

/// Settings of an endpoint and of its associations. Each method takes the settings and returns them with one changed; the ranges are
/// checked by [`Config::validate`] and when an endpoint is bound. The defaults follow RFC 9260 §16 but for loss recovery, which is
/// Festina's own, and congestion control.
///
/// ```
/// use festina::{Config, Duration, Profile};
///
/// let config = Config::with_profile(Profile::Rfc9260)
///     .with_send_buffer_bytes(64 << 10)
///     .with_peer_timeout(Duration::from_secs(10));
/// assert_eq!(config.send_buffer_bytes(), 64 << 10);
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Config(sctp::Config);

impl Default for Config {
    fn default() -> Self {
        Self::with_profile(Profile::Festina)
    }
}

/// What is set.
impl Config {
    /// The loss-recovery mechanisms of the sender.
    pub fn mechanisms(&self) -> Mechanisms {
        self.0.mechanisms
    }

    /// The congestion control.
    pub fn congestion(&self) -> CongestionControl {
        self.0.congestion
    }

    /// How long a peer may be silent.
    pub fn peer_timeout(&self) -> Option<Duration> {
        self.0.peer_timeout
    }

    /// The largest message, in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.0.limits.message_bytes_max
    }

    /// The send buffer, in bytes.
    pub fn send_buffer_bytes(&self) -> usize {
        self.0.limits.send_buffer_bytes
    }

    /// How much of the send buffer may wait.
    pub fn send_buffer(&self) -> SendBufferPolicy {
        self.0.limits.send_buffer
    }

    /// The receive buffer, in bytes.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.0.limits.receive_buffer_bytes
    }

    /// The most associations that peers of one IP address set up.
    pub fn associations_per_address_max(&self) -> usize {
        self.0.admission.associations_per_address_max
    }

    /// The most packets of no association that are looked at in a second.
    pub fn strays_per_second_max(&self) -> u32 {
        self.0.admission.strays_per_second_max
    }

    /// Returns the settings of the core. For the simulated hosts of Festina's own tools; not part of the stable interface.
    #[doc(hidden)]
    #[must_use]
    pub fn into_core(self) -> sctp::Config {
        self.0
    }

    /// Checks every setting against what the protocol and this implementation can do.
    ///
    /// # Errors
    /// Names the first setting that is out of range and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.0.validate()
    }
}

/// Loss recovery and congestion control.
impl Config {
    /// The default settings with another loss-recovery profile.
    pub fn with_profile(profile: Profile) -> Self {
        // The core leaves ECN off, since it cannot know whether its caller sees the IP header; here it does.
        let carrier = sctp::Carrier { ecn: profile == Profile::Festina, ..sctp::Carrier::default() };
        Self(sctp::Config { carrier, ..sctp::Config::with_profile(profile) })
    }

    /// Which mechanisms of loss recovery the sender uses. The default is those of [`Profile::Festina`].
    pub fn with_mechanisms(mut self, mechanisms: Mechanisms) -> Self {
        self.0.mechanisms = mechanisms;
        self
    }

    /// Copies that the sender sends ahead of any loss, the one mechanism that applications choose most: see [`Redundancy`].
    pub fn with_redundancy(mut self, redundancy: Redundancy) -> Self {
        self.0.mechanisms.redundancy = redundancy;
        self
    }

    /// How much may be on the way. The default is CUBIC with the profile `festina` and the standard's with the others, which were
    /// published with that.
    pub fn with_congestion(mut self, congestion: CongestionControl) -> Self {
        self.0.congestion = congestion;
        self
    }
}

/// Timers, and when to give up.
impl Config {
    /// How long a peer may leave this side without any answer, from 1 s to a day; then it counts as gone
    /// ([`ClosedReason::PeerUnreachable`](crate::ClosedReason::PeerUnreachable)), within 1.4 times this time. The default is 60 s with
    /// the profile `festina`. With `None`, the default of the other profiles, the rules of RFC 9260 §8.1 hold:
    /// [`with_association_retries`](Self::with_association_retries).
    pub fn with_peer_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.0.peer_timeout = timeout.into();
        self
    }

    /// Pause between heartbeats on an idle path, 30 s by default; `None` sends none.
    pub fn with_heartbeat_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.0.timers.heartbeat_interval = interval.into();
        self
    }

    /// Retransmission timeout before the first round-trip sample, 1 s by default; at least 1 ms. A path slower than this sees its first
    /// packets twice.
    pub fn with_rto_initial(mut self, timeout: Duration) -> Self {
        self.0.timers.rto_initial = timeout;
        self
    }

    /// Upper bound of the retransmission timeout, 60 s by default; at least 1 ms.
    pub fn with_rto_max(mut self, timeout: Duration) -> Self {
        self.0.timers.rto_max = timeout;
        self
    }

    /// How long a state cookie is honoured, 60 s by default; at least 1 ms.
    pub fn with_cookie_lifetime(mut self, lifetime: Duration) -> Self {
        self.0.timers.cookie_lifetime = lifetime;
        self
    }

    /// How long an orderly shutdown waits for the peer to acknowledge a further sixteenth of what was left when it began, 30 s by default;
    /// then an ABORT ends the association.
    pub fn with_shutdown_stall(mut self, stall: Duration) -> Self {
        self.0.timers.shutdown_stall = stall;
        self
    }

    /// Overall limit from the first SHUTDOWN that this side sends to the end; `None`, the default, means 5 times the largest
    /// retransmission timeout (RFC 9260 §9.2, T5).
    pub fn with_shutdown_guard(mut self, guard: impl Into<Option<Duration>>) -> Self {
        self.0.timers.shutdown_guard = guard.into();
        self
    }

    /// How often INIT or COOKIE ECHO is sent again (Max.Init.Retransmits), 8 by default.
    pub fn with_handshake_retries(mut self, retries: u32) -> Self {
        self.0.retries.init_max = retries;
        self
    }

    /// Without a [`peer_timeout`](Self::with_peer_timeout): the consecutive timeouts until the peer counts as unreachable
    /// (Association.Max.Retrans, 10 by default), but never before `unreachable_after_min` without any acknowledgement, 5 minutes by default.
    pub fn with_association_retries(mut self, retries: u32, unreachable_after_min: Duration) -> Self {
        self.0.retries.association_max = retries;
        self.0.retries.unreachable_after_min = unreachable_after_min;
        self
    }

    /// Consecutive timeouts until a path counts as inactive (Path.Max.Retrans), 5 by default.
    pub fn with_path_retries(mut self, retries: u32) -> Self {
        self.0.retries.path_max = retries;
        self
    }
}

/// Sizes and bounds.
impl Config {
    /// Largest SCTP packet sent in bytes, common header included, IP and UDP headers not: from 384 to 65,480. The default, 1,232, fits into
    /// IPv6's minimum MTU with UDP encapsulation.
    pub fn with_packet_bytes_max(mut self, bytes: usize) -> Self {
        self.0.limits.packet_bytes_max = bytes;
        self
    }

    /// Largest message sent and received, in bytes: 1 MiB by default, at most the receive buffer, since messages are delivered whole. With the
    /// default and a smaller receive buffer, the buffer is the limit for received ones. A peer that sends a larger message breaks the association.
    pub fn with_message_bytes_max(mut self, bytes: usize) -> Self {
        self.0.limits.message_bytes_max = bytes;
        self
    }

    /// Whether messages that are larger than the peer's receive buffer are sent. A peer that delivers messages whole, as Festina does, ends the
    /// association over them, so they are refused by default ([`SendError::TooLong`](crate::SendError::TooLong)). Peers that deliver large
    /// messages in parts, such as Linux and usrsctp, take them.
    pub fn with_messages_beyond_peer_buffer(mut self, allowed: bool) -> Self {
        self.0.limits.exceeds_peer_buffer = allowed;
        self
    }

    /// Send buffer: bytes queued or not yet acknowledged, 4 MiB by default, from 1,500 to 1 GiB. Each message counts its payload and 128
    /// bytes. The low-water mark comes down to it if it is higher.
    pub fn with_send_buffer_bytes(mut self, bytes: usize) -> Self {
        self.0.limits.send_buffer_bytes = bytes;
        self.0.limits.send_low_water_bytes = self.0.limits.send_low_water_bytes.min(bytes);
        self
    }

    /// About how long a message may wait in the send buffer before it is first sent, from 1 ms to a day; beyond it the buffer counts as full, so
    /// that senders decide as late as possible what to send. `None`, the default, sets no limit. In C and Python, too, it is the send delay,
    /// in the commands `--send-delay`.
    pub fn with_send_delay(self, delay: impl Into<Option<Duration>>) -> Self {
        self.with_send_buffer(delay.into().map_or(SendBufferPolicy::Fixed, SendBufferPolicy::Target))
    }

    /// How much of the send buffer may wait for its first transmission: by default as much as it holds. With
    /// [`FollowsWindow`](SendBufferPolicy::FollowsWindow) it follows the congestion window; for a limit in time see
    /// [`with_send_delay`](Self::with_send_delay).
    pub fn with_send_buffer(mut self, policy: SendBufferPolicy) -> Self {
        self.0.limits.send_buffer = policy;
        self
    }

    /// After the send buffer was full, senders go on when it has drained to this many bytes: 1 MiB by default, at most the buffer's size.
    pub fn with_send_low_water_bytes(mut self, bytes: usize) -> Self {
        self.0.limits.send_low_water_bytes = bytes;
        self
    }

    /// Receive buffer: the window advertised when it is empty, in bytes, 1 MiB by default, from 1,500 to 1 GiB. What is held for a peer, as
    /// allocated, is at most twice this and 64 KiB, whatever arrives.
    pub fn with_receive_buffer_bytes(mut self, bytes: usize) -> Self {
        self.0.limits.receive_buffer_bytes = bytes;
        self
    }

    /// How much of one stream may wait unread, in bytes, each message counted with 64 bytes more; from 1 byte, and without limit by default.
    /// All streams share the receive buffer, so that an unread stream can fill it and stop the others. With a limit, a stream that
    /// reaches it is discarded from there on: [`Event::StreamDiscarded`](crate::Event::StreamDiscarded) reports it, messages received before
    /// can still be read, and [`Stream::resume`](crate::Stream::resume) or a reset by the peer ends it.
    pub fn with_stream_unread_bytes_max(mut self, bytes: usize) -> Self {
        self.0.limits.stream_unread_bytes_max = Some(bytes);
        self
    }

    /// Outbound streams asked for, and inbound streams accepted: from 1 to 65,535, which are the defaults. A receive buffer below 448 KiB
    /// allows for fewer inbound ones: one per 8 bytes, and 8,192.
    pub fn with_streams(mut self, outbound: u16, inbound: u16) -> Self {
        (self.0.limits.outbound_streams, self.0.limits.inbound_streams) = (outbound, inbound);
        self
    }

    /// Packets that one acknowledgement may release (Max.Burst, RFC 9260 §6.1), 4 by default. Without effect where congestion control
    /// paces.
    pub fn with_burst_packets_max(mut self, packets: u32) -> Self {
        self.0.limits.burst_packets_max = packets;
        self
    }
}

/// Whom the endpoint lets in, and what it remembers.
impl Config {
    /// Associations at the same time, those that this side began included: 65,536 by default, at most 2²⁴. Peers beyond it are refused with
    /// an ABORT that says "Out of Resource" (RFC 9260 §3.3.10.4).
    pub fn with_associations_max(mut self, associations: usize) -> Self {
        self.0.admission.associations_max = associations;
        self
    }

    /// Associations at the same time that peers with one IP address set up, where a /64 network counts as one IPv6 address: 4,096 by
    /// default. Peers beyond it are refused in the same way. Many peers behind one NAT need more.
    pub fn with_associations_per_address_max(mut self, associations: usize) -> Self {
        self.0.admission.associations_per_address_max = associations;
        self
    }

    /// Associations of one port that wait for [`Listener::accept`](crate::Listener::accept), 1,024 by default. Beyond it handshakes are left
    /// unanswered, so that the peer repeats them.
    pub fn with_accept_queue_max(mut self, associations: usize) -> Self {
        self.0.admission.accept_queue_max = associations;
        self
    }

    /// Packets per second that belong to no association, INIT above all, and are looked at: 20,000 by default. More are dropped unseen. A
    /// tenth of them may come at once. For COOKIE ECHO, whose forgeries cost no answer, it is 4 times as many.
    pub fn with_strays_per_second_max(mut self, packets: u32) -> Self {
        self.0.admission.strays_per_second_max = packets;
        self
    }

    /// Of how many destinations, each an IP address and a UDP port, the round-trip time is remembered (RFC 9040), and for how long, so that
    /// the first packets of the next association are repaired as quickly as later ones: 1,024 for ten minutes by default. 0 remembers
    /// nothing. It serves the profile `festina` alone.
    pub fn with_destination_memory(mut self, destinations_max: usize, lifetime: Duration) -> Self {
        self.0.memory = sctp::DestinationMemory { destinations_max, lifetime };
        self
    }
}

/// Streams, acknowledgements and partial reliability.
impl Config {
    /// Longest wait before this side acknowledges, 200 ms by default and at most 500 ms (RFC 9260 §6.2). Zero acknowledges every packet at
    /// once.
    pub fn with_sack_delay(mut self, delay: Duration) -> Self {
        self.0.sack.delay = delay;
        self
    }

    /// This side acknowledges at least every `packets` packets with DATA, 2 by default, from 1 to 255.
    pub fn with_sack_every_packets(mut self, packets: u8) -> Self {
        self.0.sack.every_packets = packets;
        self
    }

    /// In which order streams get to send. The default is the order of the calls.
    pub fn with_scheduler(mut self, scheduler: StreamScheduler) -> Self {
        self.0.scheduler = scheduler;
        self
    }

    /// Whether the peer is offered message interleaving (RFC 8260), so that a small message need not wait for a large one on another
    /// stream. The scheduler decides the order; with [`StreamScheduler::FirstComeFirstServed`] nothing alternates. Off by default: each
    /// message costs 4 bytes more.
    pub fn with_interleaving(mut self, offered: bool) -> Self {
        self.0.interleaving = offered;
        self
    }

    /// Whether the peer is offered explicit congestion notification (RFC 3168): routers may then mark packets with data instead of dropping
    /// them, and there is nothing to repair. A path that drops what is capable of it is found out, at the cost of four packets at most. On
    /// by default with the profile `festina`, off with the others, which were published without it.
    pub fn with_ecn(mut self, offered: bool) -> Self {
        self.0.carrier.ecn = offered;
        self
    }

    /// When the sender looks at the lifetime of a message (RFC 3758 leaves it open).
    pub fn with_expiry(mut self, expiry: Expiry) -> Self {
        self.0.partial_reliability.expiry = expiry;
        self
    }

    /// Whether the peer is offered NR-SACK, which says what the receiver will not drop. On by default.
    pub fn with_nr_sack(mut self, offered: bool) -> Self {
        self.0.partial_reliability.nr_sack = offered;
        self
    }

    /// Whether the peer may reset its streams, and may ask this side to reset its own (RFC 6525). On by default, since data channels
    /// are closed that way (RFC 8831).
    pub fn with_stream_resets_by_peer(mut self, allowed: bool) -> Self {
        self.0.peer_requests.reset_streams = allowed;
        self
    }

    /// Whether the peer may add streams, up to the inbound ones accepted, and ask this side to (RFC 6525). Off by default.
    pub fn with_streams_added_by_peer(mut self, allowed: bool) -> Self {
        self.0.peer_requests.add_streams = allowed;
        self
    }

    /// Handling of an association whose peer has lost its state and sets it up again: [`PeerRestart::Continue`] by default.
    ///
    /// With [`PeerRestart::End`], [`Association::recv`](crate::Association::recv) returns everything received before the restart and then
    /// [`ClosedReason::PeerRestarted`](crate::ClosedReason::PeerRestarted); a listener accepts the restarted peer as a new association.
    pub fn with_peer_restart(mut self, restart: PeerRestart) -> Self {
        self.0.peer_requests.restart = restart;
        self
    }

    /// Whether the application hears of every message's way: [`Event::MessageSent`](crate::Event::MessageSent) and its like. Off by default.
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
            sack: sctp::SackPolicy { delay: Duration::from_millis(21), every_packets: 22 },
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
        let config = Config::with_profile(Profile::Rack)
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
    fn a_smaller_send_buffer_brings_its_low_water_mark_down_and_a_larger_one_leaves_it() {
        let low_water = |bytes| Config::default().with_send_buffer_bytes(bytes).into_core().limits.send_low_water_bytes;
        assert_eq!(low_water(4_000), 4_000);
        assert_eq!(low_water(16 << 20), sctp::Limits::default().send_low_water_bytes);
    }

    #[test]
    fn a_send_delay_is_a_target_of_the_send_buffer() {
        let delay = Duration::from_millis(50);
        assert_eq!(Config::default().with_send_delay(delay).send_buffer(), SendBufferPolicy::Target(delay));
        assert_eq!(
            Config::default().with_send_delay(delay).with_send_delay(None).send_buffer(),
            SendBufferPolicy::Fixed
        );
        assert!(Config::default().with_send_delay(Duration::ZERO).validate().is_err());
    }
}
