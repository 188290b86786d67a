"""What is asked of a page's Wikidata item: ``P31``, or ``P31=Q5`` (W35). Pure.

``P31``: the item has a statement of that property. ``P31=Q5``: one whose value is that item; after ``=``
may also stand another entity, a string, a URL, a file's name or an identifier elsewhere.
"""

import re
import unicodedata
from typing import Final

from core.errors import ConfigError

FORM: Final = "P31, or P31=Q5 with a value"
_ENTRY: Final = re.compile(r"(P[1-9][0-9]{0,9})\s*(?:=(.*))?", re.DOTALL)


def parse_entry(text: str) -> str:
    """The entry in the form in which two are compared: without spaces around its parts.

    Raises:
        ConfigError: it is none; the text names the form.

    >>> parse_entry(" P31 = Q5"), parse_entry("P856=https://a.org/?b=c"), parse_entry("P31")
    ('P31=Q5', 'P856=https://a.org/?b=c', 'P31')
    """
    found = _ENTRY.fullmatch(text.strip())
    name, value = found.groups() if found else ("", None)
    plain = None if value is None else unicodedata.normalize("NFC", value).strip()
    if not name or plain == "":
        raise ConfigError(f"{text[:80]!r} names no property: write {FORM}.")
    return name if plain is None else f"{name}={plain}"
