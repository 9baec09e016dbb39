use proptest::prelude::*;

use super::*;

const RTT: Duration = Duration::from_millis(100);
const SRTT: Option<Duration> = Some(RTT);

/// Five messages per round trip, of 100 bytes each.
const DENSE: StreamShape = StreamShape { bursts_per_rtt: 5, chunk_bytes: 116 };
/// Messages that are farther apart than a round trip.
const SPARSE: StreamShape = StreamShape { bursts_per_rtt: 1, ..DENSE };

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// These copies, regardless of losses.
fn always(spaced: Spaced) -> Redundancy {
    Redundancy::Always(Budget { copies: Some(spaced), ..Budget::PIGGYBACK })
}

fn departure(now: Instant) -> Departure {
    Departure { now, thin: true, srtt: SRTT, is_single_chunk: true, duplicate_after: None }
}

/// A scheduler that gives every message a copy, on a path whose round trip was measured.
fn scheduler() -> CopyScheduler {
    scheduler_with(1_000)
}

fn scheduler_with(copies_per_thousand_messages: u16) -> CopyScheduler {
    let mut scheduler = CopyScheduler::new(always(Spaced { spacing: None, copies_per_thousand_messages }));
    scheduler.round_trip(at(0), RTT);
    scheduler
}

fn outcome(scheduler: &mut CopyScheduler, now: Instant, lost: bool) {
    if lost { scheduler.lost(now, SRTT) } else { scheduler.arrived(1) }
}

/// Copies of `messages` sent every 250 ms from `from` on.
fn copies(scheduler: &mut CopyScheduler, from: Instant, messages: u64) -> u64 {
    let decisions = (0..messages).map(|nth| scheduler.message_sent(&departure(from + ms(250 * nth))));
    decisions.map(|decision| u64::from(matches!(decision, CopyDecision::At(_)))).sum()
}

#[test]
fn a_thin_message_gets_a_copy_a_tenth_of_the_round_trip_later() {
    assert_eq!(scheduler().message_sent(&departure(at(1_000))), CopyDecision::At(at(1_010)));
}

#[test]
fn the_default_spacing_stays_between_five_and_twenty_five_milliseconds() {
    let spaced = Spaced::DEFAULT;
    assert_eq!(spaced.spacing(ms(1)), ms(5));
    assert_eq!(spaced.spacing(ms(400)), ms(25));
    assert_eq!(Spaced { spacing: Some(ms(70)), ..spaced }.spacing(ms(1)), ms(70));
}

/// The module's example in whole millionths: what share of the messages arrives by when.
#[test]
fn spacing_meets_its_targets() {
    let (one_way_ms, probe_after_ms, lost_ppm) = (50, 105, 50_000_u64);
    let spaced = Spaced::DEFAULT;
    let spacing_ms = u64::try_from(spaced.spacing(RTT).as_millis()).expect("small");
    let arrived_by_ms = [one_way_ms, spacing_ms + one_way_ms, spacing_ms + probe_after_ms + one_way_ms];
    let mut all_lost_ppm = 1_000_000;
    let percentile_ms = |missing_ppm: u64, all_lost_ppm: &mut u64| {
        let found = arrived_by_ms.iter().find(|_| {
            *all_lost_ppm = *all_lost_ppm * lost_ppm / 1_000_000;
            *all_lost_ppm <= missing_ppm
        });
        *found.expect("three transmissions suffice")
    };
    assert_eq!(percentile_ms(10_000, &mut all_lost_ppm), 60);
    all_lost_ppm = 1_000_000;
    assert_eq!(percentile_ms(1_000, &mut all_lost_ppm), 165);
}

#[test]
fn on_a_quiet_path_every_message_gets_its_copy_and_not_one_more() {
    assert_eq!(copies(&mut scheduler(), at(1_000), 10_000), 10_000);
}

#[test]
fn half_the_budget_gives_every_second_message_a_copy() {
    let mut scheduler = scheduler_with(500);
    assert_eq!(copies(&mut scheduler, at(1_000), 1_000), 500);
    assert_eq!(scheduler.message_sent(&departure(at(900_000))), CopyDecision::Not(WhyNot::Budget));
    assert_eq!(scheduler.message_sent(&departure(at(900_250))), CopyDecision::At(at(900_260)));
}

