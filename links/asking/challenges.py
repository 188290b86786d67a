"""Answers of those who guard a site: it is there, but this program is not let in (links.md 5.2, 5.6).

Such an answer says nothing of the page behind it, whatever its status: guards send 200, 202, 403, 405,
429 and 503. The traits are what the services' own documentation and headers name. Pure.
"""

import re
from collections.abc import Callable

from links.asking.heads import Head

LOOKED_AT = 16_384  # characters of the page
_STATUSES = frozenset((200, 202, 400, 401, 403, 405, 406, 429, 468, 493, 503, 999))
_TITLE = re.compile(
    rb"<title[^>]{0,200}>\s*(?:just a moment|attention required|checking your browser|access denied"
    rb"|ddos-guard|one more step|please wait\.\.\.|are you a robot|pardon our interruption|bot verification"
    rb"|security check|verify(?:ing)? you are (?:a )?human|human verification|client challenge|vercel security"
    rb"|robot or human|captcha|making sure you(?:'|&#39;)re not a bot|anti-?bot|un instant)",
    re.IGNORECASE,
)
# In lower case. Searched for as they are: patterns cost a hundred times as much.
_BODY: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    # Not "challenge-platform": its scripts stand on every page that Cloudflare delivers for some sites.
    ("cloudflare", (b"cf-browser-verification", b"_cf_chl_opt", b"/orchestrate/chl_page/")),
    ("perimeterx", (b"_pxappid", b"px-captcha", b"captcha.px-cdn.net", b"human-challenge")),
    ("datadome", (b"captcha-delivery.com",)),
    ("incapsula", (b"_incapsula_resource", b"incapsula incident")),
    ("sucuri", (b"sucuri_cloudproxy_js", b"sucuri website firewall")),
    ("ddos-guard", (b"/.well-known/ddos-guard/", b"ddos-guard.net")),
    ("aws-waf", (b"awswaf.com", b"awswafintegration", b"awswafcookiedomainlist")),
    (
        "akamai",
        (b"errors.edgesuite.net", b"/_sec/cp_challenge", b"sec-if-cpt-container", b"ak-challenge"),
    ),
    ("kasada", (b"kp_uidz", b"window.kpsdk")),
    ("anubis", (b"/.within.website/x/cmd/anubis", b"anubis_challenge")),
    ("mod_security", (b"mod_security", b"modsecurity", b"the requested url was rejected")),
    ("wants a certificate", (b"no required ssl certificate was sent",)),
    ("captcha", (b"hcaptcha.com/1/api.js", b"recaptcha/api.js", b"g-recaptcha", b"h-captcha")),
)
# Marks that only a guard's own page has, so that they hold for an answer 200, too.
_SURE = frozenset(
    (
        "cloudflare",
        "perimeterx",
        "datadome",
        "incapsula",
        "sucuri",
        "aws-waf",
        "akamai",
        "kasada",
        "anubis",
    )
)
_SMALL = 40_000  # bytes; a guard's page is small, an article that names one is not


def guard(head: Head, body: bytes) -> str:
    """Who guards the site, when the answer is a guard's; empty when it is not.

    >>> guard(Head(403, (("cf-mitigated", "challenge"),)), b"")
    'cloudflare'
    """
    if head.status not in _STATUSES:
        return ""
    for name, holds in _HEADERS:
        if holds(head):
            return name
    small, body = len(body) < _SMALL, body[:LOOKED_AT].lower()
    if head.status in (200, 202):
        return _by_page(body) if small else ""
    return _by_body(body, sure_only=head.status >= 500) or _by_server(head)


def _by_page(body: bytes) -> str:
    """By a page that looks well: its title and a mark that only guards have."""
    if not _TITLE.search(body):
        return ""
    return next((name for name, marks in _BODY if name in _SURE and _has(body, marks)), "")


def _by_body(body: bytes, *, sure_only: bool) -> str:
    """By a page that denies; a site's own page about a fault may have a form with a captcha."""
    for name, marks in _BODY:
        if (name in _SURE or not sure_only) and _has(body, marks):
            return name
    return "a challenge" if _TITLE.search(body) else ""


def _has(body: bytes, marks: tuple[bytes, ...]) -> bool:
    return any(mark in body for mark in marks)


def _by_server(head: Head) -> str:
    """By who answered, of statuses that guards send and sites hardly do."""
    server = head.first("server").lower()
    if head.status in (403, 406) and server.startswith("akamaighost"):
        return "akamai"
    return ""


def _waf_action(head: Head) -> bool:
    return head.first("x-amzn-waf-action").lower() in ("challenge", "captcha")


_HEADERS: tuple[tuple[str, Callable[[Head], bool]], ...] = (
    ("cloudflare", lambda head: head.first("cf-mitigated").lower() == "challenge"),
    ("aws-waf", _waf_action),
    (
        "datadome",
        lambda head: (
            head.status in (403, 405) and bool(head.first("x-datadome") or head.first("x-dd-b"))
        ),
    ),
    ("perimeterx", lambda head: head.status != 200 and bool(head.first("x-px-block"))),
    ("sucuri", lambda head: head.status == 403 and bool(head.first("x-sucuri-block"))),
    (
        "incapsula",
        lambda head: (
            head.status == 403
            and (
                bool(head.first("x-iinfo"))
                or head.first("x-cdn").lower() in ("incapsula", "imperva")
            )
        ),
    ),
    ("vercel", lambda head: head.first("x-vercel-mitigated").lower() in ("challenge", "deny")),
    (
        "ddos-guard",
        lambda head: head.status == 403 and head.first("server").lower() == "ddos-guard",
    ),
)
