//! When which association wants to be called.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use festina_units::{Duration, Instant};

use super::alarm::{Alarm, Bell};
use super::lock;
use crate::association::Inner;

/// When the bell rings again for an entry that is over, but whose time has not come for the driver.
const AGAIN: Duration = Duration::from_millis(1);

/// The deadlines of an endpoint's associations, and the alarm set for the first.
///
/// Each association has at most one entry. A deadline that moves later, as retransmission timers do with every
/// acknowledgement, leaves the entry where it is: when it comes up, the association is asked again. Only one that moves
/// earlier costs a change here, and only one that becomes the earliest of all costs a system call.
#[derive(Debug)]
pub(crate) struct Timers {
    queue: Mutex<Queue>,
    alarm: Alarm,
}

#[derive(Debug)]
struct Queue {
    entries: BTreeMap<(Instant, u64), Arc<Inner>>,
    /// When the alarm rings.
    alarm_at: Instant,
}

impl Timers {
    /// The timers, and the bell that says when to call [`Timers::take_due`]. The caller is inside a runtime.
    pub(crate) fn new() -> io::Result<(Self, Bell)> {
        let (alarm, bell) = Alarm::new()?;
        let queue = Queue { entries: BTreeMap::new(), alarm_at: Instant::MAX };
        Ok((Self { queue: Mutex::new(queue), alarm }, bell))
    }

    /// Moves an association's entry from `old`, where there may be none, to `new`.
    pub(crate) fn arm(&self, now: Instant, association: &Arc<Inner>, old: Instant, new: Instant) {
        let mut queue = lock(&self.queue);
        let moved = queue.entries.remove(&(old, association.id()));
        queue.entries.insert((new, association.id()), moved.unwrap_or_else(|| association.clone()));
        if new < queue.alarm_at {
            queue.alarm_at = new;
            self.alarm.set(new.saturating_duration_since(now));
        }
    }

    /// Has the bell ring at `at` at the latest, once, for the driver's own sake.
    pub(crate) fn ring_by(&self, now: Instant, at: Instant) {
        let mut queue = lock(&self.queue);
        if at < queue.alarm_at {
            queue.alarm_at = at;
            self.alarm.set(at.saturating_duration_since(now));
        }
    }

    /// Returns whether [`Timers::take_due`] has something to do, for a driver that is too busy to wait for the bell.
    pub(crate) fn is_due(&self, come: Instant) -> bool {
        lock(&self.queue).alarm_at <= come
    }

    /// Removes an association's entry.
    pub(crate) fn disarm(&self, association: &Inner, at: Instant) {
        let removed = lock(&self.queue).entries.remove(&(at, association.id()));
        drop(removed);
    }

    /// Removes the entries of the time that has `come`, which may lie before `now`, and sets the alarm for the first of the others.
    pub(crate) fn take_due(&self, now: Instant, come: Instant, due: &mut Vec<Arc<Inner>>) {
        let mut queue = lock(&self.queue);
        while let Some(entry) = queue.entries.first_entry()
            && entry.key().0 <= come
        {
            due.push(entry.remove());
        }
        queue.alarm_at = queue.entries.first_key_value().map_or(Instant::MAX, |((at, _), _)| *at);
        if queue.alarm_at < Instant::MAX {
            let delay = queue.alarm_at.saturating_duration_since(now);
            self.alarm.set(if delay.is_zero() { AGAIN } else { delay });
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        let entries = std::mem::take(&mut lock(&self.queue).entries);
        drop(entries);
    }
}
