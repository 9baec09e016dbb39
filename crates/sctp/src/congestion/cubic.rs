//! CUBIC (RFC 9438) with HyStart++ (RFC 9406), pacing, and a window that is kept while the application does not use it.
//!
//! # Differences from the RFCs
//!
//! - The floor after a loss is 4 * PMDCS, SCTP's (RFC 9260 §7.2.3), instead of two segments.
//! - After a timeout there is no second packet in flight until something is acknowledged (RFC 9260 §7.2.3).
//! - An unused window neither grows beyond twice its used part nor shrinks at once. In the manner of
//!   RFC 7661 it is halved after [`UNUSED_MAX`], and a reduction is relative to the used part. Pacing spreads it over a round trip when it
//!   is used again.
//! - While a window reduced by a loss is still below the data in flight, the sender continues in proportion to the arrivals
//!   ([`Reduction`], RFC 6937). RFC 6937's bounds for the part below the window do not apply, because pacing spreads that.
//! - The window grows by the bytes that give small packets the goodput of full ones ([`growth_bytes`]).

use festina_recovery::early_fast_retransmit::window_after;
use festina_units::{Duration, Instant, OptionalInstant};

use super::curve::Curve;
use super::hystart::HyStart;
use super::pacer::{Pacer, PacingRate};
use super::reduction::Reduction;
use super::{Ack, CongestionSign, Controller, small};

/// RFC 6928 §2: the initial window is ten packets, but not above this unless two packets are.
const INITIAL_WINDOW_BYTES: usize = 14_600;
/// How long an unused window is kept (RFC 7661 §4.4).
const UNUSED_MAX: Duration = Duration::from_secs(300);
/// Pacing in slow start, in windows per round trip: the growth of a round trip may leave within it. Linux's TCP has the same.
const SLOW_START_GAIN: u64 = 8;
/// Pacing in congestion avoidance: 1.25 windows per round trip (RFC 9002 §7.7).
const AVOIDANCE_GAIN: u64 = 5;
/// What both gains are divided by.
const GAIN_DIVISOR: u32 = 4;

/// Payload of a full TCP packet over Ethernet.
const FULL_PACKET_BYTES: usize = 1_460;
/// Approximate payload that every IPv6 path carries.
const SMALL_PACKET_BYTES: usize = 1_200;
/// The threshold before the first reduction.
const UNLIMITED: u32 = u32::MAX;

/// Congestion control of one path.
#[derive(Debug)]
pub(crate) struct Cubic {
    cwnd: u32,
    ssthresh: u32,
    pmdcs: u16,
    /// Set by a timeout: one packet may be in flight until something is acknowledged (RFC 9260 §7.2.3).
    one_packet: bool,
    /// The last reduction was for a mark: no fast recovery lasts while the sender comes down.
    is_for_mark: bool,
    /// In flight at the last update; may include data that the last SACK showed to be lost.
    in_flight: u32,
    usage: Usage,
    /// Made when cwnd first limits the sender or the path is first congested: most associations carry thin streams and never need it.
    history: Option<Box<History>>,
}

/// The state of the path.
#[derive(Debug, Default)]
struct History {
    hystart: HyStart,
    curve: Curve,
    /// The curve before the last reduction (RFC 9438 §4.9).
    before: Option<Curve>,
    /// Without a history the window is the initial one at most, and a sender may burst that.
    pacer: Pacer,
    /// When at least half of the window was last used, or, after a reduction, first looked at.
    used_at: OptionalInstant,
    /// How the sender comes down to the window that the loss of this fast recovery or a mark left.
    reduction: Option<Reduction>,
}

/// The used part of the window: the maximum in flight in this round trip and the last.
#[derive(Debug, Default)]
struct Usage {
    peak: u32,
    last_peak: u32,
    /// Data sent from here on belongs to this round.
    round_began_at: Instant,
}

impl Usage {
    fn bytes(&self) -> usize {
        self.peak.max(self.last_peak) as usize
    }

    fn sent(&mut self, in_flight: usize) {
        self.peak = self.peak.max(small(in_flight));
    }

    /// Handles newly acknowledged data, if any. Returns whether a round begins.
    fn acked(&mut self, ack: &Ack) -> bool {
        let begins = ack.sent_at.is_some_and(|sent_at| sent_at >= self.round_began_at);
        if begins {
            (self.last_peak, self.peak) = (self.peak, small(ack.in_flight_before.saturating_sub(ack.bytes)));
            self.round_began_at = ack.now;
        }
        begins
    }

    fn forget(&mut self) {
        (self.peak, self.last_peak) = (0, 0);
    }
}

impl Cubic {
    /// Creates the controller of a path whose packets hold at most `pmdcs` bytes of DATA chunks (PMDCS, RFC 9260 §2.3).
    pub(super) fn new(pmdcs: usize) -> Self {
        let pmdcs = u16::try_from(pmdcs).unwrap_or(u16::MAX);
        Self {
            cwnd: small(initial_window(pmdcs.into())),
            ssthresh: UNLIMITED,
            pmdcs,
            one_packet: false,
            is_for_mark: false,
            in_flight: 0,
            usage: Usage::default(),
            history: None,
        }
    }

