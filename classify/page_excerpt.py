"""Page excerpts: title, wording, refresh, simhash of the first bytes of an HTML page; invented sibling URLs.

All results are hints, which trigger a check with the browser (W29). Linear in the page's length.

Two pitfalls of siblings: a site may redirect unknown URLs to its root page, so a page counts as an error page only when
the *cited* URL was redirected there too; and it may answer without redirects, so words are compared as well.
"""

import random
import re
import string
from dataclasses import dataclass
from hashlib import blake2b
from html import unescape
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from classify.evidence import entries, expression

LOOKED_AT = 65_536  # bytes of a page
SIMHASH_BITS = 64
REFRESH_S = 10  # a page that leads on later than this is one to read
_HEAD = 32_768
_WORDS_CHARS = 16_384
_TITLE = re.compile(r"<title[^>]{0,500}>([^<]{0,1000})", re.IGNORECASE)
_HEADING = re.compile(r"<h1[^>]{0,500}>((?:[^<]|<(?!/h1)){0,500})", re.IGNORECASE)
_META = re.compile(r"<meta\s[^>]{1,2000}>", re.IGNORECASE)
_REFRESH = re.compile(r"""http-equiv\s*=\s*["']?\s*refresh\b""", re.IGNORECASE)
_CONTENT = re.compile(r"""content\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""", re.IGNORECASE)
_LEADS_TO = re.compile(r"""\s*(\d{1,6})(?:\.\d*)?\s*[;,\s]\s*(?:url\s*=\s*)?["']?([^"']+)""", re.IGNORECASE)
_UNSEEN = re.compile(r"<!--|<(script|style|template|noscript|svg)\b", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,5000}>")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[^\W\d_]{2,40}")
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9._:-]{2,40})""", re.IGNORECASE)

_NOT_FOUND = re.compile(expression("excerpt", "not_found"), re.IGNORECASE)
_STANDS_IN = re.compile(expression("excerpt", "stands_in"), re.IGNORECASE)
_PARKERS = entries("excerpt", "parkers")
_FOR_SALE = re.compile(expression("excerpt", "for_sale"))
_VENDED = re.compile(expression("excerpt", "vended"))
_ROOTS = re.compile(
    r"/*(?:[a-z]{2}(?:[-_][a-z]{2,4})?/?)?"  # a language
    r"(?:(?:index|home|default|main|startseite|welcome)(?:\.[a-z]{2,5})?/?)?",
    re.IGNORECASE,
)
_TRACKING = frozenset(("lang", "language", "hl", "locale", "utm_source", "utm_medium", "ref", "from"))
_PARKED_TEXT = 20_000  # characters of a parked page's text at most; an article about parking has more


@dataclass(frozen=True, slots=True)
class PageExcerpt:
    """Beginning of a page."""

    title: str  # its title; empty without one
    heading: str  # its first h1
    source: str
    text: str


def parse_page_excerpt(body: bytes, content_type: str = "", limit: int = LOOKED_AT) -> PageExcerpt:
    """Parse the first `limit` bytes as a page; never raises."""
    body = body[:limit]
    named = _CHARSET.search(content_type.encode("latin-1", "replace")) or _CHARSET.search(body[:2048])
    try:
        source = body.decode(named[1].decode() if named else "utf-8", "replace")
    except (LookupError, ValueError):  # unknown, or not a charset ("base64")
        source = body.decode("utf-8", "replace")
    visible_html = _visible(source)
    title, heading = _TITLE.search(source[:_HEAD]), _HEADING.search(visible_html[:_HEAD])
    text = _SPACE.sub(" ", unescape(_TAG.sub(" ", visible_html))).strip()
    return PageExcerpt(
        title=_spoken(title[1]) if title else "",
        heading=_spoken(heading[1]) if heading else "",
        source=source,
        text=text,
    )


def visible_text(body: bytes, content_type: str) -> str:
    """Return the visible text of an HTML document; never raises."""
    return parse_page_excerpt(body, content_type, len(body)).text


def says_not_found(page: PageExcerpt, url: str) -> bool:
    """Return True if title or heading report a missing page, unless the URL is about that."""
    if re.search(r"404|not[-_ +%20]{0,3}found", url, re.IGNORECASE):
        return False
    return any(_NOT_FOUND.search(text[:200]) for text in (page.title, page.heading))


def says_parked(page: PageExcerpt) -> bool:
    """Return True if the page offers its domain for sale, or is a placeholder of an unused one (W29)."""
    if len(page.text) >= _PARKED_TEXT:
        return False
    source, text = page.source.lower(), page.text.lower()
    if any(mark in source for mark in _PARKERS):
        return True
    if "domain" in text and _FOR_SALE.search(text):
        return True
    return ("domaine" in text or "dominio" in text) and _VENDED.search(text) is not None


def page_refresh_target(page: PageExcerpt) -> str:
    """Return the target of the page's prompt meta refresh, as written; empty without one."""
    for meta in _META.findall(page.source[:_HEAD]):
        content = _CONTENT.search(meta)
        if content is None or not _REFRESH.search(meta):
            continue
        to = parse_refresh(unescape(content[1] or content[2] or content[3] or ""))
        if to:
            return to
    return ""


