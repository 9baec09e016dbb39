//! The sender of E-FORWARD-TSN (docs/enhanced-forward-tsn.md).

use super::*;

/// The contents of an E-FORWARD-TSN: the cumulative TSN, the blocks, and stream, first SSN and further messages of each run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    cumulative: u32,
    blocks: Vec<(u16, u16)>,
    runs: Vec<(u16, u32, u16)>,
}

/// A sender whose peer passes over chunks that lie apart. Lifetimes count before retransmissions.
fn rig_in(framing: Framing, expiry: Expiry) -> Rig {
    let partial_reliability = PartialReliability { expiry, ..PartialReliability::default() };
    let mut rig = Rig::with(&Config { partial_reliability, ..config(Profile::Rfc9260.mechanisms()) }).measured(ms(100));
    rig.sender.flight.agree(framing, true, true);
    rig
}

fn rig() -> Rig {
    rig_in(Framing::Data, Expiry::BeforeRetransmission)
}

/// The next packet: its E-FORWARD-TSN and the TSNs of its DATA.
fn packet(rig: &mut Rig) -> (Option<Told>, Vec<u32>) {
    let Some(bytes) = rig.packet_bytes() else { return (None, Vec::new()) };
    let (mut told, mut tsns) = (None, Vec::new());
    for chunk in Packet::parse(&bytes).expect("the packet is sound").chunks() {
        match chunk.expect("the chunk is sound") {
            Chunk::EnhancedForwardTsn(forward) => {
                let run = |run: crate::wire::SkippedRun| {
                    assert!(!run.unordered || rig.sender.flight.framing == Framing::IData);
                    (run.stream.0, run.first, run.more)
                };
                told = Some(Told {
                    cumulative: forward.cumulative.0,
                    blocks: forward.blocks().collect(),
                    runs: forward.messages().map(run).collect(),
                });
            }
            Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_) => panic!("E-FORWARD-TSN takes their place"),
            Chunk::Data(data) => tsns.push(data.tsn.0),
            Chunk::IData(data) => tsns.push(data.tsn.0),
            other => panic!("{other:?}"),
        }
    }
    rig.check_slots();
    (told, tsns)
}

/// Eleven messages: 2 to 7 leave in one packet, which is lost, and 2, 4 and 6 have a short lifetime. Those of stream 1 are ordered.
fn lose_a_packet(rig: &mut Rig, ordered: bool) {
    for messages in [1..=1, 2..=7, 8..=8, 9..=9, 10..=10, 11..=11] {
        for number in messages {
            let message = Message { stream: StreamId(1), unordered: !ordered, ..message(100) };
            let is_short = [2, 4, 6].contains(&number);
            rig.send(if is_short { message.with_lifetime(ms(20)) } else { message });
        }
        assert!(packet(rig).0.is_none());
    }
    rig.wait(100);
    rig.sack(1, &[(7, 7)]);
    rig.sack(1, &[(7, 8)]);
    rig.sack(1, &[(7, 9)]);
}

#[test]
fn one_packet_tells_of_all_that_was_lost_of_abandoned_messages_and_repairs_the_rest() {
    for framing in [Framing::Data, Framing::IData] {
        for ordered in [false, true] {
            let mut rig = rig_in(framing, Expiry::BeforeRetransmission);
            lose_a_packet(&mut rig, ordered);
            let runs: Vec<_> = match (framing, ordered) {
                (Framing::Data, false) => vec![],
                _ => [1, 3, 5].map(|number| (1, number, 0)).to_vec(),
            };
            let told = Told { cumulative: 1, blocks: vec![(1, 1), (3, 3), (5, 5)], runs };
            assert_eq!(packet(&mut rig), (Some(told), vec![3, 5, 7]), "{framing:?} {ordered}");
            assert_eq!(packet(&mut rig).0, None, "nothing is named twice");
            rig.wait(100);
            rig.sack(11, &[]);
            assert!(rig.sender.flight.is_drained());
            assert_eq!(rig.stats().sent.forward_tsns, 1);
            assert_eq!(rig.deadline(), None);
        }
    }
}

#[test]
fn what_the_peer_reports_as_passed_leaves_the_send_buffer_before_the_cumulative_tsn_has_moved() {
    let mut rig = rig();
    lose_a_packet(&mut rig, false);
    packet(&mut rig);
    let slots = rig.sender.flight.buffer.slots_used();
    rig.wait(100);
    // 3 is lost again: 4 to 11 are reported.
    rig.sack(2, &[(2, 9)]);
    rig.check_slots();
    assert_eq!(slots - rig.sender.flight.buffer.slots_used(), 3, "2, 4 and 6");
    assert_eq!(packet(&mut rig).0, None, "nothing is left to tell");
    rig.sack(11, &[]);
    assert!(rig.sender.flight.is_drained());
    assert_eq!(rig.sender.flight.buffer.slots_used(), 0);
    assert_eq!(rig.stats().sent.messages_acked, 8);
}

