//! Tail loss probes (R15 §3.4.2, RFC 8985 §7), RACK (RFC 8985 §6), early retransmit (RFC 5827) and FreeBSD's early fast retransmit.

use festina_recovery::profile::Rules;
use festina_recovery::thin::ThinDetection;

use super::*;

fn rig(profile: Profile) -> Rig {
    Rig::new(profile).measured(ms(100))
}

const PROBE: Option<TimerExpiry> = Some(TimerExpiry::Probe);

#[test]
fn with_two_chunks_outstanding_one_report_is_enough_and_with_three_it_takes_two_rfc_5827_section_3_2() {
    for (outstanding, reports) in [(2, 1), (3, 2), (4, 3)] {
        let mut rig = rig(Profile::EarlyRetransmit);
        for _ in 0..outstanding {
            rig.flight(1, 100);
            rig.wait(10);
        }
        for end in 2..=reports {
            rig.sack(0, &[(2, end)]);
            assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new(), "{outstanding} outstanding");
        }
        rig.sack(0, &[(2, reports + 1)]);
        assert_eq!(rig.tsns(), [[1]], "{outstanding} outstanding");
    }
}

#[test]
fn early_retransmit_believes_one_sack_that_reports_all_others_at_once() {
    let mut rig = rig(Profile::EarlyRetransmit);
    rig.flight(3, FULL);
    rig.sack(0, &[(2, 3)]);
    assert_eq!(rig.tsns(), [[1]]);
}

#[test]
fn early_retransmit_waits_while_new_data_may_leave_rfc_5827_section_3_1() {
    let mut rig = rig(Profile::EarlyRetransmit);
    rig.flight(2, FULL);
    rig.send_bytes(FULL);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(rig.tsns(), [[3]]);
}

#[test]
fn early_retransmit_repairs_a_chunk_once_and_leaves_the_rest_to_the_timeout() {
    let mut rig = rig(Profile::EarlyRetransmit);
    rig.flight(2, FULL);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(rig.tsns(), [[1]]);
    assert_eq!(rig.flight(1, FULL), [[3]]);
    rig.sack(0, &[(2, 3)]);
    assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new(), "both others are reported, and the repair is on its way");
}

#[test]
fn the_draft_probes_with_the_last_chunk_after_two_round_trips_r15_equation_1() {
    let mut rig = rig(Profile::Tlp);
    rig.flight(1, 100);
    assert_eq!(rig.deadline(), Some(rig.now + ms(350)), "one packet: the SACK may be delayed");
    rig.wait(10);
    rig.flight(1, 100);
    assert_eq!(rig.expire(), (ms(200), PROBE));
    assert_eq!(rig.tsns(), [[2]]);
    assert_eq!(rig.causes(), [(2, RetransmissionCause::Probe)]);
    assert_eq!(rig.expire().1, PROBE, "a second one");
    assert_eq!(rig.tsns(), [[2]]);
    assert!(matches!(rig.expire().1, Some(TimerExpiry::Timeout { .. })), "and no third");
    assert_eq!(rig.tsns(), [[1, 2]]);
}

#[test]
fn a_tail_loss_probe_carries_no_new_data_beyond_cwnd_section_6_1_b() {
    let mut rig = rig(Profile::Tlp);
    rig.flight(4, FULL);
    rig.send_bytes(300);
    assert_eq!(rig.expire(), (ms(200), PROBE));
    assert_eq!(rig.tsns(), [[4]]);
}

#[test]
fn a_tail_loss_probe_carries_new_data_that_only_max_burst_held_back_rfc_8985_section_7_3() {
    let mut rig = rig(Profile::Tlp);
    rig.flight(1, 100);
    rig.path.limits.burst.packets_left = 1;
    rig.flight(1, 100);
    rig.path.limits.burst.packets_left = 0;
    rig.try_send(Message::new(vec![7; 100])).expect("there is room");
    rig.path.limits.burst.packets_left = 0;
    assert!(!rig.can_send());
    assert_eq!(rig.expire(), (ms(200), PROBE));
    assert_eq!(rig.tsns(), [[3]]);
    assert_eq!(rig.stats().sent.retransmitted.total(), 0);
}

