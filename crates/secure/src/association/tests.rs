//! Peers that misuse the connection IDs for moves.

use bytes::BytesMut;
use festina_sctp::Config;
use festina_units::EcnCodepoint;
use proptest::prelude::*;

use super::*;
use crate::error::DatagramDropped;
use crate::listener::{HalfOpenLimits, Incoming, Listener};
use crate::spare::next_id;
use crate::testing::{NAME, configs};
use crate::wire::{Header, read_header};

const SPARE: u8 = 0xba;

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 9_899))
}

/// An established client and its server, without a network.
struct Pair {
    now: Instant,
    sides: [SecureAssociation; 2],
}

impl Pair {
    fn new() -> Self {
        let now = Instant::from_secs(1);
        let (client_tls, server_tls) = configs();
        let contexts = [1, 2].map(|secret| Context::new(Config::default(), [secret; 16]).expect("sound settings"));
        let request = Connect {
            tls: &Arc::new(client_tls),
            resumption: None,
            server_name: ServerName::try_from(NAME).expect("a sound name"),
            remote: address(2),
            ports: Ports { local: 5_001, peer: 5_000 },
            token: &[],
            random: [7; 16],
            known: None,
        };
        let mut client = SecureAssociation::connect(now, &contexts[0], request).expect("sound settings");
        let mut listener =
            Listener::new(&contexts[1], Arc::new(server_tls), [3; 32], HalfOpenLimits::UNLIMITED).expect("a suite");
        let hello = drain(now, &mut client).remove(0);
        let path = Path { remote: address(1), local: Some(address(2).ip()) };
        let incoming = listener.handle_datagram(now, path, BytesMut::from(&*hello), 0, &mut Vec::new());
        let Incoming::HalfOpen(mut server) = incoming else { panic!("no handshake begins") };
        server.admit(now);
        let mut pair = Self { now, sides: [client, *server] };
        pair.run();
        assert!(pair.sides.iter().all(SecureAssociation::is_established) && pair.sides[0].is_confirmed);
        pair
    }

    fn deliver(&mut self, to: usize, datagram: &[u8]) -> Result<(), DatagramDropped> {
        let path = Path { remote: address([2, 1][to]), local: (to == 1).then(|| address(2).ip()) };
        self.sides[to].handle_datagram(self.now, path, EcnCodepoint::NotCapable, BytesMut::from(datagram))
    }

    /// Delivers everything, and returns the connection IDs of packets to each side.
    fn run(&mut self) -> [Vec<ConnectionId>; 2] {
        let mut ids = [Vec::new(), Vec::new()];
        loop {
            let sent = [1, 0].map(|side| drain(self.now, &mut self.sides[side]));
            if sent.iter().all(Vec::is_empty) {
                return ids;
            }
            for (to, datagrams) in sent.iter().enumerate() {
                for datagram in datagrams {
                    if let Ok(Header::Short(id)) = read_header(datagram) {
                        ids[to].push(id);
                    }
                    let _dropped = self.deliver(to, datagram);
                }
            }
        }
    }

    /// A side sends these chunks, which its association did not write.
    fn forge(&mut self, from: usize, chunks: &[u8]) -> Result<(), DatagramDropped> {
        let mut datagram = Vec::new();
        self.sides[from].channel.seal_to(&mut datagram, None, PathId::PRIMARY, chunks);
        self.deliver(1 - from, &datagram)
    }

    fn rebind(&mut self, side: usize) -> [Vec<ConnectionId>; 2] {
        self.sides[side].rebind(self.now, |_| Some(true));
        self.run()
    }
}

fn drain(now: Instant, side: &mut SecureAssociation) -> Vec<Vec<u8>> {
    let mut datagrams = vec![Vec::new()];
    while side.poll_transmit(now, datagrams.last_mut().expect("one")).is_some() {
        datagrams.push(Vec::new());
    }
    datagrams.pop();
    datagrams
}

fn spare(number: u32, id: [u8; 8], token: &[u8]) -> Vec<u8> {
    let length = u8::try_from(16 + token.len()).expect("short");
    [&[SPARE, 0, 0, length], &number.to_be_bytes()[..], &id, token].concat()
}

#[test]
fn of_thousands_of_spares_the_one_with_the_highest_number_counts() {
    let mut pair = Pair::new();
    for number in (2..3_000_u32).chain([1, 7, 2_998, 0]) {
        pair.forge(0, &spare(number, u64::from(number).to_be_bytes(), &[9; 16])).unwrap();
    }
    let [to_client, to_server] = pair.rebind(1);
    assert!(to_client.iter().all(|id| *id == ConnectionId(2_999_u64.to_be_bytes())), "{to_client:?}");
    assert!(!to_client.is_empty() && to_server.is_empty(), "which is an ID that the client does not know");
}

#[test]
fn a_spare_may_be_an_id_in_use_and_harms_only_its_giver() {
    for given in [0, 1].map(|side| Pair::new().sides[side].id()) {
        let mut pair = Pair::new();
        pair.forge(0, &spare(2, given.0, &[])).unwrap();
        let [to_client, _] = pair.rebind(1);
        assert!(!to_client.is_empty() && to_client.iter().all(|id| *id == given));
        let own = pair.sides[1].id();
        assert!(pair.sides[1].takes(own, address(1)), "packets to the server are found as before");
    }
}

#[test]
fn a_peer_that_gives_no_spare_has_its_id_kept() {
    let mut pair = Pair::new();
    pair.sides[0].channel.keep_ids();
    pair.forge(1, &spare(2, [5; 8], &[])).unwrap();
    let [_, to_server] = pair.rebind(0);
    let id = pair.sides[1].id();
    assert!(!to_server.is_empty() && to_server.iter().all(|to| *to == id), "nor from a chunk later");
    assert!(pair.sides.iter().all(|side| side.moved_id().is_none()));
}

#[test]
fn a_spare_of_another_length_makes_the_packet_malformed() {
    for length in (0..40).filter(|length| ![12, 28].contains(length)) {
        let mut pair = Pair::new();
        let chunk = [&[SPARE, 0, 0, 4 + length], &vec![1; usize::from(length).next_multiple_of(4)][..]].concat();
        assert_eq!(pair.forge(0, &chunk), Err(DatagramDropped::Frames), "{length} bytes");
        let first = next_id(&pair.sides[0].context, pair.sides[0].id());
        let [to_client, _] = pair.rebind(1);
        assert!(!to_client.is_empty() && to_client.iter().all(|id| *id == first), "the first spare still counts");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_chunks_in_front_do_harm(chunks in prop::collection::vec((0xb9_u8..=0xc0, prop::collection::vec(any::<u8>(), 0..40)), 0..6)) {
        let mut pair = Pair::new();
        for side in [0, 1] {
            let bytes: Vec<u8> = chunks.iter().flat_map(|(kind, value)| {
                let length = u8::try_from(4 + value.len()).expect("short");
                let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
                [&[*kind, 0, 0, length][..], value, &padding].concat()
            }).collect();
            let _dropped = pair.forge(side, &bytes);
            pair.rebind(side);
        }
    }
}
