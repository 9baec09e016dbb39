//! Recorded times and sizes, for example those of a capture.

use std::sync::Arc;

use festina_units::{ByteCount, Duration};
use thiserror::Error;

use super::{Progress, Write};

/// Repeats the recorded writes, then ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    writes: Arc<[Write]>,
}

/// Why a recording cannot be replayed: the caller's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Times go backwards.
    #[error("write {index} comes before the one in front of it")]
    OutOfOrder {
        /// Which write, counted from zero.
        index: usize,
    },
    /// An application cannot write nothing.
    #[error("write {index} is empty")]
    Empty {
        /// Which write, counted from zero.
        index: usize,
    },
}

impl Replay {
    /// A replay of these times and sizes.
    ///
    /// # Errors
    /// Times go backwards, or a size is zero.
    pub fn new(recorded: impl IntoIterator<Item = (Duration, ByteCount)>) -> Result<Self, ReplayError> {
        let writes: Arc<[Write]> = recorded.into_iter().map(|(at, size)| Write { at, size }).collect();
        if let Some(index) = writes.iter().position(|write| write.size == ByteCount::ZERO) {
            return Err(ReplayError::Empty { index });
        }
        if let Some(before) = writes.windows(2).position(|pair| pair[0].at > pair[1].at) {
            return Err(ReplayError::OutOfOrder { index: before + 1 });
        }
        Ok(Self { writes })
    }

    pub(super) fn next(&self, progress: &mut Progress) -> Option<Write> {
        let write = self.writes.get(usize::try_from(progress.count).ok()?).copied()?;
        progress.count += 1;
        Some(write)
    }
}
