//! Deliberate flaws in captures. A check of an analysis that holds in spite of a flaw tests nothing.

use festina_units::Instant;

use super::server::Packets;

/// One in this many packets is missing.
const MISSING_ONE_OF: usize = 20;
/// The step of a clock that is too coarse.
const CLOCK_STEP_NS: u64 = 10_000_000;
/// Error of the clock of a drifting capture, as a divisor: 200 ppm fast.
const DRIFT_PART: u64 = 5_000;

/// A deliberate flaw in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureFlaw {
    /// One of twenty packets is missing.
    Missing,
    /// Times are rounded down to 10 ms.
    CoarseClock,
    /// The clock is 200 ppm fast.
    Drift,
    /// Times are lost: all are the same.
    NoTimes,
}

impl CaptureFlaw {
    /// The flaw that a plan names so; `None` of other names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "missing-packets" => Some(Self::Missing),
            "coarse-clock" => Some(Self::CoarseClock),
            "drift" => Some(Self::Drift),
            "no-times" => Some(Self::NoTimes),
            _ => None,
        }
    }

    /// The capture with the flaw.
    pub(crate) fn in_packets(self, packets: Packets) -> Packets {
        let changed = |packets: Packets, change: fn(u64) -> u64| {
            packets.into_iter().map(|(at, packet)| (Instant::from_nanos(change(at.as_nanos())), packet)).collect()
        };
        match self {
            Self::Missing => {
                let numbered = packets.into_iter().enumerate();
                numbered.filter(|(index, _)| index % MISSING_ONE_OF != MISSING_ONE_OF - 1).map(|(_, it)| it).collect()
            }
            Self::CoarseClock => changed(packets, |ns| ns - ns % CLOCK_STEP_NS),
            Self::Drift => changed(packets, |ns| ns + ns / DRIFT_PART),
            Self::NoTimes => changed(packets, |_| 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flaw_does_what_its_name_says() {
        let at = |ms| Instant::from_millis(ms);
        let packets: Packets = (1..=40).map(|number| (at(3_003 * number), vec![0])).collect();
        let times = |name| {
            let flaw = CaptureFlaw::named(name).expect("it is one");
            flaw.in_packets(packets.clone()).into_iter().map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(times("missing-packets").len(), 38);
        assert_eq!(times("coarse-clock")[0], at(3_000));
        assert_eq!(times("drift")[0], Instant::from_nanos(3_003_600_600));
        assert_eq!(times("no-times")[..2], [at(0), at(0)]);
        assert_eq!(CaptureFlaw::named("none"), None);
    }
}
