//! Fast retransmit and fast recovery (RFC 9260 §7.2.4), reneging (§6.2.1), and the thin-stream variants.

use festina_recovery::profile::{Bundling, Rules};

use super::*;
use crate::event::RetransmissionCause;

/// Four packets are on the way and the window allows no more.
fn full_flight(profile: Profile) -> Rig {
    let mut rig = Rig::new(profile).measured(ms(100));
    assert_eq!(rig.flight(4, FULL).len(), 4);
    rig
}

fn with_bundling(bundling: Bundling) -> Rig {
    let mut mechanisms = Profile::Rfc9260.mechanisms();
    mechanisms.normal = Rules { bundling, ..Rules::RFC9260 };
    Rig::with(&config(mechanisms)).measured(ms(100))
}

#[test]
fn the_third_miss_indication_sends_a_chunk_again_section_7_2_4() {
    let mut rig = full_flight(Profile::Rfc9260);
    rig.sack(0, &[(2, 2)]);
    rig.sack(0, &[(2, 3)]);
    assert!(!rig.can_send());
    rig.sack(0, &[(2, 4)]);
    assert_eq!(rig.tsns(), [[1]]);
    let stats = rig.stats();
    assert_eq!((stats.sent.retransmitted.fast, stats.sent.chunks_lost), (1, 1));
    assert_eq!(stats.path.ssthresh_bytes, 4 * CHUNKS_BYTES as u64);
    let cause = RetransmissionCause::Fast;
    let told = Event::Protocol(ProtocolEvent::Retransmitted {
        id: MessageId(0),
        tsn: 1,
        cause,
        path: PathId::PRIMARY,
        at: rig.now,
    });
    assert!(rig.events().contains(&told));
}

#[test]
fn sacks_that_acknowledge_nothing_new_are_no_indications_section_7_2_4() {
    let mut rig = full_flight(Profile::Rfc9260);
    for _ in 0..10 {
        rig.sack(0, &[(2, 4)]);
    }
    assert_eq!(rig.stats().sent.chunks_lost, 0);
}

#[test]
fn only_chunks_below_the_highest_newly_acknowledged_get_indications_section_7_2_4() {
    let mut rig = Rig::standard();
    rig.flight(8, 100);
    rig.sack(0, &[(6, 6)]);
    rig.sack(0, &[(3, 3), (6, 6)]);
    rig.sack(0, &[(2, 3), (6, 6)]);
    let misses: Vec<_> = rig.sender.flight.ledger.iter().map(|chunk| chunk.miss_indications).collect();
    assert_eq!(misses, [3, 0, 0, 1, 1, 0, 0, 0], "chunk 1 thrice, chunks 4 and 5 once");
    assert_eq!(rig.tsns(), [[1]]);
}

#[test]
fn a_fast_retransmission_ignores_cwnd_for_one_packet_section_7_2_4() {
    let mut rig = Rig::standard();
    let cumulative = rig.grow(20);
    (4..=6).for_each(|end| {
        rig.sack(cumulative, &[(4, end)]);
    });
    let path = rig.stats().path;
    assert!(path.in_flight_bytes >= path.cwnd_bytes, "the window was halved below the bytes in flight");
    assert_eq!(rig.tsns(), [[cumulative + 1]], "the others wait for the window");
    assert_eq!(rig.stats().sent.chunks_lost, 3);
}

#[test]
fn the_window_is_cut_once_per_fast_recovery_section_7_2_4() {
    let mut rig = Rig::standard();
    let cumulative = rig.grow(20);
    (2..=4).for_each(|end| {
        rig.sack(cumulative, &[(2, end)]);
    });
    let cut = rig.stats().path;
    rig.packets();
    (7..=9).for_each(|end| {
        rig.sack(cumulative, &[(2, 4), (7, end)]);
    });
    assert_eq!(rig.stats().sent.chunks_lost, 3, "a second loss in the same window");
    let path = rig.stats().path;
    assert_eq!((path.cwnd_bytes, path.ssthresh_bytes), (cut.cwnd_bytes, cut.ssthresh_bytes));
}

