//! Early copies of the chunks that open and end an association, ahead of the timers T1 and T2.
//!
//! INIT, COOKIE ECHO, SHUTDOWN and SHUTDOWN ACK are each on their own: no later packet reveals their loss, and the standard repeats them
//! a second later at the earliest (RFC 9260 §5.1, §9.2, with RTO.Initial and RTO.Min of §16). A few copies ahead of the timer repair such a
//! loss in about a round trip. They count against nobody: T1 and T2 run as ever, and Max.Init.Retransmits counts their expiries.
//!
//! 1. When the chunk leaves for the first time: [`EarlyCopies::pace`] with what is known of the round trip.
//! 2. [`Pace::pause`] after the chunk last left, a copy is due. `None`: the timer is all that is left.
//!
//! # The pauses
//!
//! - **Nothing is known**: 210 ms. Most paths answer sooner, and a path of a second gets three copies, each of which draws one answer.
//! - **The round trip was measured**: SRTT and what it may be late, three deviations, but a quarter of SRTT at most. A copy that leaves in
//!   vain costs a packet; it halves no window.
//! - **Bounds are known**: the answer came after INIT had left more than once, and may belong to any of them (Karn's rule). The round
//!   trip is no shorter than the time since the last copy. The first pause is one and a quarter of that, and not below 125 ms; the others
//!   double, for the bound may be far too low.
//!
//! The second pause is as long as the first, each further one longer by a quarter. There are [`COPIES_MAX`] copies of a chunk, whatever
//! happens, so that a destination that is not there draws four packets more than by the standard.
//!
//! With [`Redundancy::SPACED`] the first copy leaves without cause, as the copy of a message does, and without knowledge the pauses are
//! 100 ms: a lost pair is noticed as quickly as on a path that is known.
//!
//! All of this is Festina's own.

use festina_units::Duration;

use crate::{redundancy::Redundancy, rtt::RttEstimator};

/// Early copies of one chunk.
pub const COPIES_MAX: u8 = 4;

/// The pause where nothing is known of the round trip.
const PAUSE_UNKNOWN: Duration = Duration::from_millis(210);

/// The same if the application pays for copies that nothing calls for.
const PAUSE_UNKNOWN_SPACED: Duration = Duration::from_millis(100);

/// An answer may be late by this at least, for paths whose measured deviation vanishes.
const LATENESS_MIN: Duration = Duration::from_millis(10);

/// A lower bound of the round trip below this is not believed.
const BOUND_MIN: Duration = Duration::from_millis(100);

/// The budget of copies from which on each message gets one ([`crate::redundancy::Spaced::copies_per_thousand_messages`]).
const EACH_MESSAGE: u16 = 1_000;

/// Whether chunks that open and end an association leave again ahead of their timers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum EarlyCopies {
    /// T1 and T2 alone (RFC 9260 §5.1, §9.2).
    Off,
    /// As this module's text says.
    ByRoundTrip,
}

/// What is known of the round trip when a chunk leaves for the first time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KnownRoundTrip {
    /// Nothing.
    Nothing,
    /// It takes no less than this.
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
    /// What an estimator knows.
    #[must_use]
    pub fn by(rtt: &RttEstimator) -> Self {
        rtt.srtt().zip(rtt.deviation()).map_or(Self::Nothing, |(srtt, deviation)| Self::Measured { srtt, deviation })
    }
}

/// The pauses between the copies of one chunk.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    base_us: u32,
    /// Before a first copy that nothing calls for; 0 for none.
    spacing_us: u32,
    doubles: bool,
}

impl EarlyCopies {
    /// The pauses of a chunk that leaves now for the first time, if it gets copies.
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
    /// Returns whether nothing calls for the copy that follows `copies` others: redundancy has it leave.
    #[must_use]
    pub fn is_uncalled(self, copies: u8) -> bool {
        copies == 0 && self.spacing_us > 0
    }

    /// The time from when the chunk last left to its next copy, after `copies` of them; `None` if there are no more.
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

    /// When the copies leave, counted from the first transmission, in milliseconds.
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
    fn a_bound_that_may_be_far_too_low_makes_pauses_double() {
        assert_eq!(copies_at(KnownRoundTrip::AtLeast(ms(10)), Redundancy::Off), [125, 375, 875, 1_875]);
        assert_eq!(copies_at(KnownRoundTrip::AtLeast(ms(200)), Redundancy::Off)[0], 250);
    }

    #[test]
    fn with_spaced_redundancy_a_first_copy_leaves_without_cause() {
        assert_eq!(copies_at(KnownRoundTrip::Nothing, Redundancy::SPACED), [21, 121, 221, 346]);
        assert_eq!(copies_at(measured(100, 50), Redundancy::SPACED), [10, 135, 260, 416]);
    }

    #[test]
    fn a_budget_of_fewer_copies_than_messages_has_none_for_control_chunks() {
        let half = crate::redundancy::Spaced { spacing: None, copies_per_thousand_messages: 500 };
        assert_eq!(
            copies_at(KnownRoundTrip::Nothing, Redundancy::Always(Budget { copies: Some(half), ..Budget::RIDES }))[0],
            210
        );
    }

    proptest! {
        #[test]
        fn whatever_is_known_there_are_four_copies_and_no_pause_vanishes(
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
