"""Servers whose page is gone, fails for now, is kept from us, or may be something else."""

import random
import string

from links.check_result import CheckVerdict
from tests.links.behaviours.alive import CITED
from tests.support.behaviour_servers import (
    PAGE,
    Answering,
    BehaviourRequest,
    ServerAction,
    ServerBehaviour,
    Steps,
    always,
    head,
    moved,
    one,
    paths,
    rawly,
    reply,
)

ERROR = b"<html><head><title>404 Not Found</title></head><body><h1>Not Found</h1></body></html>"
JSON = b'{"error": "not found"}'

GONE = (
    one("gone-404", CheckVerdict.GONE, always(reply(404, ERROR))),
    one("gone-410", CheckVerdict.GONE, always(reply(410, ERROR))),
    one("gone-404-by-both", CheckVerdict.GONE, rawly(reply(404, ERROR))),
    one("gone-404-without-a-body", CheckVerdict.GONE, always(reply(404, b""))),
    one("gone-404-with-a-large-page", CheckVerdict.GONE, always(reply(404, PAGE * 200))),
    one("gone-404-in-json", CheckVerdict.GONE, always(reply(404, JSON, mime="application/json"))),
    one("gone-404-although-head-is-fine-without-length", CheckVerdict.GONE, head(reply(length=None), get=reply(404))),
    one("gone-404-and-then-reset", CheckVerdict.GONE, rawly(reply(404, ERROR, length=9_999), ServerAction.RESET)),
    one("gone-404-and-then-silence", CheckVerdict.GONE, rawly(reply(404, ERROR, length=9_999), ServerAction.HANG), timeout_s=1, get_only=True),
    one("gone-404-of-lf-lines", CheckVerdict.GONE, rawly(reply(404).replace(b"\r\n", b"\n"))),
    one("gone-404-with-retry-after", CheckVerdict.GONE, always(reply(404, Retry_After="60"))),
    one("gone-after-a-redirect", CheckVerdict.GONE, paths({CITED: moved("/new", 301)})),
    one("gone-after-a-refresh", CheckVerdict.GONE, paths({CITED: reply(body=b"<meta http-equiv=refresh content=0;/new>")}), get_only=True),
    one("gone-410-behind-cloudflare", CheckVerdict.GONE, always(reply(410, Server="cloudflare", CF_RAY="1-FRA"))),
)  # fmt: skip


def _forever(request: BehaviourRequest) -> Steps:
    """Redirect for ever, to another URL each time."""
    return [moved("/" + "".join(random.choices(string.ascii_lowercase, k=20)))]


def _new_cookies(request: BehaviourRequest) -> Steps:
    """Redirect to the same URL with another cookie each time."""
    return [moved(CITED, Set_Cookie=f"c={random.random()}")]


