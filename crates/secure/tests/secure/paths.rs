//! A client and a server with two addresses each, and two networks between them.

mod naming;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use festina_netsim::{Link, LinkConfig, LossModel};
use festina_sctp::{Association, Config, Context, Event, Message, Multihoming, PathId, PathState};
use festina_secure::reading::{Reader, Seen};
use festina_secure::wire::{ConnectionId, destination_id, is_short};
use festina_secure::{Connect, HalfOpenLimits, Incoming, Listener, OVERHEAD_BYTES, Path, SecureAssociation};
use festina_units::{Duration, EcnCodepoint, Instant, Probability};
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ServerConfig};

use crate::reading::{SUITES, logged_tls};
use crate::world::{Datagram, NAME, PORTS, random, tls};

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

struct TwoNetworks {
    now: Instant,
    /// Client and server.
    ends: [Option<SecureAssociation>; 2],
    listener: Listener,
    /// `links[network][host]` carries the datagrams of that host.
    links: [[Link<Datagram>; 2]; 2],
    /// Where the client is on each network.
    client: [SocketAddr; 2],
    sent_at: BTreeMap<u32, Instant>,
    delays: BTreeMap<u32, Duration>,
    delivered: Vec<u32>,
    events: [Vec<Event>; 2],
    /// Connection IDs seen on each network in short headers.
    ids: [BTreeSet<ConnectionId>; 2],
    /// Bytes of each host to each address.
    bytes: BTreeMap<(usize, SocketAddr), usize>,
    datagrams: Vec<Vec<u8>>,
    /// The server has heard the client since the handshake.
    is_heard: bool,
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
        networks.drain(0);
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
        let listener = Listener::new(&contexts[1], Arc::clone(server_tls), [3; 32], HalfOpenLimits::default()).unwrap();
        Self {
            now,
            ends: [Some(client), None],
            listener,
            links: [0, 1].map(|network| links(loss, seed + network)),
            client: [address(0, 0), address(0, 1)],
            sent_at: BTreeMap::new(),
            delays: BTreeMap::new(),
            delivered: Vec::new(),
            events: [Vec::new(), Vec::new()],
            ids: [BTreeSet::new(), BTreeSet::new()],
            bytes: BTreeMap::new(),
            datagrams: Vec::new(),
            is_heard: false,
        }
    }

    /// The second network is down from the beginning.
    fn without_the_second(seed: u64) -> Self {
        let mut networks = Self::prepared(&tls(), &both_multihomed(), Probability::ZERO, seed);
        networks.cut(1, true, Probability::ZERO);
        networks.drain(0);
        networks.run_for(SECOND * 5);
        networks
    }

    fn cut(&mut self, network: usize, is_cut: bool, loss: Probability) {
        self.links[network] = links(if is_cut { Probability::ONE } else { loss }, u64::from(is_cut));
    }

    fn send(&mut self, host: usize, number: u32) {
        let message = Message::new([&number.to_be_bytes()[..], &[7; 96]].concat());
        self.ends[host].as_mut().unwrap().send(self.now, message).unwrap();
        self.sent_at.insert(number, self.now);
        self.drain(host);
    }

    fn address_of(&self, host: usize, network: usize) -> SocketAddr {
        if host == 0 { self.client[network] } else { address(1, network) }
    }

    fn drain(&mut self, host: usize) {
        let Some(association) = &mut self.ends[host] else { return };
        if association.hello().is_some() {
            association.admit(self.now);
        }
        loop {
            let mut datagram = Vec::new();
            let association = self.ends[host].as_mut().unwrap();
            let Some(transmit) = association.poll_transmit(self.now, &mut datagram) else { break };
            assert_eq!(transmit.len, datagram.len());
            if host == 1 && !self.is_heard {
                // Nothing else is known to reach the client, perhaps behind a NAT.
                assert_eq!(association.source(), Some(address(1, 0).ip()));
            }
            let to = transmit.destination;
            *self.bytes.entry((host, to)).or_default() += datagram.len();
            self.datagrams.push(datagram.clone());
            let network = if to.ip().to_string().starts_with("192") { 0 } else { 1 };
            if is_short(&datagram) {
                self.ids[network].extend(destination_id(&datagram));
            }
            let from = self.address_of(host, network);
            self.links[network][host].send(self.now, Datagram(datagram, from, to));
        }
        let association = self.ends[host].as_mut().unwrap();
        while let Some(message) = association.poll_message() {
            let number = u32::from_be_bytes(message.payload()[..4].try_into().unwrap());
            self.delivered.push(number);
            self.delays.insert(number, self.now - self.sent_at[&number]);
        }
        self.events[host].extend(std::iter::from_fn(|| association.poll_event()));
    }

    fn deliver(&mut self, host: usize, Datagram(bytes, from, to): Datagram) {
        if to != self.address_of(host, usize::from(!to.ip().to_string().starts_with("192"))) {
            return;
        }
        let (now, bytes) = (self.now, BytesMut::from(&bytes[..]));
        let path = Path { remote: from, local: (host == 1).then_some(to.ip()) };
        match &mut self.ends[host] {
            Some(association) => {
                assert!(destination_id(&bytes).is_ok_and(|id| association.takes(id, from)));
                self.is_heard |= host == 1 && association.association().is_some();
                let _dropped = association.handle_datagram(now, path, EcnCodepoint::NotCapable, bytes);
            }
            None => match self.listener.handle_datagram(now, path, bytes, 0, &mut Vec::new()) {
                Incoming::HalfOpen(association) => self.ends[host] = Some(*association),
                other => panic!("{other:?}"),
            },
        }
        self.drain(host);
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let links = self.links.iter().flatten().filter_map(Link::poll_deadline);
            let timers = self.ends.iter().flatten().filter_map(SecureAssociation::poll_deadline);
            let Some(next) = links.chain(timers).min().filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            for (network, host) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                while let Some(datagram) = self.links[network][host].poll_delivery(self.now) {
                    self.deliver(1 - host, datagram);
                }
            }
            for host in 0..2 {
                if let Some(association) = &mut self.ends[host] {
                    association.handle_timeout(self.now);
                    self.drain(host);
                    let deadline = self.ends[host].as_ref().and_then(SecureAssociation::poll_deadline);
                    assert!(deadline.is_none_or(|at| at > self.now), "a timer that was handled is still due");
                }
            }
        }
        self.now = end;
    }

    fn stream(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.send(0, u32::try_from(self.sent_at.len()).unwrap());
            self.run_for(INTERVAL);
        }
    }

    fn core(&self, host: usize) -> &Association {
        self.ends[host].as_ref().unwrap().association().unwrap()
    }

    /// The server receives a datagram from anywhere.
    fn copy_from(&mut self, from: SocketAddr, datagram: &[u8]) {
        let server = self.ends[1].as_mut().unwrap();
        let path = Path { remote: from, local: Some(address(1, 0).ip()) };
        let _dropped = server.handle_datagram(self.now, path, EcnCodepoint::NotCapable, BytesMut::from(datagram));
        self.drain(1);
    }

    fn paths(&self, host: usize) -> Vec<(SocketAddr, PathState, bool)> {
        self.core(host).paths().map(|path| (path.remote, path.state, path.carries_data)).collect()
    }

    fn assert_all_delivered(&self) {
        assert_eq!(self.delivered, (0..u32::try_from(self.sent_at.len()).unwrap()).collect::<Vec<_>>());
    }

    fn moves(&self) -> Vec<SocketAddr> {
        let moved = |event: &Event| if let Event::PeerMoved { remote, .. } = event { Some(*remote) } else { None };
        self.events[1].iter().filter_map(moved).collect()
    }
}

