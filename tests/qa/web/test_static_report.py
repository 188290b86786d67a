"""The report as one file: what stands in it, what cannot get out of it, and what a browser makes of it.

With ``WEBOID_PICTURES=docs/pictures`` it also makes the picture of the documentation.
"""

import base64
import io
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from core.page_classes import PageClass
from core.playback_check import LostPart, PlaybackCheck, PlaybackFault, QaVerdict
from core.timestamps import from_unix_milliseconds, warc_date_at
from playback.web.page_store import CapturedPage
from qa.check_table import CheckedPage
from qa.web.check_presentation import CheckPictureFolder
from qa.web.check_query import VisibleCheck
from qa.web.static_report import CheckReport, _json, write_report
from tests.qa.web.gallery import GalleryPictures, fill
from tests.support.browser_screen import BrowserScreen
from tests.support.documentation_pictures import save_picture
from tests.support.quality_builder import open_quality_builder, open_quality_pages

MANY = 20_000
MADE = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOSTILE = "</script><script>document.title='stolen'</script>\"'&\u202egnp.exe\ud800\u2028"
SAYS = "document.querySelector('[data-says]').textContent.trim()"


def result(number: int, url: str = "", **facts: Any) -> VisibleCheck:
    """Return a small result, so that many of them are made quickly."""
    at = warc_date_at(1_700_000_000_000 + number * 1_000)
    url = url or f"https://host{number % 97}.example/page/{number}"
    given = {
        "verdict": QaVerdict.BROKEN if number % 3 == 0 else QaVerdict.GOOD, "score": number % 1000 / 1000,
        "faults": (PlaybackFault.BLANK,) if number % 3 == 0 else (), **facts,
    }  # fmt: skip
    check = PlaybackCheck(f"{number:032x}", url, at, "images", at, "e1", **given)
    row = CheckedPage(check, f"host{number % 97}.example", PageClass.OK)
    page = CapturedPage(
        f"{number:032x}", url, "20231114221320", from_unix_milliseconds(1_700_000_000_000), url, "complete", "", 200,
        "text/html", "", 1, 1, "ok", 1.0, "", {},
    )  # fmt: skip
    return VisibleCheck(row, page)


def written(root: Path, results: list[VisibleCheck], **more: Any) -> Path:
    """Write a report of these results to a file; return its path."""
    path = root / "report.html"
    report = CheckReport(**{"title": "A collection", "made_at": MADE, **more})
    with path.open("w", encoding="utf-8") as file:
        write_report(report, results, file, pictures=CheckPictureFolder(root), shows_pictures=lambda _page: True)
    return path


def embedded(path: Path, name: str) -> Any:
    """Return the JSON that the file holds under a name."""
    match = re.search(rf'id="{name}">(.*?)</script>', path.read_text(), re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def test_the_file_asks_nobody_for_anything(tmp_path: Path) -> None:
    """No address but data and anchors; the policy names each script and style by its digest."""
    text = written(tmp_path, [result(1)]).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)

    assert allowed.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in allowed
    assert (len(scripts), len(styles)) == (2, 1)
    for body in (*scripts, *styles):
        digest = base64.b64encode(sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed
    assert re.findall(r'(?:src|href|action)="(?!#)[^"]*"', text) == []
    assert "url(" not in styles[0]


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner, max_size=3)))
def test_json_in_the_file_ends_no_element(value: object) -> None:
    """It reads back as it was, and holds no letter that a browser's parser would act upon."""
    text = _json(value)

    assert json.loads(text) == value
    assert text.isascii()
    assert "<" not in text


