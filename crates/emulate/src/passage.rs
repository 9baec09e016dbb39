//! Queue lengths and delays of packets on a link.

use festina_netsim::{Admission, Link, LinkConfig, LinkCounters, LinkPacket};
use festina_units::{ByteCount, Duration, Instant};

use crate::tap::Direction;

/// Queue lengths and delays of packets on one link.
///
/// A packet's delay runs from the moment when the emulator receives it to the moment when it is due at the far end. The
/// emulator's own lateness is not included: see [`Lateness`](crate::Lateness).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passage {
    /// Packets that arrived, copies included.
    pub arrived: u64,
    /// The sum of their delays.
    pub delay_total: Duration,
    /// The shortest delay; zero if nothing arrived.
    pub delay_min: Duration,
    /// The longest delay.
    pub delay_max: Duration,
    /// Packets that wait for the transmitter now.
    pub queue_packets: usize,
    /// Bytes that wait for the transmitter now.
    pub queue_bytes: ByteCount,
    /// Maximum number of packets that waited at the same time.
    pub queue_packets_max: usize,
    /// Maximum number of bytes that waited at the same time.
    pub queue_bytes_max: ByteCount,
}

impl Passage {
    /// The mean delay; zero if nothing arrived.
    pub fn delay_mean(&self) -> Duration {
        let mean_ns = self.delay_total.as_nanos().checked_div(u128::from(self.arrived)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean_ns).unwrap_or(u64::MAX))
    }

    fn note_arrival(&mut self, delay: Duration) {
        self.delay_min = if self.arrived == 0 { delay } else { self.delay_min.min(delay) };
        self.delay_max = self.delay_max.max(delay);
        self.delay_total = self.delay_total.saturating_add(delay);
        self.arrived += 1;
    }

    fn note_queue(&mut self, packets: usize, bytes: ByteCount) {
        (self.queue_packets, self.queue_bytes) = (packets, bytes);
        self.queue_packets_max = self.queue_packets_max.max(packets);
        self.queue_bytes_max = self.queue_bytes_max.max(bytes);
    }
}

/// A link that records its [`Passage`].
#[derive(Debug)]
pub(crate) struct MeasuredLink<P> {
    link: Link<Stamped<P>>,
    passage: Passage,
}

/// A packet and the time at which it was offered to the link.
#[derive(Debug, Clone)]
struct Stamped<P> {
    packet: P,
    offered_at: Instant,
}

impl<P: LinkPacket> LinkPacket for Stamped<P> {
    fn size(&self) -> ByteCount {
        self.packet.size()
    }

    fn corrupt(&mut self, entropy: u64) {
        self.packet.corrupt(entropy);
    }

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

impl<P: LinkPacket> MeasuredLink<P> {
    /// An idle link; see [`Link::new`].
    pub(crate) fn new(config: LinkConfig, seed: u64, direction: Direction) -> Self {
        Self { link: Link::new(config, seed, direction.name()), passage: Passage::default() }
    }

    /// See [`Link::send`].
    pub(crate) fn send(&mut self, now: Instant, packet: P) -> Admission {
        let admission = self.link.send(now, Stamped { packet, offered_at: now });
        self.note_queue();
        admission
    }

    /// See [`Link::poll_timed_delivery`].
    pub(crate) fn poll_timed_delivery(&mut self, now: Instant) -> Option<(Instant, P)> {
        let arrival = self.link.poll_timed_delivery(now);
        self.note_queue();
        let (due_at, Stamped { packet, offered_at }) = arrival?;
        self.passage.note_arrival(due_at - offered_at);
        Some((due_at, packet))
    }

    /// See [`Link::poll_deadline`].
    pub(crate) fn poll_deadline(&self) -> Option<Instant> {
        self.link.poll_deadline()
    }

    /// See [`Link::counters`].
    pub(crate) fn counters(&self) -> LinkCounters {
        self.link.counters()
    }

    /// Returns the queue lengths and delays so far.
    pub(crate) fn passage(&self) -> Passage {
        self.passage
    }

    fn note_queue(&mut self) {
        self.passage.note_queue(self.link.queue_packets(), self.link.queue_bytes());
    }
}

#[cfg(test)]
mod tests {
    use festina_netsim::QueueLimit;

    use super::*;

    #[test]
    fn what_waits_and_for_how_long_is_kept() {
        let config = LinkConfig {
            // 10 ms for each packet of 100 bytes.
            rate: "80kbit/s".parse().ok(),
            delay: Duration::from_millis(5),
            queue: QueueLimit::packets(2),
            ..LinkConfig::default()
        };
        let mut link = MeasuredLink::new(config, 1, Direction::Forward);
        let start = Instant::from_secs(1);
        for _ in 0..4 {
            link.send(start, vec![0u8; 100]);
        }
        let passage = link.passage();
        assert_eq!((passage.queue_packets, passage.queue_bytes), (2, ByteCount::from_bytes(200)));
        assert_eq!(passage.delay_mean(), Duration::ZERO);
        let end = start + Duration::from_secs(1);
        while link.poll_timed_delivery(end).is_some() {}
        let passage = link.passage();
        assert_eq!((passage.arrived, passage.queue_packets, passage.queue_packets_max), (3, 0, 2));
        assert_eq!(passage.queue_bytes_max, ByteCount::from_bytes(200));
        let delays = [passage.delay_min, passage.delay_mean(), passage.delay_max];
        assert_eq!(delays, [15, 25, 35].map(Duration::from_millis));
        assert_eq!(link.counters().queue_dropped, 1);
    }
}
