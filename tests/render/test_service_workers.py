"""Service workers run during a visit: what they ask for is recorded, what they make is read."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.config.settings import BehaviourSettings, VisitSettings
from core.page_manifest import VisitOutcome
from render.behaviours.catalog import load_behaviours
from render.browser import Browser
from render.visit import Visit, VisitRequest, visit

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

Look = Callable[..., Awaitable[Visit]]


def text(seen: Visit) -> str:
    return next(each.data for each in seen.artifacts if each.kind is ArtifactKind.TEXT).decode()


def made(seen: Visit) -> dict[str, bytes]:
    return {each.url.rpartition("/")[2]: each.data for each in seen.synthesised}


async def test_a_page_gets_what_its_worker_answers(look: Look, site: Any) -> None:
    """Responses of code and cache come as in a plain browser; those without a network response are read."""
    seen = await look("/service/application.html?made.txt,put.txt,cached.txt,passed.txt")

    texts = "Made by the worker. Put into the cache. From the precache. From the network."
    assert text(seen) == texts
    assert made(seen) == {"made.txt": b"Made by the worker.", "put.txt": b"Put into the cache."}
    assert {each.content_type for each in seen.synthesised} == {"text/plain; charset=utf-8"}
    seen_bytes = await look("/service/application.html?bytes.bin")
    assert made(seen_bytes) == {"bytes.bin": b"A\0\xff"}
    assert {"/service/worker.js", "/service/cached.txt", "/service/passed.txt"} <= set(site.paths())
    assert not {"/service/made.txt", "/service/put.txt"} & set(site.paths())
    of_the_network = [r.url.rpartition("/")[2] for r in seen.requests if not r.from_worker]
    assert sorted(of_the_network)[1:] == ["cached.txt", "passed.txt", "worker.js"]


async def test_requests_of_a_worker_carry_the_credentials(look: Look, proxy: Any) -> None:
    """Requests of a worker belong to its visit, without a second 407 (C-01)."""
    url = "https://secure.test/service/application.html?passed.txt"
    seen = await look(url, proxy.endpoint("visit-9"))

    assert text(seen) == "From the network."
    paths = {each.path for each in proxy.requests}
    assert {"/service/worker.js", "/service/cached.txt", "/service/passed.txt"} <= paths
    assert {each.user for each in proxy.requests} == {"visit-9"}
    assert len(proxy.refused) == 1


async def test_a_page_reloads_once_controlled(look: Look) -> None:
    """A reload at `controllerchange` is awaited."""
    seen = await look("/service/reloading.html")

    assert (seen.outcome, text(seen)) == (VisitOutcome.COMPLETE, "Controlled.")


async def test_answers_for_other_sites_are_not_evidence(look: Look, site: Any) -> None:
    """Another site publishes what its server sends, whatever a worker of this one says."""
    other = f"http://localhost:{site.port}/made.txt"
    seen = await look(f"/service/application.html?{other}")

    assert text(seen) == "Made by the worker."
    assert seen.synthesised == ()
    assert "service workers: 1 responses made for other sites are not archived." in seen.notes


async def test_an_error_of_a_worker_is_not_read(look: Look) -> None:
    """A record without a status would turn it into a success."""
    seen = await look("/service/application.html?refused.txt")

    assert (text(seen), seen.synthesised) == ("no", ())


async def test_a_large_answer_is_noted(look: Look) -> None:
    """A body over the limit is left out, and the visit goes on."""
    seen = await look("/service/application.html?large.txt,made.txt")

    assert (seen.outcome, list(made(seen))) == (VisitOutcome.COMPLETE, ["made.txt"])
    assert "service workers: 1 responses are not archived: too many or too large." in seen.notes


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("endless.js,3", "service workers: 3 never ended and were stopped."),
        ("waiting.js,60", "service workers: 60 did not finish their installation."),
    ],
)
async def test_a_worker_that_never_ends_is_not_waited_for(
    look: Look, monkeypatch: pytest.MonkeyPatch, script: str, note: str
) -> None:
    """One that loops is stopped, one that installs for ever costs a bounded time; both are noted."""
    monkeypatch.setattr("render.service_workers.ANSWER_LIMIT_S", 3.0)
    monkeypatch.setattr("render.network_log.PATIENCE_S", 2.0)
    seen = await look(f"/service/hostile.html?{script}", settle_limit_s=20.0, timeout_s=120.0)

    assert text(seen) == "A page with a worker that never ends."
    assert (seen.outcome, seen.reason) == (VisitOutcome.COMPLETE, "")
    assert note in seen.notes


async def test_an_answer_that_never_comes_is_not_waited_for(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page stays as it is without it."""
    monkeypatch.setattr("render.network_log.PATIENCE_S", 1.0)
    seen = await look("/service/application.html?never.txt")

    assert (seen.outcome, text(seen)) == (VisitOutcome.COMPLETE, "Waiting")


async def test_a_click_leaves_no_page_that_a_worker_controls(
    browser: Browser, site: Any, settings: VisitSettings, clock: SystemClock
) -> None:
    """A document that a worker makes would come without a request that could be stopped."""
    request = VisitRequest(site.url("/service/leaving.html"))
    behaviours = load_behaviours(BehaviourSettings(run=("expand",)))
    seen = await visit(browser, request, settings, behaviours=behaviours, clock=clock)

    assert [(each.name, each.done) for each in seen.behaviours] == [("expand", 1)]
    assert seen.final_url == request.url
    assert text(seen).startswith("Controlled.")
