//! Partial reliability (RFC 3758 §3.5, RFC 7496 §3).

mod apart;
mod round_trips;

use super::*;
use crate::config::{Expiry, PartialReliability};
use crate::wire::{Framing, StreamId};

use crate::stats::{Abandoned, AbandonedStats};

/// A sender whose peer supports FORWARD-TSN, with a round trip of 100 ms. Lifetimes count wherever messages are.
fn forwarding(profile: Profile) -> Rig {
    forwarding_by(profile.mechanisms())
}

/// The same with other mechanisms than those of a profile.
fn forwarding_by(mechanisms: Mechanisms) -> Rig {
    let partial_reliability = PartialReliability { expiry: Expiry::AtOnce, ..PartialReliability::default() };
    let mut rig = Rig::with(&Config { partial_reliability, ..config(mechanisms) }).measured(ms(100));
    rig.sender.flight.agree(Framing::Data, true, false);
    rig
}

fn rig() -> Rig {
    forwarding(Profile::Rfc9260)
}

fn message(len: usize) -> Message {
    Message::new(vec![7; len])
}

fn expiring(len: usize, millis: u64) -> Message {
    message(len).with_lifetime(ms(millis))
}

/// Abandoned messages: first and last message, reason, and whether part of them was sent.
fn abandoned(rig: &mut Rig) -> Vec<(u64, u64, AbandonReason, bool)> {
    let told = |event| match event {
        Event::MessagesAbandoned { first, last, reason, sent } => Some((first.0, last.0, reason, sent)),
        _ => None,
    };
    rig.events().into_iter().filter_map(told).collect()
}

fn forward(cumulative: u32, streams: &[(u16, u16)]) -> Option<Forwarded> {
    Some(Forwarded { cumulative, streams: streams.to_vec() })
}

/// Lets time pass up to the next deadline, again and again, until something may leave.
fn wait_for_packet(rig: &mut Rig) -> (Option<Forwarded>, Vec<Sent>) {
    for _ in 0..10 {
        while rig.can_send() {
            let packet = rig.packet_with_forward();
            if packet != (None, vec![]) {
                return packet;
            }
        }
        rig.expire();
    }
    panic!("nothing leaves: {:?}", rig.sender);
}

#[test]
fn rfc3758_4_1_a_message_on_its_way_is_abandoned_at_its_deadline_and_leaves_the_flight() {
    let mut rig = rig();
    rig.send(expiring(100, 30));
    rig.packet_with_forward();
    assert!(rig.stats().path.in_flight_bytes > 0);
    assert_eq!(rig.expire().0, ms(30), "the timer is exact");
    assert_eq!(abandoned(&mut rig), [(0, 0, AbandonReason::Expired, true)]);
    assert_eq!((rig.stats().path.in_flight_bytes, rig.stats().path.send_buffer_bytes), (0, 0));
    assert!(!rig.can_send(), "its acknowledgement may yet come");
    let left_at = rig.now;
    assert_eq!(wait_for_packet(&mut rig), (forward(1, &[(0, 0)]), vec![]));
    assert!(rig.now - left_at <= ms(200), "RFC 3758 §3.5 F3");
    rig.sack(1, &[]);
    assert!(rig.sender.flight.is_drained());
    assert_eq!(rig.deadline(), None);
    assert_eq!(rig.stats().sent.messages_acked, 0);
}

#[test]
fn on_a_path_that_takes_no_time_forward_tsn_is_not_repeated_at_the_same_instant() {
    let partial_reliability = PartialReliability { expiry: Expiry::AtOnce, ..PartialReliability::default() };
    let config = Config { partial_reliability, ..config(Profile::Rfc9260.mechanisms()) };
    let mut rig = Rig::with(&config).measured(Duration::ZERO);
    rig.sender.flight.agree(Framing::Data, true, false);
    rig.send(expiring(100, 30));
    rig.packet_with_forward();
    rig.expire();
    assert_eq!(wait_for_packet(&mut rig), (forward(1, &[(0, 0)]), vec![]));
    assert_eq!(rig.packet_with_forward(), (None, vec![]));
}

