//! One direction of a network path.
//!
//! ```text
//!            fate drawn      one at a time, at the rate     delay, jitter, holding back
//!  send ──> loss & co. ──> queue ──> transmitter ──────────> wire ──> poll_delivery
//!                            └─> dropped if full └─> lost packets vanish here
//! ```
//!
//! A lost packet still takes its place in the queue and its time on the transmitter, as on a real wire. The fate of a
//! packet is drawn when it is offered, one sample per cause from a separate random stream, whether or not the queue
//! then has room. So changing one impairment never changes the effect of another on the n-th packet.

mod config;
mod wire;

pub use config::{Jitter, JitterShape, LinkConfig, Reordering};

use festina_units::{Bandwidth, ByteCount, Duration, Instant, Probability};

use crate::loss::{LossModel, LossProcess};
use crate::queue::{Queue, Queueable};
use crate::random::RandomStream;
use crate::rate_trace::Opportunities;
use wire::Wire;

/// Maximum number of packets that propagate along one link at the same time. It limits the memory of a link without a
/// rate, whose queue never fills; further packets count as dropped by the queue.
pub const PROPAGATING_PACKETS_MAX: usize = 1 << 18;

/// A link from one node to another, without a clock of its own.
///
/// First [`send`](Self::send) the packets offered at this moment, then take every packet that
/// [`poll_delivery`](Self::poll_delivery) returns, then sleep until [`poll_deadline`](Self::poll_deadline) or until
/// there is something to send. `now` must not go backwards; if it does, the link uses the latest instant it has seen.
/// Late calls do not change the times that the link computes.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    loss: LossProcess,
    /// Seeds the loss models set after the first one.
    loss_seeds: RandomStream,
    random: ImpairmentStreams,
    now: Instant,
    offered_count: u64,
    queue: Queue<Accepted<P>>,
    transmitter: Transmitter,
    wire: Wire<P>,
    counters: LinkCounters,
}

/// The interface of a packet to links. `Clone` is for duplication.
pub trait LinkPacket: Clone {
    /// Returns the size on the wire, which queue and rate use.
    fn size(&self) -> ByteCount;

    /// Damages the packet, for example by flipping the bit selected by `entropy`.
    fn corrupt(&mut self, entropy: u64);

    /// Returns the packet's flow, for fair queueing and for probes. By default all packets belong to one flow.
    fn flow(&self) -> u64 {
        0
    }

    /// Returns whether a queue may mark the packet instead of dropping it (RFC 3168: ECT is set).
    fn is_ecn_capable(&self) -> bool {
        false
    }

    /// Sets Congestion Experienced (RFC 3168). Called only if [`is_ecn_capable`](Self::is_ecn_capable).
    fn mark_congestion(&mut self) {}
}

/// The fate of a packet that was offered to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Admission {
    /// It will be delivered.
    Accepted,
    /// It was accepted, and the wire will lose it.
    Lost,
    /// The queue was full, or its management dropped the packet.
    QueueDropped,
    /// The packet is larger than the link's MTU and was dropped.
    TooLarge,
}

/// Counters of a link, in packets unless the name says otherwise.
///
/// At all times `offered + duplicated = delivered + lost + queue_dropped + too_large +` [`Link::packets_inside`] (where
/// a packet that the wire will lose counts as lost from the start, even if the queue drops it later).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Offered by the sender.
    pub offered: u64,
    /// Bytes offered by the sender.
    pub offered_bytes: ByteCount,
    /// Delivered to the receiver, copies included.
    pub delivered: u64,
    /// Bytes delivered to the receiver, copies included.
    pub delivered_bytes: ByteCount,
    /// Lost on the wire.
    pub lost: u64,
    /// Dropped by the queue, copies included: because it was full, or by its management.
    pub queue_dropped: u64,
    /// Marked by the queue's management instead of dropped (Congestion Experienced).
    pub congestion_marked: u64,
    /// Dropped because they exceeded the MTU.
    pub too_large: u64,
    /// Delivered after a packet that had been offered later (RFC 4737, type-P-reordered).
    pub reordered: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Damaged.
    pub corrupted: u64,
}

