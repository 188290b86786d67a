"""What is kept of results."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, insert, select

from links.checking.booking import Booked, Result, book
from links.checking.judging import OBSERVATIONS, Kept, Rules, change_of, storable
from links.checking.opining import awaiting_opinion
from links.checking.quirk_rows import quirks_of
from links.days import LAST_DAY
from links.findings import Finding, Hop, How, Verdict
from links.history import unpack
from links.locator import key_of
from links.presets import DEFAULT, DEWIKI, IABOT
from links.quirks import HostQuirk
from links.states import Standing, State
from links.status import Code
from links.store.schema import observations, reports, url_quirks, urls
from links.store.store import Store
from tests.links.checking.farm import Days
from tests.links.checking.rows import row_of, seen_of, watch

FINE = Finding(Code.FINE, Verdict.OK, How.GET, http=200, mime="text/html")
GONE = Finding(Code.NOT_FOUND, Verdict.GONE, How.GET, http=404)
WITH_BROWSER = Rules(DEFAULT, browser=True)
URL = "http://a.example/x"


def _book(store: Store, url_id: int, finding: Finding, day: int) -> Booked:
    with store.writing() as rows:
        return book(rows, [Result(url_id, finding, Days(day).now())], WITH_BROWSER)[0]


def _dying(store: Store, url_id: int) -> int:
    """Let the link fail until it awaits the browser; the day of that."""
    for day in range(100, 130, 3):
        if _book(store, url_id, GONE, day).awaits_opinion:
            return day
    raise AssertionError("It never awaits the browser.")


def test_a_link_is_dead_when_the_browser_fails_at_it_too(store: Store) -> None:
    """Dying before, dead after, and nobody is awaited any more."""
    url_id = watch(store, [URL])[URL]
    day = _dying(store, url_id)
    with store.reading() as rows:
        awaiting = awaiting_opinion(rows, limit=5)
    assert [each.url for each in awaiting] == [URL]
    assert row_of(store, url_id).state == State.DYING

    booked = _book(store, url_id, replace(GONE, how=How.BROWSER), day)

    assert (booked.before, booked.after) == (State.DYING, State.DEAD)
    with store.reading() as rows:
        assert awaiting_opinion(rows, limit=5) == []


def test_a_page_that_the_browser_sees_makes_our_failures_there_worthless(
    sqlite_store: Store,
) -> None:
    """The link is alive; what fails on that host goes to the browser, and is nobody's failure."""
    ids = watch(sqlite_store, [URL, "http://a.example/y"])
    day = _dying(sqlite_store, ids[URL])

    saw = _book(sqlite_store, ids[URL], replace(FINE, how=How.BROWSER), day)
    other = _book(sqlite_store, ids["http://a.example/y"], GONE, day + 1)

    assert saw.after is State.ALIVE
    with sqlite_store.reading() as rows:
        assert HostQuirk.UNVERIFIABLE in quirks_of(rows, ["a.example"], day=day)["a.example"]
    row = row_of(sqlite_store, other.url_id)
    assert (row.fails, other.awaits_opinion) == (0, True)


def test_looks_that_change_nothing_leave_no_rows(sqlite_store: Store) -> None:
    """The first does, and whatever fails; of a URL only the last few are kept."""
    url_id = watch(sqlite_store, [URL])[URL]
    for day in range(100, 200, 7):
        _book(sqlite_store, url_id, FINE, day)
    assert len(seen_of(sqlite_store, url_id)) == 1

    for day in range(200, 260, 3):
        _book(sqlite_store, url_id, GONE, day)

    seen = seen_of(sqlite_store, url_id)
    assert len(seen) == OBSERVATIONS
    assert {row.verdict for row in seen} == {"gone"}
    last = int(Days(257).now().timestamp())
    assert seen[-1].moment == last


def test_a_good_answer_takes_reports_away(sqlite_store: Store) -> None:
    """That somebody reaches the page is no news any more (W14); one for another URL stays."""
    ids = watch(sqlite_store, [URL, "http://a.example/y"])
    with sqlite_store.writing() as rows:
        for number, url_id in enumerate(ids.values()):
            values: dict[str, Any] = {"host_id": 1, "moment": 1, "expires_day": 999}
            rows.execute(
                insert(reports).values(url_id=url_id, reporter=bytes([number]) * 16, **values)
            )

    _book(sqlite_store, ids[URL], GONE, 100)
    with sqlite_store.reading() as rows:
        assert rows.execute(select(func.count()).select_from(reports)).scalar_one() == 2
    _book(sqlite_store, ids[URL], FINE, 103)

    with sqlite_store.reading() as rows:
        left = rows.execute(select(reports.c.url_id)).scalars().all()
    assert left == [ids["http://a.example/y"]]


def test_unusual_types_are_kept_with_their_length(sqlite_store: Store) -> None:
    """In whole KiB (W57, W66); a failure takes nothing away, a page does."""
    url_id = watch(sqlite_store, [URL])[URL]

    def kept(finding: Finding, day: int) -> tuple[str | None, int | None]:
        _book(sqlite_store, url_id, finding, day)
        row = row_of(sqlite_store, url_id)
        return row.mime, row.kib

    pdf = replace(FINE, mime="application/pdf", length=10_241)
    assert kept(pdf, 100) == ("pdf", 11)
    assert kept(GONE, 107) == ("pdf", 11)
    assert kept(replace(pdf, length=None), 110) == ("pdf", 11)
    assert kept(FINE, 117) == (None, None)


