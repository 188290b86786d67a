"""A real MediaWiki crawled by a cluster under an axe: every page in scope is captured exactly once."""

import random
import urllib.error
import urllib.request
from html.parser import HTMLParser
from urllib.parse import urljoin

import psycopg
import pytest

from bench.cluster import follow, look, running
from core.urls import fetch_key, identity_key
from tests.support.sites.mediawiki import Wiki, running_wiki

pytestmark = [
    pytest.mark.browser,
    pytest.mark.proxy,
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

HOST = "wiki.crawl.example"
SCOPE = f"http://{HOST}/wiki/"
SEED = f"{SCOPE}Main_Page"
DEPTH = 1
KILLS = 2
# Four visits at a time: a host of one's own may be asked more often.
POLITENESS = "delay_factor = 0.0\nmin_delay_s = 0.0\nvisits_per_host = 4"


class Anchors(HTMLParser):
    """The links of a document, as a second pair of eyes sees them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where an anchor leads."""
        href = dict(attrs).get("href")
        if tag in ("a", "area") and href:
            self.found.append(href)


def in_scope(wiki: Wiki) -> dict[str, str]:
    """The pages up to that depth, found by asking the wiki itself: identity -> URL."""
    known = {identity_key(SEED): SEED}
    level = [SEED]
    for _ in range(DEPTH):
        following = []
        for url in level:
            for href in Anchors(text_of(wiki, url)).found:
                link = urljoin(url, href)
                if not link.startswith(SCOPE) or "Special:" in link:
                    continue
                key = identity_key(fetch_key(link))
                if key not in known:
                    known[key] = fetch_key(link)
                    following.append(known[key])
        level = following
    return known


def text_of(wiki: Wiki, url: str) -> str:
    """The page's source; an error page has links, too."""
    address = wiki.base + url.removeprefix(f"http://{HOST}")
    request = urllib.request.Request(address, headers={"Host": HOST})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


def test_a_wiki_crawled_under_an_axe_is_there_once() -> None:
    """Workers, proxies, Redis and PostgreSQL are killed at random; no page is missing or twice."""
    dice = random.Random(11)
    with (
        running_wiki(server=f"http://{HOST}") as wiki,
        running(
            hosts=0,
            proxies=2,
            workers=2,
            others={HOST: f"127.0.0.1:{wiki.port}"},
            politeness=POLITENESS,
        ) as cluster,
    ):
        expected = in_scope(wiki)
        assert len(expected) >= 20, "the wiki is worth the name"
        cluster.run("crawl", SEED, "--depth", str(DEPTH), "--exclude", "Special:")
        with cluster.frontier() as frontier:
            for moment in sorted(dice.sample(range(2, len(expected) - 4), KILLS)):
                follow(frontier, lambda stats, at=moment: stats.done >= at, 300)  # type: ignore[misc]
                cluster.strike(dice.choice([*cluster.members, "redis", "postgres"]))
            follow(frontier, lambda stats: stats.queued + stats.claimed == 0, 600)
        cluster.stop()
        found = look(cluster)
        with psycopg.connect(cluster.database) as client:
            rows = client.execute("SELECT url, outcome FROM weboid.pages").fetchall()

    assert {identity_key(url) for url in found.pages} == set(expected)
    assert set(found.pages.values()) == {1}
    once = {found.captures[url] for url in found.pages}
    assert once == {1}
    assert {outcome for _, outcome in rows} == {"complete"}
    assert (found.bad_warcs, found.open_files) == ([], [])
