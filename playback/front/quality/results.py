"""The checks that a request is answered with: those of pages that may be shown, and no others.

A check tells what was captured. So each is held against the captures index and the decisions
(`playback.permits`) before anything is said of it: what was taken down, is hidden or is held back, and
what the index does not have any more, is passed over as if it had never been checked. Numbers of checks
count these, too; so where anything at all is taken down, only those who may judge are told them of less
than everything.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from core.quality import Verdict
from links.books.quality import (
    CheckedPage,
    Filter,
    Place,
    ahead,
    checks_of,
    checks_of_urls,
    tally,
    worst,
)
from links.store.statements import Reader
from links.store.store import Store
from playback.decisions.lists import ListEffect
from playback.front.cautions import Cautions
from playback.front.pages import Page, PageStore
from playback.front.quality.asking import Question
from playback.front.registry.desk import NoRegistryError
from playback.front.registry.source import Source

MOST_COUNTED = 1_000_000  # of each verdict
MOST_COUNTED_OF_SOME = 100_000  # where a filter has to look at each
_AT_ONCE = 200  # rows held against the index in one question
_MANY = 1_000  # where all are wanted
_ROUNDS = 20  # for one part of a list; then it is short, and goes on
_MOST_HISTORY = 200
_EVERYTHING = Filter()
Step = Callable[[Reader, Filter, Place, int], list[CheckedPage]]


@dataclass(frozen=True, slots=True)
class Result:
    """A check, and the page that it is of, which may be shown."""

    row: CheckedPage
    page: Page


@dataclass(frozen=True, slots=True)
class Listed:
    """A part of the list; `after` is the place of the last that was looked at, None at the end."""

    results: tuple[Result, ...]
    after: Place | None


class Results:
    """Asks the registry and the captures index. From any thread; TransientError when one is away.

    Args:
        source: where the registry is.
        store: which pages of the captures index may be shown.
        cautions: which are held back.
    """

    def __init__(self, source: Source, store: PageStore, cautions: Cautions) -> None:
        self._source = source
        self._store = store
        self._cautions = cautions

    def is_there(self) -> bool:
        """Whether there is a registry."""
        return self._source.is_there()

    def registry(self) -> Store:
        """The registry.

        Raises:
            NoRegistryError: there is none.
        """
        store = self._source.store()
        if store is None:
            raise NoRegistryError
        return store

    def listed(self, question: Question) -> Listed:
        """A part of the list, the worst first.

        Raises:
            NoRegistryError: there is none.
        """
        found: list[Result] = []
        after = question.after
        with self.registry().snapshot() as reader:
            for _ in range(_ROUNDS):
                size = min(max(question.limit - len(found), 1), _AT_ONCE)
                rows = worst(reader, question.wanted, after, size)
                found += self._shown(rows)
                if len(rows) < size:
                    return Listed(tuple(found), None)
                after = rows[-1].place
                if len(found) >= question.limit:
                    break
        return Listed(tuple(found), after)

    def every(self, wanted: Filter) -> Iterator[Result]:
        """All that is wanted, the worst first.

        Raises:
            NoRegistryError: there is none.
        """
        after: Place | None = None
        with self.registry().snapshot() as reader:
            while rows := worst(reader, wanted, after, _MANY):
                yield from self._shown(rows)
                after = rows[-1].place

    def one(self, page_id: str, level: str) -> tuple[Result, tuple[Result, ...]]:
        """The check of a page at a level, and those at its other levels.

        Raises:
            HTTPException: 404, there is none, or its page is not shown.
            NoRegistryError: there is none.
        """
        with self.registry().snapshot() as reader:
            rows = checks_of(reader, [page_id])
        results = self._shown(rows)
        found = next((each for each in results if each.row.check.level == level), None)
        if found is None:
            raise HTTPException(404)
        return found, tuple(each for each in results if each is not found)

    def neighbours(self, wanted: Filter, place: Place) -> tuple[Result | None, Result | None]:
        """What stands before a place and behind it.

        Raises:
            NoRegistryError: there is none.
        """
        with self.registry().snapshot() as reader:
            before = self._first(self._parts(ahead, reader, wanted, place))
            behind = self._first(self._parts(worst, reader, wanted, place))
        return before, behind

    def history(self, url: str) -> tuple[Result, ...]:
        """The checks of all captures of a URL, the newest capture first.

        Raises:
            NoRegistryError: there is none.
        """
        with self.registry().snapshot() as reader:
            rows = checks_of_urls(reader, [url])[:_MOST_HISTORY]
        return tuple(each for each in self._shown(rows) if each.page.url == url)

    def totals(self, wanted: Filter, *, by_reviewer: bool) -> dict[Verdict, int] | None:
        """How many there are with which verdict; None when that is not told.

        Raises:
            NoRegistryError: there is none.
        """
        if wanted != _EVERYTHING and not by_reviewer and not self._store.are_open():
            return None
        with self.registry().snapshot() as reader:
            most = MOST_COUNTED if wanted == _EVERYTHING else MOST_COUNTED_OF_SOME
            return tally(reader, wanted, limit=most)

    def _shown(self, rows: Sequence[CheckedPage]) -> list[Result]:
        """Those of the rows that may be shown, in their order."""
        pages = self._store.with_ids(list(dict.fromkeys(row.check.page_id for row in rows)))
        threatened = self._store.threatened(list(pages.values()))
        shown = {
            page_id: page
            for page_id, page in pages.items()
            if page.taken_down is None and page_id not in threatened and not self._is_listed(page)
        }
        return [Result(row, shown[row.check.page_id]) for row in rows if row.check.page_id in shown]

    def _is_listed(self, page: Page) -> bool:
        """Whether its address is on a list that holds copies back."""
        hit = self._cautions.of_url(page.url) or self._cautions.of_url(page.final_url)
        return hit is not None and hit.on.effect is ListEffect.HOLD

    def _first(self, parts: Iterable[Sequence[CheckedPage]]) -> Result | None:
        """The first that may be shown."""
        return next((shown for part in parts for shown in self._shown(part)), None)

    def _parts(
        self, step: Step, reader: Reader, wanted: Filter, place: Place
    ) -> Iterator[Sequence[CheckedPage]]:
        """What comes next from a place on, `worst` or `ahead` of it; the nearest by itself first."""
        size = 1
        for _ in range(_ROUNDS):
            part = step(reader, wanted, place, size)
            yield part
            if len(part) < size:
                return
            place, size = part[-1].place, _AT_ONCE
