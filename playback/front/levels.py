"""How much of a copy the reader's page offers: the levels to choose from, and none above what is allowed.

Asked anew for each page, so a change of the rules counts at once. What replay then shows it asks the same
rules itself (`playback.replay.leveling`); nothing here is a lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.records import ArtifactKind
from playback.addresses import LEVEL_MODIFIERS, PageAddress
from playback.decisions.level_book import LevelBook
from playback.decisions.levels import Level, least
from playback.front.full import FullCopies
from playback.front.pages import Page
from playback.front.views import reader_path

_PICTURES = {ArtifactKind.VIEW, ArtifactKind.FULL_PAGE, ArtifactKind.THUMBNAIL}


@dataclass(frozen=True, slots=True)
class Choice:
    """A level that may be chosen, and where it is seen."""

    level: Level
    address: str
    is_current: bool


class Offers:
    """What readers may choose.

    Args:
        book: the decisions about levels.
        full: which copies may be shown with their scripts; None: none.
    """

    def __init__(self, book: LevelBook, full: FullCopies | None) -> None:
        self._book = book
        self._full = full

    def speak_of(self, wiki: str) -> bool:
        """Whether anything was decided for that wiki's readers; else they see what everybody sees.

        Raises:
            TransientError: the decisions cannot be read.
        """
        return self._book.now().speak_of(wiki)

    def most(self, page: Page, wiki: str = "") -> Level:
        """The most that readers of the wiki (empty: of none) are shown of the page.

        Raises:
            TransientError: the decisions cannot be read.
        """
        return self._book.now().of_page((page.url, page.final_url), wiki)

    def shows_pictures(self, page: Page, asked: PageAddress | None = None) -> bool:
        """Whether screenshots of the page are shown: they are images of it.

        Raises:
            TransientError: the decisions cannot be read.
        """
        return self.most(page, asked.wiki if asked is not None else "").covers(Level.IMAGES)

    def allowed(self, page: Page, asked: PageAddress) -> Page:
        """The page without what its level leaves out: its screenshots, and files that are no text.

        Raises:
            TransientError: the decisions cannot be read.
        """
        if self.shows_pictures(page, asked):
            return page
        kept = {kind: uri for kind, uri in page.artifacts.items() if kind not in _PICTURES}
        return replace(page, artifacts=kept, mime="" if _is_file(page) else page.mime)

    def is_above(self, page: Page, asked: PageAddress) -> bool:
        """Whether a level is asked for that is not allowed, or that a file has not.

        Raises:
            TransientError: the decisions cannot be read.
        """
        if asked.level is None:
            return False
        return _is_file(page) or not self.most(page, asked.wiki).covers(asked.level)

    def choices(self, page: Page, asked: PageAddress) -> Sequence[Choice]:
        """The levels from the least to the most that is allowed; none where there is no choice.

        Raises:
            TransientError: the decisions cannot be read.
        """
        if not page.has_copy or _is_file(page) or asked.view not in {"page", "beside"}:
            return ()
        most = self.most(page, asked.wiki)
        usual = least(most, Level.IMAGES)
        current = asked.level or usual
        found = [
            Choice(
                level,
                # What the rules give anyway needs no word in the address.
                _address(page, replace(asked, level=None if level is usual else level)),
                level is current,
            )
            for level in LEVEL_MODIFIERS
            if most.covers(level)
        ]
        if self._full is not None and self._full.frame_of(page, asked.wiki) is not None:
            full = replace(asked, view="full", level=None)
            found.append(Choice(Level.FULL, _address(page, full), is_current=False))
        return found if len(found) > 1 else ()


def _is_file(page: Page) -> bool:
    """True for what is no text at any level: a picture, or what is downloaded."""
    is_picture = page.mime.startswith("image/") and ArtifactKind.DOM not in page.artifacts
    return is_picture or page.is_file


def _address(page: Page, asked: PageAddress) -> str:
    return reader_path(page.timestamp, page.url, view=asked.view, asked=asked)
