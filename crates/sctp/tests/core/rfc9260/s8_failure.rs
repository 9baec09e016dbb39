//! §8.1 to §8.3: heartbeats and error counters.

use festina_sctp::{AssociationState, ClosedReason, Config, Event, PathId, Profile};
use festina_units::Duration;

use super::packet::{HEARTBEAT, HEARTBEAT_ACK, SHUTDOWN, SHUTDOWN_ACK, Sent, heartbeat, shutdown, tlvs};
use super::peer::{PEER_TAG, Peer, config, init_ack, ms};

/// The settings with heartbeats every 30 s.
fn beating() -> Config {
    let mut config = config();
    config.timers.heartbeat_interval = Some(Duration::from_secs(30));
    config
}

/// The Heartbeat Info of a packet that is a HEARTBEAT and nothing else.
fn info(sent: &Sent) -> Vec<u8> {
    assert_eq!(sent.kinds(), [HEARTBEAT]);
    info_among_others(sent)
}

/// The Heartbeat Info of a packet.
fn info_among_others(sent: &Sent) -> Vec<u8> {
    let [(1, info)] = &tlvs(&sent.the(HEARTBEAT).value)[..] else { panic!("{sent:?}") };
    info.clone()
}

fn answer(peer: &mut Peer, sent: &Sent) {
    let ack = heartbeat(HEARTBEAT_ACK, &info(sent));
    peer.give(&[ack]);
}

#[test]
fn s8_3_an_idle_path_is_probed_after_the_interval_and_an_rto_with_half_an_rto_of_jitter() {
    let mut peer = Peer::serving(beating(), &init_ack());
    let mut pauses = Vec::new();
    for _ in 0..20 {
        pauses.push(peer.wait_for_packet());
        let sent = peer.take_one();
        assert_eq!((sent.tag, sent.to), (PEER_TAG, peer.address));
        answer(&mut peer, &sent);
    }
    assert!(pauses.iter().all(|pause| (ms(30_500)..=ms(31_500)).contains(pause)), "{pauses:?}");
    assert!(pauses.windows(2).any(|pair| pair[0] != pair[1]), "there is jitter: {pauses:?}");
}

#[test]
fn s8_3_each_heartbeat_carries_another_nonce() {
    let mut peer = Peer::serving(beating(), &init_ack());
    let infos: Vec<_> = (0..5)
        .map(|_| {
            peer.wait_for_packet();
            let sent = peer.take_one();
            answer(&mut peer, &sent);
            info(&sent)
        })
        .collect();
    assert!(infos.iter().all(|info| info.len() >= 8), "§5.4: 64 bits");
    assert!((0..5).all(|index| !infos[..index].contains(&infos[index])), "{infos:?}");
}

#[test]
fn s8_3_a_path_in_use_is_not_probed() {
    let mut peer = Peer::serving(beating(), &init_ack());
    for tsn in 1..20 {
        peer.send("busy");
        peer.ack(tsn);
        peer.wait(Duration::from_secs(20));
        assert!(peer.take().iter().all(|sent| !sent.has(HEARTBEAT)));
    }
}

#[test]
fn s8_3_no_heartbeat_leaves_when_they_are_switched_off() {
    let mut peer = Peer::established();
    peer.wait(Duration::from_secs(3_600));
    peer.nothing_sent();
}

#[test]
fn s8_3_no_heartbeat_leaves_once_shutdown_has_been_sent() {
    let mut sender = Peer::serving(beating(), &init_ack());
    sender.shutdown();
    let mut receiver = Peer::serving(beating(), &init_ack());
    receiver.give(&[shutdown(receiver.tsn(0))]);
    for (mut peer, kind) in [(sender, SHUTDOWN), (receiver, SHUTDOWN_ACK)] {
        peer.wait(Duration::from_secs(200));
        assert!(peer.take().iter().all(|sent| sent.kinds() == [kind]));
    }
}

#[test]
fn s8_3_a_heartbeat_is_answered_at_once_in_every_state_with_data_transfer() {
    let mut pending = Peer::established();
    pending.send("x");
    pending.shutdown();
    let mut received = Peer::established();
    received.send("x");
    received.give(&[shutdown(received.tsn(0))]);
    for mut peer in [Peer::established(), pending, received] {
        peer.take();
        peer.give(&[heartbeat(HEARTBEAT, b"are you there?")]);
        assert_eq!(peer.take_one().the(HEARTBEAT_ACK).value[4..], *b"are you there?");
    }
}

#[test]
fn s8_3_in_cookie_echoed_a_heartbeat_is_answered() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack());
    peer.take();
    peer.give(&[heartbeat(HEARTBEAT, b"are you there?")]);
    assert_eq!(peer.take_one().kinds(), [HEARTBEAT_ACK]);
}

