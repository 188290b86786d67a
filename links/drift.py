"""Whether a page still says what its copy says (W29): reachable does not mean the same content.

Two texts are compared by their runs of three words: how much of the copy's is still there. Titles
count for themselves, for a front page changes every day and keeps its name. What is too short to be
compared is not judged.

    the same title, or a quarter of the copy's words still in their places   ─> OK
    neither, and no other evidence speaks for the page                       ─> DEVIATED
    … and the page now speaks as those do who buy domains                    ─> USURPED

Other evidence (`Evidence`) is asked for only where the runs of words do not settle it: the words in any
order, for a table that was sorted anew, and the picture, for a page that is looked at rather than read.
It clears a page of which the words say that it is another; and where there are too few words, another
picture under another title is another page.

Usurpers are told by words (``usurpers.toml``): several of them, where the copy had none. More than
50,000 domains that Wikipedia cites are in the hands of gambling sites (research links.md 2.4).
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from links.findings import Finding, Verdict
from links.status import Code

RUN_WORDS = 3
FEW_RUNS = 20  # a copy with fewer is not compared
STILL_THERE = 0.25  # of the copy's runs; a page that was redesigned keeps more of its text
SAME_TITLE = 0.6
SAME_WORDS = (
    0.5  # of the copy's words, in any order; another page of the same site has less than 0.4
)
SAME_LOOK = 0.9  # of what the copy's picture shows
OTHER_LOOK = 0.2
USURPERS_WORDS = 3  # different ones, in the title and the first words
WORDS_LOOKED_AT = 2_000
_TEXT_LIMIT_CHARS = 500_000
_WORD = re.compile(r"[^\W_]+")
# Scripts that set no spaces between words: each character counts as one.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


@dataclass(frozen=True, slots=True)
class Face:
    """What a reader sees of a page: its title and its visible text."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What else may be known of two looks at a page; None: nobody compared.

    Attributes:
        words: how much of the copy's words is there, in any order, from 0 to 1.
        picture: how much of what the copy's picture shows is there, from 0 to 1.
    """

    words: float | None = None
    picture: float | None = None

    @property
    def is_for(self) -> bool:
        """Whether it says that this is still the page."""
        return (self.words or 0.0) >= SAME_WORDS or (self.picture or 0.0) >= SAME_LOOK

    @property
    def is_against(self) -> bool:
        """Whether it says that this is another page."""
        return not self.is_for and self.picture is not None and self.picture < OTHER_LOOK


@dataclass(frozen=True, slots=True)
class Likeness:
    """How much of a page is still there.

    Attributes:
        text: of the copy's runs of words, from 0 to 1; None when there are too few to say.
        title: of both titles' words, from 0 to 1; None when one has no title.
        usurper: the words that betray the new owner, as they are listed; empty when nothing does.
        evidence: what else is known.
    """

    text: float | None
    title: float | None
    usurper: tuple[str, ...] = ()
    evidence: Evidence = Evidence()

    @property
    def percent(self) -> int | None:
        """The text's likeness as the registry keeps it."""
        return None if self.text is None else round(100 * self.text)

    @property
    def verdict(self) -> Verdict:
        """What it says of the page."""
        if self.usurper:
            return Verdict.USURPED
        if (self.title or 0.0) >= SAME_TITLE:
            return Verdict.OK
        if self.text is None:
            # Without two titles nothing but a picture speaks, and a picture may be of the day.
            is_other = self.title is not None and self.evidence.is_against
            return Verdict.DEVIATED if is_other else Verdict.OK
        is_same = self.text >= STILL_THERE or self.evidence.is_for
        return Verdict.OK if is_same else Verdict.DEVIATED

    @property
    def is_settled(self) -> bool:
        """Whether no other evidence would change the verdict."""
        if self.usurper or (self.title or 0.0) >= SAME_TITLE:
            return True
        return self.title is None if self.text is None else self.text >= STILL_THERE


def likeness(then: Face, now: Face) -> Likeness:
    """How much of the page as it was copied is in the page as it is."""
    before, after = _words(then.text), _words(now.text)
    old, new = set(_runs(before)), set(_runs(after))
    text = len(old & new) / len(old) if len(old) >= FEW_RUNS else None
    told = usurpers_words(now)
    mine = told if len(told) >= USURPERS_WORDS and not usurpers_words(then) else ()
    if mine and text is not None and text >= STILL_THERE:
        mine = ()  # an article about gambling, or a comment under the page
    return Likeness(text, _alike(_words(then.title), _words(now.title)), mine)


def compared(
    finding: Finding, then: Face, now: Face, *, ask: Callable[[], Evidence] = Evidence
) -> tuple[Finding, Likeness]:
    """A browser's good finding, held against the copy: the same, or DEVIATED, or USURPED.

    Args:
        finding: what the visit says by itself.
        then: the copy.
        now: the page.
        ask: what else is known of both; asked only where it could change the verdict.
    """
    found = likeness(then, now)
    if finding.verdict is not Verdict.OK:
        return finding, found
    if not found.is_settled:
        found = replace(found, evidence=ask())
    finding = replace(finding, similarity=found.percent)
    if found.verdict is Verdict.OK:
        return finding, found
    if found.usurper:
        note = f"usurped: {', '.join(found.usurper[:5])}"
    elif found.text is None:
        note = "deviated: another picture and another title"
    else:
        note = f"deviated: {found.percent} % of the copy's text"
    code = Code.PARKED if found.usurper else Code.OTHER_CONTENT
    return replace(finding, code=code, verdict=found.verdict, note=note), found


def usurpers_words(face: Face) -> tuple[str, ...]:
    """The words of `usurpers.toml` that the title and the first words have, each once, in order."""
    start = " ".join(_words(face.title) + _words(face.text[:_TEXT_LIMIT_CHARS])[:WORDS_LOOKED_AT])
    return tuple(dict.fromkeys(match[0] for match in _usurpers().finditer(start)))


@cache
def _usurpers() -> re.Pattern[str]:
    """All words and phrases of the list, the longest first, as they stand in spelled text."""
    lists = tomllib.loads(files("links").joinpath("usurpers.toml").read_text("utf-8"))
    spelled = {" ".join(_words(phrase)) for each in lists.values() for phrase in each}
    longest_first = sorted(spelled, key=lambda phrase: (-len(phrase), phrase))
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")


def _words(text: str) -> list[str]:
    spaced = _UNSPACED.sub(lambda found: f" {found[0]} ", text[:_TEXT_LIMIT_CHARS].casefold())
    return _WORD.findall(spaced)


def _runs(words: list[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN_WORDS)), strict=False)


def _alike(one: list[str], other: list[str]) -> float | None:
    if not one or not other:
        return None
    return len({*one} & {*other}) / len({*one} | {*other})
