"""Page renderer: templates, paths, response headers and the language of an answer."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.captures import ArtifactKind
from core.clock import Clock
from playback import url_paths
from playback.web import i18n
from playback.web.copy_lookup import QueueStatusReader
from playback.web.copy_notices import CopyWarnings, TemporalDrift, rough_distance
from playback.web.i18n import PageLanguage, check_language, localized_path, page_language, split_prefix, wanted_language
from playback.web.page_request import EVERYTHING, CaptureFacets, scope_target
from playback.web.page_search import PageSearch
from playback.web.page_store import CapturedPage, PageRecords, PageStore
from playback.web.text_search import TextSearch

if TYPE_CHECKING:
    from playback.web.reader_page import LevelOffers

PICTURE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, max-age=3600",
    "Content-Disposition": "inline",
}
_LOCAL_HOST = re.compile(r"(?:127\.0\.0\.1|\[::1\]|localhost)(?::\d+)?")


def security_headers(replay_origin: str, frames: str = "") -> dict[str, str]:
    """Return the default headers: own styles, images and frames of replay, no script."""
    directives = (
        "default-src 'none'",
        "style-src 'self'",
        f"img-src 'self' {replay_origin}",
        f"frame-src {frames or replay_origin}",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(directives),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        "X-DNS-Prefetch-Control": "off",
        "X-Robots-Tag": "noindex, noarchive",
    }


def scripted_headers(replay_origin: str) -> dict[str, str]:
    """Return the headers of pages with forms and a script of the front: allow it and its requests."""
    policy = security_headers(replay_origin)["Content-Security-Policy"]
    return {
        "Content-Security-Policy": f"{policy}; script-src 'self'; connect-src 'self'",
        "Cache-Control": "no-store",
        # Browsers then send Origin and Referer with our own forms, but not to other sites.
        "Referrer-Policy": "same-origin",
    }


def fixed_headers(app: ASGIApp, headers: Mapping[str, str]) -> ASGIApp:
    """Return an ASGI application that adds `headers` to every response of `app` that does not set them."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in headers.items():
                    own.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_with_headers)

    return answer


def one_origin(app: ASGIApp, origin: str) -> ASGIApp:
    """Return an ASGI application that redirects to a single Host, against DNS rebinding; no other may frame copies."""
    own_host = urlsplit(origin).netloc

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "").lower()
        if scope["type"] != "http" or host == own_host:
            await app(scope, receive, send)
            return
        response: Response = PlainTextResponse("This host does not answer here.\n", 421)
        if _LOCAL_HOST.fullmatch(own_host) and _LOCAL_HOST.fullmatch(host):
            response = PlainTextResponse("", 307, {"Location": origin + scope_target(scope)})
        await response(scope, receive, send)

    return answer


def with_language(app: ASGIApp, default: str) -> ASGIApp:
    """Return an ASGI application: ``/de/…`` is ``/…`` in German; without a prefix, Accept-Language applies."""
    default = check_language(default)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        language, raw_path = split_prefix(scope["raw_path"])
        prefix = f"/{language}" if language else ""
        if prefix:
            scope = {**scope, "raw_path": raw_path, "path": scope["path"][len(prefix) :] or "/"}
        else:
            accepted = ",".join(Headers(scope=scope).getlist("accept-language"))
            language = wanted_language(accepted, default)
        page_language.set(PageLanguage(language, prefix, scope_target(scope)))
        await app(scope, receive, send)

    return answer


HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class WebContext:
    """Shared objects of the front's views."""

    store: PageStore
    search: PageSearch
    texts: TextSearch | None  # None: there is no full-text index
    records: PageRecords
    status: QueueStatusReader | None  # reads the crawl queue; None: not available
    clock: Clock
    origin: str  # the front's origin for absolute addresses; empty when every Host is accepted
    replay_origin: str
    render: "PageRenderer"
    offers: "LevelOffers"
    copy_warnings: CopyWarnings
    page_headers: Callable[[CapturedPage], Mapping[str, str]]
    skews: Callable[[Sequence[CapturedPage]], Sequence[TemporalDrift | None]]


