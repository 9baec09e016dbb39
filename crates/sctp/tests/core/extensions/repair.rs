//! REPAIR, Festina's own: negotiation, chunks that are computed, and sums that leave.

mod cost;
mod sums;

use festina_code::Encoder;
use festina_recovery::redundancy::Redundancy;
use festina_sctp::{Config, Extensions, Profile};

use super::{
    FORWARD_TSN, I_DATA, I_FORWARD_TSN, SUPPORTED_EXTENSIONS, extensions, forward_tsn, i_data, init_ack_with, init_with,
};
use crate::rfc9260::packet::{Data, ERROR, INIT_ACK, SACK, chunk, data};
use crate::rfc9260::peer::{Peer, config, ms};

const REPAIR: u8 = 0xb6;
/// Bits of DATA and of its form in a sum.
const BE: u8 = 3;
const UBE: u8 = 7;

/// The settings of the other tests, with the code allowed.
fn coding() -> Config {
    let mut config = config();
    config.mechanisms.redundancy = Redundancy::ADAPTIVE;
    config
}

/// An association that has agreed on the code, and knows from a first sum that it is used.
fn agreed() -> Peer {
    agreed_with(coding(), &[REPAIR, FORWARD_TSN])
}

fn agreed_with(config: Config, announced: &[u8]) -> Peer {
    let mut peer = Peer::serving(config, &init_ack_with(&[extensions(announced)]));
    peer.give(&[repair(9_000, 1, 0, &[0; 5])]);
    peer
}

fn repair(first: u32, mask: u16, row: u8, sum: &[u8]) -> Vec<u8> {
    chunk(REPAIR, row, &[&first.to_be_bytes()[..], &mask.to_be_bytes(), sum].concat())
}

/// A chunk of the peer as it is summed: flags, fields, payload.
fn symbol(flags: u8, fields: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[flags], fields, payload].concat()
}

/// The chunk that [`data`] gives, as it is summed.
fn symbol_of_data(tsn: u32) -> Vec<u8> {
    symbol(BE, &u16::try_from(tsn - 1).expect("small").to_be_bytes(), b"d")
}

/// A sum of these chunks.
fn sum(symbols: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    symbols.iter().for_each(|(tsn, symbol)| encoder.push(u64::from(*tsn), symbol));
    let mut sum = Vec::new();
    let window = encoder.repair(symbols.len(), &mut sum).expect("there are symbols");
    repair(u32::try_from(window.first).expect("small"), window.mask, window.row, &sum)
}

#[test]
fn it_is_announced_only_where_the_settings_allow_the_code_and_only_to_a_peer_that_announces_it() {
    for (config, announced, is_answered) in [
        (config(), vec![REPAIR], false),
        (coding(), vec![FORWARD_TSN], false),
        (coding(), vec![FORWARD_TSN, REPAIR], true),
    ] {
        let allowed = config.mechanisms.redundancy != Redundancy::Off;
        let init = Peer::connecting(config.clone()).take_one().init();
        assert_eq!(init.all(SUPPORTED_EXTENSIONS).concat().contains(&REPAIR), allowed);
        let mut peer = Peer::new(config.clone());
        peer.give_tagged(0, &[init_with(&[extensions(&announced)]).chunk(1)]);
        let sent = peer.take_one();
        assert_eq!(sent.kinds(), [INIT_ACK]);
        assert_eq!(sent.init().all(SUPPORTED_EXTENSIONS).concat().contains(&REPAIR), is_answered);
        let mut peer = Peer::client(config, &init_with(&[extensions(&announced)]));
        let is_known = announced.contains(&REPAIR);
        assert_eq!(peer.association().peer_extensions().contains(Extensions::REPAIR), is_known, "from the cookie");
    }
}

