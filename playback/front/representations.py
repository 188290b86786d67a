"""How a page was captured: on which device, in which language, with a login or not, how much of it.

One URL may have several representations (RFC 9110, 3.2): sites send phones, other languages and members
other pages. The page's manifest says which one a capture holds; here it is read for readers.
"""

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass

from core.errors import PermanentError
from core.pages import PageInfo
from core.records import ArtifactKind
from core.stored_levels import DEFAULT_STORED_LEVEL
from playback.front.pages import Page, PageStore
from playback.front.records import Records

_MOST_KEPT = 5_000
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Representation:
    """What a capture was seen with.

    Attributes:
        is_phone: on a phone's screen; else on a desktop's.
        width: of the viewport, in CSS pixels.
        height: of the viewport, in CSS pixels.
        language: the first that the browser asked for; empty when that was not recorded.
        is_logged_in: the page was visited with a login.
        stored: how much of it was recorded (`core.stored_levels`).
    """

    is_phone: bool
    width: int
    height: int
    language: str
    is_logged_in: bool
    stored: str = str(DEFAULT_STORED_LEVEL)

    @property
    def has_screen(self) -> bool:
        """Return True when it was rendered, on a screen that is known."""
        return bool(self.width)


def representation_of(manifest: PageInfo) -> Representation | None:
    """Return what the manifest says; None when it names no screen, and nothing was left out."""
    screen, stored = manifest.screen, manifest.stored
    if screen is None:
        is_whole = stored == DEFAULT_STORED_LEVEL
        return None if is_whole else Representation(False, 0, 0, "", False, stored)  # noqa: FBT003
    return Representation(
        screen.mobile, screen.width, screen.height, manifest.language, bool(manifest.login), stored
    )


class Representations:
    """Reads them from manifests, and keeps the newest that were read. From any thread.

    Args:
        store: knows where manifests are.
        records: reads them; None where the WARCs are not.
    """

    def __init__(self, store: PageStore, records: Records | None) -> None:
        self._store = store
        self._records = records
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Representation | None] = OrderedDict()

    def of(self, page: Page) -> Representation | None:
        """Return the page's; None when it is not known.

        Raises:
            TransientError: the index cannot be read.
        """
        if ArtifactKind.PAGEINFO not in page.artifacts or self._records is None:
            return None
        with self._lock:
            if page.page_id in self._kept:
                return self._kept[page.page_id]
        found = self._read(page, self._records)
        with self._lock:
            self._kept[page.page_id] = found
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found

    def _read(self, page: Page, records: Records) -> Representation | None:
        place = self._store.place(page, ArtifactKind.PAGEINFO)
        if place is None:
            return None
        try:
            return representation_of(records.manifest(place))
        except PermanentError as error:
            _LOG.warning("front.manifest_unreadable: page_id=%s %s", page.page_id, error)
            return None
