//! Statistics of an association.

/// Statistics of an association; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// `sizeof`.
    pub size: usize,
    /// Counters of the sending side.
    pub sent: Sent,
    /// Counters of the receiving side.
    pub received: Received,
    /// The path now.
    pub path: Path,
    /// Abandoned messages, by reason.
    pub abandoned: AbandonedByReason,
    /// Abandoned messages that were sent at least in part, for any reason.
    pub messages_abandoned_sent: u64,
    /// Time since the peer's window closed.
    pub peer_window_closed_ns: u64,
}

/// Counters of the sending side.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// SCTP packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages taken.
    pub messages: u64,
    /// Of those, acknowledged.
    pub messages_acked: u64,
    /// Abandoned ones among them, whether or not part of them was sent; see `Stats::abandoned`.
    pub messages_abandoned: u64,
    /// DATA chunks sent again.
    pub retransmissions: u64,
    /// Of those, the peer had already.
    pub spurious: u64,
    /// Chunks found lost.
    pub chunks_lost: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
}

/// Counters of the receiving side.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// SCTP packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped.
    pub packets_dropped: u64,
    /// Messages handed out.
    pub messages: u64,
    /// DATA chunks that had come before.
    pub duplicates: u64,
    /// DATA chunks for which there was no room.
    pub chunks_dropped: u64,
}

/// Messages abandoned for one reason.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Abandoned {
    /// Nothing of them was sent.
    pub unsent: u64,
    /// Some of them was sent: the peer may have received them.
    pub sent: u64,
}

/// Abandoned messages, by reason.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AbandonedByReason {
    /// Lifetime or deadline.
    pub expired: Abandoned,
    /// Too many retransmissions.
    pub retransmissions_exhausted: Abandoned,
    /// Room for a message of higher priority.
    pub evicted: Abandoned,
    /// A newer message with the same key.
    pub replaced: Abandoned,
    /// The peer has no such stream.
    pub stream_refused: Abandoned,
}

impl From<festina::Abandoned> for Abandoned {
    fn from(abandoned: festina::Abandoned) -> Self {
        Self { unsent: abandoned.unsent, sent: abandoned.sent }
    }
}

/// The path now.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Smoothed round-trip time, 0 before it was measured.
    pub srtt_ns: u64,
    /// Its variation.
    pub rttvar_ns: u64,
    /// Retransmission timeout.
    pub rto_ns: u64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Outstanding.
    pub in_flight_bytes: u64,
    /// The same in packets.
    pub in_flight_packets: u64,
    /// Free space of the peer's receive buffer.
    pub peer_window_bytes: u64,
    /// Bytes in the send buffer.
    pub send_buffer_bytes: u64,
    /// Messages neither acknowledged nor given up.
    pub messages_pending: u64,
    /// 1 if the stream is thin.
    pub thin: u64,
    /// 1 while fast recovery lasts.
    pub in_fast_recovery: u64,
    /// Slow-start threshold.
    pub ssthresh_bytes: u64,
    /// Maximum size of packets.
    pub packet_bytes_max: u64,
}

impl Stats {
    pub(crate) fn new(stats: &festina::Stats) -> Self {
        let (sent, received, path) = (&stats.sent, &stats.received, &stats.path);
        let ns = |duration: festina::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self {
            size: size_of::<Self>(),
            sent: Sent {
                packets: sent.packets,
                bytes: sent.bytes,
                messages: sent.messages,
                messages_acked: sent.messages_acked,
                messages_abandoned: sent.messages_abandoned,
                retransmissions: sent.retransmitted.total(),
                spurious: sent.spurious,
                chunks_lost: sent.chunks_lost,
                timeouts: sent.timeouts,
            },
            received: Received {
                packets: received.packets,
                bytes: received.bytes,
                packets_dropped: received.packets_dropped,
                messages: received.messages,
                duplicates: received.duplicates,
                chunks_dropped: received.chunks_dropped,
            },
            path: Path {
                srtt_ns: path.srtt.map_or(0, ns),
                rttvar_ns: ns(path.rttvar),
                rto_ns: ns(path.rto),
                cwnd_bytes: path.cwnd_bytes,
                in_flight_bytes: path.in_flight_bytes,
                in_flight_packets: path.in_flight_packets.into(),
                peer_window_bytes: path.peer_window_bytes,
                send_buffer_bytes: path.send_buffer_bytes,
                messages_pending: path.messages_pending,
                thin: path.thin.into(),
                in_fast_recovery: path.in_fast_recovery.into(),
                ssthresh_bytes: path.ssthresh_bytes,
                packet_bytes_max: stats.packet_bytes_max,
            },
            abandoned: AbandonedByReason {
                expired: stats.abandoned.expired.into(),
                retransmissions_exhausted: stats.abandoned.retransmissions_exhausted.into(),
                evicted: stats.abandoned.evicted.into(),
                replaced: stats.abandoned.replaced.into(),
                stream_refused: stats.abandoned.stream_refused.into(),
            },
            messages_abandoned_sent: sent.messages_abandoned_sent,
            peer_window_closed_ns: path.peer_window_closed_since.map_or(0, |since| ns(festina::now() - since)),
        }
    }
}
