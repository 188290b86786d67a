"""`weboid links confirm` and what `links mirror` and `links copies` read from the same visits."""

import asyncio
import json
import signal
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import bindparam, insert, select, update

from core.clock import SystemClock
from core.config.settings import PolitenessSettings, Settings
from core.layout import Layout
from crawler.collection import make_collection
from crawler.frontier.base import HostBackOff, ItemState, NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.worker.page_task import ONE_ATTEMPT
from links.check_history import day_of
from links.registry.pages import PageName, PutPage, put_pages
from links.registry.schema import hosts, observations, urls
from links.registry.urls import ensure_urls
from links.registry.wikis import WikiName, ensure_wiki
from links.rules.link_class import ClassifiedLink, LinkClass
from links.states import FailureProof, LinkState
from tests.links.checker.test_browser_check import ARTICLE, GAMBLING, OTHER
from tests.support.commands import CommandResult, WeboidRunner
from tests.support.linked_site import LinkedSite, file, page, weboid_for
from tests.support.polling import wait_until
from tests.support.services.registries import open_registry
from tests.support.sites.web import TestWeb
from weboid.app.wiki.wiki_intake import FrontierArchive
from weboid.cli.support.commands import ExitCode

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow]

CLOCK = SystemClock()
FINE, SOLD, OTHER_TEXT = (f"http://{name}.example.net/a" for name in ("fine", "sold", "other"))
GONE_AT_FIRST = "http://gone.example.net/first"  # archived as an error
GONE, UNCITED = "http://gone.example.net/a", "http://uncited.example.net/a"
SPELLED, SPELLED_KEY = "http://fine.example.net/a?q=%2d", "http://fine.example.net/a?q=-"
DEAD_HOST = [f"http://away.example.net/{number}" for number in range(40)]


def html(title: str, text: str) -> tuple[int, dict[str, str], bytes]:
    return file(f"<title>{title}</title><h1>{title}</h1><p>{text}</p>".encode(), "text/html")


def watched(collection: Path, addresses: Iterable[str]) -> None:
    """Add links to the registry that have failed as often as it takes to wait for the browser."""
    # Checks have whole seconds: a capture of the same second would count as a visit after the failure.
    begun = int(CLOCK.now().timestamp())
    wait_until(lambda: int(CLOCK.now().timestamp()) > begun)
    with closing(open_registry(Layout(collection))) as store, store.writing() as rows:
        ids = ensure_urls(rows, list(addresses), day=day_of(CLOCK.now()) - 60)
        rows.execute(
            update(urls).where(urls.c.id == bindparam("b_id")),
            [
                {
                    "b_id": number,
                    "state": int(LinkState.DYING),
                    "fails": 6,
                    "first_fail_day": day_of(CLOCK.now()) - 30,
                    "last_fail_day": day_of(CLOCK.now()) - 3,
                    "proofs": int(FailureProof.GET),
                    "opinion_day": day_of(CLOCK.now()),
                }
                for number in ids.values()
            ],
        )
        rows.execute(insert(observations), [failure_of(number) for number in ids.values()])


def failure_of(number: int) -> dict[str, int | str]:
    """Return the row of a failure that was observed just now."""
    now = int(CLOCK.now().timestamp())
    return {"url_id": number, "moment": now, "how": 2, "code": 18, "verdict": "gone"}


def states(collection: Path) -> dict[str, LinkState]:
    """Return the states of the links by host and path."""
    with closing(open_registry(Layout(collection))) as store, store.reading() as rows:
        query = select(hosts.c.name, urls.c.path, urls.c.state).join_from(urls, hosts, hosts.c.id == urls.c.host_id)
        return {row.name + row.path: LinkState(row.state) for row in rows.execute(query)}


def frontier_of(weboid: WeboidRunner, *, host_failures: int = 3) -> SqliteFrontier:
    return SqliteFrontier(
        Layout(weboid.collection).frontier_db, politeness=PolitenessSettings(host_failures=host_failures)
    )


@dataclass
class ConfirmedLinks:
    """A collection whose links were archived, became suspect, and were confirmed."""

    weboid: WeboidRunner
    site: LinkedSite
    first: CommandResult  # the archiving of the pages as they were cited
    mirrored: dict[str, CommandResult]  # `links mirror --dry-run` after the first visits, by setting
    listed: CommandResult
    ran: CommandResult
    again: CommandResult
    state: dict[str, LinkState]  # by host and path, after the confirmation


