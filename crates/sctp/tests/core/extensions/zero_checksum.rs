//! Packets without a checksum where DTLS protects them (RFC 9653).

use std::net::SocketAddr;

use bytes::Bytes;
use festina_sctp::{Association, Carrier, Context, Extensions, Incoming, Listener, Message, PacketDropped, Ports};
use festina_units::{Duration, EcnCodepoint, Instant};

use super::*;
use crate::rfc9260::packet::{COOKIE_ECHO, INIT, INIT_ACK, crc32c, packet, u32_at};
use crate::rfc9260::peer::{LOCAL_PORT, PEER_PORT, Peer};

const ZERO_CHECKSUM_ACCEPTABLE: u16 = 0x8001;
const DTLS: u32 = 1;
const NOW: Instant = Instant::from_secs(1_000);

fn protected() -> Config {
    Config { carrier: Carrier { protected_by_dtls: true, ..Carrier::default() }, ..config() }
}

fn acceptable(method: u32) -> Vec<u8> {
    tlv(ZERO_CHECKSUM_ACCEPTABLE, &method.to_be_bytes())
}

/// How a packet stands with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksum {
    Right,
    Zero,
}

/// First chunk type and checksum.
fn seen(bytes: &[u8]) -> (u8, Checksum) {
    let field = u32_at(bytes, 8);
    let mut zeroed = bytes.to_vec();
    zeroed[8..12].fill(0);
    let right = crc32c(&zeroed).to_le_bytes();
    assert!(field == 0 || bytes[8..12] == right, "the checksum is neither zero nor right");
    (bytes[12], if field == 0 { Checksum::Zero } else { Checksum::Right })
}

fn next_packet(association: &mut Association) -> Option<Bytes> {
    let mut buffer = Vec::new();
    association.poll_transmit(NOW, &mut buffer).map(|_| Bytes::from(buffer))
}

/// Two associations with these settings exchange a message each way. Returns every packet as it was seen, and the associations.
fn dialogue(configs: [Config; 2]) -> (Vec<(u8, Checksum)>, [Association; 2]) {
    let [client, server] = configs.map(|config| Context::new(config, [7; 16]).expect("the settings are in range"));
    let addresses = [1, 2].map(|last| SocketAddr::from(([192, 0, 2, last], 9_899)));
    let mut listener = Listener::new(&server);
    listener.listen(LOCAL_PORT);
    let ports = Ports { local: PEER_PORT, peer: LOCAL_PORT };
    let mut one = Association::connect(NOW, &client, addresses[1], ports, 1);
    let mut other: Option<Association> = None;
    let mut packets = Vec::new();
    for _ in 0..10 {
        while let Some(bytes) = next_packet(&mut one) {
            packets.push(seen(&bytes));
            let Some(other) = &mut other else {
                let mut reply = Vec::new();
                match listener.handle_packet(NOW, addresses[0], &bytes, &|_| false, &mut reply) {
                    Incoming::Accepted(association) => other = Some(*association),
                    Incoming::Reply => {
                        packets.push(seen(&reply));
                        one.handle_packet(NOW, addresses[1], EcnCodepoint::NotCapable, &reply.into())
                            .expect("it is taken");
                    }
                    unexpected => panic!("{unexpected:?}"),
                }
                continue;
            };
            other.handle_packet(NOW, addresses[0], EcnCodepoint::NotCapable, &bytes).expect("it is taken");
        }
        let other = other.as_mut().expect("it was accepted");
        while let Some(bytes) = next_packet(other) {
            packets.push(seen(&bytes));
            one.handle_packet(NOW, addresses[1], EcnCodepoint::NotCapable, &bytes).expect("it is taken");
        }
        for association in [&mut one, other] {
            if association.stats().sent.messages == 0 {
                association.send(NOW, Message::new("hello")).expect("it is taken");
            }
            while association.poll_message().is_some() {}
        }
    }
    let other = other.expect("it was accepted");
    assert_eq!([one.stats().received.messages, other.stats().received.messages], [1, 1]);
    (packets, [one, other])
}

