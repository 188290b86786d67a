"""Who can be asked for copies of a URL: an adapter for each way of asking.

    copies = await adapter.find("http://a.test/", at)     # [] when there are none

Every copy that comes back was held to the URL (B07): what an archive answers about another page is
dropped, and an answer that is wholly about another page is none. An adapter that has no answer raises
`ArchiveTroubleError`: that an archive cannot be asked now says nothing of its copies.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final, Protocol
from urllib.parse import quote, urlencode

from core.errors import BadUrlError
from core.timestamps import timestamp14
from core.urls import authority_of, fetch_key
from links.archives.asking import (
    ArchiveTroubleError,
    Asker,
    Question,
    Reply,
    Trouble,
    is_refusal,
)
from links.archives.formats import (
    Entry,
    FormatError,
    Part,
    TimeMap,
    links_of,
    read_availability,
    read_cdx,
    read_json_timemap,
    read_link_timemap,
    stamp_of,
)
from links.archives.recognising import belongs, is_same_page, make, recognise
from links.archives.services import OTHER

PARTS_READ: Final = 3  # of a long TimeMap
AT_ONCE: Final = 50  # URLs in one question about availability
_NONE = frozenset((404, 410))
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_GOOD: Final = (200, 203, 206)


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
        home: an address of it: copies at its host are its own.
        own: origins of our own pages.
    """

    name: str
    home: str
    own: tuple[str, ...] = ()

    def copies(self, entries: Iterable[Entry], url: str) -> list[Copy]:
        """The entries that are of the URL; each address once."""
        found: dict[str, Copy] = {}
        for entry in entries:
            copy = self._copy(entry, url)
            if copy is not None:
                found.setdefault(copy.address, copy)
        return list(found.values())

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
        try:
            address = fetch_key(entry.address)
            at_home = authority_of(address) == authority_of(fetch_key(self.home))
        except BadUrlError:
            return None
        if not at_home or (found is not None and not is_same_page(found.original, url)):
            return None
        name = self.name or OTHER
        return Copy(name, address, entry.timestamp, entry.status, entry.mime)


class TimeMaps:
    """Any archive or aggregator with TimeMaps (RFC 7089), in link format or the aggregators' JSON."""

    def __init__(self, asker: Asker, name: str, template: str, *, own: Sequence[str] = ()) -> None:
        """Take who asks, the service, and the address of a TimeMap with ``{url}`` in it."""
        self.name = name
        self._asker = asker
        self._template = template
        self._held = Held(name, template, tuple(own))

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """All copies that the TimeMap lists, or of a long one those around the moment."""
        read = await self._read(self._template.replace("{url}", _in_path(url)), url)
        if read is None:
            return []
        entries = list(read.entries)
        for part in _nearest(read.parts, at):
            if authority_of(fetch_key(part.address)) != authority_of(fetch_key(self._template)):
                continue
            more = await self._read(part.address, url)
            entries += more.entries if more is not None else ()
        return self._held.copies(entries, url)

    async def _read(self, address: str, url: str) -> TimeMap | None:
        reply = await self._asker.ask(self.name, Question(address, hops=3))
        if reply.status in _NONE:
            return None
        _expect(self.name, reply, (200,))
        try:
            is_json = reply.text.lstrip()[:1] == "{"
            read = (read_json_timemap if is_json else read_link_timemap)(reply.text)
        except FormatError as error:
            raise _nonsense(self.name, str(error)) from error
        if read.original and not is_same_page(read.original, url):
            raise _nonsense(self.name, f"it is about {read.original[:200]}")
        return read


