"""External links in flat wikitext, bracketed and bare, by MediaWiki's rules.

A page link has a title of legal characters without a URL scheme, and ``]]`` before another ``[[``. Its label
contains no links, except in an image caption, and letters directly after it belong to it.

A bare URL begins at a word boundary and ends before white space (any of Unicode's), ``[ ] < > "`` and
control characters, two apostrophes, an escaped ``<``, ``>`` or no-break space; trailing ``, ; . : ! ?`` are
not part of it, nor is ``)`` when it has no ``(``. In brackets only the first of these rules apply, and a
URL without a scheme (``//host``) is valid, too. No URL is read within a URL of another scheme.

Verified against a real MediaWiki by tests/wiki/wikitext/test_parser_mediawiki.py.
"""

import re
from collections.abc import Container
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

NEAR: Final = 2_000  # characters in which the beginning and the end of a link are searched
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


class TextPlace(IntEnum):
    """Position and context of a piece of text."""

    OUTSIDE = 0
    LABEL = 1  # within a link to a page, all of which is one link
    CAPTION = 2  # within a picture's parameters


def place_of(text: str, start: int, end: int) -> TextPlace:
    """Return the context of the piece from `start` to `end`."""
    opened = text.rfind("[[", max(0, start - NEAR), start)
    if opened < 0 or text.find("]]", opened, start) >= 0:
        return TextPlace.OUTSIDE
    title = _titled(text, opened)
    close = text.find("]]", end, end + NEAR)
    if title is None or close < 0:
        return TextPlace.OUTSIDE
    if not text.startswith("|", title.end()):
        return TextPlace.LABEL if title.end() >= close else TextPlace.OUTSIDE
    if _namespace(title[0]) in _PICTURES:
        return TextPlace.CAPTION
    return TextPlace.OUTSIDE if text.find("[[", end, close) >= 0 else TextPlace.LABEL


def takes_letters(text: str, at: int) -> bool:
    """Return True if a page link ends there, which absorbs following letters."""
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
    """Match the title of a page link that opens there; None without one."""
    before = text[max(0, opened - NEAR) : opened]
    is_second = (len(before) - len(before.rstrip("["))) % 2  # the two before are one link's
    title = None if is_second else _TITLE.match(text, opened + 2)
    if title is None or _NO_TITLE.match(title[0]) or "~~~" in title[0]:
        return None
    return title


def _namespace(title: str) -> str:
    return title.partition(":")[0].strip().casefold() if ":" in title else ""


_SPACES = "\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_CHAR = rf'[^\]\[<>"\x00-\x20\x7f{_SPACES}\ufffd]'
_ADDRESS = rf"(?:\[[0-9a-f:.]+\]|{_CHAR}){_CHAR}*"
_SCHEMES = r"(?:https?|ftp)://"
_FLAGS = re.IGNORECASE
_BEGIN = re.compile(rf"\[//|{_SCHEMES}", _FLAGS)
_REST = re.compile(_ADDRESS, _FLAGS)
_RUN = re.compile(rf"{_CHAR}*")
_WHOLE = re.compile(rf"(?:{_SCHEMES}|//){_ADDRESS}", _FLAGS)
# A label may contain links to pages, whose brackets do not end it.
_LABEL = re.compile(r"(?>\[\[[^\[\]\n]*\]\]|[^\]\x00-\x08\n-\x1f\ufffd])*+")
_BLANKS = re.compile(rf"[ {_SPACES}]*")
_QUOTES = re.compile(r"'{2,}")
_CUT = re.compile(r"&[lg]t;")
_CUT_BARE = re.compile(r"&(?:[lg]t|nbsp|#x0*(?:3[CEce]|[Aa]0)|#0*(?:60|62|160));")
_ENTITY_END = re.compile(r"&(?:[a-z]+|#x[\da-f]+|#\d+);\Z", re.IGNORECASE | re.ASCII)
_LONGEST_ENTITY: Final = 40
_TAG_NAMES = (
    "abbr|b|bdi|bdo|big|blockquote|br|caption|center|cite|code|col|colgroup|data|dd|del|dfn|div|dl|dt|em"
    "|font|h[1-6]|hr|i|ins|kbd|li|link|mark|meta|ol|p|pre|q|rb|rp|rt|rtc|ruby|s|samp|small|span|strike"
    "|strong|sub|sup|table|td|th|time|tr|tt|u|ul|var|wbr"
)
_TAG = re.compile(rf"</?(?:{_TAG_NAMES})(?=[\s/>])[^<>]*>", re.IGNORECASE | re.ASCII)
_CELL_END = re.compile(r"\n|\|\|?|\[\[")
_TAG_END = re.compile(r"[<>]")
# A URL of another scheme includes the text directly after it.
_OTHER = re.compile(rf"\b(?:(?:{SLASHED})://|(?:{UNSLASHED}):){_CHAR}*\Z", re.IGNORECASE)
_HTML = re.compile(rf"</?(?:{_TAG_NAMES})[\s/][^<>]*\Z", re.IGNORECASE | re.ASCII)


@dataclass(slots=True)
class ExternalLink:
    """External link; positions are in the flat text."""

    start: int  # of the whole link
    end: int  # of the whole link
    url_start: int
    url_end: int
    label_start: int = 0  # of a bracketed link's text; equal to its end without a text
    is_bracketed: bool = False  # the link is in brackets


def is_url(text: str) -> bool:
    """Return True if the whole text is one URL.

    >>> is_url("https://a.test/x"), is_url("a.test/x")
    (True, False)
    """
    return _WHOLE.fullmatch(text) is not None


