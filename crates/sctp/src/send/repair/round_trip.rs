//! Which chunk is timed for the round-trip time (RFC 9260 §6.3.1 C4, C5).

use festina_recovery::rtt::RttSampling;
use festina_recovery::spurious::answers_earlier;
use festina_units::{Duration, Instant};

/// No receiver waits longer for a second packet before it acknowledges the first (RFC 9260 §6.2).
const PAIR_MAX: Duration = Duration::from_millis(500);

/// At most one chunk is timed, so there is at most one sample per round trip.
#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    watch: Watch,
    unsettled: Option<Unsettled>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Watch {
    /// The next new chunk is timed.
    #[default]
    Ready,
    Timed(Timed),
    /// The next packet is not timed, if it leaves soon. With a SACK for every second packet, the one that draws it is to be timed. If
    /// the other one was, all others would be of the wrong half, too.
    PassesOver {
        since: Instant,
        left_at: Option<Instant>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    tsn: u64,
    sent_at: Instant,
    /// Only with [`RttSampling::Inferred`]: an acknowledgement of newer data answers a newer packet.
    newest_only: bool,
    /// It asked for its SACK.
    asked: bool,
    /// Number of retransmissions of it or an earlier chunk, except those bundled with newer data.
    resent: u8,
    /// When it did so for the first time.
    resent_at: Instant,
}

/// A retransmitted chunk was acknowledged, and it is unknown which copy arrived. If all others are reported as duplicates, it was the first.
#[derive(Clone, Copy, Debug)]
struct Unsettled {
    tsn: u64,
    rtt: Duration,
    duplicates_missing: u8,
}

/// A round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) rtt: Duration,
    /// The chunk asked for its SACK, so that no delay is in it.
    pub(super) is_undelayed: bool,
}

/// How a chunk was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::send) enum Again {
    /// In front of data with a higher TSN that left for the first time: what acknowledges this copy acknowledges that as well.
    BesideNewData,
    /// In any other way.
    Alone,
}

/// The parts of an acknowledgement that the round-trip time depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckNews {
    pub(super) now: Instant,
    /// The highest TSN that it acknowledges for the first time, or that the peer passed over.
    pub(super) highest_acked: Option<u64>,
    /// The smallest round-trip time so far.
    pub(super) rtt_min: Option<Duration>,
    /// It reports the timed chunk as a duplicate as well: an earlier acknowledgement got lost, and this one answers a later copy.
    pub(super) timed_is_duplicate: bool,
}

impl RoundTrip {
    /// The chunk that is timed.
    pub(super) fn timed_tsn(&self) -> Option<u64> {
        match self.watch {
            Watch::Timed(timed) => Some(timed.tsn),
            Watch::Ready | Watch::PassesOver { .. } => None,
        }
    }

    /// When the chunk that is timed left for the first time, if it is this one.
    pub(super) fn timed_since(&self, tsn: u64) -> Option<Instant> {
        match self.watch {
            Watch::Timed(timed) if timed.tsn == tsn => Some(timed.sent_at),
            _ => None,
        }
    }

    /// Nothing is timed any more.
    pub(super) fn forget(&mut self) {
        self.watch = Watch::Ready;
    }

    /// No duplicate tells any more which copy of a chunk was acknowledged.
    pub(super) fn leave_unsettled(&mut self) {
        self.unsettled = None;
    }

    /// A chunk left for the first time.
    #[inline]
    pub(super) fn sent_new(&mut self, tsn: u64, now: Instant, asked: bool, sampling: RttSampling) {
        let newest_only = sampling == RttSampling::Inferred;
        match &mut self.watch {
            // What asks for its SACK measures the round trip and no delay.
            Watch::Timed(timed) if asked && !timed.asked && newest_only => {
                *timed = Timed { tsn, sent_at: now, newest_only, asked, resent: 0, resent_at: now };
            }
            Watch::Timed(timed) => {
                if newest_only && timed.sent_at == now && timed.resent == 0 {
                    timed.tsn = tsn;
                }
            }
            Watch::PassesOver { since, left_at }
                if now - *since <= PAIR_MAX && left_at.is_none_or(|left_at| left_at == now) =>
            {
                *left_at = Some(now);
            }
            Watch::Ready | Watch::PassesOver { .. } => {
                self.watch = Watch::Timed(Timed { tsn, sent_at: now, newest_only, asked, resent: 0, resent_at: now });
            }
        }
    }