def test_rows_hold_what_was_found(tmp_path: Path) -> None:
    """Shared texts stand once; scores in thousandths, moments in seconds, faults as bits."""
    lost = tuple(LostPart(f"https://x.example/{n}", "missing") for n in range(9))
    path = written(tmp_path, [result(3, reason="R", lost=lost), result(6, reason="R")])
    rows, strings = embedded(path, "rows"), embedded(path, "strings")

    assert [row[2] for row in rows] == ["https://host3.example/page/3", "https://host6.example/page/6"]
    assert [strings[row[15]] for row in rows] == ["R", "R"]
    assert len(strings) == len(set(strings))
    assert [row[7] for row in rows] == [3, 6]
    assert [row[11] for row in rows] == [2, 2]
    assert [len(row[16]) if row[16] else 0 for row in rows] == [3, 0]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report of `MANY` results; return its path."""
    results = [result(number) for number in range(MANY)]
    return written(tmp_path_factory.mktemp("many"), results)


@pytest.fixture(scope="module")
def drawn(
    drawings: list[GalleryPictures], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, list[str]]]:
    """Write a report with pictures; yield its path and the ids of its gallery pages."""
    tmp_path = tmp_path_factory.mktemp("drawn")
    with open_quality_builder(tmp_path) as quality, open_quality_pages(quality):
        ids = fill(quality, drawings)
        pictures = CheckPictureFolder(quality.builder.layout.quality_pictures)
        results = [result(10 + n) for n in range(3)]
        checks = [VisibleCheck(quality.row(page_id), results[0].page) for page_id in ids]
        report = CheckReport("Harbour collection", MADE, "https://archive.example")
        path = tmp_path / "drawn.html"
        with path.open("w", encoding="utf-8") as file:
            write_report(report, [*checks, *results], file, pictures=pictures, shows_pictures=lambda _page: True)
        yield path, ids


async def press(screen: BrowserScreen, key: str) -> None:
    """Press a key."""
    code = {"ArrowLeft": 37, "ArrowRight": 39}.get(key, ord(key.upper()[0]))
    kind, more = ("rawKeyDown", {}) if len(key) > 1 else ("keyDown", {"text": key})
    for each, facts in ((kind, more), ("keyUp", {})):
        await screen.send("Input.dispatchKeyEvent", type=each, key=key, code=key, windowsVirtualKeyCode=code, **facts)


async def keep(screen: BrowserScreen, page_id: str) -> None:
    """Keep one result, side by side, as a picture of the documentation, when one is asked for."""
    if folder := os.environ.get("WEBOID_PICTURES"):
        await screen.value(f"location.hash = '#{page_id}/images'")
        await until(screen, "document.querySelector('[data-one-url]').textContent.includes('museum')")
        await press(screen, "s")
        picture = Image.open(io.BytesIO(await screen.picture()))
        save_picture(picture, Path(folder, "quality-file.png"))


async def until(screen: BrowserScreen, expression: str) -> None:
    """Wait until something is true in the page."""
    await screen.value(f"""new Promise(done => {{
        const look = () => ({expression}) ? done(true) : setTimeout(look, 10);
        look();
    }})""")


async def opened(screen: BrowserScreen, path: Path, **more: Any) -> None:
    """Open the file, readable for a browser of another user."""
    for each in (path, *path.parents):
        mode = each.stat().st_mode
        if mode & 0o055 != 0o055:  # shared folders above keep their mode, such as 1777
            each.chmod(mode | 0o055)
    await screen.open(f"file://{path}", **more)


browser = pytest.mark.browser
slow = pytest.mark.slow
in_session = pytest.mark.asyncio(loop_scope="session")  # where the browser is


@browser
@slow
@in_session
async def test_many_results_are_paged(many: Path, screen: BrowserScreen) -> None:
    """Fifty at a time; filters over all of them; the last part is as near as the first."""
    await opened(screen, many)
    first = await screen.value("document.querySelectorAll('[data-rows] > li').length")
    place = await screen.value("document.querySelector('[data-place]').textContent")
    await screen.value("""(() => { const form = document.querySelector('[data-sift]');
        form.elements.host.value = 'HOST5.example'; form.elements.verdict.value = 'broken';
        form.requestSubmit(); })()""")
    announcement = await screen.value(SAYS)
    urls = await screen.value("[...document.querySelectorAll('[data-row]')].map(a => a.textContent)")
    await screen.value("document.querySelector('[data-later]').click()")
    later = await screen.value("document.querySelector('[data-row]').textContent")
    expected = [n for n in range(MANY) if n % 97 == 5 and n % 3 == 0]

    assert many.stat().st_size < 200 * MANY
    assert first == 50
    assert place == "Part 1 of 400"
    assert announcement == f"Results: {len(expected)}"
    assert urls == [f"https://host5.example/page/{number}" for number in expected[:50]]
    assert later.endswith(f"/page/{expected[50]}")


@browser
@slow
@in_session
async def test_hostile_texts_do_nothing(tmp_path: Path, screen: BrowserScreen) -> None:
    """They are shown as letters, those that turn others as a mark; a script's address is no link."""
    results = [
        result(1, f"https://a.example/{HOSTILE}", reason=HOSTILE, lost=(LostPart(HOSTILE, HOSTILE),)),
        result(2, "javascript:document.title='stolen'", reason="x"),
    ]  # fmt: skip
    path = written(tmp_path, results, title=HOSTILE.encode("utf-8", "replace").decode())
    await opened(screen, path)
    listed = await screen.value("document.querySelector('[data-rows]').innerText")
    for number in (1, 2):
        await screen.value(f"location.hash = '#{number:032x}/images'")
        await until(screen, "!document.querySelector('[data-view-one]').hidden")
    body_text = await screen.value("document.body.innerText")

    assert "stolen" not in await screen.value("document.title.split('·')[0]")
    assert "</script>" in listed
    assert "\u202e" not in listed + body_text
    assert await screen.value("document.querySelector('[data-live]').hidden")
    assert await screen.value("document.scripts.length") == len(re.findall("<script", path.read_text()))


