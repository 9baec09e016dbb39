//! Lines that go to every peer, and what happens when one of them does not keep up.
//!
//! Each peer has a queue of its own, which its task empties. A line that a queue has no room for waits, and the next one is not
//! read meanwhile; so a single peer loses nothing, however slow it is. A peer that thereby holds up others may do so for
//! [`PATIENCE`] in all. After that it misses lines for which it has no room.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Lines that wait for one peer, in addition to its send buffer.
const LINES_QUEUED_MAX: usize = 16;

/// How long one peer may hold up the others, all its delays together.
const PATIENCE: Duration = Duration::from_secs(3);

/// The peers that receive typed lines.
pub(super) struct Audience {
    hearers: BTreeMap<u64, Hearer>,
    waiting: Option<Waiting>,
    room: Arc<Notify>,
}

/// One peer.
struct Hearer {
    queue: mpsc::Sender<Bytes>,
    patience: Duration,
    lines_missed: u64,
}

/// A line for which some queues have no room yet.
struct Waiting {
    line: Bytes,
    /// The peers that it is still to be given to.
    behind: Vec<u64>,
    /// Up to when their delays have been counted.
    counted_until: Instant,
}

/// The lines for one peer.
pub(super) struct Lines {
    queue: mpsc::Receiver<Bytes>,
    room: Arc<Notify>,
}

