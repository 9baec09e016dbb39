"""Small messages between two programs, with a lost one repaired in about one round trip: SCTP (RFC 9260) over UDP, for asyncio.

    async with festina.Endpoint.bind("0.0.0.0:0") as endpoint:
        async with await endpoint.connect(("127.0.0.1", 9899)) as association:
            await association.send(b"x=3 y=4", lifetime=0.1, replace=7, ordered=False)
            async for message in association:
                print(message.stream, message.data)

An endpoint is one UDP socket and carries any number of associations. All objects belong to the event loop in which they were made.
Times are in seconds. Cancelling whatever is awaited here is safe: no message is lost, and none is sent in part.

An object works only in the process that made it: after `os.fork()` it raises `ForkedError` in the child, and `async with` ends nothing there.
A child should leave by `os._exit` or execute another program: asyncio shares its own descriptors with the child, whose closing of the loop
can disturb the parent's.

Nothing is encrypted, and no peer is authenticated: use WireGuard or IPsec where the network is not trusted.
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
    RefusedError,
    UnreachableError,
)
from ._festina import CONGESTION, DEFAULT_SCTP_PORT, PROFILES, Config, Message, __version__
from ._stats import Abandoned, AbandonedStats, PathStats, ReceivedStats, SentStats, Stats

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
    "InvalidError",
    "LimitError",
    "Listener",
    "Message",
    "Outcome",
    "PathStats",
    "ReceivedStats",
    "RefusedError",
    "SentStats",
    "Stats",
    "UnreachableError",
    "__version__",
]