#[test]
fn s8_3_a_heartbeat_ack_gives_a_measurement_of_the_round_trip() {
    let mut peer = Peer::unmeasured(beating());
    peer.wait_for_packet();
    let sent = peer.take_one();
    peer.wait(ms(250));
    answer(&mut peer, &sent);
    assert_eq!(peer.association().stats().path.srtt, Some(ms(250)));
}

#[test]
fn s8_3_a_heartbeat_ack_with_another_nonce_counts_for_nothing() {
    let mut peer = Peer::unmeasured(beating());
    peer.wait_for_packet();
    let mut forged = info(&peer.take_one());
    for byte in &mut forged {
        *byte ^= 0x55;
    }
    peer.give(&[heartbeat(HEARTBEAT_ACK, &forged)]);
    peer.give(&[heartbeat(HEARTBEAT_ACK, b"")]);
    assert_eq!(peer.association().stats().path.srtt, None);
    assert_eq!(peer.state(), AssociationState::Established);
}

#[test]
fn s8_2_unanswered_heartbeats_make_the_path_inactive_and_an_answer_makes_it_active_again() {
    let mut peer = Peer::serving(beating(), &init_ack());
    let mut count = 0;
    while !peer.events.contains(&Event::PathReachable { path: PathId::PRIMARY, reachable: false }) {
        peer.wait(ms(100));
        count += peer.take().len();
        assert!(count <= 7, "Path.Max.Retrans is 5");
    }
    assert!(count > 5, "{count}");
    peer.wait_for_packet();
    let sent = peer.take_one();
    answer(&mut peer, &sent);
    assert_eq!(peer.events.last(), Some(&Event::PathReachable { path: PathId::PRIMARY, reachable: true }));
}

#[test]
fn s8_1_too_many_unanswered_heartbeats_end_the_association() {
    let mut peer = Peer::serving(beating(), &init_ack());
    let mut count = 0;
    while peer.closed().is_none() {
        peer.wait(Duration::from_secs(1));
        count += peer.take().iter().filter(|sent| sent.has(HEARTBEAT)).count();
        assert!(count <= 12);
    }
    assert_eq!(peer.closed(), Some(&ClosedReason::PeerUnreachable));
    assert!((10..=11).contains(&count), "Association.Max.Retrans is 10: {count}");
}

#[test]
fn s8_3_unanswered_heartbeats_come_at_growing_pauses() {
    let mut peer = Peer::serving(beating(), &init_ack());
    let pauses: Vec<_> = (0..5)
        .map(|_| {
            let pause = peer.wait_for_packet();
            peer.take();
            pause.as_secs()
        })
        .collect();
    assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]) && pauses[4] >= 38, "RTO doubles: {pauses:?}");
}

#[test]
fn s8_1_too_many_timeouts_in_a_row_end_the_association() {
    let mut peer = Peer::established();
    peer.send("lost");
    peer.take();
    for _ in 0..10 {
        peer.wait_for_packet();
        assert_eq!(peer.take_tsns(), [[1]]);
        assert_eq!(peer.closed(), None);
    }
    peer.wait_for_packet();
    assert_eq!(peer.closed(), Some(&ClosedReason::PeerUnreachable));
    assert!(peer.take().iter().all(|sent| sent.data().is_empty()), "no more data is sent");
    peer.wait(Duration::from_secs(600));
    peer.nothing_sent();
    assert!(peer.events.iter().any(|event| matches!(event, Event::MessagesAbandoned { .. })));
}

#[test]
fn s8_1_an_acknowledgement_resets_the_counter() {
    let mut peer = Peer::established();
    for tsn in 1..=3 {
        peer.send("lost at first");
        peer.take();
        for _ in 0..9 {
            peer.wait_for_packet();
            assert_eq!(peer.take_tsns(), [[tsn]]);
        }
        peer.ack(tsn);
        assert_eq!(peer.closed(), None);
    }
}

#[test]
fn s8_2_timeouts_make_the_path_inactive_and_an_acknowledgement_makes_it_active_again() {
    let mut peer = Peer::established();
    peer.send("lost");
    peer.take();
    for _ in 0..5 {
        peer.wait_for_packet();
        peer.take();
    }
    assert!(
        !peer.events.contains(&Event::PathReachable { path: PathId::PRIMARY, reachable: false }),
        "Path.Max.Retrans is not exceeded yet"
    );
    peer.wait_for_packet();
    assert!(peer.events.contains(&Event::PathReachable { path: PathId::PRIMARY, reachable: false }));
    peer.ack(1);
    assert!(peer.events.contains(&Event::PathReachable { path: PathId::PRIMARY, reachable: true }));
}

