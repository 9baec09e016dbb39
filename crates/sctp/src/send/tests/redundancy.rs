//! Copies in packets that leave anyway, on light streams of Festina.

use festina_recovery::redundancy::{Budget, Redundancy, Spaced};

use super::*;
use crate::wire::Framing;

const INTERVAL_MS: u64 = 20;

/// A light stream over a steady path of 100 ms, with piggybacked copies even without loss.
fn light() -> Rig {
    let mechanisms = Mechanisms { redundancy: Redundancy::BUNDLED, ..Profile::Festina.mechanisms() };
    Rig::with(&config(mechanisms)).measured(ms(100))
}

/// One message every 20 ms; the TSNs of each packet.
fn stream(rig: &mut Rig, messages: usize, len: usize) -> Vec<Vec<u32>> {
    let mut packets = Vec::new();
    for _ in 0..messages {
        packets.extend(rig.flight(1, len));
        rig.wait(INTERVAL_MS);
    }
    packets
}

#[test]
fn three_packets_that_follow_take_a_chunk_along() {
    let mut rig = light();
    let packets = stream(&mut rig, 5, 100);
    assert_eq!(packets, [vec![1], vec![1, 2], vec![1, 2, 3], vec![1, 2, 3, 4], vec![2, 3, 4, 5]]);
    let stats = rig.stats();
    assert_eq!((stats.sent.chunks, stats.sent.retransmitted.bundled, stats.sent.retransmitted.total()), (5, 9, 9));
    assert!(stats.path.thin);
    assert_eq!(stats.path.in_flight_bytes, 5 * 116, "copies are not counted");
}

#[test]
fn what_was_acknowledged_is_not_copied_and_what_stays_unacknowledged_after_its_copies_is_probed() {
    let mut rig = light();
    stream(&mut rig, 4, 100);
    rig.wait(20);
    rig.sack(2, &[(2, 2)]);
    rig.events();
    assert_eq!(rig.flight(1, 100), [[3, 5]]);
    let waited = rig.expire().0;
    assert_eq!(waited, ms(105), "one round trip after its last copy");
    assert_eq!(rig.tsns(), [[3, 5]]);
    assert_eq!(rig.stats().sent.retransmitted.probe, 2);
}

#[test]
fn copies_keep_apart() {
    let mut rig = light();
    rig.flight(1, 100);
    rig.wait(2);
    assert_eq!(rig.flight(1, 100), [[2]], "a copy now would be lost together with the first");
    rig.wait(2);
    assert_eq!(rig.flight(1, 100), [[1, 3]]);
}

#[test]
fn new_data_has_the_room_first() {
    let mut rig = light();
    rig.flight(1, 700);
    rig.wait(20);
    assert_eq!(rig.flight(1, 700), [[2]]);
    rig.wait(20);
    assert_eq!(rig.flight(1, 200), [[1, 3]], "one chunk fits next to the new one");
}

#[test]
fn with_redundancy_off_nothing_is_copied() {
    let mut rig = Rig::probing().measured(ms(100));
    assert_eq!(stream(&mut rig, 3, 100), [[1], [2], [3]]);
}

#[test]
fn a_stream_with_much_data_gets_no_copies_and_the_standard() {
    let mut rig = light();
    let packets = stream(&mut rig, 9, 1_000);
    assert_eq!(packets.last(), Some(&vec![5]), "the window is full");
    assert!(!rig.stats().path.thin);
    rig.sack(5, &[]);
    assert!(rig.tsns().iter().all(|packet| packet.len() == 1));
    assert_eq!(rig.stats().sent.retransmitted.bundled, 0);
}

/// A light stream whose round trip grew from 100 to 140 ms.
fn behind_a_queue() -> Rig {
    let mut rig = light();
    stream(&mut rig, 2, 100);
    rig.sack(2, &[]);
    // One packet in eight shows it.
    for cumulative in 3..400 {
        rig.flight(1, 100);
        rig.wait(140);
        rig.sack(cumulative, &[]);
    }
    rig
}

#[test]
fn a_queue_on_the_path_stops_the_copies() {
    let mut rig = behind_a_queue();
    rig.events();
    assert!(rig.stats().path.srtt > Some(ms(130)));
    assert_eq!(stream(&mut rig, 3, 100), [[400], [401], [402]]);
}

#[test]
fn jitter_is_no_queue() {
    let mut rig = light();
    for cumulative in 1..30 {
        rig.flight(1, 100);
        rig.wait(if cumulative % 2 == 0 { 100 } else { 150 });
        rig.sack(cumulative, &[]);
    }
    rig.events();
    assert!(rig.stats().path.srtt > Some(ms(115)), "higher than it ever was, by more than an eighth");
    assert_eq!(stream(&mut rig, 3, 100), [vec![30], vec![30, 31], vec![30, 31, 32]]);
}

