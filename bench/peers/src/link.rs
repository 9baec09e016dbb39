//! A seeded one-way link in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a link does to packets. Shares are in percent of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairment {
    /// Share of packets that are lost.
    pub loss_percent: u32,
    /// Share of packets that arrive twice.
    pub duplicate_percent: u32,
    /// Share of packets that are held back by up to [`Impairment::hold_back_max`], so that later ones overtake them.
    pub reorder_percent: u32,
    /// Longest time for which a packet is held back.
    pub hold_back_max: Duration,
    /// Time from one end to the other.
    pub delay: Duration,
}

/// What a link has done so far, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Handed to the link.
    pub sent: u64,
    /// Dropped.
    pub lost: u64,
    /// Delivered a second time.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
}

/// One direction of a path, without limits of rate or queue.
#[derive(Debug)]
pub struct Link {
    impairment: Impairment,
    random: Xoshiro256PlusPlus,
    /// Packets on their way by time of arrival and then by order of sending.
    flying: BTreeMap<(Duration, u64), Bytes>,
    sequence: u64,
    counts: LinkCounts,
}

impl Link {
    /// A link whose fate is decided by `seed` alone.
    #[must_use]
    pub fn new(impairment: Impairment, seed: u64) -> Self {
        Link {
            impairment,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            flying: BTreeMap::new(),
            sequence: 0,
            counts: LinkCounts::default(),
        }
    }

    /// Puts a packet on the link.
    pub fn send(&mut self, now: Duration, packet: Bytes) {
        self.counts.sent += 1;
        if self.happens(self.impairment.loss_percent) {
            self.counts.lost += 1;
            return;
        }
        if self.happens(self.impairment.duplicate_percent) {
            self.counts.duplicated += 1;
            self.launch(now, packet.clone());
        }
        self.launch(now, packet);
    }

    /// The next packet that has arrived by `now`.
    pub fn poll_delivery(&mut self, now: Duration) -> Option<Bytes> {
        let entry = self.flying.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    /// When the next packet arrives.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.flying.first_key_value().map(|((at, _), _)| *at)
    }

    /// From now on no packet is lost; reordering and duplication go on.
    pub fn stop_losing(&mut self) {
        self.impairment.loss_percent = 0;
    }

    /// What has happened on this link.
    #[must_use]
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    fn happens(&mut self, percent: u32) -> bool {
        self.random.next_u64() % 100 < u64::from(percent)
    }

    fn launch(&mut self, now: Duration, packet: Bytes) {
        let mut at = now + self.impairment.delay;
        if self.happens(self.impairment.reorder_percent) {
            self.counts.reordered += 1;
            let longest_us = u64::try_from(self.impairment.hold_back_max.as_micros()).unwrap_or(u64::MAX);
            at += Duration::from_micros(self.random.next_u64() % longest_us.max(1));
        }
        self.sequence += 1;
        self.flying.insert((at, self.sequence), packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUGH: Impairment = Impairment {
        loss_percent: 20,
        duplicate_percent: 10,
        reorder_percent: 10,
        hold_back_max: Duration::from_millis(30),
        delay: Duration::from_millis(10),
    };

    fn arrivals(seed: u64) -> (Vec<(Duration, u8)>, LinkCounts) {
        let mut link = Link::new(ROUGH, seed);
        for index in 0..200_u8 {
            link.send(Duration::from_millis(u64::from(index)), Bytes::copy_from_slice(&[index]));
        }
        let mut arrived = Vec::new();
        while let Some(now) = link.deadline() {
            while let Some(packet) = link.poll_delivery(now) {
                arrived.push((now, packet[0]));
            }
        }
        (arrived, link.counts())
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals_and_another_seed_does_not() {
        assert_eq!(arrivals(7), arrivals(7));
        assert_ne!(arrivals(7), arrivals(8));
    }

    #[test]
    fn a_rough_link_loses_duplicates_and_reorders() {
        let (arrived, counts) = arrivals(1);
        assert_eq!(counts.sent, 200);
        assert_eq!(arrived.len() as u64, counts.sent - counts.lost + counts.duplicated);
        assert!(counts.lost > 10 && counts.duplicated > 3 && counts.reordered > 3, "{counts:?}");
        assert!(arrived.windows(2).any(|pair| pair[0].1 > pair[1].1), "no packet overtook another");
    }

    #[test]
    fn a_link_that_stops_losing_delivers_everything() {
        let mut link = Link::new(Impairment { loss_percent: 100, ..ROUGH }, 3);
        link.send(Duration::ZERO, Bytes::from_static(b"lost"));
        assert_eq!(link.deadline(), None);
        link.stop_losing();
        link.send(Duration::ZERO, Bytes::from_static(b"kept"));
        assert!(link.deadline().is_some());
    }
}
