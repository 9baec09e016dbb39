//! The deadlines of a host's connections.

use std::collections::BTreeSet;

use festina_units::Instant;

/// When which slot of a host has to act. Slots that are due at the same time come in their own order.
#[derive(Debug)]
pub struct Agenda<S>(BTreeSet<(Instant, S)>);

impl<S: Copy + Ord> Agenda<S> {
    /// Adds a deadline, if there is one.
    pub fn add(&mut self, at: Option<Instant>, slot: S) {
        self.0.extend(at.map(|at| (at, slot)));
    }

    /// Moves a deadline of the slot from `old` to `new`.
    pub fn shift(&mut self, slot: S, old: Option<Instant>, new: Option<Instant>) {
        if old != new {
            if let Some(at) = old {
                self.0.remove(&(at, slot));
            }
            self.add(new, slot);
        }
    }

    /// Takes the earliest deadline off the agenda, if it has come, and returns its slot.
    pub fn pop_due(&mut self, now: Instant) -> Option<S> {
        let &(_, slot) = self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.pop_first();
        Some(slot)
    }

    /// The earliest deadline.
    pub fn earliest(&self) -> Option<Instant> {
        self.0.first().map(|&(at, _)| at)
    }
}

impl<S> Default for Agenda<S> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_when_they_are_due_and_each_deadline_once() {
        let mut agenda = Agenda::default();
        let at = |millis| Some(Instant::from_millis(millis));
        for (millis, slot) in [(20, 'b'), (10, 'a'), (20, 'a')] {
            agenda.add(at(millis), slot);
        }
        agenda.shift('b', at(20), at(30));
        agenda.shift('c', None, at(10));
        agenda.shift('a', at(20), None);
        assert_eq!(agenda.earliest(), at(10));
        let due = |agenda: &mut Agenda<_>, millis| {
            std::iter::from_fn(|| agenda.pop_due(Instant::from_millis(millis))).collect::<String>()
        };
        assert_eq!(
            ["", "ac", "", "b"],
            [9, 10, 29, 30].map(|millis| due(&mut agenda, millis)).each_ref().map(String::as_str)
        );
        assert_eq!(agenda.earliest(), None);
    }
}