#[test]
fn a_budget_beyond_one_copy_per_message_is_one() {
    let mut scheduler = scheduler_with(u16::MAX);
    assert_eq!(copies(&mut scheduler, at(1_000), 100), 100);
}

#[test]
fn a_copy_that_did_not_leave_is_given_back_but_nothing_piles_up() {
    let mut scheduler = scheduler_with(0);
    assert_eq!(copies(&mut scheduler, at(1_000), 10), 0);
    (0..10).for_each(|_| scheduler.copy_saved());
    assert_eq!(copies(&mut scheduler, at(9_000), 10), 2);
}

#[test]
fn nothing_is_copied_without_the_option_without_a_measurement_or_on_a_stream_that_is_not_thin() {
    let why = |scheduler: &mut CopyScheduler, message: Departure| scheduler.message_sent(&message);
    for redundancy in [Redundancy::Off, Redundancy::BUNDLED] {
        let decision = why(&mut CopyScheduler::new(redundancy), departure(at(1)));
        assert_eq!(decision, CopyDecision::Not(WhyNot::Disabled));
    }
    let message = departure(at(1_000));
    let not = CopyDecision::Not;
    assert_eq!(why(&mut scheduler(), Departure { thin: false, ..message }), not(WhyNot::NotThin));
    assert_eq!(why(&mut scheduler(), Departure { srtt: None, ..message }), not(WhyNot::Unmeasured));
    assert_eq!(why(&mut scheduler(), Departure { is_single_chunk: false, ..message }), not(WhyNot::Large));
}

#[test]
fn bundling_is_for_thin_streams_on_clear_paths_and_never_when_off() {
    let now = at(1_000);
    let mut bundled = CopyScheduler::new(Redundancy::BUNDLED);
    bundled.round_trip(at(0), RTT);
    assert_eq!(bundled.protection(now, SRTT, DENSE).copies(), Piggyback::always(3));
    assert_eq!(bundled.protection(now, Some(ms(150)), DENSE).copies(), Piggyback::NONE);
    assert_eq!(CopyScheduler::new(Redundancy::Off).protection(now, SRTT, DENSE).copies(), Piggyback::NONE);
    assert_eq!(scheduler().protection(now, SRTT, DENSE).copies(), Piggyback::always(3));
}

#[test]
fn a_queue_stops_all_copies() {
    let mut scheduler = scheduler();
    let queued = Departure { srtt: Some(ms(113)), ..departure(at(1_000)) };
    assert_eq!(scheduler.message_sent(&queued), CopyDecision::Not(WhyNot::Congested));
    let jitter = Departure { srtt: Some(ms(112)), ..departure(at(1_250)) };
    assert_ne!(scheduler.message_sent(&jitter), CopyDecision::Not(WhyNot::Congested));
}

#[test]
fn a_sign_of_congestion_stops_all_copies_for_a_second_and_halves_them_afterwards() {
    let mut scheduler = scheduler();
    scheduler.congestion_signalled(at(1_000), SRTT);
    assert_eq!(copies(&mut scheduler, at(1_000), 4), 0);
    let of_sixteen = copies(&mut scheduler, at(2_000), 16);
    assert!((4..=10).contains(&of_sixteen), "{of_sixteen}");
}

#[test]
fn a_loss_stops_copies_while_round_trips_swing_but_not_on_a_steady_path_and_bundling_goes_on() {
    let mut steady = scheduler();
    steady.lost(at(1_000), SRTT);
    assert!(copies(&mut steady, at(1_000), 4) > 0);

    let mut swinging = scheduler();
    swinging.round_trip(at(500), ms(107));
    assert!(copies(&mut swinging.clone(), at(1_000), 4) > 0, "swinging alone says nothing");
    swinging.lost(at(1_000), SRTT);
    assert_eq!(copies(&mut swinging, at(1_000), 4), 0);
    assert_eq!(swinging.protection(at(1_000), SRTT, DENSE).copies(), Piggyback::always(3));

    // A swing is forgotten: after twenty quiet samples of 7 ms less than 2 are left.
    let mut calmed = scheduler();
    calmed.round_trip(at(500), ms(107));
    (0..20).for_each(|_| calmed.round_trip(at(900), RTT));
    calmed.lost(at(1_000), SRTT);
    assert!(copies(&mut calmed, at(1_000), 4) > 0);
}