    pub(super) fn pacer(&self) -> Option<&Pacer> {
        Some(&self.history.as_ref()?.pacer)
    }

    pub(super) fn pacer_mut(&mut self) -> Option<&mut Pacer> {
        Some(&mut self.history.as_mut()?.pacer)
    }

    fn pmdcs(&self) -> usize {
        self.pmdcs.into()
    }

    fn floor(&self) -> usize {
        4 * self.pmdcs()
    }

    /// Returns the history, which begins now if there is none: the window is in use.
    fn history_since(&mut self, now: Instant) -> &mut History {
        self.history.get_or_insert_with(|| Box::new(History { used_at: now.into(), ..History::default() }))
    }

    /// RFC 5681 §3.1, and RFC 9406 before the first reduction.
    fn slow_start(&mut self, ack: &Ack, round_begins: bool) {
        let used_max = 2 * self.usage.bytes();
        if used_max <= self.cwnd() {
            return;
        }
        let mut growth = ack.bytes;
        if self.ssthresh == UNLIMITED {
            let hystart = &mut self.history_since(ack.now).hystart;
            if round_begins && hystart.begin_round() {
                self.ssthresh = self.cwnd;
                return;
            }
            if let Some(rtt) = ack.rtt {
                hystart.sample(rtt);
            }
            growth = hystart.growth(ack.bytes);
        }
        self.cwnd = small(self.cwnd().saturating_add(growth).min(used_max)).min(self.ssthresh);
    }

    fn avoid_congestion(&mut self, ack: &Ack) {
        let (cwnd, step) = (self.cwnd(), growth_bytes(self.pmdcs()));
        let limited = self.usage.bytes() >= cwnd - cwnd / 8;
        if let Some(srtt) = ack.srtt.filter(|_| limited) {
            let curve = &mut self.history_since(ack.now).curve;
            self.cwnd = small(curve.grow(ack.now, cwnd, ack.bytes, step, srtt));
        } else if let Some(history) = &mut self.history {
            history.curve.pause();
        }
    }

    /// The window as far as the path was shown to carry it (RFC 7661 §4.4.1).
    fn validated(&self) -> usize {
        self.cwnd().min((2 * self.usage.bytes()).max(initial_window(self.pmdcs())))
    }

    /// Shrinks a long-unused window step by step (RFC 7661 §4.4).
    fn expire(&mut self, now: Instant) {
        let (cwnd, initial) = (self.cwnd(), initial_window(self.pmdcs()));
        let is_used = cwnd <= initial || 2 * self.usage.bytes() >= cwnd;
        let Some(history) = &mut self.history else { return };
        history.used_at.get_or_insert(now);
        let unused = history.used_at.get().map_or(Duration::ZERO, |used_at| now.saturating_duration_since(used_at));
        let periods = if is_used { 0 } else { unused.as_nanos() / UNUSED_MAX.as_nanos() };
        if is_used || periods > 0 {
            history.used_at = now.into();
        }
        if periods > 0 {
            let halvings = u32::try_from(periods).unwrap_or(u32::MAX);
            self.ssthresh = self.ssthresh.max(small(cwnd / 4 * 3));
            self.cwnd = small(cwnd.checked_shr(halvings).unwrap_or(0).max(initial));
        }
    }

    fn reduce(&mut self, sign: CongestionSign) {
        let (window, floor) = (self.validated(), self.floor());
        let history = self.history.get_or_insert_default();
        let same_cut = matches!(sign, CongestionSign::Timeout { in_fast_recovery: true, .. });
        if !same_cut {
            history.before = Some(history.curve.clone());
        }
        let (reduced, reduction) = match sign {
            CongestionSign::Timeout { .. } => (history.curve.restart(window), None),
            _ => (history.curve.reduce(window), Reduction::new(self.in_flight as usize)),
        };
        history.reduction = reduction;
        self.is_for_mark = sign == CongestionSign::EcnMark;
        self.ssthresh = small(reduced.max(floor));
    }

    /// How the sender comes down, if it still does.
    fn reduction(&self) -> Option<Reduction> {
        self.history.as_ref()?.reduction
    }

    fn comes_down_for_mark(&self) -> bool {
        self.is_for_mark && self.reduction().is_some()
    }

    fn set_reduction(&mut self, reduction: Option<Reduction>) {
        if let Some(history) = &mut self.history {
            history.reduction = reduction;
        }
    }
}

impl Controller for Cubic {
    fn cwnd(&self) -> usize {
        self.cwnd as usize
    }

    fn ssthresh(&self) -> usize {
        if self.ssthresh == UNLIMITED { usize::MAX } else { self.ssthresh as usize }
    }

