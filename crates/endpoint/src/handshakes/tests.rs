//! Limits of half-open handshakes, without a driver.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use festina_secure::SecureAssociation;
use festina_secure::wire::{Frame, Frames, Level};
use festina_secure::{LongKeys, initial_keys};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig, Side};

use super::*;
use crate::endpoint::House;
use crate::request::Verdict;

pub(crate) const PORT: u16 = 9_899;
const SERVER: &str = "10.0.0.1:9899";
const ATTACKER: &str = "10.0.0.66:9899";
const CLIENT: &str = "10.0.0.2:9899";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

thread_local! {
    /// The CPU time that the handshakes of a test seem to have used, and that of each.
    static CPU_TIME: Cell<(Duration, Duration)> = const { Cell::new((Duration::ZERO, Duration::from_micros(50))) };
}

/// Has each handshake take this CPU time.
fn set_cost(cost: Duration) {
    CPU_TIME.set((Duration::ZERO, cost));
}

fn measure() -> Duration {
    let (used, cost) = CPU_TIME.get();
    CPU_TIME.set((used + cost, cost));
    used
}

/// How often TLS ran for this cost.
fn runs() -> u32 {
    let (used, cost) = CPU_TIME.get();
    u32::try_from(used.as_nanos() / cost.as_nanos() / 2).unwrap()
}

/// A server's handshakes, and a client at another address than the attacker's.
struct World {
    now: Instant,
    house: House,
    handshakes: Handshakes<House>,
    client: SecureAssociation,
    tls: Arc<ClientConfig>,
}

/// A client of the server's port, with a token for the acceptor.
fn client(now: Instant, tls: &Arc<ClientConfig>, random: [u8; 16], (port, token): (u16, &[u8])) -> SecureAssociation {
    let context = sctp::Context::new(sctp::Config::default(), [1; 16]).unwrap();
    let request = festina_secure::Connect {
        tls,
        resumption: None,
        server_name: "server.test".try_into().unwrap(),
        remote: address(SERVER),
        ports: sctp::Ports { local: 5_001, peer: port },
        token,
        random,
        known: None,
    };
    SecureAssociation::connect(now, &context, request).unwrap()
}

impl World {
    fn new() -> Self {
        Self::with(sctp::Config::default(), |certificate, key| {
            server().with_single_cert(vec![certificate], key).unwrap()
        })
    }

    fn with(
        config: sctp::Config,
        server: impl FnOnce(CertificateDer<'static>, PrivateKeyDer<'static>) -> ServerConfig,
    ) -> Self {
        let (certificate, key) = certificate();
        let tls = Arc::new(trusting(&certificate));
        let server = Arc::new(server(certificate, key));
        let context = sctp::Context::new(config, [2; 16]).unwrap();
        let listener = Listener::new(&context, server, [3; 32], HalfOpenLimits::default()).unwrap();
        let reset_key = festina_secure::reset::ResetKey::new(&provider(), b"a key", address(SERVER)).unwrap();
        let mut house = House::new(context);
        house.listen(PORT).unwrap();
        let now = Instant::from_secs(3_600);
        let client = client(now, &tls, [7; 16], (PORT, b""));
        let handshakes = Handshakes::new(Some(listener.with_resets(reset_key)), [7; 16], measure);
        // One site in 256 shares the budget of another: not these two.
        let payer = |handshakes: &Handshakes<House>, from| handshakes.payer(address(from).ip());
        assert!(payer(&handshakes, ATTACKER) != payer(&handshakes, CLIENT), "take another secret");
        set_cost(Duration::from_micros(50));
        Self { now, house, handshakes, client, tls }
    }

    /// A server whose accept queue has this many places.
    fn with_places(accept_queue_max: usize) -> Self {
        let admission = sctp::Admission { accept_queue_max, ..sctp::Admission::default() };
        let config = sctp::Config { admission, ..sctp::Config::default() };
        Self::with(config, |certificate, key| server().with_single_cert(vec![certificate], key).unwrap())
    }

