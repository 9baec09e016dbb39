//! The protocol between relay and collector. Each packet is one message of the transport.
//!
//! A relay begins with [`Packet::Hello`]. The collector answers with [`Packet::Welcome`], which lists the lines that it has, and from then on with
//! [`Packet::Acks`] for lines that have reached its disk. Lines that are only worth sending while they are fresh travel over a separate association,
//! which begins with [`Packet::HelloFresh`] and needs no welcome.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use thiserror::Error;

use crate::policy::PRIORITIES;
use crate::ranges::Ranges;
use crate::record::Record;

/// The version of this protocol; peers of other versions are refused.
pub const VERSION: u8 = 4;

/// Ranges above floors that a collector remembers of one relay at most. It ends the association of a relay that needs more.
pub const RANGES_MAX: usize = 65_536;

/// Identity of a sender: drawn at random when a spool is created, and kept with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SenderId(pub [u8; 16]);

/// Numbers of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The priority.
    pub priority: u8,
    /// The first number.
    pub first: u64,
    /// The last number.
    pub last: u64,
}

/// A start of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start {
    /// Number of openings of its spool.
    pub epoch: u32,
    /// Drawn at random by this start.
    pub nonce: u64,
}

/// Starts in a [`Packet::Hello`] at most.
pub const STARTS_MAX: usize = 32;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// From a relay, first of all.
    Hello {
        /// Identity of the relay.
        sender: SenderId,
        /// Its present start.
        start: Start,
        /// Number of connections since.
        connection: u32,
        /// Earlier starts: the latest, and one that this collector has asked for.
        before: Vec<Start>,
    },
    /// From a relay: lines that it has spooled, in the order of their numbers.
    Lines {
        /// Their priority.
        priority: u8,
        /// All numbers below are settled: the relay will never send them again.
        floor: u64,
        /// The lines.
        records: Vec<Record>,
    },
    /// From a relay: numbers that it will never send here, usually because another collector has them.
    Settled(Vec<Span>),
    /// From a relay, first of all over an association for lines that are not repeated.
    HelloFresh {
        /// Identity of the relay.
        sender: SenderId,
    },
    /// From a relay: lines that are not repeated.
    Fresh(Vec<Record>),
    /// From a collector instead of a welcome: it has lines of a start of this epoch that the hello does not name.
    Refused {
        /// The epoch.
        epoch: u32,
    },
    /// From a collector: for each priority the settled lines, as far as it knows.
    Welcome(Vec<Ranges>),
    /// From a collector: lines that reached its disk since the last such packet.
    Acks {
        /// Lines of [`Packet::Fresh`] since the association began.
        fresh: u64,
        /// Messages in which they came.
        fresh_messages: u64,
        /// Numbers of spooled lines.
        spans: Vec<Span>,
    },
}

/// Bytes that make no sense: the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// No message of this protocol looks like that.
    #[error("the peer sent an invalid message")]
    Malformed,
    /// Another version.
    #[error("the peer speaks version {0} of the protocol, this is version {VERSION}")]
    Version(u8),
}

const HELLO: u8 = 1;
const LINES: u8 = 2;
const FRESH: u8 = 3;
const WELCOME: u8 = 4;
const ACKS: u8 = 5;
const HELLO_FRESH: u8 = 6;
const SETTLED: u8 = 7;
const REFUSED: u8 = 8;

/// The beginning of a message of lines, to which [`put_record`] adds.
pub(crate) fn begin_lines(priority: u8, floor: u64) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(1_200);
    bytes.put_u8(LINES);
    bytes.put_u8(priority);
    bytes.put_u64(floor);
    bytes
}

/// Adds the bytes of a record to a message of lines.
pub(crate) fn put_record(message: &mut BytesMut, record: &[u8]) {
    message.put_u32(u32::try_from(record.len()).unwrap_or(u32::MAX));
    message.put_slice(record);
}

/// The beginning of a message of lines that are not repeated, to which [`put_record`] adds.
pub(crate) fn begin_fresh() -> BytesMut {
    let mut bytes = BytesMut::with_capacity(1_200);
    bytes.put_u8(FRESH);
    bytes
}

