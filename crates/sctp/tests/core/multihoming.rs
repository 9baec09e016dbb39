//! Two hosts with two addresses each, and two networks between them: loss, an outage of one network, and the delay that it costs.

mod bottleneck;
mod policies;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use festina_netsim::{Link, LinkConfig, LossModel};
use festina_sctp::{
    Association, Config, Context, Event, Incoming, Listener, Message, Multihoming, PathId, PathState, Ports, Profile,
};
use festina_units::{Duration, EcnCodepoint, Instant, Probability};

use crate::pair::{CLIENT_PORT, Datagram, SERVER_PORT};

/// Between two messages.
const INTERVAL: Duration = Duration::from_millis(50);
/// One way, on either network.
const DELAY: Duration = Duration::from_millis(50);

/// An address of a host on one of the networks.
fn address(host: usize, network: usize) -> SocketAddr {
    let prefix = [[192, 0, 2], [198, 51, 100]][network];
    let last = u8::try_from(host + 1).unwrap();
    SocketAddr::from(([prefix[0], prefix[1], prefix[2], last], 9_899))
}

/// Client and server. `links[network][host]` carries the packets of that host to the other on that network.
struct TwoNetworks {
    now: Instant,
    ends: [Option<Association>; 2],
    listener: Listener,
    links: [[Link<Datagram>; 2]; 2],
    /// The client's packets with their networks, if another carries them than these links.
    outbox: Option<Vec<(usize, Datagram)>>,
    /// When the first packet with each message left and when it was received, by its number.
    sent_at: BTreeMap<u32, Instant>,
    delays: BTreeMap<u32, Duration>,
    /// In the order of their delivery.
    delivered: Vec<u32>,
    events: [Vec<Event>; 2],
}

impl TwoNetworks {
    fn new(config: &Config, multihoming: &Multihoming, loss: Probability, seed: u64) -> Self {
        Self::with_delays(config, multihoming, (loss, [DELAY; 2]), seed)
    }

    /// As [`new`](Self::new), with networks of this delay one way.
    fn with_delays(
        config: &Config,
        multihoming: &Multihoming,
        (loss, delays): (Probability, [Duration; 2]),
        seed: u64,
    ) -> Self {
        let context = |host: usize| {
            let addresses = vec![address(host, 0).ip(), address(host, 1).ip()];
            let secret = [u8::try_from(host).unwrap() + 1; 16];
            Context::multihomed(config.clone(), secret, Multihoming { addresses, ..multihoming.clone() }).unwrap()
        };
        let mut listener = Listener::new(&context(1));
        listener.listen(SERVER_PORT);
        let now = Instant::from_secs(1);
        let ports = Ports { local: CLIENT_PORT, peer: SERVER_PORT };
        let client = Association::connect(now, &context(0), address(1, 0), ports, seed);
        let link = |delay, name| {
            Link::new(LinkConfig { delay, loss: LossModel::Independent(loss), ..LinkConfig::default() }, seed, name)
        };
        let [first, second] = delays;
        let links = [
            [link(first, "first there"), link(first, "first back")],
            [link(second, "second there"), link(second, "second back")],
        ];
        let mut networks = Self {
            now,
            ends: [Some(client), None],
            listener,
            links,
            outbox: None,
            sent_at: BTreeMap::new(),
            delays: BTreeMap::new(),
            delivered: Vec::new(),
            events: [Vec::new(), Vec::new()],
        };
        networks.drain(0);
        networks.run_for(Duration::from_secs(5));
        networks
    }

    fn client(&mut self) -> &mut Association {
        self.ends[0].as_mut().unwrap()
    }

    /// Cuts a network in both directions, or mends it.
    fn cut(&mut self, network: usize, is_cut: bool, loss: Probability) {
        let loss = LossModel::Independent(if is_cut { Probability::ONE } else { loss });
        let config = LinkConfig { delay: DELAY, loss, ..LinkConfig::default() };
        self.links[network] = [1, 2].map(|seed| Link::new(config.clone(), seed + u64::from(is_cut), "link"));
    }

