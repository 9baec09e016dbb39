//! A client and a server with two addresses each, and two networks between them.

mod naming;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use festina_netsim::{Datagram, LinkConfig, LossModel, Networks, Node};
use festina_sctp::{Association, Config, Context, Event, Message, Multihoming, PathId, PathState};
use festina_secure::reading::{Reader, Seen};
use festina_secure::wire::{ConnectionId, destination_id, is_short};
use festina_secure::{Connect, HalfOpenLimits, Incoming, Listener, OVERHEAD_BYTES, Path, SecureAssociation};
use festina_units::{Duration, EcnCodepoint, Instant, Probability};
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ServerConfig};

use crate::reading::{SUITES, logged_tls};
use crate::world::{NAME, PORTS, random, tls};

/// Between two messages.
const INTERVAL: Duration = Duration::from_millis(50);
/// One way, on either network.
const DELAY: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);
/// A datagram with nothing but a heartbeat to an address that has not answered.
const HEARTBEAT_BYTES: usize = 43;

/// An address of a host on one of the networks.
fn address(host: usize, network: usize) -> SocketAddr {
    let prefix = [[192, 0, 2], [198, 51, 100]][network];
    let last = u8::try_from(host + 1).unwrap();
    SocketAddr::from(([prefix[0], prefix[1], prefix[2], last], 9_899))
}

/// Client or server.
struct Host {
    index: usize,
    association: Option<SecureAssociation>,
    listener: Listener,
    /// Where this host is on each network.
    own: [SocketAddr; 2],
    /// Messages in the order of their delivery, and when.
    received: Vec<(u32, Instant)>,
    events: Vec<Event>,
    /// Datagrams that it sent, and when.
    datagrams: Vec<(Instant, Datagram)>,
    /// The server has heard the client since the handshake.
    is_heard: bool,
}

fn network_of(address: SocketAddr) -> usize {
    usize::from(!address.ip().to_string().starts_with("192"))
}

impl Host {
    /// Handles a datagram on its way between any addresses.
    fn handle(&mut self, now: Instant, bytes: &[u8], [from, to]: [SocketAddr; 2]) {
        let path = Path { remote: from, local: (self.index == 1).then_some(to.ip()) };
        let bytes = BytesMut::from(bytes);
        match &mut self.association {
            Some(association) => {
                let _dropped = association.handle_datagram(now, path, EcnCodepoint::NotCapable, bytes);
            }
            None => match self.listener.handle_datagram(now, path, bytes, 0, &mut Vec::new()) {
                Incoming::HalfOpen(association) => self.association = Some(*association),
                other => panic!("{other:?}"),
            },
        }
    }
}

