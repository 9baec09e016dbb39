//! Retransmissions of thin streams that leave twice, on paths that lose a message together with its retransmission.

use super::*;

/// A stream of a message every 250 ms that has lost each `one_in`th of `messages` messages. The next TSN follows them.
fn lossy(one_in: u32, messages: u32) -> Rig {
    let mut rig = Rig::with(&config(Profile::Festina.mechanisms())).measured(ms(100));
    for tsn in 1..=messages {
        rig.flight(1, 100);
        let left_ms = if tsn % one_in == 0 { lose(&mut rig, tsn) } else { answer(&mut rig, tsn) };
        rig.wait(250 - left_ms);
    }
    rig.causes();
    rig
}

fn answer(rig: &mut Rig, tsn: u32) -> u64 {
    rig.wait(100);
    rig.sack(tsn, &[]);
    100
}

/// The message is lost, and its probe arrives.
fn lose(rig: &mut Rig, tsn: u32) -> u64 {
    let probed_at = rig.now + rig.expire().0;
    assert_eq!(rig.tsns(), [[tsn]]);
    let mut left_ms = 105;
    // The repetition, if there is one, is not lost, either.
    while rig.deadline().is_some_and(|at| at < probed_at + ms(100)) {
        let (waited, _) = rig.expire();
        rig.tsns();
        left_ms += u64::try_from(waited.as_millis()).expect("short");
    }
    rig.wait(205 - left_ms);
    rig.sack(tsn, &[]);
    205
}

#[test]
fn a_probe_is_repeated_a_twentieth_of_the_round_trip_later_where_pairs_are_lost() {
    let mut rig = lossy(20, 80);
    rig.flight(1, 100);
    assert_eq!(rig.expire().0, ms(105));
    assert_eq!(rig.tsns(), [[81]]);
    assert_eq!(rig.expire(), (ms(5), None));
    assert_eq!(rig.tsns(), [[81]]);
    assert_eq!(rig.causes(), [(81, RetransmissionCause::Probe), (81, RetransmissionCause::Copy)]);
    assert_eq!(rig.expire().0, ms(105), "the next probe waits for the answer to the repetition");
}

#[test]
fn rare_losses_are_repaired_once() {
    let mut rig = lossy(80, 160);
    rig.flight(1, 100);
    rig.expire();
    assert_eq!(rig.tsns(), [[161]]);
    assert_eq!(rig.expire().0, ms(105));
}

#[test]
fn a_retransmission_that_is_acknowledged_is_not_repeated() {
    let mut rig = lossy(20, 80);
    rig.flight(1, 100);
    rig.expire();
    rig.tsns();
    rig.wait(2);
    rig.sack(81, &[]);
    assert_eq!(rig.expire(), (ms(3), None));
    assert_eq!((rig.deadline(), rig.can_send()), (None, false));
}

#[test]
fn new_data_takes_the_repetition_along() {
    let mut rig = lossy(20, 80);
    rig.flight(1, 100);
    rig.expire();
    rig.tsns();
    rig.wait(1);
    assert_eq!(rig.flight(1, 100), [[82]], "too close behind the probe to help");
    rig.wait(1);
    assert_eq!(rig.flight(1, 100), [[81, 83]]);
    assert_eq!(rig.expire().0, ms(104), "nothing is left to be repeated, and the probe of 82 is next");
}

#[test]
fn a_fast_retransmission_is_repeated_too() {
    let mut rig = lossy(20, 80);
    rig.flight(1, 100);
    rig.wait(3);
    rig.flight(1, 100);
    rig.wait(100);
    rig.sack(80, &[(2, 2)]);
    assert_eq!(rig.tsns(), [[81]]);
    assert_eq!(rig.expire().0, ms(5));
    assert_eq!(rig.tsns(), [[81]]);
    assert_eq!(rig.causes(), [(81, RetransmissionCause::Fast), (81, RetransmissionCause::Copy)]);
}

#[test]
fn in_an_outage_few_probes_are_repeated() {
    let mut rig = lossy(20, 90);
    rig.flight(1, 100);
    let ends = rig.now + ms(3_000);
    while rig.deadline().is_some_and(|at| at < ends) {
        rig.expire();
        rig.tsns();
    }
    let (probes, repeated): (Vec<_>, Vec<_>) =
        rig.causes().into_iter().partition(|&(_, cause)| cause == RetransmissionCause::Probe);
    assert!(probes.len() > 20, "{probes:?}");
    assert_eq!(repeated.len(), 2, "the saved budget");
}

#[test]
fn a_loss_that_the_repetition_repaired_counts_once_and_cuts_the_window() {
    let mut rig = lossy(20, 80);
    rig.flight(1, 100);
    rig.expire();
    rig.tsns();
    rig.expire();
    rig.tsns();
    rig.wait(100);
    rig.sack(81, &[]);
    assert_eq!(rig.path.repair.cut_tsn(), (1 << 32) + 81);
}
