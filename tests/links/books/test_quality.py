"""The book of checks, on both databases: what is kept, what counts, and in which order it comes."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.classes import PageClass
from core.errors import InputError, InvariantError
from core.quality import Check, Fault, Judge, LostPart, Verdict
from core.timestamps import warc_date
from links.books.quality import (
    CheckedPage,
    Filter,
    Place,
    RepairState,
    ahead,
    already_checked,
    awaiting_repair,
    checks_of,
    checks_of_urls,
    forget_checks,
    in_repair,
    keep_checks,
    parse_place,
    recorded,
    repair_begun,
    repair_ended,
    review,
    tally,
    unrecorded,
    want_repair,
    worst,
)
from links.books.quality_counts import checked_since, count_unrecorded, repairs_by_state
from links.books.retention import purge
from links.store.store import Store

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
URL = "https://a.example/page"


def at(minutes: int) -> datetime:
    """So many minutes later."""
    return NOW + timedelta(minutes=minutes)


def checked(page_id: str = "p1", *, minute: int = 0, **facts: Any) -> CheckedPage:
    """A check of a page; its score and verdict as given."""
    of_page: dict[str, Any] = {
        name: facts.pop(name) for name in ("host", "page_class") if name in facts
    }
    given: dict[str, Any] = {
        "url": URL,
        "captured_at": warc_date(NOW - timedelta(days=1)),
        "level": "images",
        "checked_at": warc_date(at(minute)),
        "engine": "e1",
        "verdict": Verdict.GOOD,
        "score": 0.9,
    }
    check = Check(page_id, **{**given, **facts})
    known: dict[str, Any] = {"host": "a.example", "page_class": PageClass.OK, **of_page}
    return CheckedPage(check, **known)


def keep(store: Store, *rows: CheckedPage) -> None:
    """Keep the checks."""
    with store.writing() as connection:
        keep_checks(connection, rows, NOW)


def only(store: Store, page_id: str = "p1") -> CheckedPage:
    """The one row of the page."""
    with store.snapshot() as reader:
        (row,) = checks_of(reader, [page_id])
    return row


def judge(store: Store, verdict: Verdict, *, minute: int, page_id: str = "p1") -> bool:
    """A person's word."""
    with store.writing() as connection:
        return review(connection, page_id, "images", verdict, by="Ada", note="why", now=at(minute))


def ids(rows: Iterable[CheckedPage]) -> list[str]:
    """Which pages."""
    return [row.check.page_id for row in rows]


FULL = checked(
    "0f3c-91",
    verdict=Verdict.BROKEN,
    score=0.1 + 0.2,
    picture=0.3,
    text=None,
    resources=1 / 3,
    faults=(Fault.LOST, Fault.LAYOUT),
    lost=(LostPart("https://a.example/ä.css", "status: 404"), LostPart("x", "missing")),
    reason="A style sheet is missing.",
    seconds=1.25,
    better="0f3c-92",
    parts_seen=3,
    parts_shown=1,
    page_class=PageClass.NEAR_EMPTY,
)


def test_a_check_comes_back_as_it_was_kept(store: Store) -> None:
    """To the last digit of its scores; nobody has judged it, and it is wanted to be repaired."""
    keep(store, FULL)

    found = only(store, "0f3c-91")

    assert found.check == FULL.check
    assert (found.host, found.page_class) == ("a.example", PageClass.NEAR_EMPTY)
    assert found.verdict is Verdict.BROKEN
    assert found.review is Verdict.UNCHECKED
    assert found.repair is RepairState.WANTED
    assert found.said == FULL.check


def test_what_the_web_says_is_cut_and_cleaned(store: Store) -> None:
    """NUL and halves of characters stop no database; no text is longer than its bound."""
    lost = tuple(LostPart("data:\0" + "x" * 5_000, "why\ud800") for _ in range(99))
    keep(store, checked(url="https://a.example/\0\ud800", lost=lost, reason="r\0" * 9_000))

    found = only(store).check

    assert found.url == "https://a.example/?"
    assert len(found.lost) == 50
    assert len(found.lost[0].url) < 2_001
    assert found.lost[0].reason == "why?"
    assert len(found.reason) <= 500


