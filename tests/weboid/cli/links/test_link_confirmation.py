"""`weboid links confirm`: the browser's word on links."""

import asyncio
import json
import signal
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import bindparam, insert, select, update

from core.clock import SystemClock
from core.config.settings import PolitenessSettings, Settings
from core.layout import Layout
from crawler.frontier.base import ItemState, NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.worker.page_task import ONE_ATTEMPT
from links.check_history import day_of
from links.checker.due_urls import AwaitingLink
from links.registry.pages import PageName, PutPage, put_pages
from links.registry.schema import hosts, observations, urls
from links.registry.urls import ensure_urls
from links.registry.wikis import WikiName, ensure_wiki
from links.rules.link_class import ClassifiedLink, LinkClass
from links.states import FailureProof, LinkState
from tests.links.checker.test_browser_check import ARTICLE, GAMBLING, OTHER
from tests.support.linked_site import LinkedSite, file, page, weboid_for
from tests.support.services.registries import open_registry
from tests.support.sites.web import TestWeb
from weboid.app.wiki_intake import FrontierArchive
from weboid.cli.links import link_confirmation
from weboid.cli.support.commands import ExitCode

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow]

TODAY = day_of(SystemClock().now())


def html(title: str, text: str) -> tuple[int, dict[str, str], bytes]:
    return file(f"<title>{title}</title><h1>{title}</h1><p>{text}</p>".encode(), "text/html")


@pytest.fixture
def site() -> Iterator[LinkedSite]:
    """Hosts whose pages are as they were cited."""
    with LinkedSite(
        {
            "fine.example.net/a": html("Cape", ARTICLE),
            "sold.example.net/a": html("Cape", ARTICLE),
            "other.example.net/a": html("Cape", ARTICLE),
            "gone.example.net/b": page(),
        }
    ) as running:
        yield running


def watched(collection: Path, addresses: Iterable[str]) -> None:
    """A registry in which these links have failed as often as it takes, and wait for the browser."""
    with closing(open_registry(Layout(collection))) as store, store.writing() as rows:
        found = ensure_urls(rows, list(addresses), day=TODAY - 60)
        rows.execute(
            update(urls).where(urls.c.id == bindparam("b_id")),
            [
                {
                    "b_id": number,
                    "state": int(LinkState.DYING),
                    "fails": 6,
                    "first_fail_day": TODAY - 30,
                    "last_fail_day": TODAY - 3,
                    "proofs": int(FailureProof.GET),
                    "opinion_day": TODAY,
                }
                for number in found.values()
            ],
        )
        rows.execute(insert(observations), [looked_at(number) for number in found.values()])


def looked_at(number: int) -> dict[str, int | str]:
    """A failure that was seen just now."""
    now = int(SystemClock().now().timestamp())
    return {"url_id": number, "moment": now, "how": 2, "code": 18, "verdict": "gone"}


def states(collection: Path) -> dict[str, LinkState]:
    """By host and path."""
    with closing(open_registry(Layout(collection))) as store, store.reading() as rows:
        asked = select(hosts.c.name, urls.c.path, urls.c.state).join_from(
            urls, hosts, hosts.c.id == urls.c.host_id
        )
        return {row.name + row.path: LinkState(row.state) for row in rows.execute(asked)}


def test_the_browser_decides_what_becomes_of_a_link(
    site: LinkedSite, web: TestWeb, tmp_path: Path
) -> None:
    """Gone is dead, a page that is there is alive, another owner's is usurped, other words deviated."""
    weboid = weboid_for(site, web, tmp_path)
    cited = [key for key in site.answers if key.endswith("/a")]
    weboid.archive(*(f"http://{key}" for key in cited))
    gone, away = "gone.example.net/a", "away.example.net/a"
    watched(weboid.collection, [f"http://{key}" for key in (*cited, gone, away)])
    site.answers["sold.example.net/a"] = html("Slot gacor", GAMBLING)
    site.answers["other.example.net/a"] = html("Tax advice", OTHER)

    listed = weboid.run("links", "confirm", "--dry-run")
    ran = weboid.run("links", "confirm", "--json", "--profile", str(weboid.profile))
    again = weboid.run("links", "confirm", "--dry-run")

    assert len(listed.out.splitlines()) == 5, listed
    assert ran.code == 0, ran
    assert states(weboid.collection) == {
        "fine.example.net/a": LinkState.ALIVE,
        "sold.example.net/a": LinkState.USURPED,
        "other.example.net/a": LinkState.DEVIATED,
        gone: LinkState.DEAD,
        away: LinkState.DEAD,
    }
    assert {each["url"]: each["verdict"] for each in ran.events}[f"http://{gone}"] == "gone"
    assert again.out == ""


