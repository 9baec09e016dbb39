"""Lets coroutines wait for the native module."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from typing import Any, Callable, Dict, List, Optional, Protocol

from . import _festina


_logger = logging.getLogger("festina")


def deliver_logs() -> None:
    """Hands the records of the native module to `logging`, and has it queue only those that the logger takes."""
    for level, text in _festina.take_logs(_logger.getEffectiveLevel()):
        _logger.log(level, "%s", text)


class Operation(Protocol):
    """A pending operation of the native module."""

    @property
    def number(self) -> int: ...

    def poll(self) -> Optional[tuple[Any]]: ...

    def cancel(self) -> None: ...


class Hub:
    """Wakes coroutines of one event loop: one for each endpoint."""

    _loop: Optional[asyncio.AbstractEventLoop] = None

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self.native = _festina.Hub()
        deliver_logs()
        self._waiting: Dict[int, List[asyncio.Future[None]]] = {}
        # A weak reference, so that the event loop does not keep the hub alive.
        loop.add_reader(self.native.fileno(), _ring, weakref.ref(self))
        # Last, so that `__del__` removes only a reader that was added.
        self._loop = loop

    def __del__(self) -> None:
        # A child made by fork() shares the epoll instance of its parent, which still watches the descriptor.
        if self._loop is not None and not self._loop.is_closed() and not self.is_inherited:
            self._loop.remove_reader(self.native.fileno())

    @property
    def is_inherited(self) -> bool:
        """Whether this is a child of the process that made the hub."""
        return self._process != os.getpid()

    def ring(self) -> None:
        """Resumes the coroutines that were woken."""
        if self.is_inherited:
            return
        woken = self.native.woken()
        if _festina.Hub.LOGS in woken:
            deliver_logs()
        for number in woken:
            for future in self._waiting.get(number, ()):
                if not future.done():
                    future.set_result(None)

    async def wait(self, number: int, look: Callable[[], Any]) -> Any:
        """Calls `look` now, and each time the native module wakes `number`, until it returns something other than None.

        In a child made by fork(), `look` raises `ForkedError`."""
        if self.is_inherited:
            return look()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise RuntimeError("the endpoint belongs to another event loop")
        while (found := look()) is None:
            future = loop.create_future()
            waiting = self._waiting.setdefault(number, [])
            waiting.append(future)
            try:
                await future
            finally:
                waiting.remove(future)
                if not waiting:
                    self._waiting.pop(number, None)
        return found

    async def run(self, operation: Operation) -> Any:
        """Waits for the result of an operation. Cancelling this cancels the operation."""
        try:
            return (await self.wait(operation.number, operation.poll))[0]
        finally:
            operation.cancel()


def _ring(hub: weakref.ref[Hub]) -> None:
    alive = hub()
    if alive is not None:
        alive.ring()