impl Lines {
    /// The next line; `None` after the peer was removed.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        let line = self.queue.recv().await;
        self.room.notify_one();
        line
    }

    /// Returns whether no line is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Audience {
    pub(super) fn new() -> Self {
        Self { hearers: BTreeMap::new(), waiting: None, room: Arc::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hearers.is_empty()
    }

    /// Whether the next line may be said.
    pub(super) fn is_ready(&self) -> bool {
        self.waiting.is_none() && !self.is_empty()
    }

    /// Adds a peer, which receives lines from now on.
    pub(super) fn add(&mut self, now: Instant, number: u64) -> Lines {
        self.count(now);
        let (sender, queue) = mpsc::channel(LINES_QUEUED_MAX);
        self.hearers.insert(number, Hearer { queue: sender, patience: PATIENCE, lines_missed: 0 });
        Lines { queue, room: Arc::clone(&self.room) }
    }

    /// Removes a peer, and returns how many lines it missed.
    pub(super) fn remove(&mut self, now: Instant, number: u64) -> u64 {
        self.count(now);
        let waits = self.waiting.as_mut().is_some_and(|waiting| {
            let before = waiting.behind.len();
            waiting.behind.retain(|behind| *behind != number);
            waiting.behind.len() < before
        });
        // The line that waits may have waited for this peer alone.
        self.room.notify_one();
        self.hearers.remove(&number).map_or(0, |hearer| hearer.lines_missed) + u64::from(waits)
    }

    /// Gives a line to every peer that has room for it; the others get it from [`Audience::offer`]. Only after
    /// [`Audience::is_ready`]. Returns the peers that now miss a line for the first time.
    pub(super) fn say(&mut self, now: Instant, line: Bytes) -> Vec<u64> {
        self.waiting = Some(Waiting { line, behind: self.hearers.keys().copied().collect(), counted_until: now });
        self.offer(now)
    }

    /// Gives the line that waits to the peers that have room by now, and takes it from those whose patience is used up. Returns
    /// the peers that now miss a line for the first time.
    pub(super) fn offer(&mut self, now: Instant) -> Vec<u64> {
        self.count(now);
        let Some(waiting) = &mut self.waiting else { return Vec::new() };
        waiting.behind.retain(|number| {
            let Some(hearer) = self.hearers.get(number) else { return false };
            matches!(hearer.queue.try_send(waiting.line.clone()), Err(mpsc::error::TrySendError::Full(_)))
        });
        let mut late = Vec::new();
        if self.others_wait() {
            late = self.take_from_the_late();
        }
        if self.waiting.as_ref().is_some_and(|waiting| waiting.behind.is_empty()) {
            self.waiting = None;
        }
        late
    }

    /// Returns when some queue has room again, or the patience with a peer is used up: time for [`Audience::offer`].
    pub(super) async fn changed(&self) {
        let patience = self.waiting.as_ref().filter(|_| self.others_wait()).and_then(|waiting| {
            let left = waiting.behind.iter().filter_map(|number| Some(self.hearers.get(number)?.patience)).min()?;
            Some(waiting.counted_until + left)
        });
        let impatient = async {
            match patience {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.room.notified() => {}
            () = impatient => {}
        }
    }

    /// Whether a peer with patience left has the line already and could have the next one.
    fn others_wait(&self) -> bool {
        let Some(waiting) = &self.waiting else { return false };
        let kept_up =
            |(number, hearer): (&u64, &Hearer)| !waiting.behind.contains(number) && !hearer.patience.is_zero();
        !waiting.behind.is_empty() && self.hearers.iter().any(kept_up)
    }

    /// Counts the time since the last call for those who hold up others.
    fn count(&mut self, now: Instant) {
        let others_wait = self.others_wait();
        let Some(waiting) = &mut self.waiting else { return };
        let delay = now.saturating_duration_since(waiting.counted_until);
        waiting.counted_until = now;
        if others_wait {
            for number in &waiting.behind {
                if let Some(hearer) = self.hearers.get_mut(number) {
                    hearer.patience = hearer.patience.saturating_sub(delay);
                }
            }
        }
    }

    fn take_from_the_late(&mut self) -> Vec<u64> {
        let mut late = Vec::new();
        let Some(waiting) = &mut self.waiting else { return late };
        waiting.behind.retain(|number| {
            let Some(hearer) = self.hearers.get_mut(number) else { return false };
            if !hearer.patience.is_zero() {
                return true;
            }
            hearer.lines_missed += 1;
            if hearer.lines_missed == 1 {
                late.push(*number);
            }
            false
        });
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Bytes {
        Bytes::from_static(b"line")
    }

    fn take_all(lines: &mut Lines) -> usize {
        std::iter::from_fn(|| lines.queue.try_recv().ok()).count()
    }

    /// Says lines until one has to wait.
    fn fill(audience: &mut Audience, now: Instant) {
        while audience.is_ready() {
            assert!(audience.say(now, line()).is_empty());
        }
    }

    #[tokio::test]
    async fn a_single_peer_is_waited_for_without_end() {
        let (mut audience, start) = (Audience::new(), Instant::now());
        let mut lines = audience.add(start, 1);
        fill(&mut audience, start);
        assert!(audience.offer(start + PATIENCE * 100).is_empty());
        assert!(!audience.is_ready());
        assert_eq!(take_all(&mut lines), LINES_QUEUED_MAX);
        audience.offer(start + PATIENCE * 101);
        assert!(audience.is_ready());
        assert_eq!(take_all(&mut lines), 1);
        assert_eq!(audience.remove(start, 1), 0);
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_holds_up_the_others_once_and_then_misses_lines() {
        let (mut audience, start) = (Audience::new(), Instant::now());
        let (_stuck, mut good) = (audience.add(start, 1), audience.add(start, 2));
        for _ in 0..=LINES_QUEUED_MAX {
            assert!(audience.say(start, line()).is_empty());
            assert_eq!(take_all(&mut good), 1);
        }
        assert!(!audience.is_ready());
        assert!(audience.offer(start + PATIENCE / 2).is_empty());
        assert_eq!(audience.offer(start + PATIENCE), [1]);
        for _ in 0..100 {
            assert!(audience.is_ready());
            assert!(audience.say(start + PATIENCE, line()).is_empty());
            assert_eq!(take_all(&mut good), 1);
        }
        assert_eq!(audience.remove(start + PATIENCE, 1), 101);
        assert_eq!(audience.remove(start + PATIENCE, 2), 0);
    }

    #[tokio::test]
    async fn a_peer_that_others_are_not_held_up_by_keeps_its_patience() {
        let (mut audience, start) = (Audience::new(), Instant::now());
        let (_stuck, mut slow) = (audience.add(start, 1), audience.add(start, 2));
        for _ in 0..=LINES_QUEUED_MAX {
            audience.say(start, line());
            take_all(&mut slow);
        }
        assert_eq!(audience.offer(start + PATIENCE), [1]);
        // Only the slow one is left to wait for, and no other peer is held up.
        fill(&mut audience, start + PATIENCE);
        assert!(audience.offer(start + PATIENCE * 100).is_empty());
        assert!(!audience.is_ready());
        take_all(&mut slow);
        audience.offer(start + PATIENCE * 100);
        assert!(audience.is_ready());
        assert_eq!(audience.remove(start + PATIENCE * 100, 2), 0);
    }

    #[tokio::test]
    async fn a_line_no_longer_waits_for_a_peer_that_has_left() {
        let (mut audience, start) = (Audience::new(), Instant::now());
        let (_stuck, mut good) = (audience.add(start, 1), audience.add(start, 2));
        for _ in 0..=LINES_QUEUED_MAX {
            audience.say(start, line());
            take_all(&mut good);
        }
        assert!(!audience.is_ready());
        audience.remove(start, 1);
        audience.changed().await;
        audience.offer(start);
        assert!(audience.is_ready());
    }

    #[tokio::test]
    async fn room_in_a_queue_and_the_end_of_patience_are_noticed() {
        let (mut audience, start) = (Audience::new(), Instant::now());
        let (mut slow, mut good) = (audience.add(start, 1), audience.add(start, 2));
        for _ in 0..=LINES_QUEUED_MAX {
            audience.say(start, line());
            take_all(&mut good);
        }
        assert!(slow.next().await.is_some());
        audience.changed().await;
        audience.offer(start);
        assert!(audience.is_ready());
        audience.say(start, line());
        audience.changed().await;
        assert_eq!(audience.offer(Instant::now().max(start + PATIENCE)), [1]);
    }
}
