"""The book of checks, on both databases: what is kept, what counts, and in which order it comes."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.errors import InputError, InvariantError
from core.page_classes import PageClass
from core.playback_check import LostPart, PlaybackCheck, PlaybackFault, QaVerdict, VerdictSource
from core.timestamps import warc_date
from links.registry.database import RegistryStore
from links.registry.retention import purge
from qa.check_store import (
    already_checked,
    begin_repair,
    count_by_verdict,
    count_checked_since,
    count_repairs,
    count_unrecorded,
    delete_checks,
    end_repair,
    find_checks,
    find_checks_of_urls,
    list_repairs,
    list_unrecorded,
    list_worst_first,
    mark_recorded,
    record_review,
    store_checks,
    want_repair,
)
from qa.check_table import CheckedPage, CheckFilter, CheckPosition, RepairState, parse_position

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
URL = "https://a.example/page"


def at(minutes: int) -> datetime:
    return NOW + timedelta(minutes=minutes)


def checked(page_id: str = "p1", *, minute: int = 0, **facts: Any) -> CheckedPage:
    """Return a check of a page; `facts` replace its plain values."""
    of_page: dict[str, Any] = {name: facts.pop(name) for name in ("host", "page_class") if name in facts}
    given: dict[str, Any] = {
        "url": URL,
        "captured_at": warc_date(NOW - timedelta(days=1)),
        "level": "images",
        "checked_at": warc_date(at(minute)),
        "engine": "e1",
        "verdict": QaVerdict.GOOD,
        "score": 0.9,
    }
    check = PlaybackCheck(page_id, **{**given, **facts})
    known: dict[str, Any] = {"host": "a.example", "page_class": PageClass.OK, **of_page}
    return CheckedPage(check, **known)


def keep(store: RegistryStore, *rows: CheckedPage) -> None:
    """Keep the checks."""
    with store.writing() as connection:
        store_checks(connection, rows, NOW)


def only(store: RegistryStore, page_id: str = "p1") -> CheckedPage:
    """Return the one row of the page."""
    with store.snapshot() as reader:
        (row,) = find_checks(reader, [page_id])
    return row


def judge(store: RegistryStore, verdict: QaVerdict, *, minute: int, page_id: str = "p1") -> bool:
    """Record a person's verdict; return False for an unknown capture."""
    with store.writing() as connection:
        return record_review(connection, page_id, "images", verdict, by="Ada", note="why", now=at(minute))


def ids(rows: Iterable[CheckedPage]) -> list[str]:
    """Return the page ids."""
    return [row.check.page_id for row in rows]


FULL = checked(
    "0f3c-91",
    verdict=QaVerdict.BROKEN,
    score=0.1 + 0.2,
    picture=0.3,
    text=None,
    resources=1 / 3,
    faults=(PlaybackFault.LOST, PlaybackFault.LAYOUT),
    lost=(LostPart("https://a.example/ä.css", "status: 404"), LostPart("x", "missing")),
    reason="A style sheet is missing.",
    seconds=1.25,
    better="0f3c-92",
    parts_seen=3,
    parts_shown=1,
    page_class=PageClass.NEAR_EMPTY,
)


def test_a_check_comes_back_as_it_was_kept(store: RegistryStore) -> None:
    """To the last digit of its scores; nobody has judged it, and it is wanted to be repaired."""
    keep(store, FULL)

    row = only(store, "0f3c-91")

    assert row.check == FULL.check
    assert (row.host, row.page_class) == ("a.example", PageClass.NEAR_EMPTY)
    assert row.verdict is QaVerdict.BROKEN
    assert row.review is QaVerdict.UNCHECKED
    assert row.repair is RepairState.WANTED
    assert row.effective_check == FULL.check


def test_what_the_web_says_is_cut_and_cleaned(store: RegistryStore) -> None:
    """NUL and halves of characters stop no database; no text is longer than its bound."""
    lost = tuple(LostPart("data:\0" + "x" * 5_000, "why\ud800") for _ in range(99))
    keep(store, checked(url="https://a.example/\0\ud800", lost=lost, reason="r\0" * 9_000))

    check = only(store).check

    assert check.url == "https://a.example/?"
    assert len(check.lost) == 50
    assert len(check.lost[0].url) < 2_001
    assert check.lost[0].reason == "why?"
    assert len(check.reason) <= 500


@pytest.mark.parametrize("page_id", ["", "../x", "a/b", "a" * 129, "ä", "a.b"])
def test_an_id_that_could_lead_elsewhere_is_refused(sqlite_store: RegistryStore, page_id: str) -> None:
    """Of the page; and of the level."""
    with pytest.raises(InputError, match="Not a page ID"):
        keep(sqlite_store, checked(page_id))
    with pytest.raises(InputError, match="Not a page ID"):
        keep(sqlite_store, checked(level=page_id))


