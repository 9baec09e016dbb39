//! Synthetic traces, which resemble certain networks but were not measured.
//!
//! The modelled properties: on a mobile network the rate drifts within a second and fades out at times; on Wi-Fi
//! packets are sent in bursts between waits for the medium, at one of several rates; a satellite keeps a rate for 15
//! seconds, then another takes over after a short silence. All numbers were chosen, not measured.

use festina_units::Probability;

use super::{OPPORTUNITY_BYTES, RateTrace};
use crate::random::RandomStream;

/// One of the synthetic traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeTrace {
    /// 20 s; the rate drifts between 1 and 12 Mbit/s every 20 ms, and fades out for 50 to 300 ms every few seconds.
    Lte,
    /// 8 s; bursts of a few milliseconds at 6, 18 or 36 Mbit/s with waits of 0 to 8 ms between them, occasionally of 40
    /// ms.
    Wifi,
    /// 60 s; 1 to 4 Mbit/s, a new rate every 15 s, after a silence of 40 to 120 ms.
    Satellite,
}

impl MadeTrace {
    /// All synthetic traces.
    pub const ALL: [Self; 3] = [Self::Lte, Self::Wifi, Self::Satellite];

    /// Returns its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lte => "lte",
            Self::Wifi => "wifi",
            Self::Satellite => "satellite",
        }
    }

    /// Returns the trace with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|made| made.name() == name)
    }

    /// Generates the trace, the same each time.
    pub fn trace(self) -> RateTrace {
        let random = RandomStream::new(1, self.name());
        let times_ms = match self {
            Self::Lte => lte(random),
            Self::Wifi => wifi(random),
            Self::Satellite => satellite(random),
        };
        RateTrace { opportunities_ms: times_ms.into() }
    }
}

/// Collects opportunities from a rate per millisecond.
#[derive(Default)]
struct Opportunities {
    times_ms: Vec<u32>,
    now_ms: u32,
    /// Bits that the rate has accumulated and that do not fill an opportunity yet.
    credit_bits: u64,
}

impl Opportunities {
    /// Advances by a millisecond at a rate whose kbit/s equal the bits per millisecond.
    fn pass(&mut self, kbit_per_s: u64) {
        self.now_ms += 1;
        self.credit_bits += kbit_per_s;
        while self.credit_bits >= OPPORTUNITY_BYTES * 8 {
            self.credit_bits -= OPPORTUNITY_BYTES * 8;
            self.times_ms.push(self.now_ms);
        }
    }

    fn pass_many(&mut self, millis: u64, kbit_per_s: u64) {
        (0..millis).for_each(|_| self.pass(kbit_per_s));
    }

    /// Returns the times, ending with an opportunity at the present one.
    fn finish(mut self) -> Vec<u32> {
        self.times_ms.push(self.now_ms);
        self.times_ms
    }
}

fn lte(mut random: RandomStream) -> Vec<u32> {
    let mut opportunities = Opportunities::default();
    let mut kbit_per_s: u64 = 6_000;
    while opportunities.now_ms < 20_000 {
        // A step of up to 1 Mbit/s in either direction.
        kbit_per_s = (kbit_per_s + random.below(2_001)).saturating_sub(1_000).clamp(1_000, 12_000);
        opportunities.pass_many(20, kbit_per_s);
        if random.chance(Probability::from_ppb(5_000_000)) {
            opportunities.pass_many(50 + random.below(251), 0);
        }
    }
    opportunities.finish()
}

fn wifi(mut random: RandomStream) -> Vec<u32> {
    const RATES_KBIT_PER_S: [u64; 3] = [6_000, 18_000, 36_000];
    let mut opportunities = Opportunities::default();
    let mut level: usize = 1;
    while opportunities.now_ms < 8_000 {
        if random.chance(Probability::from_percent(2)) {
            level = usize::try_from(random.below(3)).expect("three levels");
        }
        opportunities.pass_many(1 + random.below(4), RATES_KBIT_PER_S[level]);
        let is_long = random.chance(Probability::from_percent(1));
        opportunities.pass_many(if is_long { 40 } else { random.below(9) }, 0);
    }
    opportunities.finish()
}

fn satellite(mut random: RandomStream) -> Vec<u32> {
    let mut opportunities = Opportunities::default();
    for _ in 0..4 {
        let silence_ms = 40 + random.below(81);
        opportunities.pass_many(silence_ms, 0);
        let kbit_per_s = 1_000 + random.below(3_001);
        for _ in 0..(15_000 - silence_ms) {
            // A twentieth in either direction.
            let wobble = kbit_per_s / 20;
            opportunities.pass(kbit_per_s - wobble + random.below(2 * wobble + 1));
        }
    }
    opportunities.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_traces_are_valid_and_have_the_documented_length() {
        for (made, period_s, rate_mbit_per_s) in
            [(MadeTrace::Lte, 20..=21, 3..=8), (MadeTrace::Wifi, 8..=9, 5..=15), (MadeTrace::Satellite, 60..=61, 1..=4)]
        {
            let trace = made.trace();
            assert_eq!(RateTrace::parse(&trace.text()), Ok(trace.clone()), "{made:?}");
            assert!(period_s.contains(&trace.period().as_secs()), "{trace:?}");
            assert!(rate_mbit_per_s.contains(&(trace.mean_rate().bits_per_second() / 1_000_000)), "{trace:?}");
            assert_eq!(MadeTrace::named(made.name()), Some(made));
        }
    }

    #[test]
    fn a_mobile_network_is_silent_at_times_and_a_satellite_every_15_seconds() {
        let longest_ms = |made: MadeTrace| {
            let trace = made.trace();
            trace.opportunities_ms().windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
        };
        assert!((50..=330).contains(&longest_ms(MadeTrace::Lte)));
        assert!((40..=130).contains(&longest_ms(MadeTrace::Satellite)));
    }
}
