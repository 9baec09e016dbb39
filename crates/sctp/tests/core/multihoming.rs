//! Two hosts with two addresses each, and two networks between them: loss, an outage of one network, and the delay that it costs.

mod bottleneck;
mod policies;

use festina_netsim::LinkConfig;
use festina_sctp::{Config, Context, Event, Multihoming, PathId, PathState, Profile};
use festina_units::{ByteCount, Duration, Probability};

use crate::networks::{World, address, link};

/// Between two messages of 100 bytes.
const INTERVAL: Duration = Duration::from_millis(50);
/// One way, on either network.
const DELAY: Duration = Duration::from_millis(50);

fn two_networks(config: &Config, multihoming: &Multihoming, loss: Probability, seed: u64) -> World {
    World::new(config, Some(multihoming), &[DELAY; 2].map(|delay| link(delay, loss)), seed)
}

fn stream(world: &mut World, time: Duration) {
    world.stream(100, INTERVAL, time);
}

/// Streams over two networks with this loss; the first fails for 3 s. Returns the longest delay of the messages sent since.
fn outage(config: &Config, multihoming: &Multihoming, loss: Probability, seed: u64) -> Duration {
    let mut networks = two_networks(config, multihoming, loss, seed);
    stream(&mut networks, Duration::from_secs(10));
    let first = networks.sent_at.len();
    networks.cut(0, true, loss);
    stream(&mut networks, Duration::from_secs(3));
    networks.cut(0, false, loss);
    stream(&mut networks, Duration::from_secs(10));
    networks.run_for(Duration::from_secs(100));
    networks.assert_all_delivered();
    let delay = networks.delay_max(first);
    let states: Vec<_> = networks.client().paths().map(|path| (path.state, path.carries_data)).collect();
    assert_eq!(states, [(PathState::Active, true), (PathState::Active, false)], "the primary path is used again");
    delay
}

/// The median and the maximum of 25 outages, in milliseconds.
fn delays(config: &Config, multihoming: &Multihoming, percent: u32) -> [u64; 2] {
    let loss = Probability::from_percent(percent);
    let delay = |seed| outage(config, multihoming, loss, seed).as_millis();
    let mut delays: Vec<_> = (1..=25).map(|seed| u64::try_from(delay(seed)).unwrap()).collect();
    delays.sort_unstable();
    [delays[12], delays[24]]
}

fn standard() -> Multihoming {
    Multihoming { suspected_above: None, ..Multihoming::default() }
}

