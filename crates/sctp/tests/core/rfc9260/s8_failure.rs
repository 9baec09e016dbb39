//! §8.1 to §8.3: heartbeats and error counters.

use festina_sctp::{AssociationState, ClosedReason, Config, Event};
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
    while !peer.events.contains(&Event::PathReachable(false)) {
        peer.wait(ms(100));
        count += peer.take().len();
        assert!(count <= 7, "Path.Max.Retrans is 5");
    }
    assert!(count > 5, "{count}");
    peer.wait_for_packet();
    let sent = peer.take_one();
    answer(&mut peer, &sent);
    assert_eq!(peer.events.last(), Some(&Event::PathReachable(true)));
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
    assert!(!peer.events.contains(&Event::PathReachable(false)), "Path.Max.Retrans is not exceeded yet");
    peer.wait_for_packet();
    assert!(peer.events.contains(&Event::PathReachable(false)));
    peer.ack(1);
    assert!(peer.events.contains(&Event::PathReachable(true)));
}
