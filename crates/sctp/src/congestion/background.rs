//! A controller for traffic that yields to all other traffic, in the manner of LEDBAT (RFC 6817).
//!
//! Loss-based controllers fill the queue of a slow link until packets are lost, and all other traffic waits behind that queue. This window follows
//! the delay: it grows while the round trip is close to its minimum, and shrinks when it exceeds one and a half times the minimum.
//!
//! # Differences from RFC 6817
//!
//! - It measures round trips instead of one-way delays, which SCTP peers do not report.
//! - The permitted queue depends on the path, and is not 100 ms for all.
//! - If the queue is too long, the window shrinks at once to the path's rate times its shortest round trip, so that the queue drains within one more.
//! - The smallest window is one packet instead of two. On a slow link two packets are already a queue.
//! - The shortest round trip is remembered for five to ten minutes instead of ten.

use festina_recovery::windowed_min::WindowedMin;
use festina_units::{Duration, Instant};

use super::pacer::{Pacer, PacingRate};
use super::{Ack, CongestionSign, Controller};

/// A queue of this length is harmless for any round trip.
const QUEUE_HARMLESS: Duration = Duration::from_millis(10);

/// How long the shortest round trip stays valid at least.
const MEMORY: Duration = Duration::from_secs(300);

/// Smallest window after a loss and after an idle period, in packets (RFC 9260 §7.2.3). Delays and timeouts make it smaller.
const LOSS_FLOOR_PACKETS: usize = 4;

/// Congestion control of one path.
#[derive(Debug)]
pub(crate) struct Background {
    cwnd: usize,
    /// The window doubles below it; `usize::MAX` before the first reduction.
    ssthresh: usize,
    pmdcs: usize,
    /// Set by a timeout: one packet may be in flight until something is acknowledged (RFC 9260 §7.2.3).
    one_packet: bool,
    shortest: WindowedMin,
    /// The last two samples since `shrunk_at`. A queue makes both long, a busy machine only one.
    samples: [Option<Duration>; 2],
    /// When a queue was last seen. Round trips that began before tell nothing about the window since.
    shrunk_at: Instant,
    /// A sample was taken in this round.
    measured: bool,
    /// Maximum number of bytes in flight in this round.
    peak: usize,
    /// Data sent from here on belongs to this round.
    round_began_at: Instant,
    pacer: Pacer,
}

impl Background {
    /// Creates the controller of a path whose packets hold at most `pmdcs` bytes of DATA chunks. The initial window is one packet: on a slow link
    /// that other traffic nearly fills, the ten packets of RFC 6928 take seconds to drain.
    pub(super) fn new(pmdcs: usize) -> Self {
        Self {
            cwnd: pmdcs,
            ssthresh: usize::MAX,
            pmdcs,
            one_packet: false,
            shortest: WindowedMin::new(MEMORY),
            samples: [None; 2],
            shrunk_at: Instant::ZERO,
            measured: false,
            peak: 0,
            round_began_at: Instant::ZERO,
            pacer: Pacer::default(),
        }
    }

    pub(super) fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    pub(super) fn pacer_mut(&mut self) -> &mut Pacer {
        &mut self.pacer
    }

    /// Updates the window at the end of a round.
    fn move_window(&mut self, now: Instant, in_fast_recovery: bool) {
        let [before, Some(latest)] = self.samples else { return };
        let shortest = self.shortest.get().unwrap_or(latest);
        let is_good = |round_trip: &Duration| *round_trip - shortest <= QUEUE_HARMLESS.max(shortest / 2);
        if let Some(shorter) = before.map(|before| before.min(latest)).filter(|shorter| !is_good(shorter)) {
            let carried = self.peak.min(self.cwnd) as u128 * shortest.as_nanos() / shorter.as_nanos().max(1);
            self.reduce(usize::try_from(carried).unwrap_or(usize::MAX).min(self.cwnd / 10 * 7), self.pmdcs);
            (self.samples, self.shrunk_at) = ([None; 2], now);
        } else if is_good(&latest) && self.peak + self.pmdcs > self.cwnd && !in_fast_recovery {
            let more = if self.cwnd < self.ssthresh { self.cwnd } else { self.pmdcs.max(self.cwnd / 16) };
            self.cwnd = self.cwnd.saturating_add(more);
        }
    }

    /// Lowers the window to this, but not below the floor.
    fn reduce(&mut self, cwnd: usize, floor: usize) {
        self.cwnd = cwnd.max(floor.min(self.cwnd));
        self.ssthresh = self.cwnd;
    }

    fn begin_round(&mut self, now: Instant, in_flight: usize) {
        (self.round_began_at, self.peak, self.measured) = (now, in_flight, false);
    }
}

impl Controller for Background {
    fn cwnd(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn allows(&self, in_flight: usize) -> bool {
        if self.one_packet { in_flight == 0 } else { in_flight < self.cwnd }
    }

    fn is_paced(&self) -> bool {
        true
    }

    /// Two windows per round trip while the window doubles, one and a quarter after that (RFC 9002 §7.7).
    fn pacing_rate(&self, srtt: Duration) -> Option<PacingRate> {
        let quarters = if self.cwnd < self.ssthresh { 8 } else { 5 };
        let bytes = (self.cwnd as u64).saturating_mul(quarters);
        Some(PacingRate { bytes, per: srtt.saturating_mul(4), packet_bytes: self.pmdcs })
    }

    fn on_sent(&mut self, _bytes: usize, in_flight: usize) {
        self.peak = self.peak.max(in_flight);
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.shortest.sample(ack.now, rtt);
            if ack.now.saturating_duration_since(self.shrunk_at) >= rtt {
                self.samples = [self.samples[1], Some(rtt)];
                self.measured = true;
            }
        }
        if ack.bytes == 0 {
            return;
        }
        self.one_packet = false;
        if ack.sent_at.is_some_and(|sent_at| sent_at >= self.round_began_at) {
            if self.measured {
                self.move_window(ack.now, ack.in_fast_recovery);
            }
            self.begin_round(ack.now, ack.in_flight_before.saturating_sub(ack.bytes));
        }
    }

    fn on_congestion(&mut self, sign: CongestionSign) {
        let floor = LOSS_FLOOR_PACKETS * self.pmdcs;
        match sign {
            CongestionSign::Loss | CongestionSign::Overdue => self.reduce(self.cwnd / 10 * 7, floor),
            // Only a queue makes the network mark packets.
            CongestionSign::EcnMark => self.reduce(self.cwnd / 10 * 7, self.pmdcs),
            CongestionSign::Timeout { one_packet, .. } => {
                self.ssthresh = floor.max(self.cwnd / 2);
                self.cwnd = self.pmdcs;
                self.one_packet = one_packet;
                (self.samples, self.measured, self.peak) = ([None; 2], false, 0);
            }
        }
    }

    fn undo(&mut self, cwnd: usize, ssthresh: usize) {
        (self.cwnd, self.ssthresh) = (cwnd, ssthresh);
        self.one_packet = false;
    }

    fn on_idle(&mut self, _now: Instant, idle: Duration, rto: Duration) {
        if idle >= rto {
            self.cwnd = self.cwnd.min(LOSS_FLOOR_PACKETS * self.pmdcs);
            self.samples = [None; 2];
        }
    }

    fn set_packet_bytes(&mut self, packet_bytes: usize) {
        self.pmdcs = packet_bytes;
    }
}

#[cfg(test)]
mod tests;