@pytest.fixture(scope="module")
def confirmed(web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfirmedLinks]:
    """Archive pages as they were cited, change the site, and confirm their links with the browser."""
    folder = tmp_path_factory.mktemp("confirmed")
    cited = {url.removeprefix("http://"): html("Cape", ARTICLE) for url in (FINE, SOLD, OTHER_TEXT)}
    with LinkedSite({**cited, "gone.example.net/b": page(), "uncited.example.net/a": page()}) as site:
        weboid = weboid_for(site, web, folder)
        first = weboid.archive(FINE, SOLD, OTHER_TEXT, GONE_AT_FIRST, UNCITED)
        with closing(open_registry(Layout(weboid.collection))) as store, store.writing() as rows:
            ensure_urls(rows, [FINE, GONE_AT_FIRST], day=day_of(CLOCK.now()) - 60)
        mirrored = {}
        for setting in ("never", "failed", "always"):
            profile = folder / f"{setting}.toml"
            profile.write_text(f'[links]\nmirror = "{setting}"\n')
            mirrored[setting] = weboid.call("links", "mirror", "--dry-run", "--profile", str(profile))
        watched(weboid.collection, [FINE, SOLD, OTHER_TEXT, GONE, SPELLED_KEY, *DEAD_HOST])
        with closing(open_registry(Layout(weboid.collection))) as store, store.writing() as rows:
            wiki = ensure_wiki(rows, WikiName("dewiki"), day=day_of(CLOCK.now()))
            link = ClassifiedLink(SPELLED, LinkClass.WATCHED, SPELLED_KEY, spelling=SPELLED)
            put_pages(rows, wiki.id, [PutPage(PageName(1, "A"), (link,))], day=day_of(CLOCK.now()))
        site.answers["sold.example.net/a"] = html("Slot gacor", GAMBLING)
        site.answers["other.example.net/a"] = html("Tax advice", OTHER)
        site.answers["fine.example.net/a?q=%2d"] = html("Cape", ARTICLE)
        listed = weboid.call("links", "confirm", "--dry-run")
        ran = weboid.run("links", "confirm", "--json", "--profile", str(weboid.profile))
        again = weboid.call("links", "confirm", "--dry-run")
        assert ran.code == 0, ran
        yield ConfirmedLinks(weboid, site, first, mirrored, listed, ran, again, states(weboid.collection))


def test_the_browser_decides_what_becomes_of_a_link(confirmed: ConfirmedLinks) -> None:
    """Gone is dead, a page that is there is alive, another owner's is usurped, other words deviated."""
    verdicts = {each["url"]: each["verdict"] for each in confirmed.ran.events}

    assert len(confirmed.listed.out.splitlines()) == 5 + len(DEAD_HOST), confirmed.listed
    assert [confirmed.state[url.removeprefix("http://")] for url in (FINE, SOLD, OTHER_TEXT, GONE)] == [
        LinkState.ALIVE,
        LinkState.USURPED,
        LinkState.DEVIATED,
        LinkState.DEAD,
    ], (confirmed.ran, confirmed.first)
    assert verdicts[GONE] == "gone"
    assert confirmed.again.out == ""


def test_a_link_is_visited_as_its_page_spells_it(confirmed: ConfirmedLinks) -> None:
    """A17: servers may tell escapes apart that the registry's key does not; only the spelling is there."""
    after = {each["url"]: each["after"] for each in confirmed.ran.events}

    assert SPELLED in confirmed.listed.out.split()
    assert after[SPELLED_KEY] == "alive", confirmed.ran
    assert confirmed.site.requests["fine.example.net/a?q=-"] == 0


def test_a_dead_host_is_confirmed_by_one_visit(confirmed: ConfirmedLinks) -> None:
    """All its links are decided in the time of one."""
    assert {confirmed.state[url.removeprefix("http://")] for url in DEAD_HOST} == {LinkState.DEAD}
    with frontier_of(confirmed.weboid) as frontier:
        assert sum(each is not None for each in frontier.find_all(DEAD_HOST)) == 1


def test_what_was_visited_is_to_be_kept_elsewhere_too(confirmed: ConfirmedLinks) -> None:
    """`links mirror` takes watched links by what came of their visits, as the setting says (A10)."""
    listed = {setting: sorted(ran.out.split()) for setting, ran in confirmed.mirrored.items()}

    assert confirmed.mirrored["never"].code == ExitCode.INPUT
    assert listed["failed"] == sorted(["gone", GONE_AT_FIRST])
    assert listed["always"] == sorted(["good", FINE, "gone", GONE_AT_FIRST])


def test_a_capture_of_an_error_is_no_copy(confirmed: ConfirmedLinks) -> None:
    """A3: archives are asked about a link that was gone when it was archived here."""
    weboid, both = confirmed.weboid, [GONE_AT_FIRST, FINE]
    watched(weboid.collection, [GONE_AT_FIRST])
    layout = Layout(weboid.collection)
    with frontier_of(weboid) as frontier:
        queue = FrontierArchive(frontier, Settings(), clock=CLOCK, layout=layout)
        archived = asyncio.run(queue.archived(both, datetime(2026, 1, 1, tzinfo=UTC)))
        later = asyncio.run(queue.archived(both, CLOCK.now() + timedelta(days=1)))

    searches = [weboid.call("links", "copies", "find", url, "--json").events[0] for url in both]

    assert (archived, later) == ([FINE], [])
    assert (searches[0]["outcome"], searches[0]["best"]) == ("later", None)
    assert (searches[1]["outcome"], searches[1]["best"]["archive"]) == ("own", "weboid")


