"""Visits with some behaviours only, and what they made the page ask for."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from core.clock import SystemClock
from core.config.settings import BehaviourSettings, VisitSettings
from core.hosts import ProxyEndpoint
from core.page_manifest import PageBehaviour
from render.behaviours.catalog import load_behaviours
from render.browser import Browser
from render.visit import Visit, VisitRequest, visit

# Limits that a starved machine does not reach; tests of limits set their own.
QUICK = VisitSettings(timeout_s=180.0, settle_s=0.1, settle_limit_s=5.0, full_page=False, thumbnail=False)


@dataclass(frozen=True)
class BehaviourVisit:
    """A visit, what its behaviours did, and the query strings of what was asked for."""

    visit: Visit
    done: dict[str, PageBehaviour]
    requested: set[str]


Act = Callable[..., Awaitable[BehaviourVisit]]


@pytest.fixture
def act(browser: Browser, site: Any, clock: SystemClock) -> Act:
    """Visit a page of ``pages/behaviours`` with the named behaviours, and settings changed."""

    async def act(
        page: str, *names: str, proxy: ProxyEndpoint | None = None, host: str = "", **changes: Any
    ) -> BehaviourVisit:
        path = f"/behaviours/{page}"
        url = f"http://{host}{path}" if host else site.url(path)
        behaviours = load_behaviours(BehaviourSettings(run=names, **{"limit_s": 90.0, **changes}))
        seen = await visit(browser, VisitRequest(url, proxy), QUICK, behaviours=behaviours, clock=clock)
        queries = {path.partition("?")[2] for path in site.paths()}
        return BehaviourVisit(seen, {done.name: done for done in seen.behaviours}, queries)

    return act
