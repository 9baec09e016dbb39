//! Association configuration, shared by many associations behind one `Arc`.

mod send_buffer;

use festina_recovery::{Mechanisms, Profile};
use festina_units::Duration;
use thiserror::Error;

use crate::congestion::CongestionControl;
pub use send_buffer::SendBufferPolicy;

/// Minimum packet size that may be configured: INIT ACK with its cookie and a few reports fits into it, and every IP network can carry it.
pub(crate) const PACKET_BYTES_MIN: usize = 384;

/// Settings of an association or a listener. The defaults follow RFC 9260 §16, except for Festina's own loss-recovery profile and congestion control.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Loss-recovery mechanisms of the sender.
    pub mechanisms: Mechanisms,
    /// Congestion controller, fixed for the life of the association. The default is CUBIC.
    pub congestion: CongestionControl,
    /// Timers.
    pub timers: Timers,
    /// Retry limits.
    pub retries: Retries,
    /// Silence after which a peer counts as gone ([`ClosedReason::PeerUnreachable`](crate::ClosedReason::PeerUnreachable)). From 1 s to a day.
    ///
    /// The time starts with the first unanswered packet that requires an answer: DATA, a heartbeat or SHUTDOWN. A shorter outage never ends an
    /// association, because the last request is sent when the time is over. When both sides have been silent for a quarter of this time, a heartbeat
    /// is sent, unless `timers.heartbeat_interval` is `None`. When the peer has left a request unanswered for a quarter of this time, heartbeats are
    /// sent in any case, at least eight within this time. A vanished peer is thus detected within 1.4 times this time.
    ///
    /// Replaces `retries.association_max` and `retries.unreachable_after_min`. With `None` these two apply: the rules of RFC 9260 §8.1, which take
    /// five or six minutes. A handshake has its own limit, `retries.init_max`. The default is 60 s.
    pub peer_timeout: Option<Duration>,
    /// Buffer and message sizes.
    pub limits: Limits,
    /// Admission of peers. Applied by the endpoint, since the core only knows single associations.
    pub admission: Admission,
    /// Cache of path state per destination. Like `admission` it is applied by the endpoint. Only the profile `festina` uses it.
    pub memory: DestinationMemory,
    /// Delayed acknowledgement by this side's receiver.
    pub sack: SackPolicy,
    /// Order in which streams send.
    pub scheduler: StreamScheduler,
    /// Offer message interleaving (RFC 8260) to the peer: fragments of several messages may alternate, so that a small message need not wait for a
    /// large one on another stream. The `scheduler` decides the order; with `FirstComeFirstServed` nothing alternates. No further message of several
    /// chunks begins while messages that have begun hold half of the peer's window. Off by default: each message costs 4 more bytes. No effect if the peer does not support it.
    pub interleaving: bool,
    /// Behaviour of partial reliability (RFC 3758).
    pub partial_reliability: PartialReliability,
    /// Requests of the peer that are granted: stream changes (RFC 6525), restarts and moves.
    pub peer_requests: PeerRequests,
    /// Properties of the layer below, promised by the caller.
    pub carrier: Carrier,
    /// Report the progress of every message: [`ProtocolEvent::MessageSent`](crate::ProtocolEvent::MessageSent) and similar events.
    pub message_events: bool,
}

/// The default of [`Limits::message_bytes_max`].
const MESSAGE_BYTES_MAX_DEFAULT: usize = 1 << 20;

/// Size of the receiver's stream table that does not count towards the receive window.
pub(crate) const TABLE_BYTES_FREE: usize = 16 << 10;

impl Default for Config {
    fn default() -> Self {
        Self {
            mechanisms: Profile::default().mechanisms(),
            congestion: CongestionControl::Cubic,
            timers: Timers::default(),
            retries: Retries::default(),
            peer_timeout: Some(Duration::from_secs(60)),
            limits: Limits::default(),
            admission: Admission::default(),
            memory: DestinationMemory::default(),
            sack: SackPolicy::default(),
            scheduler: StreamScheduler::default(),
            interleaving: false,
            partial_reliability: PartialReliability::default(),
            peer_requests: PeerRequests::default(),
            carrier: Carrier::default(),
            message_events: false,
        }
    }
}

