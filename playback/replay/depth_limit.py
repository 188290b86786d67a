"""A limit of how deep elements of a document are nested, applied before it is parsed; pure.

html5ever walks up the open elements for many a tag, so its time grows with the square of the depth: 250 kB
of nothing but ``<div>`` take ten seconds. Browsers themselves nest no deeper than 512 elements (Blink's
``kMaximumHTMLParserDOMTreeDepth``). Formatting elements that are never closed are opened again in each
paragraph (HTML, 13.2.4.3), so of them fewer may be open.
"""

import re
from collections import Counter

DEEPEST = 512
MOST_FORMATTING = 64

# A tag with its attributes. Every quantifier is possessive: the time is linear.
_TAG = re.compile(
    r"<(/?)([A-Za-z][^\s/>]*+)(?:[^>\"'=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+|[\"'])*+>"
)
# They hold nothing, or end where the next of their kind begins, so that they nest only by way of others.
_UNCOUNTED = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
        "p",
        "li",
        "dt",
        "dd",
        "tr",
        "td",
        "th",
        "thead",
        "tbody",
        "tfoot",
        "caption",
        "colgroup",
        "option",
        "optgroup",
        "rb",
        "rp",
        "rt",
        "rtc",
    ]
)
_FORMATTING = frozenset(
    [
        "a",
        "b",
        "big",
        "code",
        "em",
        "font",
        "i",
        "nobr",
        "s",
        "small",
        "strike",
        "strong",
        "tt",
        "u",
    ]
)


def limit_depth(text: str) -> str:
    """Return the markup without the tags of elements that are nested too deep; what they hold stays."""
    open_: list[tuple[str, bool]] = []  # name, and whether its tags stay
    counts: Counter[str] = Counter()
    formatting = 0
    parts: list[str] = []
    at = 0
    for tag in _TAG.finditer(text):
        name = tag[2].lower()
        if name in _UNCOUNTED:
            continue
        stays = True
        if not tag[1]:
            is_formatting = name in _FORMATTING
            stays = len(open_) < DEEPEST and not (is_formatting and formatting >= MOST_FORMATTING)
            open_.append((name, stays))
            counts[name] += 1
            formatting += is_formatting
        elif counts[name]:
            closed = ""
            while closed != name:
                closed, stays = open_.pop()
                counts[closed] -= 1
                formatting -= closed in _FORMATTING
        if not stays:
            parts.append(text[at : tag.start()])
            at = tag.end()
    parts.append(text[at:])
    return "".join(parts)
