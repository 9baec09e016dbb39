//! The table of the clients of a relay.

use std::collections::BTreeMap;

/// A bounded map that strangers may fill: a new entry replaces the one that has been unused for longest.
///
/// No entry is protected from newcomers. A table that protects the entries in use lets all newcomers share the seats that are left, where each one
/// evicts the one before it. Here, an entry stays for as long as fewer than `count_max` others are used after it.
#[derive(Debug)]
pub struct Recent<K, V> {
    entries: BTreeMap<K, (u64, V)>,
    /// The keys by the number of their latest use.
    by_use: BTreeMap<u64, K>,
    use_count: u64,
    count_max: usize,
}

impl<K: Copy + Ord, V> Recent<K, V> {
    /// Creates an empty table for at most `count_max` entries, but at least one.
    pub const fn new(count_max: usize) -> Self {
        Self { entries: BTreeMap::new(), by_use: BTreeMap::new(), use_count: 0, count_max }
    }

    /// Returns an entry and counts that as a use.
    pub fn touch(&mut self, key: K) -> Option<&mut V> {
        let (used, value) = self.entries.get_mut(&key)?;
        self.by_use.remove(&*used);
        *used = self.use_count;
        self.by_use.insert(self.use_count, key);
        self.use_count += 1;
        Some(value)
    }

    /// Adds or replaces an entry. Returns the entry that made room.
    pub fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        self.remove(key);
        let evicted = if self.entries.len() >= self.count_max { self.evict() } else { None };
        self.entries.insert(key, (self.use_count, value));
        self.by_use.insert(self.use_count, key);
        self.use_count += 1;
        evicted
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let (used, value) = self.entries.remove(&key)?;
        self.by_use.remove(&used);
        Some(value)
    }

    /// Removes the entry that has been unused for longest.
    pub fn evict(&mut self) -> Option<(K, V)> {
        let (_, key) = self.by_use.pop_first()?;
        let (_, value) = self.entries.remove(&key)?;
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn a_new_entry_replaces_the_one_unused_for_longest() {
        let mut table = Recent::new(2);
        assert_eq!(table.insert(1, 'a'), None);
        assert_eq!(table.insert(2, 'b'), None);
        assert_eq!(table.touch(1).copied(), Some('a'));
        assert_eq!(table.insert(3, 'c'), Some((2, 'b')));
        assert_eq!(table.touch(2), None);
        assert_eq!(table.insert(3, 'd'), None, "it replaces itself");
        assert_eq!(table.insert(4, 'e'), Some((1, 'a')));
        assert_eq!(table.remove(4), Some('e'));
        assert_eq!(table.evict(), Some((3, 'd')));
        assert_eq!(table.evict(), None);
        assert!(table.entries.is_empty() && table.by_use.is_empty());
    }

    /// A resolver asks from a new port each time, and the answer comes when the next ports have asked as well. The answer is a use.
    #[test]
    fn each_of_ten_thousand_newcomers_keeps_its_seat_until_its_answer_comes() {
        const SEATS: usize = 100;
        // Both the question and the answer of each port are uses.
        for answered_after in [1, 3, SEATS / 2 - 1] {
            let (mut table, mut waiting) = (Recent::new(SEATS), VecDeque::new());
            for port in 0..10_000 {
                table.insert(port, ());
                waiting.push_back(port);
                if waiting.len() > answered_after {
                    let answered = waiting.pop_front().expect("it waits");
                    assert!(table.touch(answered).is_some(), "port {answered} is forgotten before its answer");
                }
            }
            assert_eq!(table.entries.len(), SEATS);
        }
    }
}
