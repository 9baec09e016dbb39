//! Messages that are not worth redundancy: states that newer ones replace, and messages that expire first.

use festina_recovery::loss_rate::LossRate;

use super::*;
use crate::config::{Expiry, PartialReliability};
use crate::wire::Framing;

const INTERVAL_MS: u64 = 33;

/// A thin stream to a peer that supports FORWARD-TSN if `forwards`, over a steady path of 80 ms that loses one packet in `one_in`, if any.
pub(super) fn rig(redundancy: Redundancy, forwards: bool, one_in: Option<u32>) -> Rig {
    let mechanisms = Mechanisms { redundancy, ..Profile::Festina.mechanisms() };
    let partial_reliability = PartialReliability { expiry: Expiry::WhenOverdue, ..PartialReliability::default() };
    let mut rig = Rig::with(&Config { partial_reliability, ..config(mechanisms) });
    let mut rate = LossRate::new();
    for nth in 1..=one_in.map_or(0, |one_in| 10 * one_in) {
        if one_in.is_some_and(|one_in| nth % one_in == 0) { rate.lost() } else { rate.arrived(1) }
    }
    rig.path.repair.assume_loss(rate.known());
    rig = rig.measured(ms(80));
    rig.sender.flight.agree(Framing::Data, forwards, false);
    rig
}

/// Copies of everything, regardless of losses.
fn bundling(forwards: bool) -> Rig {
    rig(Redundancy::BUNDLED, forwards, None)
}

pub(super) fn lossy() -> Rig {
    rig(Redundancy::ADAPTIVE, true, Some(20))
}

pub(super) fn state(key: u64) -> Message {
    Message::new(vec![7; 100]).unordered().replacing(key)
}

/// The TSNs of all packets that may leave now.
pub(super) fn tsns(rig: &mut Rig) -> Vec<Vec<u32>> {
    let mut packets = Vec::new();
    while rig.can_send() {
        let (_, data) = rig.packet_with_forward();
        if !data.is_empty() {
            packets.push(data.iter().map(|chunk| chunk.tsn).collect());
        }
    }
    packets
}

/// Sends each message in a packet of its own, as they are written.
pub(super) fn write(rig: &mut Rig, messages: impl IntoIterator<Item = Message>) -> Vec<Vec<u32>> {
    let written = messages.into_iter().flat_map(|message| {
        rig.send(message);
        tsns(rig)
    });
    written.collect()
}

/// Acts on all timers up to `millis` from now. Returns the TSNs of each packet that leaves, and the time.
pub(super) fn until(rig: &mut Rig, millis: u64) -> Vec<(u128, Vec<u32>)> {
    let (start, end) = (rig.now, rig.now + ms(millis));
    let mut sent = Vec::new();
    while rig.deadline().is_some_and(|at| at <= end) {
        rig.expire();
        sent.extend(tsns(rig).into_iter().map(|tsns| ((rig.now - start).as_millis(), tsns)));
    }
    rig.now = end;
    sent
}

/// One state every 33 ms, `count` of them; the last one has just left. None is acknowledged.
fn states(rig: &mut Rig, count: u32) {
    for nth in 1..=count {
        assert_eq!(write(rig, [state(1)]), [[nth]]);
        if nth < count {
            assert_eq!(until(rig, INTERVAL_MS), []);
        }
    }
}

#[test]
fn states_of_one_tick_take_no_copies_of_the_ones_before_along() {
    for forwards in [true, false] {
        let mut rig = bundling(forwards);
        write(&mut rig, [state(1), state(2), state(3)]);
        rig.wait(INTERVAL_MS);
        let without_interval = write(&mut rig, [state(1), state(2), state(3)]);
        assert!(without_interval[0].len() > 1, "nothing is known yet: {without_interval:?}");
        for tick in 2..5 {
            rig.wait(INTERVAL_MS);
            let first = 3 * tick + 1;
            assert_eq!(write(&mut rig, [state(1), state(2), state(3)]), [[first], [first + 1], [first + 2]]);
        }
    }
}

#[test]
fn a_state_rides_with_other_messages_while_its_successor_is_far_away() {
    let mut rig = bundling(true);
    states(&mut rig, 4);
    rig.wait(10);
    assert_eq!(write(&mut rig, [Message::new("a line of chat")]), [[4, 5]]);
    rig.wait(18);
    assert_eq!(write(&mut rig, [Message::new("another")]), [[5, 6]], "the next state is 5 ms away");
}

#[test]
fn a_peer_that_cannot_pass_over_replaced_states_gets_no_copies_of_them_but_their_retransmissions() {
    let mut rig = bundling(false);
    for tsn in 1..=3 {
        assert_eq!(write(&mut rig, [state(1)]), [[tsn]]);
        rig.wait(20);
    }
    let sent = until(&mut rig, 100);
    assert!(sent.iter().any(|(_, tsns)| tsns.contains(&1)), "it stays reliable: {sent:?}");
}

