//! CPU time of bulk transfer, and memory of idle associations.
//!
//! Both endpoints of an association live in this thread and are joined by lossless queues without delay. Packets move in
//! batches of [`BATCH_PACKETS`], as a driver would read them from a socket. Virtual time stands still while anything can
//! be done and otherwise jumps to the next deadline.

use std::time::Duration;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};

use crate::peer::{Message, Peer, SendError, Settings, Stack};

/// Packets handed over between two looks at what the receiver wants to send.
pub const BATCH_PACKETS: usize = 32;

/// Messages sent before the clock starts, so that slow start and first allocations are not measured.
const WARM_UP_MESSAGES: u64 = 2_000;
/// Messages between two readings of the CPU clock.
const MESSAGES_PER_READING: u64 = 1_000;
/// Messages over which allocations are counted.
const MESSAGES_COUNTED: u64 = 20_000;
/// Turns without progress after which a transfer counts as stalled.
const IDLE_TURNS_MAX: u32 = 1_000;
/// How long an association rests before its memory counts: past the first heartbeat of every stack that sends any.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// User data of each message that an association exchanges before it goes idle.
const GREETING: &[u8] = &[0x5A; 100];

/// The outcome of one bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BulkSample {
    /// Messages delivered.
    pub messages: u64,
    /// User data delivered, in bytes.
    pub payload_bytes: u64,
    /// CPU time of this thread: both endpoints together.
    pub cpu: Duration,
}

impl BulkSample {
    /// CPU seconds for each 10^9 bytes of user data.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    pub fn cpu_seconds_per_gigabyte(&self) -> f64 {
        self.cpu.as_secs_f64() / (self.payload_bytes as f64 / 1e9)
    }

    /// Messages for each second of CPU time.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    pub fn messages_per_cpu_second(&self) -> f64 {
        self.messages as f64 / self.cpu.as_secs_f64()
    }
}

/// Keeps the send buffer full of ordered, reliable messages of `message_bytes` on one stream until `cpu_target` of CPU time
/// is used up, and counts the messages delivered.
///
/// # Panics
/// If the stack does not connect, refuses a message, stalls, or delivers a message of another size.
#[must_use]
pub fn bulk<S: Stack>(message_bytes: usize, cpu_target: Duration) -> BulkSample {
    let (mut pair, message) = warm_pair::<S>(message_bytes);
    let start = thread_cpu_time();
    let mut messages = 0;
    let mut cpu = Duration::ZERO;
    while cpu < cpu_target {
        messages += pair.transfer(&message, u64::MAX, MESSAGES_PER_READING);
        cpu = thread_cpu_time().saturating_sub(start);
    }
    BulkSample { messages, payload_bytes: messages * message_bytes as u64, cpu }
}

/// Heap allocations of both endpoints together for each message of a bulk transfer. `allocations` reads the counter of the
/// global allocator.
///
/// # Panics
/// As [`bulk`].
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
pub fn allocations_per_message<S: Stack>(message_bytes: usize, allocations: fn() -> u64) -> f64 {
    let (mut pair, message) = warm_pair::<S>(message_bytes);
    let before = allocations();
    let messages = pair.transfer(&message, u64::MAX, MESSAGES_COUNTED);
    (allocations() - before) as f64 / messages as f64
}

/// An association that has left slow start, and the message that it carries.
fn warm_pair<S: Stack>(message_bytes: usize) -> (Pair<S::Peer>, Message) {
    let mut pair = Pair::connect(&mut S::new(&Settings::bulk()), Duration::ZERO);
    let message = Message { stream: 0, ppid: 53, unordered: false, payload: Bytes::from(vec![0x5A_u8; message_bytes]) };
    pair.transfer(&message, u64::MAX, WARM_UP_MESSAGES);
    (pair, message)
}

/// Establishes `pairs` associations, lets each carry `messages` small messages in each direction and go idle, and returns the
/// bytes of live heap per endpoint, the factory's share included. `live_bytes` reads the counter of the global allocator.
///
/// # Panics
/// If an association does not connect or loses a message.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
pub fn idle_bytes_per_endpoint<S: Stack>(pairs: usize, messages: u64, live_bytes: fn() -> i64) -> f64 {
    let greeting = Message { stream: 0, ppid: 53, unordered: false, payload: Bytes::from_static(GREETING) };
    let before = live_bytes();
    let mut stack = S::new(&Settings::bulk());
    let mut idle = Vec::with_capacity(pairs);
    for _ in 0..pairs {
        let mut pair = Pair::connect(&mut stack, Duration::ZERO);
        pair.transfer(&greeting, messages, messages);
        std::mem::swap(&mut pair.near, &mut pair.far);
        pair.transfer(&greeting, messages, messages);
        pair.rest(IDLE_TIME);
        idle.push((pair.near, pair.far));
    }
    let after = live_bytes();
    drop(idle);
    (after - before) as f64 / (pairs * 2) as f64
}

