"""Checks of the sites of the test web: pages that break rules, certificates at fault."""

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from links.check_result import CheckResult, CheckVerdict
from links.checker.http_probe import HttpProber
from tests.support.behaviour_servers import prober_for, settings_for
from tests.support.sites.web import TestWeb

pytestmark = pytest.mark.slow


def prober_of(web: TestWeb) -> HttpProber:
    return prober_for(settings_for(web.resolve, timeout_s=60.0, ca_file=web.ca_file))


async def seen(web: TestWeb, urls: tuple[str, ...]) -> dict[str, CheckResult]:
    async with prober_of(web) as prober:
        findings = await asyncio.gather(*map(prober.probe, urls))
    return dict(zip(urls, findings, strict=True))


# The pages of the rules of the browser's visits that are no pages; all others are.
EXPECTED = {
    "/redirect/loop": CheckVerdict.FAILING,
    "/redirect/to-404": CheckVerdict.GONE,
    "/redirect/to-home": CheckVerdict.SUSPECT,
    "/redirect/malformed": CheckVerdict.SUSPECT,
    "/redirect/no-location": CheckVerdict.SUSPECT,
    "/status/404": CheckVerdict.GONE,
    "/status/410": CheckVerdict.GONE,
    "/status/401": CheckVerdict.REFUSED,
    "/status/403": CheckVerdict.REFUSED,
    "/status/451": CheckVerdict.REFUSED,
    "/status/429/2": CheckVerdict.UNDECIDED,
    "/status/500": CheckVerdict.FAILING,
    "/status/503/2": CheckVerdict.UNDECIDED,
    "/broken/empty": CheckVerdict.FAILING,
    "/broken/garbage": CheckVerdict.FAILING,
}


async def test_pages_of_every_kind_are_judged_rightly(web: TestWeb) -> None:
    """The pages that try a browser's rules: what is a page is OK, what is none is what it is."""
    findings = await seen(web, web.urls.rule_pages)
    judged = {urlsplit(url).path: each.verdict for url, each in findings.items()}
    assert judged == {path: EXPECTED.get(path, CheckVerdict.OK) for path in judged}
    assert EXPECTED.keys() <= judged.keys()


async def test_what_a_site_has_not_is_gone(web: TestWeb) -> None:
    """A path that the site has not is GONE."""
    missing = web.urls.rule_pages[0].partition("/page/")[0] + "/no/such/page"
    finding = (await seen(web, (missing,)))[missing]
    assert (finding.verdict, finding.http) == (CheckVerdict.GONE, 404)


async def test_certificates_at_fault_are_told_and_not_held_against_a_link(web: TestWeb) -> None:
    """Each kind of bad certificate is OK, with its fault."""
    findings = await seen(web, web.urls.bad_tls)
    assert all(each.verdict is CheckVerdict.OK and each.tls_fault for each in findings.values()), findings


async def test_pages_without_end_end_a_look_all_the_same(web: TestWeb) -> None:
    """A body that never ends is a page."""
    findings = await seen(web, web.urls.endless_pages)
    assert not {CheckVerdict.GONE, CheckVerdict.FAILING} & {each.verdict for each in findings.values()}, findings


async def test_a_port_without_a_listener_is_failing(web: TestWeb) -> None:
    """A refused connection is FAILING, for the whole host."""
    refused = web.urls.unreachable[0]
    finding = (await seen(web, (refused,)))[refused]
    assert replace(finding, seconds=0).verdict is CheckVerdict.FAILING
    assert finding.whole_host
