"""The main job on sites that nobody here wrote: archived end to end, and read back.

MediaWiki, single-page applications and Debian's manuals, over http and https.
"""

import asyncio
import hashlib
import io
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from PIL import Image, ImageChops, ImageFilter, ImageStat

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from core.page_manifest import PageInfo, VisitOutcome, parse_pageinfo
from core.timestamps import parse_warc_date, timestamp14
from core.urls import host_of
from render.behaviours.catalog import NO_BEHAVIOURS
from render.browser import Browser
from render.chromium import find_browser
from render.visit import Visit, VisitRequest, visit
from tests.support.commands import Ran, Weboid, profile_for
from tests.support.sites.web import TestWeb
from tests.support.stored_records import check, index, records

ROOT = Path(__file__).resolve().parents[2]
REPLAY_BIN = ROOT / ".venv-replay" / "bin"
pytestmark = [pytest.mark.real, pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.timeout(900)]
# Of the grey picture's range. A played-back page that lost its styles or pictures is beyond it.
DIFFERENCE_LIMIT = 0.12
DIFFERENCE_MEDIAN = 0.03
PAGES = 16


class Archived:
    """The real pages, archived once for every test here."""

    def __init__(self, weboid: Weboid, ran: Ran, urls: tuple[str, ...]) -> None:
        self.weboid = weboid
        self.ran = ran
        self.urls = urls
        self.collection = weboid.collection
        self.records = records(weboid.collection)
        self.manifests = {
            page.url: page
            for _, target, _, payload in self.records
            if target.startswith("urn:pageinfo:")
            for page in [parse_pageinfo(payload)]
        }

    def timestamp(self, url: str) -> str:
        """The page's moment in 14 digits."""
        return timestamp14(parse_warc_date(self.manifests[url].captured_at))

    def picture(self, url: str) -> Image.Image:
        """The viewport screenshot taken when the page was captured."""
        data = next(p for _, target, _, p in self.records if target == f"urn:view:{url}")
        return Image.open(io.BytesIO(data)).convert("RGB")


