"""What a reader is warned of: a threat in a page's document, an address on a list, an unscanned file."""

from dataclasses import dataclass

from playback.decisions.lists import ListEffect, ListHit
from playback.decisions.verdicts import Verdict
from playback.front.pages import Page
from playback.holds import Unscanned
from playback.permits import Permits

_COPY_VIEWS = ("page", "beside")
PASSED_VIEW = "as-captured"  # the view of a reader who was warned and went on


@dataclass(frozen=True, slots=True)
class Caution:
    """What is to be said of a page before its copy is shown.

    Attributes:
        threat: what a scanner found in its document; the copy is never shown.
        listed: where its address was found.
        scan: what is known of a file to download; None: no scanner has looked into it.
        is_unscanned_held: whether such a file is held back until one has.
    """

    threat: Verdict | None = None
    listed: ListHit | None = None
    scan: Verdict | None = None
    is_unscanned_held: bool = False

    def holds(self, view: str, *, is_download: bool) -> bool:
        """Whether a notice stands where the copy would be."""
        if self.threat is not None:
            return view in (*_COPY_VIEWS, PASSED_VIEW, "text")
        if view not in _COPY_VIEWS:
            return False
        if self.listed is not None and self.listed.on.effect is ListEffect.HOLD:
            return True
        return is_download and self.is_unscanned_held and self.scan is None


class Cautions:
    """Asks what holds for a page. From any thread."""

    def __init__(self, permits: Permits) -> None:
        self._permits = permits

    def of(self, page: Page) -> Caution:
        """What its reader is to be told.

        Raises:
            TransientError: decisions or index cannot be read.
        """
        holds = self._permits.holds
        return Caution(
            threat=self._permits.threats((page.page_id,)).get(page.page_id),
            listed=holds.listed(page.url, page.final_url),
            scan=self._permits.scan(page.page_id) if page.is_download else None,
            is_unscanned_held=holds.unscanned is Unscanned.HOLD,
        )

    def of_url(self, url: str) -> ListHit | None:
        """Where an address is listed, before its reader is sent to the live web."""
        return self._permits.holds.listed(url)
