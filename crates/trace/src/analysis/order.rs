//! The order in which a sender's packets were sent, and duplicates in the capture, judged by the identification of
//! IPv4.
//!
//! Many senders count their packets in this field (RFC 6864 §4 lets them). A retransmission then has a later number
//! than the data sent before it, a packet delayed by the path has an earlier one, and two sightings of one packet have
//! the same.

use std::net::IpAddr;

use festina_units::{Duration, Instant};

use super::packet::Parsed;

/// Sightings of the same packet, for instance at several ports of a switch, are at most this far apart.
const TWICE_TIME: Duration = Duration::from_millis(5);
/// Size of a set of remembered packets. All sets take half a megabyte, since a whole burst may be seen before its
/// duplicates. Of 4,000 packets within that time, which is 10 Gbit/s of 1,500 bytes, one in a thousand evicts another
/// too early.
const SET_PACKETS: usize = 4;
const SETS: usize = 1 << 13;
/// A sender counts if numbers grow by no more than this, other connections of its host included ...
const STEP_MAX: u16 = 256;
/// ... as often as this in a row. Random numbers do so once in 16 million times.
const STEPS_SURE: u8 = 3;

/// The time of a packet's transmission, relative to packets seen before.
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
    /// Records a packet with this number. Returns its place in the sending order, if the sender counts.
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

/// The latest packets of all senders, as marks in sets of a fixed size.
#[derive(Clone, Debug, Default)]
pub(super) struct Sightings {
    sets: Vec<[Sighting; SET_PACKETS]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sighting {
    mark: u64,
    at: Instant,
}

impl Sightings {
    /// Returns whether this packet was seen already: one with this number, this many bytes of transport and this transport header,
    /// between the same ends.
    pub(super) fn is_again(&mut self, parsed: &Parsed<'_>, at: Instant) -> bool {
        let Some(number) = parsed.identification else { return false };
        let mark = mark(number, parsed);
        if self.sets.is_empty() {
            self.sets = vec![[Sighting::default(); SET_PACKETS]; SETS];
        }
        let [low, high, ..] = mark.to_le_bytes();
        let set = usize::from(u16::from_le_bytes([low, high])) % SETS;
        let Some(set) = self.sets.get_mut(set) else { return false };
        let is_same = |known: &Sighting| known.mark == mark && at.saturating_duration_since(known.at) <= TWICE_TIME;
        if set.iter().any(is_same) {
            return true;
        }
        if let Some(oldest) = set.iter_mut().min_by_key(|known| known.at) {
            *oldest = Sighting { mark, at };
        }
        false
    }
}

/// Returns a number that two packets hardly share: a hash of both addresses and the transport header. For TCP these are
/// ports, both numbers, flags and window; for SCTP ports, the tag, the checksum and the first chunk's header. TCP's
/// checksum is left out, since it may be written between two sightings.
fn mark(number: u16, parsed: &Parsed<'_>) -> u64 {
    const HEADER_BYTES: usize = 16;
    let mixed = |mark: u64, word: u64| (mark ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let header = parsed.header.get(..HEADER_BYTES.min(parsed.header.len())).unwrap_or_default().chunks_exact(4);
    let header = header.map(|word| word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    let addresses = parsed.key.ends.map(|end| match end.address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        // There is no identification.
        IpAddr::V6(_) => 0,
    });
    let start = u64::from(number) << 32 | parsed.transport_bytes;
    header.chain(addresses).fold(mixed(0, start), mixed)
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Content, End, Key};
    use super::*;
    use crate::protocol::Protocol;

    #[test]
    fn a_sender_that_counts_is_known_after_three_steps_and_across_the_wrap() {
        let mut sender = Identifications::default();
        let verdicts = [65_533, 65_534, 65_535, 2, 3, 1].map(|number| sender.see(Some(number)));
        assert_eq!(verdicts, [None, None, None, None, Some(Departure::Later), Some(Departure::Earlier)]);
        assert_eq!(sender.see(None), None, "zero is no number");
        assert_eq!(sender.see(Some(30_000)), None, "it does not count after all");
        assert_eq!(sender.see(Some(30_001)), None);
    }

    /// A segment between two hosts, the header filled up with a byte.
    fn segment(number: Option<u16>, bytes: u64, header: &[u8]) -> Parsed<'_> {
        let end = |host| End { address: [10, 0, 0, host].into(), port: 7, udp_port: 0 };
        Parsed {
            key: Key { protocol: Protocol::Tcp, ends: [end(1), end(2)] },
            from: 0,
            source: end(1),
            destination: end(2),
            content: Content::Udp { payload_bytes: 0 },
            transport_bytes: bytes,
            identification: number,
            header,
        }
    }

    #[test]
    fn a_sighting_is_the_same_number_and_header_within_five_milliseconds() {
        let mut sightings = Sightings::default();
        let mut is_again = |number, bytes, header: [u8; 20], at| {
            sightings.is_again(&segment(number, bytes, &header), Instant::from_micros(at))
        };
        let header = [7; 20];
        assert!(!is_again(Some(1), 120, header, 10_000));
        assert!(is_again(Some(1), 120, header, 15_000));
        assert!(!is_again(Some(1), 120, header, 15_001));
        assert!(!is_again(Some(2), 120, header, 15_001));
        assert!(!is_again(Some(2), 120, [8; 20], 15_001));
        assert!(!is_again(Some(2), 121, header, 15_001), "more of the stream under the same number");
        assert!(!is_again(None, 120, header, 15_001));
    }

    #[test]
    fn a_burst_that_is_seen_whole_before_it_is_seen_again_counts_once() {
        const BURST: u16 = 4_000;
        let mut sightings = Sightings::default();
        let mut seen_again = |at| {
            let is_again = |number: &u16| sightings.is_again(&segment(Some(*number), 1_480, &[7; 20]), at);
            (0..BURST).filter(is_again).count()
        };
        assert_eq!(seen_again(Instant::from_micros(10_000)), 0);
        let found = seen_again(Instant::from_micros(12_000));
        assert!(found >= usize::from(BURST) * 997 / 1_000, "{found} of {BURST}");
    }
}