#[test]
fn fast_recovery_ends_at_its_exit_point_section_7_2_4() {
    let mut rig = full_flight(Profile::Rfc9260);
    (2..=4).for_each(|end| {
        rig.sack(0, &[(2, end)]);
    });
    rig.packets();
    assert!(rig.path.repair.in_fast_recovery());
    assert_eq!(rig.path.repair.cut_tsn(), (1 << 32) + 4);
    rig.sack(3, &[]);
    assert!(rig.path.repair.in_fast_recovery());
    rig.sack(4, &[]);
    assert!(!rig.path.repair.in_fast_recovery());
}

#[test]
fn a_chunk_is_fast_retransmitted_once_section_7_2_4_rule_5() {
    let mut rig = Rig::standard();
    rig.flight(12, 1_000);
    (2..=4).for_each(|end| {
        rig.sack(0, &[(2, end)]);
        rig.packets();
    });
    assert_eq!(rig.stats().sent.retransmitted.fast, 1);
    (5..=8).for_each(|end| {
        rig.sack(0, &[(2, end)]);
        rig.packets();
    });
    assert_eq!(rig.stats().sent.retransmitted.fast, 1);
}

#[test]
fn lksctp_waits_for_four_reports_and_does_it_again_after_four_more() {
    let mut rig = Rig::new(Profile::Lksctp2006);
    rig.flight(30, 400);
    let resent = |rig: &Rig| rig.stats().sent.retransmitted.fast;
    let mut counts = Vec::new();
    for end in 2..=9 {
        rig.sack(0, &[(2, end)]);
        rig.packets();
        counts.push(resent(&rig));
    }
    assert_eq!(counts, [0, 0, 0, 1, 1, 1, 1, 2]);
}

#[test]
fn a_thin_stream_believes_the_first_indication_p10_section_5_4() {
    for rig in [Rig::new(Profile::Petlund2010), Rig::probing()] {
        let mut rig = rig.measured(ms(100));
        rig.flight(1, 100);
        rig.wait(30);
        rig.flight(1, 100);
        rig.wait(80);
        rig.sack(0, &[(2, 2)]);
        assert_eq!(rig.tsns(), [[1]]);
    }
}

#[test]
fn a_thick_stream_of_the_same_profile_waits_for_three() {
    let mut rig = Rig::new(Profile::Petlund2010);
    let cumulative = rig.grow(10);
    let mut lost = Vec::new();
    for end in 2..=4 {
        rig.sack(cumulative, &[(2, end)]);
        lost.push(rig.stats().sent.chunks_lost);
    }
    assert_eq!(lost, [0, 0, 1]);
}

#[test]
fn a_chunk_that_the_peer_took_back_is_outstanding_again_section_6_2_1_d_iii() {
    let mut rig = full_flight(Profile::Rfc9260);
    rig.sack(0, &[(2, 4)]);
    assert_eq!(rig.stats().path.in_flight_bytes, CHUNKS_BYTES as u64);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(rig.stats().path.in_flight_bytes, 3 * CHUNKS_BYTES as u64);
    let misses: Vec<_> = rig.sender.flight.ledger.iter().map(|chunk| chunk.miss_indications).collect();
    assert_eq!(misses, [1, 0, 1, 1]);
    rig.sack(2, &[]);
    assert!(rig.deadline().is_some(), "T3-rtx runs (rule R4)");
    rig.expire();
    assert_eq!(rig.tsns(), [[3]]);
    rig.sack(3, &[]);
    assert_eq!(rig.tsns(), [[4]]);
    rig.sack(4, &[]);
    assert!(rig.sender.flight.is_drained());
}

#[test]
fn aggressive_bundling_fills_a_fast_retransmission_p06_section_4_4() {
    let bundling = Bundling { into_fast_retransmit: true, ..Bundling::RFC9260 };
    for (bundling, expected) in [(bundling, vec![1, 5, 6]), (Bundling::RFC9260, vec![1])] {
        let mut rig = with_bundling(bundling);
        for _ in 0..6 {
            rig.flight(1, 100);
            rig.wait(10);
        }
        (2..=4).for_each(|end| {
            rig.sack(0, &[(2, end)]);
        });
        assert_eq!(rig.tsns(), [expected]);
    }
}

