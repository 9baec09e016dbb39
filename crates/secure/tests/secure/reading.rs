//! Captured datagrams, read with logged secrets.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex};

use festina_secure::reading::{KeyLog, Reader, Seen, Suites};
use festina_secure::wire::{ConnectionId, Frame, Level, destination_id};
use festina_secure::{LongKeys, initial_keys};
use festina_units::Duration;
use proptest::prelude::*;
use rustls::{CipherSuite, Side};

use crate::early::{resume, warm};
use crate::handshake::link;
use crate::world::{NAME, Setup, World, certificate, provider, tls_settings_with};

const MINUTE: Duration = Duration::from_secs(60);
const PORTS: [[u16; 2]; 2] = [[5_001, 5_000], [5_000, 5_001]];
const SIDES: [Side; 2] = [Side::Client, Side::Server];

pub(crate) static SUITES: LazyLock<Suites> = LazyLock::new(|| Suites::of(&provider()).unwrap());

/// A key log as text.
#[derive(Debug, Default)]
pub(crate) struct Logged(Mutex<String>);

impl rustls::KeyLog for Logged {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        *self.0.lock().unwrap() += &format!("{label} {} {}\n", hex(client_random), hex(secret));
    }
}

impl Logged {
    pub(crate) fn keys(&self) -> KeyLog {
        let mut keys = KeyLog::default();
        keys.add(self.0.lock().unwrap().as_bytes());
        keys
    }
}

pub(crate) type Tls = (Arc<rustls::ClientConfig>, Arc<rustls::ServerConfig>);

/// Settings with this cipher suite, resumption and early messages, which log their secrets.
pub(crate) fn logged_tls(suite: CipherSuite) -> (Tls, Arc<Logged>) {
    let log = Arc::new(Logged::default());
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|known| known.suite() != suite);
    let (mut client, mut server) = tls_settings_with(&Arc::new(provider), certificate(NAME));
    (client.enable_early_data, client.key_log) = (true, log.clone());
    (server.max_early_data_size, server.ignore_client_order) = (u32::MAX, true);
    ((Arc::new(client), Arc::new(server)), log)
}

/// The datagrams of both sides in an order that a capture might have: those of the server behind the client's hello.
fn captured(world: &World) -> Vec<(Side, Vec<u8>)> {
    let [mut client, server] = [0, 1].map(|side| world.sent[side].iter().map(move |it| (SIDES[side], it.clone())));
    client.next().into_iter().chain(server).chain(client).collect()
}

/// Reads datagrams, which all must be open, and returns the chunks of each side.
fn read_all(reader: &mut Reader, datagrams: &[(Side, Vec<u8>)]) -> [Vec<u8>; 2] {
    let (mut all, mut chunks) = ([Vec::new(), Vec::new()], Vec::new());
    for (sender, datagram) in datagrams {
        let side = usize::from(*sender == Side::Server);
        assert_eq!(reader.read(datagram, &mut chunks), Seen::Opened(*sender, PORTS[side]));
        all[side].extend_from_slice(&chunks);
    }
    all
}

fn holds(chunks: &[u8], payload: &[u8]) -> bool {
    chunks.windows(payload.len()).any(|part| part == payload)
}

#[test]
fn every_packet_of_each_cipher_suite_is_read_in_both_directions_and_through_key_updates() {
    for suite in [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let (tls, log) = logged_tls(suite);
        let mut world = World::new(Setup::new(&tls, link(&[]), 1));
        for round in 0..4 {
            world.send(format!("round {round}").as_bytes());
            assert!(world.run_until(MINUTE, |world| world.messages() == round + 1).0);
            world.run_for(Duration::from_secs(5));
            assert!(world.client.update_keys());
        }
        let datagrams = captured(&world);
        let mut reader = Reader::new(&SUITES, log.keys());
        let [client, server] = read_all(&mut reader, &datagrams);
        for round in 0..4 {
            assert!(holds(&client, format!("round {round}").as_bytes()), "{suite:?}, round {round}");
        }
        // Each side's INIT comes first.
        assert_eq!([client[0], server[0]], [1, 1], "{suite:?}");
        // A capture may hold packets twice. Those of the last two key phases are still read.
        let late = &datagrams[datagrams.len() - 2..];
        let [client, _] = read_all(&mut reader, late);
        // They were one datagram before the system segmented it.
        let (joined, mut chunks) = ([late[0].1.as_slice(), &late[1].1].concat(), Vec::new());
        assert_eq!(reader.read(&joined, &mut chunks), Seen::Opened(Side::Client, PORTS[0]));
        assert_eq!(chunks, client, "{suite:?}");

        warm(&tls, 2);
        let mut resumed = resume(&tls, [link(&[]), link(&[])], 3);
        resumed.send(b"behind the hello");
        resumed.run_for(Duration::from_secs(5));
        assert!(resumed.client.is_resumed());
        let mut reader = Reader::new(&SUITES, log.keys());
        let [client, _] = read_all(&mut reader, &captured(&resumed));
        assert!(holds(&client, b"behind the hello"), "{suite:?}");
    }
}

