//! What an association is told when it is made; shared by many associations behind one `Arc`.

mod congestion_control;
mod send_buffer;

use festina_recovery::{Mechanisms, Profile};
use festina_units::Duration;
use thiserror::Error;

pub use congestion_control::{CongestionControl, UnknownCongestionControl};
pub use send_buffer::SendBufferPolicy;

/// The smallest packet size that may be configured: INIT ACK with its cookie and a few reports fits into it, and every IP network has
/// room for it.
pub(crate) const PACKET_BYTES_MIN: usize = 384;

/// Settings of an association or a listener. The defaults follow RFC 9260 §16 but for the loss-recovery profile, which is
/// Festina's own, and congestion control.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Loss recovery: which mechanisms the sender uses.
    pub mechanisms: Mechanisms,
    /// How much may be on the way. It does not change while the association lives. The default is CUBIC with the profile `festina` and
    /// the standard's with the others, which were published with that.
    pub congestion: CongestionControl,
    /// Timers.
    pub timers: Timers,
    /// When to give up.
    pub retries: Retries,
    /// How long a peer may leave this side without any answer; then it counts as gone
    /// ([`ClosedReason::PeerUnreachable`](crate::ClosedReason::PeerUnreachable)). From 1 s to a day.
    ///
    /// The time begins with the first packet that asks for an answer and gets none: DATA, a heartbeat or SHUTDOWN. An outage that is
    /// shorter never ends an association: the last question leaves when the time is over. When neither side has said anything for a quarter of
    /// this time, the peer is asked, unless `timers.heartbeat_interval` is `None`. When it has answered nothing for a quarter of this time,
    /// it is asked in any case, and then at least eight times in this time. Thus a peer that vanishes is noticed within 1.4 times this time.
    ///
    /// It takes the place of `retries.association_max` and `retries.unreachable_after_min`, which hold where this is `None`: the rules of
    /// RFC 9260 §8.1 and their five or six minutes. A handshake has its own limit, `retries.init_max`. The default is 60 s with the
    /// profile `festina` and `None` with the others, which were published without it.
    pub peer_timeout: Option<Duration>,
    /// Sizes and bounds.
    pub limits: Limits,
    /// Whom an endpoint lets in. The core, which knows one association at a time, leaves it to the endpoint around it.
    pub admission: Admission,
    /// What an endpoint remembers of destinations. Like `admission` it is the endpoint's business. It serves the profile `festina` alone.
    pub memory: DestinationMemory,
    /// Delayed acknowledgement by this side's receiver.
    pub sack: SackPolicy,
    /// In which order streams get to send.
    pub scheduler: StreamScheduler,
    /// Offer the peer message interleaving (RFC 8260): fragments of several messages may alternate, so that a small message need not wait
    /// for a large one on another stream. The `scheduler` decides in which order; with `FirstComeFirstServed` nothing alternates. Off by
    /// default: each message costs 4 bytes more. It has no effect with a peer that does not support it.
    pub interleaving: bool,
    /// How the promises of partial reliability are kept (RFC 3758).
    pub partial_reliability: PartialReliability,
    /// What the peer may change: its streams (RFC 6525), and whether it may restart.
    pub peer_requests: PeerRequests,
    /// What the caller promises of the way that packets take.
    pub carrier: Carrier,
    /// Tell the application of every message's way: [`Event::MessageSent`](crate::Event::MessageSent) and its like.
    pub message_events: bool,
}

/// The default of [`Limits::message_bytes_max`].
const MESSAGE_BYTES_MAX_DEFAULT: usize = 1 << 20;

/// What the receiver's table of streams may take before it counts towards the receive window.
pub(crate) const TABLE_BYTES_FREE: usize = 16 << 10;

impl Default for Config {
    fn default() -> Self {
        Self::with_profile(Profile::Festina)
    }
}

