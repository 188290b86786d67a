"""Interoperability: other programs, as their registry has them, read our archives, and theirs are imported."""

import json
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from tests.journeys.conftest import PROGRAMS, ReaderBrowser, UserShell, profile_of
from tests.journeys.sites import SHEET, SiteServer, article, paper, picture
from tests.journeys.test_archivist import LOOK, StockPywb, colours
from tests.support import loopback
from tests.support.loopback import LoopbackServer

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback]

CACHE = PROGRAMS.parents[1] / ".cache"  # scripts/setup test
REFERENCE = CACHE / "reference" / "bin"
WORDS = "Words of the article."
# The player's service worker loads the file, a frame shows the page, and the document is loaded when the frame is.
PLAYER = """<!doctype html><style>body { margin: 0 } iframe { width: 100%%; height: 590px; border: 0 }</style>
<iframe></iframe><img src="hold" alt=""><script type="module">
const [frame, worker] = [document.querySelector("iframe"), navigator.serviceWorker];
frame.onload = () => { if (frame.src) fetch("release"); };
worker.onmessage = ({ data }) => { if (data.msg_type === "collAdded") frame.src = "/w/all/mp_/%(url)s"; };
worker.oncontrollerchange = () => worker.controller.postMessage({ msg_type: "addColl", name: "all",
  file: { sourceUrl: location.origin + "/%(file)s" } });
await worker.register("/sw.js", { scope: "/" });
</script>"""


@dataclass(frozen=True)
class ExportedCollection:
    """A collection, and its exports beside it."""

    folder: Path
    article: str
    moment: str  # of its capture, 14 digits
    warcs: tuple[Path, ...]


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExportedCollection]:
    """Archive two pages, a redirect, a document and a missing page; stop their site and yield the exports."""
    site, shell = SiteServer("library.oldtown.org"), UserShell(tmp_path_factory.mktemp("ours"))
    first = site.put("/article?b=2&a=%C3%BC", article("Article", WORDS))
    urls = [
        first,
        site.put("/second", article("Second", "Other words.")),
        site.put("/report.pdf", paper("red"), content_type="application/pdf"),
        site.put("/moved", "", status=302, headers={"Location": "/second"}),
        site.put("/gone", "<!DOCTYPE html><p>Gone", status=410),
    ]
    (shell.folder / "urls.txt").write_text("\n".join(urls) + "\n")
    profile_of(shell.folder / "profile.toml", site)
    try:
        ran = shell.run("weboid archive --list urls.txt --profile profile.toml --json")
        assert set(ran.pages.values()) == {"complete"}, ran.err
        site.stop()
        for name in ("all.wacz", "all.warc.gz", "all.cdxj", "part.wacz http://library.oldtown.org/article*"):
            exported = shell.run(f"weboid export {name}")
            assert exported.code == 0, exported.err
        warcs = sorted((shell.folder / "collection" / "archive").glob("*.warc.gz"))
        (url,) = [each for each in ran.pages if "article" in each]
        moment = (shell.folder / "all.cdxj").read_text().split(" ", 2)[1]
        yield ExportedCollection(shell.folder, url, moment, tuple(warcs))
    finally:
        site.stop()
        shell.end()


