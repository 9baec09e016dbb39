//! How many segments may be in flight: slow start, congestion avoidance and their cuts.
//!
//! Windows are counted in segments, as Linux and G02 count them; a small segment weighs as much as
//! a full one.

mod cubic;

use festina_units::{Duration, Instant};

use self::cubic::Cubic;
use super::config::{CongestionControl, Growth};

/// One segment in the fixed-point windows: 16 fractional bits.
const SEGMENT: u64 = 1 << 16;

/// cwnd in segments beyond which nothing grows.
const CWND_SEGMENTS_MAX: u64 = 1 << 24;

/// Smallest ssthresh, in segments (RFC 5681 §3.1 Eq. 4).
const SSTHRESH_SEGMENTS_MIN: u64 = 2;

/// cwnd, ssthresh and the controller that moves them.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    /// In units of 1/65536 segment.
    cwnd: u64,
    /// In segments; `None` until the first loss.
    ssthresh: Option<u64>,
    initial_segments: u64,
    growth: Growth,
    cubic: Option<Cubic>,
}

impl Congestion {
    pub(super) fn new(control: CongestionControl, growth: Growth, initial_segments: u32) -> Self {
        let initial_segments = u64::from(initial_segments.max(1));
        let cubic = match control {
            CongestionControl::NewReno => None,
            CongestionControl::Cubic => Some(Cubic::default()),
        };
        Self { cwnd: initial_segments * SEGMENT, ssthresh: None, initial_segments, growth, cubic }
    }

    /// cwnd in whole segments, at least 1.
    pub(super) fn cwnd(&self) -> u32 {
        u32::try_from(self.cwnd / SEGMENT).unwrap_or(u32::MAX).max(1)
    }