#[test]
fn ordered_states_keep_their_copies_because_others_wait_for_them() {
    let mut rig = bundling(false);
    write(&mut rig, [Message::new("1").replacing(1)]);
    rig.wait(20);
    assert_eq!(write(&mut rig, [Message::new("2").replacing(1)]), [[1, 2]]);
}

#[test]
fn the_last_state_before_a_pause_is_sent_again_once_its_successor_is_half_an_interval_late() {
    let mut rig = lossy();
    states(&mut rig, 20);
    let sent = until(&mut rig, 100);
    assert_eq!(sent[0], (49, vec![20]));
    assert_eq!(rig.causes().first(), Some(&(20, RetransmissionCause::Copy)));
    rig.sack(20, &[]);
    assert_eq!(until(&mut rig, 1_000), [], "once");
    assert_eq!(write(&mut rig, [state(1)]), [[21]]);
    assert_eq!(until(&mut rig, 80), [], "the interval is measured again");
}

#[test]
fn the_last_states_of_one_packet_share_a_copy() {
    let mut rig = lossy();
    for _ in 0..10 {
        rig.send(state(1));
        rig.send(state(2));
        tsns(&mut rig);
        assert_eq!(until(&mut rig, INTERVAL_MS), []);
    }
    assert_eq!(until(&mut rig, 20)[0], (16, vec![19, 20]));
}

#[test]
fn the_last_state_waits_for_its_probe_without_losses_or_redundancy_or_when_it_has_arrived() {
    for (redundancy, one_in) in [(Redundancy::ADAPTIVE, None), (Redundancy::Off, Some(20))] {
        let mut rig = rig(redundancy, true, one_in);
        states(&mut rig, 20);
        assert_eq!(until(&mut rig, 80), [], "{redundancy}");
        let sent = until(&mut rig, 200);
        assert!(sent.iter().any(|(_, tsns)| tsns.contains(&20)), "a probe: {sent:?}");
    }
    let mut rig = lossy();
    states(&mut rig, 20);
    until(&mut rig, 20);
    rig.sack(20, &[]);
    assert_eq!(until(&mut rig, 100), []);
}

#[test]
fn a_queue_on_the_path_forbids_the_copy_of_the_last_state() {
    let mut rig = lossy();
    states(&mut rig, 20);
    for _ in 0..40 {
        rig.sender.handle_round_trip(rig.now, &mut rig.path, ms(140), &mut rig.events);
    }
    assert_eq!(until(&mut rig, 80), []);
}

#[test]
fn pauses_beyond_the_budget_are_left_to_probes() {
    let mut rig = lossy();
    let mut copies = Vec::new();
    for _ in 0..12 {
        for _ in 0..2 {
            write(&mut rig, [state(1)]);
            rig.wait(20);
        }
        rig.events();
        until(&mut rig, 60);
        copies.push(rig.causes().iter().any(|&(_, cause)| cause == RetransmissionCause::Copy));
        let last = u32::try_from(rig.next_id).expect("few");
        rig.sack(last, &[]);
        until(&mut rig, 500);
    }
    let granted = copies.iter().filter(|&&copied| copied).count();
    assert!((3..=7).contains(&granted), "a copy for every four messages: {copies:?}");
}

#[test]
fn a_message_that_expires_before_its_copy_arrives_gets_none() {
    for (lifetime_ms, copied) in [(55, false), (65, true)] {
        let mut rig = bundling(true);
        write(&mut rig, [Message::new("sound").unordered().with_lifetime(ms(lifetime_ms))]);
        rig.wait(20);
        let expected = if copied { vec![vec![1, 2]] } else { vec![vec![2]] };
        assert_eq!(write(&mut rig, [Message::new("chat")]), expected, "the copy would arrive after 60 ms");
    }
}

#[test]
fn the_repetition_of_a_retransmission_is_spared_if_the_next_state_is_near() {
    for (interval_ms, repeated) in [(100, false), (250, true)] {
        let mut rig = lossy();
        for tsn in 1..=60 {
            write(&mut rig, [state(1)]);
            if tsn < 60 {
                rig.wait(80);
                rig.sack(tsn, &[]);
                until(&mut rig, interval_ms - 80);
            }
        }
        rig.events();
        let sent: Vec<_> = until(&mut rig, 99).into_iter().map(|(_, tsns)| tsns).collect();
        assert_eq!(sent, vec![vec![60]; if repeated { 2 } else { 1 }], "{interval_ms} ms");
    }
}
