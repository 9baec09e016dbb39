//! Tables 1 to 3 of G02 with the kernel's own TCP.
//!
//! - [`tables`]: the plan, its parameters, where their values come from
//! - `checks`: their checks
//! - `mice`: how many mice each network has
//! - `cell`: one point of the plan, measured on two temporary hosts
//! - `sender`, `receiver`: the work of the hosts

mod cell;
mod checks;
mod mice;
mod receiver;
mod sender;
mod tables;

use std::time::Duration;

use festina_lab::experiments::g02::{
    ALL_THERE, LATENCY, MAX_MS, MEAN_MS, MICE_SHARE, SENDER_MS, SENDER_P90_MS, THROUGHPUT, WITHIN_200, WITHIN_500,
};
use festina_lab::summary::PointSummary;
use tokio::time::Instant;

pub(super) use self::cell::measure;
pub(super) use self::tables::Tables;

/// The names of the tables, each a view of the same runs, and of all of them together.
pub(super) const NAMES: [&str; 4] = ["g02-table1", "g02-table2", "g02-table3", "g02-tables"];

/// How the media stream's send buffer is limited.
const STREAMS: [&str; 7] = ["std", "m10", "m13", "m20", "target", "lowat-16k", "lowat-128k"];
/// Its congestion control, as the kernel calls it.
const CONGESTIONS: [&str; 3] = ["cubic", "bbr", "reno"];

const OVER_BUDGET: &str = "longer than the target in the send buffer (%)";
const ELEPHANTS_MBITS: &str = "elephants (Mbit/s)";
const MICE_MBITS: &str = "mice (Mbit/s)";
const DROPPED: &str = "dropped at the bottleneck (%)";

/// What the media application writes at once: the payload of a packet with timestamps.
const MESSAGE_BYTES: usize = 1_448;

/// The first byte of a connection, which states its kind.
const MEDIA: u8 = b'M';
const ELEPHANT: u8 = b'E';
const MOUSE: u8 = b'm';

/// Where a stream was measured, in words.
fn network(summary: &PointSummary) -> String {
    let text = |name| summary.point().value(name).map(|value| value.to_string()).unwrap_or_default();
    format!("{}, {}, {}", text("congestion"), text("rate"), text("rtt"))
}

/// When the profile begins and ends, on the clock of both hosts.
#[derive(Clone, Copy, Debug)]
struct Profile {
    begins: Instant,
    lasts: Duration,
}

impl Profile {
    /// The end of a part of it, in eightieths.
    fn at(self, eightieths: u32) -> Instant {
        self.begins + self.lasts * eightieths / 80
    }

    /// Whether all cross traffic is there.
    fn is_crowded(self, at: Instant) -> bool {
        (self.at(ALL_THERE.start)..self.at(ALL_THERE.end)).contains(&at)
    }

    fn ends(self) -> Instant {
        self.begins + self.lasts
    }
}
