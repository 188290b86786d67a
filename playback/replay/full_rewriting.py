"""Rewriting for the level "full": pywb's rewriters, with what they leave undone.

Pages, scripts and style sheets are rewritten so that they find their parts in the archive. That is for
the look of it and no defence: what is missed is blocked by the content policy
(`playback.replay.full_gate`). It is done in a maker, as everything that reads hostile text.
"""

import io
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urljoin

from core.timestamps import parse_timestamp14
from playback.replay.full_modules import (
    is_module,
    rewrite_dynamic_imports,
    rewrite_import_map,
    rewrite_module,
)

STATIC_PATH = "/.weboid/"  # a path that no part of a page has: what begins with a dot is ours here
PAGE_MODIFIER = "mp_"
WORKER_MODIFIERS = frozenset({"wkr_", "wkrm_"})
FULL_VERSION = "full1"

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
SCRIPT_TYPES = frozenset(
    {
        "text/javascript",
        "application/javascript",
        "application/x-javascript",
        "text/ecmascript",
        "application/ecmascript",
    }
)
_REWRITTEN = {
    "text/css": "text/css",
    "application/json": "application/json",
    "application/vnd.apple.mpegurl": "application/vnd.apple.mpegurl",
    "application/x-mpegurl": "application/x-mpegURL",
    "application/dash+xml": "application/dash+xml",
}
# Hints that open connections, which no content policy forbids.
_HINTS = {"preconnect", "dns-prefetch", "prerender"}
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RewriteJob:
    """Rewrite a text of a page; the result has the charset of the original.

    Attributes:
        body: its bytes as Latin-1.
        content_type: as it is answered with; see `kind_of`.
        url: the text's own.
        timestamp: the moment of the page that it belongs to.
        modifier: how it was asked for, e.g. ``js_``.
        origin: where the page is shown.
    """

    body: str
    content_type: str
    url: str
    timestamp: str
    modifier: str
    origin: str


def kind_of(media_type: str, modifier: str) -> str:
    """The media type by which a text is rewritten; empty: it is left as it is."""
    if modifier in WORKER_MODIFIERS or media_type in SCRIPT_TYPES:
        return "text/javascript"
    if media_type in HTML_TYPES:
        return media_type
    return _REWRITTEN.get(media_type, "")


def rewrite(job: RewriteJob) -> bytes:
    """The text as it is shown at its page's own origin."""
    from pywb.rewrite.url_rewriter import UrlRewriter  # in makers only, and when first needed

    media_type = job.content_type.partition(";")[0]
    body = job.body.encode("latin-1")
    urls = UrlRewriter(
        f"{job.timestamp}{job.modifier}/{job.url}",
        f"{job.origin}/c/",
        pywb_static_prefix=f"{job.origin}{STATIC_PATH}",
    )
    if media_type in SCRIPT_TYPES and job.modifier != "wkr_" and is_module(job.body):
        return _module(job, urls)
    if media_type in SCRIPT_TYPES:
        body = rewrite_dynamic_imports(job.body, "null").encode("latin-1")
    _, made, _ = _rewriter()(
        _Record(job.content_type, body),
        urls,
        None,
        head_insert_func=lambda rule, cdx: head_insert(job),
        cdx={"url": job.url, "urlkey": "", "timestamp": job.timestamp},
    )
    return b"".join(made)


def head_insert(job: RewriteJob) -> str:
    """What comes first in a page's head: our own script, wombat, and what wombat must know."""
    moment = parse_timestamp14(job.timestamp)
    scheme, _, rest = job.url.partition("://")
    static = f"{job.origin}{STATIC_PATH}"
    info = {
        "url": job.url,
        "timestamp": job.timestamp,
        "request_ts": job.timestamp,
        "prefix": f"{job.origin}/c/",
        "mod": PAGE_MODIFIER,
        "is_framed": False,
        "is_live": False,
        "coll": "",
        "proxy_magic": "",
        "static_prefix": static,
        "enable_auto_fetch": False,
        "target_frame": "_self",
        "wombat_ts": job.timestamp,
        "wombat_sec": str(int(moment.timestamp())),
        "wombat_scheme": scheme,
        "wombat_host": re.split(r"[/?#]", rest, maxsplit=1)[0],
        "wombat_opts": {},
    }
    # In a script element nothing may look like its end.
    text = json.dumps(info).replace("<", "\\u003c")
    return (
        f'<script src="{static}full.js"></script><script src="{static}wombat.js"></script>'
        f"<script>wbinfo={text};"
        "if(window._WBWombatInit)window._WBWombatInit(wbinfo)</script>"
    )