def test_another_engines_check_takes_the_place_of_the_last(store: RegistryStore) -> None:
    """At that level alone; an older one, which comes late, changes nothing."""
    keep(store, checked(minute=5, score=0.4, verdict=QaVerdict.DOUBTFUL), checked(level="full"))
    keep(store, checked(minute=6, engine="e2", score=0.8))
    keep(store, checked(minute=4, engine="e0", score=0.0, verdict=QaVerdict.BROKEN))

    with store.snapshot() as reader:
        rows = find_checks(reader, ["p1"])
        now_known = already_checked(reader, ["p1", "p2"], "images", "e2")
        before = already_checked(reader, ["p1"], "images", "e1")

    assert [(row.check.level, row.check.engine) for row in rows] == [("full", "e1"), ("images", "e2")]
    assert rows[1].check.score == 0.8
    assert (now_known, before) == ({"p1"}, set())


def test_of_two_checks_kept_at_once_the_newer_counts(store: RegistryStore) -> None:
    """Whichever comes first in the list."""
    keep(store, checked("p1", minute=2, score=0.2), checked("p1", minute=1, score=0.1))
    keep(store, checked("p2", minute=1, score=0.1), checked("p2", minute=2, score=0.2))

    assert [only(store, each).check.score for each in ("p1", "p2")] == [0.2, 0.2]


def test_a_persons_word_counts_and_outlives_new_checks(store: RegistryStore) -> None:
    """Until it is taken back; what is written to a WARC says whose word it is."""
    keep(store, checked(verdict=QaVerdict.BROKEN, score=0.1))

    assert judge(store, QaVerdict.GOOD, minute=1)
    keep(store, checked(minute=2, engine="e2", verdict=QaVerdict.BROKEN, score=0.2))
    row = only(store)

    assert (row.verdict, row.check.verdict) == (QaVerdict.GOOD, QaVerdict.BROKEN)
    assert (row.reviewed_by, row.reviewed_at, row.note) == ("Ada", at(1), "why")
    assert row.repair is RepairState.NONE
    reviewed_check = replace(row.check, verdict=QaVerdict.GOOD, judge=VerdictSource.PERSON, note="why")
    assert row.effective_check == reviewed_check
    assert judge(store, QaVerdict.UNCHECKED, minute=3)
    row = only(store)
    assert (row.verdict, row.effective_check.judge) == (QaVerdict.BROKEN, VerdictSource.MACHINE)
    assert row.effective_check.checked_at == warc_date(at(3))
    assert row.repair is RepairState.WANTED


def test_a_persons_word_on_what_nobody_checked_is_not_kept(store: RegistryStore) -> None:
    """The caller is told."""
    assert not judge(store, QaVerdict.GOOD, minute=1)


def test_a_persons_word_is_never_kept_as_a_machines(sqlite_store: RegistryStore) -> None:
    """Otherwise a review that was read from a WARC would become a check."""
    with pytest.raises(InvariantError, match="review"):
        keep(sqlite_store, checked(judge=VerdictSource.PERSON))


def test_each_change_is_to_be_recorded_once(store: RegistryStore) -> None:
    """A change that comes while the last is being written is not lost."""
    keep(store, checked("p1"), checked("p2"))
    with store.writing() as connection:
        first = list_unrecorded(connection, 10)
        mark_recorded(connection, [row.key for row in first])
        assert list_unrecorded(connection, 10) == []

    judge(store, QaVerdict.BROKEN, minute=-60)
    with store.writing() as connection:
        (changed,) = list_unrecorded(connection, 10)
    judge(store, QaVerdict.GOOD, minute=-60)
    with store.writing() as connection:
        mark_recorded(connection, [changed.key])
        (again,) = list_unrecorded(connection, 10)

    assert ids(first) == ["p1", "p2"]
    # However wrong the clock of whoever says it: of two records the newer counts.
    assert first[0].effective_check.checked_at < changed.effective_check.checked_at < again.effective_check.checked_at


def test_what_is_to_be_recorded_comes_in_pages(store: RegistryStore) -> None:
    """Behind what could not be written, too."""
    keep(store, *(checked(f"p{number}", level=level) for number in range(3) for level in "ab"))
    with store.snapshot() as reader:
        first = list_unrecorded(reader, 3)
        rest = list_unrecorded(reader, 10, after=first[-1].key)

    assert ids([*first, *rest]) == ["p0", "p0", "p1", "p1", "p2", "p2"]


