"""Broken copies are captured again, where the site gives something better: run for real."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from core.clock import SystemClock
from core.config.settings import PolitenessSettings
from core.layout import Layout
from core.playback_check import QaVerdict
from crawler.frontier.base import NewItem
from crawler.frontier.sqlite_frontier import SqliteFrontier
from playback.url_paths import Memento, MementoModifier, memento_path
from playback.web.page_store import CapturedPage, PageStore
from qa.check_store import find_checks_of_urls, record_review
from qa.check_table import CheckedPage, RepairState
from tests.support.commands import CommandResult, WeboidRunner
from tests.support.linked_site import LinkedSite, weboid_for
from tests.support.paged_site import answers_of, damage
from tests.support.playback_fixtures import running_replay
from tests.support.services.registries import open_registry
from tests.support.sites.web import TestWeb
from warc.index.database import open_database

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow, pytest.mark.timeout(900)]

PLACES = ("a.example/back", "a.example/gone", "d.example/x", "e.example/judged", "f.example/other")
BACK, GONE, DOWN, JUDGED, OTHER = (f"http://{place}" for place in PLACES)
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def site() -> Iterator[LinkedSite]:
    """Serve pages on four hosts."""
    with LinkedSite(answers_of(*PLACES)) as served:
        yield served


@dataclass(frozen=True)
class RepairedCollection:
    """A collection of damaged copies, and the run that repaired them."""

    weboid: WeboidRunner
    before: dict[str, CapturedPage]  # what was offered of each URL
    ran: CommandResult


@pytest.fixture(scope="module")
def repaired(site: LinkedSite, web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> RepairedCollection:
    """Archive all pages but one, damage three, make two of those unavailable, then check and repair all."""
    weboid = weboid_for(
        *(site, web, tmp_path_factory.mktemp("repaired")), visit={"full_page": True}, frontier={"attempts": 1}
    )
    urls = (BACK, GONE, DOWN, JUDGED)
    assert weboid.archive(*urls).code == 0
    damage(weboid, pictures=("back", "gone", "x"))
    before = {url: offered(weboid, url) for url in urls}
    del site.answers["a.example/gone"]
    down = f'"d.example:80" = "127.0.0.1:{site.port}"'
    text = weboid.profile.read_text()
    assert down in text
    weboid.profile.write_text(text.replace(down, '"d.example:80" = "127.0.0.1:9"'))
    return RepairedCollection(weboid, before, qa(weboid, "--all", "--repair"))


def qa(weboid: WeboidRunner, *arguments: str) -> CommandResult:
    """Run `weboid qa --json …` with the profile."""
    return weboid.run("qa", *arguments, "--json", "--profile", str(weboid.profile))


def checks(weboid: WeboidRunner, url: str) -> list[CheckedPage]:
    """Return the checks of the URL's captures, the oldest first."""
    with closing(open_registry(Layout(weboid.collection))) as store, store.reading() as rows:
        return find_checks_of_urls(rows, [url])[::-1]


def offered(weboid: WeboidRunner, url: str, **when: Any) -> CapturedPage:
    """Return the capture that readers are offered."""
    with closing(open_database(Layout(weboid.collection), "")) as database:
        page = PageStore(database).nearest(url, when.get("at"))
    assert page is not None
    return page


def state_of(ran: CommandResult) -> dict[str, str]:
    """Return the final states of repairs by URL."""
    return {each["url"]: each["state"] for each in ran.events if each["event"] == "repaired"}


def mark_broken(weboid: WeboidRunner, url: str) -> None:
    """Record a person's verdict that the copy is broken."""
    (page,) = checks(weboid, url)
    store = open_registry(Layout(weboid.collection))
    with closing(store), store.writing() as rows:
        page_id, now = page.check.page_id, CLOCK.now()
        record_review(rows, page_id, "images", QaVerdict.BROKEN, by="Ada", now=now)


def test_what_failed_is_captured_again_and_the_better_capture_is_offered(
    repaired: RepairedCollection, site: LinkedSite
) -> None:
    """Once, and only where the site still has it; the old captures stay readable at their timestamps."""
    weboid, before, ran = repaired.weboid, repaired.before, repaired.ran

    assert ran.summary["broken"] == 3
    assert state_of(ran) == {BACK: RepairState.DONE_BETTER, GONE: RepairState.DONE_NOT_BETTER, DOWN: RepairState.FAILED}
    assert ran.code == 1
    old, new = checks(weboid, BACK)
    assert (old.verdict, new.verdict) == (QaVerdict.BROKEN, QaVerdict.GOOD)
    assert old.repair_page_id == new.check.page_id
    assert offered(weboid, BACK).page_id == new.check.page_id
    assert offered(weboid, GONE).page_id == before[GONE].page_id
    assert offered(weboid, DOWN).page_id == before[DOWN].page_id
    assert old.is_recorded
    assert new.is_recorded

    visits = dict(site.requests)
    again = weboid.call("qa", "repair", "--json", "--profile", str(weboid.profile))

    assert (again.code, again.summary["repaired"]) == (0, {})
    assert dict(site.requests) == visits
    at = before[BACK].captured_at
    assert offered(weboid, BACK, at=at).page_id == before[BACK].page_id
    with running_replay(weboid.collection) as replay:
        moment = before[BACK].timestamp
        shown = replay.get(memento_path(Memento(moment, MementoModifier.VERY, BACK)))
    assert shown.status == 200
    assert "ships and harbours" in shown.text


def test_a_persons_word_has_a_page_captured_again(repaired: RepairedCollection, site: LinkedSite) -> None:
    """Although the machine finds nothing wrong; where the repair is killed, the next run goes on.

    Pages that wait in the frontier are not begun by a repair: they belong to another run. What is to be
    repaired waits among them, and that is reported.
    """
    weboid = repaired.weboid
    mark_broken(weboid, JUDGED)
    listed = weboid.call("qa", "repair", "--dry-run", "--json", "--profile", str(weboid.profile))
    assert [each["url"] for each in listed.events] == [JUDGED]

    _kill_when_visited(weboid, site)
    layout = Layout(weboid.collection)
    with SqliteFrontier(layout.frontier_db, politeness=PolitenessSettings()) as frontier:
        frontier.add([NewItem(OTHER)], now=CLOCK.now())
    visits = site.requests["e.example/judged"]
    begun = weboid.call("qa", "repair", "--json", "--profile", str(weboid.profile))

    assert state_of(begun) == {}
    assert (site.requests["e.example/judged"], site.requests["f.example/other"]) == (visits, 0)
    assert checks(weboid, JUDGED)[0].repair is RepairState.BEGUN
    assert (begun.summary["left"], begun.summary["why_left"]) == (1, "others")

    archived = weboid.archive("--qa")

    assert archived.code == 0
    assert archived.summary["repaired"] == {"done-better": 1}
    old, new = checks(weboid, JUDGED)
    assert old.repair is RepairState.DONE_BETTER
    assert old.repair_page_id == new.check.page_id
    assert offered(weboid, JUDGED).page_id == new.check.page_id


def _kill_when_visited(weboid: WeboidRunner, site: LinkedSite) -> None:
    """Begin a repair, and kill it and all its children while the site is being asked."""
    before = site.requests["e.example/judged"]
    process = weboid.start("qa", "repair", "--profile", str(weboid.profile))
    try:
        site.wait_until_asked("e.example/judged", before + 1)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