#[test]
fn a_chunk_that_is_lost_is_told_again_after_a_round_trip_and_only_what_is_missing() {
    let mut rig = rig();
    lose_a_packet(&mut rig, true);
    packet(&mut rig);
    // Its packet is lost, but for a copy of what another SACK shows: 4 was passed over.
    rig.wait(50);
    rig.sack(1, &[(3, 3), (7, 10)]);
    assert_eq!(packet(&mut rig).0, None);
    rig.wait(60);
    rig.sack(1, &[(3, 3), (7, 10)]);
    let told = Told { cumulative: 1, blocks: vec![(1, 1), (5, 5)], runs: vec![(1, 1, 0), (1, 5, 0)] };
    assert_eq!(packet(&mut rig).0, Some(told));
}

#[test]
fn t3_runs_while_the_peer_has_not_passed_over_what_it_was_told_and_repeats_it() {
    let mut rig = rig();
    rig.send(message(100).with_max_retransmissions(0));
    packet(&mut rig);
    assert!(matches!(rig.expire().1, Some(TimerExpiry::Timeout { .. })));
    let told = || Some(Told { cumulative: 0, blocks: vec![(1, 1)], runs: vec![(0, 0, 0)] });
    assert_eq!(packet(&mut rig), (told(), vec![]));
    for _ in 0..3 {
        assert!(matches!(rig.expire().1, Some(TimerExpiry::Timeout { .. })));
        assert_eq!(packet(&mut rig), (told(), vec![]));
    }
    rig.sack(1, &[]);
    assert!(rig.sender.flight.is_drained());
    assert_eq!(rig.deadline(), None);
}

/// Lengths of the lists sent while the peer drops each: message runs of E-FORWARD-TSN, and streams of FORWARD-TSN.
fn lists_dropped(apart: bool) -> (Vec<usize>, Vec<usize>) {
    let partial_reliability = PartialReliability { expiry: Expiry::BeforeRetransmission, ..Default::default() };
    let mut rig = Rig::with(&Config { partial_reliability, ..config(Profile::Rfc9260.mechanisms()) }).measured(ms(100));
    rig.sender.flight.agree(Framing::Data, true, apart);
    for stream in 0..60 {
        rig.send(Message { stream: StreamId(stream), ..message(1) }.with_max_retransmissions(0));
    }
    while rig.packet_bytes().is_some() {}
    let (mut runs, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        assert!(matches!(rig.expire().1, Some(TimerExpiry::Timeout { .. })));
        let bytes = rig.packet_bytes().expect("the list is repeated");
        for chunk in Packet::parse(&bytes).expect("the packet is sound").chunks() {
            match chunk.expect("the chunk is sound") {
                Chunk::EnhancedForwardTsn(forward) => runs.push(forward.messages().count()),
                Chunk::ForwardTsn(forward) => streams.push(forward.streams().count()),
                other => panic!("{other:?}"),
            }
        }
        assert!(!rig.can_send(), "one chunk for each expiry");
    }
    rig.sack(60, &[]);
    assert!(rig.sender.flight.is_drained());
    (runs, streams)
}

#[test]
fn a_list_that_the_peer_drops_each_time_becomes_shorter_and_at_last_a_plain_one() {
    let (runs, streams) = lists_dropped(true);
    assert_eq!(runs, [60, 60, 16, 4, 1], "at most 256, 64, 16, 4 and 1");
    assert_eq!(streams, [1, 1, 1]);
    let (runs, streams) = lists_dropped(false);
    assert!(runs.is_empty() && streams[..2] == [60, 60] && streams[5..] == [1, 1, 1], "{streams:?}");
    assert!(streams.is_sorted_by(|one, next| one >= next), "{streams:?}");
}

#[test]
fn a_message_abandoned_while_lists_are_shortened_is_named_once() {
    let mut rig = rig();
    rig.send(message(100).with_max_retransmissions(0));
    packet(&mut rig);
    (0..5).for_each(|_| {
        rig.expire();
        assert!(rig.packet_bytes().is_some());
    });
    rig.expire();
    assert!(rig.packet_with_forward().0.is_some(), "FORWARD-TSN by now");
    rig.send(message(100));
    rig.send(message(100).with_max_retransmissions(0));
    rig.packet_bytes();
    rig.wait(100);
    rig.sack(0, &[(2, 2)]);
    (4..7).for_each(|last| {
        rig.send_bytes(100);
        rig.packet_bytes();
        rig.sack(0, &[(2, 2), (4, last)]);
    });
    // A full packet of data has no room for a list.
    rig.send_bytes(FULL);
    let packets = std::iter::from_fn(|| rig.can_send().then(|| rig.packet_bytes())).take(10).count();
    assert!(packets <= 4, "the same list is sent again and again");
}

