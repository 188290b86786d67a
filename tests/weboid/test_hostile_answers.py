"""`weboid archive` and answers by which a site would have its pages left out."""

import json
import os
import signal
from urllib.parse import quote

import pytest

from core.config.settings import VisitSettings
from tests.support.commands import CommandResult, WeboidRunner, profile_for
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb
from tests.support.stored_records import RULES, check, index, records

pytestmark = [pytest.mark.browser, pytest.mark.proxy]

UNDECODABLE = ("/broken/chunk-size", "/broken/gzip")
HOSTILE = ("/status/407", *UNDECODABLE, "/surrogates")


@pytest.fixture(scope="module")
def archived(web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> tuple[WeboidRunner, CommandResult]:
    """Archive all hostile answers in one run with a good page."""
    folder = tmp_path_factory.mktemp("hostile")
    weboid = WeboidRunner(folder, profile_for(web, folder / "profile.toml"))
    ran = weboid.archive(f"{RULES}/page/plain", *(f"{RULES}{path}" for path in HOSTILE))
    check(weboid.collection)
    return weboid, ran


def test_a_sites_407_is_kept_and_fails_its_own_page_only(archived: tuple[WeboidRunner, CommandResult]) -> None:
    """It is in the archive as it came; no browser takes it from a site, so there is no page."""
    weboid, ran = archived
    url = f"{RULES}/status/407"
    page = ran.pages[url]
    query = f"SELECT status FROM captures WHERE url = '{url}'"

    assert (page["outcome"], page["reason"], page["attempts"]) == ("failed", "origin: 407", 1)
    assert index(weboid.collection, query) == [(407,)]
    assert ran.pages[f"{RULES}/page/plain"]["outcome"] == "complete"
    assert not [payload for *_, payload in records(weboid.collection) if b"Weboid-Proxy" in payload]


def test_a_body_that_no_browser_can_decode_costs_seconds(archived: tuple[WeboidRunner, CommandResult]) -> None:
    """Nothing is drawn of a document without a body, so no picture is waited for till the deadline."""
    pages = [archived[1].pages[f"{RULES}{path}"] for path in UNDECODABLE]

    assert [page["outcome"] for page in pages] == ["partial", "partial"]
    assert max(page["seconds"] for page in pages) < VisitSettings().timeout_s / 2


def test_half_a_surrogate_pair_in_a_pages_words_costs_nothing_else(
    archived: tuple[WeboidRunner, CommandResult],
) -> None:
    """UTF-8 has no form for it: something else is written in its place, and the page is kept."""
    page = archived[1].pages[f"{RULES}/surrogates"]

    assert page["outcome"] == "complete", (page, archived[1].err)
    assert (page["title"][0], page["title"][-1]) == ("a", "b")


def test_a_retry_after_beyond_all_calendars_delays_its_own_host_only(weboid: WeboidRunner) -> None:
    """It is a long wait, which the run speaks of; pages of other hosts are kept."""
    date = quote("Mon, 01 Jan 99999999999999999999 00:00:00 GMT")
    url, other = f"{RULES}/status/503/{date}", f"http://{hosts.OTHER}/page/plain"
    process = weboid.start("archive", "--json", "--profile", str(weboid.profile), "--workers", "1", url, other)
    assert process.stdout is not None
    events: list[dict[str, str]] = []
    for line in process.stdout:
        events.append(json.loads(line))
        if events[-1]["event"] == "waiting":
            os.killpg(process.pid, signal.SIGTERM)
    process.communicate()
    pages = {each["url"]: each["outcome"] for each in events if each["event"] == "page"}
    retried = [(each["url"], each["reason"]) for each in events if each["event"] == "retry"]
    waited = [each["text"] for each in events if each["event"] == "waiting"]

    assert (pages, retried) == ({other: "complete"}, [(url, "status 503")])
    assert len(waited) == 1
    assert f"UTC: {hosts.RULES} is paused (Retry-After, status 503)" in waited[0]
