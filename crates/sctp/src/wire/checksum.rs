//! The CRC32c that guards every packet (RFC 9260 §6.8, appendix A).

use festina_code::crc32c;

use super::COMMON_HEADER_BYTES;

/// Bytes behind the common header of a packet that counts as small.
const SMALL_CHUNKS_MAX: usize = 116;

/// Where the checksum stands in the common header: its offset and one past its end, in bytes.
pub(super) const CHECKSUM_RANGE: core::ops::Range<usize> = 8..12;

/// The checksum of a packet, given as common header and all that follows; the checksum field itself counts as zero.
///
/// The result is sent least significant byte first: appendix A orders the bits of the remainder in reverse,
/// and so does the usual reflected CRC register.
#[inline]
#[must_use]
pub fn packet_checksum(header: &[u8; COMMON_HEADER_BYTES], chunks: &[u8]) -> u32 {
    if chunks.len() <= SMALL_CHUNKS_MAX {
        return small_packet_checksum(header, chunks);
    }
    let mut zeroed = *header;
    zeroed[CHECKSUM_RANGE].fill(0);
    crc32c::checksum_of_two(&zeroed, chunks)
}

/// A packet that holds a SACK or a small message is copied, so that it lies in one piece: that takes less time than two pieces do.
#[inline]
fn small_packet_checksum(header: &[u8; COMMON_HEADER_BYTES], chunks: &[u8]) -> u32 {
    let mut packet = [0; COMMON_HEADER_BYTES + SMALL_CHUNKS_MAX];
    let length = COMMON_HEADER_BYTES + chunks.len();
    let Some(packet) = packet.get_mut(..length) else { return 0 };
    let (zeroed, rest) = packet.split_at_mut(COMMON_HEADER_BYTES);
    zeroed.copy_from_slice(header);
    zeroed[CHECKSUM_RANGE].fill(0);
    rest.copy_from_slice(chunks);
    checksum_of_zeroed(packet)
}

/// The checksum of a packet whose checksum field is still zero.
#[inline]
pub(super) fn checksum_of_zeroed(packet: &[u8]) -> u32 {
    crc32c::checksum(packet)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bit by bit from the generator polynomial of appendix A, reflected: slow, obvious, and not the crate under test.
    fn bitwise_crc32c(bytes: &[u8]) -> u32 {
        let mut register = u32::MAX;
        for &byte in bytes {
            register ^= u32::from(byte);
            for _ in 0..8 {
                let feedback = if register & 1 == 1 { 0x82f6_3b78 } else { 0 };
                register = (register >> 1) ^ feedback;
            }
        }
        !register
    }

    #[test]
    fn the_well_known_vectors_hold() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (bytes, expected) in [
            (&[0u8; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (&descending, 0x113f_db5c),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(checksum_of_zeroed(bytes), expected);
            assert_eq!(bitwise_crc32c(bytes), expected);
        }
    }

    #[test]
    fn the_checksum_field_does_not_enter_its_own_checksum() {
        let mut header = [1u8; COMMON_HEADER_BYTES];
        let before = packet_checksum(&header, b"chunks");
        header[CHECKSUM_RANGE].fill(0xee);
        assert_eq!(packet_checksum(&header, b"chunks"), before);
        header[CHECKSUM_RANGE].fill(0);
        assert_eq!(checksum_of_zeroed(&[&header[..], b"chunks"].concat()), before);
    }

    proptest! {
        #[test]
        fn the_checksum_agrees_with_a_bitwise_one(header: [u8; 12], chunks in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut zeroed = [&header[..], &chunks].concat();
            zeroed[CHECKSUM_RANGE].fill(0);
            prop_assert_eq!(packet_checksum(&header, &chunks), bitwise_crc32c(&zeroed));
        }
    }
}
