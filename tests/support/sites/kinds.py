"""Pages of every kind that the web has: libraries, generators, maps, players, scripts of the world.

The pages in ``kind_pages/`` are written here; the libraries and manuals that they load are other people's,
from Debian and from a Python wheel that bundles applications of npm. Fidelity is measured on them.
"""

import io
import json
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw

from tests.support.sites.acid_parts import film, sound
from tests.support.sites.cache import built, copy_followed, unpack_npm, unpack_packages, unpack_wheels
from tests.support.sites.http1 import Answer, SiteRequest, response
from tests.support.sites.static import FolderSite

WHEELS = """\
nicegui==3.18.0 --hash=sha256:a2bd51642312d98aab6d8b641245d796ff1b89da5829777170bcc488140c3dcd
"""
_LIBRARIES = ("aggrid", "codemirror", "echart", "json_editor", "leaflet", "mermaid", "plotly", "scene", "xterm")
PACKAGES = (
    *("fonts-font-awesome", "fonts-katex", "fonts-mathjax", "libjs-angularjs", "libjs-bootstrap5"),
    *("libjs-chart.js", "libjs-codemirror", "libjs-d3", "libjs-dygraphs", "libjs-impress"),
    *("libjs-jquery", "libjs-jquery-ui", "libjs-jquery-ui-theme-base", "libjs-katex"),
    *("libjs-lightbox2", "libjs-material-design-lite", "libjs-mathjax", "libjs-mediaelement"),
    *("libjs-openlayers", "libjs-raphael", "libjs-select2.js", "libjs-slick", "libjs-sphinxdoc"),
    *("libjs-underscore", "sphinx-rtd-theme-common", "doxygen-doc", "libcommons-lang3-java-doc"),
    *("libglib2.0-doc", "mkdocs-doc", "python-requests-doc"),
)
WORKBOX = tuple(f"workbox-{name}@7.3.0" for name in ("core", "precaching", "routing", "strategies", "sw"))
_MANUALS = {
    "doxygen": ("usr/share/doc/doxygen/html", "index.html"),
    "javadoc": ("usr/share/doc/libcommons-lang3-java/api", "index.html"),
    "gtkdoc": ("usr/share/doc/libglib2.0-doc/glib", "index.html"),
    "mkdocs": ("usr/share/doc/mkdocs/html", "index.html"),
    "sphinx": ("usr/share/doc/python-requests-doc/html", "index.html"),
}
PAGES = Path(__file__).with_name("kind_pages")
_COLOURS = ("#b5533c", "#3c7ab5", "#5a9a4a", "#a58a2f", "#7a4fa0", "#2f8f8f")
_NAMES = ("Old Bridge", "New Bridge", "Rail Bridge", "Footbridge", "Harbour Bridge")
_ROWS = [
    {"name": f"{_NAMES[number % 5]} {number}", "year": 1850 + number, "visits": number * 37 % 1000}
    for number in range(120)
]
_DATA = {
    "visits.json": json.dumps({"months": ["Jan", "Feb", "Mar", "Apr", "May"], "visits": [12, 19, 7, 15, 22]}),
    "rows.json": json.dumps(_ROWS),
    "late.json": json.dumps({"text": "It came after two seconds."}),
    "shape.json": json.dumps({"points": 3}),
    "series.csv": "x,load,limit\n" + "".join(f"{x},{x * 7 % 13},10\n" for x in range(60)),
    "worker.js": 'import { name } from "./names.js"; onmessage = () => postMessage(`From ${name}`);',
    "names.js": 'export const name = "Bridge";',
    "year.js": "export const year = 1912;",
    "hello.js": "function hello() { return 'Hello of an imported script'; }",
    "add.js": 'document.body.append(Object.assign(document.createElement("p"), { textContent: "Added by a script." }));',
    "pr.css": ".pr { color: green; font-weight: bold; background: url(/img/photo-300.png?prcss) }",
    "print.css": "body { background: url(/img/print-sheet.png) }",
    "route-one.html": '<h1>Route one</h1><img src="/img/photo-300.png?one" alt="">',
    "route-two.html": '<h1>Route two</h1><img src="/img/photo-300.png?two" alt="">',
    "sprites.svg": '<svg xmlns="http://www.w3.org/2000/svg"><symbol id="star" viewBox="0 0 10 10">'
    '<path fill="#c60" d="M5 0 6.5 3.5 10 4 7.5 6.5 8 10 5 8 2 10 2.5 6.5 0 4 3.5 3.5z"/></symbol></svg>',
    "drawing.svg": '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 120"><rect width="200" height="120" '
    'fill="#9cf"/><circle cx="60" cy="60" r="40" fill="#369"/><text x="110" y="66">Drawing</text></svg>',
}
_FRAMES = {
    "menu.html": '<html><body bgcolor="#ddeeff"><h3>Menu</h3><a href="main.html" target="main">Main</a></body></html>',
    "top.html": '<html><body bgcolor="#336699" text="white"><h2>The upper frame</h2></body></html>',
    "main.html": '<!doctype html><h1>Main frame</h1><img src="/img/photo-300.png?frame" alt=""><p>Text.</p>',
    # Without a document type a table inherits no font size, and a body's height is the window's.
    "quirks.html": '<body style="font-size: 26px; height: 100%; background: #ffd"><table border=1 width=60%><tr>'
    "<td>Small in quirks mode<td>1912</table><div style='width: 80; height: 40; background: teal'></div></body>",
    "standards.html": '<!doctype html><body style="font-size: 26px; height: 100%; background: #ffd"><table border=1 '
    "width=60%><tr><td>Large in standards mode<td>1912</table></body>",
}
_WORKER = """\
addEventListener("install", (event) => event.waitUntil(caches.open("a").then((cache) =>
  cache.addAll(["/img/cached.png", "/data/visits.json"])).then(() => skipWaiting())));
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  if (new URL(event.request.url).pathname === "/pwa/answer.txt") {
    event.respondWith(new Response("The worker made this answer.", { headers: { "Content-Type": "text/plain" } }));
  }
});
"""
_MANIFEST = {
    "name": "Application",
    "start_url": "/offline-application.html",
    "icons": [{"src": "/img/icon-192.png", "sizes": "192x192", "type": "image/png"}],
}


