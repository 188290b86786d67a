"""What became of a URL: its calendar, the list of its captures, and what changed between two."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from core.errors import PermanentError
from core.records import ArtifactKind
from playback.addresses import escape_url, is_web_url
from playback.front import languages
from playback.front.asking import asked_history, asked_pair, moment_of
from playback.front.calendars import Calendar, span_of
from playback.front.differing import Difference, differences
from playback.front.facets import choices
from playback.front.languages import here
from playback.front.pages import Page, Span
from playback.front.reader import manifest_of, no_copy, standing_of
from playback.front.views import Means, changes_path, history_path

CAPTURES_SHOWN = 100
_MOST_SPELLINGS = 20
_MOST_LINKS = 200
_WHOLE = timedelta(seconds=1)
_TO_THE_SECOND = 14  # digits
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listed:
    """A capture in the list of a URL's captures.

    Attributes:
        page: the capture.
        older: the one before it, if there is one.
        is_same: whether a reader sees the same text in both; None when nobody can say.
        same_since: the earliest of the captures in a row with the same text, itself left out.
    """

    page: Page
    older: Page | None
    is_same: bool | None
    same_since: Page | None


@dataclass(frozen=True, slots=True)
class Links:
    """Links that are new and links that are gone, each list cut where it is very long."""

    added: Sequence[str]
    removed: Sequence[str]
    is_cut: bool


class History:
    """The views of one URL's captures. Plain functions: Starlette runs them in threads."""

    def __init__(self, means: Means) -> None:
        self._means = means

    def captures(self, request: Request) -> Response:
        """The calendar and the list."""
        wanted = asked_history(request)
        store = self._means.store
        span = _span(wanted.period)
        moments = store.moments(wanted.url)
        if not moments:
            found = store.nearest(wanted.url, None)
            if found is None:
                return no_copy(self._means, wanted.url)
            return RedirectResponse(history_path(found.url, wanted.period, wanted.facets), 302)
        facets = wanted.facets
        calendar = Calendar(filter(facets.include, moments))
        if not calendar.total:
            return RedirectResponse(history_path(wanted.url, wanted.period), 302)
        captures = partial(store.captures, wanted.url, facets=facets)
        pages = captures(span=span, limit=CAPTURES_SHOWN + 1)
        year = int(wanted.period[:4]) if wanted.period else calendar.years()[-1].number
        return self._means.render(
            "url.html",
            url=wanted.url,
            period=wanted.period,
            span=span,
            until=moment_of(wanted.period) if len(wanted.period) == _TO_THE_SECOND else None,
            total=calendar.total,
            years=calendar.years(),
            year=year,
            months=calendar.months(year, first_weekday=languages.first_weekday()),
            listed=listed(pages)[:CAPTURES_SHOWN],
            older=pages[CAPTURES_SHOWN] if len(pages) > CAPTURES_SHOWN else None,
            facets=facets,
            choices=choices(moments, facets),
            first=next(iter(captures(limit=1, oldest_first=True)), None),
            newest=next(iter(captures(limit=1)), None),
            live_url=self._live(wanted.url),
            spellings=store.spellings(wanted.url, limit=_MOST_SPELLINGS),
            standing=standing_of(self._means, wanted.url),
        )

    def _live(self, url: str) -> str | None:
        """Where a link to the live page leads: past a warning when the address is listed."""
        if not is_web_url(url):
            return None
        listed = self._means.cautions.of_url(url)
        return here(f"/live/{escape_url(url)}") if listed else url

    def changes(self, request: Request) -> Response:
        """What differs between two captures, the older first."""
        wanted = asked_pair(request)
        moments = moment_of(wanted.first), moment_of(wanted.second)
        pages = [self._means.store.nearest(wanted.url, each) for each in moments]
        first, second = pages
        if first is None or second is None:
            return no_copy(self._means, wanted.url)
        older, newer = sorted((first, second), key=lambda page: page.captured_at)
        named = (wanted.first, wanted.second, wanted.url)
        if named != (older.timestamp, newer.timestamp, newer.url):
            return RedirectResponse(changes_path(older, newer), 302)
        return self._means.render(
            "changes.html",
            older=older,
            newer=newer,
            url=wanted.url,
            difference=self._difference(older, newer),
            links=self._links(older, newer),
            is_same=_is_same(older, newer),
        )

    def _difference(self, older: Page, newer: Page) -> Difference | None:
        """None when one of them has no text that can be read."""
        if _is_same(older, newer):
            return differences("", "")
        texts = [self._text(page) for page in (older, newer)]
        if texts[0] is None or texts[1] is None:
            return None
        # It may take a second of a core; `load_limit` lets one reader compare at a time.
        return differences(texts[0], texts[1])

    def _text(self, page: Page) -> str | None:
        place = self._means.store.place(page, ArtifactKind.TEXT)
        if place is None or self._means.records is None:
            return None
        try:
            return self._means.records.text(place)
        except PermanentError as error:
            _LOG.warning("front.text_unreadable: page_id=%s %s", page.page_id, error)
            return None

    def _links(self, older: Page, newer: Page) -> Links | None:
        if older.withheld or newer.withheld:
            return None  # a manifest lists the links of frames, too
        manifests = [manifest_of(self._means, page) for page in (older, newer)]
        if manifests[0] is None or manifests[1] is None:
            return None
        before, after = set(manifests[0].outlinks), set(manifests[1].outlinks)
        added, removed = sorted(after - before), sorted(before - after)
        is_cut = len(added) > _MOST_LINKS or len(removed) > _MOST_LINKS
        return Links(added[:_MOST_LINKS], removed[:_MOST_LINKS], is_cut)


def listed(pages: Sequence[Page]) -> list[Listed]:
    """The captures, newest first, each held against the one before it."""
    found: list[Listed] = []
    for page, older in zip(reversed(pages), _shifted(reversed(pages)), strict=True):
        is_same = None if older is None else _is_same(older, page)
        since = None
        if is_same:
            since = found[-1].same_since or older
        found.append(Listed(page, older, is_same, since))
    return found[::-1]


def _shifted(pages: Iterable[Page]) -> Iterable[Page | None]:
    before: Page | None = None
    for page in pages:
        yield before
        before = page


def _is_same(older: Page, newer: Page) -> bool | None:
    if not older.text_digest or not newer.text_digest:
        return None
    return older.text_digest == newer.text_digest


def _span(period: str) -> Span | None:
    """The time that the list shows; None: all of it.

    Raises:
        HTTPException: 404, the digits name no time.
    """
    if not period:
        return None
    if len(period) == _TO_THE_SECOND:
        end = moment_of(period)
        start = span_of("0001")
        assert start is not None
        try:
            return Span(start.start, end + _WHOLE)
        except OverflowError:
            raise HTTPException(404) from None
    span = span_of(period)
    if span is None:
        raise HTTPException(404)
    return span
