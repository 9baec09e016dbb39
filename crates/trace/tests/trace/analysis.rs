//! The analysis of small captures, packet by packet.

use std::net::SocketAddr;

use festina_sctp::wire::{ChunkOut, CommonHeader, DataHeader, PacketBuilder, Ssn, StreamId, Tsn};
use festina_trace::analysis::columns::{COLUMNS, Kind, Value, csv_header, csv_line, json_line, kind};
use festina_trace::analysis::{Retransmission, Summary, Write};
use festina_trace::{
    Analyser, AnalyserOptions, Cause, Confidence, Finding, PcapngWriter, Protocol, ReadError, ReceiverSide,
    StreamReport, TcpOption, TcpSegment, analyse, encapsulate_tcp, ip,
};
use festina_units::{Duration, Instant};

const CLIENT: &str = "10.0.0.1:5000";
const SERVER: &str = "10.0.0.2:80";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A capture of bare IP packets, each with its time in milliseconds.
fn capture(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
    let interface = writer.add_interface("only").expect("written");
    for (at_ms, packet) in packets {
        writer.write_packet(interface, Instant::from_millis(*at_ms), packet, None).expect("written");
    }
    writer.finish().expect("memory does not fail")
}

#[derive(Default)]
struct Found {
    streams: Vec<StreamReport>,
    writes: Vec<Write>,
    retransmissions: Vec<Retransmission>,
    summary: Summary,
    error: Option<ReadError>,
}

fn analysed_by(analyser: Analyser, file: &[u8]) -> Found {
    let mut found = Found::default();
    let (summary, result) = analyse(file, analyser, |finding| match finding {
        Finding::Stream(stream) => found.streams.push(*stream),
        Finding::Write(write) => found.writes.push(write),
        Finding::Retransmission(retransmission) => found.retransmissions.push(retransmission),
        _ => {}
    });
    found.summary = summary;
    found.error = result.err();
    found
}

fn details() -> Analyser {
    Analyser::new(AnalyserOptions { details: true, ..AnalyserOptions::default() })
}

fn analysed(packets: &[(u64, Vec<u8>)]) -> Found {
    analysed_by(details(), &capture(packets))
}

/// A segment with data.
fn data(sequence: u32, len: usize) -> Vec<u8> {
    let payload = vec![0; len];
    let segment = TcpSegment { sequence, ack: Some(1), payload: &payload, ..TcpSegment::default() };
    encapsulate_tcp(address(CLIENT), address(SERVER), &segment).expect("short")
}

/// An acknowledgement with SACK blocks.
fn ack(through: u32, blocks: &[(u32, u32)]) -> Vec<u8> {
    let options: Vec<TcpOption> = blocks.iter().map(|&(start, end)| TcpOption::SackBlock(start, end)).collect();
    let segment = TcpSegment { sequence: 1, ack: Some(through), options: &options, ..TcpSegment::default() };
    encapsulate_tcp(address(SERVER), address(CLIENT), &segment).expect("short")
}

#[test]
fn a_stream_has_the_columns_of_table_1_of_p10() {
    let found = analysed(&[
        (1_000, data(1, 100)),
        (1_050, ack(101, &[])),
        (1_300, data(101, 50)),
        (1_350, ack(151, &[])),
        (2_000, data(151, 150)),
        (2_050, ack(301, &[])),
    ]);
    let [stream] = found.streams.as_slice() else { panic!("{:?}", found.streams) };
    let traffic = &stream.traffic;
    let sizes = &traffic.payload_bytes;
    assert_eq!((sizes.mean(), sizes.min(), sizes.max()), (Some(100.0), Some(50), Some(150)));
    let ms = 1_000_000;
    assert_eq!(
        (traffic.gaps_ns.mean(), traffic.gaps_ns.min(), traffic.gaps_ns.max()),
        (Some(5e8), Some(300 * ms), Some(700 * ms))
    );
    assert_eq!(traffic.duration(), Duration::from_secs(1));
    assert_eq!(traffic.packets_per_s(), Some(2.0));
    assert_eq!(stream.rtt_ns.min(), Some(50 * ms));
    assert_eq!(stream.thinness.share_thin(), Some(1.0));
    assert_eq!(stream.repair.loss(), Some(0.0));
    assert_eq!(stream.repair.sent_times[0], 3);
    assert_eq!(stream.delays.acknowledged_ns.max(), Some(50 * ms));
    assert_eq!(stream.delays.worst.first().map(|write| (write.sent_packet, write.acknowledged_packet)), Some((1, 2)));
}

