//! Which round trips are measured of messages that are abandoned on their way.

use super::*;

/// RTT samples since the last call.
fn round_trips(rig: &mut Rig) -> Vec<Duration> {
    let measured = |event| match event {
        Event::Protocol(ProtocolEvent::RoundTripMeasured { rtt, .. }) => Some(rtt),
        _ => None,
    };
    rig.events().into_iter().filter_map(measured).collect()
}

/// As [`forwarding`], but no round trip has been measured, as on the accepting side.
fn unmeasured(profile: Profile) -> Rig {
    let mut rig = Rig::new(profile);
    rig.sender.flight.agree(Framing::Data, true, false);
    rig
}

#[test]
fn a_message_replaced_before_its_sack_measures_its_own_round_trip_rfc_9260_6_3_1_c5() {
    // Every 33 ms a message, which replaces the one before; each is acknowledged after 40 ms.
    for (profile, measures) in [(Profile::Festina, true), (Profile::Rack, false)] {
        let mut rig = unmeasured(profile);
        let start = rig.now;
        let mut measured = Vec::new();
        for tsn in 1..20 {
            rig.now = start + ms(33 * u64::from(tsn));
            rig.send(message(40).unordered().replacing(1));
            let (told, data) = rig.packet_with_forward();
            let earlier = (tsn > 1).then_some(Forwarded { cumulative: tsn - 1, streams: Vec::new() });
            assert_eq!((told, data.len(), data[0].tsn), (earlier, 1, tsn));
            if tsn > 1 {
                rig.wait(7);
                rig.sack(tsn - 1, &[]);
                measured.extend(round_trips(&mut rig));
            }
        }
        // One chunk is timed at a time, so every second one is.
        let expected = if measures { vec![ms(40); 9] } else { Vec::new() };
        assert_eq!(measured, expected, "{profile}");
    }
}

#[test]
fn where_the_replaced_message_was_lost_its_sack_measures_nothing_of_it() {
    let mut rig = unmeasured(Profile::Festina);
    rig.send(message(40).unordered().replacing(1));
    rig.packet_with_forward();
    rig.wait(33);
    rig.send(message(40).unordered().replacing(1));
    let (told, data) = rig.packet_with_forward();
    assert_eq!((told.map(|told| told.cumulative), data[0].tsn), (Some(1), 2));
    rig.wait(40);
    rig.sack(2, &[]);
    assert_eq!(round_trips(&mut rig), []);
}

#[test]
fn a_sack_that_may_answer_a_message_or_the_forward_tsn_past_it_measures_nothing() {
    // Delay of the SACK after FORWARD-TSN, and whether it gives a sample. The round trip is 100 ms: an earlier SACK answers the message.
    for (millis, from_the_message) in [(20, true), (93, true), (94, false), (120, false)] {
        for profile in [Profile::Festina, Profile::Rack] {
            let mut rig = forwarding(profile);
            let left_at = rig.now;
            rig.send(expiring(100, 5));
            rig.packet_with_forward();
            assert_eq!(wait_for_packet(&mut rig), (forward(1, &[(0, 0)]), vec![]));
            round_trips(&mut rig);
            rig.wait(millis);
            rig.sack(1, &[]);
            let infers = profile == Profile::Festina && from_the_message;
            let expected = if infers { vec![rig.now - left_at] } else { vec![] };
            assert_eq!(round_trips(&mut rig), expected, "{profile}, {millis} ms");
        }
    }
}

#[test]
fn before_a_round_trip_was_measured_the_answer_to_a_forward_tsn_measures_nothing() {
    let mut rig = unmeasured(Profile::Festina);
    rig.send(expiring(100, 5));
    rig.packet_with_forward();
    assert_eq!(wait_for_packet(&mut rig), (forward(1, &[(0, 0)]), vec![]));
    rig.wait(7);
    rig.sack(1, &[]);
    assert_eq!((round_trips(&mut rig), rig.stats().path.srtt), (vec![], None));
}
