//! Sums the symbols that were sent last.

use std::collections::VecDeque;

use crate::field::{LANES, double_and_add};
use crate::symbol::Symbol;
use crate::{ROWS, SYMBOL_BYTES_MAX, WINDOW_MAX, Window};

/// The symbols that were sent last, and their sums.
///
/// [`push`](Self::push) each symbol, [`forget`](Self::forget) those that need no repair, and call [`repair`](Self::repair) as often as the sender's
/// rate demands. Buffers are reused: nothing is allocated once the symbols have had their sizes.
#[derive(Debug, Default)]
pub struct Encoder {
    /// In ascending order of identifiers. The last is less than `WINDOW_MAX` above the first.
    held: VecDeque<Symbol>,
    spare: Symbol,
    row: u8,
}

impl Encoder {
    /// Takes a symbol. Ignores one that is longer than [`SYMBOL_BYTES_MAX`] or whose identifier is not above that of the last.
    pub fn push(&mut self, id: u64, bytes: &[u8]) {
        if bytes.len() > SYMBOL_BYTES_MAX || self.held.back().is_some_and(|last| id <= last.id) {
            return;
        }
        while self.held.front().is_some_and(|first| id - first.id >= WINDOW_MAX as u64) {
            self.spare = self.held.pop_front().unwrap_or_default();
        }
        self.held.push_back(Symbol::new(id, bytes, std::mem::take(&mut self.spare)));
    }

    /// Leaves a symbol out of later repair symbols: it was acknowledged or abandoned.
    pub fn forget(&mut self, id: u64) {
        if let Ok(at) = self.held.binary_search_by_key(&id, |symbol| symbol.id)
            && let Some(symbol) = self.held.remove(at)
        {
            self.spare = symbol;
        }
    }

    /// Appends a repair symbol over the last `count` symbols to `buffer`. Returns its window, or `None` if no symbol is held. Successive repair
    /// symbols have different weights.
    pub fn repair(&mut self, count: usize, buffer: &mut Vec<u8>) -> Option<Window> {
        let skipped = self.held.len().saturating_sub(count);
        let first = self.held.get(skipped)?.id;
        let bytes = self.held.iter().skip(skipped).map(Symbol::sealed_bytes).max()?;
        let start = buffer.len();
        buffer.resize(start + bytes.next_multiple_of(LANES), 0);
        let mask = self.held.iter().skip(skipped).fold(0, |mask, symbol| mask | 1 << (symbol.id - first));
        // A symbol is in about as many repair symbols as the window has symbols, and low rows take less computation.
        let rows = u8::try_from(self.held.len() - skipped).map_or(ROWS, |symbols| symbols.min(ROWS));
        let window = Window { first, mask, row: self.row % rows };
        self.row = self.row.wrapping_add(1);
        // By Horner's rule: the sum so far takes as many doublings as the weights of two neighbours differ by.
        let (sum, mut next) = (buffer.get_mut(start..)?, None);
        for symbol in self.held.range_mut(skipped..).rev() {
            let apart = next.replace(symbol.id).map_or(0, |next| next - symbol.id);
            double_and_add(sum.as_chunks_mut().0, apart * u64::from(window.row), symbol.sealed());
        }
        buffer.truncate(start + bytes);
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_the_last_symbols_that_were_not_forgotten_and_spans_at_most_16() {
        let mut encoder = Encoder::default();
        let mut buffer = Vec::new();
        assert_eq!(encoder.repair(4, &mut buffer), None);
        for id in 100..130 {
            encoder.push(id, b"symbol");
        }
        encoder.push(128, b"again");
        encoder.push(130, &[0; SYMBOL_BYTES_MAX + 1]);
        assert_eq!(encoder.repair(4, &mut buffer), Some(Window { first: 126, mask: 0b1111, row: 0 }));
        encoder.forget(127);
        encoder.forget(127);
        assert_eq!(encoder.repair(4, &mut buffer), Some(Window { first: 125, mask: 0b1_1011, row: 1 }));
        assert_eq!(encoder.repair(99, &mut buffer), Some(Window { first: 114, mask: 0xdfff, row: 2 }));
        encoder.push(131, b"behind the long one");
        assert_eq!(encoder.repair(99, &mut buffer), Some(Window { first: 116, mask: 0xb7ff, row: 3 }));
        encoder.push(u64::MAX, b"far");
        assert_eq!(encoder.repair(99, &mut buffer), Some(Window { first: u64::MAX, mask: 1, row: 0 }));
        assert_eq!(encoder.repair(0, &mut buffer), None);
    }

    #[test]
    fn a_repair_symbol_is_appended_and_as_long_as_the_longest_symbol_with_its_seal() {
        let mut encoder = Encoder::default();
        encoder.push(1, &[1; 100]);
        encoder.push(2, &[2; 10]);
        let mut buffer = b"before".to_vec();
        encoder.repair(2, &mut buffer);
        assert_eq!(buffer.len(), 6 + 100 + crate::REPAIR_OVERHEAD_BYTES);
        encoder.repair(1, &mut buffer);
        assert_eq!(buffer.len(), 6 + 105 + 15);
        assert_eq!(buffer[..6], *b"before");
    }
}
