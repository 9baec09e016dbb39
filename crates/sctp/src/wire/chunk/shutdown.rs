//! SHUTDOWN, SHUTDOWN ACK and SHUTDOWN COMPLETE: graceful shutdown (RFC 9260 §3.3.8, §3.3.9, §3.3.13).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |       7       |               |               8               |
//! +---------------+---------------+-------------------------------+
//! |                      cumulative TSN ack                       |
//! +---------------------------------------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |       8       |               |               4               |
//! +---------------+---------------+-------------------------------+
//!
//! +---------------+-------------+-+-------------------------------+
//! |      14       |             |T|               4               |
//! +---------------+-------------+-+-------------------------------+
//! ```

use super::abort::TAG_REFLECTED;
use crate::wire::error::Malformation;
use crate::wire::serial::Tsn;
use crate::wire::tlv::Frame;

/// A SHUTDOWN, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// The highest TSN up to which everything has arrived. The absence of gap ack blocks means nothing here.
    pub cumulative_tsn: Tsn,
}

impl Shutdown {
    pub(in crate::wire) fn read(frame: &Frame<'_>) -> Result<Self, Malformation> {
        Ok(Self { cumulative_tsn: Tsn(u32::from_be_bytes(*frame.exactly()?)) })
    }
}

/// The T bit of a SHUTDOWN COMPLETE.
pub(in crate::wire) fn read_complete(flags: u8, frame: &Frame<'_>) -> Result<bool, Malformation> {
    frame.exactly::<0>()?;
    Ok(flags & TAG_REFLECTED != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{build_and_parse, malformation, parse_chunk};
    use crate::wire::{Chunk, ChunkOut};

    #[test]
    fn a_shutdown_carries_the_cumulative_tsn() {
        let cumulative_tsn = Tsn(0x0102_0304);
        let parsed = build_and_parse(&ChunkOut::Shutdown { cumulative_tsn }, &[7, 0, 0, 8, 1, 2, 3, 4]);
        assert_eq!(parsed, Chunk::Shutdown(Shutdown { cumulative_tsn }));
    }

    #[test]
    fn a_shutdown_ack_is_a_bare_header() {
        assert_eq!(build_and_parse(&ChunkOut::ShutdownAck, &[8, 0, 0, 4]), Chunk::ShutdownAck);
    }

    #[test]
    fn a_shutdown_complete_says_whether_its_tag_is_reflected() {
        for (tag_reflected, flags) in [(false, 0), (true, 1)] {
            let parsed = build_and_parse(&ChunkOut::ShutdownComplete { tag_reflected }, &[14, flags, 0, 4]);
            assert_eq!(parsed, Chunk::ShutdownComplete { tag_reflected });
        }
        assert_eq!(parse_chunk(&[14, 0xfe, 0, 4]), Ok(Chunk::ShutdownComplete { tag_reflected: false }));
    }

    #[test]
    fn every_other_length_is_rejected() {
        for (chunk_type, expected) in [(7, 8), (8, 4), (14, 4)] {
            for length in (4..16u8).filter(|&length| usize::from(length) != expected) {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&[chunk_type, 0, 0, length]);
                let length = usize::from(length);
                assert_eq!(malformation(&bytes[..length]), Malformation::WrongLength { length, expected });
            }
        }
    }
}
