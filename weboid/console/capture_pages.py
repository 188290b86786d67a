"""Console pages of captures: search, versions of a URL, one capture with its parts, comparison and downloads."""

import tempfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from core.captures import ArtifactKind
from core.errors import InputError
from core.page_manifest import PageInfo
from playback.access.levels import Level, LevelScope
from playback.access.takedowns import TakedownSubject
from playback.web.i18n import noop, translate
from playback.web.page_renderer import PICTURE_HEADERS, reader_path
from playback.web.page_request import moment_of
from playback.web.page_search import PageSearch, parse_cursor, parse_question
from playback.web.page_store import CapturedPage, TimeSpan
from playback.web.site_pages import find_texts, text_address
from playback.web.text_diff import compare_texts
from playback.web.text_search import TextSearch
from playback.web.url_history import CAPTURES_SHOWN, CaptureCalendar, history_values, span_of
from weboid.app.collection_export import CollectionExport, ExportForm, ExportRequest, ExportSelection, url_keys
from weboid.console.page_frame import ALL_CAPTURES_ROLE, ConsolePages, console_page, console_path

PARTS_SHOWN = 200
RECORDS_SHOWN = 200
_BEGIN, _END = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
_PICTURES = {"thumbnail": ArtifactKind.THUMBNAIL, "view": ArtifactKind.VIEW, "full": ArtifactKind.FULL_PAGE}
_SIGNATURES = ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"RIFF", "webp"))
_FILES = {
    "wacz": (noop("WACZ"), None),
    "warc": (noop("WARC"), None),
    "png": (noop("Picture"), ArtifactKind.FULL_PAGE),
    "pdf": (noop("PDF"), ArtifactKind.PDF),
    "txt": (noop("Text"), ArtifactKind.TEXT),
    "json": (noop("Manifest"), ArtifactKind.PAGEINFO),
}


