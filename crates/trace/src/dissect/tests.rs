use festina_units::{EcnCodepoint, Instant};
use proptest::prelude::*;

use super::*;
use crate::ip;

fn packet(link_type: u16, data: &[u8]) -> CapturedPacket<'_> {
    let original_bytes = u32::try_from(data.len()).expect("short");
    CapturedPacket { number: 1, offset: 24, at: Instant::ZERO, link_type, data, original_bytes, secrets: &[] }
}

fn transport<'a>(packet: &CapturedPacket<'a>) -> Option<Option<Transport<'a>>> {
    let missing = usize::try_from(packet.original_bytes).expect("short") - packet.data.len();
    Some(network(packet)?.and_then(|ip| ip_packet(ip, missing)).map(|ip| innermost(ip, missing)))
}

fn bare(addresses: [&str; 2]) -> Vec<u8> {
    let [from, to] = addresses.map(|text| text.parse().expect("an address"));
    ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, &[5; 30]).expect("short")
}

#[test]
fn ip_is_found_behind_every_known_link_header() {
    let bare = bare(["192.0.2.1", "192.0.2.2"]);
    let ethernet = [[0; 12].as_slice(), &[0x08, 0x00]].concat();
    let vlan = [[0; 12].as_slice(), &[0x81, 0x00, 0, 7, 0x08, 0x00]].concat();
    let cooked = |tags: &[u8]| [[0; 14].as_slice(), tags, &[0x08, 0x00]].concat();
    let [cooked, cooked_vlan] = [cooked(&[]), cooked(&[0x81, 0, 0, 7])];
    let cooked_2 = |ether_type: [u8; 2], tags: &[u8]| [ether_type.as_slice(), &[0; 18], tags].concat();
    let [cooked_2, cooked_2_vlan] = [cooked_2([8, 0], &[]), cooked_2([0x88, 0xa8], &[0, 7, 0x81, 0, 0, 8, 8, 0])];
    let ethernet_with = |rest: &[u8]| [[0; 12].as_slice(), rest].concat();
    let snap = ethernet_with(&[0, 68, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    let mpls = ethernet_with(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]);
    let pppoe = ethernet_with(&[0x88, 0x64, 0x11, 0, 0, 7, 0, 52, 0, 0x21]);
    let links: [(u16, &[u8]); 18] = [
        (0, &[0; 4]),
        (1, &ethernet),
        (1, &vlan),
        (1, &snap),
        (1, &mpls),
        (1, &pppoe),
        (9, &[0xff, 3, 0, 0x21]),
        (9, &[0x21]),
        (51, &[0x11, 0, 0, 7, 0, 52, 0, 0x21]),
        (12, &[]),
        (101, &[]),
        (104, &[0x0f, 0, 8, 0]),
        (108, &[0; 4]),
        (113, &cooked),
        (113, &cooked_vlan),
        (228, &[]),
        (276, &cooked_2),
        (276, &cooked_2_vlan),
    ];
    for (link_type, header) in links {
        let data = [header, &bare].concat();
        let transport = transport(&packet(link_type, &data)).expect("a known link").expect("an IP packet");
        assert_eq!((transport.protocol, transport.bytes, transport.len), (132, [5; 30].as_slice(), 30), "{link_type}");
        assert_eq!(transport.source.to_string(), "192.0.2.1");
    }
}

#[test]
fn links_of_unknown_types_are_an_error_only_if_there_are_no_others() {
    let bare = bare(["192.0.2.1", "192.0.2.2"]);
    let mut dissector = Dissector::default();
    assert!(dissector.link_error().is_ok());
    assert_eq!(dissector.dissect(&packet(105, &bare)), Dissected::Other, "wireless frames");
    let error = dissector.link_error().expect_err("nothing can be read");
    assert!(error.to_string().contains("link type 105 cannot be read, first at byte 24"), "{error}");
    assert!(matches!(dissector.dissect(&packet(101, &bare)), Dissected::Transport(_)));
    assert!(dissector.link_error().is_ok());
}

/// `payload` as the data after an IPv4 header with this protocol.
fn ipv4_with(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [from, to] = ["198.51.100.1", "198.51.100.2"].map(|text| text.parse().expect("an address"));
    let mut packet = ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, payload).expect("short");
    packet[9] = protocol;
    packet
}

