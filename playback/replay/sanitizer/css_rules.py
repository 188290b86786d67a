"""CSS tokens, and the special rules for selectors, mask images and font faces.

A copy disables all controls, so rules for disabled ones are rewritten to select an added attribute of controls that
were disabled at capture; likewise for dialogs and popovers that scripts had put above the page (HTML, 6.12).
Attributes whose values a copy rewrites are selected by the values that the page wrote, which are stored next to them;
elements that a copy replaces, by what replaces them, as specific as before.

Mask images come from our mask route, which sends only their shape. A variable with a rewritten address gets a second
one for masks, which properties of masks use first.

``local()`` fonts are removed, because the installed typefaces identify the reader. ``unicode-range`` is kept, although
requests then depend on the text of the page: they go to this archive only, which knows the page.
"""

import re
import tempfile
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from contextlib import suppress
from copy import copy
from typing import Any

import pyots
import tinycss2
from tinycss2.ast import FunctionBlock, IdentToken, LiteralToken, StringToken, URLToken

from core.media_types import FONT_TYPE
from playback.replay.sanitizer.allowlist import NAMES
from playback.url_paths import ReplayUrlRewriter

UNQUOTABLE = re.compile(r"[\x00-\x20\"\\<]")


class TokenNotAllowedError(Exception):
    """A value contains a token that is not allowed."""


def is_url_function(token: Any) -> bool:
    """Return True for ``url("x")``, a function; ``url(x)`` is a single token."""
    return isinstance(token, FunctionBlock) and token.lower_name == "url"


def url_of(token: Any) -> str | None:
    """Return the URL of a token: ``url(x)``, ``url("x")`` or, in @import, ``"x"``."""
    if isinstance(token, URLToken | StringToken):
        return str(token.value)
    if is_url_function(token):
        inside = without_blanks(token.arguments)
        if len(inside) == 1 and isinstance(inside[0], StringToken):
            return str(inside[0].value)
    return None


def url_token(url: str | None) -> URLToken:
    """Return the URL as a token; TokenNotAllowedError for none, or one to be escaped, which no rewritten address is."""
    if url is None or UNQUOTABLE.search(url):
        raise TokenNotAllowedError
    return URLToken(0, 0, url, f'url("{url}")')


def without_blanks(tokens: list[Any]) -> list[Any]:
    """Return the tokens without blanks and comments."""
    return [each for each in tokens if each.type not in {"whitespace", "comment"}]


def serialise(tokens: list[Any]) -> str:
    """Return the tokens as text that cannot end a style element."""
    return escape_end(tinycss2.serialize(tokens))


def escape_end(text: str) -> str:
    """Escape ``</``, which could end a style element; inside strings the meaning is the same."""
    return text.replace("</", "<\\/")


WAS_DISABLED = "data-weboid-disabled"
CONTROLS = frozenset({"button", "fieldset", "input", "select", "textarea"})
_MARKED = f"[{WAS_DISABLED}]"
# As specific as the pseudo-class that it replaces.
_UNMARKED = f":where({','.join(sorted(CONTROLS))}):not({_MARKED})"
# Of what could be edited when it was captured, as specific as a pseudo-class.
_EDITABLE = f":where(input,textarea):not([readonly],{_MARKED})"
_READING = {":read-only": f":not({_EDITABLE})", ":read-write": f":is({_EDITABLE})"}
_EDITED = re.compile(r"(?<!\\):read-(?:only|write)(?![\w\\-])", re.IGNORECASE)
# Marks in the DOM artifact, by the state that they represent.
ON_TOP = {
    ":modal": "[data-weboid-modal]",
    ":popover-open": '[data-weboid-popover="open"]',
    "[popover]": "[data-weboid-popover]",
}
_ON_TOP = re.compile(r"(?<!\\):(?:modal|popover-open)(?![\w\\(-])|\[popover\]", re.IGNORECASE)
_STATE = re.compile(r"(?<!\\):(disabled|enabled)(?![\w\\-])|\[\s*disabled\s*\]", re.IGNORECASE)


def rewrite_states(selector: str) -> str:
    """Rewrite a selector to select controls and dialogs by their state at capture.

    >>> rewrite_states("a > .b:disabled, c:not([disabled])")
    'a > .b[data-weboid-disabled], c:not([data-weboid-disabled])'
    """
    if "mod" in selector.lower() or "popover" in selector.lower():
        selector = _ON_TOP.sub(lambda match: ON_TOP[match[0].lower()], selector)
    if ":read-" in selector.lower():
        selector = _EDITED.sub(lambda match: _READING[match[0].lower()], selector)
    if "abled" not in selector.lower():
        return selector
    return _STATE.sub(lambda match: _UNMARKED if (match[1] or "").lower() == "enabled" else _MARKED, selector)


