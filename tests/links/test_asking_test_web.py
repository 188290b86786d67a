"""Looks at the sites of the test web: pages that break rules, certificates at fault."""

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from links.asking.prober import Prober
from links.findings import Finding, Verdict
from tests.links.behaviours.servers import prober_for, settings_for
from tests.sites.web import TestWeb

pytestmark = pytest.mark.slow


def prober_of(web: TestWeb) -> Prober:
    return prober_for(settings_for(web.resolve, timeout_s=60.0, ca_file=web.ca_file))


async def seen(web: TestWeb, urls: tuple[str, ...]) -> dict[str, Finding]:
    async with prober_of(web) as prober:
        found = await asyncio.gather(*map(prober.probe, urls))
    return dict(zip(urls, found, strict=True))


# The pages of the rules of the browser's visits that are no pages; all others are.
EXPECTED = {
    "/redirect/loop": Verdict.FAILING,
    "/redirect/to-404": Verdict.GONE,
    "/redirect/to-home": Verdict.SUSPECT,
    "/redirect/malformed": Verdict.SUSPECT,
    "/redirect/no-location": Verdict.SUSPECT,
    "/status/404": Verdict.GONE,
    "/status/410": Verdict.GONE,
    "/status/401": Verdict.REFUSED,
    "/status/403": Verdict.REFUSED,
    "/status/451": Verdict.REFUSED,
    "/status/429/2": Verdict.UNDECIDED,
    "/status/500": Verdict.FAILING,
    "/status/503/2": Verdict.UNDECIDED,
    "/broken/empty": Verdict.FAILING,
    "/broken/garbage": Verdict.FAILING,
}


async def test_pages_of_every_kind_are_judged_rightly(web: TestWeb) -> None:
    """The pages that try a browser's rules: what is a page is OK, what is none is what it is."""
    found = await seen(web, web.urls.rule_pages)
    judged = {urlsplit(url).path: each.verdict for url, each in found.items()}
    assert judged == {path: EXPECTED.get(path, Verdict.OK) for path in judged}
    assert EXPECTED.keys() <= judged.keys()


async def test_what_a_site_has_not_is_gone(web: TestWeb) -> None:
    """A path that the site has not is GONE."""
    missing = web.urls.rule_pages[0].partition("/page/")[0] + "/no/such/page"
    found = (await seen(web, (missing,)))[missing]
    assert (found.verdict, found.http) == (Verdict.GONE, 404)


async def test_certificates_at_fault_are_told_and_not_held_against_a_link(
    web: TestWeb,
) -> None:
    """Each kind of bad certificate is OK, with its fault."""
    found = await seen(web, web.urls.bad_tls)
    assert all(each.verdict is Verdict.OK and each.tls_fault for each in found.values()), found


async def test_pages_without_end_end_a_look_all_the_same(web: TestWeb) -> None:
    """A body that never ends is a page."""
    found = await seen(web, web.urls.endless_pages)
    assert not {Verdict.GONE, Verdict.FAILING} & {each.verdict for each in found.values()}, found


async def test_a_port_without_a_listener_is_failing(web: TestWeb) -> None:
    """What refuses connections is FAILING, for the whole host."""
    refused = web.urls.unreachable[0]
    found = (await seen(web, (refused,)))[refused]
    assert replace(found, seconds=0).verdict is Verdict.FAILING
    assert found.whole_host
