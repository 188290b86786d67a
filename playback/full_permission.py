"""Who may see a copy in full: what the levels say of the page, asked for each request."""

from playback.decisions.level_book import LevelBook
from playback.decisions.levels import Level


class FullPermission:
    """Asks the levels. From any thread."""

    def __init__(self, book: LevelBook) -> None:
        self._book = book

    def allows(self, url: str, final_url: str, wiki: str = "") -> bool:
        """True when readers of that wiki (empty: of none) may see the page in full.

        Raises:
            TransientError: the decisions cannot be read.
        """
        return self._book.now().of_page((url, final_url), wiki) is Level.FULL

    def knows(self, wiki: str) -> bool:
        """True when that wiki has rules of its own; else its readers are as good as anybody.

        Raises:
            TransientError: the decisions cannot be read.
        """
        return self._book.now().speak_of(wiki)

    def wikis(self) -> tuple[str, ...]:
        """The wikis that have rules of their own, and first none at all.

        Raises:
            TransientError: the decisions cannot be read.
        """
        return ("", *sorted(self._book.now().wikis))