impl<P: LinkPacket> Link<P> {
    /// Creates an idle link that draws from the random streams of `seed` whose names begin with `name`.
    ///
    /// Links that share a seed need different names; otherwise they lose the same packets.
    pub fn new(config: LinkConfig, seed: u64, name: &str) -> Self {
        Self {
            loss: LossProcess::new(&config.loss, seed, &format!("{name}/loss")),
            loss_seeds: RandomStream::new(seed, &format!("{name}/loss seeds")),
            random: ImpairmentStreams::new(seed, name),
            now: Instant::ZERO,
            offered_count: 0,
            queue: Queue::new(config.queue, config.discipline, config.mean_rate(), seed, &format!("{name}/queue")),
            transmitter: Transmitter::new(&config),
            wire: Wire::new(),
            counters: LinkCounters::default(),
            config,
        }
    }

    /// Returns the link's configuration, including changes by [`set_loss`](Self::set_loss) and others.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Replaces the loss model from the next packet offered on; packets accepted before keep their fate.
    ///
    /// The new model starts from its initial state and draws from a random stream that no earlier model used: an exact
    /// list counts from the next packet, a channel draws its first state. The effect of other impairments on the n-th
    /// packet does not change.
    pub fn set_loss(&mut self, loss: LossModel) {
        self.loss = LossProcess::new(&loss, self.loss_seeds.bits(), "loss");
        self.config.loss = loss;
    }

    /// Replaces the propagation delay of packets transmitted from now on. With a shorter one they may overtake those on their way.
    pub fn set_delay(&mut self, delay: Duration) {
        self.config.delay = delay;
    }

    /// Replaces the MTU: larger packets offered from now on are dropped.
    pub fn set_mtu(&mut self, mtu: Option<ByteCount>) {
        self.config.mtu = mtu;
    }

    /// Returns the link's counters.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Returns the number of packets that wait for the transmitter, as of the latest instant that the link has seen.
    pub fn queue_packets(&self) -> usize {
        self.queue.len()
    }

    /// Returns the bytes that wait for the transmitter, as of the latest instant that the link has seen.
    pub fn queue_bytes(&self) -> ByteCount {
        self.queue.bytes()
    }

    /// Returns the number of accepted packets that are still to be delivered, copies included.
    pub fn packets_inside(&self) -> u64 {
        let counters = &self.counters;
        (counters.offered + counters.duplicated)
            - (counters.delivered + counters.lost + counters.queue_dropped + counters.too_large)
    }

    /// Offers a packet to the link at `now` and returns its fate.
    pub fn send(&mut self, now: Instant, packet: P) -> Admission {
        self.advance(now);
        let size = packet.size();
        let order = self.offered_count;
        self.offered_count += 1;
        self.counters.offered += 1;
        self.counters.offered_bytes += size;

        let fate = self.random.draw(&self.config, self.loss.is_next_lost(self.now));
        if self.config.mtu.is_some_and(|mtu| size > mtu) {
            self.counters.too_large += 1;
            return Admission::TooLarge;
        }
        if self.wire.len() >= PROPAGATING_PACKETS_MAX {
            self.counters.queue_dropped += 1;
            return Admission::QueueDropped;
        }
        let accepted = Accepted { packet, order, fate };
        if self.transmitter.let_pass(self.now) {
            self.queue.note_idle(self.now);
        }
        let is_refused = if self.transmitter.is_busy(self.now) {
            self.queue.offer(self.now, size, accepted).is_err()
        } else {
            self.queue.pass(self.now, size, accepted).map(|(size, item)| self.transmit(self.now, size, item)).is_err()
        };
        if is_refused {
            self.counters.queue_dropped += 1;
            return Admission::QueueDropped;
        }
        self.counters.lost += u64::from(fate.is_lost);
        self.counters.duplicated += u64::from(!fate.is_lost && fate.is_duplicated);
        self.counters.corrupted += u64::from(!fate.is_lost && fate.corruption.is_some());
        self.note_signals();
        if fate.is_lost { Admission::Lost } else { Admission::Accepted }
    }

