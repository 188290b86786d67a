"""The main job on sites that nobody here wrote: archived end to end, read back, checked and repaired.

MediaWiki, a single-page application and Debian's manuals, over http and https, archived once for every test.
"""

import asyncio
import hashlib
import io
import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from PIL import Image, ImageChops, ImageFilter, ImageStat

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.config.settings import BrowserSettings, VisitSettings
from core.layout import Layout
from core.page_manifest import PageInfo, VisitOutcome, parse_pageinfo
from core.playback_check import QaVerdict
from core.timestamps import parse_warc_date, timestamp14
from core.urls import host_of
from qa.check_store import find_checks
from qa.check_table import CheckedPage, RepairState
from render.behaviours.catalog import NO_BEHAVIOURS
from render.browser import Browser
from render.chromium import find_browser
from render.visit import Visit, VisitRequest, visit
from tests.support.commands import CommandResult, WeboidRunner, profile_for
from tests.support.planted_faults import PlantedFault, RecordFacts, held, plant
from tests.support.services.ports import free_port
from tests.support.services.registries import open_registry
from tests.support.sites.web import TestWeb
from tests.support.stored_records import check, index, records

ROOT = Path(__file__).resolve().parents[2]
REPLAY_BIN = ROOT / ".venv-replay" / "bin"
pytestmark = [pytest.mark.real, pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.timeout(1200)]
# Of the grey picture's range. A played-back page that lost its styles or pictures is beyond it.
DIFFERENCE_LIMIT = 0.12
DIFFERENCE_MEDIAN = 0.03
DOCS, WIKI = "https://docs.test-web.example", "http://wiki.test-web.example"
APPS = "https://spa.test-web.example"
# Each fault's page, and two that no fault touches.
SHEET_GONE = f"{DOCS}/policy/ch-customized-programs.html"
DOM_EMPTY = f"{DOCS}/handbook/sect.ipv6.html"
ALL_GONE = f"{WIKI}/wiki/Network_Diagnosis_Tools"
FILE_SWAPPED = f"{DOCS}/pdf/developers-reference.pdf"
UNTOUCHED = (f"{WIKI}/wiki/Special:ListFiles", f"{DOCS}/pdf/policy.pdf")
_DAMAGED = (SHEET_GONE, DOM_EMPTY, ALL_GONE, FILE_SWAPPED)
# Of every other kind of page one; one has a picture that no other page has, in which a fault is planted.
_OTHERS = (
    f"{DOCS}/handbook/sect.master-plan.html",
    f"{WIKI}/index.php?title=Main_Page&action=history",
    f"{APPS}/swagger/index.html?url=/specifications/jupyter-server.yaml&docExpansion=list",
    f"{DOCS}/reference/ch12.en.html",
)
_LARGE_PICTURE_BYTES = 8_000


class ArchivedSites:
    """The real pages, archived once for every test here."""

    def __init__(self, weboid: WeboidRunner, ran: CommandResult, urls: tuple[str, ...]) -> None:
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
        """Return the capture time of the page in 14 digits."""
        return timestamp14(parse_warc_date(self.manifests[url].captured_at))

    def picture(self, url: str) -> Image.Image:
        """Return the viewport screenshot taken when the page was captured."""
        data = next(p for _, target, _, p in self.records if target == f"urn:view:{url}")
        return Image.open(io.BytesIO(data)).convert("RGB")


