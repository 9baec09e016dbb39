//! Recovers lost symbols.

use std::collections::VecDeque;

use crate::equations::{Equation, Equations};
use crate::symbol::{SEAL_BYTES, SEALED_BYTES_MAX, Symbol};
use crate::{SYMBOL_BYTES_MAX, WINDOW_MAX, Window};

/// Maximum number of known symbols that are kept: those of a window, and of the packets by which a repair symbol may be late.
const HELD_MAX: usize = 32;
/// Maximum of the bytes that may be multiplied at once: an honest peer's losses in succession.
const CREDIT_BYTES_MAX: usize = 1 << 17;

/// A lost symbol that repair symbols have brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The identifier.
    pub id: u64,
    /// The symbol.
    pub bytes: Vec<u8>,
}

/// A receiver of source symbols and repair symbols.
///
/// Pass each symbol to [`handle_source`](Self::handle_source) or [`handle_repair`](Self::handle_repair), in any order and as often as it is received,
/// and then call [`poll_recovered`](Self::poll_recovered) until it returns `None`. Each symbol is returned at most once, and none that was passed
/// in before. Symbols that are not polled before the next call are discarded.
#[derive(Debug)]
pub struct Decoder {
    /// Known symbols, in ascending order of identifiers.
    held: VecDeque<Symbol>,
    /// Identifiers below are no longer asked for: those that were known are forgotten.
    past_below: u64,
    equations: Equations,
    /// Bytes that may be multiplied: those received, less those multiplied.
    credit_bytes: usize,
    recovered: VecDeque<Recovered>,
    spare: Symbol,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            held: VecDeque::new(),
            past_below: 0,
            equations: Equations::default(),
            credit_bytes: CREDIT_BYTES_MAX,
            recovered: VecDeque::new(),
            spare: Symbol::default(),
        }
    }
}

impl Decoder {
    /// Takes a source symbol. Ignores one that is known, and one that is longer than [`SYMBOL_BYTES_MAX`].
    pub fn handle_source(&mut self, id: u64, bytes: &[u8]) {
        self.begin(bytes.len());
        let is_unknown = self.equations.contain(id);
        if bytes.len() > SYMBOL_BYTES_MAX || !is_unknown && self.place(id).is_ok() {
            return;
        }
        let mut symbol = Symbol::new(id, bytes, std::mem::take(&mut self.spare));
        if is_unknown {
            if self.equations.cost_bytes(symbol.sealed_bytes()) <= self.credit_bytes {
                self.equations.learn(&mut symbol);
            } else {
                self.equations.discard(id);
            }
        }
        self.hold(symbol);
        self.settle();
    }

    /// Takes a repair symbol. Ignores one that is malformed, that has no unknown symbol or one that is too old, and one that takes more computation
    /// than the bytes received so far have paid for.
    pub fn handle_repair(&mut self, window: Window, sum: &[u8]) {
        self.begin(sum.len());
        if !window.is_valid() || !(SEAL_BYTES..=SEALED_BYTES_MAX).contains(&sum.len()) {
            return;
        }
        let from = self.held.partition_point(|symbol| symbol.id < window.first);
        let to = self.held.partition_point(|symbol| symbol.id < window.first + WINDOW_MAX as u64);
        let (mut unknown, mut known_bytes) = (window, 0);
        for symbol in self.held.range(from..to) {
            unknown = unknown.without(symbol.id);
            known_bytes += symbol.sealed_bytes();
        }
        let Some((lowest, _)) = unknown.terms().next() else { return };
        if lowest < self.past_below || known_bytes + self.equations.cost_bytes(sum.len()) > self.credit_bytes {
            return;
        }
        let mut equation = Equation::new(sum.to_vec());
        for symbol in self.held.range_mut(from..to) {
            if let Some(weight) = window.weight(symbol.id) {
                self.credit_bytes -= equation.subtract(weight, symbol.sealed());
            }
        }
        self.equations.add(equation, unknown);
        self.settle();
    }

    /// Returns the next recovered symbol. Those of one call are in ascending order.
    pub fn poll_recovered(&mut self) -> Option<Recovered> {
        self.recovered.pop_front()
    }

    fn begin(&mut self, bytes: usize) {
        self.recovered.clear();
        self.credit_bytes = CREDIT_BYTES_MAX.min(self.credit_bytes.saturating_add(bytes));
    }

    /// Returns where a known symbol is, or where it would be.
    fn place(&self, id: u64) -> Result<usize, usize> {
        match self.held.back() {
            Some(last) if id <= last.id => self.held.binary_search_by_key(&id, |symbol| symbol.id),
            _ => Err(self.held.len()),
        }
    }

    fn hold(&mut self, symbol: Symbol) {
        if let Err(place) = self.place(symbol.id)
            && symbol.id >= self.past_below
        {
            self.held.insert(place, symbol);
        }
        if self.held.len() > HELD_MAX
            && let Some(symbol) = self.held.pop_front()
        {
            self.past_below = symbol.id.saturating_add(1);
            self.spare = symbol;
        }
    }

    /// Takes the solved symbols from the equations, and pays. If one is not sealed, some repair symbol was wrong, and all are discarded.
    fn settle(&mut self) {
        while let Some((id, sum)) = self.equations.take_solved() {
            let Some(symbol) = Symbol::of_sum(id, sum) else {
                self.equations.clear();
                break;
            };
            self.recovered.push_back(Recovered { id, bytes: symbol.payload().to_vec() });
            self.hold(symbol);
        }
        self.credit_bytes = self.credit_bytes.saturating_sub(self.equations.take_work_bytes());
    }
}

#[cfg(test)]
mod tests;
