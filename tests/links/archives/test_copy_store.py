"""The registry's copies: found, chosen, locked, looked at each quarter, and proposed by readers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update

from core.errors import InputError
from core.layout import Layout
from links.archives.archive_answers import ArchiveMemento
from links.archives.copy_check import CopyCheckResult, CopyVerdict
from links.archives.copy_store import (
    AGAIN_DAYS,
    DEAD,
    SECOND_LOOK_DAYS,
    UNCLEAR_DAYS,
    VISIT_DAYS,
    CopyCheckEffect,
    CopyChoice,
    CopyLockedError,
    CopySearchOutcome,
    StoredCopy,
    choose_copy,
    citable_copies,
    copies_of_url,
    drop_copy,
    due_copies,
    keep_proposed_copy,
    last_search,
    lock_copies,
    note_search,
    put_copies,
    put_versions,
    record_copy_check,
    urls_without_copy,
)
from links.check_history import HistoryRun, day_of, pack_history
from links.feedback.replacements import RefusedAddressError
from links.registry.database import RegistryStore
from links.registry.schema import copies, urls
from links.registry.urls import UrlRow, require_observed
from links.states import LinkState
from tests.links.rows import RegistryRows
from tests.support.archive_server import NOW
from tests.support.services.registries import open_registry

A, B = "http://a.test/", "http://b.test/"
DAY = day_of(NOW)
OLD = ArchiveMemento("wayback", "https://web.archive.org/web/20130115102033/http://a.test/", "20130115102033")
NEW = ArchiveMemento("wayback", "https://web.archive.org/web/20160115102033/http://a.test/", "20160115102033")
TODAY = ArchiveMemento("archive-today", "https://archive.today/20120918092600/http://a.test/", "20120918092600")
BY = CopyChoice("ada", NEW.address)


@pytest.fixture
def store(sqlite_store: RegistryStore) -> RegistryStore:
    """Return a registry on SQLite, which is quick; the last test runs every statement on both databases."""
    return sqlite_store


@pytest.fixture
def url(store: RegistryStore) -> UrlRow:
    """Return the row of a watched dead link, beside a living one."""
    return _watched(store)


def _watched(store: RegistryStore) -> UrlRow:
    RegistryRows(store).add_urls({A: LinkState.DEAD, B: LinkState.ALIVE})
    with store.reading() as rows:
        return require_observed(rows, A)


def _stored_copies(store: RegistryStore, url: UrlRow) -> tuple[StoredCopy, ...]:
    with store.reading() as rows:
        return copies_of_url(rows, url.id)


def test_one_version_of_each_archive_is_kept(store: RegistryStore, url: UrlRow) -> None:
    """W30: what is found takes the place of what was found; an archive without a good one has none."""
    with store.writing() as rows:
        assert put_copies(rows, url.id, [OLD, TODAY, ArchiveMemento("perma", "", "")], DAY) == 3
        assert put_copies(rows, url.id, [NEW, ArchiveMemento("archive-today", "", "")], DAY + 5) == 1

    copies = {copy.service: copy for copy in _stored_copies(store, url)}
    assert copies["wayback"].copy == NEW
    assert (copies["wayback"].found_day, copies["wayback"].checked_day) == (DAY, DAY + 5)
    assert copies["archive-today"].copy == TODAY
    assert copies["perma"].address == ""


def test_a_persons_choice_stays(store: RegistryStore, url: UrlRow) -> None:
    """A search does not undo it."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD], DAY)
        assert choose_copy(rows, url, BY, day=DAY).chosen_by == "ada"
        assert put_copies(rows, url.id, [OLD], DAY) == 0

    assert _stored_copies(store, url)[0].copy == NEW


def test_no_version_can_be_chosen(store: RegistryStore, url: UrlRow) -> None:
    """W30: an empty address says that the archive has the page, and none of it is shown."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD], DAY)
        assert choose_copy(rows, url, CopyChoice("ada", "", "wayback"), day=DAY).address == ""
        with pytest.raises(InputError, match="copies in: wayback"):
            choose_copy(rows, url, CopyChoice("ada", "", "perma"), day=DAY)


@pytest.mark.parametrize(
    "address",
    [
        "https://web.archive.org/web/20160115102033/http://b.test/",
        "https://web.archive.org/web/*/http://a.test/",
        "https://www.webcitation.org/query?url=http://a.test/&date=2009-01-31",
        "https://evil.example/20160115102033/http://a.test/",
        "http://a.test/",
        "no address",
    ],
)
def test_what_is_no_copy_of_the_page_is_not_chosen(store: RegistryStore, url: UrlRow, address: str) -> None:
    """B07, B13: another page's, a list, a dead archive's, nobody's."""
    with store.writing() as rows, pytest.raises(RefusedAddressError):
        choose_copy(rows, url, CopyChoice("ada", address), day=DAY)