@browser
@slow
@in_session
async def test_the_file_is_read_and_marked_by_keys(drawn: tuple[Path, list[str]], screen: BrowserScreen) -> None:
    """The slider has its pictures; marks are told, kept, and come out as `weboid qa marks` reads them."""
    path, ids = drawn
    await opened(screen, path, size=(1200, 900))
    await press(screen, "j")
    await screen.value("document.activeElement.click()")
    await until(screen, "!document.querySelector('[data-view-one]').hidden")
    pictures = await screen.value(
        "[...document.querySelectorAll('.pane img[src]')].every(i => i.src.startsWith('data:image/webp'))"
    )
    await keep(screen, ids[2])
    await screen.value(f"location.hash = '#{ids[0]}/images'")
    await until(screen, "document.querySelector('[data-one-url]').textContent.includes('seafarers')")
    await press(screen, "b")
    await press(screen, "r")
    announcement = await screen.value(SAYS)
    await press(screen, "j")
    await until(screen, f"location.hash.includes({ids[1]!r})")
    await press(screen, "g")
    await screen.value("document.querySelector('[data-by]').value = 'Ada'")
    given = await screen.value("""new Promise(done => {
        const made = URL.createObjectURL;
        URL.createObjectURL = blob => { blob.text().then(done); return made.call(URL, blob); };
        document.querySelector('[data-give-marks]').click();
    })""")
    marks = json.loads(given)

    assert pictures
    assert "Your rating: Broken." in announcement
    assert (marks["weboid_marks"], marks["by"]) == (1, "Ada")
    assert [(m["page_id"], m["verdict"], m["recrawl"]) for m in marks["marks"]] == [
        (ids[0], "broken", True), (ids[1], "good", False),
    ]  # fmt: skip


@browser
@slow
@in_session
async def test_axe_finds_nothing_serious(drawn: tuple[Path, list[str]], screen: BrowserScreen) -> None:
    """List and result, in both colours and widths; nothing is wider than the window."""
    path, ids = drawn
    await opened(screen, path)
    findings = {}
    for name in ("list", f"{ids[2]}/images"):
        await screen.value(f"location.hash = '#{name}'")
        is_list = "" if name == "list" else "!"
        await until(screen, f"{is_list}document.querySelector('[data-view-one]').hidden")
        for size, dark in (((390, 844), True), ((1200, 900), False)):
            await screen.adapt(size=size, dark=dark)
            findings[name, dark] = await screen.faults()

    assert {name: each for name, each in findings.items() if each} == {}
