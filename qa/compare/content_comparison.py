"""Comparison of the text and the parts of a page at capture with those of its copy.

A text is a multiset of its words and of the pairs of adjacent words on a line, compared in linear time. So paragraphs,
columns and menus may change places at no cost; another page of the same site shares its menu and common words, but
hardly a pair. Long words weigh more than short ones; numbers weigh least, since dates, counters and prices change.

A part that the copy requests, that was loaded at capture and fails now, is certainly lost. One that the copy does not
request is most often no loss: a script removed it again, or it was loaded for later. So it counts only where the copy
requests next to nothing of that kind: then the references to the parts were lost.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from core.captures import ArtifactKind, parse_artifact_uri
from core.errors import BadUrlError
from core.page_manifest import PageInfo, PageResource
from core.playback_check import LostPart, QaVerdict
from core.urls import identity_key
from render.network_log import RequestLog

MOST_CHARACTERS = 600_000  # of each text; of the remainder only the length is compared
_LONGEST_WORD = 64  # a longer one is several
_HEAVIEST = 8  # words of this length or longer have the full weight
_OF_NUMBERS = 1
_OF_CHARACTERS = 4
_ADDED_COST = 0.25  # maximum loss when all words are present among very many others
_BREAK = "\n"
# Scripts without spaces are read by the character: kana, ideographs, Thai, Lao, Burmese, Khmer.
_TOKENS = re.compile(
    rf"{_BREAK}|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    rf"\U00020000-\U0003ffff]|\w{{1,{_LONGEST_WORD}}}"
)
_FIRST_SPACELESS = "\u0e00"


@dataclass(frozen=True, slots=True)
class TextComparison:
    """Comparison of two texts; shares range from 0 to 1.

    Missing text costs its share of the weight, added text a quarter of its share. A page that loses its last tenth has
    about 0.9, another page of the same site most often less than 0.4.
    """

    score: float  # 1: equal except for the order of lines; 0: nothing in common
    kept: float  # share of the seen words that are shown; 1 when there are none
    added: float  # share of the shown words that were not seen; 0 when there are none
    words_seen: int  # number of seen words in the first `MOST_CHARACTERS` of text
    words_shown: int  # number of shown words, likewise


def compare_texts(seen: str, shown: str) -> TextComparison:
    """Compare two texts: of those beyond `MOST_CHARACTERS` the beginnings, and the lengths of the rests."""
    first, second = _TokenBag(seen), _TokenBag(shown)
    words = first.words & second.words
    common = sum(first.weights[word] * count for word, count in words.items())
    common += first.weight_of(first.pairs & second.pairs)
    shared = words.total()
    more = 1 - common / second.weight if second.weight else 0.0
    share = _with_rests(seen, shown, common / first.weight if first.weight else 1.0)
    return TextComparison(
        score=round(share * (1 - _ADDED_COST * more), 4),
        kept=round(_with_rests(seen, shown, shared / first.count if first.count else 1.0), 4),
        added=round(1 - shared / second.count if second.count else 0.0, 4),
        words_seen=first.count,
        words_shown=second.count,
    )


class _TokenBag:
    """Multiset of a text's words and word pairs; weights are integers, so sums ignore the order."""

    def __init__(self, text: str) -> None:
        # Cells of a table row are separated by tabs.
        beginning = text[:MOST_CHARACTERS].replace("\r", _BREAK).replace("\t", _BREAK)
        tokens = _TOKENS.findall(beginning.casefold())
        self.words = Counter(tokens)
        del self.words[_BREAK]
        self.pairs = Counter(pairwise(tokens))
        self.count = self.words.total()
        self.weights = {word: _word_weight(word) for word in self.words}
        self.weight = sum(self.weights[word] * count for word, count in self.words.items())
        self.weights[_BREAK] = _OF_NUMBERS
        self.weight += self.weight_of(self.pairs)

    def weight_of(self, pairs: Counter[tuple[str, str]]) -> int:
        """Return the weight of the pairs; one with a number or the end of a line weighs nothing."""
        weights = self.weights
        return sum(
            2 * (min(weights[one], weights[other]) - _OF_NUMBERS) * count for (one, other), count in pairs.items()
        )


