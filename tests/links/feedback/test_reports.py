"""Readers' reports: what is accepted, what they do, how they end, and how often they may come."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select

from core.errors import InputError
from core.layout import Layout
from core.url_patterns import parse_pattern
from links.feedback.reporter_limits import (
    LimitedAct,
    ReporterDigests,
    TooOftenError,
    forget_acts,
    limits_of,
    open_reporter_digests,
)
from links.feedback.reports import (
    MOST_AT_ONCE,
    VALID_DAYS,
    NeedlessReportError,
    add_report,
    drop_reports,
    expire_reports,
    reachability_reports,
    withdraw_reports,
)
from links.registry.database import RegistryStore
from links.registry.schema import actors, acts, host_quirks, urls
from links.registry.urls import NotObservedError, find_matching_urls
from links.states import LinkState
from tests.support.feedback_reports import NOW, TODAY, watch
from tests.support.services.registries import open_registry

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
SITE = "https://www.example.org"


def reporter(number: int = 0) -> bytes:
    """Return a reporter's digest."""
    return ReporterDigests(b"k" * 32).of_name(f"reader {number}")


def test_a_report_is_shown_and_changes_nothing_else(store: RegistryStore) -> None:
    """The URL's row is the same afterwards; beside it stands who shown so, and until when (W13)."""
    with store.writing() as rows:
        (url_id,) = watch(rows, f"{SITE}/a", f"{SITE}/b", f"{SITE}/c")[:1]
        before = rows.execute(select(urls).where(urls.c.id == url_id)).one()
        done = add_report(rows, ["HTTPS://WWW.example.org:443/a#part"], reporter(), NOW)
    with store.reading() as rows:
        shown = reachability_reports(rows, [url_id, 99], TODAY)
        after = rows.execute(select(urls).where(urls.c.id == url_id)).one()

    assert done.urls == (f"{SITE}/a",)
    assert (done.renewed, done.presumed) == (0, False)
    assert set(shown) == {url_id}
    assert (shown[url_id].reports, shown[url_id].last_day) == (1, TODAY)
    assert shown[url_id].until_day == TODAY + VALID_DAYS - 1
    assert after == before


def test_only_what_is_watched_can_be_reported(sqlite_store: RegistryStore) -> None:
    """Neither an unknown URL nor a pattern that hits nothing makes a row of any kind (W18)."""
    with sqlite_store.writing() as rows:
        watch(rows, f"{SITE}/a")
    for what, is_pattern in (
        (f"{SITE}/other", False),
        ("other.example", True),
        ("www.example.org/other/", True),
        ("co.uk", True),
    ):
        with pytest.raises(NotObservedError), sqlite_store.writing() as rows:
            add_report(rows, [what], reporter(), NOW, is_pattern=is_pattern)
    with sqlite_store.reading() as rows:
        assert rows.execute(select(func.count()).select_from(urls)).scalar_one() == 1
        assert rows.execute(select(actors)).all() == []


@pytest.mark.parametrize("what", ["re:example", "", "http://[", "ftp://example.org/", "a b.c/"])
def test_what_names_no_domain_is_refused(what: str, sqlite_store: RegistryStore) -> None:
    """With a sentence for whoever typed it; expressions are for operators."""
    with sqlite_store.writing() as rows:
        watch(rows, f"{SITE}/a")
    with pytest.raises(InputError), sqlite_store.writing() as rows:
        add_report(rows, [what], reporter(), NOW, is_pattern=True)


@pytest.mark.parametrize("state", [LinkState.ALIVE, LinkState.PERMALIVE])
def test_what_works_needs_no_report(state: LinkState, sqlite_store: RegistryStore) -> None:
    """A report says "though it is shown as dead"."""
    with sqlite_store.writing() as rows:
        watch(rows, f"{SITE}/a", state=state)
    with pytest.raises(NeedlessReportError), sqlite_store.writing() as rows:
        add_report(rows, [f"{SITE}/a"], reporter(), NOW)


def test_a_domain_with_a_path_means_what_is_watched_below_it(store: RegistryStore) -> None:
    """Every byte counts, both schemes are meant, and what works is left out (W13)."""
    below = [f"{SITE}/docs/1", "http://www.example.org/docs/2?x", f"{SITE}/docs/%_/3"]
    with store.writing() as rows:
        ids = watch(rows, *below)
        watch(rows, f"{SITE}/Docs/1", f"{SITE}/docsX", "https://example.org/docs/1")
        watch(rows, f"{SITE}/docs/works", state=LinkState.ALIVE)
        done = add_report(rows, ["www.example.org/docs/"], reporter(), NOW, is_pattern=True)
        shown = reachability_reports(rows, ids, TODAY)

    assert sorted(done.urls) == sorted(below)
    assert set(shown) == set(ids)


