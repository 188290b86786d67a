"""Copies checked and repaired while a cluster's proxies hold the collection: with its real parts."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.layout import Layout
from core.playback_check import QaVerdict
from crawler.frontier.base import NewItem
from qa.check_store import find_checks_of_urls, record_review
from qa.check_table import CheckedPage, RepairState
from tests.support.commands import WeboidRunner
from tests.support.linked_site import LinkedSite, weboid_for
from tests.support.paged_site import answers_of
from tests.support.services.redis_server import RedisServer
from tests.support.services.registries import open_registry
from tests.support.sites.web import TestWeb
from tests.support.stored_records import check, records
from tests.weboid.cli.crawl.test_cluster_processes import PORTS, SECRET, StartedCommand, frontier_at

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow, pytest.mark.timeout(900)]

PLACE = "a.example/page"
URL = f"http://{PLACE}"
CLOCK = SystemClock()


@pytest.fixture
def weboid(web: TestWeb, tmp_path: Path) -> Iterator[WeboidRunner]:
    """Serve a site of one page and yield a runner that reaches it."""
    with LinkedSite(answers_of(PLACE)) as site:
        yield weboid_for(site, web, tmp_path)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Start a Redis for frontier and dedup index."""
    server = RedisServer(tmp_path / "redis", persistent=True)
    yield server
    server.stop()


@pytest.fixture
def start(weboid: WeboidRunner, redis: RedisServer) -> Iterator[Callable[..., StartedCommand]]:
    """Yield a function that starts a long-running command; what a failed test leaves running is killed."""
    (weboid.folder / "secret").write_text(SECRET)
    begun: list[StartedCommand] = []

    def begin(*arguments: str) -> StartedCommand:
        begun.append(StartedCommand(weboid, redis, *arguments, "--secret-file", "secret"))
        return begun[-1]

    yield begin
    for each in begun:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.communicate()


def checks(weboid: WeboidRunner) -> list[CheckedPage]:
    """Return the checks of the page's captures, the oldest first."""
    with closing(open_registry(Layout(weboid.collection))) as store, store.reading() as rows:
        return find_checks_of_urls(rows, [URL])[::-1]


def written(weboid: WeboidRunner) -> int:
    """Return the number of check records in the closed WARCs."""
    return sum(b'"comparison"' in payload for _, _, _, payload in records(weboid.collection))


def test_checks_are_written_and_repairs_made_by_a_cluster(
    weboid: WeboidRunner, redis: RedisServer, start: Callable[..., StartedCommand]
) -> None:
    """Its proxies write what was found for whoever knows the secret; its workers capture again."""
    shared = ("--frontier", redis.url, "--dedup", redis.url, "--json", "--profile", str(weboid.profile))

    proxy = start("proxy", *PORTS)
    proxy.until("ready")
    worker = start("worker", "--workers", "1")
    with frontier_at(redis) as frontier:
        frontier.add([NewItem(URL)], now=CLOCK.now())
    worker.until("page")

    looked = weboid.call("qa", "--all", *shared, "--secret-file", "secret")
    assert (looked.code, looked.summary["good"]) == (0, 1)
    assert looked.summary["unrecorded"] == ""
    (page,) = checks(weboid)
    assert page.is_recorded

    with closing(open_registry(Layout(weboid.collection))) as store, store.writing() as rows:
        record_review(rows, page.check.page_id, "images", QaVerdict.BROKEN, by="Ada", now=CLOCK.now())
    begun = weboid.call("qa", "repair", *shared)
    assert (begun.summary["left"], begun.summary["why_left"]) == (1, "shared")
    worker.until("page")
    ended = weboid.run("qa", "repair", *shared, "--secret-file", "secret")
    assert (ended.code, ended.summary["repaired"]) == (0, {"done-better": 1})
    old, new = checks(weboid)
    assert (old.repair, new.verdict) == (RepairState.DONE_BETTER, QaVerdict.GOOD)
    assert old.repair_page_id == new.check.page_id
    assert old.is_recorded
    assert new.is_recorded

    assert (worker.stop(), proxy.stop()) == (0, 0)
    check(weboid.collection)
    assert written(weboid) == 3
