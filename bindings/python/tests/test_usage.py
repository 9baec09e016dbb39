"""What Python programs expect of a package: `logging`, `pickle`, `==`, `repr`, warnings and errors that help."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import logging
import pathlib
import pickle
import re
import signal
import sys
from typing import Any, Optional

import festina
import pytest

IDENTITY = festina.Identity.self_signed("server.test")
TRUST = festina.Trust.fingerprints(IDENTITY.fingerprint)
CONFIG = festina.Config(identity=IDENTITY, server_trust=TRUST)


async def test_logs_reach_logging_at_the_level_of_its_logger(caplog: pytest.LogCaptureFixture) -> None:
    async def associate() -> list[logging.LogRecord]:
        caplog.clear()
        async with festina.Endpoint.server("127.0.0.1:0", CONFIG) as server:
            listener = server.listen()
            async with festina.Endpoint.client("127.0.0.1:0", CONFIG) as client:
                near = await client.connect(server.local_address)
                (await listener.accept()).abort("line\nfeed")
                await near.closed()
        return [record for record in caplog.records if record.name == "festina"]

    caplog.set_level(logging.INFO, "festina")
    records = await associate()
    assert {record.levelno for record in records} == {logging.INFO}
    texts = [record.getMessage() for record in records]
    assert sum(text.startswith("association up ") for text in texts) == 2, texts
    ended = [text for text in texts if text.startswith("association down ")]
    assert len(ended) == 2 and any("reason=aborted by the peer" in text for text in ended), texts
    assert "\n" not in "".join(texts)

    caplog.set_level(logging.WARNING, "festina")
    assert await associate() == []


async def test_a_waiting_event_loop_wakes_up_for_a_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "festina")
    async with festina.Endpoint.server("127.0.0.1:0", CONFIG) as server:
        _listener = server.listen()
        async with festina.Endpoint.client("127.0.0.1:0", CONFIG) as client:
            # Binding has delivered older records.
            caplog.clear()
            await client.connect(server.local_address)
            # Nothing else wakes the loop: the listener accepts the association in the library's thread.
            for _ in range(2_000):
                if sum(record.getMessage().startswith("association up ") for record in caplog.records) == 2:
                    return
                await asyncio.sleep(0.01)
    raise AssertionError(caplog.text)


def test_settings_can_be_pickled_copied_and_compared() -> None:
    other = festina.Identity.self_signed("other.test")
    trusts = (
        TRUST, festina.Trust.platform_roots(), festina.Trust.raw_keys(other.fingerprint),
        festina.Trust.fingerprints(other.fingerprint), festina.Trust.roots_from_pem(IDENTITY.to_pem()),
    )
    configs = [
        festina.Config(), festina.Config.plain(), festina.Config(profile="rack"), festina.Config.plain(profile="rack"),
        festina.Config(streams=(3, 4), alpn=["game/1"], peer_timeout=5.0),
        *(festina.Config(server_trust=trust) for trust in trusts),
    ]
    objects: list[Any] = [*trusts, *configs]
    for index, first in enumerate(objects):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(first, protocol))
            assert again == first and hash(again) == hash(first) and repr(again) == repr(first)
        assert copy.copy(first) == copy.deepcopy(first) == first
        assert [first == second for second in objects] == [index == other_index for other_index in range(len(objects))]
        assert first != "another type"
    assert festina.Config(peer_timeout=5, sack_delay=None) == festina.Config(peer_timeout=5.0)
    assert festina.Config(sack_delay=0.1, peer_timeout=5) == festina.Config(peer_timeout=5, sack_delay=0.1)
    assert festina.Identity.from_pem(IDENTITY.to_pem()) == IDENTITY != other
    assert len({CONFIG, festina.Config(server_trust=TRUST, identity=IDENTITY)}) == 1


def test_a_list_that_changes_later_changes_no_settings() -> None:
    protocols = ["game/1"]
    config = festina.Config(alpn=protocols)
    protocols.append("game/2")
    assert repr(config) == "Config(alpn=('game/1',))" and config == festina.Config(alpn=("game/1",))


def test_a_private_key_is_not_pickled_by_accident() -> None:
    for secret in (IDENTITY, CONFIG):
        with pytest.raises(TypeError, match="to_pem"):
            pickle.dumps(secret)


def test_trust_is_readable() -> None:
    assert repr(TRUST) == f"Trust.fingerprints('{IDENTITY.fingerprint}')" and eval(repr(TRUST), vars(festina)) == TRUST
    assert repr(festina.Config(server_trust=TRUST)) == f"Config(server_trust={TRUST!r})"
    assert repr(festina.Trust.platform_roots()) == "Trust.platform_roots()"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"peer_timeout": 0.5}, "peer_timeout is 0.5 s, but must lie between 1 and 86400 s"),
        ({"heartbeat_interval": 86_401}, "heartbeat_interval is 86401 s, but must lie between 0 and 86400 s"),
        ({"sack_delay": 0.75}, "sack_delay is 0.75 s, but must lie between 0 and 0.5 s"),
        ({"send_delay": 90_000}, "send_delay is 90000 s, but must lie between 0.001 and 86400 s"),
        ({"send_buffer_bytes": 1}, "send_buffer_bytes is 1, but must lie between 1500 and 1073741824"),
        ({"streams": (0, 1)}, "streams is 0, but must lie between 1 and 65535"),
        ({"accept_queue_max": 0}, "accept_queue_max is 0, but must lie between 1 and 1048576"),
    ],
)
def test_errors_name_the_setting_and_its_unit(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(festina.InvalidError, match=f"^{re.escape(text)}$"):
        festina.Config(**settings)


def test_a_misspelled_setting_is_suggested() -> None:
    stub = pathlib.Path(festina.__file__).with_name("_festina.pyi").read_text(encoding="utf-8")
    names = re.findall(r"(\w+): Optional", stub[stub.index("class Config:") : stub.index(") -> Config")])
    assert len(names) == 28
    for name in names:
        with pytest.raises(TypeError, match=f"did you mean \"{name}\""):
            festina.Config(**{name + "s": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no setting \"zzz\"$"):
        festina.Config(zzz=1)  # type: ignore[call-arg]


async def test_an_endpoint_that_was_never_closed_is_reported() -> None:
    endpoint: Optional[festina.Endpoint] = festina.Endpoint.server("127.0.0.1:0", CONFIG)
    with pytest.warns(ResourceWarning, match="unclosed endpoint <festina.Endpoint on 127.0.0.1 port"):
        endpoint = None
        gc.collect()
    async with festina.Endpoint.server("127.0.0.1:0", CONFIG) as endpoint:
        pass
    endpoint = None
    gc.collect()


async def test_the_example_ends_without_a_traceback_on_ctrl_c() -> None:
    example = pathlib.Path(__file__).parents[1] / "examples" / "echo.py"
    pipe = asyncio.subprocess.PIPE
    # Shells have jobs in the background ignore Ctrl-C, and these tests may be one.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    server = await asyncio.create_subprocess_exec(
        sys.executable, str(example), "listen", "127.0.0.1:0", stdout=pipe, stderr=pipe, preexec_fn=heed
    )
    try:
        assert server.stdout is not None
        address = (await server.stdout.readline()).decode().removeprefix("listening on ").strip()
        fingerprint = (await server.stdout.readline()).decode().removeprefix("fingerprint ").strip()
        config = festina.Config(server_trust=festina.Trust.fingerprints(fingerprint))
        async with festina.Endpoint.client("127.0.0.1:0", config) as endpoint:
            association = await endpoint.connect(address)
            await association.send(b"there?")
            assert (await association.recv()).data == b"there?"
            server.send_signal(signal.SIGINT)
            _, errors = await server.communicate()
    finally:
        if server.returncode is None:
            server.kill()
    assert (server.returncode, errors) == (130, b"")
