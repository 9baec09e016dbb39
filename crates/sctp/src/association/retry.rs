//! The timers T1 and T2, which repeat one control chunk, and the early copies ahead of them.

use festina_recovery::early_copy::Pace;
use festina_units::{Duration, Instant};

/// T1 and T2: retransmits one control chunk with doubling pauses (RFC 9260 §6.3.3, E2). Early copies may precede its expiries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryTimer {
    expires_at: Instant,
    started_at: Instant,
    pause: Duration,
    /// Number of retransmissions by the timer.
    pub(crate) retransmissions: u32,
    early: Early,
}

/// Copies that the timer does not call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Early {
    /// When the chunk was last sent, for any reason.
    left_at: Instant,
    /// Spacing of the copies, if there are any.
    pace: Option<Pace>,
    /// Number of copies sent.
    copies: u8,
    /// How much longer their pauses are, in parts of 1,024.
    spread: u8,
}

/// Lengthens a pause by parts of 1,024.
fn lengthened(pause: Duration, parts: u8) -> Duration {
    pause + pause * u32::from(parts) / 1_024
}

/// Why the chunk is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// An early copy that redundancy has leave: nothing calls for it.
    Uncalled,
    /// An early copy, because the answer is overdue. It counts towards no error counter.
    Copy,
    /// The timer expired.
    Timeout,
}

impl RetryTimer {
    /// The chunk leaves now for the first time.
    pub(crate) fn start(now: Instant, rto: Duration) -> Self {
        let early = Early { left_at: now, pace: None, copies: 0, spread: 0 };
        Self { expires_at: now + rto, started_at: now, pause: rto, retransmissions: 0, early }
    }

    /// Early copies leave at this pace.
    pub(crate) fn with_copies(mut self, pace: Option<Pace>) -> Self {
        self.early.pace = pace;
        self
    }

    /// Lengthens all pauses by parts of 1,024, at most by a quarter. They keep that length when they double.
    pub(crate) fn spread(mut self, parts: u8) -> Self {
        self.pause = lengthened(self.pause, parts);
        self.expires_at = self.started_at + self.pause;
        self.early.spread = parts;
        self
    }

    /// The next chunk of the same handshake leaves now for the first time. Retransmissions of both are limited together, so
    /// that stale cookies cannot keep a handshake going.
    pub(crate) fn next_chunk(self, now: Instant, rto: Duration) -> Self {
        Self { retransmissions: self.retransmissions, ..Self::start(now, rto) }
    }

    /// The peer sent a packet: restarts the timer without allowing more copies than before.
    pub(crate) fn restarted(self, new: Self) -> Self {
        let early = Early { copies: self.early.copies, ..new.early };
        Self { early, ..new }
    }

    /// When the chunk left for the first time.
    pub(crate) fn started_at(&self) -> Instant {
        self.started_at
    }

    /// When the chunk is sent again.
    pub(crate) fn deadline(&self) -> Instant {
        self.copy_at().map_or(self.expires_at, |at| at.min(self.expires_at))
    }

    fn copy_at(&self) -> Option<Instant> {
        let Early { left_at, pace, copies, spread } = self.early;
        Some(left_at + lengthened(pace?.pause(copies)?, spread))
    }

    /// Returns why the chunk is due now, if it is.
    pub(crate) fn due(&self, now: Instant) -> Option<Repeat> {
        if now >= self.expires_at {
            return Some(Repeat::Timeout);
        }
        let Early { pace, copies, .. } = self.early;
        let is_uncalled = pace.is_some_and(|pace| pace.is_uncalled(copies));
        let copy = if is_uncalled { Repeat::Uncalled } else { Repeat::Copy };
        self.copy_at().filter(|&at| now >= at).map(|_| copy)
    }

    /// An early copy leaves now.
    pub(crate) fn copied(&mut self, now: Instant) {
        self.early.copies = self.early.copies.saturating_add(1);
        self.early.left_at = now;
    }

    /// The timer expired, and the chunk is retransmitted now.
    pub(crate) fn back_off(&mut self, now: Instant, rto_max: Duration) {
        self.pause = (self.pause * 2).min(rto_max);
        self.expires_at = now + self.pause;
        self.retransmissions += 1;
        self.early.left_at = now;
    }

    /// No early copies from now on.
    pub(crate) fn without_copies(&mut self) {
        self.early.pace = None;
    }

    /// The round trip that an answer now completes, unless it is ambiguous which copy was answered (Karn's rule).
    pub(crate) fn round_trip(&self, now: Instant) -> Option<Duration> {
        let left_once = self.retransmissions == 0 && self.early.left_at == self.started_at;
        left_once.then(|| now.saturating_duration_since(self.started_at))
    }

    /// The shortest and the longest round trip that an answer now may complete.
    pub(crate) fn round_trip_bounds(&self, now: Instant) -> (Duration, Duration) {
        (now.saturating_duration_since(self.early.left_at), now.saturating_duration_since(self.started_at))
    }
}

