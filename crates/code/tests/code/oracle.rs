//! A decoder of few words: it keeps all symbols and equations, and solves them by Gaussian elimination from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use festina_code::Window;

/// An equation: the weights of symbols, and the sum of the weighted symbols.
type Row = (BTreeMap<u64, u8>, Vec<u8>);

#[derive(Default)]
pub(crate) struct Oracle {
    pub(crate) known: BTreeMap<u64, Vec<u8>>,
    rows: Vec<Row>,
}

static PRODUCTS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| (0..=u8::MAX).map(|a| (0..=u8::MAX).map(|b| multiply(a, b)).collect()).collect());

/// Multiplies as on paper.
fn multiply(mut a: u8, b: u8) -> u8 {
    let mut product = 0;
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            product ^= a;
        }
        let carry = a >> 7;
        a = (a << 1) ^ (carry * 0x1d);
    }
    product
}

fn inverse(a: u8) -> u8 {
    // The group has 255 elements, so the inverse is the power 254.
    (0..254).fold(1, |power, _| multiply(power, a))
}

/// Adds a multiple of a row to another.
fn add(target: &mut Row, factor: u8, row: &Row) {
    for (id, weight) in &row.0 {
        *target.0.entry(*id).or_default() ^= multiply(factor, *weight);
    }
    target.0.retain(|_, weight| *weight != 0);
    target.1.resize(target.1.len().max(row.1.len()), 0);
    let products = &PRODUCTS[usize::from(factor)];
    for (target, byte) in target.1.iter_mut().zip(&row.1) {
        *target ^= products[usize::from(*byte)];
    }
}

/// The bitwise CRC32c of identifier, bytes and mark, times the constant; then bytes and mark.
fn seal(id: u64, bytes: &[u8]) -> Vec<u8> {
    let marked = [bytes, &[1]].concat();
    let mut register = u32::MAX;
    for byte in id.to_be_bytes()[4..].iter().chain(&marked) {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            register = (register >> 1) ^ (0x82f6_3b78 * (register & 1));
        }
    }
    [(!register).wrapping_mul(0x9e37_79b1).to_be_bytes().to_vec(), marked].concat()
}

impl Oracle {
    pub(crate) fn source(&mut self, id: u64, bytes: &[u8]) -> BTreeSet<u64> {
        self.known.entry(id).or_insert_with(|| seal(id, bytes));
        self.solve()
    }

    pub(crate) fn repair(&mut self, window: Window, sum: &[u8]) -> BTreeSet<u64> {
        let mut weights = BTreeMap::new();
        let (mut weight, mut generator) = (1, 1);
        (0..window.row).for_each(|_| generator = multiply(generator, 2));
        for distance in 0..16 {
            if window.mask >> distance & 1 == 1 {
                weights.insert(window.first + distance, weight);
            }
            weight = multiply(weight, generator);
        }
        self.rows.push((weights, sum.to_vec()));
        self.solve()
    }

    /// Returns the symbols that have become known.
    fn solve(&mut self) -> BTreeSet<u64> {
        for row in &mut self.rows {
            for (id, weight) in row.0.clone() {
                if let Some(sealed) = self.known.get(&id) {
                    add(row, weight, &([(id, 1)].into(), sealed.clone()));
                }
            }
        }
        self.rows.retain(|row| !row.0.is_empty());
        let unknowns: BTreeSet<u64> = self.rows.iter().flat_map(|row| row.0.keys().copied()).collect();
        let mut done = 0;
        for id in unknowns {
            let Some(at) = (done..self.rows.len()).find(|at| self.rows[*at].0.contains_key(&id)) else { continue };
            self.rows.swap(done, at);
            let pivot = self.rows[done].clone();
            for (at, row) in self.rows.iter_mut().enumerate() {
                if let Some(weight) = row.0.get(&id).copied().filter(|_| at != done) {
                    add(row, multiply(weight, inverse(pivot.0[&id])), &pivot);
                }
            }
            done += 1;
        }
        self.rows.truncate(done);
        let mut solved = BTreeSet::new();
        for (weights, sum) in &self.rows {
            if let (1, Some((id, weight))) = (weights.len(), weights.first_key_value()) {
                let mut symbol = (BTreeMap::new(), Vec::new());
                add(&mut symbol, inverse(*weight), &(BTreeMap::new(), sum.clone()));
                self.known.insert(*id, symbol.1);
                solved.insert(*id);
            }
        }
        self.rows.retain(|row| row.0.len() > 1);
        solved
    }

    /// Whether a symbol is known, with these bytes.
    pub(crate) fn knows(&self, id: u64, bytes: &[u8]) -> bool {
        self.known.get(&id).is_some_and(|sealed| {
            let expected = seal(id, bytes);
            sealed.starts_with(&expected) && sealed[expected.len()..].iter().all(|byte| *byte == 0)
        })
    }
}
