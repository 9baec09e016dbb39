//! ECNE and CWR: reports of congestion marks, and their answers (RFC 3168; RFC 9260 §3.2 reserves both types, RFC 4960 appendix A describes them).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |      12       |               |            8 or 12            |
//! +---------------+---------------+-------------------------------+
//! |                          lowest TSN                           |
//! +---------------------------------------------------------------+
//! |              packets marked since CWR, or nothing             |
//! +---------------------------------------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |      13       |               |               8               |
//! +---------------+---------------+-------------------------------+
//! |                          lowest TSN                           |
//! +---------------------------------------------------------------+
//! ```
//!
//! RFC 4960 has no number of packets in ECNE, and neither has Linux. FreeBSD's stack and usrsctp, its derivative, have one
//! (draft-stewart-tsvwg-sctpecn). They drop the rest of a packet from an ECNE without it on, and so miss the SACK after it: an association with them
//! stalls at the first mark. Linux accepts any ECNE of 8 bytes or more. So it is written with the number, which is not used here.

use crate::wire::error::Malformation;
use crate::wire::serial::Tsn;
use crate::wire::tlv::Frame;

/// The lengths of its value.
const ECNE_BYTES: [usize; 2] = [4, 8];

/// The TSN of an ECNE: the lowest in a packet that came with the mark.
pub(in crate::wire) fn read_ecne(frame: &Frame<'_>) -> Result<Tsn, Malformation> {
    match frame.value.first_chunk() {
        Some(tsn) if ECNE_BYTES.contains(&frame.value.len()) => Ok(Tsn(u32::from_be_bytes(*tsn))),
        _ => Err(Malformation::WrongLength { length: frame.bytes.len(), expected: 8 }),
    }
}

/// The TSN of a CWR: that of the ECNE that it answers.
pub(in crate::wire) fn read_cwr(frame: &Frame<'_>) -> Result<Tsn, Malformation> {
    Ok(Tsn(u32::from_be_bytes(*frame.exactly()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{build_and_parse, malformation, parse_chunk};
    use crate::wire::{Chunk, ChunkOut};

    #[test]
    fn both_carry_a_tsn() {
        let tsn = Tsn(0x0102_0304);
        let ecne = ChunkOut::Ecne { tsn, packets: 9 };
        assert_eq!(build_and_parse(&ecne, &[12, 0, 0, 12, 1, 2, 3, 4, 0, 0, 0, 9]), Chunk::Ecne(tsn));
        assert_eq!(build_and_parse(&ChunkOut::Cwr(tsn), &[13, 0, 0, 8, 1, 2, 3, 4]), Chunk::Cwr(tsn));
    }

    #[test]
    fn an_ecne_without_a_number_of_packets_is_that_of_rfc_4960() {
        assert_eq!(parse_chunk(&[12, 0, 0, 8, 1, 2, 3, 4]), Ok(Chunk::Ecne(Tsn(0x0102_0304))));
    }

    #[test]
    fn every_other_length_is_rejected() {
        for (chunk_type, accepted) in [(12, &[8, 12][..]), (13, &[8])] {
            for length in (4..20u8).filter(|length| !accepted.contains(length)) {
                let mut bytes = [0; 20];
                bytes[..4].copy_from_slice(&[chunk_type, 0, 0, length]);
                let length = usize::from(length);
                assert_eq!(malformation(&bytes[..length]), Malformation::WrongLength { length, expected: 8 });
            }
        }
    }
}
