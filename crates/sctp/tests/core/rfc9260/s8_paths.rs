//! §6.3, §6.4, §8.1 to §8.3, RFC 7829 and RFC 6951 with several addresses of the peer, and the purposes D, AT, FH and RT of ETSI TS 102 369.

use std::net::SocketAddr;

use festina_sctp::{Config, Event, Multihoming, PathPolicy, PathState};
use festina_units::Duration;

use super::packet::{
    DATA, ERROR, HEARTBEAT, HEARTBEAT_ACK, SHUTDOWN_ACK, SHUTDOWN_COMPLETE, Sent, chunk, data, heartbeat, shutdown,
    tlv, tlvs,
};
use super::peer::{PMDCS, Peer, config, ms};
use super::s6_4_multihoming::{
    IPV4, answer, destinations, first, give_from, named, next_data, second, second_path, serving, states,
    with_two_paths,
};

/// RFC 9260 alone, with one path for data.
fn primary_only() -> Multihoming {
    Multihoming { suspected_above: None, policy: PathPolicy::PrimaryOnly, ..Multihoming::default() }
}

fn beating() -> Config {
    let mut settings = config();
    settings.timers.heartbeat_interval = Some(Duration::from_secs(30));
    settings
}

fn info(sent: &Sent) -> Vec<u8> {
    let [(1, info)] = &tlvs(&sent.the(HEARTBEAT).value)[..] else { panic!("{sent:?}") };
    info.clone()
}

/// Lets time pass while these addresses answer heartbeats at once, and returns all packets with their times.
fn live(peer: &mut Peer, time: Duration, alive: &[SocketAddr]) -> Vec<(Duration, Sent)> {
    let (start, mut all) = (peer.now, Vec::new());
    while peer.now - start < time && peer.closed().is_none() {
        for sent in peer.take() {
            if sent.has(HEARTBEAT) && alive.contains(&sent.to) {
                give_from(peer, sent.to, &[heartbeat(HEARTBEAT_ACK, &info(&sent))]);
            }
            all.push((peer.now - start, sent));
        }
        peer.wait(ms(50));
    }
    all
}

/// Has the first path fail by timeouts of data, which the second carries.
fn first_path_fails(peer: &mut Peer) -> u32 {
    let mut tsn = 0;
    while states(peer)[0] != PathState::Inactive {
        tsn += 1;
        peer.send("x");
        peer.take();
        while !peer.take().iter().any(|sent| sent.has(DATA) && sent.to != first()) {
            peer.wait_for_packet();
        }
        let ack = peer.sack(tsn, 1 << 20, &[]);
        give_from(peer, second(), &[ack.chunk()]);
    }
    tsn
}

/// ETSI D-V 8-10.
#[test]
fn s6_4_etsi_d_v_8_10_a_sack_from_another_address_is_accepted() {
    for mut peer in [with_two_paths(config(), primary_only()), serving(config(), primary_only(), &named())] {
        peer.take();
        peer.send("x");
        assert!(peer.take().iter().any(|sent| sent.has(DATA) && sent.to == first()));
        let ack = peer.sack(1, 1 << 20, &[]);
        give_from(&mut peer, second(), &[ack.chunk()]);
        peer.wait(Duration::from_secs(10));
        assert!(!peer.take().iter().any(|sent| sent.has(DATA)), "nothing is retransmitted");
        peer.send("y");
        let sent = peer.take();
        assert!(sent.iter().any(|sent| peer.tsns(sent) == [2] && sent.to == first()), "{sent:?}");
    }
}

/// ETSI AT-I 2-11 with several addresses.
#[test]
fn s9_2_etsi_at_i_2_11_a_shutdown_ack_that_is_not_answered_leaves_by_the_other_path() {
    let mut peer = with_two_paths(config(), primary_only());
    let tsn = peer.tsn(0);
    give_from(&mut peer, second(), &[shutdown(tsn)]);
    let mut sent = vec![peer.take_one()];
    for _ in 0..3 {
        peer.wait_for_packet();
        sent.extend(peer.take());
    }
    assert!(sent.iter().all(|sent| sent.kinds() == [SHUTDOWN_ACK]));
    let to = destinations(&sent);
    assert_eq!(to[..2], [second(), first()], "the first one answers the SHUTDOWN");
    assert!(to[2..].contains(&second()), "{to:?}");
}