    /// Sends the hello of a client that never completes its handshake, once or with a proof of its address.
    fn genuine_hello(&mut self, from: &str, number: u64, (port, token): (u16, &[u8]), is_proved: bool) {
        let mut random = [7; 16];
        random[..8].copy_from_slice(&number.to_be_bytes());
        random[8..].copy_from_slice(&id(number).0);
        let mut client = client(self.now, &self.tls, random, (port, token));
        for _ in 0..1 + usize::from(is_proved) {
            let mut hello = Vec::new();
            client.poll_transmit(self.now, &mut hello).unwrap();
            self.push(from, &hello);
            let answer = self.turn();
            let answer = BytesMut::from(&answer[..]);
            let _dropped = client.handle_datagram(self.now, address(SERVER), EcnCodepoint::NotCapable, answer);
            if client.failure().is_some() {
                return;
            }
        }
    }

    fn push(&mut self, from: &str, packet: &[u8]) {
        let packet = BytesMut::from(packet);
        let datagram = Datagram { from: address(from), source: None, ecn: EcnCodepoint::NotCapable, packet };
        self.handshakes.push(datagram);
    }

    /// Sends a hello from there that never ends, with a proof of the address or without. Returns the length of the answer.
    fn hello(&mut self, from: &str, number: u64, is_proved: bool) -> usize {
        let mut frames = Vec::new();
        if is_proved {
            Frame::Token(&self.token(address(from), id(number))).write(&mut frames);
        }
        Frame::Fragment { offset: 0, bytes: &[1, 0, 2, 0, 3, 3] }.write(&mut frames);
        self.push(from, &initial(id(number), &frames));
        self.turn().len()
    }

    /// One turn of the driver. Returns the bytes of all answers.
    fn turn(&mut self) -> Vec<u8> {
        self.now += Duration::from_millis(1);
        self.handshakes.begin_turn();
        self.handshakes.handle(self.now, &mut self.house);
        self.house.take_answers()
    }

    /// Runs the client's handshake while `attack` fills the queues before each turn. Returns whether it completes within this many turns.
    fn client_connects(&mut self, turns: usize, mut attack: impl FnMut(&mut Self)) -> bool {
        for _ in 0..turns {
            attack(self);
            self.client.handle_timeout(self.now);
            let mut packet = Vec::new();
            while self.client.poll_transmit(self.now, &mut packet).is_some() {
                self.push(CLIENT, &std::mem::take(&mut packet));
            }
            // Long headers tell their length, so several datagrams can be handed over as one.
            let answer = self.turn();
            let (now, ecn) = (self.now, EcnCodepoint::NotCapable);
            let _dropped = self.client.handle_datagram(now, address(SERVER), ecn, BytesMut::from(&answer[..]));
            if self.client.is_established() {
                return true;
            }
        }
        false
    }