    /// ssthresh in segments, once there was a loss.
    pub(super) fn ssthresh(&self) -> Option<u64> {
        self.ssthresh
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh * SEGMENT)
    }

    /// An acknowledgement covered `segments` new segments while cwnd was the limit.
    pub(super) fn acknowledged(&mut self, now: Instant, segments: u32, srtt: Duration) {
        let mut count = match self.growth {
            Growth::PerAck => u64::from(segments.min(1)),
            Growth::PerSegment => u64::from(segments),
        };
        if self.in_slow_start() {
            let room = self.ssthresh.map_or(u64::MAX, |ssthresh| (ssthresh * SEGMENT - self.cwnd).div_ceil(SEGMENT));
            let grown = count.min(room);
            self.cwnd = (self.cwnd + grown * SEGMENT).min(CWND_SEGMENTS_MAX * SEGMENT);
            count -= grown;
        }
        if count == 0 {
            return;
        }
        let increase = match &mut self.cubic {
            // RFC 5681 §3.1 Eq. 3, in segments: 1/cwnd for each.
            None => SEGMENT * SEGMENT * count / self.cwnd,
            Some(cubic) => cubic.increase(now, self.cwnd, count, srtt),
        };
        self.cwnd = (self.cwnd + increase).min(CWND_SEGMENTS_MAX * SEGMENT);
    }

    /// Congestion was signalled by a loss or a mark with `flight` segments outstanding: ssthresh
    /// falls, and cwnd with it (RFC 5681 §3.2, RFC 6675 §5 step 4.2, RFC 3168 §6.1.2).
    pub(super) fn reduce(&mut self, flight: u32) {
        let ssthresh = self.cut(flight);
        self.cwnd = ssthresh * SEGMENT;
    }

    /// The retransmission timer expired: cwnd is one segment, and ssthresh falls unless this is a
    /// timeout of the same segment again (RFC 5681 §3.1).
    pub(super) fn time_out(&mut self, flight: u32, first: bool) {
        if first {
            self.cut(flight);
        }
        self.cwnd = SEGMENT;
        self.end_epoch();
    }

    /// ssthresh falls and cwnd stays: the caller reduces it step by step.
    pub(super) fn lower_ssthresh(&mut self) {
        self.cut(self.cwnd());
    }

    /// CUBIC begins a new epoch with the next growth.
    pub(super) fn end_epoch(&mut self) {
        if let Some(cubic) = &mut self.cubic {
            cubic.end_epoch();
        }
    }

    /// Sets cwnd, in segments.
    pub(super) fn set_cwnd(&mut self, segments: u32) {
        self.cwnd = u64::from(segments.max(1)) * SEGMENT;
    }

    /// Returns the ssthresh to restore if the coming reduction has to be undone: Linux's estimate of the path's
    /// capacity. `None` before the first loss.
    pub(super) fn undo_ssthresh(&self) -> Option<u64> {
        self.ssthresh.map(|ssthresh| ssthresh.max(self.cwnd / SEGMENT * 3 / 4))
    }

    /// Undoes a spurious reduction: cwnd and ssthresh are raised at least to their former values.
    pub(super) fn undo(&mut self, cwnd_segments: u32, ssthresh: Option<u64>) {
        self.cwnd = self.cwnd.max(u64::from(cwnd_segments) * SEGMENT);
        self.ssthresh = ssthresh.zip(self.ssthresh).map(|(before, now)| before.max(now));
    }

    /// The connection was idle for an RTO (RFC 5681 §4.1).
    pub(super) fn restart_after_idle(&mut self) {
        self.cwnd = self.cwnd.min(self.initial_segments * SEGMENT);
        self.end_epoch();
    }

    /// The SYN was lost: start with one segment (RFC 5681 §3.1).
    pub(super) fn syn_was_lost(&mut self) {
        self.cwnd = SEGMENT;
    }

    /// Sets ssthresh for `flight` segments outstanding and returns it.
    fn cut(&mut self, flight: u32) -> u64 {
        let flight = u64::from(flight).min(self.cwnd / SEGMENT);
        let cut = match &mut self.cubic {
            None => flight / 2,
            Some(cubic) => cubic.cut(flight * SEGMENT) / SEGMENT,
        };
        let ssthresh = cut.max(SSTHRESH_SEGMENTS_MIN);
        self.ssthresh = Some(ssthresh);
        ssthresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn reno(growth: Growth) -> Congestion {
        Congestion::new(CongestionControl::NewReno, growth, 3)
    }

    #[test]
    fn rfc_5681_3_1_slow_start_grows_by_one_segment_for_each_acknowledgement() {
        let mut congestion = reno(Growth::PerAck);
        for _ in 0..3 {
            congestion.acknowledged(Instant::ZERO, 1, RTT);
        }
        assert_eq!(congestion.cwnd(), 6);
        congestion.acknowledged(Instant::ZERO, 2, RTT);
        assert_eq!(congestion.cwnd(), 7, "a delayed ACK counts once");
    }

    #[test]
    fn rfc_3465_an_acknowledgement_of_two_segments_counts_twice_if_segments_are_counted() {
        let mut congestion = reno(Growth::PerSegment);
        congestion.acknowledged(Instant::ZERO, 2, RTT);
        assert_eq!(congestion.cwnd(), 5);
    }

    #[test]
    fn rfc_5681_3_1_congestion_avoidance_grows_by_about_one_segment_each_round() {
        let mut congestion = reno(Growth::PerSegment);
        congestion.acknowledged(Instant::ZERO, 37, RTT);
        congestion.reduce(40);
        assert_eq!((congestion.cwnd(), congestion.ssthresh()), (20, Some(20)));
        for round in 1..=10_u64 {
            congestion.acknowledged(Instant::from_millis(round * 100), congestion.cwnd(), RTT);
            let expected = 20 + u32::try_from(round).expect("small");
            assert!(congestion.cwnd().abs_diff(expected) <= 1, "round {round}: {}", congestion.cwnd());
        }
    }

    #[test]
    fn rfc_5681_3_1_a_timeout_leaves_one_segment_and_a_second_one_keeps_ssthresh() {
        let mut congestion = reno(Growth::PerSegment);
        congestion.acknowledged(Instant::ZERO, 17, RTT);
        congestion.time_out(20, true);
        assert_eq!((congestion.cwnd(), congestion.ssthresh()), (1, Some(10)));
        congestion.time_out(1, false);
        assert_eq!(congestion.ssthresh(), Some(10));
    }

    #[test]
    fn rfc_5681_3_1_equation_4_ssthresh_is_at_least_two_segments() {
        let mut congestion = reno(Growth::PerSegment);
        congestion.reduce(1);
        assert_eq!((congestion.cwnd(), congestion.ssthresh()), (2, Some(2)));
    }

    #[test]
    fn rfc_5681_4_1_an_idle_connection_falls_back_to_the_initial_window_and_never_rises_to_it() {
        let mut congestion = reno(Growth::PerSegment);
        congestion.acknowledged(Instant::ZERO, 30, RTT);
        congestion.restart_after_idle();
        assert_eq!(congestion.cwnd(), 3);
        congestion.time_out(3, true);
        congestion.restart_after_idle();
        assert_eq!(congestion.cwnd(), 1);
    }
}
