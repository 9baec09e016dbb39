//! Packet numbers received: unwraps truncated ones and finds duplicates (RFC 9000 §12.3, appendix A.3).

/// Numbers below the largest one for which duplicates are detected.
pub(crate) const WINDOW_NUMBERS: u64 = 1_024;

const WORDS: usize = (WINDOW_NUMBERS / 64) as usize;
/// The same if packets take several paths, and some are slower than others. Short packet numbers allow twice as many.
const WIDE_WORDS: usize = 16 * WORDS;

/// The packet numbers received of one packet number space.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplayWindow {
    /// One past the largest number received.
    next: u64,
    /// One bit for each number modulo the window.
    seen: [u64; WORDS],
    /// In place of `seen`, if packets take several paths.
    wide: Option<Box<[u64]>>,
}

impl ReplayWindow {
    /// Returns the packet number nearest to the expected one that ends in these 1 to 4 bytes.
    pub(crate) fn unwrap(&self, truncated: &[u8]) -> u64 {
        let bits = 8 * truncated.len().min(4);
        let window = 1_u64 << bits;
        let low = truncated.iter().take(4).fold(0, |value, byte| value << 8 | u64::from(*byte));
        let candidate = self.next & !(window - 1) | low;
        if candidate.saturating_add(window / 2) <= self.next {
            candidate.saturating_add(window)
        } else if candidate > self.next.saturating_add(window / 2) && candidate >= window {
            candidate - window
        } else {
            candidate
        }
    }

    /// Expects packets to be overtaken by many others. Those that are too old already stay so.
    pub(crate) fn widen(&mut self) {
        if self.wide.is_some() {
            return;
        }
        let mut wide = Self { next: self.next, wide: Some(vec![0; WIDE_WORDS].into()), ..Self::default() };
        for number in self.next.saturating_sub(wide.numbers())..self.next {
            let is_too_old = self.next - number > WINDOW_NUMBERS;
            wide.set(number, is_too_old || self.is_set(number));
        }
        *self = wide;
    }

    fn words(&self) -> &[u64] {
        self.wide.as_deref().unwrap_or(&self.seen)
    }

    fn words_mut(&mut self) -> &mut [u64] {
        self.wide.as_deref_mut().unwrap_or(&mut self.seen)
    }

    fn numbers(&self) -> u64 {
        self.words().len() as u64 * 64
    }

    /// Returns whether a number is larger than all that were recorded.
    pub(crate) fn is_newest(&self, number: u64) -> bool {
        number >= self.next
    }

    /// Records a number. Returns `false` for one that was received before, or that is too old to decide.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if number >= self.next {
            let skipped = number - self.next;
            if skipped >= self.numbers() {
                self.words_mut().fill(0);
            } else {
                self.clear_to(number);
            }
            self.next = number.saturating_add(1);
            self.set(number, true);
            return true;
        }
        if self.next - number > self.numbers() || self.is_set(number) {
            return false;
        }
        self.set(number, true);
        true
    }

    /// Marks all numbers from the next one to this one as not received, a word at a time where that is possible.
    fn clear_to(&mut self, number: u64) {
        let mut at = self.next;
        while at < number {
            let words = self.words_mut();
            let (word, _) = Self::slot(at, words.len());
            match words.get_mut(word) {
                Some(word) if at.is_multiple_of(64) && number - at >= 64 => {
                    *word = 0;
                    at += 64;
                }
                _ => {
                    self.set(at, false);
                    at += 1;
                }
            }
        }
    }

    /// The word of a number among this many, a power of two, and its bit.
    fn slot(number: u64, words: usize) -> (usize, u64) {
        (usize::try_from(number / 64).unwrap_or_default() & (words - 1), 1 << (number % 64))
    }

    fn is_set(&self, number: u64) -> bool {
        let words = self.words();
        let (word, bit) = Self::slot(number, words.len());
        words.get(word).is_some_and(|word| word & bit != 0)
    }

    fn set(&mut self, number: u64, value: bool) {
        let words = self.words_mut();
        let (word, bit) = Self::slot(number, words.len());
        if let Some(word) = words.get_mut(word) {
            *word = if value { *word | bit } else { *word & !bit };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn after(largest: u64) -> ReplayWindow {
        let mut window = ReplayWindow::default();
        window.insert(largest);
        window
    }

    #[test]
    fn rfc9000_appendix_a3_the_example_is_unwrapped() {
        assert_eq!(after(0xa82f_30ea).unwrap(&[0x9b, 0x32]), 0xa82f_9b32);
        assert_eq!(ReplayWindow::default().unwrap(&[0xff, 0xff]), 0xffff, "there is no number below 0");
        assert_eq!(after(0xffff).unwrap(&[0xff, 0xf0]), 0xfff0);
        assert_eq!(after(0xffff).unwrap(&[0, 5]), 0x1_0005);
    }

    #[test]
    fn a_number_is_taken_once_and_one_below_the_window_never() {
        let mut window = after(5_000);
        assert!(!window.insert(5_000));
        assert!(window.insert(5_000 - WINDOW_NUMBERS + 1));
        assert!(!window.insert(5_000 - WINDOW_NUMBERS));
        assert!(window.insert(100_000));
        assert!(window.insert(99_999));
        assert!(!window.insert(99_999));
    }

    #[test]
    fn a_wide_window_takes_packets_of_a_slow_path_once_and_none_that_were_too_old_before() {
        let mut window = after(5_000);
        assert!(window.insert(4_900));
        window.widen();
        for (number, is_taken) in [(4_900, false), (4_901, true), (4_901, false), (5_000 - WINDOW_NUMBERS, false)] {
            assert_eq!(window.insert(number), is_taken, "{number}");
        }
        assert!(window.insert(19_000));
        for (number, is_taken) in [(5_001, true), (5_001, false), (4_902, true), (4_900, false), (2_617, false)] {
            assert_eq!(window.insert(number), is_taken, "{number}");
        }
        assert!(window.insert(1_000_000) && !window.insert(19_001));
    }

    proptest! {
        #[test]
        fn the_window_agrees_with_a_set(numbers in prop::collection::vec(0_u64..3_000, 0..400), scale in 1_u64..40, is_wide: bool) {
            let (mut window, mut seen, mut largest) = (ReplayWindow::default(), BTreeSet::new(), 0);
            if is_wide {
                window.widen();
            }
            for number in numbers.into_iter().map(|number| number * scale) {
                let too_old = number + window.numbers() <= largest;
                prop_assert_eq!(window.insert(number), !too_old && !seen.contains(&number));
                seen.insert(number);
                largest = largest.max(number);
            }
        }

        #[test]
        fn what_lies_within_half_a_window_is_unwrapped(next in 0_u64..1 << 40, ahead in -32_000_i64..32_000) {
            let Some(number) = next.checked_add_signed(ahead) else { return Ok(()) };
            let window = ReplayWindow { next, ..ReplayWindow::default() };
            prop_assert_eq!(window.unwrap(&number.to_be_bytes()[6..]), number);
            prop_assert_eq!(window.unwrap(&number.to_be_bytes()[4..]), number);
        }
    }
}
