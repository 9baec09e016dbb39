//! When the chunks of each message left, by a host's packets.

use std::collections::BTreeMap;

use festina_sctp::wire::{Chunk, Packet};
use festina_units::Instant;

/// The messages in one host's packets.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// When the first chunk of each message left, by number.
    pub(super) begun: BTreeMap<usize, Instant>,
    /// When a chunk of each message last left for the first time.
    pub(super) latest_first: BTreeMap<usize, Instant>,
    /// Retransmission times, likewise.
    pub(super) latest_again: BTreeMap<usize, Instant>,
    /// How often the TSN that left most often of each message did.
    pub(super) most: BTreeMap<usize, usize>,
}

/// Reads the sent packets, with their times.
pub(super) fn departures(packets: &[(Instant, Vec<u8>)]) -> Departures {
    let mut departures = Departures::default();
    let mut tsns = BTreeMap::<u32, (usize, usize)>::new();
    let mut numbers = BTreeMap::new();
    for (left_at, bytes) in packets {
        let packet = Packet::parse(bytes).unwrap();
        for chunk in packet.chunks().map(Result::unwrap) {
            let (tsn, number) = match chunk {
                Chunk::Data(data) => (data.tsn.0, data.ppid),
                Chunk::IData(data) => {
                    let message = (data.stream, data.unordered, data.mid.0);
                    let number = data.ppid().unwrap_or_else(|| numbers.get(&message).copied().unwrap());
                    numbers.insert(message, number);
                    (data.tsn.0, number)
                }
                _ => continue,
            };
            let number = usize::try_from(number).unwrap();
            let (_, times) = tsns.entry(tsn).or_insert((number, 0));
            *times += 1;
            departures.begun.entry(number).or_insert(*left_at);
            let latest = if *times == 1 { &mut departures.latest_first } else { &mut departures.latest_again };
            latest.insert(number, *left_at);
            let most = departures.most.entry(number).or_default();
            *most = (*most).max(*times);
        }
    }
    departures
}
