"""Recognition of archive URLs by ``archive_services.toml``, the table of web archives: archive, original and time.

The form of an address is an expression over path and query, with named groups: ``ts``, the capture time
(4 to 14 digits, or a date in the service's format); ``mod``, the replay modifier (``id_``, ``if_``);
``url``, the original as written; ``id``, the service's name for the copy; ``coll``, the collection.

Copies of copies are resolved: `original` is the innermost URL, `chain` the archives in between. Some addresses
do not contain their original (perma.cc/AB12-CD34): then `must_ask` is true. Recognition is no proof that a copy
exists: an address of an archive's form at an unknown host is `OTHER`, which any site can produce.
"""

import re
import tomllib
from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote

from core.errors import BadUrlError, InputError
from core.timestamps import timestamp14
from core.url_keys import replay_key
from core.urls import UrlFault, authority_of, fetch_key, host_of, identity_key

WEBOID: Final = "weboid"
OTHER: Final = "other"  # an address that reads like an archive's, of an unknown host


class AddressFault(StrEnum):
    """Reason that an archive address is not a readable copy."""

    NONE = ""
    GONE = "gone"  # the whole service is
    LIST = "list"  # it is a list of versions, not one of them
    REQUEST = "request"  # it requests a new copy, or leads away from a copy
    NOT_WEB = "not-web"  # the original is not an http(s) URL
    TOO_DEEP = "too-deep"  # too many nested archive addresses


@dataclass(frozen=True, slots=True)
class AddressForm:
    """Form of a service's addresses."""

    pattern: str  # over path and query; see the module
    template: str = ""  # the address to store, when it differs from the service's
    fault: AddressFault = AddressFault.NONE  # reason that such an address is no copy
    hosts: tuple[str, ...] = ()  # the service's hosts with this form; empty: all
    is_kept: bool = False  # the address is kept as it is, except for scheme and host
    host: str = ""  # the host of an address that is kept, when it is not the service's first one
    is_quoted: bool = False  # the original is a query value, escaped once more
    original: str = ""  # template with ``{id}`` where the original is derived from an id


@dataclass(frozen=True, slots=True)
class ArchiveService:
    """Web archive in the table."""

    name: str  # its name here and in the registry
    title: str  # its display name
    hosts: tuple[str, ...]  # canonical, without ``www.``; the first is the preferred one
    forms: tuple[AddressForm, ...] = ()  # of its addresses; the first match wins
    template: str = ""  # the address of a copy: ``{ts}``, ``{url}``, ``{coll}``, ``{id}``
    coll: str = ""  # the default collection when only original and time are known; empty: none
    zone_h: int = 0  # hours that its dates are ahead of UTC
    fault: AddressFault = AddressFault.NONE  # applies to all its addresses
    is_made: bool = True  # an address can be built from an original and a time
    has_newest: bool = False  # … and without a time, for the default version
    says_time: bool = False  # each copy states its capture date; a page without one is not a copy
    timemap: str = ""  # the address of its TimeMap for ``{url}``; empty without one


_TIME = r"(?P<ts>\d{4,14})\d{0,8}"
_MODIFIER = r"-?(?P<mod>(?:[a-z]{2}_)?)"
_PAGE = r"(?P<url>/{0,3}[^/].*)"
_FRAGMENTS: Final = {
    "{time}": _TIME,
    "{modifier}": _MODIFIER,
    "{page}": _PAGE,
    "{sure}": r"(?P<url>(?:https?(?::|%3[Aa])|ftp:|//|www\.).+)",
    "{replay}": rf"{_TIME}{_MODIFIER}/{_PAGE}",
    "{list}": rf"[\d-]*\*/{_PAGE}",
}


def _forms(rows: Iterable[dict[str, Any]]) -> Iterator[AddressForm]:
    for row in rows:
        if "prefix" in row:
            prefix = row["prefix"]
            yield from _forms(
                [{"pattern": f"{prefix}/{{replay}}"}, {"pattern": f"{prefix}/{{list}}", "fault": AddressFault.LIST}]
            )
            continue
        pattern = row["pattern"]
        for name, fragment in _FRAGMENTS.items():
            pattern = pattern.replace(name, fragment)
        fault, hosts = AddressFault(row.get("fault", "")), tuple(row.get("hosts", ()))
        yield AddressForm(**{**row, "pattern": pattern, "fault": fault, "hosts": hosts})


def _read_services() -> dict[str, ArchiveService]:
    table = tomllib.loads(files(__package__).joinpath("archive_services.toml").read_text("utf-8"))
    services = {}
    for name, row in table.items():
        row["fault"] = AddressFault(row.get("fault", ""))
        row |= {"hosts": tuple(row["hosts"]), "forms": tuple(_forms(row["forms"]))}
        services[name] = ArchiveService(name, **row)
    return services


