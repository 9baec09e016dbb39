use proptest::prelude::*;

use super::*;

const SRTT: Option<Duration> = Some(Duration::from_millis(100));

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn first(sequence: u64, sent_ms: u64) -> Transmission {
    Transmission { sequence, sent: at(sent_ms), retransmitted: false }
}

fn again(sequence: u64, sent_ms: u64) -> Transmission {
    Transmission { retransmitted: true, ..first(sequence, sent_ms) }
}

/// A path on which packet 1, sent at 0, was acknowledged after 100 ms.
fn rack() -> Rack {
    let mut rack = Rack::new();
    rack.acked(at(100), &first(1, 0), None);
    rack
}

fn summary(duplicate_reported: bool, earliest_outstanding: u64, recovery_ended: bool) -> AckSummary {
    AckSummary { duplicate_reported, earliest_outstanding, next_sequence: earliest_outstanding + 10, recovery_ended }
}

#[test]
fn nothing_is_judged_before_something_sent_later_has_arrived() {
    assert_eq!(Rack::new().judge(&first(1, 0), ms(25), at(900)), Judgement::NotYetJudged);
    assert_eq!(rack().judge(&first(2, 10), ms(25), at(900)), Judgement::NotYetJudged);
}

#[test]
fn rfc_8985_6_2_a_packet_is_lost_a_round_trip_and_the_window_after_it_was_sent() {
    let mut rack = rack();
    rack.acked(at(120), &first(3, 20), None);
    let window = rack.reordering_window(false, 1, SRTT);
    assert_eq!(window, ms(25));
    assert_eq!(rack.judge(&first(2, 10), window, at(120)), Judgement::WaitUntil(at(135)));
    assert_eq!(rack.judge(&first(2, 10), window, at(134)), Judgement::WaitUntil(at(135)));
    assert_eq!(rack.judge(&first(2, 10), window, at(135)), Judgement::Lost);
}

#[test]
fn rfc_8985_6_2_of_packets_sent_at_one_moment_the_higher_one_proves_the_loss_of_the_lower() {
    let mut rack = rack();
    rack.acked(at(120), &first(3, 20), None);
    assert_eq!(rack.judge(&first(2, 20), ms(0), at(120)), Judgement::Lost);
    assert_eq!(rack.judge(&first(4, 20), ms(0), at(120)), Judgement::NotYetJudged);
}

/// P1 is lost, P2 and P3 arrive, R1 (the retransmission of P1) is lost as well, and a
/// packet sent after R1 arrives.
#[test]
fn a_lost_retransmission_is_found_by_packets_sent_after_it() {
    let mut rack = Rack::new();
    rack.acked(at(101), &first(2, 1), None);
    rack.acked(at(102), &first(3, 2), None);
    assert_eq!(rack.judge(&first(1, 0), ms(0), at(102)), Judgement::Lost);
    assert_eq!(rack.judge(&again(1, 102), ms(0), at(102)), Judgement::NotYetJudged);
    rack.acked(at(203), &first(4, 103), None);
    assert_eq!(rack.judge(&again(1, 102), ms(0), at(203)), Judgement::Lost);
}

#[test]
fn rfc_8985_6_2_an_acknowledgement_sooner_than_any_round_trip_does_not_answer_the_retransmission() {
    let mut rack = rack();
    rack.acked(at(260), &again(2, 200), None);
    assert_eq!(rack.newest_delivered(), Some(at(0)));
    rack.acked(at(300), &again(3, 200), None);
    assert_eq!(rack.newest_delivered(), Some(at(200)));
}

#[test]
fn rfc_8985_6_2_an_echoed_time_tells_which_transmission_is_answered() {
    let mut rack = rack();
    rack.acked(at(320), &again(2, 200), Some(at(150)));
    assert_eq!(rack.newest_delivered(), Some(at(0)), "the original arrived late");
    rack.acked(at(320), &again(3, 200), Some(at(200)));
    assert_eq!(rack.newest_delivered(), Some(at(200)));
}

#[test]
fn rfc_8985_6_2_reordering_is_a_lower_packet_sent_once_that_arrives_after_a_higher_one() {
    let mut rack = rack();
    rack.acked(at(130), &first(3, 20), None);
    assert!(!rack.reordering_seen());
    rack.acked(at(131), &again(2, 25), None);
    assert!(!rack.reordering_seen(), "it was retransmitted");
    rack.acked(at(140), &first(5, 40), None);
    rack.acked(at(141), &first(4, 30), None);
    assert!(rack.reordering_seen());
}

#[test]
fn rfc_8985_6_2_without_reordering_an_evident_loss_has_no_delay() {
    let mut rack = rack();
    assert_eq!(rack.reordering_window(false, 2, SRTT), ms(25));
    assert_eq!(rack.reordering_window(false, 3, SRTT), ms(0));
    assert_eq!(rack.reordering_window(true, 0, SRTT), ms(0));
    rack.acked(at(120), &first(3, 20), None);
    rack.acked(at(130), &first(2, 10), None);
    assert_eq!(rack.reordering_window(false, 3, SRTT), ms(25));
    assert_eq!(rack.reordering_window(true, 0, SRTT), ms(25));
}

