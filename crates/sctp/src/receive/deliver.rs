//! The order of delivery within each stream (RFC 9260 §6.5, §6.6), and the queue to the application.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

use bytes::Bytes;

use super::cost::{Fill, QUEUE_ENTRY_BYTES, WAITING_ENTRY_BYTES, is_wasteful, packet_bytes};
use super::reassembly::Assembled;
use crate::message::ReceivedMessage;
use crate::stream_table::StreamTable;
use crate::wire::{Data, Ssn, StreamId};

/// How much of the queue's capacity outlives the queue's running empty, in messages: what one packet of small messages needs.
const IDLE_CAPACITY_MAX: usize = 16;

/// Up to so many messages the queue's capacity is doubled when it is full; beyond, it grows by an eighth, and shrinks when half
/// of it is idle, so that no message has more than a second entry in reserve.
const DOUBLED_CAPACITY_MAX: usize = 64;

/// What the table of streams may take before it counts.
const TABLE_BYTES_FREE: usize = 16 << 10;

/// How far ahead of the next SSN one may lie; any other is behind it.
const SSN_SPAN: u16 = 1 << 15;

const USED_TWICE: &str = "a stream sequence number was used twice";

/// Whole messages: those that the application can have, and those that wait for an earlier one of their stream.
///
/// Memory: everything in here counts towards the receive window, except the first 64 entries of the queue and the first
/// 16 KiB of the table of streams.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    ready: VecDeque<Held>,
    /// By stream and SSN. Empty unless something was lost or reordered.
    waiting: BTreeMap<(StreamId, u16), Held>,
    /// The SSN that is due, per stream.
    next_ssn: StreamTable<u16>,
    /// How long `ready` was when the latest slice of the packet at hand had been pushed. That slice is to carry the charge for the packet, since it is the
    /// last of its slices to be fetched.
    packet_slice: Option<NonZeroU32>,
    packet_charge_bytes: u32,
    bytes: usize,
}

/// A message with what it keeps allocated, its entry not included.
#[derive(Debug)]
struct Held {
    message: ReceivedMessage,
    charge_bytes: u32,
}

/// When a message of a stream may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Now,
    Later,
}

impl Delivery {
    /// Takes a chunk that holds a whole message. SSNs alone make the order: one that was skipped may come with a later TSN.
    ///
    /// # Errors
    /// The peer used an SSN twice.
    #[inline]
    pub(super) fn take(&mut self, data: &Data<'_>, packet: &Bytes, fill: Fill) -> Result<(), &'static str> {
        match self.turn(data.stream, data.ssn, data.unordered)? {
            Turn::Now => {
                self.push_chunk(data, packet, fill);
                self.release_waiting(data.stream, data.unordered);
                Ok(())
            }
            Turn::Later => {
                let len = data.payload.len();
                let (payload, charge_bytes) = if fill.has_room_for_slice(len, packet.len()) {
                    (packet.slice_ref(data.payload), packet_bytes(packet.len()))
                } else {
                    (Bytes::copy_from_slice(data.payload), len)
                };
                self.wait(Held::new(message(data, payload), charge_bytes), data.ssn)
            }
        }
    }

    /// Takes a message that was put together from fragments.
    ///
    /// # Errors
    /// The peer used an SSN twice.
    pub(super) fn take_assembled(&mut self, assembled: Assembled) -> Result<(), &'static str> {
        let Assembled { message, ssn } = assembled;
        let (stream, unordered, charge_bytes) = (message.stream, message.unordered, message.payload.len());
        let held = Held::new(message, charge_bytes);
        match self.turn(stream, ssn, unordered)? {
            Turn::Now => {
                self.bytes += charge_bytes;
                self.push(held);
                self.release_waiting(stream, unordered);
                Ok(())
            }
            Turn::Later => self.wait(held, ssn),
        }
    }