#[test]
fn an_acknowledgement_of_what_was_abandoned_on_its_way_makes_forward_tsn_needless() {
    let mut rig = rig();
    rig.send(expiring(100, 30));
    rig.packet_with_forward();
    rig.expire();
    rig.wait(60);
    rig.sack(1, &[]);
    assert!(rig.sender.flight.is_drained() && !rig.can_send());
    assert_eq!(rig.deadline(), None);
    assert_eq!(rig.stats().sent.forward_tsns, 0);
}

#[test]
fn rfc3758_3_5_f2_forward_tsn_joins_a_packet_that_leaves_anyway() {
    let mut rig = rig();
    rig.send(expiring(100, 30));
    rig.packet_with_forward();
    rig.expire();
    rig.send_bytes(10);
    let (told, data) = rig.packet_with_forward();
    assert_eq!(told, forward(1, &[(0, 0)]));
    assert_eq!(data.iter().map(|chunk| (chunk.tsn, chunk.ssn)).collect::<Vec<_>>(), [(2, 1)]);
}

#[test]
fn what_expires_in_the_queue_costs_neither_tsn_nor_ssn_nor_packet() {
    let mut rig = rig();
    rig.sack_full(0, 0, &[], &[]);
    rig.send(expiring(100, 30));
    rig.wait(30);
    rig.handle_timeout();
    assert_eq!(abandoned(&mut rig), [(0, 0, AbandonReason::Expired, false)]);
    assert!(!rig.can_send());
    rig.sack(0, &[]);
    rig.send_bytes(10);
    let (told, data) = rig.packet_with_forward();
    assert_eq!(told, None);
    assert_eq!((data[0].tsn, data[0].ssn), (1, 0));
}

#[test]
fn a_message_far_back_in_the_queue_is_abandoned_at_its_deadline_too() {
    let mut rig = rig();
    rig.sack_full(0, 0, &[], &[]);
    rig.send_bytes(10);
    rig.send(expiring(100, 30));
    rig.send_bytes(20);
    assert_eq!(rig.expire().0, ms(30));
    assert_eq!(abandoned(&mut rig), [(1, 1, AbandonReason::Expired, false)]);
    assert_eq!(rig.stats().path.send_buffer_bytes, 30);
    rig.check_slots();
}

#[test]
fn rfc3758_3_5_a3_all_fragments_are_abandoned_together_with_those_not_yet_sent() {
    let mut rig = rig();
    rig.send(expiring(20 * FULL, 30));
    rig.send_bytes(10);
    let sent: usize = std::iter::from_fn(|| rig.can_send().then(|| rig.packet_with_forward().1.len())).sum();
    assert!((2..10).contains(&sent));
    let last_tsn = u32::try_from(sent).expect("few");
    rig.sack(1, &[]);
    let more: usize = std::iter::from_fn(|| rig.can_send().then(|| rig.packet_with_forward().1.len())).sum();
    let last_tsn = last_tsn + u32::try_from(more).expect("few");
    rig.expire();
    assert_eq!(abandoned(&mut rig), [(0, 0, AbandonReason::Expired, true)]);
    assert_eq!(rig.stats().path.send_buffer_bytes, 10);
    let (told, data) = wait_for_packet(&mut rig);
    assert_eq!(told, forward(last_tsn + 1, &[(0, 0)]), "the end that never left has a TSN of its own");
    assert_eq!(data, [], "the abandoned data is still in flight and fills the congestion window");
    rig.sack(last_tsn + 1, &[]);
    let (_, data) = rig.packet_with_forward();
    assert_eq!((data[0].tsn, data[0].ssn, data[0].bits.as_str()), (last_tsn + 2, 1, "BE"));
    rig.check_slots();
    rig.sack(last_tsn + 2, &[]);
    assert!(rig.sender.flight.is_drained());
    rig.check_slots();
}