def find_links(text: str) -> list[ExternalLink]:
    """Find the external links of a flat text, in text order."""
    links: list[ExternalLink] = []
    at = 0
    run = -1  # where the signs end of which a URL may be made
    unclosed_until = -1  # up to here nothing closes a bracket
    for begin in _BEGIN.finditer(text):
        start = begin.start()
        if start < at:
            continue
        is_relative = text[start] == "["
        before = text[start - 1 : start]
        if begin.end() >= run:
            rest = _REST.match(text, begin.end())
            run = -1 if rest is None else rest.end()  # -1: no URL begins there
        if run < 0 or (not is_relative and (before.isalnum() or before == "_")):
            continue
        end, quotes = run, _QUOTES.search(text, begin.end(), run)
        if quotes is not None:  # italics or bold; the first of four quotes is literal
            count = len(quotes[0])
            end = quotes.start() + (1 if count == 4 else max(count - 5, 0))
        if is_relative or before == "[":
            if run > unclosed_until:
                link = _bracketed(text, start + is_relative, begin.end(), end)
                if isinstance(link, ExternalLink):
                    if place_of(text, link.start, link.end) is not TextPlace.LABEL:
                        links.append(link)
                    at = link.end
                    continue
                unclosed_until = link
            if is_relative:
                continue
        bare = _bare(text, start, begin.end(), end)
        at = end if bare is not None or not takes_letters(text, start) else at
        if bare is not None:
            links.append(bare)
            at = _skip_link(text, end) if "|" not in text[bare.end : end] else bare.end
    return links


def opens_tag(text: str, at: int) -> bool:
    """Return True if an HTML tag allowed by MediaWiki begins or ends there."""
    return _TAG.match(text, at) is not None


def is_escaped(text: str, at: int, edges: Container[int]) -> bool:
    """Return True before a ``<`` or ``>`` of no tag: right after a bare URL, MediaWiki links nothing up to a blank.

    `edges` are `parser.node_edges` of the text.
    """
    return text.startswith(("<", ">"), at) and at not in edges and not opens_tag(text, at)


def _skip_link(text: str, end: int) -> int:
    """Return the next possible link start; an escaped ``<`` or ``>`` that opens no tag extends the URL."""
    while text.startswith(("<", ">"), end) and not opens_tag(text, end):
        rest = _RUN.match(text, end + 1)
        end = rest.end() if rest is not None else end + 1
    return end


def _bracketed(text: str, url_start: int, address: int, end: int) -> ExternalLink | int:
    """Parse a bracketed link; return an offset instead, up to which no bracket closes."""
    if end <= address:
        return end
    blanks = _BLANKS.match(text, end)
    label_start = blanks.end() if blanks is not None else end
    label = _LABEL.match(text, label_start)
    close = label.end() if label is not None else label_start
    if not text.startswith("]", close):
        return close
    cut = _CUT.search(text, address, end)
    url_end = end
    if cut is not None:
        url_end = label_start = cut.start()
        if url_end == address:
            return close
    return ExternalLink(url_start - 1, close + 1, url_start, url_end, label_start, is_bracketed=True)


def _bare(text: str, start: int, address: int, end: int) -> ExternalLink | None:
    cut = _CUT_BARE.search(text, address, end)
    if cut is not None:
        end = cut.start()
    near = text[max(0, start - NEAR) : start]
    line = near[near.rfind("\n") + 1 :].lstrip()
    if line.startswith(("{|", "|-")):
        return None
    if line[:1] in ("|", "!"):
        end = _before_cell(text, line, address, end)
        if end < 0:
            return None
    elif line[:1] == "=" and text[end : end + 1] in ("", "\n"):
        level = len(line) - len(line.lstrip("="))  # of the heading, whose closing signs follow
        while level and text[end - 1] == "=":
            end -= 1
            level -= 1
    if takes_letters(text, start) or _is_in_tag(text, near, end) or _is_in_other(near):
        return None
    place = place_of(text, start, end)
    bar = text.find("|", address, end) if place is TextPlace.CAPTION else -1
    end = _without_stops(text, start, end if bar < 0 else bar)
    if place is TextPlace.LABEL or end <= address:
        return None
    return ExternalLink(start, end, start, end, end)


def _without_stops(text: str, start: int, end: int) -> int:
    stops = ",;.:!?" if "(" in text[start:end] else ",;.:!?)"
    cut = end
    while cut > start and text[cut - 1] in stops:
        cut -= 1
    if cut < end and text[cut] == ";":
        near = text[max(start, cut - _LONGEST_ENTITY) : cut + 1]
        if _ENTITY_END.search(near):
            cut += 1
    return cut


def _before_cell(text: str, line: str, address: int, end: int) -> int:
    """Return the URL's end in a table row, before the next cell's marker; -1 in attributes."""
    for mark in ("||", "!!") if line[0] == "!" else ("||",):
        cell = text.find(mark, address, end)
        end = end if cell < 0 else cell
    rest = _CELL_END.search(text, end, end + NEAR)
    before = line[max(line.rfind("||") + 2, line.rfind("!!") + 2, 1) :]
    if "|" not in before and "[[" not in before and "|" in text[address:end]:
        return -1  # the text before a cell's own bar is its attributes
    is_open = before.count('"') % 2 == 1 and "=" in before and "|" not in before
    return -1 if is_open and rest is not None and rest[0] == "|" else end


def _is_in_tag(text: str, near: str, end: int) -> bool:
    tag = near.rfind("<")
    if tag < 0 or _HTML.match(near, tag) is None:
        return False
    close = _TAG_END.search(text, end, end + NEAR)
    return close is not None and close[0] == ">"


def _is_in_other(near: str) -> bool:
    """Return True if a URL of another scheme extends to this place."""
    if not near or near[-1].isspace() or ":" not in (word := near.split()[-1]):
        return False
    return _OTHER.search(word.rpartition("||")[2]) is not None