    fn send(&mut self, number: u32) {
        let now = self.now;
        let message = Message::new(Bytes::copy_from_slice(&[&number.to_be_bytes()[..], &[7; 96]].concat()));
        self.client().send(now, message).unwrap();
        self.sent_at.insert(number, now);
        self.drain(0);
    }

    fn drain(&mut self, host: usize) {
        let Some(association) = &mut self.ends[host] else { return };
        loop {
            let mut packet = Vec::new();
            let Some(transmit) = association.poll_transmit(self.now, &mut packet) else { break };
            let network = (0..2).find(|&network| address(1 - host, network) == transmit.destination).unwrap();
            let datagram = Datagram(packet, transmit.ecn);
            match &mut self.outbox {
                Some(outbox) if host == 0 => outbox.push((network, datagram)),
                _ => drop(self.links[network][host].send(self.now, datagram)),
            }
        }
        while let Some(message) = association.poll_message() {
            let number = u32::from_be_bytes(message.payload()[..4].try_into().unwrap());
            self.delivered.push(number);
            self.delays.insert(number, self.now - self.sent_at[&number]);
        }
        while let Some(event) = association.poll_event() {
            self.events[host].push(event);
        }
    }

    fn deliver(&mut self, host: usize, network: usize, packet: Vec<u8>) {
        let (from, packet) = (address(1 - host, network), Bytes::from(packet));
        if let Some(association) = &mut self.ends[host] {
            association.handle_packet(self.now, from, EcnCodepoint::NotCapable, &packet).unwrap();
        } else {
            let mut reply = Vec::new();
            match self.listener.handle_packet(self.now, from, &packet, &|_| false, &mut reply) {
                Incoming::Accepted(association) => self.ends[host] = Some(*association),
                Incoming::Reply => {
                    self.links[network][host].send(self.now, Datagram(reply, EcnCodepoint::NotCapable));
                }
                other => panic!("{other:?}"),
            }
        }
        self.drain(host);
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let links = self.links.iter().flatten().filter_map(Link::poll_deadline);
            let timers = self.ends.iter().flatten().filter_map(Association::poll_deadline);
            let Some(next) = links.chain(timers).min().filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            for (network, host) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                while let Some(Datagram(packet, _)) = self.links[network][host].poll_delivery(self.now) {
                    self.deliver(1 - host, network, packet);
                }
            }
            for host in 0..2 {
                // When a chunk is sent again on the other path, a probe for the chunks before it may be due.
                for round in 0.. {
                    let Some(association) = &mut self.ends[host] else { break };
                    if association.poll_deadline().is_none_or(|deadline| deadline > self.now) {
                        break;
                    }
                    assert!(round < 2, "a timer that was handled is still due");
                    association.handle_timeout(self.now);
                    self.drain(host);
                }
            }
        }
        self.now = end;
    }

    /// Sends a message each interval for this time.
    fn stream(&mut self, time: Duration) {
        self.stream_each(INTERVAL, time);
    }

    fn stream_each(&mut self, interval: Duration, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.send(u32::try_from(self.sent_at.len()).unwrap());
            self.run_for(interval);
        }
    }

    /// The longest delay of the messages from this one on.
    fn delay_max(&self, from: u32) -> Duration {
        self.delays.range(from..).map(|(_, &delay)| delay).max().unwrap()
    }
}

/// Streams over two networks with this loss; the first fails for 3 s. Returns the longest delay of the messages sent since.
fn outage(config: &Config, multihoming: &Multihoming, loss: Probability, seed: u64) -> Duration {
    let mut networks = TwoNetworks::new(config, multihoming, loss, seed);
    networks.stream(Duration::from_secs(10));
    let first = u32::try_from(networks.sent_at.len()).unwrap();
    networks.cut(0, true, loss);
    networks.stream(Duration::from_secs(3));
    networks.cut(0, false, loss);
    networks.stream(Duration::from_secs(10));
    networks.run_for(Duration::from_secs(100));
    let all: Vec<_> = (0..u32::try_from(networks.sent_at.len()).unwrap()).collect();
    assert_eq!(networks.delivered, all, "each message once and in order");
    let delay = networks.delay_max(first);
    let states: Vec<_> = networks.client().paths().map(|path| (path.state, path.carries_data)).collect();
    assert_eq!(states, [(PathState::Active, true), (PathState::Active, false)], "the primary path is used again");
    delay
}

