//! Repair symbols that are lost, late, repeated, changed or invented: the decoder returns only symbols that were sent, each once.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use festina_code::{Decoder, Encoder, Window};

/// Inputs with more operations are cut.
const OPERATIONS_MAX: usize = 400;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// Sends a symbol of this length in units of 6 bytes, and delivers it if it is not lost.
    Send { length: u8, gap: u8, lost: bool },
    /// Makes a repair symbol over the last symbols, and keeps it.
    Protect { count: u8 },
    /// Leaves a symbol out of later repair symbols.
    Forget { back: u8 },
    /// Delivers a symbol that was sent.
    Deliver { back: u8 },
    /// Delivers a repair symbol that was kept.
    Repair { back: u8 },
    /// Delivers one with a changed byte, length or window.
    Change { back: u8, at: u16, by: u8, row: u8, mask: u16, shift: i8 },
    /// Delivers one that was invented.
    Invent { first: i16, mask: u16, row: u8, byte: u8, length: u16 },
}

/// The identifier of the first symbol, close to where 32 bits end.
const FIRST: u64 = (1 << 32) - 8;

#[derive(Default)]
struct World {
    encoder: Encoder,
    decoder: Decoder,
    sent: Vec<(u64, Vec<u8>)>,
    kept: Vec<(Window, Vec<u8>)>,
    known: BTreeSet<u64>,
}

impl World {
    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Send { length, gap, lost } => {
                let id = self.sent.last().map_or(FIRST, |(last, _)| last + 1 + u64::from(gap % 4));
                let salt = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                let bytes: Vec<u8> =
                    (0..6 * usize::from(length)).map(|at| salt[at % 8].wrapping_add((at / 8) as u8)).collect();
                self.encoder.push(id, &bytes);
                self.sent.push((id, bytes));
                if !lost {
                    self.deliver(self.sent.len() - 1);
                }
            }
            Operation::Protect { count } => {
                let mut sum = Vec::new();
                if let Some(window) = self.encoder.repair(usize::from(count % 20), &mut sum) {
                    self.kept.push((window, sum));
                }
            }
            Operation::Forget { back } => {
                if let Some((id, _)) = at(&self.sent, back).and_then(|at| self.sent.get(at)) {
                    self.encoder.forget(*id);
                }
            }
            Operation::Deliver { back } => {
                if let Some(at) = at(&self.sent, back) {
                    self.deliver(at);
                }
            }
            Operation::Repair { back } => {
                if let Some((window, sum)) = at(&self.kept, back).and_then(|at| self.kept.get(at)) {
                    self.decoder.handle_repair(*window, sum);
                }
            }
            Operation::Change { back, at: place, by, row, mask, shift } => {
                if let Some((window, mut sum)) = at(&self.kept, back).and_then(|at| self.kept.get(at)).cloned() {
                    let place = usize::from(place) % (sum.len() + 1);
                    match sum.get_mut(place) {
                        Some(byte) => *byte ^= by,
                        None => sum.truncate(place.saturating_sub(by.into())),
                    }
                    let first = window.first.wrapping_add_signed(shift.into());
                    let window = Window { first, mask: window.mask ^ mask, row: window.row ^ row };
                    self.decoder.handle_repair(window, &sum);
                }
            }
            Operation::Invent { first, mask, row, byte, length } => {
                let last = self.sent.last().map_or(FIRST, |(last, _)| *last);
                let window = Window { first: last.wrapping_add_signed(first.into()), mask, row: row % 9 };
                self.decoder.handle_repair(window, &vec![byte; usize::from(length % 1_600)]);
            }
        }
    }

    fn deliver(&mut self, at: usize) {
        let (id, bytes) = &self.sent[at];
        self.decoder.handle_source(*id, bytes);
        self.known.insert(*id);
    }
}

/// The place of the element that lies this far before the last.
fn at<T>(list: &[T], back: u8) -> Option<usize> {
    list.len().checked_sub(1 + usize::from(back))
}

/// Runs one input.
///
/// # Panics
/// If an invariant is broken.
pub fn run(data: &[u8]) {
    let Some(operations) = crate::read::<Vec<Operation>>(data) else { return };
    let mut world = World::default();
    for operation in operations.iter().take(OPERATIONS_MAX) {
        world.apply(operation);
        while let Some(recovered) = world.decoder.poll_recovered() {
            let sent = world.sent.iter().find(|(id, _)| *id == recovered.id);
            assert_eq!(sent.map(|(_, bytes)| bytes), Some(&recovered.bytes), "symbol {}", recovered.id);
            assert!(world.known.insert(recovered.id), "symbol {} was known", recovered.id);
        }
    }
}
