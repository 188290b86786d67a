"""Servers whose page is there, however oddly they say so. None may be called gone or failing."""

import gzip
import zlib

from isal import igzip

from links.check_result import CheckVerdict, RedirectHop
from tests.support.behaviour_servers import (
    PAGE,
    Answering,
    BehaviourRequest,
    ServerAction,
    ServerBehaviour,
    Steps,
    always,
    head,
    head_of,
    moved,
    one,
    paths,
    rawly,
    reply,
)

OK = CheckVerdict.OK
CITED = "/cited/page.html"
PDF = b"%PDF-1.7\n" + b"%\xe2\xe3\xcf\xd3\n1 0 obj<</Type/Catalog>>endobj\n" * 200
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunks(body: bytes, size: int = 100) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


def _only_if(name: str, good: str, otherwise: bytes) -> Answering:
    """Return a server of the page for requests whose header contains `good`, compared in lower case."""

    def answer(request: BehaviourRequest) -> Steps:
        response = reply() if good in request.headers.get(name, "") else otherwise
        return [head_of(response) if request.method == "HEAD" else response]

    return answer


def _unless(name: str, bad: str, otherwise: bytes) -> Answering:
    def answer(request: BehaviourRequest) -> Steps:
        response = otherwise if bad in request.headers.get(name, "") else reply()
        return [head_of(response) if request.method == "HEAD" else response]

    return answer


def _cookie_wall(request: BehaviourRequest) -> Steps:
    """Set a cookie and redirect to the same URL, for ever for clients without it."""
    if "seen=1" in request.headers.get("cookie", ""):
        return [reply()]
    return [moved(CITED, Set_Cookie="seen=1; Path=/; HttpOnly")]


def _cookie_elsewhere(request: BehaviourRequest) -> Steps:
    """Set the cookie at another URL, which redirects back."""
    if "sid=abc" in request.headers.get("cookie", ""):
        return [reply()]
    if request.path.startswith("/setcookie"):
        return [moved(CITED, Set_Cookie="sid=abc; Domain=site.test")]
    return [moved("/setcookie?back=1")]


def _headers_too_many(count: int, size: int) -> bytes:
    lines = b"".join(b"X-Filler-%d: %s\r\n" % (at, b"x" * size) for at in range(count))
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + lines + b"\r\n" + PAGE


_LOCATION_BYTES = b"HTTP/1.1 301 Moved\r\nLocation: /stra\xc3\x9fe\r\nContent-Length: 0\r\n\r\n"

HEAD_LIES = (
    *(
        one(f"head-{status}", OK, head(reply(status)), facts={"head_fails": True})
        for status in (400, 401, 403, 404, 405, 406, 410, 411, 414, 418, 500, 501, 502, 503, 504, 520)
    ),
    one("head-hangs", OK, head(ServerAction.HANG), timeout_s=2.4, facts={"head_fails": True}),
    one("head-is-reset", OK, head(ServerAction.RESET), facts={"head_fails": True}),
    one("head-closes-without-a-word", OK, head(), facts={"head_fails": True}),
    one("head-gets-a-body-too", OK, rawly(reply())),
    one("head-without-length", OK, head(reply(length=None)), facts={"head_fails": True}),
    one("head-without-type", OK, head(reply(mime="")), facts={"head_fails": True}),
    one("head-says-length-0", OK, head(reply(body=b"")), facts={"head_fails": True}),
    one("head-is-led-to-the-front-page", OK, head(moved("/"))),
    one("head-is-led-in-circles", OK, head(moved(CITED)), facts={"head_fails": True}),
    one("head-stops-within-the-status-line", OK, head(b"HTTP/1.1 20")),
    one("head-is-answered-in-no-protocol", OK, head(b"What do you want?\n")),
    one("head-asks-to-wait-in-vain-text", OK, head(reply(503, Retry_After="soon"))),
    one("get-only-host", OK, head(ServerAction.RESET), get_only=True, facts={"head_fails": False}),
)

