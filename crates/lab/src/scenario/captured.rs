//! The packets of a thin stream.

use festina_models::thin_stream::{StreamRun, ThinStream};
use festina_netsim::NodeId;

use crate::capture::Capture;

/// Runs of a stream with their packets.
pub trait Captured {
    /// Runs the stream as [`ThinStream::run`] does, and gives its packets.
    ///
    /// # Panics
    /// As [`ThinStream::run`].
    fn capture(&self, seed: u64) -> Capture {
        self.run_and_capture(seed).1
    }

    /// Runs the stream as [`ThinStream::run`] does. Returns the result, its packets, and its two ends: writer and reader.
    ///
    /// # Panics
    /// As [`ThinStream::run`].
    fn run_and_capture(&self, seed: u64) -> (StreamRun, Capture, [NodeId; 2]) {
        self.try_run_and_capture(seed).expect("the connection came about")
    }

    /// Runs the stream as [`run_and_capture`](Self::run_and_capture) does; `None` as with [`ThinStream::try_run`].
    fn try_run_and_capture(&self, seed: u64) -> Option<(StreamRun, Capture, [NodeId; 2])>;
}

impl Captured for ThinStream {
    fn try_run_and_capture(&self, seed: u64) -> Option<(StreamRun, Capture, [NodeId; 2])> {
        let (run, capture) = self.run_with(seed, Capture::of)?;
        Some((run, capture, self.ends()))
    }
}
