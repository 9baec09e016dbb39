//! Which sequence numbers are settled: all below a floor, and ranges above it.

use std::collections::BTreeMap;

/// A set of sequence numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// All below are in the set.
    floor: u64,
    /// First and last of each range above the floor. No two touch.
    above: BTreeMap<u64, u64>,
}

impl Ranges {
    /// All numbers below this one are in the set, this one is not.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The ranges above the floor, first and last, in their order.
    pub fn above(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.above.iter().map(|(&first, &last)| (first, last))
    }

    /// Number of ranges above the floor.
    pub fn len(&self) -> usize {
        self.above.len()
    }

    /// Whether there are none above the floor.
    pub fn is_empty(&self) -> bool {
        self.above.is_empty()
    }

    /// Whether a number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        number < self.floor || self.above.range(..=number).next_back().is_some_and(|(_, &last)| last >= number)
    }

    /// Puts all numbers from `first` to `last` into the set.
    pub fn insert(&mut self, first: u64, last: u64) {
        if last < self.floor || first > last {
            return;
        }
        let (mut first, mut last) = (first.max(self.floor), last);
        if let Some((&before, &end)) = self.above.range(..=first).next_back()
            && end.saturating_add(1) >= first
        {
            first = before;
            last = last.max(end);
        }
        while let Some((&next, &end)) = self.above.range(first..=last.saturating_add(1)).next() {
            self.above.remove(&next);
            last = last.max(end);
        }
        if first <= self.floor {
            self.floor = last.saturating_add(1);
        } else {
            self.above.insert(first, last);
        }
    }

    /// Puts all numbers below `floor` into the set.
    pub fn raise(&mut self, floor: u64) {
        if floor > self.floor {
            self.insert(self.floor, floor - 1);
        }
    }

    /// Returns how many of the numbers from `first` to `last` are not in the set.
    pub fn missing(&self, first: u64, last: u64) -> u64 {
        let first = first.max(self.floor);
        if first > last {
            return 0;
        }
        let start = self.above.range(..=first).next_back().map_or(first, |(&start, _)| start);
        let inside = self.above.range(start..=last).filter(|&(_, &end)| end >= first);
        let known: u64 = inside.map(|(&start, &end)| end.min(last) - start.max(first) + 1).sum();
        last - first + 1 - known
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_the_same_set_as_one_of_single_numbers() {
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        for _ in 0..200 {
            let (mut ranges, mut numbers) = (Ranges::default(), BTreeSet::new());
            for _ in 0..30 {
                let first = draw(60);
                let last = first + draw(6);
                if draw(10) == 0 {
                    ranges.raise(first);
                    numbers.extend(0..first);
                } else {
                    ranges.insert(first, last);
                    numbers.extend(first..=last);
                }
                assert!((0..80).all(|number| ranges.contains(number) == numbers.contains(&number)));
                assert_eq!((0..80).find(|number| !numbers.contains(number)), Some(ranges.floor()));
                let (from, to) = (draw(80), draw(80));
                let missing = (from..=to).filter(|number| !numbers.contains(number)).count() as u64;
                assert_eq!(ranges.missing(from, to), missing);
                let apart = ranges.above().zip(ranges.above().skip(1)).all(|((_, last), (next, _))| last + 1 < next);
                assert!(apart && ranges.above().all(|(first, _)| first > ranges.floor()));
            }
        }
    }
}
