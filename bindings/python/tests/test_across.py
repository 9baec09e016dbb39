"""A Python peer with a C peer, and with the command `festina`.

FESTINA_COMMAND and FESTINA_C_ECHO name the programs. A test whose program is not named is skipped, except in continuous integration.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import AsyncIterator, Optional

import festina
import pytest


def program(variable: str) -> str:
    path = os.environ.get(variable)
    if path is None:
        assert "CI" not in os.environ, f"{variable} is not set"
        pytest.skip(f"{variable} is not set")
    return path


@contextlib.asynccontextmanager
async def running(*command: str, keys: Optional[pathlib.Path] = None) -> AsyncIterator[Process]:
    environment = os.environ if keys is None else {**os.environ, "XDG_CONFIG_HOME": str(keys)}
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


IDENTITY = festina.Identity.self_signed("server.test")
SERVER = festina.Config(identity=IDENTITY)


def knowing(fingerprint: str) -> festina.Config:
    return festina.Config(server_trust=festina.Trust.fingerprints(fingerprint))


async def said(process: Process) -> str:
    """The last word of the next line of a program."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().split()[-1]


async def echo_once(listener: festina.Listener) -> int:
    count = 0
    association = await listener.accept()
    async for message in association:
        await association.send(message.data, stream=message.stream, ppid=message.ppid)
        count += 1
    return count


async def test_a_c_client_is_answered() -> None:
    command = program("FESTINA_C_ECHO")
    async with festina.Endpoint.server("127.0.0.1:0", SERVER) as endpoint:
        host, port = endpoint.local_address
        serving = asyncio.ensure_future(echo_once(endpoint.listen()))
        async with running(command, "send", f"{host}:{port}", IDENTITY.fingerprint, "make haste slowly") as client:
            output, _ = await client.communicate()
        assert client.returncode == 0 and output.startswith(b"make haste slowly after ")
        assert await serving == 1


async def test_a_c_server_answers() -> None:
    async with running(program("FESTINA_C_ECHO"), "listen", "127.0.0.1:0") as server:
        assert server.stdout is not None
        address, fingerprint = await said(server), await said(server)
        async with festina.Endpoint.client("127.0.0.1:0", knowing(fingerprint)) as endpoint:
            async with await endpoint.connect(address) as association:
                for number in range(100):
                    await association.send(number.to_bytes(2, "big"), stream=number, ppid=51)
                    answer = await association.recv()
                    assert (answer.data, answer.stream, answer.ppid) == (number.to_bytes(2, "big"), number, 51)
        assert b"shut down gracefully" in await server.stdout.readline()


async def test_the_command_pings_a_python_peer() -> None:
    command = program("FESTINA_COMMAND")
    async with festina.Endpoint.server("127.0.0.1:0", festina.Config.plain()) as endpoint:
        host, port = endpoint.local_address
        serving = asyncio.ensure_future(echo_once(endpoint.listen()))
        arguments = ("ping", f"{host}:{port}", "--count", "5", "--interval", "5ms", "--json", "--plain")
        async with running(command, *arguments) as client:
            output, _ = await client.communicate()
        assert client.returncode == 0 and json.loads(output)
        assert await serving >= 5


async def test_the_command_echoes_what_a_python_peer_sends() -> None:
    command = program("FESTINA_COMMAND")
    async with running(command, "listen", "127.0.0.1:0", "--echo", "--plain") as server:
        assert server.stderr is not None
        line = (await server.stderr.readline()).decode()
        address = next(word.strip(",.;") for word in line.split() if word.startswith("127.0.0.1:"))
        async with festina.Endpoint.client("127.0.0.1:0", festina.Config.plain()) as endpoint:
            async with await endpoint.connect(address) as association:
                for number in range(100):
                    await association.send(f"message {number}".encode())
                    assert (await association.recv()).data == f"message {number}".encode()


async def test_the_command_and_a_python_peer_know_each_other(tmp_path: pathlib.Path) -> None:
    command = program("FESTINA_COMMAND")
    async with running(command, "listen", "127.0.0.1:0", "--echo", keys=tmp_path) as server:
        assert server.stderr is not None
        words: list[str] = []
        while not words or not words[-1].startswith("sha256:"):
            words += (await server.stderr.readline()).decode().split()
        address = next(word.strip(",") for word in words if word.startswith("127.0.0.1:"))
        async with festina.Endpoint.client("127.0.0.1:0", knowing(words[-1])) as endpoint:
            async with await endpoint.connect(address) as association:
                await association.send(b"encrypted")
                assert (await association.recv()).data == b"encrypted"
                assert words[-1] == f"sha256:{association.peer_fingerprint}"
    async with festina.Endpoint.server("127.0.0.1:0", SERVER) as endpoint:
        host, port = endpoint.local_address
        serving = asyncio.ensure_future(echo_once(endpoint.listen()))
        arguments = ("ping", f"{host}:{port}", "--count", "5", "--interval", "5ms", "--fingerprint", IDENTITY.fingerprint)
        async with running(command, *arguments, keys=tmp_path) as client:
            _, errors = await client.communicate()
        assert client.returncode == 0, errors
        assert await serving >= 5


async def test_the_python_example_talks_to_itself_and_to_the_c_example() -> None:
    example = os.path.join(os.path.dirname(__file__), "..", "examples", "echo.py")
    clients = [(sys.executable, example), (program("FESTINA_C_ECHO"),)]
    async with running(sys.executable, example, "listen", "127.0.0.1:0") as server:
        assert server.stdout is not None
        address, fingerprint = await said(server), await said(server)
        for command in clients:
            async with running(*command, "send", address, fingerprint, "festina lente") as client:
                output, _ = await client.communicate()
            assert client.returncode == 0 and output.startswith(b"festina lente after ")
            assert b"is gone: shutdown" in await server.stdout.readline()
