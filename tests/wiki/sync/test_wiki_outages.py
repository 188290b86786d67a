"""Outages of a real wiki behind a failing proxy: later rounds complete what failed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import WeboidError
from links.registry.wikis import change_wiki, ensure_wiki, parse_wiki
from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_proxy import ProxiedRequest, ProxiedResponse, WikiProxy, running_wiki_proxy
from tests.support.wiki_writer import WikiWriter
from tests.wiki.sync.conftest import FedRegistry, opened

pytestmark = pytest.mark.slow

BROKEN = [
    ProxiedResponse(503, b"<html>Service unavailable</html>"),
    ProxiedResponse(200, b"<html>log in first</html>", {"Content-Type": "text/html"}),
    ProxiedResponse(200, b'{"query": {"pa', {"Content-Type": "application/json"}),
    ProxiedResponse.api_error("readonly", "The wiki is read-only."),
    ProxiedResponse.api_error("internal_api_error_DBQueryError", "A database error."),
]
KINDS = ["503", "login", "half", "readonly", "database"]


@pytest.fixture(scope="module")
def proxy(wiki: RunningWiki) -> Iterator[WikiProxy]:
    with running_wiki_proxy(wiki.base) as running:
        yield running


@pytest.fixture
def behind(proxy: WikiProxy, tmp_path: Path) -> Iterator[FedRegistry]:
    """Yield a registry whose feed reads the wiki through the proxy."""
    proxy.script = None
    store = opened(tmp_path)
    with store.writing() as rows:
        known = ensure_wiki(rows, parse_wiki("testwiki"), day=0)
        known = change_wiki(rows, known, url=proxy.api)
    made = FedRegistry(store, known, proxy.api, attempts=1)
    made.rounds(sweeps=False)
    yield made
    proxy.script = None
    store.close()


@pytest.mark.parametrize("broken", BROKEN, ids=KINDS)
def test_a_question_that_fails_is_made_good(
    behind: FedRegistry, proxy: WikiProxy, writer: WikiWriter, broken: ProxiedResponse
) -> None:
    """At each place in a round: nothing is half done, nothing lost, nothing told twice."""
    title = f"Outage {KINDS[BROKEN.index(broken)]}"
    page_id, _ = writer.write(title, "https://outage.net/")

    for place in (1, 2, 4):
        left = place

        def breaking(_request: ProxiedRequest) -> ProxiedResponse | None:
            nonlocal left
            left -= 1
            return broken if left == 0 else None

        proxy.script = breaking
        try:
            behind.rounds(sweeps=False)
        except WeboidError:
            assert left <= 0
        proxy.script = None
    behind.rounds(sweeps=False)

    assert behind.links(page_id) == ["https://outage.net/"]
    assert behind.taken(page_id) == ["https://outage.net/"]
