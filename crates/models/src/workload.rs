//! The writes of applications: times and sizes.
//!
//! A [`Workload`] is a description that compares and clones; [`Workload::writes`] turns it into an iterator of
//! [`Write`]s that a seed and a name determine. Times are counted from the start of the workload. All arithmetic is on
//! integers, and every generator draws gaps and sizes from two random streams of its own, so no workload changes
//! another's numbers.
//!
//! ```
//! use festina_models::workload::{Periodic, Workload};
//! use festina_units::{ByteCount, Duration};
//!
//! let thin = Workload::Periodic(Periodic { interval: Duration::from_millis(250), size: ByteCount::from_bytes(100) });
//! let third = thin.writes(1, "client 7").nth(2).expect("a periodic workload has no end");
//! assert_eq!((third.at, third.size.bytes()), (Duration::from_millis(500), 100));
//! ```

mod application;
mod cbr;
mod greedy;
mod mice;
mod on_off;
mod periodic;
mod poisson;
mod quantiles;
mod replay;
mod source;
mod web;

pub use application::{Application, Published};
pub use cbr::Cbr;
pub use greedy::Greedy;
pub use mice::Mice;
pub use on_off::OnOff;
pub use periodic::Periodic;
pub use poisson::Poisson;
pub use replay::{Replay, ReplayError};
pub use source::Source;
pub use web::Web;

use festina_netsim::RandomStream;
use festina_units::{ByteCount, Duration};

/// One write of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// When, since the start of the workload. For workloads that do not follow the clock ([`Workload::trigger`]) the earliest time.
    pub at: Duration,
    /// Size; at least one byte.
    pub size: ByteCount,
}

/// The trigger of an application's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The clock: [`Write::at`].
    Clock,
    /// Room in the send buffer.
    Room,
    /// The acknowledgement of all that was written before.
    Drained,
}

/// The writes of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// The same size at the same interval.
    Periodic(Periodic),
    /// The same size at independent random times.
    Poisson(Poisson),
    /// As much as the send buffer takes: an elephant.
    Greedy(Greedy),
    /// Bursts of constant rate with silence between them.
    OnOff(OnOff),
    /// Constant bit rate.
    Cbr(Cbr),
    /// Responses to a client that browses the web.
    Web(Web),
    /// One short transfer after another.
    Mice(Mice),
    /// An application that Petlund et al. 2010 measured.
    Application(Application),
    /// Recorded times and sizes.
    Replay(Replay),
}

impl Workload {
    /// Returns the writes of this workload, determined by `seed` and `name`. Two sources with one seed need different
    /// names, or they write the same at the same times.
    #[must_use]
    pub fn writes(&self, seed: u64, name: &str) -> Writes {
        Writes { workload: self.clone(), draws: Draws::new(seed, name), progress: Progress::default() }
    }

    /// Returns the trigger of the application's writes.
    #[must_use]
    pub fn trigger(&self) -> Trigger {
        match self {
            Self::Greedy(_) => Trigger::Room,
            Self::Mice(_) => Trigger::Drained,
            _ => Trigger::Clock,
        }
    }

    /// Returns whether each write is a transfer for which the published set-up opens a connection of its own (P10 §6.2,
    /// G02 §3.1).
    #[must_use]
    pub fn is_transfer_per_write(&self) -> bool {
        matches!(self, Self::Web(_) | Self::Mice(_))
    }
}

/// The writes of one workload, in the order of their times. Only a replay ends.
#[derive(Debug, Clone)]
pub struct Writes {
    workload: Workload,
    draws: Draws,
    progress: Progress,
}

impl Iterator for Writes {
    type Item = Write;

    fn next(&mut self) -> Option<Write> {
        let Self { workload, draws, progress } = self;
        let write = match workload {
            Workload::Periodic(periodic) => periodic.next(progress),
            Workload::Poisson(poisson) => poisson.next(progress, draws),
            Workload::Greedy(greedy) => greedy.next(),
            Workload::OnOff(on_off) => on_off.next(progress, draws),
            Workload::Cbr(cbr) => cbr.next(progress),
            Workload::Web(web) => web.next(progress, draws),
            Workload::Mice(mice) => mice.next(),
            Workload::Application(application) => application.next(progress, draws),
            Workload::Replay(replay) => return replay.next(progress),
        };
        progress.count += 1;
        progress.at = write.at;
        Some(write)
    }
}

/// The progress of a workload.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// Writes so far.
    count: u64,
    /// When the latest was.
    at: Duration,
    /// The rest of the burst.
    burst_left: Duration,
}

impl Progress {
    /// The time `gap` after the latest write.
    fn after(&self, gap: Duration) -> Duration {
        self.at.saturating_add(gap)
    }
}

/// The random streams of one workload.
#[derive(Debug, Clone)]
struct Draws {
    gaps: RandomStream,
    sizes: RandomStream,
}

impl Draws {
    fn new(seed: u64, name: &str) -> Self {
        let stream = |of| RandomStream::new(seed, &format!("{name}/{of}"));
        Self { gaps: stream("gaps"), sizes: stream("sizes") }
    }
}

#[cfg(test)]
mod tests;