#[test]
fn without_its_secrets_or_its_handshake_nothing_of_an_association_is_read() {
    let (tls, log) = logged_tls(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.send(b"secret");
    world.run_for(Duration::from_secs(5));
    let (_, other) = logged_tls(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let (datagrams, mut chunks) = (captured(&world), Vec::new());
    let mut reader = Reader::new(&SUITES, other.keys());
    for (_, datagram) in &datagrams {
        assert_eq!((reader.read(datagram, &mut chunks), chunks.len()), (Seen::Closed, 0));
    }
    // A capture may have only a part of them.
    assert_eq!(reader.read(&datagrams[0].1[..60], &mut chunks), Seen::Closed);
    // They may be found later in the capture.
    reader.add_keys(log.0.lock().unwrap().as_bytes());
    let (sender, last) = datagrams.last().unwrap();
    assert_eq!(reader.read(last, &mut chunks), Seen::Opened(*sender, PORTS[usize::from(*sender == Side::Server)]));

    let mut reader = Reader::new(&SUITES, log.keys());
    let seen = datagrams[1..].iter().map(|(_, datagram)| reader.read(datagram, &mut chunks));
    assert!(seen.into_iter().all(|seen| matches!(seen, Seen::Closed | Seen::Foreign)));
}

/// A client's first packet to this connection ID, without a hello.
fn initial(number: u64) -> Vec<u8> {
    let id = ConnectionId(number.to_be_bytes());
    let mut keys = LongKeys::new(Level::Initial, initial_keys(&provider(), id, Side::Client).unwrap());
    let (mut datagram, mut frames) = (Vec::new(), Vec::new());
    Frame::Token(b"no hello").write(&mut frames);
    keys.seal(&mut datagram, id, ConnectionId((number | 1 << 40).to_be_bytes()), &frames).unwrap();
    datagram
}

#[test]
fn of_too_many_associations_the_one_silent_for_the_longest_is_forgotten() {
    let (tls, log) = logged_tls(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.send(b"one");
    world.run_for(Duration::from_secs(5));
    let (datagrams, mut chunks) = (captured(&world), Vec::new());
    let mut reader = Reader::new(&SUITES, log.keys());
    read_all(&mut reader, &datagrams);
    for (others, expected_last) in [(0..4_095, true), (4_095..8_190, true), (8_190..12_286, false)] {
        for number in others {
            assert_eq!(reader.read(&initial(number), &mut chunks), Seen::Closed);
        }
        let seen = reader.read(&datagrams.last().unwrap().1, &mut chunks);
        assert_eq!(matches!(seen, Seen::Opened(..)), expected_last, "{seen:?}");
    }
}

#[test]
fn an_association_is_followed_through_a_hundred_moves_of_both_sides_with_other_connection_ids() {
    let (tls, log) = logged_tls(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.send(b"hello");
    world.run_for(Duration::from_secs(3));
    for number in 0..100 {
        world.send(format!("message {number}").as_bytes());
        if number % 3 == 2 {
            world.served[0].association.rebind(world.now, |_| Some(true));
        } else {
            world.client_address.set_port(10_000 + number);
            world.client.rebind(world.now, |_| Some(true));
        }
        world.run_for(Duration::from_secs(1));
    }
    let mut sent = world.sent.each_ref().map(|sent| sent.iter().cloned());
    let sent: Vec<_> = world.seen.senders.iter().map(|side| (SIDES[*side], sent[*side].next().unwrap())).collect();
    let ids: BTreeSet<_> = sent.iter().filter_map(|(_, datagram)| destination_id(datagram).ok()).collect();
    assert!(ids.len() >= 200, "{}", ids.len());
    let [client, _] = read_all(&mut Reader::new(&SUITES, log.keys()), &sent);
    assert!((0..100).all(|number| holds(&client, format!("message {number}").as_bytes())));
}

#[test]
fn packets_behind_a_long_gap_in_the_capture_are_read() {
    let (tls, log) = logged_tls(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    for _ in 0..66_000 {
        world.send(&[b'x'; 1_000]);
        world.run_for(Duration::from_millis(1));
    }
    let datagrams = captured(&world);
    let begin = datagrams.iter().position(|(_, datagram)| datagram[0] & 0xe0 == 0x60).unwrap();
    let client: Vec<_> = datagrams[begin..].iter().filter(|(sender, _)| *sender == Side::Client).cloned().collect();
    assert!(client.len() > 0x1_0000, "more than the numbers of two bytes: {}", client.len());
    let mut reader = Reader::new(&SUITES, log.keys());
    read_all(&mut reader, &datagrams[..begin]);
    read_all(&mut reader, &client[..1]);
    read_all(&mut reader, &client[client.len() - 3..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_datagram_does_harm(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..60),
        other in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        type Datagram = (Side, Vec<u8>);
        static WORLD: LazyLock<(Vec<Datagram>, KeyLog)> = LazyLock::new(|| {
            let (tls, log) = logged_tls(CipherSuite::TLS13_AES_128_GCM_SHA256);
            let mut world = World::new(Setup::new(&tls, link(&[]), 1));
            world.send(b"one");
            world.run_for(Duration::from_secs(5));
            (captured(&world), log.keys())
        });
        let (mut datagrams, keys) = WORLD.clone();
        for (datagram, byte, value) in flips {
            let datagram = &mut datagram.get_mut(&mut datagrams).1;
            *byte.get_mut(datagram) ^= value;
        }
        let (mut reader, mut chunks) = (Reader::new(&SUITES, keys), Vec::new());
        for (_, datagram) in &datagrams {
            reader.read(datagram, &mut chunks);
            prop_assert!(chunks.len() < 3_000);
        }
        reader.read(&other, &mut chunks);
    }
}