/// The longest delays in milliseconds, over seeds.
fn delays(config: &Config, multihoming: &Multihoming, percent: u32) -> Vec<u64> {
    let loss = Probability::from_percent(percent);
    let delay = |seed| outage(config, multihoming, loss, seed).as_millis();
    (1..=5).map(|seed| u64::try_from(delay(seed)).unwrap()).collect()
}

fn standard() -> Multihoming {
    Multihoming { suspected_above: None, ..Multihoming::default() }
}

#[test]
fn both_ends_confirm_both_addresses_and_report_it() {
    let networks = TwoNetworks::new(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    for host in 0..2 {
        let remote = address(1 - host, 1);
        assert!(networks.events[host].iter().any(|event| {
            matches!(event, Event::PathConfirmed { path, remote: confirmed } if *path != PathId::PRIMARY && *confirmed == remote)
        }));
    }
}

#[test]
fn an_outage_of_three_seconds_costs_two_by_the_standard_and_a_third_of_one_with_quick_failover() {
    for (percent, standard_max, rfc7829_max, festina_max) in [(0, 2_350, 1_050, 280), (5, 2_350, 1_300, 380)] {
        let rfc9260 = Config::published(Profile::Rfc9260);
        let by_standard = delays(&rfc9260, &standard(), percent);
        let suspected = delays(&rfc9260, &Multihoming::default(), percent);
        let festina = delays(&Config::default(), &Multihoming::default(), percent);
        assert!(by_standard.iter().all(|&delay| delay <= standard_max), "{by_standard:?}");
        assert!(suspected.iter().all(|&delay| delay <= rfc7829_max), "{suspected:?}");
        assert!(festina.iter().all(|&delay| delay <= festina_max), "{festina:?}");
    }
}

#[test]
fn if_the_second_network_fails_no_message_is_late() {
    let mut networks = TwoNetworks::new(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    networks.cut(1, true, Probability::ZERO);
    networks.stream(Duration::from_secs(200));
    networks.run_for(Duration::from_secs(5));
    assert_eq!(networks.delay_max(0), DELAY);
    assert!(networks.client().paths().nth(1).is_some_and(|path| path.state != PathState::Active));
}

#[test]
fn what_the_first_network_loses_is_soon_repaired_while_the_second_fails() {
    let loss = Probability::from_percent(5);
    let delay = |seed| {
        let mut networks = TwoNetworks::new(&Config::default(), &Multihoming::default(), loss, seed);
        networks.stream(Duration::from_secs(5));
        networks.cut(1, true, loss);
        networks.stream(Duration::from_secs(3));
        networks.cut(1, false, loss);
        networks.stream(Duration::from_secs(3));
        networks.run_for(Duration::from_secs(10));
        networks.delay_max(0).as_millis()
    };
    let delays: Vec<_> = (1..=100).map(delay).collect();
    assert!(delays.iter().all(|&delay| delay <= 500), "{delays:?}");
}

/// A router drops large packets silently. Heartbeats pass, so no path stays suspected.
#[test]
fn a_packet_that_is_too_large_for_both_networks_is_sent_ever_more_rarely() {
    let delays = [Duration::from_micros(150); 2];
    let (config, multihoming) = (Config::default(), Multihoming::default());
    let mut networks = TwoNetworks::with_delays(&config, &multihoming, (Probability::ZERO, delays), 1);
    networks.outbox = Some(Vec::new());
    let now = networks.now;
    networks.client().send(now, Message::new(vec![7; 1_000])).unwrap();
    networks.drain(0);
    let mut dropped = Vec::new();
    for _ in 0..30_000 {
        networks.run_for(Duration::from_millis(1));
        for (network, datagram) in networks.outbox.replace(Vec::new()).unwrap() {
            if datagram.0.len() > 500 {
                dropped.push(networks.now);
            } else {
                networks.links[network][0].send(networks.now, datagram);
            }
        }
    }
    let in_the_end = dropped.iter().filter(|&&at| at > now + Duration::from_secs(20)).count();
    assert!(dropped.len() < 300 && in_the_end < 100, "{} packets, {in_the_end} of them in the end", dropped.len());
}

#[test]
fn if_both_networks_fail_for_three_seconds_everything_arrives_once_and_in_order() {
    for config in [Config::default(), Config::published(Profile::Rfc9260)] {
        for multihoming in [Multihoming::default(), standard()] {
            let mut networks = TwoNetworks::new(&config, &multihoming, Probability::ZERO, 1);
            networks.stream(Duration::from_secs(2));
            (0..2).for_each(|network| networks.cut(network, true, Probability::ZERO));
            networks.stream(Duration::from_secs(3));
            (0..2).for_each(|network| networks.cut(network, false, Probability::ZERO));
            networks.stream(Duration::from_secs(2));
            networks.run_for(Duration::from_secs(100));
            let all: Vec<_> = (0..u32::try_from(networks.sent_at.len()).unwrap()).collect();
            assert_eq!(networks.delivered, all);
        }
    }
}

#[test]
fn a_bulk_transfer_survives_outages_of_either_network_in_turn() {
    let mut networks = TwoNetworks::new(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    let mut number = 0;
    for round in 0..6 {
        networks.cut(round % 2, true, Probability::ZERO);
        for _ in 0..200 {
            let payload = [&u32::to_be_bytes(number)[..], &[7; 1_000]].concat();
            let now = networks.now;
            networks.client().send(now, Message::new(payload)).unwrap();
            networks.sent_at.insert(number, now);
            number += 1;
        }
        networks.drain(0);
        networks.run_for(Duration::from_secs(3));
        networks.cut(round % 2, false, Probability::ZERO);
        networks.run_for(Duration::from_secs(3));
    }
    networks.run_for(Duration::from_secs(60));
    assert_eq!(networks.delivered, (0..number).collect::<Vec<_>>());
}

#[test]
fn a_vanished_peer_is_noticed_though_it_had_two_addresses() {
    let mut networks = TwoNetworks::new(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    (0..2).for_each(|network| networks.cut(network, true, Probability::ZERO));
    networks.send(0);
    networks.run_for(Duration::from_secs(84));
    assert!(networks.client().is_closed());
}

#[test]
fn a_path_that_may_have_failed_is_reported_and_its_return_as_well() {
    let mut networks = TwoNetworks::new(&Config::default(), &Multihoming::default(), Probability::ZERO, 1);
    networks.stream(Duration::from_secs(3));
    networks.cut(0, true, Probability::ZERO);
    networks.stream(Duration::from_secs(3));
    networks.cut(0, false, Probability::ZERO);
    networks.stream(Duration::from_secs(3));
    let suspected = |event: &Event| match event {
        Event::PathSuspected { path, suspected, .. } => Some((*path, *suspected)),
        _ => None,
    };
    let seen: Vec<_> = networks.events[0].iter().filter_map(suspected).collect();
    assert_eq!(seen, [(PathId::PRIMARY, true), (PathId::PRIMARY, false)]);
}

#[test]
fn an_endpoint_has_each_address_once() {
    let twice = vec![address(0, 0).ip(), address(0, 1).ip(), address(0, 0).ip()];
    let multihoming = Multihoming { addresses: twice, ..Multihoming::default() };
    let error = Context::multihomed(Config::default(), [1; 16], multihoming).unwrap_err();
    assert_eq!(error.to_string(), "the address 192.0.2.1 is named twice");
}
