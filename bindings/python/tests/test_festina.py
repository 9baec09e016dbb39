"""The package against the real library, over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import re
import resource
import select
import sys
import time
import weakref
from typing import Any, AsyncIterator, NamedTuple, Optional

import festina
import pytest


IDENTITY = festina.Identity.self_signed("server.test")
TRUST = festina.Trust.fingerprints(IDENTITY.fingerprint)


def usual(**settings: Any) -> festina.Config:
    """Settings for both roles, of endpoints that know each other."""
    return festina.Config(identity=IDENTITY, server_trust=TRUST, **settings)


class Pair(NamedTuple):
    server: festina.Endpoint
    client: festina.Endpoint
    listener: festina.Listener
    near: festina.Association
    far: festina.Association


@contextlib.asynccontextmanager
async def connected(config: Optional[festina.Config] = None) -> AsyncIterator[Pair]:
    config = config or usual()
    async with festina.Endpoint.server("127.0.0.1:0", config) as server:
        async with festina.Endpoint.client("127.0.0.1:0", config) as client:
            listener = server.listen()
            near = await client.connect(server.local_address)
            far = await listener.accept()
            yield Pair(server, client, listener, near, far)


async def test_messages_arrive_with_what_was_said_of_them() -> None:
    async with connected() as pair:
        assert await pair.near.send(b"make haste", stream=7, ppid=51, unordered=True) == 0
        assert await pair.near.send(bytearray(b"slowly")) == 1
        assert pair.near.send_nowait(memoryview(b"-slowly-")[1:-1]) == 2
        first, second, third = [await pair.far.recv() for _ in range(3)]
        assert (first.data, first.stream, first.ppid, first.is_unordered) == (b"make haste", 7, 51, True)
        assert (second.data, second.stream, second.ppid, second.is_unordered) == (b"slowly", 0, 0, False)
        assert third.data == b"slowly"
        assert repr(first) == "Message(data=b'make has'... (10 bytes), stream=7, ppid=51, is_unordered=True)"
        assert pair.far.recv_nowait() is None
        assert pair.near.remote_address == pair.server.local_address
        assert pair.near.streams == (65_535, 65_535)


async def test_addresses_come_and_go() -> None:
    config = festina.Config.plain(paths_max=4)
    async with festina.Endpoint.client(("127.0.0.1", 0), config) as endpoint:
        host, port = endpoint.local_address
        with pytest.raises(festina.InvalidError):
            endpoint.add_address((host, port))
        with pytest.raises(festina.InvalidError):
            endpoint.remove_address((host, port))
        endpoint.add_address(("127.0.0.2", 0))
        endpoint.remove_address((host, 0))
        assert endpoint.local_address == ("127.0.0.2", port)


async def test_an_endpoint_moves_to_another_socket() -> None:
    async with connected() as pair:
        before = pair.client.local_address
        with pytest.raises(festina.BindError):
            pair.client.rebind(pair.server.local_address)
        assert pair.client.local_address == before
        pair.client.rebind((before[0], 0))
        assert pair.client.local_address != before
        await pair.near.send(b"from the new socket")
        assert (await pair.far.recv()).data == b"from the new socket"
        await pair.far.send(b"and back")
        assert (await pair.near.recv()).data == b"and back"
        # The server answers at both addresses until the client has proven the new one.
        while pair.far.remote_address != pair.client.local_address:
            await asyncio.sleep(0.01)


async def test_iteration_ends_with_an_orderly_end_and_raises_otherwise() -> None:
    async with connected() as pair:
        async with pair.near:
            await pair.near.send(b"one")
            await pair.near.send(b"two")
        assert [message.data async for message in pair.far] == [b"one", b"two"]
        assert pair.near.close_reason == "shutdown"
        with pytest.raises(festina.ClosedError) as ended:
            await pair.far.recv()
        assert ended.value.reason == "shutdown"
    async with connected() as pair:
        pair.near.abort("enough of it")
        with pytest.raises(festina.ClosedError) as ended:
            async for _ in pair.far:
                raise AssertionError("there is nothing to receive")
        assert (ended.value.reason, ended.value.said) == ("aborted-by-peer", b"enough of it")
        assert str(ended.value).endswith('aborted by the peer: "enough of it"')
        assert isinstance(ended.value, ConnectionError)
        with pytest.raises(festina.ClosedError) as ended:
            await pair.near.send(b"too late")
        assert ended.value.reason == "aborted"
        assert await pair.near.closed() == "aborted"


async def test_an_error_inside_the_block_aborts_the_association() -> None:
    async with connected() as pair:
        with pytest.raises(ZeroDivisionError):
            async with pair.near:
                1 / 0
        assert await pair.far.closed() == "aborted-by-peer"


async def test_a_cancelled_receive_loses_no_message() -> None:
    async with connected() as pair:
        took, left = 0, 0
        for number in range(400):
            receiving = asyncio.ensure_future(pair.far.recv())
            for _ in range(number % 3):
                await asyncio.sleep(0)
            expected = number.to_bytes(2, "big")
            await pair.near.send(expected)
            # Cancelled before the message is there, while it is announced, or when it was taken.
            if number % 2 == 0:
                await asyncio.sleep(number % 40 * 10e-6)
            for _ in range(number % 5):
                await asyncio.sleep(0)
            receiving.cancel()
            try:
                message = await receiving
                took += 1
            except asyncio.CancelledError:
                message = await pair.far.recv()
                left += 1
            assert message.data == expected
        assert took > 10 and left > 10


async def test_a_receive_that_times_out_can_be_repeated() -> None:
    async with connected() as pair:
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(pair.far.recv(), 0.01)
        await pair.near.send(b"at last")
        assert (await pair.far.recv()).data == b"at last"


async def test_several_tasks_may_receive_from_one_association() -> None:
    async with connected() as pair:
        tasks = [asyncio.ensure_future(pair.far.recv()) for _ in range(5)]
        await asyncio.sleep(0.02)
        for number in range(5):
            await pair.near.send(bytes([number]))
            await asyncio.sleep(0)
        assert sorted(message.data[0] for message in await asyncio.gather(*tasks)) == list(range(5))


async def test_what_becomes_of_a_message_is_told() -> None:
    async with connected() as pair:
        delivery = await pair.near.send_confirmed(b"there?")
        assert await delivery == festina.Outcome(delivered=True, reason=None, sent=True)
        assert await delivery == await delivery
        late = await pair.near.send_confirmed(b"too late", deadline=time.monotonic() - 1.0)
        assert await late == festina.Outcome(delivered=False, reason="expired", sent=False)
        assert late.id == delivery.id + 1
        in_time = await pair.near.send_confirmed(b"in time", deadline=asyncio.get_running_loop().time() + 30.0)
        assert (await in_time).delivered
        abandoned = await pair.near.event()
        assert abandoned == festina.Event("abandoned", late.id, late.id, "expired", False)
        pair.far.abort()
        assert await pair.near.event() == festina.Event("closed")
        assert await pair.near.event() is None


async def test_each_option_counts_though_all_others_have_their_default() -> None:
    async with connected() as pair:
        await pair.near.send(b"x", unordered=True)
        assert (await pair.far.recv()).is_unordered
        await pair.near.send(b"x", duplicate="half-interval")
        assert not (await pair.far.recv()).is_unordered


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
async def test_each_address_of_the_peer_is_a_path() -> None:
    config = usual(other_addresses=["127.0.0.2"], path_policy="copies")
    async with connected(config) as pair:
        port = pair.server.local_address[1]
        assert [path.address for path in pair.near.paths()] == [("127.0.0.1", port), ("127.0.0.2", port)]
        while any(path.state != "active" for path in pair.near.paths()):
            await asyncio.sleep(0.01)
        assert all(path.srtt is not None and path.errors == 0 for path in pair.near.paths())
        assert sum(path.carries_data for path in pair.near.paths()) == 1
    async with connected() as pair:
        assert [path.state for path in pair.near.paths()] == ["active"]


async def test_a_newer_message_takes_the_place_of_an_older_one() -> None:
    # The peer does not receive, so its window closes and messages wait.
    config = usual(receive_buffer_bytes=2_000, send_buffer_bytes=100_000)
    async with connected(config) as pair:
        for _ in range(8):
            await pair.near.send(bytes(1_000))
        old = await pair.near.send_confirmed(b"old", replacing=7)
        await pair.near.send(b"new", replacing=7)
        assert (await old).reason == "replaced"
        stats = pair.near.stats()
        assert (stats.sent.messages_abandoned, stats.sent.messages_abandoned_sent) == (1, 0)
        assert stats.abandoned.replaced == festina.Abandoned(unsent=1, sent=0)
        # The peer's transport answers all the same.
        while pair.near.stats().path.peer_window_closed is None:
            await asyncio.sleep(0.01)
        pair.near.abort()


async def test_many_messages_are_sent_with_one_call() -> None:
    async with connected(usual(send_buffer_bytes=100_000, receive_buffer_bytes=60_000)) as pair:
        assert pair.near.send_many_nowait([b"%d" % number for number in range(300)], stream=3) == 300
        received = [await pair.far.recv() for _ in range(300)]
        assert [int(message.data) for message in received] == list(range(300)) and received[0].stream == 3
        # More than both buffers hold, however fast the peer acknowledges.
        assert 1 <= pair.near.send_many_nowait([bytes(30_000)] * 10) < 10
        assert pair.near.send_many_nowait([]) == 0
        with pytest.raises(festina.InvalidError, match="empty"):
            pair.near.send_many_nowait([b"x", b""])
        with pytest.raises(festina.InvalidError, match="stream is 65536"):
            pair.near.send_many_nowait([b"x"], stream=65_536)
        pair.near.abort()
    async with connected(usual(receive_buffer_bytes=60_000, streams=(10, 10))) as pair:
        # More than the peer's receive buffer, and than the settings allow to send.
        for large in (60_001, 2 << 20):
            with pytest.raises(festina.InvalidError, match="60000"):
                pair.near.send_many_nowait([b"ok", bytes(large)])
        with pytest.raises(festina.InvalidError, match="stream 10"):
            pair.near.send_many_nowait([b"ok", b"ok"], stream=10)
        assert pair.near.stats().sent.messages == 0 and pair.near.stats().path.messages_pending == 0


async def test_fifty_handshakes_go_on_at_once() -> None:
    async with connected() as pair:
        assert pair.listener.accept_nowait() is None
        near = await asyncio.gather(*(pair.client.connect(pair.server.local_address) for _ in range(50)))
        far = [await pair.listener.accept() for _ in range(49)]
        last = None
        while last is None:
            last = pair.listener.accept_nowait()
            await asyncio.sleep(0.001)
        assert len({association.remote_address for association in near}) == 1 and len(far) == 49


async def test_a_full_buffer_makes_senders_wait_or_refuses() -> None:
    config = usual(
        profile="rack", send_buffer_bytes=200_000, receive_buffer_bytes=100_000, message_bytes_max=60_000
    )
    async with connected(config) as pair:
        bulk, taken = bytes(60_000), 0
        # What the peer's receive buffer has room for leaves meanwhile.
        with pytest.raises(asyncio.TimeoutError):
            while True:
                await asyncio.wait_for(pair.near.send(bulk), 0.2)
                taken += 1
        with pytest.raises(festina.BufferFullError):
            pair.near.send_nowait(bulk)
        waiting = asyncio.ensure_future(pair.near.send(bulk))
        for _ in range(taken + 1):
            assert len((await pair.far.recv()).data) == len(bulk)
        assert await waiting == taken
        await pair.near.drained()
        assert pair.near.stats().path.send_buffer_bytes == 0


async def test_numbers_and_profiles() -> None:
    async with connected(usual(profile="rack")) as pair:
        await pair.near.send(b"x")
        await pair.near.drained()
        stats = pair.near.stats()
        assert (stats.sent.messages, stats.sent.messages_acked, stats.path.messages_pending) == (1, 1, 0)
        assert stats.path.rto > 0 and stats.path.thin in (True, False)
        assert (await pair.far.recv()).data == b"x" and pair.far.stats().received.messages == 1
        assert pair.near.profile == "rack"
        for profile in festina.PROFILES:
            pair.near.profile = profile
            assert pair.near.profile == profile
        another = await pair.client.connect(pair.server.local_address, profile="rfc9260")
        assert another.profile == "rfc9260"


async def test_mistakes_are_told() -> None:
    async with connected() as pair:
        with pytest.raises(festina.InvalidError, match="nonsense"):
            festina.Endpoint.client("nonsense")
        with pytest.raises(festina.BindError):
            festina.Endpoint.client(pair.server.local_address)
        with pytest.raises(festina.LimitError):
            pair.server.listen()
        with pytest.raises(festina.RefusedError):
            await pair.client.connect(pair.server.local_address, peer_port=6)
        with pytest.raises(festina.UnreachableError):
            await pair.client.connect("127.0.0.1:1", handshake_timeout=0.05)
        with pytest.raises(festina.InvalidError):
            await pair.client.connect(("127.0.0.1", 70_000))
        for no_address in ("localhost", "localhost:", ":5", "localhost:70000"):
            with pytest.raises(festina.InvalidError, match="localhost"):
                await pair.client.connect(no_address)
        for wrong in (b"", bytes(2 << 20)):
            with pytest.raises(festina.InvalidError):
                await pair.near.send(wrong)
        for seconds in (-1.0, math.nan, math.inf, 1e300, 10**400):
            with pytest.raises(festina.InvalidError, match="lifetime is .* at least 0 and less than 2"):
                await pair.near.send(b"x", lifetime=seconds)
            with pytest.raises(festina.InvalidError, match="handshake_timeout is .* at least 0 and less than 2"):
                await pair.client.connect(pair.server.local_address, handshake_timeout=seconds)
            with pytest.raises(festina.InvalidError, match="peer_timeout is .* at least 0 and less than 2"):
                festina.Config(peer_timeout=seconds)
        for deadline in (math.nan, math.inf, 1e300, 10**400):
            with pytest.raises(festina.InvalidError, match="deadline is"):
                await pair.near.send(b"x", deadline=deadline)
        with pytest.raises(TypeError):
            await pair.near.send("text")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await pair.near.send(5)  # type: ignore[arg-type]
        for argument, value in (
            ("stream", 65_536),
            ("ppid", 1 << 32),
            ("priority", -1),
            ("max_retransmissions", 65_536),
            ("replacing", 1 << 64),
        ):
            with pytest.raises(festina.InvalidError, match=f"{argument} is {value}, but"):
                await pair.near.send(b"x", **{argument: value})  # type: ignore[arg-type]
        with pytest.raises(festina.InvalidError, match="duplicate is twice, but must be at-once or half-interval"):
            await pair.near.send(b"x", duplicate="twice")
        with pytest.raises(festina.InvalidError, match="port is 65536"):
            pair.server.listen(65_536)
        with pytest.raises(festina.InvalidError, match="handshake_timeout is -1"):
            await pair.client.connect(pair.server.local_address, handshake_timeout=-1.0)
        for name in ("RefusedError", "UnreachableError", "ClosedError", "BindError", "LimitError", "InvalidError"):
            assert issubclass(getattr(festina, name), festina.Error)


async def test_an_endpoint_needs_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: ignored.append(raised.exc_value))
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, allowed[1]))
    try:
        with pytest.raises(festina.BindError, match="no descriptor"):
            festina.Endpoint.server("127.0.0.1:0", usual())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    gc.collect()
    assert ignored == []


def test_settings() -> None:
    assert {"rfc9260", "rack", "festina"} <= set(festina.PROFILES) and "cubic" in festina.CONGESTION
    for profile in festina.PROFILES:
        festina.Config(profile=profile)
    config = festina.Config(
        congestion="cubic",
        peer_timeout=0,
        heartbeat_interval=0.0,
        sack_delay=0.0,
        message_bytes_max=1_000,
        packet_bytes_max=8_972,
        other_addresses=["127.0.0.2", "::1"],
        paths_max=2,
        path_policy="primary",
        send_buffer_bytes=10_000,
        send_delay=0.05,
        receive_buffer_bytes=10_000,
        streams=(3, 4),
        interleaving=True,
        peer_moves=False,
        associations_max=5,
        associations_per_address_max=4,
        accept_queue_max=3,
        strays_per_second_max=2,
    )
    assert repr(config).startswith("Config(congestion='cubic', peer_timeout=0,")
    with pytest.raises(festina.InvalidError, match="expected one of.*festina"):
        festina.Config(profile="reno")
    with pytest.raises(festina.InvalidError):
        festina.Config(send_buffer_bytes=1)
    with pytest.raises(festina.InvalidError, match="'localhost' is no IP address|\"localhost\" is no IP address"):
        festina.Config(other_addresses=["localhost"])
    with pytest.raises(festina.InvalidError, match="expected one of.*copies"):
        festina.Config(path_policy="all")
    with pytest.raises(festina.InvalidError, match="paths_max"):
        festina.Config(paths_max=9)
    for name, value in (("send_buffer_bytes", -1), ("associations_max", 1 << 64), ("peer_timeout", -1.0)):
        with pytest.raises(festina.InvalidError, match=name):
            festina.Config(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(festina.InvalidError, match="streams is 65536"):
        festina.Config(streams=(65_536, 1))
    assert repr(festina.Config.plain(associations_max=5)) == "Config.plain(associations_max=5)"
    with pytest.raises(TypeError, match="no setting .speed."):
        festina.Config(speed=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no setting .speed."):
        festina.Config.plain(speed=3)  # type: ignore[call-arg]
    with pytest.raises(RuntimeError):
        festina.Endpoint.server("127.0.0.1:0", usual())


def test_help_states_the_range_and_the_default_of_each_setting() -> None:
    documentation = festina.Config.__doc__ or ""
    settings = dict(re.findall(r"^- (\w+): (.*?)(?=^- |\Z)", documentation, re.MULTILINE | re.DOTALL))
    for without_range in (
        "other_addresses", "path_policy", "peer_moves",
        "identity", "server_trust", "client_trust", "alpn", "early_messages", "key_log_from_env", "sessions", "plain_clients",
    ):
        settings.pop(without_range)
    assert len(settings) == 17 and "default" in settings.pop("congestion") and "default" in settings.pop("profile")
    assert "default False" in settings.pop("interleaving")
    for name, text in settings.items():
        text = " ".join(text.split())
        low, high = map(float, re.search(r"from ([\d.]+) to ([\d]+(?:\.\d+)?)", text).groups())  # type: ignore[union-attr]
        assert re.search(r"[Dd]efault \(?\d", text), text
        whole = "bytes" in name or name == "streams" or name.endswith("_max")
        above = high + (1 if whole else 0.001)
        for value, fits in ((low, True), (high, True), (above, False)):
            number: Any = int(value) if whole else value
            argument: dict[str, Any] = {name: (number, number) if name == "streams" else number}
            if name == "message_bytes_max":
                argument["receive_buffer_bytes"] = 1 << 30  # Messages are delivered whole.
            with contextlib.nullcontext() if fits else pytest.raises(festina.InvalidError):
                festina.Config(**argument)


async def test_a_full_server_says_so() -> None:
    async with connected(usual(associations_max=1)) as pair:
        async with festina.Endpoint.client("127.0.0.1:0", usual()) as other:
            with pytest.raises(festina.FullError, match="full"):
                await other.connect(pair.server.local_address)


async def test_host_names_are_looked_up() -> None:
    async with connected() as pair:
        port = pair.server.local_address[1]
        for name in (f"localhost:{port}", ("localhost", port)):
            async with await pair.client.connect(name) as association:
                assert association.remote_address == pair.server.local_address


async def test_a_closed_endpoint_and_a_closed_listener_end_iterations() -> None:
    async with festina.Endpoint.server("127.0.0.1:0", usual()) as server:
        listener = server.listen()

        accepted: asyncio.Queue[festina.Association] = asyncio.Queue()

        async def accept_all() -> None:
            async for association in listener:
                accepted.put_nowait(association)

        accepting = asyncio.ensure_future(accept_all())
        async with festina.Endpoint.client("127.0.0.1:0", usual()) as client:
            for _ in range(2):
                await client.connect(server.local_address)
                await accepted.get()
        listener.close()
        await accepting
        other = server.listen()
        await server.close()
        with pytest.raises(festina.ClosedError):
            await other.accept()


@pytest.mark.filterwarnings("ignore:unclosed endpoint:ResourceWarning")
def test_another_event_loop_is_told_that_it_is_wrong() -> None:
    async def bind() -> festina.Listener:
        return festina.Endpoint.server("127.0.0.1:0", usual()).listen()

    listener = asyncio.run(bind())
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(listener.accept())


@pytest.mark.filterwarnings("ignore:unclosed endpoint:ResourceWarning")
async def test_what_nobody_holds_ends_in_the_background() -> None:
    server = festina.Endpoint.server("127.0.0.1:0", usual())
    listener = server.listen()
    client = festina.Endpoint.client("127.0.0.1:0", usual())
    near = await client.connect(server.local_address)
    far = await listener.accept()
    await near.send(b"still delivered")
    gone: list[weakref.ref[Any]] = [weakref.ref(near), weakref.ref(near._hub)]
    del near, client
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert [message.data async for message in far] == [b"still delivered"]
    await server.close()


async def test_the_loop_goes_on_while_an_association_waits() -> None:
    async with connected() as pair:
        waiting = asyncio.ensure_future(pair.far.recv())
        ticks = 0
        while ticks < 20:
            await asyncio.sleep(0.001)
            ticks += 1
        assert not waiting.done()
        await pair.near.send(b"now")
        assert (await waiting).data == b"now"


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.filterwarnings("ignore:unclosed endpoint:ResourceWarning")
def test_a_wake_up_that_comes_after_the_end_of_the_loop_leaks_no_descriptor() -> None:
    async def leave_a_wake_up_behind() -> None:
        server = festina.Endpoint.server("127.0.0.1:0", usual())
        client = festina.Endpoint.client("127.0.0.1:0", usual())
        listener = server.listen()
        near = await client.connect(server.local_address)
        far = await listener.accept()
        assert far.recv_nowait() is None
        await near.send(b"late")
        # The message has rung, and everything is let go of before the loop looks at its descriptors again.
        assert select.select([far._hub.native.fileno()], [], [], 20.0)[0]

    asyncio.run(leave_a_wake_up_behind())
    gc.collect()
    before = settled_descriptors()
    for _ in range(10):
        asyncio.run(leave_a_wake_up_behind())
    gc.collect()
    assert settled_descriptors() <= before


def settled_descriptors() -> int:
    """The number of open descriptors once the endpoints' threads have ended."""
    until, lowest = time.monotonic() + 5.0, open_descriptors()
    while time.monotonic() < until and threading_names().count("festina") > 0:
        time.sleep(0.01)
        lowest = open_descriptors()
    return min(lowest, open_descriptors())