STATUSES = (
    *(one(f"status-{status}", OK, always(reply(status))) for status in (201, 202, 203, 206, 208, 226, 250)),
    one("status-204", OK, always(b"HTTP/1.1 204 No Content\r\n\r\n")),
    one("status-205", OK, always(b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n")),
    one("status-304-unasked", OK, always(b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n')),
    one("status-300-with-a-choice", OK, always(reply(300))),
    one("status-404-with-a-pdf", OK, always(reply(404, PDF, mime="application/pdf"))),
    one("status-without-reason", OK, always(reply().replace(b"200 Whatever", b"200"))),
    one("status-line-of-http-1.0", OK, rawly(reply().replace(b"HTTP/1.1", b"HTTP/1.0"))),
    one("status-line-of-http-2-in-clear", OK, rawly(reply().replace(b"HTTP/1.1", b"HTTP/2"))),
    one(
        "status-line-of-a-radio",
        OK,
        rawly(b"ICY 200 OK\r\nicy-name: Radio\r\nContent-Type: audio/mpeg\r\n\r\n" + b"\xff\xfb\x90" * 99),
    ),
    one("interim-answers-103-first", OK, rawly(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" * 3, reply())),
    one("interim-answer-100-unasked", OK, rawly(b"HTTP/1.1 100 Continue\r\n\r\n" + reply())),
)

FRAMING = (
    one("lines-end-with-lf-alone", OK, rawly(reply().replace(b"\r\n", b"\n"))),
    one("header-without-a-colon", OK, rawly(reply().replace(b"\r\n", b"\r\nnonsense here\r\n", 1))),
    one("header-with-raw-letters", OK, always(reply(Server="M\xfcnchen \xa9"))),
    one("header-name-with-a-blank", OK, rawly(reply().replace(b"Content-Type:", b"Content-Type :"))),
    one("header-folded-over-lines", OK, rawly(reply(X_Long="a\r\n\tb\r\n c"))),
    one("header-with-a-nul", OK, rawly(reply(X_Odd="a\x00b"))),
    one("headers-doubled-and-contradicting", OK, rawly(reply(Content_length="7, 7"))),
    one("headers-of-a-hundred-kilobytes", OK, rawly(_headers_too_many(100, 1000))),
    one("headers-by-the-thousand", OK, rawly(_headers_too_many(2000, 5))),
    one("blank-lines-before-the-answer", OK, rawly(b"\r\n\r\n" + reply())),
    one("answer-without-a-head", OK, rawly(PAGE)),
    one("length-too-long", OK, always(reply(length=99_999)), get_only=True),
    one("length-too-short", OK, rawly(reply(length=300)), get_only=True),
    one("length-is-no-number", OK, rawly(reply().replace(b"Content-Length: ", b"Content-Length: x"))),
    one("length-is-negative", OK, rawly(reply(length=None, Content_Length="-1"))),
    one("length-beyond-64-bits", OK, rawly(reply(length=None, Content_Length="9" * 40))),
    one("chunks-in-order", OK, rawly(CHUNKED + _chunks(PAGE) + b"0\r\n\r\n"), get_only=True),
    one("chunks-then-garbage", OK, rawly(CHUNKED + _chunks(PAGE) + b"zzz\r\nwhat?"), get_only=True),
    one("chunks-without-an-end", OK, rawly(CHUNKED + _chunks(PAGE)), get_only=True),
    one("chunks-announced-and-not-sent", OK, rawly(CHUNKED + PAGE), get_only=True),
    one("body-then-silence", OK, rawly(reply(length=99_999), ServerAction.KEEP), timeout_s=1, get_only=True),
    one("kept-alive-then-silence", OK, rawly(reply(), ServerAction.KEEP)),
    one("body-without-end", OK, rawly(reply(length=None), PAGE * 50, ServerAction.ENDLESS), get_only=True),
    one(
        "body-of-an-endless-line",
        OK,
        rawly(reply(body=b"<p>", length=None), b"a" * 65_536, ServerAction.ENDLESS),
        get_only=True,
    ),
    one("body-drips", OK, rawly(reply(length=99_999), b"x", ServerAction.DRIP), timeout_s=1, get_only=True),
    one("head-drips-in-time", OK, rawly(*(bytes([byte]) for byte in reply()))),
    one("reset-after-the-head", OK, rawly(reply(length=99_999), ServerAction.RESET), facts={"http": 200}),
    one("reset-within-the-body", OK, rawly(reply(body=PAGE * 20, length=999_999), ServerAction.RESET)),
)

CODINGS = (
    one("coding-gzip", OK, always(reply(body=gzip.compress(PAGE), Content_Encoding="gzip")), get_only=True),
    one("coding-gzip-broken", OK, always(reply(body=gzip.compress(PAGE)[:-30], Content_Encoding="gzip")), get_only=True),
    one("coding-gzip-is-garbage", OK, always(reply(body=b"\x1f\x8b\x08" + b"?" * 99, Content_Encoding="gzip")), get_only=True),
    one("coding-gzip-announced-only", OK, always(reply(Content_Encoding="gzip")), get_only=True),
    one("coding-deflate-bare", OK, always(reply(body=zlib.compress(PAGE)[2:-4], Content_Encoding="deflate")), get_only=True),
    one("coding-brotli-unasked", OK, always(reply(body=b"\x1b\x4d\x03" * 30, Content_Encoding="br")), get_only=True),
    one("coding-nobody-knows", OK, always(reply(Content_Encoding="x-rot13")), get_only=True),
    one("coding-of-a-bomb", OK, always(reply(body=igzip.compress(bytes(30_000_000), 1), Content_Encoding="gzip")), get_only=True),
    one("charset-wrong", OK, always(reply(body=PAGE + "Grüße".encode("utf-16"), mime="text/html; charset=utf-8")), get_only=True),
    one("charset-nobody-knows", OK, always(reply(mime="text/html; charset=klingon-8")), get_only=True),
    one("charset-that-is-none", OK, always(reply(mime="text/html; charset=base64")), get_only=True),
    one("type-missing", OK, always(reply(mime="")), get_only=True),
    one("type-is-nonsense", OK, always(reply(mime="html")), get_only=True),
    one("type-pdf-named-as-page", OK, always(reply(body=PDF)), get_only=True, facts={"mime": "application/pdf"}),
    one("type-of-a-large-file", OK, always(reply(body=b"", length=5_000_000_000, mime="video/mp4"))),
)  # fmt: skip

WHO_ASKS = (
    one("refuses-the-word-link", OK, _unless("user-agent", "link", reply(403))),
    one("refuses-pythons", OK, _unless("user-agent", "python", reply(403))),
    one("wants-a-user-agent", OK, _only_if("user-agent", "mozilla/", reply(403))),
    one("wants-a-language", OK, _only_if("accept-language", "en", reply(403))),
    one("wants-accept-html", OK, _only_if("accept", "text/html", reply(406))),
    one("wants-a-host-without-port", OK, _only_if("host", "site.test", reply(400))),
    one("wants-no-referer", OK, _unless("referer", "h", reply(403))),
    one("wants-a-contact", OK, _only_if("user-agent", "+https://wiki.test/", reply(403))),
    one("cookie-then-the-same-url", OK, _cookie_wall),
    one("cookie-from-another-url", OK, _cookie_elsewhere),
)  # fmt: skip

MOVES = (
    *(one(f"moved-{status}", OK, paths({CITED: moved("/new/page", status), "/new/page": reply()}),
          facts={"final_url": "http://site.test/new/page"})
      for status in (301, 302, 303, 307, 308)),
    one("moved-by-a-relative-location", OK, paths({CITED: moved("../new/page?x=1"), "/new/page?x=1": reply()})),
    one("moved-by-a-location-without-scheme", OK, paths({CITED: moved("//site.test/new"), "/new": reply()})),
    one("moved-by-raw-letters", OK, paths({CITED: _LOCATION_BYTES, "/stra%C3%9Fe": reply()})),
    one("moved-by-latin-letters", OK, paths({CITED: moved("/stra\xdfe"), "/stra%C3%9Fe": reply()})),
    one("moved-by-blanks", OK, paths({CITED: moved("/new page"), "/new%20page": reply()})),
    one("moved-by-backslashes", OK, paths({CITED: moved("\\new\\page"), "/new/page": reply()})),
    one("moved-by-a-fragment", OK, paths({CITED: moved("/new#part"), "/new": reply()})),
    one("moved-by-upper-case", OK, paths({CITED: moved("HTTP://SITE.TEST/new"), "/new": reply()})),
    one("moved-ten-times", OK, paths({CITED: moved("/1")} | {f"/{n}": moved(f"/{n + 1}") for n in range(1, 10)} | {"/10": reply()})),
    one("moved-by-a-page-that-renews-itself", OK, paths({CITED: reply(body=b"<meta http-equiv=refresh content='0; url=/new'>"), "/new": reply()}), get_only=True, facts={"final_url": "http://site.test/new"}),
    one("moved-by-a-refresh-header", OK, paths({CITED: reply(Refresh="0; url=/new"), "/new": reply()}), facts={"final_url": "http://site.test/new"}),
    one("renews-itself-each-minute", OK, always(reply(body=b"<meta http-equiv='refresh' content='60'>" + PAGE)), get_only=True, facts={"hops": ()}),
    one("moved-from-root-to-language", OK, paths({"/": moved("/en/"), "/en/": reply()}), url="http://site.test/"),
    one("moved-from-index-to-root", OK, paths({"/index.php": moved("/"), "/": reply()}), url="http://site.test/index.php"),
    ServerBehaviour("moved-to-another-host", OK, {"site.test:80": always(moved("http://other.test/cited/page.html", 301)), "other.test:80": always(reply())}, facts={"code": 8}),
    ServerBehaviour("moved-by-a-shortener", OK, {"bit.ly:80": always(moved("http://site.test/")), "site.test:80": always(reply())}, url="http://bit.ly/3xYz"),
    ServerBehaviour("moved-to-https", OK, {"site.test:80": always(moved("https://site.test" + CITED, 301)), "site.test:443": always(reply())}, facts={"code": 63}),
    ServerBehaviour("answers-https-alone", OK, {"site.test:443": always(reply())}, note="scheme: https alone", facts={"code": 63, "hops": (RedirectHop(0, "https://site.test" + CITED),)}),
    ServerBehaviour("speaks-no-tls-though-https", OK, {"site.test:443": always(reply()), "site.test:80": always(reply())}, url="https://site.test" + CITED, tls="none", note="scheme", facts={"code": 63}),
    ServerBehaviour("page-about-errors", OK, {"site.test:80": always(reply(body=PAGE.replace(b"The old bridge", b"404 Not Found - how to fix it")))}, url="http://site.test/blog/fix-404-not-found", get_only=True),
    ServerBehaviour("page-about-parked-cars", OK, {"site.test:80": always(reply(body=PAGE.replace(b"The old bridge", b"Parked cars for sale")))}, get_only=True),
    ServerBehaviour("page-about-logins", OK, {"site.test:80": paths({"/docs/login": moved("/docs/login/"), "/docs/login/": reply()})}, url="http://site.test/docs/login"),
)  # fmt: skip

_TLS = "https://site.test" + CITED
TLS = (
    *(ServerBehaviour(f"certificate-{kind}", OK, {"site.test:443": always(reply())}, url=_TLS, tls=kind,
                note="tls: " + flaw, facts={"tls_fault": flaw, "code": 72})
      for kind, flaw in (("expired", "expired"), ("not-yet-valid", "not yet valid"),
                         ("self-signed", "self-signed"), ("wrong-host", "wrong host"),
                         ("unknown-issuer", "unknown issuer"), ("weak-key", "weak key"),
                         ("old-protocol", "old protocol"))),
    ServerBehaviour("certificate-good", OK, {"site.test:443": always(reply())}, url=_TLS, facts={"tls_fault": "", "code": 1}),
    ServerBehaviour("certificate-needs-the-name", OK, {"site.test:443": always(reply())}, url=_TLS, tls="sni", facts={"tls_fault": ""}),
    ServerBehaviour("certificate-asked-of-us-in-vain", OK, {"site.test:443": always(reply())}, url=_TLS, tls="client-optional", facts={"tls_fault": ""}),
    ServerBehaviour("tls-ends-without-farewell", OK, {"site.test:443": rawly(reply(length=None), ServerAction.RESET)}, url=_TLS),
)  # fmt: skip

ALIVE = (*HEAD_LIES, *STATUSES, *FRAMING, *CODINGS, *WHO_ASKS, *MOVES, *TLS)
