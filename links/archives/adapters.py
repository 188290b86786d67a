"""Lookup adapters: CDX servers, Memento TimeMaps and TimeGates, Wayback Machine.

    wayback                                   availability API, then redirects of its own addresses
    wayback-cdx  arquivo                      captures by CDX, with their statuses
    archive-today  perma  loc  …              TimeMaps of that archive
    time-travel                               the Memento project's aggregator
    timemap https://…/timemap/json/{url}      any aggregator or archive with TimeMaps
    timegate https://…/timegate/{url}         an archive with only a TimeGate
    cdx https://…/cdx https://…/{ts}/{url}    pywb or another CDX server, and its copy addresses
    weboid https://front.example https://copies.example

Only services named in the settings are queried.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from core.errors import BadUrlError, ConfigError
from core.timestamps import timestamp14
from core.urls import authority_of, fetch_key
from links.archives.archive_answers import (
    NOT_THERE,
    REDIRECTS,
    AnswerFilter,
    ArchiveAdapter,
    ArchiveMemento,
    ListedCopy,
    ParsedTimeMap,
    TimeMapSegment,
    escape_for_path,
    expect_status,
    malformed_answer_error,
    parse_answer,
    parse_links,
    read_availability,
    read_cdx,
    read_json_timemap,
    read_link_timemap,
    timestamp_of,
)
from links.archives.archive_client import (
    ArchiveClient,
    ArchiveRequest,
    ArchiveResponse,
    ArchiveUnavailableError,
)
from links.archives.archive_urls import is_same_page, make_archive_url, recognise


class _Adapter:
    """Base of the adapters: an archive, the template of its addresses, and the answers it may give."""

    def __init__(
        self, asker: ArchiveClient, name: str, template: str, *, homes: Sequence[str] = ()
    ) -> None:
        self.name = name
        self._asker = asker
        self._template = template
        self._held = AnswerFilter(name, tuple(homes) or (template,))

    async def _ask(self, request: ArchiveRequest, *statuses: int) -> ArchiveResponse | None:
        """Return an answer with one of the statuses; None when the archive has no copy."""
        reply = await self._asker.ask(self.name, request)
        if reply.status in NOT_THERE:
            return None
        expect_status(self.name, reply, statuses)
        return reply

    def _malformed(self, said: str) -> ArchiveUnavailableError:
        return malformed_answer_error(self.name, said)


class CdxAdapter(_Adapter):
    """Adapter for a CDX server: Internet Archive, pywb, arquivo.pt or another Weboid."""

    def __init__(self, asker: ArchiveClient, name: str, endpoint: str, *, copies: str = "") -> None:
        """Set the service and its CDX address; `copies` is a template of ``{ts}`` and ``{url}``."""
        super().__init__(asker, name, endpoint, homes=(copies or endpoint,))
        self._copies = copies

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return captures with a good status; of a long list, those nearest to `at`."""
        pairs = {"url": url, "output": "json", "limit": "500"}
        if at is not None:
            pairs |= {"closest": timestamp14(at), "sort": "closest"}
        reply = await self._ask(ArchiveRequest(f"{self._template}?{urlencode(pairs)}", hops=2), 200)
        if reply is None:
            return []
        entries = parse_answer(self.name, reply, read_cdx)
        placed = [replace(entry, address=self._place(entry, url)) for entry in entries]
        return self._held.copies(placed, url)

    def _place(self, entry: ListedCopy, url: str) -> str:
        original = entry.original or url
        if self._copies:
            return self._copies.replace("{ts}", entry.timestamp).replace("{url}", original)
        try:
            return make_archive_url(self.name, original, entry.timestamp)
        except BadUrlError:
            return ""


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


