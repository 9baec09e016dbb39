//! RACK (RFC 8985 §6) as Linux has it: a segment is lost when one that was sent later has been delivered, and the
//! time for reordering is over.

use festina_units::{Duration, Instant};

use super::scoreboard::SentSegment;

/// Recoveries for which a wider reordering window is kept (RFC 8985 §6.2 step 4).
const WINDOW_PERSISTS: u8 = 16;
/// Widest reordering window in quarters of the smallest RTT.
const WINDOW_STEPS_MAX: u32 = 255;

/// RACK's state about delivered segments.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// The segment delivered that was sent last: when, and its end.
    newest: (Instant, u64),
    /// RTT of the segment delivered last.
    pub(super) rtt: Duration,
    /// Something was delivered since losses were last looked for.
    pub(super) advanced: bool,
    /// Segments arrived in another order than that of their transmission.
    pub(super) reordering_seen: bool,
    /// Width of the reordering window in quarters of the smallest RTT.
    window_steps: u32,
    window_persists: u8,
    duplicate_told: bool,
    /// Segments that had been delivered when the window was last widened.
    widened_at: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: (Instant::ZERO, 0),
            rtt: Duration::ZERO,
            advanced: false,
            reordering_seen: false,
            window_steps: 1,
            window_persists: 0,
            duplicate_told: false,
            widened_at: 0,
        }
    }
}

impl Rack {
    /// Returns whether `segment` was sent before something that has been delivered.
    pub(super) fn is_overtaken(&self, segment: &SentSegment) -> bool {
        (segment.last_sent, segment.end) < self.newest
    }

    /// Returns how much longer `segment` may take; zero if it is lost.
    pub(super) fn patience(&self, now: Instant, segment: &SentSegment, window: Duration) -> Duration {
        let allowed = self.rtt.saturating_add(window);
        allowed.saturating_sub(now.saturating_duration_since(segment.last_sent))
    }

    /// The reordering window: nothing as long as the path keeps the order and losses are certain, else steps of
    /// a quarter of the smallest RTT, up to SRTT.
    pub(super) fn window(&self, is_certain: bool, rtt_min: Duration, srtt: Duration) -> Duration {
        if is_certain && !self.reordering_seen {
            return Duration::ZERO;
        }
        (rtt_min / 4).saturating_mul(self.window_steps).min(srtt)
    }

    /// A retransmission was spurious; if the path reorders, the window may be too narrow.
    pub(super) fn duplicate_was_told(&mut self) {
        self.duplicate_told |= self.reordering_seen;
    }

    /// Widens the window at most once in a round trip, and narrows it after some recoveries without a reported
    /// duplicate.
    pub(super) fn adapt_window(&mut self, delivered_before: u64, delivered: u64) {
        if delivered_before == 0 {
            return;
        }
        if delivered_before < self.widened_at {
            self.duplicate_told = false;
        }
        if core::mem::take(&mut self.duplicate_told) {
            self.window_steps = (self.window_steps + 1).min(WINDOW_STEPS_MAX);
            self.widened_at = delivered;
            self.window_persists = WINDOW_PERSISTS;
        } else if self.window_persists == 0 {
            self.window_steps = 1;
        }
    }

    /// A recovery ended and nothing had to be undone.
    pub(super) fn recovery_ended(&mut self) {
        self.window_persists = self.window_persists.saturating_sub(1);
    }

    /// A recovery was undone.
    pub(super) fn recovery_was_undone(&mut self) {
        self.window_persists = (self.window_persists + 1).min(WINDOW_PERSISTS);
    }

    fn advance(&mut self, now: Instant, segment: &SentSegment, rtt_min: Duration) {
        let rtt = now.saturating_duration_since(segment.last_sent);
        // Too early for the retransmission: it is an earlier transmission that was delivered.
        if segment.transmissions > 1 && rtt < rtt_min {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        self.newest = self.newest.max((segment.last_sent, segment.end));
    }
}

/// The segments newly delivered by one acknowledgement.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    now: Instant,
    echo: Option<Instant>,
    rtt_min: Duration,
    /// `next` when the latest recovery began.
    high: u64,
    /// The highest SACKed byte before.
    sacked_before: Option<u64>,
    /// Segments that were not SACKed before.
    pub(super) segments: u32,
    /// SACKed ones among them.
    pub(super) sacked: u32,
    /// One among them was sent only once, before the latest recovery began.
    pub(super) original: bool,
    /// One among them was sent only once, and something behind it was delivered before.
    pub(super) reordered: bool,
    /// Segments delivered when the latest among them was sent.
    pub(super) delivered_before: u64,
    newest_sent: Instant,
}