impl Config {
    /// Returns the settings with which a profile was published, for comparisons: all profiles but `festina` have the congestion control of RFC 9260 and
    /// no `peer_timeout`. To change loss recovery alone, set `mechanisms`.
    pub fn published(profile: Profile) -> Self {
        let mut config = Self { mechanisms: profile.mechanisms(), ..Self::default() };
        if profile != Profile::Festina {
            (config.congestion, config.peer_timeout) = (CongestionControl::Rfc9260, None);
        }
        config
    }

    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        check("limits.packet_bytes_max", limits.packet_bytes_max, PACKET_BYTES_MIN, 65_480)?;
        let searched_max = limits.packet_bytes_searched_max.unwrap_or(limits.packet_bytes_max);
        check("limits.packet_bytes_searched_max", searched_max, PACKET_BYTES_MIN, 65_480)?;
        check("limits.outbound_streams", limits.outbound_streams.into(), 1, 65_535)?;
        check("limits.inbound_streams", limits.inbound_streams.into(), 1, 65_535)?;
        check("limits.receive_buffer_bytes", limits.receive_buffer_bytes, 1_500, 1 << 30)?;
        check("limits.stream_unread_bytes_max", limits.stream_unread_bytes_max.unwrap_or(1), 1, usize::MAX)?;
        check("limits.send_buffer_bytes", limits.send_buffer_bytes, 1_500, 1 << 30)?;
        let is_default = limits.message_bytes_max == MESSAGE_BYTES_MAX_DEFAULT;
        let message_bytes_high = if is_default { MESSAGE_BYTES_MAX_DEFAULT } else { limits.receive_buffer_bytes };
        check("limits.message_bytes_max", limits.message_bytes_max, 1, message_bytes_high)?;
        check("limits.send_low_water_bytes", limits.send_low_water_bytes, 0, limits.send_buffer_bytes)?;
        limits.send_buffer.validate()?;
        self.admission.validate()?;
        check("memory.destinations_max", self.memory.destinations_max, 0, 1 << 20)?;
        check("sack.every_packets", self.sack.every_packets.into(), 1, 255)?;
        let delay_ms = usize::try_from(self.sack.delay.as_millis()).unwrap_or(usize::MAX);
        check("sack.delay (ms)", delay_ms, 0, 500)?;
        if let Some(timeout) = self.peer_timeout {
            check_ms("peer_timeout (ms)", timeout, 1_000)?;
        }
        self.timers.validate()
    }
}

fn check(name: &'static str, value: usize, low: usize, high: usize) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(ConfigError { name, value, low, high }) }
}

fn check_ms(name: &'static str, value: Duration, low: usize) -> Result<(), ConfigError> {
    const DAY_MS: usize = 24 * 3_600 * 1_000;
    check(name, usize::try_from(value.as_millis()).unwrap_or(usize::MAX), low, DAY_MS)
}

/// Caller: a setting is out of range.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{name} is {value}, but must lie between {low} and {high}")]
pub struct ConfigError {
    name: &'static str,
    value: usize,
    low: usize,
    high: usize,
}

festina_units::debug_is_display!(ConfigError);

impl ConfigError {
    /// Checks the range of a setting that is not part of [`Config`].
    pub(crate) fn check(name: &'static str, value: usize, low: usize, high: usize) -> Result<(), Self> {
        check(name, value, low, high)
    }

    /// Returns the name of the setting and the text of the error after it, with times in seconds, for programs whose settings are in
    /// seconds.
    pub fn in_seconds(&self) -> (&'static str, String) {
        let Self { name, value, low, high } = self;
        let Some(name) = name.strip_suffix(" (ms)") else {
            return (name, format!("is {value}, but must lie between {low} and {high}"));
        };
        let [value, low, high] = [value, low, high].map(|ms| Duration::from_millis(*ms as u64).as_secs_f64());
        (name, format!("is {value} s, but must lie between {low} and {high} s"))
    }
}

