"""Proposed replacements are looked at over real HTTP before anybody is shown one."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from aiohttp import web

from core.config.settings import EgressSettings, LinksSettings, Settings
from links.checker.check_worker import ReplacementTester
from links.checker.host_turns import HostTurns
from links.checker.http_probe import HttpProber
from links.feedback.replacements import (
    NO_CONTEXT,
    ProposalContext,
    ProposalStage,
    ReplacementProposal,
    propose_replacement,
    replacements_of,
    shown_replacement,
)
from links.registry.database import RegistryStore, RegistryThread
from links.states import LinkState
from tests.support.clocks import ManualClock
from tests.support.feedback_reports import NOW, watch

OLD = "http://old.example.net/page"
PAGE = "<title>The bridge</title><h1>The bridge</h1><p>" + "It was built of red stone. " * 40


async def _answer(request: web.Request) -> web.Response:
    host, path = request.host.partition(":")[0], request.path
    if host == "soft.example.net":  # whatever is asked for
        return web.Response(text=PAGE, content_type="text/html")
    if path == "/good":
        return web.Response(text=PAGE, content_type="text/html")
    if path == "/back":
        raise web.HTTPFound(OLD)
    if path == "/inside":
        raise web.HTTPFound("http://169.254.169.254/")
    if path == "/page":  # the old URL has come back
        return web.Response(text=PAGE, content_type="text/html")
    if path == "/later":
        return web.Response(status=503)
    return web.Response(status=404, text="Not found.")


@asynccontextmanager
async def examining(
    store: RegistryStore, clock: ManualClock, around: ProposalContext = NO_CONTEXT
) -> AsyncIterator[ReplacementTester]:
    """Yield a tester whose web is one server with several names."""
    runner = web.AppRunner(web.Application())
    runner.app.router.add_route("*", "/{path:.*}", _answer)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    hosts = ("old.example.net", "new.example.net", "soft.example.net")
    settings = Settings(
        egress=EgressSettings(allow=("127.0.0.0/8",), resolve={f"{host}:80": f"127.0.0.1:{port}" for host in hosts}),
        links=LinksSettings(timeout_s=60.0),
    )
    turns = HostTurns(0.0, monotonic=time.monotonic)
    async with HttpProber(settings, is_own=lambda _: False, turns=turns) as prober:
        registry = RegistryThread(store, monotonic=time.monotonic)
        yield ReplacementTester(registry, prober, turns, clock, around)
        registry.close()
    await runner.cleanup()


async def test_only_a_page_that_is_really_there_is_shown(sqlite_store: RegistryStore) -> None:
    """Not an error, not a page that answers to everything, not a way back or into our own network."""
    wanted = {
        "http://new.example.net/good": ProposalStage.WORKS,
        "http://new.example.net/nothing": ProposalStage.FAILED,
        "http://soft.example.net/anything": ProposalStage.FAILED,
        "http://new.example.net/back": ProposalStage.FAILED,
        "http://new.example.net/inside": ProposalStage.WAITING,  # nothing certain: nobody may go there
        "http://new.example.net/later": ProposalStage.WAITING,
    }
    clock = ManualClock(NOW)
    with sqlite_store.writing() as rows:
        watch(rows, OLD)
        ids = watch(rows, *(f"http://dead{n}.example.net/" for n in range(len(wanted))))
        for number, address in enumerate(wanted):
            url = OLD if address.endswith("/back") else f"http://dead{number}.example.net/"
            propose_replacement(rows, url, address, bytes([number]) * 16, NOW)
    tested: list[ReplacementProposal] = []
    async with examining(sqlite_store, clock) as tester:
        stages = await tester.run(99, on_result=lambda which, _stage: tested.append(which))
        assert await tester.run(99) == {}
        clock.moment = NOW + timedelta(days=1)
        again = await tester.run(99)

    with sqlite_store.reading() as rows:
        proposals = replacements_of(rows, [*range(1, 2 + len(ids))])
    assert {each.address: each.stage for each in proposals.values()} == wanted
    shown = {shown_replacement(each.address, each.stage, LinkState.DEAD) for each in proposals.values()}
    assert shown == {"", "http://new.example.net/good"}
    assert stages.total() == len(tested) == len(wanted)
    assert again == {ProposalStage.WAITING: 2}  # what waits is looked at once a day


async def test_what_policy_refuses_meanwhile_is_not_shown(sqlite_store: RegistryStore) -> None:
    """A mark that was made after the proposal counts at the next test."""
    clock = ManualClock(NOW)
    with sqlite_store.writing() as rows:
        watch(rows, OLD)
        propose_replacement(rows, OLD, "http://new.example.net/good", b"1" * 16, NOW)
    around = ProposalContext(refuses=lambda _url: "it is excluded here")
    async with examining(sqlite_store, clock, around) as tester:
        assert await tester.run(9) == {ProposalStage.FAILED: 1}