impl Node<Datagram> for Host {
    fn handle_packet(&mut self, now: Instant, Datagram { bytes, addresses: [from, to], network, .. }: Datagram) {
        if to == self.own[network] {
            if let Some(association) = &self.association {
                assert!(destination_id(&bytes).is_ok_and(|id| association.takes(id, from)));
                self.is_heard |= self.index == 1 && association.association().is_some();
            }
            self.handle(now, &bytes, [from, to]);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(association) = &mut self.association {
            association.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        let association = self.association.as_mut()?;
        if association.hello().is_some() {
            association.admit(now);
        }
        let mut bytes = Vec::new();
        if let Some(transmit) = association.poll_transmit(now, &mut bytes) {
            assert_eq!(transmit.len, bytes.len());
            if self.index == 1 && !self.is_heard {
                // Nothing else is known to reach the client, perhaps behind a NAT.
                assert_eq!(association.source(), Some(address(1, 0).ip()));
            }
            let to = transmit.destination;
            let network = network_of(to);
            let addresses = [self.own[network], to];
            let datagram = Datagram { network, addresses, bytes, is_fragmented: false };
            self.datagrams.push((now, datagram.clone()));
            return Some(datagram);
        }
        while let Some(message) = association.poll_message() {
            self.received.push((u32::from_be_bytes(message.payload()[..4].try_into().unwrap()), now));
        }
        self.events.extend(std::iter::from_fn(|| association.poll_event()));
        None
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.association.as_ref()?.poll_deadline()
    }
}

struct TwoNetworks {
    networks: Networks<Host>,
    sent_at: BTreeMap<u32, Instant>,
}

fn multihomed(host: usize, addresses: Vec<IpAddr>) -> Arc<Context> {
    let multihoming = Multihoming { addresses, ..Multihoming::default() };
    let mut config = Config::default();
    config.limits.packet_bytes_max -= OVERHEAD_BYTES;
    Context::multihomed(config, [u8::try_from(host).unwrap() + 1; 16], multihoming).unwrap()
}

fn both_multihomed() -> [Arc<Context>; 2] {
    [0, 1].map(|host| multihomed(host, vec![address(host, 0).ip(), address(host, 1).ip()]))
}

impl TwoNetworks {
    fn new(loss: Probability, seed: u64) -> Self {
        Self::between(&both_multihomed(), loss, seed)
    }

    fn between(contexts: &[Arc<Context>; 2], loss: Probability, seed: u64) -> Self {
        Self::between_with(&tls(), contexts, loss, seed)
    }

    fn between_with(
        tls: &(Arc<ClientConfig>, Arc<ServerConfig>),
        contexts: &[Arc<Context>; 2],
        loss: Probability,
        seed: u64,
    ) -> Self {
        let mut networks = Self::prepared(tls, contexts, loss, seed);
        networks.run_for(SECOND * 5);
        networks
    }

    /// Before the first datagram.
    fn prepared(
        (client_tls, server_tls): &(Arc<ClientConfig>, Arc<ServerConfig>),
        contexts: &[Arc<Context>; 2],
        loss: Probability,
        seed: u64,
    ) -> Self {
        let now = Instant::from_secs(1);
        let request = Connect {
            tls: client_tls,
            resumption: None,
            server_name: ServerName::try_from(NAME).unwrap(),
            remote: address(1, 0),
            ports: PORTS,
            token: &[],
            random: random(seed),
            known: None,
        };
        let client = SecureAssociation::connect(now, &contexts[0], request).unwrap();
        let host = |index: usize, association| {
            let (tls, secret) = (Arc::clone(server_tls), [3; 32]);
            let listener = Listener::new(&contexts[index], tls, secret, HalfOpenLimits::default()).unwrap();
            let (own, events) = ([0, 1].map(|network| address(index, network)), Vec::new());
            let (received, datagrams) = (Vec::new(), Vec::new());
            Host { index, association, listener, own, received, events, datagrams, is_heard: false }
        };
        let link = LinkConfig { delay: DELAY, loss: LossModel::Independent(loss), ..LinkConfig::default() };
        let mut networks = Networks::new([host(0, None), host(1, None)], &[link.clone(), link], seed);
        networks.run_until(now);
        networks.host_mut(0).association = Some(client);
        Self { networks, sent_at: BTreeMap::new() }
    }

    /// The second network is down from the beginning.
    fn without_the_second(seed: u64) -> Self {
        let mut networks = Self::prepared(&tls(), &both_multihomed(), Probability::ZERO, seed);
        networks.cut(1, true, Probability::ZERO);
        networks.run_for(SECOND * 5);
        networks
    }

    fn cut(&mut self, network: usize, is_cut: bool, loss: Probability) {
        let loss = LossModel::Independent(if is_cut { Probability::ONE } else { loss });
        self.networks.change(network, |link| link.set_loss(loss.clone()));
    }

    fn now(&self) -> Instant {
        self.networks.now()
    }

    /// Sends a message of the client at once. Returns the datagrams.
    fn send(&mut self, number: u32) -> Vec<Vec<u8>> {
        let message = Message::new([&number.to_be_bytes()[..], &[7; 96]].concat());
        let (now, seen) = (self.now(), self.networks.host(0).datagrams.len());
        self.end(0).send(now, message).unwrap();
        self.sent_at.insert(number, now);
        self.run_for(Duration::ZERO);
        self.networks.host(0).datagrams[seen..].iter().map(|(_, sent)| sent.bytes.clone()).collect()
    }

    fn end(&mut self, host: usize) -> &mut SecureAssociation {
        self.networks.host_mut(host).association.as_mut().unwrap()
    }

    fn run_for(&mut self, time: Duration) {
        self.networks.run_for(time);
    }

    /// Datagrams of both hosts in the order in which they were sent.
    fn datagrams(&self) -> Vec<&Datagram> {
        let mut sent: Vec<_> = [0, 1].into_iter().flat_map(|host| &self.networks.host(host).datagrams).collect();
        sent.sort_by_key(|(at, _)| *at);
        sent.into_iter().map(|(_, datagram)| datagram).collect()
    }

    /// Bytes that a host has sent to each address.
    fn bytes(&self, host: usize) -> BTreeMap<SocketAddr, usize> {
        let mut bytes = BTreeMap::new();
        for (_, datagram) in &self.networks.host(host).datagrams {
            *bytes.entry(datagram.addresses[1]).or_default() += datagram.bytes.len();
        }
        bytes
    }

    /// Connection IDs seen on each network in short headers.
    fn ids(&self) -> [BTreeSet<ConnectionId>; 2] {
        [0, 1].map(|network| {
            let sent = self.datagrams().into_iter().filter(|sent| sent.network == network && is_short(&sent.bytes));
            sent.filter_map(|sent| destination_id(&sent.bytes).ok()).collect()
        })
    }

    fn delays(&self) -> impl Iterator<Item = (u32, Duration)> {
        self.networks.host(1).received.iter().map(|(number, at)| (*number, *at - self.sent_at[number]))
    }

    fn delay_max(&self) -> Duration {
        self.delays().map(|(_, delay)| delay).max().unwrap()
    }

    fn stream(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            self.send(u32::try_from(self.sent_at.len()).unwrap());
            self.run_for(INTERVAL);
        }
    }

    fn core(&self, host: usize) -> &Association {
        self.networks.host(host).association.as_ref().unwrap().association().unwrap()
    }

    /// The server receives a datagram from anywhere.
    fn copy_from(&mut self, from: SocketAddr, datagram: &[u8]) {
        let now = self.now();
        self.networks.host_mut(1).handle(now, datagram, [from, address(1, 0)]);
        self.run_for(Duration::ZERO);
    }

    fn paths(&self, host: usize) -> Vec<(SocketAddr, PathState, bool)> {
        self.core(host).paths().map(|path| (path.remote, path.state, path.carries_data)).collect()
    }

    fn assert_all_delivered(&self) {
        let numbers: Vec<_> = self.networks.host(1).received.iter().map(|received| received.0).collect();
        assert_eq!(numbers, (0..u32::try_from(self.sent_at.len()).unwrap()).collect::<Vec<_>>());
    }

    fn moves(&self) -> Vec<SocketAddr> {
        let moved = |event: &Event| if let Event::PeerMoved { remote, .. } = event { Some(*remote) } else { None };
        self.networks.host(1).events.iter().filter_map(moved).collect()
    }
}

#[test]
fn both_ends_use_both_addresses_with_connection_ids_and_names_that_do_not_link_them() {
    let mut networks = TwoNetworks::new(Probability::ZERO, 1);
    networks.stream(SECOND);
    for host in 0..2 {
        let others = [0, 1].map(|network| (address(1 - host, network), PathState::Active, network == 0));
        assert_eq!(networks.paths(host), others);
    }
    let [first, second] = networks.ids();
    assert_eq!((first.len(), second.len()), (2, 2), "one for each direction");
    assert!(first.is_disjoint(&second));
    for last in [1, 2] {
        let shows = |datagram: &&Datagram| datagram.bytes.windows(4).any(|bytes| bytes == [198, 51, 100, last]);
        assert!(!networks.datagrams().iter().any(shows), "others can read the addresses");
    }
}

#[test]
fn an_outage_of_three_seconds_costs_a_third_of_one() {
    for (percent, delay_max) in [(0, 280), (5, 390)] {
        let loss = Probability::from_percent(percent);
        let delays = (1..=5).map(|seed| {
            let mut networks = TwoNetworks::new(loss, seed);
            networks.stream(SECOND * 10);
            let first = u32::try_from(networks.sent_at.len()).unwrap();
            networks.cut(0, true, loss);
            networks.stream(SECOND * 3);
            networks.cut(0, false, loss);
            networks.stream(SECOND * 10);
            networks.run_for(SECOND * 100);
            networks.assert_all_delivered();
            assert_eq!(networks.moves(), [], "failover is no move");
            let active = [0, 1].map(|network| (address(1, network), PathState::Active, network == 0));
            assert_eq!(networks.paths(0), active, "the primary path is used again");
            let delays = networks.delays().filter(|(number, _)| *number >= first);
            u64::try_from(delays.map(|(_, delay)| delay.as_millis()).max().unwrap()).unwrap()
        });
        let delays: Vec<u64> = delays.collect();
        println!("longest delays at {percent} % loss, in milliseconds: {delays:?}");
        assert!(delays.iter().all(|&delay| delay <= delay_max), "{delays:?}");
    }
}

#[test]
fn an_address_that_the_client_has_not_named_takes_the_place_of_its_first_one() {
    let mut networks = TwoNetworks::new(Probability::ZERO, 3);
    networks.stream(SECOND * 3);
    let new: SocketAddr = "192.0.2.77:4242".parse().unwrap();
    networks.networks.host_mut(0).own[0] = new;
    networks.stream(SECOND * 3);
    networks.run_for(SECOND * 5);
    networks.assert_all_delivered();
    assert_eq!(networks.moves(), [new]);
    assert_eq!(networks.paths(1).iter().map(|path| path.0).collect::<Vec<_>>(), [new, address(0, 1)]);
    assert!(networks.delay_max() <= DELAY * 4, "{:?}", networks.delay_max());
}

#[test]
fn another_port_of_a_further_address_is_followed_once_it_answers() {
    let mut networks = TwoNetworks::new(Probability::ZERO, 4);
    let second = networks.core(0).paths().nth(1).unwrap().id;
    assert!(networks.end(0).association_mut().unwrap().set_primary(second));
    networks.stream(SECOND * 3);
    let new = SocketAddr::new(address(0, 1).ip(), 4_242);
    networks.networks.host_mut(0).own[1] = new;
    networks.stream(SECOND * 3);
    networks.run_for(SECOND * 5);
    networks.assert_all_delivered();
    assert_eq!(networks.moves(), [new]);
    assert_eq!(networks.paths(1).iter().map(|path| path.0).collect::<Vec<_>>(), [address(0, 0), new]);
    assert!(networks.delay_max() <= DELAY * 4, "{:?}", networks.delay_max());
}

#[test]
fn a_thousand_copies_that_a_tap_sends_on_from_elsewhere_move_no_path() {
    let mut networks = TwoNetworks::new(Probability::ZERO, 5);
    let second = networks.core(0).paths().nth(1).unwrap().id;
    let elsewhere = |number: u16| SocketAddr::from(([203, 0, 113, number.to_be_bytes()[1]], 1_000 + number));
    let (mut spoofed, mut received) = (0, BTreeMap::<SocketAddr, usize>::new());
    for number in 0..600 {
        if number == 300 {
            networks.end(0).association_mut().unwrap().set_primary(second);
        }
        for datagram in networks.send(number) {
            for _ in 0..2 {
                // Another address at which no client is, and another port of the client's own address.
                let own = SocketAddr::new(address(0, usize::from(spoofed % 4 / 2)).ip(), elsewhere(spoofed).port());
                let from = if spoofed % 2 == 0 { elsewhere(spoofed) } else { own };
                *received.entry(from).or_default() += datagram.len();
                networks.copy_from(from, &datagram);
                spoofed += 1;
            }
        }
        networks.run_for(INTERVAL);
    }
    networks.run_for(SECOND * 5);
    assert!(spoofed >= 1_000, "{spoofed} copies");
    networks.assert_all_delivered();
    assert_eq!(networks.moves(), []);
    let addresses = [0, 1].map(|network| address(0, network));
    assert_eq!(networks.paths(1).iter().map(|path| path.0).collect::<Vec<_>>(), addresses);
    for (to, bytes) in networks.bytes(1).iter().filter(|(to, _)| !addresses.contains(to)) {
        assert!(*bytes <= 3 * received[to], "{bytes} bytes to {to} for {}", received[to]);
    }
}

#[test]
fn victims_that_a_client_names_get_heartbeats_alone_and_few() {
    for is_silent in [false, true] {
        let victims: Vec<IpAddr> = (1..8).map(|last| IpAddr::from([203, 0, 113, last])).collect();
        let hostile = multihomed(0, [&[address(0, 0).ip()], &victims[..]].concat());
        let mut networks = TwoNetworks::between(&[hostile, multihomed(1, Vec::new())], Probability::ZERO, 6);
        if is_silent {
            // Not even the server's packets are acknowledged.
            networks.send(0);
            networks.run_for(DELAY);
            networks.cut(0, true, Probability::ZERO);
        } else {
            networks.stream(SECOND * 5);
        }
        let heard: usize = networks.bytes(0).values().sum();
        networks.run_for(SECOND * 60);
        let of = |networks: &TwoNetworks, host: usize, is_victim: bool| -> usize {
            let is_wanted = |to: &SocketAddr| victims.contains(&to.ip()) == is_victim;
            networks.bytes(host).iter().filter(|(to, _)| is_wanted(to)).map(|(_, bytes)| bytes).sum()
        };
        let (to_victims, of_client) = (of(&networks, 1, true), if is_silent { heard } else { of(&networks, 0, false) });
        println!("{to_victims} bytes to victims for {of_client}");
        assert!(to_victims > 0 && to_victims <= 3 * of_client, "{to_victims} bytes for {of_client}");
        if !is_silent {
            networks.run_for(SECOND * 86_400);
            let each = (of(&networks, 1, true) / HEARTBEAT_BYTES).div_ceil(victims.len());
            println!("{each} heartbeats to each within a day");
            assert!(each <= 40, "{each} heartbeats");
        }
        let paths = networks.paths(1);
        assert_eq!(paths.len(), 8);
        assert!(paths.iter().skip(1).all(|path| path.1 == PathState::Unconfirmed), "{paths:?}");
        assert!(networks.paths(0).len() == 1);
    }
}

#[test]
fn another_port_of_an_address_that_has_not_answered_gets_nothing() {
    let victim = SocketAddr::from(([203, 0, 113, 1], 4_242));
    let hostile = multihomed(0, vec![address(0, 0).ip(), victim.ip()]);
    let mut networks = TwoNetworks::between(&[hostile, multihomed(1, Vec::new())], Probability::ZERO, 6);
    let named = SocketAddr::new(victim.ip(), 9_899);
    assert_eq!(networks.paths(1)[1].0, named);
    for number in 0..20 {
        for datagram in networks.send(number) {
            networks.copy_from(victim, &datagram);
        }
        networks.run_for(INTERVAL);
    }
    networks.assert_all_delivered();
    assert!(!networks.bytes(1).contains_key(&victim));
    assert_eq!(networks.bytes(1)[&named] % HEARTBEAT_BYTES, 0, "the address that was named gets no challenge");
}

#[test]
fn a_client_with_one_address_uses_both_of_its_server() {
    let server = multihomed(1, vec![address(1, 0).ip(), address(1, 1).ip()]);
    let mut networks = TwoNetworks::between(&[multihomed(0, Vec::new()), server], Probability::ZERO, 7);
    // Its packets leave on either network, from an address that the routing table chooses.
    networks.networks.host_mut(0).own[1] = address(0, 1);
    networks.stream(SECOND * 2);
    networks.assert_all_delivered();
    assert_eq!(networks.paths(0).len(), 2);
    assert_eq!(networks.paths(1).len(), 1);
}

#[test]
fn a_reader_with_the_secrets_opens_the_packets_of_both_networks() {
    let (tls, log) = logged_tls(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut networks = TwoNetworks::between_with(&tls, &both_multihomed(), Probability::ZERO, 8);
    networks.stream(SECOND);
    let (mut reader, mut chunks) = (Reader::new(&SUITES, log.keys()), Vec::new());
    for datagram in networks.datagrams() {
        assert!(matches!(reader.read(&datagram.bytes, &mut chunks), Seen::Opened(..)), "{datagram:?}");
    }
    assert_eq!(networks.ids()[1].len(), 2);
}

#[test]
fn an_address_that_is_down_for_the_first_hour_is_found() {
    let mut networks = TwoNetworks::without_the_second(9);
    networks.run_for(SECOND * 3_600);
    assert_eq!(networks.paths(0)[1].1, PathState::Unconfirmed);
    let asked_bytes = [0, 1].map(|host| networks.bytes(host).get(&address(1 - host, 1)).copied().unwrap_or_default());
    assert!(asked_bytes.iter().all(|&bytes| bytes < 1_000), "{asked_bytes:?}");
    networks.cut(1, false, Probability::ZERO);
    networks.run_for(SECOND * 3_700);
    for host in 0..2 {
        assert_eq!(networks.paths(host)[1].1, PathState::Active);
    }
}

#[test]
fn duplicates_on_one_path_do_not_keep_another_from_moving() {
    let mut networks = TwoNetworks::new(Probability::ZERO, 10);
    networks.stream(SECOND);
    let first = u32::try_from(networks.sent_at.len()).unwrap();
    let second = networks.core(0).paths().nth(1).unwrap().id;
    let new = SocketAddr::new(address(0, 0).ip(), 4_242);
    let mut old = Vec::new();
    for number in 0..120_u16 {
        // A tap repeats a packet of the second path from ever new ports of its address.
        networks.end(0).association_mut().unwrap().set_primary(if number == 0 { second } else { PathId::PRIMARY });
        let sent = networks.send(first + u32::from(number));
        if number == 0 {
            networks.run_for(INTERVAL);
            old.clone_from(&sent[0]);
        }
        networks.copy_from(SocketAddr::new(address(0, 1).ip(), 5_000 + number), &old);
        if number == 20 {
            networks.networks.host_mut(0).own[0] = new;
        }
        networks.run_for(INTERVAL);
    }
    networks.run_for(SECOND * 5);
    networks.assert_all_delivered();
    assert_eq!(networks.moves(), [new]);
}
