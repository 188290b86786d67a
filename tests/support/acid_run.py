"""One run over the acid pages: archived by the command, read back, played back in a browser."""

import asyncio
import io
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
from PIL import Image, ImageChops

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from core.page_manifest import PageInfo, parse_pageinfo
from core.timestamps import parse_warc_date, timestamp14
from render.behaviours.catalog import NO_BEHAVIOURS
from render.browser import Browser
from render.chromium import find_browser
from render.visit import VisitRequest, visit
from tests.support.commands import CommandResult, WeboidRunner
from tests.support.sites.acid_cell import SIZE, VISITED, AcidCell, place
from tests.support.sites.http1 import LoggedRequest
from tests.support.stored_records import index, records

_COPY = re.compile(r"https?://[^\"\s]+/c/\d{14}/[^\"\s<]+")
_READERS = 4
_DIM = [255 * (level < 60) for level in range(256)]
_GREEN = (_DIM, [255 * (100 < level < 156) for level in range(256)], _DIM)  # by band: 255 where a level is green's


@dataclass(slots=True)
class CellResult:
    """Result of a cell.

    Attributes:
        page: its manifest; None when there is none.
        missing: URLs that must be in the archive and are not.
        kept: URLs that must not be and are.
        seen: the share of green of each mark, in the screenshot taken when it was archived.
        text: what a reader saw as text then.
        played: the same shares in the copy as a browser plays it back.
        played_text: its text.
        strays: URLs outside of playback that the copy asked for.
    """

    cell: AcidCell
    page: PageInfo | None = None
    missing: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    text: str = ""
    played: list[float] = field(default_factory=list)
    played_text: str = ""
    strays: list[str] = field(default_factory=list)


def archive(weboid: WeboidRunner, cells: Sequence[AcidCell]) -> tuple[CommandResult, list[CellResult]]:
    """Run `weboid archive` on every cell; return the command's result and what the collection has of each cell."""
    (weboid.folder / "urls.txt").write_text("\n".join(each.url for each in cells))
    ran = weboid.archive("--list", "urls.txt")
    warc_records = records(weboid.collection)
    payloads = {target: data for kind, target, _, data in warc_records if kind == "resource"}
    originals = {(t, h["WARC-Date"]) for kind, t, h, _ in warc_records if kind == "response"}
    written = {target for kind, target, *_ in warc_records if kind == "response"}
    written |= {
        target
        for kind, target, headers, _ in warc_records
        if kind == "revisit" and (headers["WARC-Refers-To-Target-URI"], headers["WARC-Refers-To-Date"]) in originals
    }
    rows = index(weboid.collection, "SELECT url FROM captures WHERE record_type != 'resource'")
    whole = written & {row[0] for row in rows}
    results = []
    for cell in cells:
        result = CellResult(cell)
        if (manifest := payloads.get(f"urn:pageinfo:{cell.url}")) is not None:
            result.page = parse_pageinfo(manifest)
        result.missing = [url for url in (cell.url, *cell.must) if url not in whole]
        result.kept = [url for url in cell.never if url in written]
        if (view := payloads.get(f"urn:view:{cell.url}")) is not None:
            result.seen = shares(view, cell.marks)
        result.text = payloads.get(f"urn:text:{cell.url}", b"").decode()
        results.append(result)
    return ran, results


def shares(picture: bytes, count: int) -> list[float]:
    """Return the green share of each mark, 0 to 1, without its edge, which frames and lossy pictures blur."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    green_shares = []
    for number in range(count):
        left, top = place(number)
        inner = image.crop((left + 4, top + 4, left + SIZE - 4, top + SIZE - 4))
        masks = [band.point(table) for band, table in zip(inner.split(), _GREEN, strict=True)]
        green = ImageChops.darker(ImageChops.darker(masks[0], masks[1]), masks[2]).histogram()[255]
        green_shares.append(round(green / (inner.width * inner.height), 3))
    return green_shares


@contextmanager
def served(weboid: WeboidRunner) -> Iterator[str]:
    """Run `weboid serve` as a user starts it; yield its address."""
    process = weboid.start("serve", "--listen", "127.0.0.1:0")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    try:
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


async def play(address: str, results: Sequence[CellResult]) -> None:
    """Open every copy in a browser that can reach this machine only, and note what it shows."""
    clock = SystemClock()
    settings = VisitSettings(full_page=False, thumbnail=False, dom=False, favicon=False, settle_s=0.2)
    todo = iter([each for each in results if each.page is not None])
    async with (
        await Browser.launch(BrowserSettings(), find_browser(), clock=clock) as browser,
        httpx.AsyncClient(
            follow_redirects=True,
            timeout=120,
            limits=httpx.Limits(max_keepalive_connections=0),  # an idle one may be closed meanwhile
        ) as client,
    ):

        async def read() -> None:
            for result in todo:
                assert result.page is not None
                stamp = timestamp14(parse_warc_date(result.page.captured_at))
                front = await client.get(f"{address}/page/{stamp}/{result.cell.url}")
                link = _COPY.search(front.text)
                if link is None:
                    continue
                copy = await visit(
                    browser,
                    VisitRequest(link[0].replace("&amp;", "&")),
                    settings,
                    behaviours=NO_BEHAVIOURS,
                    clock=clock,
                )
                artifacts = {each.kind: each.data for each in copy.artifacts}
                if ArtifactKind.VIEW in artifacts:
                    result.played = shares(artifacts[ArtifactKind.VIEW], result.cell.marks)
                result.played_text = artifacts.get(ArtifactKind.TEXT, b"").decode()
                origin = urlsplit(link[0]).netloc
                urls = [each.url for each in copy.requests]
                result.strays = [url for url in urls if urlsplit(url).netloc != origin and url[:5] != "data:"]

        await asyncio.gather(*(read() for _ in range(_READERS)))


def table(results: Sequence[CellResult]) -> str:
    """Return the results as a table in Markdown."""
    lines = ["| Cell | In the WARC | Seen | Played back |", "|---|---|---|---|"]
    for each in results:
        urls = 1 + len(each.cell.must)
        lines.append(
            f"| {each.cell.name} | {urls - len(each.missing)} of {urls} "
            f"| {_green(each.seen)} of {each.cell.marks} | {_green(each.played)} of {each.cell.marks}"
            f"{'; ' + each.cell.short if each.cell.short else ''} |"
        )
    return "\n".join(lines)


def shared_share(requests: Iterable[LoggedRequest], cells: Sequence[AcidCell]) -> float:
    """Return the share of the cells' pages that were requested in a browser context of an earlier page."""
    paths = {urlsplit(each.url).path for each in cells}
    sent: dict[str, bool] = {}
    for each in requests:
        if each.target in paths:
            sent.setdefault(each.target, VISITED in each.head)
    return sum(sent.values()) / len(paths)


def _green(green_shares: Sequence[float]) -> int:
    return sum(share > 0.9 for share in green_shares)
