"""Document traits from HTML source, for pages that no browser has rendered, and detection of guards by their answers.

Without layout, hidden and floating elements are not recognised, and text written by scripts is missing.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import re2

from classify.challenge import GUARD_HEADERS, GUARD_STATUSES
from classify.evidence import TEXT_LIMIT_CHARS, PageTraits, entries, expression
from classify.page_classifier import MARKS, NEEDLES

if TYPE_CHECKING:
    from net.http1 import LenientHead

_BLOCKS = frozenset([
    "address", "article", "aside", "blockquote", "body", "br", "button", "dd", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
    "header", "hr", "html", "label", "legend", "li", "main", "nav", "ol", "option", "p", "pre",
    "section", "summary", "table", "td", "th", "title", "tr", "ul",
])  # fmt: skip
_SILENT = frozenset({"script", "style", "template", "noscript", "title", "head"})
_PICTURES = frozenset({"img", "svg", "canvas"})
_MEDIA = frozenset({"video", "audio", "object", "embed"})
_FIELDS = frozenset({"input", "textarea", "select", "button"})
_SELECTOR = re.compile(r"""#([\w-]+)|\.([\w-]+)|\[id\^="([\w-]+)"\]""")
_NOT_FREE = re.compile(r'"isAccessibleForFree"\s{0,9}:\s{0,9}"?false', re.IGNORECASE)
_SCRIPTS_LIMIT_CHARS = 200_000
_FEW = 30


def read_traits(html: str) -> PageTraits:
    """Read the document's traits; never raises."""
    reader = _TraitsParser()
    try:
        reader.feed(html)
        reader.close()
    except AssertionError:
        pass  # raised by the parser for a malformed declaration; the part before it counts
    return reader.traits()


class _TraitsParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = [""]
        self._text_chars = 0
        self._scripts: list[str] = []
        self._script_chars = 0
        self._silent = ""
        self._is_heading = False
        self._headings: list[str] = []
        self._counts = dict.fromkeys(("links", "passwords", "fields", "pictures", "media"), 0)
        self._frames: list[str] = []
        self._is_frameset = False
        self._marks: set[str] = set()
        self._robots: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count the element."""
        attributes = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in attributes:
            self._counts["links"] += 1
        elif tag in _FIELDS and attributes.get("type", "").lower() != "hidden":
            self._counts["fields"] += 1
            self._counts["passwords"] += attributes.get("type", "").lower() == "password"
        elif tag in ("iframe", "frame") and len(self._frames) < _FEW:
            self._frames.append(attributes.get("src", "")[:2_000])
        elif tag == "frameset":
            self._is_frameset = True
        elif tag == "meta" and attributes.get("name", "").lower() in ("robots", "googlebot"):
            self._robots.append(attributes.get("content", "")[:200])
        self._counts["pictures"] += tag in _PICTURES
        self._counts["media"] += tag in _MEDIA
        name, classes = attributes.get("id", ""), attributes.get("class", "").split()
        if name or classes:
            self._marks |= {
                mark
                for mark, (is_id, is_class, begins) in _SELECTORS.items()
                if (is_id and name == is_id)
                or (is_class and is_class in classes)
                or (begins and name.startswith(begins))
            }
        if tag in _BLOCKS:
            self._lines.append("")
        if tag in _SILENT and tag != "head" and not self._silent:
            self._silent = tag
        if tag in ("h1", "h2") and len(self._headings) < 6:
            self._is_heading = True
            self._headings.append("")

    def handle_endtag(self, tag: str) -> None:
        """End a block or a hidden element."""
        if tag == self._silent:
            self._silent = ""
        if tag in ("h1", "h2"):
            self._is_heading = False
        if tag in _BLOCKS:
            self._lines.append("")

    def handle_data(self, data: str) -> None:
        """Collect visible text and inline scripts."""
        if self._silent == "script":
            if self._script_chars < _SCRIPTS_LIMIT_CHARS:
                self._scripts.append(data[:50_000])
                self._script_chars += len(data)
            return
        if self._silent or self._text_chars >= TEXT_LIMIT_CHARS:
            return
        self._text_chars += len(data)
        self._lines[-1] += " ".join(f"{data} ".split()) + " " if data.strip() else ""
        if self._is_heading:
            self._headings[-1] = (self._headings[-1] + data)[:300]

    def traits(self) -> PageTraits:
        """Return the collected traits."""
        scripts = "\n".join(self._scripts)
        return PageTraits(
            text="\n".join(line.strip() for line in self._lines if line.strip()),
            headings=tuple(each.strip() for each in self._headings if each.strip()),
            links=self._counts["links"],
            passwords=self._counts["passwords"],
            fields=self._counts["fields"],
            pictures=self._counts["pictures"],
            media=self._counts["media"],
            frames=tuple(self._frames),
            is_frameset=self._is_frameset,
            marks=frozenset(self._marks),
            needles=frozenset(each for each in NEEDLES if each in scripts),
            robots=", ".join(self._robots[:5]),
            is_paywalled=_NOT_FREE.search(scripts) is not None,
        )


def _parsed(selector: str) -> tuple[str, str, str]:
    match = _SELECTOR.fullmatch(selector)
    if match is None:
        raise ValueError(f"The selector {selector!r} is not of a form that sources are read by.")
    return match[1] or "", match[2] or "", match[3] or ""


_SELECTORS = {mark: _parsed(selector) for mark, selector in MARKS.items()}


_LOOKED_AT = 16_384  # characters of the page
_GUARD_TITLE = re.compile(expression("challenge", "source_titles").encode(), re.IGNORECASE)
_GUARD_MARKS: tuple[tuple[str, tuple[bytes, ...]], ...] = tuple(
    (name, tuple(mark.encode() for mark in marks)) for name, marks in entries("challenge", "source_marks").items()
)
# Marks that only a guard's own page has, so they are valid for a 200 answer, too.
_SURE = frozenset((
    "cloudflare", "perimeterx", "datadome", "incapsula", "sucuri", "aws-waf", "akamai", "kasada",
    "anubis",
))  # fmt: skip
_SMALL = 40_000  # bytes; a guard's page is small, an article that names one is not


def detect_guard(head: LenientHead, body: bytes) -> str:
    """Return the guard service that sent the answer; empty when none did."""
    if head.status not in GUARD_STATUSES:
        return ""
    for name, header, pattern, _, statuses in GUARD_HEADERS:
        value = head.first(header) if head.status in statuses else ""
        if value and re2.fullmatch(pattern, value.lower()):  # seldom there; RE2 looks its cache up at each call
            return name
    small, body = len(body) < _SMALL, body[:_LOOKED_AT].lower()
    if head.status in (200, 202):
        # A normal-looking page is a guard's by its title and a mark specific to guards.
        if not small or not _GUARD_TITLE.search(body):
            return ""
        return next((name for name, marks in _GUARD_MARKS if name in _SURE and _has(body, marks)), "")
    is_akamai = head.status in (403, 406) and head.first("server").lower().startswith("akamaighost")
    # A site's own error page may contain a captcha form.
    for name, marks in _GUARD_MARKS:
        if (name in _SURE or head.status < 500) and _has(body, marks):
            return name
    return "a challenge" if _GUARD_TITLE.search(body) else "akamai" if is_akamai else ""


def _has(body: bytes, marks: tuple[bytes, ...]) -> bool:
    return any(mark in body for mark in marks)