#[cfg(test)]
mod tests {
    use festina_recovery::early_copy::{EarlyCopies, KnownRoundTrip};
    use festina_recovery::redundancy::Redundancy;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns when and why an unanswered chunk is sent again, in milliseconds, until the timer has expired `expiries` times.
    fn repeats(mut timer: RetryTimer, expiries: u32) -> Vec<(u64, Repeat)> {
        let mut repeats = Vec::new();
        while timer.retransmissions < expiries {
            let now = timer.deadline();
            assert_eq!(timer.due(now - Duration::from_nanos(1)), None);
            let repeat = timer.due(now).expect("it is due by its deadline");
            match repeat {
                Repeat::Uncalled | Repeat::Copy => timer.copied(now),
                Repeat::Timeout => timer.back_off(now, Duration::from_secs(3)),
            }
            repeats.push((now.as_nanos() / 1_000_000, repeat));
        }
        repeats
    }

    #[test]
    fn a_retry_timer_doubles_its_pause_up_to_the_maximum() {
        let times: Vec<_> = repeats(RetryTimer::start(Instant::ZERO, SECOND), 4).iter().map(|&(at, _)| at).collect();
        assert_eq!(times, [1_000, 3_000, 6_000, 9_000]);
    }

    #[test]
    fn a_spread_lengthens_every_pause_by_at_most_a_quarter() {
        let pace = EarlyCopies::ByRoundTrip.pace(KnownRoundTrip::Nothing, Redundancy::Off);
        let timer = RetryTimer::start(Instant::ZERO, SECOND).with_copies(pace);
        let times = |parts| repeats(timer.spread(parts), 2).iter().map(|&(at, _)| at).collect::<Vec<_>>();
        assert_eq!(times(128), [236, 472, 767, 1_125, 1_494, 3_375]);
        for (most, none) in times(u8::MAX).into_iter().zip(times(0)) {
            assert!(most > none && most <= none * 5 / 4, "{most} {none}");
        }
    }

    #[test]
    fn early_copies_leave_between_the_expiries_of_the_timer_and_move_none_of_them() {
        let pace = EarlyCopies::ByRoundTrip.pace(KnownRoundTrip::Nothing, Redundancy::Off);
        let timer = RetryTimer::start(Instant::ZERO, SECOND).with_copies(pace);
        let expected = [
            (210, Repeat::Copy),
            (420, Repeat::Copy),
            (682, Repeat::Copy),
            (1_000, Repeat::Timeout),
            (1_328, Repeat::Copy),
            (3_000, Repeat::Timeout),
            (6_000, Repeat::Timeout),
        ];
        assert_eq!(repeats(timer, 3), expected);
    }

    #[test]
    fn with_spaced_redundancy_nothing_calls_for_the_first_copy() {
        let pace = EarlyCopies::ByRoundTrip.pace(KnownRoundTrip::Nothing, Redundancy::SPACED);
        let timer = RetryTimer::start(Instant::ZERO, SECOND).with_copies(pace);
        let expected = [(21, Repeat::Uncalled), (121, Repeat::Copy), (221, Repeat::Copy), (346, Repeat::Copy)];
        assert_eq!(repeats(timer, 1)[..4], expected);
    }

    #[test]
    fn rfc9260_6_3_1_a_chunk_that_left_again_gives_no_round_trip_sample_but_bounds() {
        let [first, second, answer] = [1, 3, 4].map(Instant::from_secs);
        for repeat in [Repeat::Copy, Repeat::Timeout] {
            let mut timer = RetryTimer::start(first, SECOND);
            assert_eq!(timer.round_trip(second), Some(2 * SECOND));
            match repeat {
                Repeat::Uncalled | Repeat::Copy => timer.copied(second),
                Repeat::Timeout => timer.back_off(second, 60 * SECOND),
            }
            assert_eq!(timer.round_trip(answer), None);
            assert_eq!(timer.round_trip_bounds(answer), (SECOND, 3 * SECOND));
        }
    }

    #[test]
    fn copies_of_init_leave_the_round_trip_of_cookie_echo_to_be_measured_and_expiries_of_t1_are_counted_together() {
        let [start, again, answer, later] = [0, 1, 2, 3].map(Instant::from_secs);
        let mut timer = RetryTimer::start(start, 60 * SECOND);
        timer.copied(again);
        assert_eq!(timer.next_chunk(answer, SECOND).round_trip(later), Some(SECOND));
        timer.back_off(again, 60 * SECOND);
        let next = timer.next_chunk(answer, SECOND);
        assert_eq!((next.round_trip(later), next.retransmissions), (None, 1), "Max.Init.Retransmits counts both");
    }

    #[test]
    fn a_timer_that_begins_anew_grants_no_further_copies() {
        let pace = EarlyCopies::ByRoundTrip.pace(KnownRoundTrip::Nothing, Redundancy::Off);
        let (mut timer, mut now, mut copies) =
            (RetryTimer::start(Instant::ZERO, SECOND).with_copies(pace), Instant::ZERO, 0);
        for _ in 0..100 {
            now = timer.deadline();
            if timer.due(now) == Some(Repeat::Copy) {
                timer.copied(now);
                copies += 1;
            }
            timer = timer.restarted(RetryTimer::start(now, SECOND).with_copies(pace));
        }
        assert_eq!(copies, 4, "until {now:?}");
    }
}
