//! Losses in a row: their mean number, and how far behind a packet its copy survives them.

use crate::loss_rate::LossShare;

/// The last losses that are remembered one by one: the sender may learn of those of one burst in any order.
const REMEMBERED: usize = 8;

/// Losses, and losses next to another, before they count as bursts; and losses after which the counts are halved.
const LOSSES_MIN: u16 = 12;
const NEIGHBOURS_MIN: u16 = 4;
/// Losses next to another before bursts are likely.
const LIKELY_NEIGHBOURS_MIN: u16 = 3;
const LOSSES_MAX: u16 = 256;

/// Maximum distance of a copy from its original, in packets.
const DISTANCE_MAX: u8 = 64;

/// The lost packets of one path, by a number that rises by one from packet to packet.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    losses: u16,
    /// Pairs of neighbours among them.
    neighbours: u16,
    last: [u64; REMEMBERED],
    next: usize,
}

impl Bursts {
    /// Records that the first transmission of this packet was lost.
    pub fn lost(&mut self, number: u64) {
        if self.losses >= LOSSES_MAX {
            (self.losses, self.neighbours) = (self.losses / 2, self.neighbours / 2);
        }
        self.losses += 1;
        self.neighbours += self.neighbours_of(number);
        if let Some(slot) = self.last.get_mut(self.next) {
            *slot = number;
        }
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// Takes that back: the packet has arrived. Only one of the last losses is taken back with its neighbours.
    pub fn was_late(&mut self, number: u64) {
        self.losses = self.losses.saturating_sub(1);
        let neighbours = self.neighbours_of(number);
        if let Some(slot) = self.last.iter_mut().find(|slot| **slot == number) {
            *slot = 0;
            self.neighbours = self.neighbours.saturating_sub(neighbours);
        }
    }

    fn neighbours_of(&self, number: u64) -> u16 {
        self.last.iter().fold(0, |count, &other| count + u16::from(other.abs_diff(number) == 1))
    }

    /// Returns whether more losses are next to another than chance explains: fewer than [`distance`](Self::distance) needs
    /// to choose one.
    #[must_use]
    pub fn are_likely(&self, loss: LossShare) -> bool {
        let (losses, neighbours) = (u64::from(self.losses), u64::from(self.neighbours));
        let (lost, all) = (u64::from(loss.lost), u64::from(loss.all.max(1)));
        // `p` of independent losses, and an eighth more.
        self.neighbours >= LIKELY_NEIGHBOURS_MIN && neighbours * all * 8 > losses * (all + 8 * lost)
    }

    /// Returns how many packets behind a lost one the first is that is lost with it in at most a thousandth of all cases;
    /// `None` if losses hardly come in a row. For bursts of `b` packets on average, at a loss rate `p`, it is the lowest
    /// `g` with `p · (1 - 1/b)^g` of at most 0.001.
    #[must_use]
    pub fn distance(&self, loss: LossShare) -> Option<u8> {
        let (losses, neighbours) = (u64::from(self.losses), u64::from(self.neighbours));
        let (lost, all) = (u64::from(loss.lost), u64::from(loss.all.max(1)));
        // Independent losses, too, have neighbours: `p` of them. Bursts have three in ten more.
        let are_bursts = neighbours * all * 10 > losses * (3 * all + 10 * lost);
        if self.losses < LOSSES_MIN || self.neighbours < NEIGHBOURS_MIN || !are_bursts {
            return None;
        }
        let mut both_lost_ppb = lost * 1_000_000_000 / all;
        let distance = (0..DISTANCE_MAX).find(|_| {
            let is_rare = both_lost_ppb <= 1_000_000;
            both_lost_ppb = both_lost_ppb * neighbours.min(losses) / losses;
            is_rare
        });
        Some(distance.unwrap_or(DISTANCE_MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of `length` losses in `every` packets each.
    fn in_bursts(length: u64, every: u64) -> Bursts {
        let mut bursts = Bursts::default();
        for first in (100..).step_by(usize::try_from(every).expect("small")).take(200) {
            (first..first + length).for_each(|number| bursts.lost(number));
        }
        bursts
    }

    const fn percent(lost: u32) -> LossShare {
        LossShare { lost, all: 100 }
    }

    #[test]
    fn a_copy_behind_a_burst_is_farther_away_the_longer_bursts_are_and_the_more_is_lost() {
        assert_eq!(in_bursts(1, 10).distance(percent(10)), None);
        // 0.01 · 0.5^4 and 0.03 · 0.5^5 are less than 0.001.
        assert_eq!(in_bursts(2, 200).distance(percent(1)), Some(4));
        assert_eq!(in_bursts(2, 67).distance(percent(3)), Some(5));
        assert_eq!(in_bursts(4, 134).distance(percent(3)), Some(12));
        assert_eq!(in_bursts(100, 1_000).distance(percent(10)), Some(DISTANCE_MAX));
    }

    #[test]
    fn the_order_in_which_the_losses_of_a_burst_become_known_does_not_matter() {
        let mut bursts = Bursts::default();
        for first in (100..).step_by(50).take(100) {
            [2, 0, 3, 1].iter().for_each(|nth| bursts.lost(first + nth));
        }
        assert_eq!(bursts.distance(percent(3)), in_bursts(4, 50).distance(percent(3)));
    }

    #[test]
    fn packets_that_were_only_late_are_no_burst() {
        let mut bursts = in_bursts(1, 10);
        let before = bursts.distance(percent(3));
        for first in (5_000..).step_by(50).take(100) {
            (first..first + 4).for_each(|number| bursts.lost(number));
            (first..first + 4).for_each(|number| bursts.was_late(number));
        }
        assert_eq!(bursts.distance(percent(3)), before);
    }

    #[test]
    fn bursts_are_likely_before_they_are_certain_and_not_by_chance() {
        let mut bursts = Bursts::default();
        for first in [100, 200, 300] {
            assert!(!bursts.are_likely(percent(1)), "{first}");
            (0..2).for_each(|nth| bursts.lost(first + nth));
        }
        assert!(bursts.are_likely(percent(1)) && bursts.distance(percent(1)).is_none());
        // A twentieth of the packets, and one behind every twentieth of these.
        let mut chance = Bursts::default();
        (0..8_000).filter(|number| number % 20 == 0 || number % 400 == 1).for_each(|number| chance.lost(100 + number));
        assert!(!chance.are_likely(percent(5)));
    }

    #[test]
    fn few_losses_in_a_row_are_chance() {
        let mut bursts = Bursts::default();
        (0..400).filter(|number| number % 20 == 0 || number % 80 == 1).for_each(|number| bursts.lost(100 + number));
        assert_eq!(bursts.distance(percent(6)), None, "a quarter of the losses follow another");
        let mut bursts = Bursts::default();
        (0..10).for_each(|number| bursts.lost(100 + number));
        assert_eq!(bursts.distance(percent(6)), None, "one burst is no rule");
    }
}