impl Packet {
    /// The bytes of the message.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        match self {
            Self::Hello { sender, start, connection, before } => {
                bytes.put_u8(HELLO);
                bytes.put_u8(VERSION);
                bytes.put_slice(&sender.0);
                bytes.put_u32(*connection);
                for start in std::iter::once(start).chain(before) {
                    bytes.put_u32(start.epoch);
                    bytes.put_u64(start.nonce);
                }
            }
            Self::Refused { epoch } => {
                bytes.put_u8(REFUSED);
                bytes.put_u32(*epoch);
            }
            Self::Lines { priority, floor, records } => {
                bytes = begin_lines(*priority, *floor);
                for record in records {
                    put_record(&mut bytes, &record.encode());
                }
            }
            Self::Settled(spans) => {
                bytes.put_u8(SETTLED);
                put_spans(&mut bytes, spans);
            }
            Self::HelloFresh { sender } => {
                bytes.put_u8(HELLO_FRESH);
                bytes.put_u8(VERSION);
                bytes.put_slice(&sender.0);
            }
            Self::Fresh(records) => {
                bytes = begin_fresh();
                for record in records {
                    put_record(&mut bytes, &record.encode());
                }
            }
            Self::Welcome(settled) => {
                bytes.put_u8(WELCOME);
                settled.iter().for_each(|ranges| put_ranges(&mut bytes, ranges));
            }
            Self::Acks { fresh, fresh_messages, spans } => {
                bytes.put_u8(ACKS);
                bytes.put_u64(*fresh);
                bytes.put_u64(*fresh_messages);
                put_spans(&mut bytes, spans);
            }
        }
        bytes.freeze()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// If it is none.
    pub fn decode(mut bytes: Bytes) -> Result<Self, WireError> {
        let kind = bytes.try_get_u8().map_err(|_| WireError::Malformed)?;
        match kind {
            HELLO | HELLO_FRESH => {
                let version = bytes.try_get_u8().map_err(|_| WireError::Malformed)?;
                if version != VERSION {
                    return Err(WireError::Version(version));
                }
                Self::decode_hello(kind, bytes).ok_or(WireError::Malformed)
            }
            LINES => Self::decode_lines(bytes).ok_or(WireError::Malformed),
            FRESH => decode_records(bytes).map(Self::Fresh).ok_or(WireError::Malformed),
            WELCOME => Self::decode_welcome(bytes).ok_or(WireError::Malformed),
            ACKS => Self::decode_acks(bytes).ok_or(WireError::Malformed),
            REFUSED => {
                let epoch = bytes.try_get_u32().map_err(|_| WireError::Malformed)?;
                bytes.is_empty().then_some(Self::Refused { epoch }).ok_or(WireError::Malformed)
            }
            SETTLED => take_spans(bytes).map(Self::Settled).ok_or(WireError::Malformed),
            _ => Err(WireError::Malformed),
        }
    }

    fn decode_hello(kind: u8, mut bytes: Bytes) -> Option<Self> {
        let mut sender = [0; 16];
        bytes.try_copy_to_slice(&mut sender).ok()?;
        if kind == HELLO_FRESH {
            return bytes.is_empty().then_some(Self::HelloFresh { sender: SenderId(sender) });
        }
        let connection = bytes.try_get_u32().ok()?;
        let start = take_start(&mut bytes)?;
        let mut before = Vec::new();
        while !bytes.is_empty() {
            before.push(take_start(&mut bytes)?);
        }
        (before.len() <= STARTS_MAX).then_some(Self::Hello { sender: SenderId(sender), start, connection, before })
    }

    fn decode_lines(mut bytes: Bytes) -> Option<Self> {
        let priority = bytes.try_get_u8().ok().filter(|&priority| priority < PRIORITIES)?;
        let floor = bytes.try_get_u64().ok()?;
        let records = decode_records(bytes)?;
        let mut least = floor;
        for record in &records {
            // The last number has no successor; none gets there.
            if record.sequence < least || record.sequence == u64::MAX {
                return None;
            }
            least = record.sequence + 1;
        }
        Some(Self::Lines { priority, floor, records })
    }

    fn decode_welcome(mut bytes: Bytes) -> Option<Self> {
        let settled: Option<Vec<_>> = (0..PRIORITIES).map(|_| take_ranges(&mut bytes)).collect();
        settled.filter(|_| bytes.is_empty()).map(Self::Welcome)
    }

    fn decode_acks(mut bytes: Bytes) -> Option<Self> {
        let (fresh, fresh_messages) = (bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?);
        Some(Self::Acks { fresh, fresh_messages, spans: take_spans(bytes)? })
    }
}

