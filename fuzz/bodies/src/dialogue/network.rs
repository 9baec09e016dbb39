//! The links between the hosts: the packets in transit, their arrival times and their fate.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use festina_sctp::wire::COMMON_HEADER_BYTES;
use festina_units::{Duration, Instant};

use super::plan::{LinkPlan, Padding, Span};
use crate::forge::seal;

/// Maximum number of packets in transit; further ones are lost, as in any queue.
const UNDER_WAY_MAX: usize = 512;
/// Maximum delay of a packet.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(120);
/// The largest UDP datagram, without its headers.
const DATAGRAM_BYTES_MAX: usize = 65_480;
/// The types of PAD and FORWARD TSN are known ones; those of these low bits are not.
const CHUNK_TYPES_SKIPPED: [u8; 4] = [0x8f, 0xa3, 0xb1, 0xbe];

/// A packet that arrives.
pub(crate) struct Arrival {
    pub(crate) to: usize,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// Both links.
pub(crate) struct Network {
    links: [LinkPlan; 2],
    padded: [Option<(Padding, u8)>; 2],
    /// The shortest delay that each link has had.
    delays_min: [Duration; 2],
    random: u64,
    under_way: BTreeMap<(Instant, u64), Arrival>,
    sequence: u64,
}

/// Returns the time that a span represents.
pub(crate) fn time(span: Span, max: Duration) -> Duration {
    Duration::from_nanos(u64::from(span.mantissa) << (span.exponent % 38)).min(max)
}

const GOOD: LinkPlan = LinkPlan {
    delay: Span { mantissa: 10, exponent: 20 },
    jitter: Span { mantissa: 0, exponent: 0 },
    loss: 0,
    duplication: 0,
    corruption: 0,
};

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            links: [GOOD; 2],
            padded: [None; 2],
            delays_min: [time(GOOD.delay, DELAY_MAX); 2],
            random: seed,
            under_way: BTreeMap::new(),
            sequence: 0,
        }
    }

    pub(crate) fn set_link(&mut self, to: usize, link: LinkPlan) {
        self.links[to] = link;
        self.delays_min[to] = self.delays_min[to].min(time(link.delay, DELAY_MAX));
    }

    /// Returns the shortest possible round trip.
    pub(crate) fn round_trip_min(&self) -> Duration {
        self.delays_min.into_iter().sum()
    }

    /// Delays the packets in transit towards a host.
    pub(crate) fn delay(&mut self, to: usize, by: Duration) {
        let (late, others): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.under_way).into_iter().partition(|(_, arrival)| arrival.to == to);
        self.under_way = others;
        self.under_way.extend(late.into_iter().map(|((at, sequence), arrival)| ((at + by, sequence), arrival)));
    }

    pub(crate) fn pad(&mut self, to: usize, packets: u8, padding: Padding) {
        self.padded[to] = Some((padding, packets));
    }

    /// Returns whether nothing is lost, damaged or delayed.
    pub(crate) fn is_good(&self) -> bool {
        self.links == [GOOD; 2] && self.padded.iter().all(|padded| matches!(padded, None | Some((_, 0))))
    }

    /// From now on nothing is lost, delayed or padded.
    pub(crate) fn heal(&mut self) {
        (self.links, self.padded) = ([GOOD; 2], [None; 2]);
    }

    /// Returns when the next packet arrives.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.under_way.first_key_value().map(|(key, _)| key.0)
    }

    /// Returns the next packet.
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        self.under_way.pop_first().map(|(_, arrival)| arrival)
    }

    /// Sends a packet.
    pub(crate) fn send(&mut self, now: Instant, mut arrival: Arrival) {
        let link = self.links[arrival.to];
        if let Some((padding, packets @ 1..)) = &mut self.padded[arrival.to] {
            *packets -= 1;
            pad(&mut arrival.bytes, *padding);
        }
        if self.chance(link.loss) {
            return;
        }
        if self.chance(link.corruption) {
            let offset = self.below(arrival.bytes.len() as u64) as usize;
            arrival.bytes[offset] ^= 1 << self.below(8);
        }
        if self.chance(link.duplication) {
            let Arrival { to, source, destination, bytes } = &arrival;
            let copy = Arrival { to: *to, source: *source, destination: *destination, bytes: bytes.clone() };
            self.put(now, link, copy);
        }
        self.put(now, link, arrival);
    }

    fn put(&mut self, now: Instant, link: LinkPlan, arrival: Arrival) {
        if self.under_way.len() < UNDER_WAY_MAX {
            let jitter = time(link.jitter, DELAY_MAX).as_nanos() as u64;
            let late = Duration::from_nanos(self.below(jitter + 1));
            self.sequence += 1;
            self.under_way.insert((now + time(link.delay, DELAY_MAX) + late, self.sequence), arrival);
        }
    }

    fn chance(&mut self, of_256: u8) -> bool {
        of_256 > 0 && self.below(256) < of_256.into()
    }

    /// A number below `end`, by SplitMix64.
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Adds a chunk that receivers skip, unless the packet must stay alone (RFC 9260 §6.10).
fn pad(packet: &mut Vec<u8>, padding: Padding) {
    let alone = [1, 2, 14];
    let first_type = packet.get(COMMON_HEADER_BYTES).copied();
    let room = DATAGRAM_BYTES_MAX.saturating_sub(packet.len() + 4) & !3;
    if first_type.is_none_or(|first| alone.contains(&first)) || room == 0 {
        return;
    }
    let value_bytes = usize::from(padding.bytes).min(room) & !3;
    packet.push(CHUNK_TYPES_SKIPPED[usize::from(padding.chunk_type) % CHUNK_TYPES_SKIPPED.len()]);
    packet.push(0);
    packet.extend(((value_bytes + 4) as u16).to_be_bytes());
    packet.resize(packet.len() + value_bytes, 0x5a);
    seal(packet);
}

/// Returns the packet as a host's socket returns it: in a separate block.
pub(crate) fn received(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
