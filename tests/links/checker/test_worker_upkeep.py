"""Maintenance of a checker between passes."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, select

from links.checker.check_worker import CheckerMaintenance
from links.checker.due_urls import HostShare
from links.feedback.marks import LinkMark, MarkKind, put_marks
from links.registry.database import RegistryStore
from links.registry.schema import replacements, urls
from links.states import LinkState
from links.url_parts import bucket_of
from tests.support.check_rows import row_of, watch
from tests.support.server_farm import DayClock, ServerFarm, checking, running_server_farm


@pytest.fixture
async def farm() -> AsyncIterator[ServerFarm]:
    async with running_server_farm() as running:
        yield running


def _propose(store: RegistryStore, url_id: int, address: str) -> None:
    with store.writing() as rows:
        values = {"url_id": url_id, "address": address, "moment": 1, "reporter": bytes(16)}
        rows.execute(insert(replacements).values(**values))


def _tested(store: RegistryStore) -> dict[str, int | None]:
    with store.reading() as rows:
        query = select(replacements.c.address, replacements.c.tested_day)
        return {row.address: row.tested_day for row in rows.execute(query)}


async def test_proposed_replacements_are_looked_at_in_the_own_part(
    sqlite_store: RegistryStore, farm: ServerFarm
) -> None:
    """Those of other parts are other checkers' (W17)."""
    days = DayClock()
    mine = "good.example"
    part = HostShare(bucket_of(mine) % 2 + 1, 2)
    names = [mine, next(f"h{n}.example" for n in range(99) if not part.has(bucket_of(f"h{n}.example")))]
    dead = [f"http://dead.example/{number}" for number in range(2)]
    ids = watch(sqlite_store, dead, state=int(LinkState.DEAD), due_day=None)
    for url_id, name in zip(ids.values(), names, strict=True):
        _propose(sqlite_store, url_id, f"http://{name}/new")

    async with checking(sqlite_store, farm, names, days=days) as checker:
        chores = CheckerMaintenance(checker.context, part, keep_days=100)
        assert await chores.check_replacements(checker.stop) == 1
        assert _tested(sqlite_store) == {f"http://{mine}/new": days.day, f"http://{names[1]}/new": None}


async def test_the_registry_is_cleared_once_a_day(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """By the checker of the first part alone: what no page has had for long goes (W39)."""
    days = DayClock()
    watch(sqlite_store, ["http://old.example/"], day=days.day - 101, due_day=None)

    async with checking(sqlite_store, farm, [], days=days) as checker:
        second = CheckerMaintenance(checker.context, HostShare(2, 2), keep_days=100)
        first = CheckerMaintenance(checker.context, HostShare(1, 2), keep_days=100)
        assert await second.forget() is None
        gone_now = await first.forget()
        assert await first.forget() is None

    assert gone_now is not None
    assert gone_now.urls == 1
    with sqlite_store.reading() as rows:
        assert rows.execute(select(urls.c.id)).all() == []


async def test_marks_that_have_expired_are_taken_back(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """Once a day; their links are watched again (B10)."""
    days = DayClock()
    ids = watch(sqlite_store, ["http://kept.example/"], state=int(LinkState.PERMALIVE), due_day=None)
    over = int(days.now().timestamp()) - 1
    mark = LinkMark(0, MarkKind.PERMALIVE, "kept.example", "because", "operator", 1, expires=over)
    with sqlite_store.writing() as rows:
        put_marks(rows, [mark])

    async with checking(sqlite_store, farm, [], days=days) as checker:
        await CheckerMaintenance(checker.context, HostShare(1, 1), keep_days=100_000).forget()

    row = row_of(sqlite_store, ids["http://kept.example/"])
    assert row.state == LinkState.UNKNOWN
    assert row.due_day is not None


async def test_a_stop_ends_the_chores(sqlite_store: RegistryStore, farm: ServerFarm) -> None:
    """Nothing is looked at any more."""
    days = DayClock()
    ids = watch(sqlite_store, ["http://dead.example/"], state=int(LinkState.DEAD), due_day=None)
    _propose(sqlite_store, ids["http://dead.example/"], "http://good.example/new")
    stopped = asyncio.Event()
    stopped.set()

    async with checking(sqlite_store, farm, ["good.example"], days=days) as checker:
        await CheckerMaintenance(checker.context, checker.plan.part, keep_days=100).run(stopped)

    assert farm.requests == []
