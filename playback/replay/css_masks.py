"""Images that style sheets mask with, which browsers fetch with CORS, unlike all others (CSS Masking 1, 4.1).

Such an image comes from our mask route, which gives its shape and no more. What a variable holds may be
a mask or not: the declaration of one with an address of ours gets a twin for masks, which they look for
first. So no mask is asked for where an image was, nor an image where a mask was.
"""

import re
from typing import Any

from tinycss2.ast import FunctionBlock, IdentToken, LiteralToken

from playback.replay.css_tokens import NotAllowedError

_TWIN = "--weboid-mask-"
# shape-outside is fetched and used as a mask is (CSS Shapes 1, 6.1.1).
_MASK = re.compile(r"(?:-(?:webkit|moz|ms|o)-)?(?:mask(?:-[a-z-]+)?|shape-outside)")
# What would look at colours, of which a shape has none.
_COLOURED = re.compile(r"(?:-(?:webkit|moz|ms|o)-)?mask-(?:mode|source-type)")


def is_masking(name: str) -> bool:
    """True for a property whose images are masks."""
    return _MASK.fullmatch(name) is not None


def needs_parser(name: str, value: str) -> bool:
    """True for declarations that are about masks, or may be."""
    return is_masking(name) or is_twin(name) or (name.startswith("--") and "url(" in value)


def is_twin(name: str) -> bool:
    """True for a name that only variables of ours have."""
    return name.startswith(_TWIN)


def twin(name: str) -> str:
    """The name of a variable's twin for masks, both as they are written."""
    return _TWIN + name[2:]


def masking_tokens(name: str, tokens: list[Any]) -> list[Any]:
    """The value of a property whose images are masks, with variables that look for their twins first.

    Raises:
        NotAllowedError: it looks at colours.
    """
    if _COLOURED.fullmatch(name) or any(_says(each, "luminance") for each in tokens):
        raise NotAllowedError
    return [_with_twin(each) for each in tokens]


def _says(token: Any, word: str) -> bool:
    return token.type == "ident" and bool(token.lower_value == word)


def _with_twin(token: Any) -> Any:
    if not isinstance(token, FunctionBlock) or token.lower_name != "var" or not token.arguments:
        return token
    first = next((each for each in token.arguments if each.type != "whitespace"), None)
    if first is None or first.type != "ident" or not first.value.startswith("--"):
        return token
    if is_twin(first.value):
        return token
    names = [IdentToken(0, 0, twin(first.value)), LiteralToken(0, 0, ",")]
    return FunctionBlock(0, 0, "var", [*names, token])
