//! Chunks that open and end an association are retransmitted ahead of T1 and T2, and so is the first message.

use festina_netsim::{LinkConfig, LossModel};
use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};
use festina_sctp::{AssociationState, ClosedReason, Config, Event, Message};
use festina_units::{Duration, Instant, Probability};

use crate::pair::Pair;
use crate::rfc9260::packet::{COOKIE_ACK, COOKIE_ECHO, DATA, INIT, INIT_ACK, Init, SACK, SHUTDOWN, chunk, shutdown};
use crate::rfc9260::peer::{PEER_PORT, Peer, init_ack, ms, offer};

fn link(rtt_ms: u64, lost: &[u64]) -> LinkConfig {
    let delay = Duration::from_millis(rtt_ms) / 2;
    LinkConfig { delay, loss: LossModel::Exact(lost.to_vec()), ..LinkConfig::default() }
}

fn config() -> Config {
    let mut config = Config::default();
    config.timers.heartbeat_interval = None;
    config
}

fn spaced() -> Config {
    let mechanisms = Mechanisms { redundancy: Redundancy::SPACED, ..Profile::Festina.mechanisms() };
    Config { mechanisms, ..config() }
}

/// A first message over a path that loses these packets of each way.
struct First {
    delivered_after_ms: u64,
    pair: Pair,
}

fn first_message(config: Config, rtt_ms: u64, there: &[u64], back: &[u64]) -> First {
    let mut pair = Pair::new([config.clone(), config], [link(rtt_ms, there), link(rtt_ms, back)], 1);
    let start = pair.now;
    pair.connect(0, 1);
    pair.hosts[0].association().send(start, Message::new(vec![1; 100])).unwrap();
    pair.drain(0);
    pair.run_until(|pair| !pair.hosts[1].received.is_empty());
    let delivered_after_ms = u64::try_from((pair.now - start).as_millis()).unwrap();
    pair.run_for(Duration::from_secs(20));
    First { delivered_after_ms, pair }
}

#[test]
fn without_losses_nothing_leaves_twice_on_a_path_of_less_than_210_ms() {
    for rtt_ms in [1, 20, 100, 205] {
        let First { delivered_after_ms, pair } = first_message(config(), rtt_ms, &[], &[]);
        assert_eq!(delivered_after_ms, rtt_ms * 3 / 2);
        assert_eq!([pair.hosts[0].packets_sent, pair.hosts[1].packets_sent], [2, 2], "round trip of {rtt_ms} ms");
    }
}

/// Packets lost on the way to the server and on the way back, and the delivery of a first message in ms: without loss the handshake takes 100
/// and the message 50.
pub(crate) const LOSSES: [(&[u64], &[u64], u64); 7] = [
    (&[0], &[], 360),
    (&[], &[0], 360),
    (&[0, 1], &[], 570),
    (&[1], &[], 275),
    (&[1, 2], &[], 400),
    (&[], &[1], 150),
    (&[0, 2], &[], 485),
];

#[test]
fn a_lost_packet_of_the_handshake_costs_210_ms_or_one_and_a_quarter_round_trips() {
    for (there, back, expected) in LOSSES.into_iter().chain([(&[0, 1, 2][..], &[][..], 832)]) {
        let First { delivered_after_ms, mut pair } = first_message(config(), 100, there, back);
        assert_eq!(delivered_after_ms, expected, "lost {there:?} there and {back:?} back");
        assert_eq!(pair.hosts[1].received.len(), 1);
        assert_eq!(pair.hosts[0].association().state(), AssociationState::Established);
        assert_eq!(pair.hosts[0].association().stats().path.in_flight_bytes, 0, "all is acknowledged");
    }
}

#[test]
fn the_published_profiles_wait_for_t1() {
    for &profile in Profile::all().iter().filter(|&&profile| profile != Profile::Festina) {
        let mut config = Config::published(profile);
        config.timers.heartbeat_interval = None;
        for (there, expected) in [(0, 1_150), (1, 1_150)] {
            let first = first_message(config.clone(), 100, &[there], &[]);
            assert!(first.delivered_after_ms == expected || first.delivered_after_ms < 500 && there == 1, "{profile}");
        }
    }
}

