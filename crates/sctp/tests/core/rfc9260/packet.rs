//! Packets as bytes, built and read without the crate's own `wire` module, so that neither hides the other's mistakes.

use std::net::SocketAddr;

use festina_units::EcnCodepoint;

pub(crate) const DATA: u8 = 0;
pub(crate) const INIT: u8 = 1;
pub(crate) const INIT_ACK: u8 = 2;
pub(crate) const SACK: u8 = 3;
pub(crate) const HEARTBEAT: u8 = 4;
pub(crate) const HEARTBEAT_ACK: u8 = 5;
pub(crate) const ABORT: u8 = 6;
pub(crate) const SHUTDOWN: u8 = 7;
pub(crate) const SHUTDOWN_ACK: u8 = 8;
pub(crate) const ERROR: u8 = 9;
pub(crate) const COOKIE_ECHO: u8 = 10;
pub(crate) const COOKIE_ACK: u8 = 11;
pub(crate) const SHUTDOWN_COMPLETE: u8 = 14;

/// The T bit of ABORT and SHUTDOWN COMPLETE.
pub(crate) const T_BIT: u8 = 1;

pub(crate) const STATE_COOKIE: u16 = 7;
pub(crate) const UNRECOGNIZED_PARAMETER: u16 = 8;
pub(crate) const HOST_NAME: u16 = 11;

/// End, beginning, unordered and immediate bits of a DATA chunk.
pub(crate) const E: u8 = 1;
pub(crate) const B: u8 = 2;
pub(crate) const U: u8 = 4;
pub(crate) const I: u8 = 8;

/// A chunk with its padding.
pub(crate) fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, flags];
    bytes.extend(length(4 + value.len()).to_be_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A parameter or error cause with its padding.
pub(crate) fn tlv(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.extend(length(4 + value.len()).to_be_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(crate) fn cookie_echo(cookie: &[u8]) -> Vec<u8> {
    chunk(COOKIE_ECHO, 0, cookie)
}

pub(crate) fn shutdown(cumulative: u32) -> Vec<u8> {
    chunk(SHUTDOWN, 0, &cumulative.to_be_bytes())
}

/// A HEARTBEAT or HEARTBEAT ACK with a Heartbeat Info parameter.
pub(crate) fn heartbeat(kind: u8, info: &[u8]) -> Vec<u8> {
    chunk(kind, 0, &tlv(1, info))
}

/// A whole packet with its checksum.
pub(crate) fn packet(ports: (u16, u16), tag: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(ports.0.to_be_bytes());
    bytes.extend(ports.1.to_be_bytes());
    bytes.extend(tag.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(chunks.concat());
    let checksum = crc32c(&bytes).to_le_bytes();
    bytes[8..12].copy_from_slice(&checksum);
    bytes
}

/// CRC32c bit by bit (RFC 9260 appendix A), over a packet whose checksum field is zero.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

fn length(length: usize) -> u16 {
    u16::try_from(length).expect("it fits into 16 bits")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A DATA chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) tsn: u32,
    pub(crate) stream: u16,
    pub(crate) ssn: u16,
    pub(crate) ppid: u32,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
}

impl Data {
    /// A whole ordered message on stream 0.
    pub(crate) fn new(tsn: u32, ssn: u16, payload: &[u8]) -> Self {
        Self { tsn, stream: 0, ssn, ppid: 0, flags: B | E, payload: payload.to_vec() }
    }

    pub(crate) fn flags(self, flags: u8) -> Self {
        Self { flags, ..self }
    }

    pub(crate) fn stream(self, stream: u16) -> Self {
        Self { stream, ..self }
    }

    pub(crate) fn chunk(&self) -> Vec<u8> {
        let mut value = self.tsn.to_be_bytes().to_vec();
        value.extend(self.stream.to_be_bytes());
        value.extend(self.ssn.to_be_bytes());
        value.extend(self.ppid.to_be_bytes());
        value.extend(&self.payload);
        chunk(DATA, self.flags, &value)
    }
}

/// Shorthand for the bytes of a whole ordered one-byte message on stream 0, with SSN = TSN - 1.
pub(crate) fn data(tsn: u32) -> Vec<u8> {
    Data::new(tsn, u16::try_from(tsn - 1).expect("a small TSN"), b"d").chunk()
}

/// A SACK chunk; the gap ack blocks are offsets from the cumulative TSN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sack {
    pub(crate) cumulative: u32,
    pub(crate) a_rwnd: u32,
    pub(crate) gaps: Vec<(u16, u16)>,
    pub(crate) duplicates: Vec<u32>,
}

impl Sack {
    pub(crate) fn chunk(&self) -> Vec<u8> {
        let mut value = self.cumulative.to_be_bytes().to_vec();
        value.extend(self.a_rwnd.to_be_bytes());
        value.extend(length(self.gaps.len()).to_be_bytes());
        value.extend(length(self.duplicates.len()).to_be_bytes());
        for (start, end) in &self.gaps {
            value.extend(start.to_be_bytes());
            value.extend(end.to_be_bytes());
        }
        for duplicate in &self.duplicates {
            value.extend(duplicate.to_be_bytes());
        }
        chunk(SACK, 0, &value)
    }
}

/// An INIT or INIT ACK chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Init {
    pub(crate) tag: u32,
    pub(crate) a_rwnd: u32,
    pub(crate) outbound: u16,
    pub(crate) inbound: u16,
    pub(crate) tsn: u32,
    /// Complete parameters.
    pub(crate) parameters: Vec<u8>,
}

impl Init {
    pub(crate) fn chunk(&self, kind: u8) -> Vec<u8> {
        let mut value = self.tag.to_be_bytes().to_vec();
        value.extend(self.a_rwnd.to_be_bytes());
        value.extend(self.outbound.to_be_bytes());
        value.extend(self.inbound.to_be_bytes());
        value.extend(self.tsn.to_be_bytes());
        value.extend(&self.parameters);
        chunk(kind, 0, &value)
    }

    /// All parameters of one type.
    pub(crate) fn all(&self, kind: u16) -> Vec<Vec<u8>> {
        let of_kind = |(each, value): (u16, Vec<u8>)| (each == kind).then_some(value);
        tlvs(&self.parameters).into_iter().filter_map(of_kind).collect()
    }

    pub(crate) fn cookie(&self) -> Vec<u8> {
        let [cookie] = self.all(STATE_COOKIE).try_into().expect("one State Cookie");
        cookie
    }
}

/// The parameters or error causes in `bytes`, without their padding.
pub(crate) fn tlvs(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut list = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(u16_at(bytes, 2));
        list.push((u16_at(bytes, 0), bytes[4..length].to_vec()));
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    list
}

/// A chunk sent by the association under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) value: Vec<u8>,
}

