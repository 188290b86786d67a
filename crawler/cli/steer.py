"""`weboid pause`, `resume` and `stop`: what workers do next, wherever they are.

Orders travel through the frontier, so they reach every worker of every machine within a second, and
a crawl that is started later finds a pause still there.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import click

from core.clock import SystemClock
from crawler.cli.exits import Exit
from crawler.cli.where import Where, where_options
from crawler.frontier.base import Frontier
from crawler.worker import STOP_ORDER

POLL_S = 0.2
_CLOCK = SystemClock()

_wait_option = click.option("--wait", is_flag=True, help="Return when no page is in work any more.")


@click.command("pause")
@where_options
@click.option("--reason", default="paused by an operator", help="What `status` shows.")
@_wait_option
def pause(*, where: Where, reason: str, wait: bool, as_json: bool) -> int:
    """Let no page begin.

    What is in work is finished. It lasts until `weboid resume` and survives the end of a run: a
    crawl that is started while its frontier is paused waits.
    """
    with where.frontier() as frontier:
        frontier.pause(reason)
        _tell(frontier, where, f"Paused {where.name}: {reason}.", as_json=as_json, wait=wait)
    return Exit.OK


@click.command("resume")
@where_options
def resume(*, where: Where, as_json: bool) -> int:
    """Let pages begin again.

    Ends a pause, and takes back an order to stop that nobody has followed yet.
    """
    with where.frontier() as frontier:
        was_paused = frontier.stats(_CLOCK.now()).paused is not None
        frontier.resume()
        was_stopping = frontier.take_back(STOP_ORDER, "")
        if was_paused or was_stopping:
            text = "Pages begin again." if was_paused else "The order to stop is taken back."
        else:
            text = "It was not paused."
        _tell(frontier, where, text, as_json=as_json)
    return Exit.OK


@click.command("stop")
@where_options
@click.option("--now", "at_once", is_flag=True, help="Give up the pages in work; they stay queued.")
@_wait_option
def stop(*, where: Where, at_once: bool, wait: bool, as_json: bool) -> int:
    """End the runs that go on.

    They finish the pages in work, or with --now leave them queued. Nothing is lost: the same
    `weboid archive` or `weboid crawl` goes on where it stopped, and takes the order back.
    """
    with where.frontier() as frontier:
        if where.is_shared or where.is_worked_on(frontier, now=_CLOCK.now()):
            frontier.give_order(STOP_ORDER, "", "now" if at_once else "")
            text = "Stopping at once." if at_once else "Stopping after the pages in work."
        else:
            text = "Nobody works on it: there is nothing to stop."
        _tell(frontier, where, text, as_json=as_json, wait=wait)
    return Exit.OK


def _tell(
    frontier: Frontier, where: Where, text: str, *, as_json: bool, wait: bool = False
) -> None:
    """Say what was done and what is in work, and wait for its end when that is wanted."""
    if not as_json:
        click.echo(text)
    facts = _facts(frontier, where)
    claimed = facts["claimed"]
    if not as_json and claimed and not wait:
        click.echo(f"{claimed} {'page is' if claimed == 1 else 'pages are'} still in work.")
    if wait:
        asyncio.run(until_idle(frontier, lambda count: _say_waiting(count, quiet=as_json)))
        facts = _facts(frontier, where)
        if not as_json:
            click.echo("No page is in work.")
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))


def _facts(frontier: Frontier, where: Where) -> dict[str, Any]:
    now = _CLOCK.now()
    stats = frontier.stats(now)
    stopping = frontier.orders(STOP_ORDER).get("")
    return {
        "paused": stats.paused,
        "stopping": None if stopping is None else stopping or "gently",
        "claimed": stats.claimed,
        "queued": stats.queued,
        "worked_on": where.is_worked_on(frontier, now=now),
    }


async def until_idle(frontier: Frontier, told: Callable[[int], object]) -> None:
    """Return when nothing is claimed; `told` how many are, whenever that changes."""
    last = None
    while claimed := frontier.stats(_CLOCK.now()).claimed:
        if claimed != last:
            told(claimed)
            last = claimed
        await asyncio.sleep(POLL_S)


def _say_waiting(count: int, *, quiet: bool) -> None:
    if not quiet:
        click.echo(f"Waiting for {count} {'page' if count == 1 else 'pages'} in work.", err=True)
