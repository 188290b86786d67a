"""A sample in which every host and every sort of page has its share (pure).

Pages are sorted into strata, by host and class. The first page of every stratum comes before any second
one, so a host with a million pages takes no more places than one with three, as long as there are others.
Chance is a hash of the seed and the page's id: the same seed draws the same pages of the same collection,
on any machine and in whatever order they come.
"""

import heapq
from collections.abc import Iterable
from hashlib import blake2b

from crawler.quality.sampling import Candidate

MOST_PAGES = 2_000  # of a sample; what is held while it is drawn grows with its square


class Strata:
    """A stratified sample of a stream of pages.

    Args:
        size: how many are drawn, `MOST_PAGES` at most.
        seed: the chance.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size = min(size, MOST_PAGES)
        self._seed = seed
        # Of each stratum the least chances, the greatest of them first to leave.
        self._strata: dict[tuple[str, str], list[tuple[int, str, Candidate]]] = {}

    def add(self, page: Candidate) -> None:
        """Let the page take its chance."""
        stratum = self._strata.setdefault((page.host, page.page_class), [])
        entry = (-self._chance(page.page_id), page.page_id, page)
        if len(stratum) < self._places():
            heapq.heappush(stratum, entry)
        elif stratum:
            heapq.heappushpop(stratum, entry)

    def add_all(self, pages: Iterable[Candidate]) -> None:
        """Let all of them take their chance."""
        for page in pages:
            self.add(page)

    def drawn(self) -> list[Candidate]:
        """What was drawn, by URL."""
        turns = [
            (turn, -chance, page)
            for stratum in self._strata.values()
            for turn, (chance, _, page) in enumerate(sorted(stratum, reverse=True))
        ]
        first = heapq.nsmallest(self._size, turns, key=lambda each: (each[0], each[1]))
        return sorted((page for _, _, page in first), key=lambda page: (page.url, page.page_id))

    def _places(self) -> int:
        """The most pages that any stratum can still get: every other one has a first."""
        return max(1, self._size - len(self._strata) + 1)

    def _chance(self, page_id: str) -> int:
        text = f"{self._seed}:{page_id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
