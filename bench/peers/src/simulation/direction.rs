//! One direction of the path between two endpoints.

use std::time::Duration;

use bytes::Bytes;
use festina_netsim::{Link, LinkConfig, LinkCounters, LinkPacket, LossModel};
use festina_units::{ByteCount, Instant};

/// A link of the simulator that carries SCTP packets, in the time of this crate.
pub(super) struct Direction {
    link: Link<Datagram>,
    is_sheltered: bool,
}

impl Direction {
    pub(super) fn new(config: LinkConfig, seed: u64, name: &str) -> Self {
        Direction { link: Link::new(config, seed, name), is_sheltered: false }
    }

    pub(super) fn send(&mut self, now: Duration, packet: Bytes) {
        self.link.send(Instant::ZERO + now, Datagram { bytes: packet, is_sheltered: self.is_sheltered });
    }

    /// The next packet that has arrived by `now`.
    pub(super) fn poll_delivery(&mut self, now: Duration) -> Option<Bytes> {
        self.link.poll_delivery(Instant::ZERO + now).map(|datagram| datagram.bytes)
    }

    /// When the next packet arrives.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.link.poll_deadline().map(|at| at - Instant::ZERO)
    }

    /// From now on every packet arrives undamaged; reordering and duplication continue.
    pub(super) fn shelter(&mut self) {
        self.link.set_loss(LossModel::None);
        self.is_sheltered = true;
    }

    pub(super) fn counters(&self) -> LinkCounters {
        self.link.counters()
    }
}

#[derive(Clone, Debug)]
struct Datagram {
    bytes: Bytes,
    /// Nothing damages it.
    is_sheltered: bool,
}

impl LinkPacket for Datagram {
    fn size(&self) -> ByteCount {
        ByteCount::from_len(self.bytes.len())
    }

    /// Flips one bit, which every CRC32c detects.
    fn corrupt(&mut self, entropy: u64) {
        if !self.is_sheltered {
            let mut bytes = self.bytes.to_vec();
            bytes.corrupt(entropy);
            self.bytes = Bytes::from(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use festina_units::Probability;

    use super::*;

    #[test]
    fn a_sheltered_direction_delivers_every_packet_whole() {
        let hostile = LinkConfig {
            loss: LossModel::Independent(Probability::from_percent(50)),
            corruption: Probability::ONE,
            ..LinkConfig::default()
        };
        let mut direction = Direction::new(hostile, 1, "there");
        let packet = Bytes::from_static(b"whole");
        let carried = |direction: &mut Direction| {
            (0..40).for_each(|_| direction.send(Duration::ZERO, packet.clone()));
            std::iter::from_fn(|| direction.poll_delivery(Duration::ZERO)).collect::<Vec<_>>()
        };
        let before = carried(&mut direction);
        assert!(!before.is_empty() && before.len() < 40 && before.iter().all(|arrived| *arrived != packet));
        direction.shelter();
        assert_eq!(carried(&mut direction), vec![packet.clone(); 40]);
        assert_eq!(direction.deadline(), None);
    }
}