#[test]
fn rfc9653_5_2_packets_leave_without_checksum_where_both_sides_say_so_but_for_the_opening() {
    let (packets, associations) = dialogue([protected(), protected()]);
    for (kind, checksum) in &packets {
        let is_opening = [INIT, INIT_ACK, COOKIE_ECHO].contains(kind);
        assert_eq!(*checksum, if is_opening { Checksum::Right } else { Checksum::Zero }, "chunk type {kind}");
    }
    assert!(packets.iter().any(|&(_, checksum)| checksum == Checksum::Zero));
    assert!(associations.iter().all(|association| association.peer_extensions().contains(Extensions::ZERO_CHECKSUM)));
}

#[test]
fn rfc9653_5_2_every_packet_has_its_checksum_where_one_side_does_not_say_so() {
    for configs in [[config(), config()], [protected(), config()], [config(), protected()]] {
        let (packets, _) = dialogue(configs);
        assert!(packets.iter().all(|&(_, checksum)| checksum == Checksum::Right), "{packets:?}");
    }
}

#[test]
fn rfc9653_4_another_method_than_dtls_or_none_is_not_agreed_on() {
    for (parameters, is_agreed) in [(vec![], false), (vec![acceptable(DTLS)], true), (vec![acceptable(2)], false)] {
        let mut peer = Peer::client(config(), &init_with(&parameters));
        assert_eq!(peer.association().peer_extensions().contains(Extensions::ZERO_CHECKSUM), is_agreed);
        let mut peer = Peer::new(protected());
        peer.give_tagged(0, &[init_with(&parameters).chunk(INIT)]);
        let init_ack = peer.take_one().init();
        assert_eq!(init_ack.all(ZERO_CHECKSUM_ACCEPTABLE).len(), usize::from(is_agreed), "{parameters:?}");
    }
    let init = Peer::connecting(protected()).take_one().init();
    assert_eq!(init.all(ZERO_CHECKSUM_ACCEPTABLE), [DTLS.to_be_bytes()]);
    assert!(Peer::connecting(config()).take_one().init().all(ZERO_CHECKSUM_ACCEPTABLE).is_empty());
}

#[test]
fn rfc9653_5_3_a_checksum_of_zero_is_taken_only_where_this_side_said_so_and_never_before_init_and_cookie_echo() {
    let taken = |config: Config, chunk: Vec<u8>, tag: Option<u32>| {
        let mut peer = Peer::serving(config, &init_ack());
        let mut bytes = packet((PEER_PORT, LOCAL_PORT), tag.unwrap_or(peer.tag), &[chunk]);
        bytes[8..12].fill(0);
        let (now, from) = (peer.now + Duration::from_millis(1), peer.address);
        let result = peer.association().handle_packet(now, from, EcnCodepoint::NotCapable, &bytes.into());
        !matches!(result, Err(PacketDropped::Damaged(_)))
    };
    let data = || crate::rfc9260::packet::data(1);
    assert!(taken(protected(), data(), None));
    assert!(!taken(config(), data(), None));
    assert!(!taken(protected(), offer().chunk(INIT), Some(0)));
    assert!(!taken(protected(), chunk(COOKIE_ECHO, 0, b"a cookie"), None));
}

#[test]
fn rfc9653_5_3_a_checksum_that_is_neither_zero_nor_right_is_refused() {
    let mut peer = Peer::serving(protected(), &init_ack_with(&[acceptable(DTLS)]));
    let mut bytes = packet((PEER_PORT, LOCAL_PORT), peer.tag, &[crate::rfc9260::packet::data(1)]);
    bytes[8] ^= 1;
    let (now, from) = (peer.now, peer.address);
    let result = peer.association().handle_packet(now, from, EcnCodepoint::NotCapable, &bytes.into());
    assert!(matches!(result, Err(PacketDropped::Damaged(_))));
}
