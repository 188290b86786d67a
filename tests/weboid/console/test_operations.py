"""Operations of the console follow the rules of the commands."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import InputError
from core.layout import Layout
from crawler.frontier.base import STOP_ORDER, NewItem
from playback.access.takedowns import TakedownKind, list_takedowns
from weboid.console import operations
from weboid.console.accounts import ConsoleRole, SignedInUser
from weboid.console.admin_operations import add_takedown, read_takedowns
from weboid.console.api import state_of
from weboid.console.operations import OPERATIONS, OperationContext, StateConflictError
from weboid.console.server import open_stores

DONE, DEAD = "https://site.example/done", "https://site.example/dead"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[OperationContext]:
    """Yield the context of an administrator on a collection whose queue has a done and a dead page."""
    layout = Layout(tmp_path / "collection")
    layout.frontier_db.parent.mkdir(parents=True)
    clock = SystemClock()
    with open_stores(layout, Settings(), clock=clock) as stores:
        context = OperationContext(stores, SignedInUser("ada", ConsoleRole.ADMIN))
        for url in (DONE, DEAD):
            context.frontier.add([NewItem(url)], now=clock.now())
            (item,) = context.frontier.claim(now=clock.now(), worker="w")
            if url == DONE:
                context.frontier.complete(item, now=clock.now(), outcome="complete", delay=timedelta(0))
            else:
                context.frontier.fail(item, now=clock.now(), reason="dns", delay=timedelta(0))
        yield context


def test_retry_is_for_dead_and_skipped_pages(context: OperationContext) -> None:
    """A done one is refused with the command that visits it once more, as by `weboid queue retry`."""
    with pytest.raises(InputError, match="--again"):
        operations.retry_items(context, url=DONE)
    assert operations.retry_items(context, url=DEAD)["requeued"] == 1


def test_a_host_is_paused_under_the_name_that_the_queue_has(context: OperationContext) -> None:
    """Also when its URL or another spelling is entered."""
    operations.pause_host(context, host="https://SITE.example/done")
    (block,) = context.frontier.blocks(now=context.now)
    assert block.host == "site.example"


def test_content_is_taken_down_once(context: OperationContext) -> None:
    """A take-down that holds for as long is not repeated, a longer one is added."""
    for duration in ("1d", "1h", "", "30d"):
        add_takedown(context, url="site.example", kind=TakedownKind.HOST, duration=duration)
    assert [each.expires_at is None for each in list_takedowns(context.stores.decisions)] == [False, True]
    with pytest.raises(InputError):
        add_takedown(context, url=DONE, kind=TakedownKind.CAPTURE, timestamp="20261399000000")


def test_the_log_of_a_takedown_reads_no_other(context: OperationContext) -> None:
    """Of many take-downs those of the target, or the one that is lifted; the list has an end and a version."""
    for number in range(3):
        add_takedown(context, url=f"https://site.example/{number}")
    part = read_takedowns(context, limit=2)
    rest = read_takedowns(context, limit=2, cursor=part["next"] or "")

    for name, fields in (("lift_takedown", {"number": 2}), ("add_takedown", {"url": "https://site.example/1"})):
        operation = OPERATIONS[name]
        changed = state_of(operation.read_logged, context, operation.fields(**fields))
        assert [each["number"] for each in changed] == [2]
    assert [each["number"] for each in (*part["takedowns"], *rest["takedowns"])] == [1, 2, 3]
    assert (part["version"], rest["next"]) == (rest["version"], None)


def test_nothing_is_stopped_where_nothing_runs(context: OperationContext) -> None:
    """An order would end the next run instead."""
    with pytest.raises(StateConflictError, match="nothing to stop"):
        operations.stop_crawl(context)
    assert not context.frontier.orders(STOP_ORDER)
