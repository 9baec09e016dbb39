//! The queue to the application.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use bytes::Bytes;

use super::cost::{Fill, QUEUE_ENTRY_BYTES, is_wasteful, packet_bytes};
use super::unread::Unread;
use super::{Piece, Place};
use crate::message::ReceivedMessage;
use crate::wire::StreamId;

/// Capacity that an empty queue keeps, in messages: enough for one packet of small messages.
const IDLE_CAPACITY_MAX: usize = 16;

/// Up to this many messages the queue's capacity is doubled when it is full; beyond, it grows by an eighth, and shrinks when half
/// of it is idle, so that no message has more than a second entry in reserve.
const DOUBLED_CAPACITY_MAX: usize = 64;

/// Whole messages that the application can have.
///
/// Memory: everything in here counts towards the receive window, except the first 64 entries of the queue.
#[derive(Debug, Default)]
pub(in crate::receive) struct Ready {
    queue: VecDeque<Held>,
    /// Length of `queue` when the latest slice of the current packet was pushed. That slice carries the cost of the packet, since it is the last of
    /// its slices to be fetched.
    packet_slice: Option<NonZeroU32>,
    packet_charge_bytes: u32,
    /// Memory of the queued messages and of the assembly.
    bytes: usize,
    /// Unread bytes of each stream, if there is a limit.
    unread: Option<Box<Unread>>,
    /// Number of restarts of the peer, which messages report.
    restarts: u8,
}

/// A message and its allocated bytes, its entry not included.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) message: ReceivedMessage,
    charge_bytes: u32,
}

impl Ready {
    /// Queues a piece that is a whole message. A slice is neither copied nor allocated; the cost of its packet is charged to the packet's last slice
    /// at the end of the packet.
    #[inline(always)]
    pub(super) fn push_piece(&mut self, piece: &impl Piece, &Place { packet, fill, .. }: &Place<'_>) {
        let (len, packet_len) = (piece.payload().len(), packet.len());
        if !self.admits(piece.stream(), len) {
            return;
        }
        if self.may_slice(len, packet_len, fill) {
            if self.packet_slice.is_none() {
                self.bytes += packet_bytes(packet_len);
                self.packet_charge_bytes = charge(packet_bytes(packet_len));
            }
            self.enqueue(Held { message: piece.message(packet.slice_ref(piece.payload())), charge_bytes: 0 });
            self.packet_slice = u32::try_from(self.queue.len()).ok().and_then(NonZeroU32::new);
        } else {
            self.enqueue(Held::new(piece.message(Bytes::copy_from_slice(piece.payload())), len));
        }
    }

    #[inline]
    fn may_slice(&self, len: usize, packet_len: usize, fill: Fill) -> bool {
        !is_wasteful(len, packet_len)
            && (self.packet_slice.is_some()
                || fill.has_room_for_small_slice(packet_len)
                || fill.has_room_for_slice(len, packet_len))
    }

    /// Queues a message and counts its memory; drops it if its stream is discarded.
    #[inline]
    pub(super) fn push(&mut self, held: Held) {
        if self.admits(held.message.stream, held.message.payload.len()) {
            self.enqueue(held);
        }
    }

    #[inline]
    fn admits(&mut self, stream: StreamId, payload_bytes: usize) -> bool {
        self.unread.as_mut().is_none_or(|unread| unread.admits(stream, payload_bytes))
    }

    #[inline]
    fn enqueue(&mut self, mut held: Held) {
        held.message.restarts = self.restarts;
        if self.queue.len() == self.queue.capacity() {
            self.grow();
        }
        self.bytes += held.charge() + QUEUE_ENTRY_BYTES;
        self.queue.push_back(held);
    }

    #[cold]
    fn grow(&mut self) {
        let len = self.queue.len();
        let more = if len < DOUBLED_CAPACITY_MAX { len.max(4) } else { len / 8 };
        self.queue.reserve_exact(more);
    }