/// Timers (RFC 9260 §16). The minimum RTO belongs to the loss-recovery mechanisms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timers {
    /// RTO before the first RTT sample.
    pub rto_initial: Duration,
    /// Upper bound of the RTO.
    pub rto_max: Duration,
    /// Heartbeat interval of an idle path; `Config::peer_timeout` may send one earlier when the peer is silent. `None` sends none while the path is
    /// idle.
    pub heartbeat_interval: Option<Duration>,
    /// Lifetime of a state cookie.
    pub cookie_lifetime: Duration,
    /// Maximum time in which an orderly shutdown waits for the peer to acknowledge a further sixteenth of the initially remaining data; then an ABORT
    /// ends the association. The whole shutdown thus takes at most 17 times as long, regardless of the peer (RFC 9260 §9.2 sets no limit). The limits
    /// for a peer that does not answer apply as well: a step without an answer may take `Config::peer_timeout` longer.
    pub shutdown_stall: Duration,
    /// Overall limit from this side's first SHUTDOWN, sent when everything is acknowledged, to the end; `None` means 5 times `rto_max` (RFC 9260
    /// §9.2, T5).
    pub shutdown_guard: Option<Duration>,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            rto_initial: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            heartbeat_interval: Some(Duration::from_secs(30)),
            cookie_lifetime: Duration::from_secs(60),
            shutdown_stall: Duration::from_secs(30),
            shutdown_guard: None,
        }
    }
}

impl Timers {
    /// A timer of zero would expire forever, and one beyond a day is probably a mistake.
    fn validate(&self) -> Result<(), ConfigError> {
        check_ms("timers.rto_max (ms)", self.rto_max, 1)?;
        check_ms("timers.rto_initial (ms)", self.rto_initial, 1)?;
        check_ms("timers.cookie_lifetime (ms)", self.cookie_lifetime, 1)?;
        check_ms("timers.heartbeat_interval (ms)", self.heartbeat_interval.unwrap_or_default(), 0)?;
        check_ms("timers.shutdown_stall (ms)", self.shutdown_stall, 1)?;
        check_ms("timers.shutdown_guard (ms)", self.shutdown_guard.unwrap_or_default(), 0)
    }
}

/// Limits on retransmissions (RFC 9260 §16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Max.Init.Retransmits: INIT or COOKIE ECHO.
    pub init_max: u32,
    /// Association.Max.Retrans: consecutive timeouts after which the peer counts as unreachable, without a `Config::peer_timeout`.
    pub association_max: u32,
    /// Path.Max.Retrans: consecutive timeouts after which a path counts as inactive.
    pub path_max: u32,
    /// Minimum time without any acknowledgement before a peer counts as unreachable, regardless of the number of timeouts. It keeps profiles that
    /// retransmit quickly from ending an association that the standard would keep. With the timers and retries of RFC 9260 §16 the standard needs 363
    /// s; the default is 5 minutes. Ignored with a `Config::peer_timeout`.
    pub unreachable_after_min: Duration,
    /// Lengthens the pauses between copies of INIT and COOKIE ECHO by up to a quarter, at random, so that clients whose requests were lost together do
    /// not repeat them together. Off by default: RFC 9260 has fixed pauses, and so have the publications that simulations reproduce.
    pub spread: bool,
}

impl Default for Retries {
    fn default() -> Self {
        let unreachable_after_min = Duration::from_secs(300);
        Self { init_max: 8, association_max: 10, path_max: 5, unreachable_after_min, spread: false }
    }
}

