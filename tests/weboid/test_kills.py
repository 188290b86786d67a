"""Whatever is killed during a run, running the command again ends with everything done once."""

import os
import random
import signal
import subprocess
from collections.abc import Callable

import psutil
import pytest

from tests.support.commands import WeboidRunner
from tests.support.stored_records import RULES, check, index, records

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.slow]

PAGES = 6  # new ones of each run
RUNS = 10  # at most; three are enough unless the machine is busy
KINDS = ("worker", "proxy", "browser")


def family(pid: int) -> dict[str, list[int]]:
    """Return the ids of the run's processes by kind."""
    processes: dict[str, list[int]] = {"worker": [pid], "proxy": [], "browser": []}
    for child in psutil.Process(pid).children(recursive=True):
        try:
            command = child.cmdline()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if command[1:3] == ["-m", "proxy"]:
            processes["proxy"].append(child.pid)
        elif "chrom" in " ".join(command[:12]) and "--type=" not in " ".join(command):
            processes["browser"].append(child.pid)
    return processes


def run_until_killed(weboid: WeboidRunner, urls: list[str], left: list[str]) -> None:
    """Run the command; after every other page kill a process of the next kind, which leaves the list."""
    process = weboid.start("archive", "--json", "--profile", str(weboid.profile), *urls)
    assert process.stdout is not None
    pages = 0
    for line in process.stdout:
        pages += '"event": "page"' in line
        if pages < 2 or not left:
            continue
        victims = family(process.pid)[left[0]]
        if victims:  # else at the next event
            os.kill(victims[0], signal.SIGKILL)
            del left[0]
            pages = 0
    try:
        process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


@pytest.mark.timeout(600)
def test_every_page_survives_any_killing_once(weboid_with: Callable[..., WeboidRunner]) -> None:
    """Worker, proxy and browser are killed at random; then all pages are there, each once."""
    # Each kill costs what it interrupts one attempt.
    weboid = weboid_with(frontier={"attempts": len(KINDS) + 1})
    urls: list[str] = []
    left = random.sample(KINDS, len(KINDS))
    # The run whose worker is killed ends, and so may another with its last page: each has new pages.
    for _ in range(RUNS):
        if left:
            urls += [f"{RULES}/page/plain?{number}" for number in range(len(urls), len(urls) + PAGES)]
            run_until_killed(weboid, urls, left)
    ran = weboid.archive(*urls)
    status = weboid.call("status", "--json").events[0]
    check(weboid.collection)
    assert weboid.run("verify").code == 0

    assert not left
    assert ran.code == 0
    assert (status["done"], status["dead"], status["queued"], status["claimed"]) == (len(urls), 0, 0, 0)
    assert index(weboid.collection, "SELECT count(*), count(DISTINCT url) FROM pages") == [(len(urls), len(urls))]
    query = "SELECT url, count(*) FROM captures WHERE url LIKE '%/page/plain?%' AND"
    counts = dict(index(weboid.collection, f"{query} record_type != 'resource' GROUP BY url"))
    assert counts == dict.fromkeys(urls, 1)
    digests = [h["WARC-Payload-Digest"] for k, _, h, _ in records(weboid.collection) if k == "response"]
    assert len(digests) == len(set(digests))
    manifests = [t for _, t, *_ in records(weboid.collection) if t.startswith("urn:pageinfo:")]
    assert sorted(manifests) == sorted(f"urn:pageinfo:{url}" for url in urls)
