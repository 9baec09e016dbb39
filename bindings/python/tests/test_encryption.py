"""Encryption: identities, trust, tokens and early messages, over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from typing import Any, AsyncIterator, Optional

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
    async with festina.Endpoint.bind("127.0.0.1:0", server) as listening:
        async with festina.Endpoint.bind("127.0.0.1:0", client) as connecting:
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
        async with festina.Endpoint.bind("127.0.0.1:0", festina.Config(server_trust=TRUST, alpn=["game/1"])) as stranger:
            with pytest.raises(festina.RefusedError, match="a certificate is required"):
                await stranger.connect(server.local_address)


async def test_another_key_is_refused() -> None:
    other = festina.Identity.self_signed("server.test").fingerprint
    for trust, why in (
        (festina.Trust.fingerprints(other), "its fingerprint is not a trusted one"),
        (festina.Trust.roots(festina.Identity.self_signed("server.test").to_pem()), ""),
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


async def test_by_default_the_roots_of_the_operating_system_are_trusted() -> None:
    async with bound(client=None) as (server, client):
        listener = server.listen()
        # Which of the two depends on whether the machine has roots.
        with pytest.raises((festina.UntrustedError, festina.InvalidError)):
            await client.connect(server.local_address, server_name="server.test")
        with pytest.raises(festina.InvalidError, match=r"Config\(identity=.*Config.plain"):
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
        listener = server.listen(on_request=True)
        assert listener.request_nowait() is None

        def connecting(token: bytes, timeout: float = 50.0) -> asyncio.Future[festina.Association]:
            attempt = client.connect(server.local_address, token=token, server_name="server.test", timeout=timeout)
            return asyncio.ensure_future(attempt)

        good = connecting(bytes(1024))
        request = await listener.request()
        assert (request.token, request.server_name, request.alpn) == (bytes(1024), "server.test", None)
        assert request.remote_address == client.local_address and request.is_address_proved in (True, False)
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
        with pytest.raises(festina.InvalidError, match="on_request=True"):
            await server.listen(7).request()
        listener.close()
        with pytest.raises(festina.ClosedError):
            while True:
                await listener.request()


async def test_a_resumed_client_sends_with_its_first_packet() -> None:
    async with bound(festina.Config(identity=IDENTITY, early_messages=True)) as (server, client):
        listener, resumed = server.listen(), False
        while not resumed:
            near = await client.connect(server.local_address, early=[b"early"])
            far = await listener.accept()
            resumed = far.is_resumed
            assert near.is_resumed == resumed
            message = far.recv_early() if resumed else await far.recv()
            assert message is not None and message.data == b"early" and far.recv_early() is None
            # The session's ticket arrives before the answer.
            await exchange(near, far)
        with pytest.raises(festina.InvalidError, match="empty"):
            await client.connect(server.local_address, early=[b""])


async def test_sessions_outlive_endpoints_until_they_are_forgotten() -> None:
    sessions, resumed = festina.Sessions(4), []
    config = festina.Config(server_trust=TRUST, sessions=sessions)
    async with bound() as (server, _):
        listener = server.listen()
        for _ in range(3):
            async with festina.Endpoint.bind("127.0.0.1:0", config) as client:
                near = await client.connect(server.local_address)
                # The session's ticket arrives before the answer.
                await exchange(near, await listener.accept())
                resumed.append(near.is_resumed)
            if resumed[-1]:
                assert not sessions.forget("::1", 1) and sessions.forget(*server.local_address)
    assert resumed == [False, True, False]
    sessions.clear()


async def test_keys_are_logged_on_demand_only(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "keys.log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    for key_log in (False, True):
        async with bound(client=festina.Config(server_trust=TRUST, key_log=key_log)) as (server, client):
            listener = server.listen()
            await client.connect(server.local_address)
        assert log.exists() == key_log
    assert "CLIENT_TRAFFIC_SECRET_0 " in log.read_text()


async def test_mistakes_are_reported() -> None:
    for create, text in (
        (lambda: festina.Identity.self_signed("naïve"), "certificate"),
        (lambda: festina.Identity.from_pem(b"no PEM"), "private key"),
        (lambda: festina.Trust.roots("no PEM"), "certificate"),
        (lambda: festina.Trust.fingerprints("abc"), "64 hexadecimal digits"),
        (lambda: festina.Config.plain(identity=IDENTITY), "plain SCTP"),  # type: ignore[call-arg]
    ):
        with pytest.raises(festina.InvalidError, match=text):
            create()
    wrong: Any = "a fingerprint"
    with pytest.raises(TypeError):
        festina.Config(server_trust=wrong)
    contradiction = festina.Config(identity=IDENTITY, client_trust=TRUST, early_messages=True)
    with pytest.raises(festina.InvalidError, match="early messages"):
        festina.Endpoint.bind("127.0.0.1:0", contradiction)
