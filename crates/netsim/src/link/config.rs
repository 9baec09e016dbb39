//! The configuration of a link: every impairment and its parameters.

use festina_units::{Bandwidth, ByteCount, Duration, Probability};

use crate::loss::LossModel;
use crate::queue::{QueueDiscipline, QueueLimit};
use crate::rate_trace::RateTrace;

/// The configuration of a link. The default is a perfect link: no delay, no rate limit, no loss.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkConfig {
    /// Rate of the transmitter; `None` transmits in no time, so nothing ever waits.
    pub rate: Option<Bandwidth>,
    /// Times at which the transmitter may send, overriding `rate`. The next packet then waits in the queue for its
    /// opportunity, and counts towards the queue's limit.
    pub trace: Option<RateTrace>,
    /// Propagation delay after a packet's last bit was transmitted.
    pub delay: Duration,
    /// Variation of the propagation delay.
    pub jitter: Jitter,
    /// Limit of the queue in front of the transmitter.
    pub queue: QueueLimit,
    /// Active queue management: which waiting packets are marked or dropped although there is room.
    pub discipline: QueueDiscipline,
    /// Largest packet that the link carries, or `None` for no limit. Larger ones are dropped and counted.
    pub mtu: Option<ByteCount>,
    /// Which packets the wire loses.
    pub loss: LossModel,
    /// Which packets are overtaken by their successors.
    pub reordering: Reordering,
    /// Probability that a packet arrives twice.
    pub duplication: Probability,
    /// Probability that a packet arrives damaged. A copy made by duplication stays intact.
    pub corruption: Probability,
}

impl LinkConfig {
    /// Returns the mean rate that the link carries at most; `None` if there is no limit.
    pub fn mean_rate(&self) -> Option<Bandwidth> {
        self.trace.as_ref().map(RateTrace::mean_rate).or(self.rate)
    }

    /// Returns the least time from a packet's last bit to its arrival.
    pub(crate) fn shortest_delay(&self) -> Duration {
        match self.jitter.shape {
            JitterShape::None => self.delay,
            JitterShape::Uniform { range } => self.delay.saturating_sub(range),
            JitterShape::Normal { .. } => Duration::ZERO,
        }
    }
}

/// Variation of the propagation delay, drawn per packet. A packet never arrives before it was transmitted, however
/// large the variation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Jitter {
    /// The distribution of the deviation from [`LinkConfig::delay`].
    pub shape: JitterShape,
    /// Whether a packet waits for its predecessor to arrive. Otherwise jitter reorders packets.
    pub keeps_order: bool,
}

/// The distribution of the deviation from the link's delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JitterShape {
    /// All packets take the same time.
    #[default]
    None,
    /// Uniformly distributed.
    Uniform {
        /// The largest deviation to either side.
        range: Duration,
    },
    /// Normally distributed with mean zero.
    Normal {
        /// The standard deviation.
        std_dev: Duration,
    },
}

/// Deliberate reordering: some packets are held back while others pass them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reordering {
    /// Probability that a packet is held back.
    pub probability: Probability,
    /// How long it is held back; packets that follow within this time overtake it.
    pub hold_back: Duration,
}