SERVICES: Final[Mapping[str, ArchiveService]] = MappingProxyType(_read_services())
# Our own pages and copies, at origins that the caller names; `#` is escaped there (docs/reference/memento.md).
OWN_FORMS: Final = (
    AddressForm(r"(?:/w/[^/]+)?/(?:page|c|screenshot|text)/(?P<ts>\d{14})(?P<mod>(?:[a-z]{2}_)?)/(?P<url>.+)"),
    AddressForm(
        r"(?:/w/[^/]+)?/(?:page|timegate|timemap/(?:link|json|cdxj)|calendar)/(?P<url>.+)", fault=AddressFault.LIST
    ),
)
# Any other replay: a whole moment and a whole URL behind it (pywb, OpenWayback, and who copies them).
OTHER_FORM: Final = AddressForm(
    r"(?:/[^/]{1,80}){0,4}/(?P<ts>(?:19|20)\d{12})(?P<mod>(?:[a-z]{2}_)?)/(?P<url>https?:/{1,2}[^/].*)", is_kept=True
)


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_NAMED_MONTH = re.compile(r"(\d{4})-([a-z]{3})[a-z]*-(\d{1,2})", re.IGNORECASE | re.ASCII)
_SHORT_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?=\D|$)", re.ASCII)
_NO_DIGITS = re.compile(r"\D", re.ASCII)
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DATE_PARAMETER = re.compile(r"[?&]date=([\d%:T+-]+)", re.IGNORECASE)


def moment_of(timestamp: str) -> datetime:
    """Return the time that 14 digits name; invalid parts become the nearest valid ones.

    >>> moment_of("20150000000000").isoformat()
    '2015-01-01T00:00:00+00:00'
    """
    spans = ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))
    year, month, day, hour, minute, second = (int(timestamp[start:end]) for start, end in spans)
    year, month = max(year, 1), min(max(month, 1), 12)
    day = min(max(day, 1), monthrange(year, month)[1])
    return datetime(year, month, day, min(hour, 23), min(minute, 59), min(second, 59), tzinfo=UTC)


def parse_written_date(text: str, zone_h: int = 0) -> str:
    """Convert a date in a service's format to 14 digits; empty when it is not valid."""
    text = unquote(text)
    named = _NAMED_MONTH.fullmatch(text)
    if named is not None:
        month = named[2].lower()
        if month not in _MONTHS:
            return ""
        return f"{named[1]}{_MONTHS.index(month) + 1:02}{int(named[3]):02}000000"
    text = _SHORT_DAY.sub(lambda m: f"{m[1]}{int(m[2]):02}{int(m[3]):02}", text, count=1)
    digits = _NO_DIGITS.sub("", text)[:14]
    if len(digits) < 4:
        return ""
    stamp = digits.ljust(14, "0")
    return timestamp14(moment_of(stamp) - timedelta(hours=zone_h)) if zone_h and stamp >= "0002" else stamp


def timestamp_in_name(service: str, identifier: str, path: str) -> str:
    """Return the time encoded in an identifier: WebCite and FreezePage count seconds in theirs."""
    seconds = 0
    if service == "webcite":
        date = _DATE_PARAMETER.search(path)
        if date is not None:
            return parse_written_date(date[1])
        parameter = re.search(r"[?&]id=([0-9A-Za-z]+)", path)
        identifier = identifier or (parameter[1] if parameter is not None else "")
        if len(identifier) == 9:  # microseconds, in base 62
            value = 0
            for char in identifier:
                value = value * 62 + _BASE62.index(char)
            seconds = value // 1_000_000
        elif identifier[:10].isdigit() and len(identifier) >= 10:
            seconds = int(identifier[:10])
    elif service == "freezepage":
        seconds = int(identifier[:10])
    return timestamp14(datetime.fromtimestamp(seconds, UTC)) if 800_000_000 < seconds < 4_000_000_000 else ""


