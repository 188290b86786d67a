"""Rewriter of pages, scripts and style sheets on pywb, for the level `full`; jobs for makers.

Rewriting serves the look of a copy and is no protection: the content policy blocks what it misses
(`playback.replay.full.full_gate`). It runs in makers, since it reads hostile text.

`run_rewriter` runs in the environment with pywb, where only pywb's own libraries are installed: this
module must not import others, nor `warc.content_decoder`, which needs a newer Brotli than pywb has.
"""

import io
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from core.timestamps import parse_timestamp14
from playback.media_types import HTML_TYPES
from playback.replay.full.module_rewriter import (
    MODULE_PATH,
    STATIC_PATH,
    is_module,
    rewrite_dynamic_imports,
    rewrite_module,
    script_addresses,
    share_declarations,
)
from playback.replay.maker_process import run_jobs

PAGE_MODIFIER = "mp_"
SCRIPT_MODIFIERS = frozenset({"js_", "esm_", "wkr_", "wkrm_"})

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


@dataclass(frozen=True, slots=True)
class RewriteJob:
    """Rewrite a text of a page; the result has the charset of the original."""

    body: str  # its bytes as Latin-1
    content_type: str  # as it is answered with; see `kind_of`
    url: str  # the text's own
    timestamp: str  # the moment of the page that it belongs to
    modifier: str  # how it was asked for, e.g. ``js_``
    origin: str  # where the page is shown


@dataclass(frozen=True, slots=True)
class WombatJob:
    """Read one of wombat's scripts, which are part of pywb."""

    script: str  # name of the file, e.g. ``wombat.js``


def run_rewriter(deadline_s: float) -> None:
    """Do the jobs that arrive on stdin until it ends; body of a maker process with pywb."""
    run_jobs(_do, lambda _: deadline_s)


def _do(job: dict[str, Any]) -> bytes:
    if "script" in job:
        script = WombatJob(**job).script
        return (resources.files("pywb") / "static" / script).read_bytes()
    return rewrite(RewriteJob(**job))


def kind_of(media_type: str, modifier: str) -> str:
    """Return the media type that decides how a text is rewritten; empty: it is not rewritten."""
    if modifier in SCRIPT_MODIFIERS - {"js_"} or media_type in SCRIPT_TYPES:
        return "text/javascript"
    if media_type in HTML_TYPES:
        return media_type
    return _REWRITTEN.get(media_type, "")


def rewrite(job: RewriteJob) -> bytes:
    """Return the text as it is served at its page's own origin."""
    from pywb.rewrite.url_rewriter import UrlRewriter  # in makers only, and when first needed

    media_type = job.content_type.partition(";")[0]
    body = job.body.encode("latin-1")
    urls = UrlRewriter(
        f"{job.timestamp}{job.modifier}/{job.url}",
        f"{job.origin}/c/",
        pywb_static_prefix=f"{job.origin}{STATIC_PATH}",
    )
    if job.modifier == "wkr_":
        # A worker with wombat's half for workers before it.
        info = {
            "prefix": f"{job.origin}/c/",
            "prefixMod": f"{job.origin}/c/{job.timestamp}wkrf_/",
            "originalURL": job.url,
        }
        static = f"{job.origin}{STATIC_PATH}"
        scripts = ",".join(
            json.dumps(f"{static}{name}") for name in ("worker.js", "wombatWorkers.js")
        )
        line = f"(function(){{self.importScripts({scripts});new WBWombat({json.dumps(info)})}})();"
        return (line + job.body).encode("latin-1")
    if media_type in SCRIPT_TYPES and is_module(job.body):
        text = rewrite_module(job.body, script_addresses(urls), MODULE_PATH)
        return text.encode("latin-1")
    if media_type in SCRIPT_TYPES:
        body = share_declarations(rewrite_dynamic_imports(job.body, "null")).encode("latin-1")
    _, made, _ = _rewriter()(
        _RewriterRecord(job.content_type, body),
        urls,
        None,
        head_insert_func=lambda *_: head_insert(job),
        cdx={"url": job.url, "urlkey": "", "timestamp": job.timestamp},
    )
    return b"".join(made)


def head_insert(job: RewriteJob) -> str:
    """Return the start of a page's head: our script, wombat, and wombat's configuration."""
    moment = parse_timestamp14(job.timestamp)
    scheme, _, rest = job.url.partition("://")
    static = f"{job.origin}{STATIC_PATH}"
    info: dict[str, object] = {
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
        f'<script src="{static}full.js"></script>'
        # With CORS, or what it imports for the page would have no base (HTML, 8.1.3.4).
        f'<script src="{static}wombat.js" crossorigin="anonymous"></script>'
        f"<script>wbinfo={text};"
        "if(window._WBWombatInit)window._WBWombatInit(wbinfo)</script>"
    )


@dataclass
class _RewriterRecord:
    """Substitute for a warcio record with the attributes that pywb's rewriters use."""

    content_type: str
    body: bytes

    def __post_init__(self) -> None:
        from warcio.statusandheaders import StatusAndHeaders

        headers = [("Content-Type", self.content_type)]
        self.http_headers = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
        self.rec_headers = StatusAndHeaders("WARC/1.1", [])
        self.raw_stream = io.BytesIO(self.body)

    def content_stream(self) -> io.BytesIO:
        """Return the decoded body."""
        return self.raw_stream


@cache
def _rewriter() -> Any:
    from playback.replay.full.pywb_rewriter import PywbRewriter

    return PywbRewriter(replay_mod=PAGE_MODIFIER)
