//! Proportional integral controller enhanced (RFC 8033).
//!
//! The delay is that of the last packet sent, measured by timestamps. Pending updates of the controller are made
//! whenever the queue is used, so it needs no timer. The drop probability is an integer in units of 10^-15. Of the
//! optional parts of section 5 only the cap on the rise of the probability (§5.5) is implemented.

use festina_units::{ByteCount, Duration, Instant, Probability, duration};

use super::Verdict;
use crate::random::RandomStream;

/// Parameters of PIE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieConfig {
    /// The target delay of the controller (`QDELAY_REF`, RFC 8033 §4.2: 15 ms).
    pub target: Duration,
    /// The time between two updates of the probability (`T_UPDATE`: 15 ms). Not zero.
    pub update_interval: Duration,
    /// The duration of a burst that passes without drops (`MAX_BURST`: 150 ms).
    pub burst_max: Duration,
    /// Rise of the probability per second of delay above the target, in thousandths (`alpha`: 0.125).
    pub alpha_thousandths: u32,
    /// Rise of the probability per second of growth of the delay, in thousandths (`beta`: 1.25).
    pub beta_thousandths: u32,
    /// Nothing is dropped while at most two packets of this size wait.
    pub packet_mean: ByteCount,
    /// ECN-capable packets are marked while the probability is at most this, otherwise dropped (RFC 8033 §5.1: 10 %).
    pub ecn_probability_max: Probability,
}

impl Default for PieConfig {
    /// The values of RFC 8033.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            update_interval: Duration::from_millis(15),
            burst_max: Duration::from_millis(150),
            alpha_thousandths: 125,
            beta_thousandths: 1_250,
            packet_mean: ByteCount::from_bytes(1_500),
            ecn_probability_max: Probability::from_percent(10),
        }
    }
}

/// A probability of one.
const ONE: i64 = 1_000_000_000_000_000;

/// The smaller the probability, the smaller its steps: pairs of a probability limit and the divisor of changes below it
/// (RFC 8033 §4.2).
const CHANGE_DIVISORS: [(i64, i64); 6] = [
    (ONE / 1_000_000, 2_048),
    (ONE / 100_000, 512),
    (ONE / 10_000, 128),
    (ONE / 1_000, 32),
    (ONE / 100, 8),
    (ONE / 10, 2),
];

/// One part per billion in units of 10^-15.
const PPB: i64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Pie {
    config: PieConfig,
    probability: i64,
    delay: Duration,
    delay_before: Duration,
    burst_left: Duration,
    next_update_at: Instant,
    random: RandomStream,
}

impl Pie {
    pub(super) fn new(config: PieConfig, random: RandomStream) -> Self {
        Self {
            config,
            probability: 0,
            delay: Duration::ZERO,
            delay_before: Duration::ZERO,
            burst_left: config.burst_max,
            next_update_at: Instant::ZERO + config.update_interval,
            random,
        }
    }

    /// A packet was sent after it had waited for `waited`.
    pub(super) fn note_departure(&mut self, now: Instant, waited: Duration, is_empty_now: bool) {
        self.catch_up(now);
        self.delay = if is_empty_now { Duration::ZERO } else { waited };
    }

    /// Decides about a packet that finds `waiting` in the queue.
    pub(super) fn decide(&mut self, now: Instant, waiting: ByteCount) -> Verdict {
        self.catch_up(now);
        if !self.burst_left.is_zero() {
            return Verdict::Admit;
        }
        let is_calm = self.delay_before < self.config.target / 2 && self.probability < ONE / 5;
        let is_short = waiting <= self.config.packet_mean + self.config.packet_mean;
        if is_calm || is_short || self.random.below(ONE.unsigned_abs()) >= self.probability.unsigned_abs() {
            return Verdict::Admit;
        }
        let may_mark = self.probability <= i64::from(self.config.ecn_probability_max.ppb()) * PPB;
        if may_mark { Verdict::Signal } else { Verdict::Drop }
    }

