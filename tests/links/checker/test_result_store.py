"""Stored results of checks."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, insert, select, update

from links.check_history import LAST_DAY, unpack_history
from links.check_result import CheckMethod, CheckResult, CheckVerdict, RedirectHop, StatusCode
from links.checker.due_urls import links_awaiting_browser
from links.checker.result_store import (
    OBSERVATIONS,
    CheckRules,
    RecordedResult,
    UrlCheckResult,
    compute_update,
    record_results,
)
from links.registry.archive_backlog import ArchivePriority, due_links, forget_links
from links.registry.database import RegistryStore
from links.registry.pages import PAGE_BITS, LinkRef
from links.registry.quirks import HostQuirk, quirks_of
from links.registry.schema import observations, reports, url_quirks, urls, wikis
from links.registry.urls import require_observed
from links.states import DEFAULT, DEWIKI, IABOT, LinkState
from tests.links.rows import RegistryRows
from tests.support.check_rows import row_of, seen_of, url_row, watch
from tests.support.server_farm import DayClock

FINE = CheckResult(StatusCode.FINE, CheckVerdict.OK, CheckMethod.GET, http=200, mime="text/html")
GONE = CheckResult(StatusCode.NOT_FOUND, CheckVerdict.GONE, CheckMethod.GET, http=404)
WITH_BROWSER = CheckRules(DEFAULT, browser=True)
URL = "http://a.example/x"


def _book(store: RegistryStore, url_id: int, finding: CheckResult, day: int) -> RecordedResult:
    with store.writing() as rows:
        return record_results(rows, [UrlCheckResult(url_id, finding, DayClock(day).now())], WITH_BROWSER)[0]


def _dying(store: RegistryStore, url_id: int) -> int:
    """Let the link fail until it awaits the browser; the day of that."""
    for day in range(100, 130, 3):
        if _book(store, url_id, GONE, day).awaits_opinion:
            return day
    raise AssertionError("It never awaits the browser.")


def test_a_link_is_dead_when_the_browser_fails_at_it_too(store: RegistryStore) -> None:
    """Dying before, dead after, and nobody is awaited any more."""
    url_id = watch(store, [URL])[URL]
    day = _dying(store, url_id)
    with store.reading() as rows:
        awaiting = links_awaiting_browser(rows, limit=5)
    assert [each.url for each in awaiting] == [URL]
    assert row_of(store, url_id).state == LinkState.DYING

    booked = _book(store, url_id, replace(GONE, how=CheckMethod.BROWSER), day)

    assert (booked.before, booked.after) == (LinkState.DYING, LinkState.DEAD)
    with store.reading() as rows:
        assert links_awaiting_browser(rows, limit=5) == []


@pytest.mark.parametrize(("api", "is_wanted"), [("https://w.example/api.php", True), ("", False)])
def test_what_comes_to_life_is_to_be_archived(store: RegistryStore, api: str, is_wanted: bool) -> None:
    """Once each time, by the wiki whose page has it, when that is watched."""
    there = RegistryRows(store)
    there.add_wiki()
    there.add_page(1 << PAGE_BITS | 7, [URL])
    with store.writing() as rows:
        rows.execute(update(wikis).values(url=api))
        url_id = require_observed(rows, URL).id

    def wanted_then() -> list[ArchivePriority]:
        with store.writing() as rows:
            backlog_rows = due_links(rows, 1, now=DayClock(9_000).now(), limit=5)
            forget_links(rows, [LinkRef(row.page, row.url_id) for row in backlog_rows])
        return [row.priority for row in backlog_rows]

    seen = []
    for day, finding in enumerate((FINE, FINE, GONE, FINE), 3_700):
        _book(store, url_id, finding, day)
        seen.append(wanted_then())

    once = [ArchivePriority.REVIVED] if is_wanted else []
    assert seen == [once, [], [], once]


def test_a_page_that_the_browser_sees_makes_our_failures_there_worthless(sqlite_store: RegistryStore) -> None:
    """The link is alive; what fails on that host goes to the browser, and is nobody's failure."""
    ids = watch(sqlite_store, [URL, "http://a.example/y"])
    day = _dying(sqlite_store, ids[URL])

    saw = _book(sqlite_store, ids[URL], replace(FINE, how=CheckMethod.BROWSER), day)
    other = _book(sqlite_store, ids["http://a.example/y"], GONE, day + 1)

    assert saw.after is LinkState.ALIVE
    with sqlite_store.reading() as rows:
        assert HostQuirk.UNVERIFIABLE in quirks_of(rows, ["a.example"], day=day)["a.example"]
    row = row_of(sqlite_store, other.url_id)
    assert (row.fails, other.awaits_opinion) == (0, True)


