//! What propagates along a link, and in which order it arrives.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use festina_units::Instant;

/// The packets that propagate, ordered by arrival.
#[derive(Debug)]
pub(super) struct Wire<P> {
    propagating: BinaryHeap<Propagating<P>>,
    /// Tells apart packets that arrive at the same instant: who came first leaves first.
    pushed_count: u64,
    previous_arrival: Instant,
    /// The highest place among all packets offered that was delivered so far.
    highest_order: u64,
}

/// A packet at the far end of the wire.
pub(super) struct Arrival<P> {
    pub(super) at: Instant,
    pub(super) packet: P,
    /// Whether a packet that was offered later arrived earlier.
    pub(super) is_reordered: bool,
}

impl<P> Wire<P> {
    pub(super) fn new() -> Self {
        Self { propagating: BinaryHeap::new(), pushed_count: 0, previous_arrival: Instant::ZERO, highest_order: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.propagating.len()
    }

    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.propagating.peek().map(|next| next.arrives_at)
    }

    /// `arrival`, delayed if need be until the packet before this one has arrived too. Packets held
    /// back on purpose are not waited for, as the caller adds their time afterwards.
    pub(super) fn not_before_previous(&mut self, arrival: Instant) -> Instant {
        self.previous_arrival = self.previous_arrival.max(arrival);
        self.previous_arrival
    }

    pub(super) fn push(&mut self, arrives_at: Instant, order: u64, packet: P) {
        let tie_breaker = self.pushed_count;
        self.pushed_count += 1;
        self.propagating.push(Propagating { arrives_at, tie_breaker, order, packet });
    }

    pub(super) fn pop_arrived(&mut self, now: Instant) -> Option<Arrival<P>> {
        if self.next_arrival()? > now {
            return None;
        }
        let next = self.propagating.pop()?;
        let is_reordered = next.order < self.highest_order;
        self.highest_order = self.highest_order.max(next.order);
        Some(Arrival { at: next.arrives_at, packet: next.packet, is_reordered })
    }
}

#[derive(Debug)]
struct Propagating<P> {
    arrives_at: Instant,
    tie_breaker: u64,
    order: u64,
    packet: P,
}

impl<P> Propagating<P> {
    fn key(&self) -> (Instant, u64) {
        (self.arrives_at, self.tie_breaker)
    }
}

/// Reversed, because the heap gives its greatest element first.
impl<P> Ord for Propagating<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<P> PartialOrd for Propagating<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Propagating<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Propagating<P> {}