/// Buffer and message sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of SCTP packets sent, with the common header but without IP and UDP headers. The default fits into IPv6's minimum MTU (1,280
    /// bytes) with UDP encapsulation. Every path must carry packets of this size: a larger MTU of the interface does not show it, and chunks that a
    /// router drops because of their size never arrive (RFC 9260 §6.9). Set `packet_bytes_searched_max` for sizes that only some paths carry.
    pub packet_bytes_max: usize,
    /// Maximum size of SCTP packets that a path may be found to carry, up to 65,480 bytes. While the application sends more than fits into a packet,
    /// probes look for the largest size up to this one (RFC 8899): the packets of both ends have `packet_bytes_max` at first. `None`, the default,
    /// searches for nothing.
    pub packet_bytes_searched_max: Option<usize>,
    /// Number of outbound streams requested.
    pub outbound_streams: u16,
    /// Number of inbound streams accepted. A receive buffer below 448 KiB allows fewer than 65,535, namely 8,192 plus one per 8 bytes, so that the
    /// stream table leaves most of the buffer free.
    pub inbound_streams: u16,
    /// Receive buffer: the advertised receiver window when empty. The memory allocated for a peer never exceeds twice this plus 64 KiB.
    pub receive_buffer_bytes: usize,
    /// Maximum unread bytes of one stream, each message counted with 64 bytes more; the first message always fits. A stream that reaches the limit is
    /// discarded from there on ([`Event::StreamDiscarded`](crate::Event::StreamDiscarded)), as by
    /// [`Association::discard_stream`](crate::Association::discard_stream). `None`, the default, sets no limit: an unread stream can then fill the
    /// receive buffer, which all streams share (RFC 9260 §6.2), and block all of them.
    pub stream_unread_bytes_max: Option<usize>,
    /// Send buffer: bytes queued or not yet acknowledged. Each message counts its payload plus [`Limits::MESSAGE_OVERHEAD_BYTES`].
    pub send_buffer_bytes: usize,
    /// Limit on the unsent part of the send buffer.
    pub send_buffer: SendBufferPolicy,
    /// Reports [`Event::Writable`](crate::Event::Writable) when a full send buffer has drained to this size.
    pub send_low_water_bytes: usize,
    /// Maximum size of messages sent and received. Messages are delivered whole, so it must not exceed `receive_buffer_bytes`. Only the default, 1
    /// MiB, may, and then the receive buffer is the limit. A larger message from the peer ends the association.
    pub message_bytes_max: usize,
    /// Allow messages that are larger than the peer's receive buffer, which is the first window that it advertised. A peer that delivers messages
    /// whole, as this one does, ends the association when it receives one, so they are refused by default
    /// ([`SendErrorKind::TooLong`](crate::SendErrorKind::TooLong)). Peers that deliver large messages in parts, such as Linux and usrsctp, accept them.
    /// Messages sent before the handshake has shown the peer's buffer are not refused.
    pub exceeds_peer_buffer: bool,
    /// Maximum packets that one acknowledgement may release (Max.Burst, RFC 9260 §6.1). No effect with a congestion controller that paces.
    pub burst_packets_max: u32,
}

impl Limits {
    /// Overhead per message in [`Limits::send_buffer_bytes`], queued or outstanding: its slot, and its entry in the queue or in the ledger. Slots,
    /// queue and ledger together never take more than twice that. Without it a buffer full of one-byte messages would take seventy times its limit.
    pub const MESSAGE_OVERHEAD_BYTES: usize = 128;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packet_bytes_max: 1_232,
            packet_bytes_searched_max: None,
            outbound_streams: 65_535,
            inbound_streams: 65_535,
            receive_buffer_bytes: 1 << 20,
            stream_unread_bytes_max: None,
            send_buffer_bytes: 4 << 20,
            send_buffer: SendBufferPolicy::Fixed,
            send_low_water_bytes: 1 << 20,
            message_bytes_max: MESSAGE_BYTES_MAX_DEFAULT,
            exceeds_peer_buffer: false,
            burst_packets_max: 4,
        }
    }
}

impl Limits {
    /// Number of inbound streams that the receive buffer allows. Each takes 2 bytes when all are in use, or 4 with interleaving. 16 KiB of them are
    /// free, and the rest may take a quarter of the buffer.
    pub(crate) fn inbound_streams_affordable(&self, interleaving: bool) -> u16 {
        let stream_bytes = if interleaving { 4 } else { 2 };
        u16::try_from((TABLE_BYTES_FREE + self.receive_buffer_bytes / 4) / stream_bytes).unwrap_or(u16::MAX)
    }
}

/// Limits on an endpoint's associations and on its work for out-of-the-blue packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Maximum concurrent associations, including those that this side initiated. Further peers are refused with an ABORT with the cause "Out of
    /// Resource" (RFC 9260 §3.3.10.4).
    pub associations_max: usize,
    /// Maximum concurrent associations set up by peers with one IP address; a /64 network counts as one IPv6 address. Further peers are refused in
    /// the same way. Many peers behind one NAT need more.
    pub associations_per_address_max: usize,
    /// Maximum associations of one port that wait to be accepted by the application. Further handshakes get no answer, so that the peer repeats them.
    pub accept_queue_max: usize,
    /// Maximum out-of-the-blue packets (mainly INITs) processed per second; further ones are dropped unread. A tenth of them may come at once. For
    /// COOKIE ECHO the limit is 4 times as high, since a forged one draws no reply.
    pub strays_per_second_max: u32,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            associations_max: 65_536,
            associations_per_address_max: 4_096,
            accept_queue_max: 1_024,
            strays_per_second_max: 20_000,
        }
    }
}

