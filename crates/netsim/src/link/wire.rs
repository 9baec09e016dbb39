//! The packets that propagate along a link, and the order of their arrival.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use festina_units::Instant;

/// The packets that propagate, ordered by arrival.
#[derive(Debug)]
pub(super) struct Wire<P> {
    /// Packets that arrive no earlier than the previous one: all of them unless the link reorders.
    in_order: VecDeque<Propagating<P>>,
    /// Packets that overtake others.
    overtaking: BinaryHeap<Propagating<P>>,
    /// Breaks ties between packets that arrive at the same instant: first in, first out.
    pushed_count: u64,
    previous_arrival: Instant,
    /// The highest position, among all packets offered, that was delivered so far.
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
        Self {
            in_order: VecDeque::new(),
            overtaking: BinaryHeap::new(),
            pushed_count: 0,
            previous_arrival: Instant::ZERO,
            highest_order: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.overtaking.len()
    }

    pub(super) fn next_arrival(&self) -> Option<Instant> {
        let in_order = self.in_order.front().map(|next| next.arrives_at);
        match self.overtaking.peek() {
            None => in_order,
            Some(next) => in_order.map_or(Some(next.arrives_at), |at| Some(at.min(next.arrives_at))),
        }
    }

    /// Returns `arrival`, delayed if necessary until the previous packet has arrived too. Packets held back on purpose
    /// are not waited for, as the caller adds their time afterwards.
    pub(super) fn not_before_previous(&mut self, arrival: Instant) -> Instant {
        self.previous_arrival = self.previous_arrival.max(arrival);
        self.previous_arrival
    }

    pub(super) fn push(&mut self, arrives_at: Instant, order: u64, packet: P) {
        let tie_breaker = self.pushed_count;
        self.pushed_count += 1;
        let pushed = Propagating { arrives_at, tie_breaker, order, packet };
        if self.in_order.back().is_none_or(|last| last.arrives_at <= arrives_at) {
            self.in_order.push_back(pushed);
        } else {
            self.overtaking.push(pushed);
        }
    }

    pub(super) fn pop_arrived(&mut self, now: Instant) -> Option<Arrival<P>> {
        if self.next_arrival()? > now {
            return None;
        }
        let is_overtaking = match (self.in_order.front(), self.overtaking.peek()) {
            (Some(in_order), Some(overtaking)) => overtaking.key() < in_order.key(),
            (in_order, _) => in_order.is_none(),
        };
        let next = if is_overtaking { self.overtaking.pop() } else { self.in_order.pop_front() }?;
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

/// Reversed, because the heap returns its greatest element first.
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
