//! Decides which important lines are sent twice: those on a lossy path, while few are in flight.
//!
//! A lost line arrives at best one and a half round trips late. Its copy, sent some milliseconds after it, arrives only these milliseconds late, at
//! the cost of a packet. So there are no copies on a path without loss, of a busy sender, or into a queue.

use std::collections::VecDeque;

use crate::sender::Outgoing;

/// Maximum messages per round trip for copies to be sent.
const MESSAGES_MAX: usize = 4;

/// The shortest time between a message and its copy, in microseconds.
const SPACING_US_MIN: u64 = 5_000;

/// Chunks after which a loss counts half in the estimate.
const CHUNKS_REMEMBERED: u64 = 2_000;

/// Copies are sent if at least one in this many chunks is lost.
const LOSS_ONE_IN: u64 = 200;

/// A message whose copy is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) priority: u8,
    pub(super) slot: u8,
    pub(super) last: u64,
}

/// Messages that wait for their copies, and the recent losses of the path.
#[derive(Debug, Default)]
pub(super) struct Copies {
    waiting: VecDeque<(u64, Due)>,
    /// When the last messages were sent.
    departures: VecDeque<u64>,
    /// The counters of the association at the last update.
    seen: (u64, u64),
    chunks: u64,
    lost: u64,
}

impl Copies {
    /// Takes the counters of the association: chunks sent for the first time, and chunks sent again because they seemed lost.
    pub(super) fn look(&mut self, chunks: u64, lost: u64) {
        self.chunks += chunks.saturating_sub(self.seen.0);
        self.lost += lost.saturating_sub(self.seen.1);
        self.seen = (chunks, lost);
        if self.chunks > CHUNKS_REMEMBERED {
            (self.chunks, self.lost) = (self.chunks / 2, self.lost / 2);
        }
    }

    /// Records a message sent over a path with this round-trip time, in microseconds.
    pub(super) fn note(&mut self, message: &Outgoing, rtt_us: u64, now_us: u64) {
        self.departures.push_back(now_us);
        if self.departures.len() > MESSAGES_MAX {
            let before_us = self.departures.pop_front().unwrap_or_default();
            if now_us.saturating_sub(before_us) <= rtt_us {
                self.waiting.clear();
                return;
            }
        }
        if self.lost * LOSS_ONE_IN < self.chunks || self.lost == 0 {
            return;
        }
        let due = Due { priority: message.priority, slot: message.slot, last: message.last };
        self.waiting.push_back((now_us + SPACING_US_MIN.max(rtt_us / 10), due));
    }

    /// The next message whose copy is due.
    pub(super) fn due(&mut self, now_us: u64) -> Option<Due> {
        let (_, due) = self.waiting.front().filter(|(due_us, _)| *due_us <= now_us).copied()?;
        self.waiting.pop_front();
        Some(due)
    }

    /// Drops all waiting copies, because there is a queue in the network.
    pub(super) fn forbid(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(last: u64) -> Outgoing {
        Outgoing { priority: 0, slot: 3, unordered: false, last, payload: Bytes::new() }
    }

    #[test]
    fn a_path_that_loses_nothing_costs_no_copies_and_one_that_does_costs_one_for_each_message_after_its_spacing() {
        let mut copies = Copies::default();
        copies.look(1_000, 0);
        copies.note(&message(1), 80_000, 0);
        assert_eq!(copies.due(1_000_000), None);
        copies.look(1_100, 10);
        copies.note(&message(2), 80_000, 0);
        assert_eq!(copies.due(7_999), None);
        assert_eq!(copies.due(8_000), Some(Due { priority: 0, slot: 3, last: 2 }));
        assert_eq!(copies.due(1_000_000), None);
    }

    #[test]
    fn who_sends_much_or_into_a_queue_makes_no_copies() {
        let mut copies = Copies::default();
        copies.look(100, 10);
        (0..5).for_each(|last| copies.note(&message(last), 80_000, last * 20_000));
        assert_eq!(copies.due(1_000_000), None);
        copies.note(&message(9), 80_000, 1_000_000);
        copies.forbid();
        assert_eq!(copies.due(1_000_000), None);
    }

    #[test]
    fn losses_are_forgotten_when_there_are_no_more_of_them() {
        let mut copies = Copies::default();
        copies.look(100, 20);
        (1..20).for_each(|step| copies.look(100 + step * 1_000, 20));
        copies.note(&message(1), 80_000, 0);
        assert_eq!(copies.due(1_000_000), None);
    }
}
