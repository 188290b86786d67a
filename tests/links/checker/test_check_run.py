"""Passes over a small web: real registry, real names, real servers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from core.errors import InvariantError
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker import check_schedule, check_worker, result_store, result_writer
from links.checker.check_run import CheckRun, CheckTally
from links.checker.http_probe import HttpProber
from links.checker.result_store import CheckRules, RecordedResult, UrlCheckResult, record_results
from links.checker.timetable import Timetable
from links.checker.timetable_feed import TimetableFeed
from links.registry.bot_edits import EditChange, EditState, IntendedEdit, edits_by_id, move_edit, record_intended_edit
from links.registry.citations import CitationFlag, CitationRow, put_citations
from links.registry.database import RegistryStore
from links.registry.pages import LinkRef, number_of
from links.states import DEFAULT, LinkState
from tests.support.check_rows import row_of, seen_of, watch
from tests.support.server_farm import (
    DayClock,
    FixedMarks,
    HostReply,
    ServerFarm,
    broken,
    checking,
    gone,
    no_head,
    running_server_farm,
    silent,
)

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds


@pytest.fixture
async def farm() -> AsyncIterator[ServerFarm]:
    async with running_server_farm() as running:
        yield running


async def test_a_pass_looks_at_everything_that_is_due(store: RegistryStore, farm: ServerFarm) -> None:
    """Once each, and says when it is due again; what is not due yet is left alone."""
    days = DayClock()
    names = [f"h{number}.example" for number in range(8)]
    urls = [f"http://{name}/{number}" for name in names for number in range(5)]
    ids = watch(store, urls, day=days.day)
    later = watch(store, ["http://h0.example/later"], day=days.day + 1)

    async with checking(store, farm, names, days=days) as checker:
        tally = await checker.check()

    assert (tally.stored, tally.states, tally.is_complete) == (40, {LinkState.ALIVE: 40}, True)
    rows = [row_of(store, id_) for id_ in ids.values()]
    assert all(row.checked_day == days.day and row.due_day > days.day for row in rows)
    assert row_of(store, later["http://h0.example/later"]).checked_day is None
    assert {f"http://{each.host}{each.path}" for each in farm.requests} == set(urls)


async def test_links_are_counted_by_state_once_a_day(store: RegistryStore, farm: ServerFarm) -> None:
    """Counted when a run ends: a second run of the day leaves the counts, the next day's has its own."""
    days = DayClock()
    farm.hosts["b.example"] = gone
    watch(store, ["http://a.example/1", "http://b.example/1"], day=days.day)
    first = days.day

    async with checking(store, farm, ["a.example", "b.example"], days=days) as checker:
        await checker.check()
        watch(store, ["http://a.example/2"], day=days.day)
        await checker.check()
        days.day += 1
        await checker.check()

    with store.reading() as rows:
        counts_by_day = check_schedule.states_by_day(rows, since=first)
        assert check_schedule.states_by_day(rows, since=first + 1) == {first + 1: counts_by_day[first + 1]}
    assert counts_by_day[first] == {LinkState.ALIVE: 1, LinkState.DYING: 1}
    assert counts_by_day[first + 1][LinkState.ALIVE] == 2


