"""Our own front and replay, asked by the link registry as it asks any archive: real formats, real HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from core.config.settings import EgressSettings
from core.timestamps import timestamp14
from core.urls import authority_of
from links.archives.adapters import CdxAdapter, TimeGateAdapter, adapters_of
from links.archives.archive_client import ArchiveClient, HttpFetch
from links.archives.copy_check import CopyVerdict, check_copy
from tests.support.playback_fixtures import NOW, ServedCollection

pytestmark = pytest.mark.playback

EGRESS = EgressSettings(allow=("127.0.0.0/8",))


@pytest.fixture
async def client() -> AsyncIterator[ArchiveClient]:
    """Yield a client that queries the archive over real HTTP."""
    fetch = HttpFetch(EGRESS, is_own=lambda _address: False, user_agent="Weboid")
    async with fetch:
        yield ArchiveClient(fetch, now=lambda: NOW, monotonic=time.monotonic, sleep=asyncio.sleep, gap_s=0)


def _captured(served: ServedCollection, url: str) -> list[str]:
    """Add three copies of a page, 30 days apart; return their addresses."""
    moments = [NOW + timedelta(days=30 * number) for number in range(3)]
    for at in moments:
        served.builder.page(url, f"<title>A page</title><p>{at}</p>", at=at)
    return [f"{served.replay}/c/{timestamp14(at)}/{url}" for at in moments]


@pytest.mark.parametrize("query", ["", "?b=1,2;c&d=%26", "#!/x"])
async def test_our_timemap_lists_our_copies(
    served: ServedCollection, site: str, client: ArchiveClient, query: str
) -> None:
    """All of them, each one that can be looked at; of a page that nobody captured none."""
    url = f"{site}/{query}"
    copies = [each.replace("#", "%23") for each in _captured(served, url)]
    (adapter,) = adapters_of([f"weboid {served.front} {served.replay}"], client)

    mementos = await adapter.find(url, NOW)

    assert [each.address for each in mementos] == copies
    assert {each.service for each in mementos} == {authority_of(served.front)}
    assert (await check_copy(client, mementos[1].address, url)).verdict is CopyVerdict.GOOD
    assert await adapter.find(f"{site}/never", NOW) == []


async def test_our_timegate_leads_to_the_nearest(served: ServedCollection, site: str, client: ArchiveClient) -> None:
    """By the moment that is asked for."""
    copies = _captured(served, f"{site}/")
    gate = f"{served.front}/timegate/{{url}}"
    adapter = TimeGateAdapter(client, "ours", gate, homes=[served.replay])

    mementos = await adapter.find(f"{site}/", NOW + timedelta(days=29))

    assert [(each.address, each.timestamp) for each in mementos] == [(copies[1], timestamp14(NOW + timedelta(days=30)))]


@pytest.mark.parametrize("path", ["/cdx", "/cdx/search/cdx"])
async def test_our_cdx_lists_our_captures(
    served: ServedCollection, site: str, client: ArchiveClient, path: str
) -> None:
    """In pywb's form and in the Internet Archive's, with their statuses."""
    copies = _captured(served, f"{site}/")
    for day in (0, 30, 60):
        served.builder.response(f"{site}/", b"<p>x", at=NOW + timedelta(days=day))
    served.builder.response(f"{site}/", b"gone", status=404, at=NOW + timedelta(days=99))
    place = f"{served.replay}/c/{{ts}}/{{url}}"
    adapter = CdxAdapter(client, "ours", f"{served.front}{path}", copies=place)

    mementos = await adapter.find(f"{site}/", NOW)

    assert [each.address for each in mementos if each.status == 200] == copies
    assert [each.status for each in mementos if each.status != 200] == [404]


async def test_a_copy_that_is_not_there_is_gone(served: ServedCollection, site: str, client: ArchiveClient) -> None:
    """Replay says 404 without a moment: that is no copy of an error, but none."""
    address = f"{served.replay}/c/{timestamp14(NOW)}/{site}/never"

    assert (await check_copy(client, address, f"{site}/never")).verdict is CopyVerdict.GONE


async def test_a_copy_of_an_error_is_told(served: ServedCollection, site: str, client: ArchiveClient) -> None:
    """Replay gives it the status that the site gave, and says when."""
    served.builder.response(f"{site}/", b"<p>gone", status=404, at=NOW)
    address = f"{served.replay}/c/{timestamp14(NOW)}/{site}/"

    assert (await check_copy(client, address, f"{site}/")).verdict in (CopyVerdict.BAD, CopyVerdict.GONE)