#[test]
fn aggressive_bundling_sends_outstanding_chunks_along_with_new_ones_p06_section_4_4() {
    let mut rig = with_bundling(Bundling { with_new_data: true, ..Bundling::RFC9260 });
    assert_eq!(rig.flight(1, 400), [[1]]);
    rig.wait(10);
    assert_eq!(rig.flight(1, 400), [[1, 2]]);
    rig.wait(10);
    assert_eq!(rig.flight(1, 400), [[1, 3]], "as far as the new chunk leaves room");
    rig.wait(10);
    rig.sack(2, &[]);
    assert_eq!(rig.flight(1, 1_000), [[4]]);
    let stats = rig.stats();
    assert_eq!((stats.sent.retransmitted.bundled, stats.sent.chunks), (2, 4));
    assert_eq!(stats.path.in_flight_bytes, 416 + 1_016, "a copy is not counted twice");
}

#[test]
fn the_profile_can_change_while_chunks_are_outstanding_p10_section_7_3() {
    let mut rig = Rig::standard().measured(ms(100));
    rig.flight(1, 100);
    rig.wait(30);
    rig.flight(1, 100);
    rig.sender.set_mechanisms(rig.now, &mut rig.path, &Profile::Festina.mechanisms());
    assert_eq!(rig.path.mechanisms(), &Profile::Festina.mechanisms());
    rig.wait(70);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(rig.tsns(), [[1]], "thin: the first indication counts");
}

#[test]
fn a_sack_for_older_data_does_not_condemn_the_copy_that_a_probe_sent() {
    let mut rig = Rig::probing().measured(ms(100));
    rig.flight(1, 100);
    rig.wait(60);
    rig.flight(1, 100);
    assert_eq!(rig.expire().1, Some(TimerExpiry::Probe));
    assert_eq!(rig.tsns(), [[1]]);
    rig.wait(10);
    rig.flight(1, 100);
    rig.wait(45);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new(), "chunk 2 left before the copy");
    rig.wait(55);
    rig.sack(0, &[(2, 3)]);
    assert_eq!(rig.tsns(), [[1]], "chunk 3 left after it");
}

#[test]
fn only_the_chunk_whose_timer_expired_is_resent_for_the_timeout_and_the_others_ride_along_p06_section_3_3() {
    let mut rig = Rig::standard().measured(ms(100));
    rig.flight(1, 100);
    rig.wait(400);
    rig.flight(1, 100);
    rig.wait(50);
    rig.flight(1, 100);
    rig.wait(100);
    rig.sack(0, &[(3, 3)]);
    rig.wait(100);
    rig.flight(1, 100);
    rig.expire();
    rig.events();
    assert_eq!(rig.tsns(), [[1, 2, 4]]);
    use RetransmissionCause::{Bundled, ReportedBundled, Timeout};
    assert_eq!(rig.causes(), [(1, Timeout), (2, ReportedBundled), (4, Bundled)]);
    let retransmitted = rig.stats().sent.retransmitted;
    assert_eq!((retransmitted.timeout, retransmitted.reported_bundled, retransmitted.bundled), (1, 1, 1));
}

#[test]
fn what_a_timeout_took_for_lost_but_its_packet_had_no_room_for_is_resent_for_the_timeout() {
    let mut rig = Rig::standard().measured(ms(100));
    rig.flight(1, FULL);
    rig.wait(10);
    rig.flight(1, FULL);
    rig.expire();
    assert_eq!(rig.tsns(), [[1]]);
    rig.sack(1, &[]);
    assert_eq!(rig.tsns(), [[2]]);
    assert_eq!(rig.causes(), [(1, RetransmissionCause::Timeout), (2, RetransmissionCause::Timeout)]);
}

