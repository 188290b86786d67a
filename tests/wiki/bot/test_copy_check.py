"""Looking at copies before an edit, through the real client for archives."""

import pytest

from links.archives.archive_client import ArchiveClient
from links.archives.copy_check import CopyVerdict
from tests.links.archives.conftest import archive_server, client
from tests.support.archive_server import ArchiveServer
from wiki.bot.remedies import CopyChecker

__all__ = ["archive_server", "client"]

A = "http://a.test/"
SEEN = "Tue, 15 Jan 2013 10:20:33 GMT"
FRONT = "https://archive.example"
OURS = f"{FRONT}/page/20130115102033/{A}"
THEIRS = f"https://web.archive.org/web/20130115102033/{A}"
HTML = {"Content-Type": "text/html; charset=utf-8"}


@pytest.mark.parametrize(
    ("status", "headers", "verdict"),
    [
        (200, {"Memento-Datetime": SEEN, "Link": f'<{A}>; rel="original"'}, CopyVerdict.GOOD),
        (404, {}, CopyVerdict.GONE),  # around a failed visit, an error, a check for robots
        (403, {}, CopyVerdict.UNCLEAR),  # held back for a threat
        (451, {}, CopyVerdict.GONE),  # taken down
        (503, {}, CopyVerdict.UNCLEAR),
        (200, {}, CopyVerdict.UNCLEAR),  # some other server at that address
    ],
)
async def test_our_own_front_is_looked_at_as_a_reader_does(
    archive_server: ArchiveServer, client: ArchiveClient, status: int, headers: dict[str, str], verdict: CopyVerdict
) -> None:
    """Only a copy that is shown is good."""
    archive_server.put(OURS, "<title>A page</title>", status, **HTML, **headers)

    assert (await CopyChecker(client, (FRONT,)).cited(OURS, A)).verdict is verdict


async def test_archives_are_asked_about_copies_on_pages_only_where_that_is_wanted(
    archive_server: ArchiveServer, client: ArchiveClient
) -> None:
    """Without archives in the settings only our own front is."""
    archive_server.put(THEIRS, "gone", 404)
    archive_server.put(OURS, "gone", 404)

    quiet = CopyChecker(client, (FRONT,))
    assert (await quiet.standing(THEIRS, A)).verdict is CopyVerdict.UNCLEAR
    assert (await quiet.standing(OURS, A)).verdict is CopyVerdict.GONE
    assert archive_server.places == [OURS.partition("://")[2]]
    asking = CopyChecker(client, (FRONT,), asks_others=True)
    assert (await asking.standing(THEIRS, A)).verdict is CopyVerdict.GONE


@pytest.mark.parametrize(("url", "verdict"), [(A, CopyVerdict.GOOD), ("http://b.test/", CopyVerdict.OTHER_PAGE)])
async def test_a_short_address_is_held_to_its_link(
    archive_server: ArchiveServer, client: ArchiveClient, url: str, verdict: CopyVerdict
) -> None:
    """B07: what it is of is asked of its archive."""
    record = f'{{"guid": "AB12-CD34", "url": "{A}", "capture_time": "2013-01-15T10:20:33Z"}}'
    archive_server.put("https://api.perma.cc/v1/public/archives/AB12-CD34/", record)

    checker = CopyChecker(client, (), asks_others=True)

    assert (await checker.standing("https://perma.cc/AB12-CD34", url)).verdict is verdict
    assert (await checker.standing("https://perma.cc/ZZ99-ZZ99", url)).verdict is CopyVerdict.UNCLEAR
