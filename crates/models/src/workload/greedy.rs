//! As much as the transport takes.

use festina_units::{ByteCount, Duration};

use super::Write;

/// Writes whenever the send buffer has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greedy {
    /// Each write.
    pub size: ByteCount,
}

impl Greedy {
    pub(super) fn next(&self) -> Write {
        Write { at: Duration::ZERO, size: self.size }
    }
}
