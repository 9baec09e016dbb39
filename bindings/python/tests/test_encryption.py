"""Encryption: identities, trust, tokens and early messages, over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import sys
from typing import Any, AsyncIterator, Callable, Optional

import festina
import pytest

IDENTITY = festina.Identity.self_signed("server.test")
TRUST = festina.Trust.fingerprints(IDENTITY.fingerprint)
SERVER = festina.Config(identity=IDENTITY)
CLIENT = festina.Config(server_trust=TRUST)


@contextlib.asynccontextmanager
async def bound(
    server: Optional[festina.Config] = SERVER, client: Optional[festina.Config] = CLIENT
) -> AsyncIterator[tuple[festina.Endpoint, festina.Endpoint]]:
    async with festina.Endpoint.server("127.0.0.1:0", server) as listening:
        async with festina.Endpoint.client("127.0.0.1:0", client) as connecting:
            yield listening, connecting


async def exchange(near: festina.Association, far: festina.Association) -> None:
    await near.send(b"there")
    assert (await far.recv()).data == b"there"
    await far.send(b"and back")
    assert (await near.recv()).data == b"and back"


async def test_both_sides_know_each_other() -> None:
    me = festina.Identity.self_signed("client.test")
    me = festina.Identity.from_pem(me.to_pem().encode())
    same = festina.Identity.from_pem(me.to_pem(), me.to_pem())
    assert same.fingerprint == me.fingerprint and me.fingerprint in repr(me)
    asking = festina.Config(
        identity=IDENTITY, client_trust=festina.Trust.fingerprints("sha256:" + me.fingerprint), alpn=["game/2", "game/1"]
    )
    async with bound(asking, festina.Config(identity=me, server_trust=TRUST, alpn=["game/1"])) as (server, client):
        listener = server.listen()
        near = await client.connect(server.local_address)
        far = await listener.accept()
        await exchange(near, far)
        assert near.is_encrypted and far.is_encrypted and not near.is_resumed
        assert (near.peer_fingerprint, far.peer_fingerprint) == (IDENTITY.fingerprint, me.fingerprint)
        assert len(near.peer_certificates) == 1 and near.peer_certificates[0][0] == 0x30
        assert near.alpn == far.alpn == "game/1" and far.client_token == b""
        async with festina.Endpoint.client("127.0.0.1:0", festina.Config(server_trust=TRUST, alpn=["game/1"])) as stranger:
            with pytest.raises(festina.RefusedError, match="a certificate is required"):
                await stranger.connect(server.local_address)


async def test_another_key_is_refused() -> None:
    other = festina.Identity.self_signed("server.test").fingerprint
    for trust, why in (
        (festina.Trust.fingerprints(other), "its fingerprint is not a trusted one"),
        (festina.Trust.roots_from_pem(festina.Identity.self_signed("server.test").to_pem()), ""),
    ):
        async with bound(client=festina.Config(server_trust=trust)) as (server, client):
            listener = server.listen()
            with pytest.raises(festina.UntrustedError, match=f"its certificate is not trusted: {why}") as refused:
                await client.connect(server.local_address)
            assert isinstance(refused.value, ConnectionError)


async def test_raw_public_keys_take_the_place_of_certificates() -> None:
    server_key, me = festina.Identity.raw_key(), festina.Identity.raw_key()
    assert festina.Identity.raw_key_from_pem(me.to_pem()).fingerprint == me.fingerprint
    asking = festina.Config(identity=server_key, client_trust=festina.Trust.raw_keys(me.fingerprint))
    knowing = festina.Config(identity=me, server_trust=festina.Trust.raw_keys(server_key.fingerprint))
    async with bound(asking, knowing) as (server, client):
        listener = server.listen()
        near = await client.connect(server.local_address)
        far = await listener.accept()
        await exchange(near, far)
        assert (near.peer_fingerprint, far.peer_fingerprint) == (server_key.fingerprint, me.fingerprint)
    async with bound(client=knowing) as (server, client):
        listener = server.listen()
        with pytest.raises(festina.Error, match="kind of key"):
            await client.connect(server.local_address)
    with pytest.raises(festina.InvalidError, match="private key"):
        festina.Identity.raw_key_from_pem("no PEM")


ROOTS = """
import asyncio, sys
import festina

