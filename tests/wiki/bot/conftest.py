"""A registry and a bot for a real wiki."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from core.layout import Layout
from tests.support.bot_shop import Shop, open_shop
from tests.support.services.registries import open_registry
from tests.support.wiki_writer import Writer


@pytest_asyncio.fixture
async def shop(writer: Writer, bot_name: str, tmp_path: Path) -> AsyncIterator[Shop]:
    """A registry of its own for each test, on the module's wiki."""
    store = open_registry(Layout(tmp_path))
    shop = open_shop(store, writer, bot_name)
    yield shop
    await shop.close()
    store.close()
