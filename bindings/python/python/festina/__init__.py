"""Small messages between two programs: SCTP (RFC 9260) over UDP, below TLS 1.3, for asyncio. A lost message is repaired in about one round trip.

    config = festina.Config(server_trust=festina.Trust.fingerprints(fingerprint))
    async with festina.Endpoint.client("0.0.0.0:0", config) as endpoint:
        async with await endpoint.connect(("127.0.0.1", 9899)) as association:
            await association.send(b"x=3 y=4", lifetime=0.1, replacing=7, unordered=True)
            async for message in association:
                print(message.stream, message.data)

An endpoint is one UDP socket and carries any number of associations. All objects belong to the event loop in which they were created.
Times are in seconds. All awaitables can be cancelled safely: no message is lost, and none is sent in part.

Log records reach `logging` through the logger "festina", from the event loop of an endpoint. Its level is read when an endpoint is opened and when
records arrive: associations begin and end at INFO, failed handshakes and reached limits are at WARNING.

Settings compare, and can be pickled, except for an `Identity` and settings with one: they hold a private key, which `to_pem` hands out.

An object works only in the process that created it. After `os.fork()` it raises `ForkedError` in the child, and `async with` closes nothing
there. A child should exit with `os._exit` or execute another program: asyncio shares its descriptors with the child, so closing the loop there
can disturb the parent's.

Associations are encrypted. A server needs an `Identity`. A client trusts servers that a certificate authority of the operating system has signed,
unless its `Config` has another `Trust`. `Config.plain` speaks plain SCTP, for other peers: nothing is encrypted then, and no peer is
authenticated. An endpoint does one or the other, unless `Config(plain_clients=True)` lets its listeners do both, and never falls back.
"""

from ._association import Association, Delivery, Event, Outcome
from ._endpoint import Address, Endpoint, Listener
from ._errors import (
    BindError,
    BufferFullError,
    ClosedError,
    Error,
    ForkedError,
    FullError,
    InvalidError,
    LimitError,
    ProtocolError,
    RefusedError,
    UnreachableError,
    UntrustedError,
)
from ._festina import (
    CONGESTION,
    DEFAULT_SCTP_PORT,
    PROFILES,
    Config,
    Identity,
    Message,
    Request,
    Sessions,
    Trust,
    __version__,
)
from ._stats import Abandoned, AbandonedStats, Path, PathStats, ReceivedStats, SentStats, Stats

__all__ = [
    "CONGESTION",
    "DEFAULT_SCTP_PORT",
    "PROFILES",
    "Abandoned",
    "AbandonedStats",
    "Address",
    "Association",
    "BindError",
    "BufferFullError",
    "ClosedError",
    "Config",
    "Delivery",
    "Endpoint",
    "Error",
    "Event",
    "ForkedError",
    "FullError",
    "Identity",
    "InvalidError",
    "LimitError",
    "Listener",
    "Message",
    "Outcome",
    "Path",
    "PathStats",
    "ProtocolError",
    "ReceivedStats",
    "RefusedError",
    "Request",
    "SentStats",
    "Sessions",
    "Stats",
    "Trust",
    "UnreachableError",
    "UntrustedError",
    "__version__",
]
