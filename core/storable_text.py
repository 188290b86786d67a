"""Conversion of web text for storage: without NUL and lone surrogates."""

import json
from typing import Any


def replace_surrogates(text: str) -> str:
    r"""Return the text with a question mark for each lone surrogate, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def storable(text: str) -> str:
    """Return the text in a form that both databases accept: without NUL and lone surrogates."""
    return replace_surrogates(text.replace("\0", ""))


def parse_json(data: bytes) -> Any:
    """Parse JSON, with lone surrogates replaced; ValueError also if it is nested too deeply."""
    try:
        document = json.loads(data)
        if b"\\ud" in data or b"\\uD" in data:
            document = json.loads(replace_surrogates(json.dumps(document, ensure_ascii=False)))
    except RecursionError as error:
        raise ValueError("It is nested too deeply.") from error
    return document
