use super::*;
use proptest::prelude::*;

const BEFORE: Window = Window { cwnd_bytes: 20_000, ssthresh_bytes: 12_000 };
const TERMS: UndoTerms = UndoTerms {
    window: Window { cwnd_bytes: 1_500, ssthresh_bytes: 10_000 },
    in_flight_bytes: 9_000,
    acked_bytes: 3_000,
    initial_window_bytes: 4_404,
};
/// The sequence number that is sent next in all these tests.
const NEXT: u64 = 100;

/// A cut with 18,000 bytes in flight, and repairs of the sequence numbers from 1 since.
fn after_cut(repairs: u64) -> CutHistory {
    let mut history = CutHistory::new();
    history.cut(BEFORE, 18_000, false);
    (1..=repairs).for_each(|sequence| history.repaired(sequence));
    history
}

/// A retransmitted packet is acknowledged a round trip after its retransmission; it was sent `transmissions` times.
fn ack(sequence: u64, transmissions: u32) -> RepairAck {
    RepairAck { sequence, transmissions, answers_earlier: false, next_sequence: NEXT }
}

impl CutHistory {
    /// A packet that was sent twice is acknowledged, and the other copy reported.
    fn explain(&mut self, sequence: u64) {
        self.acked(&ack(sequence, 2));
        self.duplicate_reported(sequence);
    }

    fn judge_now(&mut self) -> Option<Window> {
        self.judge(NEXT, false, &TERMS)
    }
}

#[test]
fn rfc_4015_the_threshold_returns_and_the_window_follows_in_slow_start() {
    let mut history = after_cut(1);
    history.explain(1);
    assert_eq!(history.judge_now(), Some(Window { cwnd_bytes: 12_000, ssthresh_bytes: 18_000 }));
}

#[test]
fn rfc_4015_the_burst_is_at_most_the_initial_window() {
    let mut history = after_cut(1);
    history.explain(1);
    let terms = UndoTerms { acked_bytes: 9_000, ..TERMS };
    assert_eq!(history.judge(NEXT, false, &terms).expect("undone").cwnd_bytes, 9_000 + 4_404);
}

#[test]
fn only_when_all_repairs_were_needless_is_the_cut_undone_and_that_once() {
    let mut history = after_cut(3);
    for sequence in 1..=3 {
        assert_eq!(history.judge_now(), None);
        history.explain(sequence);
    }
    assert!(history.judge_now().is_some());
    assert_eq!(history.judge_now(), None, "once");
}

#[test]
fn a_repair_that_is_answered_sooner_than_any_round_trip_was_needless_rfc_3522() {
    let mut history = after_cut(1);
    history.acked(&RepairAck { answers_earlier: true, ..ack(1, 2) });
    assert!(history.judge_now().is_some());
}

#[test]
fn a_quick_answer_to_a_packet_that_left_three_times_may_answer_a_copy_and_proves_nothing() {
    let mut history = after_cut(1);
    history.acked(&RepairAck { answers_earlier: true, ..ack(1, 3) });
    assert_eq!(history.judge_now(), None);
}

#[test]
fn the_duplicate_of_a_copy_does_not_prove_that_the_repair_was_needless() {
    let mut history = after_cut(1);
    history.acked(&ack(1, 3));
    history.duplicate_reported(1);
    assert_eq!(history.judge_now(), None, "repair and copy may have arrived, and the first one not");
    history.duplicate_reported(1);
    assert!(history.judge_now().is_some(), "all three arrived");
}

#[test]
fn the_duplicate_of_a_packet_that_was_not_repaired_says_nothing_about_the_repair() {
    let mut history = after_cut(1);
    history.acked(&ack(1, 2));
    history.duplicate_reported(7);
    assert_eq!(history.judge_now(), None);
}

#[test]
fn a_repair_whose_duplicate_is_not_reported_before_later_data_is_answered_was_needed_and_the_cut_stands() {
    let mut history = after_cut(2);
    history.explain(1);
    history.acked(&ack(2, 2));
    assert_eq!(history.judge(NEXT + 1, false, &TERMS), None);
    history.duplicate_reported(2);
    assert_eq!(history.judge(NEXT + 1, false, &TERMS), None, "too late");
    assert_eq!(history.timeout_was_spurious(&TERMS), None, "the episode is over");
}

#[test]
fn while_something_lost_has_not_left_again_nothing_is_undone() {
    let mut history = after_cut(1);
    history.explain(1);
    assert_eq!(history.judge(NEXT, true, &TERMS), None);
    assert!(history.judge(NEXT, false, &TERMS).is_some());
}