def test_moves_and_bad_certificates_are_kept_of_urls(sqlite_store: Store) -> None:
    """For half a year each (W56)."""
    url_id = watch(sqlite_store, ["https://a.example/x"])["https://a.example/x"]
    hops = (Hop(301, "https://b.example/y"),)

    _book(sqlite_store, url_id, replace(FINE, hops=hops, tls_fault="expired"), 100)

    with sqlite_store.reading() as rows:
        values = rows.execute(select(url_quirks.c.value).order_by(url_quirks.c.kind)).scalars()
        assert values.all() == ["https://b.example/y", "expired"]


def test_several_results_of_one_url_count_one_after_the_other(sqlite_store: Store) -> None:
    """In one batch as in several."""
    url_id = watch(sqlite_store, [URL])[URL]
    moments = [Days(100).now() + timedelta(days=3 * number) for number in range(3)]

    with sqlite_store.writing() as rows:
        booked = book(rows, [Result(url_id, GONE, each) for each in moments], WITH_BROWSER)

    assert len(booked) == 3
    assert row_of(sqlite_store, url_id).fails == 3
    assert [(run.first, run.last) for run in unpack(row_of(sqlite_store, url_id).history)] == [
        (100, 106)
    ]


def test_what_people_decided_meanwhile_holds(sqlite_store: Store) -> None:
    """A look that was under way changes nothing of it (B10, B11)."""
    marked = watch(sqlite_store, [URL], state=int(State.PERMALIVE), due_day=None)[URL]

    booked = _book(sqlite_store, marked, GONE, 100)

    assert booked.after is State.PERMALIVE
    row = row_of(sqlite_store, marked)
    assert (row.state, row.fails, row.due_day) == (State.PERMALIVE, 0, None)


def test_a_url_that_is_watched_no_more_is_passed_over(sqlite_store: Store) -> None:
    """Its last page lost it while it was looked at."""
    url_id = watch(sqlite_store, [URL])[URL]

    with sqlite_store.writing() as rows:
        results = [Result(url_id, FINE, Days(9).now()), Result(url_id + 7, FINE, Days(9).now())]
        assert [each.url_id for each in book(rows, results, WITH_BROWSER)] == [url_id]


def test_whatever_a_server_says_can_be_kept(store: Store) -> None:
    """NUL, lone surrogates, a redirect of a million characters."""
    url_id = watch(store, [URL])[URL]
    finding = replace(
        GONE, note="a\x00b\ud800c" * 1000, final_url="http://b.example/" + "x" * 1_000_000, http=-5
    )

    _book(store, url_id, finding, 100)

    row = seen_of(store, url_id)[0]
    assert len(row.note) <= 500
    assert len(row.final_url) <= 16_384


@given(st.text())
def test_storable_text_is_utf8_without_nul(text: str) -> None:
    """What is good already stays as it is."""
    kept = storable(text)

    assert "\x00" not in kept
    kept.encode("utf-8")
    if "\x00" not in text:
        assert kept == text


_FINDINGS = st.builds(
    Finding,
    code=st.sampled_from(sorted(Code)),
    verdict=st.sampled_from(list(Verdict)),
    how=st.sampled_from([How.HEAD, How.GET, How.BROWSER, How.INFERRED]),
    retry_after_s=st.none() | st.floats(0, 1e9),
)


@given(st.lists(st.tuples(_FINDINGS, st.integers(0, 40)), max_size=30))
@pytest.mark.parametrize("preset", [DEFAULT, IABOT, DEWIKI], ids=lambda each: each.name)
def test_whatever_is_found_a_url_is_due_later_or_never(
    preset: Any, found: list[tuple[Finding, int]]
) -> None:
    """So that a pass meets it once, and no standing is lost on the way through the row."""
    kept = Kept(key_of(URL), Standing(), 0, None, None, None, True, None, 0)
    day = 100
    for finding, later in found:
        day += later
        change = change_of(kept, finding, day, Rules(preset, browser=True))
        assert change.due_day is None or day < change.due_day <= LAST_DAY
        assert change.history is None or len(change.history) <= 25
        kept = kept._replace(
            standing=change.standing,
            code=change.code,
            history=change.history,
            opinion_day=change.opinion_day,
            is_new=False,
        )


def test_rows_and_standings_are_one(sqlite_store: Store) -> None:
    """Every URL's row is what its last change said."""
    url_id = watch(sqlite_store, [URL])[URL]
    for day, finding in ((100, GONE), (103, GONE), (106, FINE), (113, GONE)):
        booked = _book(sqlite_store, url_id, finding, day)
        row = row_of(sqlite_store, url_id)
        assert (row.state, row.due_day) == (booked.after, booked.due_day)
        assert row.checked_day == day
    with sqlite_store.reading() as rows:
        assert rows.execute(select(func.count()).select_from(observations)).scalar_one() == 4
        assert rows.execute(select(urls.c.code)).scalar_one() == Code.NOT_FOUND
