//! A queue for each flow, served in turn by bytes, each with CoDel (RFC 8290).

use std::collections::VecDeque;

use festina_units::{ByteCount, Instant};

use super::codel::{CoDel, CoDelConfig};
use super::fifo::{Fifo, Waiting};
use super::{QueueLimit, Queueable, Signals};
use crate::random::RandomStream;

/// Parameters of FQ-CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCoDelConfig {
    /// The management of each queue.
    pub codel: CoDelConfig,
    /// Number of queues; flows are hashed to them (RFC 8290 §5.2.4: 1024). At least one.
    pub queue_count: u16,
    /// Bytes that a queue may send before the next one's turn (RFC 8290 §5.2.3: one packet of the largest size). Not
    /// zero.
    pub quantum: ByteCount,
}

impl Default for FqCoDelConfig {
    /// The values of RFC 8290, for Ethernet.
    fn default() -> Self {
        Self { codel: CoDelConfig::default(), queue_count: 1_024, quantum: ByteCount::from_bytes(1_514) }
    }
}

/// Maximum number of packets dropped at once from the longest queue when there is no room (RFC 8290 §4.1).
const DROP_BATCH_PACKETS_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct FqCoDel<T> {
    queues: Vec<FlowQueue<T>>,
    /// Queues that had been empty: each may send one quantum before the others.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum_bytes: i64,
    /// Makes the hash unpredictable.
    perturbation: u64,
    packets: usize,
    bytes: ByteCount,
}

#[derive(Debug)]
struct FlowQueue<T> {
    fifo: Fifo<T>,
    codel: CoDel,
    /// Bytes that it may still send in its turn.
    credit_bytes: i64,
    is_listed: bool,
}

impl<T: Queueable> FqCoDel<T> {
    pub(super) fn new(config: FqCoDelConfig, mut random: RandomStream) -> Self {
        let empty =
            || FlowQueue { fifo: Fifo::new(), codel: CoDel::new(config.codel), credit_bytes: 0, is_listed: false };
        Self {
            queues: (0..config.queue_count.max(1)).map(|_| empty()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum_bytes: signed_bytes(config.quantum).max(1),
            perturbation: random.bits(),
            packets: 0,
            bytes: ByteCount::ZERO,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.packets
    }

    pub(super) fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// Appends to the queue of the item's flow, and makes room in the longest queue if the limit is exceeded.
    pub(super) fn push(&mut self, waiting: Waiting<T>, limit: &QueueLimit, signals: &mut Signals<T>) {
        let index = self.queue_of(waiting.item.flow());
        self.packets += 1;
        self.bytes += waiting.size;
        let queue = &mut self.queues[index];
        queue.fifo.push(waiting);
        if !queue.is_listed {
            queue.is_listed = true;
            queue.credit_bytes = self.quantum_bytes;
            self.new.push_back(index);
        }
        while self.packets > limit.packets || self.bytes > limit.bytes {
            self.shorten_longest(signals);
        }
    }

    /// Takes the next item of the queue whose turn it is (RFC 8290 §4.2).
    pub(super) fn pop(&mut self, now: Instant, signals: &mut Signals<T>) -> Option<Waiting<T>> {
        loop {
            let is_new = !self.new.is_empty();
            let turns = if is_new { &mut self.new } else { &mut self.old };
            let index = *turns.front()?;
            let queue = &mut self.queues[index];
            if queue.credit_bytes <= 0 {
                queue.credit_bytes += self.quantum_bytes;
                turns.pop_front();
                self.old.push_back(index);
                continue;
            }
            let (packets_before, bytes_before) = (queue.fifo.len(), queue.fifo.bytes());
            let popped = queue.codel.pop(now, &mut queue.fifo, signals);
            self.packets -= packets_before - queue.fifo.len();
            self.bytes -= bytes_before - queue.fifo.bytes();
            if let Some(waiting) = popped {
                queue.credit_bytes -= signed_bytes(waiting.size);
                return Some(waiting);
            }
            turns.pop_front();
            if is_new && !self.old.is_empty() {
                // The queue goes to the end of the list, so that a flow that sends one packet at a time is not new for
                // ever.
                self.old.push_back(index);
            } else {
                queue.is_listed = false;
            }
        }
    }

    fn shorten_longest(&mut self, signals: &mut Signals<T>) {
        // The first of several queues of the same length.
        let longest =
            self.queues.iter_mut().rev().max_by_key(|queue| queue.fifo.bytes().bytes().max(queue.fifo.len() as u64));
        let Some(queue) = longest else {
            return;
        };
        let count = (queue.fifo.len() / 2).clamp(1, DROP_BATCH_PACKETS_MAX);
        for _ in 0..count {
            let Some(oldest) = queue.fifo.pop() else {
                return;
            };
            self.packets -= 1;
            self.bytes -= oldest.size;
            signals.dropped.push(oldest.item);
        }
    }

    fn queue_of(&self, flow: u64) -> usize {
        // A finalizer mixes all bits, so that adjacent flow numbers are spread too.
        let mut hash = flow ^ self.perturbation;
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^= hash >> 33;
        let count = self.queues.len() as u64;
        usize::try_from(hash % count).expect("there are few queues")
    }
}

fn signed_bytes(size: ByteCount) -> i64 {
    i64::try_from(size.bytes()).unwrap_or(i64::MAX)
}