@pytest.fixture(scope="module")
def archived(real_web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> Archived:
    """`weboid archive --list` on 16 real pages and the PDFs, spread over all sites."""
    folder = tmp_path_factory.mktemp("real")
    patient = {"timeout_s": 240.0}  # a busy machine
    profile = profile_for(real_web, folder / "profile.toml", visit=patient)
    weboid = Weboid(folder, profile, limit_s=800)
    pages = [url for url in real_web.urls.real_pages if not url.endswith(".pdf")]
    manuals = [url for url in real_web.urls.real_pages if url.endswith(".pdf")]
    urls = (*(pages[at * len(pages) // PAGES] for at in range(PAGES)), *manuals)
    (folder / "urls.txt").write_text("\n".join(urls))
    return Archived(weboid, weboid.archive("--list", "urls.txt"), urls)


def test_every_page_is_complete(archived: Archived) -> None:
    """None is partial, none given up."""
    assert len(archived.urls) > PAGES
    assert archived.ran.code == 0, archived.ran.err
    assert archived.ran.summary["outcomes"] == {"complete": len(archived.urls)}
    assert set(archived.manifests) == set(archived.urls)


def test_warcio_checks_and_indexes_every_record(archived: Archived) -> None:
    """`warcio check` finds no fault; `warcio index` reads each file to its end."""
    check(archived.collection)
    paths = [str(path) for path in sorted((archived.collection / "archive").glob("*.warc.gz*"))]
    warcio = Path(sys.executable).with_name("warcio")
    listed = subprocess.run(
        [str(warcio), "index", "-f", "warc-type,warc-target-uri", *paths], capture_output=True, text=True, check=True
    )

    assert len(listed.stdout.splitlines()) == len(archived.records)


def test_everything_that_the_browser_loaded_is_in_the_archive(archived: Archived) -> None:
    """Each request with a response has its record, in the WARC and in the index."""
    written = {target for kind, target, *_ in archived.records if kind in ("response", "revisit")}
    query = "SELECT url FROM captures WHERE record_type != 'resource'"
    indexed = {row[0] for row in index(archived.collection, query)}
    loaded = [each for page in archived.manifests.values() for each in page.resources if each.status is not None]

    assert len(loaded) > 5 * len(archived.urls)
    assert {each.kept for each in loaded} == {"response", "revisit", "cached"}
    assert {each.url for each in loaded} <= written
    # What a page took from the browser's cache names the record of the visit that loaded it.
    dated = {(target, headers["WARC-Date"]) for _, target, headers, _ in archived.records}
    assert {(each.url, each.recorded_at) for each in loaded if each.kept == "cached"} <= dated
    assert {each.url for each in loaded} <= indexed


def test_each_payload_is_one_response(archived: Archived) -> None:
    """The rest are revisits, and there are some: pages share styles and scripts.

    What is empty, or was cut, claims nothing (docs/explanation/proxy.md, Dedup): under load a page may leave
    requests open whose bodies have not begun, and each of them is an empty response.
    """
    digests = Counter(
        h["WARC-Payload-Digest"]
        for k, _, h, payload in archived.records
        if k == "response" and payload and "WARC-Truncated" not in h
    )
    revisits = [h for kind, _, h, _ in archived.records if kind == "revisit"]
    originals = {(h["WARC-Target-URI"], h["WARC-Date"]) for k, _, h, _ in archived.records if k == "response"}

    assert [digest for digest, count in digests.items() if count > 1] == []
    assert len(revisits) > len(archived.urls)
    assert {(h["WARC-Refers-To-Target-URI"], h["WARC-Refers-To-Date"]) for h in revisits} <= originals


def test_each_page_has_its_artifacts_beside_it(archived: Archived) -> None:
    """Screenshots, DOM, text and manifest, named `urn:…`, with the page's date and id."""
    kinds: dict[str, set[str]] = {}
    for kind, target, headers, _ in archived.records:
        if kind == "resource":
            _, name, url = target.split(":", 2)
            kinds.setdefault(url, set()).add(name)
            assert headers["WARC-Page-ID"] == archived.manifests[url].page_id
            assert headers["WARC-Date"] == archived.manifests[url].captured_at

    for url, page in archived.manifests.items():
        wanted = set(ArtifactKind) - {ArtifactKind.PDF} if page.mime == "text/html" else {ArtifactKind.PAGEINFO}
        assert kinds[url] == {str(kind) for kind in wanted}, url


@pytest.fixture(scope="module")
def stock_pywb(archived: Archived, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Stock pywb on our WARCs, as its own commands set it up; its address."""
    folder = tmp_path_factory.mktemp("pywb")
    paths = [str(path) for path in sorted((archived.collection / "archive").glob("*.warc.gz*"))]
    manager = str(REPLAY_BIN / "wb-manager")
    for command in (["init", "weboid"], ["add", "weboid", *paths]):
        subprocess.run([manager, *command], cwd=folder, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [str(REPLAY_BIN / "wayback"), "-b", "127.0.0.1", "-p", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        transport = httpx.HTTPTransport(retries=8)
        with httpx.Client(transport=transport) as client:
            client.get(f"http://127.0.0.1:{port}/", timeout=30)
        yield f"http://127.0.0.1:{port}/weboid"
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder)


def test_stock_pywb_plays_every_page_and_resource(archived: Archived, stock_pywb: str) -> None:
    """`wb-manager add` reads our files; each URL answers with its status, revisits included."""
    wanted: dict[str, int] = {}
    for page in archived.manifests.values():
        for each in page.resources:
            if each.method == "GET" and each.status == 200:
                wanted[each.url] = each.status
    wrong = []
    with httpx.Client(timeout=30) as client:
        for url, status in wanted.items():
            answer = client.get(f"{stock_pywb}/id_/{url}", follow_redirects=True)
            if answer.status_code != status:
                wrong.append((url, answer.status_code))

    assert len(wanted) > len(archived.urls)
    assert wrong == []


@pytest.fixture(scope="module")
def served(archived: Archived) -> Iterator[str]:
    """`weboid serve` as a user starts it; the one address that it prints."""
    process = archived.weboid.start("serve", "--listen", "127.0.0.1:0")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    try:
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert out == ""


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    """A real browser that can reach this machine only."""
    async with await Browser.launch(BrowserSettings(), find_browser(), clock=SystemClock()) as running:
        yield running


async def look(browser: Browser, address: str) -> Visit:
    """Open an address of ours as a reader would."""
    settings = VisitSettings(
        full_page=False,
        thumbnail=False,
        dom=False,
        text=False,
        favicon=False,
        timeout_s=240,  # a busy machine
        settle_limit_s=120,
    )
    return await visit(browser, VisitRequest(address), settings, behaviours=NO_BEHAVIOURS, clock=SystemClock())


def difference(one: Image.Image, other: Image.Image) -> float:
    """How far two screenshots are apart, 0 to 1: grey, blurred, small, so that a pixel's shift is nothing."""

    def small(picture: Image.Image) -> Image.Image:
        grey = picture.convert("L").filter(ImageFilter.GaussianBlur(6))
        return grey.resize((128, 80))

    return float(ImageStat.Stat(ImageChops.difference(small(one), small(other))).mean[0]) / 255


async def test_pages_open_in_serve_and_look_as_they_were_captured(
    archived: Archived, served: str, browser: Browser
) -> None:
    """The reader's page frames the copy; the copy's picture is near the capture's.

    Every third page of each site is opened.
    """
    scores: dict[str, float] = {}
    pages = sorted((url for url in archived.urls if archived.manifests[url].mime == "text/html"), key=host_of)
    todo = iter([url for _, of_site in groupby(pages, host_of) for url in [*of_site][::3]])

    async def read() -> None:
        for url in todo:
            page = await look(browser, f"{served}/page/{archived.timestamp(url)}/{url}")
            assert (page.outcome, page.status) == (VisitOutcome.COMPLETE, 200), (url, page.reason)
            copies = [each for each in page.requests if "/c/" in urlsplit(each.url).path]
            framed = [each for each in copies if each.mime == "text/html"]
            assert [each.status for each in framed] == [200], (url, copies)
            copy = await look(browser, framed[0].url)
            assert (copy.outcome, copy.status) == (VisitOutcome.COMPLETE, 200), (url, copy.reason)
            shot = next(each for each in copy.artifacts if each.kind is ArtifactKind.VIEW)
            scores[url] = difference(archived.picture(url), Image.open(io.BytesIO(shot.data)))

    await asyncio.gather(*(read() for _ in range(3)))
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    report = archived.collection / "reports" / "playback.json"
    report.write_text(json.dumps(ranked, indent=1))

    assert ranked[0][1] < DIFFERENCE_LIMIT, ranked[:8]
    assert ranked[len(ranked) // 2][1] < DIFFERENCE_MEDIAN, ranked[:8]


async def test_the_front_lists_every_page(archived: Archived, served: str) -> None:
    """What was archived is found by whoever looks for it."""
    found = ""
    async with httpx.AsyncClient(verify=False) as client:
        listing = await client.get(served)
        address: str | None = "/api/pages"
        while address:
            answer = await client.get(served + address)
            found += answer.text
            address = answer.json()["older"]

    assert listing.status_code == 200
    missing = [url for url in archived.urls if json.dumps(url)[1:-1] not in found]
    assert missing == []


async def test_a_pdf_is_given_to_the_reader_as_it_was_kept(archived: Archived, served: str) -> None:
    """The manuals hold PDFs; their bytes come back, as a file, from replay's origin."""
    pdfs = [page for page in archived.manifests.values() if page.mime == "application/pdf"]
    assert pdfs
    async with httpx.AsyncClient(verify=False) as client:
        for pdf in pdfs:
            stamp = archived.timestamp(pdf.url)
            page = await client.get(f"{served}/page/{stamp}/{pdf.url}")
            link = re.search(r'https?://[^"\s]+/c/\d{14}dl_/[^"\s]+', page.text)
            assert link is not None, pdf.url
            answer = await client.get(link.group(0))
            (digest,) = {each.digest for each in pdf.resources if each.url == pdf.final_url}
            assert answer.headers["content-disposition"].startswith("attachment")
            assert f"sha256:{hashlib.sha256(answer.content).hexdigest()}" == digest


def test_the_manifest_tells_where_the_time_went(archived: Archived) -> None:
    """Each step of a visit has its seconds, and they add up to no more than the visit."""
    page: PageInfo
    for page in archived.manifests.values():
        assert page.timings
        assert sum(page.timings.values()) <= page.seconds + 0.5, page.url
        assert re.fullmatch(r"[0-9a-f-]{36}", page.page_id)
