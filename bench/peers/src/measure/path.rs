//! The paths between the two endpoints of a measurement.
//!
//! The simulator's links draw, queue and count more than a measurement of CPU time allows: they would take a tenth of the measured time. A [`Wire`]
//! costs a queue entry for each packet.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use festina_netsim::RandomStream;
use festina_units::Probability;

use crate::peer::Settings;

/// A path, and the buffer limits of the endpoints at its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Short name, for reports and to be chosen by.
    pub name: &'static str,
    /// The effects of the path on packets, in words.
    pub description: &'static str,
    /// What carries the packets; `None` hands them over at once, in batches.
    pub wire: Option<Wire>,
    /// Limits of every stack on this path.
    pub settings: Settings,
}

/// What both directions of a path do to packets. There is no rate: all packets that leave at one instant arrive at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Time from one end to the other.
    pub delay: Duration,
    /// Share of the packets that never arrive.
    pub loss: Probability,
    /// Share of the packets that arrive `hold_back` late, so that others overtake them.
    pub reordering: Probability,
    /// How late they are.
    pub hold_back: Duration,
}

/// Half of the round-trip time of every path with delay.
const DELAY: Duration = Duration::from_millis(10);
/// How late a packet is that others overtake.
const HOLD_BACK: Duration = Duration::from_millis(3);

impl Path {
    /// No delay and no loss; packets are handed over in batches.
    #[must_use]
    pub fn direct() -> Self {
        Path {
            name: "direct",
            description: "no delay, nothing lost; batches of 32 packets",
            wire: None,
            settings: Settings::bulk(),
        }
    }

    /// The paths that are measured.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let clean = Wire { delay: DELAY, ..Wire::default() };
        let one_percent = Probability::from_percent(1);
        let over = |name, description, wire| Path {
            name,
            description,
            wire: Some(wire),
            settings: Settings::bulk_with_delay(),
        };
        vec![
            Path::direct(),
            over("20ms", "round trip 20 ms (10 ms each way), nothing lost", clean),
            over(
                "20ms-loss",
                "round trip 20 ms, 1 % of the packets lost each way",
                Wire { loss: one_percent, ..clean },
            ),
            over(
                "20ms-reordering",
                "round trip 20 ms, 1 % of the packets held back for 3 ms each way",
                Wire { reordering: one_percent, hold_back: HOLD_BACK, ..clean },
            ),
        ]
    }

    /// Time from one end to the other and back.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.wire.map_or(Duration::ZERO, |wire| 2 * wire.delay)
    }
}

/// One direction of a [`Wire`].
#[derive(Debug)]
pub(crate) struct Pipe {
    wire: Wire,
    random: [RandomStream; 2],
    /// The packets under way, each with the instant at which it arrives.
    in_time: VecDeque<(Duration, Bytes)>,
    held_back: VecDeque<(Duration, Bytes)>,
    /// Packets and bytes put in, those that are lost included.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Pipe {
    /// A pipe that neither loses nor reorders until [`Pipe::impair`]. Seed and name decide the packets' fate.
    pub(crate) fn new(delay: Duration, seed: u64, name: &str) -> Self {
        Pipe {
            wire: Wire { delay, ..Wire::default() },
            random: ["loss", "reordering"].map(|cause| RandomStream::new(seed, &format!("{name}/{cause}"))),
            in_time: VecDeque::new(),
            held_back: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// From now on packets are lost and reordered as `wire` says.
    pub(crate) fn impair(&mut self, wire: Wire) {
        self.wire = wire;
    }

    pub(crate) fn put(&mut self, now: Duration, packet: Bytes) {
        self.put_late(now, packet, Duration::ZERO);
    }

    /// The same on a path that takes `extra` longer at the moment. Packets that are not held back arrive in order.
    pub(crate) fn put_late(&mut self, now: Duration, packet: Bytes, extra: Duration) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
        let at = now + self.wire.delay + extra;
        if self.loses_next() {
            return;
        }
        let (queue, at) = if happens(&mut self.random[1], self.wire.reordering) {
            (&mut self.held_back, at + self.wire.hold_back)
        } else {
            (&mut self.in_time, at)
        };
        let at = queue.back().map_or(at, |(last, _)| at.max(*last));
        queue.push_back((at, packet));
    }

    /// Draws whether the next packet is lost.
    pub(crate) fn loses_next(&mut self) -> bool {
        happens(&mut self.random[0], self.wire.loss)
    }

    /// The next packet that has arrived by `now`.
    pub(crate) fn take(&mut self, now: Duration) -> Option<Bytes> {
        for queue in [&mut self.in_time, &mut self.held_back] {
            if queue.front().is_some_and(|(at, _)| *at <= now) {
                return queue.pop_front().map(|(_, packet)| packet);
            }
        }
        None
    }

    /// When the next packet arrives.
    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        [&self.in_time, &self.held_back].into_iter().filter_map(|queue| queue.front().map(|(at, _)| *at)).min()
    }
}

