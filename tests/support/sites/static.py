"""A folder, served."""

import mimetypes
from functools import lru_cache
from pathlib import Path

from tests.support.sites.http1 import Answer, SiteRequest, response
from tests.support.sites.pages import page

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".yaml": "application/yaml",
    ".ftl": "text/plain; charset=utf-8",
    ".properties": "text/plain; charset=utf-8",
    ".map": "application/json",
    ".ttf": "font/ttf",
}


class FolderSite:
    """Serves the files below a folder, and nothing above it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def __call__(self, request: SiteRequest) -> Answer:
        """Return the file at the request's path, or a folder's ``index.html``; else 404; 304 to its ETag."""
        target = (self._root / request.path.lstrip("/")).resolve()
        if target.is_dir():
            if not request.path.endswith("/"):
                location = f"{request.path}/"
                return response(301, page("Moved", "Moved."), headers=(("Location", location),))
            target /= "index.html"
        if not target.is_relative_to(self._root) or not target.is_file():
            return response(404, page("Not found", "No such page."))
        etag = f'"{target.stat().st_mtime_ns:x}"'
        headers = (("Cache-Control", "max-age=3600"), ("ETag", etag))
        if request.header("if-none-match") == etag:
            return response(304, headers=headers)
        return response(body=_read(target), content_type=_type(target), headers=headers)


def _type(path: Path) -> str:
    known = _TYPES.get(path.suffix)
    return known or mimetypes.guess_type(path.name)[0] or "application/octet-stream"


@lru_cache(maxsize=512)
def _read(path: Path) -> bytes:
    return path.read_bytes()
