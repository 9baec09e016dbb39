//! No answer to a packet whose source may be forged is more than three times as long as the packet, both without IP and UDP headers.

use festina_sctp::Event;

use crate::rfc9260::packet::{
    ABORT, ERROR, HOST_NAME, INIT, INIT_ACK, Init, SHUTDOWN_ACK, Sent, chunk, cookie_echo, data, packet, shutdown, tlv,
};
use crate::rfc9260::peer::{LOCAL_PORT, PEER_PORT, Peer, config, init_ack, offer};

/// The lists of parameters of the INITs that follow: single ones, many, and such as contradict their own length.
fn parameter_lists() -> Vec<Vec<u8>> {
    let reports = [0x4123, 0xc123];
    let kinds = [5, 6, 7, 9, HOST_NAME, 12, 0x8000, 0x8008, 0xc000, 0x0123, 0x8123].into_iter().chain(reports);
    let mut lists = vec![vec![]];
    for kind in kinds {
        let lengths = (0..24).chain([99, 116, 117, 118, 500]);
        lists.extend(lengths.map(|length| tlv(kind, &vec![7; length])));
    }
    for (count, length) in [(2, 0), (15, 0), (16, 0), (200, 0), (9, 1), (9, 5), (3, 40)] {
        lists.push(tlv(0xc123, &vec![1; length]).repeat(count));
        lists.push(tlv(5, &[198, 51, 100, u8::try_from(count).unwrap()]).repeat(count));
    }
    // As many addresses as a cookie holds, together with more reports than fit behind it.
    lists.push((0..9).map(|last| tlv(6, &[0x20 + last; 16])).chain([tlv(0xc123, b"").repeat(30)]).flatten().collect());
    lists.extend([vec![0xc1, 0x23, 0, 3], vec![0xc1, 0x23, 0xff, 0xff], vec![0, 0, 0, 0]]);
    lists
}

/// INITs with all kinds of contents, as packets.
fn inits() -> Vec<Vec<u8>> {
    let mut inits = Vec::new();
    for parameters in parameter_lists() {
        let init = Init { parameters, ..offer() };
        let bad =
            [Init { outbound: 0, ..init.clone() }, Init { a_rwnd: 1, ..init.clone() }, Init { tag: 0, ..init.clone() }];
        inits.extend(bad.into_iter().chain([init]).map(|init| init.chunk(INIT)));
    }
    let ports = [(PEER_PORT, LOCAL_PORT), (PEER_PORT, LOCAL_PORT + 1)];
    inits.iter().flat_map(|init| ports.map(|ports| packet(ports, 0, std::slice::from_ref(init)))).collect()
}

/// Packets of every chunk type, right and wrong, with a cookie that is genuine.
fn strays(cookie: &[u8], tag: u32) -> Vec<Vec<u8>> {
    let mut chunks: Vec<Vec<u8>> = (0..=255)
        .flat_map(|kind| [(0, 0), (1, 4), (0, 16), (3, 60)].map(|(flags, length)| chunk(kind, flags, &vec![3; length])))
        .collect();
    let errors = chunk(ERROR, 0, &tlv(4, b""));
    chunks.extend([cookie_echo(cookie), data(1), shutdown(1), errors, init_ack().chunk(INIT_ACK)]);
    chunks.extend([[data(1), cookie_echo(cookie)].concat(), [chunk(SHUTDOWN_ACK, 0, b""), data(1)].concat()]);
    let ports = [(PEER_PORT, LOCAL_PORT), (PEER_PORT, LOCAL_PORT + 1)];
    let headers = ports.iter().flat_map(|&ports| [(ports, 0), (ports, tag), (ports, !tag)]);
    headers
        .flat_map(|(ports, tag)| chunks.iter().map(move |chunk| packet(ports, tag, std::slice::from_ref(chunk))))
        .collect()
}

/// Gives the packet and asserts that at most three times its length comes back.
fn give(peer: &mut Peer, bytes: &[u8]) -> Vec<Sent> {
    peer.give_bytes(bytes.to_vec());
    let sent = peer.take();
    let answered: usize = sent.iter().map(|sent| sent.bytes.len()).sum();
    let kinds: Vec<_> = sent.iter().map(Sent::kinds).collect();
    assert!(answered <= 3 * bytes.len(), "{answered} bytes ({kinds:?}) answer {}: {bytes:x?}", bytes.len());
    sent
}

