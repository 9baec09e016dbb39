//! What was sent again, what only came late, and what the capture holds twice.

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

/// An acknowledgement of so many of them.
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
    assert_eq!((found.again, found.late), (vec![9], vec![]), "sent after what it follows");
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
    // The server sees data and acknowledges it at once: what it measures is not the path's round trip of 40 ms.
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
