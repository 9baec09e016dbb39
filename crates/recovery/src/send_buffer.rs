//! Limits of a send buffer: one that follows cwnd (G02 §2), or one that keeps a delay.
//!
//! Written data waits in the send buffer until cwnd admits it. A full buffer of a fixed size delays every message by
//! its size over the rate: 64 KiB at 300 kbit/s are 1.7 s (G02 §2). A buffer that holds little more than the
//! outstanding data adds almost no delay, and the application decides as late as possible what to send.
//!
//! [`MinBuf`] is the paper's limit with its parameters A and B. [`DelayBudget`] derives A and B from the time that data
//! may wait in the buffer, which the paper names as future work (G02 §6). [`Waits`] measures that time.

mod budget;
mod waits;

use festina_units::Duration;

pub use budget::DelayBudget;
pub use waits::{MARKS_MAX, Wait, Waits};

/// The limit of a send buffer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SendBufferLimit {
    /// A fixed number of bytes.
    Bytes(u64),
    /// The limit follows cwnd, counted in packets (G02 §2). A writer is woken when a packet fits.
    MinBuf(MinBuf),
    /// Data waits at most about this long before it is first sent; A and B are derived from it.
    Target(Duration),
}

/// The parameters of `SO_TCP_MIN_BUF(A, B)` (G02 §2.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MinBuf {
    /// A: number of congestion windows that the buffer holds; 0 counts as 1.
    pub windows: u32,
    /// B: additional packets, at most one more window.
    pub extra_packets: u32,
}

impl Default for MinBuf {
    /// The limit with the least latency, MIN_BUF(1,0).
    fn default() -> Self {
        Self { windows: 1, extra_packets: 0 }
    }
}

/// The state of the congestion controller and the scoreboard, in packets.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// cwnd.
    pub cwnd_packets: u32,
    /// Sent and not cumulatively acknowledged.
    pub outstanding_packets: u32,
    /// Of these, selectively acknowledged.
    pub sacked_packets: u32,
}

impl MinBuf {
    /// Returns the number of packets that may be in the send buffer, sent or not: A·cwnd + min(B, cwnd), plus
    /// `sacked_packets` for a sender with SACK (the "sack correction" of G02 §2.2: selectively acknowledged data has
    /// left the network but not the buffer).
    #[must_use]
    pub fn limit_packets(self, cwnd_packets: u32, sacked_packets: u32) -> u64 {
        let cwnd = u64::from(cwnd_packets);
        u64::from(self.windows.max(1)) * cwnd + u64::from(self.extra_packets).min(cwnd) + u64::from(sacked_packets)
    }

    /// Returns whether a writer is to be woken: at least one more packet fits (G02 §2.2).
    #[must_use]
    pub fn admits(self, cwnd_packets: u32, sacked_packets: u32, buffered_packets: u64) -> bool {
        buffered_packets < self.limit_packets(cwnd_packets, sacked_packets)
    }

    /// Returns the number of packets that may wait in the buffer for their first transmission: the limit less the
    /// outstanding ones.
    #[must_use]
    pub fn unsent_packets_max(self, window: Window) -> u64 {
        let limit = self.limit_packets(window.cwnd_packets, window.sacked_packets);
        limit.saturating_sub(u64::from(window.outstanding_packets))
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
    fn g02_2_2_with_a_full_window_only_the_excess_waits() {
        let full =
            |sacked_packets| Window { cwnd_packets: 10, outstanding_packets: 10 + sacked_packets, sacked_packets };
        let waits = |windows, extra_packets, sacked| MinBuf { windows, extra_packets }.unsent_packets_max(full(sacked));
        assert_eq!((waits(1, 0, 0), waits(1, 3, 0), waits(2, 0, 0)), (0, 3, 10));
        assert_eq!((waits(1, 0, 4), waits(1, 3, 4), waits(2, 0, 4)), (0, 3, 10));
    }

    #[test]
    fn g02_2_2_after_a_cut_nothing_is_taken_until_the_window_has_drained() {
        let cut = Window { cwnd_packets: 5, outstanding_packets: 10, sacked_packets: 1 };
        assert_eq!(MinBuf { windows: 1, extra_packets: 3 }.unsent_packets_max(cut), 0);
        assert_eq!(MinBuf { windows: 2, extra_packets: 0 }.unsent_packets_max(cut), 1);
    }

    #[test]
    fn absurd_parameters_neither_overflow_nor_forbid_sending() {
        let most = MinBuf { windows: u32::MAX, extra_packets: u32::MAX };
        assert!(most.limit_packets(u32::MAX, u32::MAX) > u64::from(u32::MAX));
        assert_eq!(MinBuf { windows: 0, extra_packets: 0 }.limit_packets(1, 0), 1);
    }
}
