//! §5.1.2, §5.2.2, §5.4, §6.4, §8 and RFC 7829: several addresses of both ends, with a path to each of the peer's.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use festina_sctp::{Config, Context, Event, Multihoming, MultihomingError, PathId, PathState, Profile};
use festina_units::Duration;

use super::packet::{
    ABORT, COOKIE_ACK, COOKIE_ECHO, DATA, HEARTBEAT, HEARTBEAT_ACK, INIT, INIT_ACK, Init, SACK, SHUTDOWN, Sent, T_BIT,
    chunk, cookie_echo, data, heartbeat, tlv, tlvs,
};
use super::peer::{Peer, config, init_ack, ms, offer};
use super::s5_2_collisions::new_init;

pub(super) const IPV4: u16 = 5;
pub(super) const IPV6: u16 = 6;

/// The path to the second address.
pub(super) fn second_path(peer: &mut Peer) -> PathId {
    peer.association().paths().nth(1).expect("there are two paths").id
}

pub(super) fn first() -> SocketAddr {
    "192.0.2.1:9899".parse().unwrap()
}

pub(super) fn second() -> SocketAddr {
    "198.51.100.7:9899".parse().unwrap()
}

/// Names the second address.
pub(super) fn named() -> Vec<u8> {
    tlv(IPV4, &[198, 51, 100, 7])
}

pub(super) fn multihomed(config: Config, multihoming: Multihoming) -> Arc<Context> {
    Context::multihomed(config, [7; 16], multihoming).unwrap()
}

/// Without potentially failed paths.
pub(super) fn rfc9260() -> Multihoming {
    Multihoming { suspected_above: None, ..Multihoming::default() }
}

/// A peer with these other addresses, established as the server of an association.
pub(super) fn serving(config: Config, multihoming: Multihoming, addresses: &[u8]) -> Peer {
    let mut peer = Peer::of(multihomed(config, multihoming));
    peer.connect(1);
    let init = peer.take_one().init();
    (peer.tag, peer.initial_tsn) = (init.tag, init.tsn);
    let mut ack = init_ack();
    ack.parameters.extend(addresses);
    peer.give(&[ack.chunk(INIT_ACK)]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO]);
    peer.give(&[chunk(COOKIE_ACK, 0, b"")]);
    peer
}

/// The same with two addresses, both confirmed.
pub(super) fn with_two_paths(config: Config, multihoming: Multihoming) -> Peer {
    let mut peer = serving(config, multihoming, &named());
    answer(&mut peer);
    assert_eq!(states(&mut peer), [PathState::Active; 2]);
    peer
}

/// Answers the HEARTBEAT that was sent last, from where it was sent to.
pub(super) fn answer(peer: &mut Peer) {
    let sent = peer.take().into_iter().rfind(|sent| sent.has(HEARTBEAT)).expect("a HEARTBEAT was sent");
    let [(1, info)] = &tlvs(&sent.the(HEARTBEAT).value)[..] else { panic!("{sent:?}") };
    give_from(peer, sent.to, &[heartbeat(HEARTBEAT_ACK, info)]);
}

pub(super) fn give_from(peer: &mut Peer, source: SocketAddr, chunks: &[Vec<u8>]) {
    let usual = std::mem::replace(&mut peer.address, source);
    peer.give(chunks);
    peer.address = usual;
}

pub(super) fn states(peer: &mut Peer) -> Vec<PathState> {
    peer.association().paths().map(|path| path.state).collect()
}

pub(super) fn destinations(sent: &[Sent]) -> Vec<SocketAddr> {
    sent.iter().map(|sent| sent.to).collect()
}

/// Where the next packet goes, which must hold DATA, and how long that takes.
pub(super) fn next_data(peer: &mut Peer) -> (u64, SocketAddr) {
    let pause = peer.wait_for_packet();
    let sent = peer.take_one();
    assert!(sent.has(DATA), "{sent:?}");
    (u64::try_from(pause.as_millis()).unwrap(), sent.to)
}

#[test]
fn s5_1_2_an_endpoint_with_several_addresses_names_them_in_init_and_init_ack() {
    let addresses = ["192.0.2.9", "2001:db8::9", "127.0.0.1"].map(|address| address.parse().unwrap());
    let multihoming = Multihoming { addresses: addresses.into(), ..Multihoming::default() };
    let context = multihomed(config(), multihoming);
    let mut client = Peer::of(Arc::clone(&context));
    client.connect(1);
    let mut server = Peer::of(context);
    let long = Init { parameters: tlv(0x8123, &[0; 40]), ..offer() };
    server.give_tagged(0, &[long.chunk(INIT)]);
    let IpAddr::V6(ipv6) = addresses[1] else { panic!("{addresses:?}") };
    for init in [client.take_one().init(), server.take_one().init()] {
        assert_eq!(init.all(IPV4), [[192, 0, 2, 9]], "a loopback address is another host to the peer");
        assert_eq!(init.all(IPV6), [ipv6.octets()]);
    }
}

