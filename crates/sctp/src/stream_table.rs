//! One small state per stream without a fixed cost per stream: an association that uses three of its 65,535 streams pays
//! for three.

use crate::wire::StreamId;

/// A stream that lies at most this far above the flat part extends it.
const REACH: usize = 8;

/// Streams for which the flat part has room beyond the highest one in it, at least.
const RESERVE_MIN: usize = 4;

/// The most streams that are looked up by search; when there are more, all of them move to the flat part.
const SPARSE_MAX: usize = 4_096;

/// Streams that can exist.
const STREAMS_MAX: usize = 1 << 16;

/// A table from stream to `T`. Streams from 0 on lie in a flat part, where a look-up is one index operation, since applications number their streams
/// from 0. Others lie in a short sorted list and are found by binary search.
///
/// Memory for a `T` of 2 bytes, regardless of the peer: at most 24 bytes per stream in use, 16 KiB for up to 4,096 streams that lie 9 or more apart,
/// and 128 KiB for all 65,536.
#[derive(Debug, Default)]
pub(crate) struct StreamTable<T> {
    flat: Box<[T]>,
    /// Ascending, and all above the flat part. Boxed, since most associations have none.
    #[expect(clippy::box_collection, reason = "24 bytes in every association would hold nothing")]
    sparse: Option<Box<Vec<(u16, T)>>>,
}

impl<T: Copy + Default + PartialEq> StreamTable<T> {
    /// An empty table, which owns no memory.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The state of a stream; made by default on first use.
    #[inline]
    pub(crate) fn get_mut(&mut self, stream: StreamId) -> &mut T {
        let index = usize::from(stream.0);
        if index < self.flat.len() { &mut self.flat[index] } else { self.get_mut_above(stream.0) }
    }

    /// The state of a stream, or the default one if it was never used.
    pub(crate) fn get(&self, stream: StreamId) -> T {
        let listed = || {
            let sparse = self.sparse.as_ref()?;
            let place = sparse.binary_search_by_key(&stream.0, |&(stream, _)| stream).ok()?;
            sparse.get(place).map(|&(_, state)| state)
        };
        self.flat.get(usize::from(stream.0)).copied().or_else(listed).unwrap_or_default()
    }

    /// Whether the stream lies in the flat part, where touching it allocates nothing.
    #[inline]
    pub(crate) fn is_flat(&self, stream: StreamId) -> bool {
        usize::from(stream.0) < self.flat.len()
    }

    /// Allocated memory of the table.
    pub(crate) fn held_bytes(&self) -> usize {
        let sparse = |list: &Vec<(u16, T)>| size_of_val(list) + list.capacity() * size_of::<(u16, T)>();
        size_of_val(&*self.flat) + self.sparse.as_deref().map_or(0, sparse)
    }

    /// Returns the maximum growth of the table when `streams` more of the first `streams_max` are used.
    pub(crate) fn growth_bytes_max(&self, streams: usize, streams_max: usize) -> usize {
        let listed = self.sparse.as_deref().map_or(0, Vec::len);
        let held_bytes = self.held_bytes();
        let growth_bytes = if listed + streams < SPARSE_MAX {
            held_bytes + 12 * size_of::<T>() * (streams + RESERVE_MIN)
        } else {
            STREAMS_MAX * size_of::<T>()
        };
        growth_bytes.min(Self::held_bytes_max(streams_max).saturating_sub(held_bytes))
    }

    /// Maximum memory of the table when only the first `streams_max` streams are used: all in the flat part with its reserve, and as many in the
    /// list, of twice its length, as can lie out of each other's reach.
    fn held_bytes_max(streams_max: usize) -> usize {
        let flat = (streams_max + (streams_max / 4).max(RESERVE_MIN)).min(STREAMS_MAX);
        let listed = (2 * (streams_max / REACH + 1)).clamp(4, SPARSE_MAX);
        flat * size_of::<T>() + listed * size_of::<(u16, T)>() + size_of::<Vec<(u16, T)>>()
    }

    /// Forgets every stream and gives the memory back.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    #[cold]
    fn get_mut_above(&mut self, stream: u16) -> &mut T {
        let index = usize::from(stream);
        if index >= self.flat.len() + REACH {
            let sparse = self.sparse.get_or_insert_default();
            match sparse.binary_search_by_key(&stream, |&(stream, _)| stream) {
                Ok(place) => return &mut self.sparse.get_or_insert_default()[place].1,
                Err(place) if sparse.len() < SPARSE_MAX => {
                    sparse.insert(place, (stream, T::default()));
                    return &mut self.sparse.get_or_insert_default()[place].1;
                }
                Err(_) => {}
            }
        }
        self.flatten(index);
        &mut self.flat[index]
    }