    /// The token for an address and a connection ID of the attacker's choice.
    fn token(&mut self, from: SocketAddr, id: ConnectionId) -> Vec<u8> {
        let mut reply = Vec::new();
        let hello = BytesMut::from(&initial(id, &[0; 200])[..]);
        let listener = self.handshakes.listener.as_mut().unwrap();
        let incoming = listener.handle_datagram(self.now, from, hello, usize::MAX, &mut reply);
        assert!(matches!(incoming, Incoming::Reply));
        let mut keys = LongKeys::new(Level::Initial, initial_keys(&provider(), id, Side::Client).unwrap());
        let frames = keys.open(&mut reply).unwrap();
        match Frames(frames).next() {
            Some(Ok(Frame::Retry(token))) => token.to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

/// A self-signed certificate with its key.
fn certificate() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let certificate = rcgen::CertificateParams::new(["server.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.der().clone(), key.serialize_der().try_into().unwrap())
}

/// A client that trusts this certificate.
fn trusting(certificate: &CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(provider()));
    let client = client.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    client.with_root_certificates(roots).with_no_client_auth()
}

/// A client that trusts the certificate of a server, and the server.
pub(crate) fn configs() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let (certificate, key) = certificate();
    let client = Arc::new(trusting(&certificate));
    (client, Arc::new(server().with_single_cert(vec![certificate], key).unwrap()))
}

fn server() -> rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert> {
    let server = ServerConfig::builder_with_provider(Arc::new(provider()));
    server.with_protocol_versions(&[&rustls::version::TLS13]).unwrap().with_no_client_auth()
}

fn provider() -> rustls::crypto::CryptoProvider {
    rustls::crypto::ring::default_provider()
}

fn id(number: u64) -> ConnectionId {
    ConnectionId((number + 1).to_be_bytes())
}

fn initial(id: ConnectionId, frames: &[u8]) -> Vec<u8> {
    let mut keys = LongKeys::new(Level::Initial, initial_keys(&provider(), id, Side::Client).unwrap());
    let mut packet = Vec::new();
    keys.seal(&mut packet, id, ConnectionId([9; 8]), frames).unwrap();
    packet
}

#[test]
fn one_network_keeps_no_place_from_others_whatever_its_packets_hold() {
    let no_hello: fn(&mut Vec<u8>) = |_| {};
    // TLS ends a handshake that begins with an unknown message.
    let broken_hello: fn(&mut Vec<u8>) = |frames| Frame::Fragment { offset: 0, bytes: &[99; 40] }.write(frames);
    let cut_hello: fn(&mut Vec<u8>) = |frames| Frame::Fragment { offset: 0, bytes: &[1, 0, 2, 0, 3, 3] }.write(frames);
    // A handshake that has failed gives its place up at once.
    for (add_frames, places) in [(no_hello, 1_024), (broken_hello, 0), (cut_hello, 1_024)] {
        let mut world = World::new();
        for number in 0..1_100 {
            let mut frames = Vec::new();
            Frame::Token(&world.token(address(ATTACKER), id(number))).write(&mut frames);
            add_frames(&mut frames);
            world.push(ATTACKER, &initial(id(number), &frames));
            world.turn();
        }
        assert_eq!(world.handshakes.half_open.len(), places);
        assert!(world.client_connects(20, |_| {}));
    }
}

#[test]
fn of_the_packets_of_unknown_associations_1000_a_second_are_answered_by_resets() {
    let mut world = World::new();
    let bytes: usize = (0..1_000)
        .map(|_| {
            (0..4).for_each(|_| world.push(ATTACKER, &[0x65; 100]));
            world.turn().len()
        })
        .sum();
    // A reset has 27 to 42 bytes, and 100 are saved up.
    assert!((900 * 27..=1_100 * 42).contains(&bytes), "{bytes}");
}

#[test]
fn of_1024_half_open_handshakes_64_begin_without_a_proof_and_all_end_after_30_seconds() {
    let mut world = World::new();
    let host = |number: u64| format!("10.{}.{}.1:9", number / 256 + 1, number % 256);
    let half_open = |world: &World| world.handshakes.half_open.len();
    // Hellos from as many networks, so that only the limits in all count.
    for (before, number) in (0..100).zip(0..) {
        let answer = world.hello(&host(number), number, false);
        assert_eq!((half_open(&world), answer > 0), (64.min(before + 1), number >= 64), "hello {number}");
    }
    for (before, number) in (64..1_064).zip(100..) {
        let answer = world.hello(&host(number), number, true);
        assert_eq!((half_open(&world), answer), (1_024.min(before + 1), 0), "hello {number}");
    }
    // Then a client with a proof takes the place of the oldest.
    assert!(world.client_connects(20, |_| {}));
    assert_eq!(half_open(&world), 1_024);
    world.now += festina_secure::HALF_OPEN_LIFETIME;
    world.handshakes.expire(world.now, &mut world.house);
    assert_eq!(half_open(&world), 0);
    assert!(world.handshakes.by_origin.is_empty() && world.handshakes.by_network.is_empty());
    assert!(world.handshakes.deadlines.is_empty());
}

#[test]
fn the_oldest_of_the_largest_site_makes_room_for_others() {
    let mut world = World::new();
    let count = |world: &World, address: &str| {
        let [host, site] = Network::both(address.parse().unwrap());
        [host, site].map(|network| world.handshakes.by_network.get(&network).copied().unwrap_or_default())
    };
    let mut numbers = 0..;
    let mut send = |world: &mut World, from: &str, hellos: usize| {
        for _ in 0..hellos {
            // One site's share of the time is not what counts here.
            world.now += Duration::from_millis(1);
            world.hello(from, numbers.next().unwrap(), true);
        }
    };
    // Without a proof, hellos take no place of a site.
    for number in 0..64 {
        world.hello(&format!("10.1.{number}.1:9"), 1_000_000 + number, false);
    }
    send(&mut world, "10.2.0.1:9", 700);
    send(&mut world, "[2001:db8:0:1::1]:9", 200);
    send(&mut world, "[2001:db8:0:2::1]:9", 60);
    assert_eq!(world.handshakes.half_open.len(), 1_024);
    assert_eq!([count(&world, "10.2.0.1"), count(&world, "2001:db8:0:1::1")], [[700, 700], [200, 260]]);
    // An IPv4 address has as many places as an IPv6 /48, and within that one a /64 as many as another.
    send(&mut world, "[2001:db8:0:2::1]:9", 220);
    assert_eq!([count(&world, "10.2.0.1"), count(&world, "2001:db8:0:1::1")], [[480, 480], [200, 480]]);
    send(&mut world, "[2001:db8:0:1::1]:9", 40);
    assert_eq!([count(&world, "10.2.0.1"), count(&world, "2001:db8:0:1::1")], [[480, 480], [240, 480]]);
    send(&mut world, "10.3.0.1:9", 1);
    assert_eq!((count(&world, "10.3.0.1"), world.handshakes.half_open.len()), ([1, 1], 1_024));
    assert!(world.client_connects(20, |_| {}));
}

#[test]
fn the_accept_queue_keeps_places_for_clients_that_prove_their_addresses_and_for_other_sites() {
    for (from, is_proved) in [(None, false), (Some(ATTACKER), true)] {
        let mut world = World::with_places(32);
        for number in 0..50 {
            let other = format!("10.1.{number}.1:9");
            let to = (PORT, &b""[..]);
            world.genuine_hello(from.unwrap_or(&other), number, to, is_proved);
        }
        let reserved = world.handshakes.half_open.values().filter(|half_open| half_open.has_place(PORT));
        // Those with a proof take the second half; the others have it left, or have completed their handshakes.
        assert_eq!(reserved.count(), 16);
        assert!(world.client_connects(20, |_| {}), "{is_proved}");
    }
}

/// A client repeats a hello without an answer after 200 turns.
#[test]
fn a_hello_of_two_datagrams_that_come_at_once_is_answered_before_it_is_repeated() {
    let mut world = World::new();
    world.client = client(world.now, &world.tls, [7; 16], (PORT, &[1; 1_024]));
    assert!(world.client_connects(10, |_| {}));
}

#[test]
fn a_client_that_waits_for_a_full_queue_gets_in_by_the_first_answer() {
    let mut world = World::with_places(1);
    let place = world.house.keep_place(PORT, true);
    assert!(place.is_some());
    assert!(!world.client_connects(500, |_| {}));
    drop(place);
    // The handshake was forgotten after its retry. The client repeats its hello after a second and up to a quarter more.
    assert!(world.client_connects(800, |_| {}));
}

/// Counts how often a certificate is chosen, each time for a signature.
#[derive(Debug)]
struct Counting(Arc<CertifiedKey>, Arc<AtomicUsize>);

impl ResolvesServerCert for Counting {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(&self.0))
    }
}