#[test]
fn a_message_whose_fragments_have_all_arrived_but_is_not_whole_is_abandoned_with_its_end() {
    let mut rig = rig();
    rig.send(expiring(20 * FULL, 30));
    let sent: usize = std::iter::from_fn(|| rig.can_send().then(|| rig.packet_with_forward().1.len())).sum();
    let cumulative = u32::try_from(sent).expect("few");
    rig.sack_full(cumulative, 0, &[], &[]);
    assert!(!rig.can_send(), "the window is closed");
    rig.expire();
    assert_eq!(wait_for_packet(&mut rig), (forward(cumulative + 1, &[(0, 0)]), vec![]));
    rig.sack(cumulative + 1, &[]);
    assert!(rig.sender.flight.is_drained());
}

#[test]
fn rfc7496_3_1_a_message_that_may_not_leave_again_is_abandoned_when_it_is_found_lost() {
    let mut rig = rig();
    rig.send(message(FULL).with_max_retransmissions(0));
    (0..3).for_each(|_| {
        rig.send_bytes(FULL);
    });
    while rig.can_send() {
        rig.packet_with_forward();
    }
    let ssthresh = rig.stats().path.ssthresh_bytes;
    (2..=4).for_each(|end| {
        rig.sack(0, &[(2, end)]);
    });
    assert_eq!(abandoned(&mut rig), [(0, 0, AbandonReason::RetransmissionsExhausted, true)]);
    assert!(rig.stats().path.ssthresh_bytes < ssthresh, "RFC 3758 §3.5 F5: a loss counts");
    assert!(rig.can_send(), "the peer holds back later messages");
    assert_eq!(rig.packet_with_forward(), (forward(1, &[(0, 0)]), vec![]));
    assert!(!rig.can_send());
    rig.sack(4, &[]);
    assert!(rig.sender.flight.is_drained());
}

#[test]
fn rfc7496_3_1_fast_and_timer_retransmissions_count_alike() {
    for profile in [Profile::Rfc9260, Profile::Rack, Profile::Festina] {
        let mut rig = forwarding(profile);
        rig.send(message(100).with_max_retransmissions(2));
        let mut transmissions = 0;
        for _ in 0..20 {
            while rig.can_send() {
                let (_, data) = rig.packet_with_forward();
                transmissions += data.iter().filter(|chunk| chunk.tsn == 1).count();
            }
            if rig.stats().sent.messages_abandoned > 0 {
                break;
            }
            rig.expire();
        }
        assert_eq!(transmissions, 3, "{profile:?}");
        assert_eq!(abandoned(&mut rig), [(0, 0, AbandonReason::RetransmissionsExhausted, true)], "{profile:?}");
    }
}

#[test]
fn rfc3758_3_5_c5_t3_runs_while_a_forward_tsn_is_outstanding_and_repeats_it() {
    for profile in Profile::all() {
        let mut rig = forwarding(*profile);
        rig.send(message(100).with_max_retransmissions(0));
        rig.packet_with_forward();
        let first = wait_for_packet(&mut rig);
        assert_eq!(first, (forward(1, &[(0, 0)]), vec![]), "{profile:?}");
        let left_at = rig.now;
        assert!(!rig.can_send() && rig.deadline().is_some(), "{profile:?}");
        assert_eq!(wait_for_packet(&mut rig), first, "{profile:?}");
        assert!(rig.now - left_at >= ms(90), "{profile:?}");
        rig.sack(1, &[]);
        assert!(rig.sender.flight.is_drained());
        assert_eq!(rig.deadline(), None, "{profile:?}");
    }
}

