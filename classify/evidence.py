"""Evidence that pages are classified by: network facts, traits of the document, and phrases (``phrases.toml``).

Text counts as *prose* in lines of some length with the punctuation of sentences: a wall, an error page and a parked
domain have little of it, an article that quotes their wording has much.
"""

# ruff: noqa: RUF001 words of many writings

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any
from urllib.parse import SplitResult, urlsplit

import re2

from core.hosts import domains_of


def entries(section: str, name: str) -> Any:
    """Return a list or a table of ``phrases.toml``."""
    return _document()[section][name]


def expressions(section: str, name: str) -> list[str]:
    """Return the regular expressions of a text, one for each line; indented lines continue."""
    text: str = entries(section, name)
    return text.replace("\n    ", "").splitlines()


def expression(section: str, name: str) -> str:
    """Return one expression whose alternatives are the lines of the text."""
    return "|".join(expressions(section, name))


class PhraseExpressions:
    """Regular expressions (RE2) of a section of ``phrases.toml`` by their names there, compiled when first used."""

    def __init__(self, section: str) -> None:
        self._section = section

    def __getattr__(self, name: str) -> Any:
        compiled = self.__dict__[name] = re2.compile(expression(self._section, name))
        return compiled


@cache
def _document() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))


TEXT_LIMIT_CHARS = 50_000
LINE_LIMIT_CHARS = 80  # a shorter line is a label, a link or a heading
_FEW_LIMIT = 100  # of frames, headings and the like
_REQUESTS_LIMIT = 2_000

# A character of these scripts carries as much as two or three letters.
_DENSE = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_SENTENCE = re.compile(r"[.!?;:…。!?।؟]")
_PARTS = re.compile(r"\s*(?:[|·•»«–—/]|\s-\s|\s-|-\s|:\s|::)\s*")
_ENDS = " .!?…。!?'\"()[]"
_SPACE = re.compile(r"\s+")
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u00a0": " ", "\u2026": "..."})


@dataclass(frozen=True, slots=True)
class PageTraits:
    """Document traits, as counted by ``scripts/traits.js`` or `source_traits.read_traits`."""

    text: str = ""  # visible text, one line per block
    headings: tuple[str, ...] = ()  # texts of its first headings of levels one and two
    links: int = 0
    passwords: int = 0
    fields: int = 0  # visible input fields and buttons
    pictures: int = 0  # images, drawings and backgrounds of some size
    media: int = 0  # video, audio, embedded objects
    frames: tuple[str, ...] = ()  # URLs of its frames of some size
    is_frameset: bool = False  # it consists of frames only
    overlay_share: float = 0.0  # share of the viewport covered by an overlay
    overlay_text: str = ""
    busy_share: float = 0.0  # share of the viewport of spinners and placeholders without words
    plain_share: float = 0.0  # share of the viewport of canvases of one colour
    marks: frozenset[str] = frozenset()  # names of those of `MARKS` that were found
    needles: frozenset[str] = frozenset()  # those of `NEEDLES` that occur in its inline scripts
    robots: str = ""  # content of its robots meta element
    is_paywalled: bool = False  # declared as not accessible for free (schema.org)


