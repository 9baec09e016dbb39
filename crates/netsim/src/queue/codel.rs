//! Controlled delay (RFC 8289).
//!
//! The control law's square root is computed in integers, to 2^-16 of a packet.

use festina_units::{ByteCount, Duration, Instant, duration};

use super::fifo::{Fifo, Waiting};
use super::{Queueable, Signals};

/// Parameters of CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDelConfig {
    /// The acceptable standing delay (RFC 8289 §3.2: 5 ms).
    pub target: Duration,
    /// How long the delay may exceed the target: the round trip of most connections (RFC 8289 §3.2: 100 ms).
    pub interval: Duration,
    /// Nothing is dropped while at most this many bytes wait: one packet of the largest size.
    pub packet_max: ByteCount,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub marks_ecn: bool,
}

impl Default for CoDelConfig {
    /// The values of RFC 8289, for Ethernet, with ECN.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            packet_max: ByteCount::from_bytes(1_514),
            marks_ecn: true,
        }
    }
}

/// After a dropping state that ended this many intervals ago or less, the next one resumes at its rate (RFC 8289 §5.4).
const RESUME_INTERVALS: u32 = 16;

/// The state of one queue. Drops are rare while `count` is small and come faster the longer the delay stays high.
#[derive(Debug)]
pub(super) struct CoDel {
    config: CoDelConfig,
    /// The time at which the delay will have been above the target for an interval; `None` while it is below.
    first_above_at: Option<Instant>,
    is_dropping: bool,
    drop_next_at: Instant,
    /// Drops since the dropping state was entered: the input of the control law.
    count: u64,
    /// The value of `count` when the dropping state was last entered.
    count_at_entry: u64,
}

impl CoDel {
    pub(super) fn new(config: CoDelConfig) -> Self {
        Self {
            config,
            first_above_at: None,
            is_dropping: false,
            drop_next_at: Instant::ZERO,
            count: 0,
            count_at_entry: 0,
        }
    }

    /// Takes the next item to send, after dropping or marking as the delay requires.
    pub(super) fn pop<T: Queueable>(
        &mut self,
        now: Instant,
        fifo: &mut Fifo<T>,
        signals: &mut Signals<T>,
    ) -> Option<Waiting<T>> {
        let (mut next, mut may_drop) = self.pop_and_judge(now, fifo);
        if !self.is_dropping {
            if may_drop {
                self.enter_dropping(now);
                if !self.mark(&mut next, signals) {
                    signals.drop_all(next.take());
                    (next, _) = self.pop_and_judge(now, fifo);
                }
            }
            return next;
        }
        self.is_dropping = may_drop;
        while self.is_dropping && now >= self.drop_next_at {
            self.count += 1;
            if self.mark(&mut next, signals) {
                self.drop_next_at = self.after_pause(self.drop_next_at);
                break;
            }
            signals.drop_all(next.take());
            (next, may_drop) = self.pop_and_judge(now, fifo);
            if may_drop {
                self.drop_next_at = self.after_pause(self.drop_next_at);
            }
            self.is_dropping = may_drop;
        }
        next
    }

    /// Marks the item if possible.
    fn mark<T: Queueable>(&self, next: &mut Option<Waiting<T>>, signals: &mut Signals<T>) -> bool {
        next.as_mut().is_some_and(|waiting| signals.mark(&mut waiting.item, self.config.marks_ecn))
    }

    fn enter_dropping(&mut self, now: Instant) {
        self.is_dropping = true;
        let added = self.count.saturating_sub(self.count_at_entry);
        let is_recent = now - self.drop_next_at < self.config.interval.saturating_mul(RESUME_INTERVALS);
        self.count = if added > 1 && is_recent { added } else { 1 };
        self.count_at_entry = self.count;
        self.drop_next_at = self.after_pause(now);
    }

