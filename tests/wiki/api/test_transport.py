"""Tests of `wiki.api.transport`."""

import asyncio
from typing import Any

import pytest

from tests.support.wiki_proxy import WikiProxy
from tests.wiki.api.conftest import ApiAt
from wiki.api.models import WikiAwayError
from wiki.api.transport import ApiResponse, ApiTransport

pytestmark = pytest.mark.slow


SITE = {"action": "query", "meta": "siteinfo"}


async def test_who_was_found_in_public_leads_nobody_into_a_private_network(
    proxy: WikiProxy, api_at: ApiAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wiki on a private network may be asked, as its operator named it; but no redirect leads there."""

    async def names(*_: Any, **__: Any) -> list[Any]:
        return [(2, 1, 6, "", ("10.1.2.3", 0))]  # what a name server would say

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names)
    reply = ApiResponse(301, "http://wiki.example.org/x", {"location": "http://db.example.org/api.php"}, b"")
    async with ApiTransport(user_agent="test") as wire:
        assert await wire.target_of(reply) == "http://db.example.org/api.php"
        wire.is_public = True  # as if the first answer had come from a public address
        with pytest.raises(WikiAwayError, match="private network"):
            await wire.target_of(reply)
    async with api_at(proxy.api, attempts=1) as api:
        api._wire.is_public = True
        with pytest.raises(WikiAwayError, match="private network"):
            await api.get(**SITE)