/// CPU time that this thread has used.
fn thread_cpu_time() -> Duration {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(at.tv_sec).unwrap_or(0), u32::try_from(at.tv_nsec).unwrap_or(0))
}

/// Two endpoints of one association.
struct Pair<P> {
    near: P,
    far: P,
    now: Duration,
}

impl<P: Peer> Pair<P> {
    fn connect<S: Stack<Peer = P>>(stack: &mut S, now: Duration) -> Self {
        let mut pair = Pair { near: stack.client(now), far: stack.server(now), now };
        let mut idle_turns = 0;
        while !(pair.near.is_connected() && pair.far.is_connected()) {
            pair.turn_or_wait(&mut idle_turns);
        }
        pair
    }

    /// Sends up to `send_max` messages from the near to the far endpoint, until at least `deliver_min` have been delivered;
    /// returns how many were.
    fn transfer(&mut self, message: &Message, send_max: u64, deliver_min: u64) -> u64 {
        let (mut sent, mut delivered, mut idle_turns) = (0, 0, 0);
        while delivered < deliver_min {
            while sent < send_max {
                match self.near.send(self.now, message) {
                    Ok(()) => sent += 1,
                    Err(SendError::WouldBlock) => break,
                    Err(error @ SendError::Refused(_)) => panic!("{error}"),
                }
            }
            self.turn_or_wait(&mut idle_turns);
            while let Some(received) = self.far.receive(self.now) {
                assert_eq!(received.payload.len(), message.payload.len());
                delivered += 1;
            }
        }
        delivered
    }

    /// Lets the timers that are due within `time` run out.
    fn rest(&mut self, time: Duration) {
        let until = self.now + time;
        while self.turn() {}
        while let Some(at) = self.deadline()
            && at <= until
        {
            self.advance(at);
            while self.turn() {}
        }
        self.now = until;
        // Some stacks keep what has happened until it is asked for.
        while self.near.receive(self.now).is_some() || self.far.receive(self.now).is_some() {}
    }

    fn turn_or_wait(&mut self, idle_turns: &mut u32) {
        if self.turn() {
            *idle_turns = 0;
            return;
        }
        *idle_turns += 1;
        assert!(*idle_turns < IDLE_TURNS_MAX, "stalled: {:?} {:?}", self.near.error(), self.far.error());
        if let Some(at) = self.deadline() {
            self.advance(at);
        }
    }

    /// One batch in each direction; whether any packet moved.
    fn turn(&mut self) -> bool {
        let there = hand_over(&mut self.near, &mut self.far, self.now);
        let back = hand_over(&mut self.far, &mut self.near, self.now);
        there || back
    }

    fn deadline(&self) -> Option<Duration> {
        self.near.deadline().into_iter().chain(self.far.deadline()).min()
    }

    fn advance(&mut self, to: Duration) {
        self.now = self.now.max(to);
        self.near.handle_timeout(self.now);
        self.far.handle_timeout(self.now);
    }
}

fn hand_over<P: Peer>(from: &mut P, to: &mut P, now: Duration) -> bool {
    for handed_over in 0..BATCH_PACKETS {
        match from.poll_packet(now) {
            Some(packet) => to.handle_packet(now, packet),
            None => return handed_over > 0,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{DcSctp, RtcSctp, SctpProto};

    fn transfers<S: Stack>() {
        let sample = bulk::<S>(1_200, Duration::from_millis(1));
        assert!(sample.messages >= MESSAGES_PER_READING);
        assert_eq!(sample.payload_bytes, sample.messages * 1_200);
        assert!(sample.messages_per_cpu_second() > 0.0 && sample.cpu_seconds_per_gigabyte() > 0.0);
    }

    #[test]
    fn every_stack_carries_bulk_data_between_two_endpoints() {
        transfers::<DcSctp>();
        transfers::<RtcSctp>();
        transfers::<SctpProto>();
    }

    #[test]
    fn idle_memory_is_shared_among_the_endpoints() {
        fn no_allocator() -> i64 {
            0
        }
        assert!(idle_bytes_per_endpoint::<DcSctp>(3, 4, no_allocator).abs() < f64::EPSILON);
        assert!(idle_bytes_per_endpoint::<RtcSctp>(3, 4, no_allocator).abs() < f64::EPSILON);
        assert!(idle_bytes_per_endpoint::<SctpProto>(3, 0, no_allocator).abs() < f64::EPSILON);
    }
}