    /// Extends the flat part to this index, and as far as listed streams are within reach. A full list moves as a whole.
    fn flatten(&mut self, index: usize) {
        let mut sparse = self.sparse.take().unwrap_or_default();
        let is_full = sparse.len() == SPARSE_MAX;
        let mut end = index + 1;
        let mut moved = 0;
        for &(stream, _) in &*sparse {
            let stream = usize::from(stream);
            if stream >= end + REACH && !is_full {
                break;
            }
            end = end.max(stream + 1);
            moved += 1;
        }
        let end_max = sparse.get(moved).map_or(STREAMS_MAX, |&(stream, _)| usize::from(stream) - REACH);
        let len = (end + self.reserve()).min(end_max);
        let mut flat = Vec::with_capacity(len);
        flat.extend_from_slice(&self.flat);
        flat.resize(len, T::default());
        for (stream, state) in sparse.drain(..moved) {
            flat[usize::from(stream)] = state;
        }
        self.flat = flat.into_boxed_slice();
        self.sparse = (!sparse.is_empty()).then_some(sparse);
    }

    /// Returns the spare room of the flat part: in proportion to the streams in use, so that a peer cannot make it grow by skipping some.
    fn reserve(&self) -> usize {
        let used = self.flat.iter().filter(|state| **state != T::default()).count();
        (used / 4).max(RESERVE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn used(streams: impl IntoIterator<Item = u16>) -> StreamTable<u16> {
        let mut table = StreamTable::new();
        for stream in streams {
            *table.get_mut(StreamId(stream)) += 1;
        }
        table
    }

    #[test]
    fn an_untouched_table_owns_no_memory() {
        assert_eq!(StreamTable::<u16>::new().held_bytes(), 0);
    }

    #[test]
    fn three_streams_cost_a_few_bytes_wherever_they_lie() {
        assert!(used([0, 1, 2]).held_bytes() <= 16);
        assert!(used([0, 30_000, u16::MAX]).held_bytes() <= 64);
    }

    #[test]
    fn no_choice_of_streams_costs_more_than_24_bytes_each_or_128_kib() {
        for step in [1, 2, 7, 8, 9, 15, 16, 17, 64, 1_000] {
            for descending in [false, true] {
                let mut table = StreamTable::<u16>::new();
                for count in 0..=usize::from(u16::MAX) / step {
                    let stream = u16::try_from(count * step).unwrap();
                    let (before_bytes, growth_bytes) = (table.held_bytes(), table.growth_bytes_max(1, STREAMS_MAX));
                    *table.get_mut(StreamId(if descending { u16::MAX - stream } else { stream })) += 1;
                    let held_bytes = table.held_bytes();
                    assert!(held_bytes <= 128 << 10);
                    assert!(count >= SPARSE_MAX || held_bytes <= 64 + 24 * (count + 1), "{held_bytes}, step {step}");
                    assert!(held_bytes <= before_bytes + growth_bytes, "{held_bytes}, step {step}");
                }
            }
        }
    }

    #[test]
    fn a_table_of_few_streams_has_a_bound_however_they_are_used() {
        for streams_max in [1, 4, 5, 8, 9, 40, 1_000, 8_393] {
            for step in [1, 2, 7, 8, 9, 10, 64, 1_000] {
                let mut table = StreamTable::<u32>::new();
                let sparse = (0..streams_max).step_by(step);
                for stream in sparse.clone().chain(sparse.rev()).chain(0..streams_max) {
                    let (before_bytes, growth_bytes) = (table.held_bytes(), table.growth_bytes_max(1, streams_max));
                    *table.get_mut(StreamId(u16::try_from(stream).unwrap())) += 1;
                    assert!(table.held_bytes() <= before_bytes + growth_bytes, "{streams_max}, {step}: {stream}");
                }
            }
        }
    }

    #[test]
    fn every_sixteenth_stream_costs_16_kib() {
        assert_eq!(used((0..=u16::MAX).step_by(16)).held_bytes(), (16 << 10) + 10 + 24);
    }

    #[test]
    fn streams_in_a_row_are_found_by_index_though_one_high_stream_is_in_use() {
        let table = used([50_000].into_iter().chain(0..1_000));
        assert_eq!(table.sparse.map(|sparse| sparse.len()), Some(1));
        assert!((1_000..1_200).contains(&table.flat.len()));
    }

    #[test]
    fn clearing_forgets_all_streams_and_gives_the_memory_back() {
        let mut table = used([3, 40_000]);
        table.clear();
        assert_eq!(table.held_bytes(), 0);
        assert_eq!(*table.get_mut(StreamId(3)), 0);
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_a_map(
            streams in vec(prop_oneof![0..40u16, 0..5_000u16, any::<u16>()], 0..9_000)
        ) {
            let mut table = StreamTable::<u16>::new();
            let mut map = BTreeMap::<u16, u16>::new();
            for stream in streams {
                *table.get_mut(StreamId(stream)) += 1;
                *map.entry(stream).or_default() += 1;
            }
            for (stream, count) in map {
                prop_assert_eq!(table.get(StreamId(stream)), count);
                prop_assert_eq!(*table.get_mut(StreamId(stream)), count);
            }
        }
    }
}
