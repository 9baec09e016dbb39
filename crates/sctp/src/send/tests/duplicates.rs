//! Messages that the application wants to be sent twice.

use super::protection::{lossy, rig, state, tsns, until, write};
use super::*;
use crate::message::Duplicate;

fn twice(key: u64, duplicate: Duplicate) -> Message {
    state(key).with_duplicate(duplicate)
}

/// States every 33 ms, each sent twice as its predecessor; the TSNs of all packets and when they leave after each state.
fn stream(rig: &mut Rig, states: u32, duplicate: Duplicate) -> Vec<(u128, Vec<u32>)> {
    let mut sent = Vec::new();
    for _ in 0..states {
        sent.extend(write(rig, [twice(1, duplicate)]).into_iter().map(|tsns| (0, tsns)));
        sent.extend(until(rig, 33));
    }
    sent
}

#[test]
fn a_duplicate_leaves_at_once_in_a_packet_of_its_own() {
    let mut rig = lossy();
    let expected: Vec<_> = (1..=20).flat_map(|tsn| [(0, vec![tsn]), (0, vec![tsn])]).collect();
    assert_eq!(stream(&mut rig, 20, Duplicate::AtOnce), expected);
    assert_eq!(rig.stats().sent.retransmitted.copies, 20);
}

#[test]
fn a_duplicate_leaves_half_an_interval_of_its_key_later() {
    let mut rig = lossy();
    let sent = stream(&mut rig, 20, Duplicate::HalfInterval);
    assert_eq!(sent[..3], [(0, vec![1]), (0, vec![1]), (0, vec![2])], "at once while the interval is unknown");
    let expected: Vec<_> = (2..=20).flat_map(|tsn| [(0, vec![tsn]), (16, vec![tsn])]).collect();
    assert_eq!(sent[2..], expected);
}

#[test]
fn a_newer_state_cancels_the_duplicate_of_an_older_one() {
    for forwards in [true, false] {
        let mut rig = rig(Redundancy::ADAPTIVE, forwards, Some(20));
        for tsn in 1..=10 {
            stream(&mut rig, 1, Duplicate::HalfInterval);
            rig.sack(tsn, &[]);
        }
        write(&mut rig, [twice(1, Duplicate::HalfInterval)]);
        assert_eq!(until(&mut rig, 10), []);
        assert_eq!(write(&mut rig, [twice(1, Duplicate::HalfInterval)]).last(), Some(&vec![12]));
        let sent = until(&mut rig, 20);
        assert!(sent.iter().all(|(_, tsns)| *tsns == [12]), "{forwards}: {sent:?}");
    }
}

#[test]
fn only_messages_that_ask_for_it_are_sent_twice() {
    let mut rig = lossy();
    for tsn in 1..=10 {
        let expected = if tsn % 2 == 0 { vec![vec![tsn]; 2] } else { vec![vec![tsn]] };
        let duplicate = (tsn % 2 == 0).then_some(Duplicate::AtOnce);
        assert_eq!(write(&mut rig, [state(1).with_duplicate(duplicate)]), expected);
        rig.wait(33);
    }
}

#[test]
fn there_are_no_duplicates_with_redundancy_off_of_large_messages_or_behind_a_queue() {
    for (redundancy, one_in, copies) in [(Redundancy::ADAPTIVE, None, 20), (Redundancy::Off, Some(20), 0)] {
        let mut rig = rig(redundancy, true, one_in);
        stream(&mut rig, 20, Duplicate::AtOnce);
        assert_eq!(rig.stats().sent.retransmitted.copies, copies, "{redundancy}");
    }
    let mut rig = lossy();
    rig.send(Message::new(vec![7; 2 * FULL]).unordered().with_duplicate(Duplicate::AtOnce));
    tsns(&mut rig);
    assert_eq!(rig.stats().sent.retransmitted.copies, 0, "one of several packets");
    let mut rig = lossy();
    stream(&mut rig, 20, Duplicate::AtOnce);
    for _ in 0..40 {
        rig.sender.handle_round_trip(rig.now, &mut rig.path, ms(140), &mut rig.events);
    }
    let before = rig.stats().sent.retransmitted.copies;
    stream(&mut rig, 20, Duplicate::AtOnce);
    assert_eq!(rig.stats().sent.retransmitted.copies, before, "a queue on the path");
}

#[test]
fn duplicates_stay_within_the_rate_of_a_tcp_flow() {
    for (one_in, allowed) in [(20, true), (8, false)] {
        let mut rig = rig(Redundancy::ADAPTIVE, true, Some(one_in));
        stream(&mut rig, 20, Duplicate::AtOnce);
        let copies = rig.stats().sent.retransmitted.copies;
        assert_eq!(copies, if allowed { 20 } else { copies.min(5) }, "1 lost in {one_in}");
    }
}