#[test]
fn with_spaced_redundancy_a_single_loss_costs_the_spacing() {
    for (there, back, expected) in [(vec![], vec![], 150), (vec![0], vec![], 171), (vec![], vec![0], 171)] {
        assert_eq!(first_message(spaced(), 100, &there, &back).delivered_after_ms, expected, "{there:?} {back:?}");
    }
    // INIT left twice: the third packet is COOKIE ECHO.
    let First { delivered_after_ms, pair } = first_message(spaced(), 100, &[2], &[]);
    assert_eq!(delivered_after_ms, 157, "a tenth of the shortest possible round trip of 79 ms later");
    assert_eq!(pair.hosts[1].received.len(), 1);
}

#[test]
fn copies_that_nothing_calls_for_cut_no_window() {
    let [usual, spaced] = [config(), spaced()].map(|config| {
        let mut pair = Pair::new([config.clone(), config], [link(100, &[]), link(100, &[])], 1);
        let start = pair.now;
        pair.connect(0, 1);
        pair.hosts[0].association().send(start, Message::new(vec![1; 12_000])).unwrap();
        pair.drain(0);
        pair.run_until(|pair| !pair.hosts[1].received.is_empty());
        pair.now - start
    });
    assert_eq!((usual, spaced), (ms(250), ms(250)), "ten packets leave when COOKIE ACK has come");
}

#[test]
fn copies_on_a_path_that_is_slower_than_expected_cut_no_window() {
    for rtt_ms in [150, 220, 250, 300, 350, 400, 500, 600, 900] {
        let mut pair = Pair::new([config(), config()], [link(rtt_ms, &[]), link(rtt_ms, &[])], 1);
        let start = pair.now;
        pair.connect(0, 1);
        pair.hosts[0].association().send(start, Message::new(vec![1; 12_000])).unwrap();
        pair.drain(0);
        pair.run_until(|pair| !pair.hosts[1].received.is_empty());
        assert_eq!(pair.now - start, ms(rtt_ms * 5 / 2), "round trip {rtt_ms} ms");
    }
}

#[test]
fn a_first_flight_that_was_lost_cuts_the_window_though_the_round_trip_is_not_known() {
    // The first INIT and the first COOKIE ECHO are lost.
    let First { mut pair, .. } = first_message(config(), 100, &[0, 2], &[]);
    let cut = pair.hosts[0].association().stats().path.cwnd_bytes;
    let First { mut pair, .. } = first_message(config(), 100, &[0], &[]);
    let whole = pair.hosts[0].association().stats().path.cwnd_bytes;
    assert!(cut < whole, "{cut} and {whole} bytes");
}

#[test]
fn a_round_trip_that_copies_make_ambiguous_is_not_measured_and_its_copies_are_few() {
    for (rtt_ms, inits, echoes) in [(300, 2, 2), (400, 2, 2), (600, 3, 3), (900, 4, 3)] {
        let First { delivered_after_ms, mut pair } = first_message(config(), rtt_ms, &[], &[]);
        assert_eq!(delivered_after_ms, rtt_ms * 3 / 2);
        assert!(pair.hosts[0].packets_sent <= inits + echoes, "{} packets at {rtt_ms} ms", pair.hosts[0].packets_sent);
        let srtt = pair.hosts[0].association().stats().path.srtt;
        assert_eq!(srtt, Some(ms(rtt_ms)), "the longest possible round trip stands in for the measured one");
    }
}

#[test]
fn on_a_path_slower_than_rto_initial_t1_expires_only_before_anything_is_known_and_cuts_no_window() {
    for (rtt_ms, packets) in [(900, 7), (1_100, 9), (1_200, 8), (2_000, 8), (3_000, 8), (5_000, 9)] {
        let First { delivered_after_ms, mut pair } = first_message(config(), rtt_ms, &[], &[]);
        assert_eq!(delivered_after_ms, rtt_ms * 3 / 2);
        assert_eq!(pair.hosts[0].packets_sent, packets, "round trip of {rtt_ms} ms");
        let stats = pair.hosts[0].association().stats();
        assert_eq!(stats.path.cwnd_bytes, 10 * 1_220, "round trip of {rtt_ms} ms");
    }
}

#[test]
fn on_a_path_that_is_known_to_be_slow_nothing_leaves_twice() {
    for rtt_ms in [900, 1_200, 3_000, 5_000] {
        let mut first = first_message(config(), rtt_ms, &[], &[]).pair;
        let now = first.now;
        first.hosts[0].association().send(now, Message::new(vec![1; 100])).unwrap();
        first.drain(0);
        first.run_for(Duration::from_secs(20));
        let now = first.now;
        let known = first.hosts[0].association().path_knowledge(now).unwrap();
        let mut pair = Pair::new([config(), config()], [link(rtt_ms, &[]), link(rtt_ms, &[])], 2);
        pair.now = first.now;
        pair.connect_knowing(0, 2, Some(known));
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.hosts[0].association().state(), AssociationState::Established);
        assert_eq!([pair.hosts[0].packets_sent, pair.hosts[1].packets_sent], [2, 2], "round trip of {rtt_ms} ms");
    }
}