#[test]
fn a_repair_that_is_repaired_again_needs_one_more_duplicate() {
    let mut history = after_cut(1);
    history.repaired(1);
    history.acked(&ack(1, 3));
    history.duplicate_reported(1);
    assert_eq!(history.judge_now(), None);
    history.duplicate_reported(1);
    assert!(history.judge_now().is_some());
}

#[test]
fn a_mark_of_congestion_lets_the_cut_stand() {
    let mut history = after_cut(1);
    history.stands();
    history.explain(1);
    assert_eq!(history.judge_now(), None);
    assert_eq!(history.timeout_was_spurious(&TERMS), None);
}

#[test]
fn a_report_without_a_repair_undoes_nothing() {
    for mut history in [after_cut(0), CutHistory::new()] {
        history.explain(1);
        assert_eq!(history.judge_now(), None);
    }
    assert_eq!(CutHistory::new().timeout_was_spurious(&TERMS), None);
}

#[test]
fn a_spurious_timeout_is_undone_at_once() {
    assert!(after_cut(4).timeout_was_spurious(&TERMS).is_some());
}

#[test]
fn a_second_cut_in_the_same_recovery_restores_what_was_before_the_first() {
    let mut history = after_cut(1);
    history.cut(Window { cwnd_bytes: 10_000, ssthresh_bytes: 10_000 }, 9_000, true);
    history.repaired(2);
    history.explain(1);
    assert_eq!(history.judge_now(), None);
    history.explain(2);
    assert_eq!(history.judge_now().expect("undone").ssthresh_bytes, 18_000);
}

#[test]
fn a_second_cut_in_another_recovery_lets_the_first_one_stand() {
    let mut history = after_cut(1);
    history.cut(Window { cwnd_bytes: 10_000, ssthresh_bytes: 8_000 }, 9_000, false);
    history.repaired(2);
    history.explain(2);
    assert_eq!(history.judge_now().expect("undone").ssthresh_bytes, 10_000, "the window before the second cut");
}

#[test]
fn more_repairs_than_are_remembered_let_the_cut_stand() {
    let mut history = after_cut(REPAIRS_MAX as u64 + 1);
    (1..=REPAIRS_MAX as u64 + 1).for_each(|sequence| history.explain(sequence));
    assert_eq!(history.judge(0, false, &TERMS), None);
    let mut history = after_cut(REPAIRS_MAX as u64);
    (1..=REPAIRS_MAX as u64).for_each(|sequence| history.explain(sequence));
    assert!(history.judge(0, false, &TERMS).is_some());
}

#[test]
fn a_peer_that_calls_every_repair_needless_has_every_second_cut_undone() {
    let mut history = CutHistory::new();
    let undone = (0..1_000).filter(|_| {
        history.cut(BEFORE, 18_000, false);
        history.repaired(1);
        history.explain(1);
        history.judge_now().is_some()
    });
    assert_eq!(undone.count(), 501);
}

proptest! {
    #[test]
    fn no_window_is_restored_above_what_it_was_nor_more_often_than_the_credit_allows(
        steps in prop::collection::vec((0..8_u8, 0..50_000_u64, 0..50_000_u64), 1..200),
    ) {
        let mut history = CutHistory::new();
        let (mut cuts, mut undone) = (0_u64, 0_u64);
        let mut before = BEFORE;
        for (what, one, two) in steps {
            let terms = UndoTerms { in_flight_bytes: one, acked_bytes: two, ..TERMS };
            let sequence = one % 4;
            let restored = match what {
                0 => {
                    before = Window { cwnd_bytes: one, ssthresh_bytes: two };
                    cuts += 1;
                    history.cut(before, two, false);
                    None
                }
                1 => {
                    history.repaired(sequence);
                    None
                }
                2 => {
                    history.stands();
                    None
                }
                3 => history.timeout_was_spurious(&terms),
                4 => {
                    history.duplicate_reported(sequence);
                    None
                }
                5 | 6 => {
                    history.explain(sequence);
                    None
                }
                _ => history.judge(two % 200, false, &terms),
            };
            if let Some(window) = restored {
                undone += 1;
                prop_assert!(window.cwnd_bytes <= before.cwnd_bytes.max(terms.window.cwnd_bytes));
                let highest = before.ssthresh_bytes.max(before.cwnd_bytes);
                prop_assert!(window.ssthresh_bytes <= highest.max(terms.window.ssthresh_bytes));
                prop_assert!(window.cwnd_bytes >= terms.window.cwnd_bytes);
            }
            prop_assert!(2 * undone <= cuts + u64::from(CREDITS_MAX));
        }
    }
}