TEMPORARY = (
    *(one(f"fails-{status}", CheckVerdict.FAILING, always(reply(status, b"<h1>Error</h1>")))
      for status in (400, 408, 414, 431, 500, 501, 502, 503, 504, 508, 520, 521, 522, 523, 525, 526, 530)),
    one("fails-503-with-a-captcha-in-a-form", CheckVerdict.FAILING, always(reply(503, b"<h1>Down</h1><form class=g-recaptcha>"))),
    one("fails-503-through-cloudflare", CheckVerdict.FAILING, always(reply(503, b"<h1>Down</h1><script src=/cdn-cgi/challenge-platform/scripts/jsd/main.js>", Server="cloudflare"))),
    one("fails-530-of-cloudflare's", CheckVerdict.FAILING, always(reply(530, b"<div id=cf-error-details>Error 1016: Origin DNS error</div>", Server="cloudflare"))),
    one("fails-503-with-a-wish-of-garbage", CheckVerdict.FAILING, always(reply(503, b"", Retry_After="when it is done"))),
    one("fails-503-with-a-negative-wish", CheckVerdict.FAILING, always(reply(503, b"", Retry_After="-5"))),
    one("hangs", CheckVerdict.FAILING, rawly(ServerAction.HANG), note="answer: time-out", timeout_s=0.8),
    one("hangs-within-the-status-line", CheckVerdict.FAILING, rawly(b"HTTP/1.1 2", ServerAction.HANG), note="answer: time-out", timeout_s=0.8),
    one("drips-a-head-for-ever", CheckVerdict.FAILING, rawly(b"H", ServerAction.HANG), timeout_s=0.8),
    one("resets-at-once", CheckVerdict.FAILING, rawly(ServerAction.RESET), note="answer: "),
    one("closes-without-a-word", CheckVerdict.FAILING, rawly(), note="answer: none"),
    one("answers-as-ssh", CheckVerdict.FAILING, rawly(b"SSH-2.0-OpenSSH_9.2\r\n"), note="answer: not HTTP"),
    one("answers-as-mail", CheckVerdict.FAILING, rawly(b"220 mail.site.test ESMTP\r\n"), note="answer: not HTTP"),
    one("answers-in-bytes", CheckVerdict.FAILING, rawly(bytes(range(256)) * 300), note="answer: not HTTP"),
    one("interim-answers-for-ever", CheckVerdict.FAILING, rawly(b"HTTP/1.1 102 Processing\r\n\r\n", ServerAction.ENDLESS), note="answer: not HTTP"),
    one("interim-answer-and-no-other", CheckVerdict.FAILING, rawly(b"HTTP/1.1 103 Early Hints\r\n\r\n")),
    one("switches-protocols-unasked", CheckVerdict.FAILING, rawly(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")),
    one("leads-to-itself", CheckVerdict.FAILING, always(moved(CITED)), note="redirect: loop"),
    one("leads-there-and-back", CheckVerdict.FAILING, paths({CITED: moved("/b"), "/b": moved(CITED)}), note="redirect: loop"),
    one("leads-on-for-ever", CheckVerdict.FAILING, _forever, note="redirect: too many"),
    one("leads-to-itself-with-new-cookies", CheckVerdict.FAILING, _new_cookies, note="redirect: too many"),
    ServerBehaviour("nobody-listens", CheckVerdict.FAILING, {}, note="connection: refused", facts={"whole_host": True, "http": None}),
    ServerBehaviour("leads-where-nobody-listens", CheckVerdict.FAILING, {"site.test:80": always(moved("http://other.test/"))}, note="connection: refused", facts={"whole_host": False}),
)  # fmt: skip

_PX = b"<script>window._pxAppId='PXabc'</script><div id=px-captcha></div>"
_MOMENT = b"<html><head><title>Just a moment...</title></head><body><script>window._cf_chl_opt={cvId:3}</script>"

REFUSED = (
    *(one(f"refuses-{status}", CheckVerdict.REFUSED, always(reply(status, b"<h1>No</h1>")))
      for status in (401, 402, 403, 405, 406, 407, 418, 423, 426, 428, 444, 449, 451, 505, 999)),
    one("challenge-cloudflare-403", CheckVerdict.REFUSED, always(reply(403, _MOMENT, cf_mitigated="challenge", Server="cloudflare")), note="challenge: cloudflare"),
    one("challenge-cloudflare-503", CheckVerdict.REFUSED, always(reply(503, _MOMENT, Server="cloudflare")), note="challenge: cloudflare"),
    one("challenge-cloudflare-503-with-a-wish", CheckVerdict.REFUSED, always(reply(503, _MOMENT, cf_mitigated="challenge", Retry_After="10")), note="challenge"),
    one("challenge-cloudflare-429", CheckVerdict.REFUSED, always(reply(429, b"", cf_mitigated="challenge")), note="challenge"),
    one("challenge-cloudflare-200", CheckVerdict.REFUSED, always(reply(200, _MOMENT)), get_only=True, note="challenge"),
    one("challenge-akamai", CheckVerdict.REFUSED, always(reply(403, b"<title>Access Denied</title>", Server="AkamaiGHost")), note="challenge"),
    one("challenge-perimeterx", CheckVerdict.REFUSED, always(reply(403, _PX)), note="challenge: perimeterx"),
    one("challenge-datadome", CheckVerdict.REFUSED, always(reply(403, b"<script src=https://ct.captcha-delivery.com/c.js>", X_DataDome="protected")), note="challenge: datadome"),
    one("challenge-incapsula", CheckVerdict.REFUSED, always(reply(200, b"<html><head><title>Pardon Our Interruption</title></head><iframe src=/_Incapsula_Resource?x>")), get_only=True, note="challenge: incapsula"),
    one("challenge-sucuri", CheckVerdict.REFUSED, always(reply(403, b"<title>Sucuri WebSite Firewall - Access Denied</title>", X_Sucuri_Block="BLACKLISTED")), note="challenge: sucuri"),
    one("challenge-ddos-guard", CheckVerdict.REFUSED, always(reply(403, b"<title>DDOS-GUARD</title>", Server="ddos-guard")), note="challenge: ddos-guard"),
    one("challenge-aws-waf-202", CheckVerdict.REFUSED, always(reply(202, b"", x_amzn_waf_action="challenge")), note="challenge: aws-waf"),
    one("challenge-aws-waf-405", CheckVerdict.REFUSED, always(reply(405, b"", x_amzn_waf_action="captcha")), note="challenge: aws-waf"),
    one("wants-our-certificate-in-words", CheckVerdict.REFUSED, always(reply(400, b"<title>400 No required SSL certificate was sent</title>")), note="challenge: wants a certificate"),
    one("led-to-a-login", CheckVerdict.REFUSED, paths({CITED: moved("/login?next=x"), "/login?next=x": reply()}), note="redirect: login"),
    one("led-to-a-wordpress-login", CheckVerdict.REFUSED, paths({CITED: moved("/wp-login.php"), "/wp-login.php": reply()}), note="redirect: login"),
    ServerBehaviour("led-to-another-host's-login", CheckVerdict.REFUSED, {"site.test:80": always(moved("http://accounts.other.test/v3/x")), "accounts.other.test:80": always(reply())}, note="redirect: login"),
    ServerBehaviour("led-to-a-consent-gate", CheckVerdict.REFUSED, {"site.test:80": always(moved("http://consent.other.test/m?continue=x")), "consent.other.test:80": always(reply())}, note="redirect: consent"),
)  # fmt: skip

UNDECIDED = (
    one("later-429", CheckVerdict.UNDECIDED, always(reply(429, b"")), facts={"retry_after_s": None}),
    one("later-429-in-two-minutes", CheckVerdict.UNDECIDED, always(reply(429, b"", Retry_After="120")), facts={"retry_after_s": 120.0}),
    one("later-429-in-thirty-years", CheckVerdict.UNDECIDED, always(reply(429, b"", Retry_After="1000000000")), facts={"retry_after_s": 604_800.0}),
    one("later-429-yesterday", CheckVerdict.UNDECIDED, always(reply(429, b"", Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")), facts={"retry_after_s": 0.0}),
    one("later-429-in-garbage", CheckVerdict.UNDECIDED, always(reply(429, b"", Retry_After="\xff\xfe")), facts={"retry_after_s": None}),
    one("later-429-in-1e400-seconds", CheckVerdict.UNDECIDED, always(reply(429, b"", Retry_After="9" * 60)), facts={"retry_after_s": 604_800.0}),
    one("later-503-in-an-hour", CheckVerdict.UNDECIDED, always(reply(503, b"", Retry_After="3600")), facts={"retry_after_s": 3600.0}),
    one("later-509", CheckVerdict.UNDECIDED, always(reply(509, b""))),
    one("our-gate-511", CheckVerdict.UNDECIDED, always(reply(511, b"<a href=http://hotel.test/>Sign in</a>"))),
    one("led-to-a-private-address", CheckVerdict.UNDECIDED, always(moved("http://10.0.0.1/")), note="address", facts={"whole_host": False}),
    one("led-to-our-cloud's-secrets", CheckVerdict.UNDECIDED, always(moved("http://169.254.169.254/latest/meta-data/")), note="address"),
    one("led-to-a-mapped-address", CheckVerdict.UNDECIDED, always(moved("http://[::ffff:10.0.0.1]/")), note="address"),
    one("led-to-a-hexadecimal-address", CheckVerdict.UNDECIDED, always(moved("http://0xa000001/")), note="address"),
    ServerBehaviour("at-a-private-address", CheckVerdict.UNDECIDED, {}, url="http://192.168.1.1/router", note="address"),
    ServerBehaviour("at-an-octal-private-address", CheckVerdict.UNDECIDED, {}, url="http://0300.0250.1.1/", note="address"),
)  # fmt: skip

_SALE = b"<title>site.test</title><body><h1>site.test</h1>This domain is for sale! <a href=x>Buy this domain</a>"


def _answers_anything(title: bytes) -> Answering:
    return always(reply(body=PAGE.replace(b"The old bridge", title)))


_BY_BROWSER = "a browser's connection may be answered"
SUSPECT = (
    *(ServerBehaviour(name, CheckVerdict.SUSPECT, {"site.test:443": answering}, url="https://site.test" + CITED, tls=tls, note=f"{note}; {_BY_BROWSER}")
      for name, tls, answering, note in (
          ("speaks-no-tls", "none", always(reply()), "tls: handshake"),
          ("resets-the-hello", "none", rawly(ServerAction.RESET), "tls: handshake"),
          ("resets-what-comes-by-tls", "good", rawly(ServerAction.RESET), "answer: reset: ConnectionResetError"),
          ("closes-what-comes-by-tls", "good", rawly(), "answer: none"),
          ("speaks-http2-only", "good", rawly(bytes.fromhex("00000004000000000000000807000000000000000000000001")), r"answer: not HTTP: b'\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x08'"),
      )),
    one("led-to-the-front-page", CheckVerdict.SUSPECT, paths({CITED: moved("/", 301), "/": reply()}), note="redirect: root", facts={"code": 85}),
    one("led-to-the-front-page-in-german", CheckVerdict.SUSPECT, paths({CITED: moved("/de/", 301), "/de/": reply()}), note="redirect: root"),
    ServerBehaviour("led-to-www's-front-page", CheckVerdict.SUSPECT, {"site.test:80": always(moved("http://www.site.test/")), "www.site.test:80": always(reply())}, note="redirect: root"),
    *(one(f"led-to-{path.strip('/').replace('/', '-')}", CheckVerdict.SUSPECT, paths({CITED: moved(path), path: reply()}), note="redirect: error page")
      for path in ("/404", "/404.html", "/errors/404/", "/notfound.aspx", "/page-not-found", "/error", "/Error.htm", "/seite-nicht-gefunden")),
    one("led-to-an-error-by-query", CheckVerdict.SUSPECT, paths({CITED: moved("/home?error=404"), "/home?error=404": reply()}), note="redirect: error page"),
    ServerBehaviour("led-to-a-parker", CheckVerdict.SUSPECT, {"site.test:80": always(moved("http://www.hugedomains.com/domain_profile.cfm?d=site")), "www.hugedomains.com:80": always(reply())}, note="redirect: parked"),
    one("sells-its-domain", CheckVerdict.SUSPECT, always(reply(body=_SALE)), get_only=True, note="page: parked"),
    one("titled-404", CheckVerdict.SUSPECT, always(reply(body=ERROR)), get_only=True, note="page: says not found"),
    one("titled-as-suspended", CheckVerdict.SUSPECT, _answers_anything(b"Account Suspended"), get_only=True, note="page: stands in"),
    one("titled-as-a-server's-first-page", CheckVerdict.SUSPECT, _answers_anything(b"Apache2 Debian Default Page: It works"), get_only=True, note="page: stands in"),
    one("led-to-a-suspended-page", CheckVerdict.SUSPECT, paths({CITED: moved("/cgi-sys/suspendedpage.cgi"), "/cgi-sys/suspendedpage.cgi": reply()}), note="redirect: error page"),
    one("plain-text-not-found", CheckVerdict.SUSPECT, always(reply(body=b"404 page not found\n", mime="text/plain")), get_only=True, note="page: says"),
    ServerBehaviour("speaks-http-2-alone", CheckVerdict.SUSPECT, {"site.test:443": rawly(b"\x15\x03\x03\x00\x02\x02\x78")}, url="https://site.test" + CITED, tls="none", note="tls: another protocol"),
    one("titled-not-found-in-german", CheckVerdict.SUSPECT, _answers_anything(b"Seite nicht gefunden"), get_only=True, note="page: says"),
    one("titled-not-found-in-french", CheckVerdict.SUSPECT, _answers_anything(b"Page introuvable"), get_only=True, note="page: says"),
    one("titled-not-found-in-russian", CheckVerdict.SUSPECT, _answers_anything("Страница не найдена".encode()), get_only=True, note="page: says"),
    one("head-without-an-end", CheckVerdict.SUSPECT, rawly(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"), note="answer: broken off"),
    one("body-broken-off-at-once", CheckVerdict.SUSPECT, rawly(reply(length=None, body=b"", Content_Length="500"), ServerAction.RESET), note="answer: broken off", get_only=True),
    one("empty-page", CheckVerdict.SUSPECT, always(reply(body=b"")), note="page: empty"),
    one("moved-to-nowhere", CheckVerdict.SUSPECT, always(reply(301, b"")), note="redirect: no location"),
    one("moved-to-an-empty-location", CheckVerdict.SUSPECT, always(moved("")), note="redirect: no location"),
    one("moved-to-a-malformed-location", CheckVerdict.SUSPECT, always(moved("http://[::1")), note="redirect: bad location"),
    one("moved-to-8-kilobytes", CheckVerdict.SUSPECT, always(moved("/" + "a" * 9_000)), note="redirect: location too long"),
    one("moved-to-another-scheme", CheckVerdict.SUSPECT, always(moved("itms-apps://apps.test/x")), note="redirect: scheme"),
    one("moved-to-a-script", CheckVerdict.SUSPECT, always(moved("javascript:alert(1)")), note="redirect: scheme"),
    one("moved-to-a-file", CheckVerdict.SUSPECT, always(moved("file:///etc/passwd")), note="redirect: scheme"),
    one("moved-to-a-mail-port", CheckVerdict.SUSPECT, always(moved("http://site.test:25/")), note="port"),
    one("moved-to-zero-width-letters", CheckVerdict.SUSPECT, rawly("HTTP/1.1 302 x\r\nLocation: http://si\u200bte.test/\r\n\r\n".encode()), note="redirect: bad location"),
)  # fmt: skip

INVALID = tuple(
    ServerBehaviour(f"invalid-{name}", CheckVerdict.INVALID, {}, url=url)
    for name, url in (
        ("three-slashes", "http:///example.test"),
        ("two-schemes", "http://http://example.test/"),
        ("port-with-letters", "http://example.test:8o8o/foo/bar"),
        ("port-above-65535", "http://example.test:99999/"),
        ("mail-port", "http://example.test:25/"),
        ("one-letter-domain", "http://example.c/forget/it"),
        ("zero-width", "http://ex\u200bample.test/"),
        ("bidi-override", "http://example.test/\u202efdp.exe"),
        ("another-scheme", "ftp://example.test/"),
        ("mail", "mailto:someone@example.test"),
        ("nothing", ""),
    )
)
