//! Packets in, messages and SACKs out: every test goes through real bytes on both sides.

mod apart;
mod delivery;
mod forward;
mod framings;
mod interleaved;
mod properties;
mod reassembly;
mod sack;
mod window;

use bytes::Bytes;
use festina_units::{Duration, Instant};

use super::assembly::cost::{self, QUEUE_ENTRY_BYTES, RUN_BYTES, WAITING_ENTRY_BYTES};
use super::{DataVerdict, ReceiveError, Receiver};
use crate::config::Config;
use crate::message::ReceivedMessage;
use crate::stats::ReceivedStats;
use crate::wire::chunk::DataHeader;
use crate::wire::{Chunk, CommonHeader, Framing, Packet, PacketBuilder, Ssn, StreamId, Tsn};

type Verdict = Result<DataVerdict, ReceiveError>;

const STREAMS: u16 = 8;
const PACKET_BYTES_MAX: usize = 1_232;
const HEADER: CommonHeader = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };

/// A DATA chunk to be received.
#[derive(Clone, Debug)]
struct Piece {
    header: DataHeader,
    payload: Vec<u8>,
}

/// A chunk with the B and E bits that `bits` names: "B", "M" (none), "E" or "BE".
fn piece(tsn: u32, stream: u16, ssn: u16, bits: &str, payload: impl Into<Vec<u8>>) -> Piece {
    let header = DataHeader {
        tsn: Tsn(tsn),
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        ppid: 0,
        unordered: false,
        beginning: bits.contains('B'),
        end: bits.contains('E'),
        immediate: false,
    };
    Piece { header, payload: payload.into() }
}

/// A whole message in one chunk.
fn whole(tsn: u32, stream: u16, ssn: u16, payload: impl Into<Vec<u8>>) -> Piece {
    piece(tsn, stream, ssn, "BE", payload)
}

impl Piece {
    fn unordered(mut self) -> Self {
        self.header.unordered = true;
        self
    }

    fn immediate(mut self) -> Self {
        self.header.immediate = true;
        self
    }

    fn ppid(mut self, ppid: u32) -> Self {
        self.header.ppid = ppid;
        self
    }
}

/// A SACK as the peer reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SackRead {
    cumulative: u32,
    a_rwnd: usize,
    gaps: Vec<(u16, u16)>,
    duplicates: Vec<u32>,
}

/// A receiver that waits for TSN 1, with a clock.
struct Rig {
    receiver: Receiver,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// With other settings than the defaults.
    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        Self { receiver: Receiver::new(&config, Tsn(1), STREAMS, Framing::Data), now: Instant::from_secs(1) }
    }

    /// Has one packet with these chunks arrive.
    fn packet(&mut self, pieces: &[Piece]) -> Vec<Verdict> {
        let bytes = packet_bytes(pieces);
        let verdicts = self.chunks_of(&bytes);
        self.receiver.packet_done(self.now);
        verdicts
    }

    fn chunks_of(&mut self, bytes: &Bytes) -> Vec<Verdict> {
        let packet = Packet::parse(bytes).unwrap();
        let data = packet.chunks().map(|chunk| match chunk.unwrap() {
            Chunk::Data(data) => data,
            other => panic!("{other:?} is not DATA"),
        });
        data.map(|data| self.receiver.handle_data(&data, bytes)).collect()
    }

    /// Has each chunk arrive in a packet of its own; each must be accepted.
    fn accept(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            assert_eq!(self.packet(std::slice::from_ref(piece)), [Ok(DataVerdict::Accepted)], "{piece:?}");
        }
    }

    /// Has each chunk arrive in a packet of its own; the last one, and no other, must break the protocol.
    fn violation(&mut self, pieces: &[Piece]) -> &'static str {
        let (last, others) = pieces.split_last().unwrap();
        self.accept(others);
        match self.packet(std::slice::from_ref(last)).as_slice() {
            [Err(ReceiveError::ProtocolViolation(what))] => what,
            other => panic!("{other:?} is no protocol violation"),
        }
    }

    /// Everything that can be fetched.
    fn messages(&mut self) -> Vec<ReceivedMessage> {
        std::iter::from_fn(|| self.receiver.poll_message()).collect()
    }

    /// The payloads of everything that can be fetched, as text.
    fn texts(&mut self) -> Vec<String> {
        self.messages().iter().map(|message| String::from_utf8(message.payload.to_vec()).unwrap()).collect()
    }

    /// Has a SACK written, wanted or not.
    fn sack(&mut self) -> SackRead {
        let mut buffer = Vec::new();
        let mut packet = PacketBuilder::new(&mut buffer, HEADER, PACKET_BYTES_MAX);
        assert!(self.receiver.write_sack(false, &mut packet));
        packet.finish();
        let packet = Packet::parse(&buffer).unwrap();
        match packet.chunks().next() {
            Some(Ok(Chunk::Sack(sack))) => SackRead {
                cumulative: sack.cumulative_tsn.0,
                a_rwnd: usize::try_from(sack.a_rwnd).unwrap(),
                gaps: sack.gap_ack_blocks().collect(),
                duplicates: sack.duplicates().map(|tsn| tsn.0).collect(),
            },
            other => panic!("{other:?} is not a SACK"),
        }
    }

    fn wait(&mut self, duration: Duration) {
        self.now += duration;
        self.receiver.handle_timeout(self.now);
    }
}

