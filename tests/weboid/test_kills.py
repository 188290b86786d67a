"""Whatever is killed during a run, running the command again ends with everything done once."""

import os
import random
import signal
import subprocess
from collections.abc import Callable

import psutil
import pytest

from tests.support.commands import Weboid
from tests.weboid.cli.crawl.test_crawl_runs import RULES, check, index, records

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow]

PAGES = 50
KILLS = 10
RUNS_LIMIT = 30


def family(pid: int) -> dict[str, list[int]]:
    """The run's processes by kind."""
    found: dict[str, list[int]] = {"worker": [pid], "proxy": [], "browser": []}
    for child in psutil.Process(pid).children(recursive=True):
        try:
            command = child.cmdline()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if command[1:3] == ["-m", "proxy"]:
            found["proxy"].append(child.pid)
        elif "chrom" in " ".join(command[:12]) and "--type=" not in " ".join(command):
            found["browser"].append(child.pid)
    return found


def run_until_killed(weboid: Weboid, urls: list[str], dice: random.Random, kills: int) -> int:
    """Run the command; kill something after each few pages; how many kills were made."""
    process = weboid.start("archive", "--json", "--profile", str(weboid.profile), *urls)
    assert process.stdout is not None
    made = 0
    until_next = dice.randint(1, 3)
    for line in process.stdout:
        if '"event": "page"' not in line:
            continue
        until_next -= 1
        if until_next or made >= kills:
            continue
        kind = dice.choice(["worker", "proxy", "browser"])
        victims = family(process.pid)[kind]
        if victims:
            os.kill(dice.choice(victims), signal.SIGKILL)
            made += 1
        until_next = dice.randint(1, 4)
    try:
        process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return made


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_fifty_pages_survive_any_killing_each_once(
    weboid_with: Callable[..., Weboid], seed: int
) -> None:
    """Worker, proxy and browser are killed at random; then all 50 pages are there, each once."""
    weboid = weboid_with(frontier={"attempts": KILLS + 1})  # each kill costs what it interrupts one
    dice = random.Random(seed)
    urls = [f"{RULES}/page/plain?{number}" for number in range(PAGES)]
    kills = 0
    for _ in range(RUNS_LIMIT):
        kills += run_until_killed(weboid, urls, dice, KILLS - kills)
        if kills >= KILLS:
            break
    ran = weboid.archive(*urls)
    status = weboid.run("status", "--json").events[0]
    check(weboid.collection)
    assert weboid.run("archive", "verify").code == 0

    assert kills == KILLS
    assert ran.code == 0
    assert (status["done"], status["dead"], status["queued"], status["claimed"]) == (50, 0, 0, 0)
    assert index(weboid.collection, "SELECT count(*), count(DISTINCT url) FROM pages") == [(50, 50)]
    query = "SELECT url, count(*) FROM captures WHERE url LIKE '%/page/plain?%' AND"
    counts = dict(index(weboid.collection, f"{query} record_type != 'resource' GROUP BY url"))
    assert counts == dict.fromkeys(urls, 1)
    digests = [
        h["WARC-Payload-Digest"] for k, _, h, _ in records(weboid.collection) if k == "response"
    ]
    assert len(digests) == len(set(digests))
    manifests = [t for _, t, *_ in records(weboid.collection) if t.startswith("urn:pageinfo:")]
    assert sorted(manifests) == sorted(f"urn:pageinfo:{url}" for url in urls)
