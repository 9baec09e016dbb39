//! Points in time.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

use crate::duration;

/// A point in time: nanoseconds since an epoch chosen by the driver of the clock.
///
/// Instants of different clocks cannot be compared. The range is 584 years. Arithmetic with the operators saturates at
/// its ends, so no timer computation can panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self(0);

    /// The last representable instant; a deadline here is never reached.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates an instant `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Creates an instant `micros` microseconds after the epoch (saturating).
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Creates an instant `millis` milliseconds after the epoch (saturating).
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Creates an instant `secs` seconds after the epoch (saturating).
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the earliest of several optional deadlines. [`Instant::MAX`], which is never reached, counts as none.
    #[inline]
    pub fn earliest<const N: usize>(deadlines: [Option<Self>; N]) -> Option<Self> {
        let earliest = deadlines.iter().fold(Self::MAX, |earliest, at| earliest.min(at.unwrap_or(Self::MAX)));
        (earliest < Self::MAX).then_some(earliest)
    }

    /// Returns the instant `duration` later, or `None` if it is out of range.
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Self)
    }

    /// Returns the instant `duration` later, at most [`Instant::MAX`].
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration::saturating_nanos(duration)))
    }

    /// Returns the instant `duration` earlier, at least [`Instant::ZERO`].
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration::saturating_nanos(duration)))
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// An optional instant in half the space of an `Option<Instant>`. [`Instant::MAX`] counts as none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionalInstant(Instant);

impl OptionalInstant {
    /// No instant.
    pub const NONE: Self = Self(Instant::MAX);

    /// Returns the instant, if there is one.
    #[inline]
    pub fn get(self) -> Option<Instant> {
        (self != Self::NONE).then_some(self.0)
    }

    /// Returns whether it holds an instant.
    #[inline]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// Stores `instant` unless one is stored already.
    #[inline]
    pub fn get_or_insert(&mut self, instant: Instant) {
        if !self.is_some() {
            *self = instant.into();
        }
    }
}

impl Default for OptionalInstant {
    fn default() -> Self {
        Self::NONE
    }
}

impl From<Instant> for OptionalInstant {
    fn from(instant: Instant) -> Self {
        Self(instant)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        self.saturating_add(duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = self.saturating_add(duration);
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        self.saturating_sub(duration)
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// Prints the time since the epoch, as in `1.25s`.
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&duration::display(Duration::from_nanos(self.0)), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constructors_agree_on_the_unit() {
        assert_eq!(Instant::from_secs(2), Instant::from_millis(2_000));
        assert_eq!(Instant::from_millis(3), Instant::from_micros(3_000));
        assert_eq!(Instant::from_micros(4), Instant::from_nanos(4_000));
        assert_eq!(Instant::default(), Instant::ZERO);
    }

    #[test]
    fn the_earliest_deadline_ignores_missing_and_unreachable_ones() {
        let at = Instant::from_millis;
        assert_eq!(Instant::earliest([None, Some(at(3)), Some(at(2)), Some(Instant::MAX)]), Some(at(2)));
        assert_eq!(Instant::earliest([None, Some(Instant::MAX)]), None);
        assert_eq!(Instant::earliest([]), None);
    }

    #[test]
    fn an_optional_instant_is_as_small_as_an_instant() {
        assert_eq!(size_of::<OptionalInstant>(), size_of::<Instant>());
        assert_eq!(OptionalInstant::from(Instant::ZERO).get(), Some(Instant::ZERO));
        assert_eq!(OptionalInstant::from(Instant::MAX), OptionalInstant::default());
        assert!(OptionalInstant::default().get().is_none() && !OptionalInstant::NONE.is_some());
        let mut first = OptionalInstant::NONE;
        [2, 1].map(Instant::from_millis).into_iter().for_each(|at| first.get_or_insert(at));
        assert_eq!(first.get(), Some(Instant::from_millis(2)));
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let late = Instant::from_nanos(u64::MAX - 1);
        assert_eq!(late + Duration::from_secs(1), Instant::MAX);
        assert_eq!(late + Duration::MAX, Instant::MAX);
        assert_eq!(Instant::from_secs(1) - Duration::from_secs(2), Instant::ZERO);
        assert_eq!(Instant::from_secs(1) - Instant::from_secs(2), Duration::ZERO);
        assert_eq!(late.checked_add(Duration::from_nanos(1)), Some(Instant::MAX));
        assert_eq!(late.checked_add(Duration::from_nanos(2)), None);
        assert_eq!(Instant::ZERO.checked_add(Duration::MAX), None);
    }

    #[test]
    fn adding_then_subtracting_gives_the_duration_back() {
        let start = Instant::from_millis(17);
        let mut end = start;
        end += Duration::from_micros(250);
        assert_eq!(end - start, Duration::from_micros(250));
        assert_eq!(end.to_string(), "17.25ms");
    }
}
