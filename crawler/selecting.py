"""Which items of a frontier an operator means."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.patterns import Pattern
from crawler.frontier.base import Frontier, ItemRecord, ItemState

_BATCH = 1_000
# So many items of one host are asked for by its name; with more, all hosts' are looked through.
_OF_ONE_HOST = 20_000


@dataclass(frozen=True, slots=True)
class Selection:
    """What must hold of an item; what is empty or None is not asked.

    Attributes:
        host: whose turn it takes.
        job: the crawl that it belongs to; empty: items of plain lists.
        reason: a part of its outcome, in any case.
        pattern: it is found in its URL (`core.patterns.compile_pattern`).
    """

    host: str | None = None
    job: str | None = None
    reason: str = ""
    pattern: Pattern | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it means everything."""
        return self == Selection()

    def means(self, record: ItemRecord) -> bool:
        """Whether the item is meant."""
        item = record.item
        if self.host is not None and item.host != self.host:
            return False
        if self.job is not None and item.job != self.job:
            return False
        if self.reason and self.reason.casefold() not in record.outcome.casefold():
            return False
        return self.pattern is None or self.pattern.search(item.url) is not None


def select(
    frontier: Frontier,
    state: ItemState,
    selection: Selection,
    *,
    scanned: Callable[[int], object] = lambda _count: None,
) -> Iterator[list[ItemRecord]]:
    """The items in that state that are meant, in batches, each at least once.

    They are read as `Frontier.scan` reads them: what changes its state meanwhile may be missed.

    Args:
        frontier: where they are.
        state: theirs.
        selection: which.
        scanned: told how many items each batch was chosen from.
    """
    if selection.host is not None:
        found = frontier.ls(state, limit=_OF_ONE_HOST + 1, host=selection.host)
        if len(found) <= _OF_ONE_HOST:
            scanned(len(found))
            meant = [record for record in found if selection.means(record)]
            yield from (meant[at : at + _BATCH] for at in range(0, len(meant), _BATCH))
            return
    cursor = ""
    while True:
        records, cursor = frontier.scan(state, cursor=cursor, limit=_BATCH)
        scanned(len(records))
        meant = [record for record in records if selection.means(record)]
        if meant:
            yield meant
        if not cursor:
            return
