//! The paths of an association.

use std::ffi::c_char;

use festina::{PathState, PathStats, PathStatus};

/// Room for an address with its port, and a zone of ten digits.
const ADDRESS_BYTES: usize = 64;

/// A path; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// `sizeof`.
    pub size: usize,
    /// Whether it may be used.
    pub state: u32,
    /// 1 if new data leaves by it.
    pub carries_data: u32,
    /// Consecutive timeouts and unanswered heartbeats.
    pub errors: u64,
    /// Smoothed round-trip time, 0 before it was measured.
    pub srtt_ns: u64,
    /// Retransmission timeout.
    pub rto_ns: u64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Outstanding.
    pub in_flight_bytes: u64,
    /// The peer's address as text, with zeros behind it.
    pub address: [c_char; ADDRESS_BYTES],
}

impl Path {
    pub(crate) fn new(status: &PathStatus, stats: &PathStats) -> Self {
        let ns = |duration: festina::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let mut address = [0; ADDRESS_BYTES];
        for (to, byte) in address.iter_mut().zip(status.remote.to_string().bytes().take(ADDRESS_BYTES - 1)) {
            *to = c_char::from_ne_bytes([byte]);
        }
        Self {
            size: size_of::<Self>(),
            state: match status.state {
                PathState::Active => 1,
                PathState::PotentiallyFailed => 2,
                PathState::Inactive => 3,
                PathState::Closed => 4,
                _ => 0,
            },
            carries_data: status.carries_data.into(),
            errors: status.errors.into(),
            srtt_ns: stats.srtt.map_or(0, ns),
            rto_ns: ns(stats.rto),
            cwnd_bytes: stats.cwnd_bytes,
            in_flight_bytes: stats.in_flight_bytes,
            address,
        }
    }
}
