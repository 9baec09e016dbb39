//! Datagrams that wait for an association, for as long as they may still be delivered.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use festina::Instant;

use crate::commands::tunnel::losses::Losses;

/// Maximum bytes of waiting datagrams, each counted with [`OVERHEAD_BYTES`] more.
const BYTES_MAX: usize = 1 << 20;
const OVERHEAD_BYTES: usize = 128;

/// Datagrams in the order of their arrival. Those older than a lifetime are dropped, and so are the oldest of too many.
#[derive(Debug)]
pub(super) struct Held<C> {
    queue: VecDeque<(Instant, C, Bytes)>,
    bytes: usize,
    lifetime: Duration,
    too_old: Losses,
    too_many: Losses,
}

impl<C> Held<C> {
    pub(super) fn new(lifetime: Duration) -> Self {
        let too_old = Losses::new("datagrams dropped: the exit was out of reach for longer than --lifetime");
        let too_many = Losses::new("datagrams dropped: too many while the exit was out of reach");
        Self { queue: VecDeque::new(), bytes: 0, lifetime, too_old, too_many }
    }

    /// Adds a datagram of a client that has arrived at this time.
    pub(super) fn push(&mut self, arrived_at: Instant, client: C, datagram: Bytes) {
        self.drop_old(arrived_at);
        self.bytes += cost(&datagram);
        self.queue.push_back((arrived_at, client, datagram));
        while self.bytes > BYTES_MAX
            && let Some((_, _, dropped)) = self.queue.pop_front()
        {
            self.bytes -= cost(&dropped);
            self.too_many.note();
        }
    }

    /// Removes the oldest datagram that may still be delivered, and returns it with the rest of its lifetime.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(C, Bytes, Duration)> {
        self.drop_old(now);
        let (arrived_at, client, datagram) = self.queue.pop_front()?;
        self.bytes -= cost(&datagram);
        Some((client, datagram, self.lifetime.saturating_sub(now.saturating_duration_since(arrived_at))))
    }

    fn drop_old(&mut self, now: Instant) {
        while let Some((arrived_at, _, oldest)) = self.queue.front()
            && now.saturating_duration_since(*arrived_at) >= self.lifetime
        {
            self.bytes -= cost(oldest);
            self.queue.pop_front();
            self.too_old.note();
        }
    }
}

fn cost(datagram: &Bytes) -> usize {
    datagram.len() + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_wait_no_longer_than_their_lifetime() {
        let at = |ms: u64| Instant::from_millis(10_000 + ms);
        let mut held = Held::new(Duration::from_secs(1));
        for (ms, client) in [(0, 'a'), (400, 'b'), (800, 'c')] {
            held.push(at(ms), client, Bytes::from_static(b"datagram"));
        }
        assert_eq!(
            held.pop(at(1_100)).map(|(client, _, left)| (client, left)),
            Some(('b', Duration::from_millis(300)))
        );
        assert_eq!(held.pop(at(12_000)), None, "the exit was away for 12 s");
        assert_eq!((held.bytes, held.too_old.count(), held.too_many.count()), (0, 2, 0));
    }

    #[test]
    fn the_oldest_of_too_many_datagrams_are_dropped_and_counted() {
        let mut held = Held::new(Duration::from_secs(1));
        for number in 0..10_000_u64 {
            held.push(Instant::from_secs(10), number, Bytes::new());
        }
        let kept = u64::try_from(BYTES_MAX / OVERHEAD_BYTES).expect("few");
        assert_eq!(held.pop(Instant::from_secs(10)).map(|(number, ..)| number), Some(10_000 - kept));
        assert_eq!((held.too_old.count(), held.too_many.count()), (0, 10_000 - kept));
    }
}
