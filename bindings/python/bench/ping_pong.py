"""How long a message takes there and back between two Python programs over loopback: with Festina, and with asyncio's own UDP datagrams.

    python bindings/python/bench/ping_pong.py [ROUNDS]

The two take turns, so what else the machine does meanwhile hits both. Each has an echo server in a process of its own.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import sys
import time
from multiprocessing.connection import Connection

import festina

EXCHANGES = 2_000
PAYLOAD = bytes(100)


def percentile(samples: list[float], share: float) -> float:
    return sorted(samples)[round(share * (len(samples) - 1))]


# ---- asyncio's datagrams ----


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: object) -> None:
        self.transport.sendto(data, address)  # type: ignore[attr-defined]


class Answers(asyncio.DatagramProtocol):
    """Hands datagrams over to a coroutine, as a program that awaits messages would."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, address: object) -> None:
        self.queue.put_nowait(data)


async def serve_datagrams(told: Connection) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    told.send(transport.get_extra_info("sockname"))
    await asyncio.sleep(3_600)


async def ping_datagrams(address: tuple[str, int]) -> list[float]:
    loop = asyncio.get_running_loop()
    transport, answers = await loop.create_datagram_endpoint(Answers, remote_addr=address)
    took = []
    for _ in range(EXCHANGES):
        begun = time.perf_counter()
        transport.sendto(PAYLOAD)
        await answers.queue.get()
        took.append(time.perf_counter() - begun)
    transport.close()
    return took


# ---- Festina ----


async def serve_festina(told: Connection) -> None:
    async with festina.Endpoint.server("127.0.0.1:0", festina.Config.plain()) as endpoint:
        listener = endpoint.listen()
        told.send(endpoint.local_address)
        async for association in listener:
            async for message in association:
                await association.send(message.data)


async def ping_festina(address: tuple[str, int]) -> list[float]:
    async with festina.Endpoint.client("127.0.0.1:0", festina.Config.plain()) as endpoint:
        async with await endpoint.connect(address) as association:
            took = []
            for _ in range(EXCHANGES):
                begun = time.perf_counter()
                await association.send(PAYLOAD)
                await association.recv()
                took.append(time.perf_counter() - begun)
            return took


def serve(what: str, told: Connection) -> None:
    asyncio.run(serve_datagrams(told) if what == "datagrams" else serve_festina(told))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    context = multiprocessing.get_context("spawn")
    servers, addresses = [], {}
    for what in ("datagrams", "festina"):
        here, there = context.Pipe()
        server = context.Process(target=serve, args=(what, there), daemon=True)
        server.start()
        servers.append(server)
        addresses[what] = here.recv()

    found: dict[str, list[tuple[float, float]]] = {"datagrams": [], "festina": []}
    for number in range(rounds + 1):
        for what, ping in (("datagrams", ping_datagrams), ("festina", ping_festina)):
            took = asyncio.run(ping(addresses[what]))
            if number > 0:  # The first round warms up.
                found[what].append((percentile(took, 0.5), percentile(took, 0.99)))
    for what, rows in found.items():
        p50, p99 = (statistics.median(column) * 1e6 for column in zip(*rows))
        print(f"{what:<10} p50 {p50:6.1f} us   p99 {p99:6.1f} us   median of {rounds} rounds of {EXCHANGES}")
    ratios = [f[0] / d[0] for f, d in zip(found["festina"], found["datagrams"])]
    print(f"ratio of p50: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    for server in servers:
        server.terminate()


if __name__ == "__main__":
    main()