#[test]
fn a_bound_of_the_round_trip_gives_way_to_the_first_measurement() {
    let First { mut pair, .. } = first_message(config(), 100, &[0, 2], &[]);
    let srtt = |pair: &mut Pair| pair.hosts[0].association().stats().path.srtt;
    assert_eq!(srtt(&mut pair), Some(ms(310)), "INIT and COOKIE ECHO both left twice");
    let now = pair.now;
    pair.hosts[0].association().send(now, Message::new(vec![2; 100])).unwrap();
    pair.drain(0);
    pair.run_for(ms(200));
    assert_eq!(srtt(&mut pair), Some(ms(100)));
}

#[test]
fn ten_copies_of_each_packet_make_one_association_and_draw_no_more_than_three_times_their_bytes() {
    let mut client = Peer::connecting(config());
    client.send("once");
    let init = client.take_one();
    let mut server = Peer::new(config());
    server.listener.listen(PEER_PORT);
    (0..10).for_each(|_| server.give_bytes(init.bytes.clone()));
    let answers = server.take();
    assert!(server.association.is_none() && answers.len() == 10);
    assert!(answers.iter().all(|answer| answer.kinds() == [INIT_ACK] && answer.bytes.len() <= 3 * init.bytes.len()));
    answers.iter().for_each(|answer| client.give_bytes(answer.bytes.clone()));
    let echo = client.take_one();
    assert_eq!(echo.kinds(), [COOKIE_ECHO, DATA]);
    (0..10).for_each(|_| server.give_bytes(echo.bytes.clone()));
    let established = server.events.iter().filter(|event| matches!(event, Event::Established { .. })).count();
    assert_eq!((established, server.payloads()), (1, vec![&b"once"[..]]));
    let answers = server.take();
    let answered: usize = answers.iter().map(|answer| answer.bytes.len()).sum();
    assert!(answered <= 3 * 10 * echo.bytes.len(), "{answered} bytes");
    assert!(answers.iter().all(|answer| answer.has(COOKIE_ACK)) && answers[0].has(SACK), "{answers:?}");
    answers.iter().for_each(|answer| client.give_bytes(answer.bytes.clone()));
    assert_eq!(client.state(), AssociationState::Established);
    client.wait(Duration::from_secs(10));
    client.nothing_sent();
}

#[test]
fn copies_of_init_are_the_same_bytes_and_a_second_init_ack_changes_nothing() {
    let mut peer = Peer::connecting(config());
    let first = peer.take_one();
    assert_eq!(peer.wait_for_packet(), ms(210));
    let copy = peer.take_one();
    assert_eq!((copy.kinds(), &copy.bytes), (vec![INIT], &first.bytes));
    let init = first.init();
    (peer.tag, peer.initial_tsn) = (init.tag, init.tsn);
    peer.wait(ms(100));
    peer.give(&[init_ack().chunk(INIT_ACK)]);
    let echo = peer.take_one();
    peer.give(&[Init { tag: 99, ..init_ack() }.chunk(INIT_ACK)]);
    peer.nothing_sent();
    assert_eq!(peer.wait_for_packet(), ms(125), "one and a quarter of the shortest possible round trip");
    assert_eq!(peer.take_one().bytes, echo.bytes);
}

#[test]
fn the_mechanisms_decide_about_copies_of_init_even_if_they_change_right_after_connect() {
    let (festina, standard) = (Profile::Festina, Profile::Rfc9260);
    for (begun_with, changed_to, expected) in [(festina, standard, ms(1_000)), (standard, festina, ms(210))] {
        let mut peer = Peer::connecting(Config::published(begun_with));
        let now = peer.now;
        peer.association().set_mechanisms(now, changed_to.mechanisms());
        peer.take();
        assert_eq!(peer.wait_for_packet(), expected, "{begun_with}, then {changed_to}");
    }
}

#[test]
fn a_destination_that_does_not_answer_draws_four_copies_and_is_given_up_when_the_standard_does() {
    for config in [config(), spaced()] {
        let mut peer = Peer::connecting(config);
        let start = peer.now;
        let mut inits = 0;
        while peer.closed().is_none() {
            inits += peer.take().len();
            peer.wait_for_packet();
        }
        assert_eq!(inits, 1 + 8 + 4, "Max.Init.Retransmits is 8");
        assert_eq!(peer.now - start, Duration::from_secs(1 + 2 + 4 + 8 + 16 + 32 + 60 + 60 + 60));
        assert_eq!(peer.closed(), Some(&ClosedReason::HandshakeTimeout));
    }
}

