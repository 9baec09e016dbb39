//! Random windows: recovered symbols equal those that were sent, and no decoder could recover more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use festina_code::{Decoder, Encoder, Window};
use festina_netsim::RandomStream;

use crate::loss::Loss;
use crate::oracle::Oracle;
use crate::seeds::{extent, is_full};

/// A symbol on its way.
#[derive(Clone)]
enum Packet {
    Source(u64),
    Repair(Window, Vec<u8>),
}

struct Stream {
    sent: BTreeMap<u64, Vec<u8>>,
    packets: Vec<Packet>,
}

fn below(random: &mut RandomStream, end: u64) -> usize {
    usize::try_from(random.below(end)).expect("small")
}

/// The extent of a stream.
struct Extent {
    symbols: u64,
    /// Maximum number of repair symbols.
    repairs: usize,
    loss_per_mille: u64,
}

/// Sends symbols of 1 to 1,400 bytes and, after some of them, repair symbols. Some packets are lost, duplicated or late.
fn stream(random: &mut RandomStream, extent: &Extent) -> Stream {
    let (mut encoder, mut sent, mut packets) = (Encoder::default(), BTreeMap::new(), Vec::new());
    let (mut loss, window) = (Loss::random(random, extent.loss_per_mille), 1 + below(random, 16));
    let (per_mille, longest) = (100 + random.below(900), [20, 40, 120, 120, 120, 120, 400, 1_400][below(random, 8)]);
    let (mut id, mut repairs) = ((3 << 32) - random.below(12), 0);
    for _ in 0..extent.symbols {
        // Some symbols are not protected.
        id += 1 + u64::from(random.below(8) == 0);
        let symbol: Vec<u8> = (0..=random.below(longest)).map(|_| random.bits().to_le_bytes()[0]).collect();
        encoder.push(id, &symbol);
        sent.insert(id, symbol);
        let mut leaving = vec![Packet::Source(id)];
        while random.below(1_000) < per_mille && leaving.len() < 3 && repairs < extent.repairs {
            repairs += 1;
            let mut sum = Vec::new();
            let window = encoder.repair(window, &mut sum).expect("symbols are held");
            leaving.push(Packet::Repair(window, sum));
        }
        if random.below(20) == 0 {
            encoder.forget(id - random.below(8));
        }
        for packet in leaving {
            if loss.next(random) {
                continue;
            }
            if random.below(16) == 0 {
                packets.push(packet.clone());
            }
            packets.push(packet);
        }
    }
    for at in 1..packets.len() {
        if random.below(10) == 0 {
            packets.swap(at, at - 1 - below(random, 3.min(at as u64)));
        }
    }
    Stream { sent, packets }
}

/// Passes the packets to both decoders. Returns the symbols that each has recovered, after each packet.
fn recovered(stream: &Stream) -> impl Iterator<Item = (BTreeSet<u64>, BTreeSet<u64>)> {
    let (mut decoder, mut oracle) = (Decoder::default(), Oracle::default());
    stream.packets.iter().map(move |packet| {
        let expected = match packet {
            Packet::Source(id) => {
                decoder.handle_source(*id, &stream.sent[id]);
                oracle.source(*id, &stream.sent[id])
            }
            Packet::Repair(window, sum) => {
                decoder.handle_repair(*window, sum);
                oracle.repair(*window, sum)
            }
        };
        let mut actual = BTreeSet::new();
        while let Some(recovered) = decoder.poll_recovered() {
            assert_eq!(recovered.bytes, stream.sent[&recovered.id], "symbol {}", recovered.id);
            assert!(actual.insert(recovered.id));
        }
        assert!(expected.iter().all(|id| oracle.knows(*id, &stream.sent[id])), "the oracle is wrong");
        (actual, expected)
    })
}

fn check(seeds: Range<u64>) {
    let (mut windows, mut total) = (0, 0);
    for seed in seeds {
        let mut random = RandomStream::new(seed, "windows");
        // The decoder keeps 8 repair symbols.
        let extent = Extent { symbols: 2 + random.below(15), repairs: 8, loss_per_mille: 400 };
        for (actual, expected) in recovered(&stream(&mut random, &extent)) {
            assert_eq!(actual, expected, "seed {seed}");
            total += actual.len();
        }
        windows += 1;
    }
    println!("{total} symbols were recovered in {windows} windows");
    assert!(windows < 100 || total > windows / 10);
}

#[test]
fn each_random_window_gives_what_was_sent_and_all_that_the_oracle_recovers() {
    let seeds: Range<u64> = extent(0..100_000, 0..10_000_000);
    let middle = seeds.start.midpoint(seeds.end);
    std::thread::scope(|scope| {
        scope.spawn(|| check(seeds.start..middle));
        check(middle..seeds.end);
    });
}

/// The oracle forgets nothing, so it may recover more: but with little loss the decoder's memory is as good.
#[test]
fn a_long_stream_recovers_nothing_twice_and_nearly_all_that_the_oracle_does() {
    for seed in 0..if is_full() { 200 } else { 8 } {
        let mut random = RandomStream::new(seed, "long");
        let stream = stream(&mut random, &Extent { symbols: 1_000, repairs: usize::MAX, loss_per_mille: 100 });
        let (mut actual, mut expected) = (BTreeSet::new(), BTreeSet::new());
        for (now, by_oracle) in recovered(&stream) {
            assert!(now.iter().all(|id| actual.insert(*id)), "seed {seed}: a symbol is recovered twice");
            expected.extend(by_oracle);
        }
        let missing = expected.difference(&actual).count();
        println!("seed {seed}: {} of {} recovered", actual.len(), expected.len());
        assert!(missing * 20 <= expected.len() + 20, "seed {seed}: {missing} of {} missing", expected.len());
    }
}