@pytest.mark.parametrize("page_id", ["", "../x", "a/b", "a" * 129, "ä", "a.b"])
def test_an_id_that_could_lead_elsewhere_is_refused(sqlite_store: Store, page_id: str) -> None:
    """Of the page; and of the level."""
    with pytest.raises(InputError, match="No page's id"):
        keep(sqlite_store, checked(page_id))
    with pytest.raises(InputError, match="No page's id"):
        keep(sqlite_store, checked(level=page_id))


def test_another_engines_check_takes_the_place_of_the_last(store: Store) -> None:
    """At that level alone; an older one, which comes late, changes nothing."""
    keep(store, checked(minute=5, score=0.4, verdict=Verdict.DOUBTFUL), checked(level="full"))
    keep(store, checked(minute=6, engine="e2", score=0.8))
    keep(store, checked(minute=4, engine="e0", score=0.0, verdict=Verdict.BROKEN))

    with store.snapshot() as reader:
        rows = checks_of(reader, ["p1"])
        now_known = already_checked(reader, ["p1", "p2"], "images", "e2")
        before = already_checked(reader, ["p1"], "images", "e1")

    assert [(row.check.level, row.check.engine) for row in rows] == [
        ("full", "e1"),
        ("images", "e2"),
    ]
    assert rows[1].check.score == 0.8
    assert (now_known, before) == ({"p1"}, set())


def test_of_two_checks_kept_at_once_the_newer_counts(store: Store) -> None:
    """Whichever comes first in the list."""
    keep(store, checked("p1", minute=2, score=0.2), checked("p1", minute=1, score=0.1))
    keep(store, checked("p2", minute=1, score=0.1), checked("p2", minute=2, score=0.2))

    assert [only(store, each).check.score for each in ("p1", "p2")] == [0.2, 0.2]


def test_a_persons_word_counts_and_outlives_new_checks(store: Store) -> None:
    """Until it is taken back; what is written to a WARC says whose word it is."""
    keep(store, checked(verdict=Verdict.BROKEN, score=0.1))

    assert judge(store, Verdict.GOOD, minute=1)
    keep(store, checked(minute=2, engine="e2", verdict=Verdict.BROKEN, score=0.2))
    row = only(store)

    assert (row.verdict, row.check.verdict) == (Verdict.GOOD, Verdict.BROKEN)
    assert (row.reviewed_by, row.reviewed_at, row.note) == ("Ada", at(1), "why")
    assert row.repair is RepairState.NONE
    said = replace(row.check, verdict=Verdict.GOOD, judge=Judge.PERSON, note="why")
    assert row.said == said
    assert judge(store, Verdict.UNCHECKED, minute=3)
    row = only(store)
    assert (row.verdict, row.said.judge) == (Verdict.BROKEN, Judge.MACHINE)
    assert row.said.checked_at == warc_date(at(3))
    assert row.repair is RepairState.WANTED


def test_a_persons_word_on_what_nobody_checked_is_not_kept(store: Store) -> None:
    """The caller is told."""
    assert not judge(store, Verdict.GOOD, minute=1)


def test_a_persons_word_is_never_kept_as_a_machines(sqlite_store: Store) -> None:
    """What was read from a WARC would else become a check."""
    with pytest.raises(InvariantError, match="review"):
        keep(sqlite_store, checked(judge=Judge.PERSON))


def test_each_change_is_to_be_recorded_once(store: Store) -> None:
    """A change that comes while the last is being written is not lost."""
    keep(store, checked("p1"), checked("p2"))
    with store.writing() as connection:
        first = unrecorded(connection, 10)
        recorded(connection, [row.key for row in first])
        assert unrecorded(connection, 10) == []

    judge(store, Verdict.BROKEN, minute=-60)
    with store.writing() as connection:
        (changed,) = unrecorded(connection, 10)
    judge(store, Verdict.GOOD, minute=-60)
    with store.writing() as connection:
        recorded(connection, [changed.key])
        (again,) = unrecorded(connection, 10)

    assert ids(first) == ["p1", "p2"]
    # However wrong the clock of whoever says it: of two records the newer counts.
    assert first[0].said.checked_at < changed.said.checked_at < again.said.checked_at


