//! Random early detection (Floyd and Jacobson 1993; RFC 2309).
//!
//! The average length is an integer in units of 2^-32 packets, probabilities are parts per billion.

use festina_units::{Bandwidth, ByteCount, Duration, Instant, Probability, duration};

use super::Verdict;
use crate::random::RandomStream;

/// Parameters of RED. Lengths are in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedConfig {
    /// No signals while the average length is below this.
    pub packets_min: u32,
    /// Average length at which the probability has risen to [`probability_max`](Self::probability_max). Above it every
    /// packet is dropped, unless RED is [gentle](Self::is_gentle).
    pub packets_max: u32,
    /// The probability of a signal at the upper threshold.
    pub probability_max: Probability,
    /// The weight of the present length in the average is two to the power of minus this: 9 is about 0.002. At most 31.
    pub weight_log2: u8,
    /// Whether the probability keeps rising above the upper threshold and reaches one at twice the threshold.
    pub is_gentle: bool,
    /// The typical size of a packet. While the queue is empty, the average falls as if packets of this size were sent.
    pub packet_mean: ByteCount,
}

impl Default for RedConfig {
    /// The final recommendations of the method's authors: thresholds 5 and 15, one tenth, weight 1/512, gentle.
    fn default() -> Self {
        Self {
            packets_min: 5,
            packets_max: 15,
            probability_max: Probability::from_percent(10),
            weight_log2: 9,
            is_gentle: true,
            packet_mean: ByteCount::from_bytes(1_000),
        }
    }
}

const ONE_PPB: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Red {
    config: RedConfig,
    /// Transmission time of a typical packet.
    packet_time: Duration,
    average_q32: u64,
    empty_since: Option<Instant>,
    /// Packets admitted since the last signal; `None` while there are no signals.
    count: Option<u64>,
    random: RandomStream,
}

impl Red {
    pub(super) fn new(config: RedConfig, rate: Option<Bandwidth>, random: RandomStream) -> Self {
        let packet_time = rate.map_or(Duration::ZERO, |rate| rate.transmission_time(config.packet_mean));
        Self { config, packet_time, average_q32: 0, empty_since: Some(Instant::ZERO), count: None, random }
    }

    /// Reports that the queue has become empty.
    pub(super) fn note_empty(&mut self, now: Instant) {
        self.empty_since = Some(now);
    }

    /// Decides about a packet that finds `waiting_packets` in the queue.
    pub(super) fn decide(&mut self, now: Instant, waiting_packets: usize) -> Verdict {
        self.average(now, waiting_packets);
        match self.signal_probability_ppb() {
            0 => {
                self.count = None;
                Verdict::Admit
            }
            ONE_PPB => {
                self.count = Some(0);
                Verdict::Drop
            }
            probability_ppb => self.signal_spaced(probability_ppb),
        }
    }

    fn average(&mut self, now: Instant, waiting_packets: usize) {
        let weight_log2 = u32::from(self.config.weight_log2.min(31));
        if waiting_packets == 0 {
            let idle = self.empty_since.map_or(Duration::ZERO, |since| now - since);
            let packets = duration::saturating_nanos(idle) / duration::saturating_nanos(self.packet_time).max(1);
            self.average_q32 = decayed(self.average_q32, weight_log2, packets.max(1));
            self.empty_since = Some(now);
        } else {
            let present_q32 = (waiting_packets as u64) << 32;
            self.average_q32 = self.average_q32 - (self.average_q32 >> weight_log2) + (present_q32 >> weight_log2);
        }
    }

    /// Returns the probability that follows from the average length, before signals are spaced.
    fn signal_probability_ppb(&self) -> u64 {
        let [min_q32, max_q32] =
            [self.config.packets_min, self.config.packets_max].map(|packets| u64::from(packets) << 32);
        let probability_max_ppb = u64::from(self.config.probability_max.ppb());
        if self.average_q32 < min_q32 {
            0
        } else if self.average_q32 < max_q32 {
            part(probability_max_ppb, self.average_q32 - min_q32, max_q32 - min_q32)
        } else if self.config.is_gentle && self.average_q32 < 2 * max_q32 {
            probability_max_ppb + part(ONE_PPB - probability_max_ppb, self.average_q32 - max_q32, max_q32)
        } else {
            ONE_PPB
        }
    }

