//! Reassembly of IP packets (RFC 791 §3.2, RFC 8200 §4.5) from fragments in any order.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;

use festina_units::{Duration, Instant};

/// Maximum number of incomplete packets; the oldest is given up. Each takes at most 128 KiB, and up to 256 KiB more for its gaps if every second
/// block of 8 bytes is missing: 96 MiB in all.
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
    /// It adds nothing to its packet, which may be complete already.
    Superfluous,
    /// No packet is that long.
    Invalid,
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
    fragments: u64,
    /// The packet as far as it was captured, with zeros in gaps.
    bytes: Vec<u8>,
    /// The places of the fragments that were seen, and of the bytes that were captured: in order, apart from each other.
    seen: Vec<Range<usize>>,
    captured: Vec<Range<usize>>,
    len: Option<usize>,
}

impl Fragments {
    /// Adds a fragment of `len` bytes; `bytes` were captured.
    pub(super) fn add(&mut self, key: Key, fragment: Fragment, len: usize, bytes: &[u8], at: Instant) -> Added {
        if fragment.offset.saturating_add(len) > PACKET_BYTES_MAX {
            return Added::Invalid;
        }
        let is_known =
            |(known, done_at): &(Key, Instant)| *known == key && at.saturating_duration_since(*done_at) <= TWICE_TIME;
        if self.complete.iter().any(is_known) {
            return Added::Superfluous;
        }
        self.make_room(key, at);
        let partial = self.partial.entry(key).or_insert_with(|| Partial::new(at));
        let added = partial.add(fragment, len, bytes);
        if matches!(added, Added::Complete { .. }) {
            self.partial.remove(&key);
            if self.complete.len() == COMPLETE_MAX {
                self.complete.pop_front();
            }
            self.complete.push_back((key, at));
        }
        added
    }

    /// Gives up packets that are too old, and the oldest if there are too many.
    fn make_room(&mut self, key: Key, at: Instant) {
        let given_up = &mut self.given_up;
        self.partial.retain(|_, partial| {
            let is_old = at.saturating_duration_since(partial.began_at) > PARTIAL_TIME;
            *given_up += if is_old { partial.fragments } else { 0 };
            !is_old
        });
        if self.partial.len() >= PARTIAL_MAX && !self.partial.contains_key(&key) {
            let oldest = self.partial.iter().min_by_key(|(_, partial)| partial.began_at).map(|(key, _)| *key);
            let oldest = oldest.and_then(|oldest| self.partial.remove(&oldest));
            self.given_up += oldest.map_or(0, |oldest| oldest.fragments);
        }
    }

    /// Gives all of them up: the capture has ended.
    pub(super) fn finish(&mut self) {
        self.given_up += std::mem::take(&mut self.partial).values().map(|partial| partial.fragments).sum::<u64>();
    }

    /// Fragments of packets that were given up.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }
}

impl Partial {
    fn new(began_at: Instant) -> Self {
        Self { began_at, fragments: 0, bytes: Vec::new(), seen: Vec::new(), captured: Vec::new(), len: None }
    }

    fn add(&mut self, fragment: Fragment, len: usize, bytes: &[u8]) -> Added {
        let Fragment { offset, is_last, .. } = fragment;
        let end = offset + len;
        let is_new = cover(&mut self.seen, offset..end, |_| {}) || (is_last && self.len.is_none());
        if !is_new {
            return Added::Superfluous;
        }
        self.fragments += 1;
        if is_last {
            self.len.get_or_insert(end);
        }
        let captured_end = offset + bytes.len().min(len);
        if self.bytes.len() < captured_end {
            self.bytes.resize(captured_end, 0);
        }
        let whole = &mut self.bytes;
        cover(&mut self.captured, offset..captured_end, |gap| {
            // Of fragments that overlap, the first counts.
            let new = bytes.get(gap.start - offset..gap.end - offset).unwrap_or_default();
            whole.get_mut(gap).unwrap_or_default().copy_from_slice(new);
        });
        let reach =
            |ranges: &[Range<usize>]| ranges.first().filter(|first| first.start == 0).map_or(0, |first| first.end);
        let Some(len) = self.len.filter(|len| reach(&self.seen) >= *len) else { return Added::Incomplete };
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(reach(&self.captured).min(len));
        Added::Complete { len, bytes }
    }
}

/// Adds a range to others that are in order and apart from each other, and keeps them so. `gap` gets the parts that none of them covered. Returns
/// whether there are any.
fn cover(ranges: &mut Vec<Range<usize>>, new: Range<usize>, mut gap: impl FnMut(Range<usize>)) -> bool {
    let from = ranges.partition_point(|known| known.end < new.start);
    let to = ranges.partition_point(|known| known.start <= new.end).max(from);
    let (mut covered, mut is_new, mut merged) = (new.start, false, new.clone());
    let known = ranges.get(from..to).unwrap_or_default().iter().cloned();
    for known in known.chain(std::iter::once(new.end..new.end)) {
        if covered < known.start {
            is_new = true;
            gap(covered..known.start);
        }
        covered = covered.max(known.end);
        merged = merged.start.min(known.start)..merged.end.max(known.end);
    }
    if is_new {
        ranges.splice(from..to, [merged]);
    }
    is_new
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
        assert_eq!(fragments.given_up(), 1_000, "their keys need not come again");
        fragments.finish();
        assert_eq!(fragments.given_up(), 1_001);
        assert_eq!(fragments.add(key(1), fragment(65_528, true), 8, &[0; 8], late), Added::Invalid, "too long");
    }

    #[test]
    fn overlapping_fragments_add_only_their_new_bytes() {
        let mut fragments = Fragments::default();
        let mut add = |offset, is_last, bytes: &[u8]| {
            fragments.add(key(1), fragment(offset, is_last), bytes.len(), bytes, Instant::ZERO)
        };
        assert_eq!(add(8, false, &[1; 8]), Added::Incomplete);
        assert_eq!(add(24, false, &[2; 8]), Added::Incomplete);
        assert_eq!(add(8, false, &[3; 8]), Added::Superfluous, "nothing is new");
        assert_eq!(add(0, false, &[4; 40]), Added::Incomplete);
        let bytes = [[4; 8], [1; 8], [4; 8], [2; 8], [4; 8], [5; 8]].concat();
        assert_eq!(add(32, true, &[5; 16]), Added::Complete { len: 48, bytes });
    }

    #[test]
    fn a_packet_takes_no_more_than_its_length_however_its_fragments_overlap() {
        let mut fragments = Fragments::default();
        let bytes = vec![0; 65_000];
        for offset in (8..800).step_by(8).rev() {
            let len = 65_000 - offset;
            assert_eq!(
                fragments.add(key(1), fragment(offset, false), len, &bytes[..len], Instant::ZERO),
                Added::Incomplete
            );
        }
        let held: usize = fragments.partial.values().map(|partial| partial.bytes.len()).sum();
        assert!(held <= PACKET_BYTES_MAX, "{held} bytes");
        fragments.finish();
        assert_eq!(fragments.given_up(), 99);
    }
}