def test_captures_of_a_url_are_found_in_any_spelling(store: RegistryStore) -> None:
    """The newest first."""
    days = [warc_date(NOW - timedelta(days=days)) for days in (3, 1, 2)]
    keep(store, *(checked(f"p{day[8:10]}", captured_at=day) for day in days))
    keep(store, checked("other", url="https://b.example/"))

    with store.snapshot() as reader:
        rows = find_checks_of_urls(reader, ["HTTPS://A.example:443/page#top"])

    assert ids(rows) == ["p21", "p20", "p19"]


def test_what_was_erased_is_forgotten(store: RegistryStore) -> None:
    """At each level; others stay."""
    keep(store, checked("p1"), checked("p1", level="full"), checked("p2"))
    with store.writing() as connection:
        assert delete_checks(connection, ["p1", "p3"]) == 2
        assert ids(find_checks(connection, ["p1", "p2"])) == ["p2"]


def test_a_purge_of_links_keeps_checks(store: RegistryStore) -> None:
    """They are of captures, which stay."""
    keep(store, checked())
    purge(store, day=100_000)

    assert only(store).check.url == URL


def test_a_place_is_read_back(sqlite_store: RegistryStore) -> None:
    """As it stands in an address; what is none is refused."""
    keep(sqlite_store, FULL)
    place = only(sqlite_store, "0f3c-91").place

    assert parse_position(str(place)) == place
    for text in ("", "0", "9:0.5:a:b", "0:nan:a:b", "0:2:a:b", "0:0.5:../a:b", "x:0.5:a:b"):
        with pytest.raises(InputError):
            parse_position(text)


def test_a_page_that_is_broken_is_repaired_once(store: RegistryStore) -> None:
    """Not again after it was tried, nor is the new capture; only when somebody says so."""
    broken: dict[str, Any] = {"verdict": QaVerdict.BROKEN, "score": 0.1}
    keep(store, checked(**broken), checked(level="full", **broken), checked("good"))
    with store.writing() as connection:
        assert ids(list_repairs(connection, RepairState.WANTED, 10)) == ["p1"]
        assert begin_repair(connection, "p1", "new", now=at(1))
        assert not begin_repair(connection, "p1", "newer", now=at(1))
        assert list_repairs(connection, RepairState.WANTED, 10) == []
        assert [row.repair_page_id for row in list_repairs(connection, RepairState.BEGUN, 10)] == ["new"]
    keep(store, checked("new", minute=2, **broken))
    with store.writing() as connection:
        assert end_repair(connection, "p1", RepairState.DONE_NOT_BETTER, now=at(3))
        assert not end_repair(connection, "p1", RepairState.FAILED, now=at(3))
    keep(store, checked(minute=4, engine="e2", **broken))

    with store.writing() as connection:
        assert list_repairs(connection, RepairState.WANTED, 10) == []
        assert want_repair(connection, "p1", "images", now=at(5))
        (row,) = list_repairs(connection, RepairState.WANTED, 10)
    assert (row.repair, row.repair_page_id) == (RepairState.WANTED, "")


def test_a_better_capture_is_named_and_recorded(store: RegistryStore) -> None:
    """A later check, which knows none, keeps its name."""
    keep(store, checked(verdict=QaVerdict.BROKEN, score=0.1))
    with store.writing() as connection:
        mark_recorded(connection, [row.key for row in list_unrecorded(connection, 10)])
        begin_repair(connection, "p1", "new", now=at(1))
        assert list_unrecorded(connection, 10) == []
        end_repair(connection, "p1", RepairState.DONE_BETTER, now=at(2))
        (row,) = list_unrecorded(connection, 10)

    assert (row.repair, row.repair_page_id) == (RepairState.DONE_BETTER, "new")
    assert row.effective_check == replace(row.check, better="new", checked_at=warc_date(at(2)))
    keep(store, checked(minute=3, engine="e2", verdict=QaVerdict.BROKEN, score=0.1))
    assert only(store).check.better == "new"


def test_what_is_good_after_all_is_not_repaired(store: RegistryStore) -> None:
    """When another engine shows it well, or a person says that it is well."""
    for page_id in ("p1", "p2"):
        keep(store, checked(page_id, verdict=QaVerdict.BROKEN, score=0.1))
    keep(store, checked("p1", minute=1, engine="e2"))
    judge(store, QaVerdict.GOOD, minute=1, page_id="p2")

    with store.snapshot() as reader:
        assert list_repairs(reader, RepairState.WANTED, 10) == []
    judge(store, QaVerdict.BROKEN, minute=2)
    with store.snapshot() as reader:
        assert ids(list_repairs(reader, RepairState.WANTED, 10)) == ["p1"]


def test_a_repair_ends_as_nothing_but_an_end(sqlite_store: RegistryStore) -> None:
    """A mistake of ours."""
    with pytest.raises(InvariantError), sqlite_store.writing() as connection:
        end_repair(connection, "p1", RepairState.BEGUN, now=NOW)