def test_a_link_is_visited_as_its_page_spells_it(
    site: LinkedSite, web: TestWeb, tmp_path: Path
) -> None:
    """A17: servers may tell escapes apart that the registry's key does not; only the spelling is there."""
    weboid = weboid_for(site, web, tmp_path)
    spelled, key = "http://fine.example.net/a?q=%2d", "http://fine.example.net/a?q=-"
    site.answers["fine.example.net/a?q=%2d"] = html("Cape", ARTICLE)
    weboid.archive("http://other.example.net/a")
    watched(weboid.collection, [key])
    with closing(open_registry(Layout(weboid.collection))) as store, store.writing() as rows:
        wiki = ensure_wiki(rows, WikiName("dewiki"), day=TODAY)
        link = ClassifiedLink(spelled, LinkClass.WATCHED, key, spelling=spelled)
        put_pages(rows, wiki.id, [PutPage(PageName(1, "A"), (link,))], day=TODAY)

    listed = weboid.run("links", "confirm", "--dry-run")
    ran = weboid.run("links", "confirm", "--json", "--profile", str(weboid.profile))

    assert listed.out.split() == [spelled]
    assert [(each["url"], each["after"]) for each in ran.events] == [(key, "alive")], ran
    assert site.asked["fine.example.net/a?q=-"] == 0


def test_a_dead_host_is_confirmed_by_one_visit(
    site: LinkedSite, web: TestWeb, tmp_path: Path
) -> None:
    """Hundreds of its links are decided in the time of one; those of another host by their own visits."""
    weboid = weboid_for(site, web, tmp_path)
    weboid.archive("http://fine.example.net/a")
    dead = [f"http://away.example.net/{number}" for number in range(300)]
    watched(weboid.collection, [*dead, "http://fine.example.net/a", "http://fine.example.net/b"])

    ran = weboid.run("links", "confirm", "--json", "--profile", str(weboid.profile))

    assert ran.code == 0, ran
    found = states(weboid.collection)
    assert {state for name, state in found.items() if name.startswith("away.")} == {LinkState.DEAD}
    assert (found["fine.example.net/a"], found["fine.example.net/b"]) == (
        LinkState.ALIVE,
        LinkState.DEAD,
    )
    with SqliteFrontier(
        Layout(weboid.collection).frontier_db, politeness=PolitenessSettings()
    ) as frontier:
        assert sum(each is not None for each in frontier.find_all(dead)) == 1


def test_a_host_that_is_down_already_speaks_for_its_links(
    site: LinkedSite, web: TestWeb, tmp_path: Path
) -> None:
    """What ends unvisited, since its host was given up, is no less confirmed; one attempt each."""
    weboid = weboid_for(site, web, tmp_path)
    weboid.archive("http://fine.example.net/a")
    now = SystemClock().now()
    profile = ("--profile", str(weboid.profile))
    dead = [f"http://away.example.net/{number}" for number in range(5)]
    with SqliteFrontier(
        Layout(weboid.collection).frontier_db, politeness=PolitenessSettings(host_failures=1)
    ) as frontier:
        frontier.add([NewItem("http://away.example.net/cited")], now=now)
        frontier.back_off("away.example.net", "connect: refused", now=now, down=True)
    watched(weboid.collection, dead)

    asked = weboid.run("links", "confirm", "--hand-over", *profile)
    weboid.archive("http://other.example.net/a")
    booked = weboid.run("links", "confirm", "--hand-over", "--json", *profile)

    assert asked.code == booked.code == 0, (asked, booked)
    found = states(weboid.collection)
    assert {found[each.removeprefix("http://")] for each in dead} == {LinkState.DEAD}
    with SqliteFrontier(
        Layout(weboid.collection).frontier_db, politeness=PolitenessSettings()
    ) as frontier:
        (record,) = [each for each in frontier.find_all(dead) if each is not None]
    assert (record.state, len(record.attempts)) == (ItemState.DEAD, 1)


