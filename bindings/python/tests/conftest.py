"""Runs coroutines as tests, each in an event loop of its own and with a time limit."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Optional

import pytest

TIME_LIMIT = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Optional[bool]:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def within_time() -> Any:
        return await asyncio.wait_for(pyfuncitem.obj(**arguments), TIME_LIMIT)

    asyncio.run(within_time(), debug=True)
    return True