impl Admission {
    /// Checks the range of every limit.
    ///
    /// # Errors
    /// Names the first limit that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check("admission.associations_max", self.associations_max, 1, 1 << 24)?;
        check("admission.associations_per_address_max", self.associations_per_address_max, 1, 1 << 24)?;
        check("admission.accept_queue_max", self.accept_queue_max, 1, 1 << 20)?;
        let strays = usize::try_from(self.strays_per_second_max).unwrap_or(usize::MAX);
        check("admission.strays_per_second_max", strays, 1, 100_000_000)
    }
}

/// Limits of the cache of path state per destination (RFC 9040): round-trip time and variance. It lets the next association repair its first losses
/// as quickly as later ones. Paths are stored when an association ends, if this side initiated it and its handshake was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestinationMemory {
    /// Maximum number of destinations, each an IP address and a UDP port. The least recently used one is evicted. 0 disables the cache.
    pub destinations_max: usize,
    /// How long an entry is kept. Older entries count for less.
    pub lifetime: Duration,
}

impl Default for DestinationMemory {
    fn default() -> Self {
        Self { destinations_max: 1_024, lifetime: Duration::from_secs(600) }
    }
}

/// Features of the layer below. The core sees neither IP headers nor DTLS, so both are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carrier {
    /// The caller promises that every packet travels within DTLS, which detects errors at least as well as SCTP's checksum. If the peer promises the
    /// same (RFC 9653), packets are sent and accepted without a checksum; those with INIT or COOKIE ECHO keep it. Without DTLS errors would go
    /// unnoticed.
    pub protected_by_dtls: bool,
    /// The caller sends each packet with its [codepoint](crate::Transmit::ecn), and passes received packets with the codepoint that they had. This
    /// side then negotiates explicit congestion notification (RFC 3168; RFC 4960 appendix A). A router may mark a packet with data instead of
    /// dropping it; the sender slows down as for a loss, but has nothing to repair.
    pub ecn: bool,
    /// Bytes by which the datagram of the layer below is longer than the SCTP packet, to guess which sizes fit through usual networks.
    pub overhead_bytes: usize,
}

/// Handling of an association whose peer has lost its state and sets it up again from the same address and ports (RFC 9260 §5.2.4 A).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerRestart {
    /// Continue with the restarted peer, as in RFC 9260. Unacknowledged messages have failed, streams restart at 0,
    /// [`Event::PeerRestarted`](crate::Event::PeerRestarted) reports it, and [`ReceivedMessage::restarts`](crate::ReceivedMessage::restarts)
    /// distinguishes the messages of the restarted peer from earlier ones.
    #[default]
    Continue,
    /// End with [`ClosedReason::PeerRestarted`](crate::ClosedReason::PeerRestarted), once the peer has proven its address by a cookie. Messages
    /// received before can still be read. The peer repeats its COOKIE ECHO, and thereby gets a new association if this side listens.
    End,
}

/// Requests of the peer that are granted: stream changes (RFC 6525) and restarts. A reset of all numbers, TSNs among them, is always denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRequests {
    /// Whether the peer may reset its streams and request resets of this side's. On by default, since data channels are closed that way (RFC 8831).
    pub reset_streams: bool,
    /// Whether the peer may add streams, up to `Limits::inbound_streams`, and ask this side to add some. Off by default.
    pub add_streams: bool,
    /// Handling of a peer that restarts.
    pub restart: PeerRestart,
    /// Whether the peer may come to another UDP port (RFC 6951 §5.4) or, where a layer below authenticates it, to an address that it has not named.
    /// Applied by the endpoint: see [`forbids_source`](crate::Association::forbids_source). On by default.
    pub moves: bool,
}

impl Default for PeerRequests {
    fn default() -> Self {
        Self { reset_streams: true, add_streams: false, restart: PeerRestart::Continue, moves: true }
    }
}

