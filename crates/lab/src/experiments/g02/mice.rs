//! How many mice take the share of the bottleneck that the paper tuned them to (G02 §4.1, §4.4).

use crate::experiment::Objection;
use crate::plan::Point;

/// The choice of `mice_by` that takes the number from a table.
pub const BY_SHARE: &str = "share";

/// A rate in Mbit/s, a round-trip time in ms, and the number of mice by each tuning.
pub type Counts<const N: usize> = [(u64, u128, [u32; N]); 6];

/// The cells that have a number.
const KNOWN: &str = "12 and 30 Mbit/s and round-trip times of 25, 50 and 100 ms";

/// How many mice take about 30% without marks and 50% with, beside 15 elephants and 10% of constant bit rate. `g02-fig7` has the shares over the
/// number of mice.
const COUNTS: Counts<2> = [
    (30, 100, [30, 62]),
    (30, 50, [25, 40]),
    (30, 25, [43, 49]),
    (12, 100, [18, 32]),
    (12, 50, [27, 43]),
    (12, 25, [46, 190]),
];

/// How many mice a point has: those of this tuning, or the number in the plan. `None` if no number is known.
pub fn count_in<const N: usize>(counts: &Counts<N>, tuning: usize, point: &Point) -> Option<u32> {
    if point.choice("mice_by") != BY_SHARE {
        return u32::try_from(point.count("mice")).ok();
    }
    let (bits, rtt_ms) = (point.bandwidth("rate").bits_per_second(), point.duration("rtt").as_millis());
    let (.., counts) = counts.iter().find(|(mbits, rtt, _)| (mbits * 1_000_000, *rtt) == (bits, rtt_ms))?;
    counts.get(tuning).copied()
}

/// The number of mice in the simulator.
pub(super) fn count(point: &Point) -> Option<u32> {
    count_in(&COUNTS, usize::from(point.choice("marking") == "dred"), point)
}

/// The objection to a point without a number of mice.
pub fn objection(count: Option<u32>) -> Option<Objection> {
    let problem = format!("the number of mice is known for {KNOWN}; expected one of these, or mice_by = \"count\"");
    count.is_none().then(|| Objection { parameter: "mice_by".to_owned(), problem })
}
