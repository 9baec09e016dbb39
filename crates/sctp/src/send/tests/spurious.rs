//! F-RTO (RFC 4138) and undoing needless cuts (RFC 4015).

use festina_recovery::profile::{Rules, SpuriousResponse};
use festina_recovery::thin::ThinDetection;

use super::*;

const BOTH: SpuriousResponse = SpuriousResponse { f_rto: true, undo: true };

fn rig(spurious: SpuriousResponse) -> Rig {
    let mut mechanisms = Profile::Rfc9260.mechanisms();
    mechanisms.normal = Rules { spurious, ..Rules::RFC9260 };
    Rig::with(&config(mechanisms)).measured(ms(100))
}

/// Four full packets are outstanding when T3-rtx expires; much more waits.
fn after_timeout(spurious: SpuriousResponse) -> Rig {
    let mut rig = rig(spurious);
    rig.flight(10, FULL);
    rig.expire();
    assert_eq!(rig.tsns(), [[1]]);
    rig
}

#[test]
fn after_a_timeout_new_data_goes_before_what_was_taken_for_lost_rfc_4138_section_3() {
    let mut rig = after_timeout(BOTH);
    rig.sack(1, &[]);
    assert_eq!(rig.tsns(), [[5], [6]]);
    let mut standard = after_timeout(SpuriousResponse::NONE);
    standard.sack(1, &[]);
    assert_eq!(standard.tsns(), [[2], [3]]);
}

#[test]
fn two_packets_of_new_data_are_enough_to_find_out_rfc_4138_section_3() {
    let mut rig = rig(BOTH);
    rig.flight(4, FULL);
    (0..6).for_each(|_| {
        rig.send_bytes(700);
    });
    rig.expire();
    rig.packets();
    rig.sack(1, &[]);
    assert_eq!(rig.tsns(), [[5], [6]], "cwnd would take four");
    rig.sack(1, &[]);
    assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new());
}

#[test]
fn chunks_sent_once_that_are_acknowledged_next_prove_that_the_timeout_was_spurious() {
    let mut rig = after_timeout(BOTH);
    rig.sack(1, &[]);
    rig.packets();
    assert_eq!(rig.stats().path.cwnd_bytes, 2 * CHUNKS_BYTES as u64);
    rig.sack(2, &[]);
    let stats = rig.stats();
    assert!(stats.path.ssthresh_bytes > 1 << 40, "as before the timeout: {}", stats.path.ssthresh_bytes);
    assert_eq!(stats.path.rto, ms(1_000), "nothing backs off");
    assert_eq!(stats.sent.chunks_lost, 2, "those that were sent again or acknowledged meanwhile");
    assert_eq!(stats.path.in_flight_bytes, 4 * CHUNKS_BYTES as u64, "chunks 3 and 4 are on the way again");
    rig.sack(4, &[]);
    rig.packets();
    assert_eq!(rig.stats().sent.retransmitted.total(), 1);
}

#[test]
fn new_data_that_is_acknowledged_first_proves_that_the_timeout_was_right() {
    let mut rig = after_timeout(BOTH);
    rig.sack(1, &[]);
    rig.packets();
    rig.sack(1, &[(4, 4)]);
    assert_eq!(rig.tsns(), [[2], [3]]);
    assert_eq!(rig.stats().path.ssthresh_bytes, 4 * CHUNKS_BYTES as u64);
}

#[test]
fn what_was_acknowledged_before_the_timeout_proves_nothing_and_refutes_nothing() {
    let mut rig = rig(BOTH);
    rig.flight(1, FULL);
    rig.sack(1, &[]);
    rig.flight(10, FULL);
    rig.expire();
    rig.packets();
    rig.sack(2, &[]);
    assert!(rig.stats().path.ssthresh_bytes < 10_000);
    rig.packets();
    rig.sack(3, &[]);
    assert!(rig.stats().path.ssthresh_bytes > 1 << 40, "chunk 3 was sent once");
}

#[test]
fn if_the_peers_window_has_no_room_for_new_data_the_timeout_is_believed_rfc_4138_section_3() {
    let mut rig = after_timeout(BOTH);
    rig.sack_full(1, 1_000, &[], &[]);
    assert_eq!(rig.tsns(), [[2], [3]]);
}