class TimeMapAdapter(_Adapter):
    """Adapter for TimeMaps (RFC 7089) in either format; with ``{ts}`` for Time Travel's closest copies."""

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return all copies that the TimeMap lists; of a long one, those around `at`."""
        stamp = timestamp14(at) if at is not None else "29991231235959"
        address = self._template.replace("{ts}", stamp).replace("{url}", escape_for_path(url))
        read = await self._read(address, url)
        if read is None:
            return []
        entries = list(read.entries)
        for part in _nearest(read.parts, at):
            if authority_of(part.address) != authority_of(self._template):
                continue
            more = await self._read(part.address, url)
            entries += more.entries if more is not None else ()
        return self._held.copies(entries, url)

    async def _read(self, address: str, url: str) -> ParsedTimeMap | None:
        reply = await self._ask(ArchiveRequest(address, hops=3), 200)
        if reply is None:
            return None
        is_json = reply.text.lstrip()[:1] == "{"
        read = parse_answer(self.name, reply, read_json_timemap if is_json else read_link_timemap)
        if read.original and not is_same_page(read.original, url):
            raise self._malformed(f"it is about {read.original[:200]}")
        return read


class TimeGateAdapter(_Adapter):
    """Adapter for a TimeGate (RFC 7089, 4): the copy nearest to a time."""

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return the copy that the TimeGate redirects to."""
        headers = {} if at is None else {"Accept-Datetime": http_date(at)}
        address = self._template.replace("{url}", escape_for_path(url))
        request = ArchiveRequest(address, headers=headers, is_head_enough=True)
        reply = await self._ask(request, 200, *REDIRECTS)
        if reply is None:
            return []
        stamp = timestamp_of(reply.headers.get("memento-datetime", ""))
        place = reply.headers.get(
            "location" if reply.status in REDIRECTS else "content-location", ""
        )
        for link in parse_links(reply.headers.get("link", "")):
            if "original" in link.rels and not is_same_page(link.target, url):
                raise self._malformed(f"it is about {link.target[:200]}")
            if "memento" in link.rels and link.target == place:
                stamp = stamp or timestamp_of(link.parameters.get("datetime", ""))
        if reply.status == 200 and not stamp:
            raise self._malformed("it shows a page, and no copy")
        target = place or reply.url
        found = recognise(target)
        if found is None and not self._held.is_at_home(target):
            raise self._malformed(f"it leads to {target[:200]}")
        stamp = stamp or (found.timestamp if found is not None else "")
        return self._held.copies([ListedCopy(target, stamp)], url)


def http_date(at: datetime) -> str:
    """Format a time as an HTTP date."""
    return format_datetime(at.astimezone(UTC), usegmt=True)


def _nearest(parts: Sequence[TimeMapSegment], at: datetime | None) -> Sequence[TimeMapSegment]:
    """Return the TimeMap parts that may contain `at`, or the last ones."""
    if at is None or not any(part.begins for part in parts):
        return parts[-PARTS_READ:]
    stamp = timestamp14(at)
    ordered = sorted(
        parts,
        key=lambda part: (
            not (bool(part.begins) and part.begins <= stamp <= (part.ends or stamp)),
            min(
                (abs(int(each) - int(stamp)) for each in (part.begins, part.ends) if each),
                default=10**15,
            ),
        ),
    )
    return ordered[:PARTS_READ]


AT_ONCE: Final = 50  # URLs in one question
_GOOD: Final = (200, 203, 206)
_WAYBACK_HOME: Final = "https://web.archive.org/"


class AvailabilityAdapter(_Adapter):
    """Adapter for the Wayback Machine's availability API, version 2: many URLs per request."""

    def __init__(
        self, asker: ArchiveClient, address: str = "https://archive.org/wayback/available"
    ) -> None:
        """Store the client and the API address."""
        super().__init__(asker, "wayback", address, homes=(_WAYBACK_HOME,))

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return the copy nearest before `at`, or nearest after it when there is none."""
        return (await self.find_many([(url, at)]))[url]

    async def find_many(
        self, asked: Sequence[tuple[str, datetime | None]]
    ) -> dict[str, list[ArchiveMemento]]:
        """Return the results of `find` for many URLs."""
        found: dict[str, list[ArchiveMemento]] = {url: [] for url, _ in asked}
        for start in range(0, len(asked), AT_ONCE):
            left = list(asked[start : start + AT_ONCE])
            for closest in ("before", "after"):
                if left:
                    found |= await self._ask_many(left, closest)
                    left = [(url, at) for url, at in left if not found[url] and at is not None]
        return found

    async def _ask_many(
        self, asked: Sequence[tuple[str, datetime | None]], closest: str
    ) -> dict[str, list[ArchiveMemento]]:
        lines = []
        for tag, (url, at) in enumerate(asked):
            pairs = [("url", url)]
            if at is not None:
                pairs += [("timestamp", timestamp14(at)), ("closest", closest)]
            pairs += [("statuscodes", str(code)) for code in _GOOD]
            lines.append(urlencode([*pairs, ("tag", str(tag))]))
        form = "application/x-www-form-urlencoded"
        headers = {"Wayback-Api-Version": "2", "Content-Type": form}
        request = ArchiveRequest(self._template, "POST", headers, "\n".join(lines).encode())
        reply = await self._asker.ask(self.name, request)
        expect_status(self.name, reply, (200,))
        answers = parse_answer(self.name, reply, read_availability)
        if asked and not answers.keys() & {str(tag) for tag in range(len(asked))}:
            raise self._malformed("it answers other questions")
        found: dict[str, list[ArchiveMemento]] = {}
        for tag, (url, _) in enumerate(asked):
            entry = answers.get(str(tag))
            found[url] = self._held.copies([entry] if entry is not None else [], url)
        return found


class WaybackRedirectAdapter(_Adapter):
    """Adapter for the redirect of ``/web/<url>``: finds pages that the availability API omits."""

    def __init__(self, asker: ArchiveClient, origin: str = "https://web.archive.org") -> None:
        """Store the client and the origin."""
        super().__init__(asker, "wayback", origin, homes=(_WAYBACK_HOME,))

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return the copy that the redirect for `at` points to."""
        origin, stamp = self._template, f"{timestamp14(at)}/" if at is not None else ""
        address = f"{origin}/web/{stamp}{escape_for_path(url)}"
        reply = await self._ask(ArchiveRequest(address, is_head_enough=True), 200, *REDIRECTS)
        if reply is None:
            return []
        target = reply.headers.get("location", "") if reply.status in REDIRECTS else address
        stamped = timestamp_of(reply.headers.get("memento-datetime", ""))
        if reply.status == 200 and not stamped:
            raise self._malformed("it shows a page, and no copy")
        if target.startswith("/"):
            target = origin + target
        # Under another origin it answers with its own; what it means is the Wayback Machine's.
        if target.startswith(f"{origin}/"):
            target = "https://web.archive.org" + target.removeprefix(origin)
        if recognise(target) is None:
            raise self._malformed(f"it leads to {target[:200]}")
        return self._held.copies([ListedCopy(target, stamped)], url)


