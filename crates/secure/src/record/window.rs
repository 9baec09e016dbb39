//! Packet numbers received: unwraps truncated ones and finds duplicates (RFC 9000 §12.3, appendix A.3).

/// Numbers below the largest one for which duplicates are detected.
pub(crate) const WINDOW_NUMBERS: u64 = 1_024;

const WORDS: usize = (WINDOW_NUMBERS / 64) as usize;

/// The packet numbers received of one packet number space.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplayWindow {
    /// One past the largest number received.
    next: u64,
    /// One bit for each number modulo the window.
    seen: [u64; WORDS],
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

    /// Returns whether a number is larger than all that were recorded.
    pub(crate) fn is_newest(&self, number: u64) -> bool {
        number >= self.next
    }

    /// Records a number. Returns `false` for one that was received before, or that is too old to decide.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if number >= self.next {
            let skipped = number - self.next;
            if skipped >= WINDOW_NUMBERS {
                self.seen = [0; WORDS];
            } else {
                (self.next..number).for_each(|skipped| self.set(skipped, false));
            }
            self.next = number.saturating_add(1);
            self.set(number, true);
            return true;
        }
        if self.next - number > WINDOW_NUMBERS || self.is_set(number) {
            return false;
        }
        self.set(number, true);
        true
    }

    fn slot(number: u64) -> (usize, u64) {
        let bit = number % WINDOW_NUMBERS;
        (usize::try_from(bit / 64).unwrap_or_default(), 1 << (bit % 64))
    }

    fn is_set(&self, number: u64) -> bool {
        let (word, bit) = Self::slot(number);
        self.seen.get(word).is_some_and(|word| word & bit != 0)
    }

    fn set(&mut self, number: u64, value: bool) {
        let (word, bit) = Self::slot(number);
        if let Some(word) = self.seen.get_mut(word) {
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

    proptest! {
        #[test]
        fn the_window_agrees_with_a_set(numbers in prop::collection::vec(0_u64..3_000, 0..400)) {
            let (mut window, mut seen, mut largest) = (ReplayWindow::default(), BTreeSet::new(), 0);
            for number in numbers {
                let too_old = number + WINDOW_NUMBERS <= largest;
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