#[test]
fn s6_4_replies_go_to_the_source_of_the_chunk_that_they_answer() {
    for source in [first(), second()] {
        let mut peer = with_two_paths(config(), primary_only());
        give_from(&mut peer, source, &[chunk(0xff, 0, b"????")]);
        let sent = peer.take_one();
        assert_eq!((sent.kinds(), sent.to), (vec![ERROR], source));
        peer.shutdown();
        peer.take();
        give_from(&mut peer, source, &[chunk(SHUTDOWN_ACK, 0, b"")]);
        let sent = peer.take_one();
        assert_eq!((sent.kinds(), sent.to), (vec![SHUTDOWN_COMPLETE], source));
    }
}

#[test]
fn s6_4_a_fast_retransmission_leaves_by_the_path_of_the_original() {
    for moved in [false, true] {
        let mut peer = with_two_paths(config(), primary_only());
        let id = second_path(&mut peer);
        peer.send("1");
        peer.take();
        if moved {
            assert!(peer.association().set_primary(id));
        }
        for tsn in 2..=4 {
            peer.send("later");
            peer.take();
            peer.ack_gaps(0, &[(2, tsn)]);
        }
        let sent = peer.take();
        let [sent] = &sent.iter().filter(|sent| peer.tsns(sent).contains(&1)).collect::<Vec<_>>()[..] else {
            panic!("sent again once: {sent:?}")
        };
        assert!(moved || sent.to == first(), "{sent:?}");
    }
}

#[test]
fn s6_3_3_after_a_timeout_what_was_in_flight_leaves_by_the_other_path_within_its_own_window() {
    let mut peer = with_two_paths(config(), primary_only());
    peer.send_full(40);
    let window = peer.take();
    assert!(window.len() >= 3 && window.iter().all(|sent| sent.to == first()));
    let stats = |peer: &mut Peer| peer.association().path_stats().collect::<Vec<_>>();
    let before = stats(&mut peer);
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1));
    let sent = peer.take();
    let after = stats(&mut peer);
    let again = u32::try_from(window.len()).unwrap();
    for sent in &sent {
        let to = if peer.tsns(sent)[0] <= again { second() } else { first() };
        assert_eq!(sent.to, to, "{sent:?}");
    }
    assert_eq!(after[0].cwnd_bytes, PMDCS as u64, "E1: that of the address which timed out");
    assert!(after.iter().all(|path| path.in_flight_bytes < path.cwnd_bytes + PMDCS as u64), "{after:?}");
    assert_eq!(after[1].cwnd_bytes, before[1].cwnd_bytes, "§7.2: another has its own");
    assert_eq!((after[0].rto, after[1].rto), (before[0].rto * 2, before[1].rto), "E2");
    assert_eq!(after[1].in_flight_bytes, before[0].in_flight_bytes, "§6.4: outstanding where it was sent last");
}

#[test]
fn s7_2_1_a_path_that_takes_over_begins_with_its_initial_window() {
    let mut peer = with_two_paths(config(), primary_only());
    let tsn = first_path_fails(&mut peer);
    peer.send_full(100);
    let sent: Vec<_> = peer.take().into_iter().filter(|sent| sent.has(DATA)).collect();
    let bytes = sent.len() * PMDCS;
    assert!(sent.iter().all(|sent| sent.to == second()) && bytes >= PMDCS && bytes <= 4_404 + PMDCS, "{bytes}");
    peer.ack(tsn + u32::try_from(sent.len()).unwrap());
    assert!(peer.take().iter().all(|sent| sent.to == second()));
}

