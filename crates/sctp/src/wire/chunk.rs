//! The chunks (RFC 9260 §3.2, §3.3; RFC 3758 §3.2; RFC 8260 §2; RFC 6525 §3): one file each.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |     type      |     flags     | length (header and value)     |
//! +---------------+---------------+-------------------------------+
//! |                 value, padded to 4 bytes ...                  |
//! ```

mod abort;
mod cookie;
mod data;
mod ecn;
mod enhanced_forward_tsn;
mod error;
mod forward_tsn;
mod heartbeat;
mod i_data;
mod init;
mod nr_sack;
mod re_config;
mod repair;
mod sack;
mod shutdown;
mod unknown;

pub use abort::Abort;
pub use data::{Data, DataHeader};
pub use enhanced_forward_tsn::{EnhancedForwardTsn, SkippedRun};
pub use error::Errors;
pub use forward_tsn::{ForwardTsn, IForwardTsn, SkippedMessage};
pub use heartbeat::Heartbeat;
pub use i_data::{IData, IDataHeader};
pub use init::{Init, InitOut};
pub use nr_sack::NrSack;
pub use re_config::{ReConfig, ReConfigParameter, ReConfigParameters, ReConfigResult, StreamList};
pub use repair::RepairChunk;
pub use sack::Sack;
pub use shutdown::Shutdown;
pub use unknown::UnknownChunk;

pub(crate) use abort::TAG_REFLECTED;
pub(crate) use sack::gap_ack_block;

pub(super) use data::{BEGINNING, DATA_HEADER_BYTES, END, UNORDERED, flag};
pub(super) use enhanced_forward_tsn::write_enhanced_forward_tsn;
pub(super) use forward_tsn::{write_forward_tsn, write_i_forward_tsn};
pub(super) use i_data::I_DATA_HEADER_BYTES;
pub(super) use nr_sack::write_nr_sack;
pub(super) use repair::{row_flags, write_repair};
pub(super) use sack::write_sack;

use super::chunk_type;
use super::error::Malformation;
use super::serial::Tsn;
use super::tlv::Frame;

