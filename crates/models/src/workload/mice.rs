//! Short transfers, one after the other: the mice of G02 §3.1, where each of 80 repeats a transfer of 20 KB. Elephants are
//! [`Greedy`](super::Greedy).

use festina_units::{ByteCount, Duration};

use super::Write;

/// Writes a transfer as soon as the one before it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mice {
    /// Each transfer.
    pub size: ByteCount,
}

impl Default for Mice {
    /// 20 KB, as in G02 §3.1.
    fn default() -> Self {
        Self { size: ByteCount::from_bytes(20_000) }
    }
}

impl Mice {
    pub(super) fn next(&self) -> Write {
        Write { at: Duration::ZERO, size: self.size }
    }
}
