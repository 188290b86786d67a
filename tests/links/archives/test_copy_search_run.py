"""Finding copies in order and keeping what came of it, and the visits of each quarter."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from links.archives.adapters import KNOWN_TIMEMAPS, AvailabilityAdapter, SavePageNow, TimeMapAdapter
from links.archives.archive_answers import ArchiveMemento
from links.archives.archive_client import ArchiveClient
from links.archives.archive_urls import WEBOID
from links.archives.copy_search import CopySearchResult, CopySources, SearchStep, search_copies
from links.archives.copy_store import (
    VISIT_DAYS,
    CopyCheckEffect,
    CopyChoice,
    CopySearchOutcome,
    choose_copy,
    citable_copies,
    copies_of_url,
    last_search,
    note_search,
    put_copies,
    urls_without_copy,
)
from links.archives.copy_upkeep import ALL_GONE, check_due_copies
from links.check_history import date_of, day_of
from links.registry.database import RegistryStore
from links.registry.urls import UrlRow, require_observed
from links.states import LinkState
from tests.links.rows import RegistryRows
from tests.support.archive_server import NOW, ArchiveServer

A, B = "http://a.test/", "http://b.test/"
AT = datetime(2015, 6, 1, tzinfo=UTC)
DAY = day_of(NOW)
W = "https://web.archive.org/web"
TODAY = "https://archive.today"
PAGE = "<title>A page</title>"
OWN = ArchiveMemento(WEBOID, "https://front.example/page/20200101000000/http://a.test/", "20200101000000")


@pytest.fixture
def links(sqlite_store: RegistryStore) -> dict[str, UrlRow]:
    """Add a dead link and a living one; return their rows by URL."""
    RegistryRows(sqlite_store).add_urls({A: LinkState.DEAD, B: LinkState.ALIVE})
    with sqlite_store.reading() as rows:
        return {url: require_observed(rows, url) for url in (A, B)}


@pytest.fixture
def archives(client: ArchiveClient) -> CopySources:
    """Return the Wayback Machine and archive.today as sources."""
    today = TimeMapAdapter(client, "archive-today", KNOWN_TIMEMAPS["archive-today"])
    return CopySources(client, [AvailabilityAdapter(client), today], ("wayback", "archive-today"))


def _with(archives: CopySources, **changes: object) -> CopySources:
    values = {name: getattr(archives, name) for name in CopySources.__slots__} | changes
    return CopySources(**values)


def _answers(archive_server: ArchiveServer, *, wayback: str = "", today: tuple[str, ...] = ()) -> None:
    """Set what the two archives have of either link."""
    for url in (A, B):
        lines = [f'<{url}>; rel="original"']
        lines += [f'<{TODAY}/{stamp}/{url}>; rel="memento"; datetime="{_date(stamp)}"' for stamp in today]
        if today:
            archive_server.put(f"https://archive.ph/timemap/{url}", ",\n".join(lines))
    snapshots = {"closest": {"available": True, "status": "200", "timestamp": wayback, "url": f"{W}/{wayback}/{A}"}}
    counts = {"results": [{"tag": "0", "url": A, "archived_snapshots": snapshots if wayback else {}}]}
    archive_server.put("https://archive.org/wayback/available", json.dumps(counts))


def _date(stamp: str) -> str:
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[8:10]}:{stamp[10:12]}:{stamp[12:]}Z"


def _copy_at(archive_server: ArchiveServer, stamp: str, body: str = PAGE, url: str = A) -> str:
    address = f"{TODAY}/{stamp}/{url}"
    seen = datetime.strptime(stamp, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    archive_server.put(address, body, Memento_Datetime=f"{seen:%a, %d %b %Y %H:%M:%S} GMT", Content_Type="text/html")
    return address


async def _seek(
    store: RegistryStore, archives: CopySources, url: UrlRow, **more: bool
) -> tuple[CopySearchResult, CopySearchOutcome | None]:
    sought = await search_copies(store, archives, url, now=NOW, days=(AT,), **more)
    with store.reading() as rows:
        search = last_search(rows, url.id)
    return sought, None if search is None else search.outcome


async def test_copies_of_a_dead_link_are_found_and_kept(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """One version of each archive, the preferred one first."""
    _answers(archive_server, wayback="20130115102033", today=("20100101000000", "20140101000000", "20160101000000"))
    _copy_at(archive_server, "20140101000000")

    sought, outcome = await _seek(sqlite_store, archives, links[A])

    assert (sought.step, outcome, sought.troubles) == (SearchStep.FOUND, CopySearchOutcome.FOUND, ())
    assert sought.best == ArchiveMemento("wayback", f"{W}/20130115102033/{A}", "20130115102033", 200)
    with sqlite_store.reading() as rows:
        addresses = {each.service: each.address for each in copies_of_url(rows, links[A].id)}
    assert addresses == {"wayback": f"{W}/20130115102033/{A}", "archive-today": f"{TODAY}/20140101000000/{A}"}


async def test_a_remembered_copy_is_enough(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """B12: nobody is asked, unless everybody shall be; and what a person chose stays."""
    address = f"{W}/20010101000000/{A}"
    with sqlite_store.writing() as rows:
        choose_copy(rows, links[A], CopyChoice("ada", address), day=DAY)
    sought, _ = await _seek(sqlite_store, archives, links[A])
    assert (sought.step, sought.best and sought.best.address, archive_server.requests) == (SearchStep.KEPT, address, [])

    _answers(archive_server, wayback="20130115102033")
    sought, _ = await _seek(sqlite_store, archives, links[A], is_thorough=True)

    assert sought.best is not None
    assert sought.best.address == address
    with sqlite_store.reading() as rows:
        assert [each.address for each in copies_of_url(rows, links[A].id)] == [address]


async def test_our_own_copy_goes_before_others(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """B12: nobody is asked; and it is not kept, since our own index has it."""
    own = _with(archives, own=lambda _url, _at: OWN)

    sought, outcome = await _seek(sqlite_store, own, links[A])

    assert (sought.step, sought.best, outcome) == (SearchStep.OWN, OWN, CopySearchOutcome.FOUND)
    assert archive_server.requests == []
    with sqlite_store.reading() as rows:
        assert copies_of_url(rows, links[A].id) == ()


async def test_our_own_capture_of_an_error_does_not_end_the_search(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """A3: what shows a 404 is no copy; others are asked, and theirs is the best."""
    _answers(archive_server, wayback="20130115102033")
    failed = replace(OWN, status=404)

    sought, outcome = await _seek(sqlite_store, _with(archives, own=lambda _url, _at: failed), links[A])

    assert (sought.step, outcome) == (SearchStep.FOUND, CopySearchOutcome.FOUND)
    assert sought.best is not None
    assert sought.best.service == "wayback"
    thorough, _ = await _seek(sqlite_store, _with(archives, own=lambda _url, _at: failed), links[A], is_thorough=True)
    assert failed not in thorough.copies


async def test_each_day_of_a_citation_has_its_version(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """B06: the first day's is chosen; one more is kept for a page that cites it years later."""
    _answers(archive_server, today=("20100101000000", "20140101000000", "20200101000000"))
    for stamp in ("20100101000000", "20140101000000", "20200101000000"):
        _copy_at(archive_server, stamp)
    days = (datetime(2012, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC))

    sought = await search_copies(sqlite_store, archives, links[A], now=NOW, days=days)

    assert sought.best is not None
    assert sought.best.timestamp == "20100101000000"
    with sqlite_store.reading() as rows:
        timestamps = [each.timestamp for each in citable_copies(rows, links[A].id)]
    assert timestamps == ["20100101000000", "20200101000000"]


