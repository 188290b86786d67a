"""The rule pages: one URL for each rule of HTTP that the project must keep, or bear the breach of.

Every page is a function of the request alone. `PAGES` names those that end by themselves; the
catalogue at ``/`` links to all.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from tests.support.sites import hosts
from tests.support.sites.encodings import MEGABYTE, brotli_stored, deflated, gzipped, incompressible, raw_deflated
from tests.support.sites.http1 import Answer, PacedWriter, SiteReply, SiteRequest, chunked_head, response
from tests.support.sites.pages import FRAMES, LAZY, PDF, PIXEL, SCRIPT_BUILT, TEXT, page, picture, typeface_page

Rule = Callable[[SiteRequest, str], Answer]

_REDIRECTS = {"301", "302", "303", "307", "308"}
_CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "identity": ("", bytes),
    "gzip": ("gzip", gzipped),
    "deflate": ("deflate", deflated),
    "raw-deflate": ("deflate", raw_deflated),
    "br": ("br", brotli_stored),
}


@dataclass(frozen=True, slots=True)
class RuleSites:
    """The hosts that serve rule pages.

    Attributes:
        typeface: the bytes of a TrueType font for ``/font.ttf``; empty when there is none.
    """

    typeface: bytes = b""

    def __call__(self, request: SiteRequest) -> Answer:
        """Answer by the first part of the path."""
        if request.path == "/robots.txt":
            return _robots(request)
        if request.path == "/font.ttf":
            return response(200 if self.typeface else 404, self.typeface, content_type="font/ttf")
        name, _, rest = request.path.lstrip("/").partition("/")
        rule = RULES.get(name)
        return response(404, page("Not found", "No such page.")) if rule is None else rule(request, rest)


def _robots(request: SiteRequest) -> SiteReply:
    if request.host == hosts.SICKROBOTS:
        return response(500, "The robots are unwell.", content_type="text/plain")
    rule = "Disallow: /\n" if request.host == hosts.NOROBOTS else "Disallow: /forbidden/\nCrawl-delay: 1\n"
    return response(body=f"User-agent: *\n{rule}", content_type="text/plain")


def _catalogue(request: SiteRequest, rest: str) -> SiteReply:
    links = "".join(f'<li><a href="{path}">{path}</a>' for path in PAGES)
    return response(body=page("The rule pages", f"<ul>{links}</ul>"))


def _text(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/page/<name>``: a plain page with its own text."""
    return response(body=page(f"Page {rest}", f"<p>{TEXT}</p><p>This is page {rest}.</p>"))


