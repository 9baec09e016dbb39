//! The encoding of a line in the spool and on the wire.
//!
//! The relay encodes a record once: sequence number (8 bytes, big endian like all fields), time of receipt in microseconds since 1970 (8), marks (1),
//! severity (1), length of the source (1), the source, the line.

use std::fmt;

use bytes::{BufMut as _, Bytes, BytesMut};
use festina_units::Preview;

use crate::line::Severity;

/// The line was longer than the limit.
pub const MARK_CUT: u8 = 1;
/// The line could not be read as syslog.
pub const MARK_UNPARSED: u8 = 2;
/// The line need not keep its place among those of its source.
pub const MARK_UNORDERED: u8 = 4;

/// Bytes before the source.
const FIXED_BYTES: usize = 19;

/// The longest record: the longest message, and what stands before it.
pub const RECORD_BYTES_MAX: usize = (256 << 10) + FIXED_BYTES + 255;

/// A line with its metadata.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number among the lines of its sender and priority; 0 for lines that are not spooled.
    pub sequence: u64,
    /// Microseconds since 1970 when the relay got it.
    pub received_us: u64,
    /// [`MARK_CUT`], [`MARK_UNPARSED`], [`MARK_UNORDERED`].
    pub marks: u8,
    /// How bad it is.
    pub severity: Severity,
    /// Where the relay got it from.
    pub source: Bytes,
    /// The line as it came.
    pub line: Bytes,
}

impl fmt::Debug for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequence, received_us, marks, severity, source, line } = self;
        formatter
            .debug_struct("Record")
            .field("sequence", sequence)
            .field("received_us", received_us)
            .field("marks", marks)
            .field("severity", severity)
            .field("source", &Preview(source))
            .field("line", &Preview(line))
            .finish()
    }
}

impl Record {
    /// The bytes. Of a source, the first 255 count.
    pub fn encode(&self) -> Bytes {
        let source = &self.source[..self.source.len().min(255)];
        let mut bytes = BytesMut::with_capacity(FIXED_BYTES + source.len() + self.line.len());
        bytes.put_u64(self.sequence);
        bytes.put_u64(self.received_us);
        bytes.put_u8(self.marks);
        bytes.put_u8(self.severity.number());
        bytes.put_u8(u8::try_from(source.len()).unwrap_or(u8::MAX));
        bytes.put_slice(source);
        bytes.put_slice(&self.line);
        bytes.freeze()
    }

    /// The record with these bytes, or `None` if they are none.
    pub fn decode(bytes: &Bytes) -> Option<Self> {
        let fixed = bytes.get(..FIXED_BYTES)?;
        let source_end = FIXED_BYTES + usize::from(fixed[18]);
        if bytes.len() < source_end || bytes.len() > RECORD_BYTES_MAX || fixed[17] > 7 {
            return None;
        }
        Some(Self {
            sequence: u64::from_be_bytes(fixed[..8].try_into().ok()?),
            received_us: u64::from_be_bytes(fixed[8..16].try_into().ok()?),
            marks: fixed[16],
            severity: Severity::new(fixed[17]),
            source: bytes.slice(FIXED_BYTES..source_end),
            line: bytes.slice(source_end..),
        })
    }
}

/// Which of the streams of its priority a source uses.
pub fn slot(source: &[u8]) -> u8 {
    let hash = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, source);
    u8::try_from(hash % u64::from(SLOTS)).unwrap_or_default()
}

/// Ordered streams of each priority.
pub const SLOTS: u8 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_half_of_one_is_not() {
        let record = Record {
            sequence: 7,
            received_us: 1 << 50,
            marks: MARK_CUT,
            severity: Severity::new(3),
            source: Bytes::from_static(b"10.0.0.1"),
            line: Bytes::from_static(b"<3>\0\xff"),
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        for length in 0..FIXED_BYTES + 8 {
            assert_eq!(Record::decode(&bytes.slice(..length)), None, "{length}");
        }
    }
}
