"""Reader of page snapshots from the captures index and WARCs; withheld pages left out."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from core.captures import ArtifactKind
from core.clock import SystemClock
from core.errors import UnavailableError
from core.layout import Layout
from core.page_classes import parse_page_class
from core.page_manifest import VisitOutcome
from core.timestamps import parse_moment, parse_timestamp14
from links.check_result import CheckVerdict
from links.checker.browser_check import result_of_visit
from playback.access.control import AccessControl, TakenDownError
from playback.access.decision_store import open_decisions
from playback.web.page_store import CapturedPage, PageRecords, PageStore
from qa.page_changes import PageChanges, PageSnapshot, compare_snapshots
from warc.artifact_reader import ArtifactReader
from warc.index.database import IndexDatabase, open_database

_CLOCK = SystemClock()
_LOOKED_AT = 50  # captures of a URL, from either end, for a good or conclusive one
_NOTHING_SAID = {CheckVerdict.FAILING, CheckVerdict.UNDECIDED}
_PICTURES = (ArtifactKind.FULL_PAGE, ArtifactKind.VIEW)


@dataclass(frozen=True, slots=True)
class SnapshotReader:
    """Reader of one collection's captures for comparison. Withheld captures are left out."""

    database: IndexDatabase  # captures index
    store: PageStore  # pages of the index that may be shown
    records: PageRecords  # their texts, pictures and manifests

    def page(self, page_id: str) -> CapturedPage | None:
        """Return the page of that id; None when it is missing or must not be shown."""
        page = self.store.with_ids([page_id]).get(page_id)
        return page if page is not None and page.taken_down is None else None

    def is_withheld(self, page_id: str) -> bool:
        """Return whether a capture was taken down or erased entirely."""
        return self.page(page_id) is None

    def changes(self, old: str, new: str) -> PageChanges | None:
        """Return the changes between the captures of two ids; None when one may not be shown."""
        then, now = self.page(old), self.page(new)
        return None if then is None or now is None else compare_snapshots(*self.pair(then, now))

    def at(self, url: str, moment: str) -> CapturedPage:
        """Return the capture of a time: exactly the one of 14 digits, else the best near it; or UnavailableError."""
        try:
            is_timestamp = len(moment) == 14 and moment.isdecimal()
            page = self.store.nearest(url, parse_timestamp14(moment) if is_timestamp else parse_moment(moment))
        except TakenDownError as error:
            raise UnavailableError(f"{url} is taken down.") from error
        if page is None:
            raise UnavailableError(f"There is no capture of {url}.")
        return page

    def oldest_good(self, url: str) -> CapturedPage | None:
        """Return the oldest good capture; None without one among the first ones."""
        pages = self.store.captures(url, limit=_LOOKED_AT, oldest_first=True)
        good = (each for each in pages if each.is_good and each.outcome not in _FAILED)
        return next((each for each in good if each.taken_down is None), None)

    def latest(self, url: str) -> CapturedPage | None:
        """Return the newest capture of any class; None when none may be shown."""
        pages = self.store.captures(url, limit=1)
        return next((each for each in pages if each.taken_down is None), None)

    def newest(self, url: str) -> CapturedPage | None:
        """Return the newest conclusive capture, else the newest; None without any."""
        pages = [each for each in self.store.captures(url, limit=_LOOKED_AT) if each.taken_down is None]
        conclusive = (each for each in pages if result_of_visit(snapshot_of(each)).verdict not in _NOTHING_SAID)
        return next(conclusive, pages[0] if pages else None)

    def pair(self, then: CapturedPage, now: CapturedPage) -> tuple[PageSnapshot, PageSnapshot]:
        """Read both captures with text, links, parts, and pictures of the same kind."""
        kinds = [kind for kind in _PICTURES if kind in then.artifacts and kind in now.artifacts]
        kind = kinds[0] if kinds else None
        return self._snapshot(then, kind), self._snapshot(now, kind)

    def _snapshot(self, page: CapturedPage, kind: ArtifactKind | None) -> PageSnapshot:
        info = self.records.manifest(page)
        return replace(
            snapshot_of(page),
            text=self.records.text(page),
            picture=None if kind is None else self.records.picture(page, kind),
            outlinks=None if info is None else frozenset(info.outlinks),
            parts=None if info is None else frozenset(each.url for each in info.resources if each.is_archived),
        )


_SAME = ("url", "final_url", "captured_at", "page_id", "reason", "status", "mime", "title")
_FAILED = {VisitOutcome.FAILED, VisitOutcome.SKIPPED}


def snapshot_of(page: CapturedPage) -> PageSnapshot:
    """Return the snapshot of a capture, without its artifacts."""
    return PageSnapshot(
        **{name: getattr(page, name) for name in _SAME},
        outcome=VisitOutcome(page.outcome),
        page_class=parse_page_class(page.page_class),
        evidence=tuple(page.evidence),
    )


@contextmanager
def open_snapshots(layout: Layout, database_url: str) -> Iterator[SnapshotReader]:
    """Open a reader of the collection's captures that may be shown, until the end of the block."""
    with (
        closing(open_database(layout, database_url)) as database,
        closing(open_decisions(layout, database_url)) as decisions,
    ):
        store = PageStore(database, AccessControl(decisions, database.rows, _CLOCK.now, show_logins=True))
        yield SnapshotReader(database, store, PageRecords(store, ArtifactReader(layout)))