    /// Whose turn it is; counts the message if it is its own.
    #[inline]
    fn turn(&mut self, stream: StreamId, ssn: Ssn, unordered: bool) -> Result<Turn, &'static str> {
        if unordered {
            return Ok(Turn::Now);
        }
        if !self.next_ssn.is_flat(stream) {
            self.enter_stream(stream);
        }
        let next = self.next_ssn.get_mut(stream);
        let ahead = ssn.0.wrapping_sub(*next);
        if ahead == 0 {
            *next = next.wrapping_add(1);
            Ok(Turn::Now)
        } else if ahead < SSN_SPAN {
            Ok(Turn::Later)
        } else {
            Err(USED_TWICE)
        }
    }

    /// Whether a message that came whole could be fetched at once.
    pub(super) fn is_due(&self, data: &Data<'_>) -> bool {
        data.unordered || self.next_ssn.get(data.stream) == data.ssn.0
    }

    /// Makes sure that the table knows the stream, and counts what the table grows by.
    #[cold]
    fn enter_stream(&mut self, stream: StreamId) {
        let before_bytes = self.table_bytes();
        self.next_ssn.get_mut(stream);
        self.bytes = self.bytes + self.table_bytes() - before_bytes;
    }

    fn table_bytes(&self) -> usize {
        self.next_ssn.held_bytes().saturating_sub(TABLE_BYTES_FREE)
    }

    /// Queues a chunk for the application. A slice is neither copy nor allocation; what its packet costs is noted with the
    /// packet's last slice when the packet is over.
    #[inline]
    fn push_chunk(&mut self, data: &Data<'_>, packet: &Bytes, fill: Fill) {
        let (len, packet_len) = (data.payload.len(), packet.len());
        if !is_wasteful(len, packet_len)
            && (self.packet_slice.is_some()
                || fill.has_room_for_small_slice(packet_len)
                || fill.has_room_for_slice(len, packet_len))
        {
            if self.packet_slice.is_none() {
                self.bytes += packet_bytes(packet_len);
                self.packet_charge_bytes = charge(packet_bytes(packet_len));
            }
            self.push(Held { message: message(data, packet.slice_ref(data.payload)), charge_bytes: 0 });
            self.packet_slice = u32::try_from(self.ready.len()).ok().and_then(NonZeroU32::new);
        } else {
            self.bytes += len;
            self.push(Held::new(message(data, Bytes::copy_from_slice(data.payload)), len));
        }
    }

    /// Queues a message whose charge is counted.
    #[inline]
    fn push(&mut self, held: Held) {
        if self.ready.len() == self.ready.capacity() {
            self.grow();
        }
        self.bytes += QUEUE_ENTRY_BYTES;
        self.ready.push_back(held);
    }

    #[cold]
    fn grow(&mut self) {
        let len = self.ready.len();
        let more = if len < DOUBLED_CAPACITY_MAX { len.max(4) } else { len / 8 };
        self.ready.reserve_exact(more);
    }

    /// Keeps a message until its turn comes.
    fn wait(&mut self, held: Held, ssn: Ssn) -> Result<(), &'static str> {
        self.bytes += held.charge() + WAITING_ENTRY_BYTES;
        match self.waiting.insert((held.message.stream, ssn.0), held) {
            None => Ok(()),
            Some(_) => Err(USED_TWICE),
        }
    }

    /// A message has become ready: queues those that waited for it.
    #[inline]
    fn release_waiting(&mut self, stream: StreamId, unordered: bool) {
        if !self.waiting.is_empty() && !unordered {
            self.release_from(stream);
        }
    }

    fn release_from(&mut self, stream: StreamId) {
        loop {
            let next = self.next_ssn.get_mut(stream);
            let Some(held) = self.waiting.remove(&(stream, *next)) else { return };
            *next = next.wrapping_add(1);
            self.bytes -= WAITING_ENTRY_BYTES;
            self.push(held);
        }
    }

    /// The packet at hand is over.
    #[inline]
    pub(super) fn packet_done(&mut self) {
        if let Some(len) = self.packet_slice.take()
            && let Some(last) = self.ready.get_mut(len.get() as usize - 1)
        {
            last.charge_bytes = self.packet_charge_bytes;
        }
    }

    /// The next message for the application.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<ReceivedMessage> {
        if self.packet_slice.is_some() {
            self.packet_done();
        }
        let held = self.ready.pop_front()?;
        self.bytes -= held.charge() + QUEUE_ENTRY_BYTES;
        if self.ready.len() < self.ready.capacity() / 2 {
            self.shrink();
        }
        Some(held.message)
    }

    #[inline]
    fn shrink(&mut self) {
        let (len, capacity) = (self.ready.len(), self.ready.capacity());
        if len == 0 && capacity > IDLE_CAPACITY_MAX {
            self.ready = VecDeque::new();
        } else if capacity > DOUBLED_CAPACITY_MAX {
            self.ready.shrink_to(len + len / 8);
        }
    }

    /// Whether the application can have a message.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// What is held, as allocated.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back what the queue does not need now.
    pub(super) fn give_back_memory(&mut self) {
        if self.ready.is_empty() {
            self.ready = VecDeque::new();
        }
    }

    #[cfg(test)]
    pub(super) fn ready_capacity(&self) -> usize {
        self.ready.capacity()
    }

    /// All streams begin anew. What is ready stays, and goes on to count: it has been acknowledged and is complete.
    pub(super) fn restart(&mut self) {
        self.waiting.clear();
        self.next_ssn.clear();
        self.packet_done();
        self.bytes = self.ready.iter().map(|held| held.charge() + QUEUE_ENTRY_BYTES).sum();
    }
}

