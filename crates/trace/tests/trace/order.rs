//! Retransmissions, late packets, and packets that the capture holds twice.

use std::net::SocketAddr;

use festina_trace::analysis::Summary;
use festina_trace::{
    Analyser, AnalyserOptions, Finding, PcapngWriter, ReceiverSide, StreamReport, TcpOption, TcpSegment, analyse,
    encapsulate_tcp,
};
use festina_units::{Duration, Instant};

const CLIENT: &str = "10.0.0.1:5000";
const SERVER: &str = "10.0.0.2:80";

/// A packet of a capture: when in microseconds, its number in IPv4, and itself.
type Captured = (u64, u16, Vec<u8>);

fn segment(from: &str, to: &str, segment: &TcpSegment<'_>) -> Vec<u8> {
    let [from, to]: [SocketAddr; 2] = [from, to].map(|end| end.parse().expect("an address"));
    encapsulate_tcp(from, to, segment).expect("short")
}

/// 100 bytes from the client, the `index`-th of its stream.
fn data(at_us: u64, number: u16, index: u32) -> Captured {
    let payload = [0; 100];
    let sent = TcpSegment { sequence: 1 + 100 * index, ack: Some(1), payload: &payload, ..TcpSegment::default() };
    (at_us, number, segment(CLIENT, SERVER, &sent))
}

/// An acknowledgement of the first `through`.
fn ack(at_us: u64, through: u32, blocks: &[(u32, u32)]) -> Captured {
    let options: Vec<TcpOption> =
        blocks.iter().map(|&(start, end)| TcpOption::SackBlock(1 + 100 * start, 1 + 100 * end)).collect();
    let ack = Some(1 + 100 * through);
    (at_us, 0, segment(SERVER, CLIENT, &TcpSegment { sequence: 1, ack, options: &options, ..TcpSegment::default() }))
}

/// The handshake as the server sees it, 40 ms away from the client.
fn handshake() -> Vec<Captured> {
    let syn = TcpSegment { sequence: 0, syn: true, ..TcpSegment::default() };
    let answer = TcpSegment { sequence: 0, ack: Some(1), syn: true, ..TcpSegment::default() };
    let last = TcpSegment { sequence: 1, ack: Some(1), ..TcpSegment::default() };
    vec![
        (0, 0, segment(CLIENT, SERVER, &syn)),
        (10, 0, segment(SERVER, CLIENT, &answer)),
        (40_000, 0, segment(CLIENT, SERVER, &last)),
    ]
}

#[derive(Default)]
struct Found {
    streams: Vec<StreamReport>,
    delivered: Vec<Option<Duration>>,
    again: Vec<u64>,
    late: Vec<u64>,
    summary: Summary,
}

fn file(packets: &[Captured]) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
    let interface = writer.add_interface("only").expect("written");
    for (at_us, number, packet) in packets {
        let mut packet = packet.clone();
        packet[4..6].copy_from_slice(&number.to_be_bytes());
        writer.write_packet(interface, Instant::from_micros(1_000_000 + at_us), &packet, None).expect("written");
    }
    writer.finish().expect("memory does not fail")
}

fn details() -> Analyser {
    Analyser::new(AnalyserOptions { details: true, ..AnalyserOptions::default() })
}

fn analysed(packets: &[Captured]) -> Found {
    analysed_by(details(), &file(packets))
}

fn analysed_by(analyser: Analyser, file: &[u8]) -> Found {
    let mut found = Found::default();
    let (summary, result) = analyse(file, analyser, |finding| match finding {
        Finding::Write(write) => found.delivered.push(write.delivered()),
        Finding::Stream(stream) => found.streams.push(*stream),
        Finding::Retransmission(retransmission) => found.again.push(retransmission.packet),
        Finding::OutOfOrder(late) => found.late.push(late.packet),
        _ => {}
    });
    result.expect("a sound capture");
    found.summary = summary;
    found
}

