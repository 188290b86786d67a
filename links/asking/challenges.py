"""Answers of those who guard a site: it is there, but this program is not let in (links.md 5.2, 5.6).

Such an answer says nothing of the page behind it, whatever its status: guards send 200, 202, 403, 405,
429 and 503. The traits are what the services' own documentation and headers name. Pure.
"""

import re
from collections.abc import Callable

from links.asking.heads import Head

LOOKED_AT = 16_384  # characters of the page
_STATUSES = frozenset((200, 202, 400, 401, 403, 405, 406, 429, 468, 493, 503, 520, 530, 999))
_TITLE = re.compile(
    rb"<title[^>]{0,200}>\s*(?:just a moment|attention required|checking your browser|access denied"
    rb"|ddos-guard|one more step|please wait\.\.\.|are you a robot|pardon our interruption|bot verification"
    rb"|security check|verify(?:ing)? you are (?:a )?human|human verification|client challenge|vercel security"
    rb"|robot or human|captcha|making sure you(?:'|&#39;)re not a bot|anti-?bot|un instant)",
    re.IGNORECASE,
)
_BODY: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    (
        "cloudflare",
        re.compile(rb"cf-browser-verification|cf_chl_|challenge-platform/|cf-error-details"),
    ),
    ("perimeterx", re.compile(rb"_pxAppId|px-captcha|captcha\.px-cdn\.net|human-challenge")),
    ("datadome", re.compile(rb"captcha-delivery\.com|geo\.captcha-delivery|datadome")),
    ("incapsula", re.compile(rb"_Incapsula_Resource|incap_ses|Incapsula incident")),
    ("sucuri", re.compile(rb"sucuri_cloudproxy_js|Sucuri WebSite Firewall")),
    ("ddos-guard", re.compile(rb"/\.well-known/ddos-guard/|ddos-guard\.net")),
    ("aws-waf", re.compile(rb"awswaf\.com|AwsWafIntegration|awsWafCookieDomainList")),
    (
        "akamai",
        re.compile(rb"errors\.edgesuite\.net|/_sec/cp_challenge|sec-if-cpt-container|ak-challenge"),
    ),
    ("kasada", re.compile(rb"ips\.js\?[^\"']{0,400}KP_UIDz|window\.KPSDK")),
    ("anubis", re.compile(rb"/\.within\.website/x/cmd/anubis|anubis_challenge")),
    ("mod_security", re.compile(rb"[Mm]od_?[Ss]ecurity|The requested URL was rejected")),
    ("captcha", re.compile(rb"hcaptcha\.com/1/api\.js|recaptcha/api\.js|g-recaptcha|h-captcha")),
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
    body = body[:LOOKED_AT]
    if head.status == 200:
        return _by_page(body) if len(body) < _SMALL else ""
    return _by_body(body) or _by_server(head)


def _by_page(body: bytes) -> str:
    """By a page with status 200: its title and a mark that only guards have."""
    if not _TITLE.search(body):
        return ""
    return next((name for name, mark in _BODY if name in _SURE and mark.search(body)), "")


def _by_body(body: bytes) -> str:
    for name, mark in _BODY:
        if mark.search(body):
            return name
    return "a challenge" if _TITLE.search(body) else ""


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
