//! How often the states of each key replace one another.

use festina_units::{Duration, Instant};

use crate::wire::StreamId;

/// Maximum number of keys with a measured interval. A stream that updates more states in a round trip is not thin, and has no copies to save.
const KEYS_MAX: usize = 16;

/// A gap this many times as long as the interval is a pause, and the interval is measured again after it.
const PAUSE_INTERVALS: u32 = 4;

/// A key that was not written for this long may give way to another one.
const KEPT_MIN: Duration = Duration::from_secs(1);

/// Identifies a state that newer messages replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StateKey {
    pub(super) stream: StreamId,
    pub(super) key: u64,
}

/// The states of one key.
#[derive(Clone, Copy, Debug)]
struct Succession {
    of: StateKey,
    /// When the newest state was written.
    written_at: Instant,
    /// Mean time from one state to the next; zero before it was measured.
    interval: Duration,
    /// The newest state was found overdue for a successor.
    is_ended: bool,
}

/// Measured intervals, by key.
#[derive(Debug, Default)]
pub(super) struct Successions(Vec<Succession>);

impl Succession {
    fn note(&mut self, now: Instant) {
        let gap = now.saturating_duration_since(self.written_at);
        (self.written_at, self.is_ended) = (now, false);
        if gap > Duration::ZERO {
            self.interval = match self.interval {
                Duration::ZERO => gap,
                interval if gap > interval * PAUSE_INTERVALS => Duration::ZERO,
                interval => interval - interval / 8 + gap / 8,
            };
        }
    }

    /// When the successor of the newest state is taken for missing: after one and a half intervals.
    fn ends_at(&self) -> Option<Instant> {
        let is_measured = self.interval > Duration::ZERO;
        is_measured.then(|| self.written_at.saturating_add(self.interval * 3 / 2))
    }
}

impl Successions {
    /// A state of this key was written.
    pub(super) fn note(&mut self, now: Instant, of: StateKey) {
        if let Some(known) = self.0.iter_mut().find(|succession| succession.of == of) {
            return known.note(now);
        }
        let new = Succession { of, written_at: now, interval: Duration::ZERO, is_ended: false };
        if self.0.len() < KEYS_MAX {
            return self.0.push(new);
        }
        let is_idle = |succession: &&mut Succession| {
            now.saturating_duration_since(succession.written_at) > KEPT_MIN.max(succession.interval * PAUSE_INTERVALS)
        };
        if let Some(idle) = self.0.iter_mut().find(is_idle) {
            *idle = new;
        }
    }

    /// Returns whether the successor of this key's newest state is expected so soon after `at` that a copy that leaves then is worth nothing: it is
    /// less than a quarter of an interval away, or overdue by less than half an interval.
    pub(super) fn is_next_near(&self, of: StateKey, at: Instant) -> bool {
        let known = self.0.iter().find(|succession| succession.of == of);
        known.is_some_and(|succession| {
            let near_from = succession.written_at.saturating_add(succession.interval * 3 / 4);
            at > near_from && succession.ends_at().is_some_and(|ends_at| at < ends_at)
        })
    }

    /// Returns half the interval of this key, if it was measured.
    pub(super) fn half_interval(&self, of: StateKey) -> Option<Duration> {
        let known = self.0.iter().find(|succession| succession.of == of);
        known.map(|succession| succession.interval / 2).filter(|&half| half > Duration::ZERO)
    }

    /// Returns when the first of the newest states for which `counts` holds is without its successor for too long.
    pub(super) fn ends_at(&self, counts: impl Fn(StateKey) -> bool) -> Option<Instant> {
        let running = self.0.iter().filter(|succession| !succession.is_ended);
        let counting = running.filter(|succession| counts(succession.of));
        counting.filter_map(Succession::ends_at).min()
    }

    /// Returns the keys whose newest state has been without its successor for too long, each once.
    pub(super) fn take_ended(&mut self, now: Instant) -> impl Iterator<Item = StateKey> {
        let has_ended = move |succession: &&mut Succession| {
            !succession.is_ended && succession.ends_at().is_some_and(|ends_at| ends_at <= now)
        };
        self.0.iter_mut().filter(has_ended).map(|succession| {
            succession.is_ended = true;
            succession.of
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: StateKey = StateKey { stream: StreamId(0), key: 7 };

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn written(times_ms: &[u64]) -> Successions {
        let mut successions = Successions::default();
        times_ms.iter().for_each(|&millis| successions.note(at(millis), KEY));
        successions
    }

    #[test]
    fn the_next_state_is_near_from_three_quarters_to_one_and_a_half_intervals() {
        let successions = written(&[0, 40, 80]);
        let near = |millis| successions.is_next_near(KEY, at(millis));
        assert_eq!([90, 110, 111, 139, 140, 200].map(near), [false, false, true, true, false, false]);
        assert!(
            !successions.is_next_near(StateKey { stream: StreamId(1), ..KEY }, at(120)),
            "keys of different streams are independent"
        );
        assert!(!written(&[0]).is_next_near(KEY, at(40)), "one state predicts nothing");
    }

    #[test]
    fn a_pause_is_no_interval_and_a_new_rate_is_learned() {
        let mut successions = written(&[0, 40, 80, 5_000]);
        assert_eq!(successions.ends_at(|_| true), None);
        successions.note(at(5_100), KEY);
        assert_eq!(successions.ends_at(|_| true), Some(at(5_250)));
    }

    #[test]
    fn a_state_that_another_replaces_at_the_same_instant_measures_nothing() {
        assert_eq!(written(&[0, 40, 40, 80, 80]).ends_at(|_| true), Some(at(140)));
    }

    #[test]
    fn a_pause_is_reported_once() {
        let mut successions = written(&[0, 40]);
        assert_eq!(successions.take_ended(at(99)).count(), 0);
        assert_eq!(successions.take_ended(at(100)).collect::<Vec<_>>(), [KEY]);
        assert_eq!((successions.take_ended(at(101)).count(), successions.ends_at(|_| true)), (0, None));
    }

    #[test]
    fn a_bounded_number_of_keys_is_measured_and_idle_ones_give_way() {
        let mut successions = Successions::default();
        let of = |key| StateKey { key, ..KEY };
        for tick in 0..3 {
            (0..100).for_each(|key| successions.note(at(tick * 40), of(key)));
        }
        assert_eq!(successions.0.len(), KEYS_MAX);
        assert!(successions.is_next_near(of(15), at(119)) && !successions.is_next_near(of(16), at(119)));
        for tick in 0..2 {
            successions.note(at(1_100 + tick * 40), of(50));
        }
        assert!(successions.is_next_near(of(50), at(1_179)));
        assert_eq!(successions.0.len(), KEYS_MAX);
    }
}
