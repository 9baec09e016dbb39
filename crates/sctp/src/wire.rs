//! The bytes of SCTP (RFC 9260 §3) and of its extensions for partial reliability (RFC 3758) and interleaving (RFC 8260): reading and writing packets, and nothing else.
//!
//! Reading borrows: [`Packet::parse`] checks length and checksum, [`Packet::chunks`] walks the chunks, and every
//! [`Chunk`], [`Parameter`] and [`Cause`] is a view into the caller's bytes. Writing appends: a [`PacketBuilder`] adds
//! chunks to the caller's `Vec<u8>` up to a packet size. Neither allocates on its own account.
//!
//! | module | responsibility |
//! |---|---|
//! | [`packet`] | common header, walking the chunks |
//! | [`builder`] | bundling chunks into one packet, checksum included |
//! | [`chunk`] | one file per chunk |
//! | [`framing`] | DATA or I-DATA for the messages of an association |
//! | `symbol` | DATA and I-DATA as they are summed into REPAIR |
//! | [`parameter`], [`cause`] | the type-length-value fields inside control chunks |
//! | [`serial`] | TSN, SSN, MID and stream identifier, and their unwrapping to 64 bits |
//! | [`checksum`] | CRC32c |
//!
//! ```
//! use festina_sctp::wire::{Chunk, CommonHeader, DataHeader, Packet, PacketBuilder, Ssn, StreamId, Tsn};
//!
//! let header = CommonHeader { source_port: 5000, destination_port: 5001, verification_tag: 7 };
//! let data = DataHeader {
//!     tsn: Tsn(1),
//!     stream: StreamId(0),
//!     ssn: Ssn(0),
//!     ppid: 0,
//!     unordered: false,
//!     beginning: true,
//!     end: true,
//!     immediate: false,
//! };
//! let mut bytes = Vec::new();
//! let mut builder = PacketBuilder::new(&mut bytes, header, 1200);
//! assert!(builder.data(&data, b"hello"));
//! builder.finish();
//!
//! let packet = Packet::parse(&bytes)?;
//! for chunk in packet.chunks() {
//!     if let Chunk::Data(data) = chunk? {
//!         assert_eq!(data.payload, b"hello");
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod builder;
pub mod cause;
pub mod checksum;
pub mod chunk;
pub mod chunk_type;
mod encode;
pub mod error;
pub mod framing;
pub mod packet;
pub mod parameter;
pub mod serial;
mod symbol;
mod tlv;

#[cfg(test)]
mod tests;

pub use builder::{ChunkOut, PacketBuilder};
pub use cause::{Cause, Causes};
pub use chunk::{
    Abort, Chunk, Data, DataHeader, EnhancedForwardTsn, Errors, ForwardTsn, Heartbeat, IData, IDataHeader, IForwardTsn,
    Init, InitOut, NrSack, ReConfig, ReConfigParameter, ReConfigParameters, ReConfigResult, RepairChunk, Sack,
    Shutdown, SkippedMessage, SkippedRun, StreamList, UnknownChunk,
};
pub(crate) use chunk::{TAG_REFLECTED, gap_ack_block};
pub use error::{CauseError, ChunkError, Malformation, PacketError, ParameterError};
pub use framing::{FragmentHeader, Framing};
pub use packet::{Chunks, CommonHeader, Packet};
pub use parameter::{Parameter, Parameters, TypeList, UnknownParameter, parameter_type};
pub use serial::{Mid, Ssn, StreamId, Tsn};
pub(crate) use symbol::chunk_of_symbol;

/// Bytes of the common header at the front of every packet (RFC 9260 §3.1).
pub const COMMON_HEADER_BYTES: usize = 12;
/// Bytes of a chunk header: type, flags and length (RFC 9260 §3.2).
pub const CHUNK_HEADER_BYTES: usize = 4;
/// Bytes of a DATA chunk before its payload (RFC 9260 §3.3.1).
pub const DATA_HEADER_BYTES: usize = Framing::Data.header_bytes();
/// Bytes of a SACK chunk before its gap ack blocks (RFC 9260 §3.3.4).
pub const SACK_HEADER_BYTES: usize = 16;

/// The action that the two highest bits of an unknown type require (RFC 9260 §3.2, tables 2 and 3).
///
/// For a chunk "stop" ends the packet, for a parameter it ends the parameters of that chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownAction {
    /// `00`: discard it and all that follows.
    Stop,
    /// `01`: discard it and all that follows, and report it.
    StopAndReport,
    /// `10`: pass over it.
    Skip,
    /// `11`: pass over it, and report it.
    SkipAndReport,
}

impl UnknownAction {
    /// The action for the first byte of a chunk or parameter type.
    #[must_use]
    pub const fn from_first_byte(byte: u8) -> Self {
        match byte >> 6 {
            0b00 => Self::Stop,
            0b01 => Self::StopAndReport,
            0b10 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }

    /// Whether an ERROR is sent to the peer.
    #[must_use]
    pub const fn reports(self) -> bool {
        matches!(self, Self::StopAndReport | Self::SkipAndReport)
    }

    /// Whether later chunks are still to be processed.
    #[must_use]
    pub const fn continues(self) -> bool {
        matches!(self, Self::Skip | Self::SkipAndReport)
    }
}