impl Held {
    fn new(message: ReceivedMessage, charge_bytes: usize) -> Self {
        Self { message, charge_bytes: charge(charge_bytes) }
    }

    fn charge(&self) -> usize {
        self.charge_bytes as usize
    }
}

fn charge(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a message has at most 2^30 bytes")
}

#[inline]
fn message(data: &Data<'_>, payload: Bytes) -> ReceivedMessage {
    ReceivedMessage { payload, stream: data.stream, ppid: data.ppid, unordered: data.unordered }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Tsn;

    /// Has a message of one byte arrive in a packet of its own.
    fn take(delivery: &mut Delivery, ssn: u16, unordered: bool) -> Result<(), &'static str> {
        let packet = Bytes::from(vec![7; 40]);
        let payload = &packet[39..];
        let data = Data {
            tsn: Tsn(0),
            stream: StreamId(0),
            ssn: Ssn(ssn),
            ppid: 0,
            unordered,
            beginning: true,
            end: true,
            immediate: false,
            payload,
        };
        let fill = Fill { used_bytes: delivery.held_bytes(), buffer_bytes: 1 << 20 };
        let result = delivery.take(&data, &packet, fill);
        delivery.packet_done();
        result
    }

    #[test]
    fn a_queue_that_was_long_gives_its_memory_back_as_it_is_emptied() {
        let mut delivery = Delivery::default();
        for ssn in 0..3_000 {
            take(&mut delivery, ssn, false).unwrap();
            assert!(delivery.ready_capacity() <= DOUBLED_CAPACITY_MAX + 2 * delivery.ready.len());
        }
        while delivery.pop().is_some() {
            assert!(delivery.ready_capacity() <= DOUBLED_CAPACITY_MAX + 2 * delivery.ready.len());
        }
        assert_eq!((delivery.ready_capacity(), delivery.held_bytes()), (0, 0));
    }

    #[test]
    fn an_entry_of_the_queue_and_as_much_in_reserve_cost_what_is_counted() {
        assert!(2 * size_of::<Held>() <= QUEUE_ENTRY_BYTES);
    }

    #[test]
    fn a_short_queue_keeps_its_memory_for_the_next_message_until_it_is_told_to_give_it_back() {
        let mut delivery = Delivery::default();
        take(&mut delivery, 0, false).unwrap();
        delivery.give_back_memory();
        delivery.pop().unwrap();
        assert!((1..=IDLE_CAPACITY_MAX).contains(&delivery.ready_capacity()));
        delivery.give_back_memory();
        assert_eq!(delivery.ready_capacity(), 0);
    }

    #[test]
    fn unordered_messages_touch_no_stream() {
        let mut delivery = Delivery::default();
        take(&mut delivery, 9, true).unwrap();
        assert_eq!(delivery.next_ssn.held_bytes(), 0);
        assert_eq!(delivery.held_bytes(), packet_bytes(40) + QUEUE_ENTRY_BYTES);
    }

    #[test]
    fn a_table_of_streams_that_has_grown_large_counts() {
        let mut delivery = Delivery::default();
        for stream in 0..=u16::MAX {
            delivery.turn(StreamId(stream), Ssn(0), false).unwrap();
        }
        assert_eq!(delivery.held_bytes(), (128 << 10) - TABLE_BYTES_FREE);
        delivery.restart();
        assert_eq!(delivery.held_bytes(), 0);
    }

    #[test]
    fn an_ssn_half_a_turn_ahead_is_behind() {
        let mut delivery = Delivery::default();
        assert_eq!(take(&mut delivery, SSN_SPAN, false), Err(USED_TWICE));
        assert_eq!(take(&mut delivery, SSN_SPAN - 1, false), Ok(()));
    }
}
