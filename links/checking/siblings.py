"""When a page is held against an invented one beside it.

That costs a request more, two after a HEAD, so it is made only where it may tell more (research links.md
2.3).
"""

from links.checking.due import DueUrl
from links.findings import Finding, Verdict
from links.states import State

_SOFT = "soft 404"  # how the notes of such findings begin
# Nothing in an answer to HEAD tells a page that says "not found" with a good status, and nothing in the
# page itself one that only shows something else: so these looks go closer though nothing calls for it.
_GET_EACH = 4
_BESIDE_EACH = 16


def is_by_get(url: DueUrl, day: int) -> bool:
    """Whether the look is by GET in any case: a link's first one, and about one in four."""
    return url.is_new or _falls_on(url, day, _GET_EACH)


def is_beside(url: DueUrl, day: int) -> bool:
    """Whether a page that looks well is held against an invented one in any case, as above: one in 16."""
    return url.is_new or _falls_on(url, day, _BESIDE_EACH)


def _falls_on(url: DueUrl, day: int, each: int) -> bool:
    # Seven days from look to look, a spread of one: the days run through all remainders.
    return (day + url.key[0]) % each == 0


def wants_sibling(url: DueUrl, finding: Finding, *, is_beside: bool = False) -> bool:
    """Whether a page that looks well is to be held against an invented one beside it.

    When it is to be in any case. When it was failing before: domains come back as something else. And when it is suspected already,
    so that whoever looks next knows more.
    """
    if finding.verdict is Verdict.SUSPECT:
        return not finding.note.startswith(_SOFT)
    if finding.verdict is not Verdict.OK:
        return False
    return is_beside or url.standing.fails > 0 or url.standing.state in (State.DEAD, State.USURPED)