def parse_refresh(value: str) -> str:
    """Return the target of ``5; url=/there`` in a page or header; empty without one or when delayed.

    >>> parse_refresh("0;URL='/there'"), parse_refresh("300; url=/there"), parse_refresh("60")
    ('/there', '', '')
    """
    leads = _LEADS_TO.match(value[:10_000])
    return leads[2].strip()[:8_192] if leads and int(leads[1]) <= REFRESH_S else ""


def is_placeholder(page: PageExcerpt) -> bool:
    """Return True for the default page of a server or hoster.

    >>> is_placeholder(parse_page_excerpt(b"<title>Welcome to nginx!</title>"))
    True
    """
    return any(_STANDS_IN.search(text[:200]) for text in (page.title, page.heading))


def simhash(page: PageExcerpt) -> int:
    """Compute a similarity hash of the page's words, without numbers (Charikar 2002). 0: no words."""
    words = _WORD.findall(page.text.lower()[:_WORDS_CHARS])
    if not words:
        return 0
    shingles = [" ".join(words[at : at + 3]) for at in range(max(len(words) - 2, 1))]
    # Counters of all bits at once: the counts' binary digits, one number for each digit.
    digits: list[int] = []
    for shingle in shingles:
        carry = int.from_bytes(blake2b(shingle.encode(), digest_size=8).digest(), "big")
        for at, digit in enumerate(digits):
            digits[at], carry = digit ^ carry, digit & carry
            if not carry:
                break
        else:
            digits.append(carry)
    # Those above half of the shingles, compared with it from the highest digit down.
    half, above, equal = len(shingles) // 2, 0, (1 << SIMHASH_BITS) - 1
    for at in reversed(range(max(len(digits), half.bit_length()))):
        digit = digits[at] if at < len(digits) else 0
        above |= 0 if half >> at & 1 else equal & digit
        equal &= digit if half >> at & 1 else ~digit
    return above


ALIKE_BITS = 4  # of 64; error pages differ in the path that they repeat, and that is left out
_EXTENSION = re.compile(r"\.[A-Za-z]{2,5}$")


@dataclass(frozen=True, slots=True)
class AnswerFingerprint:
    """Fingerprint of the answer to a URL."""

    status: int  # of the last answer
    final: str  # the end of redirects, or the URL itself
    moved: bool  # there were redirects
    words: int  # `simhash` of the page; 0 without words


def invent_sibling(url: str, rng: random.Random) -> str:
    """Generate a sibling URL, of the same directory and extension or query, that no site has; empty for a root page."""
    if is_root(url):
        return ""
    parts = urlsplit(url)
    word = "".join(rng.choices(string.ascii_lowercase, k=16))
    if parts.query:
        head, equals, _ = parts.query.rpartition("=")
        query = f"{head}{equals}{word}" if equals else word
        return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))
    folder, _, name = parts.path.rstrip("/").rpartition("/")
    extension = _EXTENSION.search(name)
    slash = "/" if parts.path.endswith("/") else ""
    path = f"{folder}/{word}{extension[0] if extension else ''}{slash}"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def compare_answers(cited: AnswerFingerprint, sibling: AnswerFingerprint) -> str:
    """Return the reason if the cited URL is answered like a missing page; empty otherwise."""
    if not 200 <= sibling.status < 300 or not 200 <= cited.status < 300:
        return ""
    if cited.moved and sibling.moved and _place(cited.final) == _place(sibling.final):
        return "an invented path is led to the same page"
    if cited.moved != sibling.moved or not cited.words or not sibling.words:
        return ""
    return "an invented path gets the same page" if (cited.words ^ sibling.words).bit_count() <= ALIKE_BITS else ""


def _place(url: str) -> str:
    """Return the URL without its query, which often repeats the requested URL."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path.rstrip('/')}"


def _visible(source: str) -> str:
    """Return the source without invisible content; an unclosed element hides all that follows."""
    visible: list[str] = []
    at = 0
    while opening := _UNSEEN.search(source, at):
        visible.append(source[at : opening.start()])
        name = opening[1]
        closing = "-->" if name is None else f"</{name}"
        end = re.compile(re.escape(closing), re.IGNORECASE).search(source, opening.end())
        if end is None:
            return " ".join(visible)
        at = end.end()
    visible.append(source[at:])
    return " ".join(visible)


def _spoken(markup: str) -> str:
    return _SPACE.sub(" ", unescape(_TAG.sub(" ", markup))).strip()


def is_root(url: str) -> bool:
    """Return True for a site's root page, in any language."""
    parts = urlsplit(url)
    if url.partition("#!")[2]:
        return False
    names = {name for name, _ in parse_qsl(parts.query[:2048], keep_blank_values=True)}
    return _ROOTS.fullmatch(parts.path) is not None and names <= _TRACKING