impl Config {
    /// The default settings with another loss-recovery profile.
    pub fn with_profile(profile: Profile) -> Self {
        Self {
            mechanisms: profile.mechanisms(),
            congestion: if profile == Profile::Festina { CongestionControl::Cubic } else { CongestionControl::Rfc9260 },
            timers: Timers::default(),
            retries: Retries::default(),
            peer_timeout: (profile == Profile::Festina).then_some(Duration::from_secs(60)),
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

    /// Checks every setting against what the protocol and this implementation can do.
    ///
    /// # Errors
    /// Names the first setting that is out of range and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        check("limits.packet_bytes_max", limits.packet_bytes_max, PACKET_BYTES_MIN, 65_480)?;
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

/// A setting out of range: the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name} is {value}, but must lie between {low} and {high}")]
pub struct ConfigError {
    name: &'static str,
    value: usize,
    low: usize,
    high: usize,
}

/// Timers (RFC 9260 §16). The minimum RTO belongs to the loss-recovery mechanisms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timers {
    /// RTO before the first round-trip sample.
    pub rto_initial: Duration,
    /// Upper bound of the RTO.
    pub rto_max: Duration,
    /// Pause between heartbeats on an idle path; `Config::peer_timeout` may ask earlier where the peer is quiet. `None` sends none while the
    /// path is idle.
    pub heartbeat_interval: Option<Duration>,
    /// How long a state cookie is honoured.
    pub cookie_lifetime: Duration,
    /// How long an orderly shutdown waits for the peer to acknowledge a further sixteenth of what was left when it began; then an ABORT
    /// ends the association. It thus takes at most 17 times as long until all is acknowledged, whatever the peer does (RFC 9260 §9.2
    /// sets no limit). The limits for a peer that does not answer hold as well: a step in which it did not may take `Config::peer_timeout`
    /// longer.
    pub shutdown_stall: Duration,
    /// Overall limit from the first SHUTDOWN that this side sends, after all is acknowledged, to the end; `None` means 5 times `rto_max`
    /// (RFC 9260 §9.2, T5).
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
    /// A timer of zero would never stop expiring, and one beyond a day is taken for a mistake.
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
    /// Association.Max.Retrans: consecutive timeouts until the peer counts as unreachable, without a `Config::peer_timeout`.
    pub association_max: u32,
    /// Path.Max.Retrans: consecutive timeouts until a path counts as inactive.
    pub path_max: u32,
    /// No peer is declared unreachable before this much time without any acknowledgement, however many timeouts there were,
    /// so that profiles that retransmit quickly never kill an association that the standard would keep. With the timers and retries of
    /// RFC 9260 §16 the standard needs 363 s; the default is 5 minutes. Only without a `Config::peer_timeout`.
    pub unreachable_after_min: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { init_max: 8, association_max: 10, path_max: 5, unreachable_after_min: Duration::from_secs(300) }
    }
}

/// Sizes and bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest SCTP packet sent, common header included, IP and UDP headers not. The default fits into IPv6's minimum MTU
    /// (1,280 bytes) with UDP encapsulation.
    pub packet_bytes_max: usize,
    /// Outbound streams asked for.
    pub outbound_streams: u16,
    /// Inbound streams accepted. A receive buffer below 448 KiB allows for fewer than 65,535: one per 8 bytes, and 8,192, so
    /// that the table of streams leaves most of the buffer free.
    pub inbound_streams: u16,
    /// Receive buffer: the advertised receiver window when empty. What is held for a peer, as allocated, is at most twice this
    /// and 64 KiB, whatever arrives.
    pub receive_buffer_bytes: usize,
    /// How much of one stream may wait unread, each message counted with 64 bytes more; the first one always may. A stream that reaches it is
    /// discarded from there on ([`Event::StreamDiscarded`](crate::Event::StreamDiscarded)), as by
    /// [`Association::discard_stream`](crate::Association::discard_stream). `None`, the default, sets no limit: an unread stream can
    /// then fill the receive buffer, which all streams share (RFC 9260 §6.2), and stop all of them.
    pub stream_unread_bytes_max: Option<usize>,
    /// Send buffer: bytes queued or not yet acknowledged. Each message counts its payload and [`Limits::MESSAGE_OVERHEAD_BYTES`].
    pub send_buffer_bytes: usize,
    /// How much of that may wait for its first transmission.
    pub send_buffer: SendBufferPolicy,
    /// After the send buffer was full, the application is told that it can write again when it has drained to this.
    pub send_low_water_bytes: usize,
    /// Largest message sent and received. Messages are delivered whole, so it must not exceed `receive_buffer_bytes`; only the default, 1 MiB,
    /// may, and then the receive buffer is the limit. A peer that sends a larger one breaks the association.
    pub message_bytes_max: usize,
    /// Send messages that are larger than the peer's receive buffer, the first window that it advertised. A peer that delivers messages whole, as
    /// this one does, ends the association over them, so they are refused by default ([`SendError::TooLong`](crate::SendError::TooLong)). Peers
    /// that deliver large messages in parts, such as Linux and usrsctp, take them. Messages sent before the handshake has shown the
    /// peer's buffer are not refused.
    pub exceeds_peer_buffer: bool,
    /// Packets that one acknowledgement may release (Max.Burst, RFC 9260 §6.1). Without effect where congestion control paces.
    pub burst_packets_max: u32,
}

