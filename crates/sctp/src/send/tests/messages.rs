//! From messages to chunks: streams, fragments, bundling, lifetime, the send buffer.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::config::StreamScheduler;

fn bits_and_lengths(packets: &[Vec<Sent>]) -> Vec<(String, usize)> {
    packets.iter().flatten().map(|chunk| (chunk.bits.clone(), chunk.len)).collect()
}

#[test]
fn a_message_keeps_its_stream_and_payload_protocol_identifier_section_6_5() {
    let mut rig = Rig::standard();
    rig.send(Message::new("hello").on_stream(99).with_ppid(51));
    let [packet] = &rig.packets()[..] else { panic!("one packet") };
    let expected = Sent { tsn: 1, stream: 99, ssn: 0, ppid: 51, bits: "BE".into(), len: 5 };
    assert_eq!(packet, &[expected]);
}

#[test]
fn each_stream_counts_its_ordered_messages_and_not_its_unordered_ones_section_6_5() {
    let mut rig = Rig::standard();
    for (stream, unordered) in [(0, false), (0, true), (1, false), (0, false), (1, true), (1, false)] {
        let message = Message::new("x").on_stream(stream);
        rig.send(if unordered { message.unordered() } else { message });
    }
    let packets = rig.packets();
    let numbers: Vec<_> =
        packets.iter().flatten().map(|chunk| (chunk.stream, chunk.bits.as_str(), chunk.ssn)).collect();
    assert_eq!(numbers.len(), 6);
    let ordered: Vec<_> = numbers.into_iter().filter(|(_, bits, _)| *bits == "BE").collect();
    assert_eq!(ordered, [(0, "BE", 0), (1, "BE", 0), (0, "BE", 1), (1, "BE", 1)]);
}

#[test]
fn a_stream_sequence_number_wraps_to_zero_section_6_5() {
    let mut rig = Rig::standard();
    *rig.sender.flight.streams.next_ssn_mut(StreamId(0)) = u16::MAX;
    rig.send_bytes(1);
    rig.send_bytes(1);
    let ssns: Vec<_> = rig.packets().iter().flatten().map(|chunk| chunk.ssn).collect();
    assert_eq!(ssns, [u16::MAX, 0]);
}

#[test]
fn tsns_count_up_across_the_wrap_section_1_6() {
    let mut rig = Rig::standard();
    let config = config(Profile::Rfc9260.mechanisms());
    rig.sender = Sender::new(&config, Tsn(u32::MAX), WINDOW, 100);
    assert_eq!(rig.flight(3, 100), [[u32::MAX, 0, 1]]);
    rig.sack(0, &[]);
    assert_eq!(rig.delivered(), [0, 1]);
    rig.sack(1, &[]);
    assert!(rig.sender.flight.is_drained());
}

#[test]
fn small_messages_share_a_packet_section_6_10() {
    let mut rig = Rig::standard();
    assert_eq!(rig.flight(3, 400), [vec![1, 2], vec![3]], "two take 832 of 1,220 bytes, three would take 1,248");
}

