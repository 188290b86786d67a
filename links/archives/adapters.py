"""Adapters of other archives: CDX, Memento, Wayback Machine, Save Page Now 2 (docs/how-to/archives.md).

Save Page Now needs a key, and a capture takes minutes. Its answer determines the retry: later for the service's
failures or an exhausted daily limit, not for long for a page that cannot be archived. Errors come with status 200.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import quote, urlencode, urljoin

from core.errors import BadUrlError, ConfigError
from core.timestamps import timestamp14
from core.urls import authority_of, fetch_key
from links.archives import archive_answers, archive_client
from links.archives.archive_answers import ArchiveAdapter, ArchiveMemento, ListedCopy
from links.archives.archive_client import ArchiveClient, ArchiveRequest, ArchiveResponse, ArchiveUnavailableError
from links.archives.archive_urls import SERVICES, is_copy_of, is_same_page, make_archive_url, recognise


class HttpAdapter:
    """Base of the adapters: an archive, the template of its addresses, and the answers it may give."""

    def __init__(self, client: ArchiveClient, name: str, template: str, *, homes: Sequence[str] = ()) -> None:
        self.name = name
        self._client = client
        self._template = template
        self._homes = {authority_of(home) for home in homes or (template,)}

    async def _ask(self, request: ArchiveRequest, *statuses: int) -> ArchiveResponse | None:
        """Return an answer with one of the statuses; None when the archive has no copy."""
        response = await self._client.ask(self.name, request)
        if response.status in archive_client.NOT_THERE:
            return None
        archive_answers.expect_status(self.name, response, statuses)
        return response

    def _copies(self, entries: Iterable[ListedCopy], url: str) -> list[ArchiveMemento]:
        """Return the entries for `url`; each address once."""
        copies: dict[str, ArchiveMemento] = {}
        for entry in entries:
            if entry.original and not is_same_page(entry.original, url):
                continue
            recognised = recognise(entry.address)
            if recognised is not None and recognised.is_known:
                # Copies that do not name their original were listed by their archive, which knows it.
                if not recognised.is_usable or is_copy_of(recognised, url) is False:
                    continue
                name, address, stamp = recognised.service, recognised.address, recognised.timestamp
                if len(stamp) < 14 or stamp.endswith("0000000000"):  # padded
                    stamp = entry.timestamp
            else:
                is_other = recognised is not None and not is_same_page(recognised.original, url)
                if is_other or not self._is_at_home(entry.address):
                    continue
                name, address, stamp = self.name, fetch_key(entry.address), entry.timestamp
            copies.setdefault(address, ArchiveMemento(name, address, stamp, entry.status, entry.mime))
        return list(copies.values())

    def _is_at_home(self, address: str) -> bool:
        try:
            return authority_of(fetch_key(address)) in self._homes
        except BadUrlError:
            return False


class CdxAdapter(HttpAdapter):
    """Adapter for a CDX server: Internet Archive, pywb, arquivo.pt or another Weboid."""

    def __init__(self, client: ArchiveClient, name: str, endpoint: str, *, copies: str = "") -> None:
        """Set the service and its CDX address; `copies` is a template of ``{ts}`` and ``{url}``."""
        super().__init__(client, name, endpoint, homes=(copies or endpoint,))
        self._copy_template = copies

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return captures with a good status; of a long list, those nearest to `at`."""
        pairs = {"url": url, "output": "json", "limit": "500"}
        if at is not None:
            pairs |= {"closest": timestamp14(at), "sort": "closest"}
        response = await self._ask(ArchiveRequest(f"{self._template}?{urlencode(pairs)}", hops=2), 200)
        if response is None:
            return []
        entries = archive_answers.parse_answer(self.name, response, archive_answers.read_cdx)
        placed = []
        for entry in entries:
            original = entry.original or url
            address = self._copy_template.replace("{ts}", entry.timestamp)
            address = address.replace("{url}", original)
            if not address:
                with suppress(BadUrlError):
                    address = make_archive_url(self.name, original, entry.timestamp)
            placed.append(replace(entry, address=address))
        return self._copies(placed, url)


PARTS_READ: Final = 3  # of a long TimeMap
KNOWN_TIMEMAPS: Final = {each.name: each.timemap for each in SERVICES.values() if each.timemap}


