//! Limits of half-open handshakes, without a driver.

use std::net::SocketAddr;

use bytes::BytesMut;
use festina_secure::record::{LongKeys, initial_keys};
use festina_secure::wire::{Frame, Frames, Level};
use festina_units::Duration;
use rustls::Side;

use super::*;
use crate::endpoint::options::ListenOptions;
use crate::endpoint::socket::Socket;
use crate::security::{Identity, Security, Trust};
use crate::{Config, DEFAULT_SCTP_PORT, MemoryNetwork};

const SERVER: &str = "10.0.0.1:9899";
const ATTACKER: &str = "10.0.0.66:9899";
const CLIENT: &str = "10.0.0.2:9899";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn shared(network: &MemoryNetwork, at: &str, security: Security) -> Arc<Shared> {
    let socket = Socket::new(Box::new(network.bind(address(at)).unwrap()));
    Shared::new(socket, Config::default().with_security(security)).unwrap().0
}

/// A server's handshakes, and a client at another address than the attacker's.
struct World {
    now: Instant,
    shared: Arc<Shared>,
    handshakes: Handshakes,
    answers: Outbox,
    client: SecureAssociation,
}

impl World {
    fn new() -> Self {
        let network = MemoryNetwork::new();
        let identity = Identity::self_signed("server.test").unwrap();
        let trust = Trust::fingerprints([identity.fingerprint()]);
        let server = shared(&network, SERVER, Security::new().with_identity(identity));
        server.listen(DEFAULT_SCTP_PORT, ListenOptions::default()).unwrap();
        let security = Security::new().with_server_trust(trust);
        let tls = security.build().unwrap().client.unwrap();
        let now = Instant::from_secs(3_600);
        let context = sctp::Context::new(Config::default().with_security(security).into_core(), [1; 16]).unwrap();
        let request = festina_secure::Connect {
            tls: &tls,
            resumption: None,
            server_name: "server.test".try_into().unwrap(),
            remote: address(SERVER),
            ports: sctp::Ports { local: 5_001, peer: DEFAULT_SCTP_PORT },
            token: &[],
            random: [7; 16],
            known: None,
        };
        let client = SecureAssociation::connect(now, &context, request).unwrap();
        let listener = server.secure.as_ref().unwrap().take_listener();
        let handshakes = Handshakes::new(listener, 20_000);
        Self { now, shared: server, handshakes, answers: Outbox::default(), client }
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
        self.handshakes.handle(self.now, &self.shared, &mut self.answers);
        let bytes = std::mem::take(self.answers.buffer());
        self.answers.clear();
        bytes
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

#[tokio::test]
async fn one_network_gets_few_places_whatever_its_packets_hold() {
    let no_hello: fn(&mut Vec<u8>) = |_| {};
    // TLS ends a handshake that begins with an unknown message.
    let broken_hello: fn(&mut Vec<u8>) = |frames| Frame::Fragment { offset: 0, bytes: &[99; 40] }.write(frames);
    let cut_hello: fn(&mut Vec<u8>) = |frames| Frame::Fragment { offset: 0, bytes: &[1, 0, 2, 0, 3, 3] }.write(frames);
    // A handshake that has failed gives its place up at once.
    for (add_frames, places_min) in
        [(no_hello, HALF_OPEN_PER_NETWORK_MAX), (broken_hello, 0), (cut_hello, HALF_OPEN_PER_NETWORK_MAX)]
    {
        let mut world = World::new();
        for number in 0..200 {
            let mut frames = Vec::new();
            Frame::Token(&world.token(address(ATTACKER), id(number))).write(&mut frames);
            add_frames(&mut frames);
            world.push(ATTACKER, &initial(id(number), &frames));
            world.turn();
        }
        let half_open = world.handshakes.half_open.len();
        assert!((places_min..=2 * HALF_OPEN_PER_NETWORK_MAX).contains(&half_open), "{half_open}");
        assert!(world.client_connects(100, |_| {}));
    }
}

#[tokio::test]
async fn of_1024_half_open_handshakes_64_begin_without_a_proof_and_all_end_after_30_seconds() {
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
    // Then even a client with a proof has to wait.
    assert!(!world.client_connects(20, |_| {}));
    assert_eq!(half_open(&world), 1_024);
    world.now += festina_secure::HALF_OPEN_LIFETIME;
    world.handshakes.expire(world.now, &world.shared, &mut world.answers);
    world.answers.buffer().clear();
    world.answers.clear();
    assert_eq!(half_open(&world), 0);
    assert!(world.handshakes.by_origin.is_empty() && world.handshakes.by_network.is_empty());
    assert!(world.handshakes.deadlines.is_empty());
    assert!(world.client_connects(2_000, |_| {}));
}

#[tokio::test]
async fn at_most_64_handshakes_of_one_ipv4_address_or_ipv6_network_begin_with_a_proof() {
    let mut world = World::new();
    // The places of hellos without a proof are taken.
    for number in 0..64 {
        world.hello(&format!("10.1.{number}.1:9"), number, false);
    }
    let mut number = 64;
    // Ports of one address, addresses of one /64, and another /64.
    for (places, from) in [
        (64, &(|at| format!("10.2.0.1:{at}")) as &dyn Fn(u64) -> String),
        (64, &|at| format!("[2001:db8::{at}]:9")),
        (64, &|at| format!("[2001:db8:0:1::{at}]:9")),
        // Of one /48, four times as many.
        (64, &|at| format!("[2001:db8:0:2::{at}]:9")),
        (64, &|at| format!("[2001:db8:0:3::{at}]:9")),
        (0, &|at| format!("[2001:db8:0:4::{at}]:9")),
        (70, &|at| format!("[2001:db8:1:{at}::1]:9")),
        (0, &|at| format!("[::ffff:10.2.0.1]:{}", at + 1_000)),
    ] {
        let before = world.handshakes.half_open.len();
        // One site has half of the handshakes of a second.
        world.now += Duration::from_secs(1);
        for at in 1..=70 {
            world.hello(&from(at), number, true);
            number += 1;
        }
        assert_eq!(world.handshakes.half_open.len() - before, places, "{}", from(1));
    }
    assert!(world.client_connects(100, |_| {}));
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

#[tokio::test]
async fn padding_for_a_half_open_does_not_keep_strangers_waiting() {
    assert_strangers_are_heard(&[0; 40], true, |number| numbered(number, &[0; 40]));
}

#[tokio::test]
async fn garbage_for_a_failed_handshake_does_not_keep_strangers_waiting() {
    let mut broken = Vec::new();
    Frame::Fragment { offset: 0, bytes: &[99; 40] }.write(&mut broken);
    let garbage = |_| {
        let mut packet = numbered(0, &[0; 40]);
        *packet.last_mut().unwrap() ^= 1;
        packet
    };
    assert_strangers_are_heard(&broken, false, garbage);
}

#[tokio::test]
async fn hellos_begin_at_most_a_twentieth_as_many_handshakes_as_strays_are_admitted() {
    let mut world = World::new();
    world.handshakes = Handshakes::new(world.handshakes.listener.take(), 10 * STRAYS_PER_HANDSHAKE);
    // A second of hellos from as many networks.
    let mut retries = 0;
    for number in 0..1_000 {
        world.push(&format!("10.1.{}.{}:9", number / 250, number % 250 + 1), &initial(id(number), &[0; 40]));
        retries += usize::from(!world.turn().is_empty());
    }
    let begun = world.handshakes.half_open.len();
    assert!((9..=11).contains(&begun), "{begun} in a second");
    assert_eq!(retries, 1_000 - begun, "the others are to prove their addresses");
}

#[tokio::test]
async fn one_site_begins_at_most_half_of_the_handshakes_that_are_admitted() {
    let mut world = World::new();
    let mut begun = [0; 2];
    let mut numbers = 0..;
    for (ms, host) in (0..2_000).zip(1..) {
        let others = format!("10.{}.{}.1:9", host / 250 + 1, host % 250);
        for (is_other, from) in [(0, ATTACKER), (0, ATTACKER), (0, ATTACKER), (1, &others)] {
            let number = numbers.next().unwrap();
            // TLS ends a handshake that begins with an unknown message, answers with a close, and gives the place up at once.
            let mut frames = Vec::new();
            Frame::Token(&world.token(address(from), id(number))).write(&mut frames);
            Frame::Fragment { offset: 0, bytes: &[99; 40] }.write(&mut frames);
            world.push(from, &initial(id(number), &frames));
            world.now = Instant::from_secs(3_600) + Duration::from_millis(ms);
            begun[is_other] += usize::from(!world.turn().is_empty());
        }
    }
    // In each second 500, and 256 before the server asks for proofs.
    let [attacker, others] = begun;
    assert!((900..1_600).contains(&attacker) && others > 400, "{begun:?}");
}

#[tokio::test]
async fn only_long_headers_are_found_by_the_connection_ids_that_clients_choose() {
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
    let find = |from, packet: &[u8]| world.shared.find_protected(address(from), packet).is_some();
    assert!(find(CLIENT, &hello) && !find(CLIENT, &plain));
    assert!(!find(ATTACKER, &hello), "a copied hello makes a handshake of its own");
}