@dataclass(frozen=True, slots=True)
class KindPages:
    """The site's folder, and the paths of its pages."""

    root: Path
    pages: tuple[str, ...]


def kinds() -> KindPages:
    """Return the site, fetched and arranged on the first call.

    Raises:
        SiteUnavailableError: pip or apt could not deliver its parts.
    """
    root = built("kinds", f"1 {WHEELS} {PACKAGES} {_LIBRARIES} {_MANUALS}", _fetch)
    written = sorted(f"/{path.name}" for path in PAGES.glob("*.html"))
    if _workbox() is None:
        written.remove("/offline-workbox.html")
    return KindPages(root, (*written, *(f"/manuals/{name}/{page}" for name, (_, page) in _MANUALS.items())))


def _workbox() -> Path | None:
    """Return the folder of Workbox, which no package of Debian or PyPI brings; None without npm."""
    if shutil.which("npm") is None:
        return None
    return built("workbox", f"1 {WORKBOX}", lambda folder: unpack_npm(WORKBOX, folder / "workbox"))


def _fetch(folder: Path) -> None:
    tree = folder / "tree"
    tree.mkdir()
    unpack_wheels(WHEELS, tree)
    unpack_packages(PACKAGES, tree)
    for name in _LIBRARIES:
        shutil.copytree(tree / "nicegui" / "elements" / name / "dist", folder / "lib" / name)
    shutil.copytree(tree / "nicegui" / "static", folder / "static")
    copy_followed(tree / "usr/share/javascript", folder / "js", tree)
    for name, (source, _) in _MANUALS.items():
        copy_followed(tree / source, folder / "manuals" / name, tree)
    shutil.rmtree(tree)


class KindSite:
    """The fetched folder, the pages written here, and the answers that a server makes."""

    def __init__(self, root: Path) -> None:
        self._fetched, self._written = FolderSite(root), FolderSite(PAGES)
        self._workbox = FolderSite(_workbox() or root)

    def __call__(self, request: SiteRequest) -> Answer:
        """Return the answer to a request."""
        folder, _, name = request.path.lstrip("/").rpartition("/")
        if folder == "img" or folder.startswith("tiles/"):
            return response(body=_picture(request.path), content_type="image/png")
        if folder == "data" and name in _DATA:
            return response(body=_DATA[name], content_type=_TYPES[name.rpartition(".")[2]])
        if folder == "frames" and name in _FRAMES:
            return response(body=_FRAMES[name])
        if folder == "media":
            kind = {"wav": "audio/wav", "mp4": "video/mp4"}.get(name[-3:], "video/webm")
            return response(body=sound() if name[-3:] == "wav" else film(), content_type=kind)
        if folder == "workbox":
            return self._workbox(request)
        made = _made(request)
        if made is not None:
            return made
        return (self._fetched if folder else self._written)(request)


_TYPES = {
    "json": "application/json", "js": "text/javascript", "css": "text/css", "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml", "csv": "text/csv",
}  # fmt: skip


def _made(request: SiteRequest) -> Answer | None:
    match request.path:
        case "/items":
            first = (int(request.query.get("page", "1")) - 1) * 5
            body, kind = json.dumps(list(range(first, first + 5))), _TYPES["json"]
        case "/search" if request.method == "POST":
            query = json.loads(request.body or b"{}").get("query", "nothing")
            body, kind = json.dumps({"text": f"Results for {query}: 3"}), _TYPES["json"]
        case "/pwa-worker.js":
            body, kind = _WORKER, _TYPES["js"]
        case "/pwa.webmanifest":
            body, kind = json.dumps(_MANIFEST), "application/manifest+json"
        case _:
            return None
    return response(body=body, content_type=kind)


@lru_cache(maxsize=512)
def _picture(path: str) -> bytes:
    """Return a picture that shows its path, of the width that the name says."""
    name = path.rpartition("/")[2].removesuffix(".png")
    number = name.rpartition("-")[2]
    width = int(number) if number in {"300", "600", "900", "192"} else 400
    width, height = (256, 256) if path.startswith("/tiles/") else (width, width * 2 // 3)
    colour = _COLOURS[sum(path.encode()) % len(_COLOURS)]
    image = Image.new("RGB", (width, height), colour)
    pen = ImageDraw.Draw(image)
    for step in range(0, width, 40):
        pen.line((step, height, step + 60, 0), fill="#ffffff", width=2)
    pen.text((12, 12), path, fill="#000000")
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()