class TimeMapAdapter(HttpAdapter):
    """Adapter for TimeMaps (RFC 7089) in either format; with ``{ts}`` for Time Travel's closest copies."""

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return all copies that the TimeMap lists; of a long one, those around `at`."""
        stamp = timestamp14(at) if at is not None else "29991231235959"
        address = self._template.replace("{ts}", stamp).replace("{url}", archive_answers.escape_for_path(url))
        timemap = await self._read(address, url)
        if timemap is None:
            return []
        entries = list(timemap.entries)
        for part in _nearest(timemap.parts, at):
            if authority_of(part.address) != authority_of(self._template):
                continue
            more = await self._read(part.address, url)
            entries += more.entries if more is not None else ()
        return self._copies(entries, url)

    async def _read(self, address: str, url: str) -> archive_answers.ParsedTimeMap | None:
        response = await self._ask(ArchiveRequest(address, hops=3), 200)
        if response is None:
            return None
        is_json = response.text.lstrip()[:1] == "{"
        timemap = archive_answers.parse_answer(
            self.name, response, archive_answers.read_json_timemap if is_json else archive_answers.read_link_timemap
        )
        if timemap.original and not is_same_page(timemap.original, url):
            raise archive_answers.malformed_answer_error(self.name, f"it is about {timemap.original[:200]}")
        return timemap


class TimeGateAdapter(HttpAdapter):
    """Adapter for a TimeGate (RFC 7089, 4): the copy nearest to a time, which it gets in ``{ts}/`` or in a header."""

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return the copy that the TimeGate redirects to."""
        headers = {}
        if at is not None and "{ts}" not in self._template:
            headers["Accept-Datetime"] = format_datetime(at.astimezone(UTC), usegmt=True)
        address = self._template.replace("{ts}/", f"{timestamp14(at)}/" if at is not None else "")
        address = address.replace("{url}", archive_answers.escape_for_path(url))
        request = ArchiveRequest(address, headers=headers, is_head_enough=True)
        response = await self._ask(request, 200, *archive_client.REDIRECTS)
        if response is None:
            return []
        stamp = archive_answers.timestamp_of(response.headers.get("memento-datetime", ""))
        place = response.headers.get(
            "location" if response.status in archive_client.REDIRECTS else "content-location", ""
        )
        for link in archive_answers.parse_links(response.headers.get("link", "")):
            if "original" in link.rels and not is_same_page(link.target, url):
                raise archive_answers.malformed_answer_error(self.name, f"it is about {link.target[:200]}")
            if "memento" in link.rels and link.target == place:
                stamp = stamp or archive_answers.timestamp_of(link.parameters.get("datetime", ""))
        if response.status == 200 and not stamp:
            raise archive_answers.malformed_answer_error(self.name, "it shows a page, not a copy")
        target = urljoin(address, place) if place else response.url
        copy = recognise(target)
        if copy is None and (self.name in SERVICES or not self._is_at_home(target)):
            raise archive_answers.malformed_answer_error(self.name, f"it redirects to {target[:200]}")
        stamp = stamp or (copy.timestamp if copy is not None else "")
        return self._copies([ListedCopy(target, stamp)], url)


def _nearest(
    parts: Sequence[archive_answers.TimeMapSegment], at: datetime | None
) -> Sequence[archive_answers.TimeMapSegment]:
    """Return the TimeMap parts that may contain `at`, or the last ones."""
    if at is None or not any(part.begins for part in parts):
        return parts[-PARTS_READ:]
    stamp = timestamp14(at)
    ordered = sorted(
        parts,
        key=lambda part: (
            not (bool(part.begins) and part.begins <= stamp <= (part.ends or stamp)),
            min((abs(int(each) - int(stamp)) for each in (part.begins, part.ends) if each), default=10**15),
        ),
    )
    return ordered[:PARTS_READ]


_GOOD: Final = (200, 203, 206)
_WAYBACK_HOME: Final = "https://web.archive.org/"
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}


class AvailabilityAdapter(HttpAdapter):
    """Adapter for the Wayback Machine's availability API, version 2."""

    def __init__(self, client: ArchiveClient) -> None:
        """Store the client."""
        super().__init__(client, "wayback", "https://archive.org/wayback/available", homes=(_WAYBACK_HOME,))

    async def find(self, url: str, at: datetime | None) -> list[ArchiveMemento]:
        """Return the copy nearest before `at`, or nearest after it when there is none."""
        copies: list[ArchiveMemento] = []
        for closest in ("before", "after") if at is not None else ("before",):
            copies = copies or await self._ask_for(url, at, closest)
        return copies

    async def _ask_for(self, url: str, at: datetime | None, closest: str) -> list[ArchiveMemento]:
        pairs = [("url", url)]
        if at is not None:
            pairs += [("timestamp", timestamp14(at)), ("closest", closest)]
        pairs += [("statuscodes", str(code)) for code in _GOOD]
        body = urlencode([*pairs, ("tag", "0")]).encode()
        request = ArchiveRequest(self._template, "POST", {"Wayback-Api-Version": "2", **_FORM}, body)
        response = await self._client.ask(self.name, request)
        archive_answers.expect_status(self.name, response, (200,))
        answers = archive_answers.parse_answer(self.name, response, archive_answers.read_availability)
        if "0" not in answers:
            raise archive_answers.malformed_answer_error(self.name, "it answers a different query")
        entry = answers["0"]
        return self._copies([entry] if entry is not None else [], url)