def test_what_waits_for_its_site_is_asked_for_now(
    site: LinkedSite, web: TestWeb, tmp_path: Path
) -> None:
    """The queue would try it again in a week; the browser's word is needed before, once."""
    weboid = weboid_for(site, web, tmp_path)
    weboid.archive("http://fine.example.net/a")
    url, via, now = "http://gone.example.net/a", "http://wiki.example.net/Page", SystemClock().now()
    with SqliteFrontier(
        Layout(weboid.collection).frontier_db, politeness=PolitenessSettings()
    ) as frontier:
        frontier.add([NewItem(url, via=via)], now=now - timedelta(hours=3))
        (item,) = frontier.claim(now=now - timedelta(hours=2), worker="w")
        frontier.retry(
            item,
            now=now - timedelta(hours=2),
            reason="connect: refused",
            not_before=now + timedelta(days=7),
        )
        watched(weboid.collection, [url])

        asked = weboid.run("links", "confirm", "--hand-over", "--profile", str(weboid.profile))
        record = frontier.find(url)
        note = frontier.note(ONE_ATTEMPT, url, now=now)

    assert asked.code == 0, asked
    assert record is not None
    assert (record.state, record.due_at, record.item.via) == (ItemState.QUEUED, None, via)
    assert note is not None


def test_what_is_captured_anyway_is_held_against_its_first_copy(
    site: LinkedSite, web: TestWeb, tmp_path: Path
) -> None:
    """A crawl that comes by a sold domain tells the registry."""
    weboid = weboid_for(site, web, tmp_path)
    urls_cited = ["http://sold.example.net/a", "http://fine.example.net/a"]
    weboid.archive(*urls_cited)
    with closing(open_registry(Layout(weboid.collection))) as store, store.writing() as rows:
        ensure_urls(rows, urls_cited, day=TODAY)
    site.answers["sold.example.net/a"] = html("Slot gacor", GAMBLING)
    weboid.archive("--again", *urls_cited)

    ran = weboid.run("links", "confirm", "--no-visit", "--captures", "1d", "--json")

    assert ran.code == 0, ran
    assert states(weboid.collection) == {
        "fine.example.net/a": LinkState.ALIVE,
        "sold.example.net/a": LinkState.USURPED,
    }