async def test_no_host_is_asked_closer_than_its_gap(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """Measured where the requests arrive: HEAD, GET and redirects from other hosts among them."""
    days, gap_s = DayClock(), 0.05
    farm.hosts["get.example"] = no_head
    farm.hosts["from.example"] = lambda _method, path: HostReply(302, headers={"Location": f"http://get.example{path}"})
    names = ["get.example", "from.example", "other.example"]
    watch(sqlite_store, [f"http://{name}/{n}" for name in names for n in range(6)], day=days.day)

    async with checking(sqlite_store, farm, names, days=days, gap_s=gap_s) as checker:
        await checker.check()

    for name in names:
        requests = sorted(farm.requests_to(name), key=lambda each: each.began)
        assert len(requests) >= 6
        assert all(after.began - before.ended >= gap_s for before, after in pairwise(requests)), name


async def test_hosts_that_refuse_head_are_asked_by_get_for_200_days(
    sqlite_store: RegistryStore, farm: ServerFarm
) -> None:
    """The result of one URL holds for all of its host; then HEAD is tried again (W42)."""
    days = DayClock()
    farm.hosts["a.example"] = no_head
    watch(sqlite_store, ["http://a.example/1"], day=days.day)
    watch(sqlite_store, ["http://a.example/2"], day=days.day + 1)
    watch(sqlite_store, ["http://a.example/3"], day=days.day + 250)

    async with checking(sqlite_store, farm, ["a.example"], days=days) as checker:
        methods = []
        for step in (0, 1, 198, 51):
            days.day += step
            farm.requests.clear()
            await checker.check()
            methods.append([each.method for each in farm.requests])

    assert methods[0] == ["HEAD", "GET"]
    assert set(methods[1]) == {"GET"}
    assert set(methods[2]) == {"GET"}
    assert methods[3][:2] == ["HEAD", "GET"]


async def test_a_lost_name_is_inferred_for_all_of_the_host(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """Marked as inferred; nobody asks again in the pass, and the next one asks again (W46)."""
    days = DayClock()
    farm.lost.add("lost.example")
    ids = watch(sqlite_store, [f"http://lost.example/{number}" for number in range(6)], day=days.day)

    async with checking(sqlite_store, farm, [], days=days) as checker:
        tally = await checker.check()
        first = [seen_of(sqlite_store, id_)[-1].how for id_ in ids.values()]
        days.day += 4
        again = await checker.check()

    assert (tally.stored, tally.inferred) == (6, 5)
    assert sorted(first) == [CheckMethod.HEAD] + [CheckMethod.INFERRED] * 5 or first.count(CheckMethod.INFERRED) == 5
    assert again.stored == 6
    assert again.inferred < 6
    states = {row_of(sqlite_store, id_).state for id_ in ids.values()}
    assert states == {LinkState.DYING}


async def test_what_was_inferred_is_undone_by_the_next_pass(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """One look at each URL itself, and all failures are forgotten (W46)."""
    days = DayClock()
    farm.hosts["a.example"] = broken
    ids = watch(sqlite_store, [f"http://a.example/{number}" for number in range(8)], day=days.day)

    async with checking(sqlite_store, farm, ["a.example"], days=days) as checker:
        tally = await checker.check()
        failing = {row_of(sqlite_store, id_).state for id_ in ids.values()}
        farm.hosts.clear()
        days.day += 4
        await checker.check()

    assert tally.inferred >= 1
    assert failing == {LinkState.DYING}
    rows = [row_of(sqlite_store, id_) for id_ in ids.values()]
    assert {(row.state, row.fails) for row in rows} == {(LinkState.ALIVE, 0)}


async def test_marked_urls_are_not_asked_for(store: RegistryStore, farm: ServerFarm) -> None:
    """They have the state that people gave them (B10, B11), and the mark is looked at again later."""
    days = DayClock()
    marks = FixedMarks({"kept.example": LinkState.PERMALIVE, "never.example": LinkState.EXCLUDED})
    names = ["kept.example", "never.example", "other.example"]
    ids = watch(store, [f"http://{name}/" for name in names], day=days.day)

    async with checking(store, farm, names, days=days, marks=marks) as checker:
        tally = await checker.check()

    assert tally.stored == 1
    assert {each.host for each in farm.requests} == {"other.example"}
    states = [row_of(store, ids[f"http://{name}/"]).state for name in names]
    assert states == [LinkState.PERMALIVE, LinkState.EXCLUDED, LinkState.ALIVE]


@pytest.mark.parametrize(
    ("trusts", "is_ours", "state"),
    [
        (True, False, LinkState.ALIVE),
        (False, False, LinkState.PERMALIVE),
        (True, True, LinkState.PERMALIVE),  # the bot's own word is no evidence
    ],
)
async def test_a_trusted_tag_has_links_looked_at_that_are_marked_alive(
    store: RegistryStore, farm: ServerFarm, trusts: bool, is_ours: bool, state: LinkState
) -> None:
    """B10: from the reading of the page that calls it dead on; without the tag the mark holds again."""
    days, url = DayClock(), "http://kept.example/"
    marks = FixedMarks({"kept.example": LinkState.PERMALIVE})
    url_id = watch(store, [url], state=int(LinkState.PERMALIVE), due_day=None)[url]
    link = LinkRef(number_of(1, 7), url_id)
    tagged = CitationRow(link, "citation", flags=CitationFlag.DEAD)
    with store.writing() as rows:
        if is_ours:
            change = EditChange(url_id, "tagged", "", "{{dead link}}")
            edit_id = record_intended_edit(rows, 1, IntendedEdit(7, "job", 10, changes=(change,)), moment=1)
            move_edit(rows, edits_by_id(rows, [edit_id])[edit_id], EditState.MADE, moment=1, rev=11)
        put_citations(rows, [link.page], [tagged], day=days.day)

    preset = replace(DEFAULT, trusts_tags=trusts)
    async with checking(store, farm, ["kept.example"], days=days, marks=marks, preset=preset) as checker:
        tally = await checker.check()
        assert (row_of(store, url_id).state, tally.stored) == (state, int(state is LinkState.ALIVE))

        with store.writing() as rows:
            put_citations(rows, [link.page], [], day=days.day)
        days.day += 40
        await checker.check()

    assert row_of(store, url_id).state == LinkState.PERMALIVE


async def test_what_people_set_for_urls_is_followed(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """Method, interval and preset that people set are followed (A16); unknown values are ignored."""
    days = DayClock()
    marks = FixedMarks(settings={"method": "get", "every_days": "2", "preset": "none"})
    url_id = watch(sqlite_store, ["http://a.example/"], day=days.day)["http://a.example/"]

    async with checking(sqlite_store, farm, ["a.example"], days=days, marks=marks) as checker:
        await checker.check()

    assert [each.method for each in farm.requests] == ["GET"]
    assert row_of(sqlite_store, url_id).due_day == days.day + 2


async def test_a_host_that_wants_to_be_left_alone_is_put_off(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """All its URLs, for as long as it says; nothing is held against them."""
    days = DayClock()
    farm.hosts["busy.example"] = lambda _method, _path: HostReply(429, headers={"Retry-After": "172800"})
    ids = watch(sqlite_store, [f"http://busy.example/{number}" for number in range(20)], day=days.day)

    async with checking(sqlite_store, farm, ["busy.example"], days=days) as checker:
        tally = await checker.check()

    assert tally.is_complete
    assert len(farm.requests) <= 2
    rows = [row_of(sqlite_store, id_) for id_ in ids.values()]
    assert all(row.due_day >= days.day + 2 for row in rows)
    assert {row.state for row in rows} == {LinkState.UNKNOWN}


async def test_a_url_that_came_too_soon_is_asked_again_in_the_pass(
    sqlite_store: RegistryStore, farm: ServerFarm
) -> None:
    """A 429 slows its host down; the URL that got it is looked at all the same, and booked once."""
    days = DayClock()
    answers = iter([429])

    def hurried(_method: str, _path: str) -> HostReply:
        return HostReply(next(answers, 200), "<title>A page</title>There is something here.")

    farm.hosts["hurried.example"] = hurried
    ids = watch(sqlite_store, [f"http://hurried.example/{number}" for number in range(2)], day=days.day)

    async with checking(sqlite_store, farm, ["hurried.example"], days=days) as checker:
        tally = await checker.check()

    assert (tally.stored, tally.states) == (2, {LinkState.ALIVE: 2})
    assert all(row_of(sqlite_store, id_).state == LinkState.ALIVE for id_ in ids.values())


async def test_a_host_of_many_urls_is_read_on_by_itself(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """However few of them are held at a time, and whatever else is due."""
    days = DayClock()
    many = [f"http://many.example/{number}" for number in range(60)]
    few = [f"http://h{number}.example/" for number in range(10)]
    watch(sqlite_store, many + few, day=days.day)
    names = ["many.example", *(f"h{number}.example" for number in range(10))]

    async with checking(sqlite_store, farm, names, days=days, gap_s=0.001) as checker:
        tally = await checker.check(host_room=8)

    assert (tally.stored, tally.is_complete) == (70, True)
    assert len({each.path for each in farm.requests_to("many.example")}) == 60


async def test_a_limit_leaves_the_rest_due(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """And the pass open: the next one goes on with it."""
    days = DayClock()
    names = [f"h{number}.example" for number in range(20)]
    watch(sqlite_store, [f"http://{name}/" for name in names], day=days.day)

    async with checking(sqlite_store, farm, names, days=days) as checker:
        first = await checker.check(limit=7)
        second = await checker.check()

    assert (first.stored, first.is_complete) == (7, False)
    assert (second.due, second.stored, second.is_complete) == (13, 13, True)


async def test_a_stop_keeps_what_was_begun(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """And begins nothing more."""
    days = DayClock()
    names = [f"h{number}.example" for number in range(40)]
    ids = watch(sqlite_store, [f"http://{name}/" for name in names], day=days.day)

    async with checking(sqlite_store, farm, names, days=days) as checker:
        farm.on_request = checker.stop.set
        tally = await checker.check(connections=4)

    looked = {each.host for each in farm.requests}
    assert 1 <= len(looked) < 40
    assert not tally.is_complete
    checked_urls = {url for url, id_ in ids.items() if row_of(sqlite_store, id_).checked_day is not None}
    assert checked_urls == {f"http://{host}/" for host in looked}


async def test_named_urls_are_looked_at_whether_due_or_not(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """And nothing else is."""
    from links.checker import due_urls
    from links.checker.check_run import CheckRun

    days = DayClock()
    urls = [f"http://a.example/{number}" for number in range(5)]
    watch(sqlite_store, [*urls, "http://b.example/"], day=days.day + 5)
    with sqlite_store.reading() as rows:
        named = list(due_urls.due_urls_of_host(rows, 1, days.day + 5, passing=(), limit=9))

    async with checking(sqlite_store, farm, ["a.example", "b.example"], days=days) as checker:
        passing = CheckRun(checker.context, checker.plan)
        tally = await passing.run(checker.stop, named=named)

    assert (tally.stored, tally.is_complete) == (5, True)
    assert {each.host for each in farm.requests} == {"a.example"}


@pytest.mark.parametrize("fault", [gone, broken], ids=["gone", "broken"])
async def test_a_link_that_dies_awaits_the_browser(
    sqlite_store: RegistryStore, farm: ServerFarm, fault: object
) -> None:
    """It is dying, never dead, until a browser has looked; a good look resets it."""
    days = DayClock()
    farm.hosts["a.example"] = fault  # type: ignore[assignment]
    url_id = watch(sqlite_store, ["http://a.example/x"], day=days.day)["http://a.example/x"]

    async with checking(sqlite_store, farm, ["a.example"], days=days) as checker:
        row = row_of(sqlite_store, url_id)
        last = days.day + 30
        while row.opinion_day is None:
            assert days.day <= last
            await checker.check()
            row = row_of(sqlite_store, url_id)
            assert row.state == LinkState.DYING
            days.day = row.due_day
        farm.hosts.clear()
        days.day += 4
        await checker.check()

    row = row_of(sqlite_store, url_id)
    assert (row.state, row.fails, row.opinion_day) == (LinkState.ALIVE, 0, None)


async def test_without_a_browser_a_link_dies_by_itself(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """Within four weeks of its last good look."""
    days = DayClock()
    farm.hosts["a.example"] = gone
    url_id = watch(sqlite_store, ["http://a.example/x"], day=days.day)["http://a.example/x"]

    async with checking(sqlite_store, farm, ["a.example"], days=days, browser=False) as checker:
        last = days.day + 22
        while row_of(sqlite_store, url_id).state != LinkState.DEAD:
            assert days.day < last
            await checker.check()
            days.day = row_of(sqlite_store, url_id).due_day


async def test_an_outage_of_two_weeks_kills_nothing(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """Whatever the host answers meanwhile."""
    days = DayClock()
    names = ["down.example", "error.example"]
    farm.hosts |= {"down.example": silent, "error.example": broken}
    ids = watch(sqlite_store, [f"http://{name}/" for name in names], day=days.day)

    async with checking(sqlite_store, farm, names, days=days, browser=False) as checker:
        last = days.day + 13
        while days.day <= last:
            await checker.check()
            rows = [row_of(sqlite_store, id_) for id_ in ids.values()]
            assert {row.state for row in rows} == {LinkState.DYING}
            days.day = min(row.due_day for row in rows)
        farm.hosts.clear()
        days.day += 3
        await checker.check()

    assert {row_of(sqlite_store, id_).state for id_ in ids.values()} == {LinkState.ALIVE}


def _soft(_method: str, _path: str) -> HostReply:
    """Return the same page for every request, with a good status."""
    return HostReply(200, "<title>Shop</title><p>Our catalogue has moved. Look around in our new shop.")


async def test_a_links_first_look_goes_closer(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """By GET, and beside an invented page: one that shows the same for anything awaits the browser."""
    days = DayClock()
    farm.hosts["soft.example"] = _soft
    urls = [f"http://{name}.example/d/page.html" for name in ("soft", "fine")]
    ids = watch(sqlite_store, urls, day=days.day)

    async with checking(sqlite_store, farm, ["soft.example", "fine.example"], days=days, closer=True) as checker:
        await checker.check()

    awaits = [row_of(sqlite_store, ids[url]).opinion_day is not None for url in urls]
    assert awaits == [True, False]
    assert {each.method for each in farm.requests} == {"GET"}
    assert len(farm.requests) == 4  # each page once, and one beside it


async def test_a_look_that_waits_for_its_host_lets_others_ask(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """With one connection: the gap before a second request to a host is used for other hosts (W41)."""
    days = DayClock()
    farm.hosts["get.example"] = no_head
    names = ["get.example", *(f"h{number}.example" for number in range(5))]
    watch(sqlite_store, [f"http://{name}/" for name in names], day=days.day)

    async with checking(sqlite_store, farm, names, days=days, gap_s=0.5, connections=1) as checker:
        await checker.check()

    spans = sorted((each.began, each.ended) for each in farm.requests)
    assert all(after[0] >= before[1] for before, after in pairwise(spans))
    head, get = (each.began for each in farm.requests_to("get.example"))
    assert head < spans[-2][0]  # else no other host was left to ask meanwhile
    assert get == spans[-1][0]


async def test_without_files_fewer_are_asked_and_nothing_is_booked(
    sqlite_store: RegistryStore, farm: ServerFarm, caplog: pytest.LogCaptureFixture
) -> None:
    """EMFILE is our own fault: it is told loudly, and the URL is looked at a little later (W41)."""
    days = DayClock()
    url = "http://a.example/"
    watch(sqlite_store, [url], day=days.day)

    async with checking(sqlite_store, farm, ["a.example"], days=days, connections=8) as checker:
        prober = _FewFiles(checker.context.prober)
        context = replace(checker.context, prober=prober)
        tally = await CheckRun(context, checker.plan).run(checker.stop)

    assert (tally.stored, tally.states, prober.refused) == (1, {LinkState.ALIVE: 1}, 2)
    assert "may open no more files" in caplog.text


class _FewFiles(HttpProber):
    """Checks that can open no file twice."""

    def __init__(self, prober: HttpProber) -> None:
        self._prober = prober
        self.refused = 0

    async def probe(self, url: str, **options: Any) -> CheckResult:
        if self.refused < 2:
            self.refused += 1
            return CheckResult(StatusCode.NONE, CheckVerdict.UNDECIDED, CheckMethod.HEAD, note="files: ours")
        return await self._prober.probe(url, **options)

    async def probe_sibling(self, url: str) -> CheckResult:
        return await self._prober.probe_sibling(url)


async def test_result_that_cannot_be_kept_costs_no_other(
    sqlite_store: RegistryStore, farm: ServerFarm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is due again tomorrow, not pass after pass today; the log has its traceback."""
    days = DayClock()
    ids = watch(sqlite_store, [f"http://a.example/{number}" for number in range(6)], day=days.day)
    bad = ids["http://a.example/3"]

    def faulty(rows: Any, results: Sequence[UrlCheckResult], rules: CheckRules) -> list[RecordedResult]:
        if bad in [result.url_id for result in results]:
            raise OverflowError("int too large")
        return record_results(rows, results, rules)

    monkeypatch.setattr(result_store, "record_results", faulty)
    async with checking(sqlite_store, farm, ["a.example"], days=days) as checker:
        tally = await checker.check()

    assert tally.is_complete
    assert tally.states == {LinkState.ALIVE: 5}
    assert row_of(sqlite_store, bad).due_day == days.day + 1
    others = [row_of(sqlite_store, id_) for id_ in ids.values() if id_ != bad]
    assert all(row.checked_day == days.day for row in others)
    assert "OverflowError: int too large" in caplog.text


async def test_results_that_can_never_be_kept_end_the_checks(
    sqlite_store: RegistryStore, farm: ServerFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash loop is broken, with a sentence."""

    def faulty(_rows: Any, results: Sequence[UrlCheckResult], _rules: CheckRules) -> list[RecordedResult]:
        if results:
            raise OverflowError("int too large")
        return []

    days = DayClock()
    watch(sqlite_store, [f"http://a.example/{number}" for number in range(6)], day=days.day)
    monkeypatch.setattr(result_store, "record_results", faulty)
    monkeypatch.setattr(result_writer, "INTERNAL_ERRORS", 3)
    async with checking(sqlite_store, farm, ["a.example"], days=days) as checker:
        with pytest.raises(InvariantError, match="3 results in a row"):
            await checker.check()


async def test_look_whose_end_cannot_be_noted_does_not_hold_up_its_pass(
    sqlite_store: RegistryStore, farm: ServerFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass comes to its end, and the URL is due again tomorrow."""
    days = DayClock()
    ids = watch(sqlite_store, [f"http://a.example/{number}" for number in range(4)], day=days.day)
    done, left = Timetable.done, [1]

    def faulty(self: Timetable[Any], *arguments: Any) -> Any:
        is_done = done(self, *arguments)
        if left:
            left.pop()
            raise OverflowError("int too large")
        return is_done

    monkeypatch.setattr(Timetable, "done", faulty)
    async with checking(sqlite_store, farm, ["a.example"], days=days) as checker:
        await checker.check()

    rows = [row_of(sqlite_store, id_) for id_ in ids.values()]
    assert [row.checked_day for row in rows].count(days.day) == 3


async def test_pass_that_ends_by_an_internal_error_is_followed_by_another(
    sqlite_store: RegistryStore, farm: ServerFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watching goes on."""
    days, stop, errors = DayClock(), asyncio.Event(), [OverflowError("x")]
    ids = watch(sqlite_store, ["http://a.example/1"], day=days.day)
    fill = TimetableFeed.fill

    async def faulty(self: TimetableFeed, today: int) -> None:
        if errors:
            raise errors.pop()
        await fill(self, today)

    async def end(_tally: CheckTally) -> None:
        stop.set()

    monkeypatch.setattr(TimetableFeed, "fill", faulty)
    monkeypatch.setattr(check_worker, "FIRST_PAUSE_S", 0.0)
    async with checking(sqlite_store, farm, ["a.example"], days=days) as checker:
        await check_worker.check_continuously(checker.context, checker.plan, stop, between=end)

    assert row_of(sqlite_store, ids["http://a.example/1"]).checked_day == days.day
