//! INITs that travel below SCTP, with a proof in place of the cookie.

use bytes::Bytes;
use festina_netsim::{Link, LinkConfig, LossModel};
use festina_sctp::{
    Association, AssociationState, ClosedReason, Config, Context, Event, Message, Multihoming, OutOfBandError,
    OutOfBandInit, PathId, Ports,
};
use festina_units::{Duration, EcnCodepoint, Instant};

use crate::early_copies::LOSSES;
use crate::pair::{CLIENT_PORT, Datagram, SERVER_PORT};
use crate::rfc9260::packet::{COOKIE_ECHO, INIT};

const PROOF: &[u8] = &[7; 90];
/// First bytes of the messages of the layer below.
const HELLO: u8 = 0;
const ANSWER: u8 = 1;
const PACKET: u8 = 2;

/// A layer below that carries the INIT of one side in each hello and that of the other in each answer.
struct Below {
    now: Instant,
    contexts: [std::sync::Arc<Context>; 2],
    sides: [Option<Association>; 2],
    links: [Link<Datagram>; 2],
    packets_sent: [usize; 2],
    received: usize,
}

fn address(side: usize) -> core::net::SocketAddr {
    core::net::SocketAddr::from(([192, 0, 2, u8::try_from(side + 1).unwrap()], 9_899))
}

impl Below {
    fn new(config: &Config, lost: [&[u64]; 2]) -> Self {
        let link = |lost: &[u64]| {
            let (delay, loss) = (Duration::from_millis(50), LossModel::Exact(lost.to_vec()));
            Link::new(LinkConfig { delay, loss, ..LinkConfig::default() }, 1, "link")
        };
        let now = Instant::from_secs(1);
        let contexts = [1, 2].map(|secret| Context::new(config.clone(), [secret; 16]).unwrap());
        let ports = Ports { local: CLIENT_PORT, peer: SERVER_PORT };
        let client = Association::connect(now, &contexts[0], address(1), ports, 7);
        Self { now, contexts, sides: [Some(client), None], links: lost.map(link), packets_sent: [0; 2], received: 0 }
    }

    fn client(&mut self) -> &mut Association {
        self.sides[0].as_mut().unwrap()
    }

    fn drain(&mut self, index: usize) {
        let Some(association) = &mut self.sides[index] else { return };
        let mut buffer = Vec::new();
        while association.poll_transmit(self.now, &mut buffer).is_some() {
            let packet = std::mem::take(&mut buffer);
            let message = if packet[12] == INIT {
                [&[HELLO], &self.contexts[index].init_chunk(7, None)[..]].concat()
            } else {
                [&[PACKET], &packet[..]].concat()
            };
            self.links[index].send(self.now, Datagram(message, EcnCodepoint::NotCapable));
            self.packets_sent[index] += 1;
        }
        while association.poll_message().is_some() {
            self.received += 1;
        }
    }

    fn deliver(&mut self, index: usize, message: &[u8]) {
        let (kind, rest) = message.split_first().unwrap();
        match *kind {
            HELLO => {
                OutOfBandInit::read(rest, address(0)).unwrap();
                let answer = [&[ANSWER], &self.contexts[1].init_chunk(9, None)[..], rest].concat();
                self.links[1].send(self.now, Datagram(answer, EcnCodepoint::NotCapable));
                self.packets_sent[1] += 1;
            }
            ANSWER => {
                let init = OutOfBandInit::read(&rest[..rest.len() / 2], address(1)).unwrap();
                self.sides[0].as_mut().unwrap().adopt_init(self.now, &init, Some(PROOF));
            }
            _ => self.deliver_packet(index, rest),
        }
        self.drain(index);
    }

    fn deliver_packet(&mut self, index: usize, packet: &[u8]) {
        let mut packet = packet.to_vec();
        if packet[12] == COOKIE_ECHO {
            assert_eq!(&packet[16..16 + PROOF.len()], PROOF);
            packet.drain(12..16 + PROOF.len().next_multiple_of(4));
            match &mut self.sides[1] {
                Some(server) => server.confirm_again(),
                None => {
                    let ports = Ports { local: SERVER_PORT, peer: CLIENT_PORT };
                    let init = OutOfBandInit::read(&self.contexts[0].init_chunk(7, None), address(0)).unwrap();
                    let to = (address(0), ports);
                    self.sides[1] = Some(Association::accept_init(self.now, &self.contexts[1], to, 9, &init, None));
                }
            }
        }
        if packet.len() > 12 {
            // Data overtook the proof, or the proof was lost.
            let Some(association) = self.sides[index].as_mut() else { return };
            let from = association.remote();
            association.handle_packet(self.now, from, EcnCodepoint::NotCapable, &Bytes::from(packet)).unwrap();
        }
    }

