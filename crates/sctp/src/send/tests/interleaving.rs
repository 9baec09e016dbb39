//! Message interleaving in the sender (RFC 8260).

use super::*;
use crate::config::StreamScheduler;
use crate::wire::{Framing, StreamId};

/// Payload of an I-DATA chunk that fills a packet.
const FULL_I_DATA: usize = FULL - 4;

fn interleaving(scheduler: StreamScheduler) -> Rig {
    let mut rig = Rig::with(&Config { scheduler, ..config(Profile::Rfc9260.mechanisms()) }).measured(ms(100));
    rig.sender.flight.agree(Framing::IData, true, false);
    rig.sender.establish(rig.now, &mut rig.path, WINDOW, 100, None, &mut rig.events);
    rig
}

#[test]
fn rfc8260_2_1_fragments_are_numbered_and_ordered_and_unordered_messages_count_apart() {
    let mut rig = interleaving(StreamScheduler::FirstComeFirstServed);
    rig.send(Message::new(vec![7; FULL_I_DATA + 10]).with_ppid(51));
    rig.send(Message::new("x").unordered());
    rig.send(Message::new("y").unordered());
    rig.send(Message::new("z"));
    let sent: Vec<_> = rig.packets().concat();
    let told: Vec<_> = sent.iter().map(|chunk| (chunk.ssn, chunk.ppid, chunk.bits.as_str(), chunk.len)).collect();
    assert_eq!(told, [(0, 51, "B", FULL_I_DATA), (0, 1, "E", 10), (0, 0, "UBE", 1), (1, 0, "UBE", 1), (1, 0, "BE", 1)]);
}

#[test]
fn a_small_urgent_message_does_not_wait_for_a_large_one() {
    for (scheduler, waits) in [
        (StreamScheduler::FirstComeFirstServed, true),
        (StreamScheduler::RoundRobin, false),
        (StreamScheduler::RoundRobinPerPacket, false),
        (StreamScheduler::Priority, false),
        (StreamScheduler::FairCapacity, false),
        (StreamScheduler::WeightedFairQueueing, false),
    ] {
        let mut rig = interleaving(scheduler);
        rig.sender.flight.set_stream_value(StreamId(1), 8);
        rig.send(Message::new(vec![7; 60 * FULL_I_DATA]).on_stream(1));
        let first = rig.packets().concat();
        rig.send(Message::new("now").on_stream(2));
        rig.sack(u32::try_from(first.len()).expect("few"), &[]);
        let next = rig.packets();
        let leaves = |packet: &[Sent]| packet.iter().any(|chunk| chunk.stream == 2);
        assert_eq!(!next.iter().take(2).any(|packet| leaves(packet)), waits, "{scheduler:?}");
    }
}

#[test]
fn rfc8260_2_3_1_abandoned_messages_are_named_by_their_mid_unordered_ones_too() {
    let mut rig = interleaving(StreamScheduler::RoundRobin);
    for message in [Message::new("a"), Message::new("b").unordered(), Message::new("c").on_stream(3)] {
        rig.send(message.with_lifetime(ms(30)));
    }
    rig.packets();
    rig.expire();
    rig.wait(100);
    rig.handle_timeout();
    let (told, _) = rig.packet_with_forward();
    assert_eq!(told, Some(Forwarded { cumulative: 3, streams: vec![(0, 0), (0, 1_000), (3, 0)] }));
}

#[test]
fn a_message_whose_fragments_alternate_with_others_is_abandoned_as_a_whole() {
    let mut rig = interleaving(StreamScheduler::RoundRobin);
    rig.send(Message::new(vec![7; 60 * FULL_I_DATA]).on_stream(1).with_lifetime(ms(30)));
    rig.send(Message::new(vec![7; 60 * FULL_I_DATA]).on_stream(2));
    let sent = rig.packets().concat();
    assert!(sent.iter().map(|chunk| chunk.stream).collect::<Vec<_>>().starts_with(&[1, 2, 1]), "{sent:?}");
    rig.expire();
    assert_eq!(rig.stats().path.send_buffer_bytes, 60 * FULL_I_DATA as u64);
    rig.check_slots();
    let last = u32::try_from(sent.len()).expect("few");
    rig.sack(last, &[]);
    rig.wait(200);
    rig.handle_timeout();
    let (told, _) = rig.packet_with_forward();
    assert_eq!(
        told,
        Some(Forwarded { cumulative: last + 1, streams: vec![(1, 0)] }),
        "with its end, which never leaves"
    );
    rig.check_slots();
}

#[test]
fn what_left_as_data_counts_as_i_data_once_the_handshake_has_come_to_that() {
    let mut rig = Rig::standard();
    rig.sender.flight.agree(Framing::Data, true, false);
    rig.flight(3, 5);
    assert_eq!(rig.stats().path.in_flight_bytes, 3 * 24);
    rig.sender.flight.agree(Framing::IData, true, false);
    assert_eq!(rig.stats().path.in_flight_bytes, 3 * 28);
    rig.sack(3, &[]);
    assert_eq!(rig.stats().path.in_flight_bytes, 0);
}