#[test]
fn both_ends_confirm_both_addresses_and_report_it() {
    let networks = two_networks(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    for host in 0..2 {
        let remote = address(1 - host, 1);
        assert!(networks.networks.host(host).events.iter().any(|(_, event)| {
            matches!(event, Event::PathConfirmed { path, remote: confirmed } if *path != PathId::PRIMARY && *confirmed == remote)
        }));
    }
}

#[test]
fn an_outage_of_three_seconds_costs_two_by_the_standard_and_a_third_of_one_with_quick_failover() {
    for percent in [0, 5] {
        let rfc9260 = Config::published(Profile::Rfc9260);
        let by_standard = delays(&rfc9260, &standard(), percent);
        let suspected = delays(&rfc9260, &Multihoming::default(), percent);
        let festina = delays(&Config::default(), &Multihoming::default(), percent);
        println!("{percent} % loss: by the standard {by_standard:?}, quick {suspected:?}, festina {festina:?}");
        assert!(by_standard[0] <= 2_350 && suspected[0] <= 1_100, "{by_standard:?} {suspected:?}");
        assert!(festina[0] <= 340 && festina[1] <= 480, "{festina:?}");
    }
}

#[test]
fn if_the_second_network_fails_no_message_is_late() {
    let mut networks = two_networks(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    networks.cut(1, true, Probability::ZERO);
    stream(&mut networks, Duration::from_secs(200));
    networks.run_for(Duration::from_secs(5));
    assert_eq!(networks.delay_max(0), DELAY);
    assert!(networks.client().paths().nth(1).is_some_and(|path| path.state != PathState::Active));
}

#[test]
fn what_the_first_network_loses_is_soon_repaired_while_the_second_fails() {
    let loss = Probability::from_percent(5);
    let delay = |seed| {
        let mut networks = two_networks(&Config::default(), &Multihoming::default(), loss, seed);
        stream(&mut networks, Duration::from_secs(5));
        networks.cut(1, true, loss);
        stream(&mut networks, Duration::from_secs(3));
        networks.cut(1, false, loss);
        stream(&mut networks, Duration::from_secs(3));
        networks.run_for(Duration::from_secs(10));
        networks.delay_max(0).as_millis()
    };
    let mut delays: Vec<_> = (1..=100).map(delay).collect();
    delays.sort_unstable();
    // Some messages are lost three times in a row.
    assert!(delays[95] <= 310 && delays[99] <= 900, "{delays:?}");
}

/// A router drops large packets silently. Heartbeats pass, so no path stays suspected.
#[test]
fn a_packet_that_is_too_large_for_both_networks_is_sent_ever_more_rarely() {
    let (config, multihoming) = (Config::default(), Multihoming::default());
    let link =
        LinkConfig { mtu: Some(ByteCount::from_bytes(500)), ..link(Duration::from_micros(150), Probability::ZERO) };
    let mut networks = World::new(&config, Some(&multihoming), &[link.clone(), link], 1);
    networks.send(1_004);
    let mut dropped = |seconds| {
        networks.run_for(Duration::from_secs(seconds));
        (0..2).map(|network| networks.networks.link_mut(network, 0).counters().too_large).sum::<u64>()
    };
    let before = dropped(20);
    let all = dropped(10);
    let in_the_end = all - before;
    assert!(all < 300 && in_the_end < 100, "{all} packets, {in_the_end} of them in the end");
}

#[test]
fn if_both_networks_fail_for_three_seconds_everything_arrives_once_and_in_order() {
    for config in [Config::default(), Config::published(Profile::Rfc9260)] {
        for multihoming in [Multihoming::default(), standard()] {
            let mut networks = two_networks(&config, &multihoming, Probability::ZERO, 1);
            stream(&mut networks, Duration::from_secs(2));
            (0..2).for_each(|network| networks.cut(network, true, Probability::ZERO));
            stream(&mut networks, Duration::from_secs(3));
            (0..2).for_each(|network| networks.cut(network, false, Probability::ZERO));
            stream(&mut networks, Duration::from_secs(2));
            networks.run_for(Duration::from_secs(100));
            networks.assert_all_delivered();
        }
    }
}

#[test]
fn a_bulk_transfer_survives_outages_of_either_network_in_turn() {
    let mut networks = two_networks(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    for round in 0..6 {
        networks.cut(round % 2, true, Probability::ZERO);
        assert!((0..200).all(|_| networks.send(1_004)));
        networks.run_for(Duration::from_secs(3));
        networks.cut(round % 2, false, Probability::ZERO);
        networks.run_for(Duration::from_secs(3));
    }
    networks.run_for(Duration::from_secs(60));
    networks.assert_all_delivered();
}

#[test]
fn a_vanished_peer_is_noticed_though_it_had_two_addresses() {
    let mut networks = two_networks(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    (0..2).for_each(|network| networks.cut(network, true, Probability::ZERO));
    networks.send(100);
    networks.run_for(Duration::from_secs(84));
    assert!(networks.client().is_closed());
}

#[test]
fn a_path_that_may_have_failed_is_reported_and_its_return_as_well() {
    let mut networks = two_networks(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    stream(&mut networks, Duration::from_secs(3));
    networks.cut(0, true, Probability::ZERO);
    stream(&mut networks, Duration::from_secs(3));
    networks.cut(0, false, Probability::ZERO);
    stream(&mut networks, Duration::from_secs(3));
    let suspected = |event: &Event| match event {
        Event::PathSuspected { path, suspected, .. } => Some((*path, *suspected)),
        _ => None,
    };
    let seen: Vec<_> = networks.networks.host(0).events.iter().filter_map(|(_, event)| suspected(event)).collect();
    assert_eq!(seen, [(PathId::PRIMARY, true), (PathId::PRIMARY, false)]);
}

#[test]
fn an_endpoint_has_each_address_once() {
    let twice = vec![address(0, 0).ip(), address(0, 1).ip(), address(0, 0).ip()];
    let multihoming = Multihoming { addresses: twice, ..Multihoming::default() };
    let error = Context::multihomed(Config::default(), [1; 16], multihoming).unwrap_err();
    assert_eq!(error.to_string(), "the address 192.0.2.1 is named twice");
}