    /// Runs until `done`, at most a minute. Returns the time in milliseconds.
    fn run(&mut self, done: impl Fn(&Self) -> bool) -> u64 {
        let limit = self.now + Duration::from_secs(60);
        self.drain(0);
        while !done(self) {
            let timers = self.sides.iter().flatten().filter_map(Association::poll_deadline);
            let next = timers.chain(self.links.iter().filter_map(Link::poll_deadline)).min();
            self.now = self.now.max(next.expect("something is still to happen"));
            assert!(self.now < limit, "stuck");
            for index in 0..2 {
                while let Some(Datagram(message, _)) = self.links[index].poll_delivery(self.now) {
                    self.deliver(1 - index, &message);
                }
            }
            for index in 0..2 {
                if let Some(association) = &mut self.sides[index] {
                    association.handle_timeout(self.now);
                    self.drain(index);
                }
            }
        }
        (self.now.as_nanos() - Instant::from_secs(1).as_nanos()) / 1_000_000
    }
}

fn first_message(bytes: usize, lost: [&[u64]; 2]) -> (u64, Below) {
    let mut below = Below::new(&Config::default(), lost);
    let now = below.now;
    below.client().send(now, Message::new(vec![1; bytes])).unwrap();
    let milliseconds = below.run(|below| below.received == 1);
    (milliseconds, below)
}

#[test]
fn the_first_message_takes_one_and_a_half_round_trips_and_losses_cost_as_much_as_with_a_cookie() {
    for (there, back, expected) in LOSSES.into_iter().chain([(&[][..], &[][..], 150)]) {
        let (milliseconds, mut below) = first_message(100, [there, back]);
        assert_eq!(milliseconds, expected, "lost {there:?} there and {back:?} back");
        below.run(|below| below.sides[0].as_ref().unwrap().stats().path.in_flight_bytes == 0);
        assert_eq!(below.client().state(), AssociationState::Established);
        assert_eq!(below.received, 1, "nothing is delivered twice");
    }
}

#[test]
fn twelve_thousand_bytes_need_not_wait_for_the_confirmation() {
    let (milliseconds, _) = first_message(12_000, [&[], &[]]);
    assert_eq!(milliseconds, 150, "rule C of RFC 9260 §5.1 does not apply");
}

#[test]
fn a_message_that_needs_a_whole_packet_leaves_behind_the_proof() {
    let (milliseconds, below) = first_message(1_190, [&[], &[]]);
    assert_eq!((milliseconds, below.packets_sent[0]), (150, 3));
    let (milliseconds, _) = first_message(1_190, [&[1], &[]]);
    assert!((250..1_000).contains(&milliseconds), "both are repeated ahead of T1: {milliseconds} ms");
}

#[test]
fn an_association_without_data_is_confirmed_too_even_if_the_confirmation_is_lost() {
    let mut below = Below::new(&Config::default(), [&[], &[1]]);
    let established = |below: &Below| below.sides[0].as_ref().unwrap().state() == AssociationState::Established;
    assert_eq!(below.run(established), 325, "1.25 round trips after the proof it is repeated, and answered");
}

#[test]
fn a_peer_without_a_proof_is_established_at_once() {
    let mut below = Below::new(&Config::default(), [&[], &[]]);
    let now = below.now;
    let init = OutOfBandInit::read(&below.contexts[1].init_chunk(9, None), address(1)).unwrap();
    assert!(below.client().adopt_init(now, &init, None));
    assert!(!below.client().adopt_init(now, &init, None), "only one INIT is adopted");
    assert_eq!(below.client().state(), AssociationState::Established);
}

#[test]
fn checksums_are_zero_and_handshake_chunks_are_dropped_behind_an_init_out_of_band() {
    let (_, mut below) = first_message(100, [&[], &[]]);
    let (now, mut buffer) = (below.now, Vec::new());
    below.client().send(now, Message::new("more")).unwrap();
    while below.client().poll_transmit(now, &mut buffer).is_none() {
        let deadline = below.client().poll_deadline().unwrap();
        below.client().handle_timeout(deadline);
    }
    assert_eq!(buffer[8..12], [0; 4], "the layer below finds errors");
    let tag = below.client().local_tag().to_be_bytes();
    for kind in [1, 2, COOKIE_ECHO] {
        let header =
            [&SERVER_PORT.to_be_bytes()[..], &CLIENT_PORT.to_be_bytes(), if kind == 1 { &[0; 4] } else { &tag }];
        let mut chunk = below.contexts[1].init_chunk(9, None);
        chunk[0] = kind;
        let packet = Bytes::from([&header.concat()[..], &[0; 4], &chunk].concat());
        let result = below.client().handle_packet(now, address(1), EcnCodepoint::NotCapable, &packet);
        assert!(result.is_err(), "chunk type {kind}");
    }
    assert!(!below.client().is_closed());
}