#[test]
fn a_gap_is_filled_by_a_retransmission_if_its_number_is_later_than_those_before() {
    let stream = |number| {
        let mut packets = handshake();
        packets
            .extend([(0, 100), (1, 101), (2, 102), (3, 103), (5, 105)].map(|(i, n)| data(50_000 + u64::from(i), n, i)));
        packets.push(data(50_020, number, 4));
        packets
    };
    let found = analysed(&stream(106));
    assert_eq!((found.again, found.late), (vec![9], vec![]), "sent after the following data");
    let found = analysed(&stream(104));
    assert_eq!((found.again, found.late), (vec![], vec![9]), "sent before");
    assert_eq!(found.streams[0].repair.out_of_order, 1);
}

#[test]
fn random_numbers_say_nothing_and_the_age_of_the_gap_decides() {
    let stream = |at_us| {
        let mut packets = handshake();
        packets
            .extend([(0, 7_000), (1, 900), (2, 44_000), (4, 44_010)].map(|(i, n)| data(50_000 + u64::from(i), n, i)));
        packets.extend([ack(50_010, 3, &[(4, 5)]), data(at_us - 1, 31, 5), data(at_us, 20_000, 3)]);
        packets
    };
    // The server sees data and acknowledges it at once: it does not measure the path's round trip of 40 ms.
    let found = analysed(&stream(95_000));
    assert_eq!((found.again, found.late), (vec![10], vec![]), "45 ms after the gap appeared");
    let found = analysed(&stream(55_000));
    assert_eq!((found.again, found.late), (vec![], vec![10]), "5 ms after");
}

#[test]
fn packets_that_the_capture_holds_twice_are_left_out() {
    let mut packets = handshake();
    let burst: Vec<Captured> =
        (0..20).map(|i| data(50_000 + u64::from(i), 100 + u16::try_from(i).expect("few"), i)).collect();
    packets.extend(burst.iter().cloned());
    packets.extend(burst.iter().map(|(at_us, number, packet)| (at_us + 100, *number, packet.clone())));
    packets.push(data(300_000, 120, 19));
    let found = analysed(&packets);
    assert_eq!(found.summary.packets_again, 20);
    assert_eq!((found.again, found.late), (vec![44], vec![]), "the last one has a number of its own");
    assert_eq!(found.streams[0].traffic.payload_bytes.count(), 21);
}

