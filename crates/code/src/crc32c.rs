//! The CRC32c of SCTP's packets (RFC 9260 appendix A) and of this crate's symbols.
//!
//! `crc-fast` has tables for all algorithms, which would be two thirds of a module for browsers: there a table of 1 KB takes its place.

/// The checksum of these bytes, as one piece.
#[inline]
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    #[cfg(not(target_family = "wasm"))]
    return low_half(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes));
    #[cfg(target_family = "wasm")]
    return table::continued(0, bytes);
}

/// The checksum of two pieces in a row.
#[inline]
#[must_use]
pub fn checksum_of_two(first: &[u8], second: &[u8]) -> u32 {
    #[cfg(not(target_family = "wasm"))]
    {
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(first);
        digest.update(second);
        low_half(digest.finalize())
    }
    #[cfg(target_family = "wasm")]
    return table::continued(table::continued(0, first), second);
}

/// A register of 32 bits comes in the low half of 64.
#[cfg(not(target_family = "wasm"))]
fn low_half(register: u64) -> u32 {
    u32::try_from(register & u64::from(u32::MAX)).unwrap_or_default()
}

/// Byte by byte.
#[cfg(any(test, target_family = "wasm"))]
mod table {
    /// The generator polynomial, reflected.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    const TABLE: [u32; 256] = table();

    const fn table() -> [u32; 256] {
        let mut table = [0; 256];
        let (mut index, mut byte) = (0, 0);
        while index < 256 {
            let (mut register, mut bit): (u32, u8) = (byte, 0);
            while bit < 8 {
                register = (register >> 1) ^ (POLYNOMIAL * (register & 1));
                bit += 1;
            }
            table[index] = register;
            (index, byte) = (index + 1, byte + 1);
        }
        table
    }

    /// The checksum of what `before` is the checksum of, and these bytes.
    pub(super) fn continued(before: u32, bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!before, |register, byte| {
            let [low, ..] = register.to_le_bytes();
            (register >> 8) ^ TABLE[usize::from(low ^ byte)]
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_table_of_browsers_gives_the_same(first: Vec<u8>, second: Vec<u8>) {
            let whole = [&first[..], &second].concat();
            prop_assert_eq!(table::continued(0, &whole), checksum(&whole));
            prop_assert_eq!(table::continued(table::continued(0, &first), &second), checksum_of_two(&first, &second));
        }
    }
}