#[test]
fn s8_1_heartbeats_on_a_path_without_data_end_nothing() {
    let mut settings = beating();
    (settings.retries.association_max, settings.retries.unreachable_after_min) = (2, Duration::ZERO);
    let mut peer = with_two_paths(settings, primary_only());
    let all = live(&mut peer, Duration::from_secs(3_600), &[first()]);
    let silent = all.iter().filter(|(_, sent)| sent.has(HEARTBEAT) && sent.to == second()).count();
    assert!(silent > 10, "{silent}");
    assert_eq!(peer.closed(), None);
    assert_eq!(states(&mut peer), [PathState::Active, PathState::Inactive]);
    live(&mut peer, Duration::from_secs(3_600), &[second()]);
    assert!(peer.closed().is_some() || states(&mut peer)[0] == PathState::Inactive);
}

#[test]
fn s8_1_an_acknowledgement_by_any_address_resets_the_counter_of_the_association() {
    let mut settings = config();
    (settings.retries.association_max, settings.retries.unreachable_after_min) = (4, Duration::ZERO);
    settings.retries.path_max = 100;
    let mut peer = with_two_paths(settings, primary_only());
    for tsn in 1..=10 {
        peer.send("x");
        for _ in 0..4 {
            peer.wait_for_packet();
            peer.take();
        }
        assert_eq!(peer.closed(), None, "{tsn}");
        let ack = peer.sack(tsn, 1 << 20, &[]);
        give_from(&mut peer, second(), &[ack.chunk()]);
    }
}

/// draft-hss-conformance-test-sctp-00, 5.4.
#[test]
fn s8_2_an_acknowledgement_of_what_left_by_the_other_path_last_does_not_clear_the_counter() {
    let mut peer = with_two_paths(config(), primary_only());
    let errors = |peer: &mut Peer| peer.association().paths().map(|path| path.errors).collect::<Vec<_>>();
    peer.send("x");
    assert_eq!(next_data(&mut peer).1, first());
    assert_eq!(next_data(&mut peer).1, second());
    peer.ack(1);
    assert_eq!(errors(&mut peer), [1, 0]);
    // One that left by the first path last clears it.
    peer.send("y");
    assert_eq!(next_data(&mut peer).1, first());
    peer.ack(2);
    assert_eq!(errors(&mut peer), [0, 0]);
}

#[test]
fn s8_2_of_several_active_addresses_one_takes_over() {
    let addresses = [named(), tlv(IPV4, &[203, 0, 113, 5]), tlv(IPV4, &[203, 0, 113, 6])].concat();
    let mut peer = serving(config(), primary_only(), &addresses);
    for _ in 0..3 {
        answer(&mut peer);
        peer.wait(Duration::from_secs(1));
    }
    assert_eq!(states(&mut peer), [PathState::Active; 4]);
    let mut tsn = 0;
    while states(&mut peer)[0] == PathState::Active {
        tsn += 1;
        peer.send("x");
        peer.take();
        while !peer.take().iter().any(|sent| sent.has(DATA) && sent.to != first()) {
            peer.wait_for_packet();
        }
        peer.ack(tsn);
    }
    let mut used = Vec::new();
    for _ in 0..20 {
        tsn += 1;
        peer.send("x");
        used.extend(destinations(&peer.take()));
        peer.ack(tsn);
        peer.take();
    }
    assert!(used.len() == 20 && used.iter().all(|&to| to == used[0] && to != first()), "{used:?}");
}

