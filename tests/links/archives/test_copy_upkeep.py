"""Archives elsewhere, after our own visits (A10)."""

import json
from datetime import timedelta

import pytest

from links.archives.adapters import AvailabilityAdapter, SavePageNow, SaveResult
from links.archives.archive_client import ArchiveClient
from links.archives.copy_search import CopySources
from links.archives.copy_store import copies_of_url, last_search
from links.archives.copy_upkeep import YOUNG_DAYS, MirrorMode, MirrorOutcome, MirrorResult, is_mirror_wanted, mirror_url
from links.check_result import CheckVerdict
from links.registry.database import RegistryStore
from links.registry.urls import UrlRow, require_observed
from links.states import LinkState
from tests.links.rows import RegistryRows
from tests.support.archive_server import NOW, ArchiveServer, ServiceAnswer

A = "http://a.test/"
JOB = "spn2-1"
W = "https://web.archive.org/web"


@pytest.fixture
def link(sqlite_store: RegistryStore) -> UrlRow:
    """Return the row of a watched link."""
    RegistryRows(sqlite_store).add_urls({A: LinkState.ALIVE})
    with sqlite_store.reading() as rows:
        return require_observed(rows, A)


@pytest.fixture
def archives(client: ArchiveClient, archive_server: ArchiveServer) -> CopySources:
    """Return the Wayback Machine as a source that can also save pages."""
    saver = SavePageNow(client, "key:secret", monotonic=archive_server.clock.monotonic)
    return CopySources(client, [AvailabilityAdapter(client)], ("wayback",), saver)


def _script(archive_server: ArchiveServer, *, error: str = "", had: str = "") -> None:
    """Set how Save Page Now ends, and what the Wayback Machine has of the link."""
    done = {"status": "success", "timestamp": "20261121120105", "original_url": A}
    failed = {"status": "error", "status_ext": f"error:{error}", "message": "no"}
    archive_server.answers["web.archive.org/save"] = ServiceAnswer(200, json.dumps({"url": A, "job_id": JOB}))
    body = json.dumps(failed if error else done)
    archive_server.answers[f"web.archive.org/save/status/{JOB}"] = ServiceAnswer(200, body)
    snapshot = {"available": True, "status": "200", "timestamp": had, "url": f"{W}/{had}/{A}"}
    shown = {"closest": snapshot} if had else {}
    result = {"results": [{"tag": "0", "url": A, "archived_snapshots": shown}]}
    archive_server.put("https://archive.org/wayback/available", json.dumps(result))


async def _mirrored(
    store: RegistryStore, archives: CopySources, link: UrlRow, visited: CheckVerdict
) -> MirrorResult | MirrorOutcome:
    """Return the result of mirroring the link, or why it is not mirrored."""
    why = is_mirror_wanted(store, link, visited, wanted=MirrorMode.ALWAYS, now=NOW)
    return why or await mirror_url(store, archives, link, visited, now=NOW)


async def test_after_a_good_visit_another_archive_takes_the_page_once(
    archive_server: ArchiveServer, archives: CopySources, sqlite_store: RegistryStore, link: UrlRow
) -> None:
    """Its copy is kept with the link; the next pass leaves it alone."""
    _script(archive_server)

    first = await _mirrored(sqlite_store, archives, link, CheckVerdict.OK)
    request_count = len(archive_server.requests)
    second = await _mirrored(sqlite_store, archives, link, CheckVerdict.OK)

    assert isinstance(first, MirrorResult)
    assert first.done is MirrorOutcome.SAVED
    with sqlite_store.reading() as rows:
        copies = copies_of_url(rows, link.id)
    assert [each.address for each in copies] == [f"{W}/20261121120105/{A}"]
    assert second is MirrorOutcome.KEPT
    assert len(archive_server.requests) == request_count