class TimeGate:
    """A TimeGate alone (RFC 7089, 4): the copy nearest to a moment."""

    def __init__(self, asker: Asker, name: str, template: str, *, own: Sequence[str] = ()) -> None:
        """Take who asks, the service, and the TimeGate's address with ``{url}`` in it."""
        self.name = name
        self._asker = asker
        self._template = template
        self._held = Held(name, template, tuple(own))

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """The copy that it leads to."""
        headers = {} if at is None else {"Accept-Datetime": http_date(at)}
        address = self._template.replace("{url}", _in_path(url))
        reply = await self._asker.ask(
            self.name, Question(address, headers=headers, is_head_enough=True)
        )
        if reply.status in _NONE:
            return []
        _expect(self.name, reply, (200, *_REDIRECTS))
        stamp = stamp_of(reply.headers.get("memento-datetime", ""))
        place = reply.headers.get(
            "location" if reply.status in _REDIRECTS else "content-location", ""
        )
        for link in links_of(reply.headers.get("link", "")):
            if "original" in link.rels and not is_same_page(link.target, url):
                raise _nonsense(self.name, f"it is about {link.target[:200]}")
            if "memento" in link.rels and link.target == place:
                stamp = stamp or stamp_of(link.parameters.get("datetime", ""))
        if reply.status == 200 and not stamp:
            raise _nonsense(self.name, "it shows a page, and no copy")
        target = place or reply.url
        found = recognise(target)
        stamp = stamp or (found.timestamp if found is not None else "")
        return self._held.copies([Entry(target, stamp)], url)


class TimeTravel:
    """Time Travel's JSON about one moment, as the Memento project's service gives it."""

    def __init__(self, asker: Asker, name: str, template: str) -> None:
        """Take who asks, the service, and the address with ``{ts}`` and ``{url}`` in it."""
        self.name = name
        self._asker = asker
        self._template = template
        self._held = Held(name, template)

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """The closest copy in each archive that it knows, and its neighbours."""
        stamp = timestamp14(at) if at is not None else "29991231235959"
        address = self._template.replace("{ts}", stamp).replace("{url}", _in_path(url))
        reply = await self._asker.ask(self.name, Question(address, hops=3))
        if reply.status in _NONE:
            return []
        _expect(self.name, reply, (200,))
        try:
            read = read_json_timemap(reply.text)
        except FormatError as error:
            raise _nonsense(self.name, str(error)) from error
        if read.original and not is_same_page(read.original, url):
            raise _nonsense(self.name, f"it is about {read.original[:200]}")
        return self._held.copies(read.entries, url)


class WaybackAvailability:
    """The Wayback Machine's availability, many URLs at once (version 2): before the moment, then after."""

    name = "wayback"

    def __init__(
        self, asker: Asker, address: str = "https://archive.org/wayback/available"
    ) -> None:
        """Take who asks."""
        self._asker = asker
        self._address = address
        self._held = Held(self.name, "https://web.archive.org/")

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """The copy nearest before the moment; nearest after it when there is none."""
        return (await self.find_many([(url, at)]))[url]

    async def find_many(
        self, asked: Sequence[tuple[str, datetime | None]]
    ) -> dict[str, list[Copy]]:
        """The same for many URLs.

        Raises:
            ArchiveTroubleError: there is no answer.
        """
        found: dict[str, list[Copy]] = {url: [] for url, _ in asked}
        for start in range(0, len(asked), AT_ONCE):
            left = list(asked[start : start + AT_ONCE])
            for closest in ("before", "after"):
                if left:
                    found |= await self._ask(left, closest)
                    left = [(url, at) for url, at in left if not found[url] and at is not None]
        return found

    async def _ask(
        self, asked: Sequence[tuple[str, datetime | None]], closest: str
    ) -> dict[str, list[Copy]]:
        lines = []
        for tag, (url, at) in enumerate(asked):
            pairs = [("url", url)]
            if at is not None:
                pairs += [("timestamp", timestamp14(at)), ("closest", closest)]
            pairs += [("statuscodes", str(code)) for code in _GOOD]
            lines.append(urlencode([*pairs, ("tag", str(tag))]))
        reply = await self._asker.ask(
            self.name,
            Question(
                self._address,
                "POST",
                {
                    "Wayback-Api-Version": "2",
                    "Content-Type": "application/x-www-form-urlencoded",
                },
                "\n".join(lines).encode(),
            ),
        )
        _expect(self.name, reply, (200,))
        try:
            answers = read_availability(reply.text)
        except FormatError as error:
            raise _nonsense(self.name, str(error)) from error
        if asked and not answers.keys() & {str(tag) for tag in range(len(asked))}:
            raise _nonsense(self.name, "it answers other questions")
        found: dict[str, list[Copy]] = {}
        for tag, (url, _) in enumerate(asked):
            entry = answers.get(str(tag))
            found[url] = self._held.copies([entry] if entry is not None else [], url)
        return found


