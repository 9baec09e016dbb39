//! The number of segments in a packet, which the network card may cut after the capture or merge before it (TSO, GRO).

/// The payload of a full segment on Ethernet, with TCP's timestamps.
const TYPICAL_BYTES: u64 = 1_448;
/// A larger payload is more than one segment unless the path takes larger ones.
const ETHERNET_BYTES: u64 = 1_460;
/// The size of a full segment, from the smallest MTU of IPv6 to jumbo frames.
const FULL_BYTES: std::ops::RangeInclusive<u64> = 1_200..=8_960;
/// A smaller maximum is not believed (RFC 9293 §3.7.1).
const ANNOUNCED_BYTES_MIN: u64 = 536;

/// The size of a sender's segments: announced in the handshake, or else the most frequent size of its repairs.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct SegmentSize {
    announced: Option<u64>,
    /// The candidate of a majority vote, and its lead.
    repairs: (u64, u32),
}

impl SegmentSize {
    /// `announced` is the maximum segment size in each end's SYN.
    pub(in super::super) fn new(announced: [Option<u16>; 2]) -> Self {
        let least = announced.into_iter().flatten().map(u64::from).min();
        Self { announced: least.map(|bytes| bytes.max(ANNOUNCED_BYTES_MIN)), ..Self::default() }
    }

    /// Data of this length was sent again. Most senders repair one segment at a time.
    pub(super) fn repaired(&mut self, bytes: u64) {
        let (candidate, lead) = &mut self.repairs;
        if !FULL_BYTES.contains(&bytes) {
            return;
        }
        match *lead {
            0 => (*candidate, *lead) = (bytes, 1),
            _ if *candidate == bytes => *lead = lead.saturating_add(1),
            _ => *lead -= 1,
        }
    }

    /// Returns the number of segments that carry this much data.
    pub(super) fn segments(self, bytes: u64) -> u64 {
        match self {
            Self { announced: Some(announced), .. } => bytes.div_ceil(announced).max(1),
            _ if bytes <= ETHERNET_BYTES => 1,
            Self { repairs: (0, _), .. } => bytes.div_ceil(TYPICAL_BYTES),
            Self { repairs: (candidate, _), .. } => bytes.div_ceil(candidate),
        }
    }
}