@pytest.fixture(scope="module")
def archived(real_web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> ArchivedSites:
    """Archive pages of every kind with `--list` and the default profile, with which repairs are made, too."""
    folder = tmp_path_factory.mktemp("real")
    patient = {"timeout_s": 240.0, "settle_s": 1.0}  # a busy machine
    in_turn = {"visits_per_host": 1}  # in one context, whose cache pages share
    profile = profile_for(
        *(real_web, folder / "profile.toml"), visit=patient, politeness=in_turn, quality={"repair_profile": "default"}
    )
    weboid = WeboidRunner(folder, profile, limit_s=800)
    urls = (*_DAMAGED, *UNTOUCHED, *_OTHERS)
    (folder / "urls.txt").write_text("\n".join(urls))
    return ArchivedSites(weboid, weboid.archive("--list", "urls.txt"), urls)


def test_every_page_is_complete(archived: ArchivedSites) -> None:
    """None is partial, none given up."""
    assert archived.ran.code == 0, archived.ran.err
    assert archived.ran.summary["outcomes"] == {"complete": len(archived.urls)}
    assert set(archived.manifests) == set(archived.urls)


def test_warcio_checks_and_indexes_every_record(archived: ArchivedSites) -> None:
    """`warcio check` finds no fault; `warcio index` reads each file to its end."""
    check(archived.collection)
    paths = [str(path) for path in sorted((archived.collection / "archive").glob("*.warc.gz*"))]
    warcio = Path(sys.executable).with_name("warcio")
    listed = subprocess.run(
        [str(warcio), "index", "-f", "warc-type,warc-target-uri", *paths], capture_output=True, text=True, check=True
    )

    assert len(listed.stdout.splitlines()) == len(archived.records)


def test_everything_that_the_browser_loaded_is_in_the_archive(archived: ArchivedSites) -> None:
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


def test_each_payload_is_one_response(archived: ArchivedSites) -> None:
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


def test_each_page_has_its_artifacts_beside_it(archived: ArchivedSites) -> None:
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
def stock_pywb(archived: ArchivedSites, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve our WARCs with stock pywb, set up by its own commands, and yield its address."""
    folder = tmp_path_factory.mktemp("pywb")
    paths = [str(path) for path in sorted((archived.collection / "archive").glob("*.warc.gz*"))]
    manager = str(REPLAY_BIN / "wb-manager")
    for command in (["init", "weboid"], ["add", "weboid", *paths]):
        subprocess.run([manager, *command], cwd=folder, check=True, capture_output=True)
    port = free_port()
    process = subprocess.Popen(
        [str(REPLAY_BIN / "wayback"), "-b", "127.0.0.1", "-p", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        transport = httpx.HTTPTransport(retries=8)
        with httpx.Client(transport=transport) as client:
            client.get(f"http://127.0.0.1:{port}/", timeout=120)
        yield f"http://127.0.0.1:{port}/weboid"
    finally:
        process.terminate()
        process.wait(120)
        shutil.rmtree(folder)


def test_stock_pywb_plays_every_page_and_resource(archived: ArchivedSites, stock_pywb: str) -> None:
    """`wb-manager add` reads our files; each URL answers with its status, revisits included."""
    wanted: dict[str, int] = {}
    for page in archived.manifests.values():
        for each in page.resources:
            if each.method == "GET" and each.status == 200:
                wanted[each.url] = each.status
    wrong = []
    with httpx.Client(timeout=120) as client:
        for url, status in wanted.items():
            answer = client.get(f"{stock_pywb}/id_/{url}", follow_redirects=True)
            if answer.status_code != status:
                wrong.append((url, answer.status_code))

    assert len(wanted) > len(archived.urls)
    assert wrong == []


@pytest.fixture(scope="module")
def served(archived: ArchivedSites) -> Iterator[str]:
    """Start `weboid serve` as a user does and yield the one address that it prints."""
    process = archived.weboid.start("serve", "--listen", "127.0.0.1:0")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    try:
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert out == ""


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    """Launch a real browser that can reach this machine only."""
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
    """Return the difference of two screenshots, 0 to 1: grey, blurred, small, so that a pixel's shift is nothing."""

    def small(picture: Image.Image) -> Image.Image:
        grey = picture.convert("L").filter(ImageFilter.GaussianBlur(6))
        return grey.resize((128, 80))

    return float(ImageStat.Stat(ImageChops.difference(small(one), small(other))).mean[0]) / 255


async def test_pages_open_in_serve_and_look_as_they_were_captured(
    archived: ArchivedSites, served: str, browser: Browser
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


async def test_the_front_lists_every_page(archived: ArchivedSites, served: str) -> None:
    text = ""
    async with httpx.AsyncClient(verify=False, timeout=120) as client:
        listing = await client.get(served)
        address: str | None = "/api/pages"
        while address:
            answer = await client.get(served + address)
            text += answer.text
            address = answer.json()["older"]

    assert listing.status_code == 200
    missing = [url for url in archived.urls if json.dumps(url)[1:-1] not in text]
    assert missing == []


async def test_a_pdf_is_given_to_the_reader_as_it_was_kept(archived: ArchivedSites, served: str) -> None:
    """The manuals hold PDFs; their bytes come back, as a file, from replay's origin."""
    pdfs = [page for page in archived.manifests.values() if page.mime == "application/pdf"]
    assert pdfs
    async with httpx.AsyncClient(verify=False, timeout=120) as client:
        for pdf in pdfs:
            stamp = archived.timestamp(pdf.url)
            page = await client.get(f"{served}/page/{stamp}/{pdf.url}")
            link = re.search(r'https?://[^"\s]+/c/\d{14}dl_/[^"\s]+', page.text)
            assert link is not None, pdf.url
            answer = await client.get(link.group(0))
            (digest,) = {each.digest for each in pdf.resources if each.url == pdf.final_url}
            assert answer.headers["content-disposition"].startswith("attachment")
            assert f"sha256:{hashlib.sha256(answer.content).hexdigest()}" == digest


def test_the_manifest_tells_where_the_time_went(archived: ArchivedSites) -> None:
    """Each step of a visit has its seconds, and they add up to no more than the visit."""
    page: PageInfo
    for page in archived.manifests.values():
        assert page.timings
        assert sum(page.timings.values()) <= page.seconds + 0.5, page.url
        assert re.fullmatch(r"[0-9a-f-]{36}", page.page_id)


class DamagedCollection:
    """A copy of the archived collection, at rest, in which faults are planted."""

    def __init__(self, archived: ArchivedSites, folder: Path) -> None:
        shutil.copytree(archived.collection, folder / "collection")
        self.weboid = WeboidRunner(folder, archived.weboid.profile, limit_s=800)
        self.layout = Layout(self.weboid.collection)

    def manifests(self) -> dict[str, PageInfo]:
        """Return the newest manifest of each URL."""
        pages_by_url: dict[str, PageInfo] = {}
        for each in held(self.layout.archive):
            if each.uri.startswith("urn:pageinfo:") and b'"checked": {' not in each.payload:
                page = parse_pageinfo(each.payload)
                if page.url not in pages_by_url or page.captured_at > pages_by_url[page.url].captured_at:
                    pages_by_url[page.url] = page
        return pages_by_url

    def checked(self, page_ids: Iterable[str]) -> dict[str, CheckedPage]:
        """Return the registry's checks of these pages at the default level, by page id."""
        with closing(open_registry(self.layout, "")) as store, store.reading() as rows:
            return {
                each.check.page_id: each for each in find_checks(rows, list(page_ids)) if each.check.level == "images"
            }


def events(ran: CommandResult, name: str) -> list[dict[str, Any]]:
    """Return the command's events of that name."""
    return [each for each in ran.events if each["event"] == name]


def pictured(damaged: DamagedCollection) -> list[tuple[str, str]]:
    """Return pages without other faults, each with its largest picture that no other page has."""
    sizes = {
        each.uri: len(each.payload)
        for each in held(damaged.layout.archive)
        if each.kind == "response" and each.mime in ("image/png", "image/jpeg")
    }
    manifests = damaged.manifests()
    users = Counter(url for page in manifests.values() for url in {it.url for it in page.resources})
    picture_by_page = {}
    for url, page in sorted(manifests.items()):
        own = {it.url for it in page.resources if it.resource_type == "Image" and users[it.url] == 1}
        large = [each for each in own if sizes.get(each, 0) >= _LARGE_PICTURE_BYTES]
        if large and url in _OTHERS:
            picture_by_page[url] = max(large, key=lambda each: sizes[each])
    return list(picture_by_page.items())


def other_picture(each: RecordFacts) -> bytes:
    """Return a picture of the same size that shows something else, as PNG."""
    with Image.open(io.BytesIO(each.payload)) as image:
        size = image.size
    other = Image.effect_mandelbrot(size, (-2, -1.2, 1, 1.2), 60).convert("RGB")
    out = io.BytesIO()
    other.save(out, "PNG")
    return out.getvalue()


def faults(damaged: DamagedCollection) -> tuple[dict[str, str], list[PlantedFault]]:
    """Return the page of each fault by its name, and the faults."""
    swapped_page, swapped = pictured(damaged)[0]
    pages = {
        "sheet gone": SHEET_GONE,
        "picture swapped": swapped_page,
        "DOM emptied": DOM_EMPTY,
        "document gone": ALL_GONE,
        "file swapped": FILE_SWAPPED,
    }

    def sheet_of(page: str) -> Any:
        folder = page.rpartition("/")[0]
        return lambda each: each.kind == "response" and each.mime == "text/css" and each.uri.startswith(folder)

    def ends_with(path: str) -> Any:
        return lambda each: each.kind == "response" and each.uri.endswith(path)

    return pages, [
        PlantedFault("sheet gone", sheet_of(SHEET_GONE)),
        PlantedFault("picture swapped", ends_with(swapped), other_picture),
        PlantedFault(
            "DOM emptied",
            lambda each: each.uri == f"urn:dom:{DOM_EMPTY}",
            lambda _: b"<html><head></head><body></body></html>",
        ),
        PlantedFault("document gone", lambda each: each.uri in (ALL_GONE, f"urn:dom:{ALL_GONE}")),
        PlantedFault("file swapped", ends_with("/developers-reference.pdf"), lambda _: b"%PDF-1.4\nanother\n%%EOF\n"),
    ]


def test_planted_faults_are_found_and_repaired_by_themselves(archived: ArchivedSites, tmp_path: Path) -> None:
    """One command finds each, captures the page again, once, and offers that; what is whole is good.

    Whole are pages that nothing was planted in, and each page as it was captured again.
    """
    damaged = DamagedCollection(archived, tmp_path)
    before = damaged.manifests()
    pages, planted = faults(damaged)
    took = plant(damaged.layout, planted)
    assert set(took) == set(pages)
    rebuilt = damaged.weboid.call("collection", "rebuild")
    assert rebuilt.code == 0, rebuilt.err
    command = ("qa", "--all", "--repair", "--json", "--profile", str(damaged.weboid.profile))
    ran = damaged.weboid.run(*command)

    old = damaged.checked(page.page_id for page in before.values())
    untouched = {
        url: (check.verdict, check.score, check.reason)
        for url, page in before.items()
        for check in [old[page.page_id].check]
        if url not in pages.values() and check.verdict is not QaVerdict.GOOD
    }
    assert untouched == {}, ran.err
    missed = {
        name: old[before[url].page_id].check
        for name, url in pages.items()
        if old[before[url].page_id].check.verdict is not QaVerdict.BROKEN
    }
    assert missed == {}, ran.err
    after = damaged.manifests()
    repairs = {name: old[before[url].page_id] for name, url in pages.items()}
    assert {name: each.repair for name, each in repairs.items()} == dict.fromkeys(pages, RepairState.DONE_BETTER), (
        ran.err
    )
    new = damaged.checked(each.repair_page_id for each in repairs.values())
    assert {name: new[each.repair_page_id].check.verdict for name, each in repairs.items()} == dict.fromkeys(
        pages, QaVerdict.GOOD
    )
    assert {name: after[url].page_id for name, url in pages.items()} == {
        name: each.repair_page_id for name, each in repairs.items()
    }
    # The same command again finds nothing to do.
    again = damaged.weboid.call(*command)
    assert again.code == 0, again.err
    assert (events(again, "check"), events(again, "repaired")) == ([], [])
    assert damaged.manifests() == after
