//! Counters and gauges of an association.

use festina_units::{Duration, Instant};

use crate::event::{AbandonReason, RetransmissionCause};
use crate::path_id::PathId;

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
    /// Maximum size of the SCTP packets sent, the same on all paths: [`Limits::packet_bytes_searched_max`](crate::Limits::packet_bytes_searched_max) lets
    /// it grow.
    pub packet_bytes_max: u64,
}

impl Stats {
    /// Returns the smoothed round-trip time of the primary path, `path.srtt`; `None` before the first sample.
    pub fn rtt(&self) -> Option<Duration> {
        self.path.srtt
    }

    /// Returns the rates since an `earlier` snapshot of the same association, `elapsed` before this one. All are 0 if no time has passed.
    pub fn rates_since(&self, earlier: &Self, elapsed: Duration) -> Rates {
        let per_second = |now: u64, before: u64| {
            if elapsed.is_zero() { 0.0 } else { now.saturating_sub(before) as f64 / elapsed.as_secs_f64() }
        };
        let ((sent, received), (sent_before, received_before)) =
            ((&self.sent, &self.received), (&earlier.sent, &earlier.received));
        Rates {
            packets_sent: per_second(sent.packets, sent_before.packets),
            bytes_sent: per_second(sent.bytes, sent_before.bytes),
            messages_sent: per_second(sent.messages, sent_before.messages),
            messages_abandoned: per_second(sent.messages_abandoned, sent_before.messages_abandoned),
            retransmissions: per_second(sent.retransmitted.total(), sent_before.retransmitted.total()),
            packets_received: per_second(received.packets, received_before.packets),
            bytes_received: per_second(received.bytes, received_before.bytes),
            messages_received: per_second(received.messages, received_before.messages),
        }
    }
}

/// Rates between two snapshots, each per second: [`Stats::rates_since`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Rates {
    /// SCTP packets sent.
    pub packets_sent: f64,
    /// Bytes of those packets.
    pub bytes_sent: f64,
    /// Messages accepted by `send`.
    pub messages_sent: f64,
    /// Messages abandoned, for any reason.
    pub messages_abandoned: f64,
    /// Retransmissions of DATA chunks, including proactive copies.
    pub retransmissions: f64,
    /// SCTP packets received.
    pub packets_received: f64,
    /// Bytes of those packets.
    pub bytes_received: f64,
    /// Messages passed to the application.
    pub messages_received: f64,
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
    pub stream_refused: Abandoned,
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
        let all = [self.expired, self.retransmissions_exhausted, self.evicted, self.replaced, self.stream_refused];
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
            AbandonReason::StreamRefused => &mut self.stream_refused,
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
    /// replaced counts here, and unless packets are lost or overtake each other all of these have arrived. The others never left this side.
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

    pub(crate) fn count(&mut self, cause: RetransmissionCause) {
        *match cause {
            RetransmissionCause::Timeout => &mut self.timeout,
            RetransmissionCause::Fast => &mut self.fast,
            RetransmissionCause::ReportedBundled => &mut self.reported_bundled,
            RetransmissionCause::Bundled => &mut self.bundled,
            RetransmissionCause::Probe => &mut self.probe,
            RetransmissionCause::Copy => &mut self.copies,
        } += 1;
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
    /// The latest round-trip sample; `None` before the first.
    pub rtt_latest: Option<Duration>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_per_second_and_zero_without_time() {
        let mut earlier = Stats::default();
        (earlier.sent.packets, earlier.sent.messages, earlier.received.bytes) = (10, 7, 1_000);
        let mut later = earlier.clone();
        (later.sent.packets, later.sent.messages, later.received.bytes) = (40, 8, 4_000);
        (later.sent.retransmitted.fast, later.sent.retransmitted.copies) = (1, 2);
        let rates = later.rates_since(&earlier, Duration::from_secs(2));
        let expected = Rates {
            packets_sent: 15.0,
            messages_sent: 0.5,
            bytes_received: 1_500.0,
            retransmissions: 1.5,
            ..Rates::default()
        };
        assert_eq!(rates, expected);
        assert_eq!(later.rates_since(&earlier, Duration::ZERO), Rates::default());
        // Snapshots in the wrong order.
        assert_eq!(earlier.rates_since(&later, Duration::from_secs(2)), Rates::default());
    }

    #[test]
    fn the_round_trip_time_is_the_smoothed_one_of_the_path() {
        let mut stats = Stats::default();
        assert_eq!(stats.rtt(), None);
        stats.path.srtt = Some(Duration::from_millis(40));
        assert_eq!(stats.rtt(), Some(Duration::from_millis(40)));
    }
}
