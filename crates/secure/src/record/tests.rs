use proptest::prelude::*;
use rustls::quic::Tag;

use super::*;
use crate::testing::{key_changes, provider};
use crate::wire::SHORT_OVERHEAD_BYTES;

const TO: ConnectionId = ConnectionId([0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
const FROM: ConnectionId = ConnectionId([1, 2, 3, 4, 5, 6, 7, 8]);
const CHUNKS: &[u8] = &[11, 0, 0, 4];

fn initial_keys(side: Side) -> Keys {
    super::initial_keys(&provider(), TO, side).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn traffic() -> [Traffic; 2] {
    key_changes().map(|change| Traffic::new(change).unwrap())
}

fn try_seal(from: &mut Traffic, packet: &mut Vec<u8>, chunks: &[u8]) -> Result<(), SealError> {
    let start = packet.len();
    from.reserve(packet);
    packet.extend_from_slice(chunks);
    from.seal(packet, start, TO)
}

fn seal(from: &mut Traffic, chunks: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    try_seal(from, &mut packet, chunks).unwrap();
    packet
}

fn open(to: &mut Traffic, packet: &[u8]) -> Result<Vec<u8>, OpenError> {
    let mut packet = packet.to_vec();
    to.open(&mut packet).map(|opened| packet[opened.start..opened.start + opened.bytes].to_vec())
}

#[test]
fn rfc9001_a2_initial_keys_protect_the_header_as_in_the_example() {
    let keys = initial_keys(Side::Client);
    let (mut first, mut number) = (0xc3, [0, 0, 0, 2]);
    let sample = unhex("d1b1c98dd7689fb8ec11d242b123dc9b");
    keys.local.header.encrypt_in_place(&sample, &mut first, &mut number).unwrap();
    assert_eq!((first, hex(&number)), (0xc0, "7b9aec34".to_owned()));
}

/// The vector of docs/secure-format.md.
#[test]
fn a_long_packet_is_the_one_in_the_format_document() {
    let mut keys = LongKeys::new(Level::Initial, initial_keys(Side::Client));
    keys.next_number = 2;
    let mut packet = Vec::new();
    keys.seal(&mut packet, TO, FROM, &[1, 0, 0, 0, 2, 0xab, 0xcd]).unwrap();
    assert_eq!(hex(&packet), include_str!("../../vectors/long.hex").trim());
    let mut peer = LongKeys::new(Level::Initial, initial_keys(Side::Server));
    assert_eq!(peer.open(&mut packet.clone()), Ok(&[1, 0, 0, 0, 2, 0xab, 0xcd][..]));
    assert_eq!(peer.open(&mut packet), Err(OpenError::Duplicate));
}

/// The vectors of docs/secure-format.md: the keys are those of Initial packets, since the keys of a connection are never the same.
#[test]
fn short_packets_are_those_in_the_format_document() {
    let keys = initial_keys(Side::Client);
    let mut lines = String::new();
    for (number, phase, is_wide) in [(0x1_2345, false, false), (0x1_2346, true, true)] {
        let number_bytes = if is_wide { 4 } else { 2 };
        let mut packet = vec![0; SHORT_HEADER_BYTES + number_bytes];
        write_short_header(&mut packet, FROM, phase, number);
        let payload_at = packet.len();
        packet.extend_from_slice(CHUNKS);
        let both = (&*keys.local.packet, &*keys.local.header);
        protect(both, number, &mut packet, (0, payload_at, number_bytes)).unwrap();
        lines.push_str(&hex(&packet));
        lines.push('\n');
    }
    assert_eq!(lines, include_str!("../../vectors/short.hex"));
}

#[test]
fn a_packet_is_at_most_16_bytes_longer_than_the_plain_one() {
    let [mut client, mut server] = traffic();
    let packet = seal(&mut client, CHUNKS);
    let plain = festina_sctp::wire::COMMON_HEADER_BYTES + CHUNKS.len();
    assert_eq!(packet.len() - plain, 15);
    assert_eq!(packet.len() - CHUNKS.len(), SHORT_OVERHEAD_BYTES);
    assert_eq!(open(&mut server, &packet).unwrap(), CHUNKS);
}

#[test]
fn each_changed_bit_and_each_cut_is_found() {
    let [mut client, mut server] = traffic();
    let packet = seal(&mut client, CHUNKS);
    for bit in 0..packet.len() * 8 {
        let mut changed = packet.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&mut server, &changed).is_err(), "bit {bit}");
    }
    for cut in 0..packet.len() {
        assert!(open(&mut server, &packet[..cut]).is_err(), "{cut} bytes");
    }
    assert_eq!(open(&mut server, &packet).unwrap(), CHUNKS, "none of this harms the connection");
    assert_eq!(open(&mut server, &packet), Err(OpenError::Duplicate));
    assert_eq!(open(&mut client, &packet), Err(OpenError::NotAuthentic), "a packet reflected to its sender");
}

#[test]
fn a_packet_without_a_whole_chunk_is_refused_and_uses_no_number() {
    let [mut client, mut server] = traffic();
    let mut packet = vec![7];
    assert_eq!(try_seal(&mut client, &mut packet, &[1]), Err(SealError::TooShort));
    assert_eq!((packet, client.numbers.next), (vec![7], 0));
    let packet = seal(&mut client, CHUNKS);
    open(&mut server, &packet).unwrap();
}

#[test]
fn numbers_are_unwrapped_over_reordering_and_an_outage_of_any_length() {
    let [mut client, mut server] = traffic();
    let mut lost = Vec::new();
    for _ in 0..200_000 {
        lost.clear();
        try_seal(&mut client, &mut lost, CHUNKS).unwrap();
        client.note_outstanding(7..8);
    }
    assert_eq!(lost.len(), CHUNKS.len() + SHORT_OVERHEAD_BYTES + 2, "numbers are wide when the peer shows nothing");
    open(&mut server, &lost).unwrap();
    let answer = seal(&mut server, CHUNKS);
    open(&mut client, &answer).unwrap();
    assert_eq!(seal(&mut client, CHUNKS).len(), CHUNKS.len() + SHORT_OVERHEAD_BYTES + 2, "which shows nothing");
    // A TSN is acknowledged that was sent since the proof was first missed, and one that was sent just now.
    client.note_outstanding(9..12);
    client.note_outstanding(13..13);
    let (early, late) = (seal(&mut client, CHUNKS), seal(&mut client, CHUNKS));
    assert_eq!(early.len(), CHUNKS.len() + SHORT_OVERHEAD_BYTES);
    open(&mut server, &late).unwrap();
    open(&mut server, &early).unwrap();
    assert_eq!(open(&mut server, &early), Err(OpenError::Duplicate));
}

#[test]
fn rfc9000_17_1_a_loss_in_one_direction_heals_while_the_peer_goes_on_sending() {
    for lost in [30_000, 33_000, 65_535, 98_000] {
        let [mut client, mut server] = traffic();
        for number in 0..lost {
            seal(&mut client, CHUNKS);
            if number % 5_000 == 0 {
                let packet = seal(&mut server, CHUNKS);
                open(&mut client, &packet).unwrap();
                client.note_outstanding(0..number);
            }
        }
        let packet = seal(&mut client, CHUNKS);
        assert!(open(&mut server, &packet).is_ok(), "after {lost} lost packets");
    }
}

#[test]
fn packets_that_may_be_as_long_as_the_path_allows_keep_their_length() {
    let [mut client, _] = traffic();
    for _ in 0..20_000 {
        seal(&mut client, CHUNKS);
    }
    let chunks = vec![0; 1_200];
    assert_eq!(seal(&mut client, &chunks).len(), chunks.len() + SHORT_OVERHEAD_BYTES);
}

#[test]
fn a_peer_that_updates_its_keys_too_often_ends_the_connection() {
    let [mut client, mut server] = traffic();
    let mut updates = 0;
    let error = loop {
        let packet = seal(&mut server, CHUNKS);
        open(&mut client, &packet).unwrap();
        assert!(client.update_keys());
        let packet = seal(&mut client, CHUNKS);
        match open(&mut server, &packet) {
            Ok(_) => updates += 1,
            Err(error) => break error,
        }
        assert!(updates < 100);
    };
    assert_eq!(error, OpenError::KeyUpdateTooSoon);
    assert!(error.is_fatal() && updates > 30, "{updates}");
}

#[test]
fn the_application_cannot_update_keys_so_often_that_the_peer_ends_the_connection() {
    let [mut client, mut server] = traffic();
    let mut updates = 0;
    for _ in 0..1_000 {
        let packet = seal(&mut server, CHUNKS);
        open(&mut client, &packet).unwrap();
        updates += u32::from(client.update_keys_early());
        let packet = seal(&mut client, CHUNKS);
        open(&mut server, &packet).unwrap();
    }
    assert_eq!(updates, 16 + 1_000 / 64);
}

#[test]
fn rfc9001_6_keys_are_updated_and_late_packets_of_the_last_phase_still_open() {
    let [mut client, mut server] = traffic();
    assert!(!client.update_keys(), "not before the peer was heard");
    let late = seal(&mut server, CHUNKS);
    let first = seal(&mut server, CHUNKS);
    open(&mut client, &first).unwrap();
    let late_client = seal(&mut client, CHUNKS);
    assert!(client.update_keys());
    assert!(!client.update_keys(), "not again before the peer confirms");
    let updated = seal(&mut client, CHUNKS);
    open(&mut server, &updated).unwrap();
    assert!(server.phase_bit());
    open(&mut server, &late_client).unwrap();
    open(&mut client, &late).unwrap();
    let confirmation = seal(&mut server, CHUNKS);
    open(&mut client, &confirmation).unwrap();
    assert!(client.update_keys());
    let again = seal(&mut client, CHUNKS);
    open(&mut server, &again).unwrap();
    assert!(!server.phase_bit());
}

#[test]
fn a_second_update_opens_although_the_answer_to_the_first_is_lost() {
    let [mut client, mut server] = traffic();
    let hello = seal(&mut server, CHUNKS);
    open(&mut client, &hello).unwrap();
    let late = seal(&mut server, CHUNKS);
    assert!(client.update_keys());
    let updated = seal(&mut client, CHUNKS);
    open(&mut server, &updated).unwrap();
    let _lost = seal(&mut server, CHUNKS);
    assert!(server.update_keys(), "the client has the phase that it began");
    let second = seal(&mut server, CHUNKS);
    open(&mut client, &late).unwrap();
    let mut forged = second.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(open(&mut client, &forged), Err(OpenError::NotAuthentic));
    assert_eq!(client.failures, 1);
    assert_eq!(open(&mut client, &second).unwrap(), CHUNKS);
    let answer = seal(&mut client, CHUNKS);
    assert_eq!(open(&mut server, &answer).unwrap(), CHUNKS);
}

#[test]
fn simultaneous_updates_and_second_ones_keep_both_sides_together() {
    let [mut client, mut server] = traffic();
    for _ in 0..3 {
        let hellos = (seal(&mut client, CHUNKS), seal(&mut server, CHUNKS));
        open(&mut server, &hellos.0).unwrap();
        open(&mut client, &hellos.1).unwrap();
        assert!(client.update_keys() && server.update_keys());
        assert!(!client.update_keys() && !server.update_keys(), "neither has heard the other");
        let crossing = (seal(&mut client, CHUNKS), seal(&mut server, CHUNKS));
        open(&mut server, &crossing.0).unwrap();
        assert!(server.update_keys());
        let second = seal(&mut server, CHUNKS);
        // The first of them is lost.
        open(&mut client, &second).unwrap();
        let answer = seal(&mut client, CHUNKS);
        open(&mut server, &answer).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_updates_and_losses_locks_the_sides_out(steps in prop::collection::vec((0..2_usize, 0..4_u8), 1..60)) {
        let mut sides = traffic();
        for (from, step) in steps {
            if step == 0 {
                sides[from].update_keys();
                continue;
            }
            let packet = seal(&mut sides[from], CHUNKS);
            if step == 1 {
                // It is lost.
                continue;
            }
            prop_assert_eq!(open(&mut sides[1 - from], &packet), Ok(CHUNKS.to_vec()));
        }
    }
}

#[test]
fn rfc9001_6_2_a_flood_of_key_updates_ends_the_connection() {
    let [mut client, mut server] = traffic();
    let hello = seal(&mut server, CHUNKS);
    open(&mut client, &hello).unwrap();
    client.update_keys();
    let first = seal(&mut client, CHUNKS);
    open(&mut server, &first).unwrap();
    // A client that breaks the rule updates although the server has sent nothing in this phase.
    client.rotate(None);
    let second = seal(&mut client, CHUNKS);
    let error = open(&mut server, &second).unwrap_err();
    assert_eq!(error, OpenError::KeyUpdateTooSoon);
    assert!(error.is_fatal());
}

#[test]
fn reserved_bits_are_refused() {
    let [client, mut server] = traffic();
    let mut packet = vec![0; SHORT_HEADER_BYTES + NUMBER_BYTES];
    write_short_header(&mut packet, TO, false, 0);
    packet[0] |= 0b1_0000;
    let payload_at = packet.len();
    packet.extend_from_slice(CHUNKS);
    let keys = (&*client.current.local, &*client.local_header);
    protect(keys, 0, &mut packet, (0, payload_at, 2)).unwrap();
    assert_eq!(open(&mut server, &packet), Err(OpenError::Reserved));
}

/// A key with other limits.
struct Limited {
    key: Box<dyn PacketKey>,
    limit: u64,
}

impl PacketKey for Limited {
    fn encrypt_in_place(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Result<Tag, rustls::Error> {
        self.key.encrypt_in_place(number, header, payload)
    }
    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], rustls::Error> {
        self.key.decrypt_in_place(number, header, payload)
    }
    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }
    fn confidentiality_limit(&self) -> u64 {
        self.limit
    }
    fn integrity_limit(&self) -> u64 {
        self.limit
    }
}

fn limit(key: &mut Box<dyn PacketKey>, limit: u64) {
    let inner = core::mem::replace(key, initial_keys(Side::Client).local.packet);
    *key = Box::new(Limited { key: inner, limit });
}

#[test]
fn rfc9001_6_6_keys_are_updated_at_half_of_their_limit_and_never_used_beyond_it() {
    let [mut client, mut server] = traffic();
    limit(&mut client.current.local, 10);
    for _ in 0..10 {
        let packet = seal(&mut client, CHUNKS);
        open(&mut server, &packet).unwrap();
    }
    assert_eq!(try_seal(&mut client, &mut Vec::new(), CHUNKS), Err(SealError::KeyExhausted), "the peer is silent");
    let answer = seal(&mut server, CHUNKS);
    open(&mut client, &answer).unwrap();
    let packet = seal(&mut client, CHUNKS);
    assert!(client.phase_bit());
    open(&mut server, &packet).unwrap();
}

#[test]
fn rfc9001_6_6_forgeries_beyond_the_limit_end_the_connection() {
    let [mut client, mut server] = traffic();
    limit(&mut server.current.remote, 5);
    let packet = seal(&mut client, CHUNKS);
    let mut forged = packet.clone();
    *forged.last_mut().unwrap() ^= 1;
    for _ in 0..5 {
        assert_eq!(open(&mut server, &forged), Err(OpenError::NotAuthentic));
    }
    let error = open(&mut server, &packet).unwrap_err();
    assert_eq!(error, OpenError::TooManyForgeries);
    assert!(error.is_fatal());
}