#[test]
fn a_thin_pedersen_stream_bundles_into_fast_retransmissions_and_new_packets_p06_section_4_4() {
    let mut rig = Rig::new(Profile::Pedersen2006).measured(ms(100));
    rig.flight(1, 700);
    rig.wait(20);
    rig.flight(1, 100);
    rig.wait(20);
    assert_eq!(rig.flight(1, 700), [[2, 3]], "no room for chunk 1");
    rig.wait(60);
    rig.events();
    rig.sack(0, &[(2, 2)]);
    assert_eq!(rig.tsns(), [[1]], "no room for chunk 3");
    rig.wait(10);
    assert_eq!(rig.flight(1, 100), [[1, 4]]);
    assert_eq!(rig.causes(), [(1, RetransmissionCause::Fast), (1, RetransmissionCause::Bundled)]);
}

#[test]
fn each_enhancement_of_pedersen_is_a_switch_of_its_own_p06_table_3() {
    let timeout_after = |change: fn(&mut Rules)| {
        let mut mechanisms = Profile::Lksctp2006.mechanisms();
        mechanisms.thin_detection = Profile::Pedersen2006.mechanisms().thin_detection;
        change(&mut mechanisms.thin);
        let mut rig = Rig::with(&config(mechanisms)).measured(ms(100));
        rig.flight(1, 100);
        rig.wait(50);
        rig.flight(1, 100);
        rig.wait(50);
        rig.sack(1, &[]);
        rig.expire().0
    };
    assert_eq!(timeout_after(|_| ()), ms(1_000));
    assert_eq!(timeout_after(|rules| rules.rto_min = ms(200)), ms(200));
    let both = |rules: &mut Rules| {
        rules.rto_min = ms(200);
        rules.timer_restart = Profile::Pedersen2006.mechanisms().thin.timer_restart;
    };
    assert!(timeout_after(both) < ms(200), "the time that the chunk has waited for already is taken off");
}

#[test]
fn a_thin_festina_stream_believes_the_first_indication_until_the_path_is_seen_to_reorder() {
    let mut rig = Rig::probing().measured(ms(100));
    let indication = |rig: &mut Rig, tsn: u32| {
        rig.flight(1, 100);
        rig.wait(20);
        rig.flight(1, 100);
        rig.wait(80);
        rig.sack(tsn - 1, &[(2, 2)]);
        rig.tsns()
    };
    assert_eq!(indication(&mut rig, 1), [[1]]);
    rig.wait(10);
    rig.sack(2, &[]);
    assert_eq!(indication(&mut rig, 3), Vec::<Vec<u32>>::new(), "chunk 1 had arrived: it was merely late");
    let (waited, expiry) = rig.expire();
    assert!(waited < ms(10) && expiry == Some(TimerExpiry::Probe), "the probe timer bounds the wait: {waited:?}");
    assert_eq!(rig.tsns(), [[3]]);
}

#[test]
fn a_retransmission_that_was_needed_teaches_no_tolerance_of_reordering() {
    let mut rig = Rig::probing().measured(ms(100));
    for first in [1, 3] {
        rig.flight(1, 100);
        rig.wait(20);
        rig.flight(1, 100);
        rig.wait(80);
        rig.sack(first - 1, &[(2, 2)]);
        assert_eq!(rig.tsns(), [[first]]);
        rig.wait(100);
        rig.sack(first + 1, &[]);
    }
}

#[test]
fn a_chunk_that_left_twice_condemns_no_copy_that_left_before_its_second_time() {
    let mut rig = Rig::probing().measured(ms(100));
    rig.flight(1, 100);
    rig.wait(60);
    rig.flight(1, 100);
    rig.wait(2);
    rig.flight(1, 100);
    rig.expire();
    assert_eq!(rig.tsns(), [[1]], "a probe");
    rig.wait(45);
    rig.sack(0, &[(3, 3)]);
    assert_eq!(rig.tsns(), [[2]]);
    rig.wait(10);
    rig.sack(0, &[(2, 3)]);
    assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new(), "it was the first copy of 2, and tells nothing of the second of 1");
}

#[test]
fn what_left_in_the_packet_before_is_not_bundled_with_new_data_at_the_same_instant_p06_section_4_4() {
    let mut rig = Rig::new(Profile::Pedersen2006).measured(ms(100));
    assert_eq!(rig.flight(3, 500), [vec![1, 2], vec![3]]);
    rig.wait(1);
    assert_eq!(rig.flight(1, 100), [[1, 2, 4]]);
}