    /// Makes the pending updates.
    fn catch_up(&mut self, now: Instant) {
        let interval = self.config.update_interval.max(Duration::from_nanos(1));
        while self.next_update_at <= now {
            if self.is_at_rest() {
                // No update changes anything until the delay does.
                let interval_ns = duration::saturating_nanos(interval);
                let missed = (now - self.next_update_at).as_nanos() / u128::from(interval_ns);
                let missed_ns = missed.saturating_mul(u128::from(interval_ns));
                self.next_update_at += Duration::from_nanos(u64::try_from(missed_ns).unwrap_or(u64::MAX));
            } else {
                self.update();
            }
            let due_at = self.next_update_at;
            self.next_update_at += interval;
            if self.next_update_at == due_at {
                return; // `Instant::MAX` is never reached.
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        self.probability == 0
            && self.delay.is_zero()
            && self.delay_before.is_zero()
            && self.burst_left == self.config.burst_max
    }

    /// RFC 8033 §4.2 and §4.4.
    fn update(&mut self) {
        let (delay, before) = (signed_nanos(self.delay), signed_nanos(self.delay_before));
        let alpha = i64::from(self.config.alpha_thousandths);
        let beta = i64::from(self.config.beta_thousandths);
        // A nanosecond times a thousandth per second is 10^-12.
        let change = (delay - signed_nanos(self.config.target))
            .saturating_mul(alpha)
            .saturating_add((delay - before).saturating_mul(beta))
            .saturating_mul(1_000)
            / self.change_divisor();
        let change = if self.probability >= ONE / 10 { change.min(ONE / 50) } else { change };
        self.probability = self.probability.saturating_add(change);
        if self.delay.is_zero() && self.delay_before.is_zero() {
            self.probability = self.probability / 100 * 98;
        }
        self.probability = self.probability.clamp(0, ONE);
        self.burst_left = self.burst_left.saturating_sub(self.config.update_interval);
        let half = self.config.target / 2;
        if self.probability == 0 && self.delay < half && self.delay_before < half {
            self.burst_left = self.config.burst_max;
        }
        self.delay_before = self.delay;
    }

    /// Returns the divisor of changes at the present probability.
    fn change_divisor(&self) -> i64 {
        let row = CHANGE_DIVISORS.iter().find(|(probability_below, _)| self.probability < *probability_below);
        row.map_or(1, |(_, divisor)| *divisor)
    }
}

/// At most a minute: longer delays make no difference, and the products stay in range.
fn signed_nanos(duration: Duration) -> i64 {
    const MAX_NS: i64 = 60_000_000_000;
    i64::try_from(duration.as_nanos()).unwrap_or(MAX_NS).min(MAX_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const LONG: ByteCount = ByteCount::from_bytes(100_000);

    fn pie() -> Pie {
        Pie::new(PieConfig::default(), RandomStream::new(1, "pie"))
    }

    /// Updates the controller `count` times at this delay.
    fn hold(pie: &mut Pie, delay: Duration, count: u32) {
        for _ in 0..count {
            pie.delay = delay;
            pie.update();
        }
    }

    #[test]
    fn one_update_follows_the_control_law() {
        let mut pie = pie();
        pie.probability = ONE / 20;
        pie.delay_before = 20 * MS;
        pie.delay = 25 * MS;
        pie.update();
        // (0.125 x 10 ms + 1.25 x 5 ms) / 2 = 0.00375.
        assert_eq!(pie.probability, ONE / 20 + ONE / 100_000 * 375);
    }

    #[test]
    fn the_probability_rises_while_the_delay_is_above_the_target_and_falls_below() {
        let mut pie = pie();
        hold(&mut pie, 50 * MS, 400);
        let high = pie.probability;
        assert!(high > ONE / 100, "{high}");
        hold(&mut pie, 15 * MS, 1);
        let at_target = pie.probability;
        hold(&mut pie, 15 * MS, 10);
        assert_eq!(pie.probability, at_target);
        hold(&mut pie, 5 * MS, 100);
        assert!(pie.probability < at_target);
    }

    #[test]
    fn without_delay_the_probability_decays_by_another_two_percent() {
        let mut pie = pie();
        pie.probability = ONE / 20;
        pie.update();
        // 0.05 - 0.125 x 15 ms / 2 = 0.0490625.
        assert_eq!(pie.probability, ONE / 10_000_000 * 490_625 / 100 * 98);
    }

    #[test]
    fn a_high_probability_rises_by_two_percent_at_most() {
        let mut pie = pie();
        pie.probability = ONE / 5;
        pie.delay = Duration::from_secs(10);
        pie.update();
        assert_eq!(pie.probability, ONE / 5 + ONE / 50);
    }

    #[test]
    fn an_idle_queue_forgets_and_gets_its_burst_back() {
        let mut pie = pie();
        hold(&mut pie, 100 * MS, 1_000);
        assert!(pie.burst_left.is_zero());
        pie.note_departure(Instant::from_secs(1), 100 * MS, true);
        pie.catch_up(Instant::from_secs(3_600));
        assert!(pie.is_at_rest());
        assert!(pie.next_update_at > Instant::from_secs(3_600));
        assert!(pie.next_update_at <= Instant::from_secs(3_600) + 15 * MS);
    }

    #[test]
    fn a_burst_passes_untouched_for_its_allowance() {
        let mut pie = pie();
        pie.probability = ONE / 2;
        pie.delay = 100 * MS;
        pie.delay_before = 100 * MS;
        assert!((0..1_000).all(|_| pie.decide(Instant::from_millis(149), LONG) == Verdict::Admit));
        assert!((0..1_000).any(|_| pie.decide(Instant::from_millis(150), LONG) != Verdict::Admit));
    }

    #[test]
    fn short_and_lightly_loaded_queues_see_no_drops() {
        let mut pie = pie();
        pie.burst_left = Duration::ZERO;
        pie.probability = ONE / 10;
        pie.delay_before = 100 * MS;
        let two = ByteCount::from_bytes(3_000);
        assert!((0..1_000).all(|_| pie.decide(Instant::ZERO, two) == Verdict::Admit));
        pie.delay_before = 7 * MS;
        assert!((0..1_000).all(|_| pie.decide(Instant::ZERO, LONG) == Verdict::Admit));
        pie.delay_before = 8 * MS;
        assert!((0..1_000).any(|_| pie.decide(Instant::ZERO, LONG) == Verdict::Signal));
    }

    #[test]
    fn marking_gives_way_to_dropping_above_a_tenth() {
        let mut pie = pie();
        pie.burst_left = Duration::ZERO;
        pie.delay_before = 100 * MS;
        pie.probability = ONE / 10 + 1;
        assert!((0..1_000).all(|_| pie.decide(Instant::ZERO, LONG) != Verdict::Signal));
    }
}