impl Delivery {
    pub(super) fn new(
        now: Instant,
        echo: Option<Instant>,
        rtt_min: Duration,
        high: u64,
        sacked_before: Option<u64>,
    ) -> Self {
        Self {
            now,
            echo,
            rtt_min,
            high,
            sacked_before,
            segments: 0,
            sacked: 0,
            original: false,
            reordered: false,
            delivered_before: 0,
            newest_sent: Instant::ZERO,
        }
    }

    /// Records an acknowledged segment in its former state; `by_sack` if a SACK block acknowledged it.
    pub(super) fn see(&mut self, rack: &mut Rack, segment: &SentSegment, by_sack: bool) {
        if segment.is_sacked() {
            return;
        }
        self.segments += 1;
        self.sacked += u32::from(by_sack);
        if segment.transmissions == 1 {
            self.original |= segment.end <= self.high;
            self.reordered |= self.sacked_before.is_some_and(|sacked| segment.start < sacked);
        }
        // RFC 7323's echo is older than the retransmission: it was the original that arrived.
        let is_original = segment.transmissions > 1 && self.echo.is_some_and(|echo| echo < segment.last_sent);
        if by_sack || !is_original {
            rack.advance(self.now, segment, self.rtt_min);
        }
        if self.delivered_before == 0 || segment.last_sent > self.newest_sent {
            self.newest_sent = segment.last_sent;
            self.delivered_before = segment.delivered_before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::scoreboard::SegmentState, *};

    const RTT_MIN: Duration = Duration::from_millis(100);

    fn segment(number: u64, sent_millis: u64, transmissions: u32) -> SentSegment {
        SentSegment {
            start: number * 100,
            end: number * 100 + 100,
            data_end: number * 100 + 100,
            last_sent: Instant::from_millis(sent_millis),
            transmissions,
            delivered_before: number + 1,
            state: SegmentState::Sent,
        }
    }

    fn sacked(rack: &mut Rack, now_millis: u64, segment: &SentSegment) -> Delivery {
        let mut delivery = Delivery::new(Instant::from_millis(now_millis), None, RTT_MIN, 0, Some(200));
        delivery.see(rack, segment, true);
        delivery
    }

    #[test]
    fn rfc_8985_6_2_a_segment_is_overtaken_by_what_was_sent_later_and_lost_after_the_rtt_and_the_window() {
        let mut rack = Rack::default();
        sacked(&mut rack, 110, &segment(1, 10, 1));
        let first = segment(0, 0, 1);
        assert!(rack.advanced && rack.is_overtaken(&first) && !rack.is_overtaken(&segment(2, 20, 1)));
        let window = rack.window(false, RTT_MIN, RTT_MIN);
        assert_eq!(window, RTT_MIN / 4);
        assert_eq!(rack.patience(Instant::from_millis(110), &first, window), Duration::from_millis(15));
        assert_eq!(rack.patience(Instant::from_millis(125), &first, window), Duration::ZERO);
        assert_eq!(rack.window(true, RTT_MIN, RTT_MIN), Duration::ZERO, "three are SACKed, and nothing was reordered");
    }

    #[test]
    fn rfc_8985_6_2_a_retransmission_that_is_answered_too_soon_says_nothing() {
        let mut rack = Rack::default();
        sacked(&mut rack, 150, &segment(3, 100, 2));
        assert!(!rack.advanced);
        sacked(&mut rack, 200, &segment(3, 100, 2));
        assert!(rack.advanced);
    }

    #[test]
    fn an_original_below_what_is_sacked_shows_reordering() {
        let mut rack = Rack::default();
        assert!(sacked(&mut rack, 110, &segment(1, 10, 1)).reordered);
        assert!(!sacked(&mut rack, 110, &segment(1, 10, 2)).reordered);
        assert!(!sacked(&mut rack, 110, &segment(2, 10, 1)).reordered);
    }

    #[test]
    fn rfc_8985_6_2_duplicates_widen_the_window_once_a_round_trip_for_sixteen_recoveries() {
        let mut rack = Rack { reordering_seen: true, ..Rack::default() };
        let width = |rack: &Rack| rack.window(true, RTT_MIN, 4 * RTT_MIN);
        rack.duplicate_was_told();
        rack.adapt_window(5, 10);
        assert_eq!(width(&rack), RTT_MIN / 2);
        rack.duplicate_was_told();
        rack.adapt_window(9, 11);
        assert_eq!(width(&rack), RTT_MIN / 2, "segments sent before the last step do not count");
        for recovery in 0..16 {
            rack.adapt_window(20, 30);
            assert_eq!(width(&rack), RTT_MIN / 2, "after {recovery} recoveries");
            rack.recovery_ended();
        }
        rack.adapt_window(20, 30);
        assert_eq!(width(&rack), RTT_MIN / 4);
    }
}
