//! The task of a stack and its outcome.

use std::time::Duration;

use festina_netsim::RandomStream;

use super::delays::Delays;

/// Headers of IPv4 and UDP, in bytes.
pub const HEADER_BYTES: u64 = 28;

/// The task of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// Time to the other end and back.
    pub round_trip: Duration,
    /// Time between two writes; `None`: connect and write one message.
    pub interval: Option<Duration>,
    /// Packets that are lost in each direction, in percent, independently.
    pub loss_percent: u32,
}

/// The amount of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Connections, one after the other, each with losses of its own.
    pub connections: u64,
    /// Messages that each carries.
    pub messages: u64,
    /// Connections that carry one message each.
    pub first_messages: u64,
}

/// Outcome of a task.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From the application's write, or from `connect`, to the delivery in order.
    pub delays: Delays,
    /// Messages written.
    pub messages: u64,
    /// Packets there and back, those that were lost included.
    pub packets: [u64; 2],
    /// Their bytes, with the headers of IP and UDP.
    pub bytes: [u64; 2],
    /// What stopped connections, each with its reason.
    pub failures: Vec<String>,
}

impl Outcome {
    /// Nothing, for one reason.
    #[must_use]
    pub fn failed(reason: &str) -> Self {
        Outcome { failures: vec![reason.to_owned()], ..Outcome::default() }
    }
}

/// The share of an interval after which a connection's first message is written.
#[expect(clippy::cast_precision_loss, reason = "a share of an interval")]
pub(super) fn phase(seed: u64) -> f64 {
    RandomStream::new(seed, "phase").below(1 << 32) as f64 / (1_u64 << 32) as f64
}

/// Nanoseconds of a duration that is far shorter than 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
