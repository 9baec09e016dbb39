"""The native half: what the package is built on. Programs use `Config` and `Message` of it, and the constants."""

from typing import Any, Final, Optional, final

PROFILES: Final[tuple[str, ...]]
"""The names of the loss-recovery profiles."""
CONGESTION: Final[tuple[str, ...]]
"""The names of the congestion controls."""
DEFAULT_SCTP_PORT: Final[int]
__version__: Final[str]

Options = tuple[
    int, int, bool, bool, Optional[float], Optional[float], Optional[int], Optional[int], Optional[int]
]

@final
class Config:
    """Settings of an endpoint. None leaves a setting as it is by default. Times are in seconds."""

    def __new__(
        cls,
        *,
        profile: Optional[str] = None,
        congestion: Optional[str] = None,
        peer_timeout: Optional[float] = None,
        heartbeat_interval: Optional[float] = None,
        sack_delay: Optional[float] = None,
        message_bytes_max: Optional[int] = None,
        packet_bytes_max: Optional[int] = None,
        send_buffer_bytes: Optional[int] = None,
        send_delay: Optional[float] = None,
        receive_buffer_bytes: Optional[int] = None,
        streams: Optional[tuple[int, int]] = None,
        interleaving: Optional[bool] = None,
        associations_max: Optional[int] = None,
    ) -> Config:
        """
        profile: the loss-recovery profile, one of `PROFILES`; "festina" by default.
        congestion: the congestion control, one of `CONGESTION`.
        peer_timeout: how long a peer may leave this side without an answer; 0: as RFC 9260 has it.
        heartbeat_interval: the pause between heartbeats of an idle association; 0 sends none.
        sack_delay: the longest wait before this side acknowledges.
        message_bytes_max, packet_bytes_max: the largest message and the largest SCTP packet.
        send_buffer_bytes, receive_buffer_bytes: the buffers.
        send_delay: about how long a message may wait before it leaves; beyond it the send buffer counts as full. 0 sets no limit.
        streams: how many outbound streams are asked for, and how many inbound ones accepted.
        interleaving: whether a small message may overtake a large one on another stream (RFC 8260).
        associations_max: how many associations the endpoint may have at a time.
        """

@final
class Message:
    """A message that came."""

    @property
    def data(self) -> bytes: ...
    @property
    def stream(self) -> int:
        """The stream that carried it."""
    @property
    def ppid(self) -> int:
        """Payload protocol identifier."""
    @property
    def ordered(self) -> bool:
        """Whether it was delivered in the order of its stream."""

@final
class Hub:
    def __new__(cls) -> Hub: ...
    def fileno(self) -> int: ...
    def woken(self) -> list[int]: ...

@final
class Operation:
    @property
    def number(self) -> int: ...
    def poll(self) -> Optional[tuple[Any]]: ...
    def cancel(self) -> None: ...

@final
class Endpoint:
    def __new__(cls, hub: Hub, address: str, config: Optional[Config]) -> Endpoint: ...
    @property
    def local_address(self) -> tuple[str, int]: ...
    def listen(self, port: int) -> Listener: ...
    def connect(self, address: str, port: int, profile: Optional[str], timeout: float) -> Operation: ...
    def close(self) -> Operation: ...

@final
class Listener:
    @property
    def number(self) -> int: ...
    def poll_accept(self) -> Optional[Association]: ...
    def close(self) -> None: ...

@final
class Association:
    @property
    def number(self) -> int: ...
    def poll_recv(self) -> Optional[Message]: ...
    def try_send(self, data: bytes, options: Optional[Options]) -> Optional[int]: ...
    def send(self, data: bytes, options: Optional[Options]) -> Operation: ...
    def send_confirmed(self, data: bytes, options: Optional[Options]) -> Operation: ...
    def drained(self) -> Operation: ...
    def shutdown(self) -> Operation: ...
    def closed(self) -> Operation: ...
    def event(self) -> Operation: ...
    def abort(self, reason: str) -> None: ...
    @property
    def close_reason(self) -> Optional[str]: ...
    @property
    def remote_address(self) -> tuple[str, int]: ...
    @property
    def streams(self) -> tuple[int, int]: ...
    def stats(self) -> dict[str, dict[str, Any]]: ...
    @property
    def profile(self) -> Optional[str]: ...
    def set_profile(self, profile: str) -> None: ...
