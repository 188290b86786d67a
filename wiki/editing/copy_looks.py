"""Looking at copies before an edit: those that it would cite, and those that the page has already (B13).

The bot cites an address only after it fetched it and saw the copy there, as a reader would. A copy that
stands on the page gives way only when its archive says that it is none of the link.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from links.archives.asking import ArchiveTroubleError, Asker
from links.archives.looking import Seen, Sight, look
from links.archives.recognising import is_same_page, recognise
from links.archives.resolving import resolve
from links.archives.services import WEBOID
from wiki.wikitext.citations import Citation

_NO_COPY: Final = frozenset((Sight.GONE, Sight.BAD, Sight.OTHER_PAGE))


class CopyLooks(Protocol):
    """Looks at copies over the network."""

    async def cited(self, address: str, url: str) -> Seen:
        """Return what is seen at an address that an edit would cite as a copy of the URL."""
        ...

    async def standing(self, address: str, url: str) -> Seen:
        """Return what is seen at an address that a page cites; UNCLEAR where nobody may be asked."""
        ...


@dataclass(frozen=True)
class ArchiveLooks:
    """Looks at copies through the client for archives.

    Attributes:
        asker: asks, each archive in its turn.
        own: origins of our own pages.
        asks_others: archives may be asked about copies that pages cite; else only our own front is.
    """

    asker: Asker
    own: tuple[str, ...] = ()
    asks_others: bool = False

    async def cited(self, address: str, url: str) -> Seen:
        """Return what is seen at an address that an edit would cite as a copy of the URL."""
        return await look(self.asker, address, url, own=self.own)

    async def standing(self, address: str, url: str) -> Seen:
        """Return what is seen at an address that a page cites; UNCLEAR where nobody may be asked."""
        found = recognise(address, own=self.own)
        if found is None or not (self.asks_others or found.service == WEBOID):
            return Seen(Sight.UNCLEAR)
        if not found.must_ask:
            return await look(self.asker, address, url, own=self.own)
        try:
            resolved = await resolve(self.asker, found)  # a short address (B07)
        except ArchiveTroubleError as error:
            return Seen(Sight.UNCLEAR, note=str(error))
        if not resolved.original:
            return Seen(Sight.UNCLEAR, note="its archive does not say what it is of")
        if not is_same_page(resolved.original, url):
            return Seen(Sight.OTHER_PAGE, note=f"a copy of {resolved.original[:200]}")
        return Seen(Sight.GOOD, resolved.address or address, resolved.timestamp)


@dataclass
class PageLooks:
    """What was seen for one page.

    Attributes:
        looks: looks.
        bad: addresses on the page that show no copy of their link, with the reason.
        unshown: addresses that would have been cited and did not show the copy, with the reason.
    """

    looks: CopyLooks
    bad: dict[str, str] = field(default_factory=dict)
    unshown: dict[str, str] = field(default_factory=dict)
    _shown: set[str] = field(default_factory=set)
    _stood: set[str] = field(default_factory=set)

    async def look_at_page(self, citations: Sequence[Citation], urls: Mapping[str, object]) -> None:
        """Look at the copies that the page cites for links that are to be mended."""
        for each in citations:
            address = each.archive_url.replace("&amp;", "&")
            if not address or each.url not in urls or address in self._stood:
                continue
            self._stood.add(address)
            seen = await self.looks.standing(address, each.url)
            if seen.sight in _NO_COPY:
                self.bad |= dict.fromkeys((address, each.archive_url), seen.note)

    async def is_shown(self, address: str, url: str, *, name: str) -> bool:
        """Return True when the address shows a copy of the URL; else note it under its name."""
        if address in self._shown:
            return True
        seen = await self.looks.cited(address, url)
        if seen.sight is Sight.GOOD:
            self._shown.add(address)
            return True
        self.unshown[name] = seen.note or str(seen.sight)
        return False
