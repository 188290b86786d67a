"""Behaviours are met on the event loop that `weboid links check` runs on."""

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the loops for the tests in this folder."""
    return {"uvloop": uvloop.new_event_loop}
