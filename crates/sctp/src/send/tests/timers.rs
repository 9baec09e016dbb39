//! RTO, T3-rtx and the probe (RFC 9260 §6.3; P10 §5.2, §5.3; RFC 7765; Festina's probe).

use festina_recovery::profile::Rules;
use festina_recovery::rto_restart::TimerRestart;
use festina_recovery::rtt::RttSampling;

use super::*;

const TIMEOUT: Option<TimerExpiry> = Some(TimerExpiry::Timeout { counts: true });

fn with_rules(rules: Rules) -> Rig {
    let mut mechanisms = Profile::Rfc9260.mechanisms();
    mechanisms.normal = rules;
    Rig::with(&config(mechanisms)).measured(ms(100))
}

fn deadline_in(rig: &Rig) -> Option<Duration> {
    rig.deadline().map(|deadline| deadline - rig.now)
}

#[test]
fn the_first_chunk_starts_the_timer_and_later_ones_leave_it_section_6_3_2_r1() {
    let mut rig = Rig::standard();
    assert_eq!(rig.deadline(), None);
    rig.flight(1, 100);
    assert_eq!(deadline_in(&rig), Some(ms(1_000)));
    rig.wait(300);
    rig.flight(1, 100);
    assert_eq!(deadline_in(&rig), Some(ms(700)));
}

#[test]
fn the_timer_stops_when_all_is_acknowledged_section_6_3_2_r2() {
    let mut rig = Rig::standard();
    rig.flight(2, 100);
    rig.sack(2, &[]);
    assert_eq!(rig.deadline(), None);
}

#[test]
fn an_acknowledgement_of_the_earliest_chunk_restarts_the_timer_section_6_3_2_r3() {
    let mut rig = Rig::standard().measured(ms(100));
    rig.flight(3, FULL);
    rig.wait(100);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(deadline_in(&rig), Some(ms(900)), "a gap ack leaves it");
    rig.sack(1, &[(2, 2)]);
    assert_eq!(deadline_in(&rig), Some(ms(1_000)));
}

#[test]
fn the_timer_may_be_restarted_at_every_new_acknowledgement() {
    let mut rig = with_rules(Rules { timer_restart: TimerRestart::AnyAcked, ..Rules::RFC9260 });
    rig.flight(3, FULL);
    rig.wait(100);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(deadline_in(&rig), Some(ms(1_000)));
}

#[test]
fn a_fast_retransmission_of_the_earliest_chunk_restarts_the_timer_section_7_2_4_rule_4_and_in_lksctp_it_did_not() {
    for (fast_restarts_timer, left_ms) in [(true, 1_000), (false, 900)] {
        let mut rig = with_rules(Rules { fast_restarts_timer, ..Rules::RFC9260 });
        rig.flight(4, FULL);
        rig.wait(100);
        for last in 2..=4 {
            rig.sack(0, &[(2, last)]);
        }
        assert_eq!(rig.tsns(), [[1]], "it is sent again");
        assert_eq!(deadline_in(&rig), Some(ms(left_ms)));
    }
}

#[test]
fn the_timer_restart_fix_takes_off_the_time_since_the_old_timer_started_p10_section_5_2() {
    let mut rig = with_rules(Rules { timer_restart: TimerRestart::SinceTimerStart, ..Rules::RFC9260 });
    rig.flight(1, 100);
    rig.wait(60);
    rig.flight(1, 100);
    rig.wait(40);
    rig.sack(1, &[]);
    assert_eq!(deadline_in(&rig), Some(ms(900)));
}

#[test]
fn rto_restart_takes_off_the_age_of_the_earliest_outstanding_chunk_rfc_7765() {
    let mut rig = with_rules(Rules { timer_restart: TimerRestart::SinceEarliestSent, ..Rules::RFC9260 });
    rig.flight(1, 100);
    rig.wait(60);
    rig.flight(1, 100);
    rig.wait(40);
    rig.sack(1, &[]);
    assert_eq!(deadline_in(&rig), Some(ms(960)));
}

#[test]
fn a_timeout_doubles_the_timer_and_leaves_one_packet_section_6_3_3() {
    let mut rig = Rig::standard().measured(ms(100));
    rig.flight(4, FULL);
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(rig.expire(), (ms(seconds * 1_000), TIMEOUT));
        assert_eq!(rig.stats().path.cwnd_bytes, CHUNKS_BYTES as u64);
        assert_eq!(rig.tsns(), [[1]], "rule E3: the earliest chunk, and no second packet");
    }
    assert_eq!(rig.stats().sent.timeouts, 8);
    assert_eq!(rig.stats().sent.retransmitted.timeout, 8);
}

