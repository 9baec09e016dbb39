//! The symbols that a repair symbol sums, and their weights.

use crate::field::power;

/// Maximum number of symbols in a repair symbol, and of consecutive identifiers that they span.
pub const WINDOW_MAX: usize = 16;
/// Number of rows of weights.
pub const ROWS: u8 = 8;

/// The symbols that a repair symbol sums.
///
/// The weight of a symbol is 2 to the power of `row` times its distance from the first. With row 0 the sum is the exclusive or. Two repair symbols
/// of different rows recover any two lost symbols that are in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Identifier of the first symbol.
    pub first: u64,
    /// Bit `n`, counted from the lowest, stands for the symbol with the identifier `first + n`. Bit 0 is set.
    pub mask: u16,
    /// Row of weights, below [`ROWS`].
    pub row: u8,
}

impl Window {
    /// Whether the fields are in their ranges.
    pub(crate) fn is_valid(self) -> bool {
        self.mask & 1 == 1 && self.row < ROWS && self.first.checked_add(WINDOW_MAX as u64).is_some()
    }

    /// Number of symbols.
    pub(crate) fn len(self) -> usize {
        self.mask.count_ones() as usize
    }

    /// Returns the bit of a symbol; 0 if it is not one of the symbols.
    fn bit(self, id: u64) -> u16 {
        let distance = id.wrapping_sub(self.first);
        if distance < WINDOW_MAX as u64 { self.mask & 1 << distance } else { 0 }
    }

    /// Returns the window without a symbol.
    pub(crate) fn without(self, id: u64) -> Self {
        Self { mask: self.mask & !self.bit(id), ..self }
    }

    /// Returns the weight of a symbol; `None` if it is not one of the symbols.
    pub(crate) fn weight(self, id: u64) -> Option<u8> {
        let bit = self.bit(id);
        (bit != 0).then(|| power(usize::from(self.row) * bit.trailing_zeros() as usize))
    }

    /// Returns the identifier and weight of each symbol.
    pub(crate) fn terms(self) -> impl Iterator<Item = (u64, u8)> {
        (0..WINDOW_MAX)
            .filter(move |distance| self.mask >> distance & 1 == 1)
            .map(move |distance| (self.first.wrapping_add(distance as u64), power(usize::from(self.row) * distance)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::multiply;

    fn weight(row: u8, distance: u64) -> u8 {
        let (_, weight) = Window { first: 100, mask: u16::MAX, row }
            .terms()
            .nth(usize::try_from(distance).expect("small"))
            .expect("in the window");
        weight
    }

    #[test]
    fn any_two_repair_symbols_of_different_rows_recover_any_two_symbols_in_both() {
        for shift in 0..16 {
            for (row, other) in (0..ROWS).flat_map(|row| (0..row).map(move |other| (row, other))) {
                // The second window begins `shift` earlier.
                for (a, b) in (0..16 - shift).flat_map(|b| (0..b).map(move |a| (a, b))) {
                    let first = multiply(weight(row, a), weight(other, b + shift));
                    let second = multiply(weight(row, b), weight(other, a + shift));
                    assert_ne!(first, second, "rows {row} and {other}, distances {a} and {b}, shift {shift}");
                }
            }
        }
    }

    #[test]
    fn the_terms_are_those_of_the_mask() {
        let window = Window { first: 10, mask: 0b1000_0000_0000_0101, row: 1 };
        let terms: Vec<_> = window.terms().collect();
        assert_eq!(terms, [(10, 1), (12, 4), (25, 0x26)]);
    }

    #[test]
    fn fields_out_of_range_are_found() {
        let window = Window { first: 0, mask: 1, row: 7 };
        assert!(window.is_valid());
        for wrong in
            [Window { mask: 2, ..window }, Window { row: 8, ..window }, Window { first: u64::MAX - 15, ..window }]
        {
            assert!(!wrong.is_valid(), "{wrong:?}");
        }
    }
}