#[test]
fn after_congestion_the_full_share_takes_a_minute_to_come_back() {
    let mut scheduler = scheduler();
    for half_second in 0..10 {
        scheduler.congestion_signalled(at(1_000 + 500 * half_second), SRTT);
    }
    let per_sixteen_seconds: Vec<_> = (0..5).map(|nth| copies(&mut scheduler, at(7_000 + 16_000 * nth), 64)).collect();
    assert!(per_sixteen_seconds.is_sorted(), "{per_sixteen_seconds:?}");
    assert!(per_sixteen_seconds[0] <= 12 && per_sixteen_seconds[4] == 64, "{per_sixteen_seconds:?}");
}

#[test]
fn each_loss_behind_a_queue_makes_copies_come_back_half_as_fast_until_they_are_all_back() {
    let mut scheduler = scheduler();
    scheduler.round_trip(at(0), ms(107));
    let mut from = 1_000_u64;
    let mut copies_after_a_loss = |seconds: u64| {
        scheduler.lost(at(from), SRTT);
        let copies = copies(&mut scheduler, at(from), 4 * seconds);
        from += 1_000 * seconds;
        copies
    };
    let [first, second, third] = [(); 3].map(|()| copies_after_a_loss(20));
    assert!(first >= 4 && second <= first / 2 && third <= second / 2, "{first}, {second}, {third}");
    copies_after_a_loss(2_100);
    assert_eq!(copies_after_a_loss(20), first, "they were all back");
}

#[test]
fn a_loss_rate_that_rises_stops_copies_and_a_steady_one_does_not() {
    let mut scheduler = scheduler();
    for nth in 1..=400_u32 {
        outcome(&mut scheduler, at(1_000), nth % 20 == 0);
    }
    assert!(!scheduler.is_congested(at(1_000), SRTT));
    for nth in 1..=40_u32 {
        outcome(&mut scheduler, at(1_000), nth % 3 == 0);
    }
    assert!(scheduler.is_congested(at(1_000), SRTT));
}

#[test]
fn with_copies_no_stream_sends_more_than_tcp_at_the_same_loss_rate() {
    let lossy = |one_in: u32| {
        let mut scheduler = scheduler();
        (1..=400_u32).for_each(|nth| outcome(&mut scheduler, at(0), nth % one_in == 0));
        scheduler
    };
    // Four messages per round trip and their copies: TCP sends eight packets per round trip at 2.3 % of loss.
    let dense = |mut scheduler: CopyScheduler| {
        let last = (0..40).map(|nth| scheduler.message_sent(&departure(at(10_000 + 25 * nth)))).last();
        last.expect("forty messages")
    };
    assert_eq!(dense(lossy(20)), CopyDecision::Not(WhyNot::Unfair));
    assert!(matches!(dense(lossy(100)), CopyDecision::At(_)));
    // One message per round trip keeps its copies at 20 %.
    assert_eq!(copies(&mut lossy(5), at(10_000), 1_000), 1_000);
}

/// One thin flow in a crowd on a shared link.
struct Flow {
    scheduler: CopyScheduler,
    srtt: Duration,
    offset_ms: u64,
}

