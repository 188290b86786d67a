"""Which of two captures of a URL is the better one, after the broken one was captured again (pure).

The page that a visit was shown counts first: an error page, a wall or a check for robots never takes the
place of the page itself, however well its copy is shown. Nor does another page that stands at the URL
now, or one with much less to it, as long as more is left of the old copy: a faithful copy of the site's
front page is no copy of the page. Of two that were shown the same, the verdict on the copy counts; of two
broken ones, how much of each is left. Both are kept in any case, and readers are offered one.

    a page of a worse class ──> the old one stays
    another page, or less   ──> the old one stays, unless little is left of it
    a better verdict        ──> the new one is offered
    broken both, alike      ──> the old one stays: what is broken is likely playback
"""

from dataclasses import dataclass

from core.classes import WITHHELD, PageClass, rank
from core.quality import Check, Fault, Judge, Verdict, penalty
from crawler.quality.changes import Changes, Drift
from links.books.quality_rows import RepairState

MARGIN = 0.05  # of two broken copies, the better one shows so much more
_ORDER = {Verdict.GOOD: 0, Verdict.DOUBTFUL: 1, Verdict.UNCHECKED: 2, Verdict.BROKEN: 3}
# What stands at the URL is not the page any more.
_NOT_THE_PAGE = {
    Drift.OTHER_PAGE: "another page",
    Drift.OTHER_OWNER: "the words of another owner",
    Drift.GONE: "that the page is gone",
}
_READABLE = 0.5  # of the words: what has fewer left is not worth more than another page
_LESS = 0.5  # of what is left of the old copy
_FEWEST_PARTS = 3  # of which some can be missing
_FEWEST_WORDS = 40  # the same of words
# What an archive that holds all of a page, and a playback that shows none of it, have in common.
_NOT_PLAYBACK = frozenset({Fault.DAMAGED})


@dataclass(frozen=True, slots=True)
class Side:
    """One of two captures.

    Attributes:
        check: of its copy, with the verdict that counts.
        page_class: what the visit was shown.
        status: HTTP status; None when it is not known.
    """

    check: Check
    page_class: PageClass
    status: int | None = None

    @property
    def rank(self) -> int:
        """How far it is from good, its copy aside."""
        return rank(self.page_class, self.status)

    @property
    def offered(self) -> int:
        """How far it is from being offered: of two the lesser one is, of equal ones the newer."""
        return self.rank + penalty(self.check)


@dataclass(frozen=True, slots=True)
class Choice:
    """What came of a repair.

    Attributes:
        state: how it ended.
        reason: a sentence for people.
        old_stays: the new capture has to be marked, or it would be offered as the newer one.
    """

    state: RepairState
    reason: str
    old_stays: bool = False


def choose(old: Side, new: Side, became: Changes | None = None) -> Choice:
    """The better one of a broken capture and the one that was made to repair it.

    Args:
        old: what was captured before.
        new: what was captured again.
        became: what the page of the old one had become when the new one was made; None: nobody knows.
    """
    if new.page_class in WITHHELD:
        return Choice(RepairState.FAILED, "The site checked for robots: no new copy came of it.")
    if new.rank != old.rank:
        return _of_other_class(old, new)
    less = _less(old, new, became)
    if less:
        said = f"Captured again, no better: the site shows {less} now. The old capture stays."
        return _stays(old, new, said)
    came, was = _ORDER[new.check.verdict], _ORDER[old.check.verdict]
    if came != was:
        return _of_other_verdict(old, new, is_better=came < was)
    if new.check.verdict is Verdict.BROKEN:
        return _of_two_broken(old, new)
    said = f"Captured again: {_copy(new)}, as the one before."
    return Choice(RepairState.DONE_NOT_BETTER, said)


def _less(old: Side, new: Side, became: Changes | None) -> str:
    """What the site shows in the place of the page, where readers have more of the old copy.

    Empty when they have not, or when a person said what to think of the old one: that needs no second.
    """
    check = old.check
    left = check.score or 0.0
    if check.judge is Judge.PERSON or check.verdict is not Verdict.BROKEN:
        return ""
    if became is not None and (check.text or 0.0) >= _READABLE:
        if became.drift in _NOT_THE_PAGE:
            return _NOT_THE_PAGE[became.drift]
        text = became.text
        if text is not None and text.words_seen >= _FEWEST_WORDS:
            share = text.words_shown / text.words_seen
            if share < _LESS * left:
                return f"{share:.0%} of the words"
    if check.parts_seen >= _FEWEST_PARTS:
        share = new.check.parts_shown / check.parts_seen
        if share < _LESS * left:
            return f"{share:.0%} of the parts"
    return ""


def _of_other_class(old: Side, new: Side) -> Choice:
    if new.rank < old.rank:
        said = f"Captured again, and better: the site shows {_page(new)} now, not {_page(old)}."
        return Choice(RepairState.DONE_BETTER, f"{said}{_still(new)}")
    said = f"Captured again, no better: the site shows {_page(new)} now. The old capture stays."
    return _stays(old, new, said)


def _of_other_verdict(old: Side, new: Side, *, is_better: bool) -> Choice:
    if is_better:
        return Choice(RepairState.DONE_BETTER, f"Captured again, and better: {_copy(new)}.")
    return _stays(old, new, f"Captured again, no better: {_copy(new)}. The old capture stays.")


def _of_two_broken(old: Side, new: Side) -> Choice:
    gain = (new.check.score or 0.0) - (old.check.score or 0.0)
    if gain >= MARGIN:
        said = f"Captured again, and better: {gain:.0%} more of it is shown.{_still(new)}"
        return Choice(RepairState.DONE_BETTER, said)
    said = "Captured again, no better."
    same = (set(old.check.faults) & set(new.check.faults)) - _NOT_PLAYBACK
    if same and Fault.DAMAGED not in new.check.faults:
        named = ", ".join(sorted(map(str, same)))
        said = f"Captured again, no better: a fault of playback ({named})."
    return _stays(old, new, said)


def _stays(old: Side, new: Side, said: str) -> Choice:
    """The old one is better; the new one is marked where it would be offered all the same."""
    return Choice(RepairState.DONE_NOT_BETTER, said, old_stays=new.offered <= old.offered)


def _page(side: Side) -> str:
    if side.page_class is PageClass.HTTP_ERROR or not side.page_class:
        return f"status {side.status}" if side.status else "a page"
    return "the page" if side.page_class is PageClass.OK else f"a page of class {side.page_class}"


def _copy(side: Side) -> str:
    if side.check.verdict is Verdict.UNCHECKED:
        return f"the copy could not be compared ({side.check.reason.rstrip('.') or 'no artifacts'})"
    return f"the copy is {side.check.verdict}"


def _still(side: Side) -> str:
    return " It is still broken." if side.check.verdict is Verdict.BROKEN else ""
