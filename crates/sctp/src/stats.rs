//! Counters and gauges of an association.

use festina_units::Duration;

use crate::event::AbandonReason;

/// A snapshot of one association. Counters only grow; gauges say how things are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Counters of the sending side.
    pub sent: SentStats,
    /// Counters of the receiving side.
    pub received: ReceivedStats,
    /// What partial reliability gave up, part of `sent.messages_abandoned`.
    pub abandoned: AbandonedStats,
    /// The sender's view of the path now.
    pub path: PathStats,
}

/// Messages given up by partial reliability, by policy (RFC 7496 §4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbandonedStats {
    /// Their lifetime ended.
    pub expired: Abandoned,
    /// They would have to be retransmitted too often.
    pub retransmissions_exhausted: Abandoned,
    /// They made room for one of higher priority.
    pub evicted: Abandoned,
    /// A newer message with the same key took their place.
    pub replaced: Abandoned,
    /// Their stream was refused by the peer.
    pub refused: Abandoned,
}

/// A number of messages given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abandoned {
    /// Nothing of them left.
    pub unsent: u64,
    /// Some of them left: the peer may have received them.
    pub sent: u64,
}

impl AbandonedStats {
    /// The sum over all policies.
    pub fn total(&self) -> Abandoned {
        let all = [self.expired, self.retransmissions_exhausted, self.evicted, self.replaced, self.refused];
        let add = |sum: Abandoned, each: Abandoned| Abandoned {
            unsent: sum.unsent + each.unsent,
            sent: sum.sent + each.sent,
        };
        all.into_iter().fold(Abandoned::default(), add)
    }

    pub(crate) fn count(&mut self, reason: AbandonReason, sent: bool) {
        let counter = match reason {
            AbandonReason::Expired => &mut self.expired,
            AbandonReason::RetransmissionsExhausted => &mut self.retransmissions_exhausted,
            AbandonReason::Evicted => &mut self.evicted,
            AbandonReason::Replaced => &mut self.replaced,
            AbandonReason::StreamRefused => &mut self.refused,
            AbandonReason::UnsentAtEnd | AbandonReason::UnacknowledgedAtEnd => return,
        };
        if sent {
            counter.sent += 1;
        } else {
            counter.unsent += 1;
        }
    }
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
    /// Messages given up, for any reason. Messages taken are those acknowledged, those given up and `path.messages_pending`.
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
    /// FORWARD-TSN chunks.
    pub forward_tsns: u64,
    /// Reports of the peer that the network marked a packet of this side (ECNE), each answered by a CWR.
    pub marks_reported: u64,
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
    /// Packets with data that the network marked as having met congestion (ECN CE, RFC 3168), if both sides take part in it.
    pub packets_marked: u64,
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
    /// Whether fast recovery lasts (RFC 9260 §7.2.4). Until it has come down to cwnd, more than cwnd may be on the way (RFC 6937).
    pub in_fast_recovery: bool,
    /// The peer's last advertised window, less the bytes in flight.
    pub peer_window_bytes: u64,
    /// Bytes in the send buffer.
    pub send_buffer_bytes: u64,
    /// Messages that are neither acknowledged nor given up.
    pub messages_pending: u64,
    /// Whether the stream is thin now.
    pub thin: bool,
}