    /// A chunk was sent again: by Karn's rule neither it nor any later one sent before can be timed any more (C5).
    pub(super) fn resent(&mut self, tsn: u64, now: Instant, sampling: RttSampling, again: Again) {
        let Watch::Timed(timed) = &mut self.watch else { return };
        if tsn > timed.tsn {
            return;
        }
        match (sampling, again) {
            (RttSampling::Unambiguous, _) => self.watch = Watch::Ready,
            (RttSampling::FirstAcknowledgement, _) => {}
            (RttSampling::Inferred, Again::BesideNewData) => {}
            (RttSampling::Inferred, Again::Alone) => {
                if timed.resent == 0 {
                    timed.resent_at = now;
                }
                timed.resent = timed.resent.saturating_add(1);
            }
        }
    }

    /// The round-trip time, if the timed chunk is acknowledged now and that measures something.
    pub(super) fn take_sample(&mut self, news: &AckNews, is_acked: impl FnOnce(u64) -> bool) -> Option<Sample> {
        let Watch::Timed(timed) = self.watch else { return None };
        if !is_acked(timed.tsn) {
            return None;
        }
        self.watch = Watch::Ready;
        let rtt = news.now - timed.sent_at;
        // What arrived with newer data would have that acknowledged as well.
        if timed.newest_only && news.highest_acked != Some(timed.tsn) {
            self.watch = Watch::PassesOver { since: news.now, left_at: None };
            return None;
        }
        // The answer to a later copy, taken for that to the first, would be a sample of twice the round-trip time.
        if timed.resent > 0 && !answers_earlier(news.now, timed.resent_at, news.rtt_min) {
            let unsettled = Unsettled { tsn: timed.tsn, rtt, duplicates_missing: timed.resent };
            self.unsettled = (!news.timed_is_duplicate).then_some(unsettled);
            return None;
        }
        Some(Sample { rtt, is_undelayed: timed.asked })
    }

    /// The peer reports a chunk as a duplicate, in a later acknowledgement than that which acknowledged it. The round-trip time, if that
    /// settles which copy arrived first.
    pub(super) fn duplicate_reported(&mut self, tsn: u64) -> Option<Duration> {
        let unsettled = self.unsettled.as_mut().filter(|unsettled| unsettled.tsn == tsn)?;
        unsettled.duplicates_missing = unsettled.duplicates_missing.saturating_sub(1);
        self.unsettled.take_if(|unsettled| unsettled.duplicates_missing == 0).map(|unsettled| unsettled.rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn news(millis: u64, highest_acked: u64) -> AckNews {
        AckNews {
            now: at(millis),
            highest_acked: Some(highest_acked),
            rtt_min: Some(ms(100)),
            timed_is_duplicate: false,
        }
    }

    #[test]
    fn one_chunk_per_round_trip_is_timed_section_6_3_1_c4() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent_new(1, at(0), true, RttSampling::Unambiguous);
        round_trip.sent_new(2, at(10), true, RttSampling::Unambiguous);
        assert_eq!(round_trip.take_sample(&news(100, 1), |tsn| tsn == 1).map(|sample| sample.rtt), Some(ms(100)));
        assert_eq!(
            round_trip.take_sample(&news(110, 2), |_| true).map(|sample| sample.rtt),
            None,
            "nothing is timed until new data leaves"
        );
        round_trip.sent_new(3, at(120), true, RttSampling::Unambiguous);
        assert_eq!(round_trip.take_sample(&news(150, 3), |tsn| tsn == 3).map(|sample| sample.rtt), Some(ms(30)));
    }

    #[test]
    fn of_packets_that_are_acknowledged_in_pairs_the_second_is_timed() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent_new(1, at(0), true, RttSampling::Inferred);
        round_trip.sent_new(2, at(20), true, RttSampling::Inferred);
        assert_eq!(
            round_trip.take_sample(&news(120, 2), |_| true).map(|sample| sample.rtt),
            None,
            "the first of a pair"
        );
        round_trip.sent_new(3, at(120), true, RttSampling::Inferred);
        round_trip.sent_new(4, at(140), true, RttSampling::Inferred);
        assert_eq!(round_trip.take_sample(&news(240, 4), |_| true).map(|sample| sample.rtt), Some(ms(100)));
    }