#[test]
fn without_agreement_it_is_passed_over_and_not_reported() {
    for (config, announced) in [(config(), &[REPAIR][..]), (coding(), &[FORWARD_TSN])] {
        let mut peer = Peer::serving(config, &init_ack_with(&[extensions(announced)]));
        peer.give(&[repair(1, 3, 3, &[9, 9, 9, 9, 9, 1]), data(1)]);
        peer.wait(ms(500));
        let sent = peer.take_one();
        assert_eq!((sent.kinds().len(), sent.sack().cumulative), (1, 1));
    }
}

#[test]
fn a_lost_chunk_is_computed_delivered_in_order_and_reported_in_front_of_its_sack() {
    let mut peer = agreed();
    peer.give(&[data(1), data(3)]);
    peer.take();
    peer.give(&[sum(&[(1, symbol_of_data(1)), (2, symbol_of_data(2)), (3, symbol_of_data(3))])]);
    assert_eq!(peer.received.len(), 3);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.sack().cumulative), (vec![REPAIR, SACK], 3));
    assert_eq!(sent.the(REPAIR).value, [0, 0, 0, 2, 0, 1], "no sum is in a report");
    peer.give(&[data(4)]);
    peer.wait(ms(500));
    assert_eq!(peer.take_one().kinds(), [SACK], "it is reported once");
}

#[test]
fn a_chunk_in_front_of_the_packet_that_repairs_it_is_in_order_and_its_sack_may_wait() {
    let mut peer = agreed();
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[sum(&[(1, symbol_of_data(1)), (2, symbol_of_data(2))]), data(3)]);
    assert_eq!(peer.received.len(), 3);
    peer.nothing_sent();
    peer.wait(ms(200));
    assert_eq!(peer.take_one().sack().cumulative, 3);
}

#[test]
fn a_chunk_that_arrives_may_complete_a_sum_of_two_lost_ones() {
    let mut peer = agreed();
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[sum(&[(1, symbol_of_data(1)), (2, symbol_of_data(2)), (3, symbol_of_data(3))])]);
    peer.nothing_sent();
    peer.give(&[data(3)]);
    assert_eq!((peer.received.len(), peer.take_one().sack().cumulative), (3, 3));
}

#[test]
fn a_chunk_that_is_not_lost_or_already_there_is_neither_delivered_twice_nor_a_duplicate() {
    let mut peer = Peer::serving(coding(), &init_ack_with(&[extensions(&[REPAIR])]));
    peer.give(&[data(1)]);
    peer.take();
    // The decoder has not seen the first chunk, and computes it.
    peer.give(&[sum(&[(1, symbol_of_data(1))])]);
    peer.give(&[sum(&[(1, symbol_of_data(1))])]);
    peer.nothing_sent();
    peer.give(&[data(2), sum(&[(1, symbol_of_data(1)), (2, symbol_of_data(2))])]);
    peer.wait(ms(200));
    let sack = peer.take_one().sack();
    assert_eq!((peer.received.len(), sack.cumulative, sack.duplicates), (2, 2, vec![]));
    // One that was computed and then arrives is a duplicate.
    peer.give(&[sum(&[(2, symbol_of_data(2)), (3, symbol_of_data(3))])]);
    peer.take();
    peer.give(&[data(3)]);
    assert_eq!((peer.received.len(), peer.take_one().sack().duplicates), (3, vec![3]));
}

#[test]
fn unordered_chunks_and_other_streams_and_identifiers_come_back_as_they_were() {
    let mut peer = agreed();
    let unordered = symbol(UBE | 0x30, &[0, 3, 0, 0, 0, 0, 0, 51], b"u");
    peer.give(&[sum(&[(2, unordered)])]);
    let message = &peer.received[0];
    let of_message = (message.stream().0, message.ppid(), message.is_unordered(), &message.payload()[..]);
    assert_eq!(of_message, (3, 51, true, &b"u"[..]));
    assert_eq!(peer.take_one().sack().gaps, [(2, 2)]);
}

