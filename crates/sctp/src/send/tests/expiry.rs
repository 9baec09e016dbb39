//! When lifetimes are looked at (RFC 3758 §4.1 leaves it open; Rajiullah and Brunstrom 2012 §IV-C).

use super::*;
use crate::config::{Expiry, PartialReliability};
use crate::wire::Framing;

/// A sender whose peer supports FORWARD-TSN, with a round trip of 100 ms.
fn looking(expiry: Expiry) -> Rig {
    let partial_reliability = PartialReliability { expiry, ..PartialReliability::default() };
    let mut rig = Rig::with(&Config { partial_reliability, ..config(Profile::Rfc9260.mechanisms()) }).measured(ms(100));
    rig.sender.flight.agree(Framing::Data, true, false);
    rig
}

fn brief() -> Message {
    Message::new(vec![7; 100]).with_lifetime(ms(30))
}

fn abandoned(rig: &Rig) -> u64 {
    rig.stats().sent.messages_abandoned
}

#[test]
fn what_expires_in_the_queue_leaves_once_if_only_retransmissions_count_and_never_otherwise() {
    for (expiry, leaves) in Expiry::all().zip([false, false, false, true, true]) {
        let mut rig = looking(expiry);
        rig.send(brief());
        rig.wait(50);
        assert_eq!(rig.packet().len(), usize::from(leaves), "{expiry:?}");
        assert_eq!(abandoned(&rig), u64::from(!leaves), "{expiry:?}");
    }
}

#[test]
fn what_is_on_its_way_at_its_deadline_is_abandoned_only_if_lifetimes_count_at_once() {
    for (expiry, given_up) in Expiry::all().zip([false, true, false, false, false]) {
        let mut rig = looking(expiry);
        rig.send(brief());
        rig.packet();
        rig.wait(50);
        rig.handle_timeout();
        assert_eq!(abandoned(&rig), u64::from(given_up), "{expiry:?}");
        rig.wait(50);
        rig.sack(1, &[]);
        assert_eq!(rig.stats().sent.messages_acked, u64::from(!given_up), "{expiry:?}");
    }
}

#[test]
fn what_is_lost_and_expired_is_never_sent_again_whenever_lifetimes_count() {
    for expiry in Expiry::all() {
        let mut rig = looking(expiry);
        rig.send(brief());
        rig.packet();
        rig.send_bytes(100);
        rig.packet();
        rig.wait(100);
        rig.sack(0, &[(2, 2)]);
        rig.wait(5_000);
        rig.handle_timeout();
        let (told, data) = rig.packet_with_forward();
        assert_eq!(told.map(|told| told.cumulative), Some(1), "{expiry:?}");
        assert_eq!(data, [], "{expiry:?}");
        assert_eq!(abandoned(&rig), 1, "{expiry:?}");
    }
}

#[test]
fn an_acknowledgement_that_comes_after_the_lifetime_shows_delivery_and_widens_the_window() {
    for (expiry, counts) in Expiry::all().zip([true, false, true, true, true]) {
        let mut rig = looking(expiry);
        for _ in 0..40 {
            rig.send(Message::new(vec![7; FULL]).with_lifetime(ms(30)));
        }
        let cwnd_before = rig.stats().path.cwnd_bytes;
        let sent = u32::try_from(rig.tsns().concat().len()).expect("few");
        rig.wait(50);
        rig.handle_timeout();
        rig.wait(50);
        rig.sack(sent, &[]);
        assert_eq!(rig.stats().path.cwnd_bytes > cwnd_before, counts, "{expiry:?}");
        assert_eq!(rig.stats().sent.messages_acked > 0, counts, "{expiry:?}");
        assert_eq!(rig.stats().sent.forward_tsns, 0, "{expiry:?}");
    }
}