#[test]
fn rfc_8985_6_2_each_round_trip_with_a_duplicate_report_widens_the_window_by_a_quarter() {
    let mut rack = rack();
    rack.ack_processed(&summary(true, 2, false));
    assert_eq!(rack.reordering_window(false, 0, SRTT), ms(50));
    rack.ack_processed(&summary(true, 11, false));
    assert_eq!(rack.reordering_window(false, 0, SRTT), ms(50), "the same round trip");
    rack.ack_processed(&summary(true, 12, false));
    assert_eq!(rack.reordering_window(false, 0, SRTT), ms(75));
}

#[test]
fn rfc_8985_3_3_2_the_window_falls_back_after_sixteen_recoveries_without_a_duplicate_report() {
    let mut rack = rack();
    rack.ack_processed(&summary(true, 2, true));
    for recovery in 1..=16 {
        assert_eq!(rack.reordering_window(false, 0, SRTT), ms(50), "{recovery}");
        rack.ack_processed(&summary(false, 20 + recovery, true));
    }
    assert_eq!(rack.reordering_window(false, 0, SRTT), ms(25));
}

#[test]
fn rfc_8985_6_2_no_number_of_duplicate_reports_widens_the_window_beyond_srtt() {
    let mut rack = rack();
    for round in 0..1_000 {
        rack.ack_processed(&summary(true, 2 + 10 * round, false));
    }
    assert_eq!(rack.reordering_window(false, 0, SRTT), ms(100));
    assert_eq!(rack.reordering_window(false, 0, None), ms(100));
}

proptest! {
    #[test]
    fn any_acknowledgements_leave_the_window_within_srtt_and_judge_every_packet_consistently(
        acks in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>(), any::<bool>()), 1..40),
        asked in (any::<u64>(), any::<u64>(), any::<u64>()),
        srtt in any::<u64>(),
    ) {
        let mut rack = Rack::new();
        for (now, sequence, sent, retransmitted, duplicate_reported) in acks {
            let packet = Transmission { sequence, sent: Instant::from_nanos(sent), retransmitted };
            rack.acked(Instant::from_nanos(now), &packet, None);
            rack.ack_processed(&AckSummary {
                duplicate_reported,
                earliest_outstanding: sequence,
                next_sequence: sequence,
                recovery_ended: !duplicate_reported,
            });
        }
        let srtt = Duration::from_nanos(srtt);
        let window = rack.reordering_window(false, 0, Some(srtt));
        prop_assert!(window <= srtt);
        let packet = Transmission { sequence: asked.0, sent: Instant::from_nanos(asked.1), retransmitted: false };
        let now = Instant::from_nanos(asked.2);
        match rack.judge(&packet, window, now) {
            Judgement::WaitUntil(until) => {
                prop_assert!(until > now);
                prop_assert_eq!(rack.judge(&packet, window, until), Judgement::Lost);
            }
            Judgement::Lost => prop_assert!(rack.newest_delivered() >= Some(packet.sent)),
            Judgement::NotYetJudged => prop_assert!(rack.newest_delivered().is_none_or(|sent| sent <= packet.sent)),
        }
    }

    #[test]
    fn packets_that_arrive_in_order_never_look_reordered_nor_lost(
        steps in prop::collection::vec((0..50_u64, any::<bool>()), 1..60),
    ) {
        let (mut rack, mut sent_ms) = (Rack::new(), 0);
        for (sequence, (pause_ms, acked_alone)) in (1..).zip(steps) {
            sent_ms += pause_ms;
            rack.acked(at(sent_ms + if acked_alone { 100 } else { 140 }), &first(sequence, sent_ms), None);
            let next = first(sequence + 1, sent_ms);
            prop_assert_eq!(rack.judge(&next, ms(0), at(sent_ms + 1_000)), Judgement::NotYetJudged);
        }
        prop_assert!(!rack.reordering_seen());
    }

    #[test]
    fn a_run_of_packets_that_were_sent_once_is_one_step_as_well_as_many(
        runs in prop::collection::vec((0..4_u64, prop::collection::vec(0..3_u64, 1..6), 0..60_u64, any::<bool>()), 1..20),
    ) {
        let (mut one_by_one, mut by_runs) = (Rack::new(), Rack::new());
        // Some runs start below the highest delivered packet, as after a gap.
        let (mut sequence, mut sent_ms) = (100_u64, 1_000);
        for (back, pauses, delay_ms, again) in runs {
            sequence -= back.min(sequence);
            let mut packets = Vec::new();
            for pause_ms in pauses {
                sent_ms += pause_ms;
                sequence += 1;
                packets.push(first(sequence, sent_ms));
            }
            let now = at(sent_ms + delay_ms);
            packets.iter().for_each(|packet| one_by_one.acked(now, packet, None));
            by_runs.acked_in_order(now, packets[0].sequence, &packets[packets.len() - 1]);
            if again {
                let repair = Transmission { retransmitted: true, ..first(sequence + 1, sent_ms) };
                one_by_one.acked(now, &repair, None);
                by_runs.acked(now, &repair, None);
            }
            prop_assert_eq!(format!("{one_by_one:?}"), format!("{by_runs:?}"));
        }
    }
}
