//! The parts of an experiment on log lines that a run with real sockets needs: the lines, the settings of associations, the bottleneck, and the names
//! of the results.

use festina_netsim::LinkConfig;
use festina_sctp::Config;
use festina_units::Duration;

use super::{ALL, DROPPED, IMPORTANT, IMPORTANT_LOST, IMPORTANT_LOST_COUNT, NORMAL, NORMAL_LOST, TCP_RATE};
use crate::experiments::r12;
use crate::plan::Point;
use crate::samples::Samples;
use crate::scenario::log_lines::Carrier;
use crate::scenario::{Line, LineFate};

/// Series of the delays of all lines that were delivered, of the important ones and of the others.
pub const SERIES: [&str; 3] = [ALL, IMPORTANT, NORMAL];
/// Shares of important lines and of the others that were not delivered.
pub const LOST: [&str; 2] = [IMPORTANT_LOST, NORMAL_LOST];
/// Number of important lines that were not delivered.
pub const LOST_COUNT: &str = IMPORTANT_LOST_COUNT;
/// Share of the packets offered to the bottleneck that found no room.
pub const DROPPED_PERCENT: &str = DROPPED;
/// Goodput of the TCP flows that share the bottleneck.
pub const TCP_MBITS: &str = TCP_RATE;

/// An association that carries lines as unordered messages.
#[derive(Clone, Debug)]
pub struct LineAssociation {
    /// Settings of the end that writes.
    pub sender: Config,
    /// Settings of the end that reads.
    pub receiver: Config,
    /// Lifetimes of important lines and of the others; `None` if they are reliable.
    pub lifetimes: [Option<Duration>; 2],
}

/// The association of a point; `None` if it has UDP or TCP.
pub fn association(point: &Point) -> Option<LineAssociation> {
    match super::carrier(point) {
        Carrier::Udp | Carrier::Tcp(_) => None,
        Carrier::Sctp { sender, receiver, delivery } => Some(LineAssociation {
            sender: *sender,
            receiver: *receiver,
            lifetimes: [delivery.important.and_then(|important| important.lifetime), delivery.lifetime],
        }),
    }
}

/// The lines of a point, in the order of their times. The same seed gives the same lines to every sender.
pub fn lines(point: &Point, seed: u64) -> Vec<Line> {
    super::model(point).lines(seed, point.duration("duration"))
}

/// The link of a bottleneck, without delay.
pub fn bottleneck(point: &Point) -> LinkConfig {
    r12::network(point, point.probability("loss")).bottleneck()
}

/// Delays and losses of the lines of a run, under the names of the simulation.
pub fn samples(fates: &[LineFate]) -> Samples {
    super::samples(fates)
}