#[test]
fn a_peer_that_answers_but_does_not_move_is_told_once_per_round_trip() {
    let mut rig = rig();
    rig.send(message(100).with_max_retransmissions(0));
    rig.send(message(100));
    rig.packet_with_forward();
    let mut told = 0;
    for millis in 0..1_000 {
        rig.wait(1);
        if rig.deadline().is_some_and(|deadline| deadline <= rig.now) {
            rig.handle_timeout();
        }
        while rig.can_send() {
            told += u32::from(rig.packet_with_forward().0.is_some());
            rig.sack(0, &[(2, 2)]);
        }
        if millis > 100 {
            rig.sack(0, &[(2, 2)]);
        }
    }
    assert!((1..=10).contains(&told), "{told} in a second, at a round trip of 100 ms");
}

#[test]
fn rfc3758_3_5_c2_an_abandoned_chunk_behind_one_that_is_outstanding_waits_for_it() {
    let mut rig = rig();
    rig.send_bytes(100);
    rig.send(expiring(100, 30).on_stream(3));
    rig.packet_with_forward();
    rig.expire();
    assert!(!rig.can_send());
    rig.wait(60);
    rig.sack(1, &[]);
    assert_eq!(wait_for_packet(&mut rig), (forward(2, &[(3, 0)]), vec![]));
}

#[test]
fn rfc3758_3_5_c4_unordered_messages_are_not_named() {
    let mut rig = rig();
    rig.send(expiring(100, 30).unordered());
    rig.send(expiring(100, 30).on_stream(3));
    rig.send(expiring(100, 30).on_stream(3));
    rig.packet_with_forward();
    rig.expire();
    assert_eq!(wait_for_packet(&mut rig), (forward(3, &[(3, 1)]), vec![]));
}

#[test]
fn without_the_peers_support_what_has_begun_to_leave_stays_reliable() {
    let mut rig = Rig::standard().measured(ms(100));
    rig.send(expiring(100, 30).with_max_retransmissions(0).replacing(7));
    rig.packet_with_forward();
    rig.send(message(100).replacing(7));
    rig.packets();
    rig.expire();
    rig.expire();
    let (told, data) = rig.packet_with_forward();
    assert_eq!((told, data[0].tsn), (None, 1));
    rig.packets();
    rig.sack(2, &[]);
    assert_eq!(rig.delivered(), [0, 1]);
    assert_eq!(rig.stats().abandoned.total(), Abandoned::default());
}

#[test]
fn an_abandoned_chunk_that_is_found_lost_cuts_the_window_though_nothing_leaves_again() {
    let mut rig = rig();
    rig.send(expiring(FULL, 30));
    (0..3).for_each(|_| {
        rig.send_bytes(FULL);
    });
    while rig.can_send() {
        rig.packet_with_forward();
    }
    rig.expire();
    rig.wait(30);
    let ssthresh = rig.stats().path.ssthresh_bytes;
    (2..=4).for_each(|end| {
        rig.sack(0, &[(2, end)]);
    });
    assert!(rig.stats().path.ssthresh_bytes < ssthresh);
    assert_eq!(rig.packet_with_forward().1, [], "nothing is repaired");
}

#[test]
fn rfc3758_3_5_a4_abandoned_chunks_earn_no_window() {
    let grown = |message: Message| {
        let mut rig = rig();
        (0..20).for_each(|_| {
            rig.send(message.clone());
        });
        while rig.can_send() {
            rig.packet_with_forward();
        }
        let before = rig.stats().path.cwnd_bytes;
        rig.wait(50);
        rig.handle_timeout();
        rig.wait(50);
        rig.sack(2, &[]);
        rig.stats().path.cwnd_bytes - before
    };
    assert!(grown(message(FULL)) > 0);
    assert_eq!(grown(expiring(FULL, 50)), 0);
}