def _word_weight(word: str) -> int:
    if word.isdecimal():
        return _OF_NUMBERS
    if len(word) == 1 and word >= _FIRST_SPACELESS:
        return _OF_CHARACTERS
    return min(len(word), _HEAVIEST)


def _with_rests(seen: str, shown: str, share: float) -> float:
    """Return the share of the seen text found: that of its beginning, and of its rest by length."""
    rest = max(0, len(seen) - MOST_CHARACTERS)
    if not rest:
        return share
    shown_rest = max(0, len(shown) - MOST_CHARACTERS)
    by_length = min(1.0, shown_rest / rest)
    return (share * MOST_CHARACTERS + by_length * rest) / len(seen)


# CDP resource types that each playback level loads; other kinds are never missing.
RESOURCE_KINDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "text": frozenset[str](),
        "limited": frozenset[str](),
        "html": frozenset({"Stylesheet"}),
        "images": frozenset({"Stylesheet", "Image"}),
        "full": frozenset({"Stylesheet", "Image", "Script"}),
    }
)
_WEIGHTS = {"Document": 8.0, "Stylesheet": 4.0, "Script": 2.0, "Media": 2.0, "Image": 1.0}
_OF_OTHERS = 0.5
# A tracking pixel or a bullet: a picture that came with its head in so few bytes. However many there
# are, together they weigh no more than one that is large.
TINY_BYTES = 1_000
_OF_TINY = 0.05
_MOST_OF_TINY = 1.0
_LEAST_SHEET_BYTES = 500  # with its head: a shorter one has no effect
_LARGE_BYTES = 10_000  # pictures of this size or larger have the full weight
_OF_SMALL = 0.25
_OF_UNASKED = 0.5  # their loss is not certain
_FEW = 0.25  # of the parts of a kind: next to none
# The page itself took it back: a source that was replaced, a frame that was removed.
_TAKEN_BACK = frozenset({"net::ERR_ABORTED", "detached"})


@dataclass(frozen=True, slots=True)
class PartRequest:
    """Request of a part of a page."""

    url: str  # archived URL, also at playback; without its fragment
    kind: str = ""  # CDP resource type: Document, Stylesheet, Image, …
    status: int | None = None
    failed: str = ""  # reason for which it failed or was not stored; empty: neither
    size: int | None = None  # bytes on the wire; None when unknown
    initiator: str = ""  # initiator type: parser, script, preload, other, …

    @property
    def came(self) -> bool:
        """Return whether the part was loaded."""
        return self.status is not None and self.status < 400 and not self.failed


def part_at_capture(resource: PageResource) -> PartRequest:
    """Convert a resource of a page's manifest; one that was not stored counts as failed."""
    is_stored = resource.is_archived
    is_transform = resource.resource_type == "Stylesheet" and "xml" in resource.mime
    return PartRequest(
        resource.url,
        # XSLT builds a page once; its result is what is shown.
        "XSLT" if is_transform else resource.resource_type,
        resource.status,
        "" if is_stored else resource.reason or resource.kept,
        resource.wire_bytes,
        resource.initiator,
    )


def part_at_playback(url: str, request: RequestLog) -> PartRequest:
    """Convert a request of a copy; `url` is the archived URL of its address."""
    return PartRequest(url, request.resource_type, request.status, request.failed, request.wire_bytes)


@dataclass(frozen=True, slots=True)
class ResourceComparison:
    """Comparison of the parts of a page with those of its copy."""

    score: float  # share of the parts by weight, from 0 to 1; 1 when the copy needs none
    seen: int  # number of parts that were loaded at capture and are needed by the copy
    shown: int  # how many of these were loaded at playback
    # The others, the heaviest first: ``status: …``, ``failed: …``, ``unanswered``, ``unasked``
    lost: tuple[LostPart, ...]
    main: str = ""  # URL of the heaviest certain loss that is essential: a style sheet, a large picture; empty: none


