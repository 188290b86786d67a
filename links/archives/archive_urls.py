"""Recognition of archive URLs: which archive, which original, which time.

    found = recognise("http://archive.org/web/2015id_/example.org")
    found.service, found.original, found.timestamp, found.address
    # wayback, http://example.org/, 20150000000000, https://web.archive.org/web/2015/http://example.org/

The services are a table (`links.archives.archive_services`). An archive's copy of another archive's copy is
followed to what that is of: `original` is the innermost, `chain` the archives on the way. Some addresses
do not say what they are of (perma.cc/AB12-CD34): `must_ask` is true, and `original` empty.

Nothing is asked here, and nothing that is said proves that there is a copy. Only the host decides whose
address it is; what merely reads like an archive's is `services.OTHER`, which anybody can make.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final
from urllib.parse import quote, unquote

from core.errors import BadUrlError, InputError
from core.timestamps import timestamp14
from core.url_keys import replay_key
from core.urls import UrlFault, authority_of, fetch_key, host_of, identity_key
from links.archives.archive_services import (
    OTHER,
    OTHER_FORM,
    OWN_FORMS,
    SERVICES,
    WEBOID,
    AddressFault,
    AddressForm,
    ArchiveService,
)

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_NAMED_MONTH = re.compile(r"(\d{4})-([a-z]{3})[a-z]*-(\d{1,2})", re.IGNORECASE | re.ASCII)
_SHORT_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?=\D|$)", re.ASCII)
_NO_DIGITS = re.compile(r"\D", re.ASCII)
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DATE_PARAMETER = re.compile(r"[?&]date=([\d%:T+-]+)", re.IGNORECASE)


def moment_of(timestamp: str) -> datetime:
    """The moment that 14 digits name; parts that no calendar has are taken for its nearest.

    >>> moment_of("20150000000000").isoformat()
    '2015-01-01T00:00:00+00:00'
    """
    year, month, day, hour, minute, second = (
        int(timestamp[start:end])
        for start, end in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))
    )
    first = datetime(max(year, 1), min(max(month, 1), 12), 1, tzinfo=UTC)
    last = (
        (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
        if first.year < 9999
        else first
    )
    return first.replace(
        day=min(max(day, 1), last.day if first.year < 9999 else 28),
        hour=min(hour, 23),
        minute=min(minute, 59),
        second=min(second, 59),
    )


def parse_written_date(text: str, zone_h: int = 0) -> str:
    """14 digits of a date as services write it; empty when it is none."""
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
    if not zone_h or stamp < "0002":
        return stamp
    return timestamp14(moment_of(stamp) - timedelta(hours=zone_h))


def timestamp_in_name(service: str, identifier: str, path: str) -> str:
    """The moment that a name of the service's tells: WebCite and FreezePage count seconds in theirs."""
    seconds = 0
    if service == "webcite":
        date = _DATE_PARAMETER.search(path)
        if date is not None:
            return parse_written_date(date[1])
        asked = re.search(r"[?&]id=([0-9A-Za-z]+)", path)
        identifier = identifier or (asked[1] if asked is not None else "")
        if len(identifier) == 9:  # microseconds, in base 62
            value = 0
            for char in identifier:
                value = value * 62 + _BASE62.index(char)
            seconds = value // 1_000_000
        elif identifier[:10].isdigit() and len(identifier) >= 10:
            seconds = int(identifier[:10])
    elif service == "freezepage":
        seconds = int(identifier[:10])
    if not 800_000_000 < seconds < 4_000_000_000:
        return ""
    return timestamp14(datetime.fromtimestamp(seconds, UTC))


