"""`archive --qa`: copies are looked at while a run goes on, and whatever happens to that, it goes on."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.clock import SystemClock
from core.layout import Layout
from core.playback_check import QaVerdict
from crawler.collection import open_collection
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import Level, LevelActor, target_of
from qa.check_store import find_checks
from qa.check_table import CheckedPage
from tests.support.commands import Weboid
from tests.support.linked_site import LinkedSite, weboid_for
from tests.support.paged_site import answers_of
from tests.support.services.registries import open_registry
from tests.support.sites.web import TestWeb

pytestmark = [
    pytest.mark.browser,
    pytest.mark.proxy,
    pytest.mark.playback,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

CLOCK = SystemClock()
NAMES = ("one", "two", "three")
URLS = [f"http://a.example/{name}" for name in NAMES]


@pytest.fixture
def site() -> Iterator[LinkedSite]:
    with LinkedSite(answers_of(*(f"a.example/{name}" for name in NAMES))) as served:
        yield served


@pytest.fixture
def weboid(site: LinkedSite, web: TestWeb, tmp_path: Path) -> Weboid:
    """The command, with pictures of whole pages."""
    return weboid_for(site, web, tmp_path, visit={"full_page": True})


def kept(weboid: Weboid, page_ids: list[str]) -> list[CheckedPage]:
    """What the registry says of these captures."""
    with closing(open_registry(Layout(weboid.collection))) as store, store.reading() as rows:
        return find_checks(rows, page_ids)


def of(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The events of that name."""
    return [each for each in events if each["event"] == name]


async def test_copies_are_looked_at_while_a_run_goes_on(weboid: Weboid) -> None:
    """What is found is told, counted, in the registry and in the WARCs when the run ends.

    They are looked at as `weboid qa` looks: in full, too, where the level rules show a page so.
    """
    async with open_collection(weboid.collection, clock=CLOCK) as made:
        with closing(open_decisions(made.layout)) as decisions:
            target = target_of(link=URLS[0])
            LevelStore(decisions).decide(
                [target], Level.FULL, actor=LevelActor("me"), now=CLOCK.now()
            )

    ran = await asyncio.to_thread(weboid.archive, "--qa", *URLS)

    assert ran.code == 0
    looked = {(each["url"], each["level"]) for each in of(ran.events, "checked")}
    assert looked == {(URLS[0], "full"), *((url, "images") for url in URLS)}
    assert ran.summary["checked"] == {"good": 4}
    rows = kept(weboid, [each["page_id"] for each in of(ran.events, "page")])
    assert [row.verdict for row in rows] == [QaVerdict.GOOD] * 4
    assert all(row.is_recorded for row in rows)
    later = await asyncio.to_thread(weboid.run, "qa", "--all", "--json", "--no-repair")
    assert later.summary["checked"] == 0


def test_a_run_without_it_loads_nothing_of_it() -> None:
    """Starting is quick, and no playback is started."""
    code = (
        "import sys; from weboid.cli.main import weboid; import weboid.cli.crawl.crawl_runs;"
        " print([each for each in sys.modules if each.startswith(('crawler.quality', 'render.compare',"
        " 'playback.playback_server', 'sqlalchemy', 'uvicorn'))])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )

    assert told.stdout.strip() == "[]"


def test_a_playback_that_dies_is_told_once_and_the_crawl_goes_on(weboid: Weboid) -> None:
    """It is started again, and the pages are looked at all the same."""
    command = ("archive", "--qa", "--json", "--workers", "1", "--profile", str(weboid.profile))
    process = weboid.start(*command, *URLS)
    events, killed = [], False
    try:
        assert process.stdout is not None
        for line in process.stdout:
            events.append(json.loads(line))
            if not killed and events[-1]["event"] == "checked":
                killed = _kill_playback(process.pid)
        assert process.wait() == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    assert killed
    assert {each["url"] for each in of(events, "page")} == set(URLS)
    assert events[-1]["outcomes"] == {"complete": 3}
    assert len([each for each in of(events, "waiting") if each["reason"] == "playback"]) <= 1
    assert events[-1]["checked"] == {"good": 3}


def test_no_playback_at_all_is_told_once_and_the_crawl_is_not_hurt(
    weboid: Weboid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its libraries is broken, say: the pages are archived, and the exit code says so."""
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "gevent.py").write_text("raise ImportError('broken')\n")
    path = [str(tmp_path / "libraries"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))

    ran = weboid.archive("--qa", *URLS)

    assert ran.code == 0
    assert ran.summary["outcomes"] == {"complete": 3}
    assert ran.summary["checked"] == {}
    (told,) = of(ran.events, "waiting")
    assert "Replay did not start" in told["text"]


def test_a_run_that_is_told_to_stop_stops(weboid: Weboid) -> None:
    """SIGTERM is for the run, whatever playback would make of it."""
    process = weboid.start(
        *("archive", "--stay", "--qa", "--json", "--profile", str(weboid.profile)), *URLS
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "checked":
                break
        process.terminate()
        out, _ = process.communicate(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert '"event": "summary"' in out.splitlines()[-1]
    assert process.returncode in (0, 6)


def _kill_playback(pid: int) -> bool:
    """Kill replay; whether there was one."""
    found = [
        child
        for child in psutil.Process(pid).children(recursive=True)
        if any("playback.replay" in word for word in child.cmdline())
    ]
    for child in found:
        child.kill()
    return bool(found)