#[test]
fn a_client_that_is_refused_or_has_no_listener_costs_no_signature() {
    let signatures = Arc::new(AtomicUsize::new(0));
    let mut world = World::with(sctp::Config::default(), |certificate, key| {
        let key = CertifiedKey::from_der(vec![certificate], key, &provider()).unwrap();
        server().with_cert_resolver(Arc::new(Counting(Arc::new(key), Arc::clone(&signatures))))
    });
    world.house.decide_by(|request| match &request.token[..] {
        b"bad" => Verdict::Refuse(festina_secure::REFUSED),
        _ if request.server_name.as_deref() == Some("server.test") => Verdict::Admit,
        _ => Verdict::Ignore,
    });
    let mut number = 0;
    for to in [(5_999, &b""[..]), (PORT, b"bad")] {
        for is_proved in [false, true] {
            number += 1;
            world.genuine_hello(ATTACKER, number, to, is_proved);
        }
    }
    assert_eq!((signatures.load(Ordering::Relaxed), world.handshakes.half_open.len()), (0, 0));
    assert!(world.client_connects(20, |_| {}));
    assert_eq!(signatures.load(Ordering::Relaxed), 1);
}

/// Packets that change nothing do not keep a stranger waiting.
fn assert_strangers_are_heard(first: &[u8], is_kept: bool, next: impl Fn(u64) -> Vec<u8>) {
    let mut world = World::new();
    world.push(ATTACKER, &initial(id(0), first));
    world.turn();
    let attacked = world.handshakes.half_open.keys().next().copied();
    assert_eq!(attacked.is_some(), is_kept);
    let mut number = 0;
    let connected = world.client_connects(10, |world| {
        for _ in 0..8 * TLS_PER_TURN {
            number += 1;
            world.push(ATTACKER, &next(number));
        }
    });
    assert!(connected, "after {number} packets");
    for _ in 0..2 * u64::from(DATAGRAMS_PER_HALF_OPEN_MAX) {
        number += 1;
        world.push(ATTACKER, &next(number));
        world.turn();
    }
    let is_kept = attacked.is_some_and(|id| world.handshakes.half_open.contains_key(&id));
    assert!(!is_kept, "a half-open is forgotten after many packets");
}