    #[test]
    fn after_a_pause_there_are_no_pairs() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent_new(1, at(0), true, RttSampling::Inferred);
        assert_eq!(round_trip.take_sample(&news(120, 2), |_| true).map(|sample| sample.rtt), None);
        round_trip.sent_new(3, at(621), true, RttSampling::Inferred);
        assert_eq!(round_trip.take_sample(&news(821, 3), |_| true).map(|sample| sample.rtt), Some(ms(200)));
    }

    #[test]
    fn an_unacknowledged_chunk_stays_timed() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent_new(1, at(0), true, RttSampling::Unambiguous);
        assert_eq!(round_trip.take_sample(&news(50, 0), |_| false).map(|sample| sample.rtt), None);
        assert_eq!(round_trip.take_sample(&news(60, 1), |_| true).map(|sample| sample.rtt), Some(ms(60)));
    }

    #[test]
    fn a_retransmission_of_this_or_an_earlier_chunk_spoils_the_sample_section_6_3_1_c5() {
        for (resent, spoiled) in [(4, true), (5, true), (6, false)] {
            for again in [Again::Alone, Again::BesideNewData] {
                let mut round_trip = RoundTrip::default();
                round_trip.sent_new(5, at(0), true, RttSampling::Unambiguous);
                round_trip.resent(resent, at(1), RttSampling::Unambiguous, again);
                assert_eq!(round_trip.take_sample(&news(10, 5), |_| true).is_none(), spoiled, "TSN {resent}");
            }
        }
    }

    #[test]
    fn lksctp_times_a_chunk_from_its_first_transmission_on_even_if_it_was_sent_again_p06_section_3_2() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent_new(5, at(0), true, RttSampling::Unambiguous);
        round_trip.resent(5, at(1_000), RttSampling::FirstAcknowledgement, Again::Alone);
        assert_eq!(round_trip.take_sample(&news(1_100, 5), |_| true).map(|sample| sample.rtt), Some(ms(1_100)));
    }

    #[test]
    fn an_acknowledgement_much_sooner_after_a_retransmission_than_any_round_trip_measures_the_first_transmission() {
        // A sixteenth sooner than 100 ms is 93.75 ms: the answer to the retransmission may be that quick on a real path.
        for (acked_ms, expected) in [(198, Some(ms(198))), (199, None), (204, None), (205, None)] {
            let mut round_trip = RoundTrip::default();
            round_trip.sent_new(5, at(0), true, RttSampling::Inferred);
            for resent_ms in [105, 210] {
                round_trip.resent(5, at(resent_ms), RttSampling::Inferred, Again::Alone);
            }
            let sample = round_trip.take_sample(&news(acked_ms, 5), |_| true);
            assert_eq!(sample.map(|sample| sample.rtt), expected, "acknowledged after {acked_ms} ms");
        }
    }

    #[test]
    fn a_chunk_with_copies_beside_newer_data_is_measured_only_if_nothing_newer_is_acknowledged_with_it() {
        for (highest_acked, expected) in [(5, Some(ms(200))), (6, None)] {
            let mut round_trip = RoundTrip::default();
            round_trip.sent_new(5, at(0), true, RttSampling::Inferred);
            round_trip.resent(5, at(20), RttSampling::Inferred, Again::BesideNewData);
            let sample = round_trip.take_sample(&news(200, highest_acked), |_| true);
            assert_eq!(sample.map(|sample| sample.rtt), expected, "acknowledged up to {highest_acked}");
        }
    }

    #[test]
    fn the_last_chunk_of_a_packet_is_timed_if_acknowledgements_of_newer_data_measure_nothing() {
        let mut round_trip = RoundTrip::default();
        for (tsn, sent_ms) in [(5, 0), (6, 0), (7, 10)] {
            round_trip.sent_new(tsn, at(sent_ms), true, RttSampling::Inferred);
        }
        assert_eq!(round_trip.take_sample(&news(100, 6), |tsn| tsn <= 6).map(|sample| sample.rtt), Some(ms(100)));
    }

    #[test]
    fn if_every_other_copy_is_reported_as_a_duplicate_the_first_one_was_acknowledged() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent_new(5, at(0), true, RttSampling::Inferred);
        for resent_ms in [105, 210] {
            round_trip.resent(5, at(resent_ms), RttSampling::Inferred, Again::Alone);
        }
        assert_eq!(
            round_trip.take_sample(&news(250, 5), |_| true).map(|sample| sample.rtt),
            None,
            "the first copy, or the second after 145 ms"
        );
        assert_eq!(round_trip.duplicate_reported(4), None);
        assert_eq!(round_trip.duplicate_reported(5), None, "the first or the second was lost");
        assert_eq!(round_trip.duplicate_reported(5), Some(ms(250)));
        assert_eq!(round_trip.duplicate_reported(5), None);
    }

    #[test]
    fn a_duplicate_reported_with_the_acknowledgement_itself_means_that_an_earlier_one_was_lost() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent_new(5, at(0), true, RttSampling::Inferred);
        round_trip.resent(5, at(105), RttSampling::Inferred, Again::Alone);
        let news = AckNews { timed_is_duplicate: true, ..news(205, 5) };
        assert_eq!(round_trip.take_sample(&news, |_| true).map(|sample| sample.rtt), None);
        assert_eq!(round_trip.duplicate_reported(5), None);
    }
}