fn packet_bytes(pieces: &[Piece]) -> Bytes {
    let mut buffer = Vec::new();
    let mut packet = PacketBuilder::new(&mut buffer, HEADER, 65_000);
    for piece in pieces {
        assert!(packet.data(&piece.header, &piece.payload));
    }
    packet.finish();
    buffer.into()
}

/// What a packet with one such DATA chunk costs that a slice keeps alive.
fn packet_cost_bytes(payload_bytes: usize) -> usize {
    cost::packet_bytes(12 + 16 + payload_bytes.next_multiple_of(4))
}

/// What a message that came in a packet of its own costs while it can be fetched.
fn cost_bytes(payload_bytes: usize) -> usize {
    packet_cost_bytes(payload_bytes) + QUEUE_ENTRY_BYTES
}

#[test]
fn a_receiver_is_small() {
    assert!(size_of::<Receiver>() <= 352, "{} bytes", size_of::<Receiver>());
}

#[test]
fn messages_and_chunks_are_counted_and_a_restart_does_not_set_the_counters_back() {
    let mut rig = Rig::new();
    let pieces = [whole(1, 0, 0, "a"), whole(1, 0, 0, "a"), piece(2, 0, 1, "B", "b"), whole(40_000, 0, 2, "far")];
    rig.packet(&pieces);
    rig.packet(&[whole(3, 99, 0, "of no stream")]);
    rig.receiver.reset_for_restart(&Config::default(), Tsn(7), STREAMS, Framing::Data);
    assert_eq!(rig.messages().len(), 1);
    let mut stats = ReceivedStats::default();
    rig.receiver.fill_stats(&mut stats);
    let expected = ReceivedStats { messages: 1, chunks: 2, duplicates: 1, chunks_dropped: 1, ..stats.clone() };
    assert_eq!(stats, expected);
}

#[test]
fn after_a_restart_of_the_peer_tsns_and_ssns_begin_anew_and_only_whole_messages_in_order_survive() {
    let mut rig = Rig::new();
    rig.accept(&[
        whole(1, 0, 0, "fetched later"),
        piece(2, 0, 1, "B", "half a mess"),
        whole(5, 0, 3, "early"),
        piece(7, 1, 0, "M", "age"),
    ]);
    rig.receiver.reset_for_restart(&Config::default(), Tsn(500), 1, Framing::Data);
    assert_eq!(rig.sack().cumulative, 499);
    assert_eq!(rig.packet(&[whole(500, 0, 0, "fresh")]), [Ok(DataVerdict::Accepted)]);
    assert_eq!(rig.packet(&[whole(501, 1, 0, "x")]), [Ok(DataVerdict::InvalidStream(StreamId(1)))]);
    assert_eq!(rig.texts(), ["fetched later", "fresh"]);
    assert_eq!(rig.sack().a_rwnd, Config::default().limits.receive_buffer_bytes);
}
