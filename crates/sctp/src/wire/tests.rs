//! Properties of the whole module, and helpers for the byte vectors of each chunk.

use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

const HEADER: CommonHeader =
    CommonHeader { source_port: 0x1388, destination_port: 0x1389, verification_tag: 0xdead_beef };

/// Parses `bytes` as the only chunk of a packet.
pub(super) fn parse_chunk(bytes: &[u8]) -> Result<Chunk<'static>, ChunkError> {
    // A leak of a few bytes lets the chunk outlive the packet made here.
    let packet: &'static [u8] = [&[0; COMMON_HEADER_BYTES], bytes].concat().leak();
    let mut chunks = Packet::parse_unverified(packet).expect("the header is whole").chunks();
    let first = chunks.next().expect("there is a chunk");
    assert_eq!(chunks.next(), None);
    first
}

/// The fault of `bytes` as the only chunk of a packet.
pub(super) fn malformation(bytes: &[u8]) -> Malformation {
    parse_chunk(bytes).expect_err("malformed").kind
}

/// The bytes of the one chunk that `write` adds to an otherwise empty packet.
pub(super) fn chunk_bytes(write: impl FnOnce(&mut PacketBuilder<'_>) -> bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = PacketBuilder::new(&mut bytes, HEADER, usize::MAX);
    assert!(write(&mut builder));
    builder.finish();
    bytes.split_off(COMMON_HEADER_BYTES)
}

/// `chunk` built, checked against `expected`, and parsed back.
pub(super) fn build_and_parse(chunk: &ChunkOut<'_>, expected: &[u8]) -> Chunk<'static> {
    let bytes = chunk_bytes(|builder| builder.chunk(chunk));
    assert_eq!(bytes, expected);
    parse_chunk(&bytes).expect("just built")
}

/// Reads everything that can be read, and returns how much there was so that nothing is optimised away.
fn walk(bytes: &[u8]) -> usize {
    let Ok(packet) = Packet::parse_unverified(bytes) else {
        return 0;
    };
    packet.chunks().map(|chunk| chunk.map_or_else(|error| error.to_string().len(), |chunk| walk_chunk(&chunk))).sum()
}

fn walk_chunk(chunk: &Chunk<'_>) -> usize {
    match chunk {
        Chunk::Init(init) | Chunk::InitAck(init) => walk_parameters(init.parameters()),
        Chunk::Sack(sack) => sack.gap_ack_blocks().count() + sack.duplicates().count(),
        Chunk::Abort(abort) => walk_causes(abort.causes()),
        Chunk::Error(errors) => walk_causes(errors.causes()),
        Chunk::NrSack(sack) => {
            sack.gap_ack_blocks().count() + sack.nr_gap_ack_blocks().count() + sack.duplicates().count()
        }
        Chunk::ReConfig(chunk) => chunk.parameters().count(),
        Chunk::ForwardTsn(forward) => forward.streams().count(),
        Chunk::IForwardTsn(forward) => forward.streams().count(),
        Chunk::EnhancedForwardTsn(forward) => forward.blocks().count() + forward.messages().count(),
        Chunk::IData(data) => data.payload().len(),
        Chunk::Repair(repair) => repair.sum().len(),
        Chunk::Unknown(unknown) => usize::from(unknown.action().continues()) + unknown.bytes().len(),
        Chunk::Data(Data { payload: bytes, .. })
        | Chunk::CookieEcho(bytes)
        | Chunk::Heartbeat(Heartbeat { info: bytes })
        | Chunk::HeartbeatAck(Heartbeat { info: bytes }) => bytes.len(),
        Chunk::Shutdown(_) | Chunk::ShutdownAck | Chunk::CookieAck | Chunk::ShutdownComplete { .. } => 1,
        Chunk::Ecne(_) | Chunk::Cwr(_) => 1,
    }
}

fn walk_parameters(parameters: Parameters<'_>) -> usize {
    parameters
        .map(|parameter| match parameter {
            Ok(Parameter::SupportedAddressTypes(types)) => types.iter().count(),
            // Quoted parameters are shorter than what quotes them, so this ends; one level is what receivers read.
            Ok(Parameter::UnrecognizedParameter(quoted)) => Parameters::new(quoted).count(),
            Ok(Parameter::Unknown(unknown)) => unknown.value.len() + usize::from(unknown.action().reports()),
            Ok(_) => 1,
            Err(error) => error.to_string().len(),
        })
        .sum()
}

fn walk_causes(causes: Causes<'_>) -> usize {
    causes
        .map(|cause| match cause {
            Ok(Cause::MissingMandatoryParameter(types)) => types.iter().count(),
            Ok(Cause::UnrecognizedParameters(quoted) | Cause::RestartWithNewAddresses(quoted)) => {
                walk_parameters(Parameters::new(quoted))
            }
            Ok(_) => 1,
            Err(error) => error.to_string().len(),
        })
        .sum()
}

/// Raw material for a chunk, parameter or cause: `which` picks the kind, the rest fills its fields.
#[derive(Clone, Debug)]
struct Seed {
    which: u8,
    number: u32,
    flag: bool,
    blob: Vec<u8>,
    /// A complete frame whose type no one knows.
    unknown: Vec<u8>,
    /// Entries of lists.
    pairs: Vec<[u8; 2]>,
}

prop_compose! {
    fn seed()(
        which: u8,
        number: u32,
        flag: bool,
        blob in prop::collection::vec(any::<u8>(), 0..40),
        pairs in prop::collection::vec(any::<[u8; 2]>(), 0..6),
        unknown_value in prop::collection::vec(any::<u8>(), 0..9),
    ) -> Seed {
        let length = u16::try_from(4 + unknown_value.len()).expect("short").to_be_bytes();
        let unknown = [&[0xfe, 0xfd], &length[..], &unknown_value].concat();
        Seed { which, number, flag, blob, unknown, pairs }
    }
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    prop::collection::vec(seed(), 0..6)
}

impl Seed {
    fn low(&self) -> u16 {
        Tsn(self.number).0.to_be_bytes()[2..].try_into().map(u16::from_be_bytes).expect("two bytes")
    }

    fn parameter(&self) -> Parameter<'_> {
        match self.which % 12 {
            0 => Parameter::HeartbeatInfo(&self.blob),
            1 => Parameter::Ipv4(Ipv4Addr::from(self.number)),
            2 => Parameter::Ipv6(Ipv6Addr::from(u128::from(self.number) << 70)),
            3 => Parameter::StateCookie(&self.blob),
            4 => Parameter::UnrecognizedParameter(&self.unknown),
            5 => Parameter::CookiePreservative(self.number),
            6 => Parameter::HostName(&self.blob),
            7 => Parameter::SupportedAddressTypes(TypeList::new(&self.pairs)),
            8 => Parameter::SupportedExtensions(&self.blob),
            9 => Parameter::ForwardTsnSupported,
            10 => Parameter::EcnCapable,
            _ => Parameter::Unknown(UnknownParameter { parameter_type: 0xfefd, value: &self.blob }),
        }
    }

    fn cause(&self) -> Cause<'_> {
        match self.which % 16 {
            0 => Cause::InvalidStreamIdentifier(StreamId(self.low())),
            1 => Cause::MissingMandatoryParameter(TypeList::new(&self.pairs)),
            2 => Cause::StaleCookie { staleness_us: self.number },
            3 => Cause::OutOfResource,
            4 => Cause::UnresolvableAddress(&self.blob),
            5 => Cause::UnrecognizedChunkType(&self.unknown),
            6 => Cause::InvalidMandatoryParameter,
            7 => Cause::UnrecognizedParameters(&self.unknown),
            8 => Cause::NoUserData(Tsn(self.number)),
            9 => Cause::CookieReceivedWhileShuttingDown,
            10 => Cause::RestartWithNewAddresses(&self.blob),
            11 => Cause::UserInitiatedAbort(&self.blob),
            12 => Cause::ProtocolViolation(&self.blob),
            _ => Cause::Unknown { code: 14 + self.low() % 1000, value: &self.blob },
        }
    }

    fn init<'a>(&'a self, parameters: &'a [Parameter<'a>]) -> InitOut<'a> {
        InitOut {
            initiate_tag: self.number,
            a_rwnd: self.number.rotate_left(7),
            outbound_streams: self.low(),
            inbound_streams: self.low().rotate_left(3),
            initial_tsn: Tsn(!self.number),
            parameters,
        }
    }

    fn control<'a>(
        &'a self,
        parameters: &'a [Parameter<'a>],
        causes: &'a [Cause<'a>],
        lists: &'a SkippedLists,
    ) -> ChunkOut<'a> {
        match self.which % 16 {
            0 => ChunkOut::Init(self.init(parameters)),
            1 => ChunkOut::InitAck(self.init(parameters)),
            2 => ChunkOut::Heartbeat { info: &self.blob },
            3 => ChunkOut::HeartbeatAck { info: &self.blob },
            4 => ChunkOut::Abort { tag_reflected: self.flag, causes },
            5 => ChunkOut::Shutdown { cumulative_tsn: Tsn(self.number) },
            6 => ChunkOut::ShutdownAck,
            7 => ChunkOut::Error { causes },
            8 => ChunkOut::CookieEcho(&self.blob),
            9 => ChunkOut::CookieAck,
            10 => ChunkOut::ShutdownComplete { tag_reflected: self.flag },
            11 => ChunkOut::ForwardTsn { new_cumulative: Tsn(self.number), streams: &lists.0 },
            12 => ChunkOut::IForwardTsn { new_cumulative: Tsn(self.number), streams: &lists.1 },
            13 => ChunkOut::Ecne { tsn: Tsn(self.number), packets: self.number.rotate_left(3) },
            14 => ChunkOut::EnhancedForwardTsn { cumulative: Tsn(self.number), blocks: &lists.2, messages: &lists.3 },
            15 if self.which & 0x80 != 0 => {
                let (mask, row) = (self.low(), self.which & 7);
                ChunkOut::Repair { first: Tsn(self.number), mask, row, sum: &self.blob }
            }
            15 if self.flag => ChunkOut::Cwr(Tsn(self.number)),
            _ => ChunkOut::Unknown(UnknownChunk::from_bytes(&self.unknown).expect("complete")),
        }
    }

    fn data(&self) -> DataHeader {
        DataHeader {
            tsn: Tsn(self.number),
            stream: StreamId(self.low()),
            ssn: Ssn(!self.low()),
            ppid: self.number.rotate_left(11),
            unordered: self.which & 1 != 0,
            beginning: self.which & 2 != 0,
            end: self.which & 4 != 0,
            immediate: self.flag,
        }
    }

    fn i_data(&self) -> IDataHeader {
        let DataHeader { tsn, stream, ppid, unordered, beginning, end, immediate, .. } = self.data();
        let mid = Mid(self.number.rotate_left(5));
        IDataHeader { tsn, stream, mid, ppid_or_fsn: ppid, unordered, beginning, end, immediate }
    }

    fn gaps(&self) -> Vec<(u16, u16)> {
        self.pairs.iter().map(|&[a, b]| (u16::from(a), u16::from(b) << 8)).collect()
    }

    fn duplicates(&self) -> Vec<Tsn> {
        self.blob.iter().map(|&byte| Tsn(self.number ^ u32::from(byte))).collect()
    }
}