#[test]
fn no_timeout_of_data_beside_cookie_echo_counts_as_an_error_of_the_path() {
    for profile in [Profile::Festina, Profile::Rfc9260] {
        let mut config = Config::published(profile);
        config.timers.heartbeat_interval = None;
        let mut peer = Peer::connecting(config);
        peer.send("first");
        let init = peer.take_one().init();
        (peer.tag, peer.initial_tsn) = (init.tag, init.tsn);
        peer.wait(ms(50));
        peer.give(&[init_ack().chunk(INIT_ACK)]);
        let sent = peer.now;
        let mut echoes = 0;
        while peer.closed().is_none() {
            for packet in peer.take() {
                assert_eq!(packet.kinds(), [COOKIE_ECHO, DATA], "{profile}");
                echoes += 1;
            }
            peer.wait_for_packet();
        }
        let copies = if profile == Profile::Festina { 4 } else { 0 };
        assert_eq!(echoes, 1 + 8 + copies, "{profile}");
        assert!(peer.now - sent > Duration::from_secs(200), "{profile}");
        let told: Vec<_> = peer.events.iter().filter(|event| matches!(event, Event::PathReachable { .. })).collect();
        assert!(told.is_empty(), "{profile}: {told:?}");
    }
}

#[test]
fn shutdown_and_shutdown_ack_are_repaired_by_the_round_trip() {
    // After the handshake and the first message three packets went each way at most.
    for (there, back, expected_ms) in [(vec![], vec![], 100), (vec![2], vec![], 210), (vec![], vec![2], 210)] {
        let mut first = first_message(config(), 100, &there, &back);
        // A second measurement tells how steady the path is.
        let pair = &mut first.pair;
        let now = pair.now;
        pair.hosts[0].association().shutdown(now);
        pair.drain(0);
        pair.run_until(|pair| pair.hosts[0].closed().is_some());
        let took = u64::try_from((pair.now - now).as_millis()).unwrap();
        assert!((expected_ms..=expected_ms + 40).contains(&took), "{took} ms with {there:?} and {back:?} lost");
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.hosts[1].closed(), Some(&ClosedReason::Shutdown));
    }
}

#[test]
fn a_peer_that_keeps_talking_draws_no_copies_of_shutdown_without_end() {
    let mut peer = Peer::client(config(), &offer());
    peer.shutdown();
    let tsn = peer.tsn(0);
    let mut shutdowns = peer.take().len();
    for second in 0..20 {
        peer.wait(ms(900));
        shutdowns += peer.take().iter().filter(|sent| sent.has(SHUTDOWN)).count();
        peer.give(&[chunk(SACK, 0, &[&tsn.to_be_bytes()[..], &[0, 16, 0, 0, 0, 0, 0, 0]].concat())]);
        assert!(peer.closed().is_none(), "after {second} s");
    }
    assert_eq!(shutdowns, 1 + 4, "the peer was heard of before T2 expired, each time");
    peer.give(&[shutdown(tsn)]);
}

#[test]
fn whatever_is_lost_of_a_short_association_its_message_arrives_once_and_both_sides_end() {
    for seed in 0..300 {
        let lossy = |name: u64| LinkConfig {
            delay: Duration::from_millis(20 + name * 17),
            loss: LossModel::Independent(Probability::from_percent(20)),
            ..LinkConfig::default()
        };
        let config = if seed % 2 == 0 { config() } else { spaced() };
        let mut pair = Pair::new([config.clone(), config], [lossy(seed % 13), lossy(seed % 7)], seed);
        pair.connect(0, seed);
        let now: Instant = pair.now;
        pair.hosts[0].association().send(now, Message::new(vec![1; 12_000])).unwrap();
        pair.drain(0);
        pair.run_until(|pair| pair.hosts[1].received.len() == 1);
        let now = pair.now;
        pair.hosts[0].association().shutdown(now);
        pair.drain(0);
        pair.run_until(|pair| pair.hosts.iter().all(|host| host.closed().is_some()));
        assert_eq!(
            (pair.hosts[1].received.len(), pair.hosts[1].received[0].payload().len()),
            (1, 12_000),
            "seed {seed}"
        );
    }
}