def test_what_is_to_be_recorded_comes_in_pages(store: Store) -> None:
    """Behind what could not be written, too."""
    keep(store, *(checked(f"p{number}", level=level) for number in range(3) for level in "ab"))
    with store.snapshot() as reader:
        first = unrecorded(reader, 3)
        rest = unrecorded(reader, 10, after=first[-1].key)

    assert ids([*first, *rest]) == ["p0", "p0", "p1", "p1", "p2", "p2"]


def test_captures_of_a_url_are_found_in_any_spelling(store: Store) -> None:
    """The newest first."""
    days = [warc_date(NOW - timedelta(days=days)) for days in (3, 1, 2)]
    keep(store, *(checked(f"p{day[8:10]}", captured_at=day) for day in days))
    keep(store, checked("other", url="https://b.example/"))

    with store.snapshot() as reader:
        found = checks_of_urls(reader, ["HTTPS://A.example:443/page#top"])

    assert ids(found) == ["p21", "p20", "p19"]


def test_what_was_erased_is_forgotten(store: Store) -> None:
    """At each level; others stay."""
    keep(store, checked("p1"), checked("p1", level="full"), checked("p2"))
    with store.writing() as connection:
        assert forget_checks(connection, ["p1", "p3"]) == 2
        assert ids(checks_of(connection, ["p1", "p2"])) == ["p2"]


def test_a_purge_of_links_keeps_checks(store: Store) -> None:
    """They are of captures, which stay."""
    keep(store, checked())
    purge(store, day=100_000)

    assert only(store).check.url == URL


def test_a_place_is_read_back(sqlite_store: Store) -> None:
    """As it stands in an address; what is none is refused."""
    keep(sqlite_store, FULL)
    place = only(sqlite_store, "0f3c-91").place

    assert parse_place(str(place)) == place
    for text in ("", "0", "9:0.5:a:b", "0:nan:a:b", "0:2:a:b", "0:0.5:../a:b", "x:0.5:a:b"):
        with pytest.raises(InputError):
            parse_place(text)


def test_a_page_that_is_broken_is_repaired_once(store: Store) -> None:
    """Not again after it was tried, nor is the new capture; only when somebody says so."""
    broken: dict[str, Any] = {"verdict": Verdict.BROKEN, "score": 0.1}
    keep(store, checked(**broken), checked(level="full", **broken), checked("good"))
    with store.writing() as connection:
        assert ids(awaiting_repair(connection, 10)) == ["p1"]
        assert repair_begun(connection, "p1", "new", now=at(1))
        assert not repair_begun(connection, "p1", "newer", now=at(1))
        assert awaiting_repair(connection, 10) == []
        assert [row.repair_page_id for row in in_repair(connection, 10)] == ["new"]
    keep(store, checked("new", minute=2, **broken))
    with store.writing() as connection:
        assert repair_ended(connection, "p1", RepairState.DONE_NOT_BETTER, now=at(3))
        assert not repair_ended(connection, "p1", RepairState.FAILED, now=at(3))
    keep(store, checked(minute=4, engine="e2", **broken))

    with store.writing() as connection:
        assert awaiting_repair(connection, 10) == []
        assert want_repair(connection, "p1", "images", now=at(5))
        (row,) = awaiting_repair(connection, 10)
    assert (row.repair, row.repair_page_id, row.repair_at) == (RepairState.WANTED, "", at(5))


def test_a_better_capture_is_named_and_recorded(store: Store) -> None:
    """A later check, which knows none, keeps its name."""
    keep(store, checked(verdict=Verdict.BROKEN, score=0.1))
    with store.writing() as connection:
        recorded(connection, [row.key for row in unrecorded(connection, 10)])
        repair_begun(connection, "p1", "new", now=at(1))
        assert unrecorded(connection, 10) == []
        repair_ended(connection, "p1", RepairState.DONE_BETTER, now=at(2))
        (row,) = unrecorded(connection, 10)

    assert (row.repair, row.repair_page_id) == (RepairState.DONE_BETTER, "new")
    assert row.said == replace(row.check, better="new", checked_at=warc_date(at(2)))
    keep(store, checked(minute=3, engine="e2", verdict=Verdict.BROKEN, score=0.1))
    assert only(store).check.better == "new"