/// The entries of FORWARD-TSN and I-FORWARD-TSN, and the blocks and entries of E-FORWARD-TSN.
type SkippedLists = (Vec<(StreamId, Ssn)>, Vec<SkippedMessage>, Vec<(u16, u16)>, Vec<SkippedRun>);

fn skipped_lists(seeds: &[Seed]) -> SkippedLists {
    let ordered = seeds.iter().map(|seed| (StreamId(seed.low()), Ssn(!seed.low())));
    let any = seeds.iter().map(|seed| SkippedMessage {
        stream: StreamId(seed.low()),
        unordered: seed.flag,
        mid: Mid(seed.number.rotate_left(5)),
    });
    let runs = seeds.iter().map(|seed| SkippedRun {
        stream: StreamId(seed.low()),
        unordered: seed.flag,
        first: seed.number.rotate_left(9),
        more: seed.low() & SkippedRun::MORE_MAX,
    });
    let mut next = 1;
    let blocks = seeds.iter().map(|seed| {
        let (first, last) = (next + u16::from(seed.which), next + 2 * u16::from(seed.which));
        next = last + 2;
        (first, last)
    });
    (ordered.collect(), any.collect(), blocks.collect(), runs.collect())
}

/// A parsed control chunk says what the built one did.
fn assert_same(built: &ChunkOut<'_>, parsed: &Chunk<'_>) {
    match (*built, *parsed) {
        (ChunkOut::Init(out), Chunk::Init(init)) | (ChunkOut::InitAck(out), Chunk::InitAck(init)) => {
            assert_eq!((init.initiate_tag, init.a_rwnd), (out.initiate_tag, out.a_rwnd));
            assert_eq!(init.outbound_streams, out.outbound_streams);
            assert_eq!(init.inbound_streams, out.inbound_streams);
            assert_eq!(init.initial_tsn, out.initial_tsn);
            let parameters: Result<Vec<_>, _> = init.parameters().collect();
            assert_eq!(parameters.as_deref(), Ok(out.parameters));
        }
        (ChunkOut::Heartbeat { info }, Chunk::Heartbeat(heartbeat))
        | (ChunkOut::HeartbeatAck { info }, Chunk::HeartbeatAck(heartbeat)) => {
            assert_eq!(heartbeat.info, info);
        }
        (ChunkOut::Abort { tag_reflected, causes }, Chunk::Abort(abort)) => {
            assert_eq!(abort.tag_reflected, tag_reflected);
            assert_eq!(abort.causes().collect::<Result<Vec<_>, _>>().as_deref(), Ok(causes));
        }
        (ChunkOut::Error { causes }, Chunk::Error(errors)) => {
            assert_eq!(errors.causes().collect::<Result<Vec<_>, _>>().as_deref(), Ok(causes));
        }
        (ChunkOut::Shutdown { cumulative_tsn }, Chunk::Shutdown(shutdown)) => {
            assert_eq!(shutdown.cumulative_tsn, cumulative_tsn);
        }
        (ChunkOut::CookieEcho(built), Chunk::CookieEcho(parsed)) => assert_eq!(built, parsed),
        (ChunkOut::ShutdownComplete { tag_reflected: built }, Chunk::ShutdownComplete { tag_reflected: parsed }) => {
            assert_eq!(built, parsed);
        }
        (ChunkOut::Ecne { tsn: built, .. }, Chunk::Ecne(parsed)) | (ChunkOut::Cwr(built), Chunk::Cwr(parsed)) => {
            assert_eq!(built, parsed);
        }
        (ChunkOut::Unknown(built), Chunk::Unknown(parsed)) => assert_eq!(built, parsed),
        (ChunkOut::ForwardTsn { new_cumulative, streams }, Chunk::ForwardTsn(forward)) => {
            assert_eq!(forward.new_cumulative, new_cumulative);
            assert!(forward.streams().eq(streams.iter().copied()));
        }
        (ChunkOut::IForwardTsn { new_cumulative, streams }, Chunk::IForwardTsn(forward)) => {
            assert_eq!(forward.new_cumulative, new_cumulative);
            assert!(forward.streams().eq(streams.iter().copied()));
        }
        (ChunkOut::EnhancedForwardTsn { cumulative, blocks, messages }, Chunk::EnhancedForwardTsn(forward)) => {
            assert_eq!(forward.cumulative, cumulative);
            assert!(forward.blocks().eq(blocks.iter().copied()));
            assert!(forward.messages().eq(messages.iter().copied()));
        }
        (ChunkOut::Repair { first, mask, row, sum }, Chunk::Repair(repair)) => {
            assert_eq!((repair.first, repair.mask, repair.row, repair.sum()), (first, mask, row, sum));
        }
        (ChunkOut::ShutdownAck, Chunk::ShutdownAck) | (ChunkOut::CookieAck, Chunk::CookieAck) => {}
        (built, parsed) => panic!("built {built:?}, parsed {parsed:?}"),
    }
}

