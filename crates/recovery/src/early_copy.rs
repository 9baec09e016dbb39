//! Early copies of the chunks that open and end an association, ahead of the timers T1 and T2.
//!
//! INIT, COOKIE ECHO, SHUTDOWN and SHUTDOWN ACK are each sent alone: no later packet reveals their loss, and the
//! standard retransmits them after a second at the earliest (RFC 9260 §5.1, §9.2, with RTO.Initial and RTO.Min of §16).
//! A few copies ahead of the timer repair such a loss in about a round trip. They do not count as retransmissions: T1
//! and T2 run unchanged, and Max.Init.Retransmits counts their expiries.
//!
//! 1. When the chunk is sent for the first time, call [`EarlyCopies::pace`] with the knowledge about the round trip.
//! 2. [`Pace::pause`] after the chunk was last sent, send a copy. `None`: only the timer remains.
//!
//! # The pauses
//!
//! - **No knowledge**: 210 ms. Most paths answer sooner, and on a path of a second three copies are sent; each
//!   is answered once.
//! - **Measured round trip**: SRTT plus an allowance of three deviations, limited to a quarter of SRTT. A spurious copy
//!   costs a packet; it halves no window.
//! - **Bounds**: the answer arrived after INIT had been sent more than once, and may belong to any transmission (Karn's
//!   rule). The round trip is no shorter than the time since the last copy. The first pause is one and a quarter of
//!   that, but at least 125 ms; the others double, since the bound may be far too low.
//!
//! The second pause is as long as the first, each further one longer by a quarter. There are at most [`COPIES_MAX`]
//! copies of a chunk in all cases, so an unreachable destination receives four packets more than by the standard.
//!
//! With [`Redundancy::SPACED`] the first copy is proactive, like the copy of a message, and without knowledge the
//! pauses are 100 ms: the loss of both is detected as quickly as on a known path.
//!
//! All of this is Festina's own.

use festina_units::Duration;

use crate::{redundancy::Redundancy, rtt::RttEstimator};

/// Maximum number of early copies of one chunk.
pub const COPIES_MAX: u8 = 4;

/// The pause without knowledge of the round trip.
const PAUSE_UNKNOWN: Duration = Duration::from_millis(210);

/// The same if the application has enabled proactive copies.
const PAUSE_UNKNOWN_SPACED: Duration = Duration::from_millis(100);

/// Minimum allowance for a late answer, for paths whose measured deviation is near zero.
const LATENESS_MIN: Duration = Duration::from_millis(10);

/// Minimum value of a lower bound of the round trip; lower ones are raised to it.
const BOUND_MIN: Duration = Duration::from_millis(100);

/// The budget of copies from which on each message gets one
/// ([`crate::redundancy::Spaced::copies_per_thousand_messages`]).
const EACH_MESSAGE: u16 = 1_000;

/// Whether chunks that open and end an association are copied ahead of their timers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum EarlyCopies {
    /// T1 and T2 alone (RFC 9260 §5.1, §9.2).
    Off,
    /// Copies as described in the module documentation.
    ByRoundTrip,
}

/// Knowledge about the round trip when a chunk is sent for the first time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KnownRoundTrip {
    /// Nothing.
    Nothing,
    /// A lower bound.
    AtLeast(Duration),
    /// It was measured, or is known from an earlier association.
    Measured {
        /// The smoothed round-trip time.
        srtt: Duration,
        /// Its mean deviation.
        deviation: Duration,
    },
}

impl KnownRoundTrip {
    /// Returns the knowledge of an estimator.
    #[must_use]
    pub fn by(rtt: &RttEstimator) -> Self {
        rtt.srtt().zip(rtt.deviation()).map_or(Self::Nothing, |(srtt, deviation)| Self::Measured { srtt, deviation })
    }
}

/// The pauses between the copies of one chunk.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    base_us: u32,
    /// Pause before a proactive first copy; 0 for none.
    spacing_us: u32,
    doubles: bool,
}

impl EarlyCopies {
    /// Returns the pauses of a chunk that is sent now for the first time, if it gets copies.
    #[must_use]
    pub fn pace(self, known: KnownRoundTrip, redundancy: Redundancy) -> Option<Pace> {
        if self == Self::Off {
            return None;
        }
        let spaced = match redundancy {
            Redundancy::Always(budget) => {
                budget.copies.filter(|copies| copies.copies_per_thousand_messages >= EACH_MESSAGE)
            }
            Redundancy::Off | Redundancy::Adaptive(_) => None,
        };
        let base = match known {
            KnownRoundTrip::Nothing if spaced.is_some() => PAUSE_UNKNOWN_SPACED,
            KnownRoundTrip::Nothing => PAUSE_UNKNOWN,
            KnownRoundTrip::AtLeast(bound) => bound.max(BOUND_MIN).saturating_mul(5) / 4,
            KnownRoundTrip::Measured { srtt, deviation } => {
                let lateness = deviation.saturating_mul(3).min(srtt / 4).max(LATENESS_MIN);
                srtt.saturating_add(lateness)
            }
        };
        let srtt = match known {
            KnownRoundTrip::Nothing => PAUSE_UNKNOWN,
            KnownRoundTrip::AtLeast(bound) => bound,
            KnownRoundTrip::Measured { srtt, .. } => srtt,
        };
        Some(Pace {
            base_us: saturating_micros(base),
            spacing_us: spaced.map_or(0, |spaced| saturating_micros(spaced.spacing(srtt)).max(1)),
            doubles: matches!(known, KnownRoundTrip::AtLeast(_)),
        })
    }
}