#[test]
fn what_may_still_arrive_is_told_of_only_at_the_front() {
    let mut rig = rig_in(Framing::Data, Expiry::AtOnce);
    rig.send(message(100));
    packet(&mut rig);
    rig.send(expiring(100, 30));
    packet(&mut rig);
    rig.expire();
    assert_eq!(abandoned(&mut rig).len(), 1);
    rig.send(message(100));
    assert_eq!(packet(&mut rig), (None, vec![3]), "its loss is yet to be seen, and cuts the window");
    rig.wait(70);
    rig.sack(1, &[(2, 2)]);
    rig.send(message(100));
    let told = Told { cumulative: 1, blocks: vec![(1, 1)], runs: vec![(0, 1, 0)] };
    assert_eq!(packet(&mut rig), (Some(told), vec![4]));
}

#[test]
fn a_loss_cuts_the_window_though_the_peer_passes_over_it() {
    let mut rig = rig_in(Framing::Data, Expiry::AtOnce);
    rig.send(expiring(FULL, 30));
    (0..3).for_each(|_| {
        rig.send_bytes(FULL);
    });
    while rig.can_send() {
        packet(&mut rig);
    }
    rig.expire();
    rig.wait(30);
    let ssthresh = rig.stats().path.ssthresh_bytes;
    (2..=4).for_each(|end| {
        rig.sack(0, &[(2, end)]);
    });
    assert!(rig.stats().path.ssthresh_bytes < ssthresh);
}

#[test]
fn messages_are_named_in_runs_and_told_as_a_whole() {
    let mut rig = rig();
    rig.send_bytes(100);
    packet(&mut rig);
    for stream in [3, 3, 4, 3] {
        let message = Message { stream: StreamId(stream), ..message(100) };
        rig.send(message.with_max_retransmissions(0));
    }
    rig.send(Message { stream: StreamId(4), ..message(1_500) }.with_max_retransmissions(0));
    while !packet(&mut rig).1.is_empty() {}
    rig.wait(100);
    // The first fragment of the last message has arrived; the rest shows the loss.
    for last in [8, 9, 10] {
        rig.send_bytes(100);
        packet(&mut rig);
        rig.sack(0, &[(6, 6), (8, last)]);
    }
    let told = Told { cumulative: 0, blocks: vec![(2, 7)], runs: vec![(3, 0, 2), (4, 0, 1)] };
    let (first, data) = packet(&mut rig);
    assert_eq!((first, data), (Some(told), vec![1]));
}

#[test]
fn a_peer_that_takes_back_what_it_passed_over_breaks_the_protocol_once_nothing_else_is_outstanding() {
    let mut rig = rig();
    lose_a_packet(&mut rig, false);
    packet(&mut rig);
    rig.sack(1, &[(3, 3), (7, 10)]);
    rig.sack(1, &[(7, 10)]);
    assert_eq!(packet(&mut rig).0, None, "it stays settled, for it may just have come late");
    rig.sack(3, &[(5, 8)]);
    rig.sack(3, &[(2, 8)]);
    assert!(rig.try_sack(3, WINDOW, &[(2, 8)], &[]).is_err());
}

#[test]
fn without_the_peers_consent_the_plain_chunk_leaves() {
    let mut rig = rig();
    rig.sender.flight.agree(Framing::Data, true, false);
    rig.send(expiring(100, 10).with_max_retransmissions(0));
    rig.packet_with_forward();
    rig.expire();
    assert_eq!(wait_for_packet(&mut rig), (forward(1, &[(0, 0)]), vec![]));
}

#[test]
fn what_finds_no_room_is_told_in_the_next_packet() {
    let mut rig = rig();
    // Messages of one byte, every second one reliable: each of the others is a block and a run of its own.
    let count = 400_u32;
    (0..count).for_each(|number| {
        let message = Message { stream: StreamId(u16::try_from(number % 90).expect("small")), ..message(1) };
        rig.send(if number % 2 == 0 { message.with_max_retransmissions(0) } else { message });
    });
    for _ in 0..40 {
        while !packet(&mut rig).1.is_empty() {}
        if rig.sender.flight.ledger.len() == 400 {
            break;
        }
        // The peer closes no window, and all that it reports lies above the first chunk.
        rig.wait(1);
        rig.handle_timeout();
        rig.path.limits.burst.restart();
        rig.path.limits.congestion = crate::congestion::Congestion::new(CongestionControl::Rfc9260, 60_000, 60_000);
    }
    assert_eq!(rig.sender.flight.ledger.len(), 400);
    rig.expire();
    let mut told = Vec::new();
    for _ in 0..100 {
        let (chunk, data) = packet(&mut rig);
        told.extend(chunk);
        if data.is_empty() && !rig.can_send() {
            break;
        }
    }
    assert!(told.len() > 1 && told.iter().all(|told| told.cumulative == 0), "{told:?}");
    let mut blocks: Vec<_> = told.iter().flat_map(|told| told.blocks.iter().copied()).collect();
    blocks.dedup();
    let expected: Vec<_> = (0..200).map(|number| (1 + 2 * number, 1 + 2 * number)).take(blocks.len()).collect();
    assert!(blocks.len() > 80 && blocks == expected, "each is named once, in order: {blocks:?}");
}
