"""Facets of a URL's captures: those seen on one sort of device, or in one language. Pure.

A facet stands in the address before the time and the URL, ``/url/device=phone;language=de/2026/https://…``:
the query of such an address belongs to the archived URL.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from core.pages import Device

_SEGMENT = re.compile(
    r"(?=[dl])(?:device=(desktop|phone))?;?(?:language=([A-Za-z0-9-]{1,35}))?", re.ASCII
)
_MOST_LANGUAGES = 20  # offered to choose from, the most frequent


class Seen(Protocol):
    """A capture, as far as facets go."""

    @property
    def device(self) -> str:
        """What it was seen on; empty where that was not recorded."""
        ...

    @property
    def language(self) -> str:
        """The first language that the browser asked for; empty where that was not recorded."""
        ...


@dataclass(frozen=True, slots=True)
class Facets:
    """Which captures are listed.

    Attributes:
        device: those of this `Device`; empty: of all.
        language: those in this language; empty: in all.
    """

    device: str = ""
    language: str = ""

    def __bool__(self) -> bool:
        """Return True when some captures may be left out."""
        return bool(self.device or self.language)

    def include(self, capture: Seen) -> bool:
        """Return True when the capture is listed."""
        return self.device in ("", capture.device) and self.language in ("", capture.language)

    @property
    def segment(self) -> str:
        """Return them as they stand in an address; empty when everything is listed.

        >>> Facets("phone", "de").segment, Facets(language="de").segment, Facets().segment
        ('device=phone;language=de', 'language=de', '')
        """
        named = (("device", self.device), ("language", self.language))
        return ";".join(f"{name}={value}" for name, value in named if value)


EVERYTHING = Facets()


def parse_facets(segment: str) -> Facets | None:
    """Return the facets of an address's segment; None when it is none.

    >>> parse_facets("language=de-AT")
    Facets(device='', language='de-AT')
    >>> parse_facets("device=fridge"), parse_facets("")
    (None, None)
    """
    match = _SEGMENT.fullmatch(segment)
    found = None if match is None else Facets(match[1] or "", match[2] or "")
    return found if found and found.segment == segment else None


@dataclass(frozen=True, slots=True)
class Choice:
    """A value of a facet that a reader may choose.

    Attributes:
        value: empty for all.
        count: how many captures it leaves, the other facet as it is.
        facets: what is listed then.
        is_chosen: it is what is listed now.
    """

    value: str
    count: int
    facets: Facets
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Choices:
    """What a reader may choose; empty where there is nothing to choose from."""

    devices: tuple[Choice, ...]
    languages: tuple[Choice, ...]


def choices(captures: Iterable[Seen], chosen: Facets) -> Choices:
    """Return the facets of the captures with their counts, most frequent languages first."""
    devices: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    of_devices: Counter[str] = Counter()
    of_languages: Counter[str] = Counter()
    for each in captures:
        devices[each.device] += 1
        languages[each.language] += 1
        of_devices[each.device] += chosen.language in ("", each.language)
        of_languages[each.language] += chosen.device in ("", each.device)
    frequent = [value for value, _ in languages.most_common(_MOST_LANGUAGES + 1) if value]
    return Choices(
        _choices(
            [each for each in Device if devices[each]],
            of_devices,
            chosen.device,
            {value: replace(chosen, device=value) for value in ("", *devices)},
        )
        if len(devices) > 1
        else (),
        _choices(
            frequent[:_MOST_LANGUAGES],
            of_languages,
            chosen.language,
            {value: replace(chosen, language=value) for value in ("", *languages)},
        )
        if len(languages) > 1
        else (),
    )


def _choices(
    values: Iterable[str], counts: Counter[str], chosen: str, facets: dict[str, Facets]
) -> tuple[Choice, ...]:
    every = Choice("", counts.total(), facets[""], not chosen)
    return (
        every,
        *(
            Choice(str(each), counts[each], facets[each], each == chosen)
            for each in values
            if counts[each] or each == chosen
        ),
    )
