//! Captures at both ends: which connections they share, and which data arrived.

use std::net::SocketAddr;

use festina_trace::analysis::columns::{COLUMNS, Value};
use festina_trace::{
    Analyser, Cause, Finding, PcapngWriter, ReceiverSide, StreamReport, TcpSegment, analyse, encapsulate_tcp, ip,
};
use festina_units::{EcnCodepoint, Instant};

const ONE_WAY_MS: u64 = 20;
const MS: u64 = 1_000_000;

type Packets = Vec<(u64, Vec<u8>)>;

/// The packets that each end sees, with their times in milliseconds.
#[derive(Clone, Default)]
struct Path {
    sender: Packets,
    receiver: Packets,
}

impl Path {
    fn forward(&mut self, at_ms: u64, packet: Vec<u8>) {
        self.receiver.push((at_ms + ONE_WAY_MS, packet.clone()));
        self.lost(at_ms, packet);
    }

    fn lost(&mut self, at_ms: u64, packet: Vec<u8>) {
        self.sender.push((at_ms, packet));
    }

    fn back(&mut self, at_ms: u64, packet: Vec<u8>) {
        self.receiver.push((at_ms, packet.clone()));
        self.sender.push((at_ms + ONE_WAY_MS, packet));
    }

    /// The sender's streams, from both captures.
    fn analysed(&self) -> Vec<StreamReport> {
        let [sender, receiver] = [&self.sender, &self.receiver].map(capture);
        let mut side = ReceiverSide::read(receiver.as_slice()).expect("a sound capture");
        side.align(sender.as_slice()).expect("a sound capture");
        let mut streams = Vec::new();
        let (_, result) = analyse(sender.as_slice(), Analyser::default().with_receiver(side), |finding| {
            if let Finding::Stream(stream) = finding {
                streams.push(*stream);
            }
        });
        result.expect("a sound capture");
        streams
    }

    /// The number of deliveries of each stream, and the longest, in milliseconds.
    fn delivered(&self) -> Vec<(u64, Option<u64>)> {
        let delays = |stream: &StreamReport| {
            (stream.delays.delivered_ns.count(), stream.delays.delivered_ns.max().map(|ns| ns / MS))
        };
        self.analysed().iter().map(delays).collect()
    }
}

fn capture(packets: &Packets) -> Vec<u8> {
    let mut sorted = packets.clone();
    sorted.sort_by_key(|(at_ms, _)| *at_ms);
    let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
    let interface = writer.add_interface("only").expect("written");
    for (at_ms, packet) in sorted {
        writer.write_packet(interface, Instant::from_millis(at_ms), &packet, None).expect("written");
    }
    writer.finish().expect("memory does not fail")
}

fn ends() -> [SocketAddr; 2] {
    [([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 80).into()]
}

/// A TCP connection: a handshake, and ten segments of 100 bytes.
fn tcp(path: &mut Path, at_ms: u64, initial: u32) {
    let [client, server] = ends();
    let packet = |from, to, segment: &TcpSegment<'_>| encapsulate_tcp(from, to, segment).expect("short");
    let (first, answer) = (initial.wrapping_add(1), initial ^ 0x1234_5678);
    path.forward(at_ms, packet(client, server, &TcpSegment { sequence: initial, syn: true, ..TcpSegment::default() }));
    let accept = TcpSegment { sequence: answer, ack: Some(first), syn: true, ..TcpSegment::default() };
    path.back(at_ms + ONE_WAY_MS, packet(server, client, &accept));
    for index in 0..10 {
        let (at_ms, sequence) = (at_ms + 100 * (1 + u64::from(index)), first.wrapping_add(100 * index));
        let ack = Some(answer.wrapping_add(1));
        path.forward(
            at_ms,
            packet(client, server, &TcpSegment { sequence, ack, payload: &[0; 100], ..TcpSegment::default() }),
        );
        let ack = Some(sequence.wrapping_add(100));
        let sequence = answer.wrapping_add(1);
        path.back(at_ms + ONE_WAY_MS, packet(server, client, &TcpSegment { sequence, ack, ..TcpSegment::default() }));
    }
}

/// An SCTP packet with these chunks, from the client or to it.
fn sctp(is_client: bool, chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = if is_client { [0x13, 0x88, 0x13, 0x89] } else { [0x13, 0x89, 0x13, 0x88] }.to_vec();
    bytes.extend([0; 8]);
    bytes.extend(chunks.concat());
    let [client, server] = ends().map(|end| end.ip());
    let (from, to) = if is_client { (client, server) } else { (server, client) };
    ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, &bytes).expect("short")
}

/// A chunk; `body` takes whole words.
fn chunk(chunk_type: u8, flags: u8, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let len = u16::try_from(4 + body.len()).expect("short");
    [&[chunk_type, flags], &len.to_be_bytes()[..], &body].concat()
}