async def test_an_archive_with_one_answer_is_asked_for_each_day(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """An answer that has copies from both sides of a day needs no second question about it."""
    _answers(archive_server, wayback="20130115102033", today=("20100101000000", "20200101000000"))
    for stamp in ("20100101000000", "20200101000000"):
        _copy_at(archive_server, stamp)
    days = (datetime(2012, 1, 1, tzinfo=UTC), datetime(2015, 1, 1, tzinfo=UTC))

    await search_copies(sqlite_store, archives, links[A], now=NOW, days=days)

    lookups = [place for place in archive_server.places if "available" in place or "timemap" in place]
    assert len([place for place in lookups if "available" in place]) == 2
    assert len([place for place in lookups if "timemap" in place]) == 1


async def test_a_search_that_a_new_date_outdated_is_made_again(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """Although a copy is remembered."""
    _answers(archive_server, wayback="20130115102033")
    await _seek(sqlite_store, archives, links[A])
    with sqlite_store.writing() as rows:
        note_search(rows, links[A].id, CopySearchOutcome.OUTDATED, DAY)
        assert [each.url for each in urls_without_copy(rows, DAY, 10)] == [A]
    before = len(archive_server.requests)

    _, outcome = await _seek(sqlite_store, archives, links[A])

    assert len(archive_server.requests) > before
    assert outcome is CopySearchOutcome.FOUND


async def test_a_search_for_other_days_that_got_no_answer_is_made_tomorrow(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """Not in a quarter of a year, although a copy is remembered; and not at once."""
    _answers(archive_server, wayback="20130115102033")
    await _seek(sqlite_store, archives, links[A])
    with sqlite_store.writing() as rows:
        note_search(rows, links[A].id, CopySearchOutcome.OUTDATED, DAY)
    archive_server.put(f"https://archive.ph/timemap/{A}", "", 503)

    await _seek(sqlite_store, archives, links[A])

    with sqlite_store.reading() as rows:
        assert urls_without_copy(rows, DAY, 10) == []
        assert [each.url for each in urls_without_copy(rows, DAY + 1, 10)] == [A]


@pytest.mark.parametrize(
    "body", ["<title>404 Not Found</title>", "<title>Just a moment...</title><script>window._cf_chl_opt={}</script>"]
)
async def test_a_version_is_looked_at_before_it_is_chosen(
    archive_server: ArchiveServer,
    sqlite_store: RegistryStore,
    links: dict[str, UrlRow],
    archives: CopySources,
    body: str,
) -> None:
    """T193158: the status that an archive tells does not show a soft 404 or a challenge."""
    _answers(archive_server, wayback="20130115102033", today=("20120101000000",))
    address = f"{W}/20130115102033/{A}"
    when = "Tue, 15 Jan 2013 10:20:33 GMT"
    archive_server.put(address, body, Memento_Datetime=when, Content_Type="text/html")
    good = _copy_at(archive_server, "20120101000000")

    sought, _ = await _seek(sqlite_store, _with(archives, verifies=True), links[A])

    assert sought.best is not None
    assert sought.best.address == good


async def test_what_fails_and_nobody_has_is_asked_about_again_soon(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """It may not be dead: unfixable for half a year would be too much."""
    _answers(archive_server)
    failing = links[A]._replace(state=LinkState.DYING)

    _, outcome = await _seek(sqlite_store, archives, failing)

    assert outcome is CopySearchOutcome.FAILING


async def test_a_copy_of_an_error_makes_way_for_the_next(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """T193158: where nobody tells a copy's status it is looked at before it is kept."""
    _answers(archive_server, today=("20120101000000", "20130101000000", "20140101000000"))
    _copy_at(archive_server, "20140101000000", "<title>404 Not Found</title>")
    _copy_at(archive_server, "20130101000000", "<p>Got an HTTP 302 response at crawl time")
    good = _copy_at(archive_server, "20120101000000")

    sought, _ = await _seek(sqlite_store, archives, links[A])

    assert sought.best is not None
    assert sought.best.address == good


async def test_an_archive_with_copies_of_errors_alone_has_none_chosen(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """W30: the empty address; the link is unfixable all the same."""
    _answers(archive_server, today=("20140101000000",))
    _copy_at(archive_server, "20140101000000", "<title>404 Not Found</title>")

    sought, outcome = await _seek(sqlite_store, archives, links[A])

    assert (sought.step, outcome) == (SearchStep.UNFIXABLE, CopySearchOutcome.UNFIXABLE)
    with sqlite_store.reading() as rows:
        assert [(each.service, each.address) for each in copies_of_url(rows, links[A].id)] == [("archive-today", "")]


async def test_a_dead_link_is_given_up_only_when_all_have_answered(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """B12: unfixable; but for later while one of the archives is away, and not at all when nobody is asked."""
    _answers(archive_server)
    archive_server.put(f"https://archive.ph/timemap/{A}", "", 503)
    sought, outcome = await _seek(sqlite_store, archives, links[A])
    assert (sought.step, outcome) == (SearchStep.LATER, CopySearchOutcome.TROUBLE)
    assert "archive-today" in sought.troubles[0]
    archive_server.put(f"https://archive.ph/timemap/{A}", "", 404)
    archive_server.clock.seconds += 7_200

    sought, outcome = await _seek(sqlite_store, archives, links[A])

    assert (sought.step, outcome) == (SearchStep.UNFIXABLE, CopySearchOutcome.UNFIXABLE)


async def test_nobody_asked_is_nothing_found_out(
    sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """Without archives in the settings a dead link is no more unfixable than before."""
    sought, outcome = await _seek(sqlite_store, _with(archives, adapters=()), links[A])

    assert (sought.step, outcome) == (SearchStep.LATER, None)


async def test_a_living_link_that_nobody_has_is_wanted(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, links: dict[str, UrlRow], archives: CopySources
) -> None:
    """B12: our own crawler archives it; without a key nobody else is asked to."""
    _answers(archive_server)

    sought, outcome = await _seek(sqlite_store, archives, links[B])

    assert (sought.step, sought.is_wanted, outcome) == (SearchStep.SAVE, True, CopySearchOutcome.WANTED)
    assert not any("save" in place for place in archive_server.places)


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [
        ({"status": "success", "original_url": B, "timestamp": "20261121120105"}, CopySearchOutcome.SAVED),
        ({"status": "error", "status_ext": "error:no-access"}, CopySearchOutcome.UNSAVABLE),
        ({"status": "error", "status_ext": "error:proxy-error"}, CopySearchOutcome.WANTED),
    ],
)
async def test_a_living_link_that_nobody_has_is_saved_elsewhere_too(
    archive_server: ArchiveServer,
    sqlite_store: RegistryStore,
    links: dict[str, UrlRow],
    archives: CopySources,
    counts: dict[str, str],
    outcome: CopySearchOutcome,
) -> None:
    """With a key Save Page Now takes it, and the copy is kept; what came of it is, too."""
    _answers(archive_server)
    archive_server.put("https://web.archive.org/save", '{"job_id": "j"}')
    archive_server.put("https://web.archive.org/save/status/j", json.dumps(counts))
    saver = SavePageNow(archives.client, "k:s", monotonic=archive_server.clock.monotonic)

    sought, noted = await _seek(sqlite_store, _with(archives, saver=saver), links[B])

    assert (sought.step, sought.is_wanted, noted) == (SearchStep.SAVE, True, outcome)
    with sqlite_store.reading() as rows:
        addresses = [each.address for each in copies_of_url(rows, links[B].id)]
    assert addresses == ([f"{W}/20261121120105/{B}"] if outcome is CopySearchOutcome.SAVED else [])


def _many(store: RegistryStore, count: int, service: str = "wayback") -> None:
    """Add `count` links with a copy each, due."""
    urls = [f"http://a.test/{number}" for number in range(count)]
    RegistryRows(store).add_urls(dict.fromkeys(urls, LinkState.DEAD))
    origin = W if service == "wayback" else TODAY
    with store.writing() as rows:
        for url in urls:
            copy = ArchiveMemento(service, f"{origin}/20130115102033/{url}", "20130115102033")
            put_copies(rows, require_observed(rows, url).id, [copy], DAY - VISIT_DAYS)


async def test_a_visit_keeps_what_was_seen(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, client: ArchiveClient
) -> None:
    """W32: of copies that are due each is looked at, and what became of it is counts."""
    _many(sqlite_store, 3)
    seen: Any = {"Memento_Datetime": "Tue, 15 Jan 2013 10:20:33 GMT", "Content_Type": "text/html"}
    archive_server.put(f"{W}/20130115102033/http://a.test/2", PAGE, **seen)
    archive_server.put(f"{W}/20130115102033/http://a.test/1", "", 503)
    counts: list[int] = []

    visits = await check_due_copies(sqlite_store, client, now=NOW, limit=10, on_check=counts.append)

    # The archive was busy at the second: it was left alone at the third.
    assert Counter(each.visit for each in visits) == {CopyCheckEffect.GOOD: 1, CopyCheckEffect.UNCLEAR: 2}
    assert sum(counts) == 3
    assert await check_due_copies(sqlite_store, client, now=NOW, limit=10) == []


async def test_an_archive_that_lost_everything_has_lost_nothing(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, client: ArchiveClient
) -> None:
    """W32: what answers 404 for all of its copies is itself in trouble; nothing is missed or dropped."""
    _many(sqlite_store, ALL_GONE)

    for week in range(4):
        now = datetime.combine(date_of(DAY + 7 * week), NOW.timetz())
        visits = await check_due_copies(sqlite_store, client, now=now, limit=100)
        assert Counter(each.visit for each in visits) == {CopyCheckEffect.UNCLEAR: ALL_GONE}

    assert len(archive_server.requests) == 4 * ALL_GONE


async def test_a_copy_that_vanished_is_dropped(
    archive_server: ArchiveServer, sqlite_store: RegistryStore, client: ArchiveClient
) -> None:
    """W32: of several one is gone at two visits a week apart."""
    _many(sqlite_store, ALL_GONE)
    seen: Any = {"Memento_Datetime": "Tue, 15 Jan 2013 10:20:33 GMT", "Content_Type": "text/html"}
    for number in range(1, ALL_GONE):
        archive_server.put(f"{W}/20130115102033/http://a.test/{number}", PAGE, **seen)
    first = await check_due_copies(sqlite_store, client, now=NOW, limit=100)
    assert Counter(each.visit for each in first) == {CopyCheckEffect.GOOD: ALL_GONE - 1, CopyCheckEffect.MISSED: 1}
    later = datetime.combine(date_of(DAY + 7), NOW.timetz())

    second = await check_due_copies(sqlite_store, client, now=later, limit=100)

    assert [(each.visit, each.url.url) for each in second] == [(CopyCheckEffect.DROPPED, "http://a.test/0")]