    fn allows(&self, in_flight: usize) -> bool {
        if self.one_packet {
            return in_flight == 0;
        }
        in_flight < self.cwnd() || self.reduction().is_some_and(|reduction| reduction.allows())
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn pacing_rate(&self, srtt: Duration) -> Option<PacingRate> {
        let gain = if self.cwnd < self.ssthresh { SLOW_START_GAIN } else { AVOIDANCE_GAIN };
        let per = srtt.saturating_mul(GAIN_DIVISOR);
        Some(PacingRate { bytes: u64::from(self.cwnd) * gain, per, packet_bytes: self.pmdcs() })
    }

    fn on_sent(&mut self, bytes: usize, in_flight: usize) {
        self.in_flight = small(in_flight);
        self.usage.sent(in_flight);
        if let Some(reduction) = self.reduction() {
            self.set_reduction(reduction.sent(bytes, in_flight, self.cwnd()));
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let round_begins = self.usage.acked(ack);
        self.in_flight = small(ack.in_flight_before.saturating_sub(ack.bytes));
        if ack.bytes == 0 {
            return;
        }
        self.one_packet = false;
        if round_begins {
            self.expire(ack.now);
        }
        if ack.in_fast_recovery || self.comes_down_for_mark() {
            if let Some(reduction) = self.reduction() {
                self.set_reduction(reduction.delivered(ack.bytes, self.in_flight as usize, self.cwnd()));
            }
            return;
        }
        if self.cwnd < self.ssthresh {
            self.slow_start(ack, round_begins);
        } else {
            self.avoid_congestion(ack);
        }
    }

    fn on_congestion(&mut self, sign: CongestionSign) {
        match sign {
            CongestionSign::Loss | CongestionSign::EcnMark => {
                self.reduce(sign);
                self.cwnd = self.ssthresh;
            }
            CongestionSign::Timeout { one_packet, .. } => {
                // A second timeout says nothing about the window that the first one left (RFC 5681 §3.1).
                if self.cwnd() > self.pmdcs() {
                    self.reduce(sign);
                }
                self.on_recovered();
                self.cwnd = self.pmdcs.into();
                self.one_packet = one_packet;
                self.usage.forget();
            }
            CongestionSign::Overdue => {
                let (cwnd, ssthresh) = window_after(self.cwnd.into(), self.ssthresh.into(), self.pmdcs.into());
                let small = |bytes: u64| u32::try_from(bytes).unwrap_or(UNLIMITED);
                (self.cwnd, self.ssthresh) = (small(cwnd), small(ssthresh));
            }
        }
    }

    fn on_recovered(&mut self) {
        self.set_reduction(None);
    }

    fn undo(&mut self, cwnd: usize, ssthresh: usize) {
        (self.cwnd, self.ssthresh) = (small(cwnd), small(ssthresh));
        self.one_packet = false;
        if let Some(history) = &mut self.history {
            history.reduction = None;
            history.hystart = HyStart::default();
            if let Some(mut curve) = history.before.take() {
                curve.pause();
                history.curve = curve;
            }
        }
    }

    /// A window below the floor is raised to it (RFC 9260 §7.2.1); a larger one is kept for [`UNUSED_MAX`].
    fn on_idle(&mut self, now: Instant, idle: Duration, rto: Duration) {
        if let Some(history) = &mut self.history {
            history.curve.pause();
        }
        if idle >= rto {
            self.usage.forget();
            self.expire(now);
            self.cwnd = self.cwnd.max(small(self.floor()));
        }
    }

    fn give_back_memory(&mut self) {
        let is_initial = self.cwnd() <= initial_window(self.pmdcs());
        self.history.take_if(|history| is_initial && !history.curve.is_used());
        if let Some(history) = &mut self.history {
            history.before = None;
            history.curve.end_epoch();
        }
    }

    fn set_packet_bytes(&mut self, packet_bytes: usize) {
        self.pmdcs = u16::try_from(packet_bytes).unwrap_or(u16::MAX);
    }
}

/// Replaces RFC 9438's SMSS in the growth: at least an Ethernet frame's payload.
///
/// Packets of all sizes are lost equally often, and drop-tail queues often count packets. At one loss rate the goodput is proportional
/// to the packet size times the root of the increase in packets, so that an increase of `full² / pmdcs` bytes gives the goodput of full
/// packets, which is RFC 4828's goal. Packets below [`SMALL_PACKET_BYTES`] are not helped further.
fn growth_bytes(pmdcs: usize) -> usize {
    pmdcs.max(FULL_PACKET_BYTES * FULL_PACKET_BYTES / pmdcs.max(SMALL_PACKET_BYTES))
}

/// RFC 6928 §2.
fn initial_window(pmdcs: usize) -> usize {
    (10 * pmdcs).min(INITIAL_WINDOW_BYTES.max(2 * pmdcs))
}

#[cfg(test)]
mod tests;