#[test]
fn what_the_path_said_against_copies_still_holds_when_the_mechanisms_change() {
    let mut rig = behind_a_queue();
    let mut mechanisms = Mechanisms { redundancy: Redundancy::BUNDLED, ..Profile::Festina.mechanisms() };
    mechanisms.thin.rto_min = ms(300);
    rig.sender.set_mechanisms(rig.now, &mut rig.path, &mechanisms);
    assert_eq!(stream(&mut rig, 3, 100), [[400], [401], [402]]);
}

#[test]
fn the_round_trip_is_measured_although_every_chunk_is_copied() {
    let mut rig = light();
    stream(&mut rig, 6, 100);
    rig.wait(20);
    assert_eq!(rig.now, Instant::from_secs(100) + ms(140));
    rig.sack(1, &[]);
    let srtt = rig.stats().path.srtt;
    assert_eq!(srtt, Some(ms(105)), "the SACK that answers the first packet alone: a sample of 140 ms");
}

#[test]
fn a_sack_that_acknowledges_newer_data_too_measures_nothing() {
    let mut rig = light();
    stream(&mut rig, 6, 100);
    rig.wait(20);
    rig.sack(2, &[]);
    assert_eq!(rig.stats().path.srtt, Some(ms(100)), "the second packet held a copy of the first chunk");
}

#[test]
fn in_silence_every_packet_takes_along_what_has_waited_for_its_turn() {
    let mut rig = light();
    assert_eq!(stream(&mut rig, 4, 300).last(), Some(&vec![1, 2, 4]));
    rig.expire();
    assert_eq!(rig.tsns(), [[3]], "the probe contains the overdue chunk");
    rig.wait(30);
    assert_eq!(rig.flight(1, 300), [[1, 2, 5]], "then all others have their turn, as far as they fit");
    rig.wait(10);
    assert_eq!(rig.flight(1, 300), [[3, 4, 6]]);
}

#[test]
fn whatever_rides_along_leaves_room_for_the_new_data_in_either_chunk() {
    for framing in [Framing::Data, Framing::IData] {
        for len in 1..=150 {
            let mut rig = light();
            rig.sender.flight.agree(framing, false, false);
            rig.path.limits.sizes.set_framing(framing);
            stream(&mut rig, 4, len);
            rig.flight(3_000 / (24 + len), len);
            rig.expire();
            rig.tsns();
            for wait_ms in [30, 10, 10] {
                rig.wait(wait_ms);
                let id = rig.send_bytes(len);
                rig.events();
                let packet = rig.packet();
                let left = rig.events().into_iter().any(
                    |event| matches!(event, Event::Protocol(ProtocolEvent::MessageSent { id: sent, .. }) if sent == id),
                );
                assert!(left, "{framing:?}, {len} bytes: {packet:?}");
            }
        }
    }
}

#[test]
fn what_is_sent_again_takes_no_copies_along_for_new_data_that_the_window_has_no_room_for_behind_it() {
    let mut rig = light();
    rig.flight(1, 100);
    rig.wait(98);
    rig.flight(2, 700);
    rig.wait(2);
    rig.sack(1, &[]);
    assert_eq!(rig.flight(1, 100), [[4]]);
    rig.wait(98);
    rig.send_bytes(100);
    rig.sack_full(1, 300, &[(2, 2)], &[]);
    assert_eq!(rig.tsns(), [[2]]);
    rig.wait(100);
    rig.sack(4, &[]);
    let srtt = rig.stats().path.srtt;
    assert!(srtt < Some(ms(101)), "{srtt:?}: a copy of chunk 4 was timed as if chunk 5 had been in its packet");
}

#[test]
fn a_chunk_acknowledged_and_reported_as_duplicate_at_once_had_lost_its_first_copy_and_measures_nothing() {
    let mut rig = Rig::probing().measured(ms(100));
    rig.flight(1, 100);
    rig.expire();
    assert_eq!(rig.tsns(), [[1]]);
    rig.wait(100);
    rig.sack_full(1, WINDOW, &[], &[1]);
    rig.sack_full(1, WINDOW, &[], &[1]);
    assert_eq!(rig.stats().path.srtt, Some(ms(100)));
}