#[test]
fn rows_have_a_value_for_every_column_in_csv_and_json() {
    let found = analysed(&[(1_000, data(1, 100)), (1_050, ack(101, &[]))]);
    let stream = &found.streams[0];
    let values = stream.values();
    assert_eq!(values.len(), COLUMNS.len());
    for (name, value) in COLUMNS.iter().zip(&values) {
        let is_of_its_kind = match value {
            Value::Text(_) => kind(name) == Kind::Text,
            Value::Count(_) => kind(name) == Kind::Count,
            Value::Number(_) => kind(name) == Kind::Number,
            Value::Missing => true,
        };
        assert!(is_of_its_kind, "{name} is {value:?}");
    }
    let value = |name| COLUMNS.iter().position(|known| *known == name).map(|at| values[at].clone());
    assert_eq!(value("source"), Some(Value::Text("10.0.0.1".to_owned())));
    assert_eq!(value("gap_avg_ms"), Some(Value::Missing));
    assert_eq!(value("ack_delay_max_ms"), Some(Value::Number(50.0)));
    assert_eq!(csv_line(stream).split(',').count(), csv_header().split(',').count());
    let json = json_line(stream);
    assert!(
        json.starts_with("{\"id\":1,\"protocol\":\"tcp\",")
            && json.contains("\"gap_avg_ms\":null")
            && json.ends_with('}'),
        "{json}"
    );
}

#[test]
fn a_loss_that_later_segments_reveal_is_repaired_fast() {
    let mut packets = vec![(0, data(1, 100)), (50, ack(101, &[]))];
    for (number, at) in (0..4).zip([100, 110, 120, 130]) {
        packets.push((at, data(101 + 100 * number, 100)));
    }
    for (number, at) in (1..4).zip([160, 170, 180]) {
        packets.push((at, ack(101, &[(201, 201 + 100 * number)])));
    }
    packets.push((180, data(101, 100)));
    packets.push((230, ack(501, &[])));
    let found = analysed(&packets);
    let [copy] = found.retransmissions.as_slice() else { panic!("{:?}", found.retransmissions) };
    assert_eq!(
        (copy.cause, copy.confidence, copy.is_spurious, copy.ordinal),
        (Cause::Fast, Confidence::Sure, false, 1)
    );
    assert_eq!((copy.packet, copy.start, copy.end), (10, 100, 200));
    let worst = &found.streams[0].delays.worst[0];
    assert_eq!((worst.delay(), worst.sent_packet, worst.copies), (Duration::from_millis(130), 3, 2));
    assert_eq!(found.streams[0].repair.loss(), Some(1.0 / 6.0));
}

#[test]
fn a_lone_segment_is_repaired_by_timeouts_that_a_duplicate_report_proves_spurious() {
    let found = analysed(&[
        (0, data(1, 100)),
        (50, ack(101, &[])),
        (1_000, data(101, 100)),
        (1_300, data(101, 100)),
        (1_310, ack(201, &[])),
        (1_350, ack(201, &[(101, 201)])),
        (3_000, data(201, 1)),
        (3_050, ack(202, &[])),
    ]);
    let [copy] = found.retransmissions.as_slice() else { panic!("{:?}", found.retransmissions) };
    assert_eq!((copy.cause, copy.is_spurious), (Cause::Timeout, true));
    assert_eq!((found.streams[0].repair.spurious, found.streams[0].repair.loss()), (1, Some(0.0)));
}

