//! Bundles chunks into one packet (RFC 9260 §6.10), appended to a buffer that the caller owns and reuses.

use super::cause::Cause;
use super::checksum::{CHECKSUM_RANGE, checksum_of_zeroed};
use super::chunk::{
    DATA_HEADER_BYTES, DataHeader, I_DATA_HEADER_BYTES, IDataHeader, InitOut, ReConfigParameter, SkippedMessage,
    SkippedRun, TAG_REFLECTED, UnknownChunk, row_flags, write_enhanced_forward_tsn, write_forward_tsn,
    write_i_forward_tsn, write_nr_sack, write_repair, write_sack,
};
use super::chunk_type;
use super::encode::Encoder;
use super::packet::CommonHeader;
use super::parameter::Parameter;
use super::serial::{Ssn, StreamId, Tsn};
use super::tlv::padding;
use super::{CHUNK_HEADER_BYTES, COMMON_HEADER_BYTES};

/// Writes one packet at the end of a buffer. What the buffer held before stays untouched.
///
/// Chunks are added until one does not fit, then [`finish`](Self::finish) fills in the checksum. Dropping the builder
/// instead leaves an unfinished packet behind; [`abandon`](Self::abandon) removes it.
#[derive(Debug)]
#[must_use = "the packet has no checksum until it is finished"]
pub struct PacketBuilder<'b> {
    buffer: &'b mut Vec<u8>,
    start: usize,
    /// Length of the common header, or 0 if the layer below has one of its own.
    header_bytes: usize,
    packet_bytes_max: usize,
}

/// A control chunk to be written. DATA, I-DATA, SACK and NR-SACK have methods of their own on [`PacketBuilder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkOut<'a> {
    /// The first chunk of the handshake.
    Init(InitOut<'a>),
    /// The answer to INIT; the State Cookie must be among its parameters.
    InitAck(InitOut<'a>),
    /// A probe of the path.
    Heartbeat {
        /// Opaque data that the peer returns.
        info: &'a [u8],
    },
    /// The echo of a probe.
    HeartbeatAck {
        /// As it stood in the HEARTBEAT.
        info: &'a [u8],
    },
    /// The end, at once.
    Abort {
        /// The T bit: the packet carries the tag of the packet it answers (RFC 9260 §8.5.1).
        tag_reflected: bool,
        /// The reasons, possibly none.
        causes: &'a [Cause<'a>],
    },
    /// The sender will send no new data.
    Shutdown {
        /// The highest TSN up to which everything has arrived.
        cumulative_tsn: Tsn,
    },
    /// Nor will the answering side.
    ShutdownAck,
    /// Something was wrong, but not fatally so.
    Error {
        /// At least one.
        causes: &'a [Cause<'a>],
    },
    /// The State Cookie, returned as it came.
    CookieEcho(&'a [u8]),
    /// The cookie was good.
    CookieAck,
    /// The end of a graceful shutdown.
    ShutdownComplete {
        /// The T bit: the packet carries the tag of the packet it answers (RFC 9260 §8.5.1).
        tag_reflected: bool,
    },
    /// Missing chunks up to a TSN are abandoned.
    ForwardTsn {
        /// Everything up to this TSN counts as received.
        new_cumulative: Tsn,
        /// For each stream that has lost ordered messages the last of them.
        streams: &'a [(StreamId, Ssn)],
    },
    /// As FORWARD-TSN, for I-DATA.
    IForwardTsn {
        /// Everything up to this TSN counts as received.
        new_cumulative: Tsn,
        /// For each stream that has lost messages the last ordered and the last unordered of them.
        streams: &'a [SkippedMessage],
    },
    /// Chunks that may lie apart are abandoned.
    EnhancedForwardTsn {
        /// The sender's Cumulative TSN Ack Point.
        cumulative: Tsn,
        /// Offsets from it of the first and last TSN of each block: ascending, with at least one TSN between two blocks.
        blocks: &'a [(u16, u16)],
        /// The abandoned messages.
        messages: &'a [SkippedRun],
    },
    /// Requests and responses that change streams: at least one parameter.
    ReConfig(&'a [ReConfigParameter<'a>]),
    /// A weighted sum of chunks that carry user data, or the answer to such sums.
    Repair {
        /// TSN of the first of them.
        first: Tsn,
        /// Bit `n`, counted from the lowest, stands for the chunk with the TSN `first` + `n`.
        mask: u16,
        /// Row of weights, from 0 to 7.
        row: u8,
        /// The sum; empty to report that these chunks were computed.
        sum: &'a [u8],
    },
    /// The network marked a packet.
    Ecne {
        /// The lowest TSN in it.
        tsn: Tsn,
        /// Packets that came with the mark since the last CWR, this one included.
        packets: u32,
    },
    /// The window was reduced for that TSN.
    Cwr(Tsn),
    /// Any chunk, as it is.
    Unknown(UnknownChunk<'a>),
}

