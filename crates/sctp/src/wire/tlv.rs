//! The frame that chunks, parameters and error causes share: two bytes of kind, a 16-bit length that counts its own
//! four-byte header but no trailing padding, the value, zero padding to a multiple of four (RFC 9260 §3.2, §3.2.1).

use super::CHUNK_HEADER_BYTES;
use super::error::Malformation;

/// One frame taken from the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Chunk type and flags, or the 16-bit type or code in network order.
    pub(super) kind: [u8; 2],
    /// After the header, without padding.
    pub(super) value: &'a [u8],
    /// Header and value, without padding.
    pub(super) bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Splits the first frame off `bytes`. The padding of the last frame may be missing; its content is ignored.
    #[inline]
    pub(super) fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Malformation> {
        let Some((&[kind_high, kind_low, length_high, length_low], _)) = bytes.split_first_chunk() else {
            return Err(Malformation::HeaderTruncated { available: bytes.len() });
        };
        let length = u16::from_be_bytes([length_high, length_low]);
        let Some((frame, rest)) = bytes.split_at_checked(usize::from(length)) else {
            return Err(Malformation::LengthBeyondEnd { length, available: bytes.len() });
        };
        let Some((_, value)) = frame.split_at_checked(CHUNK_HEADER_BYTES) else {
            return Err(Malformation::LengthBelowHeader { length });
        };
        let rest = rest.get(padding(usize::from(length))..).unwrap_or_default();
        Ok((Self { kind: [kind_high, kind_low], value, bytes: frame }, rest))
    }

    /// The kind read as one 16-bit number.
    #[inline]
    pub(super) fn kind_u16(&self) -> u16 {
        u16::from_be_bytes(self.kind)
    }

    /// The value as exactly `N` bytes.
    #[inline]
    pub(super) fn exactly<const N: usize>(&self) -> Result<&'a [u8; N], Malformation> {
        self.value
            .try_into()
            .map_err(|_| Malformation::WrongLength { length: self.bytes.len(), expected: CHUNK_HEADER_BYTES + N })
    }

    /// The value's first `N` bytes and the rest.
    #[inline]
    pub(super) fn at_least<const N: usize>(&self) -> Result<(&'a [u8; N], &'a [u8]), Malformation> {
        self.value
            .split_first_chunk()
            .ok_or(Malformation::TooShort { length: self.bytes.len(), minimum: CHUNK_HEADER_BYTES + N })
    }
}

/// The first two bytes as a number for error reports, zero where there are none.
pub(super) fn kind_or_zero(bytes: &[u8]) -> u16 {
    bytes.first_chunk().map_or(0, |kind| u16::from_be_bytes(*kind))
}

/// Zero bytes that follow something of `length` bytes.
#[inline]
pub(super) const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_ends_at_its_length_and_the_next_begins_after_the_padding() {
        let (frame, rest) = Frame::split(&[0, 5, 0, 5, 9, 0, 0, 0, 7]).expect("well formed");
        assert_eq!((frame.kind_u16(), frame.value, frame.bytes), (5, &[9][..], &[0, 5, 0, 5, 9][..]));
        assert_eq!(rest, &[7]);
    }

    #[test]
    fn the_last_frame_may_lack_some_or_all_of_its_padding() {
        for bytes in [&[0, 5, 0, 5, 9][..], &[0, 5, 0, 5, 9, 0], &[0, 5, 0, 5, 9, 0, 0]] {
            let (frame, rest) = Frame::split(bytes).expect("well formed");
            assert_eq!((frame.value, rest), (&[9][..], &[][..]));
        }
    }

    #[test]
    fn the_content_of_padding_is_ignored() {
        let (_, rest) = Frame::split(&[0, 5, 0, 6, 9, 9, 0xff, 0xff, 1]).expect("well formed");
        assert_eq!(rest, &[1]);
    }

    #[test]
    fn every_length_that_does_not_fit_is_rejected() {
        for available in 0..4 {
            let error = Frame::split(&[0, 5, 0, 4][..available]).expect_err("no whole header");
            assert_eq!(error, Malformation::HeaderTruncated { available });
        }
        for length in 0..4u16 {
            let error = Frame::split(&[0, 5, 0, length.to_be_bytes()[1], 0, 0, 0, 0]).expect_err("below the header");
            assert_eq!(error, Malformation::LengthBelowHeader { length });
        }
        for length in 9..=u16::MAX {
            let [high, low] = length.to_be_bytes();
            let error = Frame::split(&[0, 5, high, low, 0, 0, 0, 0]).expect_err("beyond the end");
            assert_eq!(error, Malformation::LengthBeyondEnd { length, available: 8 });
        }
    }

    #[test]
    fn padding_completes_a_multiple_of_four() {
        for length in 0..64 {
            assert_eq!((length + padding(length)) % 4, 0);
            assert!(padding(length) < 4);
        }
    }
}