DEPTH: Final = 5  # archives within archives
_REST = re.compile(r"https?://[^/]*(/.*)", re.DOTALL)
_COLLAPSED = re.compile(r"(https?):/*(?=[^/])", re.IGNORECASE)
_FOREIGN_SCHEME = re.compile(r"(?!https?:)([a-z][a-z0-9+.-]*)://?[^/]", re.IGNORECASE)
_QUOTED_SCHEME = re.compile(r"https?%3a", re.IGNORECASE)
_TRAILING = re.compile(r"&(?:title|apiresponse|date|rev_t|lang)=[^&]*$", re.IGNORECASE)
_VERSIONS_ONLY: Final = frozenset(SERVICES) - {
    "wayback",
    "archive-it",
    "uk-national-archives",
    "ukwa",
}
_URL_PARAMETER = re.compile(r"[?&]url=([^&]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ArchiveUrl:
    """An archive's address, understood.

    Attributes:
        service: the archive's name in `links.archives.archive_services`.
        original: what was archived, as it is fetched; empty when the address does not say.
        timestamp: when, in 14 digits, what is not said filled with zeros; empty when no version is
            named.
        address: the same in the form that the archive prefers.
        modifier: which face of the copy was asked for: ``id_``, ``if_`` …; `address` has none.
        fault: why it is no copy that can be read.
        chain: what was archived was itself a copy: the archives within, from the outside in.
    """

    service: str
    original: str
    timestamp: str
    address: str
    modifier: str = ""
    fault: AddressFault = AddressFault.NONE
    chain: tuple["ArchiveUrl", ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether a reader may be led there."""
        return not self.fault

    @property
    def must_ask(self) -> bool:
        """Whether the original is unknown: the archive must be asked for it."""
        return not self.original and self.fault in (
            AddressFault.NONE,
            AddressFault.GONE,
            AddressFault.LIST,
        )

    @property
    def is_known(self) -> bool:
        """Whether its host is a known archive's, so that not anybody could have made the copy."""
        return self.service != OTHER

    @property
    def moment(self) -> datetime | None:
        """When the original was seen; None when that is not said.

        Of copies of copies the innermost was the first to see it.
        """
        for each in (*reversed(self.chain), self):
            if each.timestamp:
                return moment_of(each.timestamp)
        return None


def recognise(text: str, *, own: Iterable[str] = ()) -> ArchiveUrl | None:
    """What the address means; None when it is no archive's.

    Args:
        text: the address as it stands somewhere; repaired as `core.urls.fetch_key` does.
        own: origins of this archive's own front and replay, ``https://archive.example``.

    >>> recognise("archive.is/2015.01.02-030405/http://a.test/").timestamp
    '20150102030405'
    >>> recognise("https://example.org/") is None
    True
    """
    own = {_origin(each): _scheme(each) for each in own}
    found = _recognise_one(text, own)
    if found is None:
        return None
    chain: list[ArchiveUrl] = []
    inner = found
    while inner.original:
        within = _recognise_one(inner.original, own)
        if within is None or not within.is_known:
            break
        chain.append(within)
        if len(chain) > DEPTH:
            return replace(found, original="", fault=AddressFault.TOO_DEEP)
        inner = within
    return replace(found, original=inner.original, chain=tuple(chain)) if chain else found


def make_archive_url(service: str, original: str, timestamp: str) -> str:
    """The address of that service's copy; empty when one cannot be made of these.

    Args:
        service: a name in `SERVICES`.
        original: a URL.
        timestamp: 4 to 14 digits, or empty for whichever version the service shows.

    Raises:
        InputError: there is no such service, the original is no URL, or the timestamp none.
    """
    known = SERVICES.get(service)
    if known is None:
        raise InputError(f"No archive is called {service[:80]!r}; known are {', '.join(SERVICES)}.")
    if timestamp and not re.fullmatch(r"\d{4,14}", timestamp, re.ASCII):
        raise InputError(
            f"A timestamp has 4 to 14 digits, YYYYMMDDhhmmss; this is {timestamp[:80]!r}."
        )
    url = fetch_key(original)
    if not known.is_made or (not timestamp and known.name in _VERSIONS_ONLY):
        return ""
    return _filled(known.template, ts=timestamp, url=url, coll=known.coll)


def is_copy_of(archive_url: ArchiveUrl | str, reference: str) -> bool | None:
    """Whether the copy is one of the reference (B07); None when nobody can say without asking.

    The same page by identity, or by the key under which archives file captures: those fold the scheme,
    ``www.``, letter case, a final slash, session identifiers and the order of arguments.
    """
    found = recognise(archive_url) if isinstance(archive_url, str) else archive_url
    if found is None or found.must_ask or not found.is_known:
        return None
    wanted = {reference}
    cited = recognise(reference)
    if cited is not None and cited.original:
        wanted |= {cited.original, *(each.address for each in cited.chain)}
    passed = [each.address for each in found.chain]
    return any(is_same_page(a, b) for a in (found.original, *passed) for b in wanted if a)


def is_same_page(one: str, other: str) -> bool:
    """Whether archives take the two URLs for one page."""
    if one == other:
        return True
    try:
        return identity_key(one) == identity_key(other) or replay_key(one) == replay_key(other)
    except BadUrlError:
        return False


def _recognise_one(text: str, own: Mapping[str, str]) -> ArchiveUrl | None:
    """What the address itself means, nothing followed."""
    try:
        url = fetch_key(text)
        host = host_of(url).removeprefix("www.")
        origin = _origin(url)
    except BadUrlError:
        return None
    rest = _REST.fullmatch(url)
    path = rest[1] if rest is not None else "/"
    if origin in own:
        return _first(_own_service(own[origin], origin), _own_forms(), path)
    for service, forms in _by_host().get(host, ()):
        found = _first(service, forms, path)
        if found is not None:
            return found
    if host in _by_host():
        return None
    return _first(
        ArchiveService(OTHER, "another archive", (f"https://{origin}",), "", ()),
        _other_forms(),
        path,
    )


def _first(
    service: ArchiveService, forms: Iterable[tuple[AddressForm, re.Pattern[str]]], path: str
) -> ArchiveUrl | None:
    """By the first form that fits and whose original is a URL; else by the first that fits."""
    left = None
    for form, pattern in forms:
        match = pattern.fullmatch(path)
        if match is None:
            continue
        groups = {key: value or "" for key, value in match.groupdict().items()}
        identifier = _identifier(service, groups.get("id", ""))
        timestamp = groups.get("ts", "")
        stamp = parse_written_date(timestamp, service.zone_h) or timestamp_in_name(
            service.name, identifier, path
        )
        original, fault = _original(service, form, groups, identifier, path)
        template = form.template or service.template
        if form.fault is AddressFault.LIST and not form.template:
            template = template.replace("{ts}", "*")
        if form.is_kept:
            address = _kept(service, path)
        else:
            address = _filled(
                template,
                ts=_NO_DIGITS.sub("", timestamp)[:14],
                url=original or groups.get("url", ""),
                coll=groups.get("coll", "") or service.coll,
                id=identifier,
            )
        found = ArchiveUrl(
            service.name,
            original,
            stamp,
            address,
            groups.get("mod", ""),
            fault or form.fault or service.fault,
        )
        if found.fault is not AddressFault.NOT_WEB:
            return found
        left = left or found
    return left if left is not None and left.original else None


def _original(
    service: ArchiveService, form: AddressForm, groups: dict[str, str], identifier: str, path: str
) -> tuple[str, AddressFault]:
    """What was archived, and what is wrong with that; nothing when the address does not say."""
    if form.original:
        return form.original.replace("{id}", identifier), AddressFault.NONE
    text = groups.get("url", "")
    if not text and service.name == "webcite":
        parameter = _URL_PARAMETER.search(path)
        text = unquote(parameter[1]) if parameter is not None else ""
    elif form.is_quoted:
        text = unquote(
            _TRAILING.sub("", text) if not _QUOTED_SCHEME.match(text) else text.partition("&")[0]
        )
    if service.name == WEBOID:
        text = re.sub(r"%((?:25)*)23", lambda m: f"%{m[1][2:]}23" if m[1] else "#", text)
    elif service.name == OTHER:  # a hash that names a page reaches a replay only like this
        text = text.replace("%23!", "#!", 1)
    if not text:
        return "", AddressFault.NONE
    foreign = _FOREIGN_SCHEME.match(text)
    if foreign is not None and "." not in foreign[1]:
        return text, AddressFault.NOT_WEB
    try:
        return fetch_key(_mended(text)), AddressFault.NONE
    except BadUrlError as error:
        return (text if error.reason == UrlFault.SCHEME else ""), AddressFault.NOT_WEB


def _mended(text: str) -> str:
    """With the scheme's slashes, which proxies on the way collapse; without a scheme http is meant."""
    if text.startswith("/"):
        return "http://" + text.lstrip("/")
    return _COLLAPSED.sub(r"\1://", text, count=1) if _COLLAPSED.match(text) else text


def _identifier(service: ArchiveService, text: str) -> str:
    return text.upper() if service.name == "perma" else text


def _kept(service: ArchiveService, path: str) -> str:
    if service.name == OTHER:
        return service.hosts[0] + path
    host = service.hosts[0]
    if service.name == "nla" and path.startswith(("/pan/", "/nph-", "/tep/", "/col/")):
        host = "pandora.nla.gov.au"  # the two hold different addresses
    elif service.name == "nla" and path.startswith("/nla."):
        host = "nla.gov.au"
    www = "www." if service.name in ("webcite", "google-cache") and host.count(".") == 1 else ""
    return f"https://{www}{host}{path}"


def _filled(template: str, *, ts: str, url: str, coll: str = "", id: str = "") -> str:  # noqa: A002
    if not ts:
        template = template.replace("{ts}/", "")
    if "?url={url}" in template and "{id}" not in template:
        url = quote(url, safe="")
    values = {"ts": ts, "url": url, "coll": coll, "id": id}
    return re.sub(r"\{(ts|url|coll|id)\}", lambda m: values[m[1]], template)


def _origin(url: str) -> str:
    """Scheme left out: an archive that is reached by both is one."""
    return authority_of(fetch_key(url, allow_single_label=True))


def _scheme(url: str) -> str:
    return fetch_key(url, allow_single_label=True).partition(":")[0]


def _own_service(scheme: str, origin: str) -> ArchiveService:
    """Ours, under the scheme that its operator named: nobody else need answer by https there."""
    return ArchiveService(
        WEBOID, "Weboid", (origin,), f"{scheme}://{origin}/page/{{ts}}/{{url}}", ()
    )


Compiled = tuple[tuple[AddressForm, re.Pattern[str]], ...]


def _compiled(forms: Iterable[AddressForm]) -> Compiled:
    return tuple(
        (form, re.compile(form.pattern, re.ASCII | re.DOTALL | re.IGNORECASE)) for form in forms
    )


@cache
def _own_forms() -> Compiled:
    return _compiled(OWN_FORMS)


@cache
def _other_forms() -> Compiled:
    return _compiled((OTHER_FORM,))


@cache
def _by_host() -> dict[str, list[tuple[ArchiveService, Compiled]]]:
    """The services of each host, with the forms that are for it."""
    found: dict[str, list[tuple[ArchiveService, Compiled]]] = {}
    for service in SERVICES.values():
        for host in _hosts(service):
            forms = [form for form in service.forms if not form.hosts or host in form.hosts]
            if host not in service.hosts:
                forms = [form for form in forms if form.hosts]
            found.setdefault(host, []).append((service, _compiled(forms)))
    return found


def _hosts(service: ArchiveService) -> Iterator[str]:
    yield from dict.fromkeys(
        (*service.hosts, *(host for form in service.forms for host in form.hosts))
    )