def test_an_address_must_be_of_the_archive_that_is_named(store: RegistryStore, url: UrlRow) -> None:
    """Whoever names both means both."""
    with store.writing() as rows, pytest.raises(InputError, match="to the archive wayback"):
        choose_copy(rows, url, CopyChoice("ada", NEW.address, "perma"), day=DAY)


def test_a_locked_page_has_no_choice_by_hand(store: RegistryStore, url: UrlRow) -> None:
    """W31: of pages that change all the time; only administrators choose, and only they lift it."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD], DAY)
        lock_copies(rows, url, is_locked=True, is_admin=False)
        with pytest.raises(CopyLockedError):
            choose_copy(rows, url, BY, day=DAY)
        with pytest.raises(CopyLockedError):
            lock_copies(rows, url, is_locked=False, is_admin=False)
        put_copies(rows, url.id, [TODAY], DAY)
        assert choose_copy(rows, url, CopyChoice("root", NEW.address, is_admin=True), day=DAY).is_locked
    assert all(copy.is_locked for copy in _stored_copies(store, url))

    with store.writing() as rows:
        lock_copies(rows, url, is_locked=False, is_admin=True)
        assert not choose_copy(rows, url, BY, day=DAY).is_locked


def test_a_page_without_copies_cannot_be_locked(store: RegistryStore, url: UrlRow) -> None:
    """There is nothing to choose among yet."""
    with store.writing() as rows, pytest.raises(InputError, match="no copies yet"):
        lock_copies(rows, url, is_locked=True, is_admin=True)


def test_a_copy_is_forgotten(store: RegistryStore, url: UrlRow) -> None:
    """Once."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD], DAY)
        assert drop_copy(rows, url.id, "wayback")
        assert not drop_copy(rows, url.id, "wayback")


def _due(store: RegistryStore, day: int) -> list[tuple[UrlRow, StoredCopy]]:
    with store.reading() as rows:
        return due_copies(rows, day, 10)


def _saw(store: RegistryStore, url: UrlRow, verdict: CopyVerdict, day: int) -> CopyCheckEffect:
    with store.writing() as rows:
        return record_copy_check(
            rows, url.id, copies_of_url(rows, url.id)[0], CopyCheckResult(verdict, NEW.address, NEW.timestamp), day
        )


def test_a_copy_is_looked_at_each_quarter(store: RegistryStore, url: UrlRow) -> None:
    """W32: not before, and again a quarter after it was seen; what has no address never."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD, ArchiveMemento("perma", "", "")], DAY)
    assert _due(store, DAY + VISIT_DAYS - 20) == []
    ((waiting, copy),) = _due(store, DAY + VISIT_DAYS)
    assert (waiting, copy.copy) == (url, OLD)

    with store.writing() as rows:
        record_copy_check(rows, url.id, copy, CopyCheckResult(CopyVerdict.GOOD), DAY + VISIT_DAYS)

    assert _due(store, DAY + 2 * VISIT_DAYS - 1) == []
    assert len(_due(store, DAY + 2 * VISIT_DAYS)) == 1


@pytest.mark.parametrize("verdict", [CopyVerdict.GONE, CopyVerdict.BAD, CopyVerdict.OTHER_PAGE])
def test_a_copy_is_dropped_at_the_second_look(store: RegistryStore, url: UrlRow, verdict: CopyVerdict) -> None:
    """W32: what is missed is looked at once more, a week later; what is back by then stays."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD], DAY)
    first = DAY + VISIT_DAYS
    assert _saw(store, url, verdict, first) is CopyCheckEffect.MISSED
    assert _stored_copies(store, url)[0].missed_day == first
    assert _due(store, first + SECOND_LOOK_DAYS - 1) == []
    assert _saw(store, url, verdict, first + 1) is CopyCheckEffect.MISSED  # too soon to be a second look
    assert _saw(store, url, CopyVerdict.GOOD, first + SECOND_LOOK_DAYS) is CopyCheckEffect.GOOD
    assert _saw(store, url, verdict, first + 100) is CopyCheckEffect.MISSED

    assert len(_due(store, first + 100 + SECOND_LOOK_DAYS)) == 1
    assert _saw(store, url, verdict, first + 100 + SECOND_LOOK_DAYS) is CopyCheckEffect.DROPPED

    assert _stored_copies(store, url) == ()


