"""`archive --qa`: copies are looked at while a run goes on, and whatever happens to that, it goes on."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.clock import SystemClock
from core.layout import Layout
from core.playback_check import QaVerdict
from crawler.collection import make_collection
from playback.access.decision_store import open_decisions
from playback.access.level_store import LevelStore
from playback.access.levels import Level, LevelActor, target_of
from qa.check_store import find_checks
from qa.check_table import CheckedPage
from tests.support.commands import WeboidRunner
from tests.support.linked_site import LinkedSite, weboid_for
from tests.support.paged_site import answers_of
from tests.support.polling import wait_until
from tests.support.services.registries import open_registry
from tests.support.sites.web import TestWeb
from weboid.cli.support.commands import ExitCode

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow, pytest.mark.timeout(900)]

CLOCK = SystemClock()
NAMES = ("one", "two")
URLS = [f"http://a.example/{name}" for name in NAMES]


@pytest.fixture
def site() -> Iterator[LinkedSite]:
    with LinkedSite(answers_of(*(f"a.example/{name}" for name in NAMES))) as served:
        yield served


@pytest.fixture
def weboid(site: LinkedSite, web: TestWeb, tmp_path: Path) -> WeboidRunner:
    """Return a runner that takes screenshots of whole pages."""
    return weboid_for(site, web, tmp_path, visit={"full_page": True})


def stored_checks(weboid: WeboidRunner, page_ids: list[str]) -> list[CheckedPage]:
    """Return the registry's checks of these captures."""
    with closing(open_registry(Layout(weboid.collection))) as store, store.reading() as rows:
        return find_checks(rows, page_ids)


def of(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for each in events if each["event"] == name]


def test_copies_are_checked_during_a_run_though_playback_dies(weboid: WeboidRunner) -> None:
    """Results are reported, counted, in the registry and in the WARCs when the run is stopped.

    They are checked as `weboid qa` checks: in full, too, where the level rules show a page so. Playback
    is started again, and SIGTERM is for the run, whatever playback would make of it.
    """
    weboid.collection.mkdir()
    layout = Layout(weboid.collection)
    make_collection(layout, CLOCK)
    with closing(open_decisions(layout)) as decisions:
        target = target_of(link=URLS[0])
        LevelStore(decisions).decide([target], Level.FULL, actor=LevelActor("me"), now=CLOCK.now())
    command = ("archive", "--stay", "--qa", "--json", "--workers", "1")
    process = weboid.start(*command, "--profile", str(weboid.profile), *URLS)
    events: list[dict[str, Any]] = []
    killed, checks = False, len(URLS) + 1
    try:
        assert process.stdout is not None
        while len(of(events, "checked")) < checks:
            events.append(json.loads(process.stdout.readline()))
            if not killed and events[-1]["event"] == "checked":
                killed = _kill_playback(process.pid)
        page_ids = [each["page_id"] for each in of(events, "page")]
        wait_until(lambda: all(row.is_recorded for row in stored_checks(weboid, page_ids)))
        process.terminate()
        out, _ = process.communicate(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    events += map(json.loads, out.splitlines())

    assert killed
    assert process.returncode in (ExitCode.OK, ExitCode.STOPPED)
    assert {each["url"] for each in of(events, "page")} == set(URLS)
    assert len([each for each in of(events, "waiting") if each["reason"] == "playback"]) <= 1
    checked = {(each["url"], each["level"]) for each in of(events, "checked")}
    assert checked == {(URLS[0], "full"), *((url, "images") for url in URLS)}
    assert events[-1]["event"] == "summary"
    assert events[-1]["outcomes"] == {"complete": len(URLS)}
    assert events[-1]["checked"] == {"good": checks}
    rows = stored_checks(weboid, page_ids)
    assert [row.verdict for row in rows] == [QaVerdict.GOOD] * checks
    later = weboid.call("qa", "--all", "--json")
    assert later.summary["checked"] == 0


def test_a_run_without_it_loads_nothing_of_it() -> None:
    """Starting is quick, and no playback is started."""
    code = (
        "import sys; from weboid.cli.main import weboid; import weboid.cli.crawl.archive_command;"
        " print([each for each in sys.modules if each.startswith(('crawler.quality', 'render.compare',"
        " 'playback.playback_server', 'sqlalchemy', 'uvicorn'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)

    assert ran.stdout.strip() == "[]"


def test_no_playback_at_all_is_reported_once_and_the_crawl_is_not_hurt(
    weboid: WeboidRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its libraries is broken, say: the pages are archived, and the exit code says so."""
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "gevent.py").write_text("raise ImportError('broken')\n")
    path = [str(tmp_path / "libraries"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))

    ran = weboid.archive("--qa", URLS[0])

    assert ran.code == 0
    assert ran.summary["outcomes"] == {"complete": 1}
    assert ran.summary["checked"] == {}
    (notice,) = of(ran.events, "waiting")
    assert "Replay did not start" in notice["text"]


def _kill_playback(pid: int) -> bool:
    """Kill the replay processes and return whether there were any."""
    is_killed = False
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):  # one that has just ended
            if any("playback.replay" in word for word in child.cmdline()):
                child.kill()
                is_killed = True
    return is_killed
