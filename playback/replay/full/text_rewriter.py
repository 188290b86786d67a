"""Rewriter of pages, scripts, modules and style sheets on pywb, for the level `full`: jobs, environment.

Rewriting serves the appearance of a copy and is not a protection: the content policy blocks what it misses. It runs in
makers, since it reads hostile text.

pywb wraps a script in a block to replace its `window` and `location`. The imports of a module would be syntax errors
there, so a module imports those names from a generated module. Modules and import maps are rewritten by patterns.

pywb pins old versions of libraries that the main environment has in newer ones, so `run_rewriter` runs in one of its
own: this module must import only pywb's libraries, and not `warc.record_reader`, which needs a newer Brotli.
"""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from core.errors import UnavailableError
from core.media_types import HTML_TYPES
from core.timestamps import parse_timestamp14
from playback.replay.maker_process import run_jobs

PYWB_PYTHON = "WEBOID_REPLAY_PYTHON"
_ROOT = Path(__file__).resolve().parents[3]
# Where `weboid setup full` makes the environment.
PYWB_FOLDER = Path(sys.prefix) / "share" / "weboid" / "pywb"
_REMEDY = f"Run `weboid setup full` (in a checkout: `make setup-full`), or set {PYWB_PYTHON} to a Python that has pywb."


def find_pywb_python() -> Path:
    """Return pywb's interpreter: ``$WEBOID_REPLAY_PYTHON``, ``.venv-replay``, `PYWB_FOLDER`; or UnavailableError."""
    named = os.environ.get(PYWB_PYTHON)
    python = Path(named) if named else _ROOT / ".venv-replay" / "bin" / "python"
    if not named and not python.is_file():
        python = PYWB_FOLDER / "bin" / "python"
    if not python.is_file():
        raise UnavailableError(
            f'The level "full" needs an environment with pywb, and {python} does not exist. {_REMEDY}'
        )
    return python