/// A packet with this number.
fn numbered(number: u64, frames: &[u8]) -> Vec<u8> {
    let mut keys = LongKeys::new(Level::Initial, initial_keys(&provider(), id(0), Side::Client).unwrap());
    let mut packet = Vec::new();
    for _ in 0..=number {
        packet.clear();
        keys.seal(&mut packet, id(0), ConnectionId([9; 8]), frames).unwrap();
    }
    packet
}

#[test]
fn padding_for_a_half_open_does_not_keep_strangers_waiting() {
    assert_strangers_are_heard(&[0; 40], true, |number| numbered(number, &[0; 40]));
}

#[test]
fn garbage_for_a_failed_handshake_does_not_keep_strangers_waiting() {
    let mut broken = Vec::new();
    Frame::Fragment { offset: 0, bytes: &[99; 40] }.write(&mut broken);
    let garbage = |_| {
        let mut packet = numbered(0, &[0; 40]);
        *packet.last_mut().unwrap() ^= 1;
        packet
    };
    assert_strangers_are_heard(&broken, false, garbage);
}

#[test]
fn hellos_without_a_proof_get_a_fiftieth_of_the_time_whatever_a_signature_costs() {
    // Ed25519, RSA-2048 and RSA-4096 on a slow machine.
    for cost in [100, 1_000, 12_000].map(Duration::from_micros) {
        let mut world = World::new();
        set_cost(cost);
        let mut answers = 0;
        for number in 0..3_000 {
            // TLS ends a handshake that begins with an unknown message, so that places do not count.
            let mut frames = Vec::new();
            Frame::Fragment { offset: 0, bytes: &[99; 40] }.write(&mut frames);
            world.push(&format!("10.1.{}.{}:9", number / 250, number % 250 + 1), &initial(id(number), &frames));
            answers += usize::from(!world.turn().is_empty());
        }
        // The burst that a second saves up, three seconds' share, and one handshake that overdraws it.
        let time_max = Duration::from_millis(20 + 60) + cost;
        assert!(
            runs() * cost <= time_max && 2 * runs() * cost >= time_max.min(Duration::from_millis(50)),
            "{} of {cost:?}",
            runs()
        );
        assert_eq!(answers, 3_000, "the others are to prove their addresses");
    }
}

#[test]
fn one_site_keeps_no_cpu_time_from_others() {
    let mut world = World::new();
    set_cost(Duration::from_millis(1));
    let mut numbers = 0..;
    for (ms, host) in (0..4_000).zip(1..) {
        let other = format!("10.{}.{}.1:9", host / 250 + 1, host % 250);
        for from in [ATTACKER, ATTACKER, ATTACKER, &other] {
            let number = numbers.next().unwrap();
            // TLS ends a handshake that begins with an unknown message, so that places do not count.
            let mut frames = Vec::new();
            Frame::Token(&world.token(address(from), id(number))).write(&mut frames);
            Frame::Fragment { offset: 0, bytes: &[99; 40] }.write(&mut frames);
            world.push(from, &initial(id(number), &frames));
            world.now = Instant::from_secs(3_600) + Duration::from_millis(ms);
            world.turn();
        }
    }
    let waiting = &mut world.handshakes.hellos;
    let pop = || {
        let payer = waiting.payers().next()?;
        waiting.pop(payer)
    };
    let rest: Vec<_> = std::iter::from_fn(pop).collect();
    let others = 4_000 - rest.iter().filter(|hello| hello.datagram.from != address(ATTACKER)).count();
    // All together get half of four seconds, and the burst of 200 ms.
    assert!(runs() <= 2_000 + 210 && others > 1_500, "{} of others, {} in all", others, runs());
}