def _redirect(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/redirect/…``: <status>, chain/<n>, loop, to-https, to-other, meta, script, nowhere."""
    kind, _, extra = rest.partition("/")
    if kind in _REDIRECTS:
        return _moved(int(kind), "/page/target")
    if kind == "chain" and extra.isdigit():
        left = int(extra)
        status = (301, 302, 307)[left % 3]
        return _moved(status, f"/redirect/chain/{left - 1}" if left > 1 else "/page/target")
    targets = {
        "loop": "/redirect/loop",
        "to-https": f"https://{request.host}/page/target",
        "to-other": f"//{hosts.OTHER}/page/target",
        "to-404": "/status/404",
        "to-home": "/",
        "malformed": "http://[broken/",
        "no-location": "",
    }
    if kind in targets:
        return _moved(302, targets[kind])
    if kind == "meta":
        head = '<meta http-equiv="refresh" content="0; url=/page/target">'
        return response(body=page("Moved", "<p>Moved.</p>", head=head))
    if kind == "script":
        return response(body=page("Moved", "<script>location.replace('/page/target')</script>"))
    return response(404, page("Not found", "No such redirect."))


def _moved(status: int, location: str) -> SiteReply:
    headers = (("Location", location),) if location else ()
    return response(status, page("Moved", f"<p>Moved to {location}.</p>"), headers=headers)


def _status(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/status/<code>[/<when>]``: that status; seconds or a date become a Retry-After."""
    code, _, retry = unquote(rest).partition("/")
    status = int(code) if code.isdigit() and 200 <= int(code) <= 599 else 404
    headers = (("Retry-After", retry),) if retry else ()
    body = b"" if status in {204, 304} else page(f"Status {status}", f"<p>Status {status}.</p>")
    return response(status, body, headers=headers)


def _challenge(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/challenge``: the page that Cloudflare sends to suspected bots."""
    body = page(
        "Just a moment...",
        "<p>Verifying you are human. This may take a few seconds.</p><script>window._cf_chl_opt = {}</script>",
    )
    headers = (("cf-mitigated", "challenge"), ("Retry-After", "1"))
    return response(403, body, headers=headers)


def _slow(request: SiteRequest, rest: str) -> Answer:
    """Serve ``/slow/first-byte/<seconds>``, ``/slow/drip/<seconds>``, ``/slow/image/<seconds>``."""
    kind, _, seconds = rest.partition("/")
    wait = float(seconds or 1)

    async def first_byte(out: PacedWriter) -> None:
        await asyncio.sleep(wait)
        await out.reply(response(body=page("Slow", f"<p>The first byte took {wait} s.</p>")))

    async def image(out: PacedWriter) -> None:
        await asyncio.sleep(wait)
        await out.reply(response(body=PIXEL, content_type="image/png"))

    async def drip(out: PacedWriter) -> None:
        body = page("Dripping", f"<p>{TEXT}</p>").encode()
        await out.write(chunked_head())
        pieces = [body[at : at + max(1, len(body) // 20)] for at in range(0, len(body), max(1, len(body) // 20))]
        for piece in pieces:
            await out.chunk(piece)
            await asyncio.sleep(wait / len(pieces))
        await out.chunk(b"")

    answers: dict[str, Answer] = {"first-byte": first_byte, "drip": drip, "image": image}
    return answers.get(kind, first_byte)


def _endless(request: SiteRequest, rest: str) -> Answer:
    """Serve ``/endless/<kind>``: body, image or text that goes on until the client disconnects."""
    kinds = {"image": "image/jpeg", "text": "text/plain; charset=utf-8"}
    content_type = kinds.get(rest, "text/html; charset=utf-8")

    async def endless(out: PacedWriter) -> None:
        await out.write(chunked_head(content_type))
        await out.chunk(picture(1) if rest == "image" else b"<!doctype html><title>Endless</title>\n")
        for block in incompressible(1 << 62, "endless"):
            await out.chunk(block if rest == "image" else block.hex().encode() + b"\n")
            await asyncio.sleep(0.02)

    return endless


def _holder(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/with/<path>``: a page that contains the picture ``/<path>``, to see what a bad one does."""
    return response(body=page(f"With {rest}", f'<p>{TEXT}</p><img src="/{rest}" alt="bad">'))


def _broken(request: SiteRequest, rest: str) -> Answer:
    """Serve ``/broken/<how>``: short, chunk, head, empty, reset, garbage, and more."""
    body = page("Broken", f"<p>{TEXT}</p>").encode()

    async def short(out: PacedWriter) -> None:
        await out.reply(response(body=body, length=len(body) + 1_000))
        out.close()

    async def chunk(out: PacedWriter) -> None:
        await out.write(chunked_head() + b"%x\r\n%b" % (len(body) + 500, body))
        out.close()

    async def raw(out: PacedWriter) -> None:
        await out.write(
            {
                "head": b"HTTP/1.1 200 OK\r\nContent-Type: text/ht",
                "garbage": b"\x00\xff\x00 this is not HTTP at all \r\n\r\n",
                "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\nhello",
                "empty": b"",
                "chunk-size": chunked_head() + b"5\r\nhello\r\n-2\r\nxx\r\n0\r\n\r\n",
                "gzip": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n"
                b"Content-Length: 20\r\n\r\n\x1f\x8b\x08\x00no gzip at all!!",
            }.get(rest, b"")
        )
        out.close()

    async def reset(out: PacedWriter) -> None:
        await out.write(chunked_head() + b"%x\r\n%b\r\n" % (len(body), body))
        out.abort()

    answers: dict[str, Answer] = {"short": short, "chunk": chunk, "reset": reset}
    return answers.get(rest, raw)


def _large(request: SiteRequest, rest: str) -> Answer:
    """Serve ``/large/<megabytes>[/chunked]``: incompressible bytes, always the same."""
    megabytes, _, way = rest.partition("/")
    size = int(float(megabytes or 1) * MEGABYTE)

    async def whole(out: PacedWriter) -> None:
        head = response(content_type="application/octet-stream", length=size)
        await out.reply(head)
        if out.request.method != "HEAD":
            for block in incompressible(size):
                await out.write(block)

    async def chunked(out: PacedWriter) -> None:
        await out.write(chunked_head("application/octet-stream"))
        for block in incompressible(size):
            await out.chunk(block)
        await out.chunk(b"")

    return chunked if way == "chunked" else whole


def _encoding(request: SiteRequest, rest: str) -> Answer:
    """Serve ``/encoding/<coding>[/chunked|/close]``: a page in that coding, framed that way."""
    name, _, framing = rest.partition("/")
    if name not in _CODINGS:
        return response(404, page("Not found", "No such coding."))
    label, encode = _CODINGS[name]
    body = encode(page(f"Coded {name}", f"<p>{TEXT * 20}</p>").encode())
    headers = (("Content-Encoding", label),) if label else ()

    async def chunked(out: PacedWriter) -> None:
        await out.write(chunked_head(headers=headers))
        for at in range(0, len(body), 700):
            await out.chunk(body[at : at + 700])
        await out.chunk(b"")

    async def close(out: PacedWriter) -> None:
        coding = f"Content-Encoding: {label}\r\n" if label else ""
        await out.write(f"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n{coding}\r\n".encode() + body)
        out.close()

    answers: dict[str, Answer] = {"chunked": chunked, "close": close}
    return answers.get(framing) or response(body=body, headers=headers)


def _duplicate(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/duplicate/<anything>``: one payload at any number of URLs."""
    return response(body=page("Always the same", f"<p>{TEXT}</p>"))


def _picture(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/picture/<n>.jpg``: a picture of its own bytes for each n."""
    number = rest.partition(".")[0]
    if not number.isdigit():
        return response(404, page("Not found", "No such picture."))
    return response(body=picture(int(number)), content_type="image/jpeg")


def _cookies(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/cookies/set``, which sets two, and ``/cookies/show``, which shows those that came back."""
    sent = request.header("cookie") or "none"
    headers = (
        (("Set-Cookie", "session=abc123; Path=/; HttpOnly"), ("Set-Cookie", "theme=dark; Path=/"))
        if rest == "set"
        else ()
    )
    return response(body=page("Cookies", f"<p>Cookies: {sent}</p>"), headers=headers)


def _echo(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/headers``: the request as JSON: method, url, headers (pairs), length of the body."""
    document = {
        "method": request.method,
        "url": f"{request.scheme}://{request.host}{request.target}",
        "headers": [list(pair) for pair in request.headers],
        "body_length": len(request.body),
    }
    return response(body=json.dumps(document), content_type="application/json")


def _noarchive(request: SiteRequest, rest: str) -> SiteReply:
    """Serve ``/noarchive/header`` and ``/noarchive/meta``: a page with the noarchive directive."""
    if rest == "header":
        return response(body=page("Not to be kept", f"<p>{TEXT}</p>"), headers=(("X-Robots-Tag", "noarchive"),))
    head = '<meta name="robots" content="noarchive">'
    return response(body=page("Not to be kept", f"<p>{TEXT}</p>", head=head))


def _fixed(body: str | bytes, content_type: str = "text/html; charset=utf-8") -> Rule:
    ready = response(body=body, content_type=content_type)

    def rule(request: SiteRequest, rest: str) -> Answer:
        return ready

    return rule


RULES: dict[str, Rule] = {
    "": _catalogue,
    "page": _text,
    "forbidden": _text,
    "redirect": _redirect,
    "status": _status,
    "challenge": _challenge,
    "slow": _slow,
    "endless": _endless,
    "with": _holder,
    "broken": _broken,
    "large": _large,
    "encoding": _encoding,
    "duplicate": _duplicate,
    "picture": _picture,
    "cookies": _cookies,
    "headers": _echo,
    "noarchive": _noarchive,
    "document.pdf": _fixed(PDF, "application/pdf"),
    "pixel.png": _fixed(PIXEL, "image/png"),
    "favicon.ico": _fixed(PIXEL, "image/png"),
    "lazy": _fixed(LAZY),
    "frames": _fixed(FRAMES),
    "fonts": _fixed(typeface_page()),
    "surrogates": _fixed(page("S", "<script>document.title = 'a\\ud800b'; document.body.append('x\\udc00y')</script>")),
    "script-built": _fixed(SCRIPT_BUILT),
    "data.json": _fixed(json.dumps({"items": [f"Item {n}" for n in range(40)]}), "application/json"),
}

PAGES = (
    "/",
    "/page/plain",
    *(f"/redirect/{status}" for status in sorted(_REDIRECTS)),
    "/redirect/chain/5",
    "/redirect/loop",
    "/redirect/to-https",
    "/redirect/to-other",
    "/redirect/to-404",
    "/redirect/to-home",
    "/redirect/malformed",
    "/redirect/no-location",
    "/redirect/meta",
    "/redirect/script",
    "/status/404",
    "/status/410",
    "/status/401",
    "/status/403",
    "/status/451",
    "/status/429/2",
    "/status/500",
    "/status/503/2",
    "/status/204",
    "/document.pdf",
    "/picture/1.jpg",
    "/slow/first-byte/1",
    "/slow/drip/1",
    "/broken/short",
    "/broken/chunk",
    "/broken/head",
    "/broken/empty",
    "/broken/reset",
    "/broken/garbage",
    "/broken/two-lengths",
    "/with/broken/short",
    "/large/3",
    "/large/3/chunked",
    *(f"/encoding/{name}" for name in _CODINGS),
    "/encoding/gzip/chunked",
    "/encoding/identity/chunked",
    "/encoding/identity/close",
    "/duplicate/1",
    "/duplicate/2",
    "/lazy",
    "/frames",
    "/fonts",
    "/script-built",
    "/cookies/set",
    "/cookies/show",
    "/headers",
    "/noarchive/header",
    "/noarchive/meta",
    "/forbidden/page",
)  # everything that ends by itself

ENDLESS = ("/endless/body", "/endless/image", "/endless/text", "/with/endless/image")