#[test]
fn new_data_and_copies_together_keep_to_three_times_what_a_light_stream_may_send() {
    let mut rig = light();
    let mut sent_bytes = Vec::new();
    for nth in 0..100 {
        if let Some(cumulative) = u32::checked_sub(nth, 19) {
            rig.sack(cumulative, &[]);
        }
        rig.send_bytes(200);
        sent_bytes.push(rig.packets().iter().flatten().map(|chunk| 16 + chunk.len).sum::<usize>());
        rig.wait(5);
    }
    let per_round_trip: Vec<usize> = sent_bytes.windows(20).map(|window| window.iter().sum()).collect();
    // The meter counts in whole round trips: one message of 200 bytes with three copies is as exact as it gets.
    let most = per_round_trip.iter().copied().max();
    assert!(most > Some(12_000) && most < Some(13_032 + 4 * 216), "{most:?}: without the limit it would be 17,280");
}

fn spaced() -> Rig {
    let mechanisms = Mechanisms { redundancy: Redundancy::SPACED, ..Profile::Festina.mechanisms() };
    Rig::with(&config(mechanisms)).measured(ms(100))
}

#[test]
fn a_spaced_copy_leaves_a_tenth_of_a_round_trip_later_in_a_packet_of_its_own() {
    let mut rig = spaced();
    assert_eq!(rig.flight(2, 100), [[1, 2]]);
    let (waited, expiry) = rig.expire();
    assert!(waited >= ms(8) && waited <= ms(10), "{waited:?}");
    assert_eq!((expiry, rig.tsns()), (None, vec![vec![1, 2]]));
    assert_eq!(rig.stats().sent.retransmitted.copies, 2);
    assert_eq!(rig.causes(), [(1, RetransmissionCause::Copy), (2, RetransmissionCause::Copy)]);
    assert_eq!(rig.expire(), (ms(105), Some(TimerExpiry::Probe)), "counted from the copy");
}

#[test]
fn a_spaced_copy_does_not_leave_if_its_chunk_was_acknowledged_or_left_in_another_packet() {
    let mut rig = spaced();
    rig.flight(1, 100);
    rig.wait(1);
    rig.sack(1, &[]);
    rig.expire();
    assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new());
    let mut rig = spaced();
    rig.flight(1, 100);
    rig.wait(6);
    assert_eq!(rig.flight(1, 100), [[1, 2]]);
    rig.expire();
    rig.expire();
    assert_eq!(rig.tsns(), [[2]], "chunk 1 had its copy");
}

#[test]
fn a_due_copy_that_could_not_leave_is_given_up_when_a_gap_report_shows_that_its_chunk_arrived() {
    let mut rig = spaced();
    rig.flight(1, FULL);
    rig.flight(1, 100);
    rig.expire();
    assert_eq!(rig.packet().len(), 1, "the copy of chunk 1");
    assert!(rig.can_send(), "the copy of chunk 2");
    rig.sack(0, &[(2, 2)]);
    assert!(!rig.can_send());
    rig.expire();
    assert_eq!(rig.tsns(), [[1]], "cwnd and probes are not in its way");
}

#[test]
fn copies_of_several_packets_that_are_due_at_once_leave_one_after_the_other() {
    let mut rig = spaced();
    assert_eq!(rig.flight(2, 1_000), [[1], [2]]);
    rig.expire();
    assert!(rig.deadline() > Some(rig.now), "even if nothing can leave at the moment");
    assert_eq!(rig.tsns(), [[1], [2]]);
    assert!(rig.deadline() > Some(rig.now));
}

#[test]
fn of_a_packet_only_the_chunks_that_have_not_left_again_since_are_copied() {
    let mut rig = spaced();
    rig.send_bytes(100);
    assert_eq!(rig.flight(1, 900), [[1, 2]]);
    rig.wait(6);
    assert_eq!(rig.flight(1, 300), [[1, 3]]);
    rig.expire();
    assert_eq!(rig.tsns(), [[2]]);
}

#[test]
fn where_most_originals_are_lost_spaced_copies_end_and_where_they_arrive_too_they_do_not() {
    for original_arrives in [true, false] {
        let mut rig = spaced();
        for tsn in 1..=20 {
            rig.flight(1, 100);
            rig.expire();
            rig.packets();
            rig.wait(100);
            let duplicates = if original_arrives { &[tsn][..] } else { &[] };
            rig.sack_full(tsn, WINDOW, &[], duplicates);
            rig.wait(200);
        }
        let copies = rig.stats().sent.retransmitted.copies;
        assert!(if original_arrives { copies == 20 } else { copies < 15 }, "{copies}");
    }
}

