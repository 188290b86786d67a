"""What it takes to ask an archive for copies of a URL, and to hold its answers to that (B07).

    copies = await adapter.find("http://a.test/", at)     # [] when there are none

What an archive answers about another page is dropped, and an answer that is wholly about another page
is none. An adapter that has no answer raises `ArchiveTroubleError`: that an archive cannot be asked now
says nothing of its copies. The ways of asking are in `mementos`, `wayback` and `cdx`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from urllib.parse import quote

from core.errors import BadUrlError
from core.urls import authority_of, fetch_key
from links.archives.asking import ArchiveTroubleError, Reply, Trouble, is_refusal
from links.archives.formats import Entry
from links.archives.recognising import belongs, is_same_page, recognise
from links.archives.services import OTHER

NOT_THERE: Final = frozenset((404, 410))
REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy in an archive.

    Attributes:
        service: the archive's name.
        address: the copy's, in the form that the archive prefers.
        timestamp: when it was taken, 14 digits; empty when that is unknown.
        status: what the original answered then; None when nobody said.
        mime: its type, when somebody said it.
    """

    service: str
    address: str
    timestamp: str
    status: int | None = None
    mime: str = ""


class Adapter(Protocol):
    """One way to ask an archive, or several archives at once."""

    @property
    def name(self) -> str:
        """What it is called in `[links] archives`, and which service is asked."""
        ...

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """Copies of the URL, the archive's choice for that moment among them; [] when it has none.

        Raises:
            ArchiveTroubleError: there is no answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """What holds an archive's answers to the URL that was asked about.

    Attributes:
        name: the service that was asked.
        homes: addresses of it: copies at their hosts are its own.
        own: origins of our own pages.
    """

    name: str
    homes: tuple[str, ...]
    own: tuple[str, ...] = ()

    def copies(self, entries: Iterable[Entry], url: str) -> list[Copy]:
        """The entries that are of the URL; each address once."""
        found: dict[str, Copy] = {}
        for entry in entries:
            copy = self._copy(entry, url)
            if copy is not None:
                found.setdefault(copy.address, copy)
        return list(found.values())

    def is_at_home(self, address: str) -> bool:
        """Whether the address is at one of the service's hosts."""
        try:
            return authority_of(fetch_key(address)) in {authority_of(home) for home in self.homes}
        except BadUrlError:
            return False

    def _copy(self, entry: Entry, url: str) -> Copy | None:
        if entry.original and not is_same_page(entry.original, url):
            return None
        found = recognise(entry.address, own=self.own)
        if found is not None and found.is_known:
            # What does not say what it is of was listed by the archive that knows.
            if not found.is_usable or belongs(found, url) is False:
                return None
            stamp = found.timestamp if len(_whole(found.timestamp)) == 14 else entry.timestamp
            return Copy(found.service, found.address, stamp, entry.status, entry.mime)
        if not self.is_at_home(entry.address):
            return None
        if found is not None and not is_same_page(found.original, url):
            return None
        address = fetch_key(entry.address)
        name = self.name or OTHER
        return Copy(name, address, entry.timestamp, entry.status, entry.mime)


def expect(service: str, reply: Reply, statuses: tuple[int, ...]) -> None:
    """Take an answer with one of these statuses for an answer, and no other.

    Raises:
        ArchiveTroubleError: the answer has one.
    """
    if reply.status in statuses:
        return
    said = f"it answered {reply.status}"
    raise ArchiveTroubleError(
        service, Trouble.REFUSED if is_refusal(reply) else Trouble.NONSENSE, said
    )


def nonsense(service: str, said: str) -> ArchiveTroubleError:
    """The error for an answer that says nothing that was asked for."""
    return ArchiveTroubleError(service, Trouble.NONSENSE, said.rstrip("."))


def in_path(url: str) -> str:
    """The URL as it stands in an archive's path: a fragment would be cut off on the way."""
    return quote(url, safe="!$&'()*+,/:;=?@[]~%-._")


def _whole(timestamp: str) -> str:
    """The timestamp, when it names a second; empty when its end was filled up."""
    return "" if timestamp.endswith("0000000000") else timestamp
