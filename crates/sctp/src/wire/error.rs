//! Faults of received bytes: always the peer's or the network's, never the caller's.

use thiserror::Error;

use super::chunk_type;

/// Why a datagram is no SCTP packet. RFC 9260 §6.8 has such packets discarded without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Shorter than the common header.
    #[error("{len} bytes are too short for an SCTP packet: the common header alone has 12")]
    TooShort {
        /// Bytes received.
        len: usize,
    },
    /// The CRC32c does not match: damaged on the way, or not SCTP.
    #[error("checksum is {received:#010x} but the packet's bytes give {computed:#010x}")]
    Checksum {
        /// As computed over the bytes that arrived.
        computed: u32,
        /// As carried in the common header.
        received: u32,
    },
}

/// A chunk that cannot be read, so that later ones cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed {} chunk: {kind}", chunk_type::Name(*.chunk_type))]
pub struct ChunkError {
    /// The chunk's type.
    pub chunk_type: u8,
    /// The fault.
    pub kind: Malformation,
}

/// A parameter that cannot be read, so that later ones cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed parameter of type {parameter_type:#06x}: {kind}")]
pub struct ParameterError {
    /// The parameter's type; zero where not even the type is complete.
    pub parameter_type: u16,
    /// The fault.
    pub kind: Malformation,
}

/// An error cause that cannot be read, so that later ones cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed error cause of code {code}: {kind}")]
pub struct CauseError {
    /// The cause code; zero where not even the code is complete.
    pub code: u16,
    /// The fault.
    pub kind: Malformation,
}

/// The fault of a chunk, parameter or error cause. All lengths are in bytes and count the 4 bytes of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformation {
    /// Fewer bytes are left than a header takes.
    #[error("{available} bytes left, a header takes 4")]
    HeaderTruncated {
        /// Bytes left.
        available: usize,
    },
    /// The length field does not even cover the header.
    #[error("length field is {length}, below the 4 of the header")]
    LengthBelowHeader {
        /// As in the length field.
        length: u16,
    },
    /// The length field points past the end of what encloses it.
    #[error("length field is {length}, only {available} bytes are left")]
    LengthBeyondEnd {
        /// As in the length field.
        length: u16,
        /// Bytes left.
        available: usize,
    },
    /// Shorter than the fixed fields of its kind.
    #[error("length is {length}, its fixed fields take {minimum}")]
    TooShort {
        /// Actual length.
        length: usize,
        /// Least length of this kind.
        minimum: usize,
    },
    /// Its kind has one exact length, or the counts inside call for another length.
    #[error("length is {length}, must be {expected}")]
    WrongLength {
        /// Actual length.
        length: usize,
        /// The only right length.
        expected: usize,
    },
    /// A list of 16-bit types has half an entry.
    #[error("length is {length}, leaving half an entry of a list of 16-bit types")]
    HalfEntry {
        /// Actual length.
        length: usize,
    },
    /// The blocks of an E-FORWARD-TSN do not ascend, touch, or are too many.
    #[error("blocks of TSNs do not ascend, touch, or are too many")]
    BlocksOutOfOrder,
    /// A HEARTBEAT or HEARTBEAT ACK does not begin with a Heartbeat Info parameter.
    #[error("no Heartbeat Info parameter")]
    NoHeartbeatInfo,
}
