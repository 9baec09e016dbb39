//! How many mice take the share of the bottleneck that the paper tuned them to (G02 §4.1, §4.4).

use super::BY_SHARE;
use crate::plan::Point;

/// The cells that have a number.
pub(super) const KNOWN: &str = "12 and 30 Mbit/s and round-trip times of 25, 50 and 100 ms";

/// A rate in Mbit/s, a round-trip time in ms, and how many mice take about 30% without marks and 50% with, beside 15 elephants and 10% of constant
/// bit rate. `g02-fig7` has the shares over the number of mice.
const COUNTS: [(u64, u128, [u32; 2]); 6] = [
    (30, 100, [30, 62]),
    (30, 50, [25, 40]),
    (30, 25, [43, 49]),
    (12, 100, [18, 32]),
    (12, 50, [27, 43]),
    (12, 25, [46, 190]),
];

/// How many mice a point has; `None` if no number is known for it.
pub(super) fn count(point: &Point) -> Option<u32> {
    if point.choice("mice_by") != BY_SHARE {
        return u32::try_from(point.count("mice")).ok();
    }
    let (bits, rtt_ms) = (point.bandwidth("rate").bits_per_second(), point.duration("rtt").as_millis());
    let (.., counts) = COUNTS.iter().find(|(mbits, rtt, _)| (mbits * 1_000_000, *rtt) == (bits, rtt_ms))?;
    Some(counts[usize::from(point.choice("marking") == "dred")])
}
