//! How many mice take the share of the bottleneck that the paper tuned them to (G02 §4.1).

use festina_lab::plan::Point;

pub(super) const BY_SHARE: &str = "share";

/// The cells that have a number.
pub(super) const KNOWN: &str = "12 and 30 Mbit/s and round-trip times of 25, 50 and 100 ms";

/// A rate in Mbit/s, a round-trip time in ms, and how many mice take about 30% beside 15 elephants and 10% of constant bit rate.
const COUNTS: [(u64, u128, u64); 6] =
    [(30, 100, 28), (30, 50, 22), (30, 25, 19), (12, 100, 21), (12, 50, 18), (12, 25, 22)];

/// Returns the number of mice of a point; `None` if none is known for it.
pub(super) fn count(point: &Point) -> Option<u64> {
    if point.choice("mice_by") != BY_SHARE {
        return Some(point.count("mice"));
    }
    let (bits, rtt_ms) = (point.bandwidth("rate").bits_per_second(), point.duration("rtt").as_millis());
    COUNTS.iter().find(|(mbits, rtt, _)| (mbits * 1_000_000, *rtt) == (bits, rtt_ms)).map(|(.., count)| *count)
}