def compare_resources(
    seen: Iterable[PartRequest], shown: Iterable[PartRequest], *, level: str = "images"
) -> ResourceComparison:
    """Compare the parts `seen` at capture with those `shown` at playback of a `RESOURCE_KINDS` level."""
    had, requested = _by_url(seen), _by_url(shown)
    needed = {key: _weight(part) for key, part in had.items() if part.came and key in requested}
    reasons: dict[str, str] = {}
    for key in needed:
        part = requested[key]
        if part.came or part.failed in _TAKEN_BACK:
            continue  # it was received, or was not waited for
        reasons[key] = f"failed: {part.failed}" if part.failed else "unanswered"
        if part.status is not None and part.status >= 400:
            reasons[key] = f"status: {part.status}" + (f", {part.failed}" if part.failed else "")
    certain = frozenset(reasons)
    # Parts named by the page's markup, of kinds that the copy requests few of.
    for kind in RESOURCE_KINDS.get(level, frozenset()):
        named = {
            key: part for key, part in had.items() if part.kind == kind and part.initiator == "parser" and part.came
        }
        missed = {key: part for key, part in named.items() if key not in requested}
        if named and 1 - len(missed) / len(named) < _FEW:
            needed |= {key: _OF_UNASKED * _weight(part) for key, part in missed.items()}
            reasons |= dict.fromkeys(missed, "unasked")
    tiny = [key for key in needed if _is_tiny(had[key])]
    of_tiny = sum(needed[key] for key in tiny)
    if of_tiny > _MOST_OF_TINY:
        for key in tiny:
            needed[key] *= _MOST_OF_TINY / of_tiny
    lost = sorted(reasons, key=lambda key: -needed[key])
    of_images = sum(part.size or 0 for part in had.values() if part.came and part.kind == "Image")

    def is_main(part: PartRequest) -> bool:
        size = part.size or 0
        if part.kind == "Stylesheet":
            return not size or size >= _LEAST_SHEET_BYTES
        is_largest = size > TINY_BYTES and size > of_images / 2
        return part.kind == "Image" and (size >= _LARGE_BYTES or is_largest)

    weight = sum(needed.values())
    return ResourceComparison(
        score=round(1 - sum(needed[key] for key in lost) / weight, 4) if weight else 1.0,
        seen=len(needed),
        shown=len(needed) - len(lost),
        lost=tuple(LostPart(had[key].url, reasons[key]) for key in lost),
        main=next((had[key].url for key in lost if key in certain and is_main(had[key])), ""),
    )


def _is_tiny(part: PartRequest) -> bool:
    return part.kind == "Image" and bool(part.size) and (part.size or 0) <= TINY_BYTES


def _by_url(parts: Iterable[PartRequest]) -> dict[str, PartRequest]:
    """Map the parts by normalized URL; of repeated requests the best is used."""
    by_url: dict[str, PartRequest] = {}
    for part in parts:
        try:
            key = identity_key(part.url)
        except BadUrlError:
            key = part.url
        if key not in by_url or (part.came and not by_url[key].came):
            by_url[key] = part
    return by_url


def _weight(part: PartRequest) -> float:
    weight = _WEIGHTS.get(part.kind, _OF_OTHERS)
    if part.kind != "Image" or not part.size:
        return weight
    if _is_tiny(part):
        return _OF_TINY
    return min(weight, _OF_SMALL + (1 - _OF_SMALL) * part.size / _LARGE_BYTES)


def judge_losses(lost: Sequence[LostPart], page: PageInfo | None, level: str) -> QaVerdict:
    """Judge the copy by these losses alone, but for tiny images: BROKEN when it is made of one, else DOUBTFUL."""
    shown = {"Document", *RESOURCE_KINDS.get(level, ())}
    parts = page.resources if page is not None else ()
    tiny = {each.url for each in parts if each.resource_type == "Image" and 0 < (each.wire_bytes or 0) <= TINY_BYTES}
    needed = {each.url for each in parts if each.resource_type in shown} - tiny
    # Copies are made from the final document.
    artifacts = (parse_artifact_uri(each.url) for each in lost)
    is_dom_lost = any(artifact and artifact[0] is ArtifactKind.DOM for artifact in artifacts)
    if is_dom_lost or any(each.url in needed for each in lost):
        return QaVerdict.BROKEN
    return QaVerdict.GOOD if all(each.url in tiny for each in lost) else QaVerdict.DOUBTFUL


def describe_losses(lost: Sequence[LostPart]) -> str:
    """Describe the losses in a sentence."""
    first = lost[0]
    more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
    return f"Captured data is missing in the archive: {first.url} ({first.reason}){more}."
