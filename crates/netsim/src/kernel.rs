//! The agenda of a simulation: which component acts next.
//!
//! Every component (host, link, probe) has one slot with the next instant at which it wants to act. A tournament tree
//! over the slots yields the earliest. So moving a deadline leaves no stale entry behind, nothing is allocated while
//! the simulation runs, and memory depends only on the number of components, never on the number of packets.

use festina_units::Instant;

/// The next deadline of every component, and the earliest of them.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// A complete binary tree: node `i` holds the lesser of its children `2i` and `2i + 1`; the leaves are the slots.
    tree: Vec<Entry>,
    leaf_count: usize,
    next_sequence: u64,
    /// The slot whose deadline has been reached and that has no next one yet. Its leaf is cleared, and the nodes above
    /// it still hold the old deadline.
    begun: Option<usize>,
}

/// A deadline. Entries compare by their fields in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Instant,
    /// Breaks ties at the same instant: entries are processed in the order in which they were set.
    sequence: u64,
    slot: usize,
}

impl Entry {
    /// Sorts after every reachable deadline.
    const NEVER: Self = Self { at: Instant::MAX, sequence: u64::MAX, slot: usize::MAX };
}

impl Agenda {
    /// Creates an empty agenda for the components `0..slot_count`.
    pub(crate) fn new(slot_count: usize) -> Self {
        let leaf_count = slot_count.next_power_of_two();
        Self { tree: vec![Entry::NEVER; 2 * leaf_count], leaf_count, next_sequence: 0, begun: None }
    }

    /// Sets the next deadline of the component at `slot`. A deadline that stays the same keeps its turn.
    pub(crate) fn set(&mut self, slot: usize, deadline: Option<Instant>) {
        let at = deadline.unwrap_or(Instant::MAX);
        let mut index = self.leaf_count + slot;
        if self.begun == Some(slot) {
            self.begun = None;
        } else if self.tree[index].at == at {
            return;
        }
        self.tree[index] = if at == Instant::MAX {
            Entry::NEVER
        } else {
            self.next_sequence += 1;
            Entry { at, sequence: self.next_sequence, slot }
        };
        while index > 1 {
            let winner = self.tree[index].min(self.tree[index ^ 1]);
            index /= 2;
            if self.tree[index] == winner {
                return;
            }
            self.tree[index] = winner;
        }
    }

    /// Clears the deadline of `slot`, which is the earliest and has been reached. The earliest must not be queried
    /// before [`finish`](Self::finish): the path to the root is updated only once, together with the next deadline.
    pub(crate) fn begin(&mut self, slot: usize) {
        self.tree[self.leaf_count + slot] = Entry::NEVER;
        self.begun = Some(slot);
    }

    /// Completes the work started by [`begin`](Self::begin).
    pub(crate) fn finish(&mut self) {
        if let Some(slot) = self.begun {
            self.set(slot, None);
        }
    }

    /// Returns the earliest deadline and its slot.
    pub(crate) fn earliest(&self) -> Option<(Instant, usize)> {
        debug_assert!(self.begun.is_none(), "the previous deadline is still being processed");
        // With a single slot the root is the leaf itself: index 1 in both cases.
        let first = self.tree[1];
        (first.at < Instant::MAX).then_some((first.at, first.slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Option<Instant> {
        Some(Instant::from_nanos(nanos))
    }

    fn drain(agenda: &mut Agenda) -> Vec<(u64, usize)> {
        let mut order = Vec::new();
        while let Some((at, slot)) = agenda.earliest() {
            order.push((at.as_nanos(), slot));
            agenda.begin(slot);
            agenda.finish();
        }
        order
    }

    #[test]
    fn deadlines_come_in_the_order_of_time() {
        let mut agenda = Agenda::new(5);
        for (slot, nanos) in [50, 20, 40, 10, 30].into_iter().enumerate() {
            agenda.set(slot, at(nanos));
        }
        assert_eq!(drain(&mut agenda), [(10, 3), (20, 1), (30, 4), (40, 2), (50, 0)]);
    }

    #[test]
    fn equal_deadlines_come_in_the_order_in_which_they_were_set() {
        let mut agenda = Agenda::new(3);
        for slot in [2, 0, 1] {
            agenda.set(slot, at(7));
        }
        assert_eq!(drain(&mut agenda), [(7, 2), (7, 0), (7, 1)]);
    }

    #[test]
    fn a_moved_deadline_loses_its_turn_and_an_unchanged_one_keeps_it() {
        let mut agenda = Agenda::new(2);
        agenda.set(0, at(7));
        agenda.set(1, at(7));
        agenda.set(0, at(7));
        assert_eq!(agenda.earliest(), Some((Instant::from_nanos(7), 0)));
        agenda.set(0, at(8));
        agenda.set(0, at(7));
        assert_eq!(drain(&mut agenda), [(7, 1), (7, 0)]);
    }

    #[test]
    fn a_cancelled_deadline_never_comes() {
        let mut agenda = Agenda::new(1);
        agenda.set(0, at(1));
        agenda.set(0, None);
        assert_eq!(agenda.earliest(), None);
        agenda.set(0, Some(Instant::MAX));
        assert_eq!(agenda.earliest(), None);
    }

    #[test]
    fn the_agenda_agrees_with_a_sorted_list_under_random_changes() {
        let mut random = crate::RandomStream::new(1, "agenda");
        let mut agenda = Agenda::new(37);
        let mut expected: Vec<Option<(u64, u64)>> = vec![None; 37];
        for turn in 0..10_000 {
            // While the due entry is processed, others move, and it may move itself.
            let due = agenda.earliest().map(|(_, slot)| slot).filter(|_| random.below(3) == 0);
            if let Some(due) = due {
                agenda.begin(due);
                expected[due] = None;
            }
            for change in 0..=random.below(3) {
                let any = usize::try_from(random.below(37)).expect("small");
                let slot = due.filter(|_| random.below(2) == 0).unwrap_or(any);
                let nanos = random.below(1_000);
                let deadline = (nanos > 300).then_some(nanos);
                if expected[slot].map(|(nanos, _)| nanos) != deadline {
                    expected[slot] = deadline.map(|nanos| (nanos, 10 * turn + change));
                }
                agenda.set(slot, deadline.map(Instant::from_nanos));
            }
            agenda.finish();
            let first = expected.iter().enumerate().filter_map(|(slot, entry)| entry.map(|entry| (entry, slot))).min();
            assert_eq!(agenda.earliest(), first.map(|((nanos, _), slot)| (Instant::from_nanos(nanos), slot)));
        }
    }
}
