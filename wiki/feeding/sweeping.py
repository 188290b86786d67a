"""How far a sweep has come (B01, W36): every page of a wiki, list by list, in the order of titles. Pure.

A sweep goes through lists: the namespaces, or the categories or templates when these choose the pages. Then, in its
rest, it looks at the pages that the registry has and no list did: they are gone, or not observed. Its
cursor is a text that survives restarts and changed settings: a list that is no more is passed by.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from wiki.api.facts import SiteFacts
from wiki.feeding.criteria import Criteria
from wiki.feeding.trees import category_title

REST = "rest"
DONE = "done"
LONGEST_DAYS = 28
NAMESPACE = "namespace"
CATEGORY = "category"
TEMPLATE = "template"


@dataclass(frozen=True, slots=True, order=True)
class List:
    """A list of pages: those of a namespace, in a category, or using a template."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep's cursor.

    Attributes:
        round: 1 is the first sweep of the wiki, which is its import.
        began: seconds since 1970.
        began_day: a number of `links.days`.
        kind: of the list that is gone through; `REST`, `DONE`.
        name: of that list.
        resume: where it goes on.
        pages: that were looked at.
        links: that were found.
        after: in the rest, the registry's number of the last page.
    """

    round: int
    began: int
    began_day: int
    kind: str = ""
    name: str = ""
    resume: str = ""
    pages: int = 0
    links: int = 0
    after: int = 0

    @property
    def is_first(self) -> bool:
        """Whether the archive has seen nothing of the wiki before."""
        return self.round == 1

    @property
    def is_done(self) -> bool:
        """Whether it is over."""
        return self.kind == DONE

    def text(self) -> str:
        """As the registry keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> "Sweep | None":
        """The sweep in that text; None when there is none."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None


def is_due(sweep: Sweep | None, *, now: datetime, days: float) -> bool:
    """Whether a new sweep is to begin: there was none, or the last began so long ago."""
    if sweep is None:
        return True
    if not sweep.is_done:
        return False
    return now >= datetime.fromtimestamp(sweep.began, UTC) + timedelta(days=days)


def late(sweep: Sweep | None, *, now: datetime) -> str:
    """Return what is to be said of a sweep that takes over four weeks; empty when it does not (W38)."""
    if sweep is None or sweep.is_done:
        return ""
    days = (now - datetime.fromtimestamp(sweep.began, UTC)).days
    if days <= LONGEST_DAYS:
        return ""
    return (
        f"A sweep has been at work for {days} days and has read {sweep.pages:,} pages; all pages should be "
        f"read within {LONGEST_DAYS}: observe fewer pages, or use an account with higher limits."
    )


def begun(last: Sweep | None, *, now: datetime, day: int) -> Sweep:
    """A new sweep; the first is the first until it was once done."""
    is_first = last is None or (last.is_first and not last.is_done)
    number = 1 if last is None or is_first else last.round + 1
    return Sweep(number, int(now.timestamp()), day)


def lists_of(criteria: Criteria, facts: SiteFacts) -> list[List]:
    """The lists that have all pages which may be observed."""
    if criteria.inside is not None:
        return sorted(List(CATEGORY, category_title(name, facts)) for name in criteria.listed)
    if criteria.using is not None:
        return sorted(List(TEMPLATE, title) for title in criteria.listed)
    return [List(NAMESPACE, str(number)) for number in sorted(criteria.namespaces)]


def current(sweep: Sweep, lists: Sequence[List]) -> tuple[List, str] | None:
    """The list that the sweep is at, and where in it; None: the rest.

    Settings may have changed since: then it goes on with the next list that there is.
    """
    if sweep.kind in (REST, DONE):
        return None
    if not sweep.kind:
        return (lists[0], "") if lists else None
    at = List(sweep.kind, sweep.name)
    if at in lists:
        return at, sweep.resume
    place = _place(at)
    later = [each for each in lists if _place(each) > place]
    return (later[0], "") if later else None


def after_part(sweep: Sweep, at: List, resume: str, lists: Sequence[List]) -> Sweep:
    """The sweep when a part of the list was written, which goes on at `resume`; empty: at its end."""
    if resume:
        return replace(sweep, kind=at.kind, name=at.name, resume=resume)
    place = _place(at)
    later = [each for each in lists if _place(each) > place]
    if later:
        return replace(sweep, kind=later[0].kind, name=later[0].name, resume="")
    return replace(sweep, kind=REST, name="", resume="", after=0)


def _place(each: List) -> tuple[str, int, str]:
    number = int(each.name) if each.kind == NAMESPACE and each.name.lstrip("-").isdigit() else 0
    return each.kind, number, each.name
