"""Which of many URLs have an archived copy of our own, as `playback.front.offering` decides it."""

from collections.abc import Iterator, Sequence

from core.errors import BadUrlError, TransientError
from playback.database import Database
from playback.front.offering import Offering, Spelled
from playback.front.pages import PageStore

_MOST = 1_000  # URLs of one answer; what is beyond has no link to its copy


class OwnCopies:
    """Asks the captures index. From any thread."""

    def __init__(self, database: Database, store: PageStore) -> None:
        self._offering = Offering(database, store)

    def newest(self, urls: Sequence[str]) -> dict[str, str]:
        """Return the timestamp of the copy that is offered, for those URLs that have one.

        When the index cannot be read, the links are told without copies.
        """
        asked = list(_spelled(list(dict.fromkeys(urls))[:_MOST]))
        try:
            offers = self._offering.of([spelled for _, spelled in asked])
        except TransientError:
            return {}
        return {
            url: offer.page.timestamp
            for (url, _), offer in zip(asked, offers, strict=True)
            if offer is not None and offer.page is not None
        }


def _spelled(urls: Sequence[str]) -> Iterator[tuple[str, Spelled]]:
    """Yield each URL that can be fetched, with its spellings."""
    for url in urls:
        try:
            yield url, Spelled.of(url)
        except BadUrlError:
            continue
