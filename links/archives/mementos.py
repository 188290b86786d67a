"""Archives that speak Memento (RFC 7089), and aggregators of many: TimeMaps, TimeGates, Time Travel."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from core.timestamps import timestamp14
from core.urls import authority_of
from links.archives.adapters import (
    NOT_THERE,
    REDIRECTS,
    Copy,
    Held,
    expect,
    in_path,
    nonsense,
)
from links.archives.asking import Asker, Question
from links.archives.formats import (
    Entry,
    FormatError,
    Part,
    TimeMap,
    links_of,
    read_json_timemap,
    read_link_timemap,
    stamp_of,
)
from links.archives.recognising import is_same_page, recognise

PARTS_READ: Final = 3  # of a long TimeMap
KNOWN_TIMEMAPS: Final[Mapping[str, str]] = {
    "archive-today": "https://archive.ph/timemap/{url}",
    "perma": "https://perma.cc/timemap/link/{url}",
    "loc": "https://webarchive.loc.gov/all/timemap/link/{url}",
    "archive-it": "https://wayback.archive-it.org/all/timemap/link/{url}",
    "stanford": "https://swap.stanford.edu/timemap/link/{url}",
    "uk-national-archives": "https://webarchive.nationalarchives.gov.uk/ukgwa/timemap/link/{url}",
    "uk-parliament": "https://webarchive.parliament.uk/timemap/link/{url}",
    "ukwa": "https://www.webarchive.org.uk/wayback/archive/timemap/link/{url}",
    "vefsafn": "https://wayback.vefsafn.is/wayback/timemap/link/{url}",
    "bibalex": "http://web.archive.bibalex.org/web/timemap/link/{url}",
    "nla": "https://webarchive.nla.gov.au/awa/timemap/link/{url}",
}


class TimeMaps:
    """Any archive or aggregator with TimeMaps (RFC 7089), in link format or the aggregators' JSON."""

    def __init__(
        self, asker: Asker, name: str, template: str, *, homes: Sequence[str] = ()
    ) -> None:
        """Take who asks, the service, the address of a TimeMap with ``{url}`` in it, and where copies are."""
        self.name = name
        self._asker = asker
        self._template = template
        self._held = Held(name, (template, *homes))

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """All copies that the TimeMap lists, or of a long one those around the moment."""
        read = await self._read(self._template.replace("{url}", in_path(url)), url)
        if read is None:
            return []
        entries = list(read.entries)
        for part in _nearest(read.parts, at):
            if authority_of(part.address) != authority_of(self._template):
                continue
            more = await self._read(part.address, url)
            entries += more.entries if more is not None else ()
        return self._held.copies(entries, url)

    async def _read(self, address: str, url: str) -> TimeMap | None:
        reply = await self._asker.ask(self.name, Question(address, hops=3))
        if reply.status in NOT_THERE:
            return None
        expect(self.name, reply, (200,))
        try:
            is_json = reply.text.lstrip()[:1] == "{"
            read = (read_json_timemap if is_json else read_link_timemap)(reply.text)
        except FormatError as error:
            raise nonsense(self.name, str(error)) from error
        if read.original and not is_same_page(read.original, url):
            raise nonsense(self.name, f"it is about {read.original[:200]}")
        return read


class TimeGate:
    """A TimeGate alone (RFC 7089, 4): the copy nearest to a moment."""

    def __init__(
        self, asker: Asker, name: str, template: str, *, homes: Sequence[str] = ()
    ) -> None:
        """Take who asks, the service, the TimeGate's address with ``{url}`` in it, and where copies are."""
        self.name = name
        self._asker = asker
        self._template = template
        self._held = Held(name, (template, *homes))

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """The copy that it leads to."""
        headers = {} if at is None else {"Accept-Datetime": http_date(at)}
        address = self._template.replace("{url}", in_path(url))
        reply = await self._asker.ask(
            self.name, Question(address, headers=headers, is_head_enough=True)
        )
        if reply.status in NOT_THERE:
            return []
        expect(self.name, reply, (200, *REDIRECTS))
        stamp = stamp_of(reply.headers.get("memento-datetime", ""))
        place = reply.headers.get(
            "location" if reply.status in REDIRECTS else "content-location", ""
        )
        for link in links_of(reply.headers.get("link", "")):
            if "original" in link.rels and not is_same_page(link.target, url):
                raise nonsense(self.name, f"it is about {link.target[:200]}")
            if "memento" in link.rels and link.target == place:
                stamp = stamp or stamp_of(link.parameters.get("datetime", ""))
        if reply.status == 200 and not stamp:
            raise nonsense(self.name, "it shows a page, and no copy")
        target = place or reply.url
        found = recognise(target)
        if found is None and not self._held.is_at_home(target):
            raise nonsense(self.name, f"it leads to {target[:200]}")
        stamp = stamp or (found.timestamp if found is not None else "")
        return self._held.copies([Entry(target, stamp)], url)


class TimeTravel:
    """Time Travel's JSON about one moment, as the Memento project's service gives it."""

    def __init__(self, asker: Asker, name: str, template: str) -> None:
        """Take who asks, the service, and the address with ``{ts}`` and ``{url}`` in it."""
        self.name = name
        self._asker = asker
        self._template = template
        self._held = Held(name, (template,))

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """The closest copy in each archive that it knows, and its neighbours."""
        stamp = timestamp14(at) if at is not None else "29991231235959"
        address = self._template.replace("{ts}", stamp).replace("{url}", in_path(url))
        reply = await self._asker.ask(self.name, Question(address, hops=3))
        if reply.status in NOT_THERE:
            return []
        expect(self.name, reply, (200,))
        try:
            read = read_json_timemap(reply.text)
        except FormatError as error:
            raise nonsense(self.name, str(error)) from error
        if read.original and not is_same_page(read.original, url):
            raise nonsense(self.name, f"it is about {read.original[:200]}")
        return self._held.copies(read.entries, url)


def http_date(at: datetime) -> str:
    """The moment as HTTP writes it."""
    return format_datetime(at.astimezone(UTC), usegmt=True)


def _nearest(parts: Sequence[Part], at: datetime | None) -> Sequence[Part]:
    """The parts of a long list that the moment may be in, or the last ones."""
    if at is None or not any(part.begins for part in parts):
        return parts[-PARTS_READ:]
    stamp = timestamp14(at)
    ordered = sorted(parts, key=lambda part: (not _covers(part, stamp), _apart(part, stamp)))
    return ordered[:PARTS_READ]


def _covers(part: Part, stamp: str) -> bool:
    return bool(part.begins) and part.begins <= stamp <= (part.ends or stamp)


def _apart(part: Part, stamp: str) -> int:
    ends = [abs(int(each) - int(stamp)) for each in (part.begins, part.ends) if each]
    return min(ends, default=10**15)
