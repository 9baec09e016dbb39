//! Counters and gauges of an association.

use festina_units::{Duration, Instant};

use crate::event::AbandonReason;
use crate::outstanding::PathId;

/// A snapshot of one association. Counters only grow; gauges show the present state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Counters of the sending side.
    pub sent: SentStats,
    /// Counters of the receiving side.
    pub received: ReceivedStats,
    /// Messages abandoned by partial reliability, included in `sent.messages_abandoned`.
    pub abandoned: AbandonedStats,
    /// The sender's present view of the primary path. [`Association::path_stats`](crate::Association::path_stats) has that of each path.
    pub path: PathStats,
}

/// Messages abandoned by partial reliability, by policy (RFC 7496 §4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbandonedStats {
    /// Their lifetime ended.
    pub expired: Abandoned,
    /// They would have exceeded their maximum number of retransmissions.
    pub retransmissions_exhausted: Abandoned,
    /// They made room for messages of higher priority.
    pub evicted: Abandoned,
    /// Newer messages with the same key replaced them.
    pub replaced: Abandoned,
    /// The peer refused their stream.
    pub refused: Abandoned,
}

/// Numbers of abandoned messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abandoned {
    /// Messages abandoned before any part was sent.
    pub unsent: u64,
    /// Messages that were sent at least in part: the peer may have received them.
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
    /// Bytes of those packets, including the SCTP common header.
    pub bytes: u64,
    /// Messages accepted by `send`.
    pub messages: u64,
    /// Messages with every chunk acknowledged.
    pub messages_acked: u64,
    /// Messages abandoned, for any reason. `messages` is the sum of acknowledged and abandoned ones and `path.messages_pending`.
    pub messages_abandoned: u64,
    /// Those of them that were sent at least in part. The peer may have received them: a message whose acknowledgement is on its way when it expires or is
    /// replaced counts here, and without loss all of these have arrived. The others never left this side.
    pub messages_abandoned_sent: u64,
    /// First transmissions of DATA chunks.
    pub chunks: u64,
    /// Retransmissions of DATA chunks, by cause.
    pub retransmitted: RetransmittedStats,
    /// Chunks marked as lost.
    pub chunks_lost: u64,
    /// Retransmissions of chunks that had already arrived, as far as the peer's acknowledgements show.
    pub spurious: u64,
    /// T3-rtx expiries.
    pub timeouts: u64,
    /// FORWARD-TSN chunks.
    pub forward_tsns: u64,
    /// Reports by the peer of a congestion mark on a packet of this side (ECNE), each answered by a CWR.
    pub marks_reported: u64,
}

/// Retransmissions of DATA chunks, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetransmittedStats {
    /// T3-rtx expired.
    pub timeout: u64,
    /// Fast retransmit.
    pub fast: u64,
    /// Reported missing, but not often enough; bundled into a packet that was sent anyway.
    pub reported_bundled: u64,
    /// Proactive copies bundled into packets that were sent anyway.
    pub bundled: u64,
    /// Probes ahead of the timeout.
    pub probe: u64,
    /// Proactive copies in packets of their own.
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
    /// Messages passed to the application.
    pub messages: u64,
    /// DATA chunks accepted.
    pub chunks: u64,
    /// DATA chunks received more than once.
    pub duplicates: u64,
    /// DATA chunks dropped because the buffer was full.
    pub chunks_dropped: u64,
    /// Packets with data and a congestion mark (ECN CE, RFC 3168), if both sides negotiated ECN.
    pub packets_marked: u64,
}

/// Gauges of a path, and of the send buffer that all paths share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStats {
    /// The path.
    pub id: PathId,
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
    /// Outstanding bytes last sent on this path.
    pub in_flight_bytes: u64,
    /// Packets in flight, as the thin-stream detector counts them (Petlund et al. 2010 §5.1).
    pub in_flight_packets: u32,
    /// Whether fast recovery is active (RFC 9260 §7.2.4). At its start more than cwnd may be in flight (RFC 6937).
    pub in_fast_recovery: bool,
    /// The peer's last advertised window, less the bytes in flight.
    pub peer_window_bytes: u64,
    /// When an acknowledgement first showed the peer's window closed, with room for nothing or for less than the next chunk, rounded down to a second;
    /// `None` if the last one showed it open. A peer whose transport answers while this stays the same has an application that reads nothing.
    pub peer_window_closed_since: Option<Instant>,
    /// Bytes in the send buffer.
    pub send_buffer_bytes: u64,
    /// Messages that are neither acknowledged nor abandoned.
    pub messages_pending: u64,
    /// Whether the stream is thin now.
    pub thin: bool,
}
