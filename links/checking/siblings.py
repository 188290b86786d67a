"""When a page is held against an invented one beside it, and what both say together.

A probe beside a page costs two requests, so it is made only where it may tell more (research links.md 2.3).
"""

from dataclasses import replace

from links.checking.due import DueUrl
from links.findings import Finding, Verdict
from links.states import State

_SOFT = "soft 404"  # how the notes of such findings begin


def wants_sibling(url: DueUrl, finding: Finding) -> bool:
    """Whether a page that looks well is to be held against an invented one beside it.

    When it was failing before: domains come back as something else. And when it is suspected already,
    so that whoever looks next knows more.
    """
    if finding.verdict is Verdict.SUSPECT:
        return not finding.note.startswith(_SOFT)
    if finding.verdict is not Verdict.OK:
        return False
    return url.standing.fails > 0 or url.standing.state in (State.DEAD, State.USURPED)


def with_sibling(finding: Finding, sibling: Finding) -> Finding:
    """What both looks together say: the second alone may say nothing, or fail for want of luck."""
    if sibling.verdict is Verdict.SUSPECT:
        return replace(sibling, hops=finding.hops, head_fails=finding.head_fails)
    return finding
