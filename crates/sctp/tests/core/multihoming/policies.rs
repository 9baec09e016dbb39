//! Delays and bytes of the policies by which two paths share a thin stream.

use festina_netsim::LossModel;
use festina_sctp::PathPolicy;

use super::*;

/// Between two messages.
const INTERVAL: Duration = Duration::from_millis(250);
const MESSAGES: u32 = 20_000;

/// What a stream cost.
#[derive(Debug)]
struct Cost {
    p50: Duration,
    p99: Duration,
    p999: Duration,
    /// Bytes that the client sent.
    bytes: u64,
}

/// Streams over two networks with 5 % loss each way and these round trips.
fn cost(policy: PathPolicy, round_trips_ms: [u64; 2], paths_max: usize) -> Cost {
    let delays = round_trips_ms.map(|ms| Duration::from_millis(ms) / 2);
    let multihoming = Multihoming { policy, paths_max, ..Multihoming::default() };
    let loss = Probability::from_percent(5);
    let links = delays.map(|delay| link(delay, loss));
    let mut networks = World::new(&Config::default(), Some(&multihoming), &links, 1);
    networks.stream(100, INTERVAL, INTERVAL * 100);
    let (first, before) = (networks.sent_at.len(), networks.client().stats().sent.bytes);
    networks.stream(100, INTERVAL, INTERVAL * MESSAGES);
    networks.run_for(Duration::from_secs(100));
    networks.assert_all_delivered();
    let mut delays: Vec<Duration> = networks.delays(first).collect();
    delays.sort_unstable();
    let quantile = |parts: usize| delays[delays.len() * parts / 1_000];
    let bytes = networks.client().stats().sent.bytes - before;
    let cost = Cost { p50: quantile(500), p99: quantile(990), p999: quantile(999), bytes };
    println!("{policy:?} {round_trips_ms:?} {paths_max}: {cost:?}");
    cost
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn repairs_and_copies_by_another_path_shorten_the_tail_within_their_bytes() {
    let alone = cost(PathPolicy::PrimaryOnly, [60, 100], 1);
    let repairs = cost(PathPolicy::Repairs, [100, 60], 8);
    let copies = cost(PathPolicy::Copies, [100, 60], 8);
    let both = cost(PathPolicy::Both, [100, 60], 8);
    assert!(repairs.p99 <= ms(130) && repairs.p999 <= ms(200), "{repairs:?}");
    assert!(copies.p99 <= ms(55) && copies.p999 <= ms(135), "{copies:?}");
    assert!(repairs.bytes * 100 <= alone.bytes * 115, "{repairs:?} {alone:?}");
    assert!(copies.bytes * 100 <= alone.bytes * 210, "{copies:?} {alone:?}");
    assert!(both.p99 <= copies.p99, "{both:?}");
}

/// The acknowledgement of a copy is none of the packet that it copies: it measures another path, and its duplicates say nothing of losses on this one. A
/// heartbeat whose answer is lost leaves no path that has answered since.
#[test]
fn a_slow_second_path_makes_nothing_later_than_the_fast_one_alone() {
    for round_trips in [[20, 200], [100, 200], [60, 100]] {
        let alone = cost(PathPolicy::PrimaryOnly, round_trips, 1);
        for policy in [PathPolicy::Repairs, PathPolicy::Copies, PathPolicy::Both] {
            let cost = cost(policy, round_trips, 8);
            assert!(cost.p50 <= alone.p50 && cost.p99 <= alone.p99 && cost.p999 <= alone.p999, "{cost:?} {alone:?}");
            let adds_nothing = round_trips == [20, 200] && policy != PathPolicy::Both;
            assert!(!adds_nothing || cost.bytes * 100 <= alone.bytes * 101, "{cost:?} {alone:?}");
        }
    }
}

#[test]
fn a_path_that_fails_gets_heartbeats_and_no_copies() {
    let bytes = |policy, paths_max, is_cut: bool| {
        let multihoming = Multihoming { policy, paths_max, ..Multihoming::default() };
        let mut networks = two_networks(&Config::default(), &multihoming, Probability::ZERO, 1);
        stream(&mut networks, ms(5_000));
        networks.cut(1, is_cut, Probability::ZERO);
        stream(&mut networks, ms(30_000));
        let before = networks.client().stats().sent.bytes;
        stream(&mut networks, ms(30_000));
        networks.client().stats().sent.bytes - before
    };
    let alone = bytes(PathPolicy::PrimaryOnly, 1, false);
    let [whole, failed] = [false, true].map(|is_cut| bytes(PathPolicy::Copies, 8, is_cut));
    println!("bytes alone {alone}, with copies {whole}, after the second network failed {failed}");
    assert!(whole * 10 > alone * 19 && failed * 100 < alone * 102);
}

/// The frames of a film: its window has room for all copies ([`bottleneck`](super::bottleneck) has a transfer that fills the window).
#[test]
fn a_stream_that_is_not_thin_but_leaves_its_window_unused_is_copied_whole_if_all_is_to_be() {
    let bytes = |policy| {
        let multihoming = Multihoming { policy, ..Multihoming::default() };
        let links = [10; 2].map(|delay| link(ms(delay), Probability::ZERO));
        let mut networks = World::new(&Config::default(), Some(&multihoming), &links, 1);
        stream(&mut networks, ms(5_000));
        let before = networks.client().stats().sent.bytes;
        for _frame in 0..100 {
            assert!((0..5).all(|_| networks.send(1_000)));
            networks.run_for(ms(40));
        }
        networks.client().stats().sent.bytes - before
    };
    let policies = [PathPolicy::PrimaryOnly, PathPolicy::Copies, PathPolicy::Both];
    let [alone, copies, both] = policies.map(bytes);
    println!("bytes alone {alone}, with copies of thin streams {copies}, with copies of all {both}");
    assert!(both * 100 > alone * 195 && copies * 100 < alone * 185, "{alone} {copies} {both}");
}

#[test]
fn a_slow_first_path_makes_nothing_later_than_the_fast_one_alone() {
    let alone = cost(PathPolicy::PrimaryOnly, [20, 200], 1);
    for policy in [PathPolicy::Repairs, PathPolicy::Copies] {
        let cost = cost(policy, [200, 20], 8);
        assert!(cost.p50 <= alone.p50 && cost.p99 <= alone.p99 && cost.p999 <= alone.p999, "{cost:?} {alone:?}");
    }
}

/// Copies over round trips of 100 and 200 ms, where these packets of the peer are lost on the first network. Returns the changes of its state.
fn answers_lost(lost: &[u64]) -> (World, Vec<bool>) {
    let multihoming = Multihoming { policy: PathPolicy::Copies, ..Multihoming::default() };
    let links = [50, 100].map(|delay| link(ms(delay), Probability::ZERO));
    let mut networks = World::new(&Config::default(), Some(&multihoming), &links, 1);
    networks.stream(100, INTERVAL, INTERVAL * 40);
    networks.networks.link_mut(0, 1).set_loss(LossModel::Exact(lost.to_vec()));
    networks.stream(100, INTERVAL, INTERVAL * 20);
    let suspicions = networks.networks.host(0).events.iter().filter_map(|(_, event)| match event {
        Event::PathSuspected { suspected, .. } => Some(*suspected),
        _ => None,
    });
    let suspicions = suspicions.collect();
    (networks, suspicions)
}

#[test]
fn the_answer_to_a_probe_counts_for_its_path_though_the_copy_was_acknowledged_before() {
    assert_eq!(answers_lost(&[0]).1, []);
}

/// Two acknowledgements are lost, the heartbeat that follows is answered by data, and the answer to the heartbeat itself is lost as well.
#[test]
fn a_path_that_has_answered_since_a_lost_heartbeat_carries_the_stream_through_an_outage_of_the_other() {
    let (mut networks, suspicions) = answers_lost(&[0, 1, 3]);
    assert_eq!(suspicions, [true, false]);
    let states: Vec<_> = networks.client().paths().map(|path| (path.state, path.carries_data)).collect();
    assert_eq!(states, [(PathState::Active, true), (PathState::Active, false)]);
    let first = networks.sent_at.len();
    networks.cut(1, true, Probability::ZERO);
    networks.stream(100, INTERVAL, INTERVAL * 20);
    networks.run_for(ms(1_000));
    assert_eq!(networks.delay_max(first), ms(50));
}