def test_what_is_captured_anyway_is_held_against_its_first_copy(confirmed: ConfirmedLinks) -> None:
    """A crawl that comes by a sold domain is evidence for the registry."""
    weboid = confirmed.weboid
    with closing(open_registry(Layout(weboid.collection))) as store, store.writing() as rows:
        rows.execute(update(urls).values(state=int(LinkState.ALIVE), fails=0, proofs=0))

    ran = weboid.call("links", "confirm", "--no-visit", "--captures", "1d", "--json")

    assert ran.code == 0, ran
    state = states(weboid.collection)
    assert state["sold.example.net/a"] is LinkState.USURPED
    assert state["fine.example.net/a"] is LinkState.ALIVE


@pytest.fixture
def idle(web: TestWeb, tmp_path: Path) -> Iterator[WeboidRunner]:
    """Yield a runner on a collection without any visited page."""
    with LinkedSite({"fine.example.net/a": html("Cape", ARTICLE), "gone.example.net/b": page()}) as site:
        weboid = weboid_for(site, web, tmp_path)
        weboid.collection.mkdir()
        make_collection(Layout(weboid.collection), CLOCK)
        yield weboid


def test_what_waits_for_its_site_is_asked_for_now(idle: WeboidRunner) -> None:
    """The queue would try it again in a week; the browser's word is needed before, once."""
    via, now = "http://wiki.example.net/Page", CLOCK.now()
    with frontier_of(idle) as frontier:
        frontier.add([NewItem(GONE, via=via)], now=now - timedelta(hours=3))
        (item,) = frontier.claim(now=now - timedelta(hours=2), worker="w")
        frontier.retry(
            item, now=now - timedelta(hours=2), reason="connect: refused", not_before=now + timedelta(days=7)
        )
        watched(idle.collection, [GONE])

        ran = idle.call("links", "confirm", "--hand-over", "--profile", str(idle.profile))
        record = frontier.find(GONE)
        note = frontier.note(ONE_ATTEMPT, GONE, now=now)

    assert ran.code == 0, ran
    assert record is not None
    assert (record.state, record.due_at, record.item.via) == (ItemState.QUEUED, None, via)
    assert note is not None


def test_it_goes_on_until_it_is_stopped(idle: WeboidRunner) -> None:
    """Round after round; SIGINT ends it between two."""
    now = CLOCK.now()
    with frontier_of(idle) as frontier:
        frontier.add([NewItem(FINE)], now=now)
        (item,) = frontier.claim(now=now, worker="w")
        watched(idle.collection, [FINE])
        frontier.fail(item, now=CLOCK.now(), reason="connect: refused")
    with idle.start("links", "confirm", "--no-visit", "--every", "1h", "--json") as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        code = process.wait(120)

    assert json.loads(first)["after"] == "dead"
    assert code in (ExitCode.OK, ExitCode.STOPPED)  # before it rests, or while it does


def test_visits_are_left_to_another_process(idle: WeboidRunner) -> None:
    """One process stays at the collection and visits, another records; both end when they are to.

    A link that ends unvisited, since its host was given up, is no less confirmed; one attempt each.
    """
    profile = ("--profile", str(idle.profile))
    dead, now = DEAD_HOST[:5], CLOCK.now()
    with frontier_of(idle, host_failures=1) as frontier:
        frontier.add([NewItem("http://away.example.net/cited")], now=now)
        frontier.back_off(HostBackOff("away.example.net", "connect: refused", down=True), now=now)
    watched(idle.collection, [FINE, GONE, *dead])
    confirmation = idle.call("links", "confirm", "--hand-over", *profile)
    with idle.start("archive", "--stay", "--json", *profile) as crew:
        lines = iter(crew.stdout or ())
        visited: set[str] = set()
        while not (visited >= {FINE, GONE} and visited & set(dead)):
            event = json.loads(next(lines))
            if event["event"] == "page":
                visited.add(event["url"])
        booked = idle.call("links", "confirm", "--hand-over", "--json", *profile)
        crew.send_signal(signal.SIGTERM)
        for _ in lines:
            pass
        code = crew.wait(120)

    assert confirmation.code == booked.code == 0, (confirmation, booked)
    state = states(idle.collection)
    assert state.pop("fine.example.net/a") is LinkState.ALIVE
    assert set(state.values()) == {LinkState.DEAD}
    with frontier_of(idle) as frontier:
        (record,) = [each for each in frontier.find_all(dead) if each is not None]
    assert (record.state, len(record.attempts)) == (ItemState.DEAD, 1)
    assert code == ExitCode.SOME_FAILED  # the host that is down