async def test_internal_error_over_one_link_is_kept_as_trouble(
    archives: CopySources,
    sqlite_store: RegistryStore,
    link: UrlRow,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It does not end the round, and the link is not asked about in each of them."""

    async def faulty(_self: SavePageNow, _url: str) -> SaveResult:
        raise OverflowError("int too large")

    monkeypatch.setattr(SavePageNow, "take", faulty)
    done = await _mirrored(sqlite_store, archives, link, CheckVerdict.OK)

    assert isinstance(done, MirrorResult)
    assert (done.done, done.note) == (MirrorOutcome.LATER, "internal error of Weboid: OverflowError")
    assert "int too large" in caplog.text
    assert await _mirrored(sqlite_store, archives, link, CheckVerdict.OK) is MirrorOutcome.LEFT


async def test_what_we_could_not_visit_is_taken_elsewhere(
    archive_server: ArchiveServer, archives: CopySources, sqlite_store: RegistryStore, link: UrlRow
) -> None:
    """A site that refuses us may let another archive in."""
    _script(archive_server)
    done = await _mirrored(sqlite_store, archives, link, CheckVerdict.FAILING)
    assert isinstance(done, MirrorResult)
    assert done.done is MirrorOutcome.SAVED


async def test_where_nobody_can_take_it_an_older_copy_is_fallen_back_on(
    archive_server: ArchiveServer, archives: CopySources, sqlite_store: RegistryStore, link: UrlRow
) -> None:
    """A copy that the archives already have is stored with the link."""
    _script(archive_server, error="no-access", had="20150101000000")
    done = await _mirrored(sqlite_store, archives, link, CheckVerdict.FAILING)
    assert isinstance(done, MirrorResult)
    assert done.done is MirrorOutcome.FOUND
    with sqlite_store.reading() as rows:
        assert [each.timestamp for each in copies_of_url(rows, link.id)] == ["20150101000000"]


async def test_nobody_is_asked_to_take_what_is_gone(
    archive_server: ArchiveServer, archives: CopySources, sqlite_store: RegistryStore, link: UrlRow
) -> None:
    """Only for copies that are there already."""
    _script(archive_server, had="20150101000000")
    done = await _mirrored(sqlite_store, archives, link, CheckVerdict.GONE)
    assert isinstance(done, MirrorResult)
    assert done.done is MirrorOutcome.FOUND
    assert not [each for each in archive_server.places if each.startswith("web.archive.org/save")]


@pytest.mark.parametrize(
    ("error", "done", "days"), [("no-access", MirrorOutcome.NEVER, 7), ("celery", MirrorOutcome.LATER, 1)]
)
async def test_a_link_that_nobody_has_is_asked_about_again(
    archive_server: ArchiveServer,
    archives: CopySources,
    sqlite_store: RegistryStore,
    link: UrlRow,
    error: str,
    done: MirrorOutcome,
    days: int,
) -> None:
    """Sooner when the trouble was theirs; never in the same pass."""
    _script(archive_server, error=error)
    first = await _mirrored(sqlite_store, archives, link, CheckVerdict.FAILING)
    assert isinstance(first, MirrorResult)
    assert first.done is done
    assert await _mirrored(sqlite_store, archives, link, CheckVerdict.FAILING) is MirrorOutcome.LEFT
    with sqlite_store.reading() as rows:
        last = last_search(rows, link.id)
    assert last is not None
    assert last.again_day - last.day == days


async def test_a_mirror_is_renewed(
    archive_server: ArchiveServer, archives: CopySources, sqlite_store: RegistryStore, link: UrlRow
) -> None:
    """When the copy is old, and the page was visited again."""
    _script(archive_server)
    await _mirrored(sqlite_store, archives, link, CheckVerdict.OK)
    later = NOW + timedelta(days=YOUNG_DAYS + 1)
    assert is_mirror_wanted(sqlite_store, link, CheckVerdict.OK, wanted=MirrorMode.ALWAYS, now=later) is None


@pytest.mark.parametrize(
    ("wanted", "visited", "done"),
    [
        (MirrorMode.NEVER, CheckVerdict.FAILING, MirrorOutcome.LEFT),
        (MirrorMode.FAILED, CheckVerdict.OK, MirrorOutcome.LEFT),
        (MirrorMode.FAILED, CheckVerdict.FAILING, None),
        (MirrorMode.ALWAYS, CheckVerdict.OK, None),
    ],
)
def test_the_setting_says_which_visits_count(
    sqlite_store: RegistryStore, link: UrlRow, wanted: MirrorMode, visited: CheckVerdict, done: MirrorOutcome | None
) -> None:
    """Nothing, what failed, or all."""
    assert is_mirror_wanted(sqlite_store, link, visited, wanted=wanted, now=NOW) is done
