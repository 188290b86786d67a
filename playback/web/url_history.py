"""History of a URL: calendar, list of captures, and changes between two."""

import calendar
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, Self

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from playback.url_paths import escape_url, is_web_url
from playback.web import i18n
from playback.web.i18n import localized_path
from playback.web.page_renderer import WebContext, changes_path, history_path
from playback.web.page_request import facet_choices, moment_of, parse_comparison_request, parse_history_request
from playback.web.page_store import CapturedPage, CaptureMoment, TimeSpan
from playback.web.reader_page import no_copy, queue_status_of
from playback.web.text_diff import compare_texts

_LAST_YEAR = 9999


@dataclass(frozen=True, slots=True)
class CalendarDay:
    """Day of a month with its captures; `offered` of them have a copy."""

    date: date
    captures: int
    offered: int
    timestamp: str  # of the newest capture of the day; empty without one
    changed: int = 0  # captures whose text differs from the capture before


@dataclass(frozen=True, slots=True)
class CalendarMonth:
    """Month with its weeks; cells are None before the first day and after the last."""

    year: int
    number: int
    weeks: tuple[tuple[CalendarDay | None, ...], ...]
    captures: int

    @property
    def first(self) -> date:
        """Return its first day."""
        return date(self.year, self.number, 1)


@dataclass(frozen=True, slots=True)
class CalendarYear:
    """Year with its number of captures, and a bar for each month that has some."""

    number: int
    captures: int
    changed: int = 0  # captures whose text differs from the capture before
    # Month, and heights of its captures and of those whose text changed, in per cent of the highest bar.
    bars: tuple[tuple[int, float, float], ...] = ()


class CaptureCalendar:
    """Captures of one URL by day."""

    def __init__(self, moments: Iterable[CaptureMoment]) -> None:
        self._captures: Counter[str] = Counter()
        self._offered: Counter[str] = Counter()
        self._changed: Counter[str] = Counter()
        self._newest: dict[str, str] = {}
        before = ""
        for moment in sorted(moments, key=lambda each: each.timestamp):
            day = moment.timestamp[:8]
            self._changed[day] += bool(before and moment.text_digest) and moment.text_digest != before
            before = moment.text_digest or before
            self._captures[day] += 1
            self._offered[day] += moment.is_offered
            self._newest[day] = max(moment.timestamp, self._newest.get(day, ""))

    @classmethod
    def of_days(cls, days: Mapping[str, tuple[int, str]]) -> Self:
        """Create the calendar of `PageStore.days`; whether there are copies is not known, and assumed."""
        instance = cls(())
        instance._captures = instance._offered = Counter({day: count for day, (count, _) in days.items()})
        instance._newest = {day: newest for day, (_, newest) in days.items()}
        return instance

    @property
    def total(self) -> int:
        """Return the number of captures."""
        return self._captures.total()

    def years(self) -> tuple[CalendarYear, ...]:
        """Return the years from first to last, oldest first; of more than 100 only those with captures."""
        months: Counter[str] = Counter()
        changes: Counter[str] = Counter()
        for day, count in self._captures.items():
            months[day[:6]] += count
            changes[day[:6]] += self._changed[day]
        if not months:
            return ()
        scale = 100 / max(months.values())
        bars: dict[int, list[tuple[int, float, float]]] = {}
        for month in sorted(months):
            # A single capture next to thousands is still visible.
            height, changed = (count and max(count * scale, 6) for count in (months[month], changes[month]))
            bars.setdefault(int(month[:4]), []).append((int(month[4:]), height, min(changed, height)))
        between = range(min(bars), max(bars) + 1)
        years = []
        for year in between if len(between) <= 100 else sorted(bars):
            total, changed = (sum(each[f"{year:04}{month:02}"] for month in range(1, 13)) for each in (months, changes))
            years.append(CalendarYear(year, total, changed, tuple(bars.get(year, ()))))
        return tuple(years)

    def months(self, year: int, *, first_weekday: int) -> tuple[CalendarMonth, ...]:
        """Return the months of a year, in weeks that begin with that day (0: Monday)."""
        weeks = calendar.Calendar(first_weekday)
        months = []
        for number in range(1, 13):
            laid_out = tuple(
                tuple(self._day(year, number, each) if each else None for each in week)
                for week in weeks.monthdayscalendar(year, number)
            )
            captures = sum(day.captures for week in laid_out for day in week if day)
            months.append(CalendarMonth(year, number, laid_out, captures))
        return tuple(months)

    def _day(self, year: int, month: int, number: int) -> CalendarDay:
        name = f"{year:04}{month:02}{number:02}"
        counts = self._captures[name], self._offered[name]
        return CalendarDay(date(year, month, number), *counts, self._newest.get(name, ""), self._changed[name])


def span_of(period: str) -> TimeSpan | None:
    """Parse a period of 4, 6 or 8 digits: a year, a month or a day; None when it is invalid.

    >>> span_of("202602").end
    datetime.datetime(2026, 3, 1, 0, 0, tzinfo=datetime.timezone.utc)
    >>> span_of("20260230"), span_of("0000")
    (None, None)
    """
    try:
        start = datetime(int(period[:4]), int(period[4:6] or 1), int(period[6:8] or 1), tzinfo=UTC)
        if start.year >= _LAST_YEAR:
            return None
        if len(period) == 8:
            return TimeSpan(start, start + timedelta(days=1))
        if len(period) == 6:
            return TimeSpan(start, start + timedelta(days=calendar.monthrange(start.year, start.month)[1]))
        return TimeSpan(start, start.replace(year=start.year + 1))
    except ValueError:
        return None


