//! When which association wants to be called.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use festina_units::{Duration, Instant};

use super::alarm::{Alarm, Bell};
use super::lock;
use crate::association::Inner;
use crate::runtime::Runtime;

/// When the alarm fires again for an expired entry that the driver's clock has not reached yet.
const AGAIN: Duration = Duration::from_millis(1);

/// The deadlines of an endpoint's associations, and the alarm set for the first.
///
/// Each association has at most one entry. When a deadline moves later, as retransmission timers do with every acknowledgement, the entry stays in
/// place until half of the time to it has passed. If it fires before the deadline, the association is asked again. The alarm follows the first entry
/// likewise. So an association with steady traffic costs two system calls per timer period, and does not wake the driver needlessly.
#[derive(Debug)]
pub(crate) struct Timers {
    queue: Mutex<Queue>,
    alarm: Alarm,
}

#[derive(Debug)]
struct Queue {
    entries: BTreeMap<(Instant, u64), Arc<Inner>>,
    /// When the driver wants to be called for its own sake.
    driver_at: Instant,
    /// When the alarm rings: never later than the first of these.
    alarm_at: Instant,
}

/// Where the timers have an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When they ask it; `Instant::MAX` if there is no entry.
    pub(crate) at: Instant,
    /// Distance of the deadline when the entry was made.
    span: Duration,
}

impl Entry {
    pub(crate) const NONE: Self = Self { at: Instant::MAX, span: Duration::ZERO };

    /// New time of the entry for this deadline, or `None` if the entry can stay. It never lies after the deadline.
    ///
    /// An entry that is too early goes no further ahead than it was made: the deadlines of a conversation are far and near in turn, and
    /// with each near one it would have to come back.
    #[inline]
    pub(crate) fn follow(self, now: Instant, deadline: Instant) -> Option<Self> {
        let ahead = self.at.saturating_duration_since(now);
        if deadline < self.at {
            Some(Self { at: deadline, span: deadline.saturating_duration_since(now) })
        } else if deadline > self.at && ahead <= self.span / 2 {
            Some(Self { at: deadline.min(now + self.span), ..self }).filter(|moved| moved.at > self.at)
        } else {
            None
        }
    }
}

impl Queue {
    /// Returns the new alarm time, if it changes.
    fn alarm_moves(&mut self, now: Instant) -> Option<Instant> {
        let first_at = self.entries.first_key_value().map_or(Instant::MAX, |((at, _), _)| *at).min(self.driver_at);
        let ahead = |at: Instant| at.saturating_duration_since(now);
        // An alarm for nothing rings once, and one that has rung has its driver coming.
        let rings_in_vain = now < self.alarm_at && self.alarm_at < first_at && first_at < Instant::MAX;
        let is_early = rings_in_vain && ahead(self.alarm_at) <= ahead(first_at) / 2;
        (first_at < self.alarm_at || is_early).then(|| {
            self.alarm_at = first_at;
            first_at
        })
    }
}

/// An association whose entry fired, and the time of the entry.
pub(crate) type Due = (Instant, Arc<Inner>);

impl Timers {
    /// The timers, and the bell that says when to call [`Timers::take_due`].
    pub(crate) fn new(runtime: &Arc<dyn Runtime>) -> io::Result<(Self, Bell)> {
        let (alarm, bell) = Alarm::new(runtime)?;
        let queue = Queue { entries: BTreeMap::new(), driver_at: Instant::MAX, alarm_at: Instant::MAX };
        Ok((Self { queue: Mutex::new(queue), alarm }, bell))
    }

    /// Moves an association's entry from `old`, where there may be none, to `new`.
    pub(crate) fn arm(&self, now: Instant, association: &Arc<Inner>, old: Entry, new: Entry) {
        let mut queue = lock(&self.queue);
        let moved = queue.entries.remove(&(old.at, association.id()));
        queue.entries.insert((new.at, association.id()), moved.unwrap_or_else(|| association.clone()));
        self.set_alarm(&mut queue, now);
    }

    /// Has the bell ring at `at` at the latest, once, for the driver's own sake.
    pub(crate) fn ring_by(&self, now: Instant, at: Instant) {
        let mut queue = lock(&self.queue);
        queue.driver_at = queue.driver_at.min(at);
        self.set_alarm(&mut queue, now);
    }

    fn set_alarm(&self, queue: &mut Queue, now: Instant) {
        if let Some(at) = queue.alarm_moves(now) {
            self.alarm.set(at.saturating_duration_since(now));
        }
    }