fn links(loss: Probability, seed: u64) -> [Link<Datagram>; 2] {
    let config = LinkConfig { delay: DELAY, loss: LossModel::Independent(loss), ..LinkConfig::default() };
    ["there", "back"].map(|name| Link::new(config.clone(), seed, name))
}

#[test]
fn both_ends_use_both_addresses_with_connection_ids_and_names_that_do_not_link_them() {
    let mut networks = TwoNetworks::new(Probability::ZERO, 1);
    networks.stream(SECOND);
    for host in 0..2 {
        let others = [0, 1].map(|network| (address(1 - host, network), PathState::Active, network == 0));
        assert_eq!(networks.paths(host), others);
    }
    let [first, second] = &networks.ids;
    assert_eq!((first.len(), second.len()), (2, 2), "one for each direction");
    assert!(first.is_disjoint(second));
    for last in [1, 2] {
        let shows = |datagram: &Vec<u8>| datagram.windows(4).any(|bytes| bytes == [198, 51, 100, last]);
        assert!(!networks.datagrams.iter().any(shows), "others can read the addresses");
    }
}

#[test]
fn an_outage_of_three_seconds_costs_a_third_of_one() {
    for (percent, delay_max) in [(0, 280), (5, 340)] {
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
            u64::try_from(networks.delays.range(first..).map(|(_, delay)| delay.as_millis()).max().unwrap()).unwrap()
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
    networks.client[0] = new;
    networks.stream(SECOND * 3);
    networks.run_for(SECOND * 5);
    networks.assert_all_delivered();
    assert_eq!(networks.moves(), [new]);
    assert_eq!(networks.paths(1).iter().map(|path| path.0).collect::<Vec<_>>(), [new, address(0, 1)]);
    assert!(networks.delays.values().all(|delay| *delay <= DELAY * 4), "{:?}", networks.delays.values().max());
}

#[test]
fn another_port_of_a_further_address_is_followed_once_it_answers() {
    let mut networks = TwoNetworks::new(Probability::ZERO, 4);
    let second = networks.core(0).paths().nth(1).unwrap().id;
    assert!(networks.ends[0].as_mut().unwrap().association_mut().unwrap().set_primary(second));
    networks.stream(SECOND * 3);
    let new = SocketAddr::new(address(0, 1).ip(), 4_242);
    networks.client[1] = new;
    networks.stream(SECOND * 3);
    networks.run_for(SECOND * 5);
    networks.assert_all_delivered();
    assert_eq!(networks.moves(), [new]);
    assert_eq!(networks.paths(1).iter().map(|path| path.0).collect::<Vec<_>>(), [address(0, 0), new]);
    assert!(networks.delays.values().all(|delay| *delay <= DELAY * 4), "{:?}", networks.delays.values().max());
}

#[test]
fn a_thousand_copies_that_a_tap_sends_on_from_elsewhere_move_no_path() {
    let mut networks = TwoNetworks::new(Probability::ZERO, 5);
    let second = networks.core(0).paths().nth(1).unwrap().id;
    let elsewhere = |number: u16| SocketAddr::from(([203, 0, 113, number.to_be_bytes()[1]], 1_000 + number));
    let (mut spoofed, mut received) = (0, BTreeMap::<SocketAddr, usize>::new());
    for number in 0..600 {
        if number == 300 {
            networks.ends[0].as_mut().unwrap().association_mut().unwrap().set_primary(second);
        }
        let seen = networks.datagrams.len();
        networks.send(0, number);
        for datagram in networks.datagrams.split_off(seen) {
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
    for ((host, to), bytes) in &networks.bytes {
        let is_elsewhere = *host == 1 && !addresses.contains(to);
        assert!(!is_elsewhere || *bytes <= 3 * received[to], "{bytes} bytes to {to} for {}", received[to]);
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
            networks.send(0, 0);
            networks.run_for(DELAY);
            networks.cut(0, true, Probability::ZERO);
        } else {
            networks.stream(SECOND * 5);
        }
        let heard: usize = networks.bytes.iter().filter(|((host, _), _)| *host == 0).map(|(_, bytes)| bytes).sum();
        networks.run_for(SECOND * 60);
        let of = |networks: &TwoNetworks, host: usize, is_victim: bool| -> usize {
            let is_wanted = |to: &SocketAddr| victims.contains(&to.ip()) == is_victim;
            networks.bytes.iter().filter(|((from, to), _)| *from == host && is_wanted(to)).map(|(_, bytes)| bytes).sum()
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
        let seen = networks.datagrams.len();
        networks.send(0, number);
        for datagram in networks.datagrams.split_off(seen) {
            networks.copy_from(victim, &datagram);
        }
        networks.run_for(INTERVAL);
    }
    networks.assert_all_delivered();
    assert!(!networks.bytes.contains_key(&(1, victim)));
    assert_eq!(networks.bytes[&(1, named)] % HEARTBEAT_BYTES, 0, "the address that was named gets no challenge");
}

#[test]
fn a_client_with_one_address_uses_both_of_its_server() {
    let server = multihomed(1, vec![address(1, 0).ip(), address(1, 1).ip()]);
    let mut networks = TwoNetworks::between(&[multihomed(0, Vec::new()), server], Probability::ZERO, 7);
    // Its packets leave on either network, from an address that the routing table chooses.
    networks.client[1] = address(0, 1);
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
    for datagram in &networks.datagrams {
        assert!(matches!(reader.read(datagram, &mut chunks), Seen::Opened(..)), "{datagram:?}");
    }
    assert_eq!(networks.ids[1].len(), 2);
}

#[test]
fn an_address_that_is_down_for_the_first_hour_is_found() {
    let mut networks = TwoNetworks::without_the_second(9);
    networks.run_for(SECOND * 3_600);
    assert_eq!(networks.paths(0)[1].1, PathState::Unconfirmed);
    let asked_bytes = [0, 1].map(|host| networks.bytes.get(&(host, address(1 - host, 1))).copied().unwrap_or_default());
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
    let second = networks.core(0).paths().nth(1).unwrap().id;
    let new = SocketAddr::new(address(0, 0).ip(), 4_242);
    let mut old = Vec::new();
    for number in 0..120_u16 {
        // A tap repeats a packet of the second path from ever new ports of its address.
        let seen = networks.datagrams.len();
        networks.ends[0].as_mut().unwrap().association_mut().unwrap().set_primary(if number == 0 {
            second
        } else {
            PathId::PRIMARY
        });
        networks.send(0, u32::try_from(networks.sent_at.len()).unwrap());
        if number == 0 {
            networks.run_for(INTERVAL);
            old = networks.datagrams[seen].clone();
        }
        networks.copy_from(SocketAddr::new(address(0, 1).ip(), 5_000 + number), &old);
        if number == 20 {
            networks.client[0] = new;
        }
        networks.run_for(INTERVAL);
    }
    networks.run_for(SECOND * 5);
    networks.assert_all_delivered();
    assert_eq!(networks.moves(), [new]);
}
