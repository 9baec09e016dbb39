use std::net::{IpAddr, SocketAddr};

use festina_units::EcnCodepoint;
use proptest::prelude::*;

use super::*;
use crate::{PcapngWriter, TcpSegment, encapsulate_tcp, ip};

/// A capture of bare IP packets, each with its time in milliseconds.
fn capture(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
    let interface = writer.add_interface("only").expect("written");
    for (at_ms, packet) in packets {
        writer.write_packet(interface, Instant::from_millis(*at_ms), packet, None).expect("written");
    }
    writer.finish().expect("memory does not fail")
}

fn flows(packets: &[(u64, Vec<u8>)]) -> Vec<Flow> {
    read_flows(capture(packets).as_slice()).expect("a sound capture")
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

const CLIENT: &str = "10.0.0.1:5000";
const SERVER: &str = "10.0.0.2:80";

fn tcp(sequence: u32, len: usize, syn: bool) -> Vec<u8> {
    let payload = vec![0; len];
    let segment = TcpSegment { sequence, ack: Some(1), syn, payload: &payload, ..TcpSegment::default() };
    encapsulate_tcp(address(CLIENT), address(SERVER), &segment).expect("short")
}

/// An SCTP packet with DATA chunks of these TSNs and sizes, and a SACK in front of them.
fn sctp(chunks: &[(u32, u16)]) -> Vec<u8> {
    let mut packet = [5_000u16.to_be_bytes(), 80u16.to_be_bytes()].concat();
    packet.extend([0; 8]);
    packet.extend([3, 0, 0, 16]);
    packet.extend([0; 12]);
    for (tsn, size) in chunks {
        packet.extend([0, 3]);
        packet.extend((16 + size).to_be_bytes());
        packet.extend(tsn.to_be_bytes());
        packet.extend(vec![0; 8 + usize::from(*size).next_multiple_of(4)]);
    }
    ip::encapsulate_sctp([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), EcnCodepoint::NotCapable, &packet).expect("short")
}

fn times_and_sizes(flow: &Flow) -> Vec<(u128, u64)> {
    flow.writes.iter().map(|write| (write.at.as_millis(), write.size.bytes())).collect()
}

#[test]
fn of_tcp_only_new_data_counts() {
    let isn = u32::MAX - 50;
    let flows = flows(&[
        (1_000, tcp(isn, 0, true)),
        (1_100, tcp(isn.wrapping_add(1), 100, false)),
        (1_150, tcp(isn.wrapping_add(1), 0, false)),
        (1_300, tcp(isn.wrapping_add(1), 100, false)),
        (1_400, tcp(isn.wrapping_add(51), 150, false)),
        (2_000, tcp(7, 0, true)),
        (2_100, tcp(8, 5, false)),
    ]);
    let [flow] = flows.as_slice() else { panic!("{flows:?}") };
    assert_eq!((flow.protocol, flow.source, flow.destination), (Protocol::Tcp, address(CLIENT), address(SERVER)));
    assert_eq!(times_and_sizes(flow), [(100, 100), (400, 100), (1_100, 5)]);
}

#[test]
fn of_sctp_each_new_chunk_counts() {
    let flows =
        flows(&[(0, sctp(&[(u32::MAX, 100)])), (50, sctp(&[])), (100, sctp(&[(u32::MAX, 100), (0, 30), (1, 31)]))]);
    let [flow] = flows.as_slice() else { panic!("{flows:?}") };
    assert_eq!(flow.protocol, Protocol::Sctp);
    assert_eq!(times_and_sizes(flow), [(0, 100), (100, 30), (100, 31)]);
}

#[test]
fn the_paths_of_an_association_are_one_flow_directly_over_ip_and_in_udp() {
    for is_in_udp in [false, true] {
        let packet = |hosts: [u8; 2], chunk: &[u8]| {
            // Ports, a verification tag, and no checksum.
            let packet = [&[19, 136, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0], chunk].concat();
            let [from, to] = hosts.map(|host| IpAddr::from([10, 0, host, 1]));
            let in_udp = || ip::encapsulate_udp((from, 9_899).into(), (to, 9_899).into(), &packet);
            let over_ip = || ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, &packet);
            if is_in_udp { in_udp() } else { over_ip() }.expect("short")
        };
        let data = |tsn: u8| [&[0, 3, 0, 20, 0, 0, 0, tsn][..], &[0; 12]].concat();
        let heartbeat = [4, 0, 0, 4];
        let flows = flows(&[
            (0, packet([1, 2], &data(1))),
            (10, packet([4, 3], &heartbeat)),
            (20, packet([4, 3], &data(2))),
            (21, packet([1, 2], &data(2))),
            (30, packet([1, 2], &data(3))),
        ]);
        let [flow] = flows.as_slice() else { panic!("{flows:?}") };
        assert_eq!((flow.protocol, flow.source), (Protocol::Sctp, address("10.0.1.1:5000")));
        assert_eq!(times_and_sizes(flow), [(0, 4), (20, 4), (30, 4)]);
    }
}

#[test]
fn flows_are_told_apart_and_come_in_the_order_of_their_first_data() {
    let udp = |from, to, len| ip::encapsulate_udp(address(from), address(to), &vec![0; len]).expect("short");
    let flows = flows(&[
        (10, udp(CLIENT, SERVER, 0)),
        (20, udp(SERVER, CLIENT, 7)),
        (40, udp(CLIENT, SERVER, 9)),
        (30, udp(CLIENT, SERVER, 8)),
        (50, tcp(1, 3, false)),
    ]);
    let told: Vec<_> = flows.iter().map(|flow| (flow.source.port(), times_and_sizes(flow))).collect();
    assert_eq!(told, [(80, vec![(10, 7)]), (5_000, vec![(20, 8), (30, 9)]), (5_000, vec![(40, 3)])]);
}

#[test]
fn a_capture_without_data_has_no_flows() {
    assert!(flows(&[(0, tcp(1, 0, true)), (1, vec![0x45, 0])]).is_empty());
}

proptest! {
    #[test]
    fn arbitrary_transports_never_panic(
        protocol in prop::sample::select(vec![6u8, 17, 132]),
        payload in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut packet = ip::encapsulate_sctp([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), EcnCodepoint::NotCapable, &payload).expect("short");
        packet[9] = protocol;
        let _ = flows(&[(0, packet.clone()), (1, packet)]);
    }
}
