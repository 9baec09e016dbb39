//! The queue in front of a link's transmitter, and which of its packets are marked or dropped.
//!
//! [`QueueLimit`] limits every queue. [`QueueDiscipline`] selects drop-tail or active management, one file each:
//!
//! - [`red`]: drops arrivals with a probability that follows the average length
//! - [`dred`]: like RED with the present length, as in Goel et al. 2002
//! - [`pie`]: drops arrivals with a probability that a controller derives from the delay
//! - [`codel`]: drops departures while the delay stays above a target
//! - [`fq_codel`]: a queue for each flow, served in turn, each with CoDel
//!
//! All of them mark ECN-capable packets instead of dropping them, as far as the method allows. They use integer
//! arithmetic: probabilities in parts of a power of ten, averages and square roots in fixed point.

pub mod codel;
pub mod dred;
mod fifo;
pub mod fq_codel;
pub mod pie;
pub mod red;

pub use codel::CoDelConfig;
pub use dred::DredConfig;
pub use fq_codel::FqCoDelConfig;
pub use pie::PieConfig;
pub use red::RedConfig;

use festina_units::{Bandwidth, ByteCount, Instant};

use crate::random::RandomStream;
use codel::CoDel;
use dred::Dred;
use fifo::{Fifo, Waiting};
use fq_codel::FqCoDel;
use pie::Pie;
use red::Red;

/// The limits of a queue. Both apply at the same time, and the packet in transmission counts towards neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimit {
    /// Maximum number of waiting packets.
    pub packets: usize,
    /// Maximum number of waiting bytes.
    pub bytes: ByteCount,
    /// Whether the last packet may exceed [`bytes`](Self::bytes): a packet of any size is accepted while at most that
    /// many bytes wait. Large and small packets are then dropped alike. Otherwise packets that do not fit are dropped,
    /// which hits the large ones.
    pub may_exceed: bool,
}

impl QueueLimit {
    /// Allows at most `packets` packets of any size.
    pub const fn packets(packets: usize) -> Self {
        Self { packets, bytes: ByteCount::MAX, may_exceed: false }
    }

    /// Allows at most `bytes` bytes in at most [`QueueLimit::PACKETS_MAX`] packets.
    pub const fn bytes(bytes: ByteCount) -> Self {
        Self { packets: Self::PACKETS_MAX, bytes, may_exceed: false }
    }

    /// Like [`bytes`](Self::bytes), but the last packet may exceed the limit, as in FreeBSD's Dummynet (`dn_enqueue`).
    pub const fn bytes_as_dummynet(bytes: ByteCount) -> Self {
        Self { packets: Self::PACKETS_MAX, bytes, may_exceed: true }
    }

    /// The packet limit of a queue that is limited by bytes. It only limits the memory that empty or tiny packets can
    /// take.
    pub const PACKETS_MAX: usize = 1 << 20;

    fn has_room_for(&self, size: ByteCount, waiting_packets: usize, waiting_bytes: ByteCount) -> bool {
        let needed = if self.may_exceed { waiting_bytes } else { waiting_bytes + size };
        waiting_packets < self.packets && needed <= self.bytes
    }
}

impl Default for QueueLimit {
    /// A thousand packets, the length of an interface queue in Linux.
    fn default() -> Self {
        Self::packets(1_000)
    }
}

/// The management of a queue, in addition to its [`QueueLimit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueDiscipline {
    /// First in, first out; packets that do not fit are dropped.
    #[default]
    DropTail,
    /// Random early detection.
    Red(RedConfig),
    /// Derivative random drop.
    Dred(DredConfig),
    /// Proportional integral controller enhanced.
    Pie(PieConfig),
    /// Controlled delay.
    CoDel(CoDelConfig),
    /// Controlled delay in a queue for each flow.
    FqCoDel(FqCoDelConfig),
}

/// The interface of queued items.
pub(crate) trait Queueable {
    fn flow(&self) -> u64;
    fn is_ecn_capable(&self) -> bool;
    fn mark_congestion(&mut self);
}

/// The decision of a management method about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Accept it.
    Admit,
    /// Signal congestion to its sender: mark it if it is ECN-capable, otherwise drop it.
    Signal,
    /// Drop it.
    Drop,
}

/// Items dropped from a queue, and the number of marks made.
#[derive(Debug)]
struct Signals<T> {
    dropped: Vec<T>,
    marked: u64,
}

impl<T: Queueable> Signals<T> {
    fn new() -> Self {
        Self { dropped: Vec::new(), marked: 0 }
    }

    fn drop_all(&mut self, waiting: impl IntoIterator<Item = Waiting<T>>) {
        self.dropped.extend(waiting.into_iter().map(|waiting| waiting.item));
    }

    /// Marks the item if that is allowed and possible, and returns whether it did.
    fn mark(&mut self, item: &mut T, may_mark: bool) -> bool {
        let marks = may_mark && item.is_ecn_capable();
        if marks {
            item.mark_congestion();
            self.marked += 1;
        }
        marks
    }
}

/// A queue with its management.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    limit: QueueLimit,
    storage: Storage<T>,
    signals: Signals<T>,
}

