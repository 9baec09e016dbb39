//! How many mice take the share of the bottleneck that the paper tuned them to (G02 §4.1), with the kernel's TCP.

use festina_lab::experiments::g02::mice::{Counts, count_in};
use festina_lab::plan::Point;

/// How many mice take about 30% beside 15 elephants and 10% of constant bit rate.
const COUNTS: Counts<1> =
    [(30, 100, [28]), (30, 50, [22]), (30, 25, [19]), (12, 100, [21]), (12, 50, [18]), (12, 25, [22])];

/// The number of mice of a point; `None` if none is known for it.
pub(super) fn count(point: &Point) -> Option<u32> {
    count_in(&COUNTS, 0, point)
}
