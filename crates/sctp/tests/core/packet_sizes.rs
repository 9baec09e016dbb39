//! Larger packets where the path carries them, in virtual time (RFC 8899).

use festina_netsim::LinkConfig;
use festina_sctp::{Config, Event, Message, Multihoming, Profile};
use festina_units::{ByteCount, Duration, Instant, Probability};

use crate::networks::{World, link};

/// Headers of IPv4 and UDP.
const HEADER_BYTES: usize = 28;
/// One way.
const DELAY: Duration = Duration::from_millis(25);

fn config(profile: Profile) -> Config {
    let mut config = Config { mechanisms: profile.mechanisms(), ..Config::default() };
    config.limits.packet_bytes_searched_max = Some(9_000 - HEADER_BYTES);
    config
}

/// A client and a server whose path carries so large packets.
fn hosts(config: &Config, mtu: u64) -> World {
    let link = LinkConfig { mtu: Some(ByteCount::from_bytes(mtu)), ..link(DELAY, Probability::ZERO) };
    World::new(config, None, &[link], 1)
}

impl World {
    /// The path gets another MTU and loses this share of packets.
    fn change(&mut self, mtu: u64, percent: u32) {
        self.networks.change(0, |link| link.set_mtu(Some(ByteCount::from_bytes(mtu))));
        self.cut(0, false, Probability::from_percent(percent));
    }

    fn size(&self) -> usize {
        usize::try_from(self.client().stats().packet_bytes_max).unwrap()
    }

    fn probes(&self) -> &[usize] {
        &self.networks.host(0).probes
    }

    /// When the client's packets became smaller, and to what.
    fn reductions(&self) -> Vec<(Instant, usize)> {
        let reduction = |(at, event): &(Instant, Event)| match event {
            Event::PacketSizeLimited { packet_bytes_max, .. } => Some((*at, *packet_bytes_max)),
            _ => None,
        };
        self.networks.host(0).events.iter().filter_map(reduction).collect()
    }
}

const STREAMS: [(usize, Duration); 3] =
    [(3_000, Duration::from_millis(100)), (5_000, Duration::from_millis(50)), (2_000, Duration::from_millis(300))];

#[test]
fn the_usual_sizes_are_found_with_six_probes() {
    for mtu in [1_280, 1_400, 1_420, 1_450, 1_492, 1_500, 9_000] {
        for overhead_bytes in [0, 15] {
            let mut config = config(Profile::Festina);
            config.carrier.overhead_bytes = overhead_bytes;
            config.limits.packet_bytes_searched_max = Some(9_000 - HEADER_BYTES - overhead_bytes);
            let room = usize::try_from(mtu).unwrap() - overhead_bytes;
            let mut hosts = hosts(&config, room as u64);
            let right = (room - HEADER_BYTES) & !3;
            while hosts.size() < right {
                hosts.stream(10_000, Duration::from_millis(10), Duration::from_millis(10));
                assert!(hosts.probes().len() <= 6, "{mtu}: {:?}", hosts.probes());
            }
            hosts.stream(10_000, Duration::from_millis(100), Duration::from_secs(60));
            assert_eq!((hosts.size(), hosts.reductions()), (right, vec![]), "{mtu}: {:?}", hosts.probes());
            println!("{mtu} with {overhead_bytes}: {:?}", hosts.probes());
        }
    }
}

#[test]
fn streams_of_small_messages_send_no_probes() {
    let mut hosts = hosts(&config(Profile::Festina), 9_000);
    hosts.change(9_000, 5);
    hosts.stream(400, Duration::from_millis(10), Duration::from_secs(60));
    assert_eq!((hosts.probes().len(), hosts.size()), (0, 1_232));
}

#[test]
fn an_hour_of_heavy_loss_reduces_no_size() {
    for profile in [Profile::Festina, Profile::Rfc9260] {
        let mut hosts = hosts(&config(profile), 1_500);
        hosts.stream(10_000, Duration::from_millis(100), Duration::from_secs(5));
        assert_eq!(hosts.size(), 1_472);
        hosts.change(1_500, 15);
        let before = hosts.probes().len();
        hosts.stream(3_000, Duration::from_millis(250), Duration::from_secs(3_600));
        println!("{profile}: {} probes for {} messages", hosts.probes().len() - before, hosts.sent_at.len());
        assert_eq!((hosts.size(), hosts.reductions()), (1_472, vec![]));
    }
}

