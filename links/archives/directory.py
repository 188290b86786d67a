"""Whom `[links] archives` names, as adapters.

    wayback                                   availability, then its own addresses
    wayback-cdx  arquivo                      captures by CDX, with their statuses
    archive-today  perma  loc  …              TimeMaps of that archive
    time-travel                               the Memento project's service: many archives at once
    timemap https://…/timemap/json/{url}      any aggregator or archive with TimeMaps
    timegate https://…/timegate/{url}         one with a TimeGate alone
    cdx https://…/cdx https://…/{ts}/{url}    pywb or another CDX server, and where its copies are
    weboid https://front.example https://copies.example

Nobody is asked unless a setting names them.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from core.errors import BadUrlError, ConfigError
from core.urls import authority_of, fetch_key
from links.archives.adapters import Adapter, Copy
from links.archives.asking import ArchiveTroubleError, Asker
from links.archives.cdx import Cdx
from links.archives.mementos import KNOWN_TIMEMAPS, TimeGate, TimeMaps, TimeTravel
from links.archives.wayback import WaybackAvailability, WaybackLatest

TIME_TRAVEL: Final = "http://timetravel.mementoweb.org/api/json/{ts}/{url}"
_Made = Callable[[Asker], Adapter]


class FirstOf:
    """Several ways to ask one archive: the next when one finds nothing or gives no answer."""

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        """Take the ways, the best first."""
        self.name = adapters[0].name
        self._adapters = tuple(adapters)

    async def find(self, url: str, at: datetime | None) -> list[Copy]:
        """What the first way finds that finds something.

        Raises:
            ArchiveTroubleError: none found anything, and one of them gave no answer.
        """
        trouble: ArchiveTroubleError | None = None
        for adapter in self._adapters:
            try:
                found = await adapter.find(url, at)
            except ArchiveTroubleError as error:
                trouble = trouble or error
                continue
            if found:
                return found
        if trouble is not None:
            raise trouble
        return []


KNOWN: Final[Mapping[str, _Made]] = MappingProxyType(
    {
        "wayback": lambda asker: FirstOf((WaybackAvailability(asker), WaybackLatest(asker))),
        "wayback-cdx": lambda asker: Cdx(
            asker, "wayback", "https://web.archive.org/cdx/search/cdx"
        ),
        "arquivo": lambda asker: Cdx(asker, "arquivo", "https://arquivo.pt/wayback/cdx"),
        "time-travel": lambda asker: TimeTravel(asker, "memento", TIME_TRAVEL),
    }
)


def adapters_of(names: Sequence[str], asker: Asker) -> list[Adapter]:
    """The adapters that the setting names, in its order.

    Raises:
        ConfigError: it names one that there is not.
    """
    return [_adapter(" ".join(name.split()), asker) for name in names]


def _adapter(name: str, asker: Asker) -> Adapter:
    if name in KNOWN:
        return KNOWN[name](asker)
    if name in KNOWN_TIMEMAPS:
        return TimeMaps(asker, name, KNOWN_TIMEMAPS[name])
    kind, *places = name.split(" ")
    match kind, places:
        case "timemap", [place] if "{url}" in place:
            return TimeMaps(asker, _host(place, name), place)
        case "timegate", [place] if "{url}" in place:
            return TimeGate(asker, _host(place, name), place)
        case "cdx", [place, copies] if "{url}" in copies and "{ts}" in copies:
            _host(copies, name)
            return Cdx(asker, _host(place, name), place, copies=copies)
        case "weboid", [front, *replay] if len(replay) <= 1:
            front = front.rstrip("/")
            homes = [front, *replay]
            for home in homes:
                _host(home, name)
            template = f"{front}/timemap/json/{{url}}"
            return TimeMaps(asker, _host(front, name), template, homes=homes)
    known = ", ".join(sorted((*KNOWN, *KNOWN_TIMEMAPS)))
    raise ConfigError(
        f"[links] archives names {name[:200]!r}, which is none. Known are {known}; others are written "
        "as docs/archives.md says: timemap URL, timegate URL, cdx URL URL, weboid URL."
    )


def _host(place: str, name: str) -> str:
    """What the archive is called: its host.

    Raises:
        ConfigError: it is no address.
    """
    try:
        plain = place.replace("{url}", "").replace("{ts}", "")
        return authority_of(fetch_key(plain, allow_single_label=True))
    except BadUrlError as error:
        raise ConfigError(
            f"[links] archives: {name[:200]!r} has no address that can be asked: {error}"
        ) from error