fn happens(random: &mut RandomStream, share: Probability) -> bool {
    share > Probability::ZERO && random.chance(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_millis(500);
    const CLEAN: Wire =
        Wire { delay: DELAY, loss: Probability::ZERO, reordering: Probability::ZERO, hold_back: HOLD_BACK };

    fn packet(number: u16) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    /// Which of a thousand packets have arrived after the delay, and which after the time of those held back.
    fn fates(wire: Wire, seed: u64) -> [Vec<Bytes>; 2] {
        let mut pipe = Pipe::new(wire.delay, seed, "there");
        pipe.impair(wire);
        (0..1_000).for_each(|number| pipe.put(NOW, packet(number)));
        [NOW + DELAY, NOW + DELAY + HOLD_BACK].map(|at| std::iter::from_fn(|| pipe.take(at)).collect())
    }

    #[test]
    fn a_packet_arrives_after_the_delay_and_not_before() {
        let mut pipe = Pipe::new(DELAY, 1, "there");
        pipe.put(NOW, packet(7));
        assert_eq!(pipe.next_arrival(), Some(NOW + DELAY));
        assert_eq!(pipe.take(NOW + DELAY - Duration::from_nanos(1)), None);
        assert_eq!(pipe.take(NOW + DELAY), Some(packet(7)));
        assert_eq!((pipe.next_arrival(), pipe.packets, pipe.bytes), (None, 1, 2));
    }

    #[test]
    fn about_one_packet_in_a_hundred_is_lost_and_the_seed_decides_which() {
        let lossy = Wire { loss: Probability::from_percent(1), ..CLEAN };
        let [arrived, late] = fates(lossy, 1);
        assert!((980..=998).contains(&arrived.len()) && late.is_empty(), "{} of 1,000 arrived", arrived.len());
        assert_eq!(fates(lossy, 1)[0], arrived);
        assert_ne!(fates(lossy, 2)[0], arrived);
    }

    #[test]
    fn about_one_packet_in_a_hundred_is_held_back_and_none_is_lost() {
        let [arrived, late] = fates(Wire { reordering: Probability::from_percent(1), ..CLEAN }, 1);
        assert!((2..=20).contains(&late.len()), "{} of 1,000 held back", late.len());
        assert_eq!(arrived.len() + late.len(), 1_000);
        assert!(late.iter().all(|packet| !arrived.contains(packet)));
    }

    #[test]
    fn a_packet_that_leaves_when_the_path_gets_shorter_arrives_behind_the_one_before_it() {
        let mut pipe = Pipe::new(DELAY, 1, "there");
        pipe.put_late(NOW, packet(1), Duration::from_millis(50));
        pipe.put_late(NOW + DELAY, packet(2), Duration::ZERO);
        let arrival = NOW + DELAY + Duration::from_millis(50);
        assert_eq!(
            (pipe.next_arrival(), pipe.take(arrival), pipe.take(arrival)),
            (Some(arrival), Some(packet(1)), Some(packet(2)))
        );
    }

    #[test]
    fn a_wire_is_clean_until_it_is_impaired() {
        let mut pipe = Pipe::new(DELAY, 1, "there");
        pipe.put(NOW, packet(1));
        pipe.impair(Wire { loss: Probability::ONE, ..CLEAN });
        pipe.put(NOW, packet(2));
        assert_eq!(pipe.take(NOW + DELAY), Some(packet(1)));
        assert_eq!(pipe.take(NOW + DELAY), None);
    }
}
