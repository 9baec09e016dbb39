//! What the answer to a FORWARD-TSN measures.

use festina_recovery::thin::ThinDetection;

use super::*;

/// What was measured since the last call.
fn round_trips(rig: &mut Rig) -> Vec<Duration> {
    let measured = |event| match event {
        Event::RoundTripMeasured { rtt, .. } => Some(rtt),
        _ => None,
    };
    rig.events().into_iter().filter_map(measured).collect()
}

#[test]
fn the_answer_to_a_forward_tsn_that_left_once_measures_the_round_trip() {
    // The wait for the answer, and what is measured: by the profile that infers, and by one that keeps to the letter.
    for (profile, millis, measured) in
        [(Profile::Festina, 120, vec![ms(120)]), (Profile::Festina, 80, vec![]), (Profile::Rack, 120, vec![])]
    {
        let mut rig = forwarding(profile);
        rig.send(message(100).with_max_retransmissions(0));
        rig.packet_with_forward();
        assert_eq!(wait_for_packet(&mut rig).0, forward(1, &[(0, 0)]), "{profile}");
        round_trips(&mut rig);
        rig.wait(millis);
        rig.sack(1, &[]);
        assert_eq!(round_trips(&mut rig), measured, "{profile}, {millis} ms");
    }
}

#[test]
fn the_answer_to_a_forward_tsn_that_left_again_measures_nothing() {
    let mut rig = forwarding(Profile::Festina);
    rig.send(message(100).with_max_retransmissions(0));
    rig.packet_with_forward();
    let first = wait_for_packet(&mut rig);
    assert_eq!(wait_for_packet(&mut rig), first);
    round_trips(&mut rig);
    rig.wait(120);
    rig.sack(1, &[]);
    assert_eq!(round_trips(&mut rig), []);
}

#[test]
fn an_answer_to_the_second_of_two_forward_tsn_measures_nothing_of_the_first() {
    for (acked, measures) in [(1, true), (2, false)] {
        let mut rig = forwarding(Profile::Festina);
        rig.send(message(100).with_max_retransmissions(0));
        rig.packet_with_forward();
        assert_eq!(wait_for_packet(&mut rig).0, forward(1, &[(0, 0)]));
        rig.send(expiring(100, 5));
        assert_eq!(rig.packet_with_forward().0, None);
        let between = rig.now;
        assert_eq!(wait_for_packet(&mut rig).0, forward(2, &[(0, 1)]));
        round_trips(&mut rig);
        let since_first = rig.now - between + ms(120);
        rig.wait(120);
        rig.sack(acked, &[]);
        let expected = if measures { vec![since_first] } else { vec![] };
        assert_eq!(round_trips(&mut rig), expected, "acknowledged up to {acked}");
    }
}

#[test]
fn an_answer_that_comes_while_the_stream_is_thick_is_not_timed_from_then_on() {
    let thin_detection = ThinDetection::Static { in_flight_below: 4 };
    let mut rig = forwarding_by(Mechanisms { thin_detection, ..Profile::Festina.mechanisms() });
    rig.send(message(100).with_max_retransmissions(0));
    rig.packet_with_forward();
    assert_eq!(wait_for_packet(&mut rig).0, forward(1, &[(0, 0)]));
    for _ in 0..4 {
        rig.send(message(900));
    }
    while rig.can_send() {
        rig.packet_with_forward();
    }
    assert!(!rig.stats().path.thin, "so many packets keep to the letter, by which nothing ambiguous is measured");
    rig.wait(120);
    rig.sack(1, &[]);
    let last = 1 + 4;
    rig.wait(20);
    rig.sack(last, &[]);
    rig.wait(5_000);
    for _ in 0..2 {
        rig.send(message(100).with_max_retransmissions(0));
        rig.packet_with_forward();
    }
    assert_eq!(wait_for_packet(&mut rig).0, forward(last + 2, &[(0, 6)]));
    assert!(rig.stats().path.thin);
    round_trips(&mut rig);
    rig.wait(20);
    rig.sack(last + 1, &[]);
    assert_eq!(round_trips(&mut rig), [], "the first of them came late, and the one before was answered long ago");
    rig.wait(100);
    rig.sack(last + 2, &[]);
    assert_eq!(round_trips(&mut rig), [ms(120)]);
}
