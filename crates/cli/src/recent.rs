//! A table that strangers may fill: a new entry replaces the least valuable one.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// An entry that was not used for this long is the first to go. RFC 4787 §4.3 recommends five minutes for UDP mappings.
pub(crate) const IDLE_TIME: Duration = Duration::from_secs(300);

/// A bounded map whose least valuable entry is replaced by a new one: one that was idle for [`IDLE_TIME`], else one that was used only once,
/// else any; among them the one unused for longest. So a flood of strangers evicts other strangers first.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    count_max: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    used_at: Instant,
    was_used_again: bool,
}

impl<K: Copy + Ord, V> Recent<K, V> {
    /// Creates an empty table for at most `count_max` entries.
    pub(crate) const fn new(count_max: usize) -> Self {
        Self { entries: BTreeMap::new(), count_max }
    }

    /// Returns an entry and counts that as a use.
    pub(crate) fn touch(&mut self, key: K, now: Instant) -> Option<&V> {
        let entry = self.entries.get_mut(&key)?;
        (entry.used_at, entry.was_used_again) = (now, true);
        Some(&entry.value)
    }

    /// Returns whether there is an entry with this key.
    pub(crate) fn contains(&self, key: K) -> bool {
        self.entries.contains_key(&key)
    }

    /// Adds or replaces an entry. Returns the entry that made room.
    pub(crate) fn insert(&mut self, key: K, value: V, now: Instant) -> Option<(K, V)> {
        let is_full = self.entries.len() >= self.count_max && !self.contains(key);
        let evicted = if is_full { self.evict(now) } else { None };
        self.entries.insert(key, Entry { value, used_at: now, was_used_again: false });
        evicted
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        Some(self.entries.remove(&key)?.value)
    }

    /// Removes the entry that is missed least.
    pub(crate) fn evict(&mut self, now: Instant) -> Option<(K, V)> {
        let is_kept = |entry: &Entry<V>| {
            let is_idle = now.saturating_duration_since(entry.used_at) >= IDLE_TIME;
            (!is_idle && entry.was_used_again, entry.used_at)
        };
        let key = *self.entries.iter().min_by_key(|(_, entry)| is_kept(entry))?.0;
        Some((key, self.remove(key)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_evict_strangers_and_then_what_is_idle_or_old() {
        let start = Instant::now();
        let mut table = Recent::new(2);
        table.insert(1, 'a', start);
        table.touch(1, start);
        // A flood leaves the known entry alone.
        for stranger in 2..100 {
            let evicted = table.insert(stranger, 'b', start + Duration::from_millis(stranger));
            assert_eq!(evicted, (stranger > 2).then(|| (stranger - 1, 'b')));
        }
        assert!(table.contains(1) && table.contains(99));
        // Both are known now: the one unused for longest goes.
        table.touch(99, start + Duration::from_secs(1));
        assert_eq!(table.insert(100, 'c', start + Duration::from_secs(2)), Some((1, 'a')));
        // An idle entry goes before a stranger.
        assert_eq!(table.insert(101, 'd', start + Duration::from_secs(1) + IDLE_TIME), Some((99, 'b')));
        assert_eq!(table.evict(start + Duration::from_secs(1) + IDLE_TIME), Some((100, 'c')));
        assert_eq!(table.remove(101), Some('d'));
        assert_eq!(table.evict(start), None);
    }
}