#[test]
fn bytes_that_are_no_usable_init_are_refused() {
    let context = Context::new(Config::default(), [1; 16]).unwrap();
    let chunk = context.init_chunk(1, None);
    assert!(OutOfBandInit::read(&chunk, address(0)).is_ok());
    // Padding is not part of the chunk (RFC 9260 §3.2).
    let length = u16::from_be_bytes([chunk[2], chunk[3]]);
    for cut in 0..usize::from(length) {
        assert!(OutOfBandInit::read(&chunk[..cut], address(0)).is_err(), "{cut}");
    }
    let twice = [&chunk[..], &chunk].concat();
    assert_eq!(OutOfBandInit::read(&twice, address(0)), Err(OutOfBandError::NotAnInit));
    let mut no_tag = chunk;
    no_tag[4..8].fill(0);
    assert_eq!(OutOfBandInit::read(&no_tag, address(0)), Err(OutOfBandError::Unusable));
    assert_eq!(OutOfBandInit::read(&[1; 2_000], address(0)), Err(OutOfBandError::NotAnInit));
}

#[test]
fn a_peer_that_has_forgotten_the_association_ends_a_shutdown_with_a_reflected_tag() {
    const SHUTDOWN: [u8; 8] = [7, 0, 0, 8, 0, 0, 0, 0];
    for (end, reason) in [
        ([14, 1, 0, 4], ClosedReason::Shutdown),
        // Reserved bits are ignored (RFC 9260 §3.3.13).
        ([14, 3, 0, 4], ClosedReason::Shutdown),
        ([6, 1, 0, 4], ClosedReason::Shutdown),
        ([6, 0, 0, 4], ClosedReason::AbortedByPeer { code: 0, info: Bytes::new() }),
    ] {
        let mut below = Below::new(&Config::default(), [&[], &[]]);
        let now = below.now;
        let init = OutOfBandInit::read(&below.contexts[1].init_chunk(9, None), address(1)).unwrap();
        let client = below.client();
        assert!(client.adopt_init(now, &init, None));
        let mut arrive = |chunk: &[u8]| {
            client
                .handle_chunks(now, PathId::PRIMARY, EcnCodepoint::NotCapable, &Bytes::copy_from_slice(chunk))
                .unwrap();
            client.poll_chunks(now, &mut Vec::new());
        };
        arrive(&SHUTDOWN);
        arrive(&end);
        let closed = std::iter::from_fn(|| client.poll_event()).last();
        assert_eq!(closed, Some(Event::Closed(reason)), "{end:?}");
    }
}

/// An INIT chunk that names these IPv4 addresses.
fn naming(addresses: impl IntoIterator<Item = [u8; 4]>) -> Vec<u8> {
    let mut chunk = Context::new(Config::default(), [1; 16]).unwrap().init_chunk(9, None);
    for [a, b, c, d] in addresses {
        chunk.extend([0, 5, 0, 8, a, b, c, d]);
    }
    let length = u16::try_from(chunk.len()).unwrap().to_be_bytes();
    chunk[2..4].copy_from_slice(&length);
    chunk
}

#[test]
fn of_many_addresses_that_a_peer_names_eight_count_and_none_of_no_host_or_for_one_path() {
    let many = |count: u16| naming((0..count).map(|number| [203, 0, number.to_be_bytes()[0], number.to_be_bytes()[1]]));
    assert_eq!(OutOfBandInit::read(&many(1_000), address(0)), Err(OutOfBandError::NotAnInit));
    let ports = Ports { local: 5_000, peer: 5_001 };
    let known = |multihoming: Option<Multihoming>, chunk: &[u8]| {
        let context = match multihoming {
            Some(multihoming) => Context::multihomed(Config::default(), [2; 16], multihoming).unwrap(),
            None => Context::new(Config::default(), [2; 16]).unwrap(),
        };
        let init = OutOfBandInit::read(chunk, address(0)).unwrap();
        let to = (address(0), ports);
        let association = Association::accept_init(Instant::from_secs(1), &context, to, 3, &init, None);
        (association.paths().count(), association.peer_addresses().count(), association.addresses_ignored())
    };
    let several = || Some(Multihoming::default());
    assert_eq!(known(several(), &many(100)), (8, 9, 92));
    assert_eq!(known(Some(Multihoming { paths_max: 2, ..Multihoming::default() }), &many(100)), (2, 9, 92));
    assert_eq!(known(None, &many(100)), (1, 1, 0));
    let of_none = naming([[127, 0, 0, 1], [224, 0, 0, 1], [0, 0, 0, 0], [255, 255, 255, 255]]);
    assert_eq!(known(several(), &of_none), (1, 1, 4));
}

#[test]
fn addresses_are_those_of_the_same_association() {
    let later = |nonce, secret| Context::new(Config::default(), [secret; 16]).unwrap().init_chunk(nonce, None);
    let read = |chunk: &[u8]| OutOfBandInit::read(chunk, address(0)).unwrap();
    let mut init = read(&later(9, 1));
    assert!(init.name_addresses(read(&naming([[203, 0, 113, 1]]))));
    assert_ne!(init, read(&later(9, 1)));
    assert!(!init.name_addresses(read(&later(8, 1))), "another tag");
}