@dataclass(frozen=True)
class PageEvidence:
    """All evidence of a page."""

    url: str
    final_url: str  # the end of redirects
    status: int | None  # HTTP status; None without a response
    # Of the document's response, names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict)
    mime: str = "text/html"
    title: str = ""
    requests: tuple[str, ...] = ()  # URLs that the page requested
    traits: PageTraits | None = None  # None when the document could not be inspected
    is_rendered: bool = True  # rendered by a browser; otherwise from the source only

    @cached_property
    def seen(self) -> PageTraits:
        """Return the traits; empty ones when the document could not be inspected."""
        return self.traits or PageTraits()

    @cached_property
    def words(self) -> str:
        """Return the beginning of the visible text, in lower case, white space as single spaces."""
        return normalize_text(self.seen.text[:8_000])

    @cached_property
    def title_parts(self) -> tuple[str, ...]:
        """Return the title's parts in lower case, split at separators between page and site name."""
        return parts(self.title)

    @cached_property
    def heading_parts(self) -> tuple[str, ...]:
        """Return the parts of the first headings in the same way."""
        return tuple(part for each in self.seen.headings[:6] for part in parts(each))

    def called(self, pattern: re.Pattern[str]) -> str:
        """Return the first part of title and headings that matches the pattern as a whole; empty when none does."""
        return next((part for part in (*self.title_parts, *self.heading_parts) if pattern.fullmatch(part)), "")

    @cached_property
    def prose(self) -> float:
        """Return the amount of prose in letters, without overlays."""
        return max(prose(self.seen.text) - prose(self.seen.overlay_text), 0.0)

    @cached_property
    def volume(self) -> float:
        """Return the amount of text in letters, without overlays."""
        over = min(volume(self.seen.overlay_text), volume(self.seen.text))
        return volume(self.seen.text) - over

    @cached_property
    def is_thin(self) -> bool:
        """Return True if the page has little text."""
        return self.prose < 900 and self.volume < 3_000 and self.seen.links < 60

    @cached_property
    def loaded(self) -> tuple[str, ...]:
        """Return URLs of requests and frames, in lower case."""
        urls = (*self.requests[:_REQUESTS_LIMIT], *self.seen.frames[:_FEW_LIMIT])
        return tuple(each[:2_000].lower() for each in urls)

    @cached_property
    def hosts(self) -> frozenset[str]:
        """Return the hosts of requests and frames."""
        return frozenset(split_url(each).hostname or "" for each in self.loaded)

    @cached_property
    def wanted(self) -> SplitResult:
        """Return the requested URL, split."""
        return split_url(self.url.lower())

    @cached_property
    def final(self) -> SplitResult:
        """Return the final URL, split."""
        return split_url(self.final_url.lower())

    @cached_property
    def has_moved(self) -> bool:
        """Return True if redirects changed host or path, ignoring ``www.`` and the scheme."""
        before, after = (
            ((url.hostname or "").removeprefix("www."), url.path.rstrip("/")) for url in (self.wanted, self.final)
        )
        return before != after


def split_url(url: str) -> SplitResult:
    """Split a URL; a malformed one gives empty parts."""
    try:
        split = urlsplit(url)
        _ = split.hostname
    except ValueError:
        return SplitResult("", "", "", "", "")
    return split


def normalize_text(text: str) -> str:
    """Convert text to lower case, with straight quotes and single spaces."""
    return _SPACE.sub(" ", text.translate(_QUOTES)).strip().lower()


def parts(title: str) -> tuple[str, ...]:
    """Return the title as a whole and in parts, without punctuation at their ends.

    >>> parts("Page not found | Example")
    ('page not found | example', 'page not found', 'example')
    """
    whole = normalize_text(title[:300])
    return tuple(dict.fromkeys(each.strip(_ENDS) for each in [whole, *_PARTS.split(whole)] if each.strip()))


def volume(text: str) -> float:
    """Return the amount of text, in letters of an alphabetic script."""
    some = text[:TEXT_LIMIT_CHARS]
    return len(_SPACE.sub("", some)) + 1.5 * len(_DENSE.findall(some))


def prose(text: str) -> float:
    """Return the amount of prose in it, in letters."""
    sizes = (volume(line) for line in text[:TEXT_LIMIT_CHARS].splitlines() if _SENTENCE.search(line))
    return sum(size for size in sizes if size >= LINE_LIMIT_CHARS)


class ClassFindings:
    """Weighted findings for one class, combined as independent probabilities: many weak ones make no certainty."""

    def __init__(self) -> None:
        self._doubt = 1.0
        self.evidence: list[str] = []

    @property
    def score(self) -> float:
        """Return the probability of the class, from 0 to 1."""
        return 1.0 - self._doubt

    def add(self, weight: float, sentence: str) -> None:
        """Add a finding; `weight` is the probability from this finding alone."""
        self._doubt *= 1.0 - weight
        self.evidence.append(sentence)


def host_in(host: str, domains: frozenset[str]) -> str:
    """Return the domain of `domains` that contains the host; empty without one."""
    return next((each for each in domains_of(host) if each in domains), "")