def test_looks_that_change_nothing_leave_no_rows(sqlite_store: RegistryStore) -> None:
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
    last = int(DayClock(257).now().timestamp())
    assert seen[-1].moment == last


def test_a_good_answer_takes_reports_away(sqlite_store: RegistryStore) -> None:
    """That somebody reaches the page is no news any more (W14); one for another URL stays."""
    ids = watch(sqlite_store, [URL, "http://a.example/y"])
    with sqlite_store.writing() as rows:
        for number, url_id in enumerate(ids.values()):
            values: dict[str, Any] = {"host_id": 1, "moment": 1, "expires_day": 999}
            rows.execute(insert(reports).values(url_id=url_id, reporter=bytes([number]) * 16, **values))

    _book(sqlite_store, ids[URL], GONE, 100)
    with sqlite_store.reading() as rows:
        assert rows.execute(select(func.count()).select_from(reports)).scalar_one() == 2
    _book(sqlite_store, ids[URL], FINE, 103)

    with sqlite_store.reading() as rows:
        left = rows.execute(select(reports.c.url_id)).scalars().all()
    assert left == [ids["http://a.example/y"]]


def test_unusual_types_are_kept_with_their_length(sqlite_store: RegistryStore) -> None:
    """In whole KiB (W57, W66); a failure takes nothing away, a page does."""
    url_id = watch(sqlite_store, [URL])[URL]

    def stored_type(finding: CheckResult, day: int) -> tuple[str | None, int | None]:
        _book(sqlite_store, url_id, finding, day)
        row = row_of(sqlite_store, url_id)
        return row.mime, row.kib

    pdf = replace(FINE, how=CheckMethod.GET, mime="application/pdf", length=10_241)
    assert stored_type(pdf, 100) == ("pdf", 11)
    assert stored_type(GONE, 107) == ("pdf", 11)
    assert stored_type(replace(pdf, length=None), 110) == ("pdf", 11)
    assert stored_type(replace(FINE, how=CheckMethod.GET), 117) == (None, None)


@pytest.mark.parametrize("mime", ["application/octet-stream", "application/zip", "text/html"])
def test_a_head_changes_no_type_that_a_get_had_named(sqlite_store: RegistryStore, mime: str) -> None:
    """A GET names it by the first bytes, HEAD has but the server's word (W66)."""
    url_id = watch(sqlite_store, [URL])[URL]
    pdf = replace(FINE, how=CheckMethod.GET, mime="application/pdf", length=10_241)

    _book(sqlite_store, url_id, pdf, 100)
    _book(sqlite_store, url_id, replace(pdf, how=CheckMethod.HEAD, mime=mime, length=5), 107)

    row = row_of(sqlite_store, url_id)
    assert (row.mime, row.kib) == ("pdf", 11)


def test_moves_and_bad_certificates_are_kept_of_urls(sqlite_store: RegistryStore) -> None:
    """For half a year each (W56)."""
    url_id = watch(sqlite_store, ["https://a.example/x"])["https://a.example/x"]
    hops = (RedirectHop(301, "https://b.example/y"),)

    _book(sqlite_store, url_id, replace(FINE, hops=hops, tls_fault="expired"), 100)

    with sqlite_store.reading() as rows:
        values = rows.execute(select(url_quirks.c.value).order_by(url_quirks.c.kind)).scalars()
        assert values.all() == ["https://b.example/y", "expired"]