#[test]
fn s5_1_2_an_init_ack_names_no_more_addresses_than_the_answer_to_an_unproven_source_may_hold() {
    let addresses = (1..=8).map(|last| IpAddr::from([192, 0, 2, last])).collect();
    let context = multihomed(config(), Multihoming { addresses, ..Multihoming::default() });
    let mut counts = Vec::new();
    for padding in (0..400).step_by(4) {
        let mut peer = Peer::of(Arc::clone(&context));
        let init = Init { parameters: tlv(0x8123, &vec![0; padding]), ..offer() };
        peer.give_tagged(0, &[init.chunk(INIT)]);
        let sent = peer.take_one();
        assert!(sent.bytes.len() <= 3 * (12 + init.chunk(INIT).len()) && sent.bytes.len() <= 384);
        counts.push(sent.init().all(IPV4).len());
    }
    assert!(counts.is_sorted() && counts[0] < 8 && counts.last() == Some(&8), "{counts:?}");
}

#[test]
fn s3_3_2_1_2_addresses_that_are_mapped_or_of_no_single_host_are_refused() {
    for address in ["::ffff:192.0.2.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "ff02::1", "::"] {
        let addresses = vec![address.parse().unwrap()];
        let result = Context::multihomed(config(), [7; 16], Multihoming { addresses, ..Multihoming::default() });
        assert_eq!(result.unwrap_err(), MultihomingError::UnusableAddress(address.parse().unwrap()));
    }
    let too_many = Multihoming { addresses: vec![first().ip(); 9], ..Multihoming::default() };
    assert!(matches!(Context::multihomed(config(), [7; 16], too_many), Err(MultihomingError::OutOfRange(_))));
}

#[test]
fn s5_1_2_without_an_address_of_its_family_an_address_of_the_peer_gets_no_path() {
    for (own, paths) in [("192.0.2.9", 2), ("2001:db8::9", 1)] {
        let multihoming = Multihoming { addresses: vec![own.parse().unwrap()], ..Multihoming::default() };
        assert_eq!(serving(config(), multihoming, &named()).association().paths().count(), paths);
    }
}

#[test]
fn s5_4_an_address_is_confirmed_by_a_heartbeat_with_a_nonce_before_anything_else_is_sent_to_it() {
    let mut peer = serving(config(), rfc9260(), &named());
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.to), (vec![HEARTBEAT], second()));
    let [(1, info)] = &tlvs(&sent.the(HEARTBEAT).value)[..] else { panic!("{sent:?}") };
    assert!(info.len() >= 8, "64 bits");
    let id = second_path(&mut peer);
    assert!(!peer.association().set_primary(id), "not before it is confirmed");
    let mut forged = info.clone();
    forged[3] ^= 1;
    give_from(&mut peer, second(), &[heartbeat(HEARTBEAT_ACK, &forged)]);
    assert_eq!(states(&mut peer), [PathState::Active, PathState::Unconfirmed]);
    // Neither DATA nor SACK is sent to it after timeouts either.
    peer.send("x");
    give_from(&mut peer, second(), &[data(1)]);
    peer.wait(Duration::from_secs(20));
    let sent = peer.take();
    let to_second: Vec<_> = sent.iter().filter(|sent| sent.to == second()).map(Sent::kinds).collect();
    assert!(!to_second.is_empty() && to_second.iter().all(|kinds| kinds == &[HEARTBEAT]), "{to_second:?}");
    give_from(&mut peer, second(), &[heartbeat(HEARTBEAT_ACK, info)]);
    assert!(peer.events.contains(&Event::PathConfirmed { path: id, remote: second() }));
    assert_eq!(states(&mut peer), [PathState::Active; 2]);
}

