//! Forges packets that only their content reveals.

use festina_sctp::wire::checksum::packet_checksum;
use festina_sctp::wire::{
    COMMON_HEADER_BYTES, Cause, Chunk, ChunkOut, CommonHeader, DataHeader, InitOut, Packet, PacketBuilder, Parameter,
    Ssn, StreamId, Tsn, UnknownChunk, UnknownParameter,
};
use festina_units::EcnCodepoint;

use crate::chunks::{CausePlan, ChunkPlan, ParameterPlan};

/// The largest UDP datagram, without its headers.
const FORGED_BYTES_MAX: usize = 65_480;

/// Filler for fields that carry bytes.
static FILL: [u8; 65_535] = [0x5a; 65_535];

/// Returns the ECN field with which a packet arrives. It depends on the checksum, so that all three occur, and the same
/// again for the same input.
pub(crate) fn ecn_of(packet: &[u8]) -> EcnCodepoint {
    EcnCodepoint::from_bits(packet.get(8).copied().unwrap_or_default())
}

/// The knowledge of an attacker that has listened.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// The TSN that the receiver of the packet expects.
    pub(crate) tsn_expected: u32,
    /// The highest TSN that it has sent.
    pub(crate) tsn_sent: u32,
    /// Cookies seen.
    pub(crate) cookies: Vec<Vec<u8>>,
}

/// A packet with these chunks, as far as they fit into a datagram.
pub(crate) fn forge(header: CommonHeader, chunks: &[ChunkPlan], knowledge: &Knowledge) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut packet = PacketBuilder::new(&mut bytes, header, FORGED_BYTES_MAX);
    for chunk in chunks {
        add(&mut packet, chunk, knowledge);
    }
    if packet.finish() == 0 { header_only(header) } else { bytes }
}

/// Records the data that an eavesdropper learns from a packet, and checks that every chunk is well formed.
pub(crate) fn learn(packet: &Packet<'_>, sender: &mut Knowledge, receiver: &mut Knowledge) {
    for chunk in packet.chunks() {
        match chunk.expect("a chunk that was sent is well formed") {
            Chunk::Data(data) => sender.tsn_sent = data.tsn.0,
            Chunk::Sack(sack) => sender.tsn_expected = sack.cumulative_tsn.0.wrapping_add(1),
            Chunk::Init(init) | Chunk::InitAck(init) => {
                sender.tsn_sent = init.initial_tsn.0.wrapping_sub(1);
                receiver.tsn_expected = init.initial_tsn.0;
                for parameter in init.parameters() {
                    if let Ok(Parameter::StateCookie(cookie)) = parameter {
                        // The side that created the cookie also accepts it.
                        sender.cookies.push(cookie.to_vec());
                    }
                }
            }
            Chunk::Error(errors) => assert!(errors.causes().all(|cause| cause.is_ok())),
            Chunk::Abort(abort) => assert!(abort.causes().all(|cause| cause.is_ok())),
            _ => {}
        }
    }
}

fn header_only(header: CommonHeader) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(header.source_port.to_be_bytes());
    bytes.extend(header.destination_port.to_be_bytes());
    bytes.extend(header.verification_tag.to_be_bytes());
    bytes.extend([0; 4]);
    seal(&mut bytes);
    bytes
}