#[test]
fn rfc7496_3_3_a_full_buffer_evicts_what_has_the_lowest_priority_and_the_last_of_these_first() {
    let mut config = config(Profile::Rfc9260.mechanisms());
    config.limits.send_buffer_bytes = 4 * (1_000 + 128);
    let mut rig = Rig::with(&config);
    rig.sack_full(0, 0, &[], &[]);
    for priority in [3, 5, 5, 1] {
        rig.send(message(1_000).with_priority(priority));
    }
    assert!(
        matches!(rig.try_send(message(1_000)), Err(SendError { kind: SendErrorKind::BufferFull, .. })),
        "it has no priority"
    );
    assert!(matches!(
        rig.try_send(message(1_000).with_priority(5)),
        Err(SendError { kind: SendErrorKind::BufferFull, .. })
    ));
    rig.send(message(1_000).with_priority(4));
    assert_eq!(abandoned(&mut rig), [(2, 2, AbandonReason::Evicted, false)]);
    rig.send(message(1_500).with_priority(0));
    assert_eq!(abandoned(&mut rig), [(1, 1, AbandonReason::Evicted, false), (4, 4, AbandonReason::Evicted, false)]);
    assert!(matches!(
        rig.try_send(message(4_000).with_priority(2)),
        Err(SendError { kind: SendErrorKind::BufferFull, .. })
    ));
    assert_eq!(abandoned(&mut rig), [], "nothing is evicted needlessly");
    rig.check_slots();
}

#[test]
fn rfc7496_3_3_a_message_on_its_way_is_evicted_if_no_other_is_left() {
    let mut config = config(Profile::Rfc9260.mechanisms());
    config.limits.send_buffer_bytes = 2 * (1_000 + 128);
    let mut rig = Rig::with(&config);
    rig.sender.flight.agree(Framing::Data, true, false);
    rig.send(message(1_000).with_priority(3));
    rig.packet_with_forward();
    rig.send(message(1_000).with_priority(3));
    rig.packet_with_forward();
    rig.send(message(800).with_priority(2));
    assert_eq!(abandoned(&mut rig), [(1, 1, AbandonReason::Evicted, true)]);
}

#[test]
fn a_newer_message_takes_the_place_of_an_unsent_one_with_its_key() {
    let mut rig = rig();
    rig.sack_full(0, 0, &[], &[]);
    rig.send(message(10).replacing(7));
    rig.send(message(11));
    rig.send(message(12).replacing(8));
    rig.send(message(13).replacing(7).on_stream(1));
    assert_eq!(abandoned(&mut rig), []);
    rig.send(message(14).replacing(7));
    assert_eq!(abandoned(&mut rig), [(0, 0, AbandonReason::Replaced, false)]);
    rig.sack(0, &[]);
    let lens: Vec<_> = rig.packet_with_forward().1.iter().map(|chunk| (chunk.len, chunk.stream, chunk.ssn)).collect();
    assert_eq!(lens, [(14, 0, 0), (11, 0, 1), (12, 0, 2), (13, 1, 0)]);
    assert_eq!(rig.stats().path.messages_pending, 4);
    rig.check_slots();
}

#[test]
fn a_newer_message_has_the_older_one_on_its_way_passed_over_at_once() {
    let mut rig = rig();
    rig.send(message(10).replacing(7));
    rig.packet_with_forward();
    rig.send(message(11).replacing(7));
    assert_eq!(abandoned(&mut rig), [(0, 0, AbandonReason::Replaced, true)]);
    let (told, data) = rig.packet_with_forward();
    assert_eq!((told, data[0].len), (forward(1, &[(0, 0)]), 11));
    rig.sack(2, &[]);
    rig.send(message(12).replacing(7));
    assert_eq!(abandoned(&mut rig), [], "a delivered message is not replaced");
    assert_eq!(rig.stats().sent.messages_acked, 1);
}

#[test]
fn a_full_buffer_has_room_for_a_message_that_replaces_one() {
    let mut config = config(Profile::Rfc9260.mechanisms());
    config.limits.send_buffer_bytes = 2 * (1_000 + 128);
    let mut rig = Rig::with(&config);
    rig.sack_full(0, 0, &[], &[]);
    rig.send(message(1_000).replacing(1));
    rig.send(message(1_000));
    rig.send(message(1_000).replacing(1));
    assert_eq!(abandoned(&mut rig), [(0, 0, AbandonReason::Replaced, false)]);
    assert!(matches!(
        rig.try_send(message(1_001).replacing(1)),
        Err(SendError { kind: SendErrorKind::BufferFull, .. })
    ));
    assert_eq!(abandoned(&mut rig), []);
}