/// An unordered message, or a part of one.
fn message(tsn: u32, flags: u8) -> Vec<u8> {
    chunk(0, 4 | flags, &[&tsn.to_be_bytes(), &[0; 8], &[0; 100]])
}

fn init(chunk_type: u8, tsn: u32) -> Vec<u8> {
    chunk(chunk_type, 0, &[&[0; 12], &tsn.to_be_bytes()])
}

fn sack(cumulative: u32) -> Vec<u8> {
    chunk(3, 0, &[&cumulative.to_be_bytes(), &[0, 0, 0xff, 0xff], &[0; 4]])
}

const WHOLE: u8 = 3;

/// An SCTP association with ten messages.
fn association(path: &mut Path, at_ms: u64, initial: u32) {
    path.forward(at_ms, sctp(true, &[init(1, initial)]));
    path.back(at_ms + ONE_WAY_MS, sctp(false, &[init(2, initial ^ 0x1234_5678)]));
    for index in 0..10 {
        let (at_ms, tsn) = (at_ms + 100 * (1 + u64::from(index)), initial.wrapping_add(index));
        path.forward(at_ms, sctp(true, &[message(tsn, WHOLE)]));
        path.back(at_ms + ONE_WAY_MS, sctp(false, &[sack(tsn)]));
    }
}

#[test]
fn connections_with_the_same_ports_have_their_own_deliveries_whatever_their_first_numbers() {
    for open in [tcp, association] {
        for initial in [500_000_000, 2_000_000_100, 3_000_000_000] {
            let mut path = Path::default();
            open(&mut path, 1_000_000, 2_000_000_000);
            open(&mut path, 1_060_000, initial);
            assert_eq!(path.delivered(), [(10, Some(ONE_WAY_MS)); 2], "{initial}");
        }
    }
}

#[test]
fn connections_are_recognised_by_their_data_if_a_capture_lacks_their_beginning() {
    let mut path = Path::default();
    tcp(&mut path, 1_000_000, 2_000_000_000);
    tcp(&mut path, 1_060_000, 2_000_500_000);
    let without = |packets: &Packets, from_ms, to_ms| -> Packets {
        packets.iter().filter(|(at_ms, _)| !(from_ms..to_ms).contains(at_ms)).cloned().collect()
    };
    let late = Path { sender: without(&path.sender, 0, 1_000_150), ..path.clone() };
    assert_eq!(late.delivered(), [(9, Some(ONE_WAY_MS)), (10, Some(ONE_WAY_MS))], "at the sender");
    // The second connection is the first in the receiver's capture.
    let late = Path { receiver: without(&path.receiver, 0, 1_060_150), ..path.clone() };
    assert_eq!(late.delivered(), [(0, None), (9, Some(ONE_WAY_MS))], "at the receiver");
    let missing = Path { sender: without(&path.sender, 0, 1_030_000), ..path };
    assert_eq!(missing.delivered(), [(10, Some(ONE_WAY_MS))], "the receiver has another one before it");
}

#[test]
fn deliveries_are_known_from_the_beginning_of_a_transfer_of_three_gigabytes() {
    const SEGMENT: u16 = 60_000;
    let [client, server] = ends();
    let mut path = Path::default();
    for index in 0..50_000u32 {
        let (at_ms, sequence) = (100 * u64::from(index), index.wrapping_mul(SEGMENT.into()));
        let segment = TcpSegment { sequence, ack: Some(1), ..TcpSegment::default() };
        let mut packet = encapsulate_tcp(client, server, &segment).expect("short");
        // The payload was not captured.
        packet[2..4].copy_from_slice(&(40 + SEGMENT).to_be_bytes());
        path.forward(at_ms, packet);
        let segment =
            TcpSegment { sequence: 1, ack: Some(sequence.wrapping_add(SEGMENT.into())), ..TcpSegment::default() };
        path.back(at_ms + ONE_WAY_MS, encapsulate_tcp(server, client, &segment).expect("short"));
    }
    assert_eq!(path.delivered(), [(50_000, Some(ONE_WAY_MS))]);
}

/// Five messages, a second apart: the fourth is lost, and `skip` abandons it half a second later.
fn with_an_abandoned_message(skip: &Vec<u8>) -> Path {
    let mut path = Path::default();
    path.forward(999_900, sctp(true, &[init(1, 1_000)]));
    path.back(999_920, sctp(false, &[init(2, 77)]));
    for index in 0..5 {
        let (at_ms, tsn) = (1_000_000 + 1_000 * u64::from(index), 1_000 + index);
        let packet = sctp(true, &[message(tsn, WHOLE)]);
        if index == 3 {
            path.lost(at_ms, packet);
            path.forward(at_ms + 500, sctp(true, std::slice::from_ref(skip)));
            path.back(at_ms + 520, sctp(false, &[sack(tsn)]));
        } else {
            path.forward(at_ms, packet);
            path.back(at_ms + ONE_WAY_MS, sctp(false, &[sack(tsn)]));
        }
    }
    path
}

