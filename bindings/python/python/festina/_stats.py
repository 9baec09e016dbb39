"""Statistics of an association."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional


@dataclass(frozen=True)
class SentStats:
    """Counters of the sending side."""

    packets: int
    bytes: int
    messages: int
    messages_acked: int
    messages_abandoned: int
    """Abandoned messages in total; `Stats.abandoned` splits them by reason."""
    messages_abandoned_sent: int
    """Those that were sent at least in part: the peer may have received them, and without loss it has. The others were never sent."""
    retransmissions: int
    """DATA chunks sent again, including proactive copies."""
    spurious: int
    """Retransmissions of chunks that the peer had already received, as far as it reports."""
    chunks_lost: int
    timeouts: int


@dataclass(frozen=True)
class ReceivedStats:
    """Counters of the receiving side."""

    packets: int
    bytes: int
    packets_dropped: int
    """Packets that were damaged or unexpected."""
    messages: int
    duplicates: int
    """DATA chunks received more than once."""
    chunks_dropped: int
    """DATA chunks for which the receive buffer had no room."""


@dataclass(frozen=True)
class PathStats:
    """Present state of the path, as seen by the sender. Times are in seconds."""

    srtt: Optional[float]
    """Smoothed round-trip time; None before it was measured."""
    rttvar: float
    rto: float
    cwnd_bytes: int
    ssthresh_bytes: int
    in_flight_bytes: int
    in_flight_packets: int
    peer_window_bytes: int
    peer_window_closed: Optional[float]
    """Time since the peer's window closed; None while it is open. The peer's transport answers, and its program reads nothing."""
    send_buffer_bytes: int
    messages_pending: int
    """Messages that are neither acknowledged nor abandoned."""
    packet_bytes_max: int
    """Maximum size of the packets sent."""
    thin: bool
    """Whether the stream is thin now."""
    in_fast_recovery: bool


@dataclass(frozen=True)
class Path:
    """The path to one of the peer's addresses. Times are in seconds."""

    address: tuple[str, int]
    state: Literal["unconfirmed", "active", "potentially-failed", "inactive", "closed"]
    """Nothing but heartbeats is sent to an unconfirmed address; other paths carry the data of one that does not answer."""
    carries_data: bool
    """Whether new data leaves by it."""
    errors: int
    """Consecutive timeouts and heartbeats without an answer."""
    srtt: Optional[float]
    """Smoothed round-trip time; None before it was measured."""
    rto: float
    cwnd_bytes: int
    in_flight_bytes: int


@dataclass(frozen=True)
class Abandoned:
    """Messages abandoned for one reason."""

    unsent: int
    """Messages abandoned before any part was sent."""
    sent: int
    """Messages that were sent at least in part: the peer may have received them."""


@dataclass(frozen=True)
class AbandonedStats:
    """Abandoned messages, by the reasons of `Outcome`."""

    expired: Abandoned
    retransmissions_exhausted: Abandoned
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
