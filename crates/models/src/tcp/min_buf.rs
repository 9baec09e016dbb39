//! MIN_BUF: a limit of the send buffer that follows cwnd (Goel et al. 2002, G02 §2).

/// The parameters of `SO_TCP_MIN_BUF(A, B)` (G02 §2.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MinBuf {
    /// A: congestion windows that the buffer holds; 0 counts as 1.
    pub windows: u32,
    /// B: packets in excess of that, at most one more window.
    pub extra_packets: u32,
}

impl Default for MinBuf {
    /// The stream with the least latency, MIN_BUF(1,0).
    fn default() -> Self {
        Self { windows: 1, extra_packets: 0 }
    }
}

impl MinBuf {
    /// Packets that may lie in the send buffer, sent or not: A·cwnd + min(B, cwnd), and
    /// `sacked_packets` for a sender with SACK (the "sack correction" of G02 §2.2: what was
    /// selectively acknowledged has left the network but not the buffer).
    #[must_use]
    pub fn limit_packets(self, cwnd_packets: u32, sacked_packets: u32) -> u64 {
        let cwnd = u64::from(cwnd_packets);
        u64::from(self.windows.max(1)) * cwnd + u64::from(self.extra_packets).min(cwnd) + u64::from(sacked_packets)
    }

    /// Returns whether a writer shall be woken: at least one packet more fits (G02 §2.2).
    #[must_use]
    pub fn admits(self, cwnd_packets: u32, sacked_packets: u32, buffered_packets: u64) -> bool {
        buffered_packets < self.limit_packets(cwnd_packets, sacked_packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_2_2_the_default_holds_one_window() {
        assert_eq!(MinBuf::default().limit_packets(10, 0), 10);
        assert!(MinBuf::default().admits(10, 0, 9));
        assert!(!MinBuf::default().admits(10, 0, 10));
    }

    #[test]
    fn g02_2_2_extra_packets_are_at_most_one_window() {
        let min_buf = MinBuf { windows: 1, extra_packets: 3 };
        assert_eq!(min_buf.limit_packets(10, 0), 13);
        assert_eq!(min_buf.limit_packets(2, 0), 4);
        assert_eq!(MinBuf { windows: 2, extra_packets: 0 }.limit_packets(7, 0), 14);
    }

    #[test]
    fn g02_2_2_selectively_acknowledged_packets_widen_the_limit() {
        assert_eq!(MinBuf::default().limit_packets(10, 4), 14);
        assert!(MinBuf::default().admits(5, 3, 7));
    }

    #[test]
    fn absurd_parameters_neither_overflow_nor_forbid_sending() {
        let most = MinBuf { windows: u32::MAX, extra_packets: u32::MAX };
        assert!(most.limit_packets(u32::MAX, u32::MAX) > u64::from(u32::MAX));
        assert_eq!(MinBuf { windows: 0, extra_packets: 0 }.limit_packets(1, 0), 1);
    }
}
