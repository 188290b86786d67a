"""Captures of a collection as `crawler.quality.changes` takes them: read from index and WARCs."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime

from core.classes import page_class
from core.clock import SystemClock
from core.durations import parse_moment
from core.errors import PermanentError, UnavailableError
from core.layout import Layout
from core.pages import Outcome, PageInfo
from core.records import ArtifactKind
from core.timestamps import parse_timestamp14
from crawler.quality.changes import Sight
from links.findings import Verdict
from playback.database import Database, open_database
from playback.decisions.store import open_decisions
from playback.front.pages import Page, PageStore
from playback.front.records import Records
from playback.permits import Permits, TakenDownError

_CLOCK = SystemClock()
_LOOKED_AT = 50  # captures of a URL, from either end, for one that is good or says something
_NOTHING_SAID = {Verdict.FAILING, Verdict.UNDECIDED}
_PICTURES = (ArtifactKind.FULL_PAGE, ArtifactKind.VIEW)
_KEPT = {"response", "revisit"}


class Sights:
    """The captures of one collection, to be compared. What is taken down is never shown here."""

    def __init__(self, database: Database, store: PageStore, records: Records) -> None:
        """Take what belongs to the caller.

        Attributes:
            database: the captures index.
            store: its pages, as far as they may be shown.
        """
        self.database = database
        self.store = store
        self._records = records

    def page(self, page_id: str) -> Page | None:
        """The page of that id; None when it is not there, or must not be shown."""
        page = self.store.with_ids([page_id]).get(page_id)
        return page if page is not None and page.taken_down is None else None

    def at(self, url: str, moment: str) -> Page:
        """The capture of a moment: the very one that 14 digits name, else the best near it.

        Raises:
            InputError: it names no moment.
            UnavailableError: there is no such capture.
        """
        try:
            page = self.store.nearest(url, moment_named(moment))
        except TakenDownError as error:
            raise UnavailableError(f"{url} is taken down.") from error
        if page is None:
            raise UnavailableError(f"There is no capture of {url}.")
        return page

    def oldest_good(self, url: str) -> Page | None:
        """The oldest capture that shows the page; None without one among the first ones."""
        pages = self.store.captures(url, limit=_LOOKED_AT, oldest_first=True)
        good = (each for each in pages if each.is_good and each.outcome not in _FAILED)
        return next((each for each in good if each.taken_down is None), None)

    def latest(self, url: str) -> Page | None:
        """The newest capture, whatever it says; None without any that may be shown."""
        pages = self.store.captures(url, limit=1)
        return next((each for each in pages if each.taken_down is None), None)

    def newest(self, url: str) -> Page | None:
        """The newest capture that says something of the page; else the newest; None without any."""
        pages = [
            each for each in self.store.captures(url, limit=_LOOKED_AT) if each.taken_down is None
        ]
        said = (each for each in pages if _bare(each).finding() not in _NOTHING_SAID)
        return next(said, pages[0] if pages else None)

    def pair(self, then: Page, now: Page) -> tuple[Sight, Sight]:
        """Both captures with what is compared: text, links, parts, and pictures of the same kind."""
        kinds = [kind for kind in _PICTURES if kind in then.artifacts and kind in now.artifacts]
        kind = kinds[0] if kinds else None
        return self._sight(then, kind), self._sight(now, kind)

    def text(self, page: Page) -> str | None:
        """The page's visible text; None when it was not kept, or is damaged."""
        place = self.store.place(page, ArtifactKind.TEXT)
        try:
            return None if place is None else self._records.text(place)
        except PermanentError:
            return None

    def picture(self, page: Page, kind: ArtifactKind) -> bytes | None:
        """The page's picture of that kind; None when it was not kept, or is damaged."""
        place = self.store.place(page, kind)
        try:
            return None if place is None else self._records.picture(place)
        except PermanentError:
            return None

    def _sight(self, page: Page, kind: ArtifactKind | None) -> Sight:
        info = self._manifest(page)
        return _bare(
            page,
            text=self.text(page),
            picture=None if kind is None else self.picture(page, kind),
            outlinks=None if info is None else frozenset(info.outlinks),
            parts=None
            if info is None
            else frozenset(each.url for each in info.resources if each.kept in _KEPT),
        )

    def _manifest(self, page: Page) -> PageInfo | None:
        place = self.store.place(page, ArtifactKind.PAGEINFO)
        try:
            return None if place is None else self._records.manifest(place)
        except PermanentError:
            return None


_FAILED = {Outcome.FAILED, Outcome.SKIPPED}


def _bare(
    page: Page,
    *,
    text: str | None = None,
    picture: bytes | None = None,
    outlinks: frozenset[str] | None = None,
    parts: frozenset[str] | None = None,
) -> Sight:
    return Sight(
        url=page.url,
        final_url=page.final_url,
        captured_at=page.captured_at,
        page_id=page.page_id,
        outcome=Outcome(page.outcome),
        reason=page.reason,
        status=page.status,
        mime=page.mime,
        title=page.title,
        page_class=page_class(page.page_class),
        evidence=tuple(page.evidence),
        text=text,
        picture=picture,
        outlinks=outlinks,
        parts=parts,
    )


def moment_named(text: str) -> datetime:
    """The moment that 14 digits or an ISO 8601 date name, in UTC.

    Raises:
        InputError: they name none.
    """
    if len(text) == 14 and text.isdecimal():
        return parse_timestamp14(text)
    return parse_moment(text)


@contextmanager
def opened_sights(layout: Layout, database_url: str) -> Iterator[Sights]:
    """The captures of the collection, as far as they may be shown, until the end of the block."""
    with (
        closing(open_database(layout, database_url)) as database,
        closing(open_decisions(layout, database_url)) as decisions,
    ):
        store = PageStore(database, Permits(decisions, database.rows, _CLOCK.now, show_logins=True))
        yield Sights(database, store, Records(layout))
