//! §6.5, §6.6, §6.9, §6.10: streams and their order, fragments, bundles.

use festina_sctp::Message;

use super::packet::{ABORT, B, Data, E, Init, SACK, U, data};
use super::peer::{PMDCS, Peer, config, init_ack, ms};

/// Established with packets of 400 bytes, so that a fragment has at most 372.
fn small_packets() -> Peer {
    let mut settings = config();
    settings.limits.packet_bytes_max = 400;
    Peer::serving(settings, &init_ack())
}

#[test]
fn s6_5_ssns_start_at_zero_and_count_the_ordered_messages_of_each_stream() {
    let mut peer = Peer::established();
    for (stream, unordered) in [(0, false), (0, false), (3, false), (0, true), (0, false), (3, false)] {
        let message = Message::new("x").on_stream(stream).unordered_if(unordered);
        peer.send_message(message);
    }
    let chunks: Vec<_> = peer.take().iter().flat_map(|sent| sent.data()).collect();
    let ordered: Vec<_> =
        chunks.iter().filter(|data| data.flags & U == 0).map(|data| (data.stream, data.ssn)).collect();
    assert_eq!(ordered, [(0, 0), (0, 1), (3, 0), (0, 2), (3, 1)]);
}

#[test]
fn s6_5_ssns_wrap_from_65535_to_zero_on_both_sides() {
    let mut peer = Peer::established();
    let mut expected = 0_u16;
    for tsn in 1..=65_540_u32 {
        peer.send("x");
        let sent = peer.take_one();
        assert_eq!(sent.data()[0].ssn, expected);
        let sack = peer.sack(tsn, super::peer::PEER_WINDOW, &[]);
        peer.give(&[sack.chunk(), Data::new(tsn, expected, b"y").chunk()]);
        peer.take();
        expected = expected.wrapping_add(1);
    }
    assert_eq!(peer.received.len(), 65_540);
}

#[test]
fn s1_6_own_tsns_wrap_from_the_largest_to_zero() {
    // The initial TSN cannot be chosen from outside, so attempts are made until one lies near the end.
    let mut peer = (0..).map(near_the_end).find_map(|peer| peer).expect("one of very many");
    let to_the_end = u32::MAX - peer.initial_tsn;
    let mut seen = Vec::new();
    for count in 1..=to_the_end + 3 {
        peer.send("x");
        let sent = peer.take_one();
        if count > to_the_end {
            seen.push(sent.data()[0].tsn);
        }
        peer.ack(count);
    }
    assert_eq!(seen, [u32::MAX, 0, 1]);
}

/// A peer of an association whose initial TSN is within 2^17 of the end, if this nonce leads to one.
fn near_the_end(nonce: u64) -> Option<Peer> {
    let mut peer = Peer::new(config());
    peer.connect(nonce);
    let init = peer.take_one().init();
    (init.tsn >= u32::MAX - (1 << 17)).then(|| {
        (peer.tag, peer.initial_tsn) = (init.tag, init.tsn);
        peer.give(&[init_ack().chunk(super::packet::INIT_ACK)]);
        peer.give(&[super::packet::chunk(super::packet::COOKIE_ACK, 0, b"")]);
        peer.take();
        peer
    })
}

#[test]
fn s6_6_ordered_messages_wait_for_their_turn() {
    let mut peer = Peer::established();
    peer.give(&[Data::new(2, 1, b"second").chunk()]);
    peer.give(&[Data::new(3, 2, b"third").chunk()]);
    assert!(peer.payloads().is_empty());
    peer.give(&[Data::new(1, 0, b"first").chunk()]);
    assert_eq!(peer.payloads(), [&b"first"[..], b"second", b"third"]);
}

#[test]
fn s6_6_the_order_is_that_of_the_ssn_and_not_of_the_tsn() {
    let mut peer = Peer::established();
    peer.give(&[Data::new(1, 1, b"second").chunk(), Data::new(2, 0, b"first").chunk()]);
    assert_eq!(peer.closed(), None);
    assert_eq!(peer.payloads(), [&b"first"[..], b"second"]);
}