async def attempt(identity, server_name):
    config = festina.Config(identity=identity)
    async with festina.Endpoint.server("127.0.0.1:0", config) as server, festina.Endpoint.client("127.0.0.1:0") as client:
        listener = server.listen()
        async with await client.connect(server.local_address, server_name=server_name) as near:
            return near.peer_fingerprint

async def main(pem):
    known = festina.Identity.from_pem(pem)
    assert await attempt(known, "server.test") == known.fingerprint
    for identity, server_name in ((festina.Identity.self_signed("server.test"), "server.test"), (known, "other.test")):
        try:
            await attempt(identity, server_name)
            sys.exit("connected with " + server_name)
        except festina.UntrustedError:
            pass
    print("trusted")

asyncio.run(main(sys.stdin.read()))
"""


async def test_by_default_the_roots_of_the_operating_system_are_trusted(tmp_path: pathlib.Path) -> None:
    # The roots are read once per process. A self-signed certificate is its own root.
    roots = tmp_path / "roots.pem"
    roots.write_text(IDENTITY.to_pem())
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_DIR"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        ROOTS,
        env={**environment, "SSL_CERT_FILE": str(roots)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate(IDENTITY.to_pem().encode())
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0 and output == b"trusted\n", errors.decode()
    async with bound(client=None) as (_, client):
        with pytest.raises(festina.InvalidError, match=r"Endpoint\.server"):
            client.listen()


async def test_plain_and_encrypted_endpoints_say_what_the_other_speaks() -> None:
    plain = festina.Config.plain()
    async with bound(plain, plain) as (server, client):
        listener = server.listen()
        near = await client.connect(server.local_address)
        await exchange(near, await listener.accept())
        assert not near.is_encrypted and near.peer_fingerprint is None and near.peer_certificates == ()
    async with bound(plain, CLIENT) as (server, client):
        listener = server.listen()
        with pytest.raises(festina.ProtocolError, match="SCTP without encryption"):
            await client.connect(server.local_address)
    async with bound(SERVER, plain) as (server, client):
        listener = server.listen()
        with pytest.raises(festina.RefusedError, match="speaks only encrypted associations"):
            await client.connect(server.local_address)


async def test_a_server_accepts_plain_clients_too_if_it_says_so() -> None:
    config = festina.Config(identity=IDENTITY, plain_clients=True)
    async with bound(config) as (server, encrypted), bound(client=festina.Config.plain()) as (_, plain):
        listener = server.listen()
        for client in (encrypted, plain):
            near = await client.connect(server.local_address)
            far = await listener.accept()
            await exchange(near, far)
            assert far.is_encrypted == near.is_encrypted == (client is encrypted)


async def test_the_token_is_seen_before_the_client_is_accepted() -> None:
    async with bound() as (server, client):
        listener = server.listen(hold_requests=True)
        assert listener.request_nowait() is None

        def connecting(token: bytes, timeout: float = 50.0) -> asyncio.Future[festina.Association]:
            attempt = client.connect(server.local_address, token=token, server_name="server.test", handshake_timeout=timeout)
            return asyncio.ensure_future(attempt)

        good = connecting(bytes(1024))
        request = await listener.request()
        assert (request.token, request.server_name, request.alpn) == (bytes(1024), "server.test", None)
        assert request.remote_address == client.local_address
        # Only during a flood must clients prove their address before they get here.
        assert request.is_address_proved is False
        await asyncio.sleep(0.1)
        assert not good.done() and listener.accept_nowait() is None
        request.accept()
        with pytest.raises(festina.InvalidError, match="decided on before"):
            request.refuse()
        near, far = await good, await listener.accept()
        assert far.client_token == bytes(1024) and near.client_token == b""
        await exchange(near, far)

        bad = connecting(b"forged")
        (await listener.request()).refuse()
        with pytest.raises(festina.RefusedError, match="its application refused"):
            await bad

        ignored = connecting(b"ignored", 0.3)
        await listener.request()
        with pytest.raises(festina.UnreachableError):
            await ignored

        with pytest.raises(festina.InvalidError):
            await client.connect(server.local_address, token=bytes(1025))
        with pytest.raises(festina.InvalidError, match="hold_requests=True"):
            await server.listen(7).request()
        listener.close()
        with pytest.raises(festina.ClosedError):
            while True:
                await listener.request()


async def test_a_resumed_client_sends_with_its_first_packet() -> None:
    async with bound(festina.Config(identity=IDENTITY, early_messages=True)) as (server, client):
        listener = server.listen()
        for _ in range(20):
            near = await client.connect(server.local_address, early_messages=[b"early"])
            far = await listener.accept()
            resumed = far.is_resumed
            assert near.is_resumed == resumed
            message = far.recv_early_nowait() if resumed else await far.recv()
            assert message is not None and message.data == b"early" and far.recv_early_nowait() is None
            # The session's ticket arrives before the answer.
            await exchange(near, far)
            if resumed:
                break
        else:
            pytest.fail("no session was resumed")
        with pytest.raises(festina.InvalidError, match="empty"):
            await client.connect(server.local_address, early_messages=[b""])


async def test_sessions_outlive_endpoints_until_they_are_forgotten() -> None:
    sessions, resumed = festina.Sessions(4), []
    config = festina.Config(server_trust=TRUST, sessions=sessions)
    async with bound() as (server, _):
        listener = server.listen()
        for _ in range(3):
            async with festina.Endpoint.client("127.0.0.1:0", config) as client:
                near = await client.connect(server.local_address)
                # The session's ticket arrives before the answer.
                await exchange(near, await listener.accept())
                resumed.append(near.is_resumed)
            if resumed[-1]:
                assert not sessions.forget("::1", 1) and sessions.forget(*server.local_address)
    assert resumed == [False, True, False]
    sessions.clear()


class Relay(asyncio.DatagramProtocol):
    """One of the sockets of a relay, which hands each datagram on."""

    def __init__(self) -> None:
        self.hand_on: Callable[[bytes, Any], None] = lambda data, sender: None

    def datagram_received(self, data: bytes, sender: Any) -> None:
        self.hand_on(data, sender)


async def test_a_peer_at_another_address_is_reported() -> None:
    loop = asyncio.get_running_loop()
    async with bound() as (server, client):
        near_side, near_relay = await loop.create_datagram_endpoint(Relay, ("127.0.0.1", 0))
        far_side, far_relay = [], []
        for _ in range(2):
            transport, relay = await loop.create_datagram_endpoint(Relay, ("127.0.0.1", 0))
            relay.hand_on = lambda data, _: near_side.sendto(data, client.local_address)
            far_side.append(transport)
            far_relay.append(relay)
        used = 0
        near_relay.hand_on = lambda data, _: far_side[used].sendto(data, server.local_address)
        listener = server.listen()
        near = await client.connect(near_side.get_extra_info("sockname"))
        far = await listener.accept()
        await exchange(near, far)
        assert far.remote_address == far_side[0].get_extra_info("sockname")
        used = 1
        event = None
        while event is None or event.kind != "peer-moved":
            await near.send(b"from another address")
            event = await asyncio.wait_for(far.event(), 20)
        assert far.remote_address == far_side[1].get_extra_info("sockname")
        await near.shutdown()
        for transport in (near_side, *far_side):
            transport.close()


async def test_keys_are_logged_on_demand_only(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "keys.log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    for key_log in (False, True):
        async with bound(client=festina.Config(server_trust=TRUST, key_log_from_env=key_log)) as (server, client):
            listener = server.listen()
            await client.connect(server.local_address)
        assert log.exists() == key_log
    assert "CLIENT_TRAFFIC_SECRET_0 " in log.read_text()


async def test_mistakes_are_reported() -> None:
    for create, text in (
        (lambda: festina.Identity.self_signed("naïve"), "certificate"),
        (lambda: festina.Identity.from_pem(b"no PEM"), "private key"),
        (lambda: festina.Trust.roots_from_pem("no PEM"), "certificate"),
        (lambda: festina.Trust.fingerprints("abc"), "64 hexadecimal digits"),
        (lambda: festina.Trust.fingerprints(), "64 hexadecimal digits"),
        (lambda: festina.Config.plain(identity=IDENTITY), "plain SCTP"),  # type: ignore[call-arg]
        (lambda: festina.Sessions(-1), "servers_max is -1"),
        (lambda: festina.Sessions(4).forget("localhost", 70_000), "port is 70000"),
    ):
        with pytest.raises(festina.InvalidError, match=text):
            create()
    wrong: Any = "a fingerprint"
    with pytest.raises(TypeError):
        festina.Config(server_trust=wrong)
    contradiction = festina.Config(identity=IDENTITY, client_trust=TRUST, early_messages=True)
    with pytest.raises(festina.InvalidError, match="early messages"):
        festina.Endpoint.server("127.0.0.1:0", contradiction)