def pywb_version(python: Path) -> str:
    """Return the version of pywb that is installed for that interpreter; else raise UnavailableError."""
    code = "from importlib.metadata import version; print(version('pywb'))"
    try:
        done = subprocess.run([str(python), "-I", "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError(
            f'The level "full" needs pywb, which is not installed for {python}. {_REMEDY}'
        ) from error
    return done.stdout.strip()


# A path that no resource of a page has: on these hosts it is reserved.
STATIC_PATH = "/.weboid/"
MODULE_PATH = f"{STATIC_PATH}module.js"
# Names by which pages find out their location; the same as in pywb's wrapper.
_WRAPPED = ("window", "self", "document", "location", "top", "parent", "frames", "opener")
_USED = re.compile(rf"(?<![\w$.])(?:{'|'.join(_WRAPPED)})(?![\w$])")
# The names after such a keyword, or the beginning of the braces after it.
_DECLARATION = re.compile(
    r"\b(?:let|const|var|function|class|import|as)\s+((?:[\w$]+\s*,\s*){0,200}[\w$]+)"
    r"|\bimport\s*\{([^}]{0,2000})|\b(?:let|const|var)\s*[{\[]([^}\]]{0,2000})"
)
_NAME = re.compile(r"(?<![\w$])[\w$]+(?![\w$]|\s+as\s)")
# Names, then maybe a list in braces; bounded, and braces do not nest, so that no text takes long.
_SPECIFIER = r"[\w$\s,*]{0,80}(?:\{[\w$\s,]{0,20000}\}\s{0,20})?"
_IS_MODULE = re.compile(
    r"(?:^|[;\n}])\s*(?:"
    rf"import(?![\w$]){_SPECIFIER}from\s*[\"']"
    r"|import\s*[\"']"
    rf"|export\s*(?:\*|\{{[\w$\s,]{{0,20000}}\}})"
    r"|export\s+(?:default|const|let|var|function|class|async)\b)"
)
_FROM = re.compile(
    rf"(?P<head>(?:^|[;\n}}\s])(?:import|export)\b{_SPECIFIER}from\s*|(?:^|[;\n}}])\s*import\s*)"
    r"(?P<quote>[\"'])(?P<url>[^\"'\n]{1,2000})(?P=quote)"
)
_DYNAMIC = re.compile(r"(?<![\w$.])import\s*\((?!\s*\))")
# At a line's beginning or behind a statement's end; an indented one belongs to something.
_DECLARED = re.compile(r"(?:^|[;}] ?)(?:const|let|class)\s+([A-Za-z_$][\w$]{0,100})", re.MULTILINE)
_MOST_NAMES = 500
_LONGEST = 5_000_000  # characters

Rewrite = Callable[[str], str]


def is_module(text: str) -> bool:
    """Return True when the script imports or exports at its top, so that it can only be a module.

    >>> is_module('import{a}from"./a.js";a()'), is_module('import("./a.js")'), is_module("let x=1")
    (True, False, False)
    """
    return _IS_MODULE.search(text[:_LONGEST]) is not None


def rewrite_module(text: str, rewrite: Rewrite, declarations: str) -> str:
    """Return the module with rewritten addresses, and imports of our names from `declarations`."""

    def with_address(match: re.Match[str]) -> str:
        # A bare name is looked up in the page's import map.
        address = rewrite(match["url"]) if _is_address(match["url"]) else match["url"]
        return f"{match['head']}{match['quote']}{address}{match['quote']}"

    text = _FROM.sub(with_address, text)
    text = rewrite_dynamic_imports(text, "import.meta.url")
    # A name that the module may declare itself stays as it is.
    declared = {name for names in _DECLARATION.findall(text) for name in _NAME.findall("".join(names))}
    used = set(_USED.findall(text))
    names = [name for name in _WRAPPED if name in used - declared]
    # On the first line, so that line numbers stay.
    return (f'import {{{",".join(names)}}} from "{declarations}";' if names else "") + text


def rewrite_dynamic_imports(text: str, base: str) -> str:
    """Return the script with ``import(…)`` rewritten to ask wombat for the address.

    >>> rewrite_dynamic_imports("x=import('./a.js')", "null")
    "x=____wb_rewrite_import__(null,'./a.js')"
    """
    return _DYNAMIC.sub(f"____wb_rewrite_import__({base},", text)


def share_declarations(text: str) -> str:
    """Return the script with its top-level names shared, because pywb wraps it in a block.

    >>> share_declarations("const a=1").splitlines()[1][:58]
    ';try{if(!("a" in self)){a;Object.defineProperty(self,"a",{'
    """
    names = dict.fromkeys(each for each in _DECLARED.findall(text) if each not in _WRAPPED)
    # A name that exists only within a function is undefined here and is skipped. Others remain one variable.
    shared = "".join(
        f'try{{if(!("{name}" in self)){{{name};Object.defineProperty(self,"{name}",{{configurable:true,'
        f"enumerable:true,get(){{return {name}}},set(_){{{name}=_}}}})}}else self.{name}={name}}}catch(_){{}}"
        for name in list(names)[:_MOST_NAMES]
    )
    return f"{text}\n;{shared}" if shared else text


def rewrite_import_map(text: str, rewrite: Rewrite) -> str:
    """Return the import map with rewritten addresses; invalid ones unchanged (HTML, 8.1.6.3)."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(parsed, dict):
        return text
    import_map: dict[str, Any] = dict(parsed)
    if isinstance(parsed.get("imports"), dict):
        import_map["imports"] = _map(parsed["imports"], rewrite)
    if isinstance(parsed.get("scopes"), dict):
        import_map["scopes"] = {
            rewrite(scope): _map(imports, rewrite) if isinstance(imports, dict) else imports
            for scope, imports in parsed["scopes"].items()
        }
    # It is inside a script element, which its content must not end.
    return json.dumps(import_map).replace("<", "\\u003c")


def script_addresses(urls: Any) -> Rewrite:
    """Return a rewriter of addresses in modules; pywb leaves relative ones unchanged."""
    return lambda url: str(urls.rewrite(urljoin(urls.wburl.url, url), "esm_"))


def _map(imports: dict[str, Any], rewrite: Rewrite) -> dict[str, Any]:
    return {
        (rewrite(name) if _is_address(name) else name): (rewrite(where) if isinstance(where, str) else where)
        for name, where in imports.items()
    }


def _is_address(text: str) -> bool:
    return text.startswith(("/", "./", "../", "http://", "https://"))


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
    modifier: str  # requested modifier, e.g. ``js_``
    origin: str  # where the page is shown


@dataclass(frozen=True, slots=True)
class WombatJob:
    """Read one of wombat's scripts, which are part of pywb."""

    script: str  # name of the file, e.g. ``wombat.js``


def run_rewriter(deadline_s: float) -> None:
    """Do the jobs that arrive on stdin until it ends; body of a maker process with pywb."""

    def do(job: dict[str, Any]) -> bytes:
        if "script" in job:
            return (resources.files("pywb") / "static" / WombatJob(**job).script).read_bytes()
        return rewrite(RewriteJob(**job))

    run_jobs(do, lambda _: deadline_s)


def kind_of(media_type: str, modifier: str) -> str:
    """Return the media type that decides how a text is rewritten; empty: it is not rewritten."""
    if modifier in SCRIPT_MODIFIERS - {"js_"} or media_type in SCRIPT_TYPES:
        return "text/javascript"
    return media_type if media_type in HTML_TYPES else _REWRITTEN.get(media_type, "")


def rewrite(job: RewriteJob) -> bytes:
    """Return the text as it is served at its page's own origin."""
    # In makers only, and when first needed.
    from playback.replay.full.pywb_rewriter import PywbUrlRewriter

    media_type = job.content_type.partition(";")[0]
    body = job.body.encode("latin-1")
    urls = PywbUrlRewriter(
        f"{job.timestamp}{job.modifier}/{job.url}", f"{job.origin}/c/", pywb_static_prefix=f"{job.origin}{STATIC_PATH}"
    )
    if job.modifier == "wkr_":
        # A worker with wombat's half for workers before it.
        info = {
            "prefix": f"{job.origin}/c/",
            "prefixMod": f"{job.origin}/c/{job.timestamp}wkrf_/",
            "originalURL": job.url,
        }
        static = f"{job.origin}{STATIC_PATH}"
        script = json.dumps(f"{static}wombatWorkers.js")  # with our prefix
        line = f"(function(){{self.importScripts({script});new WBWombat({json.dumps(info)})}})();"
        return (line + job.body).encode("latin-1")
    is_imported = job.modifier == "esm_"  # also a script that neither imports nor exports
    if media_type in SCRIPT_TYPES and (is_imported or is_module(job.body)):
        return rewrite_module(job.body, script_addresses(urls), MODULE_PATH).encode("latin-1")
    if media_type in SCRIPT_TYPES:
        body = share_declarations(rewrite_dynamic_imports(job.body, "null")).encode("latin-1")
    _, chunks, _ = _rewriter()(
        _RewriterRecord(job.content_type, body),
        urls,
        None,
        head_insert_func=lambda *_: head_insert(job),
        cdx={"url": job.url, "urlkey": "", "timestamp": job.timestamp},
    )
    return b"".join(chunks)


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
    # A script element must not contain its end tag.
    text = json.dumps(info).replace("<", "\\u003c")
    return (
        f'<script src="{static}full.js"></script>'
        # With CORS, since otherwise imports for the page would have no base (HTML, 8.1.3.4).
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

        self.http_headers = StatusAndHeaders("200 OK", [("Content-Type", self.content_type)], protocol="HTTP/1.1")
        self.rec_headers = StatusAndHeaders("WARC/1.1", [])
        self.raw_stream = io.BytesIO(self.body)

    def content_stream(self) -> io.BytesIO:
        """Return the decoded body."""
        return self.raw_stream


@cache
def _rewriter() -> Any:
    from playback.replay.full.pywb_rewriter import PywbRewriter

    return PywbRewriter(replay_mod=PAGE_MODIFIER)