#[test]
fn of_several_copies_all_are_spurious_that_left_too_late_for_the_acknowledgement() {
    // The capture begins in the middle of a connection, so the round trip counts from a second later on.
    let mut packets = vec![(0, data(1, 100)), (100, ack(101, &[])), (2_000, data(101, 100)), (2_100, ack(201, &[]))];
    packets.extend([3_000, 3_020, 3_085, 3_092].map(|at| (at, data(201, 100))));
    packets.push((3_100, ack(301, &[])));
    let found = analysed(&packets);
    let spurious: Vec<bool> = found.retransmissions.iter().map(|copy| copy.is_spurious).collect();
    assert_eq!(spurious, [false, true, true]);
}

/// The `index`-th 100 bytes, from a sender with timestamps, which count milliseconds.
fn stamped(at_ms: u32, index: u32) -> (u64, Vec<u8>) {
    let options = [TcpOption::Timestamps { value: at_ms, echo: 0 }];
    let payload = [0; 100];
    let sequence = 1 + 100 * index;
    let segment = TcpSegment { sequence, ack: Some(1), payload: &payload, options: &options, ..TcpSegment::default() };
    (at_ms.into(), encapsulate_tcp(address(CLIENT), address(SERVER), &segment).expect("short"))
}

/// Its acknowledgement of the first `through`, and of another if there is one behind a gap.
fn echoing(at_ms: u32, through: u32, reported: Option<u32>, echo: u32) -> (u64, Vec<u8>) {
    let mut options = vec![TcpOption::Timestamps { value: at_ms, echo }];
    options.extend(reported.map(|index| TcpOption::SackBlock(1 + 100 * index, 101 + 100 * index)));
    let ack = Some(1 + 100 * through);
    let segment = TcpSegment { sequence: 1, ack, options: &options, ..TcpSegment::default() };
    (at_ms.into(), encapsulate_tcp(address(SERVER), address(CLIENT), &segment).expect("short"))
}

fn causes(packets: &[(u64, Vec<u8>)]) -> Vec<Cause> {
    analysed(packets).retransmissions.iter().map(|copy| copy.cause).collect()
}

#[test]
fn until_the_episode_of_a_probe_ends_the_next_repair_is_a_timeout() {
    let before = [stamped(100, 0), echoing(150, 1, None, 100)];
    let probed = [stamped(1_000, 1), stamped(1_300, 1)];
    let after = [stamped(2_000, 2), stamped(2_300, 2), echoing(2_350, 3, None, 2_300)];
    let later = [stamped(3_000, 3), stamped(3_300, 3), echoing(3_350, 4, None, 3_300)];
    // What the answer covers ends with the probe, and nothing says that the first copy arrived.
    let answer = [echoing(1_350, 2, None, 1_300)];
    let packets: Vec<_> = [&before[..], &probed, &answer, &after, &later].concat();
    assert_eq!(causes(&packets), [Cause::Probe, Cause::Timeout, Cause::Probe]);
    let reporting = [echoing(1_350, 2, Some(1), 1_300)];
    let packets: Vec<_> = [&before[..], &probed, &reporting, &after].concat();
    assert_eq!(causes(&packets), [Cause::Probe, Cause::Probe], "the probe was sent again");
}

#[test]
fn what_a_retransmission_overtook_is_given_up_a_little_after_its_acknowledgement() {
    // The round trip is measured a second after the capture's beginning.
    let packets = [
        stamped(100, 0),
        echoing(150, 1, None, 100),
        stamped(1_500, 1),
        echoing(1_550, 2, None, 1_500),
        stamped(2_000, 2),
        stamped(2_030, 3),
        stamped(2_075, 4),
        echoing(2_080, 2, Some(3), 1_500),
        stamped(2_080, 2),
        echoing(2_130, 4, None, 2_080),
        stamped(2_142, 4),
        echoing(2_192, 5, None, 2_142),
    ];
    assert_eq!(causes(&packets), [Cause::Fast, Cause::Fast]);
    let mut unanswered = packets;
    unanswered[9] = echoing(2_130, 4, None, 2_000);
    assert_eq!(causes(&unanswered), [Cause::Fast, Cause::Timeout], "the first copy arrived, which left before it");
}