/// The time until all of these clients, which begin at the same moment, are established.
fn crowd_connects(addresses: impl Iterator<Item = SocketAddr>) -> Duration {
    let mut world = World::new();
    set_cost(Duration::from_micros(150));
    let start = world.now;
    let mut clients = HashMap::new();
    for (number, from) in (0_u64..).zip(addresses) {
        let mut random = [7; 16];
        random[..8].copy_from_slice(&number.to_be_bytes());
        random[8..].copy_from_slice(&id(number).0);
        let client = client(world.now, &world.tls, random, (PORT, b""));
        clients.insert(client.id(), (from.to_string(), client));
    }
    let mut accepted = 0;
    while !clients.values().all(|(_, client)| client.is_established()) {
        assert!(world.now < start + Duration::from_secs(15), "{accepted} are accepted");
        for (from, client) in clients.values_mut() {
            client.handle_timeout(world.now);
            let mut packet = Vec::new();
            while client.poll_transmit(world.now, &mut packet).is_some() {
                world.push(from, &std::mem::take(&mut packet));
            }
        }
        let answers = world.turn();
        let mut rest = &answers[..];
        while let Ok(Header::Long(header)) = read_header(rest) {
            let (packet, later) = rest.split_at(festina_secure::wire::LONG_HEADER_BYTES + header.length);
            rest = later;
            let (_, client) = clients.get_mut(&header.destination).unwrap();
            let _dropped =
                client.handle_datagram(world.now, address(SERVER), EcnCodepoint::NotCapable, BytesMut::from(packet));
        }
        accepted += std::iter::from_fn(|| world.house.accept(PORT)).count();
    }
    world.now - start
}

#[test]
fn a_crowd_of_one_address_or_many_connects_within_five_seconds() {
    let one = |number: u16| SocketAddr::from(([192, 0, 2, 1], 1_024 + number));
    let many = |number: u16| SocketAddr::from(([192, 0, 2, u8::try_from(number % 100).unwrap()], 1_024 + number));
    for time in [crowd_connects((0..1_200).map(one)), crowd_connects((0..1_200).map(many))] {
        assert!(time < Duration::from_secs(5), "{time:?}");
    }
}

#[test]
fn only_long_headers_are_found_by_the_connection_ids_that_clients_choose() {
    // A plain packet whose ports and tag are that ID: anyone may choose it.
    let plain = [&[0x60][..], &[7; 8], &[0; 40]].concat();
    let mut world = World::new();
    let mut hello = Vec::new();
    world.client.poll_transmit(world.now, &mut hello).unwrap();
    world.push(CLIENT, &hello);
    world.turn();
    let knows = |packet: &[u8]| world.handshakes.knows(address(CLIENT), packet);
    assert!(knows(&hello) && !knows(&plain));
    let mut world = World::new();
    let mut hello = Vec::new();
    world.client.poll_transmit(world.now, &mut hello).unwrap();
    world.push(CLIENT, &hello);
    assert!(world.client_connects(100, |_| {}));
    let mut last = Vec::new();
    while world.client.poll_transmit(world.now, &mut last).is_some() {
        world.push(CLIENT, &std::mem::take(&mut last));
    }
    world.turn();
    let mut find =
        |from, packet: &[u8]| world.house.demux(|demux| demux.find_protected(address(from), packet).is_some());
    assert!(find(CLIENT, &hello) && !find(CLIENT, &plain));
    assert!(!find(ATTACKER, &hello), "a copied hello makes a handshake of its own");
}