    /// Adds memory allocated by the assembly.
    pub(super) fn hold_more(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Subtracts memory freed by the assembly.
    pub(super) fn hold_less(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Handles a restart of all streams. Queued messages stay, and still count: they have been acknowledged and are complete.
    pub(in crate::receive) fn restart(&mut self) {
        self.packet_done();
        self.bytes = self.queue.iter().map(|held| held.charge() + QUEUE_ENTRY_BYTES).sum();
        self.resume_all();
    }

    /// Messages queued from now on come from a peer that has restarted.
    pub(in crate::receive) fn peer_restarted(&mut self) {
        self.restarts = self.restarts.wrapping_add(1);
    }

    /// Counts unread bytes by stream, and limits those of each stream.
    pub(in crate::receive) fn limit_streams(&mut self, bytes_max: Option<usize>) {
        self.unread = bytes_max.map(|_| Box::new(Unread::new(bytes_max)));
    }

    /// Discards the queued messages of a stream and all that arrive from now on. Returns the number of messages discarded.
    pub(in crate::receive) fn discard(&mut self, stream: StreamId) -> usize {
        self.packet_done();
        self.unread.get_or_insert_with(|| Box::new(Unread::new(None))).discard(stream);
        let before = self.queue.len();
        let mut kept = VecDeque::with_capacity(before.min(IDLE_CAPACITY_MAX));
        // The last slice of a packet carries the charge for it. If that goes, the slice before it takes the charge over.
        let mut charge_bytes = 0;
        while let Some(mut held) = self.queue.pop_back() {
            if held.message.stream == stream {
                self.bytes -= held.charge() + QUEUE_ENTRY_BYTES;
                charge_bytes = if held.charge_bytes > 0 { held.charge_bytes } else { charge_bytes };
                continue;
            }
            if held.charge_bytes == 0 && charge_bytes > 0 {
                held.charge_bytes = std::mem::take(&mut charge_bytes);
                self.bytes += held.charge();
            }
            kept.push_front(held);
        }
        self.queue = kept;
        before - self.queue.len()
    }

    /// Queues messages of a stream again.
    pub(in crate::receive) fn resume(&mut self, stream: StreamId) {
        if let Some(unread) = &mut self.unread {
            unread.resume(stream);
        }
    }

    /// As [`resume`](Self::resume), all streams.
    pub(in crate::receive) fn resume_all(&mut self) {
        if let Some(unread) = &mut self.unread {
            unread.resume_all(self.queue.iter().map(|held| (held.message.stream, held.message.payload.len())));
        }
    }

    /// Returns the next stream that is discarded because it has reached its limit.
    pub(in crate::receive) fn poll_overrun(&mut self) -> Option<StreamId> {
        self.unread.as_mut()?.poll_overrun()
    }

    /// Ends the current packet.
    #[inline]
    pub(in crate::receive) fn packet_done(&mut self) {
        if let Some(len) = self.packet_slice.take()
            && let Some(last) = self.queue.get_mut(len.get() as usize - 1)
        {
            last.charge_bytes = self.packet_charge_bytes;
        }
    }

    /// The next message for the application.
    #[inline]
    pub(in crate::receive) fn pop(&mut self) -> Option<ReceivedMessage> {
        if self.packet_slice.is_some() {
            self.packet_done();
        }
        let held = self.queue.pop_front()?;
        self.bytes -= held.charge() + QUEUE_ENTRY_BYTES;
        if let Some(unread) = &mut self.unread {
            unread.fetched(held.message.stream, held.message.payload.len());
        }
        if self.queue.len() < self.queue.capacity() / 2 {
            self.shrink();
        }
        Some(held.message)
    }

    #[inline]
    fn shrink(&mut self) {
        let (len, capacity) = (self.queue.len(), self.queue.capacity());
        if len == 0 && capacity > IDLE_CAPACITY_MAX {
            self.queue = VecDeque::new();
        } else if capacity > DOUBLED_CAPACITY_MAX {
            self.queue.shrink_to(len + len / 8);
        }
    }

    /// Whether the application can have a message.
    #[inline]
    pub(in crate::receive) fn has_message(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether the available messages take at most `bytes_max`. Looks at no more messages than that.
    pub(in crate::receive) fn fetchable_within(&self, bytes_max: usize) -> bool {
        let mut bytes = if self.packet_slice.is_some() { self.packet_charge_bytes as usize } else { 0 };
        self.queue.iter().all(|held| {
            bytes += held.charge() + QUEUE_ENTRY_BYTES;
            bytes <= bytes_max
        })
    }

    /// The allocated bytes here and in the assembly.
    #[inline]
    pub(in crate::receive) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Releases unused capacity of the queue.
    pub(in crate::receive) fn give_back_memory(&mut self) {
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
    }

    #[cfg(test)]
    pub(in crate::receive) fn capacity(&self) -> usize {
        self.queue.capacity()
    }
}

impl Held {
    pub(super) fn new(message: ReceivedMessage, charge_bytes: usize) -> Self {
        Self { message, charge_bytes: charge(charge_bytes) }
    }

    pub(super) fn charge(&self) -> usize {
        self.charge_bytes as usize
    }
}

fn charge(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a message has at most 2^30 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::tracker::Tracker;
    use crate::wire::{Data, Ssn, StreamId, Tsn};

    /// Has a message of one byte arrive in a packet of its own.
    fn take(ready: &mut Ready) {
        let packet = Bytes::from(vec![7; 40]);
        let piece = Data {
            tsn: Tsn(1),
            stream: StreamId(0),
            ssn: Ssn(0),
            ppid: 0,
            unordered: false,
            beginning: true,
            end: true,
            immediate: false,
            payload: &packet[39..],
        };
        let spot = Tracker::new(Tsn(1)).next_spot();
        let fill = Fill { used_bytes: ready.held_bytes(), buffer_bytes: 1 << 20 };
        ready.push_piece(
            &piece,
            &Place {
                spot: &spot,
                packet: &packet,
                fill,
                skips_so_far: crate::receive::SkipsSoFar::None,
                may_skip: false,
                message_bytes_max: 1,
            },
        );
        ready.packet_done();
    }

    #[test]
    fn a_queue_that_was_long_gives_its_memory_back_as_it_is_emptied() {
        let mut ready = Ready::default();
        for _ in 0..3_000 {
            take(&mut ready);
            assert!(ready.capacity() <= DOUBLED_CAPACITY_MAX + 2 * ready.queue.len());
        }
        while ready.pop().is_some() {
            assert!(ready.capacity() <= DOUBLED_CAPACITY_MAX + 2 * ready.queue.len());
        }
        assert_eq!((ready.capacity(), ready.held_bytes()), (0, 0));
    }

    #[test]
    fn an_entry_of_the_queue_and_as_much_in_reserve_cost_what_is_counted() {
        assert!(2 * size_of::<Held>() <= QUEUE_ENTRY_BYTES);
    }

    #[test]
    fn a_short_queue_keeps_its_memory_for_the_next_message_until_it_is_asked_to_give_it_back() {
        let mut ready = Ready::default();
        take(&mut ready);
        ready.give_back_memory();
        ready.pop().unwrap();
        assert!((1..=IDLE_CAPACITY_MAX).contains(&ready.capacity()));
        ready.give_back_memory();
        assert_eq!(ready.capacity(), 0);
    }
}