impl Chunk {
    pub(crate) fn causes(&self) -> Vec<(u16, Vec<u8>)> {
        tlvs(&self.value)
    }
}

/// A packet sent by the association under test.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) to: SocketAddr,
    pub(crate) ports: (u16, u16),
    pub(crate) tag: u32,
    pub(crate) ecn: EcnCodepoint,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) bytes: Vec<u8>,
}

impl Sent {
    /// Reads a packet and asserts all that RFC 9260 asks of every packet whatsoever.
    pub(crate) fn read(to: SocketAddr, bytes: &[u8]) -> Self {
        let mut zeroed = bytes.to_vec();
        zeroed[8..12].fill(0);
        assert_eq!(bytes[8..12], crc32c(&zeroed).to_le_bytes(), "§6.8: the checksum");
        let mut chunks = Vec::new();
        let mut rest = &bytes[12..];
        while !rest.is_empty() {
            let length = usize::from(u16_at(rest, 2));
            let padded = length.next_multiple_of(4);
            assert!(length >= 4 && padded <= rest.len(), "§6.10: a partial chunk");
            assert!(rest[length..padded].iter().all(|&byte| byte == 0), "§3.2: padding is zero");
            chunks.push(Chunk { kind: rest[0], flags: rest[1], value: rest[4..length].to_vec() });
            rest = &rest[padded..];
        }
        let ports = (u16_at(bytes, 0), u16_at(bytes, 2));
        let (tag, ecn) = (u32_at(bytes, 4), EcnCodepoint::NotCapable);
        let sent = Self { to, ports, tag, ecn, chunks, bytes: bytes.to_vec() };
        sent.check();
        sent
    }