#[test]
fn as_many_of_the_earliest_chunks_as_fit_leave_in_one_packet_section_6_3_3_e3() {
    let mut rig = Rig::standard();
    for _ in 0..4 {
        rig.flight(1, 500);
        rig.wait(10);
    }
    rig.expire();
    assert_eq!(rig.tsns(), [[1, 2]]);
    rig.sack(2, &[]);
    assert_eq!(rig.tsns(), [[3, 4]], "the rest follows as soon as cwnd allows");
}

#[test]
fn without_bundling_into_timeouts_only_old_chunks_are_sent_again_p06_section_3_3() {
    let bundling = festina_recovery::profile::Bundling { into_timeout: false, ..Rules::RFC9260.bundling };
    let mut rig = with_rules(Rules { bundling, ..Rules::RFC9260 });
    rig.flight(1, 100);
    rig.wait(500);
    rig.flight(1, 100);
    rig.expire();
    assert_eq!(rig.tsns(), [[1]]);
    assert_eq!(rig.stats().sent.chunks_lost, 1);
}

#[test]
fn what_was_reported_missing_rides_along_in_the_packet_of_a_timeout_p06_section_3_3() {
    let mut rig = Rig::standard();
    for _ in 0..4 {
        rig.flight(1, 100);
    }
    rig.sack(0, &[(3, 3)]);
    rig.expire();
    assert_eq!(rig.tsns(), [[1, 2, 4]]);
    let retransmitted = rig.stats().sent.retransmitted;
    assert_eq!((retransmitted.timeout, retransmitted.reported_bundled, retransmitted.bundled), (2, 1, 0));
}

#[test]
fn after_a_timeout_small_packets_go_on_leaving_in_lksctp_only() {
    for one_packet_after_timeout in [true, false] {
        let mut rig = with_rules(Rules { one_packet_after_timeout, ..Rules::RFC9260 });
        rig.flight(1, 100);
        rig.expire();
        assert_eq!(rig.tsns(), [[1]]);
        assert_eq!(rig.flight(1, 100).is_empty(), one_packet_after_timeout, "section 7.2.3");
    }
}

/// Why RTO restart can be slower than the standard in the long run: it does not affect the first timeout, but the chunks in flight when the timer
/// expires (docs/recovery.md).
#[test]
fn after_a_timeout_a_packet_sent_just_before_stands_in_for_a_lost_answer_and_one_to_be_sent_just_after_cannot() {
    for is_sent_before in [true, false] {
        let mut rig = Rig::standard().measured(ms(100));
        rig.flight(1, 100);
        rig.wait(950);
        if is_sent_before {
            rig.flight(1, 100);
        }
        rig.expire();
        rig.packets();
        rig.wait(50);
        if is_sent_before {
            rig.sack(0, &[(2, 2)]);
        }
        // What answers the retransmission is lost.
        let next = rig.flight(1, 100);
        assert_eq!(next.is_empty(), !is_sent_before, "section 7.2.3: one packet until something is acknowledged");
        if is_sent_before {
            rig.wait(100);
            rig.sack(3, &[]);
            assert_eq!(rig.deadline(), None, "the next message has brought the answer");
        } else {
            assert_eq!(deadline_in(&rig), Some(ms(1_950)), "nothing moves before the doubled timer expires");
        }
    }
}

#[test]
fn a_measurement_ends_the_backing_off_section_6_3_3() {
    let mut rig = Rig::standard().measured(ms(100));
    rig.flight(1, 100);
    rig.expire();
    rig.packets();
    rig.wait(100);
    rig.sack(1, &[]);
    assert_eq!(rig.stats().path.rto, ms(2_000), "a retransmitted chunk measures nothing (C5)");
    rig.flight(1, 100);
    rig.wait(100);
    rig.sack(2, &[]);
    assert_eq!(rig.stats().path.rto, ms(1_000));
}

#[test]
fn the_round_trip_is_measured_once_per_round_trip_section_6_3_1() {
    let mut rig = Rig::standard();
    rig.flight(1, 100);
    rig.wait(20);
    rig.flight(1, 100);
    rig.wait(80);
    rig.sack(1, &[]);
    assert_eq!(rig.stats().path.srtt, Some(ms(100)));
    rig.wait(300);
    rig.sack(2, &[]);
    assert_eq!(rig.stats().path.srtt, Some(ms(100)), "chunk 2 left while chunk 1 was timed");
}

