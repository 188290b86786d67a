"""Allow-lists of elements, attributes and values, by level (A18), each a subset of the next; in ``allowlist.toml``.

svg, math, style and script are on no list of nh3's (P-01, P-02), nor is any element with raw text, except textarea.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from playback.access.levels import Level

# Part of every ETag, cache key and score: raise it when any rule of the sanitiser changes.
SANITISER_VERSION = 16

Attributes = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class LevelAllowlist:
    """Allow-lists of a level."""

    # elements that are kept; of others only the content, except of `DROPPED_ELEMENTS`
    tags: frozenset[str]
    attributes: Attributes  # by element, attributes that are kept; ``*`` is every element
    # by element and attribute, values that are kept
    values: Mapping[str, Mapping[str, frozenset[str]]]
    forced: Mapping[str, Mapping[str, str]]  # by element, attributes that are set to fixed values
    prefixes: frozenset[str] = frozenset()  # attributes with such a prefix are kept, too
    has_look: bool = False  # style sheets and custom elements are kept
    has_images: bool = False  # images are kept


def allowlist_of(level: Level) -> LevelAllowlist:
    """Return the lists of `level`; those of `images` for `full`, which is not sanitised."""
    return _ALLOWED.get(level, _ALLOWED[Level.IMAGES])


def _sets(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _sets(value) if isinstance(value, dict) else frozenset(value.split() if isinstance(value, str) else value)
        for name, value in table.items()
    }


NAMES = _sets(tomllib.loads(Path(__file__).with_name("allowlist.toml").read_text("utf-8")))
_ELEMENTS, _ATTRIBUTES = NAMES["elements"], NAMES["attributes"]
DROPPED_ELEMENTS: frozenset[str] = _ELEMENTS["dropped"]
BLOCK_ELEMENTS: frozenset[str] = _ELEMENTS["block"]
FORMULA_ELEMENTS: frozenset[str] = NAMES["formulas"]["elements"]
FORMULA_ATTRIBUTES: frozenset[str] = NAMES["formulas"]["attributes"]
_HTML_TAGS = _ELEMENTS["limited"] | _ELEMENTS["html"]
_IMAGES_ATTRIBUTES: Attributes = {
    tag: _ATTRIBUTES["html"].get(tag, frozenset()) | _ATTRIBUTES["images"].get(tag, frozenset())
    for tag in _ATTRIBUTES["html"].keys() | _ATTRIBUTES["images"].keys()
}
# Layout width of a responsive image, written next to the width of its only candidate.
SIZE_PX = 10_000
_TARGETS = {"target": NAMES["values"]["link_target"]}
_PRELOAD = {"preload": NAMES["values"]["preload"]}
_HTML_VALUES = {"a": _TARGETS, "input": {"type": NAMES["values"]["input_type"]}}
# Nothing can be typed, chosen or sent (P-07, P-15); `html_document` has inputs without text inert instead.
_INERT = {name: {"disabled": ""} for name in ("button", "input", "select", "textarea")}
_PREFIXES = frozenset({"aria-", "data-"})

_ALLOWED: Mapping[Level, LevelAllowlist] = MappingProxyType(
    {
        Level.TEXT: LevelAllowlist(_ELEMENTS["text"], {}, {}, {}),
        Level.LIMITED: LevelAllowlist(_ELEMENTS["limited"], _ATTRIBUTES["limited"], {"a": _TARGETS}, {}),
        Level.HTML: LevelAllowlist(_HTML_TAGS, _ATTRIBUTES["html"], _HTML_VALUES, _INERT, _PREFIXES, has_look=True),
        Level.IMAGES: LevelAllowlist(
            _HTML_TAGS | _ELEMENTS["images"],
            _IMAGES_ATTRIBUTES,
            {
                **_HTML_VALUES,
                "area": _TARGETS,
                "img": {"sizes": frozenset({f"{SIZE_PX}px"})},
                "audio": _PRELOAD,
                "video": _PRELOAD,
            },
            _INERT,
            _PREFIXES,
            has_look=True,
            has_images=True,
        ),
    }
)
