"""Links to pages, ``[[page|label]]``, as far as they decide what external links there are.

What stands in the label of such a link is no link of its own, unless the link is a picture with a caption;
and letters directly behind one are a part of it. The rules of what is one are MediaWiki's: a title of
legal characters, which begins with no scheme, and ``]]`` before another ``[[``.
"""

import re
from enum import IntEnum
from typing import Final

NEAR: Final = 2_000  # characters in which the beginning and the end of a link are looked for
_TITLE = re.compile(r"""[-\x20%!"$&'()*,./0-9:;=?@A-Z\\^_`a-z~+#\x7f-\U0010ffff]+""")
# Schemes that MediaWiki makes links of, besides the web's own: before ``//``, and before anything.
SLASHED: Final = "ftps|ircs?|gopher|telnet|nntp|svn|git|ssh|sftp|mms|worldwind"
UNSLASHED: Final = "mailto|news|tel|sms|sips?|xmpp|urn|geo|magnet|bitcoin"
_NO_TITLE = re.compile(
    rf"\s*(?:(?:https?|ftp|{SLASHED}):)?//"
    rf"|\s*(?:{UNSLASHED}):"
    r"|\s*:?\s*(?:(?:file|image|media|category)\s*:)?\s*\Z",
    re.IGNORECASE | re.ASCII,
)
_PICTURES: Final = frozenset(("file", "image", "datei", "bild", "media"))
_ALONE: Final = _PICTURES | {"category", "kategorie"}


class Place(IntEnum):
    """Where a piece of text is."""

    OUTSIDE = 0
    LABEL = 1  # within a link to a page, all of which is one link
    CAPTION = 2  # within a picture's parameters


def place_of(text: str, start: int, end: int) -> Place:
    """Where the piece from `start` to `end` is."""
    opened = text.rfind("[[", max(0, start - NEAR), start)
    if opened < 0 or text.find("]]", opened, start) >= 0:
        return Place.OUTSIDE
    title = _titled(text, opened)
    close = text.find("]]", end, end + NEAR)
    if title is None or close < 0:
        return Place.OUTSIDE
    if not text.startswith("|", title.end()):
        return Place.LABEL if title.end() >= close else Place.OUTSIDE
    if _namespace(title[0]) in _PICTURES:
        return Place.CAPTION
    return Place.OUTSIDE if text.find("[[", end, close) >= 0 else Place.LABEL


def takes_letters(text: str, at: int) -> bool:
    """Whether a link to a page ends there that takes the letters behind it to itself."""
    if not text.startswith("]]", at - 2) or not text[at : at + 1].islower():
        return False
    opened = text.rfind("[[", max(0, at - NEAR), at)
    if opened < 0 or 0 <= text.find("]]", opened) < at - 2:
        return False
    title = _titled(text, opened)
    if title is None or text.startswith("|]]", title.end()):
        return False
    is_one = title.end() == at - 2 or text[title.end()] == "|"
    return is_one and _namespace(title[0]) not in _ALONE


def _titled(text: str, opened: int) -> re.Match[str] | None:
    """The title of a link that opens there; None: it has none."""
    before = text[max(0, opened - NEAR) : opened]
    is_second = (len(before) - len(before.rstrip("["))) % 2  # the two before are one link's
    title = None if is_second else _TITLE.match(text, opened + 2)
    if title is None or _NO_TITLE.match(title[0]) or "~~~" in title[0]:
        return None
    return title


def _namespace(title: str) -> str:
    return title.partition(":")[0].strip().casefold() if ":" in title else ""