def test_what_says_nothing_changes_nothing(store: RegistryStore, url: UrlRow) -> None:
    """An archive that does not answer loses no copy, however often, and is asked again soon."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD], DAY)
    _saw(store, url, CopyVerdict.GONE, DAY + VISIT_DAYS)
    for look in range(1, 20):
        day = DAY + VISIT_DAYS + look * UNCLEAR_DAYS
        assert _saw(store, url, CopyVerdict.UNCLEAR, day) is CopyCheckEffect.UNCLEAR
        assert len(_due(store, day + UNCLEAR_DAYS)) == 1

    assert _stored_copies(store, url)[0].missed_day == DAY + VISIT_DAYS


def test_another_version_takes_the_place(store: RegistryStore, url: UrlRow) -> None:
    """Of one that the archive does not show any more; never of one that a person chose."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD], DAY)
    assert _saw(store, url, CopyVerdict.MOVED, DAY + 1) is CopyCheckEffect.MOVED
    assert _stored_copies(store, url)[0].copy == NEW

    with store.writing() as rows:
        choose_copy(rows, url, CopyChoice("ada", OLD.address), day=DAY)
    assert _saw(store, url, CopyVerdict.MOVED, DAY + 2) is CopyCheckEffect.GOOD
    assert _stored_copies(store, url)[0].copy == OLD


@pytest.mark.parametrize("outcome", list(CopySearchOutcome))
def test_archives_are_left_in_peace(store: RegistryStore, url: UrlRow, outcome: CopySearchOutcome) -> None:
    """Unfixable links are not searched again for half a year, failed searches for a day (B12)."""
    with store.writing() as rows:
        note_search(rows, url.id, outcome, DAY, "why")
        again = DAY + AGAIN_DAYS[outcome]

        assert urls_without_copy(rows, again - 1, 10) == []
        assert urls_without_copy(rows, again, 10) == [url]
        search = last_search(rows, url.id)

    assert search is not None
    assert (search.outcome, search.note, search.again_day) == (outcome, "why", again)


def test_links_without_a_copy_are_found(store: RegistryStore, url: UrlRow) -> None:
    """Dead ones; living ones when that is wanted; none that has a copy."""
    with store.writing() as rows:
        assert [each.url for each in urls_without_copy(rows, DAY, 10)] == [A]
        assert [each.url for each in urls_without_copy(rows, DAY, 10, living=True)] == [A, B]
        put_copies(rows, url.id, [ArchiveMemento("perma", "", "")], DAY)
        assert len(urls_without_copy(rows, DAY, 10)) == 1
        put_copies(rows, url.id, [OLD], DAY)
        assert urls_without_copy(rows, DAY, 10) == []


@pytest.mark.parametrize(("looks", "is_found"), [((18,), True), ((1, 18), False)])
def test_a_link_that_was_never_alive_is_looked_up_at_once(
    store: RegistryStore, url: UrlRow, looks: tuple[int, ...], is_found: bool
) -> None:
    """It need not be dead yet: it may have been for years. One that lived until lately is waited for."""
    history = pack_history(tuple(HistoryRun(code, 100 + n, 100 + n) for n, code in enumerate(looks)))
    with store.writing() as rows:
        rows.execute(update(urls).where(urls.c.id == url.id).values(state=int(LinkState.DYING), history=history))
        assert (url.id in {each.id for each in urls_without_copy(rows, DAY, 10)}) is is_found


def test_versions_for_other_days_go_with_the_chosen_one(store: RegistryStore, url: UrlRow) -> None:
    """They are offered beside it, not where a person chose, and leave when their archive lost it."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD], DAY)
        put_versions(rows, url.id, [OLD, NEW], DAY)
        assert [each.copy for each in citable_copies(rows, url.id)] == [OLD, NEW]
        choose_copy(rows, url, CopyChoice("ada", OLD.address), day=DAY)
        assert [each.copy for each in citable_copies(rows, url.id)] == [OLD]
        drop_copy(rows, url.id, OLD.service)
        put_copies(rows, url.id, [OLD], DAY)
        assert [each.copy for each in citable_copies(rows, url.id)] == [OLD]


def test_a_proposal_of_an_archives_address_goes_to_the_copies(store: RegistryStore, url: UrlRow) -> None:
    """W17: kept with its archive's name; any other address is none of ours."""
    takes = partial(keep_proposed_copy, own=["https://front.example"])
    with store.writing() as rows:
        assert takes(rows, url, "http://archive.is/20120918092600/http://a.test/", NOW) == "archive-today"
        assert takes(rows, url, "http://c.test/", NOW) == ""
        assert takes(rows, url, "https://evil.example/20160115102033/http://a.test/", NOW) == ""
        assert takes(rows, url, "https://front.example/page/20200101000000/http://a.test/", NOW) == "weboid"

    assert {copy.service for copy in _stored_copies(store, url)} == {"archive-today", "weboid"}


