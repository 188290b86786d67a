"""Requests that might show what was taken down: every route that the applications have, and then some."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime
from itertools import product
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from core.captures import Capture
from core.timestamps import parse_timestamp14, timestamp14
from playback.addresses import Modifier, escape_url
from playback.decisions.takedowns import Effect, within

_STATIC = "/static"  # files of ours
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
# Of pywb and of other archives: none may be answered with what was captured, known or not.
_FOREIGN = ("id_", "if_", "im_", "js_", "cs_", "fr_", "oe_", "mp_", "wkr_", "wkrf_", "vi_", "bn_")


@dataclass(frozen=True, slots=True)
class Case:
    """A capture that must not be shown.

    Attributes:
        effect: what is told in its place; None: it may be shown, and is only asked for.
    """

    capture: Capture
    effect: Effect | None

    @property
    def timestamp(self) -> str:
        """Its moment, 14 digits."""
        return timestamp14(self.capture.captured_at)


@dataclass(frozen=True, slots=True)
class Probe:
    """One request.

    Attributes:
        server: front, replay, or full.
        route: what of it answers.
        host: which host is asked for, when it is another than the server's.
        is_plain: whether asking in one way will do.
    """

    server: str
    route: str
    target: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    host: str = ""
    is_plain: bool = False

    @property
    def key(self) -> str:
        """What it asks for, whatever it says of what it holds."""
        return f"{self.server} {self.host}{self.target}"


def front_paths(app: Starlette) -> list[str]:
    """The patterns of the front's routes."""
    return [each.path for each in app.routes if isinstance(each, Route | Mount)]


def front_probes(app: Starlette, cases: list[Case], unproved: list[str]) -> Iterator[Probe]:
    """Every route of the front for every capture; the patterns that cannot be filled are told."""
    facts = {
        (within(each.capture.url), each.timestamp, each.capture.page_id or "") for each in cases
    }
    digests = sorted({each.capture.digest for each in cases})
    moments = sorted({timestamp for _, timestamp, _ in facts})
    for path in front_paths(app):
        if path == _STATIC:
            continue
        names = _PARAMETER.findall(path)
        for url, timestamp, page_id in sorted(facts):
            values = _values(url, timestamp, page_id, digests, moments)
            if any(name not in values for name in names):
                unproved.append(path)
                break
            # What the routes are meant for is asked in every way, their other readings in one.
            usual = {tuple(values[name][:2][place] for name in names) for place in (0, -1)}
            for chosen in product(*(values[name] for name in names)):
                target = _filled(path, chosen)
                for place, query in enumerate(_queries(url, timestamp) if not names else ("",)):
                    is_plain = bool(place) or chosen not in usual
                    yield Probe("front", path, target + query, is_plain=is_plain)


def _filled(path: str, values: tuple[str, ...]) -> str:
    """The route's pattern with a value for each parameter."""
    pieces = _PARAMETER.split(path)[::2]
    return pieces[0] + "".join(
        value + piece for value, piece in zip(values, pieces[1:], strict=True)
    )


def _values(
    url: str, timestamp: str, page_id: str, digests: list[str], moments: list[str]
) -> Mapping[str, list[str]]:
    """What may stand for a parameter of a route, by its name."""
    escaped = escape_url(url)
    first, last = moments[0], moments[-1]
    rest = [
        escaped,
        f"{timestamp}/{escaped}",
        f"{timestamp}tx_/{escaped}",
        f"*/{escaped}",
        f"{timestamp[:4]}/{escaped}",
        f"{first}/{last}/{escaped}",
        f"{first}..{last}/{escaped}",
        f"{first}-{last}/{escaped}",
        f"1/{escaped}",
        f"link/{escaped}",
        f"json/{escaped}",
    ]
    return {
        "rest": rest,
        "path": rest,
        "url": [escaped],
        "timestamp": [timestamp],
        "moment": [timestamp],
        "page_id": [page_id or "none"],
        "digest": digests,
        "number": ["1"],
        "page": ["1"],
        "year": [timestamp[:4]],
        "format": ["link", "json", "cdxj"],
        "language": ["en", "de"],
        "wiki": ["any"],
    }


def _queries(url: str, timestamp: str) -> Iterator[str]:
    quoted = quote(url, safe="")
    host = urlsplit(url).hostname or ""
    yield from ("", "?page=2", f"?q={quoted}", f"?q={host}", f"?url={quoted}")
    yield from (f"?url={quoted}&{each}" for each in (f"timestamp={timestamp}", "output=json"))
    yield from (f"?url={quoted}&matchType={each}" for each in ("prefix", "host", "domain"))
    yield f"?q={quoted}&page=1&year={timestamp[:4]}"


def replay_probes(cases: list[Case]) -> Iterator[Probe]:
    """Every modifier at every moment, and a day later, for every address of the captures."""
    for case in {(each.capture.url, each.timestamp): each for each in cases}.values():
        later = timestamp14(parse_timestamp14(case.timestamp) + timedelta(days=1))
        for url in map(escape_url, _spelled(case.capture.url)):
            for modifier in Modifier:
                route = f"/c/…{modifier}/…"
                yield Probe("replay", route, f"/c/{case.timestamp}{modifier}/{url}")
                yield Probe("replay", route, f"/c/{later}{modifier}/{url}", is_plain=True)
                yield Probe(
                    "replay", route, f"/w/any/c/{case.timestamp}{modifier}/{url}", is_plain=True
                )
            for foreign in _FOREIGN:
                if foreign not in set(Modifier):
                    target = f"/c/{case.timestamp}{foreign}/{url}"
                    yield Probe("replay", "/c/…??_/…", target, is_plain=True)


def _spelled(url: str) -> tuple[str, ...]:
    """The URL and its twin of the other scheme."""
    head, colon, rest = url.partition("://")
    twins = {"http": "https", "https": "http"}
    return (url, f"{twins[head]}{colon}{rest}") if head in twins else (url,)


def variants(probe: Probe, cases: list[Case], etags: Mapping[str, str]) -> Iterator[Probe]:
    """The request as a browser, a cache, a downloader and a Memento client make it."""

    def as_(method: str, *headers: tuple[str, str]) -> Probe:
        return Probe(probe.server, probe.route, probe.target, method, headers, probe.host)

    yield probe
    if probe.key in etags:
        yield as_("GET", ("If-None-Match", etags[probe.key]))
    if probe.is_plain:
        return
    yield as_("HEAD")
    yield as_("GET", ("Range", "bytes=0-1023"))
    if probe.server == "front" and cases:
        moment = format_datetime(cases[0].capture.captured_at, usegmt=True)
        yield as_("GET", ("Accept-Datetime", moment))
