"""Endpoints and listeners."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import AsyncIterator, Iterable, Optional, Tuple, Union, cast

from . import _festina
from ._association import Association, Data, _bytes
from ._errors import ClosedError, InvalidError
from ._loop import Hub, deliver_logs

Address = Union[str, Tuple[str, int]]
"""`"127.0.0.1:9899"`, `"[::1]:9899"` or `("127.0.0.1", 9899)`; to connect to, also `"localhost:9899"` or `("localhost", 9899)`. Link-local addresses
need their zone, by name or by number: `"[fe80::1%eth0]:9899"` or `("fe80::1%2", 9899)`."""


class Endpoint:
    """One UDP socket that carries any number of associations, in both roles. `async with` closes it at the end. One that is dropped without `close`
    shuts down in the background, with a `ResourceWarning`."""

    _is_closed = False

    def __init__(self, hub: Hub, native: _festina.Endpoint) -> None:
        self._hub = hub
        self._native = native

    @classmethod
    def client(cls, address: Address, config: Optional[_festina.Config] = None) -> Endpoint:
        """Opens a socket that can only connect, and starts a thread that receives packets and runs timers. Call it within the event loop that will
        use the endpoint. Port 0 lets the system choose. Settings of listeners have no effect."""
        hub = Hub()
        return cls(hub, _festina.Endpoint.client(hub.native, _text(address), config))

    @classmethod
    def server(cls, address: Address, config: Optional[_festina.Config] = None) -> Endpoint:
        """Opens a socket as `client` does that can also listen. With encryption it needs `Config(identity=...)`."""
        hub = Hub()
        return cls(hub, _festina.Endpoint.server(hub.native, _text(address), config))

    @property
    def local_address(self) -> tuple[str, int]:
        """The IP address and UDP port of the socket."""
        return self._native.local_address

    def rebind(self, address: Address) -> None:
        """Replaces the socket by one at another address or port while associations live, such as after a change of networks. Peers of encrypted
        associations follow, and others if only the port has changed. Raises `BindError` if the address cannot be bound; then the old socket stays."""
        self._native.rebind(_text(address))

    def add_address(self, address: Address) -> None:
        """Opens a further socket while associations live, such as when a network appears. Port 0 stands for that of the others. The endpoint needs the
        setting `other_addresses` or `paths_max`. Peers of encrypted associations learn the address. Raises `BindError` if the address cannot be bound,
        `InvalidError` if it is there already."""
        self._native.add_address(_text(address))

    def remove_address(self, address: Address) -> None:
        """Closes one of several sockets while associations live, such as before a network ends. The port does not count. Peers of encrypted associations
        learn it. Raises `InvalidError` if the endpoint does not have the address, or no other."""
        self._native.remove_address(_text(address))

    def listen(self, port: int = _festina.DEFAULT_SCTP_PORT, *, hold_requests: bool = False) -> Listener:
        """Listens on an SCTP port.

        hold_requests: each client of an encrypted endpoint waits for a decision, for at most 30 s: `Listener.request`.
        """
        return Listener(self._hub, self._native.listen(port, hold_requests))

    async def connect(
        self,
        address: Address,
        *,
        peer_port: int = _festina.DEFAULT_SCTP_PORT,
        profile: Optional[str] = None,
        handshake_timeout: float = 15.0,
        server_name: Optional[str] = None,
        token: Data = b"",
        early_messages: Iterable[Data] = (),
    ) -> Association:
        """Sets up an association.

        address: the peer's address, or a host name and port such as "localhost:9899". The addresses of a name are tried one after the other.
        peer_port: the peer's SCTP port.
        profile: the loss-recovery profile, instead of the endpoint's.
        handshake_timeout: time limit in seconds for the look-up and the handshake.

        Encrypted associations only:

        server_name: the name that the server's certificate must have; the host by default. Not checked where fingerprints are trusted.
        token: at most 1,024 bytes, which the acceptor sees before it accepts. Anyone on the path can read and copy them.
        early_messages: messages that are sent with the first packet if an earlier session with the server can be resumed and its listener takes
            them, and otherwise as soon as the handshake allows. They must be safe to repeat: anyone on the path can copy the packet. The server
            receives them with `Association.recv_early_nowait` in the first case, and with `recv` in the second.
        """
        encryption = (server_name, _bytes(token), [_bytes(data) for data in early_messages])
        connecting = self._native.connect(_host(address), peer_port, profile, handshake_timeout, encryption)
        return Association(self._hub, cast(_festina.Association, await self._hub.run(connecting)))

    async def close(self) -> None:
        """Shuts down the endpoint and all its associations, and waits until they have ended."""
        closing = self._native.close()
        self._is_closed = True
        await self._hub.run(closing)
        deliver_logs()

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        # A child made by fork() that leaves the block, for example by sys.exit, must not close its parent's endpoint.
        if not self._hub.is_inherited:
            await self.close()

    def __del__(self) -> None:
        if not self._is_closed and not self._hub.is_inherited:
            warnings.warn(f"unclosed endpoint {self!r}", ResourceWarning, source=self)

    def __repr__(self) -> str:
        if self._hub.is_inherited:
            return "<festina.Endpoint of the parent process>"
        host, port = self.local_address
        return f"<festina.Endpoint on {host} port {port}>"


class Listener:
    """Accepts associations on one SCTP port: with `accept`, or with `async for` until the endpoint or the listener is closed."""

    def __init__(self, hub: Hub, native: _festina.Listener) -> None:
        self._hub = hub
        self._native = native

    async def accept(self) -> Association:
        """Waits for the next association that a peer set up. Raises `ClosedError` when the endpoint or the listener is closed."""
        accepted = await self._hub.wait(self._native.number, self._native.poll_accept)
        return Association(self._hub, cast(_festina.Association, accepted))

    def accept_nowait(self) -> Optional[Association]:
        """Returns the next association, or None if there is none yet. Raises `ClosedError` when the endpoint or the listener is closed."""
        accepted = self._native.poll_accept()
        return None if accepted is None else Association(self._hub, accepted)

    async def request(self) -> _festina.Request:
        """Waits for the next client that needs a decision, with `listen(hold_requests=True)`. Raises `ClosedError` when the endpoint or the listener is
        closed."""
        found = await self._hub.wait(self._native.request_number, self._native.poll_request)
        return cast(_festina.Request, found)

    def request_nowait(self) -> Optional[_festina.Request]:
        """Returns the next request that needs a decision, or None if there is none yet."""
        return self._native.poll_request()

    def close(self) -> None:
        """Stops listening, and shuts down associations that were not accepted."""
        self._native.close()

    def __aiter__(self) -> AsyncIterator[Association]:
        return self

    async def __anext__(self) -> Association:
        try:
            return await self.accept()
        except ClosedError:
            raise StopAsyncIteration from None


def _text(address: Address) -> str:
    if isinstance(address, str):
        return address
    host, port = address
    if not 0 <= port <= 65_535:
        raise InvalidError(f"{port} is no port")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _host(address: Address) -> str:
    text = _text(address)
    name, _, port = text.rpartition(":")
    if not (name and port.isdecimal() and int(port) <= 65_535):
        raise InvalidError(f"{text!r} is no address: expected a host and a port such as localhost:9899 or [::1]:9899")
    return text