def charset_of(content_type: str) -> str:
    """The charset that a Content-Type names; empty when it names none."""
    match = _CHARSET.search(content_type)
    return match[1] if match else ""


def _module(job: RewriteJob, urls: Any) -> bytes:
    text = rewrite_module(job.body, _addresses(urls), f"{STATIC_PATH}module.js")
    return text.encode("latin-1")


def _addresses(urls: Any) -> Any:
    """Rewrites an address in a script; pywb leaves those relative to the script as they are."""

    def address(url: str) -> str:
        made: str = urls.rewrite(urljoin(urls.wburl.url, url), "js_")
        return made

    return address


@dataclass
class _Record:
    """As much of a warcio record as the rewriters look at."""

    content_type: str
    body: bytes

    def __post_init__(self) -> None:
        from warcio.statusandheaders import StatusAndHeaders

        headers = [("Content-Type", self.content_type)]
        self.http_headers = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
        self.rec_headers = StatusAndHeaders("WARC/1.1", [])
        self.raw_stream = io.BytesIO(self.body)

    def content_stream(self) -> io.BytesIO:
        """The decoded body."""
        return self.raw_stream


@cache
def _rewriter() -> Any:
    """Pywb's rewriter with our reading of pages, made once in each maker."""
    from pywb.rewrite.cookie_rewriter import RemoveAllCookiesRewriter
    from pywb.rewrite.default_rewriter import DefaultRewriter
    from pywb.rewrite.html_rewriter import HTMLRewriter

    class Pages(HTMLRewriter):  # type: ignore[misc]
        """Pages with modules, without hints that would open connections elsewhere."""

        _script = ""

        def _rewrite_tag_attrs(
            self, tag: str, tag_attrs: list[tuple[str, str | None]], *more: Any
        ) -> bool:
            values = {name: value or "" for name, value in tag_attrs}
            if tag == "link":
                relations = set(values.get("rel", "").lower().split())
                if relations & _HINTS:
                    tag_attrs = [each for each in tag_attrs if each[0] not in {"href", "rel"}]
                elif "modulepreload" in relations:
                    tag_attrs = [
                        (name, self._script_address(value) if name == "href" else value)
                        for name, value in tag_attrs
                    ]
            elif tag == "meta" and values.get("http-equiv", "").lower() in _META:
                tag_attrs = [each for each in tag_attrs if each[0] != "content"]
            tag_attrs = [each for each in tag_attrs if each[0] not in _DROPPED]
            done: bool = super()._rewrite_tag_attrs(tag, tag_attrs, *more)
            return done

        def _script_address(self, url: str | None) -> str:
            address: str = self._rewrite_url(url or "", "js_", True)  # noqa: FBT003 pywb's
            return address

        def _set_parse_context(self, tag: str, tag_attrs: Any) -> None:
            if tag == "script" and not self._wb_parse_context:
                self._script = (self.get_attr(tag_attrs, "type") or "").lower().strip()
                if self._script in {"module", "importmap"}:
                    self._wb_parse_context = "script"
                    return
            super()._set_parse_context(tag, tag_attrs)

        def _rewrite_script(self, script_content: str, inline_attr: bool = False) -> str:  # noqa: FBT001, FBT002 pywb's
            if not inline_attr and self._wb_parse_context == "script":
                urls = _addresses(self.url_rewriter)
                if self._script == "importmap":
                    return rewrite_import_map(script_content, urls)
                if self._script == "module":
                    return rewrite_module(script_content, urls, f"{STATIC_PATH}module.js")
            made: str = super()._rewrite_script(
                rewrite_dynamic_imports(script_content, "null"), inline_attr
            )
            return made

    class Everything(DefaultRewriter):  # type: ignore[misc]
        """The parts of pywb's rewriting that are used here."""

        DEFAULT_REWRITERS = {  # noqa: RUF012 pywb's
            **DefaultRewriter.DEFAULT_REWRITERS,
            "html": Pages,
            "cookie": RemoveAllCookiesRewriter,
            "header": _no_headers,
        }

    return Everything(replay_mod=PAGE_MODIFIER)


# A page's own policies and redirects: pywb reads some spellings of them, browsers read more.
_META = {
    "content-security-policy",
    "content-security-policy-report-only",
    "x-dns-prefetch-control",
    "set-cookie",
    "origin-trial",
    "accept-ch",
    "delegate-ch",
}
_DROPPED = {"ping", "nonce", "referrerpolicy", "attributionsrc", "csp", "manifest"}


def _no_headers(rewriting: Any) -> Any:
    """No header of the archive is answered with."""
    del rewriting
    return lambda: None
