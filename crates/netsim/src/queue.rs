//! What waits in front of a link's transmitter, and which of it is marked or dropped.
//!
//! [`QueueLimit`] bounds every queue. [`QueueDiscipline`] says what else happens: nothing (drop-tail), or active
//! management, one file each:
//!
//! - [`red`]: drops arrivals with a probability that follows the average length
//! - [`dred`]: the same with the present length, as in Goel et al. 2002
//! - [`pie`]: drops arrivals with a probability that a controller derives from the delay
//! - [`codel`]: drops departures while the delay stays above a target
//! - [`fq_codel`]: a queue for each flow, served in turn, each with CoDel
//!
//! All of them mark packets that are capable of ECN instead of dropping them, as far as the method allows. Their
//! arithmetic is in integers: probabilities in parts of a power of ten, averages and square roots in fixed point.

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

/// How much may wait. Both limits hold at the same time, and the packet that is being transmitted
/// counts towards neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimit {
    /// The most packets that may wait.
    pub packets: usize,
    /// The most bytes that may wait.
    pub bytes: ByteCount,
    /// Whether the last packet may exceed [`bytes`](Self::bytes): one is taken if no more than that wait already, however large it is. Large
    /// and small packets are then dropped alike. Else those that do not fit are dropped, which are the large ones.
    pub may_exceed: bool,
}

impl QueueLimit {
    /// At most `packets` packets of any size.
    pub const fn packets(packets: usize) -> Self {
        Self { packets, bytes: ByteCount::MAX, may_exceed: false }
    }

    /// At most `bytes` bytes in at most [`QueueLimit::PACKETS_MAX`] packets.
    pub const fn bytes(bytes: ByteCount) -> Self {
        Self { packets: Self::PACKETS_MAX, bytes, may_exceed: false }
    }

    /// As [`bytes`](Self::bytes), and the last packet may exceed the limit, as in FreeBSD's Dummynet (`dn_enqueue`).
    pub const fn bytes_as_dummynet(bytes: ByteCount) -> Self {
        Self { packets: Self::PACKETS_MAX, bytes, may_exceed: true }
    }

    /// The packet limit of a queue that is limited by bytes. It only bounds the memory that empty or
    /// tiny packets can take.
    pub const PACKETS_MAX: usize = 1 << 20;

    fn has_room_for(&self, size: ByteCount, waiting_packets: usize, waiting_bytes: ByteCount) -> bool {
        let needed = if self.may_exceed { waiting_bytes } else { waiting_bytes + size };
        waiting_packets < self.packets && needed <= self.bytes
    }
}

impl Default for QueueLimit {
    /// A thousand packets, as long as an interface queue under Linux.
    fn default() -> Self {
        Self::packets(1_000)
    }
}

/// How a queue treats what it holds. The [`QueueLimit`] holds as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueDiscipline {
    /// First in, first out; what does not fit is dropped.
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

/// What queues need to know about what they hold.
pub(crate) trait Queueable {
    fn flow(&self) -> u64;
    fn is_ecn_capable(&self) -> bool;
    fn mark_congestion(&mut self);
}

/// What a method of management wants to be done with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing.
    Admit,
    /// Tell its sender of congestion: mark it if it is capable of ECN, else drop it.
    Signal,
    /// Drop it.
    Drop,
}

/// What is taken out of a queue other than to be transmitted, and the marks made.
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

    /// Marks the item, if it may be and can be, and says whether it did.
    fn mark(&mut self, item: &mut T, may_mark: bool) -> bool {
        let marks = may_mark && item.is_ecn_capable();
        if marks {
            item.mark_congestion();
            self.marked += 1;
        }
        marks
    }
}

/// A queue at work.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    limit: QueueLimit,
    storage: Storage<T>,
    signals: Signals<T>,
}

#[derive(Debug)]
enum Storage<T> {
    /// One queue for all.
    Single(Fifo<T>, Manager),
    /// One queue per flow.
    PerFlow(Box<FqCoDel<T>>),
}

/// What manages a single queue.
#[derive(Debug)]
enum Manager {
    None,
    Red(Red),
    Dred(Dred),
    Pie(Pie),
    CoDel(CoDel),
}

impl<T: Queueable> Queue<T> {
    /// An empty queue in front of a transmitter of this rate, which draws from the stream `name` of `seed`.
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

    /// Takes an item of `size` bytes, or gives it back to be dropped.
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

    /// Takes the item that is to be transmitted next, and its size. There may be none although some were waiting.
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

    /// What becomes of an item that finds the queue empty and the transmitter idle: it comes out at once, unless the
    /// discipline drops it.
    pub(crate) fn pass(&mut self, now: Instant, size: ByteCount, item: T) -> Result<(ByteCount, T), T> {
        match &self.storage {
            Storage::Single(_, Manager::None) => return Ok((size, item)),
            Storage::Single(..) | Storage::PerFlow(_) => self.note_idle(now),
        }
        self.offer(now, size, item)?;
        self.pop(now).ok_or_else(|| self.signals.dropped.pop().expect("what is neither out nor waiting was dropped"))
    }

    /// The queue is empty and the transmitter idle. When it became so it asked once more and found nothing, which ends a dropping
    /// state and the turns of flows.
    pub(crate) fn note_idle(&mut self, now: Instant) {
        if matches!(self.storage, Storage::Single(_, Manager::CoDel(_)) | Storage::PerFlow(_)) {
            let nothing = self.pop(now);
            debug_assert!(nothing.is_none(), "the caller says that the queue is empty");
        }
    }

    /// The items that the discipline has dropped after it had taken them.
    pub(crate) fn take_dropped(&mut self) -> impl Iterator<Item = T> {
        self.signals.dropped.drain(..)
    }

    /// How many items were marked.
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