    /// Signals with probability p/(1 - count p), which spaces signals evenly (section 7 of the paper, method 2): a
    /// number below p out of 1 - count p.
    fn signal_spaced(&mut self, probability_ppb: u64) -> Verdict {
        let count = self.count.map_or(0, |count| count + 1);
        let left_ppb = ONE_PPB.saturating_sub(count.saturating_mul(probability_ppb));
        if self.random.below(left_ppb) < probability_ppb {
            self.count = Some(0);
            Verdict::Signal
        } else {
            self.count = Some(count);
            Verdict::Admit
        }
    }
}

/// Returns `whole` times `numerator / denominator`, which is at most one.
fn part(whole: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(whole) * u128::from(numerator);
    u64::try_from(product / u128::from(denominator.max(1))).unwrap_or(whole)
}

/// Computes `average (1 - 2^-weight_log2)^packets` by repeated squaring.
fn decayed(average_q32: u64, weight_log2: u32, mut packets: u64) -> u64 {
    let mut power_q32 = (1_u64 << 32) - ((1_u64 << 32) >> weight_log2);
    let mut average = u128::from(average_q32);
    while packets > 0 && average > 0 {
        if packets % 2 == 1 {
            average = (average * u128::from(power_q32)) >> 32;
        }
        power_q32 = u64::try_from((u128::from(power_q32) * u128::from(power_q32)) >> 32).unwrap_or(0);
        packets /= 2;
    }
    u64::try_from(average).unwrap_or(average_q32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red_with(config: RedConfig) -> Red {
        let rate = Bandwidth::from_bits_per_second(8_000_000);
        Red::new(config, Some(rate), RandomStream::new(1, "red"))
    }

    fn average_packets(red: &Red) -> f64 {
        red.average_q32 as f64 / 4_294_967_296.0
    }

    #[test]
    fn the_average_takes_a_burst_as_the_paper_computes() {
        // Section 6: with weight 0.002, an idle queue and arrivals that find 1, 2, ... 50 packets, the average stays
        // below 5 for bursts of up to 50 packets at weight 0.0042, hence 2^-8.
        let mut red = red_with(RedConfig { weight_log2: 8, ..RedConfig::default() });
        for length in 1..=50 {
            red.decide(Instant::ZERO, length);
        }
        let weight: f64 = 1.0 / 256.0;
        let closed_form = 50.0 + 1.0 + ((1.0 - weight).powi(51) - 1.0) / weight;
        assert!((average_packets(&red) - closed_form).abs() < 0.001, "{} {closed_form}", average_packets(&red));
        assert!(average_packets(&red) < 5.0);
    }

    #[test]
    fn during_idle_time_the_average_falls_as_if_small_packets_had_arrived() {
        let mut red = red_with(RedConfig::default());
        red.average_q32 = 10 << 32;
        red.note_empty(Instant::ZERO);
        // 512 packets of 1 ms each.
        red.decide(Instant::from_millis(512), 0);
        let expected = 10.0 * (1.0_f64 - 1.0 / 512.0).powi(512);
        assert!((average_packets(&red) - expected).abs() < 0.001);
    }

    #[test]
    fn below_the_lower_threshold_nothing_is_signalled_and_above_twice_the_upper_all_is_dropped() {
        let mut red = red_with(RedConfig { weight_log2: 0, ..RedConfig::default() });
        assert!((0..1_000).all(|_| red.decide(Instant::ZERO, 4) == Verdict::Admit));
        assert!((0..1_000).all(|_| red.decide(Instant::ZERO, 30) == Verdict::Drop));
        let not_gentle = RedConfig { weight_log2: 0, is_gentle: false, ..RedConfig::default() };
        let mut strict = red_with(not_gentle);
        assert!((0..1_000).all(|_| strict.decide(Instant::ZERO, 15) == Verdict::Drop));
    }

    #[test]
    fn between_the_thresholds_signals_are_spaced_evenly() {
        let config =
            RedConfig { weight_log2: 0, probability_max: Probability::from_percent(4), ..RedConfig::default() };
        let mut red = red_with(config);
        // Half way: p = 2 %, so signals are evenly distributed over 1 to 50 packets apart, 25.5 on average.
        let verdicts: Vec<_> = (0..100_000).map(|_| red.decide(Instant::ZERO, 10)).collect();
        let at: Vec<_> = (0..verdicts.len()).filter(|index| verdicts[*index] == Verdict::Signal).collect();
        let gaps: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (1..=50).contains(gap)), "{:?}", gaps.iter().max());
        let mean_tenths = gaps.iter().sum::<usize>() * 10 / gaps.len();
        assert!((250..=260).contains(&mean_tenths), "{mean_tenths}");
    }
}
