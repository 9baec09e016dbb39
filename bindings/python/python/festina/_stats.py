"""What an association has counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class SentStats:
    """What was sent."""

    packets: int
    bytes: int
    messages: int
    messages_acked: int
    messages_abandoned: int
    """All messages given up; `Stats.abandoned` splits them."""
    retransmissions: int
    """DATA chunks sent again, uncalled-for copies included."""
    spurious: int
    """Of those, the peer had the chunk already, as far as it tells."""
    chunks_lost: int
    timeouts: int


@dataclass(frozen=True)
class ReceivedStats:
    """What was received."""

    packets: int
    bytes: int
    packets_dropped: int
    """Damaged or unexpected."""
    messages: int
    duplicates: int
    """DATA chunks that had come before."""
    chunks_dropped: int
    """DATA chunks for which the receive buffer had no room."""


@dataclass(frozen=True)
class PathStats:
    """The path as the sender sees it now. Times are in seconds."""

    srtt: Optional[float]
    """Smoothed round-trip time; None before it was measured."""
    rttvar: float
    rto: float
    cwnd_bytes: int
    ssthresh_bytes: int
    in_flight_bytes: int
    in_flight_packets: int
    peer_window_bytes: int
    send_buffer_bytes: int
    messages_pending: int
    """Messages that are neither acknowledged nor given up."""
    thin: bool
    """Whether the stream is thin now."""
    in_fast_recovery: bool


@dataclass(frozen=True)
class Abandoned:
    """Messages given up for one reason."""

    unsent: int
    """Nothing of them was sent."""
    sent: int
    """Some of them was sent: the peer may have received them."""


@dataclass(frozen=True)
class AbandonedStats:
    """Messages given up, by the reasons of `Outcome`."""

    expired: Abandoned
    retransmissions: Abandoned
    evicted: Abandoned
    replaced: Abandoned
    stream_refused: Abandoned


@dataclass(frozen=True)
class Stats:
    """A snapshot of counters, which only grow, and gauges."""

    sent: SentStats
    received: ReceivedStats
    path: PathStats
    abandoned: AbandonedStats