/// Sends 100-byte messages every 250 ms on each of `flows` for two minutes over a link whose rate is `percent` of what the
/// originals alone need: (copies per thousand messages, mean queueing delay in ms) of the second minute.
fn crowd(flows: u64, percent: u64) -> (u64, u64) {
    let mut all: Vec<_> =
        (0..flows).map(|nth| Flow { scheduler: scheduler(), srtt: RTT, offset_ms: 250 * nth / flows }).collect();
    let drained_per_ms = flows * 100 * percent / 250;
    // The queue in hundredths of a packet, and copies on their way to it.
    let (mut queue, mut due) = (0_u64, std::collections::VecDeque::new());
    let (mut messages, mut copied, mut delay_ms) = (0, 0, 0);
    for now_ms in 0..120_000_u64 {
        queue = queue.saturating_sub(drained_per_ms / 100);
        while due.front().is_some_and(|&copy_ms| copy_ms <= now_ms) {
            due.pop_front();
            queue += 100;
        }
        for flow in all.iter_mut().filter(|flow| now_ms % 250 == flow.offset_ms) {
            queue += 100;
            let queueing_ms = queue * 100 / drained_per_ms;
            let rtt = RTT + ms(queueing_ms);
            flow.scheduler.round_trip(at(now_ms), rtt);
            flow.srtt = (flow.srtt * 7 + rtt) / 8;
            let sent = flow.scheduler.message_sent(&Departure { srtt: Some(flow.srtt), ..departure(at(now_ms)) });
            if matches!(sent, CopyDecision::At(_)) {
                due.push_back(now_ms + 10);
            }
            if now_ms >= 60_000 {
                messages += 1;
                copied += u64::from(matches!(sent, CopyDecision::At(_)));
                delay_ms += queueing_ms;
            }
        }
    }
    (copied * 1_000 / messages, delay_ms / messages)
}

#[test]
fn a_crowd_with_room_for_its_copies_makes_all_of_them() {
    assert_eq!(crowd(200, 250).0, 1_000);
}

#[test]
fn a_crowd_that_would_overload_its_link_takes_back_its_copies_until_the_queue_is_short() {
    let (copied, delay_ms) = crowd(200, 125);
    assert!(copied <= 300, "{copied} copies per thousand messages");
    assert!(delay_ms <= 25, "{delay_ms} ms");
}

#[test]
fn adaptive_redundancy_waits_for_losses_and_ends_when_they_do() {
    let mut scheduler = CopyScheduler::new(Redundancy::ADAPTIVE_SPACED);
    scheduler.round_trip(at(0), RTT);
    scheduler.arrived(2_000);
    assert!(scheduler.is_lossless());
    assert_eq!(scheduler.protection(at(0), SRTT, DENSE).copies(), Piggyback::NONE);
    assert_eq!(scheduler.message_sent(&departure(at(0))), CopyDecision::Not(WhyNot::Lossless));

    // Two losses within a second of a stream of fifty messages per second.
    for nth in 0..50 {
        outcome(&mut scheduler, at(nth * 20), nth % 25 == 24);
    }
    assert!(!scheduler.is_lossless());
    assert!(scheduler.protection(at(1_000), SRTT, DENSE).distance().is_some());
    assert_eq!(scheduler.message_sent(&departure(at(1_000))), CopyDecision::At(at(1_010)));

    scheduler.arrived(2_000);
    assert!(scheduler.is_lossless());
    assert_eq!(scheduler.protection(at(9_000), SRTT, DENSE).copies(), Piggyback::NONE);
}

#[test]
fn every_redundancy_is_found_by_its_name() {
    for redundancy in Redundancy::NAMED {
        assert_eq!(redundancy.to_string().parse(), Ok(redundancy));
    }
    let error = "twice".parse::<Redundancy>().expect_err("no such redundancy");
    assert_eq!(
        error.to_string(),
        "unknown redundancy \"twice\", expected one of: off, adaptive, adaptive-copies, adaptive-spaced, bundled, spaced"
    );
}

