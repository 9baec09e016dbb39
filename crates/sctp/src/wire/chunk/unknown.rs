//! A chunk of a type that this crate does not know, or that an association has not agreed on: handled by the two highest bits of its
//! type (RFC 9260 §3.2).

use crate::wire::UnknownAction;
use crate::wire::tlv::Frame;

/// A chunk as it came, to be handled as one of unknown type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownChunk<'a> {
    /// The whole chunk without padding: a header of four bytes at least.
    bytes: &'a [u8],
}

impl<'a> UnknownChunk<'a> {
    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Self {
        Self { bytes: frame.bytes }
    }

    /// Takes a complete chunk that was read before.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Takes a complete chunk, header included and padding not, of any type; `None` if its length is not that of
    /// `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (frame, _) = Frame::split(bytes).ok()?;
        (frame.bytes.len() == bytes.len()).then(|| Self::read(&frame))
    }

    /// Its type number.
    #[must_use]
    pub const fn chunk_type(&self) -> u8 {
        match self.bytes {
            [chunk_type, ..] => *chunk_type,
            [] => 0,
        }
    }

    /// Its flags.
    #[must_use]
    pub const fn flags(&self) -> u8 {
        match self.bytes {
            [_, flags, ..] => *flags,
            _ => 0,
        }
    }

    /// Its value, without padding.
    #[must_use]
    pub const fn value(&self) -> &'a [u8] {
        match self.bytes {
            [_, _, _, _, value @ ..] => value,
            _ => &[],
        }
    }

    /// The complete chunk without padding, as quoted by the cause Unrecognized Chunk Type.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What RFC 9260 §3.2 asks the receiver to do about it.
    #[must_use]
    pub const fn action(&self) -> UnknownAction {
        UnknownAction::from_first_byte(self.chunk_type())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_highest_bits_of_the_type_say_what_to_do() {
        for (chunk_type, action, reports, continues) in [
            (0x3f, UnknownAction::Stop, false, false),
            (0x7f, UnknownAction::StopAndReport, true, false),
            (0x80, UnknownAction::Skip, false, true),
            (0xc0, UnknownAction::SkipAndReport, true, true),
        ] {
            let bytes = [chunk_type, 0, 0, 4];
            let chunk = UnknownChunk::from_bytes(&bytes).expect("complete");
            assert_eq!(chunk.action(), action);
            assert_eq!((action.reports(), action.continues()), (reports, continues));
        }
    }

    #[test]
    fn only_a_complete_chunk_without_padding_is_taken() {
        assert!(UnknownChunk::from_bytes(&[0xc1, 1, 0, 5, 7]).is_some());
        assert!(UnknownChunk::from_bytes(&[0xc1, 1, 0, 5, 7, 0]).is_none());
        assert!(UnknownChunk::from_bytes(&[0xc1, 1, 0, 6, 7]).is_none());
    }
}
