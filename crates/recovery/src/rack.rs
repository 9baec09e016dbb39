//! Loss detection by time: RACK (RFC 8985 §5, §6).
//!
//! What was sent well before something that has arrived is lost. "Well" is a round trip of the packet
//! that arrived, plus a window for reordering. The caller keeps the list of outstanding packets;
//! this module keeps what RFC 8985 §5.3 calls the per-connection state and judges one packet at a
//! time:
//!
//! 1. for every packet that an acknowledgement newly covers, cumulatively or selectively, in
//!    ascending order of sequence: [`Rack::acked`];
//! 2. once for that acknowledgement: [`Rack::ack_processed`];
//! 3. [`Rack::reordering_window`], and with it [`Rack::judge`] for every packet still outstanding;
//! 4. the latest [`Judgement::WaitUntil`] is when to judge again (§6.2 step 5 arms its timer with
//!    it), if no acknowledgement comes before.
//!
//! Which packets an expiry of the retransmission timer marks (§6.3) is left to the protocol: SCTP has a rule of its own for it
//! (RFC 9260 §6.3.3 E3).

use festina_units::{Duration, Instant};

use crate::windowed_min::WindowedMin;

/// Packets selectively acknowledged that prove a loss at once while no reordering was ever seen
/// (DupThresh, RFC 8985 §6.2 step 4).
pub const DUP_THRESH: u32 = 3;

/// Recoveries after which a widened reordering window falls back, unless a duplicate is reported
/// (RFC 8985 §3.3.2, §6.2 step 4).
pub const WIDENED_FOR_RECOVERIES: u8 = 16;

/// How long a smallest round-trip time is remembered. RFC 8985 §6.2 step 1 leaves the window open.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(60);

/// The last transmission of a packet, as the sender remembers it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The highest sequence number in the packet: an unwrapped TSN, or the end of a TCP segment.
    pub sequence: u64,
    /// When it was last sent.
    pub sent: Instant,
    /// It was sent more than once.
    pub retransmitted: bool,
}

/// What step 4 of RFC 8985 §6.2 looks at when an acknowledgement has been applied.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckSummary {
    /// The acknowledgement reports a duplicate (DSACK, or duplicate TSNs) of something
    /// retransmitted, other than a tail probe.
    pub duplicate_reported: bool,
    /// The lowest sequence number not cumulatively acknowledged (SND.UNA).
    pub earliest_outstanding: u64,
    /// The sequence number that will be sent next (SND.NXT).
    pub next_sequence: u64,
    /// The acknowledgement ended a fast or timeout recovery.
    pub recovery_ended: bool,
}

/// What is known about one outstanding packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is lost: something sent after it arrived, and its own acknowledgement is overdue.
    Lost,
    /// Something sent after it arrived. It is lost if no acknowledgement comes by this time.
    WaitUntil(Instant),
    /// Nothing that was sent after it has arrived.
    NotYetJudged,
}

/// The state of RACK for one path (RFC 8985 §5.3).
#[derive(Copy, Clone, Debug)]
pub struct Rack {
    /// The delivered transmission that was sent last (RACK.xmit_ts, RACK.end_seq).
    newest: Option<(Instant, u64)>,
    /// What was last measured: a transmission and its acknowledgement.
    measured: Option<(Instant, Instant)>,
    rtt: Duration,
    rtt_min: WindowedMin,
    /// The highest sequence number delivered (RACK.fack).
    highest_delivered: Option<u64>,
    reordering_seen: bool,
    /// The reordering window in quarters of the smallest round-trip time (RACK.reo_wnd_mult).
    quarters: u32,
    /// Recoveries until it falls back to one quarter (RACK.reo_wnd_persist).
    recoveries_left: u8,
    /// No duplicate report counts before this is acknowledged (RACK.dsack_round).
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
    /// The state of a path on which nothing was delivered yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `packet` was acknowledged for the first time, by an acknowledgement that came at `now` (RFC
    /// 8985 §6.2 steps 1 to 3).
    ///
    /// `echoed` is the sending time of the transmission that this acknowledgement answers, if the
    /// protocol reports it (TCP timestamps). SCTP does not. A retransmitted packet is passed over if
    /// its acknowledgement may answer an earlier transmission. Packets must come in
    /// ascending order, or those of a single acknowledgement would look reordered.
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
        // The chunks of a packet, and what else left and arrived together, are one measurement.
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

    /// As [`acked`](Self::acked) for each packet of a run: all were sent once, one after the other, and `last` was the last of them. `first` is
    /// the sequence number of the first.
    ///
    /// One call for what a cumulative acknowledgement covers says the same as one for each.
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

    /// An acknowledgement was applied: adapts the width of the reordering window (RFC 8985 §6.2
    /// step 4). It grows by a quarter of the smallest round-trip time for each round trip with a
    /// duplicate report, and falls back after 16 recoveries without one.
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

    /// The reordering window (RACK.reo_wnd, RFC 8985 §6.2 step 4): zero while no reordering was ever
    /// seen and the loss is plain, else some quarters of the smallest round-trip time, and never
    /// more than SRTT, whatever the peer reports.
    ///
    /// `in_recovery` is true in fast and in timeout recovery; `selectively_acked` counts the packets
    /// above the cumulative acknowledgement that were acknowledged.
    #[must_use]
    pub fn reordering_window(&self, in_recovery: bool, selectively_acked: u32, srtt: Option<Duration>) -> Duration {
        if !self.reordering_seen && (in_recovery || selectively_acked >= DUP_THRESH) {
            return Duration::ZERO;
        }
        let rtt_min = self.rtt_min.get().unwrap_or_default();
        (rtt_min / 4).saturating_mul(self.quarters).min(srtt.unwrap_or(rtt_min))
    }

    /// Judges an outstanding packet (RFC 8985 §6.2 step 5). Does not need to be asked about what was
    /// sent after [`Self::newest_delivered`].
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

    /// When the delivered packet that was sent last was sent.
    #[must_use]
    pub fn newest_delivered(&self) -> Option<Instant> {
        self.newest.map(|(sent, _)| sent)
    }

    /// The smallest round-trip time of the last minute or two.
    #[must_use]
    pub fn rtt_min(&self) -> Option<Duration> {
        self.rtt_min.get()
    }

    /// On this path packets arrive after later ones.
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