def _everything() -> list[CheckedPage]:
    """Return checks of pages of all sorts."""
    verdicts = (QaVerdict.GOOD, QaVerdict.BROKEN, QaVerdict.DOUBTFUL, QaVerdict.UNCHECKED)
    faults = ((), (PlaybackFault.LOST,), (PlaybackFault.LOST, PlaybackFault.TEXT), (PlaybackFault.DAMAGED,))
    return [
        checked(
            f"p{number:02}",
            verdict=verdicts[number % 4],
            score=None if number % 11 == 0 else number % 7 / 7,
            faults=faults[number // 3 % 4],
            host=("a.example", "b.example")[number % 2],
            page_class=(PageClass.OK, PageClass.SOFT_404)[number // 2 % 2],
            level=("images", "full")[number // 5 % 2],
        )
        for number in range(48)
    ]


def _is_wanted(row: CheckedPage, wanted: CheckFilter) -> bool:
    """Return whether the row passes the filter, compared field by field."""
    return (
        wanted.verdict in (None, row.verdict)
        and wanted.host in (None, row.host)
        and wanted.page_class in (None, row.page_class)
        and wanted.level in (None, row.check.level)
        and (wanted.fault is None or wanted.fault in row.check.faults)
        and (wanted.below is None or (row.check.score or -1) < wanted.below)
        and not (wanted.unreviewed and row.review)
    )


FILTERS = [
    CheckFilter(),
    CheckFilter(verdict=QaVerdict.DOUBTFUL),
    CheckFilter(host="a.example", fault=PlaybackFault.LOST),
    CheckFilter(fault=PlaybackFault.LOST, below=0.5),
    CheckFilter(fault=PlaybackFault.NOT_SHOWN),
    CheckFilter(page_class=PageClass.SOFT_404, level="full", unreviewed=True),
    CheckFilter(level="full", verdict=QaVerdict.BROKEN),
    CheckFilter(unreviewed=True, below=0.3),
]


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_pages_of_any_list_are_the_list_in_its_order(store: RegistryStore, wanted: CheckFilter) -> None:
    """The worst first; no row twice, none left out, whatever is asked for and however long a page is."""
    keep(store, *_everything())
    judge(store, QaVerdict.BROKEN, minute=1, page_id="p00")
    with store.snapshot() as reader:
        rows = find_checks(reader, [f"p{number:02}" for number in range(48)])
        listed_rows: list[CheckedPage] = []
        after: CheckPosition | None = None
        while page := list_worst_first(reader, wanted, after, limit=5):
            listed_rows += page
            after = page[-1].place
        counted = count_by_verdict(reader, wanted)
        bounded = count_by_verdict(reader, wanted, limit=2)
        back: list[CheckedPage] = []
        before: CheckPosition | None = CheckPosition(3, 1.0, "~", "~")
        while before is not None and (page := list_worst_first(reader, wanted, before, limit=5, backward=True)):
            back += page
            before = page[-1].place

    expected = sorted((row for row in rows if _is_wanted(row, wanted)), key=lambda row: row.place)
    assert listed_rows == expected
    assert back == expected[::-1]
    assert sum(counted.values()) == len(expected)
    assert all(count == sum(row.verdict is each for row in expected) for each, count in counted.items())
    assert bounded == {each: min(count, 2) for each, count in counted.items()}


def test_monitors_are_told_what_there_is_and_what_was_lately(store: RegistryStore) -> None:
    """A repair counts once, at however many levels its page is broken; so does a copy, however often checked."""
    keep(store, checked("p1", minute=0), checked("p1", minute=50))
    keep(store, checked("p2", minute=55, verdict=QaVerdict.BROKEN))
    keep(store, checked("p2", minute=56, verdict=QaVerdict.BROKEN, level="full"))
    keep(store, checked("p3", minute=1, verdict=QaVerdict.BROKEN))
    with store.writing() as connection:
        begin_repair(connection, "p3", "p4", now=at(2))
        end_repair(connection, "p3", RepairState.DONE_BETTER, "p4", now=at(58))

    with store.snapshot() as reader:
        lately = count_checked_since(reader, at(50))
        every = count_repairs(reader)
        ended = count_repairs(reader, at(50))
        left = count_unrecorded(reader)

    assert lately == {QaVerdict.GOOD: 1, QaVerdict.BROKEN: 2}
    assert every[RepairState.WANTED] == every[RepairState.DONE_BETTER] == 1
    assert (every[RepairState.BEGUN], every[RepairState.FAILED]) == (0, 0)
    assert (ended[RepairState.WANTED], ended[RepairState.DONE_BETTER]) == (0, 1)
    assert left == 4