#[test]
fn a_long_message_is_cut_into_packets_with_consecutive_tsns_section_6_9() {
    let mut rig = Rig::standard();
    rig.send(Message::new(vec![1; 2 * FULL + 10]).unordered());
    let packets = rig.packets();
    let expected = [("UB".to_string(), FULL), ("U".to_string(), FULL), ("UE".to_string(), 10)];
    assert_eq!(bits_and_lengths(&packets), expected);
    assert_eq!(packets.iter().flatten().map(|chunk| chunk.tsn).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn all_fragments_of_a_message_have_one_stream_sequence_number_section_6_9() {
    let mut rig = Rig::standard();
    rig.send_bytes(10);
    rig.send_bytes(2 * FULL);
    rig.send_bytes(10);
    let ssns: Vec<_> = rig.packets().iter().flatten().map(|chunk| (chunk.ssn, chunk.bits.clone())).collect();
    let expected = [(0, "BE"), (1, "B"), (1, ""), (1, "E"), (2, "BE")];
    assert_eq!(ssns, expected.map(|(ssn, bits)| (ssn, bits.to_string())));
}

#[test]
fn a_message_that_fits_into_an_empty_packet_is_not_split() {
    let mut rig = Rig::standard();
    rig.send_bytes(100);
    rig.send_bytes(FULL);
    let packets = rig.packets();
    assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(packets[1][0].bits, "BE");
}

#[test]
fn a_fragment_leaves_room_for_a_bundled_sack_section_6_9() {
    let mut rig = Rig::standard();
    rig.send_bytes(3 * FULL);
    let packet = rig.packet_behind(16);
    assert_eq!(packet[0].len, FULL - 16);
}

#[test]
fn a_whole_message_waits_for_an_emptier_packet() {
    let mut rig = Rig::standard();
    rig.send_bytes(FULL);
    assert_eq!(rig.packet_behind(16), []);
    assert!(rig.can_send());
    assert_eq!(rig.packet().len(), 1);
}

#[test]
fn a_message_that_expired_in_the_queue_costs_no_tsn_section_11_1_5() {
    let mut rig = Rig::standard();
    let late = rig.send(Message::new("late").with_lifetime(ms(10)));
    rig.send_bytes(5);
    rig.wait(10);
    assert!(rig.can_send());
    assert_eq!(rig.tsns(), [[1]]);
    let abandoned = Event::MessagesAbandoned { first: late, last: late, reason: AbandonReason::Expired, sent: false };
    assert!(rig.events().contains(&abandoned));
    assert_eq!(rig.stats().sent.messages_abandoned, 1);
    rig.sack(1, &[]);
    assert_eq!(rig.delivered(), [1]);
}

#[test]
fn a_message_that_has_begun_is_sent_whole_after_its_lifetime_section_11_1_5() {
    let mut rig = Rig::standard();
    rig.send(Message::new(vec![1; 2 * FULL]).with_lifetime(ms(10)));
    assert_eq!(rig.packet().len(), 1);
    rig.wait(20);
    assert_eq!(rig.tsns(), [[2]]);
    rig.sack(2, &[]);
    assert_eq!(rig.delivered(), [0]);
}

#[test]
fn when_all_that_is_queued_has_expired_a_packet_stays_empty() {
    let mut rig = Rig::standard();
    rig.send(Message::new("late").with_lifetime(ms(10)));
    rig.wait(10);
    assert!(rig.can_send(), "a FORWARD-TSN for the expired message is due");
    assert_eq!(rig.packet(), []);
    assert!(!rig.can_send());
    assert!(rig.sender.flight.is_drained());
    let told: Vec<_> = rig.events();
    assert_eq!(told.last(), Some(&Event::Drained));
}

#[test]
fn messages_for_streams_that_the_handshake_refused_are_abandoned() {
    let mut rig = Rig::standard();
    let refused = rig.send(Message::new("x").on_stream(50));
    let kept = rig.send(Message::new("y").on_stream(3));
    rig.sender.establish(rig.now, &mut rig.path, WINDOW, 10, None, &mut rig.events);
    let reason = AbandonReason::StreamRefused;
    let abandoned = Event::MessagesAbandoned { first: refused, last: refused, reason, sent: false };
    assert_eq!(rig.events(), [abandoned]);
    assert_eq!(rig.tsns(), [[1]]);
    rig.sack(1, &[]);
    assert_eq!(rig.delivered(), [kept.0]);
    assert!(matches!(
        rig.try_send(Message::new("z").on_stream(10)),
        Err(SendError { kind: SendErrorKind::NoSuchStream { streams: 10 }, .. })
    ));
}

#[test]
fn a_full_buffer_refuses_and_tells_when_it_has_drained() {
    let mut config = config(Profile::Rfc9260.mechanisms());
    config.limits.send_buffer_bytes = 3 * 1_128;
    config.limits.send_low_water_bytes = 1_128;
    let mut rig = Rig::with(&config);
    (0..3).for_each(|_| {
        rig.send_bytes(1_000);
    });
    assert!(matches!(rig.try_send(Message::new("x")), Err(SendError { kind: SendErrorKind::BufferFull, .. })));
    assert_eq!(rig.packets().len(), 3);
    rig.sack(1, &[]);
    assert!(!rig.events().contains(&Event::Writable));
    rig.sack(1, &[(2, 2)]);
    assert!(!rig.events().contains(&Event::Writable), "a gap-acked chunk may come back");
    rig.sack(2, &[]);
    assert!(rig.events().contains(&Event::Writable));
    rig.sack(3, &[]);
    assert!(!rig.events().contains(&Event::Writable), "told once");
}

#[test]
fn the_way_of_a_message_is_told() {
    let mut rig = Rig::standard();
    let id = rig.send_bytes(FULL + 1);
    rig.packets();
    let sent_at = rig.now;
    rig.wait(50);
    rig.sack(2, &[]);
    let at = rig.now;
    let measured = Event::Protocol(ProtocolEvent::RoundTripMeasured {
        path: PathId::PRIMARY,
        at,
        rtt: ms(50),
        srtt: ms(50),
        rto: ms(1_000),
    });
    assert_eq!(
        rig.events(),
        [
            Event::Protocol(ProtocolEvent::MessageSent { id, at: sent_at }),
            Event::MessageDelivered { id, at },
            measured,
            Event::Drained
        ]
    );
}

#[test]
fn a_message_is_delivered_when_its_last_fragment_is_acknowledged_for_good() {
    let mut rig = Rig::standard();
    rig.send_bytes(2 * FULL);
    rig.send_bytes(FULL);
    rig.packets();
    rig.sack(0, &[(2, 3)]);
    assert_eq!(rig.delivered(), []);
    rig.sack(1, &[]);
    assert_eq!(rig.delivered(), []);
    rig.sack(3, &[]);
    assert_eq!(rig.delivered(), [0, 1]);
}

#[test]
fn drained_is_told_when_nothing_is_queued_or_outstanding_any_more() {
    let mut rig = Rig::standard();
    rig.flight(2, FULL);
    rig.sack(1, &[]);
    assert!(!rig.events().contains(&Event::Drained));
    rig.sack(2, &[]);
    assert!(rig.events().contains(&Event::Drained));
    rig.sack(2, &[]);
    assert!(!rig.events().contains(&Event::Drained), "told once");
}

#[test]
fn a_message_gives_up_its_slot_when_it_is_acknowledged_for_good_or_abandoned() {
    let mut rig = Rig::standard();
    rig.send_bytes(2 * FULL);
    rig.send_bytes(10);
    rig.packets();
    rig.send(Message::new("late").with_lifetime(ms(10)));
    rig.check_slots();
    assert_eq!(rig.sender.flight.buffer.slots_used(), 3);
    rig.wait(10);
    rig.sack(1, &[(2, 2)]);
    rig.check_slots();
    assert_eq!(rig.sender.flight.buffer.slots_used(), 2, "half of one, and one that the peer may still drop");
    rig.packets();
    rig.sack(3, &[]);
    rig.check_slots();
    assert_eq!(rig.sender.flight.buffer.slots_used(), 0);
    rig.sender.give_back_memory(&mut rig.path);
    assert_eq!(rig.sender.flight.buffer.slots_capacity(), 0);
}

#[test]
fn memory_stays_while_burst_follows_burst_and_goes_with_the_next_message_that_comes_alone() {
    let mut rig = Rig::standard();
    let mut acked = 0;
    let mut exchange = |rig: &mut Rig, messages: u32| {
        for _ in 0..messages {
            rig.send_bytes(10);
        }
        rig.packets();
        acked += messages;
        rig.sack(acked, &[]);
        assert!(rig.sender.flight.is_drained());
        (
            rig.sender.flight.buffer.slots_capacity(),
            rig.sender.flight.buffer.queue_capacity(),
            rig.sender.flight.ledger.capacity(),
        )
    };
    assert_eq!(exchange(&mut rig, 20), (32, 32, 32));
    assert_eq!(exchange(&mut rig, 20), (32, 32, 32));
    let (slots, queue, chunks) = exchange(&mut rig, 1);
    assert!(slots <= 4 && queue <= 4 && chunks <= 4, "{slots} slots, {queue} waiting, {chunks} chunks");
    let (slots, queue, chunks) = exchange(&mut rig, 100);
    assert!(slots <= 32 && queue <= 32 && chunks <= 32, "{slots} slots, {queue} waiting, {chunks} chunks");
}

proptest! {
    #[test]
    fn the_slots_in_use_are_those_of_messages_that_wait_or_are_outstanding(
        round_robin in any::<bool>(),
        steps in vec((0..6_u8, 0..5_000_u16), 0..200),
    ) {
        let scheduler = if round_robin { StreamScheduler::RoundRobin } else { StreamScheduler::FirstComeFirstServed };
        let mut rig = Rig::with(&Config { scheduler, ..config(Profile::Festina.mechanisms()) });
        let (mut settled, mut highest) = (0, 0);
        for (step, number) in steps {
            let message = Message::new(vec![7; 1 + usize::from(number)]).on_stream(number % 5);
            match step {
                0 => drop(rig.send(message)),
                1 => drop(rig.send(message.with_lifetime(ms(u64::from(number % 50))))),
                2 => {
                    let sent = rig.packets().iter().flatten().map(|chunk| chunk.tsn).max();
                    highest = highest.max(sent.unwrap_or_default());
                }
                3 => {
                    settled += u32::from(number) % (highest - settled + 1);
                    rig.sack(settled, &[]);
                }
                4 if highest > settled + 2 => drop(rig.sack(settled, &[(2, 2)])),
                4 | 5 if number < 4_900 => rig.wait(u64::from(number % 20)),
                _ => {
                    let config = config(Profile::Festina.mechanisms());
                    rig.restart(&config, Tsn(FIRST_TSN));
                    prop_assert_eq!(rig.sender.flight.buffer.slots_used(), 0);
                    rig.sender.establish(rig.now, &mut rig.path, WINDOW, 100, None, &mut rig.events);
                    (settled, highest) = (0, 0);
                }
            }
            rig.check_slots();
        }
    }
}

#[test]
fn the_end_of_the_association_abandons_every_message_once() {
    let mut rig = Rig::standard();
    rig.send_bytes(2 * FULL);
    rig.send_bytes(100_000);
    rig.send_bytes(10);
    rig.packets();
    rig.sack(1, &[]);
    rig.packets();
    rig.events();
    rig.check_slots();
    rig.end();
    rig.check_slots();
    let reasons: Vec<_> = rig.events().into_iter().collect();
    let abandoned = |first, last, reason, sent| Event::MessagesAbandoned {
        first: MessageId(first),
        last: MessageId(last),
        reason,
        sent,
    };
    let expected =
        [abandoned(0, 1, AbandonReason::UnacknowledgedAtEnd, true), abandoned(2, 2, AbandonReason::UnsentAtEnd, false)];
    assert_eq!(reasons, expected);
    assert_eq!(rig.deadline(), None);
    assert!(rig.sender.flight.is_drained() && !rig.can_send());
    assert_eq!(rig.stats().path.send_buffer_bytes, 0);
}

#[test]
fn the_end_of_a_buffer_full_of_tiny_messages_is_reported_in_two_events_even_if_streams_take_turns() {
    for scheduler in [StreamScheduler::FirstComeFirstServed, StreamScheduler::RoundRobin] {
        let mut rig = Rig::with(&Config { scheduler, ..config(Profile::Rfc9260.mechanisms()) });
        let mut messages = 0;
        while rig.try_send(Message::new("x").on_stream(messages % 10)).is_ok() {
            messages += 1;
        }
        assert!((30_000..40_000).contains(&messages), "{messages} messages of a byte in 4 MiB");
        rig.packets();
        rig.events();
        rig.end();
        assert!(rig.sender.flight.buffer.slots_used() == 0 && rig.sender.flight.buffer.slots_capacity() <= 32);
        let reported = rig.events();
        assert!(reported.len() <= 2, "{} events", reported.len());
        assert_eq!(rig.stats().sent.messages_abandoned, u64::from(messages));
        let counts = reported.iter().map(|event| match event {
            Event::MessagesAbandoned { first, last, .. } => last.0 + 1 - first.0,
            event => panic!("{event:?}"),
        });
        assert_eq!(counts.sum::<u64>(), u64::from(messages));
    }
}

#[test]
fn a_restart_of_the_peer_begins_with_new_tsns_and_stream_sequence_numbers_section_5_2_4() {
    let mut rig = Rig::standard();
    rig.flight(3, FULL);
    rig.sack(1, &[]);
    let config = config(Profile::Rfc9260.mechanisms());
    rig.restart(&config, Tsn(9_000));
    let (first, last) = (MessageId(1), MessageId(2));
    let reason = AbandonReason::UnacknowledgedAtEnd;
    let abandoned = Event::MessagesAbandoned { first, last, reason, sent: true };
    assert!(rig.events().contains(&abandoned));
    assert_eq!(rig.sender.flight.buffer.slots_used(), 0);
    rig.sender.establish(rig.now, &mut rig.path, WINDOW, 100, None, &mut rig.events);
    rig.send_bytes(10);
    let packets = rig.packets();
    assert_eq!((packets[0][0].tsn, packets[0][0].ssn), (9_000, 0));
    rig.sack(9_000, &[]);
    assert!(rig.sender.flight.is_drained());
}

#[test]
fn the_i_bit_is_set_on_the_last_fragment_when_the_application_asks_section_11_1_5() {
    let mut rig = Rig::standard();
    rig.send(Message::new(vec![1; FULL + 1]).with_immediate_ack());
    assert_eq!(bits_and_lengths(&rig.packets()), [("B".to_string(), FULL), ("IE".to_string(), 1)]);
}

#[test]
fn the_i_bit_is_set_on_the_last_chunk_before_shutdown_section_6_1() {
    let mut rig = Rig::standard();
    rig.send_bytes(10);
    rig.send_bytes(10);
    rig.sender.flight.closing();
    let bits: Vec<_> = rig.packets().into_iter().flatten().map(|chunk| chunk.bits).collect();
    assert_eq!(bits, ["BE", "IBE"]);
}

#[test]
fn streams_take_turns_under_round_robin_without_breaking_into_a_message() {
    let mut config = config(Profile::Rfc9260.mechanisms());
    config.scheduler = StreamScheduler::RoundRobin;
    let mut rig = Rig::with(&config);
    for (stream, len) in [(1, 2 * FULL), (1, 10), (2, 10), (2, 10), (3, 10)] {
        rig.send(Message::new(vec![1; len]).on_stream(stream));
    }
    let order: Vec<_> = rig.packets().iter().flatten().map(|chunk| (chunk.stream, chunk.ssn)).collect();
    assert_eq!(order, [(1, 0), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1)]);
}
