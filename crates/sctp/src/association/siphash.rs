//! SipHash-2-4 with a 128-bit result (Aumasson and Bernstein, 2012): a keyed hash for cookies and for deriving tags.
//!
//! The core links no cryptography crate; this is small, needs no table, and is checked against the published vectors.

/// A 128-bit key.
#[derive(Clone, Copy)]
pub(crate) struct Key(u64, u64);

impl Key {
    pub(crate) fn new(bytes: [u8; 16]) -> Self {
        Self::from_u128(u128::from_le_bytes(bytes))
    }

    /// The key whose little-endian bytes are those of `value`.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are taken on purpose")]
    pub(crate) fn from_u128(value: u128) -> Self {
        Self(value as u64, (value >> 64) as u64)
    }

    /// The keyed hash of `message`.
    pub(crate) fn hash(self, message: &[u8]) -> u128 {
        let mut state = State::new(self);
        let (words, rest) = message.as_chunks::<8>();
        for word in words {
            state.absorb(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let length_byte = (message.len() as u64 & 0xff) << 56;
        state.absorb(u64::from_le_bytes(last) | length_byte);
        state.finish()
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("Key(secret)")
    }
}

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    fn new(Key(k0, k1): Key) -> Self {
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }

    fn finish(mut self) -> u128 {
        self.v2 ^= 0xee;
        let low = self.squeeze();
        self.v1 ^= 0xdd;
        let high = self.squeeze();
        u128::from(low) | u128::from(high) << 64
    }

    fn squeeze(&mut self) -> u64 {
        for _ in 0..4 {
            self.round();
        }
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new(core::array::from_fn(|index| u8::try_from(index).unwrap()))
    }

    #[test]
    fn the_published_128_bit_vectors_hold() {
        let empty = [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93];
        let one = [0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45];
        assert_eq!(key().hash(&[]).to_le_bytes(), empty);
        assert_eq!(key().hash(&[0]).to_le_bytes(), one);
    }

    #[test]
    fn every_bit_of_a_message_and_its_length_changes_the_hash() {
        let message = [7_u8; 40];
        let hash = key().hash(&message);
        for bit in 0..message.len() * 8 {
            let mut changed = message;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(key().hash(&changed), hash, "bit {bit}");
        }
        assert_ne!(key().hash(&message[..39]), hash);
        assert_ne!(key().hash(&[0; 8]), key().hash(&[0; 9]));
    }
}