def test_several_results_of_one_url_count_one_after_the_other(sqlite_store: RegistryStore) -> None:
    """In one batch as in several."""
    url_id = watch(sqlite_store, [URL])[URL]
    moments = [DayClock(100).now() + timedelta(days=3 * number) for number in range(3)]

    with sqlite_store.writing() as rows:
        booked = record_results(rows, [UrlCheckResult(url_id, GONE, each) for each in moments], WITH_BROWSER)

    assert len(booked) == 3
    assert row_of(sqlite_store, url_id).fails == 3
    assert [(run.first, run.last) for run in unpack_history(row_of(sqlite_store, url_id).history)] == [(100, 106)]


def test_what_people_decided_meanwhile_holds(sqlite_store: RegistryStore) -> None:
    """A look that was under way changes nothing of it (B10, B11)."""
    marked = watch(sqlite_store, [URL], state=int(LinkState.PERMALIVE), due_day=None)[URL]

    booked = _book(sqlite_store, marked, GONE, 100)

    assert booked.after is LinkState.PERMALIVE
    row = row_of(sqlite_store, marked)
    assert (row.state, row.fails, row.due_day) == (LinkState.PERMALIVE, 0, None)


def test_a_url_that_is_watched_no_more_is_passed_over(sqlite_store: RegistryStore) -> None:
    """Its last page lost it while it was looked at."""
    url_id = watch(sqlite_store, [URL])[URL]

    with sqlite_store.writing() as rows:
        results = [UrlCheckResult(url_id, FINE, DayClock(9).now()), UrlCheckResult(url_id + 7, FINE, DayClock(9).now())]
        assert [each.url_id for each in record_results(rows, results, WITH_BROWSER)] == [url_id]


def test_whatever_a_server_says_can_be_kept(store: RegistryStore) -> None:
    """NUL, lone surrogates, a redirect of a million characters."""
    url_id = watch(store, [URL])[URL]
    finding = replace(GONE, note="a\x00b\ud800c" * 1000, final_url="http://b.example/" + "x" * 1_000_000, http=-5)

    _book(store, url_id, finding, 100)

    row = seen_of(store, url_id)[0]
    assert len(row.note) <= 500
    assert len(row.final_url) <= 16_384


_FINDINGS = st.builds(
    CheckResult,
    code=st.sampled_from(sorted(StatusCode)),
    verdict=st.sampled_from(list(CheckVerdict)),
    how=st.sampled_from([CheckMethod.HEAD, CheckMethod.GET, CheckMethod.BROWSER, CheckMethod.INFERRED]),
    retry_after_s=st.none() | st.floats(0, 1e9),
)


@given(st.lists(st.tuples(_FINDINGS, st.integers(0, 40)), max_size=30))
@pytest.mark.parametrize("preset", [DEFAULT, IABOT, DEWIKI], ids=lambda each: each.name)
def test_whatever_is_found_a_url_is_due_later_or_never(preset: Any, findings: list[tuple[CheckResult, int]]) -> None:
    """So that a pass meets it once, and no standing is lost on the way through the row."""
    row = url_row(URL)
    day = 100
    for finding, later in findings:
        day += later
        change = compute_update(row, finding, day, CheckRules(preset, browser=True))
        assert change.due_day is None or day < change.due_day <= LAST_DAY
        assert change.history is None or len(change.history) <= 25
        row = change


def test_rows_and_standings_are_one(sqlite_store: RegistryStore) -> None:
    """Every URL's row is what its last change said."""
    url_id = watch(sqlite_store, [URL])[URL]
    for day, finding in ((100, GONE), (103, GONE), (106, FINE), (113, GONE)):
        booked = _book(sqlite_store, url_id, finding, day)
        row = row_of(sqlite_store, url_id)
        assert (row.state, row.due_day) == (booked.after, booked.due_day)
        assert row.checked_day == day
    with sqlite_store.reading() as rows:
        assert rows.execute(select(func.count()).select_from(observations)).scalar_one() == 4
        assert rows.execute(select(urls.c.code)).scalar_one() == StatusCode.NOT_FOUND
