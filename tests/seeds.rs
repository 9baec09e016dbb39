//! The extent of long tests: how many seeds, rounds or seconds. The variable `TEST_SEEDS` sets it for all of them:
//!
//! - unset: the short extent of each test
//! - `full`: the long extent of each test
//! - `A..B`: the seeds from A up to but without B; tests that count rounds take B - A of them. Name the tests to run: others expect
//!   more rounds

use std::ops::Range;

const VARIABLE: &str = "TEST_SEEDS";

enum Choice {
    Short,
    Full,
    Chosen(Range<u64>),
}

/// # Panics
///
/// If the value of the variable has none of the three forms.
fn choice() -> Choice {
    let Some(value) = std::env::var_os(VARIABLE) else { return Choice::Short };
    let range = match value.to_str() {
        Some("full") => return Choice::Full,
        Some(text) => text.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?)),
        None => None,
    };
    match range {
        Some(range) if !range.is_empty() => Choice::Chosen(range),
        _ => panic!("{VARIABLE} is {value:?}; it must be `full` or a range of seeds such as `17..18`"),
    }
}

/// Seeds, or a number of rounds or seconds.
pub(crate) trait Extent {
    fn from_seeds(seeds: Range<u64>) -> Self;
}

impl Extent for Range<u64> {
    fn from_seeds(seeds: Range<u64>) -> Self {
        seeds
    }
}

impl Extent for u64 {
    fn from_seeds(seeds: Range<u64>) -> Self {
        seeds.end - seeds.start
    }
}

impl Extent for usize {
    fn from_seeds(seeds: Range<u64>) -> Self {
        usize::try_from(u64::from_seeds(seeds)).expect("the number fits in memory")
    }
}

/// Returns the extent of a test: `short`, `full`, or that of the seeds in the variable.
pub(crate) fn extent<T: Extent>(short: T, full: T) -> T {
    match choice() {
        Choice::Chosen(seeds) => T::from_seeds(seeds),
        _ if is_full() => full,
        _ => short,
    }
}

/// Whether each test runs its long extent.
pub(crate) fn is_full() -> bool {
    matches!(choice(), Choice::Full)
}