proptest! {
    #[test]
    fn copies_never_exceed_the_budget_whatever_happens(
        budget in any::<u16>(),
        steps in prop::collection::vec((0..100_000_u64, any::<u8>(), 0..500_u64), 1..200),
    ) {
        let spaced = Spaced { spacing: None, copies_per_thousand_messages: budget };
        let mut scheduler = CopyScheduler::new(always(spaced));
        let (mut now, mut messages, mut copied) = (Instant::ZERO, 0, 0);
        for (pause_us, what, rtt_ms) in steps {
            now += Duration::from_micros(pause_us);
            match what % 8 {
                0 => scheduler.round_trip(now, ms(rtt_ms)),
                1 => outcome(&mut scheduler, now, rtt_ms % 3 == 0),
                2 => scheduler.congestion_signalled(now, Some(ms(rtt_ms))),
                _ => {
                    messages += 1;
                    let message = Departure { srtt: Some(ms(rtt_ms)), ..departure(now) };
                    if let CopyDecision::At(leaves) = scheduler.message_sent(&message) {
                        prop_assert!(leaves >= now + SPACING_MIN && leaves <= now + SPACING_MAX);
                        prop_assert!(!scheduler.is_congested(now, message.srtt));
                        copied += 1;
                    }
                }
            }
        }
        prop_assert!(copied * 1_000 <= messages * u64::from(budget.min(1_000)));
    }

    #[test]
    fn an_idle_scheduler_protects_no_stream(
        named in prop::sample::select(Redundancy::NAMED.to_vec()),
        outcomes in prop::collection::vec(prop::bool::weighted(0.01), 0..1_500),
        is_coded in any::<bool>(),
        bursts_per_rtt in 1..100_u32,
        chunk_bytes in 0..1_500_u32,
    ) {
        let mut scheduler = CopyScheduler { is_coded, ..CopyScheduler::new(named) };
        let mut idles = 0;
        for lost in outcomes {
            outcome(&mut scheduler, at(0), lost);
            prop_assert_eq!(scheduler.loss.is_lossless(), scheduler.loss.likely().lost == 0);
            if scheduler.is_idle() {
                idles += 1;
                let protection = scheduler.protection(at(0), None, StreamShape { bursts_per_rtt, chunk_bytes });
                prop_assert_eq!(protection, Protection::NONE);
            }
        }
        prop_assert!(idles == 0 || matches!(named, Redundancy::Adaptive(_)) && !is_coded);
    }
}

/// A scheduler with the default budget that has seen one of `one_in` packets lost, and has earned two repetitions.
fn loses_pairs(one_in: u64) -> CopyScheduler {
    let mut scheduler = CopyScheduler::new(Redundancy::ADAPTIVE);
    scheduler.round_trip(at(0), RTT);
    for nth in 1..=200 {
        scheduler.message_sent(&departure(at(250 * nth)));
        outcome(&mut scheduler, at(250 * nth + 100), nth.is_multiple_of(one_in));
    }
    scheduler
}

#[test]
fn a_retransmission_is_repeated_where_pairs_are_lost_and_nothing_speaks_against_it() {
    let (resend, not) = (departure(at(60_000)), CopyDecision::Not);
    assert_eq!(loses_pairs(20).resent(&resend, SPARSE), CopyDecision::At(at(60_005)));
    assert_eq!(loses_pairs(100).resent(&resend, SPARSE), not(WhyNot::Lossless));
    assert_eq!(loses_pairs(20).resent(&Departure { thin: false, ..resend }, SPARSE), not(WhyNot::NotThin));
    assert_eq!(loses_pairs(20).resent(&Departure { srtt: None, ..resend }, SPARSE), not(WhyNot::Unmeasured));
    assert_eq!(loses_pairs(20).resent(&Departure { srtt: Some(ms(130)), ..resend }, SPARSE), not(WhyNot::Congested));
    let mut off = loses_pairs(20);
    off.set_redundancy(Redundancy::Off);
    assert_eq!(off.resent(&resend, SPARSE), not(WhyNot::Disabled));
    assert_eq!(loses_pairs(20).resent(&resend, DENSE), not(WhyNot::Protected));
}

#[test]
fn four_messages_earn_the_repetition_of_one_retransmission_and_two_are_saved() {
    let mut scheduler = loses_pairs(20);
    let mut repeats = |now_ms| matches!(scheduler.resent(&departure(at(now_ms)), SPARSE), CopyDecision::At(_));
    assert_eq!([60_000, 60_100, 60_200].map(&mut repeats), [true, true, false]);
    (0..4).for_each(|nth| {
        scheduler.message_sent(&departure(at(61_000 + 250 * nth)));
    });
    let mut repeats = |now_ms| matches!(scheduler.resent(&departure(at(now_ms)), SPARSE), CopyDecision::At(_));
    assert_eq!([62_000, 62_100].map(&mut repeats), [true, false]);
}

