//! Which chunk is timed for the round-trip time (RFC 9260 §6.3.1 C4, C5).

use festina_units::{Duration, Instant};

/// At most one chunk is timed, so there is at most one sample per round trip.
#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    timed: Option<Timed>,
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    tsn: u64,
    sent_at: Instant,
}

impl RoundTrip {
    /// A chunk left for the first time.
    pub(super) fn sent_new(&mut self, tsn: u64, now: Instant) {
        self.timed.get_or_insert(Timed { tsn, sent_at: now });
    }

    /// A chunk left again: neither it nor any later one sent before can be timed any more (C5).
    pub(super) fn resent(&mut self, tsn: u64) {
        if self.timed.is_some_and(|timed| tsn <= timed.tsn) {
            self.timed = None;
        }
    }

    /// The round-trip time, if the timed chunk is acknowledged now.
    pub(super) fn take_sample(&mut self, now: Instant, is_acked: impl FnOnce(u64) -> bool) -> Option<Duration> {
        let timed = self.timed.take_if(|timed| is_acked(timed.tsn))?;
        Some(now - timed.sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn one_chunk_per_round_trip_is_timed_section_6_3_1_c4() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent_new(1, at(0));
        round_trip.sent_new(2, at(10));
        assert_eq!(round_trip.take_sample(at(100), |tsn| tsn == 1), Some(Duration::from_millis(100)));
        assert_eq!(round_trip.take_sample(at(110), |_| true), None, "nothing is timed until new data leaves");
        round_trip.sent_new(3, at(120));
        assert_eq!(round_trip.take_sample(at(150), |tsn| tsn == 3), Some(Duration::from_millis(30)));
    }

    #[test]
    fn an_unacknowledged_chunk_stays_timed() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent_new(1, at(0));
        assert_eq!(round_trip.take_sample(at(50), |_| false), None);
        assert_eq!(round_trip.take_sample(at(60), |_| true), Some(Duration::from_millis(60)));
    }

    #[test]
    fn a_retransmission_of_this_or_an_earlier_chunk_spoils_the_sample_section_6_3_1_c5() {
        for (resent, spoiled) in [(4, true), (5, true), (6, false)] {
            let mut round_trip = RoundTrip::default();
            round_trip.sent_new(5, at(0));
            round_trip.resent(resent);
            assert_eq!(round_trip.take_sample(at(10), |_| true).is_none(), spoiled, "TSN {resent}");
        }
    }
}