impl<'b> PacketBuilder<'b> {
    /// Starts a packet of at most `packet_bytes_max` bytes, including the common header, at the end of `buffer`.
    #[inline]
    pub fn new(buffer: &'b mut Vec<u8>, header: CommonHeader, packet_bytes_max: usize) -> Self {
        let start = buffer.len();
        buffer.extend_from_slice(&header.to_bytes());
        Self { buffer, start, header_bytes: COMMON_HEADER_BYTES, packet_bytes_max }
    }

    /// As [`new`](Self::new), but without the common header, which is counted all the same. [`finish_unchecked`](Self::finish_unchecked) ends it.
    #[inline]
    pub(crate) fn without_header(buffer: &'b mut Vec<u8>, packet_bytes_max: usize) -> Self {
        let (start, packet_bytes_max) = (buffer.len(), packet_bytes_max.saturating_sub(COMMON_HEADER_BYTES));
        Self { buffer, start, header_bytes: 0, packet_bytes_max }
    }

    /// Whether no chunk has been written yet.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packet_bytes() == self.header_bytes
    }

    /// Removes all chunks again.
    pub(crate) fn clear(&mut self) {
        self.buffer.truncate(self.start + self.header_bytes);
    }

    /// Reserves room for a chunk of this many bytes, padding included, even beyond the packet's limit.
    pub(crate) fn admit(&mut self, chunk_bytes: usize) {
        self.packet_bytes_max = self.packet_bytes_max.max(self.packet_bytes() + chunk_bytes);
    }

    /// Bytes left for whole chunks, their headers included: a multiple of four, so that padding always has room.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.packet_bytes_max.saturating_sub(self.packet_bytes()) & !3
    }

    /// Adds a DATA chunk. False, with nothing written, if it does not fit into the packet.
    #[inline]
    pub fn data(&mut self, header: &DataHeader, payload: &[u8]) -> bool {
        self.payload_chunk::<DATA_HEADER_BYTES>(|length| header.to_bytes(length), payload)
    }

    /// Adds an I-DATA chunk. False, with nothing written, if it does not fit into the packet.
    pub fn i_data(&mut self, header: &IDataHeader, payload: &[u8]) -> bool {
        self.payload_chunk::<I_DATA_HEADER_BYTES>(|length| header.to_bytes(length), payload)
    }

    #[inline]
    fn payload_chunk<const N: usize>(&mut self, header: impl FnOnce(u16) -> [u8; N], payload: &[u8]) -> bool {
        let length = N.saturating_add(payload.len());
        let Ok(wire_length) = u16::try_from(length) else {
            return false;
        };
        if length > self.remaining() {
            return false;
        }
        self.buffer.reserve(length + padding(length));
        self.buffer.extend_from_slice(&header(wire_length));
        self.buffer.extend_from_slice(payload);
        self.buffer.resize(self.buffer.len() + padding(length), 0);
        true
    }

    /// Appends a SACK, truncating its block lists to fit the packet: first gap ack blocks, then duplicates (RFC 9260 §6.7: the lowest blocks come
    /// first). Returns `false`, with nothing written, if not even its fixed part fits.
    #[inline]
    pub fn sack(
        &mut self,
        cumulative: Tsn,
        a_rwnd: u32,
        gaps: impl Iterator<Item = (u16, u16)>,
        dups: impl Iterator<Item = Tsn>,
    ) -> bool {
        let room = self.remaining();
        write_sack(self.buffer, room, (cumulative, a_rwnd), gaps, dups)
    }

    /// Appends an NR-SACK, truncating its block lists to fit the packet: gap ack blocks, then non-renegable ones, then duplicates. Returns `false`,
    /// with nothing written, if not even its fixed part fits.
    pub fn nr_sack(
        &mut self,
        (cumulative, a_rwnd): (Tsn, u32),
        gaps: impl Iterator<Item = (u16, u16)>,
        nr_gaps: impl Iterator<Item = (u16, u16)>,
        dups: impl Iterator<Item = Tsn>,
    ) -> bool {
        let room = self.remaining();
        write_nr_sack(self.buffer, room, (cumulative, a_rwnd), gaps, nr_gaps, dups)
    }

    /// Adds a control chunk. False, with nothing written, if it does not fit into the packet or a field within it is
    /// too long for its 16-bit length.
    pub fn chunk(&mut self, chunk: &ChunkOut<'_>) -> bool {
        let room = self.remaining();
        let before = self.buffer.len();
        let mut encoder = Encoder::new(self.buffer, self.start);
        chunk.write(&mut encoder);
        let fits = encoder.finish() && self.buffer.len() - before <= room;
        if !fits {
            self.buffer.truncate(before);
        }
        fits
    }

    /// Fills the packet up to its limit with a PAD chunk (RFC 4820).
    pub(crate) fn pad(&mut self) {
        let room = self.remaining();
        if let Ok(length) = u16::try_from(room)
            && room >= CHUNK_HEADER_BYTES
        {
            self.buffer.extend_from_slice(&[chunk_type::PAD, 0]);
            self.buffer.extend_from_slice(&length.to_be_bytes());
            self.buffer.resize(self.buffer.len() + room - CHUNK_HEADER_BYTES, 0);
        }
    }

    /// Fills in the checksum and returns the packet's length in bytes. A packet without a chunk is removed: zero.
    #[inline]
    pub fn finish(self) -> usize {
        if self.is_empty() {
            self.abandon();
            return 0;
        }
        let Some(packet) = self.buffer.get_mut(self.start..) else {
            return 0;
        };
        let checksum = checksum_of_zeroed(packet).to_le_bytes();
        if let Some(field) = packet.get_mut(CHECKSUM_RANGE) {
            field.copy_from_slice(&checksum);
        }
        packet.len()
    }

    /// As [`finish`](Self::finish), with a checksum of zero: for a peer that takes that, and not for INIT and COOKIE ECHO (RFC 9653 §5.2).
    #[inline]
    pub fn finish_unchecked(self) -> usize {
        if self.is_empty() {
            self.abandon();
            return 0;
        }
        self.packet_bytes()
    }

    /// Removes the packet from the buffer.
    #[inline]
    pub fn abandon(self) {
        self.buffer.truncate(self.start);
    }

    #[inline]
    fn packet_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }
}

