//! Arbitrary bytes as a packet: reading all of it never panics, and the result can be written again.
//!
//! DATA, I-DATA, SACK and NR-SACK must give the same bytes again (except for padding and flags that receivers ignore);
//! control chunks must have the same contents after writing and reading again.

use festina_sctp::wire::{
    Cause, Causes, Chunk, ChunkOut, CommonHeader, Init, InitOut, Packet, PacketBuilder, Parameter, Parameters,
    ReConfigParameter, RepairChunk, chunk_type,
};

const HEADER: CommonHeader = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };
const COMMON_HEADER_BYTES: usize = 12;
/// The I, U, B and E bits of DATA; the others are reserved.
const DATA_FLAGS: u8 = 0x0f;
/// The bits of a row of weights; the others are reserved.
const REPAIR_FLAGS: u8 = 0x07;

/// Runs one input.
///
/// # Panics
/// If an invariant is broken.
pub fn run(bytes: &[u8]) {
    let verified = Packet::parse(bytes);
    let Ok(packet) = Packet::parse_unverified(bytes) else {
        assert!(verified.is_err());
        assert!(Packet::peek(bytes).is_err());
        return;
    };
    assert_eq!(Packet::peek(bytes), Ok(packet.header));
    let mut rest = &bytes[COMMON_HEADER_BYTES..];
    assert_eq!(Packet::first_chunk_type(bytes), rest.first().copied());
    for chunk in packet.chunks() {
        let Ok(chunk) = chunk else { return };
        let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        check(&chunk, &rest[..length]);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    assert!(rest.is_empty(), "the walk ended early without an error");
}

/// `original` is the chunk as received, without padding.
fn check(chunk: &Chunk<'_>, original: &[u8]) {
    assert_eq!(chunk.chunk_type(), original[0]);
    match chunk {
        Chunk::Data(data) => {
            let rebuilt = build(|builder| builder.data(&data.header(), data.payload));
            assert_same_bytes(&rebuilt, original, DATA_FLAGS);
        }
        Chunk::Sack(sack) => {
            let rebuilt = build(|builder| {
                builder.sack(sack.cumulative_tsn, sack.a_rwnd, sack.gap_ack_blocks(), sack.duplicates())
            });
            // A SACK whose lists exceed the 16-bit length cannot have been read.
            assert_same_bytes(&rebuilt, original, 0);
        }
        Chunk::IData(_)
        | Chunk::NrSack(_)
        | Chunk::ForwardTsn(_)
        | Chunk::IForwardTsn(_)
        | Chunk::EnhancedForwardTsn(_)
        | Chunk::Repair(_)
        | Chunk::ReConfig(_) => check_extension(chunk, original),
        Chunk::Init(init) | Chunk::InitAck(init) => check_init(init, chunk.chunk_type() == chunk_type::INIT),
        Chunk::Abort(abort) => {
            let Some(causes) = causes(abort.causes()) else {
                return;
            };
            read_back(&ChunkOut::Abort { tag_reflected: abort.tag_reflected, causes: &causes }, |again| {
                let Chunk::Abort(again) = again else { panic!("{again:?}") };
                assert_eq!(again.tag_reflected, abort.tag_reflected);
                assert_eq!(self::causes(again.causes()).as_ref(), Some(&causes));
            });
        }
        Chunk::Error(errors) => {
            let Some(causes) = causes(errors.causes()) else {
                return;
            };
            read_back(&ChunkOut::Error { causes: &causes }, |again| {
                let Chunk::Error(again) = again else { panic!("{again:?}") };
                assert_eq!(self::causes(again.causes()).as_ref(), Some(&causes));
            });
        }
        Chunk::Unknown(unknown) => {
            assert_eq!(unknown.bytes(), original);
            assert_eq!(unknown.action().continues(), unknown.chunk_type() & 0x80 != 0);
            assert_eq!(unknown.action().reports(), unknown.chunk_type() & 0x40 != 0);
            read_back(&ChunkOut::Unknown(*unknown), |again| assert_eq!(again, chunk));
        }
        Chunk::Heartbeat(heartbeat) => {
            read_back(&ChunkOut::Heartbeat { info: heartbeat.info }, |again| assert_eq!(again, chunk));
        }
        Chunk::HeartbeatAck(heartbeat) => {
            read_back(&ChunkOut::HeartbeatAck { info: heartbeat.info }, |again| assert_eq!(again, chunk));
        }
        Chunk::CookieEcho(cookie) => read_back(&ChunkOut::CookieEcho(cookie), |again| assert_eq!(again, chunk)),
        Chunk::Shutdown(shutdown) => {
            let out = ChunkOut::Shutdown { cumulative_tsn: shutdown.cumulative_tsn };
            read_back(&out, |again| assert_eq!(again, chunk));
        }
        Chunk::Ecne(tsn) => {
            read_back(&ChunkOut::Ecne { tsn: *tsn, packets: 1 }, |again| assert_eq!(again, chunk));
        }
        Chunk::Cwr(tsn) => read_back(&ChunkOut::Cwr(*tsn), |again| assert_eq!(again, chunk)),
        Chunk::ShutdownAck => read_back(&ChunkOut::ShutdownAck, |again| assert_eq!(again, chunk)),
        Chunk::CookieAck => read_back(&ChunkOut::CookieAck, |again| assert_eq!(again, chunk)),
        Chunk::ShutdownComplete { tag_reflected } => {
            let out = ChunkOut::ShutdownComplete { tag_reflected: *tag_reflected };
            read_back(&out, |again| assert_eq!(again, chunk));
        }
    }
}

/// The chunks of extensions, which are unknown to peers that have not agreed on them.
fn check_extension(chunk: &Chunk<'_>, original: &[u8]) {
    match chunk {
        Chunk::IData(data) => {
            assert_eq!(data.as_unknown().bytes(), original);
            let rebuilt = build(|builder| builder.i_data(&data.header(), data.payload()));
            assert_same_bytes(&rebuilt, &without_reserved(original, 10), DATA_FLAGS);
        }
        Chunk::NrSack(sack) => {
            assert_eq!(sack.as_unknown().bytes(), original);
            let fixed = (sack.cumulative_tsn, sack.a_rwnd);
            let rebuilt = build(|builder| {
                builder.nr_sack(fixed, sack.gap_ack_blocks(), sack.nr_gap_ack_blocks(), sack.duplicates())
            });
            assert_same_bytes(&rebuilt, &without_reserved(original, 18), 0);
        }
        Chunk::ReConfig(chunk) => {
            assert_eq!(chunk.as_unknown().bytes(), original);
            let Ok(parameters) = chunk.parameters().collect::<Result<Vec<_>, _>>() else { return };
            read_back(&ChunkOut::ReConfig(&parameters), |again| {
                let Chunk::ReConfig(again) = again else { panic!("{again:?}") };
                let known =
                    |parameter: &&ReConfigParameter<'_>| !matches!(parameter, ReConfigParameter::Unknown { .. });
                let (read, written) = (again.parameters().flatten(), parameters.iter().filter(known).copied());
                assert!(read.filter(|parameter| known(&parameter)).eq(written));
            });
        }
        Chunk::ForwardTsn(forward) => {
            assert_eq!(forward.as_unknown().bytes(), original);
            let streams: Vec<_> = forward.streams().collect();
            let out = ChunkOut::ForwardTsn { new_cumulative: forward.new_cumulative, streams: &streams };
            assert_same_bytes(&build(|builder| builder.chunk(&out)), original, 0);
        }
        Chunk::IForwardTsn(forward) => {
            assert_eq!(forward.as_unknown().bytes(), original);
            let streams: Vec<_> = forward.streams().collect();
            let out = ChunkOut::IForwardTsn { new_cumulative: forward.new_cumulative, streams: &streams };
            read_back(&out, |again| {
                let Chunk::IForwardTsn(again) = again else { panic!("{again:?}") };
                assert_eq!(again.new_cumulative, forward.new_cumulative);
                assert!(again.streams().eq(streams.iter().copied()));
            });
        }
        Chunk::EnhancedForwardTsn(forward) => {
            assert_eq!(forward.as_unknown().bytes(), original);
            let (blocks, messages): (Vec<_>, Vec<_>) = (forward.blocks().collect(), forward.messages().collect());
            let cumulative = forward.cumulative;
            let out = ChunkOut::EnhancedForwardTsn { cumulative, blocks: &blocks, messages: &messages };
            assert_same_bytes(&build(|builder| builder.chunk(&out)), original, 0);
        }
        Chunk::Repair(repair) => {
            assert_eq!(repair.as_unknown().bytes(), original);
            let RepairChunk { first, mask, row, .. } = *repair;
            let rebuilt = build(|builder| builder.chunk(&ChunkOut::Repair { first, mask, row, sum: repair.sum() }));
            assert_same_bytes(&rebuilt, original, REPAIR_FLAGS);
        }
        _ => {}
    }
}

/// INIT and INIT ACK, unless a parameter is malformed.
fn check_init(init: &Init<'_>, is_init: bool) {
    let Some(parameters) = parameters(init.parameters()) else {
        return;
    };
    let out = InitOut {
        initiate_tag: init.initiate_tag,
        a_rwnd: init.a_rwnd,
        outbound_streams: init.outbound_streams,
        inbound_streams: init.inbound_streams,
        initial_tsn: init.initial_tsn,
        parameters: &parameters,
    };
    let out = if is_init { ChunkOut::Init(out) } else { ChunkOut::InitAck(out) };
    read_back(&out, |again| {
        let (Chunk::Init(again) | Chunk::InitAck(again)) = again else { panic!("{again:?}") };
        assert_eq!((again.initiate_tag, again.initial_tsn), (init.initiate_tag, init.initial_tsn));
        assert_eq!(self::parameters(again.parameters()).as_ref(), Some(&parameters));
    });
}

/// All parameters, unless one is malformed; reads one level of quoted parameters on the way.
fn parameters(parameters: Parameters<'_>) -> Option<Vec<Parameter<'_>>> {
    let parameters: Vec<_> = parameters.collect::<Result<_, _>>().ok()?;
    for parameter in &parameters {
        match parameter {
            Parameter::UnrecognizedParameter(quoted) => drop(Parameters::new(quoted).count()),
            Parameter::SupportedAddressTypes(types) => {
                assert_eq!(types.iter().len() * 2, types.as_bytes().len());
            }
            Parameter::Unknown(unknown) => {
                let [first_byte, _] = unknown.parameter_type.to_be_bytes();
                assert_eq!(unknown.action().continues(), first_byte & 0x80 != 0);
                assert_eq!(unknown.action().reports(), first_byte & 0x40 != 0);
            }
            _ => {}
        }
    }
    Some(parameters)
}

/// All causes, unless one is malformed; reads the parameters that they quote on the way.
fn causes(causes: Causes<'_>) -> Option<Vec<Cause<'_>>> {
    let causes: Vec<_> = causes.collect::<Result<_, _>>().ok()?;
    for cause in &causes {
        match cause {
            Cause::UnrecognizedParameters(quoted)
            | Cause::RestartWithNewAddresses(quoted)
            | Cause::UnresolvableAddress(quoted) => drop(parameters(Parameters::new(quoted))),
            Cause::MissingMandatoryParameter(types) => {
                assert_eq!(types.iter().len() * 2, types.as_bytes().len());
            }
            _ => {}
        }
    }
    Some(causes)
}

/// A packet with the one chunk that `write` adds.
fn build(write: impl FnOnce(&mut PacketBuilder<'_>) -> bool) -> Vec<u8> {
    let mut packet = Vec::new();
    let mut builder = PacketBuilder::new(&mut packet, HEADER, usize::MAX);
    assert!(write(&mut builder), "a chunk that was read fits when written");
    assert_eq!(builder.finish(), packet.len());
    packet
}

/// Checks that the packet's only chunk equals `original` except for flags outside `flags`, and for padding, which must
/// be zero.
fn assert_same_bytes(packet: &[u8], original: &[u8], flags: u8) {
    let (chunk, padding) = packet[COMMON_HEADER_BYTES..].split_at(original.len());
    assert!(padding.len() < 4 && padding.iter().all(|&byte| byte == 0));
    assert_eq!((chunk[0], chunk[1]), (original[0], original[1] & flags));
    assert_eq!(chunk[2..], original[2..]);
}

/// The chunk with zeros in its two reserved bytes.
fn without_reserved(original: &[u8], at: usize) -> Vec<u8> {
    let mut chunk = original.to_vec();
    chunk[at..at + 2].fill(0);
    chunk
}

/// Writes `chunk`, reads it back and compares it by `check`.
fn read_back(chunk: &ChunkOut<'_>, check: impl FnOnce(&Chunk<'_>)) {
    let packet = build(|builder| builder.chunk(chunk));
    let mut chunks = Packet::parse(&packet).expect("its checksum was just computed").chunks();
    check(&chunks.next().expect("it has a chunk").expect("it was just written"));
    assert!(chunks.next().is_none());
}
