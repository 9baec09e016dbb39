//! Congestion control: the congestion window and pacing, and the trait by which a program brings a controller of its own.
//!
//! All quantities are bytes of DATA chunks, including header and padding (RFC 9260 §7.2). A controller receives bytes, times and round-trip times; it
//! knows nothing of TSNs, timers or packets.
//!
//! The public part is unstable until a second user has implemented it: minor versions may change it.
//!
//! | module | responsibility |
//! |---|---|
//! | `rfc9260` | the standard's window (RFC 9260 §7.2) |
//! | `cubic` | CUBIC (RFC 9438), and window validation |
//! | `background` | the window of traffic that yields, by delay (RFC 6817) |
//! | `curve` | CUBIC's growth between two reductions |
//! | `hystart` | end of the first slow start before a loss (RFC 9406) |
//! | `reduction` | the transition to a smaller window |
//! | `pacer` | when the next packet may be sent |
//! | `choice` | controllers by name |
//! | `custom` | controllers from outside this crate |

mod background;
mod choice;
mod cubic;
mod curve;
mod custom;
mod hystart;
mod pacer;
mod reduction;
mod rfc9260;

use std::fmt;
use std::ops::{Deref, DerefMut};

use festina_units::{Duration, Instant};

use background::Background;
pub use choice::{CongestionControl, UnknownCongestionControl};
pub(crate) use cubic::Cubic;
use custom::Custom;
pub use custom::{ControllerFactory, CustomController, NewPath};
use pacer::Pacer;
pub use pacer::PacingRate;
pub(crate) use rfc9260::Rfc9260;

/// Congestion control of one path. One variant per algorithm, so that a path owns it without an allocation.
#[derive(Debug)]
pub(crate) enum Congestion {
    /// RFC 9260 §7.2: the standard, or RFC 4960's, its predecessor.
    Rfc9260(Rfc9260),
    /// RFC 9438, paced.
    Cubic(Cubic),
    /// By delay, paced.
    Background(Box<Background>),
    /// From outside this crate.
    Custom(Box<Custom>),
}

impl Congestion {
    /// Creates the controller of a path whose packets hold at most `pmdcs` bytes of DATA chunks (PMDCS, RFC 9260 §2.3). `initial_window_bytes` is the
    /// part of the standard's initial window that depends on the address family (RFC 9260 §7.2.1).
    pub(crate) fn new(choice: CongestionControl, pmdcs: usize, initial_window_bytes: usize) -> Self {
        match choice {
            CongestionControl::Rfc9260 => Self::Rfc9260(Rfc9260::new(pmdcs, initial_window_bytes)),
            CongestionControl::Rfc4960 => Self::Rfc9260(Rfc9260::of_2007(pmdcs, initial_window_bytes)),
            CongestionControl::Cubic => Self::Cubic(Cubic::new(pmdcs)),
            CongestionControl::Background => Self::Background(Box::new(Background::new(pmdcs))),
            CongestionControl::Custom(controller) => {
                let path = NewPath { packet_bytes: pmdcs, initial_window_bytes };
                Self::Custom(Box::new(Custom::new(controller, path)))
            }
        }
    }

    /// A packet with `bytes` more of DATA was sent; `in_flight` is the new total.
    pub(crate) fn packet_left(&mut self, now: Instant, bytes: usize, in_flight: usize, srtt: Option<Duration>) {
        self.on_sent(bytes, in_flight);
        if let Some(rate) = srtt.and_then(|srtt| self.pacing_rate(srtt))
            && let Some(pacer) = self.pacer_mut()
        {
            pacer.sent(now, bytes, rate);
        }
    }

    /// Returns whether pacing permits a packet now. It always does if nothing is in flight.
    pub(crate) fn is_unpaced(&self, now: Instant, in_flight: usize) -> bool {
        in_flight == 0 || self.pacer().is_none_or(|pacer| pacer.allows(now))
    }

    /// When pacing allows the next packet. `None`: now, or cwnd does not.
    pub(crate) fn resumes_at(&self, in_flight: usize) -> Option<Instant> {
        self.pacer()?.resumes_at().filter(|_| in_flight > 0 && self.allows(in_flight))
    }

    /// The time at which pacing allows the next packet may have come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some(pacer) = self.pacer_mut() {
            pacer.handle_timeout(now);
        }
    }

    fn pacer(&self) -> Option<&Pacer> {
        match self {
            Self::Rfc9260(_) => None,
            Self::Cubic(controller) => controller.pacer(),
            Self::Background(controller) => Some(controller.pacer()),
            Self::Custom(custom) => Some(custom.pacer()),
        }
    }

    fn pacer_mut(&mut self) -> Option<&mut Pacer> {
        match self {
            Self::Rfc9260(_) => None,
            Self::Cubic(controller) => controller.pacer_mut(),
            Self::Background(controller) => Some(controller.pacer_mut()),
            Self::Custom(custom) => Some(custom.pacer_mut()),
        }
    }
}