#[test]
fn what_repeats_more_than_the_last_segment_is_no_probe() {
    let both = {
        let options = [TcpOption::Timestamps { value: 1_330, echo: 0 }];
        let segment =
            TcpSegment { sequence: 101, ack: Some(1), payload: &[0; 200], options: &options, ..TcpSegment::default() };
        (1_330, encapsulate_tcp(address(CLIENT), address(SERVER), &segment).expect("short"))
    };
    let before = [stamped(100, 0), echoing(150, 1, None, 100), stamped(1_000, 1), stamped(1_030, 2)];
    assert_eq!(causes(&[&before[..], &[both]].concat()), [Cause::Timeout]);
    assert_eq!(causes(&[&before[..], &[stamped(1_330, 2)]].concat()), [Cause::Probe]);
}

#[test]
fn a_segment_that_the_path_delayed_is_no_retransmission() {
    let found = analysed(&[
        (0, data(1, 100)),
        (50, ack(101, &[])),
        (1_000, data(201, 100)),
        (1_001, data(101, 100)),
        (1_050, ack(301, &[])),
    ]);
    assert!(found.retransmissions.is_empty(), "{:?}", found.retransmissions);
    assert_eq!((found.streams[0].repair.out_of_order, found.streams[0].traffic.unseen_bytes), (1, 0));
}

#[test]
fn what_the_receiver_acknowledges_and_the_capture_lacks_is_counted() {
    let found = analysed(&[(0, data(1, 100)), (50, ack(101, &[])), (1_000, data(201, 100)), (1_050, ack(301, &[]))]);
    assert_eq!(found.streams[0].traffic.unseen_bytes, 100);
}

/// A bulk transfer over a network card that cuts 45 segments out of each packet: one segment of every second packet is lost. `handshake` comes
/// before it.
fn segmented_by_the_card(handshake: &[(u64, Vec<u8>)]) -> StreamReport {
    const SEGMENT: u32 = 1_448;
    const PACKET: u32 = 45 * SEGMENT;
    let mut packets = handshake.to_vec();
    let large = |sequence| {
        let mut packet = data(sequence, PACKET as usize - 1_000);
        packet.resize(packet.len() + 1_000, 0);
        packet[2..4].copy_from_slice(&[0, 0]);
        packet
    };
    for index in 0..200 {
        let (at, start) = (2_000 + 100 * u64::from(index), 1 + index * PACKET);
        let (end, lost) = (start + PACKET, start + 10 * SEGMENT);
        packets.push((at, large(start)));
        if index % 2 == 0 {
            packets.extend((20..24).map(|after| (at + after, ack(lost, &[(lost + SEGMENT, end)]))));
            packets.push((at + 24, data(lost, SEGMENT as usize)));
        }
        packets.push((at + 44, ack(end, &[])));
    }
    let found = analysed(&packets);
    assert_eq!(found.retransmissions.len(), 100);
    found.streams.into_iter().next().expect("a stream")
}

#[test]
fn a_packet_that_the_network_card_cuts_counts_as_its_segments() {
    let syn = |from: &str, to: &str, ack, mss| {
        let options = [TcpOption::MaximumSegmentSize(mss)];
        let segment = TcpSegment { sequence: 0, ack, syn: true, options: &options, ..TcpSegment::default() };
        encapsulate_tcp(address(from), address(to), &segment).expect("short")
    };
    let handshake = [(0, syn(CLIENT, SERVER, None, 8_960)), (20, syn(SERVER, CLIENT, Some(1), 1_460))];
    for handshake in [&[][..], &handshake] {
        let stream = segmented_by_the_card(handshake);
        assert_eq!((stream.repair.first_copies, stream.repair.retransmissions()), (9_000, 100));
        assert_eq!(stream.repair.loss(), Some(100.0 / 9_100.0));
        assert_eq!(stream.repair.sent_times[..2], [8_900, 100]);
        assert_eq!(stream.thinness.in_flight.max(), Some(45));
        assert!(stream.thinness.share_thin().is_some_and(|share| share < 0.7), "{:?}", stream.thinness.share_thin());
    }
}