def test_it_goes_on_until_it_is_stopped(site: LinkedSite, web: TestWeb, tmp_path: Path) -> None:
    """Round after round; SIGINT ends it between two."""
    weboid = weboid_for(site, web, tmp_path)
    weboid.archive("http://fine.example.net/a")
    watched(weboid.collection, ["http://fine.example.net/a"])
    with weboid.start(
        *("links", "confirm", "--every", "1h", "--json", "--profile", str(weboid.profile))
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        code = process.wait(120)

    assert json.loads(first)["after"] == "alive"
    assert code in (ExitCode.OK, ExitCode.STOPPED)  # before it rests, or while it does


def test_visits_are_left_to_whoever_works_there(
    site: LinkedSite, web: TestWeb, tmp_path: Path
) -> None:
    """One process stays at the collection and visits, another books what it saw; both end when told."""
    weboid = weboid_for(site, web, tmp_path)
    profile = ("--profile", str(weboid.profile))
    with weboid.start("archive", "--stay", "--json", *profile) as crew:
        lines = iter(crew.stdout or ())
        next(lines)  # it has made the collection
        watched(weboid.collection, ["http://fine.example.net/a", "http://gone.example.net/a"])
        asked = weboid.run("links", "confirm", "--hand-over", *profile)
        ended = list(_until(lines, "page", 2))
        booked = weboid.run("links", "confirm", "--hand-over", "--json", *profile)
        crew.send_signal(signal.SIGTERM)
        for _ in lines:
            pass
        code = crew.wait(120)

    assert asked.code == booked.code == 0, (asked, booked)
    assert {json.loads(line)["url"] for line in ended} == {
        "http://fine.example.net/a",
        "http://gone.example.net/a",
    }
    assert states(weboid.collection) == {
        "fine.example.net/a": LinkState.ALIVE,
        "gone.example.net/a": LinkState.DEAD,
    }
    assert code == ExitCode.OK


def _until(lines: Iterator[str], event: str, count: int) -> Iterator[str]:
    """So many lines that tell that event."""
    for line in lines:
        if json.loads(line).get("event") == event:
            yield line
            count -= 1
            if not count:
                return


def test_what_was_visited_is_to_be_kept_elsewhere_too(
    site: LinkedSite, web: TestWeb, tmp_path: Path
) -> None:
    """`links mirror` takes watched links by what came of their visits, as the setting says (A10)."""
    weboid = weboid_for(site, web, tmp_path)
    cited = ["http://fine.example.net/a", "http://gone.example.net/a"]
    weboid.archive(*cited, "http://other.example.net/a")  # nobody cites the last one
    with closing(open_registry(Layout(weboid.collection))) as store, store.writing() as rows:
        ensure_urls(rows, cited, day=TODAY)
    told = {}
    for setting in ("never", "failed", "always"):
        profile = tmp_path / f"{setting}.toml"
        profile.write_text(f'[links]\nmirror = "{setting}"\n')
        ran = weboid.run("links", "mirror", "--dry-run", "--profile", str(profile))
        told[setting] = (ran.code, sorted(ran.out.split()))

    assert told["never"][0] == ExitCode.INPUT
    assert told["failed"] == (ExitCode.OK, sorted(["gone", cited[1]]))
    assert told["always"] == (ExitCode.OK, sorted(["good", cited[0], "gone", cited[1]]))


def test_a_capture_of_an_error_is_no_copy(site: LinkedSite, web: TestWeb, tmp_path: Path) -> None:
    """A3: archives are asked about a link that was gone when it was archived here."""
    weboid = weboid_for(site, web, tmp_path)
    gone, fine = "http://gone.example.net/a", "http://fine.example.net/a"
    weboid.archive(gone, fine)
    watched(weboid.collection, [gone, fine])
    layout, clock = Layout(weboid.collection), SystemClock()
    with SqliteFrontier(layout.frontier_db, politeness=PolitenessSettings()) as frontier:
        queue = FrontierArchive(frontier, Settings(), clock=clock, layout=layout)
        there = asyncio.run(queue.archived([gone, fine], datetime(2026, 1, 1, tzinfo=UTC)))
        later = asyncio.run(queue.archived([gone, fine], clock.now() + timedelta(days=1)))
    assert (there, later) == ([fine], [])

    ran = weboid.run("links", "copies", gone, "--find", "--json")
    ours = weboid.run("links", "copies", fine, "--find", "--json")

    assert (ran.events[0]["outcome"], ran.events[0]["best"]) == ("later", None)
    assert (ours.events[0]["outcome"], ours.events[0]["best"]["archive"]) == (
        "own",
        "weboid",
    )


@pytest.mark.parametrize(
    ("reason", "is_gone"),
    [
        ("robots: it cannot be had (connect: museum.example:443 cannot be reached)", True),
        ("robots: it cannot be had (dns: museum.example does not resolve)", True),
        ("robots: it cannot be had (status 503)", False),
        ("the worker is gone", False),
    ],
)
def test_a_host_that_gives_no_robots_txt_because_it_is_away_is_an_opinion(
    reason: str, *, is_gone: bool, tmp_path: Path
) -> None:
    """Where robots.txt is obeyed such a page is never visited: else its link would wait for ever."""
    url, now = "https://museum.example/a", SystemClock().now()
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:
        frontier.add([NewItem(url)], now=now)
        (item,) = frontier.claim(now=now, worker="w")
        frontier.release(item, now=now, reason=reason, not_before=now + timedelta(hours=1))
        record = frontier.find(url)

    opinion = link_confirmation._queue_opinion(
        AwaitingLink(1, url, now - timedelta(minutes=1), url), record
    )
    assert (opinion is not None and opinion[0].whole_host) is is_gone


def test_an_end_by_a_host_that_was_down_already_is_an_opinion(tmp_path: Path) -> None:
    """Also where it was found to be down by its robots.txt."""
    url, now = "https://museum.example/a", SystemClock().now()
    with SqliteFrontier(tmp_path / "frontier.sqlite") as frontier:
        frontier.add([NewItem(url)], now=now)
        (item,) = frontier.claim(now=now, worker="w")
        reason = "host down: robots.txt cannot be had: dns: museum.example does not resolve"
        frontier.fail(item, now=now, reason=reason)
        record = frontier.find(url)

    opinion = link_confirmation._queue_opinion(
        AwaitingLink(1, url, now - timedelta(minutes=1), url), record
    )
    assert opinion is not None
    assert opinion[0].whole_host