/// A peer that faces a listener without room.
fn full(peer: &Peer, bytes: &[u8]) {
    let mut reply = Vec::new();
    let bytes = bytes::Bytes::from(bytes.to_vec());
    peer.listener.refuse_packet(peer.now, peer.address, &bytes, &mut reply);
    assert!(reply.len() <= 3 * bytes.len(), "{} bytes answer {}", reply.len(), bytes.len());
}

#[test]
fn an_init_without_parameters_is_answered_by_at_most_96_bytes_with_room_for_8_more() {
    let mut peer = Peer::new(config());
    let init = packet((PEER_PORT, LOCAL_PORT), 0, &[offer().chunk(INIT)]);
    assert_eq!(init.len(), 32);
    let sent = give(&mut peer, &init);
    assert_eq!(sent[0].kinds(), [INIT_ACK]);
    assert!(sent[0].bytes.len() <= 88, "{} bytes", sent[0].bytes.len());
}

#[test]
fn no_init_is_answered_by_more_than_three_times_its_bytes_whether_an_association_exists_or_not() {
    let states: [fn() -> Peer; 5] = [
        || Peer::new(config()),
        || Peer::connecting(config()),
        || Peer::cookie_echoed(config(), &init_ack()),
        Peer::established,
        Peer::facing_shutdown_ack_sent,
    ];
    for state in states {
        let mut answers = 0;
        for init in inits() {
            let mut peer = state();
            peer.take();
            answers += give(&mut peer, &init).len();
            full(&peer, &init);
        }
        assert!(answers > 100, "{answers} answers: too few to show anything");
    }
}

#[test]
fn no_packet_out_of_the_blue_is_answered_by_more_than_three_times_its_bytes() {
    let mut genuine = Peer::new(config());
    let cookie = genuine.begin(&offer());
    let mut answered = 0;
    for stray in strays(&cookie, genuine.tag) {
        let mut peer = Peer::new(config());
        answered += give(&mut peer, &stray).len();
        full(&peer, &stray);
        peer.association = None;
        peer.wait(festina_units::Duration::from_secs(100));
        answered += give(&mut peer, &stray).len();
    }
    assert!(answered > 1_000, "{answered} answers: too few to show anything");
}

#[test]
fn an_endpoint_without_room_refuses_inits_and_good_cookies_and_stays_silent_to_bad_ones() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    let refuse = |tag: u32, chunk: Vec<u8>| {
        let mut reply = Vec::new();
        let bytes = bytes::Bytes::from(packet((PEER_PORT, LOCAL_PORT), tag, &[chunk]));
        peer.listener.refuse_packet(peer.now, peer.address, &bytes, &mut reply);
        (!reply.is_empty()).then(|| Sent::read(peer.address, &reply))
    };
    for (tag, chunk) in [(0, offer().chunk(INIT)), (peer.tag, cookie_echo(&cookie))] {
        let sent = refuse(tag, chunk).expect("a refusal");
        assert_eq!((sent.kinds(), sent.tag, sent.the(ABORT).flags), (vec![ABORT], offer().tag, 0));
        assert_eq!(sent.the(ABORT).causes(), [(4, vec![])], "§3.3.10.4");
    }
    let mut forged = cookie;
    forged[0] ^= 1;
    assert!(refuse(peer.tag, cookie_echo(&forged)).is_none());
    assert_eq!(refuse(peer.tag, data(1)).expect("out of the blue").the(ABORT).flags, 1, "§8.4, rule 8");
}

#[test]
fn a_cookie_is_good_from_another_udp_port_of_the_same_address_and_from_no_other_address() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    let true_address = peer.address;
    peer.address.set_ip([192, 0, 2, 99].into());
    peer.give(&[cookie_echo(&cookie)]);
    peer.nothing_sent();
    assert!(peer.association.is_none());
    peer.address = true_address;
    peer.address.set_port(40_000);
    peer.give(&[cookie_echo(&cookie)]);
    assert!(matches!(peer.events[0], Event::Established { .. }), "a NAT may have changed the port");
}
