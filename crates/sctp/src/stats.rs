//! Counters and gauges of an association.

use festina_units::Duration;

/// A snapshot of one association. Counters only grow; gauges say how things are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What was sent.
    pub sent: SentStats,
    /// What was received.
    pub received: ReceivedStats,
    /// The sender's view of the path now.
    pub path: PathStats,
}

/// Counters of the sending side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentStats {
    /// SCTP packets.
    pub packets: u64,
    /// Bytes of those packets, SCTP common header included.
    pub bytes: u64,
    /// Messages taken by `send`.
    pub messages: u64,
    /// Messages whose every chunk was acknowledged.
    pub messages_acked: u64,
    /// Messages given up.
    pub messages_abandoned: u64,
    /// DATA chunks, first transmissions.
    pub chunks: u64,
    /// DATA chunks sent again, by cause.
    pub retransmitted: RetransmittedStats,
    /// Chunks that were found lost.
    pub chunks_lost: u64,
    /// Chunks sent again although the earlier copy had arrived, as far as the peer's acknowledgements tell.
    pub spurious: u64,
    /// T3-rtx expiries.
    pub timeouts: u64,
}

/// DATA chunks sent again, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetransmittedStats {
    /// T3-rtx expired.
    pub timeout: u64,
    /// Fast retransmit.
    pub fast: u64,
    /// Reported missing, but not often enough, and put into a packet that left anyway.
    pub reported_bundled: u64,
    /// Put uncalled for into a packet that left anyway.
    pub bundled: u64,
    /// Probe ahead of the timeout.
    pub probe: u64,
    /// Copies in packets of their own, uncalled for.
    pub copies: u64,
}

impl RetransmittedStats {
    /// The sum over all causes.
    pub fn total(&self) -> u64 {
        self.timeout + self.fast + self.reported_bundled + self.bundled + self.probe + self.copies
    }
}

/// Counters of the receiving side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivedStats {
    /// SCTP packets that passed all checks.
    pub packets: u64,
    /// Bytes of those packets.
    pub bytes: u64,
    /// Packets dropped: damaged, wrong tag, unexpected.
    pub packets_dropped: u64,
    /// Whole messages handed out.
    pub messages: u64,
    /// DATA chunks accepted.
    pub chunks: u64,
    /// DATA chunks that had been received before.
    pub duplicates: u64,
    /// DATA chunks dropped for want of buffer.
    pub chunks_dropped: u64,
}

/// Gauges of the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStats {
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Round-trip time variation.
    pub rttvar: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Slow-start threshold in bytes.
    pub ssthresh_bytes: u64,
    /// Outstanding bytes.
    pub in_flight_bytes: u64,
    /// Packets in flight, as the thin-stream detector counts them (Petlund et al. 2010 §5.1).
    pub in_flight_packets: u32,
    /// The peer's window as last told, less what is on the way.
    pub peer_window_bytes: u64,
    /// Bytes in the send buffer.
    pub send_buffer_bytes: u64,
    /// Whether the stream is thin now.
    pub thin: bool,
}