# Finds pages that the availability API omits.
WAYBACK_REDIRECT: Final = f"{_WAYBACK_HOME}web/{{ts}}/{{url}}"
TIME_TRAVEL: Final = "http://timetravel.mementoweb.org/api/json/{ts}/{url}"
AdapterFactory = Callable[[ArchiveClient], ArchiveAdapter]


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
                copies = await adapter.find(url, at)
            except ArchiveUnavailableError as error:
                trouble = trouble or error
                continue
            if copies:
                return copies
        if trouble is not None:
            raise trouble
        return []


KNOWN_ADAPTERS: Final[Mapping[str, AdapterFactory]] = MappingProxyType(
    {
        "wayback": lambda client: FallbackAdapter(
            (AvailabilityAdapter(client), TimeGateAdapter(client, "wayback", WAYBACK_REDIRECT))
        ),
        "wayback-cdx": lambda client: CdxAdapter(client, "wayback", f"{_WAYBACK_HOME}cdx/search/cdx"),
        "arquivo": lambda client: CdxAdapter(client, "arquivo", "https://arquivo.pt/wayback/cdx"),
        "time-travel": lambda client: TimeMapAdapter(client, "memento", TIME_TRAVEL),
    }
)


def adapters_of(names: Sequence[str], client: ArchiveClient) -> list[ArchiveAdapter]:
    """Build the adapters that the setting names, in its order; ConfigError for an unknown name."""
    return [_adapter(" ".join(name.split()), client) for name in names]


def check_archive_names(names: Sequence[str]) -> None:
    """Raise ConfigError for an unknown name in `[links] archives`."""
    adapters_of(names, cast("ArchiveClient", None))  # adapters send no request before they are used


def _adapter(name: str, client: ArchiveClient) -> ArchiveAdapter:
    if name in KNOWN_ADAPTERS:
        return KNOWN_ADAPTERS[name](client)
    if name in KNOWN_TIMEMAPS:
        return TimeMapAdapter(client, name, KNOWN_TIMEMAPS[name])
    kind, *places = name.split(" ")
    match kind, places:
        case "timemap", [place] if "{url}" in place:
            return TimeMapAdapter(client, _host(place, name), place)
        case "timegate", [place] if "{url}" in place:
            return TimeGateAdapter(client, _host(place, name), place)
        case "cdx", [place, copies] if "{url}" in copies and "{ts}" in copies:
            _host(copies, name)
            return CdxAdapter(client, _host(place, name), place, copies=copies)
        case "weboid", [front, *replay] if len(replay) <= 1:
            front = front.rstrip("/")
            for home in (front, *replay):
                _host(home, name)
            return TimeMapAdapter(client, _host(front, name), f"{front}/timemap/json/{{url}}", homes=(front, *replay))
    known = ", ".join(sorted((*KNOWN_ADAPTERS, *KNOWN_TIMEMAPS)))
    raise ConfigError(
        f"[links] archives names {name[:200]!r}, which is unknown. Known: {known}; docs/how-to/archives.md explains "
        "how to write others: timemap URL, timegate URL, cdx URL URL, weboid URL."
    )


def _host(place: str, name: str) -> str:
    """Return an address's host, the archive's name; ConfigError when it is not an address."""
    try:
        return authority_of(fetch_key(place.replace("{url}", "").replace("{ts}", ""), allow_single_label=True))
    except BadUrlError as error:
        raise ConfigError(f"[links] archives: {name[:200]!r} has no address that can be queried: {error}") from error