    /// Returns whether [`Timers::take_due`] has something to do, for a driver that is too busy to wait for the bell.
    pub(crate) fn is_due(&self, come: Instant) -> bool {
        lock(&self.queue).alarm_at <= come
    }

    /// Removes an association's entry.
    pub(crate) fn disarm(&self, association: &Inner, entry: Entry) {
        let removed = lock(&self.queue).entries.remove(&(entry.at, association.id()));
        drop(removed);
    }

    /// Removes at most `count_max` entries of the time that has `come`, which may lie before `now`, and sets the alarm for the first of the
    /// others. The driver requests its own wake-up again.
    pub(crate) fn take_due(&self, now: Instant, come: Instant, count_max: usize, due: &mut Vec<Due>) {
        let mut queue = lock(&self.queue);
        while due.len() < count_max
            && let Some(entry) = queue.entries.first_entry()
            && entry.key().0 <= come
        {
            due.push((entry.key().0, entry.remove()));
        }
        queue.driver_at = Instant::MAX;
        queue.alarm_at = queue.entries.first_key_value().map_or(Instant::MAX, |((at, _), _)| *at);
        if queue.alarm_at < Instant::MAX {
            let delay = queue.alarm_at.saturating_duration_since(now);
            self.alarm.set(if delay.is_zero() { AGAIN } else { delay });
        }
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        lock(&self.queue).entries.len()
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        let entries = std::mem::take(&mut lock(&self.queue).entries);
        drop(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_secs(1) + Duration::from_micros(micros)
    }

    /// Counts how often an entry moved and how often it fired. Each step is a time and the deadline at that time.
    fn follow(deadlines: impl Iterator<Item = (Instant, Instant)>) -> (usize, usize) {
        let (mut entry, mut moved, mut came_up) = (Entry::NONE, 0, 0);
        for (now, deadline) in deadlines {
            if entry.at <= now {
                came_up += 1;
                entry = Entry::NONE;
            }
            if let Some(next) = entry.follow(now, deadline) {
                entry = next;
                moved += 1;
            }
            assert!(entry.at <= deadline, "{entry:?} comes after {deadline:?}");
        }
        (moved, came_up)
    }

    #[test]
    fn the_entry_of_a_busy_association_moves_rarely_and_never_comes_up() {
        let second = 0..100_000_u64;
        let (moved, came_up) = follow(second.map(|turn| (at(10 * turn), at(10 * turn + 5_000))));
        assert_eq!(came_up, 0);
        assert!((395..=405).contains(&moved), "{moved} times in 200 times the timer");
    }

    #[test]
    fn deadlines_that_are_near_and_far_in_turn_move_the_entry_as_rarely() {
        let second = 0..100_000_u64;
        let far = |turn: u64| if turn.is_multiple_of(3) { 5_000 } else { 200_000 };
        let (moved, came_up) = follow(second.map(|turn| (at(10 * turn), at(10 * turn + far(turn)))));
        assert_eq!(came_up, 0);
        assert!((395..=410).contains(&moved), "{moved} times in 200 times the timer");
    }

    #[test]
    fn an_association_that_falls_silent_is_asked_once_in_vain() {
        let near = [0, 1_000].map(|now| (at(now), at(now + 5_000)));
        let far = [10_000, 11_000, 900_000].map(|now| (at(now), at(9_000_000)));
        let (moved, came_up) = follow(near.into_iter().chain(far));
        assert_eq!((moved, came_up), (2, 1));
    }

    #[test]
    fn the_alarm_follows_the_first_deadline_and_never_comes_after_it() {
        let mut queue = Queue { entries: BTreeMap::new(), driver_at: Instant::MAX, alarm_at: Instant::MAX };
        assert_eq!(queue.alarm_moves(at(0)), None, "nothing to wait for");
        queue.driver_at = at(5_000);
        assert_eq!(queue.alarm_moves(at(0)), Some(at(5_000)));
        assert_eq!(queue.alarm_moves(at(1)), None, "it is set");
        queue.driver_at = at(7_000);
        assert_eq!(queue.alarm_moves(at(2_000)), None, "it is not near");
        assert_eq!(queue.alarm_moves(at(3_000)), Some(at(7_000)));
        queue.driver_at = at(4_000);
        assert_eq!(queue.alarm_moves(at(3_000)), Some(at(4_000)), "an earlier deadline moves it at once");
        queue.driver_at = at(9_000);
        assert_eq!(queue.alarm_moves(at(4_000)), None, "it has rung, and the driver will look");
        queue.driver_at = Instant::MAX;
        assert_eq!(queue.alarm_moves(at(3_900)), None, "an alarm for nothing rings once");
    }
}