class WaybackLatest:
    """The Wayback Machine by its own addresses: where ``/web/<url>`` leads (without following).

    For when the availability service says nothing of pages that are there.
    """

    name = "wayback"

    def __init__(self, asker: Asker, origin: str = "https://web.archive.org") -> None:
        """Take who asks."""
        self._asker = asker
        self._origin = origin
        self._held = Held(self.name, "https://web.archive.org/")

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """The copy that it leads to for the moment."""
        stamp = f"{timestamp14(at)}/" if at is not None else ""
        address = f"{self._origin}/web/{stamp}{_in_path(url)}"
        reply = await self._asker.ask(self.name, Question(address, is_head_enough=True))
        if reply.status in _NONE:
            return []
        _expect(self.name, reply, (200, *_REDIRECTS))
        target = reply.headers.get("location", "") if reply.status in _REDIRECTS else address
        if target.startswith("/"):
            target = self._origin + target
        # Under another origin it answers with its own; what it means is the Wayback Machine's.
        if target.startswith(self._origin + "/"):
            target = "https://web.archive.org" + target.removeprefix(self._origin)
        return self._held.copies([Entry(target, "")], url)


class Cdx:
    """A CDX server: the Internet Archive's, pywb's, arquivo.pt's, another Weboid's."""

    def __init__(
        self, asker: Asker, name: str, endpoint: str, *, copies: str = "", own: Sequence[str] = ()
    ) -> None:
        """Take who asks, the service, its CDX address, and where its copies are.

        `copies` is an address with ``{ts}`` and ``{url}``; empty: the service is a known one.
        """
        self.name = name
        self._asker = asker
        self._endpoint = endpoint
        self._copies = copies
        self._held = Held(name, copies or endpoint, tuple(own))

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """Captures with a good status, of a long list those nearest to the moment."""
        pairs = {"url": url, "output": "json", "limit": "500"}
        if at is not None:
            pairs |= {"closest": timestamp14(at), "sort": "closest"}
        address = f"{self._endpoint}?{urlencode(pairs)}"
        reply = await self._asker.ask(self.name, Question(address, hops=2))
        if reply.status in _NONE:
            return []
        _expect(self.name, reply, (200,))
        try:
            entries = read_cdx(reply.text)
        except FormatError as error:
            raise _nonsense(self.name, str(error)) from error
        placed = [
            Entry(
                self._place(entry, url), entry.timestamp, entry.original, entry.status, entry.mime
            )
            for entry in entries
        ]
        return self._held.copies(placed, url)

    def _place(self, entry: Entry, url: str) -> str:
        original = entry.original or url
        if self._copies:
            return self._copies.replace("{ts}", entry.timestamp).replace("{url}", original)
        try:
            return make(self.name, original, entry.timestamp)
        except BadUrlError:
            return ""


def http_date(at: datetime) -> str:
    """The moment as HTTP writes it."""
    return format_datetime(at.astimezone(UTC), usegmt=True)


def _expect(service: str, reply: Reply, statuses: tuple[int, ...]) -> None:
    """Refuse any other status.

    Raises:
        ArchiveTroubleError: the answer has one.
    """
    if reply.status in statuses:
        return
    said = f"it answered {reply.status}"
    raise ArchiveTroubleError(
        service, Trouble.REFUSED if is_refusal(reply) else Trouble.NONSENSE, said
    )


def _nonsense(service: str, said: str) -> ArchiveTroubleError:
    return ArchiveTroubleError(service, Trouble.NONSENSE, said.rstrip("."))


def _in_path(url: str) -> str:
    """The URL as it stands in an archive's path: a fragment would be cut off on the way."""
    return quote(url, safe="!$&'()*+,/:;=?@[]~%-._")


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


def _whole(timestamp: str) -> str:
    """The timestamp, when it names a second; empty when its end was filled up."""
    return "" if timestamp.endswith("0000000000") else timestamp


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
