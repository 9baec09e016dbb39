//! Loss detection by time: RACK (RFC 8985 §5, §6).
//!
//! A packet is lost if it was sent well before one that has arrived. "Well" means a round trip of the packet that
//! arrived, plus a reordering window. The caller keeps the list of outstanding packets; this module keeps what RFC 8985
//! §5.3 calls the per-connection state and judges one packet at a time:
//!
//! 1. for every packet that an acknowledgement newly covers, cumulatively or selectively, in ascending order of
//!    sequence: [`Rack::acked`];
//! 2. once for that acknowledgement: [`Rack::ack_processed`];
//! 3. [`Rack::reordering_window`], and with it [`Rack::judge`] for every packet still outstanding;
//! 4. the latest [`Judgement::WaitUntil`] is the time to judge again (§6.2 step 5 arms its timer with it), if no
//!    acknowledgement arrives before.
//!
//! The protocol decides which packets an expiry of the retransmission timer marks (§6.3): SCTP has its own rule (RFC
//! 9260 §6.3.3 E3).

use festina_units::{Duration, Instant};

use crate::windowed_min::WindowedMin;

/// Number of selectively acknowledged packets that prove a loss at once while no reordering was ever seen (DupThresh,
/// RFC 8985 §6.2 step 4).
pub const DUP_THRESH: u32 = 3;

/// Number of recoveries after which a widened reordering window is reset, unless a duplicate is reported (RFC 8985
/// §3.3.2, §6.2 step 4).
pub const WIDENED_FOR_RECOVERIES: u8 = 16;

/// How long the smallest round-trip time is remembered. RFC 8985 §6.2 step 1 does not specify the window.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(60);

/// The last transmission of a packet, as remembered by the sender.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The highest sequence number in the packet: an unwrapped TSN, or the end of a TCP segment.
    pub sequence: u64,
    /// When it was last sent.
    pub sent: Instant,
    /// Whether it was sent more than once.
    pub retransmitted: bool,
}

/// The inputs of step 4 of RFC 8985 §6.2 after an acknowledgement has been applied.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckSummary {
    /// Whether the acknowledgement reports a duplicate (DSACK, or duplicate TSNs) of retransmitted data, other than a
    /// tail probe.
    pub duplicate_reported: bool,
    /// The lowest sequence number not cumulatively acknowledged (SND.UNA).
    pub earliest_outstanding: u64,
    /// The sequence number that will be sent next (SND.NXT).
    pub next_sequence: u64,
    /// Whether the acknowledgement ended a fast or timeout recovery.
    pub recovery_ended: bool,
}

/// The judgement of an outstanding packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Lost: a packet sent later has arrived, and the acknowledgement of this one is overdue.
    Lost,
    /// A packet sent later has arrived. This one is lost if it is not acknowledged by this time.
    WaitUntil(Instant),
    /// No packet sent later has arrived.
    NotYetJudged,
}

/// The state of RACK for one path (RFC 8985 §5.3).
#[derive(Copy, Clone, Debug)]
pub struct Rack {
    /// The delivered transmission that was sent last (RACK.xmit_ts, RACK.end_seq).
    newest: Option<(Instant, u64)>,
    /// The last measurement: a transmission and its acknowledgement.
    measured: Option<(Instant, Instant)>,
    rtt: Duration,
    rtt_min: WindowedMin,
    /// The highest sequence number delivered (RACK.fack).
    highest_delivered: Option<u64>,
    reordering_seen: bool,
    /// The reordering window in quarters of the smallest round-trip time (RACK.reo_wnd_mult).
    quarters: u32,
    /// Recoveries until it is reset to one quarter (RACK.reo_wnd_persist).
    recoveries_left: u8,
    /// Duplicate reports do not count before this is acknowledged (RACK.dsack_round).
    round_end: Option<u64>,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: None,
            measured: None,
            rtt: Duration::ZERO,
            rtt_min: WindowedMin::new(RTT_MIN_WINDOW),
            highest_delivered: None,
            reordering_seen: false,
            quarters: 1,
            recoveries_left: WIDENED_FOR_RECOVERIES,
            round_end: None,
        }
    }
}