# Attributes that are written again, by which page styles select: with the values that the page wrote.
WRITTEN = "data-weboid-written-"
WRITTEN_ATTRIBUTES = frozenset({"data", "href", "poster", "rel", "src", "srcset", "style", "target", "type"})
# For these a test for presence is valid unchanged.
_PRESENT = frozenset({"href", "style"})
STAND_IN = "data-weboid-tag"  # on images: the name of the element that they replace
_IMAGE_STAND_INS = ("canvas", "svg")
_STAND_INS = {
    "form": "weboid-form",
    "object": "weboid-object",
    "img": f"img:where(:not([{STAND_IN}]))",
    **{name: f'img:where([{STAND_IN}="{name}"])' for name in _IMAGE_STAND_INS},
}
_STOOD_IN = re.compile(rf"(?<![\w.#:\\-])({'|'.join(_STAND_INS)})(?![\w\\-])", re.IGNORECASE)
_OF_SELECTORS = frozenset(
    {"-moz-any", "-webkit-any", "has", "is", "matches", "not", "nth-child", "nth-last-child", "where"}
)


def replace_elements(selector: str) -> str:
    """Rewrite a selector of names, classes and identifiers to select what replaces elements in copies.

    >>> replace_elements("form.wide > svg")
    'weboid-form.wide > img:where([data-weboid-tag="svg"])'
    """
    return _STOOD_IN.sub(lambda match: _STAND_INS[match[0].lower()], selector)


def selector_tokens(tokens: list[Any]) -> list[Any]:
    """Return a selector's tokens, rewritten for elements and attributes that a copy replaces."""
    written: list[Any] = []
    before = ""
    for number, token in enumerate(tokens):
        shown = token
        if token.type == "[] block":
            shown = _attribute_test(token)
        elif token.type == "() block":  # of a scope
            shown = copy(token)
            shown.content = selector_tokens(token.content)
        elif token.type == "function" and token.lower_name in _OF_SELECTORS:
            shown = copy(token)
            shown.arguments = selector_tokens(token.arguments)
        elif token.type == "ident" and before not in {".", ":"}:
            name = token.lower_value
            is_written = name == "img" and STAND_IN in tinycss2.serialize(tokens[number + 1 : number + 3])
            if name in _STAND_INS and not is_written:
                shown = LiteralToken(0, 0, _STAND_INS[name])
        written.append(shown)
        before = token.value if token.type == "literal" else ""
    return written


def _attribute_test(block: Any) -> Any:
    """Return ``[href^="#"]`` as a test of the value that the page wrote."""
    inside = without_blanks(block.content)
    name = inside[0].lower_value if inside and inside[0].type == "ident" else ""
    is_of_namespace = len(inside) > 1 and inside[1] == "|"
    if name not in WRITTEN_ATTRIBUTES or (len(inside) == 1 and name in _PRESENT) or is_of_namespace:
        return block
    block = copy(block)
    block.content = [IdentToken(0, 0, WRITTEN + name), *inside[1:]]
    return block


_TWIN = "--weboid-mask-"
# shape-outside is fetched and used as a mask is (CSS Shapes 1, 6.1.1).
_MASK = re.compile(r"(?:-(?:webkit|moz|ms|o)-)?(?:mask(?:-[a-z-]+)?|shape-outside)")
# Media features about colours, which a mask does not have.
_COLOURED = re.compile(r"(?:-(?:webkit|moz|ms|o)-)?mask-(?:mode|source-type)")


def is_masking(name: str) -> bool:
    """Return True for a property whose images are masks."""
    return _MASK.fullmatch(name) is not None


def is_mask_twin(name: str) -> bool:
    """Return True for names of the variables that are added for masks."""
    return name.startswith(_TWIN)


def mask_twin(name: str) -> str:
    """Return the name of the variable that is added for masks beside another."""
    return _TWIN + name[2:]