def test_warcio_finds_no_fault(archived: ExportedCollection) -> None:
    """In the collection's WARCs, and in the exported one."""
    paths = [*archived.warcs, archived.folder / "all.warc.gz"]
    done = subprocess.run([PROGRAMS / "warcio", "check", *paths], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", ["all.wacz", "part.wacz"])
def test_py_wacz_validates_exports(archived: ExportedCollection, name: str) -> None:
    """Of the collection, and of a part of it."""
    command = [str(REFERENCE / "wacz"), "validate", "-f", str(archived.folder / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "Validation succeeded" in done.stdout, done.stdout + done.stderr


def test_cdxj_indexer_has_the_same_index(archived: ExportedCollection) -> None:
    """Keys, times, fields and places of every record."""
    command = [REFERENCE / "cdxj-indexer", *archived.warcs]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ours = (archived.folder / "all.cdxj").read_text().splitlines()

    def parsed(lines: list[str]) -> list[tuple[str, str, list[tuple[str, str]]]]:
        split = (line.split(" ", 2) for line in lines)
        return sorted((key, moment, sorted(json.loads(fields).items())) for key, moment, fields in split)

    assert len(ours) > 20
    assert parsed(ours) == parsed(theirs)


@pytest.mark.parametrize("name", ["", "all.wacz"])
def test_stock_pywb_replays_the_page(
    archived: ExportedCollection, name: str, tmp_path: Path, reader: ReaderBrowser
) -> None:
    """From the collection's WARCs and from a WACZ, in a browser: text, style sheet and picture."""
    files = [archived.folder / name] if name else [*archived.warcs]
    pywb = StockPywb(tmp_path / "pywb", files)
    try:
        address = f"{pywb.origin}/ours/{archived.moment}mp_/{archived.article}"
        assert WORDS in loopback.get(address).text
        with Image.open(reader.screenshot(address)) as shot:
            assert colours(shot) >= LOOK
    finally:
        pywb.end()


class RangeHandler(SimpleHTTPRequestHandler):
    """Files of a folder by byte ranges; ``hold`` is answered after ``release`` was requested."""

    released: threading.Event

    def log_message(self, *_: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        """Answer with the file, or its part."""
        if self.path == "/hold":
            self.released.wait(120)
        elif self.path == "/release":
            self.released.set()
        path, span = Path(self.translate_path(self.path)), self.headers.get("Range", "").removeprefix("bytes=")
        if not span or not path.is_file():
            super().do_GET()
            return
        data = path.read_bytes()
        start, _, end = span.partition("-")
        piece = data[int(start) : int(end or len(data)) + 1] if start else data[-int(end) :]
        begun = len(data) - len(piece) if not start else int(start)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begun}-{begun + len(piece) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(piece)))
        self.end_headers()
        self.wfile.write(piece)


@pytest.mark.parametrize("name", ["all.wacz", "all.warc.gz"])
def test_replay_web_page_replays_the_page(
    archived: ExportedCollection, name: str, tmp_path: Path, reader: ReaderBrowser
) -> None:
    """By its service worker, in a browser: style sheet and picture."""
    (tmp_path / "sw.js").symlink_to(CACHE / "replayweb" / "sw.js")
    (tmp_path / name).symlink_to(archived.folder / name)
    (tmp_path / "player.html").write_text(PLAYER % {"file": name, "url": archived.article})

    class Handler(RangeHandler):
        released = threading.Event()

    with (
        LoopbackServer(partial(Handler, directory=str(tmp_path))) as server,
        Image.open(reader.screenshot(f"{server.origin}/player.html")) as shot,
    ):
        assert colours(shot) >= LOOK


SITE = "http://foreign.example"


def foreign_warc(path: Path, extra: dict[str, tuple[bytes, str]]) -> None:
    """Write a page with its requests by warcio, compressed by the record; `extra` has ``resource`` records."""
    page = article("Foreign article", WORDS).encode()
    bodies = {"/": (page, "text/html; charset=utf-8"), "/style.css": (SHEET.encode(), "text/css")}
    bodies["/picture.png"] = (picture(), "image/png")
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        dated = {"WARC-Date": "2024-05-06T07:08:09Z"}
        for name, (body, mime) in bodies.items():
            head = StatusAndHeaders("200 OK", [("Content-Type", mime)], protocol="HTTP/1.1")
            response = writer.create_warc_record(
                f"{SITE}{name}", "response", payload=BytesIO(body), http_headers=head, warc_headers_dict=dict(dated)
            )
            fields = [("Host", "foreign.example"), *([("Referer", f"{SITE}/")] if name != "/" else [])]
            request_head = StatusAndHeaders(f"GET {name} HTTP/1.1", fields, is_http_request=True)
            request = writer.create_warc_record(
                f"{SITE}{name}", "request", http_headers=request_head, warc_headers_dict=dict(dated)
            )
            for record in (response, request):
                writer.write_record(record)
                record.raw_stream.close()  # a temporary file
        for url, (body, mime) in extra.items():
            record = writer.create_warc_record(
                url, "resource", payload=BytesIO(body), warc_content_type=mime, warc_headers_dict=dict(dated)
            )
            writer.write_record(record)
            record.raw_stream.close()


def by_py_wacz(folder: Path) -> Path:
    """Return a WACZ of py-wacz, which looks for the pages and their text by itself."""
    foreign_warc(folder / "crawl.warc.gz", {})
    words = f"create -f {folder / 'crawl.warc.gz'} -o {folder / 'made.wacz'} --detect-pages --text"
    subprocess.run([str(REFERENCE / "wacz"), *words.split()], check=True, capture_output=True)
    return folder / "made.wacz"


def by_browsertrix(folder: Path) -> Path:
    """Return a collection as browsertrix-crawler leaves it: screenshots, text and lists of resources in WARCs."""
    info = {"pageid": "p1", "url": f"{SITE}/", "ts": "2024-05-06T07:08:09Z", "urls": {}, "counts": {"jsErrors": 0}}
    archive = folder / "collections" / "news" / "archive"
    archive.mkdir(parents=True)
    foreign_warc(
        archive / "rec-0.warc.gz",
        {
            f"urn:view:{SITE}/": (picture(), "image/png"),
            f"urn:textFinal:{SITE}/": (WORDS.encode(), "text/plain"),
            f"urn:pageinfo:{SITE}/": (json.dumps(info).encode(), "application/json"),
        },
    )
    listing = [{"format": "json-pages-1.0"}, {"id": "p1", "url": f"{SITE}/", "title": "Foreign article", "seed": True}]
    (archive.parent / "pages").mkdir()
    (archive.parent / "pages" / "pages.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in listing))
    return archive.parent


@pytest.mark.parametrize("make", [by_py_wacz, by_browsertrix])
def test_ours_replays_what_others_made(make: object, shell: UserShell, reader: ReaderBrowser) -> None:
    """Imported by one command: listed with title and text, and shown with style sheet and picture."""
    assert callable(make)
    imported = shell.run(f"weboid import {make(shell.folder)} --json")
    assert imported.code == 0, imported.err
    (result,) = imported.lines
    assert (result["pages"], result["problems"]) == (1, [])
    served = shell.serve()

    memento = served.copy(f"{SITE}/")
    assert "/c/20240506070809/" in memento
    assert WORDS in reader.document(memento)
    with Image.open(reader.screenshot(memento)) as shot:
        assert colours(shot) >= LOOK
    text = shell.run(f"weboid export page.txt {SITE}/")
    assert WORDS in (shell.folder / "page.txt").read_text(), text.err


def test_a_wacz_of_several_is_imported(shell: UserShell) -> None:
    """A WACZ that holds others, as browsertrix packs several crawls (profile multi-wacz-package)."""
    made = by_py_wacz(shell.folder)
    with zipfile.ZipFile(shell.folder / "multi.wacz", "w") as package:
        package.write(made, "made.wacz")
        resources = [{"name": "made.wacz", "path": "made.wacz"}]
        package.writestr("datapackage.json", json.dumps({"profile": "multi-wacz-package", "resources": resources}))
    imported = shell.run("weboid import multi.wacz --json")
    assert imported.code == 0, imported.err
    (result,) = imported.lines
    assert (result["pages"], result["problems"]) == (1, [])