#[test]
fn a_lost_fragment_completes_its_message_in_either_framing() {
    let mut peer = agreed();
    let (begin, end) = (Data { flags: 2, ..Data::new(1, 0, b"half ") }, symbol(1, &[0, 0], b"and half"));
    peer.give(&[begin.chunk()]);
    peer.give(&[sum(&[(2, end)])]);
    assert_eq!(peer.payloads(), [b"half and half"]);

    let mut config = coding();
    config.interleaving = true;
    let mut peer = agreed_with(config, &[REPAIR, FORWARD_TSN, I_DATA, I_FORWARD_TSN]);
    peer.give(&[i_data(1, 0, 2, 0, b"half ")]);
    peer.give(&[sum(&[(2, symbol(1 | 0x20, &[0, 0, 0, 0, 0, 0, 0, 1], b"and half"))])]);
    assert_eq!(peer.payloads(), [b"half and half"]);
}

#[test]
fn a_chunk_that_the_peer_has_abandoned_stays_so() {
    let mut peer = agreed();
    peer.give(&[data(1)]);
    peer.give(&[forward_tsn(2, &[(0, 1)])]);
    peer.take();
    peer.give(&[sum(&[(2, symbol_of_data(2))])]);
    peer.give(&[data(3)]);
    peer.wait(ms(500));
    assert_eq!((peer.received.len(), peer.take().last().expect("a SACK").sack().cumulative), (2, 3));
}

#[test]
fn a_computed_chunk_of_no_stream_or_without_data_is_answered_as_one_that_arrives() {
    let mut peer = agreed();
    peer.give(&[sum(&[(1, symbol(BE | 0x10, &[0, 99, 0, 0], b"x"))])]);
    assert_eq!(peer.take_one().the(ERROR).causes()[0].0, 1, "invalid stream identifier");
    peer.give(&[sum(&[(2, symbol(BE, &[0, 0], b""))])]);
    assert!(peer.closed().is_some(), "DATA without user data (RFC 9260 §6.2)");
}

#[test]
fn sums_that_are_wrong_far_away_or_malformed_change_nothing_and_cost_no_answer() {
    let mut peer = agreed();
    peer.give(&[data(1)]);
    peer.take();
    let right = sum(&[(1, symbol_of_data(1)), (2, symbol_of_data(2))]);
    let mut wrong = right.clone();
    wrong[12] ^= 1;
    let far: Vec<_> =
        (0..30).map(|nth: u32| repair(nth << 27, 0xffff, (nth % 8) as u8, &[nth.to_be_bytes()[3]; 20])).collect();
    let no_chunk = sum(&[(2, symbol(0xff, &[0, 0], b"x"))]);
    let short = [repair(2, 1, 0, &[1]), repair(2, 0, 0, &[0; 9]), repair(2, 2, 0, &[0; 9])].concat();
    peer.give(&[wrong, no_chunk, short]);
    peer.give(&far);
    // Nothing but sums in a packet of 1,200 bytes, again and again.
    for round in 0..200_u32 {
        let sums: Vec<_> = (0..40)
            .map(|nth| repair(2 + nth + round, 0x8fff, (nth % 8) as u8, &[round.to_be_bytes()[3]; 18]))
            .collect();
        peer.give(&sums);
    }
    peer.nothing_sent();
    assert_eq!((peer.received.len(), peer.closed()), (1, None));
    // Right sums still repair: data pays for their computation.
    (3..200).for_each(|tsn| peer.give(&[data(tsn)]));
    peer.take();
    peer.give(&[right]);
    peer.give(&[data(2)]);
    assert_eq!(peer.received.len(), 199);
}

#[test]
fn only_adaptive_redundancy_uses_the_code() {
    for redundancy in Redundancy::NAMED.into_iter().filter(|redundancy| !redundancy.codes()) {
        let mut config = Config::published(Profile::Festina);
        config.mechanisms.redundancy = redundancy;
        let init = Peer::connecting(config).take_one().init();
        assert!(!init.all(SUPPORTED_EXTENSIONS).concat().contains(&REPAIR), "{redundancy}");
    }
}