impl Pace {
    /// Returns whether the copy that follows `copies` others is proactive.
    #[must_use]
    pub fn is_uncalled(self, copies: u8) -> bool {
        copies == 0 && self.spacing_us > 0
    }

    /// Returns the time from the chunk's last transmission to its next copy, after `copies` of them; `None` if there
    /// are no more.
    #[must_use]
    pub fn pause(self, copies: u8) -> Option<Duration> {
        if copies >= COPIES_MAX {
            return None;
        }
        if self.is_uncalled(copies) {
            return Some(micros(self.spacing_us));
        }
        let called = copies - u8::from(self.spacing_us > 0);
        let base = micros(self.base_us);
        let grown = match (self.doubles, called) {
            (true, called) => base * (1 << called),
            (false, 0 | 1) => base,
            (false, called) => (2..=called).fold(base, |pause, _| pause + pause / 4),
        };
        Some(grown)
    }
}

fn micros(micros: u32) -> Duration {
    Duration::from_micros(micros.into())
}

fn saturating_micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redundancy::Budget;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// The times of the copies, relative to the first transmission, in milliseconds.
    fn copies_at(known: KnownRoundTrip, redundancy: Redundancy) -> Vec<u128> {
        let pace = EarlyCopies::ByRoundTrip.pace(known, redundancy).expect("the switch is on");
        let pauses = (0..).map_while(|copies| pace.pause(copies));
        let times = pauses.scan(Duration::ZERO, |at, pause| {
            *at += pause;
            Some(at.as_millis())
        });
        times.collect()
    }

    fn measured(srtt: u64, deviation: u64) -> KnownRoundTrip {
        KnownRoundTrip::Measured { srtt: ms(srtt), deviation: ms(deviation) }
    }

    #[test]
    fn the_standard_has_no_early_copies() {
        assert_eq!(EarlyCopies::Off.pace(KnownRoundTrip::Nothing, Redundancy::SPACED), None);
    }

    #[test]
    fn without_knowledge_a_copy_follows_every_210_ms_and_then_more_rarely() {
        assert_eq!(copies_at(KnownRoundTrip::Nothing, Redundancy::BUNDLED), [210, 420, 682, 1_010]);
    }

    #[test]
    fn after_one_measurement_copies_keep_one_and_a_quarter_round_trips_apart() {
        assert_eq!(copies_at(measured(100, 50), Redundancy::Off), [125, 250, 406, 601]);
    }

    #[test]
    fn on_a_steady_path_that_is_known_copies_follow_just_after_a_round_trip() {
        assert_eq!(copies_at(measured(100, 1), Redundancy::Off), [110, 220, 357, 529]);
        assert_eq!(copies_at(measured(0, 0), Redundancy::Off)[0], 10, "however short the path");
    }

    #[test]
    fn pauses_double_with_a_bound_that_may_be_far_too_low() {
        assert_eq!(copies_at(KnownRoundTrip::AtLeast(ms(10)), Redundancy::Off), [125, 375, 875, 1_875]);
        assert_eq!(copies_at(KnownRoundTrip::AtLeast(ms(200)), Redundancy::Off)[0], 250);
    }

    #[test]
    fn with_spaced_redundancy_the_first_copy_is_proactive() {
        assert_eq!(copies_at(KnownRoundTrip::Nothing, Redundancy::SPACED), [21, 121, 221, 346]);
        assert_eq!(copies_at(measured(100, 50), Redundancy::SPACED), [10, 135, 260, 416]);
    }

    #[test]
    fn a_budget_of_fewer_copies_than_messages_has_none_for_control_chunks() {
        let half = crate::redundancy::Spaced { spacing: None, copies_per_thousand_messages: 500 };
        assert_eq!(
            copies_at(KnownRoundTrip::Nothing, Redundancy::Always(Budget { copies: Some(half), ..Budget::PIGGYBACK }))
                [0],
            210
        );
    }

    proptest! {
        #[test]
        fn with_any_knowledge_there_are_four_copies_and_no_pause_is_zero(
            srtt in any::<u64>(),
            deviation in any::<u64>(),
        ) {
            let (srtt, deviation) = (Duration::from_nanos(srtt), Duration::from_nanos(deviation));
            for known in [KnownRoundTrip::Measured { srtt, deviation }, KnownRoundTrip::AtLeast(srtt)] {
                let pace = EarlyCopies::ByRoundTrip.pace(known, Redundancy::Off).expect("the switch is on");
                let pauses: Vec<_> = (0..=u8::MAX).map_while(|copies| pace.pause(copies)).collect();
                prop_assert_eq!(pauses.len(), usize::from(COPIES_MAX));
                prop_assert!(pauses.iter().all(|&pause| pause >= LATENESS_MIN));
                prop_assert!(pauses.is_sorted());
            }
        }
    }
}
