//! How much may be on the way: the congestion window and what moves it.
//!
//! All quantities are bytes of DATA chunks, header and padding included (RFC 9260 §7.2). A controller is told what happened;
//! it knows nothing of TSNs, timers or packets.

mod rfc9260;

use std::ops::{Deref, DerefMut};

pub(crate) use rfc9260::Rfc9260;

/// The controller of a path. One variant per algorithm, so that a path owns it without an allocation.
#[derive(Debug)]
pub(crate) enum Congestion {
    /// RFC 9260 §7.2: the standard.
    Rfc9260(Rfc9260),
}

impl Deref for Congestion {
    type Target = dyn Controller;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Rfc9260(controller) => controller,
        }
    }
}

impl DerefMut for Congestion {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Rfc9260(controller) => controller,
        }
    }
}

/// What every congestion control algorithm answers and is told.
pub(crate) trait Controller {
    /// The congestion window.
    fn cwnd(&self) -> usize;

    /// The slow-start threshold.
    fn ssthresh(&self) -> usize;

    /// Whether a packet may leave now. A packet that may leave may also be filled up, so the flight ends below
    /// cwnd + PMDCS (RFC 9260 §6.1 rule B).
    fn allows(&self, in_flight: usize) -> bool;

    /// A SACK acknowledged something for the first time. Told before a loss that the same SACK reveals (RFC 9260 §7.2.4).
    fn on_acked(&mut self, acked: Acked);

    /// Missing reports revealed a loss, the first of a fast recovery.
    fn on_loss(&mut self);

    /// T3-rtx expired. With `one_packet` nothing but the retransmission may leave until something is acknowledged.
    fn on_timeout(&mut self, one_packet: bool);

    /// Early fast retransmit found chunks overdue (FreeBSD, not in RFC 9260).
    fn on_early_retransmit(&mut self);

    /// The last cut had no cause: the window and its threshold are these again.
    fn restore(&mut self, cwnd: usize, ssthresh: usize);

    /// Nothing was on the way for so many whole RTOs.
    fn on_idle(&mut self, rto_count: u64);
}

/// What a SACK acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    /// Acknowledged for the first time, by the cumulative TSN or by a gap ack block.
    pub(crate) bytes: usize,
    /// On the way before the SACK came.
    pub(crate) in_flight_before: usize,
    /// Whether the sender was in fast recovery before the SACK came.
    pub(crate) in_fast_recovery: bool,
    /// Whether nothing is outstanding any more.
    pub(crate) all_acked: bool,
}
