"""What a checker must know of a collection and of who plays it back: `crawler.cli` brings it.

Only the command line meets `playback`; here stands what of it is needed.
"""

from collections.abc import Sequence
from typing import Protocol

from core.pages import PageInfo
from core.quality import LostPart
from core.records import ArtifactKind
from crawler.quality.looking import Address


class KeptPage(Protocol):
    """What was kept of one page. From any thread."""

    @property
    def withheld(self) -> str:
        """Why nothing of it may be shown, or looked at, at the level; a sentence. Empty: it may be."""
        ...

    @property
    def address(self) -> Address:
        """Where its copy is, at the level."""
        ...

    def manifest(self) -> PageInfo | None:
        """Its manifest; None when none was kept.

        Raises:
            PermanentError: it is damaged.
        """
        ...

    def artifact(self, kind: ArtifactKind) -> bytes | None:
        """An artifact; None when none was kept.

        Raises:
            PermanentError: it is damaged, or too large.
        """
        ...


class Playback(Protocol):
    """A collection and its playback, at one level."""

    @property
    def level(self) -> str:
        """The level that is looked at (`playback.decisions.levels`)."""
        ...

    @property
    def engine(self) -> str:
        """Versions of what shows and compares."""
        ...

    def page(self, page_id: str) -> KeptPage | None:
        """What was kept of the page; None when it is hidden, or not there. From any thread.

        Raises:
            TransientError: index or decisions cannot be read.
        """
        ...

    def lost(self, page: PageInfo) -> Sequence[LostPart]:
        """What of the page the archive does not hold as it was captured. From any thread.

        Raises:
            TransientError: the index cannot be read.
        """
        ...

    def is_hidden(self, url: str, digest: str) -> bool:
        """Whether a part was taken down, or is held back. From any thread.

        Raises:
            TransientError: the decisions cannot be read.
        """
        ...

    def original(self, url: str) -> str | None:
        """The archived URL that an address of playback stands for; None when it stands for none."""
        ...

    def refusal(self, address: str, kind: str) -> tuple[int | None, str]:
        """Return the status and reason with which playback refuses a part. From any thread.

        Args:
            address: of playback.
            kind: the browser's word for what the part is for: Image, Stylesheet, ….
        """
        ...

    async def answers(self) -> bool:
        """Whether playback is there at all: what it did not answer is no copy's fault then."""
        ...
