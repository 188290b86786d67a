"""When a link is looked at again, and whether everything can be looked at in time (W38).

Days are those of `links.days`. What is spread is spread by the URL's key and the day alone: the same
look gives the same next day, and what was imported together parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from links.findings import Finding
from links.presets import Preset
from links.states import Standing


def next_due(  # the arguments are a look's
    before: Standing, after: Standing, finding: Finding, day: int, preset: Preset, key: bytes
) -> int | None:
    """The day on which the link is to be looked at again; None: never.

    Args:
        before: where it stood before the look.
        after: where it stands now (`links.states.after`).
        finding: what the look found.
        day: the day of the look.
        preset: the intervals.
        key: the URL's key (`links.locator.key_of`).
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether everything is looked at in time.

    Attributes:
        days: a look at every link takes so long; infinite when nothing is done.
        load: looks that fall due each day as part of those that can be done; above 1 links wait.
        fits: whether a pass is within its days, and no link waits beyond them.
        sentence: the same for people, with what would help; English.
    """

    days: float
    load: float
    fits: bool
    sentence: str


def pass_outlook(
    links: Mapping[int, int],
    looks_per_s: float,
    *,
    pass_days: int = 28,
    largest_host: int = 0,
    host_gap_s: float = 6.0,
) -> Outlook:
    """How long a look at everything takes (W38).

    Args:
        links: how many links there are by the days from one look to the next.
        looks_per_s: looks that are done a second, as observed.
        pass_days: what it should take at most.
        largest_host: links of the host that has most of them: one at a time, with the gap.
        host_gap_s: the gap, in seconds.
    """
    raise NotImplementedError