def test_what_is_named_is_found_among_many_alike(sqlite_store: RegistryStore) -> None:
    """One URL among hundreds that begin with it, at one port, with one scheme."""
    alike = [f"{SITE}/{n}" for n in range(1000, 1300)]
    with sqlite_store.writing() as rows:
        watch(rows, *alike, "http://www.example.org:81/1", f"{SITE}/1", "http://www.example.org/1")

        def named(pattern: str) -> list[str]:
            return [each.url for each in find_matching_urls(rows, parse_pattern(pattern), limit=9)]

        assert named(f"{SITE}/1") == [f"{SITE}/1"]
        assert sorted(named("=www.example.org/1")) == ["http://www.example.org/1", f"{SITE}/1"]
        assert named("www.example.org:81/") == ["http://www.example.org:81/1"]
        assert named("http://www.example.org/*") == ["http://www.example.org/1"]
        assert len(named("www.example.org/1")) == 9


def test_a_domain_alone_means_all_below_it(sqlite_store: RegistryStore) -> None:
    """Hosts below it too, and no host that merely ends alike."""
    with sqlite_store.writing() as rows:
        watch(rows, "https://example.org/1", "https://a.b.example.org/2", "https://notexample.org/")
        done = add_report(rows, ["example.org"], reporter(), NOW, is_pattern=True)

    assert sorted(done.urls) == ["https://a.b.example.org/2", "https://example.org/1"]


def test_a_report_means_no_more_than_some_hundred_urls(sqlite_store: RegistryStore) -> None:
    """Nobody has looked at more; a longer path says what was meant."""
    with sqlite_store.writing() as rows:
        watch(rows, *(f"{SITE}/a/{n}" for n in range(MOST_AT_ONCE)), f"{SITE}/b")
    with pytest.raises(InputError, match="give a longer path"), sqlite_store.writing() as rows:
        add_report(rows, ["www.example.org"], reporter(), NOW, is_pattern=True)
    with sqlite_store.writing() as rows:
        done = add_report(rows, ["www.example.org/a/"], reporter(), NOW, is_pattern=True)

    assert len(done.urls) == MOST_AT_ONCE


def test_saying_it_again_restarts_the_six_months(store: RegistryStore) -> None:
    """One reporter counts once, however often they say it; another counts beside them (W14)."""
    with store.writing() as rows:
        (url_id,) = watch(rows, f"{SITE}/a")
        add_report(rows, [f"{SITE}/a"], reporter(1), NOW)
        add_report(rows, [f"{SITE}/a"], reporter(2), NOW)
        again = add_report(rows, [f"{SITE}/a"], reporter(1), NOW + 100 * DAY)
        shown = reachability_reports(rows, [url_id], TODAY + 100)[url_id]

    assert again.renewed == 1
    assert shown.reports == 2
    assert shown.last_day == TODAY + 100


def test_six_months_end_a_report_whether_anybody_cleans_up_or_not(store: RegistryStore) -> None:
    """Expired reports are not shown, and `expire_reports` removes them, `limit` at a time (W14)."""
    with store.writing() as rows:
        ids = watch(rows, f"{SITE}/a", f"{SITE}/b", *(f"{SITE}/{n}" for n in range(6)))[:2]
        add_report(rows, [f"{SITE}/a"], reporter(1), NOW)
        add_report(rows, [f"{SITE}/b"], reporter(2), NOW)
        last, over = TODAY + VALID_DAYS - 1, TODAY + VALID_DAYS
        assert set(reachability_reports(rows, ids, last)) == set(ids)
        assert reachability_reports(rows, ids, over) == {}
        assert expire_reports(rows, last, limit=9) == 0
        assert [expire_reports(rows, over, limit=1) for _ in range(3)] == [1, 1, 0]


def test_a_regular_good_answer_ends_a_report(sqlite_store: RegistryStore) -> None:
    """Of that URL, and of no other (W14)."""
    with sqlite_store.writing() as rows:
        ids = watch(rows, f"{SITE}/a", f"{SITE}/b", *(f"{SITE}/{n}" for n in range(6)))[:2]
        add_report(rows, [f"{SITE}/a"], reporter(1), NOW)
        add_report(rows, [f"{SITE}/b"], reporter(1), NOW + MINUTE)

        assert drop_reports(rows, ids[:1]) == 1
        assert set(reachability_reports(rows, ids, TODAY)) == {ids[1]}


def test_anybody_may_withdraw_at_any_time(sqlite_store: RegistryStore) -> None:
    """All reports about the URL go; once they are gone there is nothing left to withdraw (W14)."""
    with sqlite_store.writing() as rows:
        (url_id,) = watch(rows, f"{SITE}/a", *(f"{SITE}/{n}" for n in range(6)))[:1]
        for number in (1, 2):
            add_report(rows, [f"{SITE}/a"], reporter(number), NOW)
        done = withdraw_reports(rows, [f"{SITE}/a"], reporter(3), NOW)

        assert (done.reports, done.presumption) == (2, False)
        assert reachability_reports(rows, [url_id], TODAY) == {}
    with pytest.raises(NeedlessReportError), sqlite_store.writing() as rows:
        withdraw_reports(rows, [f"{SITE}/a"], reporter(4), NOW)