#[test]
fn tlpr_takes_off_the_age_of_the_earliest_outstanding_chunk_r15_section_3_4_2() {
    let deadline_after = |profile| {
        let mut rig = rig(profile);
        rig.flight(1, 100);
        rig.wait(60);
        rig.flight(2, 1_000);
        rig.wait(40);
        rig.sack(1, &[]);
        rig.deadline().map(|deadline| deadline - rig.now)
    };
    assert_eq!(deadline_after(Profile::Tlp), Some(ms(200)));
    assert_eq!(deadline_after(Profile::Tlpr), Some(ms(160)));
}

#[test]
fn a_probe_that_repaired_a_loss_halves_the_window_rfc_8985_section_7_4() {
    for original_arrived in [false, true] {
        let mut rig = rig(Profile::Rack);
        rig.grow(8);
        settle_all_but_the_last(&mut rig);
        let cwnd = rig.stats().path.cwnd_bytes;
        assert_eq!(rig.expire().1, PROBE);
        let probe = rig.tsns()[0][0];
        rig.wait(100);
        let duplicates = if original_arrived { &[probe][..] } else { &[] };
        rig.sack_full(probe, WINDOW, &[], duplicates);
        rig.flight(1, 100);
        rig.wait(100);
        rig.sack(probe + 1, &[]);
        assert_eq!(rig.stats().path.cwnd_bytes < cwnd, !original_arrived);
    }
}

/// Everything that is queued leaves and is acknowledged, but for the last chunk.
fn settle_all_but_the_last(rig: &mut Rig) {
    while rig.stats().path.send_buffer_bytes > FULL as u64 {
        rig.wait(100);
        let last = Tsn::wrap(rig.sender.flight.ledger.next_tsn() - 1).0;
        rig.sack(last - 1, &[]);
        rig.packets();
    }
}

#[test]
fn rack_takes_a_chunk_for_lost_a_quarter_of_a_round_trip_after_it_was_overtaken_rfc_8985_section_6_2() {
    let mut rig = rig(Profile::Rack);
    rig.flight(1, 100);
    rig.wait(20);
    rig.flight(1, 100);
    rig.wait(100);
    rig.sack(0, &[(2, 2)]);
    assert!(!rig.can_send(), "one report proves nothing yet");
    assert_eq!(rig.expire().0, ms(5), "sent at 0, round trip 100, window 25");
    assert_eq!(rig.tsns(), [[1]]);
    let stats = rig.stats();
    assert_eq!((stats.sent.retransmitted.fast, stats.sent.chunks_lost, stats.sent.timeouts), (1, 1, 0));
}

#[test]
fn rack_s_timer_stops_when_the_stream_turns_thin_and_its_rules_know_nothing_of_rack() {
    let timers = |in_flight_below| {
        let thin_detection = ThinDetection::Static { in_flight_below };
        let mechanisms = Mechanisms { thin_detection, thin: Rules::RFC9260, ..Profile::Rack.mechanisms() };
        let mut rig = Rig::with(&config(mechanisms)).measured(ms(100));
        rig.flight(1, 100);
        rig.wait(20);
        rig.flight(1, 100);
        rig.flight(1, 100);
        rig.wait(100);
        rig.sack(0, &[(2, 2)]);
        let deadline = rig.deadline().expect("two chunks are outstanding") - rig.now;
        (rig.path.repair.is_thin(), deadline)
    };
    assert_eq!(timers(2), (false, ms(5)));
    assert_eq!(timers(3), (true, ms(880)), "T3-rtx");
}

#[test]
fn packets_that_gap_ack_blocks_report_are_in_flight_no_more_however_many_blocks_there_are() {
    let mechanisms =
        Mechanisms { thin_detection: ThinDetection::Static { in_flight_below: 8 }, ..Profile::Rack.mechanisms() };
    // With more, the last would lie beyond the TSNs sent.
    for blocks in 1..=7 {
        let mut rig = Rig::with(&config(mechanisms)).measured(ms(100));
        (0..7 + blocks).for_each(|_| {
            rig.flight(1, 100);
        });
        assert!(!rig.path.repair.is_thin(), "{} packets are in flight", 7 + blocks);
        rig.wait(100);
        let gaps: Vec<_> = (1..=blocks).map(|block| (2 * block, 2 * block)).collect();
        rig.sack(0, &gaps);
        assert!(rig.path.repair.is_thin(), "seven are left of {gaps:?}");
    }
}

