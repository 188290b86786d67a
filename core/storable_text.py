"""Text from the web made storable: without NUL and lone surrogates."""

import json
from typing import Any


def replace_surrogates(text: str) -> str:
    r"""Return the text with a question mark for each half of a surrogate pair.

    A script can make such a half; UTF-8 has no form for it, so nothing can be written that has one.

    >>> replace_surrogates("a\ud800b")
    'a?b'
    """
    return text.encode("utf-8", "replace").decode()


def storable(text: str) -> str:
    """Return the text as both databases take it: without NUL and half surrogates."""
    return replace_surrogates(text.replace("\0", ""))


def parse_json(data: bytes) -> Any:
    """Return what the JSON says, with half surrogates replaced.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        found = json.loads(data)
        if b"\\ud" in data or b"\\uD" in data:
            found = json.loads(replace_surrogates(json.dumps(found, ensure_ascii=False)))
    except RecursionError as error:
        raise ValueError("It is nested too deeply.") from error
    return found
