"""What the filters of style sheets have in common: tokens read for a URL, and written again."""

import re
from typing import Any

import tinycss2
from tinycss2.ast import FunctionBlock, StringToken, URLToken

UNQUOTABLE = re.compile(r"[\x00-\x20\"\\<]")


class NotAllowedError(Exception):
    """A value holds a token that may not be shown."""


def is_url_function(token: Any) -> bool:
    """True for ``url("x")`` as browsers and tinycss2 tell it from ``url(x)``, which is one token."""
    return isinstance(token, FunctionBlock) and token.lower_name == "url"


def url_of(token: Any) -> str | None:
    """The URL that a token names: ``url(x)``, ``url("x")`` or, in @import, ``"x"``."""
    if isinstance(token, URLToken | StringToken):
        return str(token.value)
    if is_url_function(token):
        inside = solid(token.arguments)
        if len(inside) == 1 and isinstance(inside[0], StringToken):
            return str(inside[0].value)
    return None


def url_token(url: str) -> URLToken:
    """The URL as a token.

    Raises:
        NotAllowedError: it holds what would have to be escaped, as no address of ours does.
    """
    if UNQUOTABLE.search(url):
        raise NotAllowedError
    return URLToken(0, 0, url, f'url("{url}")')


def solid(tokens: list[Any]) -> list[Any]:
    """The tokens without blanks and comments."""
    return [each for each in tokens if each.type not in {"whitespace", "comment"}]


def serialise(tokens: list[Any]) -> str:
    """The tokens as text that cannot end a style element."""
    return escape_end(tinycss2.serialize(tokens))


def escape_end(text: str) -> str:
    """The text without ``</``, which could end a style element; inside strings it means the same."""
    return text.replace("</", "<\\/")