impl Limits {
    /// What a message counts in [`Limits::send_buffer_bytes`] beside its payload, queued or outstanding: its slot, and its entry in the
    /// queue or in the ledger. Slots, queue and ledger together take at most twice that, however far they have grown. Without this cost a
    /// buffer full of one-byte messages would take seventy times its limit.
    pub const MESSAGE_OVERHEAD_BYTES: usize = 128;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packet_bytes_max: 1_232,
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
    /// The inbound streams that the receive buffer allows for: each takes 2 bytes when all are in use, or 4 with interleaving, 16 KiB
    /// of them are free, and the rest may take a quarter of the buffer.
    pub(crate) fn inbound_streams_affordable(&self, interleaving: bool) -> u16 {
        let stream_bytes = if interleaving { 4 } else { 2 };
        u16::try_from((TABLE_BYTES_FREE + self.receive_buffer_bytes / 4) / stream_bytes).unwrap_or(u16::MAX)
    }
}

/// How many associations an endpoint has, and how much it does for strangers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Associations at the same time, those that this side began included. Peers beyond it are refused with an ABORT that says
    /// "Out of Resource" (RFC 9260 §3.3.10.4).
    pub associations_max: usize,
    /// Associations at the same time that peers with one IP address set up; one /64 network counts as one IPv6 address. Peers beyond it
    /// are refused in the same way. Many peers behind one NAT need more.
    pub associations_per_address_max: usize,
    /// Associations of one port that wait to be accepted by the application. Beyond it handshakes are left unanswered, so that the peer
    /// repeats them.
    pub accept_queue_max: usize,
    /// Packets per second that belong to no association, INIT above all, and are looked at; more are dropped unseen. A tenth of them may
    /// come at once. For COOKIE ECHO, whose forgeries cost no answer, it is 4 times as many.
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
    fn validate(&self) -> Result<(), ConfigError> {
        check("admission.associations_max", self.associations_max, 1, 1 << 24)?;
        check("admission.associations_per_address_max", self.associations_per_address_max, 1, 1 << 24)?;
        check("admission.accept_queue_max", self.accept_queue_max, 1, 1 << 20)?;
        let strays = usize::try_from(self.strays_per_second_max).unwrap_or(usize::MAX);
        check("admission.strays_per_second_max", strays, 1, 100_000_000)
    }
}

/// What is remembered of the paths to destinations (RFC 9040), so that the first packets of the next association are repaired as quickly
/// as later ones: the round-trip time and its variance. Only associations that this side began, and whose handshake was completed, are
/// remembered, when they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestinationMemory {
    /// Destinations, each an IP address and a UDP port; the one that was used longest ago makes room. 0 remembers nothing.
    pub destinations_max: usize,
    /// For how long. What is known counts for less the older it is.
    pub lifetime: Duration,
}

impl Default for DestinationMemory {
    fn default() -> Self {
        Self { destinations_max: 1_024, lifetime: Duration::from_secs(600) }
    }
}

/// What carries the packets, and what it does for them. The core sees neither IP headers nor DTLS, so both are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carrier {
    /// The caller promises that every packet travels within DTLS, which finds errors at least as well as SCTP's checksum. Packets then leave
    /// without one, and are taken without one, if the peer says the same (RFC 9653); those with INIT or COOKIE ECHO keep it. Without that
    /// protection errors go unnoticed.
    pub protected_by_dtls: bool,
    /// The caller sends each packet with the [codepoint](crate::Transmit::ecn) that it was given, and hands it in with the one that it came
    /// with. This side then takes part in explicit congestion notification (RFC 3168; RFC 4960 appendix A), if the peer does: a router may mark
    /// a packet with data instead of dropping it, and the sender slows down as for a loss, but has nothing to repair.
    pub ecn: bool,
}

