//! A source symbol as it is summed: checksum, bytes, mark.

use crate::{SYMBOL_BYTES_MAX, crc32c};

const CHECK_BYTES: usize = 4;
/// The byte behind the symbol's own: all after it are padding, which is zero.
const MARK: u8 = 1;
/// Bytes of checksum and mark.
pub(crate) const SEAL_BYTES: usize = CHECK_BYTES + 1;
/// Maximum length of a sealed symbol, and of a repair symbol.
pub(crate) const SEALED_BYTES_MAX: usize = SYMBOL_BYTES_MAX + SEAL_BYTES;

/// Multiplies the CRC32c. The factor is odd, so no two CRC32c's have the same product.
const NON_LINEARITY: u32 = 0x9e37_79b1;

/// A symbol with room for its checksum, which is computed when the symbol is first summed.
#[derive(Debug, Default)]
pub(crate) struct Symbol {
    pub(crate) id: u64,
    bytes: Vec<u8>,
    is_sealed: bool,
}

impl Symbol {
    /// Writes a symbol into the buffer of one that is no longer needed.
    pub(crate) fn new(id: u64, bytes: &[u8], spare: Self) -> Self {
        let mut buffer = spare.bytes;
        buffer.clear();
        buffer.reserve_exact(bytes.len() + SEAL_BYTES);
        buffer.extend_from_slice(&[0; CHECK_BYTES]);
        buffer.extend_from_slice(bytes);
        buffer.push(MARK);
        Self { id, bytes: buffer, is_sealed: false }
    }

    /// Takes a computed sum. Returns `None` if it is not a symbol with this identifier, sealed by the sender.
    pub(crate) fn of_sum(id: u64, mut bytes: Vec<u8>) -> Option<Self> {
        let end = bytes.iter().rposition(|&byte| byte != 0)?;
        bytes.truncate(end + 1);
        let check = *bytes.first_chunk::<CHECK_BYTES>()?;
        if end < CHECK_BYTES || bytes.last() != Some(&MARK) {
            return None;
        }
        let mut symbol = Self { id, bytes, is_sealed: false };
        (*symbol.sealed().first_chunk::<CHECK_BYTES>()? == check).then_some(symbol)
    }

    /// Returns the bytes to be summed.
    pub(crate) fn sealed(&mut self) -> &[u8] {
        if !self.is_sealed {
            self.write_check(&low_half(self.id).to_be_bytes());
            let crc = crc32c::checksum(&self.bytes);
            self.write_check(&crc.wrapping_mul(NON_LINEARITY).to_be_bytes());
            self.is_sealed = true;
        }
        &self.bytes
    }

    fn write_check(&mut self, check: &[u8; CHECK_BYTES]) {
        if let Some(field) = self.bytes.first_chunk_mut() {
            *field = *check;
        }
    }

    /// Length of the sealed symbol in bytes.
    pub(crate) fn sealed_bytes(&self) -> usize {
        self.bytes.len()
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The symbol's own bytes.
    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(CHECK_BYTES..self.bytes.len() - 1).unwrap_or_default()
    }
}

fn low_half(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(id: u64, bytes: &[u8]) -> Vec<u8> {
        Symbol::new(id, bytes, Symbol::default()).sealed().to_vec()
    }

    #[test]
    fn a_sealed_symbol_is_read_with_any_padding_and_each_changed_byte_is_found() {
        for bytes in [&b""[..], b"a", b"ends with zeros\0\0\0", &[7; SYMBOL_BYTES_MAX]] {
            for padding in [0, 1, 9] {
                let mut sum = sealed(5, bytes);
                assert_eq!(sum.len(), bytes.len() + SEAL_BYTES);
                sum.resize(sum.len() + padding, 0);
                let symbol = Symbol::of_sum(5, sum.clone()).expect("it is sound");
                assert_eq!((symbol.id, symbol.payload()), (5, bytes));
                assert!(Symbol::of_sum(6, sum.clone()).is_none(), "of another identifier");
                for at in 0..sum.len() {
                    let mut sum = sum.clone();
                    sum[at] ^= 0x10;
                    assert!(Symbol::of_sum(5, sum).is_none(), "{bytes:?} {at}");
                }
            }
        }
    }

    #[test]
    fn identifiers_that_agree_in_their_low_half_give_the_same_seal() {
        assert_eq!(sealed(0x1_0000_0005, b"x"), sealed(5, b"x"));
        assert_ne!(sealed(4, b"x"), sealed(5, b"x"));
    }

    #[test]
    fn the_sum_of_an_odd_number_of_symbols_of_one_length_is_not_sealed() {
        // The identifiers of the first four cancel each other, which a plain CRC32c would not notice.
        let mut sum = sealed(9, b"the ninth");
        for (id, bytes) in [(4, b"the 4th__"), (5, b"the 5th__"), (6, b"the 6th__"), (7, b"the 7th__")] {
            sum.iter_mut().zip(sealed(id, bytes)).for_each(|(sum, byte)| *sum ^= byte);
        }
        assert_eq!(sum.last(), Some(&MARK));
        assert!(Symbol::of_sum(9, sum).is_none());
    }
}
