"""Associations: sending, receiving, closing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import AsyncIterator, Generator, Iterable, Optional, Union, cast

from . import _festina
from ._errors import BufferFullError, ClosedError, InvalidError
from ._loop import Hub
from ._stats import Abandoned, AbandonedStats, Path, PathStats, ReceivedStats, SentStats, Stats

Data = Union[bytes, bytearray, memoryview]


@dataclass(frozen=True)
class Event:
    """An event of an association."""

    kind: str
    """"abandoned", "peer-shutdown", "peer-restarted", "peer-moved", "path-down", "path-up", "packet-size-limited", "closed" or "other".
    After "peer-moved", the new address is `Association.remote_address`."""
    first: Optional[int] = None
    """With "abandoned": the number of the first abandoned message, as returned by `send`."""
    last: Optional[int] = None
    """The number of the last one."""
    reason: Optional[str] = None
    """Why they were abandoned, as in `Outcome`."""
    sent: bool = False
    """Whether part of them was sent: the peer may have received it."""
    packet_bytes_max: Optional[int] = None
    """With "packet-size-limited": the system refused a packet as too large, and this is the new maximum."""


@dataclass(frozen=True)
class Outcome:
    """The fate of a message."""

    delivered: bool
    """Whether the peer has received it."""
    reason: Optional[str]
    """Why it was abandoned: "expired", "retransmissions-exhausted", "evicted", "replaced", "ended", "stream-refused" or "other"."""
    sent: bool
    """Whether part of it was sent: the peer may have received it even if it was abandoned."""


class Delivery:
    """Awaitable for the outcome of a message: `outcome = await delivery`. Any number of tasks may await it. Dropping it does not affect the
    message."""

    def __init__(self, hub: Hub, number: int, operation: _festina.Operation) -> None:
        self._hub = hub
        self._operation = operation
        self._outcome: Optional[Outcome] = None
        self.id = number
        """The number of the message."""

    def _look(self) -> Optional[Outcome]:
        if self._outcome is None:
            polled = self._operation.poll()
            if polled is not None:
                self._outcome = Outcome(*polled[0])
        return self._outcome

    def __await__(self) -> Generator[object, None, Outcome]:
        waiting = self._hub.wait(self._operation.number, self._look)
        return cast("Generator[object, None, Outcome]", waiting.__await__())


class Association:
    """A connection with one peer that carries messages both ways.

    `async with` shuts it down at the end, and aborts it after an error. A dropped association shuts down in the background.
    `async for` yields messages until the peer has shut it down; any other end raises `ClosedError`.
    """

    def __init__(self, hub: Hub, native: _festina.Association) -> None:
        self._hub = hub
        self._native = native

    async def send(
        self,
        data: Data,
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        immediate_ack: bool = False,
        lifetime: Optional[float] = None,
        deadline: Optional[float] = None,
        max_retransmissions: Optional[int] = None,
        priority: Optional[int] = None,
        replacing: Optional[int] = None,
        duplicate: Optional[str] = None,
    ) -> int:
        """Sends a message of at least one byte and returns its number. Waits only while the send buffer is full. In most cases the message was
        sent on return. `drained` waits until the peer has everything; `send_confirmed` reports the outcome of one message.

        stream: the stream that carries it; messages of different streams do not wait for each other.
        ppid: payload protocol identifier, for the peer's program.
        unordered: delivers it regardless of the order of its stream.
        immediate_ack: asks the peer to acknowledge at once.
        lifetime: seconds after which it is abandoned.
        deadline: time at which it is abandoned, on the clock of `time.monotonic` and `loop.time`. The time left also passes while the system
            is suspended (Linux).
        max_retransmissions: it is abandoned when it would need one more; 0 sends it once.
        priority: it is abandoned for one with a lower number if the send buffer is full.
        replacing: a key; it replaces an older message on its stream with the same key.
        duplicate: sends it twice: "at-once", or "half-interval", half the mean time between messages of its key later.
        """
        options = _options(
            stream,
            ppid,
            unordered,
            immediate_ack,
            lifetime,
            deadline,
            max_retransmissions,
            priority,
            replacing,
            duplicate,
        )
        payload = _bytes(data)
        number = self._native.try_send(payload, options)
        if number is None:
            number = cast(int, await self._hub.run(self._native.send(payload, options)))
        return number

    def send_nowait(
        self,
        data: Data,
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        immediate_ack: bool = False,
        lifetime: Optional[float] = None,
        deadline: Optional[float] = None,
        max_retransmissions: Optional[int] = None,
        priority: Optional[int] = None,
        replacing: Optional[int] = None,
        duplicate: Optional[str] = None,
    ) -> int:
        """Sends a message as `send` does, but never waits: raises `BufferFullError` if the send buffer is full."""
        options = _options(
            stream,
            ppid,
            unordered,
            immediate_ack,
            lifetime,
            deadline,
            max_retransmissions,
            priority,
            replacing,
            duplicate,
        )
        number = self._native.try_send(_bytes(data), options)
        if number is None:
            raise BufferFullError("the send buffer is full")
        return number

    def send_many_nowait(
        self,
        messages: Iterable[Data],
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        immediate_ack: bool = False,
        lifetime: Optional[float] = None,
        deadline: Optional[float] = None,
        max_retransmissions: Optional[int] = None,
        priority: Optional[int] = None,
        replacing: Optional[int] = None,
        duplicate: Optional[str] = None,
    ) -> int:
        """Sends messages in this order with the options of `send`, as many as fit into the send buffer. They share packets and system calls
        where possible. Returns the number of messages sent. If any message is invalid, none is sent."""
        options = _options(
            stream,
            ppid,
            unordered,
            immediate_ack,
            lifetime,
            deadline,
            max_retransmissions,
            priority,
            replacing,
            duplicate,
        )
        return self._native.try_send_many([_bytes(data) for data in messages], options)

    async def send_confirmed(
        self,
        data: Data,
        *,
        stream: int = 0,
        ppid: int = 0,
        unordered: bool = False,
        immediate_ack: bool = False,
        lifetime: Optional[float] = None,
        deadline: Optional[float] = None,
        max_retransmissions: Optional[int] = None,
        priority: Optional[int] = None,
        replacing: Optional[int] = None,
        duplicate: Optional[str] = None,
    ) -> Delivery:
        """Sends a message as `send` does. Await the returned `Delivery` for its outcome."""
        options = _options(
            stream,
            ppid,
            unordered,
            immediate_ack,
            lifetime,
            deadline,
            max_retransmissions,
            priority,
            replacing,
            duplicate,
        )
        number, operation = await self._hub.run(self._native.send_confirmed(_bytes(data), options))
        return Delivery(self._hub, number, operation)

    async def drained(self) -> None:
        """Waits until the peer has acknowledged everything sent so far, except abandoned messages."""
        await self._hub.run(self._native.drained())

    async def recv(self) -> _festina.Message:
        """Receives the next message. Raises `ClosedError` after the last one."""
        message = self._native.poll_recv()
        if message is None:
            message = cast(_festina.Message, await self._hub.wait(self._native.number, self._native.poll_recv))
        return message

    def recv_nowait(self) -> Optional[_festina.Message]:
        """Returns the next message, or None if there is none yet."""
        return self._native.poll_recv()

    def recv_early_nowait(self) -> Optional[_festina.Message]:
        """Returns the next early message of the client, or None. Such a message may be a copy sent again by an attacker: act on it only if
        acting twice does no harm. All of them are here when the association is accepted."""
        return self._native.recv_early()

    def __aiter__(self) -> AsyncIterator[_festina.Message]:
        return self

    async def __anext__(self) -> _festina.Message:
        try:
            return await self.recv()
        except ClosedError as error:
            if error.reason == "shutdown":
                raise StopAsyncIteration from None
            raise

    async def event(self) -> Optional[Event]:
        """Returns the next event; None after "closed". Reading events is optional: the latest 4,096 are kept."""
        happened = await self._hub.run(self._native.event())
        if happened is None:
            return None
        kind, concerned, packet_bytes_max = happened
        first, last, reason, sent = concerned or (None, None, None, False)
        return Event(kind, first, last, reason, sent, packet_bytes_max)

    async def shutdown(self) -> None:
        """Shuts the association down gracefully: waits until the peer has received everything and confirms. The shutdown continues if this is
        cancelled. Raises `ClosedError` if the association ended for another reason."""
        await self._hub.run(self._native.shutdown())

    def abort(self, reason: str = "") -> None:
        """Aborts the association and sends the reason to the peer. Unacknowledged messages may be lost."""
        self._native.abort(reason)

    async def closed(self) -> str:
        """Waits until the association has ended. Returns the reason, as in `ClosedError.reason`."""
        return cast(str, await self._hub.run(self._native.closed()))

    async def __aenter__(self) -> Association:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._hub.is_inherited:
            return
        if kind is not None:
            self.abort("the program ended it after an error")
        elif self.close_reason is None:
            await self.shutdown()

    @property
    def close_reason(self) -> Optional[str]:
        """Why the association has ended, as in `ClosedError.reason`; None while it is open."""
        return self._native.close_reason

    @property
    def remote_address(self) -> tuple[str, int]:
        """The peer's IP address and UDP port."""
        return self._native.remote_address

    @property
    def is_encrypted(self) -> bool:
        """Whether the association is encrypted."""
        return self._native.is_encrypted

    @property
    def is_resumed(self) -> bool:
        """Whether it resumed the session of an earlier association with the peer."""
        return self._native.is_resumed

    @property
    def peer_fingerprint(self) -> Optional[str]:
        """The SHA-256 hash of the peer's certificate or raw public key as 64 hexadecimal digits; None for a client without one, and without
        encryption."""
        return self._native.peer_fingerprint

    @property
    def peer_certificates(self) -> tuple[bytes, ...]:
        """The peer's certificate chain as DER, the peer's own certificate first, or its raw public key (SubjectPublicKeyInfo)."""
        return self._native.peer_certificates

    @property
    def alpn(self) -> Optional[str]:
        """The application protocol that both sides have agreed on (ALPN)."""
        return self._native.alpn

    @property
    def client_token(self) -> bytes:
        """The token of the client, on the server; otherwise empty."""
        return self._native.client_token

    @property
    def streams(self) -> tuple[int, int]:
        """The number of streams to the peer, and from it."""
        return self._native.streams

    @property
    def profile(self) -> Optional[str]:
        """The loss-recovery profile in use; None if the mechanisms match none. Can be set."""
        return self._native.profile

    @profile.setter
    def profile(self, profile: str) -> None:
        self._native.set_profile(profile)

    def stats(self) -> Stats:
        """Returns a snapshot of counters and gauges."""
        stats = self._native.stats()
        abandoned = AbandonedStats(**{reason: Abandoned(*counts) for reason, counts in stats["abandoned"].items()})
        return Stats(
            SentStats(**stats["sent"]), ReceivedStats(**stats["received"]), PathStats(**stats["path"]), abandoned
        )

    def paths(self) -> list[Path]:
        """Returns a snapshot of the path to each of the peer's addresses, that of the handshake first."""
        return [Path(**path) for path in self._native.paths()]

    def __repr__(self) -> str:
        if self._hub.is_inherited:
            return "<festina.Association of the parent process>"
        host, port = self.remote_address
        return f"<festina.Association with {host} port {port}: {self.close_reason or 'open'}>"


_DEFAULT = (0, 0, False, False, None, None, None, None, None, None)


def _options(
    stream: int,
    ppid: int,
    unordered: bool,
    immediate_ack: bool,
    lifetime: Optional[float],
    deadline: Optional[float],
    max_retransmissions: Optional[int],
    priority: Optional[int],
    replacing: Optional[int],
    duplicate: Optional[str],
) -> Optional[_festina.Options]:
    """Converts options for the native module; None if all have their default."""
    try:
        left = None if deadline is None else deadline - time.monotonic()
    except OverflowError:
        raise InvalidError("deadline is beyond all floating-point numbers") from None
    options = (
        stream,
        ppid,
        unordered,
        immediate_ack,
        lifetime,
        left,
        max_retransmissions,
        priority,
        replacing,
        duplicate,
    )
    return None if options == _DEFAULT else options


def _bytes(data: Data) -> bytes:
    """Converts to bytes. Not `bytes(data)`, which also accepts a number."""
    return data if type(data) is bytes else bytes(memoryview(data))