#[test]
fn captures_that_hold_every_packet_twice_at_both_ends_say_the_same() {
    // Each way takes 20 ms, and the first copy of the twentieth segment is lost.
    const LOST: u16 = 20;
    let at = |index: u16| 100_000 + 30_000 * u64::from(index);
    let (mut sender, mut receiver) = (Vec::new(), Vec::new());
    for index in 0..40 {
        let number = 100 + 2 * index;
        let through = if index < LOST { index + 1 } else { LOST };
        let blocks = [(u32::from(LOST) + 1, u32::from(index) + 1)];
        let answer = |at_us| {
            let (_, _, packet) = ack(at_us, through.into(), if index > LOST { &blocks } else { &[] });
            (at_us, 7_000 + index, packet)
        };
        sender.push(data(at(index), number, index.into()));
        if index != LOST {
            receiver.push(data(at(index) + 20_000, number, index.into()));
            receiver.push(answer(at(index) + 20_000));
            sender.push(answer(at(index) + 40_000));
        }
    }
    let again = at(39) + 50_000;
    let all = (again + 20_000, 7_100, ack(0, 40, &[]).2);
    sender.push(data(again, 300, LOST.into()));
    receiver.extend([data(again + 20_000, 300, LOST.into()), all.clone()]);
    sender.push((again + 40_000, all.1, all.2));
    for packets in [&mut sender, &mut receiver] {
        packets.sort_by_key(|(at_us, number, _)| (*at_us, *number >= 7_000));
    }

    let twice = |packets: &[Captured]| -> Vec<Captured> {
        let seen = |(at_us, number, packet): &Captured| [0, 80].map(|later| (at_us + later, *number, packet.clone()));
        let mut twice: Vec<Captured> = packets.iter().flat_map(seen).collect();
        twice.sort_by_key(|(at_us, ..)| *at_us);
        twice
    };
    let found = |sender: &[Captured], receiver: &[Captured]| {
        let (sender, receiver) = (file(sender), file(receiver));
        let mut side = ReceiverSide::read(receiver.as_slice()).expect("a sound capture");
        side.align(sender.as_slice()).expect("a sound capture");
        analysed_by(details().with_receiver(side), &sender)
    };
    let once = found(&sender, &receiver);
    assert_eq!((once.again.len(), once.delivered.len()), (1, 40));
    let delay = |index: usize| once.delivered[index].map(|delay| delay.as_millis());
    assert_eq!((delay(0), delay(LOST.into())), (Some(20), Some(u128::from(again - at(LOST)) / 1_000 + 20)));
    for (sender, receiver) in
        [(twice(&sender), receiver.clone()), (sender.clone(), twice(&receiver)), (twice(&sender), twice(&receiver))]
    {
        let held_twice = found(&sender, &receiver);
        assert_eq!(held_twice.delivered, once.delivered);
        assert_eq!(held_twice.again.len(), 1);
        let [one, other] = [&held_twice, &once].map(|found| &found.streams[0]);
        assert_eq!(
            (&one.repair, &one.delays.acknowledged_ns, &one.rtt_ns),
            (&other.repair, &other.delays.acknowledged_ns, &other.rtt_ns)
        );
    }
}

#[test]
fn data_below_the_end_of_the_stream_was_sent_before() {
    let mut packets = handshake();
    packets.push(data(50_000, 0, 0));
    let end = TcpSegment { sequence: 201, ack: Some(1), fin: true, ..TcpSegment::default() };
    packets.push((60_000, 0, segment(CLIENT, SERVER, &end)));
    packets.push(data(300_000, 0, 1));
    let found = analysed(&packets);
    assert_eq!((found.again, found.late), (vec![6], vec![]));
}

#[test]
fn segments_that_share_a_number_are_not_the_same_packet() {
    let mut packets = handshake();
    // Some write the same number into all packets.
    packets.extend((0..20).map(|i| data(50_000 + u64::from(i), 1, i)));
    let both = TcpSegment { sequence: 1_801, ack: Some(1), payload: &[0; 216], ..TcpSegment::default() };
    packets.push((50_030, 1, segment(CLIENT, SERVER, &both)));
    let found = analysed(&packets);
    assert_eq!((found.summary.packets_again, found.again), (0, vec![24]));
}

#[test]
fn data_that_the_capture_holds_behind_its_acknowledgement_was_not_sent_again() {
    let mut packets = handshake();
    packets.extend([data(50_000, 0, 0), ack(50_100, 1, &[])]);
    for index in 1..5 {
        let at_us = 50_000 + 100_000 * u64::from(index);
        packets.extend([ack(at_us, index + 1, &[]), data(at_us + 20, 0, index)]);
    }
    // Data that comes a second after its acknowledgement was retransmitted.
    packets.extend([ack(700_000, 6, &[]), data(1_700_000, 0, 5)]);
    let found = analysed(&packets);
    let last = found.summary.packets;
    assert_eq!((found.again, found.late), (vec![last], vec![7, 9, 11, 13]));
    let stream = &found.streams[0];
    assert_eq!((stream.repair.first_copies, stream.traffic.unseen_bytes), (5, 100));
}

/// A byte or more of the client at this place of its stream.
fn bytes(at_us: u64, offset: u32, len: usize) -> Captured {
    let payload = vec![0; len];
    let sent = TcpSegment { sequence: 1 + offset, ack: Some(1), payload: &payload, ..TcpSegment::default() };
    (at_us, 0, segment(CLIENT, SERVER, &sent))
}

