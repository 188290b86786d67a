"""Hostile text in wikitext: titles, URLs and names written so that they mean nothing but themselves.

    as_value     text in a template's parameter or a link's title
    as_plain     text shown letter by letter, in a message
    url_value    a URL in a parameter, in brackets or bare
    is_url_safe  whether a URL stands safely as it is

What a page calls itself is written by anybody: it may hold markup, templates, signatures, control
characters and letters that turn the line around.
"""

import html
import re
import unicodedata
from typing import Final
from urllib.parse import quote

TITLE_LENGTH: Final = 250
_ENTITIES: Final = {
    "|": "&#124;",
    "[": "&#91;",
    "]": "&#93;",
    "{": "&#123;",
    "}": "&#125;",
    "<": "&lt;",
    ">": "&gt;",
}
_MARKUP = re.compile(r"[|\[\]{}<>]")
_AMPERSAND = re.compile(r"&(?=#?\w+;)")
_RUNS = re.compile(r"'{2,}|^'|'$|~{3,}|_{2,}|={2,}|(?<=[A-Za-z]):(?=\S)|^[*#:;=-]")
_MAGIC = re.compile(r"\b(ISBN|RFC|PMID)(?=\s)")
_UNSAFE_URL = re.compile(
    r"[\s|\[\]{}<>\"\\^`\x00-\x20\x7f\u00a0\u2028\u2029\u3000]|''|~~~"
    # Behaviour switches are written in many languages, in either case, and in Japanese with wide lines.
    r"|[_\uff3f]{2}(?=(?:\w|[^\x00-\x7f])+?[_\uff3f]{2})"
)
_NO_TITLE: Final = frozenset(
    {
        "403 forbidden",
        "404",
        "404 error",
        "404 not found",
        "500 internal server error",
        "access denied",
        "are you a robot?",
        "archive copy",
        "archived copy",
        "attention required! | cloudflare",
        "bot verification",
        "captcha",
        "domain for sale",
        "error",
        "error 404",
        "forbidden",
        "home",
        "home page",
        "index",
        "index of /",
        "internet archive wayback machine",
        "just a moment...",
        "log in",
        "login",
        "not found",
        "object moved",
        "page not found",
        "redirecting",
        "redirecting...",
        "seite nicht gefunden",
        "sign in",
        "unknown",
        "untitled",
        "untitled document",
        "wayback machine",
        "webpage",
        "website",
    }
)


def as_value(text: str) -> str:
    """Text that a template's parameter holds, or a link shows: one line, without a meaning of its own.

    Entities are what they stand for, written anew; control characters and those that turn the line
    around are left out; what is longer than `TITLE_LENGTH` characters ends at a word.

    >>> as_value("A | B &amp; [[C]]")
    'A &#124; B & &#91;&#91;C&#93;&#93;'
    """
    return _escaped(_shortened(_clean(html.unescape(text[: 8 * TITLE_LENGTH]))))


def as_plain(text: str, most: int = 500) -> str:
    """Text to be shown letter by letter in a page: every letter that could mean something escaped."""
    text = _clean(text[: 2 * most])
    if len(text) > most:
        text = text[: most - 1] + "…"
    return _escaped(text)


def is_title(text: str) -> bool:
    """Whether it names a page; not what servers, shields and parking pages call themselves."""
    plain = _clean(html.unescape(text[: 8 * TITLE_LENGTH]))
    return len(plain) > 2 and any(map(str.isalnum, plain)) and plain.casefold() not in _NO_TITLE


def url_value(url: str) -> str:
    """The URL with all that wikitext could take for its own percent-encoded; the same page.

    >>> url_value("http://a.test/x|y z")
    'http://a.test/x%7Cy%20z'
    """
    written = _UNSAFE_URL.sub(_quoted, url)
    return "".join(quote(each) if _is_format(each) else each for each in written)


def is_url_safe(url: str) -> bool:
    """Whether the URL stands safely in a parameter, in brackets and bare, as it is written."""
    return bool(url) and not _UNSAFE_URL.search(url) and not any(map(_is_format, url))


def _is_format(each: str) -> bool:
    """Return whether nobody sees the letter, or it turns the line around (Unicode category Cf)."""
    return not each.isascii() and unicodedata.category(each) == "Cf"


def _quoted(match: re.Match[str]) -> str:
    return quote(match[0], safe="").replace("~", "%7E").replace("_", "%5F")


def _clean(text: str) -> str:
    """One line, without what nobody sees."""
    kept = (" " if each.isspace() else each for each in text if _is_kept(each))
    return " ".join("".join(kept).split())


def _is_kept(each: str) -> bool:
    return each.isspace() or unicodedata.category(each) not in {"Cc", "Cf", "Cs", "Co", "Cn"}


def _shortened(text: str) -> str:
    if len(text) <= TITLE_LENGTH:
        return text
    cut = text[: TITLE_LENGTH - 1]
    head, _, tail = cut.rpartition(" ")
    return (head if head and len(tail) < 40 else cut).rstrip() + "…"


def _escaped(text: str) -> str:
    text = _AMPERSAND.sub("&amp;", text)
    text = _MARKUP.sub(lambda match: _ENTITIES[match[0]], text)
    text = _MAGIC.sub(lambda match: f"{match[0][0]}&#{ord(match[0][1])};{match[0][2:]}", text)
    return _RUNS.sub(lambda match: "".join(f"&#{ord(each)};" for each in match[0]), text)