#[test]
fn the_tail_of_a_dense_stream_asks_for_an_answer_at_once_and_is_probed_two_round_trips_later() {
    let festina = Mechanisms { thin_detection: ThinDetection::Never, ..Profile::Festina.mechanisms() };
    let mut rig = Rig::with(&config(festina)).measured(ms(100));
    for _ in 0..3 {
        rig.send_bytes(FULL);
    }
    let bits: Vec<String> = rig.packets().into_iter().flatten().map(|sent| sent.bits).collect();
    assert_eq!(bits, ["BE", "BE", "IBE"]);
    rig.wait(100);
    rig.sack(2, &[]);
    assert_eq!(rig.expire(), (ms(200), PROBE), "a lone chunk, whose SACK is not delayed");
    assert_eq!(rig.tsns(), [[3]]);
}

#[test]
fn a_loss_is_answered_for_once_if_a_fast_recovery_follows_the_probe() {
    let mut rig = rig(Profile::Tlp);
    let cumulative = rig.grow(40);
    let last = Tsn::wrap(rig.sender.flight.ledger.next_tsn() - 1).0;
    assert_eq!(rig.expire().1, PROBE);
    assert_eq!(rig.tsns(), [[last]]);
    let cwnd = rig.stats().path.cwnd_bytes;
    (2..=4).for_each(|end| {
        rig.sack(cumulative, &[(2, end)]);
    });
    assert_eq!(rig.packet().len(), 1, "the fast retransmission, and nothing new");
    rig.sack(last, &[]);
    rig.packets();
    rig.sack(last + 1, &[]);
    let after = rig.stats().path.cwnd_bytes;
    assert!(after < cwnd && after >= cwnd / 2, "{cwnd} and {after}");
}

#[test]
fn an_answer_too_soon_for_a_retransmission_condemns_nothing_that_left_before_that_rfc_8985_section_6_2_step_2() {
    let mut rig = rig(Profile::Rack);
    rig.flight(1, 100);
    rig.wait(20);
    rig.flight(1, 100);
    rig.wait(90);
    rig.flight(1, 100);
    rig.wait(10);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(rig.expire().0, ms(5));
    assert_eq!(rig.tsns(), [[1]]);
    rig.wait(2);
    rig.sack(2, &[]);
    assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new(), "chunk 3 left 17 ms ago");
}

/// The first of two chunks is lost, which takes RACK so long to find after the answer to the second. Then both are acknowledged.
fn rack_repairs(rig: &mut Rig, duplicates: &[u32]) -> Duration {
    let first = Tsn::wrap(rig.sender.flight.ledger.next_tsn()).0;
    rig.flight(1, 100);
    rig.wait(20);
    rig.flight(1, 100);
    rig.wait(100);
    rig.sack(first - 1, &[(2, 2)]);
    let waited = rig.expire().0;
    assert_eq!(rig.tsns(), [[first]]);
    rig.wait(100);
    rig.sack_full(first + 1, WINDOW, &[], duplicates);
    waited
}

#[test]
fn a_duplicate_report_widens_the_reordering_window_for_sixteen_recoveries_rfc_8985_section_6_2_step_4() {
    let mut rig = rig(Profile::Rack);
    assert_eq!(rack_repairs(&mut rig, &[1]), ms(5));
    for _ in 0..16 {
        assert_eq!(rack_repairs(&mut rig, &[]), ms(30));
    }
    assert_eq!(rack_repairs(&mut rig, &[]), ms(5));
}

#[test]
fn rfc_8985_probes_again_once_a_round_trip_was_measured_section_7_3() {
    let mut rig = rig(Profile::Rack);
    let mut expired = Vec::new();
    for tsn in 1..=3 {
        rig.flight(1, 100);
        if tsn != 2 {
            expired.push(rig.expire().1);
            rig.packets();
        } else {
            assert_eq!(rig.deadline(), Some(rig.now + ms(1_000)), "probed chunks give no RTT sample");
        }
        rig.wait(100);
        rig.sack(tsn, &[]);
    }
    assert_eq!(expired, [PROBE, PROBE]);
}

#[test]
fn the_draft_takes_a_sack_without_news_for_no_answer_to_its_probes() {
    let mut rig = rig(Profile::Tlp);
    rig.flight(1, 100);
    for _ in 0..2 {
        assert_eq!(rig.expire().1, PROBE);
        rig.packets();
        rig.sack(0, &[]);
    }
    assert!(matches!(rig.expire().1, Some(TimerExpiry::Timeout { .. })));
}