#[test]
fn packets_in_flight_are_unknown_in_a_capture_of_one_direction() {
    let mut packets: Vec<_> = (0..600).map(|index| (100 * u64::from(index), data(1 + 100 * index, 100))).collect();
    let found = analysed(&packets);
    let stream = &found.streams[0];
    assert_eq!((stream.thinness.share_thin(), stream.thinness.in_flight.count()), (None, 0));
    assert_eq!(found.summary.streams_one_way, 1);
    for column in ["thin_share", "few_in_flight_share", "in_flight_avg", "in_flight_max"] {
        let at = COLUMNS.iter().position(|name| *name == column).expect("a column");
        assert_eq!(stream.values()[at], Value::Missing, "{column}");
    }
    // With an acknowledgement the whole stream counts.
    packets.insert(2, (150, ack(201, &[])));
    let found = analysed(&packets[..4]);
    let thinness = &found.streams[0].thinness;
    assert_eq!((thinness.in_flight.count(), thinness.total_ns, thinness.share_thin()), (3, 200_000_000, Some(1.0)));
    assert_eq!(found.summary.streams_one_way, 0);
}

#[test]
fn a_keepalive_is_no_retransmission() {
    let found = analysed(&[(0, data(1, 100)), (50, ack(101, &[])), (60_000, data(100, 1)), (60_050, ack(101, &[]))]);
    assert!(found.retransmissions.is_empty(), "{:?}", found.retransmissions);
}

#[test]
fn delays_to_delivery_come_from_the_receivers_capture_whatever_its_clock_says() {
    // Its clock is 7 s behind; each way takes 20 ms; the second segment comes after the third.
    let sender = [
        (10_000, data(1, 100)),
        (10_040, ack(101, &[])),
        (10_100, data(101, 100)),
        (10_110, data(201, 100)),
        (10_150, ack(101, &[(201, 301)])),
        (10_400, data(101, 100)),
        (10_440, ack(301, &[])),
    ];
    let receiver = [
        (3_020, data(1, 100)),
        (3_020, ack(101, &[])),
        (3_130, data(201, 100)),
        (3_130, ack(101, &[(201, 301)])),
        (3_420, data(101, 100)),
        (3_420, ack(301, &[])),
    ];
    let (sender, receiver) = (capture(&sender), capture(&receiver));
    let mut side = ReceiverSide::read(receiver.as_slice()).expect("a sound capture");
    side.align(sender.as_slice()).expect("a sound capture");
    let found = analysed_by(details().with_receiver(side), &sender);
    let delivered: Vec<_> = found.writes.iter().map(|write| write.delivered().map(|delay| delay.as_millis())).collect();
    assert_eq!(delivered, [Some(20), Some(320), Some(310)]);
}

/// An SCTP packet in UDP between these addresses, with a chunk of ten bytes, or without a TSN with a heartbeat.
fn sctp_between(hosts: [&str; 2], ports: [u16; 2], tsn: Option<u32>) -> Vec<u8> {
    let header = CommonHeader { source_port: 5_000, destination_port: 5_001, verification_tag: 9 };
    let mut packet = Vec::new();
    let mut builder = PacketBuilder::new(&mut packet, header, 1_200);
    let data = |tsn| DataHeader {
        tsn: Tsn(tsn),
        stream: StreamId(0),
        ssn: Ssn(0),
        ppid: 0,
        unordered: false,
        beginning: true,
        end: true,
        immediate: false,
    };
    assert!(match tsn {
        Some(tsn) => builder.data(&data(tsn), &[0; 10]),
        None => builder.chunk(&ChunkOut::Heartbeat { info: b"info" }),
    });
    builder.finish();
    let [from, to] = [(hosts[0], ports[0]), (hosts[1], ports[1])].map(|(ip, port)| address(&format!("{ip}:{port}")));
    ip::encapsulate_udp(from, to, &packet).expect("short")
}

/// An SCTP packet with one chunk of ten bytes, in UDP.
fn sctp_in_udp(tsn: u32, ports: [u16; 2]) -> Vec<u8> {
    sctp_between(["10.0.0.1", "10.0.0.2"], ports, Some(tsn))
}

