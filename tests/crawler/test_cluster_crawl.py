"""A crawl of a wiki that nobody here wrote, through a cluster whose parts die at random."""

import random
from pathlib import Path

import psycopg
import pytest

from bench.cluster import follow, look, running
from core.pages import PageInfo, parse_pageinfo
from core.urls import identity_key
from tests.crawler.conftest import profile_for
from tests.crawler.test_archive_command import records
from tests.crawler.test_crawl_real_sites import DEPTH, WIKI, in_scope
from tests.sites.web import TestWeb

pytestmark = [pytest.mark.real, pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow]

KILLS = 6


@pytest.mark.timeout(1200)
def test_every_page_in_scope_is_there_once_whatever_was_killed(real_web: TestWeb) -> None:
    """MediaWiki to depth two: what belongs to it is found anew from the manifests' links alone."""
    dice = random.Random(9)
    seed, exclude = WIKI

    def profile(path: Path) -> None:
        profile_for(
            real_web,
            path,
            visit={"full_page": False, "thumbnail": False, "scroll_limit_s": 0.0},
            frontier={"lease_s": 10.0},
            politeness={"visits_per_host": 8},
        )

    with running(hosts=0, proxies=2, workers=4, profile=profile) as cluster:
        options = ("--depth", str(DEPTH), "--exclude", exclude, "--robots", "ignore")
        ran = cluster.command("crawl", seed, *options, "--profile", str(cluster.profile))
        assert ran.returncode == 0, ran.stdout + ran.stderr
        with cluster.frontier() as frontier:
            for kill in range(KILLS):
                follow(frontier, lambda s, at=3 * kill + 1: s.done >= at, 300)  # type: ignore[misc]
                cluster.strike(dice.choice([*cluster.members, "redis", "postgres"]))
            stats = follow(frontier, lambda s: s.queued == s.claimed == 0, 600)
        codes = cluster.stop()
        found = look(cluster)
        with psycopg.connect(cluster.database) as client:
            ids = {each for (each,) in client.execute("SELECT page_id FROM weboid.pages")}
        manifests = latest_manifests(cluster.collection)

    assert stats.dead == 0
    assert {each.page_id for each in manifests.values()} == ids
    assert set(found.pages.values()) == {1}
    assert set(manifests) == in_scope(seed, exclude, manifests)
    assert len(manifests) >= 10
    assert (found.bad_warcs, found.open_files, set(codes.values())) == ([], [], {0})


def latest_manifests(collection: Path) -> dict[str, PageInfo]:
    """By identity key; a page that was made again has an earlier one, too."""
    found = [
        parse_pageinfo(payload)
        for _, target, _, payload in records(collection)
        if target.startswith("urn:pageinfo:")
    ]
    return {identity_key(page.url): page for page in sorted(found, key=lambda p: p.captured_at)}
