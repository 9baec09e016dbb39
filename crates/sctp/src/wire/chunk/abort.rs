//! ABORT: the end of the association, at once (RFC 9260 §3.3.7).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-------------+-+-------------------------------+
//! |       6       |             |T|          4 + causes           |
//! +---------------+-------------+-+-------------------------------+
//! |                  error causes, or none ...                    |
//! ```

use crate::wire::cause::Causes;
use crate::wire::tlv::Frame;

/// The T bit of ABORT and SHUTDOWN COMPLETE: the packet's verification tag is that of the packet it answers.
pub(crate) const TAG_REFLECTED: u8 = 1;

/// An ABORT, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort<'a> {
    /// The T bit: the packet carries the tag of the packet it answers, not its receiver's (RFC 9260 §8.5.1).
    pub tag_reflected: bool,
    causes: &'a [u8],
}

impl<'a> Abort<'a> {
    pub(in crate::wire) fn read(flags: u8, frame: &Frame<'a>) -> Self {
        Self { tag_reflected: flags & TAG_REFLECTED != 0, causes: frame.value }
    }

    /// The reasons in order. They are read only as this walk reaches them: a malformed one ends the walk, and the
    /// association ends all the same.
    #[must_use]
    pub const fn causes(&self) -> Causes<'a> {
        Causes::new(self.causes)
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::tests::build_and_parse;
    use crate::wire::{Cause, Chunk, ChunkOut};

    #[test]
    fn an_abort_needs_no_cause() {
        for (tag_reflected, flags) in [(false, 0), (true, 1)] {
            let parsed = build_and_parse(&ChunkOut::Abort { tag_reflected, causes: &[] }, &[6, flags, 0, 4]);
            let Chunk::Abort(abort) = parsed else { panic!("no ABORT") };
            assert_eq!(abort.tag_reflected, tag_reflected);
            assert_eq!(abort.causes().count(), 0);
        }
    }

    #[test]
    fn causes_are_padded_between_but_the_length_ends_with_the_last() {
        let causes = [Cause::UserInitiatedAbort(b"bye"), Cause::ProtocolViolation(b"?")];
        let expected = [6, 0, 0, 17, 0, 12, 0, 7, b'b', b'y', b'e', 0, 0, 13, 0, 5, b'?', 0, 0, 0];
        let parsed = build_and_parse(&ChunkOut::Abort { tag_reflected: false, causes: &causes }, &expected);
        let Chunk::Abort(abort) = parsed else { panic!("no ABORT") };
        assert!(abort.causes().eq(causes.map(Ok)));
    }
}