#[test]
fn tunnels_are_looked_through_however_they_are_nested() {
    let inner = bare(["192.0.2.1", "192.0.2.2"]);
    let ethernet = [[0; 12].as_slice(), &[0x08, 0x00], &inner].concat();
    let gre = [[0, 0, 0x08, 0].as_slice(), &inner].concat();
    let gre_with_all = [[0xb0, 0, 0x08, 0].as_slice(), &[1; 12], &inner].concat();
    let bridged = [[0x20, 0, 0x65, 0x58].as_slice(), &[1; 4], &ethernet].concat();
    let vxlan = [[0, 1, 0x12, 0xb5, 0, 0, 0, 0].as_slice(), &[8, 0, 0, 0, 0, 0, 7, 0], &ethernet].concat();
    let geneve =
        [[0, 1, 0x17, 0xc1, 0, 0, 0, 0].as_slice(), &[1, 0, 0x65, 0x58, 0, 0, 7, 0], &[0; 4], &ethernet].concat();
    let gtp = [[0, 1, 0x08, 0x68, 0, 0, 0, 0].as_slice(), &[0x30, 0xff, 0, 50, 0, 0, 0, 7], &inner].concat();
    let gtp_head = [0x36, 0xff, 0, 50, 0, 0, 0, 7, 0, 9, 0, 0x85];
    let gtp_with_all =
        [[0, 1, 0x08, 0x68, 0, 0, 0, 0].as_slice(), &gtp_head, &[1, 0, 9, 0xc0, 1, 0, 9, 0], &inner].concat();
    let tunnels = [
        ipv4_with(4, &inner),
        ipv4_with(41, &bare(["2001:db8::1", "2001:db8::2"])),
        ipv4_with(47, &gre),
        ipv4_with(47, &gre_with_all),
        ipv4_with(47, &bridged),
        ipv4_with(17, &vxlan),
        ipv4_with(17, &geneve),
        ipv4_with(17, &gtp),
        ipv4_with(17, &gtp_with_all),
        ipv4_with(4, &ipv4_with(17, &vxlan)),
    ];
    for (index, tunnel) in tunnels.iter().enumerate() {
        let found = transport(&packet(101, tunnel)).expect("known").expect("an IP packet");
        assert_eq!((found.protocol, found.bytes), (132, [5; 30].as_slice()), "tunnel {index}");
        assert!(!found.source.to_string().starts_with("198"), "tunnel {index}");
    }
    // Packets that only look like tunnels are not unwrapped.
    let no_flag = [[0, 1, 0x12, 0xb5, 0, 0, 0, 0].as_slice(), &[0; 8], &ethernet].concat();
    let plain = ipv4_with(17, &no_flag);
    let found = transport(&packet(101, &plain)).expect("known").expect("an IP packet");
    assert_eq!(found.protocol, 17);
}

#[test]
fn ipv6_extensions_are_looked_through_and_fragments_known() {
    let plain = bare(["2001:db8::1", "2001:db8::2"]);
    let found = transport(&packet(101, &plain)).expect("known").expect("an IP packet");
    assert_eq!((found.destination.to_string().as_str(), found.len), ("2001:db8::2", 30));
    for (place, is_part) in [(0, false), (8, true), (1, true)] {
        // Destination options, then a fragment header.
        let mut extended = plain[..40].to_vec();
        extended[6] = 60;
        extended[5] = 30 + 16;
        extended.extend([44, 0, 0, 0, 0, 0, 0, 0, 132, 0, 0, place, 0, 0, 0, 9]);
        extended.extend([5; 30]);
        let found = transport(&packet(101, &extended)).expect("known").expect("an IP packet");
        assert_eq!((found.protocol, found.len, found.fragment.is_some()), (132, 30, is_part));
    }
    let mut jumbo = plain;
    jumbo[4..6].copy_from_slice(&[0, 0]);
    let found = transport(&packet(101, &jumbo)).expect("known").expect("an IP packet");
    assert_eq!((found.bytes.len(), found.len), (30, 30), "the length is left out of a large packet");
}

#[test]
fn fragments_of_either_version_are_put_together() {
    let ipv4 = |place: [u8; 2], range: std::ops::Range<u8>| {
        let mut fragment = ipv4_with(17, &range.collect::<Vec<_>>());
        fragment[4..6].copy_from_slice(&[0, 7]);
        fragment[6..8].copy_from_slice(&place);
        fragment
    };
    let ipv6 = |place: u8, range: std::ops::Range<u8>| {
        let mut fragment = bare(["2001:db8::1", "2001:db8::2"])[..40].to_vec();
        (fragment[5], fragment[6]) = (8 + range.end - range.start, 44);
        fragment.extend([17, 0, 0, place, 0, 0, 0, 7]);
        fragment.extend(range);
        fragment
    };
    for [first, last] in [[ipv4([0x20, 0], 0..24), ipv4([0, 3], 24..30)], [ipv6(1, 0..24), ipv6(24, 24..30)]] {
        for [one, other] in [[&first, &last], [&last, &first]] {
            let mut dissector = Dissector::default();
            let dissected = dissector.dissect(&packet(101, one));
            assert_eq!(dissected, Dissected::Fragment);
            let Dissected::Transport(whole) = dissector.dissect(&packet(101, other)) else {
                panic!("it is complete");
            };
            let bytes: Vec<u8> = (0..30).collect();
            assert_eq!((whole.protocol, whole.len, whole.bytes), (17, 30, bytes.as_slice()));
        }
    }
}

#[test]
fn padding_behind_the_packet_is_left_out_and_what_was_not_captured_counts() {
    let bare = bare(["192.0.2.1", "192.0.2.2"]);
    let padded = [bare.as_slice(), &[0; 9]].concat();
    assert_eq!(transport(&packet(101, &padded)).expect("known").expect("IP").bytes.len(), 30);
    let cut = transport(&packet(101, &bare[..25])).expect("known").expect("IP");
    assert_eq!((cut.bytes.len(), cut.len), (5, 30));
}

proptest! {
    #[test]
    fn arbitrary_packets_never_panic(
        link_type in prop::sample::select(vec![0u16, 1, 9, 51, 101, 104, 113, 276]),
        protocol in prop::sample::select(vec![4u8, 17, 41, 47, 132]),
        data in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut dissector = Dissector::default();
        let _ = dissector.dissect(&packet(link_type, &data));
        let _ = dissector.dissect(&packet(101, &ipv4_with(protocol, &data)));
    }
}
