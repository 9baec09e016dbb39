use proptest::prelude::*;

use super::*;
use crate::Encoder;
use crate::equations::EQUATIONS_MAX;

/// A symbol whose bytes and length follow from its identifier.
fn symbol(id: u64) -> Vec<u8> {
    (0..1 + id % 40).map(|at| id.wrapping_mul(151).wrapping_add(at * at).to_le_bytes()[0]).collect()
}

fn recovered(decoder: &mut Decoder) -> Vec<u64> {
    let all = std::iter::from_fn(|| decoder.poll_recovered());
    all.map(|Recovered { id, bytes }| {
        assert_eq!(bytes, symbol(id), "symbol {id}");
        id
    })
    .collect()
}

/// Returns a repair symbol over the symbols from `first` to `last`, at most the last 16, with the weights of a row.
fn repair(first: u64, last: u64, row: u8) -> (Window, Vec<u8>) {
    let first = first.max((last + 1).saturating_sub(WINDOW_MAX as u64));
    let window = Window { first, mask: (first..=last).fold(0, |mask, id| mask | 1 << (id - first)), row };
    let mut equation = Equation::new(Vec::new());
    for (id, weight) in window.terms() {
        equation.subtract(weight, Symbol::new(id, &symbol(id), Symbol::default()).sealed());
    }
    (window, equation.sum())
}

#[test]
fn lost_symbols_are_recovered_in_any_order_of_arrival_and_once() {
    let (mut decoder, repairs) = (Decoder::default(), [repair(10, 13, 0), repair(11, 14, 1), repair(11, 14, 1)]);
    for (window, sum) in &repairs {
        decoder.handle_repair(*window, sum);
        assert_eq!(recovered(&mut decoder), []);
    }
    decoder.handle_source(10, &symbol(10));
    decoder.handle_source(13, &symbol(13));
    assert_eq!(recovered(&mut decoder), []);
    decoder.handle_source(14, &symbol(14));
    assert_eq!(recovered(&mut decoder), [11, 12]);
    for id in 10..15 {
        decoder.handle_source(id, &symbol(id));
    }
    for (window, sum) in &repairs {
        decoder.handle_repair(*window, sum);
    }
    assert_eq!(recovered(&mut decoder), []);
}

#[test]
fn a_symbol_that_is_late_leaves_an_equation_for_the_others() {
    let mut decoder = Decoder::default();
    let (window, sum) = repair(1, 3, 5);
    decoder.handle_source(2, &symbol(2));
    decoder.handle_repair(window, &sum);
    decoder.handle_source(1, &symbol(1));
    assert_eq!(recovered(&mut decoder), [3]);
}

#[test]
fn identifiers_of_both_sides_agree_modulo_2_to_the_32() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let sent = |id: u64| id + (5 << 32);
    let first = (1 << 32) - 3;
    (first..first + 6).for_each(|id| encoder.push(sent(id), &symbol(id)));
    let mut sum = Vec::new();
    let window = encoder.repair(6, &mut sum).expect("symbols are held");
    (first..first + 6).filter(|id| *id != 1 << 32).for_each(|id| decoder.handle_source(id, &symbol(id)));
    decoder.handle_repair(Window { first: window.first - (5 << 32), ..window }, &sum);
    assert_eq!(recovered(&mut decoder), [1 << 32]);
}

#[test]
fn a_symbol_that_was_known_and_is_forgotten_is_not_recovered() {
    let mut decoder = Decoder::default();
    let late = repair(1, 2, 0);
    for id in 1..2 + HELD_MAX as u64 {
        decoder.handle_source(id, &symbol(id));
    }
    decoder.handle_repair(late.0, &late.1);
    assert_eq!(recovered(&mut decoder), []);
    // The next one is held, and asked for.
    let (window, sum) = repair(2, 40, 0);
    assert_eq!(window.first, 25);
    decoder.handle_repair(window, &sum);
    (34..40).for_each(|id| decoder.handle_source(id, &symbol(id)));
    assert_eq!(recovered(&mut decoder), [40]);
}

#[test]
fn malformed_repair_symbols_are_ignored() {
    let mut decoder = Decoder::default();
    let (window, sum) = repair(1, 1, 0);
    for (window, sum) in [
        (Window { mask: 0, ..window }, sum.clone()),
        (Window { row: crate::ROWS, ..window }, sum.clone()),
        (Window { first: u64::MAX, ..window }, sum.clone()),
        (window, sum[..4].to_vec()),
        (window, [sum.clone(), vec![0; SEALED_BYTES_MAX]].concat()),
    ] {
        decoder.handle_repair(window, &sum);
        assert_eq!(recovered(&mut decoder), []);
    }
    decoder.handle_repair(window, &sum);
    assert_eq!(recovered(&mut decoder), [1]);
}