    /// Returns the next instant at which the link must be polled, or `None` if nothing is in transit. No packet arrives
    /// before it.
    ///
    /// Usually it is the next arrival. It is earlier when the packets ahead of a waiting one are lost, or with jitter.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let arrival = self.wire.next_arrival();
        if self.queue.is_empty() {
            return arrival;
        }
        let earliest_of_waiting = self.transmitter.free_at + self.config.shortest_delay();
        Some(arrival.map_or(earliest_of_waiting, |arrival| arrival.min(earliest_of_waiting)))
    }

    /// Returns the next packet that has arrived by `now`.
    pub fn poll_delivery(&mut self, now: Instant) -> Option<P> {
        self.poll_timed_delivery(now).map(|(_, packet)| packet)
    }

    /// Returns the next packet that has arrived by `now` with its arrival time, which is before `now` if the caller is
    /// late.
    pub fn poll_timed_delivery(&mut self, now: Instant) -> Option<(Instant, P)> {
        self.advance(now);
        let arrival = self.wire.pop_arrived(self.now)?;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += arrival.packet.size();
        self.counters.reordered += u64::from(arrival.is_reordered);
        Some((arrival.at, arrival.packet))
    }

    /// Advances the transmitter to `now`, so that the getters report the state at that time.
    pub fn catch_up(&mut self, now: Instant) {
        self.advance(now);
    }

    /// Advances the transmitter to `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.queue.is_empty() {
            return;
        }
        while !self.queue.is_empty() && !self.transmitter.is_busy(self.now) {
            let free_at = self.transmitter.free_at;
            if let Some((size, next)) = self.queue.pop(free_at) {
                self.transmit(free_at, size, next);
            }
        }
        self.note_signals();
    }

    /// Transmits a packet and puts it on the wire at once, since its arrival time is known now.
    fn transmit(&mut self, starts_at: Instant, size: ByteCount, accepted: Accepted<P>) {
        let sent_at = self.transmitter.transmit(starts_at, size);
        let Accepted { mut packet, order, fate } = accepted;
        if fate.is_lost {
            return;
        }
        let on_time = sent_at + self.config.delay;
        let jitter = Duration::from_nanos(fate.jitter_ns.unsigned_abs());
        let arrival = if fate.jitter_ns < 0 { (on_time - jitter).max(sent_at) } else { on_time + jitter };
        let arrival = if self.config.jitter.keeps_order { self.wire.not_before_previous(arrival) } else { arrival };
        let arrival = if fate.is_held_back { arrival + self.config.reordering.hold_back } else { arrival };
        let copy = fate.is_duplicated.then(|| packet.clone());
        if let Some(entropy) = fate.corruption {
            packet.corrupt(entropy);
        }
        self.wire.push(arrival, order, packet);
        if let Some(copy) = copy {
            self.wire.push(arrival, order, copy);
        }
    }

    /// Counts the marks and drops made by the queue's management.
    fn note_signals(&mut self) {
        self.counters.congestion_marked = self.queue.marked();
        for dropped in self.queue.take_dropped() {
            if !dropped.fate.is_lost {
                self.counters.queue_dropped += 1 + u64::from(dropped.fate.is_duplicated);
            }
        }
    }
}

/// Serves the queue, one packet at a time.
#[derive(Debug)]
struct Transmitter {
    pace: Pace,
    /// Time from which it is free to transmit.
    free_at: Instant,
}

/// The rate of a transmitter.
#[derive(Debug)]
enum Pace {
    Unlimited,
    /// With the size and the transmission time of the last packet: most packets have the size of the previous one.
    Constant(Bandwidth, (ByteCount, Duration)),
    Trace(Box<Opportunities>),
}

impl Transmitter {
    fn new(config: &LinkConfig) -> Self {
        if let Some(trace) = &config.trace {
            let opportunities = Opportunities::new(trace.clone());
            let free_at = opportunities.at();
            return Self { pace: Pace::Trace(Box::new(opportunities)), free_at };
        }
        let constant = |rate| Pace::Constant(rate, (ByteCount::ZERO, Duration::ZERO));
        Self { pace: config.rate.map_or(Pace::Unlimited, constant), free_at: Instant::ZERO }
    }