def masking_tokens(name: str, tokens: list[Any]) -> list[Any]:
    """Return the value of a mask property with variables for masks; TokenNotAllowedError for colours."""
    if _COLOURED.fullmatch(name) or any(each.type == "ident" and each.lower_value == "luminance" for each in tokens):
        raise TokenNotAllowedError
    masks: list[Any] = []
    for token in tokens:
        is_variable = isinstance(token, FunctionBlock) and token.lower_name == "var"
        arguments = token.arguments if is_variable else ()
        first = next((each for each in arguments if each.type != "whitespace"), None)
        name = first.value if first is not None and first.type == "ident" else ""
        if name.startswith("--") and not is_mask_twin(name):
            twin = [IdentToken(0, 0, mask_twin(name)), LiteralToken(0, 0, ",")]
            masks.append(FunctionBlock(0, 0, "var", [*twin, token]))
        else:
            masks.append(token)
    return masks


_DESCRIPTORS: frozenset[str] = NAMES["css"]["font_descriptors"]
_TECHNOLOGIES: frozenset[str] = NAMES["css"]["font_technologies"]
# Tokens allowed in a descriptor's value; functions and blocks are not.
_PLAIN_TOKENS = frozenset(
    {"ident", "string", "number", "percentage", "dimension", "unicode-range"} | {"whitespace", "comment"}
)
_FORMATS = frozenset(
    f"{name}{kind}" for name in ("woff2", "woff", "truetype", "opentype") for kind in ("", "-variations")
)
_MOST_SOURCES = 16
_LONGEST_DATA_URL = 1_400_000  # characters: a font of a megabyte


def write_font_face(rule: Any, rewriter: ReplayUrlRewriter) -> str:
    """Return the filtered rule; empty when no source is allowed."""
    if rule.content is None or without_blanks(rule.prelude):
        return ""
    nodes = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
    descriptors: list[str] = []
    names = set[str]()
    for node in nodes:
        if node.type != "declaration" or node.important:
            continue
        name = node.lower_name
        value = ""
        if name == "src":
            sources: list[list[Any]] = [[]]
            for each in node.value:
                if each == ",":
                    sources.append([])
                else:
                    sources[-1].append(each)
            written = (_source(without_blanks(each), rewriter) for each in sources[:_MOST_SOURCES])
            value = ",".join(filter(None, written))
        elif name in _DESCRIPTORS and all(each.type in _PLAIN_TOKENS or each == "," for each in node.value):
            value = serialise(node.value).strip()
        if value:
            descriptors.append(f"{name}:{value};")
            names.add(name)
    return f"@font-face{{{''.join(descriptors)}}}" if names >= {"src", "font-family"} else ""


def _source(tokens: list[Any], rewriter: ReplayUrlRewriter) -> str:
    """Return one source; empty when its address or format is not allowed."""
    if not tokens or tokens[0].type == "string":
        return ""
    url = url_of(tokens[0]) or ""
    if url.lstrip()[:5].lower() != "data:":
        target = rewriter.font(url)
    else:
        target = None
        head, _, content = url.strip().partition(",")
        if len(url) <= _LONGEST_DATA_URL and head.lower().rstrip().endswith(";base64"):
            with suppress(Base64Error, ValueError):
                data = sanitise_font(b64decode(content, validate=True))
                if data:
                    target = f"data:{FONT_TYPE};base64,{b64encode(data).decode()}"
    hints = [_hint(each) for each in tokens[1:]]
    if None in hints:
        return ""
    try:
        return " ".join([str(url_token(target).representation), *map(str, hints)])
    except TokenNotAllowedError:
        return ""


def _hint(token: Any) -> str | None:
    """Return ``format()`` or ``tech()`` with known names; None for others."""
    if token.type != "function":
        return None
    known = {"format": _FORMATS, "tech": _TECHNOLOGIES}.get(token.lower_name, frozenset())
    names = [each for each in without_blanks(token.arguments) if each != ","]
    if not names or any(each.type not in {"ident", "string"} for each in names):
        return None
    words = [each.value.lower() for each in names]
    if not known.issuperset(words) or (token.lower_name == "format" and len(words) > 1):
        return None
    text = ",".join(f'"{each}"' if token.lower_name == "format" else each for each in words)
    return f"{token.lower_name}({text})"


# OpenType, WOFF and WOFF2; no collections, no EOT, no fonts in SVG.
_FONT_MAGICS = {b"\0\1\0\0", b"true", b"OTTO", b"wOFF", b"wOF2"}


def sanitise_font(data: bytes) -> bytes:
    """Return the font as OpenType with checked tables, empty when it is none; in makers only, for its parser is C++."""
    if data[:4] not in _FONT_MAGICS:
        return b""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(data)
        source.flush()
        result = pyots.sanitize(f"/dev/fd/{source.fileno()}", f"/dev/fd/{target.fileno()}", quiet=True)
        return target.read() if result.sanitized else b""
