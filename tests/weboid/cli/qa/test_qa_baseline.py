"""`weboid qa baseline`: a run before and after the sanitiser was broken on purpose."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.links.checker.test_browser_check import ARTICLE
from tests.qa.test_page_changes import drawn
from tests.support.commands import CommandResult, WeboidRunner
from tests.support.linked_site import Answer, LinkedSite, file, weboid_for
from tests.support.sites.web import TestWeb
from weboid.cli.support.commands import ExitCode

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.timeout(900), pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[4]
SANE = 'images = "area audio img map picture video"'


def html(title: str, body: str) -> Answer:
    return file(f"<!doctype html><title>{title}</title><h1>{title}</h1>{body}".encode(), "text/html")


@pytest.fixture
def site() -> Iterator[LinkedSite]:
    """Serve a page of text, and one that is mostly a picture."""
    image = '<img src="/picture.png" width=640 height=640>'
    png = {"one.example.net/picture.png": file(drawn(size=640), "image/png")}
    pages = {"words.example.net/a": html("Cape", f"<p>{ARTICLE}</p>"), "one.example.net/a": html("Chart", image)}
    with LinkedSite(pages | png) as running:
        yield running


@pytest.fixture
def weboid(site: LinkedSite, web: TestWeb, tmp_path: Path) -> WeboidRunner:
    """Archive these pages and return the runner."""
    weboid = weboid_for(site, web, tmp_path, visit={"full_page": True})
    ran = weboid.archive(*(f"http://{key}" for key in site.answers if key.endswith("/a")))
    assert ran.code == 0, ran
    return weboid


def broken_playback(folder: Path) -> Path:
    """Copy our packages with a sanitiser that loses every image, as a careless change would; return the folder."""
    for name in ("core", "playback"):
        shutil.copytree(ROOT / name, folder / name)
    lists = folder / "playback" / "replay" / "sanitizer" / "allowlist.toml"
    assert SANE in lists.read_text()
    lists.write_text(lists.read_text().replace(SANE, 'images = "area audio map picture video"'))
    return folder


def courses(ran: CommandResult) -> dict[str, str]:
    return {each["url"][7:-14]: each["kind"] for each in ran.events[:-1]}


def test_a_sanitiser_that_loses_images_is_found(
    weboid: WeboidRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing changes between two runs; then the images are lost, and the run says of which pages."""
    planned = weboid.call("qa", "baseline", "save", "spring", "--dry-run", "--json")
    saved = weboid.call("qa", "baseline", "save", "spring", "--json")
    twice = weboid.call("qa", "baseline", "save", "spring")
    same = weboid.call("qa", "baseline", "check", "spring", "--json")

    assert len(planned.events) == 2, planned
    assert (saved.code, saved.events[0]["checked"]) == (ExitCode.OK, 2), saved
    assert saved.events[0]["verdicts"]["good"] == 2
    assert twice.code == ExitCode.INPUT, twice
    assert (same.code, set(courses(same).values())) == (ExitCode.OK, {"unchanged"}), same

    path = os.environ.get("PYTHONPATH", "")
    broken = broken_playback(tmp_path / "broken")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(broken), str(ROOT), path]))
    worse = weboid.run("qa", "baseline", "check", "spring", "--json")
    assert worse.events, worse
    report = Path(weboid.folder / worse.events[-1]["report"]).read_text()
    listed = weboid.call("qa", "baseline", "ls", "--json")
    removed = weboid.call("qa", "baseline", "rm", "spring")
    missing = weboid.call("qa", "baseline", "check", "spring")

    assert worse.code == ExitCode.SOME_FAILED, worse
    assert courses(worse) == {"words": "unchanged", "one": "worse"}
    summary = worse.events[-1]
    assert summary["before"] != summary["after"]
    assert report.count("data:image/webp;base64,") == 3
    assert not re.search(r"<script|(src|href)=\"(?!data:)", report)
    assert [each["name"] for each in json.loads(listed.out)] == ["spring"]
    assert (removed.code, missing.code) == (ExitCode.OK, ExitCode.UNAVAILABLE)
