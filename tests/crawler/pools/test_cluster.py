"""Workers and proxies of a cluster, as processes: whatever is killed, each page is there once."""

import json
import random

import pytest

from bench.cluster import follow, look, running
from core.clock import SystemClock
from crawler.frontier.base import PROXY_SERVICE, WORKER_SERVICE

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow]

PAGES, HOSTS, WORKERS = 40, 8, 3


@pytest.mark.timeout(900)
def test_pages_survive_the_death_of_each_part_each_once() -> None:
    """A worker, a proxy, Redis and PostgreSQL are killed in the midst of it; nothing is lost."""
    dice = random.Random(4)
    with running(hosts=HOSTS, proxies=2, workers=WORKERS) as cluster:
        urls = cluster.urls(PAGES)
        cluster.add(urls)
        victims = [
            f"worker{dice.randrange(WORKERS)}",
            f"proxy{dice.randrange(2)}",
            "redis",
            "postgres",
        ]
        dice.shuffle(victims)
        moments = sorted(dice.sample(range(4, PAGES - 12), len(victims)))
        with cluster.frontier() as frontier:
            for moment, victim in zip(moments, victims, strict=True):
                follow(frontier, lambda stats, at=moment: stats.done >= at, 300)  # type: ignore[misc]
                cluster.strike(victim)
            stats = follow(frontier, lambda s: s.done + s.dead + s.skipped >= PAGES, 600)
        ended = {each.process.pid for each in cluster.members.values() if each.process is not None}
        codes = cluster.stop()
        found = look(cluster)
        with cluster.frontier() as frontier:
            # Who ended took its announcement back; that of one who was killed runs out by itself.
            notes = [
                frontier.notes(kind, now=SystemClock().now())
                for kind in (PROXY_SERVICE, WORKER_SERVICE)
            ]
            pids = {json.loads(each)["pid"] for some in notes for each in some.values()}

    assert (stats.done, stats.dead, stats.skipped) == (PAGES, 0, 0)
    assert found.pages == dict.fromkeys(urls, 1)
    assert found.captures == dict.fromkeys(urls, 1)
    assert found.bad_warcs == []
    assert found.open_files == []
    assert set(codes.values()) == {0}
    assert pids.isdisjoint(ended)
    assert found.proof.most_together == 1
    assert found.proof.breaches == []
