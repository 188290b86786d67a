"""``@font-face`` of archived style sheets, written anew: a name, its traits, and sources of ours (P-13).

A source is our font route, or a font within the sheet that was looked at. ``local()`` goes: which
typefaces a reader has tells who the reader is. ``unicode-range`` stays, though it makes what is asked
for depend on what stands in the page: all of it is asked of this archive, which knows the page.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any

import tinycss2

from playback.replay.css_tokens import NotAllowedError, serialise, solid, url_of, url_token
from playback.replay.fonts import font_type
from playback.replay.rewriting import Rewriter

_DESCRIPTORS = frozenset(
    {
        "font-family", "font-style", "font-weight", "font-stretch", "font-display", "unicode-range",
        "size-adjust", "ascent-override", "descent-override", "line-gap-override",
        "font-feature-settings",
    }
)  # fmt: skip
# What a descriptor's value is made of; a function or a block is none of it.
_PLAIN_TOKENS = frozenset(
    {
        "ident",
        "string",
        "number",
        "percentage",
        "dimension",
        "unicode-range",
        "whitespace",
        "comment",
    }
)
_FORMATS = frozenset(
    f"{name}{kind}"
    for name in ("woff2", "woff", "truetype", "opentype")
    for kind in ("", "-variations")
)
# CSS Fonts 4, 11.1; glyphs in SVG are not among them.
_TECHNOLOGIES = frozenset(
    {
        "variations", "palettes", "incremental", "features-opentype", "features-aat",
        "features-graphite", "color-colrv0", "color-colrv1", "color-sbix", "color-cbdt",
    }
)  # fmt: skip
_MOST_SOURCES = 16
_LONGEST_DATA_URL = 1_400_000  # characters: a font of a megabyte


def write_font_face(rule: Any, rewriter: Rewriter) -> str:
    """The rule as it may be shown; empty when it names no font that may be."""
    if rule.content is None or solid(rule.prelude):
        return ""
    nodes = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
    said: list[str] = []
    names = set[str]()
    for node in nodes:
        if node.type != "declaration" or node.important:
            continue
        name = node.lower_name
        value = _sources(node.value, rewriter) if name == "src" else _descriptor(name, node.value)
        if value:
            said.append(f"{name}:{value};")
            names.add(name)
    return f"@font-face{{{''.join(said)}}}" if names >= {"src", "font-family"} else ""


def _descriptor(name: str, tokens: list[Any]) -> str:
    """The value of a descriptor that fetches nothing; empty when it is not to be shown."""
    plain = all(each.type in _PLAIN_TOKENS or each == "," for each in tokens)
    return serialise(tokens).strip() if name in _DESCRIPTORS and plain else ""


def _sources(tokens: list[Any], rewriter: Rewriter) -> str:
    """The sources that are ours, in their order."""
    sources: list[list[Any]] = [[]]
    for each in tokens:
        if each == ",":
            sources.append([])
        else:
            sources[-1].append(each)
    written = (_source(solid(each), rewriter) for each in sources[:_MOST_SOURCES])
    return ",".join(each for each in written if each)


def _source(tokens: list[Any], rewriter: Rewriter) -> str:
    """One source; empty when it leads nowhere, or says of itself what no font of ours is."""
    if not tokens or tokens[0].type == "string":
        return ""
    target = _address(url_of(tokens[0]) or "", rewriter)
    if target is None:
        return ""
    hints = [_hint(each) for each in tokens[1:]]
    if None in hints:
        return ""
    try:
        return " ".join([str(url_token(target).representation), *map(str, hints)])
    except NotAllowedError:
        return ""


def _hint(token: Any) -> str | None:
    """``format()`` or ``tech()`` with names that are known; None for whatever else."""
    if token.type != "function":
        return None
    known = {"format": _FORMATS, "tech": _TECHNOLOGIES}.get(token.lower_name, frozenset())
    names = [each for each in solid(token.arguments) if each != ","]
    if not names or any(each.type not in {"ident", "string"} for each in names):
        return None
    words = [each.value.lower() for each in names]
    if not known.issuperset(words) or (token.lower_name == "format" and len(words) > 1):
        return None
    text = ",".join(f'"{each}"' if token.lower_name == "format" else each for each in words)
    return f"{token.lower_name}({text})"


def _address(value: str, rewriter: Rewriter) -> str | None:
    """Where the font is fetched from; None when from nowhere."""
    if value.lstrip()[:5].lower() != "data:":
        return rewriter.font(value)
    return _within(value.strip()) if len(value) <= _LONGEST_DATA_URL else None


def _within(value: str) -> str | None:
    """A font in a ``data:`` URL, named for what it is, whatever it was named."""
    said, comma, content = value.partition(",")
    if not comma or not said.lower().rstrip().endswith(";base64"):
        return None
    try:
        data = b64decode(content, validate=True)
    except (Base64Error, ValueError):
        return None
    media_type = font_type(data)
    return None if media_type is None else f"data:{media_type};base64,{b64encode(data).decode()}"