/// `sctp_strike_gap_ack_chunks` of FreeBSD 8.2: no third report is awaited, and the window stays.
#[test]
fn what_is_expired_and_missing_below_a_gap_ack_block_is_given_up_at_once_and_without_a_cut_if_lifetimes_count_then() {
    for (expiry, given_up_after) in [(Expiry::WhenMissing, 1), (Expiry::BeforeRetransmission, 3)] {
        let mut rig = looking(expiry);
        rig.send(brief());
        rig.packet();
        for _ in 0..4 {
            rig.send_bytes(100);
            rig.packet();
        }
        rig.wait(100);
        for reports in 1..=3 {
            rig.sack(0, &[(2, 1 + reports)]);
            assert_eq!(abandoned(&rig), u64::from(reports >= given_up_after), "{expiry:?}, {reports}");
        }
        assert_eq!(rig.stats().path.in_fast_recovery, expiry == Expiry::BeforeRetransmission, "{expiry:?}");
        assert_eq!(rig.packet_with_forward().0.map(|told| told.cumulative), Some(1), "{expiry:?}");
    }
}

/// Chunks above the blocks may still arrive, and chunks within their lifetime are repaired as usual.
#[test]
fn what_is_not_below_a_gap_ack_block_or_not_expired_is_kept_though_lifetimes_count_for_what_is_missing() {
    let mut rig = looking(Expiry::WhenMissing);
    rig.send(Message::new(vec![7; 100]).with_lifetime(ms(5_000)));
    rig.packet();
    rig.send_bytes(100);
    rig.packet();
    rig.send(brief());
    rig.packet();
    rig.wait(100);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(abandoned(&rig), 0);
}

#[test]
fn a_message_past_its_lifetime_is_given_up_when_its_acknowledgement_is_overdue() {
    let mut rig = looking(Expiry::WhenOverdue);
    rig.send(brief());
    rig.packet();
    assert_eq!(rig.expire().0, ms(30));
    assert_eq!(abandoned(&rig), 0);
    assert_eq!(rig.expire().0, ms(95), "a round trip and a quarter after it left");
    assert_eq!(abandoned(&rig), 1);
    assert_eq!(rig.stats().path.send_buffer_bytes, 0);
}

#[test]
fn what_the_peer_has_is_not_given_up_though_a_gap_lies_before_it() {
    let mut rig = looking(Expiry::WhenOverdue);
    rig.send_bytes(100);
    rig.packet();
    rig.send(brief());
    rig.packet();
    rig.wait(20);
    rig.sack(0, &[(2, 2)]);
    while rig.now < Instant::from_secs(100) + ms(900) {
        rig.expire();
        rig.packets();
    }
    assert_eq!(abandoned(&rig), 0);
    rig.sack(2, &[]);
    assert_eq!(rig.stats().sent.messages_acked, 2);
}

#[test]
fn what_began_to_leave_is_given_up_at_its_end_with_the_rest_that_waits() {
    let mut rig = looking(Expiry::WhenOverdue);
    rig.send(Message::new(vec![7; 40 * FULL]).with_lifetime(ms(30)));
    rig.tsns();
    assert_eq!(rig.expire().0, ms(30));
    assert_eq!(abandoned(&rig), 1);
    assert_eq!(rig.stats().path.send_buffer_bytes, 0);
}

/// Bytes that a sender puts on a path of 100 ms in its first round trip, if each message makes the one before it worthless.
fn first_round_trip_bytes(message: impl Fn() -> Message, expiry: Expiry) -> u64 {
    let mut rig = looking(expiry);
    let mut bytes = 0;
    for _ in 0..99 {
        // A full buffer is an answer, too.
        let _full = rig.try_send(message());
        bytes += (rig.packets().concat().len() * CHUNKS_BYTES) as u64;
        rig.wait(1);
        rig.handle_timeout();
    }
    bytes
}

#[test]
fn giving_up_what_is_on_its_way_makes_no_room_in_the_congestion_window() {
    for expiry in Expiry::all() {
        let cwnd_bytes = looking(expiry).stats().path.cwnd_bytes;
        let replacing = first_round_trip_bytes(|| Message::new(vec![7; FULL]).replacing(1), expiry);
        let expiring = first_round_trip_bytes(|| Message::new(vec![7; FULL]).with_lifetime(ms(1)), expiry);
        for bytes in [replacing, expiring] {
            assert!(
                bytes < cwnd_bytes + CHUNKS_BYTES as u64,
                "{expiry:?}: {bytes} bytes, and the window has {cwnd_bytes}"
            );
        }
    }
}