/// A packet of control chunks, and of a DATA, I-DATA, SACK and NR-SACK per seed.
fn packet_from(seeds: &[Seed], packet_bytes_max: usize) -> Vec<u8> {
    let parameters: Vec<_> = seeds.iter().map(Seed::parameter).collect();
    let causes: Vec<_> = seeds.iter().map(Seed::cause).collect();
    let lists = skipped_lists(seeds);
    let mut bytes = Vec::new();
    let mut builder = PacketBuilder::new(&mut bytes, HEADER, packet_bytes_max);
    for seed in seeds {
        builder.chunk(&seed.control(&parameters, &causes, &lists));
        builder.data(&seed.data(), &seed.blob);
        builder.i_data(&seed.i_data(), &seed.blob);
        let gaps = seed.gaps();
        builder.nr_sack(
            (Tsn(seed.number), 1),
            gaps.iter().copied(),
            gaps.iter().copied(),
            seed.duplicates().into_iter(),
        );
        builder.sack(Tsn(seed.number), 1, seed.gaps().into_iter(), seed.duplicates().into_iter());
    }
    builder.finish();
    bytes
}

proptest! {
    #[test]
    fn control_chunks_survive_building_and_parsing(seeds in seeds()) {
        let parameters: Vec<_> = seeds.iter().map(Seed::parameter).collect();
        let causes: Vec<_> = seeds.iter().map(Seed::cause).collect();
        let lists = skipped_lists(&seeds);
        let chunks: Vec<_> = seeds.iter().map(|seed| seed.control(&parameters, &causes, &lists)).collect();
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, HEADER, usize::MAX);
        for chunk in &chunks {
            prop_assert!(builder.chunk(chunk));
        }
        prop_assert_eq!(builder.finish(), bytes.len());
        if chunks.is_empty() {
            prop_assert!(bytes.is_empty());
            return Ok(());
        }
        prop_assert_eq!(bytes.len() % 4, 0);
        let packet = Packet::parse(&bytes).expect("checksum is right");
        prop_assert_eq!(packet.header, HEADER);
        let parsed: Vec<_> = packet.chunks().collect::<Result<_, _>>().expect("well formed");
        prop_assert_eq!(parsed.len(), chunks.len());
        for (built, parsed) in chunks.iter().zip(&parsed) {
            assert_same(built, parsed);
        }
    }

    #[test]
    fn data_and_sack_survive_building_and_parsing(seed in seed(), payload in prop::collection::vec(any::<u8>(), 0..1500)) {
        let (gaps, duplicates) = (seed.gaps(), seed.duplicates());
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, HEADER, usize::MAX);
        prop_assert!(builder.sack(Tsn(seed.number), seed.number, gaps.iter().copied(), duplicates.iter().copied()));
        prop_assert!(builder.data(&seed.data(), &payload));
        builder.finish();

        let chunks: Vec<_> = Packet::parse(&bytes).expect("sound").chunks().collect::<Result<_, _>>().expect("sound");
        let [Chunk::Sack(sack), Chunk::Data(data)] = chunks[..] else { panic!("{chunks:?}") };
        prop_assert_eq!((sack.cumulative_tsn, sack.a_rwnd), (Tsn(seed.number), seed.number));
        prop_assert!(sack.gap_ack_blocks().eq(gaps));
        prop_assert!(sack.duplicates().eq(duplicates));
        prop_assert_eq!(data.header(), seed.data());
        prop_assert_eq!(data.payload, payload);
    }

    #[test]
    fn i_data_and_nr_sack_survive_building_and_parsing(seed in seed(), payload in prop::collection::vec(any::<u8>(), 0..1500)) {
        let (gaps, duplicates) = (seed.gaps(), seed.duplicates());
        let nr_gaps: Vec<_> = gaps.iter().rev().map(|&(first, last)| (last, first)).collect();
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, HEADER, usize::MAX);
        let fixed = (Tsn(seed.number), seed.number);
        let [first, second] = [&gaps, &nr_gaps].map(|blocks| blocks.iter().copied());
        prop_assert!(builder.nr_sack(fixed, first, second, duplicates.iter().copied()));
        prop_assert!(builder.i_data(&seed.i_data(), &payload));
        builder.finish();

        let chunks: Vec<_> = Packet::parse(&bytes).expect("sound").chunks().collect::<Result<_, _>>().expect("sound");
        let [Chunk::NrSack(sack), Chunk::IData(data)] = chunks[..] else { panic!("{chunks:?}") };
        prop_assert_eq!((sack.cumulative_tsn, sack.a_rwnd), fixed);
        prop_assert!(sack.gap_ack_blocks().eq(gaps) && sack.nr_gap_ack_blocks().eq(nr_gaps));
        prop_assert!(sack.duplicates().eq(duplicates));
        prop_assert_eq!(data.header(), seed.i_data());
        prop_assert_eq!(data.payload(), payload);
    }

    #[test]
    fn a_packet_never_exceeds_its_limit_and_always_parses(seeds in seeds(), packet_bytes_max in 0usize..400) {
        let bytes = packet_from(&seeds, packet_bytes_max);
        prop_assert!(bytes.len() <= packet_bytes_max);
        if !bytes.is_empty() {
            prop_assert!(Packet::parse(&bytes).expect("sound").chunks().all(|chunk| chunk.is_ok()));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        walk(&bytes);
        let _ = Packet::parse(&bytes);
        let _ = Packet::peek(&bytes);
        let _ = Packet::first_chunk_type(&bytes);
    }

    #[test]
    fn arbitrary_parameters_and_causes_never_panic(value in prop::collection::vec(any::<u8>(), 0..80), chunk_type in prop::sample::select(&[1u8, 2, 6, 9][..])) {
        let fixed: &[u8] = if chunk_type < 3 { &[0; 16] } else { &[] };
        let length = u16::try_from(4 + fixed.len() + value.len()).expect("short").to_be_bytes();
        walk(&[&[0; 12], &[chunk_type, 0][..], &length, fixed, &value].concat());
    }

    #[test]
    fn mutated_packets_never_panic(
        seeds in seeds(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        tail in prop::collection::vec(any::<u8>(), 0..6),
    ) {
        let mut bytes = packet_from(&seeds, 4000);
        for (index, byte) in edits.iter().filter(|_| !seeds.is_empty()) {
            let at = index.index(bytes.len());
            bytes[at] = *byte;
        }
        walk(&bytes);
        bytes.truncate(cut.index(bytes.len() + 1));
        walk(&bytes);
        bytes.extend(tail);
        walk(&bytes);
    }

    #[test]
    fn one_flipped_bit_anywhere_fails_the_checksum(seed in seed(), bit in any::<prop::sample::Index>()) {
        let mut bytes = packet_from(&[seed], 4000);
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(matches!(Packet::parse(&bytes), Err(PacketError::Checksum { .. })), "not a checksum error");
    }
}
