"""Queries for checks: parsed from request parameters, answered with visible checks only.

A check reveals what was captured, so checks of pages that are taken down, hidden, held back or no longer in the index
are skipped. Counts include them; so where anything is taken down, filtered counts are shown to reviewers only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from core.errors import BadUrlError, InputError
from core.page_classes import PageClass
from core.playback_check import PlaybackFault, QaVerdict
from links.registry.statements import Reader
from links.url_parts import url_parts_of
from playback.access.levels import Level
from playback.access.threat_lists import ListEffect
from playback.web.copy_notices import CopyWarnings
from playback.web.i18n import noop
from playback.web.page_store import CapturedPage, PageStore
from playback.web.registry.registry_service import RegistrySource
from playback.web.registry.registry_values import parse_flag
from qa import check_store
from qa.check_table import CheckedPage, CheckFilter, CheckPosition, parse_position

PAGE_SIZE = 50
MOST_RESULTS = 500
# An empty verdict needs its own word in an address.
UNCHECKED = "unchecked"
_LONGEST_HOST = 2_000
_HOST = re.compile(r"[^\s/?#@\\:\x00-\x1f\x7f-\x9f]+|\[[0-9A-Fa-f:.]+\]")
_SCORE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{0,6})?%?|\.[0-9]{1,6}%?", re.ASCII)


def parse_check_query(parameters: QueryParams) -> tuple[CheckFilter, CheckPosition | None, int]:
    """Parse filter, position (None: the beginning) and limit; InputError has a text for `translate`."""
    wanted, after = parse_check_filter(parameters), parse_start(parameters.get("after", ""))
    limit, text = PAGE_SIZE, parameters.get("limit", "")
    if text:
        limit = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
        if not 1 <= limit <= MOST_RESULTS:
            raise InputError(noop("limit is a number from 1 to 500."))
    return wanted, after, limit


def parse_check_filter(parameters: Mapping[str, str]) -> CheckFilter:
    """Parse the filter parameters; unknown parameters are ignored."""
    named = {name: parameters.get(name, "").strip() for name in ("verdict", "class", "fault", "level")}
    known: dict[str, set[str]] = {
        "verdict": {UNCHECKED, *filter(None, QaVerdict)},
        "class": {*filter(None, PageClass)},
        "fault": set(PlaybackFault),
        "level": set(Level),
    }
    for name, value in named.items():
        if value and value not in known[name]:
            raise InputError(noop("There is no such filter."))
    verdict = named["verdict"]
    host, below = parameters.get("host", "").strip(), None
    if host:
        is_host = len(host) <= _LONGEST_HOST and _HOST.fullmatch(host)
        try:
            host = url_parts_of(f"http://{host}/" if is_host else host[:_LONGEST_HOST]).host
        except BadUrlError:
            raise InputError(noop("Enter a host name such as www.example.org.")) from None
    score = parameters.get("below", "").strip().replace(" ", "").replace(",", ".")
    if score:
        if _SCORE.fullmatch(score):
            below = float(score[:-1]) / 100 if score.endswith("%") else float(score)
        if below is None or below > 1:
            raise InputError(noop("A score is a number from 0 to 1, or a percentage."))
    return CheckFilter(
        verdict=QaVerdict("" if verdict == UNCHECKED else verdict) if verdict else None,
        host=host or None,
        page_class=PageClass(named["class"]) if named["class"] else None,
        level=named["level"] or None,
        fault=PlaybackFault(named["fault"]) if named["fault"] else None,
        below=below,
        unreviewed=parse_flag(parameters.get("unreviewed", "")),
    )


def filter_values(wanted: CheckFilter) -> dict[str, str]:
    """Return the filter as parameters."""
    values = {
        "verdict": verdict_name(wanted.verdict) if wanted.verdict is not None else "",
        "host": wanted.host or "",
        "class": wanted.page_class or "",
        "fault": wanted.fault or "",
        "level": wanted.level or "",
        "below": "" if wanted.below is None else f"{wanted.below:g}",
        "unreviewed": "1" if wanted.unreviewed else "",
    }
    return {name: str(value) for name, value in values.items() if value}


def verdict_name(verdict: QaVerdict) -> str:
    """Return the name of a verdict in URLs and JSON."""
    return str(verdict) or UNCHECKED


def parse_start(text: str) -> CheckPosition | None:
    """Parse a position in the list; None for its beginning."""
    if not text:
        return None
    try:
        return parse_position(text)
    except InputError:
        raise InputError(noop("after is the position returned with the previous part.")) from None


MOST_COUNTED_OF_SOME = 100_000  # where a filter reads every row
_AT_ONCE = 200  # rows tested against the index in one query
_ROUNDS = 20  # batches for one part of a list; then the part is short
_MOST_HISTORY = 200
_EVERYTHING = CheckFilter()


@dataclass(frozen=True, slots=True)
class VisibleCheck:
    """Check with its page, which may be shown."""

    row: CheckedPage
    page: CapturedPage


@dataclass(frozen=True, slots=True)
class VisibleChecks:
    """Reader of the registry and the captures index. Thread-safe; NoRegistryError, TransientError."""

    _source: RegistrySource
    _store: PageStore
    _cautions: CopyWarnings

    def listed(
        self, wanted: CheckFilter, after: CheckPosition | None, limit: int
    ) -> tuple[list[VisibleCheck], CheckPosition | None]:
        """Return a part of the list, the worst first, and the position of the last row read; None at the end."""
        results: list[VisibleCheck] = []
        with self._source.store().snapshot() as reader:
            for _ in range(_ROUNDS):
                size = min(max(limit - len(results), 1), _AT_ONCE)
                rows = check_store.list_worst_first(reader, wanted, after, size)
                results += self._shown(rows)
                if len(rows) < size:
                    return results, None
                after = rows[-1].place
                if len(results) >= limit:
                    break
        return results, after

    def every(self, wanted: CheckFilter) -> Iterator[VisibleCheck]:
        """Yield all matching checks, the worst first."""
        with self._source.store().snapshot() as reader:
            for rows in check_store.every_check(reader, wanted):
                yield from self._shown(rows)

    def one(self, page_id: str, level: str) -> tuple[VisibleCheck, tuple[VisibleCheck, ...]]:
        """Return the check of a page at a level, and those at its other levels; HTTPException 404: none."""
        with self._source.store().snapshot() as reader:
            rows = check_store.find_checks(reader, [page_id])
        results = self._shown(rows)
        result = next((each for each in results if each.row.check.level == level), None)
        if result is None:
            raise HTTPException(404)
        return result, tuple(each for each in results if each is not result)

    def neighbours(self, wanted: CheckFilter, place: CheckPosition) -> tuple[VisibleCheck | None, VisibleCheck | None]:
        """Return the visible checks before and after a position."""
        with self._source.store().snapshot() as reader:
            before = self._nearest(reader, wanted, place, backward=True)
            behind = self._nearest(reader, wanted, place, backward=False)
        return before, behind

    def history(self, url: str) -> tuple[VisibleCheck, ...]:
        """Return the checks of all captures of a URL, the newest capture first."""
        with self._source.store().snapshot() as reader:
            rows = check_store.find_checks_of_urls(reader, [url])[:_MOST_HISTORY]
        return tuple(each for each in self._shown(rows) if each.page.url == url)

    def totals(self, wanted: CheckFilter, *, by_reviewer: bool) -> dict[QaVerdict, int] | None:
        """Count the matching checks by verdict; None when the counts are not shown."""
        if wanted != _EVERYTHING and not by_reviewer and not self._store.are_open():
            return None
        with self._source.store().snapshot() as reader:
            most = check_store.MOST_COUNTED if wanted == _EVERYTHING else MOST_COUNTED_OF_SOME
            return check_store.count_by_verdict(reader, wanted, limit=most)

    def _shown(self, rows: Sequence[CheckedPage]) -> list[VisibleCheck]:
        """Return the rows that may be shown, in their order."""
        pages = self._store.with_ids(list(dict.fromkeys(row.check.page_id for row in rows)))
        threatened = self._store.threatened(list(pages.values()))
        shown = {}
        for page_id, page in pages.items():
            hit = self._cautions.of_url(page.url) or self._cautions.of_url(page.final_url)
            is_held = hit is not None and hit.on.effect is ListEffect.HOLD
            if page.taken_down is None and page_id not in threatened and not is_held:
                shown[page_id] = page
        return [VisibleCheck(row, shown[row.check.page_id]) for row in rows if row.check.page_id in shown]

    def _nearest(
        self, reader: Reader, wanted: CheckFilter, place: CheckPosition, *, backward: bool
    ) -> VisibleCheck | None:
        """Return the first visible check after or before a position; the first try is a single row."""
        size = 1
        for _ in range(_ROUNDS):
            rows = check_store.list_worst_first(reader, wanted, place, size, backward=backward)
            if shown := self._shown(rows):
                return shown[0]
            if len(rows) < size:
                break
            place, size = rows[-1].place, _AT_ONCE
        return None