/// A chunk, as read from a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// User data.
    Data(Data<'a>),
    /// The first chunk of the handshake.
    Init(Init<'a>),
    /// The answer to INIT, with the State Cookie among its parameters.
    InitAck(Init<'a>),
    /// Acknowledgement of received chunks.
    Sack(Sack<'a>),
    /// A probe of the path.
    Heartbeat(Heartbeat<'a>),
    /// The echo of a probe.
    HeartbeatAck(Heartbeat<'a>),
    /// The end, at once.
    Abort(Abort<'a>),
    /// The sender will send no new data.
    Shutdown(Shutdown),
    /// Nor will the answering side.
    ShutdownAck,
    /// Something was wrong, but not fatally so.
    Error(Errors<'a>),
    /// The State Cookie, returned as it came.
    CookieEcho(&'a [u8]),
    /// The cookie was good.
    CookieAck,
    /// The end of a graceful shutdown.
    ShutdownComplete {
        /// The T bit: the packet carries the tag of the packet it answers (RFC 9260 §8.5.1).
        tag_reflected: bool,
    },
    /// User data that may be interleaved. Peers that have not agreed on it treat it as unknown, as the eight below.
    IData(IData<'a>),
    /// Missing chunks up to a TSN are abandoned.
    ForwardTsn(ForwardTsn<'a>),
    /// As FORWARD-TSN, for I-DATA.
    IForwardTsn(IForwardTsn<'a>),
    /// Chunks that may lie apart are abandoned.
    EnhancedForwardTsn(EnhancedForwardTsn<'a>),
    /// Acknowledgement of received chunks, with those that will not be reneged on.
    NrSack(NrSack<'a>),
    /// Requests and responses that change streams.
    ReConfig(ReConfig<'a>),
    /// A weighted sum of chunks that carry user data.
    Repair(RepairChunk<'a>),
    /// The network marked a packet: the lowest TSN in it.
    Ecne(Tsn),
    /// The window was reduced for that TSN.
    Cwr(Tsn),
    /// Any other type.
    Unknown(UnknownChunk<'a>),
}

impl<'a> Chunk<'a> {
    #[inline]
    pub(super) fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        let [chunk_type, flags] = frame.kind;
        match chunk_type {
            chunk_type::DATA => Data::read(flags, frame).map(Self::Data),
            chunk_type::SACK => Sack::read(frame).map(Self::Sack),
            _ => Self::read_control(chunk_type, flags, frame),
        }
    }

    /// The rest of [`Chunk::read`], kept out of the way of the two chunks that nearly all packets consist of.
    fn read_control(chunk_type: u8, flags: u8, frame: &Frame<'a>) -> Result<Self, Malformation> {
        Ok(match chunk_type {
            chunk_type::INIT => Self::Init(Init::read(frame)?),
            chunk_type::INIT_ACK => Self::InitAck(Init::read(frame)?),
            chunk_type::HEARTBEAT => Self::Heartbeat(Heartbeat::read(frame)?),
            chunk_type::HEARTBEAT_ACK => Self::HeartbeatAck(Heartbeat::read(frame)?),
            chunk_type::ABORT => Self::Abort(Abort::read(flags, frame)),
            chunk_type::SHUTDOWN => Self::Shutdown(Shutdown::read(frame)?),
            chunk_type::SHUTDOWN_ACK => frame.exactly::<0>().map(|_| Self::ShutdownAck)?,
            chunk_type::ERROR => Self::Error(Errors::read(frame)),
            chunk_type::COOKIE_ECHO => Self::CookieEcho(cookie::read_echo(frame)),
            chunk_type::COOKIE_ACK => frame.exactly::<0>().map(|_| Self::CookieAck)?,
            chunk_type::SHUTDOWN_COMPLETE => {
                Self::ShutdownComplete { tag_reflected: shutdown::read_complete(flags, frame)? }
            }
            chunk_type::I_DATA => Self::IData(IData::read(flags, frame)?),
            chunk_type::FORWARD_TSN => Self::ForwardTsn(ForwardTsn::read(frame)?),
            chunk_type::I_FORWARD_TSN => Self::IForwardTsn(IForwardTsn::read(frame)?),
            chunk_type::ENHANCED_FORWARD_TSN => Self::EnhancedForwardTsn(EnhancedForwardTsn::read(frame)?),
            chunk_type::NR_SACK => Self::NrSack(NrSack::read(frame)?),
            chunk_type::RE_CONFIG => Self::ReConfig(ReConfig::read(frame)),
            chunk_type::REPAIR => Self::Repair(RepairChunk::read(flags, frame)?),
            chunk_type::ECNE => Self::Ecne(ecn::read_ecne(frame)?),
            chunk_type::CWR => Self::Cwr(ecn::read_cwr(frame)?),
            _ => Self::Unknown(UnknownChunk::read(frame)),
        })
    }

    /// Its type number.
    #[must_use]
    pub const fn chunk_type(&self) -> u8 {
        match self {
            Self::Data(_) => chunk_type::DATA,
            Self::Init(_) => chunk_type::INIT,
            Self::InitAck(_) => chunk_type::INIT_ACK,
            Self::Sack(_) => chunk_type::SACK,
            Self::Heartbeat(_) => chunk_type::HEARTBEAT,
            Self::HeartbeatAck(_) => chunk_type::HEARTBEAT_ACK,
            Self::Abort(_) => chunk_type::ABORT,
            Self::Shutdown(_) => chunk_type::SHUTDOWN,
            Self::ShutdownAck => chunk_type::SHUTDOWN_ACK,
            Self::Error(_) => chunk_type::ERROR,
            Self::CookieEcho(_) => chunk_type::COOKIE_ECHO,
            Self::CookieAck => chunk_type::COOKIE_ACK,
            Self::ShutdownComplete { .. } => chunk_type::SHUTDOWN_COMPLETE,
            Self::IData(_) => chunk_type::I_DATA,
            Self::ForwardTsn(_) => chunk_type::FORWARD_TSN,
            Self::IForwardTsn(_) => chunk_type::I_FORWARD_TSN,
            Self::EnhancedForwardTsn(_) => chunk_type::ENHANCED_FORWARD_TSN,
            Self::NrSack(_) => chunk_type::NR_SACK,
            Self::ReConfig(_) => chunk_type::RE_CONFIG,
            Self::Repair(_) => chunk_type::REPAIR,
            Self::Ecne(_) => chunk_type::ECNE,
            Self::Cwr(_) => chunk_type::CWR,
            Self::Unknown(unknown) => unknown.chunk_type(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::parse_chunk;

    #[test]
    fn every_unassigned_or_reserved_type_is_unknown_and_keeps_its_bytes() {
        for chunk_type in (0..=u8::MAX)
            .filter(|chunk_type| !matches!(chunk_type, 0..=14 | 0x10 | 0x40 | 0x82 | 0xb6 | 0xc0 | 0xc2 | 0xf5))
        {
            let bytes = [chunk_type, 0xa5, 0, 7, 1, 2, 3];
            let Ok(Chunk::Unknown(unknown)) = parse_chunk(&bytes) else { panic!("{chunk_type} is known") };
            assert_eq!((unknown.chunk_type(), unknown.flags()), (chunk_type, 0xa5));
            assert_eq!((unknown.value(), unknown.bytes()), (&[1, 2, 3][..], &bytes[..]));
        }
    }

    #[test]
    fn the_chunks_of_extensions_make_no_chunk_larger() {
        assert!(size_of::<Chunk<'_>>() <= 48, "{} bytes", size_of::<Chunk<'_>>());
    }

    #[test]
    fn errors_name_the_chunk_and_what_is_wrong_with_it() {
        let error = parse_chunk(&[chunk_type::SHUTDOWN, 0, 0, 4]).expect_err("too short");
        assert_eq!(error.to_string(), "malformed SHUTDOWN chunk: length is 4, must be 8");
        let error = parse_chunk(&[0xc1, 0, 0, 9, 1]).expect_err("beyond the end");
        assert_eq!(error.to_string(), "malformed type 0xc1 chunk: length field is 9, only 5 bytes are left");
    }

    #[test]
    fn a_chunk_knows_its_own_type() {
        for (bytes, chunk_type) in [
            (&[0, 3, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], chunk_type::DATA),
            (&[1, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], chunk_type::INIT),
            (&[2, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], chunk_type::INIT_ACK),
            (&[3, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], chunk_type::SACK),
            (&[4, 0, 0, 8, 0, 1, 0, 4], chunk_type::HEARTBEAT),
            (&[5, 0, 0, 8, 0, 1, 0, 4], chunk_type::HEARTBEAT_ACK),
            (&[6, 0, 0, 4], chunk_type::ABORT),
            (&[7, 0, 0, 8, 0, 0, 0, 0], chunk_type::SHUTDOWN),
            (&[8, 0, 0, 4], chunk_type::SHUTDOWN_ACK),
            (&[9, 0, 0, 4], chunk_type::ERROR),
            (&[10, 0, 0, 4], chunk_type::COOKIE_ECHO),
            (&[11, 0, 0, 4], chunk_type::COOKIE_ACK),
            (&[12, 0, 0, 8, 0, 0, 0, 0], chunk_type::ECNE),
            (&[13, 0, 0, 8, 0, 0, 0, 0], chunk_type::CWR),
            (&[14, 0, 0, 4], chunk_type::SHUTDOWN_COMPLETE),
            (&[0x10, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], chunk_type::NR_SACK),
            (&[0x40, 3, 0, 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], chunk_type::I_DATA),
            (&[0x82, 0, 0, 4], chunk_type::RE_CONFIG),
            (&[0xb6, 0, 0, 10, 0, 0, 0, 0, 0, 1, 0, 0], chunk_type::REPAIR),
            (&[0xc0, 0, 0, 8, 0, 0, 0, 0], chunk_type::FORWARD_TSN),
            (&[0xc2, 0, 0, 8, 0, 0, 0, 0], chunk_type::I_FORWARD_TSN),
            (&[0xf5, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0], chunk_type::ENHANCED_FORWARD_TSN),
            (&[0x41, 0, 0, 4], 0x41),
        ] {
            assert_eq!(parse_chunk(bytes).map(|chunk| chunk.chunk_type()), Ok(chunk_type));
        }
    }
}