class PageRenderer:
    """Renderer of templates."""

    def __init__(
        self,
        replay_origin: str,
        archive_name: str = "",
        folders: Sequence[Path] = (),
        filters: Mapping[str, Callable[..., object]] = MappingProxyType({}),
        **names: object,
    ) -> None:
        """Create the template environment, with additional folders of templates, filters and names in templates."""
        environment = self._templates = Environment(
            loader=FileSystemLoader([*folders, HERE / "templates"]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

        def replayed(timestamp: str, modifier: url_paths.MementoModifier, url: str, wiki: str = "") -> str:
            return replay_origin + url_paths.memento_path(url_paths.Memento(timestamp, modifier, url, wiki))

        def image_address(timestamp: str, uri: str, address: url_paths.PageAddress | None = None) -> str:
            return replayed(timestamp, url_paths.MementoModifier.IMAGE, uri, address.wiki if address else "")

        def copy_address(page: CapturedPage, target: url_paths.PageAddress) -> str:
            modifier = (
                url_paths.LEVEL_MODIFIERS[target.level] if target.level is not None else url_paths.MementoModifier.PAGE
            )
            return replayed(page.timestamp, modifier, page.url, target.wiki)

        def with_modifier(modifier: url_paths.MementoModifier) -> Callable[[CapturedPage, url_paths.PageAddress], str]:
            return lambda page, address: replayed(page.timestamp, modifier, page.url, address.wiki)

        def text_address(page: CapturedPage) -> str:
            return replayed(page.timestamp, url_paths.MementoModifier.TEXT, page.artifacts[ArtifactKind.TEXT])

        environment.globals.update(
            archive_name=archive_name or "Weboid",
            image_address=image_address,
            copy_address=copy_address,
            very_address=with_modifier(url_paths.MementoModifier.VERY),
            file_address=with_modifier(url_paths.MementoModifier.FILE),
            text_address=text_address,
            history_path=history_path,
            changes_path=changes_path,
            escape_url=url_paths.escape_url,
            localized_path=localized_path,
            is_web_url=url_paths.is_web_url,
            _=i18n.translate,
            ngettext=i18n.translate_count,
            page_path=reader_path,
            languages=[(each, i18n.language_name(each)) for each in i18n.languages()],
            month_name=i18n.month,
            weekdays=i18n.weekdays,
            language_in=i18n.language_in,
            rough=rough_distance,
            **{"save_address": lambda _url="": "", **names},
        )
        environment.filters.update(
            when=i18n.when,
            day=i18n.day,
            minute=i18n.minute,
            moment=i18n.moment_of,
            month_and_year=i18n.month_and_year,
            number=i18n.number,
            size=size_of,
            **filters,
        )

    def __call__(
        self, template: str, code: int = 200, headers: Mapping[str, str] | None = None, **values: object
    ) -> HTMLResponse:
        """Render the page in the reader's language."""
        reader = page_language.get()
        values = {"language": reader.language, "address": reader.path, **values}
        text = self._templates.get_template(template).render(values)
        response = HTMLResponse(text, code, headers=headers)
        response.headers["Content-Language"] = reader.language
        if not reader.prefix:
            response.headers["Vary"] = "Accept-Language"
        return response


def tag_of(body: bytes) -> str:
    """Return the ETag of a body."""
    return f'"{sha256(body).hexdigest()[:32]}"'


def tagged_response(request: Request, body: bytes, headers: Mapping[str, str], media_type: str) -> Response:
    """Return the body with its ETag, or 304 to a client that has it (RFC 9110, 13.1.2)."""
    tag = tag_of(body)
    held = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if "*" in held or tag in held:
        return Response(status_code=304, headers={**headers, "ETag": tag})
    return Response(body, headers={**headers, "ETag": tag}, media_type=media_type)


def reader_path(timestamp: str, url: str, *, view: str = "page", address: url_paths.PageAddress | None = None) -> str:
    """Return `page_path` with the reader's language prefix, and level and wiki of `address`."""
    level, wiki = (address.level, address.wiki) if address is not None else (None, "")
    return localized_path(url_paths.page_path(timestamp, url, view=view, level=level, wiki=wiki))


def view_path(page: CapturedPage, address: url_paths.PageAddress) -> str:
    """Return the path of the requested view, level and wiki for this page."""
    return reader_path(page.timestamp, page.url, view=address.view, address=address)


def path_with_query(path: str, *values: Mapping[str, str]) -> str:
    """Return the path with its parameters; empty ones are left out."""
    merged = {name: value for each in values for name, value in each.items() if value}
    return f"{path}?{urlencode(merged)}" if merged else path


def history_path(url: str, period: str = "", facets: CaptureFacets = EVERYTHING) -> str:
    """Return the path of a URL's captures, filtered by `period` and `facets`."""
    return localized_path("/".join(("/url", *filter(None, (facets.segment, period)), url_paths.escape_url(url))))


def changes_path(older: CapturedPage, newer: CapturedPage) -> str:
    """Return the path of the comparison of two captures."""
    return localized_path(f"/changes/{older.timestamp}/{newer.timestamp}/{url_paths.escape_url(newer.url)}")


def size_of(count: int) -> str:
    """Format a number of bytes.

    >>> size_of(999), size_of(4_321), size_of(12_345_678), size_of(80_683_900_000)
    ('999 B', '4.3 kB', '12.3 MB', '80.7 GB')
    """
    if count < 1000:
        return f"{i18n.number(count)} B"
    power = min(int(math.log10(count)) // 3, 4)
    return f"{i18n.number(round(count / 1000**power, 1))} {('kB', 'MB', 'GB', 'TB')[power - 1]}"
