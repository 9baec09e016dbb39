//! HEARTBEAT and HEARTBEAT ACK: a probe and its echo, alike in form (RFC 9260 §3.3.5, §3.3.6).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    4 or 5     |               |           8 + info            |
//! +---------------+---------------+-------------------------------+
//! |   1 (Heartbeat Info)          |           4 + info            |
//! +-------------------------------+-------------------------------+
//! |              info, known to its sender alone ...              |
//! ```

use crate::wire::error::Malformation;
use crate::wire::parameter::parameter_type;
use crate::wire::tlv::Frame;

/// A HEARTBEAT or HEARTBEAT ACK, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// The value of the Heartbeat Info parameter, to be echoed as it is.
    pub info: &'a [u8],
}

impl<'a> Heartbeat<'a> {
    /// The parameter must come first; anything after it is ignored.
    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        if frame.value.is_empty() {
            return Err(Malformation::NoHeartbeatInfo);
        }
        let (parameter, _) = Frame::split(frame.value)?;
        if parameter.kind_u16() != parameter_type::HEARTBEAT_INFO {
            return Err(Malformation::NoHeartbeatInfo);
        }
        Ok(Self { info: parameter.value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{build_and_parse, malformation, parse_chunk};
    use crate::wire::{Chunk, ChunkOut};

    #[test]
    fn a_heartbeat_and_its_echo_carry_the_info_in_a_parameter() {
        let info = &[1, 2, 3, 4, 5][..];
        let mut bytes = [4, 0, 0, 13, 0, 1, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0];
        assert_eq!(build_and_parse(&ChunkOut::Heartbeat { info }, &bytes), Chunk::Heartbeat(Heartbeat { info }));
        bytes[0] = 5;
        assert_eq!(build_and_parse(&ChunkOut::HeartbeatAck { info }, &bytes), Chunk::HeartbeatAck(Heartbeat { info }));
    }

    #[test]
    fn whatever_follows_the_info_is_ignored() {
        let bytes = [4, 0, 0, 14, 0, 1, 0, 5, 9, 0, 0, 0, 0xaa, 0xbb];
        assert_eq!(parse_chunk(&bytes), Ok(Chunk::Heartbeat(Heartbeat { info: &[9] })));
    }

    #[test]
    fn without_a_whole_info_parameter_it_is_malformed() {
        for (bytes, expected) in [
            (&[4, 0, 0, 4][..], Malformation::NoHeartbeatInfo),
            (&[5, 0, 0, 8, 0, 2, 0, 4], Malformation::NoHeartbeatInfo),
            (&[4, 0, 0, 6, 0, 1], Malformation::HeaderTruncated { available: 2 }),
            (&[4, 0, 0, 8, 0, 1, 0, 3], Malformation::LengthBelowHeader { length: 3 }),
            (&[5, 0, 0, 8, 0, 1, 0, 5, 0], Malformation::LengthBeyondEnd { length: 5, available: 4 }),
        ] {
            assert_eq!(malformation(bytes), expected);
        }
    }
}