#[test]
fn a_chunk_that_a_probe_had_sent_again_before_the_timeout_proves_nothing() {
    let mut mechanisms = Profile::Tlp.mechanisms();
    mechanisms.normal.spurious = BOTH;
    let mut rig = Rig::with(&config(mechanisms)).measured(ms(100));
    rig.flight(10, FULL);
    for expected in [[[4]], [[4]], [[1]]] {
        rig.expire();
        assert_eq!(rig.tsns(), expected);
    }
    rig.sack(1, &[]);
    assert_eq!(rig.tsns(), [[5], [6]]);
    rig.sack(1, &[(3, 3)]);
    assert!(rig.stats().path.ssthresh_bytes < 10_000, "the copy of chunk 4 may have arrived");
    rig.sack(2, &[(2, 2)]);
    assert!(rig.stats().path.ssthresh_bytes > 1 << 40, "chunk 2 was sent once");
}

#[test]
fn a_second_timeout_is_not_doubted() {
    let mut rig = after_timeout(BOTH);
    rig.expire();
    assert_eq!(rig.tsns(), [[1]]);
    rig.sack(1, &[]);
    assert_eq!(rig.tsns(), [[2], [3]]);
}

#[test]
fn a_stream_that_ceases_to_be_thin_meanwhile_and_then_has_no_f_rto_sends_what_is_lost() {
    let mut mechanisms = Profile::Rfc9260.mechanisms();
    mechanisms.thin_detection = ThinDetection::DynamicRate { pttfr: 3 };
    mechanisms.thin = Rules { spurious: BOTH, ..Rules::RFC9260 };
    let mut rig = Rig::with(&config(mechanisms)).measured(ms(10));
    rig.flight(1, FULL);
    rig.sack(1, &[]);
    for _ in 0..4 {
        rig.wait(20);
        rig.flight(1, FULL);
    }
    rig.expire();
    assert_eq!(rig.tsns(), [[2]]);
    (0..40).for_each(|_| rig.sender.handle_round_trip(rig.now, &mut rig.path, ms(10_000), &mut rig.events));
    assert!(!rig.stats().path.thin);
    rig.sack(2, &[]);
    assert_eq!(rig.tsns(), [[3], [4]]);
}

#[test]
fn a_cut_is_undone_when_all_that_was_sent_again_is_reported_as_duplicate_rfc_4015() {
    for (spurious, restored) in [(BOTH, true), (SpuriousResponse::NONE, false)] {
        let mut rig = rig(spurious);
        let cumulative = rig.grow(20);
        (2..=4).for_each(|end| {
            rig.sack(cumulative, &[(2, end)]);
        });
        rig.packets();
        let cut = rig.stats().path;
        rig.sack(cumulative + 4, &[]);
        rig.sack_full(cumulative + 5, WINDOW, &[], &[cumulative + 1]);
        assert_eq!(rig.stats().path.ssthresh_bytes > cut.ssthresh_bytes, restored);
        assert_eq!(!rig.path.repair.in_fast_recovery(), restored);
    }
}

#[test]
fn the_duplicate_of_a_tail_probe_does_not_undo_the_cut_of_a_loss_that_was_one() {
    let mut mechanisms = Profile::Tlp.mechanisms();
    mechanisms.normal.spurious = BOTH;
    let mut rig = Rig::with(&config(mechanisms)).measured(ms(100));
    let cumulative = rig.grow(20);
    assert_eq!(rig.expire().1, Some(TimerExpiry::Probe));
    let probed = rig.tsns()[0][0];
    lose_first(&mut rig, cumulative, &[cumulative + 1]);
    let cut = rig.stats().path.ssthresh_bytes;
    rig.wait(100);
    rig.sack_full(probed, WINDOW, &[], &[probed]);
    assert_eq!(rig.stats().path.ssthresh_bytes, cut, "the probe was needless, the repair was not");
    assert_eq!(rig.stats().sent.spurious, 1);
}