impl Deref for Congestion {
    type Target = dyn Controller;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Rfc9260(controller) => controller,
            Self::Cubic(controller) => controller,
            Self::Background(controller) => &**controller,
            Self::Custom(custom) => custom.controller(),
        }
    }
}

impl DerefMut for Congestion {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Rfc9260(controller) => controller,
            Self::Cubic(controller) => controller,
            Self::Background(controller) => &mut **controller,
            Self::Custom(custom) => custom.controller_mut(),
        }
    }
}

/// For the memory of paths and buffers: send buffers fit into 32 bits, and so do windows.
pub(crate) fn small(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A congestion controller of one path.
///
/// The core calls [`on_sent`](Self::on_sent), [`on_ack`](Self::on_ack) and the other events in the order in which they happen, and asks
/// [`allows`](Self::allows) before each packet with DATA. The packet that a loss or a timeout calls for, retransmissions on a thin stream and probes
/// are sent without asking.
///
/// `allows(0)` must be true, or nothing is sent.
///
/// Unstable until a second user has implemented it: minor versions may change it.
pub trait Controller: fmt::Debug + Send + Sync {
    /// Returns the congestion window in bytes.
    fn cwnd(&self) -> usize;

    /// Returns the slow-start threshold in bytes; `usize::MAX` before the first reduction.
    fn ssthresh(&self) -> usize;

    /// Returns whether a packet may be sent while `in_flight` bytes are outstanding and not known to be lost. It may also be filled up, so the flight
    /// ends below cwnd + PMDCS (RFC 9260 §6.1 rule B).
    fn allows(&self, in_flight: usize) -> bool;

    /// Returns whether packets are paced. If not, the default, `Limits::burst_packets_max` limits the packets that one acknowledgement releases (RFC
    /// 9260 §6.1 rule D). The answer must not change.
    fn is_paced(&self) -> bool {
        false
    }

    /// Returns the rate at which packets may be sent, given the smoothed round-trip time. `None`, the default, sets no limit.
    fn pacing_rate(&self, srtt: Duration) -> Option<PacingRate> {
        let _ = srtt;
        None
    }

    /// A packet with `bytes` more of DATA was sent; `in_flight` is the new total.
    fn on_sent(&mut self, bytes: usize, in_flight: usize) {
        let _ = (bytes, in_flight);
    }

    /// A SACK was processed; it may have acknowledged nothing new. Called before [`on_congestion`](Self::on_congestion) for a loss that the same SACK
    /// reveals (RFC 9260 §7.2.4).
    fn on_ack(&mut self, ack: &Ack);

    /// The path is congested.
    fn on_congestion(&mut self, sign: CongestionSign);

    /// Fast recovery ended.
    fn on_recovered(&mut self) {}

    /// The last reduction was spurious: `cwnd` and `ssthresh` are the values before it, in bytes.
    fn undo(&mut self, cwnd: usize, ssthresh: usize);

    /// New data follows after nothing was in flight for `idle`, while the retransmission timeout is `rto` (RFC 9260 §7.2.1).
    fn on_idle(&mut self, now: Instant, idle: Duration, rto: Duration) {
        let _ = (now, idle, rto);
    }

    /// Packets hold at most `packet_bytes` of DATA chunks from now on. Those in flight may be larger.
    fn set_packet_bytes(&mut self, packet_bytes: usize) {
        let _ = packet_bytes;
    }

    /// The association is idle: releases memory that is not worth keeping.
    fn give_back_memory(&mut self) {}
}

/// A processed SACK.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ack {
    /// When it was received.
    pub now: Instant,
    /// Bytes acknowledged for the first time, by the cumulative TSN or by a gap ack block.
    pub bytes: usize,
    /// Bytes in flight before the SACK, which show whether cwnd or the application limited the sender.
    pub in_flight_before: usize,
    /// When the newest of the newly acknowledged chunks was last sent.
    pub sent_at: Option<Instant>,
    /// RTT sample of a chunk sent once.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Whether the sender was in fast recovery before the SACK was received.
    pub in_fast_recovery: bool,
    /// Whether the Cumulative TSN Ack Point moved.
    pub cumulative_advanced: bool,
    /// Whether everything is acknowledged.
    pub all_acked: bool,
}

/// Why the window must shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionSign {
    /// A loss, the first of a fast recovery (RFC 9260 §7.2.4).
    Loss,
    /// T3-rtx expired (RFC 9260 §7.2.3).
    Timeout {
        /// Only the retransmission may be sent until something is acknowledged.
        one_packet: bool,
        /// The sender was in fast recovery: the window was reduced for the same losses before.
        in_fast_recovery: bool,
    },
    /// The network marked a packet (RFC 3168), once per round trip.
    EcnMark,
    /// Early fast retransmit found chunks overdue (FreeBSD, not in RFC 9260).
    Overdue,
}