#[test]
fn s5_4_one_address_is_probed_each_rto_and_none_again_and_again() {
    let addresses: Vec<_> = (1..=7).flat_map(|last| tlv(IPV4, &[198, 51, 100, last])).collect();
    let mut peer = serving(config(), rfc9260(), &addresses);
    // That there may be many of them.
    peer.give(&[heartbeat(HEARTBEAT, &[7; 1_000])]);
    let mut times = Vec::new();
    let start = peer.now;
    while peer.now - start < Duration::from_secs(3_600) {
        let probes = peer.take().into_iter().filter(|sent| sent.has(HEARTBEAT));
        times.extend(probes.map(|sent| (peer.now - start, sent.to)));
        peer.wait(ms(100));
    }
    // The round trip of the handshake was 0 and RTO.Min is 1 s.
    assert!(times[..7].iter().zip(0..).all(|((time, _), second)| time.as_secs() == second), "{times:?}");
    let probes = |last: u8| times.iter().filter(|(_, to)| to.ip() == IpAddr::from([198, 51, 100, last])).count();
    assert_eq!((1..=7).map(probes).collect::<Vec<_>>(), [6; 7], "Path.Max.Retrans and one");
    assert_eq!(peer.closed(), None, "addresses that do not answer say nothing of the peer");
}

#[test]
fn s5_4_heartbeats_to_unconfirmed_addresses_are_at_most_three_times_the_bytes_received() {
    let addresses: Vec<_> = (0..=255).flat_map(|last| tlv(IPV4, &[198, 51, 100, last])).collect();
    let mut config = config();
    config.timers.heartbeat_interval = Some(Duration::from_secs(1));
    (config.retries.path_max, config.retries.association_max) = (100_000, u32::MAX);
    let mut peer = serving(config, rfc9260(), &addresses);
    let received = init_ack().chunk(INIT_ACK).len() + addresses.len() + 12 + 16;
    peer.wait(Duration::from_secs(100_000));
    let to_others = |sent: &Sent| sent.to != first();
    let probes: usize = peer.take().iter().filter(|sent| to_others(sent)).map(|sent| sent.bytes.len()).sum();
    assert!(probes > 3 * received - 28 && probes <= 3 * received, "{probes} bytes for {received}");
    assert_eq!(peer.association().paths().count(), 8);
    assert_eq!(peer.association().addresses_ignored(), 248);
}

#[test]
fn s5_1_2_addresses_of_no_single_host_get_no_path_and_are_counted() {
    let unusable = [
        tlv(IPV4, &[127, 0, 0, 1]),
        tlv(IPV4, &[0; 4]),
        tlv(IPV4, &[224, 0, 0, 1]),
        tlv(IPV4, &[255; 4]),
        tlv(IPV6, &[0; 16]),
        tlv(IPV6, &[0xff; 16]),
        tlv(IPV6, &[&[0; 10][..], &[255, 255, 127, 0, 0, 1]].concat()),
    ];
    // The source, and the second address twice, are no reason to count.
    let addresses = [unusable.concat(), named(), named(), tlv(IPV4, &[192, 0, 2, 1])].concat();
    let client = serving(config(), rfc9260(), &addresses);
    let mut server = Peer::of(multihomed(config(), rfc9260()));
    let cookie = server.begin(&Init { parameters: addresses, ..offer() });
    server.give(&[cookie_echo(&cookie)]);
    for mut peer in [client, server] {
        let remotes: Vec<_> = peer.association().paths().map(|path| path.remote).collect();
        assert_eq!(remotes, [first(), second()]);
        assert_eq!(peer.association().addresses_ignored(), 7);
    }
}

#[test]
fn s8_5_1_an_abort_with_the_own_tag_reflected_from_an_unconfirmed_address_is_ignored() {
    let mut peer = serving(config(), rfc9260(), &named());
    peer.take();
    let reflected = chunk(ABORT, T_BIT, b"");
    let tag = std::mem::replace(&mut peer.tag, super::peer::PEER_TAG);
    give_from(&mut peer, second(), std::slice::from_ref(&reflected));
    assert_eq!(peer.closed(), None, "a host that the peer named has no association with this one");
    peer.tag = tag;
    give_from(&mut peer, second(), &[chunk(ABORT, 0, b"")]);
    assert!(peer.closed().is_some());
}

#[test]
fn s6_4_a_sack_leaves_by_the_path_of_the_data_and_a_heartbeat_ack_by_that_of_the_heartbeat() {
    let mut peer = with_two_paths(config(), rfc9260());
    for (tsn, source) in [(1, second()), (3, first()), (5, second())] {
        give_from(&mut peer, source, &[data(tsn), data(tsn + 1)]);
        give_from(&mut peer, source, &[data(tsn + 1)]);
        let sent = peer.take();
        assert!(!sent.is_empty() && sent.iter().all(|sent| sent.has(SACK) && sent.to == source), "{sent:?}");
        let other = if source == first() { second() } else { first() };
        give_from(&mut peer, other, &[heartbeat(HEARTBEAT, b"are you there?")]);
        let sent = peer.take_one();
        assert_eq!((sent.kinds(), sent.to), (vec![HEARTBEAT_ACK], other));
    }
    peer.send("x");
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.to), (vec![DATA], first()), "data leaves by the primary path");
}