def test_a_proposal_changes_no_version_that_is_there(store: RegistryStore, url: UrlRow) -> None:
    """Anybody may propose; so nobody loses a good copy by it."""
    with store.writing() as rows:
        put_copies(rows, url.id, [OLD], DAY)
        assert keep_proposed_copy(rows, url, NEW.address, NOW) == "wayback"

    assert _stored_copies(store, url)[0].copy == OLD


@pytest.mark.parametrize(
    "address",
    [
        "https://web.archive.org/web/20160115102033/http://b.test/",
        "https://web.archive.org/save/http://a.test/",
        "https://www.webcitation.org/query?url=http://a.test/&date=2009-01-31",
    ],
)
def test_a_proposal_of_a_wrong_copy_is_refused(store: RegistryStore, url: UrlRow, address: str) -> None:
    """An archive's, but of another page, or none that can be read."""
    with store.writing() as rows, pytest.raises(RefusedAddressError):
        keep_proposed_copy(rows, url, address, NOW)

    with store.reading() as rows:
        assert rows.execute(select(copies)).all() == []


def test_the_dead_are_named_as_their_index_has_them() -> None:
    """The numbers of the states stand in the index, too."""
    assert frozenset({LinkState(3), LinkState(5), LinkState(8)}) == DEAD


@pytest.mark.parametrize(
    ("reader", "indexes"),
    [(due_copies, ["link_copies_due"]), (urls_without_copy, ["link_urls_lost", "link_urls_dying"])],
)
def test_no_question_walks_through_all_rows(
    store: RegistryStore, url: UrlRow, reader: Callable[[Connection, int, int], object], indexes: list[str]
) -> None:
    """Due copies and links without a copy are found by an index, and nothing is sorted."""
    statements: list[str] = []
    with store.reading() as rows:
        raw = rows.connection.dbapi_connection
        assert raw is not None
        raw.set_trace_callback(statements.append)
        reader(rows, DAY, 10)
        raw.set_trace_callback(None)
        plans = [[str(row[3]) for row in rows.exec_driver_sql(f"EXPLAIN QUERY PLAN {each}")] for each in statements]

    for index, plan in zip(indexes, plans, strict=True):
        assert any(index in step for step in plan), plan
        assert not any("TEMP B-TREE" in step for step in plan), plan


@pytest.mark.slow
def test_every_statement_runs_on_postgresql(database_url: str, tmp_path: Path) -> None:
    """The tests above run on SQLite alone."""
    store = open_registry(Layout(tmp_path), database_url)
    try:
        url = _watched(store)
        with store.writing() as rows:
            assert put_copies(rows, url.id, [OLD, ArchiveMemento("perma", "", "")], DAY) == 2
            assert put_copies(rows, url.id, [NEW], DAY) == 1
            put_versions(rows, url.id, [OLD, NEW], DAY)
            put_versions(rows, url.id, [OLD], DAY)
            assert [each.copy for each in citable_copies(rows, url.id) if each.address] == [NEW, OLD]
            assert lock_copies(rows, url, is_locked=True, is_admin=False) == 2
            chosen = choose_copy(rows, url, CopyChoice("ada", OLD.address, is_admin=True), day=DAY)
            assert (chosen.copy, chosen.is_locked, chosen.chosen_by) == (OLD, True, "ada")
            ((_, copy),) = due_copies(rows, DAY + VISIT_DAYS, 10)
            assert (
                record_copy_check(rows, url.id, copy, CopyCheckResult(CopyVerdict.UNCLEAR), DAY)
                is CopyCheckEffect.UNCLEAR
            )
            assert (
                record_copy_check(rows, url.id, copy, CopyCheckResult(CopyVerdict.GONE), DAY) is CopyCheckEffect.MISSED
            )
            ((_, missed),) = due_copies(rows, DAY + SECOND_LOOK_DAYS, 10)
            later = DAY + SECOND_LOOK_DAYS
            assert (
                record_copy_check(rows, url.id, missed, CopyCheckResult(CopyVerdict.GONE), later)
                is CopyCheckEffect.DROPPED
            )
            note_search(rows, url.id, CopySearchOutcome.UNFIXABLE, DAY)
            note_search(rows, url.id, CopySearchOutcome.TROUBLE, DAY)
            assert last_search(rows, url.id) == (DAY, CopySearchOutcome.TROUBLE, "")
            assert [each.url for each in urls_without_copy(rows, DAY + 1, 10, living=True)] == [A, B]
            assert lock_copies(rows, url, is_locked=False, is_admin=True) > 0
            assert keep_proposed_copy(rows, url, TODAY.address, NOW) == "archive-today"
            assert drop_copy(rows, url.id, "archive-today")
    finally:
        store.close()