    /// Takes the oldest item and returns whether the delay has been above the target for an interval.
    fn pop_and_judge<T>(&mut self, now: Instant, fifo: &mut Fifo<T>) -> (Option<Waiting<T>>, bool) {
        let Some(oldest) = fifo.pop() else {
            self.first_above_at = None;
            return (None, false);
        };
        if now - oldest.since < self.config.target || fifo.bytes() <= self.config.packet_max {
            self.first_above_at = None;
            return (Some(oldest), false);
        }
        let first_above_at = *self.first_above_at.get_or_insert(now + self.config.interval);
        (Some(oldest), now >= first_above_at)
    }

    /// The control law: `at` plus the interval divided by the square root of `count`.
    fn after_pause(&self, at: Instant) -> Instant {
        let root_q16 = u128::from((self.count.min(1 << 31) << 32).isqrt().max(1));
        let interval_q16 = u128::from(duration::saturating_nanos(self.config.interval)) << 16;
        at + Duration::from_nanos(u64::try_from(interval_q16 / root_q16).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::{Item, item};

    const MS: Duration = Duration::from_millis(1);

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Serves one packet per millisecond from a queue in which every packet has waited for `delay`.
    fn drop_times(delay: Duration, until_ms: u64, marks_ecn: bool) -> (Vec<u64>, u64) {
        let mut codel = CoDel::new(CoDelConfig { marks_ecn, ..CoDelConfig::default() });
        let mut fifo = Fifo::new();
        let mut signals: Signals<Item> = Signals::new();
        let mut times = Vec::new();
        for now_ms in 1_000..1_000 + until_ms {
            let now = ms(now_ms);
            while fifo.len() < 10 {
                fifo.push(Waiting { size: ByteCount::from_bytes(1_500), since: now - delay, item: item(marks_ecn) });
            }
            let signalled_before = signals.dropped.len() as u64 + signals.marked;
            codel.pop(now, &mut fifo, &mut signals);
            for _ in signalled_before..signals.dropped.len() as u64 + signals.marked {
                times.push(now_ms - 1_000);
            }
            // The remaining packets age; the next round needs the same delay again.
            while fifo.pop().is_some() {}
        }
        (times, signals.marked)
    }

    #[test]
    fn a_delay_below_the_target_is_left_alone() {
        assert_eq!(drop_times(5 * MS - Duration::from_nanos(1), 2_000, false).0, [0; 0]);
    }

    #[test]
    fn the_first_drop_comes_after_an_interval_and_the_next_ones_by_the_square_root_law() {
        let (times, marked) = drop_times(20 * MS, 460, false);
        // 100 + 100, + 100/sqrt 2, + 100/sqrt 3, + 100/sqrt 4, each at the next whole millisecond.
        assert_eq!(times, [100, 200, 271, 329, 379, 424]);
        assert_eq!(marked, 0);
    }

    #[test]
    fn packets_that_can_be_marked_are_marked_at_the_same_times() {
        let (times, marked) = drop_times(20 * MS, 460, true);
        assert_eq!(times, [100, 200, 271, 329, 379, 424]);
        assert_eq!(marked, 6);
    }

    #[test]
    fn a_single_packet_in_the_queue_is_never_dropped() {
        let mut codel = CoDel::new(CoDelConfig::default());
        let mut fifo = Fifo::new();
        let mut signals = Signals::new();
        for now_ms in 1_000..3_000 {
            fifo.push(Waiting { size: ByteCount::from_bytes(1_500), since: ms(now_ms - 500), item: item(false) });
            assert!(codel.pop(ms(now_ms), &mut fifo, &mut signals).is_some());
        }
        assert_eq!(signals.dropped.len(), 0);
    }

    #[test]
    fn a_dropping_state_soon_after_another_resumes_near_its_rate() {
        let mut codel = CoDel::new(CoDelConfig::default());
        codel.count = 10;
        codel.count_at_entry = 1;
        codel.drop_next_at = ms(900);
        codel.enter_dropping(ms(1_000));
        assert_eq!((codel.count, codel.drop_next_at.as_nanos() / 100_000), (9, 10_333));
        codel.count += 4;
        codel.enter_dropping(ms(1_200));
        assert_eq!(codel.count, 4, "the drops added since the last time");
        codel.enter_dropping(ms(1_200) + 20 * codel.config.interval);
        assert_eq!(codel.count, 1);
    }
}
