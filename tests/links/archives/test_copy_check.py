"""Looking at copies: what is there, what is gone, and what only the archive's own trouble is."""

import pytest

from links.archives.archive_client import ArchiveClient
from links.archives.archive_urls import recognise
from links.archives.copy_check import CopyVerdict, ResolvedAddress, check_copy, resolve_address
from tests.support.archive_server import ArchiveServer

A = "http://a.test/"
COPY = "https://web.archive.org/web/20130115102033/http://a.test/"
LATER = "https://web.archive.org/web/20140115102033/http://a.test/"
SEEN = "Tue, 15 Jan 2013 10:20:33 GMT"
PAGE = "<html><title>A page</title><p>Words."
HTML = "text/html; charset=utf-8"
ORIGINAL = '<http://a.test/>; rel="original", <https://web.archive.org/web/timemap/link/http://a.test/>; rel="timemap"'

CASES = {
    "good": (200, PAGE, {"Memento-Datetime": SEEN, "Link": ORIGINAL}, CopyVerdict.GOOD),
    "good picture": (200, "x", {"Memento-Datetime": SEEN, "Content-Type": "image/png"}, CopyVerdict.GOOD),
    "gone": (404, "<title>Wayback Machine has not archived that URL</title>", {}, CopyVerdict.GONE),
    "taken down by law": (451, "", {}, CopyVerdict.GONE),
    "excluded": (403, "This URL has been excluded from the Wayback Machine.", {}, CopyVerdict.GONE),
    "blocked site": (403, "", {"X-Archive-Wayback-Runtime-Error": "AdministrativeAccessControlException: Blocked Site Error"}, CopyVerdict.GONE),
    "refuses us": (403, "<title>Access denied</title>", {}, CopyVerdict.UNCLEAR),
    "busy": (429, "", {}, CopyVerdict.UNCLEAR),
    "down": (503, "", {}, CopyVerdict.UNCLEAR),
    "broken": (500, "", {}, CopyVerdict.UNCLEAR),
    "no copy, status 200": (200, PAGE, {}, CopyVerdict.UNCLEAR),
    "copy of an error": (404, PAGE, {"Memento-Datetime": SEEN}, CopyVerdict.BAD),
    "copy of a failure": (503, PAGE, {"Memento-Datetime": SEEN}, CopyVerdict.BAD),
    "copy of a soft error": (200, "<title>404 - Page not found</title>", {"Memento-Datetime": SEEN}, CopyVerdict.BAD),
    "copy of a redirect": (200, "<p>Got an HTTP 302 response at crawl time</p>", {"Memento-Datetime": SEEN}, CopyVerdict.BAD),
    "another page": (200, PAGE, {"Memento-Datetime": SEEN, "Link": ORIGINAL.replace(A, "http://evil.test/")}, CopyVerdict.OTHER_PAGE),
    "redirect to another page": (302, "", {"Location": "/web/20130115102033/http://b.test/"}, CopyVerdict.BAD),
    "redirect away": (302, "", {"Location": "https://parked.example/"}, CopyVerdict.UNCLEAR),
    "redirect in circles": (302, "", {"Location": COPY}, CopyVerdict.UNCLEAR),
    "redirect nowhere": (302, "", {"Location": "http://[::"}, CopyVerdict.UNCLEAR),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_what_is_seen(archive_server: ArchiveServer, client: ArchiveClient, name: str) -> None:
    """Each answer of an archive, and what it says of the copy."""
    status, body, headers, verdict = CASES[name]
    archive_server.put(COPY, body, status, **({"Content-Type": HTML} | headers))

    assert (await check_copy(client, COPY, A)).verdict is verdict


async def test_an_archive_that_does_not_answer_says_nothing(
    archive_server: ArchiveServer, client: ArchiveClient
) -> None:
    """Also when it was left alone before it was asked."""
    archive_server.put(COPY, "", 500)
    await check_copy(client, COPY, A)
    archive_server.put(COPY, "", 404)

    assert (await check_copy(client, COPY, A)).verdict is CopyVerdict.UNCLEAR
    assert len(archive_server.requests) == 1


async def test_another_version_takes_its_place(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """An archive that shows a neighbour does not have that version any more."""
    archive_server.put(COPY, "", 302, Location=LATER)
    archive_server.put(LATER, PAGE, Memento_Datetime="Wed, 15 Jan 2014 10:20:33 GMT", Content_Type=HTML)

    seen = await check_copy(client, COPY, A)

    assert (seen.verdict, seen.address, seen.timestamp) == (CopyVerdict.MOVED, LATER, "20140115102033")


async def test_another_spelling_is_the_same_version(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """A redirect to the same moment under https or www. is no move."""
    other = "https://web.archive.org/web/20130115102033/https://www.a.test/"
    archive_server.put(COPY, "", 302, Location=other)
    archive_server.put(other, PAGE, Memento_Datetime=SEEN, Content_Type=HTML)

    assert (await check_copy(client, COPY, A)).verdict is CopyVerdict.GOOD


async def test_archive_today_leads_to_another_of_its_hosts(
    archive_server: ArchiveServer, client: ArchiveClient
) -> None:
    """Its names are one archive."""
    address = "https://archive.today/20120918092600/http://a.test/"
    archive_server.put(address, "", 302, Location=address.replace("today", "ph"))
    archive_server.put(
        address.replace("today", "ph"), PAGE, Memento_Datetime="Tue, 18 Sep 2012 09:26:00 GMT", Content_Type=HTML
    )

    seen = await check_copy(client, address, A)

    assert (seen.verdict, seen.address) == (CopyVerdict.GOOD, address)


async def test_a_page_about_missing_pages_is_a_page(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """Words that the URL itself contains are no sign of a missing page."""
    url = "http://a.test/how-to-write-404-pages"
    copy = f"https://web.archive.org/web/20130115102033/{url}"
    archive_server.put(
        copy, "<title>404: page not found, and how to say it</title>", Memento_Datetime=SEEN, Content_Type=HTML
    )

    assert (await check_copy(client, copy, url)).verdict is CopyVerdict.GOOD


async def _resolved(client: ArchiveClient, address: str) -> ResolvedAddress:
    archive_url = recognise(address)
    assert archive_url is not None
    return await resolve_address(client, archive_url)


async def test_perma_says_what_its_copy_is_of(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """By its API."""
    archive_server.put(
        "https://api.perma.cc/v1/public/archives/AB12-CD34/",
        '{"guid":"AB12-CD34","creation_timestamp":"2016-06-14T17:22:51Z","url":"http://a.test/x",'
        '"title":"A","captures":[{"role":"primary","status":"success"}]}',
    )

    resolved_address = await _resolved(client, "http://perma.cc/ab12-cd34")

    assert resolved_address == ResolvedAddress("http://a.test/x", "20160614172251", "https://perma.cc/AB12-CD34")
    assert await _resolved(client, "https://perma.cc/AAAA-AAAA") == ResolvedAddress(
        address="https://perma.cc/AAAA-AAAA"
    )


async def test_archive_today_says_what_its_copy_is_of(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """In a header, or on the page."""
    archive_server.put(
        "https://archive.today/AbC12",
        PAGE,
        Memento_Datetime="Tue, 18 Sep 2012 09:26:00 GMT",
        Link='<http://a.test/x>; rel="original"',
    )
    archive_server.put(
        "https://archive.today/Xyz98",
        '<input id="SHARE_LONGLINK" type="text" value="https://archive.ph/2012.09.18-092600/http://a.test/y?b&amp;c"/>',
    )

    assert await _resolved(client, "https://archive.is/AbC12") == ResolvedAddress(
        "http://a.test/x", "20120918092600", "https://archive.today/AbC12"
    )
    assert (await _resolved(client, "https://archive.is/Xyz98")).original == "http://a.test/y?b&c"


async def test_freezepage_says_what_its_copy_is_of(archive_server: ArchiveServer, client: ArchiveClient) -> None:
    """On the page; the moment is in its name."""
    archive_server.put(
        "https://www.freezepage.com/1249681324ZHFROBOEGE",
        'This is <a href="http://a.test/">http://a.test/</a> as of August 7, 2009',
    )

    resolved_address = await _resolved(client, "http://www.freezepage.com/1249681324ZHFROBOEGE")

    assert (resolved_address.original, resolved_address.timestamp) == (A, "20090807214204")
