//! Reassembly of IP packets (RFC 791 §3.2, RFC 8200 §4.5) from fragments in any order.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use festina_units::{Duration, Instant};

/// Maximum number of incomplete packets; the oldest is given up. No packet is longer than 64 KiB, so they take 16 MiB
/// at most.
const PARTIAL_MAX: usize = 256;
const PACKET_BYTES_MAX: usize = 65_535;
/// An incomplete packet is given up after this time (RFC 8200 §4.5).
const PARTIAL_TIME: Duration = Duration::from_secs(60);
/// Number of complete packets that are remembered, for fragments that the capture contains twice within this time.
const COMPLETE_MAX: usize = 64;
const TWICE_TIME: Duration = Duration::from_millis(5);

/// The place of a fragment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) identification: u32,
    /// In bytes.
    pub(crate) offset: usize,
    pub(crate) is_last: bool,
}

impl Fragment {
    /// Returns whether nothing of the packet is missing.
    pub(super) const fn is_whole(self) -> bool {
        self.offset == 0 && self.is_last
    }
}

/// The identity of the packet to which fragments belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) identification: u32,
}

/// The result of adding a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The packet is complete: its length, and its beginning as far as it was captured without a gap.
    Complete { len: usize, bytes: Vec<u8> },
    /// Others are missing.
    Incomplete,
    /// It is part of a packet that is complete already, or it is invalid.
    Superfluous,
}

/// The incomplete packets.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    partial: BTreeMap<Key, Partial>,
    complete: VecDeque<(Key, Instant)>,
    given_up: u64,
}

#[derive(Debug)]
struct Partial {
    began_at: Instant,
    /// The length and the captured bytes of each fragment, by offset.
    pieces: BTreeMap<usize, (usize, Vec<u8>)>,
    piece_bytes: usize,
    len: Option<usize>,
}

impl Fragments {
    /// Adds a fragment of `len` bytes; `bytes` were captured.
    pub(super) fn add(&mut self, key: Key, fragment: Fragment, len: usize, bytes: &[u8], at: Instant) -> Added {
        let end = fragment.offset.saturating_add(len);
        let is_known =
            |(known, done_at): &(Key, Instant)| *known == key && at.saturating_duration_since(*done_at) <= TWICE_TIME;
        if end > PACKET_BYTES_MAX || self.complete.iter().any(is_known) {
            return Added::Superfluous;
        }
        self.make_room(key, at);
        let partial = self.partial.entry(key).or_insert_with(|| Partial::new(at));
        if let Some(complete) = partial.add(fragment, len, bytes) {
            self.partial.remove(&key);
            if self.complete.len() == COMPLETE_MAX {
                self.complete.pop_front();
            }
            self.complete.push_back((key, at));
            return complete;
        }
        Added::Incomplete
    }

    /// Gives up this packet if it is too old, and the oldest if there are too many.
    fn make_room(&mut self, key: Key, at: Instant) {
        let is_old = |partial: &Partial| at.saturating_duration_since(partial.began_at) > PARTIAL_TIME;
        match self.partial.get(&key) {
            Some(partial) if is_old(partial) => self.give_up(key),
            None if self.partial.len() >= PARTIAL_MAX => {
                let oldest = self.partial.iter().min_by_key(|(_, partial)| partial.began_at).map(|(key, _)| *key);
                oldest.into_iter().for_each(|oldest| self.give_up(oldest));
            }
            _ => {}
        }
    }

    fn give_up(&mut self, key: Key) {
        self.given_up += self.partial.remove(&key).map_or(0, |partial| partial.pieces.len() as u64);
    }

    /// Gives all of them up: the capture has ended.
    pub(super) fn finish(&mut self) {
        self.given_up +=
            std::mem::take(&mut self.partial).values().map(|partial| partial.pieces.len() as u64).sum::<u64>();
    }

    /// Fragments of packets that were given up.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }
}

impl Partial {
    fn new(began_at: Instant) -> Self {
        Self { began_at, pieces: BTreeMap::new(), piece_bytes: 0, len: None }
    }

    fn add(&mut self, fragment: Fragment, len: usize, bytes: &[u8]) -> Option<Added> {
        if fragment.is_last {
            self.len.get_or_insert(fragment.offset + len);
        }
        self.pieces.entry(fragment.offset).or_insert_with(|| {
            self.piece_bytes += len;
            (len, bytes.to_vec())
        });
        let len = self.len.filter(|len| self.piece_bytes >= *len)?;
        let (mut covered, mut is_whole, mut bytes) = (0, true, Vec::with_capacity(len));
        for (&offset, (piece_len, captured)) in &self.pieces {
            if offset > covered {
                return None;
            }
            if offset + piece_len > covered {
                // Of fragments that overlap, the first counts.
                let new = captured.get(covered - offset..).unwrap_or_default();
                if is_whole {
                    bytes.extend_from_slice(new);
                }
                covered = offset + piece_len;
                is_whole &= bytes.len() == covered;
            }
        }
        bytes.truncate(len);
        (covered >= len).then_some(Added::Complete { len, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(identification: u32) -> Key {
        Key { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), protocol: 6, identification }
    }

    fn fragment(offset: usize, is_last: bool) -> Fragment {
        Fragment { identification: 1, offset, is_last }
    }

    #[test]
    fn fragments_in_any_order_make_a_packet_of_which_the_captured_beginning_is_kept() {
        let pieces = [(0, false, 8, &[1; 8][..]), (8, false, 8, &[2; 8]), (16, true, 4, &[3; 2])];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
            let mut fragments = Fragments::default();
            let added = order.map(|index| {
                let (offset, is_last, len, bytes) = pieces[index];
                fragments.add(key(1), fragment(offset, is_last), len, bytes, Instant::ZERO)
            });
            let bytes = [[1; 8].as_slice(), &[2; 8], &[3; 2]].concat();
            assert_eq!(added, [Added::Incomplete, Added::Incomplete, Added::Complete { len: 20, bytes }], "{order:?}");
            let again = fragments.add(key(1), fragment(8, false), 8, &[2; 8], Instant::ZERO);
            assert_eq!(again, Added::Superfluous, "seen at another place");
            let next = fragments.add(key(1), fragment(8, false), 8, &[2; 8], Instant::from_millis(6));
            assert_eq!(next, Added::Incomplete, "the number is used again");
        }
    }

    #[test]
    fn packets_with_gaps_are_given_up_and_counted() {
        let mut fragments = Fragments::default();
        for number in 0..1_000 {
            let at = Instant::from_micros(number.into());
            assert_eq!(fragments.add(key(number), fragment(0, false), 8, &[0; 8], at), Added::Incomplete);
        }
        assert_eq!(fragments.given_up(), 1_000 - PARTIAL_MAX as u64);
        let late = Instant::from_secs(61);
        assert_eq!(fragments.add(key(999), fragment(8, true), 8, &[0; 8], late), Added::Incomplete, "too old to fit");
        fragments.finish();
        assert_eq!(fragments.given_up(), 1_001);
        assert_eq!(fragments.add(key(1), fragment(65_528, true), 8, &[0; 8], late), Added::Superfluous, "too long");
    }
}