/// Corrects the checksum.
pub(crate) fn seal(packet: &mut [u8]) {
    if let Some((header, chunks)) = packet.split_first_chunk_mut::<COMMON_HEADER_BYTES>() {
        let checksum = packet_checksum(header, chunks);
        header[8..].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn add(packet: &mut PacketBuilder<'_>, chunk: &ChunkPlan, knowledge: &Knowledge) {
    let near = |base: u32, offset: i16| Tsn(base.wrapping_add_signed(offset.into()));
    match chunk {
        ChunkPlan::Data { tsn, stream, ssn, flags, bytes } => {
            let header = data_header(near(knowledge.tsn_expected, *tsn), *stream, *ssn, *flags);
            packet.data(&header, fill(bytes % 2_000));
        }
        ChunkPlan::DataRow { tsn, step, count, stream, flags, bytes } => {
            let first = near(knowledge.tsn_expected, *tsn);
            for number in 0..u16::from(*count) {
                let tsn = Tsn(first.0.wrapping_add(u32::from(number) * u32::from(*step)));
                packet.data(&data_header(tsn, u16::from(*stream) * number, number, *flags), fill(u16::from(*bytes)));
            }
        }
        ChunkPlan::Sack { tsn, a_rwnd, gaps, duplicates } => {
            let duplicates = duplicates.iter().map(|&offset| near(knowledge.tsn_sent, offset));
            packet.sack(near(knowledge.tsn_sent, *tsn), *a_rwnd, gaps.iter().copied(), duplicates);
        }
        ChunkPlan::CookieEcho { which, change } => {
            let Some(cookie) = knowledge.cookies.get(usize::from(*which) % knowledge.cookies.len().max(1)) else {
                return;
            };
            let mut cookie = cookie.clone();
            if let Some((offset, xor)) = change
                && let Some(byte) = cookie.get_mut(usize::from(*offset))
            {
                *byte ^= xor;
            }
            packet.chunk(&ChunkOut::CookieEcho(&cookie));
        }
        ChunkPlan::Unknown { chunk_type, flags, bytes } => {
            let length = 4 + bytes % 3_000;
            let mut unknown = vec![*chunk_type, *flags];
            unknown.extend(length.to_be_bytes());
            unknown.extend_from_slice(fill(length - 4));
            if let Some(unknown) = UnknownChunk::from_bytes(&unknown) {
                packet.chunk(&ChunkOut::Unknown(unknown));
            }
        }
        other => add_control(packet, other, knowledge),
    }
}

fn add_control(packet: &mut PacketBuilder<'_>, chunk: &ChunkPlan, knowledge: &Knowledge) {
    match chunk {
        ChunkPlan::Init { ack, tag, a_rwnd, streams: (outbound_streams, inbound_streams), tsn, parameters } => {
            let parameters: Vec<_> = parameters.iter().flat_map(|plan| self::parameters(plan, knowledge)).collect();
            let init = InitOut {
                initiate_tag: *tag,
                a_rwnd: *a_rwnd,
                outbound_streams: *outbound_streams,
                inbound_streams: *inbound_streams,
                initial_tsn: Tsn(*tsn),
                parameters: &parameters,
            };
            packet.chunk(&if *ack { ChunkOut::InitAck(init) } else { ChunkOut::Init(init) });
        }
        ChunkPlan::CookieAck => drop(packet.chunk(&ChunkOut::CookieAck)),
        ChunkPlan::Heartbeat { bytes } => drop(packet.chunk(&ChunkOut::Heartbeat { info: fill(bytes % 3_000) })),
        ChunkPlan::HeartbeatAck { bytes } => drop(packet.chunk(&ChunkOut::HeartbeatAck { info: fill(bytes % 3_000) })),
        ChunkPlan::Error { causes } => drop(packet.chunk(&ChunkOut::Error { causes: &self::causes(causes) })),
        ChunkPlan::Abort { tag_reflected, causes } => {
            packet.chunk(&ChunkOut::Abort { tag_reflected: *tag_reflected, causes: &self::causes(causes) });
        }
        ChunkPlan::Shutdown { tsn } => {
            let cumulative_tsn = Tsn(knowledge.tsn_sent.wrapping_add_signed((*tsn).into()));
            packet.chunk(&ChunkOut::Shutdown { cumulative_tsn });
        }
        ChunkPlan::Ecne { tsn } => {
            let tsn = Tsn(knowledge.tsn_sent.wrapping_add_signed((*tsn).into()));
            packet.chunk(&ChunkOut::Ecne { tsn, packets: 1 });
        }
        ChunkPlan::Cwr { tsn } => {
            packet.chunk(&ChunkOut::Cwr(Tsn(knowledge.tsn_expected.wrapping_add_signed((*tsn).into()))));
        }
        ChunkPlan::ShutdownAck => drop(packet.chunk(&ChunkOut::ShutdownAck)),
        ChunkPlan::ShutdownComplete { tag_reflected } => {
            packet.chunk(&ChunkOut::ShutdownComplete { tag_reflected: *tag_reflected });
        }
        _ => unreachable!("the others are added elsewhere"),
    }
}

/// The low bits of `flags` are those of the wire: E, B, U, I.
fn data_header(tsn: Tsn, stream: u16, ssn: u16, flags: u8) -> DataHeader {
    DataHeader {
        tsn,
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        ppid: 7,
        end: flags & 1 != 0,
        beginning: flags & 2 != 0,
        unordered: flags & 4 != 0,
        immediate: flags & 8 != 0,
    }
}

fn parameters<'a>(plan: &'a ParameterPlan, knowledge: &'a Knowledge) -> Vec<Parameter<'a>> {
    vec![match plan {
        ParameterPlan::Cookie { bytes } => match knowledge.cookies.last() {
            Some(cookie) if *bytes == 0 => Parameter::StateCookie(cookie),
            _ => Parameter::StateCookie(fill(*bytes)),
        },
        ParameterPlan::Preservative(milliseconds) => Parameter::CookiePreservative(*milliseconds),
        ParameterPlan::HostName { bytes } => Parameter::HostName(fill(*bytes)),
        ParameterPlan::Extensions(chunk_types) => Parameter::SupportedExtensions(chunk_types),
        ParameterPlan::ForwardTsn => Parameter::ForwardTsnSupported,
        ParameterPlan::Ecn => Parameter::EcnCapable,
        ParameterPlan::Unknown { parameter_type, bytes, repeats } => {
            let unknown = UnknownParameter { parameter_type: *parameter_type, value: fill(bytes % 1_000) };
            return vec![Parameter::Unknown(unknown); 1 + usize::from(*repeats)];
        }
    }]
}

fn causes(plans: &[CausePlan]) -> Vec<Cause<'_>> {
    let cause = |plan: &CausePlan| match plan {
        CausePlan::StaleCookie(staleness_us) => (Cause::StaleCookie { staleness_us: *staleness_us }, 1),
        CausePlan::UserAbort { bytes } => (Cause::UserInitiatedAbort(fill(*bytes)), 1),
        CausePlan::Violation { bytes } => (Cause::ProtocolViolation(fill(*bytes)), 1),
        CausePlan::OutOfResource { repeats } => (Cause::OutOfResource, usize::from(*repeats) % 16_000),
        CausePlan::NoUserData(tsn) => (Cause::NoUserData(Tsn(*tsn)), 1),
        CausePlan::Unknown { code, bytes } => (Cause::Unknown { code: *code, value: fill(*bytes) }, 1),
    };
    plans
        .iter()
        .flat_map(|plan| {
            let (cause, count) = cause(plan);
            std::iter::repeat_n(cause, count)
        })
        .collect()
}

fn fill(bytes: u16) -> &'static [u8] {
    &FILL[..usize::from(bytes)]
}