SAVE_SERVICE: Final = "save-page-now"  # apart from the Wayback Machine: one may be busy, the other not
POLL_S: Final = 2.0
SAVE_LIMIT_S: Final = 240.0  # a capture takes two minutes at most, waiting in line comes on top
SESSION_TRIES: Final = 22
_SESSIONS = "user-session-limit"
# Errors of the service or the connection, which may pass; all others are the page's own.
TRANSIENT_SAVE_ERRORS: Final = frozenset(
    (
        *(_SESSIONS, "celery", "soft-time-limit-exceeded", "proxy-error", "browsing-timeout"),
        *("no-browsers-available", "redis-error", "capture-location-error", "job-failed"),
        *("too-many-daily-captures", "too-many-requests", "bandwidth-limit-exceeded"),
        *("max-daily-bandwidth-from-ip", "bad-gateway", "gateway-timeout", "service-unavailable"),
        *("internal-server-error", "read-timeout", "cannot-fetch", "protocol-error"),
    )
)


class SaveOutcome(StrEnum):
    """Outcome of a capture request."""

    SAVED = "saved"
    LATER = "later"  # not now; asking again may help
    NEVER = "never"  # that page cannot be archived there


@dataclass(frozen=True, slots=True)
class SaveResult:
    """Result of a capture request."""

    outcome: SaveOutcome
    copy: ArchiveMemento | None = None  # its address may take a while to work; None without one
    reason: str = ""  # the service's code and message


@dataclass(eq=False)
class SavePageNow:
    """Client that requests captures. Bound to one event loop."""

    client: ArchiveClient
    key: InitVar[str]  # of the account, ``key:secret``
    _: KW_ONLY
    monotonic: Callable[[], float]
    origin: str = "https://web.archive.org"

    def __post_init__(self, key: str) -> None:
        self._headers = {"Accept": "application/json", "Authorization": f"LOW {key}"}

    async def take(self, url: str) -> SaveResult:
        """Send a capture request, and wait for its end; ArchiveUnavailableError if refused or unanswered."""
        for _ in range(SESSION_TRIES):
            body = urlencode({"url": url, "skip_first_archive": "1"}).encode()
            status = await self._ask(ArchiveRequest(f"{self.origin}/save", "POST", {**self._headers, **_FORM}, body))
            job = status.get("job_id")
            if isinstance(job, str) and job and not _code(status):
                request = ArchiveRequest(f"{self.origin}/save/status/{quote(job, safe='')}", headers=self._headers)
                until, is_pending = self.monotonic() + SAVE_LIMIT_S, True
                while is_pending:
                    await self.client.sleep(POLL_S)
                    status = await self._ask(request)
                    is_pending = status.get("status") == "pending" and self.monotonic() < until
            if _code(status) != _SESSIONS:
                return _result_of(status, url)
            await self.client.sleep(POLL_S)
        return SaveResult(SaveOutcome.LATER, reason=_SESSIONS)

    async def _ask(self, request: ArchiveRequest) -> dict[str, Any]:
        response = await self.client.ask(SAVE_SERVICE, request)
        if response.status in archive_client.REFUSALS:
            reason = f"it answered {response.status}; see the key in [links] save_key_file"
            raise ArchiveUnavailableError(SAVE_SERVICE, archive_client.ArchiveFailure.REFUSED, reason)
        return archive_answers.parse_answer(SAVE_SERVICE, response, archive_answers.read_object)


def _result_of(status: dict[str, Any], url: str) -> SaveResult:
    code, message = _code(status), " ".join(archive_answers.text_value(status, "message").split())[:300]
    if code:
        outcome = SaveOutcome.LATER if code in TRANSIENT_SAVE_ERRORS else SaveOutcome.NEVER
        return SaveResult(outcome, reason=f"{code}: {message}" if message else code)
    if status.get("status") != "success":
        return SaveResult(SaveOutcome.LATER, reason=message or "it is not finished")
    stamp, original = archive_answers.timestamp_of(str(status.get("timestamp", ""))), status.get("original_url")
    if not stamp or not isinstance(original, str):
        return SaveResult(SaveOutcome.LATER, reason="it does not name the copy")
    if not is_same_page(original, url):
        return SaveResult(SaveOutcome.NEVER, reason=f"it archived {original[:200]}")
    reported = status.get("http_status")
    http_status = reported if isinstance(reported, int) and 100 <= reported <= 599 else None
    address = make_archive_url("wayback", url, stamp)
    return SaveResult(SaveOutcome.SAVED, ArchiveMemento("wayback", address, stamp, http_status))


def _code(status: dict[str, Any]) -> str:
    """Return the error's code without its prefix; empty when there is none."""
    if status.get("status") != "error":
        return ""
    return archive_answers.text_value(status, "status_ext").removeprefix("error:")[:80] or "unknown"
