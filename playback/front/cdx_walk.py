"""Answering a question to the CDX server, some rows at a time and never all of them at once.

Rows come a chunk after the other, each one question to the index. What is looked at for one answer is
bounded in rows and in time; an answer that ends early says from where to go on.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from core.captures import Capture, RecordLocation
from core.errors import InputError, TransientError
from core.records import RecordType
from core.timestamps import moment
from playback.captures_queries import Between, CaptureRows, Position, Row
from playback.decisions.takedowns import Effect, Takedown
from playback.front.cdx_query import MOST_PAGED, MOST_ROWS, Query

_CHUNK = 1_000  # rows
_MOST_SORTED = 10_000  # rows that are held to be told in another order
_NOWHERE = RecordLocation("", 0, 0)  # where a record lies is of no interest here


class CapturePermits(Protocol):
    """Whoever knows which captures may be shown."""

    def capture(self, capture: Capture) -> Takedown | None:
        """The take-down of a capture; None: it may be shown."""
        ...


class NoSuchPageError(InputError):
    """The page of rows that is asked for lies beyond the last."""


@dataclass
class Budget:
    """How much may be looked at for one answer.

    Attributes:
        rows: how many rows are left.
        late: whether the time is over.
    """

    rows: int
    late: Callable[[], bool]


class Walk:
    """The rows that answer a question.

    Attributes:
        resume: once they are told: where to go on; None when there is nothing more.
        ended_late: whether time was over before they were told.
    """

    def __init__(
        self, rows: CaptureRows, permits: CapturePermits, query: Query, late: Callable[[], bool]
    ) -> None:
        self._rows = rows
        self._permits = permits
        self._query = query
        self._budget = Budget(MOST_ROWS if query.page is None else query.page_rows, late)
        self._after = query.after
        self.resume: Position | None = None
        self.ended_late = False

    def start(self) -> None:
        """Go to the page that is asked for.

        Raises:
            NoSuchPageError: there is no such page.
            TransientError: the index cannot be read.
        """
        query = self._query
        if not query.page:
            return
        before = query.page * query.page_rows
        if before < MOST_PAGED:
            self._after = self._place(before - 1)
            if self._after is not None and self._place(before) is not None:
                return
        last = max(self.pages() - 1, 0)
        raise NoSuchPageError(f"Page {query.page} is none: the first page is 0, the last {last}.")

    def pages(self) -> int:
        """How many pages of rows there are."""
        query = self._query
        rows = self._rows.count(query.keys, query.between, most=MOST_PAGED)
        return -(-rows // query.page_rows)

    def end(self) -> Position | None:
        """Where the answer will end although there is more, before anything is told; else None."""
        query = self._query
        is_whole = query.limit is not None and query.limit < MOST_ROWS
        if is_whole or query.page is not None or query.closest is not None or query.newest:
            return None
        last = self._place(MOST_ROWS - 1)
        return last if last is not None and self._place(MOST_ROWS) is not None else None

    def _place(self, offset: int) -> Position | None:
        query = self._query
        return self._rows.place(
            query.keys,
            query.between,
            offset=offset,
            after=query.after,
            descending=query.descending,
        )

    def told(self) -> Iterator[list[Row]]:
        """The rows to tell, chunk by chunk.

        Raises:
            TransientError: the index cannot be read, or time is over where no key can be given.
        """
        query = self._query
        if query.closest is not None:
            matching = self._matching([row] for row in self._by_distance(query.closest))
            yield from _limited(matching, query.skip, query.limit)
            self.resume = None  # there is no going on in this order
        elif query.newest:
            reverse = replace(query, descending=not query.descending, newest=False)
            held = min(query.limit or 0, _MOST_SORTED)
            found = self._matching(self._chunks(reverse))
            yield [each for chunk in _limited(found, query.skip, held) for each in chunk][::-1]
            self.resume = None
        else:
            yield from self._in_order()

    def _in_order(self) -> Iterator[list[Row]]:
        query, skip, left = self._query, self._query.skip, self._query.limit
        for chunk, is_more in _with_next(self._chunks(query)):
            matching = self._of_chunk(chunk)
            skipped = min(skip, len(matching))
            skip -= skipped
            matching = matching[skipped:]
            if left is not None and len(matching) >= left:
                matching = matching[:left]
                if matching and (matching[-1].position != chunk[-1].position or is_more()):
                    self.resume = matching[-1].position
                yield matching
                return
            if left is not None:
                left -= len(matching)
            yield matching
        if self.ended_late and not query.wants_key:
            raise TransientError("The captures index answers too slowly for all of this.")

    def _chunks(self, query: Query) -> Iterator[list[Row]]:
        """Rows of the index in the question's order, until the budget is used up."""
        after = self._after if query.closest is None else None
        while True:
            if self._budget.late():
                self.resume, self.ended_late = after, True
                return
            if self._budget.rows <= 0:
                if query.page is None and self._next(query, after, 1):
                    self.resume = after
                return
            limit = min(_CHUNK, self._budget.rows)
            rows = self._next(query, after, limit)
            self._budget.rows -= len(rows)
            if rows:
                after = rows[-1].position
                yield rows
            if len(rows) < limit:
                return

    def _next(self, query: Query, after: Position | None, limit: int) -> list[Row]:
        if query.keys.is_one:
            return self._rows.of_key(
                query.keys.low,
                query.between,
                after=after,
                descending=query.descending,
                limit=limit,
            )
        return self._rows.of_range(
            query.keys, after=after, descending=query.descending, limit=limit
        )

    def _by_distance(self, closest: int) -> Iterator[Row]:
        """Rows of one key, the nearest first; of two equally near ones the earlier."""
        between = self._query.between
        later = replace(
            self._query, between=replace(between, first_ms=max(closest, between.first_ms))
        )
        earlier = replace(
            self._query,
            between=Between(between.first_ms, min(closest - 1, between.last_ms)),
            descending=True,
        )

        def distance(row: Row) -> int:
            return abs(row.position.captured_ms - closest)

        sides = (self._each(earlier), self._each(replace(later, descending=False)))
        return heapq.merge(*sides, key=distance)

    def _each(self, query: Query) -> Iterator[Row]:
        for chunk in self._chunks(query):
            yield from chunk

    def _matching(self, chunks: Iterable[list[Row]]) -> Iterator[list[Row]]:
        return (self._of_chunk(chunk) for chunk in chunks)

    def _of_chunk(self, chunk: list[Row]) -> list[Row]:
        """The rows of a chunk that are told."""
        between, filters = self._query.between, self._query.filters
        return [
            row
            for row in chunk
            if between.first_ms <= row.position.captured_ms <= between.last_ms
            and all(matches(row) for matches in filters)
            and not self._is_hidden(row)
            and self._is_new(row)
        ]

    def _is_hidden(self, row: Row) -> bool:
        takedown = self._permits.capture(
            Capture(
                row.url,
                row.urlkey,
                moment(row.position.captured_ms),
                RecordType.RESPONSE,
                row.mime,
                row.status,
                row.digest,
                _NOWHERE,
                page_id=row.page_id or None,
                login=row.login,
            )
        )
        return takedown is not None and takedown.effect is Effect.HIDE

    _last: tuple[tuple[str, ...], ...] = ()

    def _is_new(self, row: Row) -> bool:
        """Whether the row stands for itself rather than with the one before it."""
        if not self._query.collapses:
            return True
        keys = tuple(each.key(row) for each in self._query.collapses)
        same = [old == new for old, new in zip(self._last, keys, strict=False)]
        self._last = keys
        return not any(same)


def _limited(chunks: Iterable[list[Row]], skip: int, limit: int | None) -> Iterator[list[Row]]:
    found = (row for chunk in chunks for row in chunk)
    rows = islice(found, skip, None if limit is None else skip + limit)
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk


def _with_next(
    chunks: Iterator[list[Row]],
) -> Iterator[tuple[list[Row], Callable[[], bool]]]:
    """Each chunk, and how to ask whether there is another."""
    ahead: list[list[Row]] = []

    def is_more() -> bool:
        if not ahead and (following := next(chunks, None)) is not None:
            ahead.append(following)
        return bool(ahead)

    while is_more():
        chunk = ahead.pop()
        yield chunk, is_more
