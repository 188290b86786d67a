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
from crawler.frontier.base import ItemState
from crawler.frontier.sqlite_frontier import SqliteFrontier
from crawler.profiles import load_profile
from crawler.rules.after_visit import PolitenessRule
from crawler.rules.scope_rule import ScopeRule
from crawler.run.crawl_run import RunConfig, RunSummary, archive_urls
from crawler.worker.crawl_events import Event, PageDone, PageRetried
from proxy.control.client import ProxyClient, ProxyVisit
from tests.support.commands import profile_for
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb
from warc.index.sqlite import SqliteCaptureIndex

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow]

URLS = [f"http://{hosts.RULES}/page/plain?{number}" for number in range(3)]
BROKEN = URLS[1]
ALWAYS = 99


@dataclass
class Seam:
    """A function that the way of a page goes through, and how one finds the page in its arguments."""

    owner: Any
    name: str
    is_asynchronous: bool = True


SEAMS = {
    "before": Seam(ScopeRule, "before"),
    "manifest found": Seam(SqliteCaptureIndex, "page_outcome", is_asynchronous=False),
    "proxy opened": Seam(ProxyClient, "visit", is_asynchronous=False),
    "render": Seam(page_capture, "visit"),
    "refetching": Seam(page_capture, "check_completeness"),
    "artifacts": Seam(ProxyVisit, "write"),
    "seal": Seam(page_capture, "_finish_capture"),
    "manifest made": Seam(page_capture, "build_page_info", is_asynchronous=False),
    "after": Seam(PolitenessRule, "after"),
    "end": Seam(SqliteFrontier, "complete", is_asynchronous=False),
}


def break_seam(
    monkeypatch: pytest.MonkeyPatch, seam: Seam, is_broken: Callable[[str], bool]
) -> None:
    """Let the function raise when its arguments name the broken page."""
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

    monkeypatch.setattr(
        seam.owner, seam.name, asynchronous if seam.is_asynchronous else synchronous
    )


@dataclass
class Outcome:
    """How a run went."""

    account: RunSummary
    events: list[Event]
    states: dict[str, ItemState]
    attempts: dict[str, int]


async def run(web: TestWeb, folder: Path) -> Outcome:
    """Archive the pages by two workers."""
    settings = load_profile(str(profile_for(web, folder / "profile.toml")))
    events: list[Event] = []
    root = folder / "collection"
    account = await archive_urls(
        RunConfig(root, settings, 2, stored_level_of=store_everything),
        URLS,
        clock=SystemClock(),
        report=events.append,
    )
    states, attempts = {}, {}
    with SqliteFrontier(Layout(root).frontier_db) as frontier:
        for url in URLS:
            record = frontier.find(url)
            assert record is not None
            states[url], attempts[url] = record.state, record.item.attempts
    return Outcome(account, events, states, attempts)


@pytest.mark.parametrize("name", SEAMS)
async def test_internal_error_at_a_seam_costs_its_page_one_attempt(
    name: str,
    web: TestWeb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has its traceback; the next attempt brings the page, and the others take one each."""
    left = 1
    page_ids: set[str] = set()
    find = SqliteCaptureIndex.page_outcome

    def noting(self: SqliteCaptureIndex, page_id: str) -> Any:
        page_ids.add(page_id)
        return find(self, page_id)

    monkeypatch.setattr(SqliteCaptureIndex, "page_outcome", noting)

    def is_broken(arguments: str) -> bool:
        nonlocal left
        named = BROKEN in arguments or (
            name in {"manifest found", "proxy opened"}
            and any(each in arguments for each in page_ids)
        )
        if name == "manifest found":
            named = True  # of whichever page comes first
        if not named or not left:
            return False
        left -= 1
        return True

    break_seam(monkeypatch, SEAMS[name], is_broken)
    with caplog.at_level(logging.ERROR):
        outcome = await run(web, tmp_path)

    assert left == 0, "the seam was met"
    assert outcome.states == dict.fromkeys(URLS, ItemState.DONE)
    tried_again = [each for each in outcome.events if isinstance(each, PageRetried)]
    assert [each.reason for each in tried_again] == ["internal error: OverflowError: int too large"]
    assert sorted(outcome.attempts.values()) == [1, 1, 2]
    assert outcome.attempts[tried_again[0].url] == 2
    assert "Traceback" in caplog.text
    assert len([each for each in outcome.events if isinstance(each, PageDone)]) == len(URLS)


async def test_page_that_breaks_each_time_is_given_up_and_no_other(
    web: TestWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash loop ends with the page's attempts."""
    break_seam(monkeypatch, SEAMS["render"], lambda arguments: BROKEN in arguments)
    outcome = await run(web, tmp_path)

    assert outcome.states == {
        url: ItemState.DEAD if url == BROKEN else ItemState.DONE for url in URLS
    }
    assert outcome.account.failed == [(BROKEN, "internal error: OverflowError: int too large")]