def parts_of(manifest: PageInfo) -> dict[str, Any]:
    """Return the first requests of a manifest, number and bytes of all, and of each type, the largest first."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for each in manifest.resources:
        kinds[each.resource_type or "Other"].append(each.wire_bytes or 0)
    summed = sorted(((kind, len(sizes), sum(sizes)) for kind, sizes in kinds.items()), key=lambda each: -each[2])
    received = sum(size for _, _, size in summed)
    shown = manifest.resources[:PARTS_SHOWN]
    return {"shown": shown, "count": len(manifest.resources), "received": received, "kinds": summed}


class CapturePages(ConsolePages):
    """Pages of captures."""

    @console_page("captures")
    def search(self, request: Request) -> Response:
        """Return the newest captures, or those that match."""
        query, pages = request.query_params, self._stores.pages(request.state.user)
        question = parse_question(query.get("q", ""), query.get("in", ""))
        texts = TextSearch(self._stores.texts, pages)
        if (by_text := find_texts(texts, query)) is not None:
            path = console_path("captures")
            return self._frame(
                "captures.html",
                request,
                question=question,
                has_texts=True,
                found=by_text,
                entries=[(each.page, each.snippet, each.language) for each in by_text.results],
                narrowed=lambda name, value: text_address(path, by_text, None, {name: value}),
                older=text_address(path, by_text, by_text.next),
                newer="",
            )
        search = PageSearch(self._stores.database, pages)
        before, after = (parse_cursor(query.get(name, "")) for name in ("before", "after"))
        result = search.find(question, before=before, after=after)
        address = partial(console_path, "captures", q=query.get("q", ""), **{"in": query.get("in", "")})
        return self._frame(
            "captures.html",
            request,
            question=question,
            has_texts=texts.is_there(),
            found=None,
            entries=[(page, (), "") for page in result.pages],
            older=address(before=str(result.older)) if result.older else "",
            newer=address(after=str(result.newer)) if result.newer else "",
        )

    @console_page("captures/url")
    def versions(self, request: Request) -> Response:
        """Return calendar and list of a URL's captures."""
        url, period = request.query_params.get("url", "")[:20_000], request.query_params.get("period", "")
        pages = self._stores.pages(request.state.user)
        if request.state.user.may(ALL_CAPTURES_ROLE):
            calendar = CaptureCalendar.of_days(pages.days(url))
        else:
            calendar = CaptureCalendar(pages.moments(url))
        span = span_of(period) if len(period) in (4, 6, 8) and period.isdecimal() else None
        if span is None and len(period) == 14:
            span = TimeSpan(_BEGIN, moment_of(period) + timedelta(seconds=1))
        listed = pages.captures(url, span=span, limit=CAPTURES_SHOWN + 1)
        values = history_values(calendar, listed, period if span is not None else "")
        return self._frame("versions.html", request, url=url, period=period, **values)

    @console_page("captures/{page_id}")
    def capture(self, request: Request) -> Response:
        """Return one capture."""
        page, user = self._page(request), request.state.user
        pages, manifest = self._stores.pages(user), self._stores.records(user).manifest(page)
        before = pages.captures(page.url, span=TimeSpan(_BEGIN, page.captured_at), limit=1)
        since = page.captured_at + timedelta(milliseconds=1)
        after = pages.captures(page.url, span=TimeSpan(since, _END), limit=1, oldest_first=True)
        query = (
            'SELECT url, record_type, filename, "offset", length FROM captures'
            " WHERE page_id = :page ORDER BY id LIMIT :limit"
        )
        is_shown = page.taken_down is None and page.withheld is None
        has_copy, levels = page.has_copy and bool(self._frame.front_origin), self._stores.levels.now()
        return self._frame(
            "capture.html",
            request,
            page=page,
            older=next(iter(before), None),
            newer=next(iter(after), None),
            takedown=self._stores.access.subject(TakedownSubject(page.url, page.timestamp)),
            level=levels.of(page.url),
            has_level=any(each.target.scope is LevelScope.LINK for each in levels.matching_rules(page.url)),
            levels=list(Level),
            parts=parts_of(manifest) if manifest is not None else None,
            records=self._stores.database.rows(query, {"page": page.page_id, "limit": RECORDS_SHOWN * is_shown}),
            files=[
                (name, translate(label))
                for name, (label, kind) in _FILES.items()
                if kind is None or kind in page.artifacts
            ],
            copy_address=self._frame.front_origin + reader_path(page.timestamp, page.url) if has_copy else "",
        )

    @console_page("captures/compare")
    def compare(self, request: Request) -> Response:
        """Return two captures side by side, the older one first."""
        user = request.state.user
        ids = [request.query_params.get(name, "") for name in ("a", "b")]
        pages = self._stores.pages(user).with_ids([each for each in ids if each])
        if any(each not in pages for each in ids):
            raise HTTPException(404)
        older, newer = sorted((pages[each] for each in ids), key=lambda page: page.captured_at)
        before, after = map(self._stores.records(user).text, (older, newer))
        difference = compare_texts(before, after) if before is not None and after is not None else None
        return self._frame("compare.html", request, older=older, newer=newer, difference=difference)

    @console_page("captures/{page_id}/picture")
    def picture(self, request: Request) -> Response:
        """Return a picture of the page, by default the whole page."""
        page, records = self._page(request), self._stores.records(request.state.user)
        kinds = (_PICTURES.get(request.query_params.get("kind", ""), ArtifactKind.FULL_PAGE), ArtifactKind.VIEW)
        data = next(filter(None, (records.picture(page, kind) for kind in kinds)), None)
        media_type = next((name for start, name in _SIGNATURES if data and data.startswith(start)), None)
        if data is None or media_type is None:
            raise HTTPException(404)
        return Response(data, headers=PICTURE_HEADERS, media_type=f"image/{media_type}")

    @console_page("captures/{page_id}/file/{name}")
    def file(self, request: Request) -> Response:
        """Return a download: an artifact as it is stored, or the capture's records in a new file."""
        page, name = self._page(request), request.path_params["name"]
        if name not in _FILES:
            raise HTTPException(404)
        kind = _FILES[name][1]
        filename = f"{page.timestamp}-{page.page_id[:8]}.{name}{'.gz' if name == 'warc' else ''}"
        headers = {**PICTURE_HEADERS, "Content-Disposition": f'attachment; filename="{filename}"'}
        if kind is None:
            return self._export(page, request, ExportForm(name), filename, headers)
        data = self._stores.records(request.state.user).picture(page, kind)
        if data is None:
            raise HTTPException(404)
        return Response(data, headers=headers, media_type="application/octet-stream")

    def _export(
        self, page: CapturedPage, request: Request, form: ExportForm, filename: str, headers: dict[str, str]
    ) -> Response:
        stores = self._stores
        folder = tempfile.TemporaryDirectory(prefix="weboid-export-")
        end = page.captured_at + timedelta(milliseconds=1)
        selection = ExportSelection((url_keys(page.url),), since=page.captured_at, until=end)
        facts: dict[str, Any] = {"title": page.label, "mainPageUrl": page.url}
        export = ExportRequest(Path(folder.name, filename), selection, facts, stores.clock.now(), form=form)
        access = None if request.state.user.may(ALL_CAPTURES_ROLE) else stores.access
        try:
            count = CollectionExport(stores.layout, stores.database, access).write(export)
        except InputError as error:
            folder.cleanup()
            raise HTTPException(404, str(error)) from error
        return FileResponse(
            count.files[0],
            headers=headers,
            media_type="application/octet-stream",
            background=BackgroundTask(folder.cleanup),
        )

    def _page(self, request: Request) -> CapturedPage:
        page_id = request.path_params["page_id"]
        pages = self._stores.pages(request.state.user).with_ids([page_id])
        if page_id not in pages:
            raise HTTPException(404)
        return pages[page_id]
