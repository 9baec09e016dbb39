//! The configuration of a connection.

use festina_recovery::send_buffer::SendBufferLimit;
use festina_units::Duration;

use super::clock::TimerClock;

/// Everything that is chosen before a connection opens.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Largest payload of a segment, in bytes. The smaller of the two ends' counts.
    pub mss_bytes: u32,
    /// Receive buffer in bytes: the largest window that is announced.
    pub receive_buffer_bytes: u64,
    /// The application reads as soon as something is readable, so that the window never closes.
    pub reads_at_once: bool,
    /// Limit of the send buffer, for sent and unsent data. A writer refused by a limit in bytes is woken when a third
    /// is free, as in Linux.
    pub send_buffer: SendBufferLimit,
    /// Initial window in segments: 3 (RFC 3390 for Ethernet's MSS) or 10 (RFC 6928).
    pub initial_window_segments: u32,
    /// The congestion controller.
    pub congestion: CongestionControl,
    /// The unit that slow start and congestion avoidance count.
    pub growth: Growth,
    /// SACK (RFC 2018); used if both ends want it.
    pub sack: bool,
    /// Timestamps (RFC 7323): 12 bytes a segment, and RTT samples from retransmissions as well.
    pub timestamps: bool,
    /// ECN (RFC 3168); used if both ends want it.
    pub ecn: bool,
    /// When the receiver acknowledges.
    pub delayed_ack: DelayedAck,
    /// How losses are detected and repaired.
    pub recovery: LossRecovery,
    /// The retransmission timer.
    pub rto: RtoConfig,
    /// Mechanisms of the sender.
    pub switches: Switches,
}

impl TcpConfig {
    /// TCP New Reno as in the papers' comparisons: RFC 5681, 6582 and 6298 with Linux's minimum of 200 ms, initial
    /// window 3, no SACK, no mechanism beyond limited transmit.
    #[must_use]
    pub fn new_reno() -> Self {
        Self {
            mss_bytes: 1460,
            receive_buffer_bytes: 4 << 20,
            reads_at_once: true,
            send_buffer: SendBufferLimit::Bytes(1 << 20),
            initial_window_segments: 3,
            congestion: CongestionControl::NewReno,
            growth: Growth::PerAck,
            sack: false,
            timestamps: false,
            ecn: false,
            delayed_ack: DelayedAck::default(),
            recovery: LossRecovery::Standard,
            rto: RtoConfig::default(),
            switches: Switches::default(),
        }
    }

    /// New Reno with SACK recovery (RFC 6675).
    #[must_use]
    pub fn sack() -> Self {
        Self { sack: true, ..Self::new_reno() }
    }

    /// Linux 6.1 with its defaults: CUBIC, SACK, timestamps, initial window 10, RACK-TLP and the rest of
    /// its loss recovery, collapsing retransmissions, its RTT estimator, timer wheel (at 250 Hz, as
    /// Debian builds it) and delayed acknowledgements.
    #[must_use]
    pub fn linux() -> Self {
        Self {
            mss_bytes: 1448,
            initial_window_segments: 10,
            congestion: CongestionControl::Cubic,
            growth: Growth::PerSegment,
            timestamps: true,
            delayed_ack: DelayedAck { quick_acks: 16, adapts: true, ..DelayedAck::default() },
            recovery: LossRecovery::Linux,
            rto: RtoConfig {
                floor: RtoFloor::Variance,
                clock: TimerClock::Wheel { tick: Duration::from_millis(4) },
                ..RtoConfig::default()
            },
            switches: Switches {
                tail_probe: TailProbe::Rfc8985,
                collapses_retransmissions: true,
                ..Switches::default()
            },
            ..Self::sack()
        }
    }
}

/// The congestion controller.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// RFC 5681.
    NewReno,
    /// RFC 9438.
    Cubic,
}

/// What makes cwnd grow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Each acknowledgement of new data counts as one segment, regardless of its size: Linux until 2013 and the
    /// classical reading of RFC 5681. Delayed ACKs slow the growth.
    PerAck,
    /// Each acknowledged segment counts (Linux today; RFC 3465 without a limit).
    PerSegment,
}