DEPTH: Final = 5  # archives within archives
_REST = re.compile(r"https?://[^/]*(/.*)", re.DOTALL)
_COLLAPSED = re.compile(r"(https?):/*(?=[^/])", re.IGNORECASE)
_FOREIGN_SCHEME = re.compile(r"(?!https?:)([a-z][a-z0-9+.-]*)://?[^/]", re.IGNORECASE)
_QUOTED_SCHEME = re.compile(r"https?%3a", re.IGNORECASE)
_TRAILING = re.compile(r"&(?:title|apiresponse|date|rev_t|lang)=[^&]*$", re.IGNORECASE)
_URL_PARAMETER = re.compile(r"[?&]url=([^&]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ArchiveUrl:
    """Parsed archive address."""

    service: str  # the archive's name in `links.archives.archive_urls`
    original: str  # the archived URL, as it is fetched; empty when the address does not contain it
    timestamp: str  # 14 digits, missing ones filled with zeros; empty when no version is named
    address: str  # the same in the form that the archive prefers
    modifier: str = ""  # replay modifier: ``id_``, ``if_`` …; `address` has none
    fault: AddressFault = AddressFault.NONE  # reason that it is not a readable copy
    chain: tuple["ArchiveUrl", ...] = ()  # nested archives, for a copy of a copy, outermost first

    @property
    def is_usable(self) -> bool:
        """Return True when readers may be sent to the address."""
        return not self.fault

    @property
    def must_ask(self) -> bool:
        """Return True when the original is unknown and the archive must be queried for it."""
        return not self.original and self.fault in (AddressFault.NONE, AddressFault.GONE, AddressFault.LIST)

    @property
    def is_known(self) -> bool:
        """Return True when the host belongs to a known archive."""
        return self.service != OTHER

    @property
    def moment(self) -> datetime | None:
        """Return the capture time, for a copy of a copy the innermost one; None when it is not given."""
        for each in (*reversed(self.chain), self):
            if each.timestamp:
                return moment_of(each.timestamp)
        return None


def recognise(text: str, *, own: Iterable[str] = ()) -> ArchiveUrl | None:
    """Parse an archive address, in any spelling; None when it belongs to no archive.

    `own` are origins of this archive's own front and replay, ``https://archive.example``.

    >>> recognise("archive.is/2015.01.02-030405/http://a.test/").timestamp
    '20150102030405'
    >>> recognise("https://example.org/") is None
    True
    """
    own = {_origin(each): fetch_key(each, allow_single_label=True).partition(":")[0] for each in own}
    archive_url = _recognise_one(text, own)
    if archive_url is None:
        return None
    chain: list[ArchiveUrl] = []
    inner = archive_url
    while inner.original:
        within = _recognise_one(inner.original, own)
        if within is None or not within.is_known:
            break
        chain.append(within)
        if len(chain) > DEPTH:
            return replace(archive_url, original="", fault=AddressFault.TOO_DEEP)
        inner = within
    return replace(archive_url, original=inner.original, chain=tuple(chain)) if chain else archive_url


def make_archive_url(service: str, original: str, timestamp: str) -> str:
    """Build the address of a service's copy, of the default version without a timestamp; empty when impossible.

    Raises InputError for an unknown service or bad input.
    """
    known = SERVICES.get(service)
    if known is None:
        raise InputError(f"There is no archive {service[:80]!r}; known: {', '.join(SERVICES)}.")
    if timestamp and not re.fullmatch(r"\d{4,14}", timestamp, re.ASCII):
        raise InputError(f"A timestamp has 4 to 14 digits, YYYYMMDDhhmmss; this is {timestamp[:80]!r}.")
    url = fetch_key(original)
    if not known.is_made or not (timestamp or known.has_newest):
        return ""
    return _filled(known.template, ts=timestamp, url=url, coll=known.coll)


def is_copy_of(archive_url: ArchiveUrl | str, reference: str) -> bool | None:
    """Return True when the copy is one of the reference (B07); None when the archive must be queried.

    URLs match by identity key, or by the SURT key under which archives index captures.
    """
    copy = recognise(archive_url) if isinstance(archive_url, str) else archive_url
    if copy is None or copy.must_ask or not copy.is_known:
        return None
    wanted = {reference}
    cited = recognise(reference)
    if cited is not None and cited.original:
        wanted |= {cited.original, *(each.address for each in cited.chain)}
    passed = [each.address for each in copy.chain]
    return any(is_same_page(a, b) for a in (copy.original, *passed) for b in wanted if a)


def is_same_page(one: str, other: str) -> bool:
    """Return True when archives index both URLs under one key."""
    if one == other:
        return True
    try:
        return identity_key(one) == identity_key(other) or replay_key(one) == replay_key(other)
    except BadUrlError:
        return False


def _recognise_one(text: str, own: Mapping[str, str]) -> ArchiveUrl | None:
    """Parse the address itself, without resolving nested copies."""
    try:
        url = fetch_key(text)
        host = host_of(url).removeprefix("www.")
        origin = _origin(url)
    except BadUrlError:
        return None
    rest = _REST.fullmatch(url)
    path = rest[1] if rest is not None else "/"
    if origin in own:
        # Under the scheme that the operator configured.
        service = ArchiveService(WEBOID, "Weboid", (origin,), template=f"{own[origin]}://{origin}/page/{{ts}}/{{url}}")
        return _first(service, _compiled(OWN_FORMS), path)
    for service, forms in _by_host().get(host, ()):
        archive_url = _first(service, forms, path)
        if archive_url is not None:
            return archive_url
    if host in _by_host():
        return None
    service = ArchiveService(OTHER, "another archive", (origin,))
    return _first(service, _compiled((OTHER_FORM,)), path)


def _first(
    service: ArchiveService, forms: Iterable[tuple[AddressForm, re.Pattern[str]]], path: str
) -> ArchiveUrl | None:
    """Return the first matching form with a valid original, else the first match."""
    left = None
    for form, pattern in forms:
        match = pattern.fullmatch(path)
        if match is None:
            continue
        groups = {key: value or "" for key, value in match.groupdict().items()}
        identifier = groups.get("id", "")
        identifier = identifier.upper() if service.name == "perma" else identifier
        timestamp = groups.get("ts", "")
        stamp = parse_written_date(timestamp, service.zone_h) or timestamp_in_name(service.name, identifier, path)
        original, fault = _original(service, form, groups, identifier, path)
        template = form.template or service.template
        if form.fault is AddressFault.LIST and not form.template:
            template = template.replace("{ts}", "*")
        if form.is_kept:
            address = f"https://{form.host or service.hosts[0]}{path}"
        else:
            address = _filled(
                template,
                ts=_NO_DIGITS.sub("", timestamp)[:14],
                url=original or groups.get("url", ""),
                coll=groups.get("coll", "") or service.coll,
                id=identifier,
            )
        archive_url = ArchiveUrl(
            service.name, original, stamp, address, groups.get("mod", ""), fault or form.fault or service.fault
        )
        if archive_url.fault is not AddressFault.NOT_WEB:
            return archive_url
        left = left or archive_url
    return left if left is not None and left.original else None


def _original(
    service: ArchiveService, form: AddressForm, groups: dict[str, str], identifier: str, path: str
) -> tuple[str, AddressFault]:
    """Return the archived URL and its fault; both empty when the address does not contain it."""
    if form.original:
        return form.original.replace("{id}", identifier), AddressFault.NONE
    text = groups.get("url", "")
    if not text and service.name == "webcite":
        parameter = _URL_PARAMETER.search(path)
        text = unquote(parameter[1]) if parameter is not None else ""
    elif form.is_quoted:
        text = unquote(_TRAILING.sub("", text) if not _QUOTED_SCHEME.match(text) else text.partition("&")[0])
    if service.name == WEBOID:
        text = re.sub(r"%((?:25)*)23", lambda m: f"%{m[1][2:]}23" if m[1] else "#", text)
    elif service.name == OTHER:  # a fragment that identifies a page reaches a replay server only in this form
        text = text.replace("%23!", "#!", 1)
    if not text:
        return "", AddressFault.NONE
    foreign = _FOREIGN_SCHEME.match(text)
    if foreign is not None and "." not in foreign[1]:
        return text, AddressFault.NOT_WEB
    # The scheme's slashes, which proxies collapse; without a scheme http is assumed.
    if text.startswith("/"):
        whole = "http://" + text.lstrip("/")
    else:
        whole = _COLLAPSED.sub(r"\1://", text, count=1) if _COLLAPSED.match(text) else text
    try:
        return fetch_key(whole), AddressFault.NONE
    except BadUrlError as error:
        return (text if error.reason == UrlFault.SCHEME else ""), AddressFault.NOT_WEB


def _filled(template: str, *, ts: str, url: str, coll: str = "", id: str = "") -> str:  # noqa: A002
    if not ts:
        template = template.replace("{ts}/", "")
    if "?url={url}" in template and "{id}" not in template:
        url = quote(url, safe="")
    values = {"ts": ts, "url": url, "coll": coll, "id": id}
    return re.sub(r"\{(ts|url|coll|id)\}", lambda m: values[m[1]], template)


def _origin(url: str) -> str:
    """Return the origin without its scheme, as an archive served by both schemes is one."""
    return authority_of(fetch_key(url, allow_single_label=True))


Compiled = tuple[tuple[AddressForm, re.Pattern[str]], ...]


@cache
def _compiled(forms: tuple[AddressForm, ...]) -> Compiled:
    return tuple((form, re.compile(form.pattern, re.ASCII | re.DOTALL | re.IGNORECASE)) for form in forms)


@cache
def _by_host() -> dict[str, list[tuple[ArchiveService, Compiled]]]:
    services_by_host: dict[str, list[tuple[ArchiveService, Compiled]]] = {}
    for service in SERVICES.values():
        of_forms = (host for form in service.forms for host in form.hosts)
        for host in dict.fromkeys((*service.hosts, *of_forms)):
            is_own = host in service.hosts
            forms = (form for form in service.forms if (host in form.hosts if form.hosts else is_own))
            services_by_host.setdefault(host, []).append((service, _compiled(tuple(forms))))
    return services_by_host