impl ChunkOut<'_> {
    fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.frame(self.kind(), |encoder| match self {
            Self::Init(init) | Self::InitAck(init) => init.write(encoder),
            Self::Heartbeat { info } | Self::HeartbeatAck { info } => {
                Parameter::HeartbeatInfo(info).write(encoder);
            }
            Self::Abort { causes, .. } | Self::Error { causes } => {
                for cause in *causes {
                    cause.write(encoder);
                }
            }
            Self::Shutdown { cumulative_tsn } => encoder.put(&cumulative_tsn.0.to_be_bytes()),
            Self::CookieEcho(cookie) => encoder.put(cookie),
            Self::ForwardTsn { new_cumulative, streams } => write_forward_tsn(encoder, *new_cumulative, streams),
            Self::IForwardTsn { new_cumulative, streams } => write_i_forward_tsn(encoder, *new_cumulative, streams),
            Self::EnhancedForwardTsn { cumulative, blocks, messages } => {
                write_enhanced_forward_tsn(encoder, *cumulative, blocks, messages);
            }
            Self::ReConfig(parameters) => {
                for parameter in *parameters {
                    parameter.write(encoder);
                }
            }
            Self::Repair { first, mask, sum, .. } => write_repair(encoder, *first, *mask, sum),
            Self::Ecne { tsn, packets } => {
                encoder.put(&tsn.0.to_be_bytes());
                encoder.put(&packets.to_be_bytes());
            }
            Self::Cwr(tsn) => encoder.put(&tsn.0.to_be_bytes()),
            Self::Unknown(unknown) => encoder.put(unknown.value()),
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete { .. } => {}
        });
    }

    /// Type and flags.
    fn kind(&self) -> [u8; 2] {
        let t_bit = |tag_reflected: bool| if tag_reflected { TAG_REFLECTED } else { 0 };
        match *self {
            Self::Init(_) => [chunk_type::INIT, 0],
            Self::InitAck(_) => [chunk_type::INIT_ACK, 0],
            Self::Heartbeat { .. } => [chunk_type::HEARTBEAT, 0],
            Self::HeartbeatAck { .. } => [chunk_type::HEARTBEAT_ACK, 0],
            Self::Abort { tag_reflected, .. } => [chunk_type::ABORT, t_bit(tag_reflected)],
            Self::Shutdown { .. } => [chunk_type::SHUTDOWN, 0],
            Self::ShutdownAck => [chunk_type::SHUTDOWN_ACK, 0],
            Self::Error { .. } => [chunk_type::ERROR, 0],
            Self::CookieEcho(_) => [chunk_type::COOKIE_ECHO, 0],
            Self::CookieAck => [chunk_type::COOKIE_ACK, 0],
            Self::ShutdownComplete { tag_reflected } => [chunk_type::SHUTDOWN_COMPLETE, t_bit(tag_reflected)],
            Self::ForwardTsn { .. } => [chunk_type::FORWARD_TSN, 0],
            Self::IForwardTsn { .. } => [chunk_type::I_FORWARD_TSN, 0],
            Self::EnhancedForwardTsn { .. } => [chunk_type::ENHANCED_FORWARD_TSN, 0],
            Self::ReConfig(_) => [chunk_type::RE_CONFIG, 0],
            Self::Repair { row, .. } => [chunk_type::REPAIR, row_flags(row)],
            Self::Ecne { .. } => [chunk_type::ECNE, 0],
            Self::Cwr(_) => [chunk_type::CWR, 0],
            Self::Unknown(unknown) => [unknown.chunk_type(), unknown.flags()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Chunk, Packet, Ssn, StreamId};

    const COMMON: CommonHeader = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };
    const DATA: DataHeader = DataHeader {
        tsn: Tsn(1),
        stream: StreamId(2),
        ssn: Ssn(3),
        ppid: 4,
        unordered: false,
        beginning: true,
        end: true,
        immediate: false,
    };

    #[test]
    fn a_packet_without_chunks_leaves_no_trace() {
        let mut buffer = vec![7];
        let builder = PacketBuilder::new(&mut buffer, COMMON, 1200);
        assert!(builder.is_empty());
        assert_eq!(builder.finish(), 0);
        assert_eq!(buffer, [7]);
    }

    #[test]
    fn an_abandoned_packet_leaves_no_trace() {
        let mut buffer = vec![7];
        let mut builder = PacketBuilder::new(&mut buffer, COMMON, 1200);
        assert!(builder.data(&DATA, b"gone"));
        builder.abandon();
        assert_eq!(buffer, [7]);
    }

    #[test]
    fn packets_follow_each_other_in_one_buffer_at_any_offset() {
        let mut buffer = vec![7];
        let mut ends = Vec::new();
        for payload in [&b"a"[..], b"bcdef"] {
            let mut builder = PacketBuilder::new(&mut buffer, COMMON, 1200);
            assert!(builder.data(&DATA, payload));
            assert!(builder.chunk(&ChunkOut::CookieEcho(b"cookie")));
            ends.push(builder.finish());
        }
        assert_eq!(ends, [12 + 20 + 12, 12 + 24 + 12]);
        let (first, second) = buffer[1..].split_at(ends[0]);
        for (packet, payload) in [(first, &b"a"[..]), (second, b"bcdef")] {
            let chunks: Vec<_> = Packet::parse(packet).expect("sound").chunks().flatten().collect();
            assert!(matches!(chunks[..], [Chunk::Data(data), Chunk::CookieEcho(b"cookie")] if data.payload == payload));
        }
    }

    #[test]
    fn the_room_left_is_whole_words_and_is_used_to_the_last() {
        let mut buffer = Vec::new();
        let mut builder = PacketBuilder::new(&mut buffer, COMMON, 12 + 20 + 8 + 3);
        assert_eq!(builder.remaining(), 28);
        assert!(builder.data(&DATA, b"x"));
        assert_eq!(builder.remaining(), 8);
        assert!(!builder.data(&DATA, b""));
        assert!(!builder.chunk(&ChunkOut::CookieEcho(b"12345")));
        assert!(builder.chunk(&ChunkOut::CookieEcho(b"1234")));
        assert_eq!(builder.remaining(), 0);
        assert!(!builder.chunk(&ChunkOut::CookieAck));
        assert_eq!(builder.finish(), 40);
    }

    #[test]
    fn a_limit_below_the_common_header_has_room_for_nothing() {
        let mut buffer = Vec::new();
        let mut builder = PacketBuilder::new(&mut buffer, COMMON, 5);
        assert_eq!(builder.remaining(), 0);
        assert!(!builder.data(&DATA, b""));
        assert!(!builder.chunk(&ChunkOut::CookieAck));
        assert!(!builder.sack(Tsn(0), 0, core::iter::empty(), core::iter::empty()));
        assert_eq!(builder.finish(), 0);
    }

    #[test]
    fn a_chunk_whose_fields_are_too_long_is_not_written() {
        let mut buffer = Vec::new();
        let mut builder = PacketBuilder::new(&mut buffer, COMMON, usize::MAX);
        let long = vec![0; 0x1_0000];
        assert!(!builder.chunk(&ChunkOut::CookieEcho(&long)));
        assert!(!builder.chunk(&ChunkOut::Error { causes: &[Cause::ProtocolViolation(&long)] }));
        assert!(!builder.chunk(&ChunkOut::Heartbeat { info: &long[..0xffff - 7] }));
        assert!(builder.is_empty());
        assert!(builder.chunk(&ChunkOut::Heartbeat { info: &long[..0xffff - 8] }));
    }

    #[test]
    fn a_buffer_with_capacity_is_not_reallocated() {
        let mut buffer = Vec::with_capacity(1200);
        let capacity = buffer.capacity();
        let mut builder = PacketBuilder::new(&mut buffer, COMMON, 1200);
        assert!(builder.sack(Tsn(0), 0, [(2, 2)].into_iter(), core::iter::empty()));
        let payload = vec![1; builder.remaining() - DATA_HEADER_BYTES];
        assert!(builder.data(&DATA, &payload));
        assert_eq!(builder.finish(), 1200);
        assert_eq!(buffer.capacity(), capacity);
    }
}
