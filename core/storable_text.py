"""Conversion of web text for storage and display: without NUL, lone surrogates, or characters that hide others."""

import json
import unicodedata
from typing import Any

_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # Unicode's categories


def replace_surrogates(text: str) -> str:
    r"""Return the text with a question mark for each lone surrogate, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def storable(text: str) -> str:
    """Return the text in a form that both databases accept: without NUL and lone surrogates."""
    return replace_surrogates(text.replace("\0", ""))


def shorten_for_message(text: str, most: int = 200) -> str:
    """Limit user input to a length suitable for a message."""
    return text if len(text) <= most else text[:most] + "…"


def replace_invisible(text: str) -> str:
    r"""Return the text with every control character, line end and direction mark replaced.

    >>> replace_invisible("a\x1b[2Jb\u202ec") == "a\ufffd[2Jb\ufffdc"
    True
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(char) in _INVISIBLE else char for char in text)


def parse_json(data: bytes) -> Any:
    """Parse JSON, with lone surrogates replaced; ValueError also if it is nested too deeply."""
    try:
        document = json.loads(data)
        if b"\\ud" in data or b"\\uD" in data:
            document = json.loads(replace_surrogates(json.dumps(document, ensure_ascii=False)))
    except RecursionError as error:
        raise ValueError("It is nested too deeply.") from error
    return document