def test_what_is_good_after_all_is_not_repaired(store: Store) -> None:
    """When another engine shows it well, or a person says that it is well."""
    for page_id in ("p1", "p2"):
        keep(store, checked(page_id, verdict=Verdict.BROKEN, score=0.1))
    keep(store, checked("p1", minute=1, engine="e2"))
    judge(store, Verdict.GOOD, minute=1, page_id="p2")

    with store.snapshot() as reader:
        assert awaiting_repair(reader, 10) == []
    judge(store, Verdict.BROKEN, minute=2)
    with store.snapshot() as reader:
        assert ids(awaiting_repair(reader, 10)) == ["p1"]


def test_a_repair_ends_as_nothing_but_an_end(sqlite_store: Store) -> None:
    """A mistake of ours."""
    with pytest.raises(InvariantError), sqlite_store.writing() as connection:
        repair_ended(connection, "p1", RepairState.BEGUN, now=NOW)


def _everything() -> list[CheckedPage]:
    """Pages of all sorts."""
    verdicts = (Verdict.GOOD, Verdict.BROKEN, Verdict.DOUBTFUL, Verdict.UNCHECKED)
    faults = ((), (Fault.LOST,), (Fault.LOST, Fault.TEXT), (Fault.DAMAGED,))
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


def _is_wanted(row: CheckedPage, wanted: Filter) -> bool:
    """The filter in plain words."""
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
    Filter(),
    Filter(verdict=Verdict.DOUBTFUL),
    Filter(host="a.example", fault=Fault.LOST),
    Filter(fault=Fault.LOST, below=0.5),
    Filter(fault=Fault.NOT_SHOWN),
    Filter(page_class=PageClass.SOFT_404, level="full", unreviewed=True),
    Filter(level="full", verdict=Verdict.BROKEN),
    Filter(unreviewed=True, below=0.3),
]


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_pages_of_any_list_are_the_list_in_its_order(store: Store, wanted: Filter) -> None:
    """The worst first; no row twice, none left out, whatever is asked for and however long a page is."""
    keep(store, *_everything())
    judge(store, Verdict.BROKEN, minute=1, page_id="p00")
    with store.snapshot() as reader:
        rows = checks_of(reader, [f"p{number:02}" for number in range(48)])
        found: list[CheckedPage] = []
        after: Place | None = None
        while page := worst(reader, wanted, after, limit=5):
            found += page
            after = page[-1].place
        counted = tally(reader, wanted)
        bounded = tally(reader, wanted, limit=2)
        back: list[CheckedPage] = []
        before: Place | None = Place(3, 1.0, "~", "~")
        while before is not None and (page := ahead(reader, wanted, before, limit=5)):
            back += page
            before = page[-1].place

    expected = sorted((row for row in rows if _is_wanted(row, wanted)), key=lambda row: row.place)
    assert found == expected
    assert back == expected[::-1]
    assert sum(counted.values()) == len(expected)
    assert all(
        count == sum(row.verdict is each for row in expected) for each, count in counted.items()
    )
    assert bounded == {each: min(count, 2) for each, count in counted.items()}


def test_monitors_are_told_what_there_is_and_what_was_lately(store: Store) -> None:
    """A repair counts once, at however many levels its page is broken; so does a copy, however often checked."""
    keep(store, checked("p1", minute=0), checked("p1", minute=50))
    keep(store, checked("p2", minute=55, verdict=Verdict.BROKEN))
    keep(store, checked("p2", minute=56, verdict=Verdict.BROKEN, level="full"))
    keep(store, checked("p3", minute=1, verdict=Verdict.BROKEN))
    with store.writing() as connection:
        repair_begun(connection, "p3", "p4", now=at(2))
        repair_ended(connection, "p3", RepairState.DONE_BETTER, "p4", now=at(58))

    with store.snapshot() as reader:
        lately = checked_since(reader, at(50))
        every = repairs_by_state(reader)
        ended = repairs_by_state(reader, at(50))
        left = count_unrecorded(reader)

    assert lately == {Verdict.GOOD: 1, Verdict.BROKEN: 2}
    assert every[RepairState.WANTED] == every[RepairState.DONE_BETTER] == 1
    assert (every[RepairState.BEGUN], every[RepairState.FAILED]) == (0, 0)
    assert (ended[RepairState.WANTED], ended[RepairState.DONE_BETTER]) == (0, 1)
    assert left == 4