def say(rows: Connection, named: str, *readers: int, late: int = 1) -> list[bool]:
    """Report a URL or a domain by each reader, the last `late` a day later; return the `presumed` of each."""
    done = []
    for place, number in enumerate(readers):
        moment = NOW + DAY * (place >= len(readers) - late)
        report = add_report(rows, [named], reporter(number), moment, is_pattern="://" not in named)
        done.append(report.presumed)
    return done


@pytest.mark.parametrize(("watched", "reported"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_half_of_a_domain_makes_the_whole_presumed(watched: int, reported: int, store: RegistryStore) -> None:
    """Not before half is reached, then for six months, and for later URLs of it too (W16)."""
    named = [f"https://{'www.' * (n % 2)}example.org/{n}" for n in range(watched)]
    with store.writing() as rows:
        ids = watch(rows, *named)
        watch(rows, "https://other.example/")
        done = [any(say(rows, named[n], *range(n * 3, n * 3 + 3))) for n in range(reported)]
        (later,) = watch(rows, "https://example.org/later")
        shown = reachability_reports(rows, [*ids, later], TODAY)
        end = TODAY + 1 + VALID_DAYS

        assert done == [False] * (reported - 1) + [True]
        assert {each.presumed_until for each in shown.values()} == {end - 1}
        assert set(shown) == {*ids, later}
        assert set(reachability_reports(rows, [later], end - 1)) == {later}
        assert reachability_reports(rows, [later], end) == {}


def test_one_reader_cannot_decide_for_a_domain(store: RegistryStore) -> None:
    """A report about a whole site is one voice, and two others about one URL do not carry it (M5)."""
    with store.writing() as rows:
        ids = watch(rows, *(f"https://example.org/{n}" for n in range(9)))
        assert say(rows, "example.org", 1, late=0) == [False]
        assert say(rows, "https://example.org/0", 2, 3) == [False, False]
        assert say(rows, "example.org", 1) == [False]
        assert all(each.presumed_until is None for each in reachability_reports(rows, ids, TODAY).values())


def test_three_readers_of_a_site_make_it_presumed_on_a_second_day(store: RegistryStore) -> None:
    """Each says it of the whole site; all on one day is not enough (M5, W16)."""
    with store.writing() as rows:
        watch(rows, *(f"https://example.org/{n}" for n in range(9)))
        assert say(rows, "example.org", 1, 2, 3, late=0) == [False, False, False]
        assert say(rows, "example.org", 2) == [True]


def test_a_presumption_falls_when_what_it_stood_on_is_withdrawn(store: RegistryStore) -> None:
    """One of two reported URLs of four: less than half; a named domain loses it at once."""
    named = [f"https://example.org/{n}" for n in range(4)]
    with store.writing() as rows:
        ids = watch(rows, *named)
        say(rows, named[0], 0, 1, 2)
        say(rows, named[1], 3, 4, 6)
        assert len(reachability_reports(rows, ids, TODAY)) == 4
        assert withdraw_reports(rows, [named[0]], reporter(5), NOW + DAY).presumption
        assert set(reachability_reports(rows, ids, TODAY)) == {ids[1]}
        add_report(rows, [named[0]], reporter(0), NOW + DAY + MINUTE)
        add_report(rows, [named[0]], reporter(1), NOW + DAY + MINUTE)
        drop_reports(rows, ids)
        assert len(reachability_reports(rows, ids, TODAY)) == 4
        assert withdraw_reports(rows, ["example.org"], reporter(6), NOW + DAY, is_pattern=True).presumption
        assert rows.execute(select(host_quirks)).all() == []


def test_one_reporter_reports_once_a_minute(store: RegistryStore) -> None:
    """Another may at once; who is refused is report how long to wait, and nothing is written (W15)."""
    with store.writing() as rows:
        watch(rows, f"{SITE}/a", f"{SITE}/b")
        add_report(rows, [f"{SITE}/a"], reporter(1), NOW)
    with pytest.raises(TooOftenError) as refused, store.writing() as rows:
        add_report(rows, [f"{SITE}/b"], reporter(1), NOW + timedelta(seconds=59))
    with store.writing() as rows:
        add_report(rows, [f"{SITE}/b"], reporter(2), NOW)
        add_report(rows, [f"{SITE}/b"], reporter(1), NOW + MINUTE)
        day = rows.execute(select(acts.c.count).where(acts.c.act == int(LimitedAct.REPORT))).scalar_one()

    assert (refused.value.retry_after_s, refused.value.is_everybodys) == (1, False)
    assert day == 3


def test_withdrawing_does_not_make_room_for_the_next_report(sqlite_store: RegistryStore) -> None:
    """The minute is counted from what was shown, not from what is left of it."""
    with sqlite_store.writing() as rows:
        watch(rows, f"{SITE}/a")
        add_report(rows, [f"{SITE}/a"], reporter(), NOW)
        withdraw_reports(rows, [f"{SITE}/a"], reporter(), NOW)
    with pytest.raises(TooOftenError), sqlite_store.writing() as rows:
        add_report(rows, [f"{SITE}/a"], reporter(), NOW + timedelta(seconds=2))


def test_a_day_has_room_for_so_many_reports(store: RegistryStore) -> None:
    """Then nobody reports until midnight (UTC), but everybody may withdraw (W15)."""
    limits = limits_of(2)
    with store.writing() as rows:
        watch(rows, f"{SITE}/a")
        for number in (1, 2):
            add_report(rows, [f"{SITE}/a"], reporter(number), NOW, limits=limits)
    with pytest.raises(TooOftenError) as refused, store.writing() as rows:
        add_report(rows, [f"{SITE}/a"], reporter(3), NOW, limits=limits)
    with store.writing() as rows:
        add_report(rows, [f"{SITE}/a"], reporter(3), NOW + timedelta(hours=12), limits=limits)
        withdraw_reports(rows, [f"{SITE}/a"], reporter(4), NOW, limits=limits)

    assert (refused.value.retry_after_s, refused.value.is_everybodys) == (12 * 3600, True)
    with pytest.raises(TooOftenError), store.writing() as rows:
        add_report(rows, [f"{SITE}/a"], reporter(9), NOW + 9 * DAY, limits=limits_of(0))


def test_a_clock_that_was_wrong_stops_nobody(sqlite_store: RegistryStore) -> None:
    """A moment in the far future was no moment."""
    with sqlite_store.writing() as rows:
        watch(rows, f"{SITE}/a")
        add_report(rows, [f"{SITE}/a"], reporter(), NOW + 4000 * DAY)
        add_report(rows, [f"{SITE}/a"], reporter(), NOW)


def test_who_said_something_is_forgotten_after_a_day(sqlite_store: RegistryStore) -> None:
    """Nothing is kept that no limit asks for."""
    with sqlite_store.writing() as rows:
        watch(rows, f"{SITE}/a")
        add_report(rows, [f"{SITE}/a"], reporter(), NOW)
        assert forget_acts(rows, NOW + DAY) == 0
        assert forget_acts(rows, NOW + DAY + MINUTE) == 1
        assert forget_acts(rows, NOW + 8 * DAY) == 1


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def racing(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int, list[range]], list[int]]:
    """Return a function that reports over several connections at once; it returns how many of each were accepted."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    with closing(open_registry(Layout(tmp_path), url)) as opened, opened.writing() as rows:
        watch(rows, *(f"{SITE}/{n}" for n in range(40)))

    def race(a_day: int, each: list[range]) -> list[int]:
        start = threading.Barrier(len(each))

        def report(numbers: range) -> int:
            accepted = 0
            with closing(open_registry(Layout(tmp_path), url)) as store:
                start.wait(240)
                for number in numbers:
                    with suppress(TooOftenError), store.writing() as rows:
                        limits = limits_of(a_day)
                        add_report(rows, [f"{SITE}/{number}"], reporter(number), NOW, limits=limits)
                        accepted += 1
            return accepted

        with ThreadPoolExecutor(len(each)) as pool:
            return list(pool.map(report, each))

    return race


def test_two_connections_share_a_reporters_minute(racing: Callable[[int, list[range]], list[int]]) -> None:
    """The same twenty reporters at both: twenty reports, no more (W15)."""
    assert sum(racing(1000, [range(20), range(20)])) == 20


def test_two_connections_share_the_days_number(racing: Callable[[int, list[range]], list[int]]) -> None:
    """Different reporters at both, and never more reports than the day allows (W15)."""
    assert sum(racing(13, [range(20), range(20, 40)])) == 13


def test_the_key_of_digests_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    """The same reporter has the same digest next time, and another in another collection."""
    one, again = open_reporter_digests(Layout(tmp_path)), open_reporter_digests(Layout(tmp_path))
    other = open_reporter_digests(Layout(tmp_path / "other"))
    (path,) = (tmp_path / "db").iterdir()

    assert path.stat().st_mode & 0o777 == 0o600
    assert one.of_range("192.0.2.0/24") == again.of_range("192.0.2.0/24")
    assert one.of_range("x") != one.of_name("x")
    assert one.of_range("192.0.2.0/24") != other.of_range("192.0.2.0/24")