#[test]
fn rfc7496_4_3_counters_tell_policies_and_streams_apart() {
    let mut rig = rig();
    rig.send(expiring(10, 30).on_stream(2));
    rig.send(message(10).on_stream(3).with_max_retransmissions(0));
    rig.packet_with_forward();
    rig.sack_full(0, 0, &[], &[]);
    rig.send(expiring(10, 30).on_stream(2));
    while rig.stats().sent.messages_abandoned < 3 {
        rig.expire();
        rig.packet_with_forward();
    }
    let on_two = rig.sender.flight.abandoned_on(StreamId(2));
    assert_eq!(on_two.expired, Abandoned { unsent: 1, sent: 1 });
    assert_eq!(on_two.total(), Abandoned { unsent: 1, sent: 1 });
    let on_three = rig.sender.flight.abandoned_on(StreamId(3));
    assert_eq!(on_three.retransmissions_exhausted, Abandoned { unsent: 0, sent: 1 });
    assert_eq!(rig.stats().abandoned.total(), Abandoned { unsent: 1, sent: 2 });
    assert_eq!(rig.sender.flight.abandoned_on(StreamId(0)), AbandonedStats::default());
}

#[test]
fn delivery_is_reported_without_message_events_to_whoever_asks_for_it() {
    let mut rig = Rig::with(&Config { message_events: false, ..config(Profile::Rfc9260.mechanisms()) });
    rig.send(message(10));
    rig.send(Message { confirm: true, ..message(10) });
    rig.packet_with_forward();
    rig.sack(2, &[]);
    assert_eq!(rig.delivered(), [1]);
}

#[test]
fn the_end_reports_no_message_twice() {
    let mut rig = rig();
    rig.send(expiring(10, 30));
    rig.packet_with_forward();
    rig.expire();
    rig.send(expiring(10, 30));
    rig.end();
    let ends = abandoned(&mut rig);
    assert_eq!(ends, [(0, 0, AbandonReason::Expired, true), (1, 1, AbandonReason::UnsentAtEnd, false)]);
    assert_eq!(rig.deadline(), None);
    rig.check_slots();
}

#[test]
fn nr_sack_confirms_delivery_and_frees_the_buffer_before_the_gap_is_closed() {
    let mut rig = rig();
    (0..3).for_each(|_| {
        rig.send_bytes(100);
    });
    rig.packet_with_forward();
    rig.nr_sack(0, &[(2, 3)]);
    assert_eq!(rig.delivered(), [1, 2]);
    assert_eq!(rig.stats().path.send_buffer_bytes, 100);
    rig.check_slots();
    rig.nr_sack(3, &[]);
    assert_eq!(rig.delivered(), [0]);
    assert!(rig.sender.flight.is_drained());
}

#[test]
fn r12_iv_case_1_what_the_receiver_has_for_good_is_passed_over_in_one_forward_tsn() {
    let mut rig = rig();
    for index in 1..=5 {
        rig.send(if index % 2 == 0 { expiring(100, 30) } else { message(100) });
    }
    rig.packet_with_forward();
    rig.expire();
    rig.nr_sack(1, &[(2, 2), (4, 4)]);
    assert_eq!(wait_for_packet(&mut rig), (forward(5, &[(0, 3)]), vec![]));
}

#[test]
fn r12_iii_what_the_receiver_may_drop_is_not_passed_over() {
    let mut rig = rig();
    for index in 1..=5 {
        rig.send(if index % 2 == 0 { expiring(100, 30) } else { message(100) });
    }
    rig.packet_with_forward();
    rig.expire();
    rig.sack(1, &[(2, 2), (4, 4)]);
    assert_eq!(wait_for_packet(&mut rig), (forward(2, &[(0, 1)]), vec![]));
}