#[test]
fn a_path_that_carries_less_is_noticed_within_three_timeouts_and_everything_arrives() {
    for profile in [Profile::Festina, Profile::Rfc9260] {
        for (before, after) in [(1_500, 1_280), (9_000, 1_500)] {
            for (bytes, interval) in STREAMS {
                for percent in [0, 5] {
                    let case = format!("{profile}, {before} to {after}, {bytes} bytes, {percent} %");
                    let mut hosts = hosts(&config(profile), before);
                    hosts.stream(bytes, interval, Duration::from_secs(5));
                    assert_eq!(hosts.size() + HEADER_BYTES, usize::try_from(before).unwrap(), "{case}");
                    let (rto, cut_at) = (hosts.client().stats().path.rto, hosts.now());
                    hosts.change(after, percent);
                    hosts.stream(bytes, interval, Duration::from_secs(20));
                    hosts.run_for(Duration::from_secs(60));
                    let (noticed_at, _) = hosts.reductions()[0];
                    println!("{case}: after {:?} at an RTO of {rto:?}", noticed_at - cut_at);
                    assert!(noticed_at - cut_at <= rto * 3 + interval, "{case}");
                    hosts.assert_all_delivered();
                    let (size, after) = (hosts.size() + HEADER_BYTES, usize::try_from(after).unwrap());
                    // Both probes of a size may be lost.
                    assert!(size == after || percent > 0 && size < after, "{case}: {size}");
                }
            }
        }
    }
}

#[test]
fn a_path_that_carries_less_is_noticed_though_no_message_lives_for_a_timeout() {
    let mut hosts = hosts(&config(Profile::Rfc9260), 1_500);
    hosts.stream(10_000, Duration::from_millis(100), Duration::from_secs(5));
    hosts.change(1_280, 0);
    for _ in 0..200 {
        let now = hosts.now();
        let message = Message::new(vec![7; 3_000]).with_lifetime(Duration::from_millis(80));
        hosts.client_mut().send(now, message).unwrap();
        hosts.run_for(Duration::from_millis(50));
    }
    assert_eq!(hosts.size(), 1_252);
}

#[test]
fn an_outage_reduces_no_size() {
    for seconds in [1, 3, 10] {
        let mut hosts = hosts(&config(Profile::Festina), 1_500);
        hosts.stream(3_000, Duration::from_millis(100), Duration::from_secs(5));
        hosts.change(1_500, 100);
        hosts.stream(3_000, Duration::from_millis(100), Duration::from_secs(seconds));
        hosts.change(1_500, 0);
        hosts.stream(3_000, Duration::from_millis(100), Duration::from_secs(30));
        assert_eq!((hosts.size(), hosts.reductions()), (1_472, vec![]), "{seconds} s");
    }
}

/// Repairs by the other network are acknowledged, and show nothing of packets on this one.
#[test]
fn one_of_two_networks_that_carries_less_is_noticed_and_the_paths_rest() {
    for delay in [Duration::from_micros(150), DELAY] {
        let mut config = config(Profile::Festina);
        config.limits.packet_bytes_searched_max = Some(1_500 - HEADER_BYTES);
        let link = LinkConfig { mtu: Some(ByteCount::from_bytes(1_500)), ..link(delay, Probability::ZERO) };
        let mut hosts = World::new(&config, Some(&Multihoming::default()), &[link.clone(), link], 1);
        let stream =
            |hosts: &mut World, seconds| hosts.stream(10_000, Duration::from_millis(100), Duration::from_secs(seconds));
        stream(&mut hosts, 4);
        assert_eq!(hosts.size(), 1_500 - HEADER_BYTES);
        hosts.change(1_280, 0);
        stream(&mut hosts, 10);
        let count = |hosts: &World| {
            let events = hosts.networks.host(0).events.iter();
            events.filter(|(_, event)| matches!(event, Event::PathSuspected { .. })).count()
        };
        let (at_first, reductions) = (count(&hosts), hosts.reductions());
        stream(&mut hosts, 30);
        hosts.run_for(Duration::from_secs(30));
        let (all, retransmitted) = (count(&hosts), hosts.client().stats().sent.retransmitted.total());
        println!("{delay:?}: {at_first} then {all} changes, {retransmitted} chunks again, {reductions:?}");
        hosts.assert_all_delivered();
        assert!(all == at_first && at_first < 40, "{at_first} {all}");
        let at_once = |(at, bytes): &(Instant, usize)| *at == reductions[0].0 && *bytes == 1_232;
        assert!(reductions.len() == 2 && reductions.iter().all(at_once), "both paths: {reductions:?}");
    }
}