#[test]
fn after_a_timeout_there_is_no_tail_loss_probe_until_a_round_trip_was_measured_and_none_is_waited_for() {
    let mut rig = rig(Profile::Tlp);
    rig.flight(2, FULL);
    for expected in [[[2]], [[2]], [[1]]] {
        rig.expire();
        assert_eq!(rig.tsns(), expected);
    }
    rig.wait(100);
    rig.sack(1, &[]);
    assert_eq!(rig.tsns(), [[2]]);
    assert_eq!(rig.deadline(), Some(rig.now + ms(2_000)));
    rig.wait(100);
    rig.sack(2, &[]);
    rig.flight(1, 100);
    let cwnd = rig.stats().path.cwnd_bytes;
    rig.wait(100);
    rig.sack(3, &[]);
    assert_eq!(rig.stats().path.cwnd_bytes, cwnd, "the timeout has answered for the loss");
}

#[test]
fn rack_notices_that_a_retransmission_was_lost_which_the_standard_leaves_to_the_timeout() {
    let resent = |profile| {
        let mut rig = rig(profile);
        for _ in 0..30 {
            rig.flight(1, 100);
            let now_ms = (rig.now - Instant::from_secs(100)).as_millis();
            if let Some(arrived) = u16::try_from(now_ms / 20).expect("short").checked_sub(4).filter(|&last| last > 1) {
                rig.sack(0, &[(2, arrived)]);
            }
            rig.packets();
            rig.wait(20);
            rig.handle_timeout();
            rig.packets();
        }
        rig.stats().sent.retransmitted.fast
    };
    assert_eq!(resent(Profile::Rfc9260), 1);
    assert!(resent(Profile::Rack) >= 3, "{}", resent(Profile::Rack));
}

#[test]
fn rfc8985_6_2_after_a_timeout_rack_waits_for_no_reordering_either() {
    let mut rig = rig(Profile::Rack);
    rig.flight(1, FULL);
    rig.wait(100);
    rig.sack(1, &[]);
    rig.flight(4, FULL);
    while rig.expire().1 != Some(TimerExpiry::Timeout { counts: true }) {
        rig.packets();
    }
    assert_eq!(rig.tsns(), [[2]]);
    rig.wait(100);
    rig.sack(2, &[]);
    assert_eq!(rig.tsns(), [[3], [4]]);
    rig.wait(100);
    rig.sack(2, &[(2, 2)]);
    assert_eq!(rig.tsns(), [[3], [5]], "the retransmission of 4 was sent later, and 100 ms have passed");
}

#[test]
fn early_fast_retransmit_sends_again_what_waited_for_its_timer_and_takes_a_packet_off_the_window() {
    let mut rig = rig(Profile::FreebsdEfr);
    rig.flight(1, 100);
    rig.wait(50);
    rig.flight(1, 100);
    rig.wait(60);
    rig.sack(0, &[(2, 2)]);
    let cwnd = rig.stats().path.cwnd_bytes;
    assert_eq!(rig.expire(), (ms(250), None), "the floor, from the last SACK on");
    assert_eq!(rig.tsns(), [[1]]);
    let stats = rig.stats();
    assert_eq!(stats.path.cwnd_bytes, cwnd - CHUNKS_BYTES as u64);
    assert_eq!((stats.sent.retransmitted.fast, stats.sent.timeouts), (1, 0));
}

#[test]
fn a_timer_that_only_thin_streams_have_stops_when_the_stream_ceases_to_be_thin() {
    let mut mechanisms = Profile::FreebsdEfr.mechanisms();
    mechanisms.thin_detection = ThinDetection::Static { in_flight_below: 4 };
    mechanisms.normal = Rules::RFC9260;
    let mut rig = Rig::with(&config(mechanisms)).measured(ms(100));
    rig.flight(3, FULL);
    assert_eq!(rig.deadline(), Some(rig.now + ms(250)));
    rig.flight(1, FULL);
    assert_eq!(rig.deadline(), Some(rig.now + ms(1_000)));
}

#[test]
fn a_tail_loss_probe_that_waits_for_cookie_ack_gives_the_retransmission_timer_its_full_time_again() {
    let mut rig = Rig::new(Profile::Rack);
    rig.flight(1, 100);
    assert_eq!(rig.expire(), (ms(1_000), PROBE), "without a measurement it replaces the timeout");
    assert_eq!(rig.deadline(), Some(rig.now + ms(1_000)), "though it has not left");
}