#[test]
fn the_duplicates_of_companions_do_not_undo_the_cut_of_a_loss_that_was_one() {
    let (mut rig, cut) = repaired_with_bundled_chunks();
    rig.sack_full(10, WINDOW, &[], &[5, 6, 7, 8, 9, 10]);
    assert_eq!(rig.stats().path.ssthresh_bytes, cut);
    assert_eq!(rig.stats().sent.spurious, 6);
}

#[test]
fn companions_whose_duplicates_are_not_reported_do_not_keep_a_needless_repair_from_being_undone() {
    let (mut rig, cut) = repaired_with_bundled_chunks();
    rig.sack(10, &[]);
    rig.sack_full(10, WINDOW, &[], &[1]);
    assert!(rig.stats().path.ssthresh_bytes > cut);
}

#[test]
fn a_timeout_during_fast_recovery_does_not_change_what_is_restored() {
    let mut rig = rig(SpuriousResponse { f_rto: false, undo: true });
    ten_small_packets(&mut rig);
    lose_first(&mut rig, 0, &[1]);
    rig.expire();
    assert_eq!(rig.tsns(), [[1, 5, 6, 7, 8, 9, 10]]);
    assert_eq!(rig.stats().path.cwnd_bytes, CHUNKS_BYTES as u64);
    rig.wait(100);
    rig.sack(10, &[]);
    rig.sack_full(10, WINDOW, &[], &[1, 1, 5, 6, 7, 8, 9, 10]);
    let restored = rig.stats().path;
    assert!(restored.ssthresh_bytes > 1 << 40, "the value before the first cut: {}", restored.ssthresh_bytes);
}

#[test]
fn a_repair_that_is_answered_sooner_than_any_round_trip_is_undone_without_a_duplicate_report_rfc_3522() {
    for (answered_after, undone) in [(20, true), (100, false)] {
        let mut rig = rig(BOTH);
        ten_small_packets(&mut rig);
        lose_first(&mut rig, 0, &[1]);
        let cut = rig.stats().path.ssthresh_bytes;
        rig.wait(answered_after);
        rig.sack(5, &[]);
        assert_eq!(rig.stats().path.ssthresh_bytes > cut, undone, "answered after {answered_after} ms");
    }
}

#[test]
fn a_duplicate_that_is_reported_when_later_data_is_answered_does_not_undo_the_cut() {
    for (later_data, undone) in [(false, true), (true, false)] {
        let mut rig = rig(BOTH);
        ten_small_packets(&mut rig);
        lose_first(&mut rig, 0, &[1]);
        let cut = rig.stats().path.ssthresh_bytes;
        rig.wait(100);
        rig.sack(10, &[]);
        if later_data {
            rig.flight(1, 100);
            rig.wait(100);
            rig.sack(11, &[]);
        }
        rig.sack_full(if later_data { 11 } else { 10 }, WINDOW, &[], &[1]);
        assert_eq!(rig.stats().path.ssthresh_bytes > cut, undone);
    }
}

/// A round trip ago chunk 1 was repaired, and six others were bundled with it. The second value is ssthresh after the cut.
fn repaired_with_bundled_chunks() -> (Rig, u64) {
    let mut mechanisms = Profile::Rfc9260.mechanisms();
    mechanisms.normal.spurious = BOTH;
    mechanisms.normal.bundling.into_fast_retransmit = true;
    let mut rig = Rig::with(&config(mechanisms)).measured(ms(100));
    ten_small_packets(&mut rig);
    lose_first(&mut rig, 0, &[1, 5, 6, 7, 8, 9, 10]);
    let cut = rig.stats().path.ssthresh_bytes;
    rig.wait(100);
    (rig, cut)
}

/// The chunks 1 to 10 leave in packets of their own, 100 ms before now.
fn ten_small_packets(rig: &mut Rig) {
    (0..10).for_each(|_| {
        rig.flight(1, 100);
    });
    rig.wait(100);
}

/// Three SACKs report the chunk above `cumulative` missing; the `expected` chunks are retransmitted.
fn lose_first(rig: &mut Rig, cumulative: u32, expected: &[u32]) {
    (2..=4).for_each(|end| {
        rig.sack(cumulative, &[(2, end)]);
    });
    assert_eq!(rig.tsns()[0], expected);
    assert!(rig.stats().path.ssthresh_bytes < 1 << 40, "the window is cut");
}