TIME_TRAVEL: Final = "http://timetravel.mementoweb.org/api/json/{ts}/{url}"
_Made = Callable[[ArchiveClient], ArchiveAdapter]


class FallbackAdapter:
    """Adapter that tries several adapters of one archive until one finds a copy."""

    def __init__(self, adapters: Sequence[ArchiveAdapter]) -> None:
        """Store the adapters, in order of preference."""
        self.name = adapters[0].name
        self._adapters = tuple(adapters)

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return the first non-empty result; an adapter without an answer counts only if none has one."""
        trouble: ArchiveUnavailableError | None = None
        for adapter in self._adapters:
            try:
                found = await adapter.find(url, at)
            except ArchiveUnavailableError as error:
                trouble = trouble or error
                continue
            if found:
                return found
        if trouble is not None:
            raise trouble
        return []


KNOWN_ADAPTERS: Final[Mapping[str, _Made]] = MappingProxyType(
    {
        "wayback": lambda asker: FallbackAdapter(
            (AvailabilityAdapter(asker), WaybackRedirectAdapter(asker))
        ),
        "wayback-cdx": lambda asker: CdxAdapter(asker, "wayback", f"{_WAYBACK_HOME}cdx/search/cdx"),
        "arquivo": lambda asker: CdxAdapter(asker, "arquivo", "https://arquivo.pt/wayback/cdx"),
        "time-travel": lambda asker: TimeMapAdapter(asker, "memento", TIME_TRAVEL),
    }
)


def adapters_of(names: Sequence[str], asker: ArchiveClient) -> list[ArchiveAdapter]:
    """Build the adapters that the setting names, in its order; ConfigError for an unknown name."""
    return [_adapter(" ".join(name.split()), asker) for name in names]


def _adapter(name: str, asker: ArchiveClient) -> ArchiveAdapter:
    if name in KNOWN_ADAPTERS:
        return KNOWN_ADAPTERS[name](asker)
    if name in KNOWN_TIMEMAPS:
        return TimeMapAdapter(asker, name, KNOWN_TIMEMAPS[name])
    kind, *places = name.split(" ")
    match kind, places:
        case "timemap", [place] if "{url}" in place:
            return TimeMapAdapter(asker, _host(place, name), place)
        case "timegate", [place] if "{url}" in place:
            return TimeGateAdapter(asker, _host(place, name), place)
        case "cdx", [place, copies] if "{url}" in copies and "{ts}" in copies:
            _host(copies, name)
            return CdxAdapter(asker, _host(place, name), place, copies=copies)
        case "weboid", [front, *replay] if len(replay) <= 1:
            front = front.rstrip("/")
            for home in (front, *replay):
                _host(home, name)
            template = f"{front}/timemap/json/{{url}}"
            return TimeMapAdapter(asker, _host(front, name), template, homes=(front, *replay))
    known = ", ".join(sorted((*KNOWN_ADAPTERS, *KNOWN_TIMEMAPS)))
    raise ConfigError(
        f"[links] archives names {name[:200]!r}, which is none. Known are {known}; others are written "
        "as docs/archives.md says: timemap URL, timegate URL, cdx URL URL, weboid URL."
    )


def _host(place: str, name: str) -> str:
    """Return an address's host, the archive's name; ConfigError when it is no address."""
    try:
        plain = place.replace("{url}", "").replace("{ts}", "")
        return authority_of(fetch_key(plain, allow_single_label=True))
    except BadUrlError as error:
        raise ConfigError(
            f"[links] archives: {name[:200]!r} has no address that can be asked: {error}"
        ) from error