impl Rack {
    /// Creates the state of a path without deliveries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that `packet` was acknowledged for the first time, by an acknowledgement received at `now` (RFC 8985
    /// §6.2 steps 1 to 3).
    ///
    /// `echoed` is the sending time of the acknowledged transmission, if the protocol reports it (TCP timestamps). SCTP
    /// does not. A retransmitted packet is ignored if its acknowledgement may answer an earlier transmission. Packets
    /// must be passed in ascending order; otherwise those of a single acknowledgement would appear reordered.
    pub fn acked(&mut self, now: Instant, packet: &Transmission, echoed: Option<Instant>) {
        self.detect_reordering(packet);
        let rtt = now.saturating_duration_since(packet.sent);
        let answers_last = echoed.is_some_and(|echoed| echoed >= packet.sent);
        if packet.retransmitted {
            let too_soon = self.rtt_min.get().is_none_or(|rtt_min| rtt < rtt_min);
            let answers_earlier = echoed.is_some() && !answers_last;
            if too_soon || answers_earlier {
                return;
            }
        }
        // The chunks of a packet, and others sent and acknowledged at the same times, are one measurement.
        let measured = Some((packet.sent, now));
        if self.measured != measured && (!packet.retransmitted || answers_last) {
            self.rtt_min.sample(now, rtt);
            self.measured = measured;
        }
        self.rtt = rtt;
        let transmission = (packet.sent, packet.sequence);
        if self.newest.is_none_or(|newest| newest < transmission) {
            self.newest = Some(transmission);
        }
    }

    /// Like [`acked`](Self::acked) for each packet of a run: all were sent once, one after the other, and `last` was
    /// the last of them. `first` is the sequence number of the first.
    ///
    /// One call for the range of a cumulative acknowledgement is equivalent to one per packet.
    pub fn acked_in_order(&mut self, now: Instant, first: u64, last: &Transmission) {
        self.detect_reordering(&Transmission { sequence: first, ..*last });
        self.acked(now, last, None);
    }

    fn detect_reordering(&mut self, packet: &Transmission) {
        match self.highest_delivered {
            Some(highest) if packet.sequence <= highest => {
                self.reordering_seen |= packet.sequence < highest && !packet.retransmitted;
            }
            _ => self.highest_delivered = Some(packet.sequence),
        }
    }

    /// Adapts the width of the reordering window after an acknowledgement was applied (RFC 8985 §6.2 step 4). It grows
    /// by a quarter of the smallest round-trip time for each round trip with a duplicate report, and is reset after 16
    /// recoveries without one.
    pub fn ack_processed(&mut self, ack: &AckSummary) {
        if self.round_end.is_some_and(|end| ack.earliest_outstanding >= end) {
            self.round_end = None;
        }
        if ack.duplicate_reported && self.round_end.is_none() {
            self.round_end = Some(ack.next_sequence);
            self.quarters = self.quarters.saturating_add(1);
            self.recoveries_left = WIDENED_FOR_RECOVERIES;
        } else if ack.recovery_ended {
            self.recoveries_left = self.recoveries_left.saturating_sub(1);
            if self.recoveries_left == 0 {
                self.quarters = 1;
            }
        }
    }

    /// Returns the reordering window (RACK.reo_wnd, RFC 8985 §6.2 step 4). It is zero while no reordering was ever seen
    /// and the loss is evident, otherwise some quarters of the smallest round-trip time, and never more than SRTT,
    /// regardless of the peer's reports.
    ///
    /// `in_recovery` is true in fast and in timeout recovery; `selectively_acked` is the number of acknowledged packets
    /// above the cumulative acknowledgement.
    #[must_use]
    pub fn reordering_window(&self, in_recovery: bool, selectively_acked: u32, srtt: Option<Duration>) -> Duration {
        if !self.reordering_seen && (in_recovery || selectively_acked >= DUP_THRESH) {
            return Duration::ZERO;
        }
        let rtt_min = self.rtt_min.get().unwrap_or_default();
        (rtt_min / 4).saturating_mul(self.quarters).min(srtt.unwrap_or(rtt_min))
    }

    /// Judges an outstanding packet (RFC 8985 §6.2 step 5). Not needed for packets sent after
    /// [`Self::newest_delivered`].
    #[must_use]
    pub fn judge(&self, packet: &Transmission, reordering_window: Duration, now: Instant) -> Judgement {
        if self.newest.is_none_or(|newest| newest <= (packet.sent, packet.sequence)) {
            return Judgement::NotYetJudged;
        }
        let due = self.due(packet, reordering_window);
        if due <= now { Judgement::Lost } else { Judgement::WaitUntil(due) }
    }

    fn due(&self, packet: &Transmission, reordering_window: Duration) -> Instant {
        packet.sent + self.rtt + reordering_window
    }

    /// Returns the sending time of the delivered packet that was sent last.
    #[must_use]
    pub fn newest_delivered(&self) -> Option<Instant> {
        self.newest.map(|(sent, _)| sent)
    }

    /// Returns the smallest round-trip time of the last minute or two.
    #[must_use]
    pub fn rtt_min(&self) -> Option<Duration> {
        self.rtt_min.get()
    }

    /// Assumes that packets are reordered on this path.
    pub fn assume_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Returns whether a packet that was sent once ever arrived after a later one.
    #[must_use]
    pub fn reordering_seen(&self) -> bool {
        self.reordering_seen
    }
}

#[cfg(test)]
mod tests;