/// The settings of a profile with a limit for the silence of a peer.
fn timed(profile: Profile) -> Config {
    Config { peer_timeout: Some(Duration::from_secs(60)), ..Config::published(profile) }
}

/// Lets a peer be silent; how long until the association is over.
fn silence(peer: &mut Peer) -> Duration {
    let start = peer.now;
    while peer.closed().is_none() {
        peer.take();
        peer.wait_for_packet();
        assert!(peer.now - start < Duration::from_secs(600), "the failure is not noticed");
    }
    assert_eq!(peer.closed(), Some(&ClosedReason::PeerUnreachable));
    peer.now - start
}

#[test]
fn s8_1_with_a_peer_timeout_a_peer_that_vanishes_is_noticed_in_time_in_every_state() {
    let ways: [fn(&mut Peer); 5] = [
        |_| {},
        |peer| peer.send("lost"),
        |peer| {
            peer.send("lost");
            peer.shutdown();
        },
        Peer::shutdown,
        |peer| peer.give(&[shutdown(peer.tsn(0))]),
    ];
    // A quarter passes before the first question, and the last one waits for an eighth.
    let window = Duration::from_secs(60)..=Duration::from_millis(82_500);
    for profile in [Profile::Festina, Profile::Rfc9260] {
        for (way, begin) in ways.iter().enumerate() {
            let mut config = timed(profile);
            config.timers.shutdown_stall = Duration::from_secs(1_000);
            let mut peer = Peer::serving(config, &init_ack());
            begin(&mut peer);
            let time = silence(&mut peer);
            assert!(window.contains(&time), "{profile:?}, way {way}: {time:?}");
        }
    }
}

#[test]
fn s8_1_with_a_peer_timeout_an_outage_that_is_shorter_ends_nothing() {
    for profile in [Profile::Festina, Profile::Rfc9260] {
        let mut peer = Peer::serving(timed(profile), &init_ack());
        // The time in which nothing is asked does not count.
        peer.wait(Duration::from_secs(10));
        peer.nothing_sent();
        peer.send("delayed");
        peer.wait(Duration::from_secs(59));
        peer.ack(1);
        assert_eq!(peer.closed(), None);
        peer.wait(Duration::from_secs(59));
        assert_eq!(peer.closed(), None);
    }
}

#[test]
fn s8_3_with_a_peer_timeout_an_idle_path_is_asked_four_times_in_that_time_and_more_often_in_silence() {
    let mut peer = Peer::serving(timed(Profile::Festina), &init_ack());
    for _ in 0..20 {
        let pause = peer.wait_for_packet();
        assert!((Duration::from_secs(12)..=Duration::from_secs(15)).contains(&pause), "{pause:?}");
        let sent = peer.take_one();
        answer(&mut peer, &sent);
    }
    peer.wait(Duration::from_secs(74));
    let asked = peer.take().iter().filter(|sent| sent.has(HEARTBEAT)).count();
    assert!((8..=16).contains(&asked), "{asked}");
}

#[test]
fn s8_1_with_a_peer_timeout_a_timer_that_has_backed_off_does_not_end_a_peer_that_answers_heartbeats() {
    let mut peer = Peer::serving(timed(Profile::Rfc9260), &init_ack());
    peer.send("full");
    peer.take();
    peer.ack_window(1, 0);
    peer.send("waits");
    let start = peer.now;
    // The window stays closed, and each probe is answered, until the pause between two is a minute.
    let mut lost = 0;
    while peer.now - start < Duration::from_secs(1_800) {
        peer.wait_for_packet();
        for sent in peer.take() {
            if sent.has(HEARTBEAT) {
                peer.give(&[heartbeat(HEARTBEAT_ACK, &info_among_others(&sent))]);
            }
            if sent.kinds() == [HEARTBEAT] {
                continue;
            }
            if peer.now - start > Duration::from_secs(600) {
                lost += 1;
            } else {
                peer.ack_window(1, 0);
            }
        }
        assert_eq!(peer.closed(), None);
    }
    assert!(lost > 10);
}

#[test]
fn the_peer_timeout_belongs_to_the_profile_festina_and_has_a_range() {
    assert_eq!(Config::default().peer_timeout, Some(Duration::from_secs(60)));
    assert_eq!(Config::published(Profile::Rfc9260).peer_timeout, None);
    for (timeout, valid) in [(ms(999), false), (ms(1_000), true), (Duration::MAX, false)] {
        let config = Config { peer_timeout: Some(timeout), ..Config::default() };
        assert_eq!(config.validate().is_ok(), valid, "{timeout:?}");
    }
}