#[test]
fn s8_2_if_all_addresses_are_inactive_data_still_leaves_and_an_answer_ends_it() {
    let mut settings = beating();
    (settings.retries.association_max, settings.retries.path_max) = (1_000, 1);
    let mut peer = with_two_paths(settings, primary_only());
    peer.send("x");
    while states(&mut peer) != [PathState::Inactive; 2] {
        peer.wait_for_packet();
        peer.take();
    }
    let all = live(&mut peer, Duration::from_secs(600), &[]);
    assert!(all.iter().any(|(_, sent)| sent.has(DATA)), "the dormant state");
    let start = peer.now;
    while !peer.take().iter().any(|sent| {
        let is_asked = sent.has(HEARTBEAT) && sent.to == second();
        is_asked.then(|| give_from(&mut peer, second(), &[heartbeat(HEARTBEAT_ACK, &info(sent))])).is_some()
    }) {
        peer.wait_for_packet();
    }
    assert!(peer.now - start < Duration::from_secs(150), "a path that carries retransmissions alone is idle (§8.3)");
    assert_eq!(states(&mut peer), [PathState::Inactive, PathState::Active]);
    peer.take();
    peer.send("y");
    let sent = peer.take();
    assert!(sent.iter().any(|sent| sent.has(DATA) && sent.to == second()), "{sent:?}");
}

/// draft-hss-conformance-test-sctp-00, 5.5.
#[test]
fn s8_3_each_idle_address_is_probed_active_or_not_while_another_carries_data() {
    let mut peer = with_two_paths(beating(), primary_only());
    let mut tsn = 0;
    let mut probes = Vec::new();
    for alive in [&[second()][..], &[]] {
        let start = peer.now;
        let mut seen = Vec::new();
        for _ in 0..600 {
            tsn += 1;
            peer.send("x");
            seen.extend(live(&mut peer, Duration::from_secs(1), alive).into_iter().filter(|(_, sent)| {
                assert!(!sent.has(HEARTBEAT) || sent.to == second(), "a path with data is not idle");
                sent.has(HEARTBEAT)
            }));
            peer.ack(tsn);
        }
        assert_eq!(peer.now - start, Duration::from_secs(600));
        probes.push(seen.len());
    }
    assert!((17..=20).contains(&probes[0]), "every 30 s and an RTO: {probes:?}");
    assert_eq!(states(&mut peer), [PathState::Active, PathState::Inactive]);
    assert!(probes[1] >= 6, "inactive ones, too: {probes:?}");
}

/// draft-hss-conformance-test-sctp-00, 5.8.
#[test]
fn s8_2_an_answer_of_an_inactive_second_address_makes_it_active_and_clears_its_counter() {
    let mut peer = with_two_paths(beating(), primary_only());
    let id = second_path(&mut peer);
    for _ in 0..2 {
        live(&mut peer, Duration::from_secs(3_000), &[first()]);
        assert_eq!(states(&mut peer), [PathState::Active, PathState::Inactive]);
        live(&mut peer, Duration::from_secs(200), &[first(), second()]);
        assert_eq!(states(&mut peer), [PathState::Active; 2]);
        assert_eq!(peer.association().paths().nth(1).unwrap().errors, 0);
    }
    let told: Vec<_> = peer
        .events
        .iter()
        .filter_map(|event| match event {
            Event::PathReachable { path, reachable } if *path == id => Some(*reachable),
            _ => None,
        })
        .collect();
    assert_eq!(told, [false, true, false, true]);
}

#[test]
fn s8_3_no_heartbeat_leaves_on_any_path_once_shutdown_has_been_sent() {
    let mut settings = beating();
    settings.timers.heartbeat_interval = Some(Duration::from_secs(1));
    let mut peer = with_two_paths(settings, primary_only());
    peer.shutdown();
    peer.take();
    peer.wait(Duration::from_secs(100));
    assert!(!peer.take().iter().any(|sent| sent.has(HEARTBEAT)));
}

#[test]
fn s6_3_1_each_address_has_a_round_trip_of_its_own() {
    let mut settings = beating();
    (settings.mechanisms.normal.rto_min, settings.mechanisms.thin.rto_min) = (ms(400), ms(400));
    let mut peer = with_two_paths(settings, primary_only());
    for _ in 0..200 {
        peer.wait_for_packet();
        for sent in peer.take().into_iter().filter(|sent| sent.has(HEARTBEAT)) {
            peer.wait(if sent.to == first() { ms(20) } else { ms(300) });
            give_from(&mut peer, sent.to, &[heartbeat(HEARTBEAT_ACK, &info(&sent))]);
        }
    }
    let stats: Vec<_> = peer.association().path_stats().collect();
    let [near, far] = &stats[..] else { panic!("{stats:?}") };
    assert_eq!((near.rtt_latest, far.rtt_latest), (Some(ms(20)), Some(ms(300))));
    assert_eq!((near.srtt.map(|srtt| srtt.as_millis()), near.rto), (Some(20), ms(400)));
    assert!(far.srtt.is_some_and(|srtt| srtt >= ms(290)), "{far:?}");
}

