//! One small state per stream without a fixed cost per stream: an association that uses three of its 65,535 streams pays
//! for three.

use crate::wire::StreamId;

/// Entries that are allocated together: neighbours, since applications number their streams from 0.
const PAGE_ENTRIES: usize = 16;

/// A table from stream to `T`, allocated page by page on first use. A look-up is two index operations.
///
/// A peer can make it grow to at most 4,096 page slots and as many pages, by using every stream.
#[derive(Debug)]
pub(crate) struct StreamTable<T> {
    pages: Vec<Option<Box<[T; PAGE_ENTRIES]>>>,
}

impl<T: Default> StreamTable<T> {
    /// An empty table, which owns no memory.
    pub(crate) const fn new() -> Self {
        Self { pages: Vec::new() }
    }

    /// The state of a stream, if its page was ever touched.
    #[cfg(test)]
    pub(crate) fn get(&self, stream: StreamId) -> Option<&T> {
        let (page, entry) = place(stream);
        self.pages.get(page)?.as_ref()?.get(entry)
    }

    /// The state of a stream; made by default on first use.
    #[inline]
    pub(crate) fn get_mut(&mut self, stream: StreamId) -> &mut T {
        let (page, entry) = place(stream);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(Box::default);
        &mut page[entry]
    }

    /// Forgets every stream and gives the memory back.
    pub(crate) fn clear(&mut self) {
        self.pages = Vec::new();
    }
}

impl<T: Default> Default for StreamTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

fn place(stream: StreamId) -> (usize, usize) {
    let index = usize::from(stream.0);
    (index / PAGE_ENTRIES, index % PAGE_ENTRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(table: &StreamTable<u16>) -> usize {
        table.pages.iter().flatten().count()
    }

    #[test]
    fn an_untouched_table_owns_no_memory() {
        assert_eq!(StreamTable::<u16>::new().pages.capacity(), 0);
    }

    #[test]
    fn the_first_touch_makes_the_default_state_and_later_ones_find_it_changed() {
        let mut table = StreamTable::<u16>::new();
        *table.get_mut(StreamId(7)) += 3;
        assert_eq!(*table.get_mut(StreamId(7)), 3);
        assert_eq!(*table.get_mut(StreamId(8)), 0, "same page");
        assert_eq!(pages(&table), 1);
        assert_eq!(*table.get_mut(StreamId(16)), 0, "next page");
        assert_eq!(pages(&table), 2);
    }

    #[test]
    fn the_lowest_and_the_highest_stream_live_side_by_side_and_only_their_pages_are_allocated() {
        let mut table = StreamTable::<u16>::new();
        *table.get_mut(StreamId(u16::MAX)) = 9;
        *table.get_mut(StreamId(0)) = 1;
        assert_eq!((*table.get_mut(StreamId(0)), *table.get_mut(StreamId(u16::MAX))), (1, 9));
        assert_eq!(pages(&table), 2);
    }

    #[test]
    fn clearing_forgets_all_streams() {
        let mut table = StreamTable::<u16>::new();
        *table.get_mut(StreamId(3)) = 5;
        table.clear();
        assert_eq!(pages(&table), 0);
        assert_eq!(*table.get_mut(StreamId(3)), 0);
    }
}