#[test]
fn s6_6_streams_do_not_wait_for_each_other() {
    let mut peer = Peer::established();
    peer.give(&[Data::new(2, 1, b"waits").chunk(), Data::new(3, 0, b"goes").stream(1).chunk()]);
    assert_eq!(peer.payloads(), [b"goes"]);
    assert_eq!(peer.received[0].stream().0, 1);
}

#[test]
fn s6_6_unordered_messages_are_delivered_at_once_whatever_their_ssn() {
    let mut peer = Peer::established();
    peer.give(&[Data::new(2, 999, b"urgent").flags(B | E | U).chunk()]);
    assert_eq!(peer.payloads(), [b"urgent"]);
    assert!(peer.received[0].is_unordered());
    peer.give(&[Data::new(1, 0, b"ordered").chunk()]);
    assert_eq!(peer.payloads(), [&b"urgent"[..], b"ordered"], "the SSN of the stream has not moved");
}

#[test]
fn s6_9_a_large_message_is_split_into_sequential_tsns_with_b_e_bits_and_one_ssn() {
    let mut peer = small_packets();
    let payload: Vec<u8> = (0..=255).cycle().take(900).collect();
    peer.send_message(Message::new(payload.clone()).with_ppid(42).on_stream(2));
    let chunks: Vec<_> = peer.take().iter().flat_map(|sent| sent.data()).collect();
    let flags: Vec<_> = chunks.iter().map(|data| data.flags).collect();
    assert_eq!(flags, [B, 0, E]);
    for (index, data) in (0..).zip(&chunks) {
        assert_eq!((data.tsn, data.stream, data.ssn, data.ppid), (peer.initial_tsn.wrapping_add(index), 2, 0, 42));
    }
    assert_eq!(chunks.into_iter().flat_map(|data| data.payload).collect::<Vec<_>>(), payload);
}

#[test]
fn s6_9_every_fragment_of_an_unordered_message_has_the_u_bit() {
    let mut peer = small_packets();
    peer.send_message(Message::new(vec![1; 900]).unordered());
    let flags: Vec<_> = peer.take().iter().flat_map(|sent| sent.data()).map(|data| data.flags).collect();
    assert_eq!(flags, [U | B, U, U | E]);
}

#[test]
fn s6_9_fragments_of_two_messages_are_not_interleaved() {
    let mut peer = small_packets();
    peer.send_message(Message::new(vec![1; 900]).on_stream(1));
    peer.send_message(Message::new(vec![2; 900]).on_stream(2));
    let mut streams = Vec::new();
    let mut acked = 0;
    while streams.len() < 6 {
        for sent in peer.take() {
            streams.extend(sent.data().iter().map(|data| data.stream));
            acked += u32::try_from(sent.data().len()).expect("few");
        }
        peer.ack(acked);
    }
    assert_eq!(streams, [1, 1, 1, 2, 2, 2]);
}

#[test]
fn s6_9_a_message_that_just_fits_is_not_split_and_one_byte_more_is() {
    let mut peer = Peer::established();
    peer.send(vec![1; PMDCS - 16]);
    assert_eq!(peer.take_one().data().len(), 1);
    peer.send(vec![1; PMDCS - 15]);
    let count: usize = peer.take().iter().map(|sent| sent.data().len()).sum();
    assert_eq!(count, 2);
}

#[test]
fn s6_9_fragments_are_reassembled_in_whatever_order_they_come() {
    let parts = [(1, B, &b"one "[..]), (2, 0, b"two "), (3, E, b"three")];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for unordered in [0, U] {
            let mut peer = Peer::established();
            for index in order {
                let (tsn, flags, part) = parts[index];
                assert!(peer.payloads().is_empty());
                peer.give(&[Data { ppid: 9, ..Data::new(tsn, 0, part).flags(flags | unordered) }.chunk()]);
            }
            assert_eq!(peer.payloads(), [b"one two three"], "{order:?}");
            assert_eq!((peer.received[0].ppid(), peer.received[0].is_unordered()), (9, unordered == U));
        }
    }
}