/// How losses are detected and repaired.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LossRecovery {
    /// By duplicate acknowledgements: RFC 6582, or RFC 6675 with SACK, and the [`Switches`] for its
    /// variants.
    Standard,
    /// As Linux 6.1 does it: by the time since later segments were delivered (RACK, RFC 8985), with proportional rate
    /// reduction (RFC 6937), F-RTO (RFC 5682), undo of reductions that D-SACKs or timestamps prove to be spurious, and
    /// one timer for timeout, probe and reordering. Asks for SACK.
    ///
    /// The switches `limited_transmit`, `fack`, `early_retransmit`, `rto_restart` and `tail_probe_restart` have no effect then.
    Linux,
}

/// When the receiver acknowledges data that arrives in order (RFC 1122 §4.2.3.2, RFC 5681 §4.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// The longest delay: 40 to 200 ms in real stacks.
    pub delay: Duration,
    /// Number of segments of any size after which there is no delay: 2, or 1 for no delayed ACK at all.
    pub every_segments: u32,
    /// Segments at the start of the connection, and after a duplicate if `adapts`, that are acknowledged
    /// at once.
    pub quick_acks: u32,
    /// The delay adapts as Linux's does: it follows the gaps between segments, from 40 ms up to `delay` or
    /// the RTT, and a small segment that the application has read is acknowledged at once as long as the
    /// application does not answer.
    pub adapts: bool,
}

impl DelayedAck {
    /// Every segment is acknowledged at once.
    pub const OFF: Self = Self { delay: Duration::ZERO, every_segments: 1, quick_acks: 0, adapts: false };
}

impl Default for DelayedAck {
    fn default() -> Self {
        Self { delay: Duration::from_millis(200), every_segments: 2, quick_acks: 0, adapts: false }
    }
}

/// The retransmission timer (RFC 6298).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RtoConfig {
    /// RTO before the first RTT sample.
    pub initial: Duration,
    /// The minimum: 1 s in RFC 6298, 200 ms in Linux.
    pub min: Duration,
    /// The maximum.
    pub max: Duration,
    /// What the minimum bounds.
    pub floor: RtoFloor,
    /// Timeouts in a row after which the connection fails; with [`LossRecovery::Linux`], the connection fails after the
    /// time that this number of timeouts takes, the first being 200 ms.
    pub retries_max: u32,
    /// How exactly timers expire.
    pub clock: TimerClock,
}

impl Default for RtoConfig {
    /// RFC 6298 with Linux's minimum of 200 ms, maximum of 120 s and 15 retries.
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            min: Duration::from_millis(200),
            max: Duration::from_secs(120),
            floor: RtoFloor::Timeout,
            retries_max: 15,
            clock: TimerClock::Exact,
        }
    }
}

/// What the RTO's minimum bounds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// RTO = max(SRTT + 4·RTTVAR, min) (RFC 6298 §2.4).
    Timeout,
    /// RTO = SRTT + max(4·RTTVAR, min), as Linux computes it, with Linux's own variance: it keeps the
    /// largest deviation of each round trip and falls slowly.
    Variance,
}

/// Mechanisms that a sender may have or not.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Switches {
    /// A small segment waits while anything is outstanding (Nagle's algorithm, RFC 1122 §4.2.3.4).
    pub nagle: bool,
    /// The first two duplicate ACKs allow new segments to be sent (RFC 3042).
    pub limited_transmit: bool,
    /// Forward acknowledgement: data three segments below the highest SACKed byte is lost.
    pub fack: bool,
    /// A retransmission includes the small segments behind it (Linux).
    pub collapses_retransmissions: bool,
    /// Early retransmit (RFC 5827).
    pub early_retransmit: bool,
    /// RTO restart (RFC 7765).
    pub rto_restart: bool,
    /// Tail loss probe.
    pub tail_probe: TailProbe,
    /// TLPR: the probe timer subtracts the age of the earliest segment as RTO restart does (R15
    /// §3.4.2).
    pub tail_probe_restart: bool,
    /// A thin stream's first six timeouts do not double (Linux, `tcp-thin.txt`).
    pub thin_linear_timeouts: bool,
}

impl Default for Switches {
    /// Limited transmit on, everything else off, Nagle included.
    fn default() -> Self {
        Self {
            nagle: false,
            limited_transmit: true,
            fack: false,
            collapses_retransmissions: false,
            early_retransmit: false,
            rto_restart: false,
            tail_probe: TailProbe::Off,
            tail_probe_restart: false,
            thin_linear_timeouts: false,
        }
    }
}

/// The formula of the tail loss probe's timer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TailProbe {
    /// No probe.
    Off,
    /// The draft's (R15 §3.4.2 Eq. 1).
    Draft,
    /// RFC 8985 §7.2.
    Rfc8985,
}