#[test]
fn a_wrong_sum_is_not_returned_and_discards_the_pending_repair_symbols() {
    let mut decoder = Decoder::default();
    let ((window, sum), (second, second_sum)) = (repair(1, 3, 0), repair(1, 3, 1));
    decoder.handle_repair(window, &sum);
    let mut forged = second_sum.clone();
    forged[7] ^= 1;
    decoder.handle_repair(second, &forged);
    decoder.handle_source(1, &symbol(1));
    assert_eq!(recovered(&mut decoder), []);
    assert!(!decoder.equations.contain(2));
    // Right ones help again.
    decoder.handle_repair(window, &sum);
    decoder.handle_repair(second, &second_sum);
    assert_eq!(recovered(&mut decoder), [2, 3]);
    // One that takes part in no other equation discards the others too.
    let ((window, sum), (single, mut forged)) = (repair(11, 13, 0), repair(15, 15, 0));
    forged[7] ^= 1;
    decoder.handle_repair(window, &sum);
    assert!(decoder.equations.contain(12));
    decoder.handle_repair(single, &forged);
    assert!(recovered(&mut decoder).is_empty() && !decoder.equations.contain(12));
}

#[test]
fn computation_is_bounded_by_the_bytes_received() {
    let mut decoder = Decoder::default();
    let (mut paid, mut ignored) = (0, 0);
    let sum = vec![7; SEALED_BYTES_MAX];
    for id in 0..16 {
        decoder.handle_source(1_000 + 2 * id, &sum[SEAL_BYTES..]);
    }
    for round in 0..20_000 {
        let bound = 16 * SEALED_BYTES_MAX + decoder.equations.cost_bytes(sum.len());
        let before = CREDIT_BYTES_MAX.min(decoder.credit_bytes + sum.len());
        let window = Window { first: 1_000 + round % 32, mask: u16::MAX, row: (round % 7) as u8 };
        decoder.handle_repair(window, &sum);
        let work = before - decoder.credit_bytes;
        assert!(work <= bound, "{work} {bound}");
        paid += work;
        ignored += usize::from(work == 0);
    }
    assert!(paid <= CREDIT_BYTES_MAX + 20_000 * sum.len());
    assert!((2_000..18_000).contains(&ignored), "{ignored}");
    // Without credit a late symbol is learned, and its equations are discarded.
    decoder.credit_bytes = 0;
    let late = decoder.equations.any().expect("some are pending");
    decoder.handle_source(late, b"x");
    assert!(!decoder.equations.contain(late));
}

/// Bytes allocated by a decoder.
fn memory(decoder: &Decoder) -> usize {
    let held: usize = decoder.held.iter().map(Symbol::capacity).sum();
    held + decoder.spare.capacity() + decoder.equations.capacity()
}

proptest! {
    #[test]
    fn neither_random_nor_changed_repair_symbols_give_a_wrong_symbol_or_exceed_the_memory(
        inputs in prop::collection::vec((any::<u8>(), 0..60_u64, any::<u16>(), 0..8_u8, any::<prop::sample::Index>()), 1..200),
        long in 0..3_usize,
    ) {
        let mut decoder = Decoder::default();
        let mut known = std::collections::BTreeSet::new();
        for (kind, first, mask, row, at) in inputs {
            match kind % 4 {
                0 => {
                    decoder.handle_source(first, &symbol(first));
                    known.insert(first);
                }
                1 => {
                    let (window, sum) = repair(first, first + u64::from(mask % 16), row);
                    decoder.handle_repair(window, &sum);
                }
                2 => {
                    let (window, mut sum) = repair(first, first + u64::from(mask % 16), row);
                    let at = at.index(sum.len());
                    sum[at] ^= 1 << (kind >> 5);
                    decoder.handle_repair(window, &sum);
                }
                _ => {
                    let bytes = if at.index(8) < long { SEALED_BYTES_MAX } else { 5 + at.index(40) };
                    let sum: Vec<u8> = (0..bytes).map(|at| (at as u64 * first).to_le_bytes()[0] ^ kind).collect();
                    decoder.handle_repair(Window { first, mask: mask | 1, row }, &sum);
                }
            }
            for id in recovered(&mut decoder) {
                prop_assert!(known.insert(id), "symbol {id} was known");
            }
            prop_assert!(decoder.held.len() <= HELD_MAX && decoder.held.iter().map(|symbol| symbol.id).is_sorted());
            prop_assert!(memory(&decoder) <= (HELD_MAX + 1 + 2 * EQUATIONS_MAX) * SEALED_BYTES_MAX);
            prop_assert_eq!(decoder.equations.take_work_bytes(), 0);
        }
    }
}