#[test]
fn abandoned_messages_are_neither_acknowledged_nor_delivered() {
    let skips = [
        chunk(192, 0, &[&1_003u32.to_be_bytes()]),
        chunk(194, 0, &[&1_003u32.to_be_bytes()]),
        // The peer has acknowledged 1002, and one block skips the next.
        chunk(245, 0, &[&1_002u32.to_be_bytes(), &[0, 1, 0, 0], &[0, 1, 0, 1]]),
    ];
    for skip in skips {
        let path = with_an_abandoned_message(&skip);
        assert_eq!(path.delivered(), [(4, Some(ONE_WAY_MS))]);
        let [stream] = path.analysed().try_into().expect("one stream");
        let acknowledged = &stream.delays.acknowledged_ns;
        assert_eq!((acknowledged.count(), acknowledged.max()), (4, Some(2 * ONE_WAY_MS * MS)));
        assert_eq!(stream.rtt_ns.max(), Some(2 * ONE_WAY_MS * MS));
        let column = COLUMNS.iter().position(|name| *name == "abandoned").expect("there is one");
        assert_eq!((stream.repair.abandoned, &stream.values()[column]), (1, &Value::Count(1)));
    }
}

#[test]
fn a_message_that_never_arrived_has_no_delivery() {
    // The FORWARD-TSN is not in the sender's capture.
    let mut path = with_an_abandoned_message(&chunk(192, 0, &[&1_003u32.to_be_bytes()]));
    path.sender.retain(|(at_ms, _)| *at_ms != 1_003_500);
    assert_eq!(path.delivered(), [(4, Some(ONE_WAY_MS))]);
}

#[test]
fn a_message_is_abandoned_as_a_whole_and_one_that_was_reported_before_is_not() {
    const BEGINNING: u8 = 2;
    const END: u8 = 1;
    let mut path = Path::default();
    let gap = chunk(3, 0, &[&999u32.to_be_bytes(), &[0, 0, 0xff, 0xff], &[0, 1, 0, 0], &[0, 2, 0, 3]]);
    path.forward(0, sctp(true, &[init(1, 1_000)]));
    path.lost(1_000, sctp(true, &[message(1_000, BEGINNING)]));
    // The end of the message, and another message, arrive.
    path.forward(1_001, sctp(true, &[message(1_001, END)]));
    path.forward(1_002, sctp(true, &[message(1_002, WHOLE)]));
    path.back(1_022, sctp(false, &[gap]));
    path.forward(1_500, sctp(true, &[chunk(192, 0, &[&1_002u32.to_be_bytes()])]));
    path.back(1_520, sctp(false, &[sack(1_002)]));
    let [stream] = path.analysed().try_into().expect("one stream");
    assert_eq!((stream.repair.abandoned, stream.delays.acknowledged_ns.count()), (2, 1));
}

#[test]
fn a_busy_host_repairs_a_loss_fast_though_a_little_late() {
    let report = |last: u16| {
        chunk(3, 0, &[&999u32.to_be_bytes(), &[0, 0, 0xff, 0xff], &[0, 1, 0, 0], &[0, 2], &last.to_be_bytes()])
    };
    let causes = |reports: u16, late_ms: u64| {
        let mut path = Path::default();
        path.forward(0, sctp(true, &[init(1, 999)]));
        path.back(20, sctp(false, &[init(2, 77)]));
        // It shows the round trip.
        path.forward(500, sctp(true, &[message(999, WHOLE)]));
        path.back(500 + ONE_WAY_MS, sctp(false, &[sack(999)]));
        path.lost(1_000, sctp(true, &[message(1_000, WHOLE)]));
        for index in 1..=reports {
            let at_ms = 1_000 + 5 * u64::from(index);
            path.forward(at_ms, sctp(true, &[message(1_000 + u32::from(index), WHOLE)]));
            path.back(at_ms + ONE_WAY_MS, sctp(false, &[report(1 + index)]));
        }
        let reported_ms = 1_000 + 5 * u64::from(reports) + 2 * ONE_WAY_MS;
        path.forward(reported_ms + late_ms, sctp(true, &[message(1_000, WHOLE)]));
        let [stream] = path.analysed().try_into().expect("one stream");
        Cause::ALL.into_iter().zip(stream.repair.by_cause).find(|(_, count)| *count > 0).map(|(cause, _)| cause)
    };
    assert_eq!([0, 4].map(|late_ms| causes(3, late_ms)), [Some(Cause::Fast); 2]);
    assert_eq!(causes(3, 20), Some(Cause::Probe), "too late for an answer");
    assert_eq!(causes(1, 4), Some(Cause::Probe), "one report proves no loss");
}