#[test]
fn a_gap_ack_measures_too_unless_an_earlier_chunk_was_sent_again_section_6_3_1_c5() {
    let mut rig = Rig::standard();
    rig.flight(1, 100);
    rig.expire();
    rig.send_bytes(100);
    assert_eq!(rig.tsns(), [[1, 2]], "chunk 1 is sent again no later than chunk 2 leaves");
    rig.wait(70);
    rig.sack(0, &[(2, 2)]);
    assert_eq!(rig.stats().path.srtt, Some(ms(70)));
    rig.flight(1, 100);
    rig.expire();
    assert_eq!(rig.tsns(), [[1, 3]]);
    rig.wait(10);
    rig.sack(3, &[]);
    assert_eq!(rig.stats().path.srtt, Some(ms(70)));
}

#[test]
fn lksctp_measures_a_retransmitted_chunk_from_its_first_transmission_on_p06_section_3_2() {
    for (rtt_sampling, srtt_ms) in [(RttSampling::FirstAcknowledgement, 225), (RttSampling::Unambiguous, 100)] {
        let mut rig = with_rules(Rules { rtt_sampling, ..Rules::RFC9260 });
        rig.flight(1, 100);
        rig.expire();
        rig.packets();
        rig.wait(100);
        rig.sack(1, &[]);
        assert_eq!(rig.stats().path.srtt, Some(ms(srtt_ms)));
    }
}

#[test]
fn a_late_sack_ends_the_exponential_backoff_of_lksctp_p06_section_3_1() {
    for (rtt_sampling, rto_ms) in [(RttSampling::FirstAcknowledgement, 1_397), (RttSampling::Unambiguous, 4_000)] {
        let mut rig = with_rules(Rules { rtt_sampling, ..Rules::RFC9260 });
        rig.flight(1, 100);
        for _ in 0..2 {
            rig.expire();
            rig.packets();
        }
        rig.now = Instant::from_secs(100) + ms(1_250);
        rig.sack(1, &[]);
        let rto = rig.stats().path.rto;
        assert!(rto.abs_diff(ms(rto_ms)) < ms(20), "{rto:?}");
    }
}

#[test]
fn every_measurement_is_told_with_what_follows_from_it_if_asked_for() {
    for message_events in [true, false] {
        let mut rig = Rig::with(&Config { message_events, ..config(Profile::Rfc9260.mechanisms()) });
        rig.flight(1, 100);
        rig.wait(400);
        rig.sack(1, &[]);
        let measured = Event::Protocol(ProtocolEvent::RoundTripMeasured {
            path: PathId::PRIMARY,
            at: rig.now,
            rtt: ms(400),
            srtt: ms(400),
            rto: ms(1_200),
        });
        assert_eq!(rig.events().contains(&measured), message_events);
    }
}

#[test]
fn thin_timeouts_stay_at_200_ms_and_do_not_grow_p10_sections_5_2_and_5_3() {
    let mut rig = Rig::new(Profile::Petlund2010).measured(ms(100));
    rig.flight(1, 100);
    for _ in 0..20 {
        assert_eq!(rig.expire(), (ms(200), TIMEOUT));
        assert_eq!(rig.tsns(), [[1]]);
    }
    assert!(rig.stats().path.thin);
}

#[test]
fn linear_timeouts_leave_no_debt_to_a_stream_that_ceases_to_be_thin() {
    let mut rig = Rig::new(Profile::Petlund2010).measured(ms(100));
    rig.flight(1, 100);
    for _ in 0..20 {
        rig.expire();
        rig.packets();
    }
    rig.sender.set_mechanisms(rig.now, &mut rig.path, &Profile::Rfc9260.mechanisms());
    assert_eq!(rig.stats().path.rto, ms(1_000));
}