def threading_names() -> list[str]:
    """The names of this process's threads, those of the library included."""
    names = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            with open(f"/proc/self/task/{thread}/comm", encoding="utf-8") as comm:
                names.append(comm.read().strip())
    return names


FORKS = """
import asyncio, os, sys
import festina

async def main(what):
    identity = festina.Identity.self_signed("server.test")
    sessions = festina.Sessions(2)
    config = festina.Config(
        identity=identity, server_trust=festina.Trust.fingerprints(identity.fingerprint), sessions=sessions
    )
    async with festina.Endpoint.server("127.0.0.1:0", config) as server, festina.Endpoint.client("127.0.0.1:0", config) as client:
        listener = server.listen()
        near = await client.connect("%s:%d" % server.local_address)
        far = await listener.accept()
        holding = server.listen(7, hold_requests=True)
        asking = asyncio.ensure_future(client.connect(server.local_address, peer_port=7, token=b"held", handshake_timeout=50.0))
        request = await holding.request()
        async with near:
            child = os.fork()
            if child == 0:
                if what == "use":
                    for attempt in (
                        lambda: near.send_nowait(b"x"), far.recv_nowait, far.abort, near.stats, listener.close,
                        lambda: server.listen(8, hold_requests=True), holding.request_nowait, far.recv_early_nowait,
                        lambda: far.client_token, lambda: request.token, request.accept, request.refuse,
                        sessions.clear, lambda: sessions.forget("127.0.0.1", 9),
                    ):
                        try:
                            attempt()
                            os._exit(3)
                        except festina.ForkedError as error:
                            assert "forked" in str(error), error
                    for waits in (
                        far.recv(), client.connect(("127.0.0.1", 9)), listener.accept(), server.close(), holding.request(),
                        client.connect(("127.0.0.1", 9), server_name="server.test", token=b"t", early_messages=[b"x"]),
                    ):
                        try:
                            waits.send(None)
                            os._exit(4)
                        except festina.ForkedError:
                            pass
                    repr(near), repr(server)
                if what == "own":
                    del near, far, listener, server, client, holding, request
                if what == "error":
                    raise ValueError("in the child")
                sys.exit(0)
            _, status = os.waitpid(child, 0)
            assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == (1 if what == "error" else 0), status
            for number in range(3):
                await near.send(b"still here")
                assert (await asyncio.wait_for(far.recv(), 20)).data == b"still here"
            await near.drained()
            request.accept()
            async with await asyncio.wait_for(asking, 20):
                assert (await asyncio.wait_for(holding.accept(), 20)).client_token == b"held"
            assert near.close_reason is None and far.close_reason is None
        assert near.close_reason == "shutdown"
        print("the parent goes on")

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("what", ["use", "own", "error", "exit"])
async def test_a_child_changes_nothing_of_its_parents(what: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKS, what, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0 and output == b"the parent goes on\n", errors.decode()
