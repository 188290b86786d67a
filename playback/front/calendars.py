"""The calendar of a URL's captures: counted by day, laid out by the reader's weeks. Pure."""

import calendar
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from playback.front.pages import Moment, Span

_LAST_YEAR = 9999


@dataclass(frozen=True, slots=True)
class Day:
    """A day of a month with its captures; `offered` of them have a copy to read."""

    date: date
    captures: int
    offered: int
    timestamp: str  # of the newest capture of the day; empty without one


@dataclass(frozen=True, slots=True)
class Month:
    """A month: its weeks, whose cells are None before the first day and after the last."""

    year: int
    number: int
    weeks: tuple[tuple[Day | None, ...], ...]
    captures: int

    @property
    def first(self) -> date:
        """Its first day."""
        return date(self.year, self.number, 1)


@dataclass(frozen=True, slots=True)
class Year:
    """A year and how many captures it has."""

    number: int
    captures: int


class Calendar:
    """The captures of one URL by day."""

    def __init__(self, moments: Iterable[Moment]) -> None:
        self._captures: Counter[str] = Counter()
        self._offered: Counter[str] = Counter()
        self._newest: dict[str, str] = {}
        for moment in moments:
            day = moment.timestamp[:8]
            self._captures[day] += 1
            self._offered[day] += moment.is_offered
            self._newest[day] = max(moment.timestamp, self._newest.get(day, ""))

    @property
    def total(self) -> int:
        """How many captures there are."""
        return self._captures.total()

    def years(self) -> tuple[Year, ...]:
        """The years from the first capture to the last, those without any too, oldest first.

        Of a stretch of over a hundred years only those with captures.
        """
        counts: Counter[int] = Counter()
        for day, count in self._captures.items():
            counts[int(day[:4])] += count
        if not counts:
            return ()
        between = range(min(counts), max(counts) + 1)
        return tuple(
            Year(each, counts[each])
            for each in (between if len(between) <= 100 else sorted(counts))
        )

    def months(self, year: int, *, first_weekday: int) -> tuple[Month, ...]:
        """The months of a year, in weeks that begin with that day (0: Monday)."""
        weeks = calendar.Calendar(first_weekday)
        months = []
        for number in range(1, 13):
            laid_out = tuple(
                tuple(self._day(year, number, each) for each in week)
                for week in weeks.monthdayscalendar(year, number)
            )
            captures = sum(day.captures for week in laid_out for day in week if day)
            months.append(Month(year, number, laid_out, captures))
        return tuple(months)

    def _day(self, year: int, month: int, number: int) -> Day | None:
        if not number:
            return None
        name = f"{year:04}{month:02}{number:02}"
        return Day(
            date(year, month, number),
            self._captures[name],
            self._offered[name],
            self._newest.get(name, ""),
        )


def span_of(period: str) -> Span | None:
    """The time that 4, 6 or 8 digits name: a year, a month, a day; None when they name none.

    >>> span_of("202602").end
    datetime.datetime(2026, 3, 1, 0, 0, tzinfo=datetime.timezone.utc)
    >>> span_of("20260230"), span_of("0000")
    (None, None)
    """
    try:
        numbers = [int(period[:4]), int(period[4:6] or 1), int(period[6:8] or 1)]
        start = datetime(numbers[0], numbers[1], numbers[2], tzinfo=UTC)
        if start.year >= _LAST_YEAR:
            return None
        if len(period) == 8:
            return Span(start, start + timedelta(days=1))
        if len(period) == 6:
            days = calendar.monthrange(start.year, start.month)[1]
            return Span(start, start + timedelta(days=days))
        return Span(start, start.replace(year=start.year + 1))
    except ValueError:
        return None
