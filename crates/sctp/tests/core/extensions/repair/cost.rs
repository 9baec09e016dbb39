//! What a hostile peer's sums cost, compared with DATA of the same bytes.

use std::time::Duration;

use bytes::Bytes;
use festina_units::EcnCodepoint;

use super::{agreed, repair};
use crate::rfc9260::packet::{Data, packet};
use crate::rfc9260::peer::{LOCAL_PORT, PEER_PORT};

const PACKETS: u32 = 300;
const PACKET_BYTES: usize = 1_200;
/// The goal is twice. The rest is for machines that do something else meanwhile.
const TIMES_MAX: u32 = 4;

/// The header of DATA is longer than that of REPAIR.
const HEADERS_DIFFER_BY: usize = 6;

fn data(tsn: u32, payload_bytes: usize) -> Vec<u8> {
    Data::new(tsn, u16::try_from(tsn - 1).expect("a small TSN"), &vec![7; payload_bytes]).chunk()
}

/// A packet full of the chunks that `next` makes.
fn full(mut next: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut chunks = vec![next()];
    let chunk_bytes = chunks[0].len();
    while (chunks.len() + 1) * chunk_bytes <= PACKET_BYTES {
        chunks.push(next());
    }
    chunks
}

/// The least time in which a receiver has taken in such packets.
#[expect(clippy::disallowed_methods, reason = "the time that it takes is in question")]
fn cost(mut chunks: impl FnMut(u32) -> Vec<Vec<u8>>) -> Duration {
    let packets: Vec<_> = (0..PACKETS).map(&mut chunks).collect();
    let times = (0..7).map(|_| {
        let mut peer = agreed();
        let tag = peer.tag;
        let packets: Vec<_> =
            packets.iter().map(|chunks| Bytes::from(packet((PEER_PORT, LOCAL_PORT), tag, chunks))).collect();
        let (now, address, mut sent) = (peer.now, peer.address, Vec::with_capacity(2_000));
        let association = peer.association();
        let begun = std::time::Instant::now();
        for bytes in &packets {
            association.handle_packet(now, address, EcnCodepoint::NotCapable, bytes).expect("it is sound");
            while association.poll_message().is_some() {}
            sent.clear();
            while association.poll_transmit(now, &mut sent).is_some() {
                sent.clear();
            }
        }
        begun.elapsed()
    });
    times.min().expect("there are runs")
}

#[test]
fn sums_that_a_hostile_peer_combines_cost_little_more_than_data_of_the_same_bytes() {
    let row = |nth: u32| (nth % 8) as u8;
    for sum_bytes in [18, 100, 1_150] {
        let mut tsn = 0;
        let of_data = cost(|_| {
            full(|| {
                tsn += 1;
                data(tsn, sum_bytes - HEADERS_DIFFER_BY)
            })
        });
        let sum = vec![7; sum_bytes];
        let mut nth = 0;
        let of_unknown = cost(|_| {
            full(|| {
                nth += 1;
                repair(60_000 + 2 * nth, u16::MAX, row(nth), &sum)
            })
        });
        // Sums of the last chunks and of the next ones, and now and then one of these.
        let of_both = cost(|index| {
            if index % 4 == 0 {
                return vec![data(index / 4 + 1, sum_bytes)];
            }
            full(|| {
                nth += 1;
                repair((index / 4).saturating_sub(6).max(1), u16::MAX, row(nth), &sum)
            })
        });
        println!("sums of {sum_bytes} bytes: {of_unknown:?}, with DATA between: {of_both:?}; DATA: {of_data:?}");
        assert!(of_unknown.max(of_both) <= of_data * TIMES_MAX, "{of_unknown:?} {of_both:?} {of_data:?}");
    }
}