    fn check(&self) {
        let kinds = self.kinds();
        assert!(!kinds.is_empty() && self.ports.0 != 0 && self.ports.1 != 0, "§3.1: {self:?}");
        let alone = [INIT, INIT_ACK, SHUTDOWN_COMPLETE];
        assert!(kinds.len() == 1 || kinds.iter().all(|kind| !alone.contains(kind)), "§6.10: bundled: {kinds:?}");
        assert_eq!(kinds.contains(&INIT), self.tag == 0, "§8.5.1 A: {self:?}");
        let first = kinds.iter().position(|&kind| kind == DATA).unwrap_or(kinds.len());
        assert!(kinds[first..].iter().all(|&kind| kind == DATA), "§6.10: control behind DATA: {kinds:?}");
        let closing = [ABORT, SHUTDOWN, SHUTDOWN_ACK];
        assert!(first == kinds.len() || !kinds.iter().any(|kind| closing.contains(kind)), "§3.3.7, §6.10: {kinds:?}");
        for opening in [COOKIE_ECHO, COOKIE_ACK] {
            assert!(!kinds[1..].contains(&opening), "§5.1: not first: {kinds:?}");
        }
        let aborts = kinds.iter().position(|&kind| kind == ABORT);
        assert!(aborts.is_none_or(|at| at == kinds.len() - 1), "§3.3.7: behind ABORT: {kinds:?}");
        assert!(kinds.iter().filter(|&&kind| kind == SACK).count() <= 1, "§6.2: {kinds:?}");
        let tsns: Vec<_> = self.data().iter().map(|data| data.tsn).collect();
        assert!(tsns.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) < 1 << 31), "§6.10: {tsns:?}");
        for chunk in &self.chunks {
            let defined = match chunk.kind {
                DATA => E | B | U | I,
                ABORT | SHUTDOWN_COMPLETE => T_BIT,
                _ => 0,
            };
            assert_eq!(chunk.flags & !defined, 0, "§3.2: reserved flags: {chunk:?}");
        }
    }

    pub(crate) fn kinds(&self) -> Vec<u8> {
        self.chunks.iter().map(|chunk| chunk.kind).collect()
    }

    pub(crate) fn has(&self, kind: u8) -> bool {
        self.kinds().contains(&kind)
    }

    /// The first chunk of a type, which must be there.
    pub(crate) fn the(&self, kind: u8) -> &Chunk {
        let found = self.chunks.iter().find(|chunk| chunk.kind == kind);
        found.unwrap_or_else(|| panic!("no chunk of type {kind} in {:?}", self.kinds()))
    }

    /// The DATA chunks with their TSNs as on the wire.
    pub(crate) fn data(&self) -> Vec<Data> {
        let read = |chunk: &Chunk| Data {
            tsn: u32_at(&chunk.value, 0),
            stream: u16_at(&chunk.value, 4),
            ssn: u16_at(&chunk.value, 6),
            ppid: u32_at(&chunk.value, 8),
            flags: chunk.flags,
            payload: chunk.value[12..].to_vec(),
        };
        self.chunks.iter().filter(|chunk| chunk.kind == DATA).map(read).collect()
    }

    /// The SACK chunk, which must be there.
    pub(crate) fn sack(&self) -> Sack {
        let value = &self.the(SACK).value;
        let [gaps, duplicates] = [8, 10].map(|at| usize::from(u16_at(value, at)));
        assert_eq!(value.len(), 12 + 4 * (gaps + duplicates), "§3.3.4: the length of a SACK");
        let gap = |index| (u16_at(value, 12 + 4 * index), u16_at(value, 14 + 4 * index));
        Sack {
            cumulative: u32_at(value, 0),
            a_rwnd: u32_at(value, 4),
            gaps: (0..gaps).map(gap).collect(),
            duplicates: (gaps..gaps + duplicates).map(|index| u32_at(value, 12 + 4 * index)).collect(),
        }
    }

    /// The INIT or INIT ACK chunk, which must be there.
    pub(crate) fn init(&self) -> Init {
        let value = &self.chunks[0].value;
        assert!([INIT, INIT_ACK].contains(&self.chunks[0].kind), "{:?}", self.kinds());
        Init {
            tag: u32_at(value, 0),
            a_rwnd: u32_at(value, 4),
            outbound: u16_at(value, 8),
            inbound: u16_at(value, 10),
            tsn: u32_at(value, 12),
            parameters: value[16..].to_vec(),
        }
    }
}
