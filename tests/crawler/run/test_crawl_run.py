"""An internal error at any seam of a page's visit costs that page an attempt, and no other page anything."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.layout import Layout
from crawler.capture import page_capture
from crawler.capture.page_capture import store_everything
from crawler.frontier.base import FrontierItem, ItemState
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.jobs.job_settings import ExclusionRule
from crawler.profiles import load_profile
from crawler.rules.visit_rule import PolitenessRule
from crawler.run.crawl_run import RunConfig, archive_urls
from crawler.worker import page_task
from crawler.worker.crawl_events import Event, PageDone, PageRetried
from proxy.control.client import ProxyClient, ProxyVisit
from tests.support.commands import profile_for
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow]

GIVEN_UP = f"http://{hosts.RULES}/page/plain?given-up"
WHOLE = [f"http://{hosts.RULES}/page/plain?{number}" for number in range(2)]


@dataclass
class FaultPoint:
    """A function that the way of a page goes through, and how one finds the page in its arguments."""

    owner: Any
    name: str
    is_asynchronous: bool = True


SEAMS = {
    "before": FaultPoint(ExclusionRule, "before"),
    "manifest found": FaultPoint(page_task, "page_outcome", is_asynchronous=False),
    "proxy opened": FaultPoint(ProxyClient, "visit", is_asynchronous=False),
    "render": FaultPoint(page_capture, "visit"),
    "refetching": FaultPoint(page_capture, "check_completeness"),
    "artifacts": FaultPoint(ProxyVisit, "write"),
    "seal": FaultPoint(page_capture, "_finish_capture"),
    "manifest made": FaultPoint(page_capture, "build_page_info", is_asynchronous=False),
    "after": FaultPoint(PolitenessRule, "after"),
    "end": FaultPoint(SqliteFrontier, "complete", is_asynchronous=False),
}


BROKEN = {name: f"http://{hosts.RULES}/page/plain?{at}" for at, name in enumerate(SEAMS, start=10)}


def break_seam(monkeypatch: pytest.MonkeyPatch, seam: FaultPoint, is_broken: Callable[[str], bool]) -> None:
    """Let the function raise when its arguments name a broken page."""
    real = getattr(seam.owner, seam.name)

    def check(arguments: object) -> None:
        if is_broken(repr(arguments)):
            raise OverflowError("int too large")

    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        check((args, kwargs))
        return await real(*args, **kwargs)

    def synchronous(*args: Any, **kwargs: Any) -> Any:
        check((args, kwargs))
        return real(*args, **kwargs)

    monkeypatch.setattr(seam.owner, seam.name, asynchronous if seam.is_asynchronous else synchronous)


async def test_internal_errors_cost_their_page_an_attempt_and_no_other_page_anything(
    web: TestWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the tracebacks; the next attempts bring the pages, the others take one each.

    A page that breaks each time is given up with its attempts.
    """
    ids: dict[str, str] = {}  # page id -> URL: some seams see the id alone
    claim = SqliteFrontier.claim
    left = dict.fromkeys(BROKEN.values(), 1) | {GIVEN_UP: 99}

    def claiming(self: SqliteFrontier, **options: Any) -> list[FrontierItem]:
        items = claim(self, **options)
        ids.update({item.id: item.url for item in items})
        return items

    def breaks(*urls: str) -> Callable[[str], bool]:
        def is_broken(arguments: str) -> bool:
            named = {url for each, url in ids.items() if each in arguments or repr(url) in arguments}
            hit = next((url for url in urls if url in named and left[url]), None)
            if hit is not None:
                left[hit] -= 1
            return hit is not None

        return is_broken

    monkeypatch.setattr(SqliteFrontier, "claim", claiming)
    for name, seam in SEAMS.items():
        more = (GIVEN_UP,) if name == "render" else ()
        break_seam(monkeypatch, seam, breaks(BROKEN[name], *more))
    events: list[Event] = []
    root, urls = tmp_path / "collection", [*BROKEN.values(), *WHOLE, GIVEN_UP]
    settings = load_profile(str(profile_for(web, tmp_path / "profile.toml")))
    with caplog.at_level(logging.ERROR):
        account = await archive_urls(
            RunConfig(root, settings, 3, stored_level_of=store_everything),
            urls,
            clock=SystemClock(),
            report=events.append,
        )
    with SqliteFrontier(Layout(root).frontier_db) as frontier:
        records = {url: record for url in urls if (record := frontier.find(url)) is not None}
    attempts = {url: record.item.attempts for url, record in records.items()}
    retried = [(each.url, each.reason) for each in events if isinstance(each, PageRetried)]
    reason = "internal error: OverflowError: int too large"

    assert [url for url in BROKEN.values() if left[url]] == [], "every seam was met"
    done = dict.fromkeys((*BROKEN.values(), *WHOLE), ItemState.DONE)
    assert {url: record.state for url, record in records.items()} == done | {GIVEN_UP: ItemState.DEAD}
    assert sorted(each for each in retried if each[0] != GIVEN_UP) == [(url, reason) for url in BROKEN.values()]
    assert {attempts[url] for url in BROKEN.values()} == {2}
    assert {attempts[url] for url in WHOLE} == {1}
    assert account.failed == [(GIVEN_UP, reason)]
    assert caplog.text.count("Traceback") >= len(SEAMS)
    assert len([each for each in events if isinstance(each, PageDone)]) == len(urls)
