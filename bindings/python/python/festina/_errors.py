"""What can go wrong, and whose fault it is."""

from __future__ import annotations


class Error(Exception):
    """The base of all errors of this package."""


class InvalidError(Error, ValueError):
    """Caller: a setting, an address or a message makes no sense."""


class ForkedError(Error, RuntimeError):
    """Caller: the object was inherited from the process that forked this one. Only that process can use it."""


class LimitError(Error):
    """Caller: a limit of the settings or of the protocol is reached, such as an SCTP port that is taken."""


class BufferFullError(Error):
    """Not now: the send buffer is full, or the stream is being reset."""


class BindError(Error, OSError):
    """System: no socket, for instance because the address is in use."""


class RefusedError(Error, ConnectionRefusedError):
    """Peer: it refused; mostly nothing listens on that SCTP port."""


class FullError(RefusedError):
    """Peer: it has no room for another association, or its listener turned this one away."""


class UnreachableError(Error, ConnectionError):
    """Network or peer: the name was not found, or the handshake was not answered."""


class ClosedError(Error, ConnectionError):
    """The association, or the endpoint, is over."""

    reason: str | None
    """Why the association is over: "shutdown", "aborted", "aborted-by-peer", "protocol-violation", "handshake-timeout", "peer-unreachable",
    "shutdown-timeout" or "other"; None if it was the endpoint that was closed."""

    said: bytes
    """What the peer gave as its reason for aborting."""

    def __init__(self, text: str, reason: str | None = None, said: bytes = b"") -> None:
        super().__init__(text)
        self.reason = reason
        self.said = said
