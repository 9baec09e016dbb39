"""Associations: sending, receiving, ending."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import AsyncIterator, Generator, Iterable, Optional, Union, cast

from . import _festina
from ._errors import BufferFullError, ClosedError
from ._loop import Hub
from ._stats import Abandoned, AbandonedStats, PathStats, ReceivedStats, SentStats, Stats

Data = Union[bytes, bytearray, memoryview]


@dataclass(frozen=True)
class Event:
    """Something that happened to an association."""

    kind: str
    """"abandoned", "peer-shutdown", "peer-restarted", "path-down", "path-up", "packet-size-limited", "closed" or "other"."""
    first: Optional[int] = None
    """The first message given up, by the number that `send` returned."""
    last: Optional[int] = None
    """The last one."""
    reason: Optional[str] = None
    """Why they were given up, as in `Outcome`."""
    sent: bool = False
    """Whether some of them has left: the peer may have received it all the same."""
    packet_bytes_max: Optional[int] = None
    """With "packet-size-limited": the system refused a packet as too large, and this is the largest size from now on."""


@dataclass(frozen=True)
class Outcome:
    """What became of a message."""

    delivered: bool
    """The peer has it."""
    reason: Optional[str]
    """Why it was given up: "expired", "retransmissions", "evicted", "replaced", "ended", "stream-refused" or "other"."""
    sent: bool
    """Whether some of it has left: the peer may have received it even if it was given up."""


class Delivery:
    """Comes to what became of a message: `outcome = await delivery`. Any number of tasks may await it. Letting go of it changes nothing for
    the message."""

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

    `async with` shuts it down at the end, and aborts it after an error. An association that is let go of ends in good order in the
    background. `async for` gives the messages, until the peer has ended it in good order; otherwise it raises `ClosedError`.
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
        ordered: bool = True,
        immediate_ack: bool = False,
        lifetime: Optional[float] = None,
        deadline: Optional[float] = None,
        max_retransmissions: Optional[int] = None,
        priority: Optional[int] = None,
        replace: Optional[int] = None,
    ) -> int:
        """Sends a message of at least one byte, and waits only while the send buffer is full. Returns the number of the message. Mostly it
        has left by then; `drained` waits until the peer has everything, `send_confirmed` says what became of one message.

        stream: which stream carries it; messages of different streams do not wait for each other.
        ppid: payload protocol identifier, for the peer's program.
        ordered: False delivers it without regard to the order of its stream.
        immediate_ack: asks the peer to acknowledge at once.
        lifetime: seconds after which it is given up.
        deadline: the point in time at which it is given up, on the clock of `time.monotonic` and `loop.time`.
        max_retransmissions: it is given up if it would have to leave more often again; 0 sends it once.
        priority: it is given up for one with a lower number if the send buffer is full.
        replace: a key; it takes the place of an older message on its stream with the same key.
        """
        options = _options(
            stream, ppid, ordered, immediate_ack, lifetime, deadline, max_retransmissions, priority, replace
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
        ordered: bool = True,
        immediate_ack: bool = False,
        lifetime: Optional[float] = None,
        deadline: Optional[float] = None,
        max_retransmissions: Optional[int] = None,
        priority: Optional[int] = None,
        replace: Optional[int] = None,
    ) -> int:
        """Sends a message as `send` does, now or not at all: raises `BufferFullError` if the send buffer is full."""
        options = _options(
            stream, ppid, ordered, immediate_ack, lifetime, deadline, max_retransmissions, priority, replace
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
        ordered: bool = True,
        immediate_ack: bool = False,
        lifetime: Optional[float] = None,
        deadline: Optional[float] = None,
        max_retransmissions: Optional[int] = None,
        priority: Optional[int] = None,
        replace: Optional[int] = None,
    ) -> int:
        """Sends messages in this order, each with the options of `send`, as many as the send buffer has room for. They share packets and system
        calls as far as they fit together. Returns how many were sent."""
        options = _options(
            stream, ppid, ordered, immediate_ack, lifetime, deadline, max_retransmissions, priority, replace
        )
        return self._native.try_send_many([_bytes(data) for data in messages], options)

    async def send_confirmed(
        self,
        data: Data,
        *,
        stream: int = 0,
        ppid: int = 0,
        ordered: bool = True,
        immediate_ack: bool = False,
        lifetime: Optional[float] = None,
        deadline: Optional[float] = None,
        max_retransmissions: Optional[int] = None,
        priority: Optional[int] = None,
        replace: Optional[int] = None,
    ) -> Delivery:
        """Sends a message as `send` does. What this returns can be awaited to learn what became of it."""
        options = _options(
            stream, ppid, ordered, immediate_ack, lifetime, deadline, max_retransmissions, priority, replace
        )
        number, operation = await self._hub.run(self._native.send_confirmed(_bytes(data), options))
        return Delivery(self._hub, number, operation)

    async def drained(self) -> None:
        """Waits until the peer has acknowledged everything sent so far."""
        await self._hub.run(self._native.drained())

    async def recv(self) -> _festina.Message:
        """The next message. Raises `ClosedError` after the last one."""
        message = self._native.poll_recv()
        if message is None:
            message = cast(_festina.Message, await self._hub.wait(self._native.number, self._native.poll_recv))
        return message

    def recv_nowait(self) -> Optional[_festina.Message]:
        """The next message if one is there."""
        return self._native.poll_recv()

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
        """The next thing that happened; None after "closed". Nobody has to ask: the latest 4,096 are kept."""
        happened = await self._hub.run(self._native.event())
        if happened is None:
            return None
        kind, concerned, packet_bytes_max = happened
        first, last, reason, sent = concerned or (None, None, None, False)
        return Event(kind, first, last, reason, sent, packet_bytes_max)

    async def shutdown(self) -> None:
        """Ends the association in good order: waits until the peer has everything and agrees. The end goes on if this is cancelled. Raises
        `ClosedError` if it ended otherwise."""
        await self._hub.run(self._native.shutdown())

    def abort(self, reason: str = "") -> None:
        """Ends the association at once and tells the peer why; what was not acknowledged may be lost."""
        self._native.abort(reason)

    async def closed(self) -> str:
        """Waits until the association is over. Returns why, as `ClosedError.reason` has it."""
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
        """Why the association is over, as `ClosedError.reason` has it; None if it is not."""
        return self._native.close_reason

    @property
    def remote_address(self) -> tuple[str, int]:
        """The peer's IP address and UDP port."""
        return self._native.remote_address

    @property
    def streams(self) -> tuple[int, int]:
        """The numbers of streams to the peer and from it."""
        return self._native.streams

    @property
    def profile(self) -> Optional[str]:
        """The loss-recovery profile, if the mechanisms in use are those of one. Can be set."""
        return self._native.profile

    @profile.setter
    def profile(self, profile: str) -> None:
        self._native.set_profile(profile)

    def stats(self) -> Stats:
        """A snapshot of counters and gauges."""
        stats = self._native.stats()
        abandoned = AbandonedStats(**{reason: Abandoned(*counts) for reason, counts in stats["abandoned"].items()})
        return Stats(
            SentStats(**stats["sent"]), ReceivedStats(**stats["received"]), PathStats(**stats["path"]), abandoned
        )

    def __repr__(self) -> str:
        if self._hub.is_inherited:
            return "<festina.Association of the parent process>"
        host, port = self.remote_address
        return f"<festina.Association with {host} port {port}: {self.close_reason or 'open'}>"


_DEFAULT = (0, 0, True, False, None, None, None, None, None)


def _options(
    stream: int,
    ppid: int,
    ordered: bool,
    immediate_ack: bool,
    lifetime: Optional[float],
    deadline: Optional[float],
    max_retransmissions: Optional[int],
    priority: Optional[int],
    replace: Optional[int],
) -> Optional[_festina.Options]:
    """The options as the native half takes them; the usual ones are None."""
    left = None if deadline is None else deadline - time.monotonic()
    options = (stream, ppid, ordered, immediate_ack, lifetime, left, max_retransmissions, priority, replace)
    return None if options == _DEFAULT else options


def _bytes(data: Data) -> bytes:
    """Not `bytes(data)`, which takes a number, too."""
    return data if type(data) is bytes else bytes(memoryview(data))