#[test]
fn a_path_that_begins_with_a_heartbeat_belongs_to_the_association_with_its_tag() {
    const FIRST: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
    // In the order of addresses the ends of the second path are the other way round.
    const SECOND: [&str; 2] = ["10.9.0.1", "10.1.0.2"];
    let ports = [9_899, 9_899];
    let packets = [
        (0, sctp_between(FIRST, ports, Some(1))),
        (10, sctp_between(SECOND, ports, None)),
        (100, sctp_between(SECOND, ports, Some(2))),
        (200, sctp_between(FIRST, ports, Some(3))),
        (300, sctp_between(SECOND, ports, Some(3))),
    ];
    let found = analysed(&packets);
    let [stream] = found.streams.as_slice() else { panic!("{:?}", found.streams) };
    assert_eq!((stream.source, stream.destination), (address("10.0.0.1:5000"), address("10.0.0.2:5001")));
    let paths: Vec<_> = stream.paths.iter().map(|path| (path.source, path.chunks_first, path.chunks_again)).collect();
    let [first, second] = [FIRST, SECOND].map(|[source, _]| source.parse().expect("an address"));
    assert_eq!(paths, [(first, 2, 0), (second, 1, 1)]);
    assert!(json_line(stream).contains(r#""destination":"10.1.0.2","packets":2,"#), "{}", json_line(stream));
    // On both sides of a NAT the packets of an association look like two.
    let translated: Vec<_> = packets.into_iter().filter(|(at, _)| *at != 10).collect();
    assert_eq!(analysed(&translated).streams.len(), 2);
}

#[test]
fn a_copy_by_another_path_is_redundancy_and_a_later_one_is_not() {
    let packet = |path: usize, tsn| {
        let hosts = [["10.0.0.1", "10.0.0.2"], ["10.9.0.1", "10.1.0.2"]][path];
        sctp_between(hosts, [9_899, 9_899], tsn)
    };
    let beginning = [(0, packet(0, Some(1))), (10, packet(1, None)), (11, packet(0, Some(2)))];
    for (at, cause) in [(11, Cause::Bundled), (40, Cause::Probe)] {
        let packets: Vec<_> = beginning.iter().cloned().chain([(at, packet(1, Some(2)))]).collect();
        let found = analysed(&packets);
        let causes: Vec<_> = found.retransmissions.iter().map(|copy| copy.cause).collect();
        assert_eq!(causes, [cause], "{at}");
    }
}

#[test]
fn sctp_is_found_in_udp_at_its_port_and_at_any_other_by_its_checksum() {
    for ports in [[9_899, 40_000], [30_000, 40_000]] {
        let found = analysed(&[(0, sctp_in_udp(u32::MAX, ports)), (100, sctp_in_udp(0, ports))]);
        let [stream] = found.streams.as_slice() else { panic!("{:?}", found.streams) };
        assert_eq!((stream.protocol, stream.in_udp, stream.source.port()), (Protocol::Sctp, true, 5_000));
        assert_eq!(stream.repair.first_copies, 2);
    }
    let mut damaged = sctp_in_udp(1, [30_000, 40_000]);
    *damaged.last_mut().expect("not empty") ^= 1;
    assert_eq!(analysed(&[(0, damaged)]).streams[0].protocol, Protocol::Udp);
}

#[test]
fn a_chunk_whose_first_copy_is_missing_is_known_to_be_sent_again() {
    let packet = |tsn| sctp_in_udp(tsn, [9_899, 9_899]);
    let found = analysed(&[(0, packet(1)), (100, packet(3)), (5_000, packet(2))]);
    let [copy] = found.retransmissions.as_slice() else { panic!("{:?}", found.retransmissions) };
    assert_eq!((copy.first_at, copy.cause, copy.start), (None, Cause::Unknown, 1));
}

#[test]
fn clocks_that_jump_by_centuries_do_no_harm() {
    let century_ms = 3_000_000_000_000;
    let times = [0, 1, century_ms, 2 * century_ms, 3 * century_ms, 4 * century_ms, 5 * century_ms, 50];
    let mut packets = Vec::new();
    for (number, at_ms) in (0u32..).zip(times) {
        packets.push((at_ms, data(1 + 100 * number, 100)));
        packets.push((at_ms + century_ms / 2, ack(101 + 100 * number, &[])));
    }
    let analyser = Analyser::new(AnalyserOptions { idle_max: Duration::MAX, details: true });
    let found = analysed_by(analyser, &capture(&packets));
    assert_eq!((found.streams.len(), found.writes.len()), (1, 8));
    assert!(found.streams[0].rtt_ns.max() <= Some(3_600_000_000_000));
}

#[test]
fn of_a_damaged_capture_all_before_the_damage_is_reported() {
    let mut file = capture(&[(0, data(1, 100)), (50, ack(101, &[])), (100, data(101, 100))]);
    let len = file.len();
    file.extend([6, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0]);
    let found = analysed_by(Analyser::default(), &file);
    assert_eq!((found.summary.packets, found.streams.len()), (3, 1));
    let error = found.error.expect("the end is damaged").to_string();
    assert_eq!(error, format!("the capture is damaged at byte {len}: a block whose length makes no sense"));
}

/// Two packets on an interface whose link type is not supported, and `packets` on one that is.
fn with_foreign_packets(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    const USB: u8 = 220;
    let mut file = capture(packets);
    // In a section of its own.
    let mut foreign = capture(&[(7, vec![0; 64]), (8, vec![0; 64])]);
    let link_type = foreign.windows(8).position(|bytes| bytes[..4] == [1, 0, 0, 0] && bytes[5..8] == [0, 0, 0]);
    foreign[link_type.expect("an interface") + 8] = USB;
    file.extend(foreign);
    file
}

#[test]
fn packets_of_unknown_links_are_counted_and_end_the_analysis_only_if_there_are_no_others() {
    let mut file = with_foreign_packets(&[(0, data(1, 100))]);
    file.extend(capture(&[(50, ack(101, &[]))]));
    let found = analysed_by(Analyser::default(), &file);
    assert!(found.error.is_none(), "{:?}", found.error);
    assert_eq!((found.summary.packets, found.summary.packets_other, found.streams.len()), (4, 2, 1));
    let found = analysed_by(Analyser::default(), &with_foreign_packets(&[]));
    assert!(matches!(found.error, Some(ReadError::LinkType { link_type: 220, .. })), "{:?}", found.error);
    assert_eq!((found.summary.packets, found.summary.packets_other), (2, 2));
}

#[test]
fn a_scan_leaves_no_more_conversations_alive_than_have_room() {
    let mut analyser = Analyser::default();
    let flows = 300_000u32;
    for number in 0..flows {
        let to = SocketAddr::from((std::net::Ipv4Addr::from_bits(0x0b00_0000 + number), 80));
        let segment = TcpSegment { sequence: 7, syn: true, ..TcpSegment::default() };
        let packet = encapsulate_tcp(address(CLIENT), to, &segment).expect("short");
        let captured = festina_trace::CapturedPacket {
            number: u64::from(number) + 1,
            offset: 0,
            at: Instant::from_micros(u64::from(number)),
            link_type: 101,
            data: &packet,
            original_bytes: 40,
            secrets: &[],
        };
        analyser.handle_packet(&captured);
    }
    let before_the_end = analyser.summary();
    assert_eq!(before_the_end.conversations_retired, u64::from(flows) - 200_000);
    analyser.finish();
    assert_eq!(analyser.poll_finding(), None);
    let summary = analyser.summary();
    assert_eq!((summary.conversations, summary.conversations_without_data), (u64::from(flows), u64::from(flows)));
}

#[test]
fn the_silent_are_retired_and_begin_anew_when_they_speak() {
    let found = analysed(&[(0, data(1, 100)), (700_000, data(101, 100))]);
    assert_eq!((found.streams.len(), found.summary.conversations_retired), (2, 1));
    assert_eq!(found.streams.iter().map(|stream| stream.id).collect::<Vec<_>>(), [1, 2]);
}
