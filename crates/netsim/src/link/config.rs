//! What a link is like: every impairment and its parameters.

use festina_units::{Bandwidth, ByteCount, Duration, Probability};

use crate::loss::LossModel;
use crate::queue::{QueueDiscipline, QueueLimit};
use crate::rate_trace::RateTrace;

/// What a link is like. The default is perfect: no delay, no limit of rate, nothing lost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkConfig {
    /// How fast the transmitter is; `None` transmits in no time, and then nothing ever waits.
    pub rate: Option<Bandwidth>,
    /// When the transmitter may send instead, whatever `rate` says. Then the packet that is next waits in the queue for its
    /// opportunity, and counts towards its limit.
    pub trace: Option<RateTrace>,
    /// How long a packet travels after its last bit was transmitted.
    pub delay: Duration,
    /// How much the travelling time varies.
    pub jitter: Jitter,
    /// How much may wait for the transmitter.
    pub queue: QueueLimit,
    /// Which of what waits is marked or dropped although there is room.
    pub discipline: QueueDiscipline,
    /// The largest packet that the link carries; `None` carries every one. Larger ones are dropped and counted.
    pub mtu: Option<ByteCount>,
    /// Which packets the wire loses.
    pub loss: LossModel,
    /// Which packets are overtaken by their successors.
    pub reordering: Reordering,
    /// How probably a packet arrives twice.
    pub duplication: Probability,
    /// How probably a packet arrives damaged. A copy made by duplication stays intact.
    pub corruption: Probability,
}

impl LinkConfig {
    /// What the link carries at most, on average; `None` if there is no limit.
    pub fn mean_rate(&self) -> Option<Bandwidth> {
        self.trace.as_ref().map(RateTrace::mean_rate).or(self.rate)
    }

    /// The least time from a packet's last bit to its arrival.
    pub(crate) fn shortest_delay(&self) -> Duration {
        match self.jitter.shape {
            JitterShape::None => self.delay,
            JitterShape::Uniform { range } => self.delay.saturating_sub(range),
            JitterShape::Normal { .. } => Duration::ZERO,
        }
    }
}

/// Variation of the travelling time, drawn per packet. A packet never arrives before it was
/// transmitted, however large the variation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Jitter {
    /// The distribution of the deviation from [`LinkConfig::delay`].
    pub shape: JitterShape,
    /// Whether a packet waits for its predecessor to arrive. If not, jitter reorders.
    pub keeps_order: bool,
}

/// The distribution of the deviation from the link's delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JitterShape {
    /// Every packet takes the same time.
    #[default]
    None,
    /// Evenly distributed.
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

/// Reordering on purpose: some packets are held back while others pass them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reordering {
    /// How probably a packet is held back.
    pub probability: Probability,
    /// For how long; it is overtaken by what follows within this time.
    pub hold_back: Duration,
}