CAPTURES_SHOWN = 100
_MOST_SPELLINGS = 20
_MOST_LINKS = 200
_TO_THE_SECOND = 14  # digits


@dataclass(frozen=True, slots=True)
class CaptureListEntry:
    """Capture in the list of a URL's captures."""

    page: CapturedPage
    older: CapturedPage | None  # the previous capture, if any
    is_same: bool | None  # whether both have the same text; None when unknown
    same_since: CapturedPage | None  # earliest other one in a row with the same text


class HistoryPages:
    """Views of one URL's captures. Plain functions, run by Starlette in threads."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    def captures(self, request: Request) -> Response:
        """Return the calendar and the list."""
        wanted = parse_history_request(request)
        store = self._context.store
        span = _span(wanted.period)
        moments = store.moments(wanted.url)
        if not moments:
            page = store.nearest(wanted.url, None)
            if page is None:
                return no_copy(self._context, wanted.url)
            return RedirectResponse(history_path(page.url, wanted.period, wanted.facets), 302)
        facets = wanted.facets
        calendar = CaptureCalendar(filter(facets.include, moments))
        if not calendar.total:
            return RedirectResponse(history_path(wanted.url, wanted.period), 302)
        captures = partial(store.captures, wanted.url, facets=facets)
        pages = captures(span=span, limit=CAPTURES_SHOWN + 1)
        live_url = wanted.url if is_web_url(wanted.url) else None
        if live_url is not None and self._context.copy_warnings.of_url(live_url):
            live_url = localized_path(f"/live/{escape_url(live_url)}")  # the warning before a listed URL
        return self._context.render(
            "url.html",
            url=wanted.url,
            period=wanted.period,
            span=span,
            until=moment_of(wanted.period) if len(wanted.period) == _TO_THE_SECOND else None,
            **history_values(calendar, pages, wanted.period),
            facets=facets,
            choices=facet_choices(moments, facets),
            first=next(iter(captures(limit=1, oldest_first=True)), None),
            newest=next(iter(captures(limit=1)), None),
            live_url=live_url,
            spellings=store.spellings(wanted.url, limit=_MOST_SPELLINGS),
            standing=queue_status_of(self._context, wanted.url),
        )

    def changes(self, request: Request) -> Response:
        """Return the differences between two captures, the older one first."""
        *timestamps, url = wanted = parse_comparison_request(request)
        first, second = (self._context.store.nearest(url, moment_of(each)) for each in timestamps)
        if first is None or second is None:
            return no_copy(self._context, url)
        older, newer = sorted((first, second), key=lambda page: page.captured_at)
        if wanted != (older.timestamp, newer.timestamp, newer.url):
            return RedirectResponse(changes_path(older, newer), 302)
        is_same = _is_same(older, newer)
        difference = compare_texts("", "") if is_same else None
        if not is_same:
            before, after = map(self._context.records.text, (older, newer))
            if before is not None and after is not None:
                # It may take a second of a core; `load_limits` lets one reader compare at a time.
                difference = compare_texts(before, after)
        return self._context.render(
            "changes.html",
            older=older,
            newer=newer,
            url=url,
            difference=difference,
            links=self._links(older, newer),
            is_same=is_same,
        )

    def _links(self, older: CapturedPage, newer: CapturedPage) -> dict[str, Any] | None:
        """Return added and removed links, the first of many; None when they are not known."""
        if older.withheld or newer.withheld:
            return None  # a manifest lists the links of frames, too
        manifests = [self._context.records.manifest(page) for page in (older, newer)]
        if manifests[0] is None or manifests[1] is None:
            return None
        before, after = set(manifests[0].outlinks), set(manifests[1].outlinks)
        added, removed = sorted(after - before), sorted(before - after)
        is_cut = max(len(added), len(removed)) > _MOST_LINKS
        return {"added": added[:_MOST_LINKS], "removed": removed[:_MOST_LINKS], "is_cut": is_cut}


def history_values(calendar: CaptureCalendar, pages: Sequence[CapturedPage], period: str) -> dict[str, Any]:
    """Return what a page of captures shows: years, the months of the period's or the last year, and the list."""
    years = calendar.years()
    year = int(period[:4]) if period else years[-1].number if years else 0
    return {
        "total": calendar.total,
        "years": years,
        "year": year,
        "months": calendar.months(year, first_weekday=i18n.first_weekday()) if years else (),
        "listed": list_captures(pages)[:CAPTURES_SHOWN],
        "older": pages[CAPTURES_SHOWN] if len(pages) > CAPTURES_SHOWN else None,
    }


def list_captures(pages: Sequence[CapturedPage]) -> list[CaptureListEntry]:
    """Return the captures, newest first, each compared with the previous one."""
    entries: list[CaptureListEntry] = []
    for older, page in pairwise((None, *reversed(pages))):
        assert page is not None
        is_same = None if older is None else _is_same(older, page)
        since = (entries[-1].same_since or older) if is_same else None
        entries.append(CaptureListEntry(page, older, is_same, since))
    return entries[::-1]


def _is_same(older: CapturedPage, newer: CapturedPage) -> bool | None:
    return older.text_digest == newer.text_digest if older.text_digest and newer.text_digest else None


def _span(period: str) -> TimeSpan | None:
    if not period:
        return None
    if len(period) == _TO_THE_SECOND:
        try:
            return TimeSpan(datetime(1, 1, 1, tzinfo=UTC), moment_of(period) + timedelta(seconds=1))
        except OverflowError:
            raise HTTPException(404) from None
    span = span_of(period)
    if span is None:
        raise HTTPException(404)
    return span