#[test]
fn a_thin_festina_stream_probes_just_after_one_round_trip() {
    let mut rig = Rig::new(Profile::Festina).measured(ms(100));
    let cwnd = rig.stats().path.cwnd_bytes;
    rig.flight(1, 100);
    assert_eq!(rig.expire(), (ms(105), Some(TimerExpiry::Probe)));
    let packets = rig.packets();
    assert_eq!((packets[0][0].tsn, packets[0][0].bits.as_str()), (1, "IBE"), "the I bit asks for a SACK at once");
    let stats = rig.stats();
    assert_eq!(stats.path.cwnd_bytes, cwnd);
    assert_eq!((stats.sent.retransmitted.probe, stats.sent.timeouts, stats.sent.chunks_lost), (1, 0, 0));
    assert_eq!(stats.path.in_flight_bytes, 116, "the copy is not counted");
}

#[test]
fn probes_come_once_per_round_trip_until_three_seconds_have_passed_and_then_back_off() {
    let mut rig = Rig::new(Profile::Festina).measured(ms(100));
    rig.flight(1, 100);
    for _ in 0..29 {
        assert_eq!(rig.expire(), (ms(105), Some(TimerExpiry::Probe)));
        assert_eq!(rig.tsns(), [[1]]);
    }
    let mut waits = Vec::new();
    for _ in 0..4 {
        let (waited, expiry) = rig.expire();
        assert_eq!(expiry, TIMEOUT);
        assert_eq!(rig.tsns(), [[1]]);
        waits.push(waited);
    }
    assert!(waits.is_sorted() && waits[3] >= 2 * waits[1], "{waits:?}");
}

#[test]
fn a_probe_takes_what_is_overdue_and_in_silence_everything() {
    let mut rig = Rig::probing().measured(ms(100));
    rig.flight(1, 100);
    rig.wait(50);
    rig.flight(1, 100);
    assert_eq!(rig.expire().1, Some(TimerExpiry::Probe));
    assert_eq!(rig.tsns(), [[1]], "chunk 2 may still be answered");
    rig.wait(20);
    rig.flight(1, 100);
    assert_eq!(rig.expire(), (ms(85), Some(TimerExpiry::Probe)), "one probe per round trip");
    assert_eq!(rig.tsns(), [[1, 2, 3]], "chunk 3 too, which left 85 ms ago");
    rig.wait(50);
    rig.sack(1, &[]);
    rig.flight(1, 100);
    assert_eq!(rig.expire().0, ms(55), "an answer ends the silence: chunk 2 is due on its own");
    assert_eq!(rig.tsns(), [[2, 3]]);
}

#[test]
fn in_silence_new_data_takes_along_what_is_unanswered_even_without_redundancy() {
    let mut rig = Rig::probing().measured(ms(100));
    rig.flight(1, 100);
    rig.expire();
    rig.packets();
    rig.wait(24);
    assert_eq!(rig.flight(1, 100), [[2]]);
    rig.wait(1);
    assert_eq!(rig.flight(1, 100), [[1, 3]], "a quarter of a round trip after the probe");
}

#[test]
fn a_probe_ignores_cwnd_and_new_data_follows_only_as_cwnd_allows() {
    let mut rig = Rig::new(Profile::Festina).measured(ms(100));
    rig.flight(1, 100);
    assert_eq!(rig.expire().1, Some(TimerExpiry::Probe));
    rig.send_bytes(200);
    assert_eq!(rig.tsns(), [[1, 2]], "the new message rides in the probe packet");
}

#[test]
fn a_probe_without_measurement_does_not_happen() {
    let mut rig = Rig::new(Profile::Festina);
    rig.flight(1, 100);
    assert_eq!(rig.expire(), (ms(1_000), TIMEOUT));
}

#[test]
fn every_chunk_of_a_thin_festina_stream_has_the_i_bit_and_no_chunk_of_a_thick_one_rfc_7053() {
    let mut rig = Rig::new(Profile::Festina).measured(ms(100));
    rig.send_bytes(100);
    assert_eq!(rig.packets()[0][0].bits, "IBE");
    for _ in 0..3 {
        rig.flight(20, FULL);
        let outstanding = rig.sender.flight.ledger.next_tsn() - 1;
        rig.sack(Tsn::wrap(outstanding).0, &[]);
    }
    rig.send_bytes(FULL);
    assert!(!rig.stats().path.thin);
    assert_eq!(rig.packets()[0][0].bits, "BE");
}

#[test]
fn acting_before_the_deadline_changes_nothing() {
    let mut rig = Rig::standard();
    rig.flight(1, 100);
    let deadline = rig.deadline();
    rig.wait(999);
    assert_eq!(rig.handle_timeout(), None);
    assert_eq!(rig.deadline(), deadline);
    assert!(!rig.can_send());
}
