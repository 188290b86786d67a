"""Table of web archives: hosts, address forms, preferred form; read from ``archive_services.toml``.

A form is an expression over path and query of an address, with named groups: ``ts``, the capture time
(4 to 14 digits, or a date in the service's format); ``mod``, the replay modifier (``id_``, ``if_``);
``url``, the original as written; ``id``, the service's name for the copy; ``coll``, the collection.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

WEBOID: Final = "weboid"
OTHER: Final = "other"  # an address that reads like an archive's, of an unknown host


class AddressFault(StrEnum):
    """Reason that an archive address is no readable copy."""

    NONE = ""
    GONE = "gone"  # the whole service is
    LIST = "list"  # it lists versions, and is none
    REQUEST = "request"  # it asks for a copy to be taken, or leads away from one
    NOT_WEB = "not-web"  # the original is no http(s) URL
    TOO_DEEP = "too-deep"  # archives within archives, too many


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
    says_time: bool = False  # each copy says when it was taken; a page that does not is no copy
    timemap: str = ""  # the address of its TimeMap for ``{url}``; empty: it has none


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