/// Handling of an association whose peer has lost its state and sets it up again from the same address and ports (RFC 9260 §5.2.4 A).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerRestart {
    /// It goes on with the restarted peer, as RFC 9260 has it. Messages that were not acknowledged have failed, streams restart at 0,
    /// [`Event::PeerRestarted`](crate::Event::PeerRestarted) reports it, and [`ReceivedMessage::restarts`](crate::ReceivedMessage::restarts)
    /// tells the messages of the restarted peer from earlier ones.
    #[default]
    Continue,
    /// It ends with [`ClosedReason::PeerRestarted`](crate::ClosedReason::PeerRestarted), once the peer has proved its address by a cookie.
    /// Messages received before can still be read. The peer repeats its COOKIE ECHO, and thereby gets a new association if this side listens.
    End,
}

/// What the peer may change of the association: its streams (RFC 6525), where the rest is denied, and a reset of all numbers, TSNs among them,
/// always is; and whether it may restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRequests {
    /// Its streams may begin anew, and it may ask that this side's do. On by default, since data channels are closed that way (RFC 8831).
    pub reset_streams: bool,
    /// It may add streams, up to `Limits::inbound_streams`, and ask this side to. Off by default.
    pub add_streams: bool,
    /// Handling of a peer that restarts.
    pub restart: PeerRestart,
}

impl Default for PeerRequests {
    fn default() -> Self {
        Self { reset_streams: true, add_streams: false, restart: PeerRestart::Continue }
    }
}

/// Delayed acknowledgement (RFC 9260 §6.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SackPolicy {
    /// Longest wait before a SACK; at most 500 ms. Zero acknowledges every packet at once.
    pub delay: Duration,
    /// Acknowledge at least every so many packets with DATA.
    pub every_packets: u8,
}

impl Default for SackPolicy {
    fn default() -> Self {
        Self { delay: Duration::from_millis(200), every_packets: 2 }
    }
}

/// How the promises of partial reliability are kept. RFC 3758 leaves both to the implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialReliability {
    /// When the sender looks at the lifetime of a message.
    pub expiry: Expiry,
    /// Offer the peer NR-SACK, which says what the receiver will not drop: its sender passes over that. It has no effect with a peer
    /// that does not support it.
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

/// When a sender looks at the lifetime of a message ([`Message::lifetime`](crate::Message::lifetime) and its deadline).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// At its end, while the message is queued or lost; on its way as soon as its acknowledgement is overdue. What arrives counts as
    /// delivered then, and lets the congestion window grow, though its acknowledgement comes after the end.
    #[default]
    WhenOverdue,
    /// At its end, wherever the message is: queued, on its way or lost. The window does not grow for what is abandoned on its way, even if
    /// it arrives (RFC 3758 §3.5 A4).
    AtOnce,
    /// Before a message begins to leave, and before each retransmission. What is on its way then may still arrive, and is abandoned only if it
    /// proves lost; a message of several fragments that has begun to leave goes on.
    BeforeTransmission,
    /// Before each retransmission. Every message leaves once, as with FreeBSD 8.2 (Rajiullah and Brunstrom 2012 §IV-C).
    BeforeRetransmission,
    /// As `BeforeRetransmission`, and as soon as a gap ack block lies above a chunk that is missing, before that counts as lost. The congestion
    /// window is not cut for it, against RFC 3758 §3.5: FreeBSD and usrsctp do so (`sctp_strike_gap_ack_chunks`), and this is for models of them.
    /// Each SACK with gaps costs a look at all that is outstanding.
    WhenMissing,
}

impl Expiry {
    /// All of them, the default first.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        core::iter::successors(Some(Self::WhenOverdue), |expiry| expiry.next())
    }

    /// The one after this one: a match, so that the compiler asks for a new one here.
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

/// In which order queued messages are sent (the names of RFC 8260 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamScheduler {
    /// In the order of the `send` calls, whatever their streams (SCTP_SS_FCFS).
    #[default]
    FirstComeFirstServed,
    /// Streams with something to send take turns, one message each (SCTP_SS_RR), or with [`Config::interleaving`] one fragment each.
    RoundRobin,
    /// As `RoundRobin`, but the stream whose turn it is fills a packet (SCTP_SS_RR_PKT), so that the loss of a packet concerns few
    /// streams.
    RoundRobinPerPacket,
    /// The stream with the lowest value first ([`Association::set_stream_value`](crate::Association::set_stream_value), 0 if none was
    /// set); those of the same value take turns (SCTP_SS_PRIO).
    Priority,
    /// Streams with something to send get the same number of bytes (SCTP_SS_FC).
    FairCapacity,
    /// Streams with something to send get bytes in proportion to their value, 1 if none was set (SCTP_SS_WFQ).
    WeightedFairQueueing,
}