/// ETSI TS 102 369, RT 11-3: a chunk is retransmitted to two addresses in turn, each with an RTO of its own.
#[test]
fn s6_4_1_etsi_rt_i_11_3_a_chunk_that_times_out_leaves_by_the_other_address_whose_rto_doubles_apart() {
    let mut settings = config();
    (settings.timers.rto_initial, settings.timers.rto_max) = (ms(100), ms(800));
    (settings.mechanisms.normal.rto_min, settings.mechanisms.thin.rto_min) = (ms(100), ms(100));
    let mut peer = with_two_paths(settings, rfc9260());
    peer.send("1");
    assert_eq!(next_data(&mut peer), (0, first()));
    let pauses: Vec<_> = (0..7).map(|_| next_data(&mut peer)).collect();
    let expected = [100, 100, 200, 200, 400, 400, 800].into_iter().zip([second(), first()].into_iter().cycle());
    assert_eq!(pauses, expected.collect::<Vec<_>>());
}

#[test]
fn s8_2_after_path_max_retrans_new_data_leaves_by_the_other_path_until_the_primary_path_answers_a_heartbeat() {
    let mut settings = config();
    settings.timers.heartbeat_interval = Some(Duration::from_secs(30));
    let mut peer = with_two_paths(settings, rfc9260());
    let mut tsn = 0;
    let mut primaries = 0;
    // The first path is dead, and what arrives by the second is acknowledged.
    while states(&mut peer)[0] == PathState::Active {
        tsn += 1;
        peer.send("x");
        for sent in peer.take() {
            primaries += u32::from(sent.has(DATA) && sent.to == first());
        }
        let mut has_arrived = false;
        while !has_arrived {
            peer.wait_for_packet();
            for sent in peer.take().iter().filter(|sent| sent.to == second()) {
                if sent.has(DATA) {
                    has_arrived = true;
                    let ack = peer.sack(tsn, 1 << 20, &[]);
                    give_from(&mut peer, second(), &[ack.chunk()]);
                } else {
                    let [(1, info)] = &tlvs(&sent.the(HEARTBEAT).value)[..] else { panic!("{sent:?}") };
                    give_from(&mut peer, second(), &[heartbeat(HEARTBEAT_ACK, info)]);
                }
            }
        }
    }
    assert_eq!(primaries, 6, "Path.Max.Retrans and one");
    assert!(peer.events.contains(&Event::PathReachable { path: PathId::PRIMARY, reachable: false }));
    peer.take();
    peer.send("x");
    assert_eq!(peer.take_one().to, second());
    peer.ack(tsn + 1);
    peer.wait(Duration::from_secs(100));
    let sent = peer.take().into_iter().rfind(|sent| sent.has(HEARTBEAT) && sent.to == first());
    let [(1, info)] = &tlvs(&sent.expect("it is probed").the(HEARTBEAT).value)[..] else { panic!("no info") };
    peer.give(&[heartbeat(HEARTBEAT_ACK, info)]);
    assert!(peer.events.contains(&Event::PathReachable { path: PathId::PRIMARY, reachable: true }));
    peer.take();
    peer.send("x");
    assert_eq!(peer.take_one().to, first());
}

#[test]
fn s8_1_the_errors_of_all_paths_together_end_the_association() {
    let mut settings = config();
    settings.retries.unreachable_after_min = Duration::ZERO;
    let mut peer = with_two_paths(settings, rfc9260());
    peer.send("x");
    let mut transmissions = 0;
    while peer.closed().is_none() {
        peer.wait_for_packet();
        transmissions += peer.take().iter().filter(|sent| sent.has(DATA)).count();
    }
    assert_eq!(transmissions, 11, "Association.Max.Retrans and the first one");
}

#[test]
fn rfc7829_3_2_a_timeout_makes_the_path_potentially_failed_and_an_answered_heartbeat_active_again() {
    let mut peer = with_two_paths(config(), Multihoming::default());
    peer.send("1");
    assert_eq!(next_data(&mut peer), (0, first()));
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1));
    let sent = peer.take();
    assert_eq!(states(&mut peer), [PathState::PotentiallyFailed, PathState::Active]);
    assert_eq!(destinations(&sent), [first(), second()]);
    assert_eq!([sent[0].kinds(), sent[1].kinds()], [[HEARTBEAT], [DATA]]);
    peer.ack(1);
    peer.send("2");
    assert_eq!(next_data(&mut peer), (0, second()), "new data leaves by the active path");
    peer.ack(2);
    // One heartbeat each RTO.
    let pause = peer.wait_for_packet();
    assert!(pause <= Duration::from_secs(2), "{pause:?}");
    answer(&mut peer);
    assert_eq!(states(&mut peer), [PathState::Active; 2]);
    peer.send("3");
    assert_eq!(next_data(&mut peer), (0, first()));
}

