"""An echo server and a client for it.

    python echo.py listen 127.0.0.1:9899
    python echo.py send 127.0.0.1:9899 FINGERPRINT "make haste slowly"

The server creates a key and prints its fingerprint, by which the client knows it.
"""

from __future__ import annotations

import asyncio
import sys
import time

import festina


async def echo(association: festina.Association) -> None:
    try:
        async for message in association:
            await association.send(message.data, stream=message.stream, ppid=message.ppid)
    except festina.ClosedError:
        pass
    print(f"{association.remote_address} is gone: {association.close_reason}", flush=True)


async def listen(address: str) -> None:
    identity = festina.Identity.self_signed("echo")
    async with festina.Endpoint.server(address, festina.Config(identity=identity)) as endpoint:
        print("listening on {}:{}".format(*endpoint.local_address))
        print(f"fingerprint {identity.fingerprint}", flush=True)
        tasks = set()
        async for association in endpoint.listen():
            task = asyncio.create_task(echo(association))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


async def send(address: str, fingerprint: str, text: str) -> None:
    local = "[::]:0" if address.startswith("[") else "0.0.0.0:0"
    config = festina.Config(server_trust=festina.Trust.fingerprints(fingerprint))
    async with festina.Endpoint.client(local, config) as endpoint:
        async with await endpoint.connect(address) as association:
            begun = time.perf_counter()
            await association.send(text.encode())
            answer = await association.recv()
            print(f"{answer.data.decode()} after {(time.perf_counter() - begun) * 1e6:.0f} us")


def main() -> None:
    arguments = sys.argv[1:]
    try:
        if len(arguments) == 2 and arguments[0] == "listen":
            return asyncio.run(listen(arguments[1]))
        if len(arguments) == 4 and arguments[0] == "send":
            return asyncio.run(send(*arguments[1:]))
    except KeyboardInterrupt:
        # As shells report it.
        sys.exit(130)
    sys.exit(f"usage: {sys.argv[0]} listen ADDRESS | {sys.argv[0]} send ADDRESS FINGERPRINT TEXT")


if __name__ == "__main__":
    main()