fn take_start(bytes: &mut Bytes) -> Option<Start> {
    Some(Start { epoch: bytes.try_get_u32().ok()?, nonce: bytes.try_get_u64().ok()? })
}

/// Adds a set of numbers; [`take_ranges`] reads it.
pub(crate) fn put_ranges(bytes: &mut BytesMut, ranges: &Ranges) {
    bytes.put_u64(ranges.floor());
    bytes.put_u32(u32::try_from(ranges.len()).unwrap_or(u32::MAX));
    for (first, last) in ranges.above() {
        bytes.put_u64(first);
        bytes.put_u64(last);
    }
}

/// Takes a set of at most [`RANGES_MAX`] ranges from the beginning.
pub(crate) fn take_ranges(bytes: &mut Bytes) -> Option<Ranges> {
    let mut ranges = Ranges::default();
    ranges.raise(bytes.try_get_u64().ok()?);
    let count = usize::try_from(bytes.try_get_u32().ok()?).ok().filter(|&count| count <= RANGES_MAX)?;
    for _ in 0..count {
        ranges.insert(bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?);
    }
    Some(ranges)
}

fn put_spans(bytes: &mut BytesMut, spans: &[Span]) {
    for span in spans {
        bytes.put_u8(span.priority);
        bytes.put_u64(span.first);
        bytes.put_u64(span.last);
    }
}

/// Spans up to the end.
fn take_spans(mut bytes: Bytes) -> Option<Vec<Span>> {
    let mut spans = Vec::new();
    while !bytes.is_empty() {
        let priority = bytes.try_get_u8().ok().filter(|&priority| priority < PRIORITIES)?;
        let (first, last) = (bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?);
        // The last number has no successor; none gets there.
        if first > last || last == u64::MAX {
            return None;
        }
        spans.push(Span { priority, first, last });
    }
    Some(spans)
}

/// Records behind their lengths, up to the end.
fn decode_records(mut bytes: Bytes) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = usize::try_from(bytes.try_get_u32().ok()?).ok()?;
        if length > bytes.len() {
            return None;
        }
        records.push(Record::decode(&bytes.split_to(length))?);
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Severity;

    fn record(sequence: u64) -> Record {
        Record {
            sequence,
            received_us: 3,
            marks: 0,
            severity: Severity::NOTICE,
            source: Bytes::from_static(b"s"),
            line: Bytes::from_static(b"text"),
        }
    }

    #[test]
    fn every_message_is_read_back_and_no_part_of_it_makes_the_reader_panic() {
        let mut ranges = vec![Ranges::default(); usize::from(PRIORITIES)];
        ranges[3].raise(5);
        ranges[3].insert(8, 9);
        for packet in [
            Packet::Hello {
                sender: SenderId([7; 16]),
                start: Start { epoch: 2, nonce: 1 },
                connection: 3,
                before: vec![Start { epoch: 1, nonce: 9 }],
            },
            Packet::Refused { epoch: 5 },
            Packet::Lines { priority: 1, floor: 4, records: vec![record(4), record(6)] },
            Packet::Settled(vec![Span { priority: 7, first: 1, last: 2 }]),
            Packet::HelloFresh { sender: SenderId([7; 16]) },
            Packet::Fresh(vec![record(0), record(0)]),
            Packet::Welcome(ranges),
            Packet::Acks { fresh: 9, fresh_messages: 4, spans: vec![Span { priority: 7, first: 1, last: 2 }] },
        ] {
            let bytes = packet.encode();
            assert_eq!(Packet::decode(bytes.clone()), Ok(packet));
            for length in 0..bytes.len() {
                let _ = Packet::decode(bytes.slice(..length));
            }
        }
    }

    #[test]
    fn lines_out_of_order_or_below_the_floor_are_refused() {
        for (floor, numbers) in [(0, vec![2, 1]), (0, vec![1, 1]), (5, vec![4]), (0, vec![u64::MAX])] {
            let records = numbers.into_iter().map(record).collect();
            assert_eq!(
                Packet::decode(Packet::Lines { priority: 0, floor, records }.encode()),
                Err(WireError::Malformed)
            );
        }
    }

    #[test]
    fn another_version_is_named() {
        assert_eq!(Packet::decode(Bytes::from_static(&[1, 9])), Err(WireError::Version(9)));
    }
}