/// An acknowledgement up to this place, with this window.
fn window(at_us: u64, through: u32, window: u16) -> Captured {
    let heard = TcpSegment { sequence: 1, ack: Some(1 + through), window, ..TcpSegment::default() };
    (at_us, 0, segment(SERVER, CLIENT, &heard))
}

#[test]
fn probes_of_a_closed_window_and_keep_alives_are_neither_data_nor_losses() {
    let mut packets = handshake();
    packets.extend([bytes(50_000, 0, 100), window(90_000, 100, 0)]);
    for probe in 1..4 {
        let at_us = 50_000 + 300_000 * probe;
        packets.extend([bytes(at_us, 100, 1), window(at_us + 40_000, 100, 0)]);
    }
    // The receiver takes the byte of a probe, though it has no more room.
    packets.extend([bytes(1_250_000, 100, 1), window(1_290_000, 101, 0), window(1_400_000, 101, 1_000)]);
    packets.extend([bytes(1_450_000, 101, 99), window(1_490_000, 200, 1_000)]);
    // Long after that the sender sends a keep-alive.
    packets.extend([bytes(9_000_000, 199, 1), window(9_040_000, 200, 1_000)]);
    packets.extend([bytes(9_100_000, 200, 100), window(9_140_000, 300, 1_000)]);
    let found = analysed(&packets);
    assert_eq!((found.again, found.late), (vec![], vec![]));
    let stream = &found.streams[0];
    let sizes = &stream.traffic.payload_bytes;
    assert_eq!((sizes.count(), sizes.min(), stream.repair.first_copies), (3, Some(99), 3));
    assert_eq!((stream.traffic.probes, stream.traffic.unseen_bytes), (5, 0));
}

#[test]
fn a_connection_that_only_keeps_alive_carries_no_data() {
    let packets: Vec<Captured> = (0..5)
        .flat_map(|second| [bytes(second * 1_000_000, 499, 1), window(second * 1_000_000 + 40_000, 500, 1_000)])
        .collect();
    // That the first byte was sent before is not known until it is acknowledged.
    let found = analysed(&[vec![window(0, 500, 1_000)], packets].concat());
    assert_eq!(found.streams.len(), 0);
}

#[test]
fn segments_in_fragments_are_analysed_whole_and_fragments_alone_are_counted() {
    let mut packets = handshake();
    for index in 0..10 {
        let at_us = 50_000 + 100_000 * u64::from(index);
        let number = 900 + u16::try_from(index).expect("few");
        let (_, _, whole) = data(at_us, number, index);
        let (header, payload) = whole.split_at(20);
        let piece = |range: std::ops::Range<usize>, place: [u8; 2]| {
            let mut piece = [header, &payload[range]].concat();
            let len = u16::try_from(piece.len()).expect("short");
            piece[2..4].copy_from_slice(&len.to_be_bytes());
            piece[6..8].copy_from_slice(&place);
            piece
        };
        let pieces = [piece(0..64, [0x20, 0]), piece(64..120, [0, 8])];
        // The capture holds them in either order, and of the last segment only one.
        let order = if index % 2 == 0 { [0, 1] } else { [1, 0] };
        let captured = order.map(|place| (at_us, number, pieces[place].clone()));
        packets.extend_from_slice(if index < 9 { &captured } else { &captured[..1] });
        packets.push(ack(at_us + 40_000, index + 1, &[]));
    }
    let found = analysed(&packets);
    let stream = &found.streams[0];
    let sizes = &stream.traffic.payload_bytes;
    assert_eq!((sizes.count(), sizes.min(), sizes.max()), (9, Some(100), Some(100)));
    assert_eq!((found.again, found.summary.packets_other, stream.traffic.unseen_bytes), (vec![], 1, 100));
}
