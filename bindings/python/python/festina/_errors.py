"""Exceptions. Each states who caused it."""

from __future__ import annotations


class Error(Exception):
    """The base of all errors of this package."""


class InvalidError(Error, ValueError):
    """Caller: a setting, an address or a message is invalid."""


class ForkedError(Error, RuntimeError):
    """Caller: the object was inherited from the process that forked this one. Only that process can use it."""


class LimitError(Error):
    """Caller: a limit of the settings or of the protocol was reached, such as an SCTP port that is taken."""


class BufferFullError(Error):
    """Temporary: the send buffer is full, or the stream is being reset."""


class BindError(Error, OSError):
    """System: the socket cannot be opened, for instance because the address is in use."""


class RefusedError(Error, ConnectionRefusedError):
    """Peer: it refused: nothing listens on that SCTP port, it does not trust this side, or it rejected this one."""


class FullError(RefusedError):
    """Peer: it has no room for another association, or its listener rejected this one."""


class UntrustedError(Error, ConnectionError):
    """Peer: its certificate is not trusted."""


class ProtocolError(Error, ConnectionError):
    """Peer: it speaks another protocol, such as plain SCTP, or its handshake is faulty."""


class UnreachableError(Error, ConnectionError):
    """Network or peer: the name was not found, or the handshake was not answered."""


class ClosedError(Error, ConnectionError):
    """The association or the endpoint has ended."""

    reason: str | None
    """Why the association has ended: "shutdown", "aborted", "aborted-by-peer", "protocol-violation", "handshake-timeout", "peer-unreachable",
    "peer-reset", "shutdown-timeout" or "other"; None if the endpoint was closed."""

    said: bytes
    """The reason that the peer gave for aborting."""

    def __init__(self, text: str, reason: str | None = None, said: bytes = b"") -> None:
        super().__init__(text)
        self.reason = reason
        self.said = said
