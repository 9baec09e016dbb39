//! The contents of a TCP segment, as far as the model needs them.

use festina_units::{ByteCount, EcnCodepoint, Instant};

/// SACK blocks that fit next to the timestamps option; without timestamps real TCP has room for a fourth, which changes
/// little (RFC 2018 §3).
pub const SACK_BLOCKS_MAX: usize = 3;

/// Bytes of the IPv4 and TCP headers without options.
const HEADERS_BYTES: u64 = 40;
/// Bytes of the timestamps option with its padding (RFC 7323 §3.2, appendix A).
const TIMESTAMPS_BYTES: u64 = 12;

/// One segment. It carries lengths, not bytes.
///
/// Sequence numbers are unwrapped and count the bytes of the stream from 0. A SYN takes no sequence
/// number, unlike on the wire; a FIN takes one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte.
    pub sequence: u64,
    /// Payload length in bytes.
    pub length_bytes: u32,
    /// Control bits.
    pub flags: Flags,
    /// The next byte that the sender of this segment expects.
    pub ack: u64,
    /// Receive window in bytes, unscaled.
    pub window_bytes: u64,
    /// Selective acknowledgements.
    pub sack: SackBlocks,
    /// Timestamps option (RFC 7323 §3).
    pub timestamps: Option<Timestamps>,
    /// Options that only a SYN has.
    pub syn_options: Option<SynOptions>,
    /// The IP header's ECN field.
    pub ecn: EcnCodepoint,
}

impl Segment {
    /// Size of the IPv4 packet.
    #[must_use]
    pub fn size(&self) -> ByteCount {
        let timestamps = if self.timestamps.is_some() { TIMESTAMPS_BYTES } else { 0 };
        let sack = match self.sack.as_slice().len() as u64 {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        let syn = match self.syn_options {
            None => 0,
            Some(SynOptions { sack_permitted: false, .. }) => 4,
            Some(_) => 8,
        };
        ByteCount::from_bytes(HEADERS_BYTES + timestamps + sack + syn + u64::from(self.length_bytes))
    }

    /// The sequence number after this segment, its FIN included.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.sequence.saturating_add(u64::from(self.length_bytes)).saturating_add(u64::from(self.flags.fin))
    }
}

/// Control bits of a segment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Opens the connection.
    pub syn: bool,
    /// [`Segment::ack`] is valid.
    pub ack: bool,
    /// The stream ends with this segment.
    pub fin: bool,
    /// ECN echo (RFC 3168 §6.1), or "I can do ECN" on a SYN.
    pub ece: bool,
    /// Congestion window reduced (RFC 3168 §6.1).
    pub cwr: bool,
}

/// Timestamps option: sending time, and the echo of the peer's.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// When this segment was sent.
    pub value: Instant,
    /// The value of the segment that advanced the receiver last (RFC 7323 §4.3).
    pub echo: Option<Instant>,
}

/// The options of a SYN, which the two ends negotiate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SynOptions {
    /// Largest payload that the sender of the SYN wants to receive.
    pub mss_bytes: u32,
    /// SACK may be used.
    pub sack_permitted: bool,
}

/// Up to [`SACK_BLOCKS_MAX`] ranges `[start, end)`, the one that changed last first; a first range
/// below the cumulative acknowledgement, or inside the second, reports a duplicate (RFC 2883).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u64, u64); SACK_BLOCKS_MAX],
    count: u8,
}

impl SackBlocks {
    /// Adds a range behind the others, unless the option is full or the range empty.
    pub fn push(&mut self, start: u64, end: u64) {
        if start < end
            && let Some(slot) = self.blocks.get_mut(usize::from(self.count))
        {
            *slot = (start, end);
            self.count += 1;
        }
    }

    /// The ranges.
    #[must_use]
    pub fn as_slice(&self) -> &[(u64, u64)] {
        self.blocks.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// The duplicate that the first range reports, if it does (RFC 2883 §4).
    #[must_use]
    pub fn duplicate(&self, ack: u64) -> Option<(u64, u64)> {
        let &(start, end) = self.as_slice().first()?;
        let inside_second = self.as_slice().get(1).is_some_and(|&(first, last)| first <= start && end <= last);
        (end <= ack || inside_second).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(length_bytes: u32) -> Segment {
        Segment {
            sequence: 0,
            length_bytes,
            flags: Flags::default(),
            ack: 0,
            window_bytes: 0,
            sack: SackBlocks::default(),
            timestamps: None,
            syn_options: None,
            ecn: EcnCodepoint::NotCapable,
        }
    }

    #[test]
    fn the_size_counts_ip_and_tcp_headers_and_every_option() {
        assert_eq!(segment(100).size().bytes(), 140);
        let mut full = segment(0);
        full.timestamps = Some(Timestamps { value: Instant::ZERO, echo: None });
        full.sack.push(10, 20);
        full.sack.push(30, 40);
        assert_eq!(full.size().bytes(), 40 + 12 + 20);
    }

    #[test]
    fn a_fourth_sack_block_does_not_fit() {
        let mut sack = SackBlocks::default();
        for start in [10, 20, 30, 40] {
            sack.push(start, start + 5);
        }
        assert_eq!(sack.as_slice(), [(10, 15), (20, 25), (30, 35)]);
    }

    #[test]
    fn rfc_2883_4_a_first_block_below_the_ack_or_inside_the_second_is_a_duplicate() {
        let mut below = SackBlocks::default();
        below.push(5, 8);
        assert_eq!(below.duplicate(10), Some((5, 8)));
        assert_eq!(below.duplicate(5), None);
        below.push(4, 9);
        assert_eq!(below.duplicate(0), Some((5, 8)));
    }
}