#[test]
fn rfc7829_3_2_if_all_paths_may_have_failed_the_one_with_the_fewest_errors_is_used() {
    let mut peer = with_two_paths(config(), Multihoming::default());
    peer.send("1");
    peer.take();
    let mut sent = Vec::new();
    for _ in 0..12 {
        peer.wait_for_packet();
        sent.extend(peer.take().into_iter().filter(|sent| sent.has(DATA)));
    }
    let [to_first, to_second] = [first(), second()].map(|to| sent.iter().filter(|sent| sent.to == to).count());
    assert!(to_first > 0 && to_second > 0, "{to_first} and {to_second}");
    assert_eq!(peer.closed(), None);
}

#[test]
fn s11_1_5_the_application_chooses_the_primary_path() {
    let mut peer = with_two_paths(config(), rfc9260());
    let id = second_path(&mut peer);
    assert!(peer.association().set_primary(id));
    peer.send("x");
    assert_eq!(peer.take_one().to, second());
    assert_eq!(peer.association().paths().map(|path| path.carries_data).collect::<Vec<_>>(), [false, true]);
    assert!(peer.association().set_primary(PathId::PRIMARY));
    peer.send("x");
    assert_eq!(peer.take_one().to, first());
}

#[test]
fn s5_2_4_1_a_peer_restarts_from_its_other_address_which_alone_is_confirmed_then() {
    let mut peer = with_two_paths(config(), rfc9260());
    peer.send("x");
    peer.take();
    peer.address = second();
    let first_named = tlv(IPV4, &[192, 0, 2, 1]);
    let init = Init { parameters: first_named, ..new_init() };
    peer.give_tagged(0, &[init.chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.to), (vec![INIT_ACK], second()), "to the source of the INIT");
    let (tag, cookie) = (sent.init().tag, sent.init().cookie());
    peer.tag = tag;
    peer.give(&[cookie_echo(&cookie)]);
    assert!(peer.events.contains(&Event::PeerRestarted));
    let sent = peer.take();
    assert!(sent.iter().any(|sent| sent.has(COOKIE_ACK) && sent.to == second()), "{sent:?}");
    let paths: Vec<_> = peer.association().paths().map(|path| (path.remote, path.state)).collect();
    assert_eq!(paths, [(second(), PathState::Active), (first(), PathState::Unconfirmed)]);
    peer.send("y");
    let sent = peer.take();
    assert!(sent.iter().all(|sent| !sent.has(DATA) || sent.to == second()), "{sent:?}");
}

#[test]
fn s9_2_a_shutdown_that_is_not_answered_leaves_by_the_other_path() {
    let mut peer = with_two_paths(config(), rfc9260());
    peer.shutdown();
    let mut sent = peer.take();
    for _ in 0..3 {
        peer.wait_for_packet();
        sent.extend(peer.take());
    }
    assert!(sent.iter().all(|sent| sent.has(SHUTDOWN)));
    assert_eq!(destinations(&sent), [first(), second(), first(), second()]);
}

#[test]
fn one_path_behaves_as_without_a_choice_of_paths() {
    let mut single = serving(Config::published(Profile::Rfc9260), rfc9260(), &[]);
    let mut plain = Peer::serving(Config::published(Profile::Rfc9260), &init_ack());
    for peer in [&mut single, &mut plain] {
        peer.send("x");
        peer.wait(Duration::from_secs(300));
    }
    let log = |peer: &mut Peer| peer.take().into_iter().map(|sent| sent.bytes).collect::<Vec<_>>();
    assert_eq!(log(&mut single), log(&mut plain));
}

#[test]
fn addresses_are_written_as_the_socket_writes_them() {
    let mapped = |address: SocketAddr| -> SocketAddr { format!("[::ffff:{}]:9899", address.ip()).parse().unwrap() };
    let mut peer = Peer::of(multihomed(config(), rfc9260()));
    peer.address = mapped(first());
    let cookie = peer.begin(&Init { parameters: named(), ..offer() });
    peer.give(&[cookie_echo(&cookie)]);
    let remotes: Vec<_> = peer.association().paths().map(|path| path.remote).collect();
    assert_eq!(remotes, [mapped(first()), mapped(second())]);
    peer.wait(ms(1));
    answer(&mut peer);
    assert_eq!(states(&mut peer), [PathState::Active; 2]);
}
