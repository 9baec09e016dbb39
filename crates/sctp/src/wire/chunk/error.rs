//! ERROR: a non-fatal error in the peer's packets (RFC 9260 §3.3.10).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |       9       |               |          4 + causes           |
//! +---------------+---------------+-------------------------------+
//! |                      error causes ...                         |
//! ```

use crate::wire::cause::Causes;
use crate::wire::tlv::Frame;

/// An ERROR, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errors<'a> {
    causes: &'a [u8],
}

impl<'a> Errors<'a> {
    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Self {
        Self { causes: frame.value }
    }

    /// The causes in order. They are read only as this walk reaches them.
    #[must_use]
    pub const fn causes(&self) -> Causes<'a> {
        Causes::new(self.causes)
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::tests::build_and_parse;
    use crate::wire::{Cause, CauseError, Chunk, ChunkOut, Malformation, StreamId};

    #[test]
    fn an_error_carries_its_causes() {
        let causes = [Cause::InvalidStreamIdentifier(StreamId(0x0102)), Cause::OutOfResource];
        let expected = [9, 0, 0, 16, 0, 1, 0, 8, 1, 2, 0, 0, 0, 4, 0, 4];
        let Chunk::Error(errors) = build_and_parse(&ChunkOut::Error { causes: &causes }, &expected) else {
            panic!("no ERROR")
        };
        assert!(errors.causes().eq(causes.map(Ok)));
    }

    #[test]
    fn the_walk_ends_at_a_malformed_cause() {
        let bytes = [9, 0, 0, 16, 0, 4, 0, 4, 0, 4, 0, 9, 0, 4, 0, 4];
        let Ok(Chunk::Error(errors)) = crate::wire::tests::parse_chunk(&bytes) else { panic!("no ERROR") };
        let beyond = CauseError { code: 4, kind: Malformation::LengthBeyondEnd { length: 9, available: 8 } };
        assert!(errors.causes().eq([Ok(Cause::OutOfResource), Err(beyond)]));
    }
}
