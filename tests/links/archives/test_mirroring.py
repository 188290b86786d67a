"""Archives elsewhere, after our own visits (A10)."""

import json
from datetime import timedelta

import pytest

from links.archives.asking import Asker
from links.archives.copies import kept_of, last_search
from links.archives.finding import Archives
from links.archives.mirroring import (
    YOUNG_DAYS,
    Done,
    Mirror,
    Mirrored,
    Visited,
    is_wanted,
    mirror,
)
from links.archives.saving import Saved, SavePageNow
from links.archives.wayback import WaybackAvailability
from links.observed import Observed, need_observed
from links.states import State
from links.store.store import Store
from tests.links.archives.world import NOW, Answer, World
from tests.links.rows import Rows

A = "http://a.test/"
JOB = "spn2-1"
W = "https://web.archive.org/web"


@pytest.fixture
def link(sqlite_store: Store) -> Observed:
    """A link that is watched."""
    Rows(sqlite_store).add_urls({A: State.ALIVE})
    with sqlite_store.reading() as rows:
        return need_observed(rows, A)


@pytest.fixture
def archives(asker: Asker, world: World) -> Archives:
    """The Wayback Machine, which may be asked to take pages."""
    saver = SavePageNow(asker, "key:secret", monotonic=world.clock.monotonic)
    return Archives(asker, [WaybackAvailability(asker)], ("wayback",), saver)


def _script(world: World, *, error: str = "", had: str = "") -> None:
    """What Save Page Now ends with, and what the Wayback Machine has of the link."""
    done = {"status": "success", "timestamp": "20261121120105", "original_url": A}
    failed = {"status": "error", "status_ext": f"error:{error}", "message": "no"}
    world.answers["web.archive.org/save"] = Answer(200, json.dumps({"url": A, "job_id": JOB}))
    told = json.dumps(failed if error else done)
    world.answers[f"web.archive.org/save/status/{JOB}"] = Answer(200, told)
    found = {"available": True, "status": "200", "timestamp": had, "url": f"{W}/{had}/{A}"}
    shown = {"closest": found} if had else {}
    result = {"results": [{"tag": "0", "url": A, "archived_snapshots": shown}]}
    world.put("https://archive.org/wayback/available", json.dumps(result))


async def _mirrored(
    store: Store, archives: Archives, link: Observed, visited: Visited
) -> Mirrored | Done:
    """What a pass does with the link."""
    why = is_wanted(store, link, visited, wanted=Mirror.ALWAYS, now=NOW)
    return why or await mirror(store, archives, link, visited, now=NOW)


async def test_after_a_good_visit_another_archive_takes_the_page_once(
    world: World, archives: Archives, sqlite_store: Store, link: Observed
) -> None:
    """Its copy is kept with the link; the next pass leaves it alone."""
    _script(world)

    first = await _mirrored(sqlite_store, archives, link, Visited.GOOD)
    asked = len(world.asked)
    second = await _mirrored(sqlite_store, archives, link, Visited.GOOD)

    assert isinstance(first, Mirrored)
    assert first.done is Done.SAVED
    with sqlite_store.reading() as rows:
        kept = kept_of(rows, link.id)
    assert [each.address for each in kept] == [f"{W}/20261121120105/{A}"]
    assert second is Done.KEPT
    assert len(world.asked) == asked


async def test_internal_error_over_one_link_is_kept_as_trouble(
    archives: Archives,
    sqlite_store: Store,
    link: Observed,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It does not end the round, and the link is not asked about in each of them."""

    async def faulty(_self: SavePageNow, _url: str) -> Saved:
        raise OverflowError("int too large")

    monkeypatch.setattr(SavePageNow, "take", faulty)
    done = await _mirrored(sqlite_store, archives, link, Visited.GOOD)

    assert isinstance(done, Mirrored)
    assert (done.done, done.note) == (Done.LATER, "internal error of Weboid: OverflowError")
    assert "int too large" in caplog.text
    assert await _mirrored(sqlite_store, archives, link, Visited.GOOD) is Done.LEFT


async def test_what_we_could_not_visit_is_taken_elsewhere(
    world: World, archives: Archives, sqlite_store: Store, link: Observed
) -> None:
    """A site that refuses us may let another archive in."""
    _script(world)
    done = await _mirrored(sqlite_store, archives, link, Visited.FAILED)
    assert isinstance(done, Mirrored)
    assert done.done is Done.SAVED


async def test_where_nobody_can_take_it_an_older_copy_is_fallen_back_on(
    world: World, archives: Archives, sqlite_store: Store, link: Observed
) -> None:
    """What the archives have is kept with the link."""
    _script(world, error="no-access", had="20150101000000")
    done = await _mirrored(sqlite_store, archives, link, Visited.FAILED)
    assert isinstance(done, Mirrored)
    assert done.done is Done.FOUND
    with sqlite_store.reading() as rows:
        assert [each.timestamp for each in kept_of(rows, link.id)] == ["20150101000000"]


async def test_nobody_is_asked_to_take_what_is_gone(
    world: World, archives: Archives, sqlite_store: Store, link: Observed
) -> None:
    """Only for copies that are there already."""
    _script(world, had="20150101000000")
    done = await _mirrored(sqlite_store, archives, link, Visited.GONE)
    assert isinstance(done, Mirrored)
    assert done.done is Done.FOUND
    assert not [each for each in world.places if each.startswith("web.archive.org/save")]


@pytest.mark.parametrize(
    ("error", "done", "days"), [("no-access", Done.NEVER, 7), ("celery", Done.LATER, 1)]
)
async def test_a_link_that_nobody_has_is_asked_about_again(
    world: World,
    archives: Archives,
    sqlite_store: Store,
    link: Observed,
    error: str,
    done: Done,
    days: int,
) -> None:
    """Sooner when the trouble was theirs; never in the same pass."""
    _script(world, error=error)
    first = await _mirrored(sqlite_store, archives, link, Visited.FAILED)
    assert isinstance(first, Mirrored)
    assert first.done is done
    assert await _mirrored(sqlite_store, archives, link, Visited.FAILED) is Done.LEFT
    with sqlite_store.reading() as rows:
        last = last_search(rows, link.id)
    assert last is not None
    assert last.again_day - last.day == days


async def test_a_mirror_is_renewed(
    world: World, archives: Archives, sqlite_store: Store, link: Observed
) -> None:
    """When the copy is old, and the page was visited again."""
    _script(world)
    await _mirrored(sqlite_store, archives, link, Visited.GOOD)
    later = NOW + timedelta(days=YOUNG_DAYS + 1)
    assert is_wanted(sqlite_store, link, Visited.GOOD, wanted=Mirror.ALWAYS, now=later) is None


@pytest.mark.parametrize(
    ("wanted", "visited", "done"),
    [
        (Mirror.NEVER, Visited.FAILED, Done.LEFT),
        (Mirror.FAILED, Visited.GOOD, Done.LEFT),
        (Mirror.FAILED, Visited.FAILED, None),
        (Mirror.ALWAYS, Visited.GOOD, None),
    ],
)
def test_the_setting_says_which_visits_count(
    sqlite_store: Store, link: Observed, wanted: Mirror, visited: Visited, done: Done | None
) -> None:
    """Nothing, what failed, or all."""
    assert is_wanted(sqlite_store, link, visited, wanted=wanted, now=NOW) is done