/// Delayed acknowledgement (RFC 9260 §6.2), by this side and by the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SackPolicy {
    /// Maximum delay of a SACK; at most 500 ms. Zero acknowledges every packet at once.
    pub delay: Duration,
    /// Maximum number of packets with DATA per acknowledgement.
    pub every_packets: u8,
    /// Ask the peer to answer packets that it receives at the same instant with one SACK for up to 16 instead of one for every second packet. A
    /// private extension, which only Festina knows. It saves CPU time of bulk transfers on fast paths, and is asked for with controllers that
    /// always pace: one with a burst limit (RFC 9260 §6.1 rule D) would slow down. Off by default.
    pub peer_batches: bool,
}

impl Default for SackPolicy {
    fn default() -> Self {
        Self { delay: Duration::from_millis(200), every_packets: 2, peer_batches: false }
    }
}

/// Behaviour of partial reliability that RFC 3758 leaves to the implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialReliability {
    /// When the sender checks the lifetime of a message.
    pub expiry: Expiry,
    /// Offer NR-SACK to the peer, which reports chunks that the receiver will not drop; FORWARD-TSN can skip these. No effect if the peer does not
    /// support it.
    pub nr_sack: bool,
    /// Offer the peer E-FORWARD-TSN, which moves it past abandoned chunks that lie apart at once (docs/enhanced-forward-tsn.md). Off by default: no
    /// stack but Festina knows the chunk. It has no effect with a peer that does not offer it too.
    pub enhanced_forward_tsn: bool,
}

impl Default for PartialReliability {
    fn default() -> Self {
        Self { expiry: Expiry::default(), nr_sack: true, enhanced_forward_tsn: false }
    }
}

/// When a sender checks the lifetime of a message ([`Message::lifetime`](crate::Message::lifetime) and its deadline).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// When the lifetime ends, if the message is queued or lost. A message in flight is abandoned when its acknowledgement is overdue. If it arrives,
    /// it counts as delivered and lets the congestion window grow, even if the acknowledgement comes after the end.
    #[default]
    WhenOverdue,
    /// As soon as the lifetime ends, whether the message is queued, in flight or lost. The window does not grow for data abandoned in flight, even if
    /// it arrives (RFC 3758 §3.5 A4).
    AtOnce,
    /// Before a message is first sent, and before each retransmission. Data in flight at the end of the lifetime may still arrive and is abandoned
    /// only if it is lost. A message of several fragments that is partly sent is completed.
    BeforeTransmission,
    /// Before each retransmission. Every message is sent once, as with FreeBSD 8.2 (Rajiullah and Brunstrom 2012 §IV-C).
    BeforeRetransmission,
    /// As `BeforeRetransmission`, and when a gap ack block lies above a missing chunk, before that counts as lost. The congestion window is then not
    /// cut, contrary to RFC 3758 §3.5. This models FreeBSD and usrsctp (`sctp_strike_gap_ack_chunks`). Each SACK with gaps costs a walk over all
    /// outstanding chunks.
    WhenMissing,
}

impl Expiry {
    /// Returns all values, the default first.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        core::iter::successors(Some(Self::WhenOverdue), |expiry| expiry.next())
    }

    /// Returns the next value. A match, so that the compiler reports a missing one.
    fn next(self) -> Option<Self> {
        match self {
            Self::WhenOverdue => Some(Self::AtOnce),
            Self::AtOnce => Some(Self::BeforeTransmission),
            Self::BeforeTransmission => Some(Self::BeforeRetransmission),
            Self::BeforeRetransmission => Some(Self::WhenMissing),
            Self::WhenMissing => None,
        }
    }
}

/// Order in which queued messages are sent (the names of RFC 8260 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamScheduler {
    /// In the order of the `send` calls, across all streams (SCTP_SS_FCFS).
    #[default]
    FirstComeFirstServed,
    /// Streams with queued messages take turns, one message each (SCTP_SS_RR), or with [`Config::interleaving`] one fragment each.
    RoundRobin,
    /// As `RoundRobin`, but the stream whose turn it is fills a packet (SCTP_SS_RR_PKT), so that the loss of a packet affects few streams.
    RoundRobinPerPacket,
    /// The stream with the lowest value first ([`Association::set_stream_value`](crate::Association::set_stream_value), 0 by default). Streams of the
    /// same value take turns (SCTP_SS_PRIO).
    Priority,
    /// Streams with queued messages get the same number of bytes (SCTP_SS_FC).
    FairCapacity,
    /// Streams with queued messages get bytes in proportion to their value, 1 by default (SCTP_SS_WFQ).
    WeightedFairQueueing,
}