#[test]
fn the_repetition_comes_so_soon_that_the_answer_to_the_first_is_not_taken_for_an_earlier_one() {
    for rtt_ms in [1, 10, 30, 100, 300, 1_000] {
        let mut scheduler = loses_pairs(20);
        scheduler.rtt_min = WindowedMin::new(RTT_MIN_WINDOW);
        scheduler.round_trip(at(59_000), ms(rtt_ms));
        let resent = at(60_000);
        let decision = scheduler.resent(&Departure { srtt: Some(ms(rtt_ms)), ..departure(resent) }, SPARSE);
        let CopyDecision::At(repeated) = decision else { panic!("{rtt_ms} ms: {decision:?}") };
        assert!(!crate::spurious::answers_earlier(resent + ms(rtt_ms), repeated, Some(ms(rtt_ms))), "{rtt_ms} ms");
        assert!(repeated <= resent + ms(10), "{rtt_ms} ms");
    }
}

/// The decisions about messages every `gap_ms` that ask for a duplicate at once, over a path that loses one packet in `one_in`.
fn duplicates(redundancy: Redundancy, gap_ms: u64, one_in: u64) -> Vec<CopyDecision> {
    let mut scheduler = CopyScheduler::new(redundancy);
    scheduler.round_trip(at(0), RTT);
    (1..=1_000).for_each(|nth| outcome(&mut scheduler, at(0), one_in > 0 && nth % one_in == 0));
    let asking = |now| Departure { duplicate_after: Some(Duration::ZERO), ..departure(now) };
    (0..50).map(|nth| scheduler.message_sent(&asking(at(100_000 + nth * gap_ms)))).collect()
}

#[test]
fn a_duplicate_needs_no_losses_and_no_budget_for_copies_of_all_messages_but_room() {
    let all = |redundancy, gap_ms, one_in, expected: fn(Instant) -> CopyDecision| {
        let decisions = duplicates(redundancy, gap_ms, one_in);
        let expected = (0..50).map(|nth| expected(at(100_000 + nth * gap_ms)));
        assert!(
            decisions.iter().copied().skip(10).eq(expected.skip(10)),
            "{redundancy}, {gap_ms} ms, {one_in}: {decisions:?}"
        );
    };
    all(Redundancy::ADAPTIVE, 50, 20, CopyDecision::At);
    all(Redundancy::ADAPTIVE, 50, 0, CopyDecision::At);
    all(Redundancy::BUNDLED, 50, 0, CopyDecision::At);
    all(Redundancy::Off, 50, 20, |_| CopyDecision::Not(WhyNot::Disabled));
    all(Redundancy::ADAPTIVE, 20, 20, |_| CopyDecision::Not(WhyNot::Unfair));
}

#[test]
fn a_regular_stream_need_not_have_a_whole_number_of_messages_in_a_round_trip() {
    // Twice 2.63 packets in a round trip; a TCP flow sends 5.47.
    assert!(matches!(duplicates(Redundancy::ADAPTIVE, 38, 20).last(), Some(CopyDecision::At(_))));
    let mut scheduler = scheduler();
    (0..4).for_each(|nth| _ = scheduler.message_sent(&departure(at(1_000 + nth * 38))));
    assert_eq!(scheduler.messages_within(at(1_114), RTT), 3);
    assert_eq!(scheduler.thousandths_within(at(1_114), RTT), 2_631);
    assert_eq!(scheduler.thousandths_within(at(5_000), RTT), 0);
}

#[test]
fn the_last_message_before_a_pause_is_repeated_at_once_where_packets_are_lost_and_paid_like_a_resend() {
    let with_losses = |losses: u64| {
        let mut scheduler = CopyScheduler::new(Redundancy::ADAPTIVE);
        scheduler.round_trip(at(0), RTT);
        (0..1_000).for_each(|nth| outcome(&mut scheduler, at(0), nth < losses));
        (0..8).for_each(|nth| _ = scheduler.message_sent(&departure(at(100_000 + nth * 500))));
        (0..4).map(|nth| scheduler.paused(&departure(at(104_000 + nth * 500)))).collect::<Vec<_>>()
    };
    assert_eq!(with_losses(0), [CopyDecision::Not(WhyNot::Lossless); 4]);
    let twice = [CopyDecision::At(at(104_000)), CopyDecision::At(at(104_500))];
    assert_eq!(
        with_losses(10),
        [&twice[..], &[CopyDecision::Not(WhyNot::Budget); 2]].concat(),
        "eight messages earn two"
    );
}
