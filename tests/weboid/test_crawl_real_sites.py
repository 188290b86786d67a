"""A crawl of sites that nobody here wrote: MediaWiki and Debian's manuals."""

import re
from collections import Counter
from pathlib import Path

import pytest

from core.page_manifest import PageInfo, parse_pageinfo
from core.urls import fetch_key, identity_key
from tests.support.commands import WeboidRunner, profile_for
from tests.support.sites import hosts
from tests.support.sites.web import TestWeb
from tests.support.stored_records import check, records

pytestmark = [pytest.mark.real, pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow, pytest.mark.timeout(900)]
WIKI = (
    f"http://{hosts.WIKI}/wiki/Main_Page",
    r"/wiki/(The_library|Chapter_|(Category|Special|Talk|Help|MediaWiki):)|[?&]",
)
MANUAL = (f"https://{hosts.DOCS}/maintainers/index.en.html", r"/images/")


@pytest.mark.parametrize(("seed", "exclude", "depth"), [(*WIKI, 1), (*MANUAL, 2)], ids=["mediawiki", "manual"])
def test_every_page_in_scope_is_captured_exactly_once(
    real_web: TestWeb, tmp_path: Path, seed: str, exclude: str, depth: int
) -> None:
    """The pages of a crawl follow from the links in its manifests alone."""
    visit = dict.fromkeys(("full_page", "thumbnail", "view", "dom", "text", "favicon"), False)
    weboid = WeboidRunner(
        tmp_path, profile_for(real_web, tmp_path / "profile.toml", visit=visit, behaviours={"run": []})
    )
    options = ("--depth", str(depth), "--exclude", exclude, "--robots", "ignore")

    ran = weboid.run("crawl", "--json", "--profile", str(weboid.profile), seed, *options, "--workers", "4")

    assert ran.code == 0, ran.out[-2000:] + ran.err
    manifests = [
        parse_pageinfo(payload)
        for _, target, _, payload in records(weboid.collection)
        if target.startswith("urn:pageinfo:")
    ]
    times = Counter(identity_key(page.url) for page in manifests)
    assert set(times.values()) == {1}
    assert set(times) == in_scope(seed, exclude, depth, {identity_key(p.url): p for p in manifests})
    assert len(times) >= 10
    check(weboid.collection)


def in_scope(seed: str, exclude: str, depth: int, pages: dict[str, PageInfo]) -> set[str]:
    """Return the keys of pages within `depth` links of the seed, found by a walk of our own over their links."""
    folder = re.sub(r"^https?:", "", seed).rpartition("/")[0] + "/"
    page_keys = {identity_key(fetch_key(seed))}
    edge = set(page_keys)
    for _ in range(depth):
        links = {identity_key(fetch_key(link)) for page in edge & pages.keys() for link in pages[page].outlinks}
        edge = {
            link
            for link in links - page_keys
            if re.sub(r"^https?:", "", link).startswith(folder) and not re.search(exclude, link)
        }
        page_keys |= edge
    return page_keys