#[test]
fn s6_4_1_data_for_an_inactive_primary_path_leaves_by_an_active_one() {
    let mut peer = with_two_paths(beating(), primary_only());
    let id = second_path(&mut peer);
    live(&mut peer, Duration::from_secs(3_000), &[first()]);
    assert_eq!(states(&mut peer)[1], PathState::Inactive);
    peer.association().set_primary(id);
    peer.take();
    peer.send("x");
    assert!(peer.take().iter().any(|sent| sent.has(DATA) && sent.to == first()));
    peer.ack(1);
    live(&mut peer, Duration::from_secs(200), &[first(), second()]);
    peer.send("y");
    assert!(peer.take().iter().any(|sent| sent.has(DATA) && sent.to == second()), "it is the primary one again");
}

#[test]
fn rfc6951_5_4_each_address_has_an_encapsulation_port_of_its_own() {
    let mut peer = with_two_paths(config(), primary_only());
    let moved: SocketAddr = "198.51.100.7:41000".parse().unwrap();
    give_from(&mut peer, moved, &[heartbeat(HEARTBEAT, b"by a NAT")]);
    assert_eq!(peer.take_one().to, moved);
    let remotes: Vec<_> = peer.association().paths().map(|path| path.remote).collect();
    assert_eq!(remotes, [first(), moved]);
    peer.send("x");
    assert_eq!(next_data(&mut peer).1, first());
    assert_eq!(next_data(&mut peer).1, moved);
    // A packet with another tag changes nothing.
    let tag = std::mem::replace(&mut peer.tag, 0x1234_5678);
    give_from(&mut peer, "198.51.100.7:666".parse().unwrap(), &[data(1)]);
    peer.tag = tag;
    assert_eq!(peer.association().paths().nth(1).unwrap().remote, moved);
}

#[test]
fn rfc7829_3_2_a_potentially_failed_path_is_probed_each_rto_with_backoff_until_it_is_inactive() {
    let multihoming = Multihoming { suspected_above: Some(0), ..primary_only() };
    let mut peer = with_two_paths(beating(), multihoming);
    peer.send("x");
    let start = peer.now;
    peer.take();
    peer.wait_for_packet();
    peer.ack(1);
    let all = live(&mut peer, Duration::from_secs(200), &[second()]);
    let probes: Vec<_> = all
        .iter()
        .filter(|(_, sent)| sent.has(HEARTBEAT) && sent.to == first())
        .map(|(at, _)| at.as_millis() / 1_000)
        .collect();
    assert!(probes.starts_with(&[0, 2, 6, 14, 30]), "{probes:?}");
    assert_eq!(states(&mut peer)[0], PathState::Inactive, "after {:?}: {probes:?}", peer.now - start);
    let told: Vec<_> = peer
        .events
        .iter()
        .filter_map(|event| match event {
            Event::PathSuspected { suspected, .. } => Some(("suspected", *suspected)),
            Event::PathReachable { reachable, .. } => Some(("reachable", *reachable)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [("suspected", true), ("reachable", false)]);
}

#[test]
fn rfc7829_3_2_of_potentially_failed_paths_none_ends_the_association_before_its_time() {
    let multihoming = Multihoming { suspected_above: Some(0), ..primary_only() };
    let mut peer = with_two_paths(beating(), multihoming);
    let start = peer.now;
    peer.send("x");
    live(&mut peer, Duration::from_secs(1_000), &[]);
    assert!(peer.closed().is_some());
    assert!(peer.now - start >= Duration::from_secs(60), "{:?}", peer.now - start);
}