#[derive(Debug)]
enum Storage<T> {
    /// One queue for all flows.
    Single(Fifo<T>, Manager),
    /// One queue per flow.
    PerFlow(Box<FqCoDel<T>>),
}

/// The management of a single queue.
#[derive(Debug)]
enum Manager {
    None,
    Red(Red),
    Dred(Dred),
    Pie(Pie),
    CoDel(CoDel),
}

impl<T: Queueable> Queue<T> {
    /// Creates an empty queue in front of a transmitter of this rate, which draws from the stream `name` of `seed`.
    pub(crate) fn new(
        limit: QueueLimit,
        discipline: QueueDiscipline,
        rate: Option<Bandwidth>,
        seed: u64,
        name: &str,
    ) -> Self {
        let random = RandomStream::new(seed, name);
        let manager = match discipline {
            QueueDiscipline::DropTail => Manager::None,
            QueueDiscipline::Red(config) => Manager::Red(Red::new(config, rate, random)),
            QueueDiscipline::Dred(config) => Manager::Dred(Dred::new(config, random)),
            QueueDiscipline::Pie(config) => Manager::Pie(Pie::new(config, random)),
            QueueDiscipline::CoDel(config) => Manager::CoDel(CoDel::new(config)),
            QueueDiscipline::FqCoDel(config) => {
                let storage = Storage::PerFlow(Box::new(FqCoDel::new(config, random)));
                return Self { limit, storage, signals: Signals::new() };
            }
        };
        let storage = Storage::Single(Fifo::new(), manager);
        Self { limit, storage, signals: Signals::new() }
    }

    /// Accepts an item of `size` bytes, or returns it to be dropped.
    pub(crate) fn offer(&mut self, now: Instant, size: ByteCount, mut item: T) -> Result<(), T> {
        match &mut self.storage {
            Storage::Single(fifo, manager) => {
                let verdict = match manager {
                    Manager::None | Manager::CoDel(_) => Verdict::Admit,
                    Manager::Red(red) => red.decide(now, fifo.len()),
                    Manager::Dred(dred) => dred.decide(fifo.bytes()),
                    Manager::Pie(pie) => pie.decide(now, fifo.bytes()),
                };
                let is_admitted = self.limit.has_room_for(size, fifo.len(), fifo.bytes())
                    && match verdict {
                        Verdict::Admit => true,
                        Verdict::Signal => self.signals.mark(&mut item, true),
                        Verdict::Drop => false,
                    };
                if !is_admitted {
                    return Err(item);
                }
                fifo.push(Waiting { size, since: now, item });
            }
            Storage::PerFlow(queues) => queues.push(Waiting { size, since: now, item }, &self.limit, &mut self.signals),
        }
        Ok(())
    }

    /// Takes the item to transmit next, and its size. Returns `None` if all waiting items were dropped.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(ByteCount, T)> {
        let popped = match &mut self.storage {
            Storage::Single(fifo, Manager::CoDel(codel)) => codel.pop(now, fifo, &mut self.signals),
            Storage::Single(fifo, manager) => {
                let popped = fifo.pop();
                match manager {
                    Manager::Red(red) if fifo.is_empty() => red.note_empty(now),
                    Manager::Pie(pie) => {
                        if let Some(popped) = &popped {
                            pie.note_departure(now, now - popped.since, fifo.is_empty());
                        }
                    }
                    _ => {}
                }
                popped
            }
            Storage::PerFlow(queues) => queues.pop(now, &mut self.signals),
        };
        popped.map(|waiting| (waiting.size, waiting.item))
    }

    /// Handles an item that finds the queue empty and the transmitter idle: it is returned at once, unless the
    /// discipline drops it.
    pub(crate) fn pass(&mut self, now: Instant, size: ByteCount, item: T) -> Result<(ByteCount, T), T> {
        match &self.storage {
            Storage::Single(_, Manager::None) => return Ok((size, item)),
            Storage::Single(..) | Storage::PerFlow(_) => self.note_idle(now),
        }
        self.offer(now, size, item)?;
        self.pop(now).ok_or_else(|| {
            self.signals.dropped.pop().expect("an item that is neither returned nor waiting was dropped")
        })
    }

    /// Reports that the queue is empty and the transmitter idle. When it became idle it polled again and found
    /// nothing, which ends a dropping state and the turns of flows.
    pub(crate) fn note_idle(&mut self, now: Instant) {
        if matches!(self.storage, Storage::Single(_, Manager::CoDel(_)) | Storage::PerFlow(_)) {
            let nothing = self.pop(now);
            debug_assert!(nothing.is_none(), "the caller says that the queue is empty");
        }
    }

    /// Takes the items that the discipline dropped after accepting them.
    pub(crate) fn take_dropped(&mut self) -> impl Iterator<Item = T> {
        self.signals.dropped.drain(..)
    }

    /// Returns the number of marked items.
    pub(crate) fn marked(&self) -> u64 {
        self.signals.marked
    }

    pub(crate) fn len(&self) -> usize {
        match &self.storage {
            Storage::Single(fifo, _) => fifo.len(),
            Storage::PerFlow(queues) => queues.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn bytes(&self) -> ByteCount {
        match &self.storage {
            Storage::Single(fifo, _) => fifo.bytes(),
            Storage::PerFlow(queues) => queues.bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