#[test]
fn s6_9_a_message_reassembled_across_the_tsn_wrap_is_whole() {
    let mut peer = Peer::serving(config(), &Init { tsn: u32::MAX, ..init_ack() });
    peer.give(&[Data::new(0, 0, b"b").flags(E).chunk()]);
    peer.give(&[Data::new(u32::MAX, 0, b"a").flags(B).chunk()]);
    assert_eq!(peer.payloads(), [b"ab"]);
}

#[test]
fn s6_9_fragments_of_neighbouring_messages_are_kept_apart() {
    let mut peer = Peer::established();
    peer.give(&[Data::new(2, 0, b"1").flags(E).chunk(), Data::new(3, 1, b"2").flags(B).chunk()]);
    peer.give(&[Data::new(4, 1, b"3").flags(E).chunk(), Data::new(1, 0, b"0").flags(B).chunk()]);
    assert_eq!(peer.payloads(), [b"01", b"23"]);
}

#[test]
fn s6_9_while_a_message_waits_for_fragments_later_ones_of_its_stream_wait_too() {
    let mut peer = Peer::established();
    peer.give(&[Data::new(1, 0, b"0").flags(B).chunk(), Data::new(3, 1, b"after").chunk()]);
    assert!(peer.payloads().is_empty());
    peer.give(&[Data::new(2, 0, b"1").flags(E).chunk()]);
    assert_eq!(peer.payloads(), [&b"01"[..], b"after"]);
}

#[test]
fn s6_9_a_message_as_long_as_the_receive_buffer_does_not_stall_the_association() {
    let mut settings = config();
    (settings.limits.receive_buffer_bytes, settings.limits.message_bytes_max) = (12_000, 12_000);
    let mut peer = Peer::serving(settings, &init_ack());
    // Held fragments cost more than their bytes, but as long as only the next fragment can help, there is a window for it.
    for tsn in 1..=12 {
        let flags = [0, B, E][usize::from(tsn == 1) + 2 * usize::from(tsn == 12)];
        peer.give(&[Data::new(tsn, 0, &[9; 1_000]).flags(flags).chunk()]);
        peer.wait(ms(200));
        let sack = peer.take().pop().expect("a SACK").sack();
        assert_eq!(sack.cumulative, tsn, "the next fragment is always taken");
        assert!(tsn == 12 || sack.a_rwnd >= 1_232, "{}", sack.a_rwnd);
    }
    assert_eq!(peer.payloads(), [[9; 12_000]]);
}

#[test]
fn s6_10_small_messages_share_a_packet_in_the_order_of_their_tsns() {
    let mut peer = Peer::established();
    peer.send_full(4);
    peer.take();
    for _ in 0..3 {
        peer.send("small");
    }
    peer.ack(4);
    assert_eq!(peer.take_tsns(), [[5, 6, 7]]);
}

#[test]
fn s6_9_room_is_kept_for_a_sack_that_travels_along() {
    let mut peer = Peer::established();
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[data(2)]);
    peer.send(vec![1; PMDCS - 16]);
    let sent = peer.take();
    assert!(sent.iter().all(|sent| sent.bytes.len() <= 1_232 && !sent.has(ABORT)));
    assert_eq!(sent.iter().map(|sent| sent.data().len()).sum::<usize>(), 1, "it was not split");
    peer.wait(ms(200));
    let sacks = [sent, peer.take()].concat().iter().filter(|sent| sent.has(SACK)).count();
    assert_eq!(sacks, 1, "the acknowledgement comes with it or apart");
}

#[test]
fn s6_9_an_empty_message_cannot_be_sent() {
    let mut peer = Peer::established();
    let now = peer.now;
    assert!(peer.association().send(now, Message::new("")).is_err(), "§6.2: no DATA chunk without user data");
}