#[test]
fn a_copy_that_was_not_needed_is_not_taken_off_the_budget() {
    let redundancy = Redundancy::Always(Budget {
        copies: Some(Spaced { spacing: Some(ms(12)), copies_per_thousand_messages: 500 }),
        ..Budget::PIGGYBACK
    });
    let mechanisms = Mechanisms { redundancy, ..Profile::Festina.mechanisms() };
    let mut rig = Rig::with(&config(mechanisms)).measured(ms(10));
    for tsn in 1..=2 {
        rig.flight(1, 100);
        rig.wait(10);
        rig.sack(tsn, &[]);
        rig.wait(2);
        rig.handle_timeout();
        assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new());
    }
    rig.flight(1, 100);
    assert_eq!(rig.expire(), (ms(12), None));
    assert_eq!(rig.tsns(), [[3]], "what the second message did not need");
}

#[test]
fn a_stream_that_is_not_thin_gets_no_spaced_copies() {
    let mut rig = spaced();
    let cumulative = rig.grow(10);
    assert!(!rig.stats().path.thin);
    let copies_after = |rig: &mut Rig| {
        rig.wait(30);
        rig.handle_timeout();
        rig.packets();
        rig.stats().sent.retransmitted.copies
    };
    let while_thin = copies_after(&mut rig);
    for more in 1..=5 {
        rig.sack(cumulative + more, &[]);
        rig.packets();
        assert_eq!(copies_after(&mut rig), while_thin);
    }
}

#[test]
fn spaced_copies_do_not_put_off_the_measuring_of_round_trips() {
    let mut rig = spaced();
    rig.flight(1, 100);
    rig.expire();
    rig.packets();
    rig.now = Instant::from_secs(100) + ms(140);
    rig.handle_timeout();
    rig.sack(1, &[]);
    assert_eq!(rig.stats().path.srtt, Some(ms(100)), "either packet may have been answered");
    rig.wait(10);
    rig.sack_full(1, WINDOW, &[], &[1]);
    assert_eq!(rig.stats().path.srtt, Some(ms(105)), "both arrived, so the first was answered first, after 140 ms");
}

#[test]
fn a_queue_on_the_path_stops_the_spaced_copies_sooner_than_those_that_cost_no_packet() {
    let copies_at = |rtt_ms: u64| {
        let mut rig = spaced();
        for tsn in 1..40 {
            rig.flight(1, 100);
            let sent_at = rig.now;
            rig.wait(30);
            rig.handle_timeout();
            rig.packets();
            rig.now = sent_at + ms(rtt_ms);
            rig.sack(tsn, &[]);
        }
        let before = rig.stats().sent.retransmitted.copies;
        rig.flight(1, 100);
        rig.wait(30);
        rig.handle_timeout();
        rig.packets();
        rig.stats().sent.retransmitted.copies - before
    };
    assert_eq!((copies_at(100), copies_at(120)), (1, 0));
}

#[test]
fn a_round_trip_that_has_tripled_is_measured_by_the_reports_of_duplicates() {
    let mut rig = Rig::probing().measured(ms(50));
    rig.flight(1, 100);
    let sent_at = rig.now;
    for _ in 0..2 {
        rig.expire();
        assert_eq!(rig.tsns(), [[1]], "a probe");
    }
    rig.now = sent_at + ms(150);
    rig.sack(1, &[]);
    for _ in 0..2 {
        assert_eq!(rig.stats().path.srtt, Some(ms(50)), "any of the three may have been acknowledged");
        rig.wait(55);
        rig.sack_full(1, WINDOW, &[], &[1]);
    }
    assert_eq!(rig.stats().path.srtt, Some(Duration::from_micros(62_500)), "an eighth of the way from 50 to 150 ms");
}

#[test]
fn a_loss_that_only_a_probe_or_a_copy_repaired_cuts_the_window_once_as_any_other_does() {
    let cuts = |first_copy_arrived: bool| {
        let mut rig = Rig::probing().measured(ms(100));
        rig.path.limits.congestion.undo(20 * CHUNKS_BYTES, usize::MAX);
        let cwnd = |rig: &mut Rig| rig.stats().path.cwnd_bytes / CHUNKS_BYTES as u64;
        rig.flight(1, 100);
        rig.expire();
        assert_eq!(rig.tsns(), [[1]]);
        rig.flight(1, 100);
        assert_eq!(cwnd(&mut rig), 20, "the loss is not detected yet");
        rig.wait(100);
        let duplicates = if first_copy_arrived { &[1][..] } else { &[] };
        rig.sack_full(1, WINDOW, &[], duplicates);
        let after_one = cwnd(&mut rig);
        rig.expire();
        assert_eq!(rig.tsns(), [[2]]);
        rig.wait(100);
        rig.sack(2, &[]);
        (after_one, cwnd(&mut rig))
    };
    assert_eq!(cuts(true), (20, 10), "the second chunk's first copy was lost");
    assert_eq!(cuts(false), (10, 10), "both were in the same window");
}
