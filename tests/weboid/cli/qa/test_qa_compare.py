"""`weboid qa compare` and `weboid qa compare`: what became of pages."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.links.checker.test_browser_check import ARTICLE, GAMBLING, OTHER
from tests.support.commands import WeboidRunner
from tests.support.linked_site import Answer, LinkedSite, file, weboid_for
from tests.support.sites.web import TestWeb
from weboid.cli.support.commands import ExitCode

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow, pytest.mark.timeout(900)]


def html(title: str, text: str, *links: str) -> Answer:
    anchors = "".join(f'<a href="{each}">{each}</a> ' for each in links)
    body = f"<!doctype html><title>{title}</title><h1>{title}</h1><p>{text}</p>{anchors}"
    return file(body.encode(), "text/html")


@pytest.fixture(scope="module")
def site() -> Iterator[LinkedSite]:
    """Serve hosts whose pages are as they were cited."""
    cited = html("Cape", ARTICLE, "/map", "/keepers")
    hosts = ("fine", "little", "other", "sold", "gone", "once", "live")
    with LinkedSite({f"{name}.example.net/a": cited for name in hosts}) as running:
        yield running


@pytest.fixture(scope="module")
def twice(site: LinkedSite, web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> WeboidRunner:
    """Archive all pages, change the site, and archive all but two again."""
    folder = tmp_path_factory.mktemp("twice")
    weboid = weboid_for(site, web, folder, visit={"full_page": True})
    urls = [f"http://{key}" for key in site.answers]
    weboid.archive(*urls)
    site.answers |= {
        "little.example.net/a": html("Cape", ARTICLE + " Closed today.", "/map", "/shop"),
        "other.example.net/a": html("Tax advice", OTHER),
        "sold.example.net/a": html("Slot gacor", GAMBLING),
    }
    del site.answers["gone.example.net/a"]
    again = [each for each in urls if "once" not in each and "live" not in each]
    ran = weboid.archive("--again", *again)
    assert ran.code == 0, ran
    return weboid


def test_what_became_of_pages_is_told(twice: WeboidRunner, tmp_path: Path) -> None:
    """A page compared by name, with its paragraphs and links; and all of them, the worst first."""
    page = tmp_path / "changes.html"
    little = twice.call("qa", "compare", "http://little.example.net/a", "--json", "--out", str(page))
    plain = twice.call("qa", "compare", "little.example.net/a")
    other = twice.call("qa", "compare", "http://other.example.net/a", "--json")
    once = twice.call("qa", "compare", "http://once.example.net/a")
    drift = twice.call("qa", "compare", "--json")
    table = twice.call("qa", "compare", "--since", "1d", "--limit", "2")
    sample = twice.call("qa", "compare", "--sample", "2", "--json")

    assert little.code == 0, little
    (facts,) = little.events
    assert (little.code, facts["drift"]) == (ExitCode.OK, "changed a little"), little
    assert facts["paragraphs"]["changed"] >= 1
    assert any("Closed today" in row["after"] for row in facts["paragraphs"]["rows"])
    assert facts["links"]["added"] == ["http://little.example.net/shop"]
    assert facts["links"]["removed"] == ["http://little.example.net/keepers"]
    assert 0.7 < facts["picture"] < 1
    assert plain.out.startswith("changed a little: http://little.example.net/a\n"), plain
    (changed,) = other.events
    assert (changed["drift"], changed["now"]["title"]) == ("another page", "Tax advice")
    assert (once.code, "--live" in once.err) == (ExitCode.UNAVAILABLE, True), once
    assert [(each["drift"], each["url"].split(".")[0][7:]) for each in drift.events if "live" not in each["url"]] == [
        ("another owner", "sold"),
        ("gone", "gone"),
        ("another page", "other"),
        ("changed a little", "little"),
        ("unchanged", "fine"),
    ], drift
    assert len(table.out.splitlines()) == 3, table
    assert "another owner" in table.out
    assert len(sample.events) == 2
    written = page.read_text()
    assert "Closed today" in written
    assert written.count("data:image/webp;base64,") >= 2
    assert not re.search(r"<script|(src|href)=\"(?!data:)", written)


def test_a_capture_is_held_against_the_page_of_now(twice: WeboidRunner, site: LinkedSite) -> None:
    """The page is captured once more, and the capture stays; moments choose among captures."""
    site.answers["live.example.net/a"] = html("Slot gacor", GAMBLING)
    url, profile = "http://live.example.net/a", ("--profile", str(twice.profile))
    before = site.requests["live.example.net/a"]

    live = twice.call("qa", "compare", url, "--live", "--json", *profile)
    assert live.code == 0, live
    (facts,) = live.events
    first, second = (re.sub(r"\D", "", facts[each]["captured_at"])[:14] for each in ("then", "now"))
    back = twice.call("qa", "compare", url, "--at", first, "--to", second, "--json")
    both = twice.call("qa", "compare", url, "--live", "--to", second)
    bad = twice.call("qa", "compare", url, "--at", "yesterday")
    del site.answers["live.example.net/a"]
    gone = twice.call("qa", "compare", url, "--live", "--json", *profile)

    assert (live.code, facts["drift"]) == (ExitCode.OK, "another owner"), live
    assert site.requests["live.example.net/a"] == before + 2  # both live looks asked the site
    assert facts["owner_signs"]
    assert [each["now"]["page_id"] for each in back.events] == [facts["now"]["page_id"]], back
    assert (both.code, bad.code) == (ExitCode.INPUT, ExitCode.INPUT), (both, bad)
    assert gone.events[0]["drift"] == "gone", gone
