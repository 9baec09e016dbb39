//! What the identification of IPv4 says about the order in which a sender's packets left, and which of them the capture holds twice.
//!
//! Many senders count their packets in this field (RFC 6864 §4 lets them). A retransmission then carries a later number than what was
//! sent before it, a packet that the path delayed an earlier one, and two sightings of one packet the same.

use festina_units::{Duration, Instant};

/// Sightings of the same packet, at several ports of a switch for instance, come within this time.
const TWICE_TIME: Duration = Duration::from_millis(5);
/// Packets of a sender that are remembered: a whole burst may be seen before it is seen again.
const REMEMBERED: usize = 32;
/// A sender counts if numbers grow by no more than this, other connections of its host included ...
const STEP_MAX: u16 = 256;
/// ... as often as this in a row. Random numbers do so once in 16 million times.
const STEPS_SURE: u8 = 3;

/// When a packet left in relation to those seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// Later than all of them.
    Later,
    /// Before the latest of them.
    Earlier,
}

/// The numbers of one sender's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identifications {
    latest: Option<u16>,
    steps: u8,
}

impl Identifications {
    /// A packet with this number was seen. Returns when it left, if the sender counts.
    pub(super) fn see(&mut self, number: Option<u16>) -> Option<Departure> {
        let number = number?;
        let step = number.wrapping_sub(*self.latest.get_or_insert(number));
        let is_sure = self.steps >= STEPS_SURE;
        let departure = match step {
            0 => return None,
            1..=STEP_MAX => Departure::Later,
            step if step.wrapping_neg() <= STEP_MAX => Departure::Earlier,
            _ => {
                (self.latest, self.steps) = (Some(number), 0);
                return None;
            }
        };
        if departure == Departure::Later {
            (self.latest, self.steps) = (Some(number), self.steps.saturating_add(1));
        }
        is_sure.then_some(departure)
    }
}

/// The latest packets of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Sightings {
    latest: Vec<(u64, Instant)>,
    next: usize,
}

impl Sightings {
    /// Returns whether this packet was seen already: one with this number, this many bytes of transport and this transport header.
    pub(super) fn is_again(&mut self, number: Option<u16>, bytes: u64, header: &[u8], at: Instant) -> bool {
        let Some(number) = number else { return false };
        let mark = mark(u64::from(number) << 32 | bytes, header);
        let is_same =
            |(known, seen_at): &(u64, Instant)| *known == mark && at.saturating_duration_since(*seen_at) <= TWICE_TIME;
        if self.latest.iter().any(is_same) {
            return true;
        }
        match self.latest.get_mut(self.next) {
            Some(place) => *place = (mark, at),
            None => self.latest.push((mark, at)),
        }
        self.next = (self.next + 1) % REMEMBERED;
        false
    }
}

/// A number that two packets hardly share: mixed from what lies behind the ports, which is of TCP both numbers, flags and window, and of SCTP
/// the tag, the checksum and the first chunk's head. The checksum of TCP may be written between two sightings.
fn mark(start: u64, header: &[u8]) -> u64 {
    const FIRST: usize = 4;
    const LAST: usize = 16;
    let mixed = |mark: u64, word: u64| (mark ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let words = header.get(FIRST..LAST.min(header.len())).unwrap_or_default().chunks_exact(4);
    let words = words.map(|word| word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    words.fold(mixed(0, start), mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_counts_is_known_after_three_steps_and_across_the_wrap() {
        let mut sender = Identifications::default();
        let verdicts = [65_533, 65_534, 65_535, 2, 3, 1].map(|number| sender.see(Some(number)));
        assert_eq!(verdicts, [None, None, None, None, Some(Departure::Later), Some(Departure::Earlier)]);
        assert_eq!(sender.see(None), None, "zero is no number");
        assert_eq!(sender.see(Some(30_000)), None, "it does not count after all");
        assert_eq!(sender.see(Some(30_001)), None);
    }

    #[test]
    fn a_sighting_is_the_same_number_and_header_within_five_milliseconds() {
        let mut sightings = Sightings::default();
        let at = Instant::from_micros;
        let header = [7; 20];
        assert!(!sightings.is_again(Some(1), 120, &header, at(0)));
        assert!(sightings.is_again(Some(1), 120, &header, at(5_000)));
        assert!(!sightings.is_again(Some(1), 120, &header, at(5_001)));
        assert!(!sightings.is_again(Some(2), 120, &header, at(5_001)));
        assert!(!sightings.is_again(Some(2), 120, &[8; 20], at(5_001)));
        assert!(!sightings.is_again(Some(2), 121, &header, at(5_001)), "more of the stream under the same number");
        assert!(!sightings.is_again(None, 120, &header, at(5_001)));
    }
}