    fn is_busy(&self, now: Instant) -> bool {
        self.free_at > now
    }

    /// Skips the unused opportunities before `now`, and returns whether there were any.
    fn let_pass(&mut self, now: Instant) -> bool {
        match &mut self.pace {
            Pace::Trace(opportunities) if opportunities.at() < now => {
                opportunities.skip_to(now);
                self.free_at = opportunities.at();
                true
            }
            _ => false,
        }
    }

    /// Starts to transmit and returns when the last bit is sent.
    fn transmit(&mut self, starts_at: Instant, size: ByteCount) -> Instant {
        match &mut self.pace {
            Pace::Unlimited => self.free_at = starts_at,
            Pace::Constant(rate, last) => {
                if last.0 != size {
                    *last = (size, rate.transmission_time(size));
                }
                self.free_at = starts_at + last.1;
            }
            Pace::Trace(opportunities) => {
                let sent_at = opportunities.take(size);
                self.free_at = opportunities.at();
                return sent_at;
            }
        }
        self.free_at
    }
}

/// A packet that the link accepted, with its fate.
#[derive(Debug)]
struct Accepted<P> {
    packet: P,
    /// Its position among all packets offered.
    order: u64,
    fate: Fate,
}

impl<P: LinkPacket> Queueable for Accepted<P> {
    fn flow(&self) -> u64 {
        self.packet.flow()
    }

    fn is_ecn_capable(&self) -> bool {
        self.packet.is_ecn_capable()
    }

    fn mark_congestion(&mut self) {
        self.packet.mark_congestion();
    }
}

/// One random stream per cause, each drawn from for every packet while the cause is enabled.
#[derive(Debug)]
struct ImpairmentStreams {
    jitter: RandomStream,
    reordering: RandomStream,
    duplication: RandomStream,
    corruption: RandomStream,
}

/// The fate of one packet.
#[derive(Debug, Clone, Copy)]
struct Fate {
    jitter_ns: i64,
    /// The entropy for damaging it, if it is to be damaged.
    corruption: Option<u64>,
    is_lost: bool,
    is_held_back: bool,
    is_duplicated: bool,
}

impl ImpairmentStreams {
    fn new(seed: u64, name: &str) -> Self {
        let stream = |cause| RandomStream::new(seed, &format!("{name}/{cause}"));
        Self {
            jitter: stream("jitter"),
            reordering: stream("reordering"),
            duplication: stream("duplication"),
            corruption: stream("corruption"),
        }
    }

    fn draw(&mut self, config: &LinkConfig, is_lost: bool) -> Fate {
        let jitter_ns = match config.jitter.shape {
            JitterShape::None => 0,
            JitterShape::Uniform { range } => self.jitter.symmetric_nanos(range),
            JitterShape::Normal { std_dev } => self.jitter.normal_nanos(std_dev),
        };
        let corruption = (config.corruption > Probability::ZERO).then(|| self.corruption.bits());
        Fate {
            jitter_ns,
            corruption: corruption.filter(|_| self.corruption.chance(config.corruption)),
            is_lost,
            is_held_back: happens(&mut self.reordering, config.reordering.probability),
            is_duplicated: happens(&mut self.duplication, config.duplication),
        }
    }
}

/// Draws nothing if the cause is disabled.
fn happens(stream: &mut RandomStream, probability: Probability) -> bool {
    probability > Probability::ZERO && stream.chance(probability)
}

/// A packet consisting only of its bytes.
impl LinkPacket for Vec<u8> {
    fn size(&self) -> ByteCount {
        ByteCount::from_len(self.len())
    }

    /// Flips one bit; an empty packet has none.
    fn corrupt(&mut self, entropy: u64) {
        let byte_index = (entropy >> 3).checked_rem(self.len() as u64);
        if let Some(byte) =
            byte_index.and_then(|index| usize::try_from(index).ok()).and_then(|index| self.get_mut(index))
        {
            *byte ^= 1 << (entropy & 7);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
