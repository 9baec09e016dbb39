//! What flows are compared by, and the classes of R15's Paper I.

use std::cmp::Ordering;

use festina_trace::StreamReport;

use crate::count::as_f64;

/// Fewer packets are no flow to be classified.
const PACKETS_MIN: u64 = 3;
/// Silence that lasts longer is idle time.
const IDLE_NS: u64 = 1_000_000_000;

/// Makes the struct of the features, their names and their values from one list.
macro_rules! features {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// The features of a flow.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Features {
            $($(#[$doc])+ pub $name: f64,)+
        }

        /// The features, with their units.
        pub const FEATURES: [&str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

        impl Features {
            /// The values, in the order of [`FEATURES`].
            pub fn values(&self) -> [f64; FEATURES.len()] {
                [$(self.$name),+]
            }

            /// The features that have these values, in the order of [`FEATURES`].
            pub fn from_values([$($name),+]: [f64; FEATURES.len()]) -> Self {
                Self { $($name),+ }
            }
        }
    };
}

features! {
    /// From the first packet with data to the last, in seconds.
    duration_s,
    /// Bytes of payload.
    payload_bytes,
    /// Transport headers included.
    bits_per_s,
    /// Payload of a packet, on average.
    packet_bytes,
    /// From a packet with data to the next, in the median, in milliseconds.
    gap_median_ms,
    /// The 99th percentile of that over the median.
    gap_spread,
    /// The share of the time that lies in gaps of more than a second: the off in on and off.
    idle_share,
    /// The share of the time for which the flow was thin (P10 §5.1).
    thin_share,
    /// Packets in flight on average.
    in_flight,
}

/// A class of R15's Paper I; five of its six are named in the thesis (§6). Their bounds are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Greedy: as fast as the path permits.
    Bulk,
    /// Large pieces with silence between them, as video streams have (DASH).
    Streaming,
    /// Short and small.
    ShortWeb,
    /// Small packets at short intervals for a long time, as games and calls have.
    Interactive,
    /// Now and then something, for a long time.
    PersistentWeb,
    /// None of these.
    Other,
}

impl Class {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Streaming => "streaming",
            Self::ShortWeb => "short web",
            Self::Interactive => "interactive",
            Self::PersistentWeb => "persistent web",
            Self::Other => "other",
        }
    }
}

impl Features {
    /// Returns the features of a stream; `None` if it has too few packets.
    pub fn of(stream: &StreamReport) -> Option<Self> {
        let traffic = &stream.traffic;
        let packets = traffic.payload_bytes.count();
        if packets < PACKETS_MIN {
            return None;
        }
        let duration_s = traffic.duration().as_secs_f64().max(1e-3);
        let packet_bytes = traffic.payload_bytes.mean()?;
        let gap_ns = |percent| traffic.gaps_ns.percentile(percent).map(|ns| as_f64(ns.max(1_000)));
        let (median_ns, most_ns) = (gap_ns(50.0)?, gap_ns(99.0)?);
        Some(Self {
            duration_s,
            payload_bytes: packet_bytes * as_f64(packets),
            bits_per_s: 8.0 * as_f64(traffic.bytes) / duration_s,
            packet_bytes,
            gap_median_ms: median_ns / 1e6,
            gap_spread: most_ns / median_ns,
            idle_share: (idle_ns(stream) / 1e9 / duration_s).min(1.0),
            thin_share: stream.thinness.share_thin().unwrap_or(1.0),
            in_flight: stream.thinness.in_flight.mean().unwrap_or(1.0),
        })
    }

    /// Values to measure distances with: shares as they are, the others as logarithms.
    pub(super) fn coordinates(&self) -> [f64; FEATURES.len()] {
        let mut values = self.values();
        for (value, name) in values.iter_mut().zip(FEATURES) {
            if !name.ends_with("_share") {
                *value = value.max(1e-9).log10();
            }
        }
        values
    }

    /// An order that depends on nothing else than the values.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let pairs = self.values().into_iter().zip(other.values());
        pairs.map(|(one, other)| one.total_cmp(&other)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// The median of each feature.
    pub(super) fn median(flows: &[&Self]) -> Self {
        let median = |index: usize| {
            let mut values: Vec<f64> = flows.iter().map(|flow| flow.values()[index]).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(0.0)
        };
        Self::from_values(std::array::from_fn(median))
    }

    /// The class that such a flow belongs to.
    pub fn class(&self) -> Class {
        let is_large = self.payload_bytes >= 1e6;
        let is_long = self.duration_s >= 10.0;
        match (is_large, is_long) {
            (true, _) if self.idle_share >= 0.1 => Class::Streaming,
            (true, _) if self.thin_share < 0.5 => Class::Bulk,
            // Games and text sessions are silent for more than half of their time (P10 Table 1): the longest gaps are a hundred times the median.
            (_, true) if self.gap_median_ms <= 1_000.0 && self.packet_bytes <= 400.0 => Class::Interactive,
            (false, true) if self.idle_share >= 0.5 => Class::PersistentWeb,
            (false, false) => Class::ShortWeb,
            _ => Class::Other,
        }
    }
}

/// Nanoseconds in gaps of more than a second.
fn idle_ns(stream: &StreamReport) -> f64 {
    let gaps = &stream.traffic.gaps_ns;
    let mut before = 0.0;
    let mut idle = 0.0;
    for (ns, share) in gaps.cumulative() {
        if ns > IDLE_NS {
            idle += (share - before) * as_f64(gaps.count()) * as_f64(ns);
        }
        before = share;
    }
    idle
}
