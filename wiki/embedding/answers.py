"""What is known of a link, as the front tells it, and what of that is believed (docs/embedding.md).

An answer ends in other people's pages. So nothing of it is taken but texts of known form, and addresses
at the front's own origins or at a known archive; what is anything else counts as no answer.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from core.errors import BadUrlError
from core.urls import fetch_key
from links.archives.recognising import recognise

ASKED_AT_ONCE = 1_000
_LONGEST_ADDRESS = 8_192
_LONGEST_WORDS = 300
_LONGEST_LABEL = 40
_WORD = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)?", re.ASCII)
_FRESH_LIMIT_S = 86_400.0
_FRESH_DEFAULT_S = 60.0


class Show(StrEnum):
    """Beside which links the copy is offered."""

    ALWAYS = "always"
    DEAD = "dead"
    NEVER = "never"  # classes and attributes only


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of one link; the fields are those of docs/embedding.md."""

    url: str
    answer: str = "none"
    href: str = ""
    copy: str = ""
    date: str = ""
    group: str = "unknown"
    is_dead: bool = False
    words: str = ""
    label: str = ""  # the word beside the link, in the language asked for; empty: ours

    @property
    def says_something(self) -> bool:
        """Whether there is anything to show."""
        return self.answer != "none" or self.group != "unknown"


def read_answers(
    document: Any, urls: Sequence[str], fronts: Iterable[str]
) -> tuple[dict[str, Answer], float]:
    """The answers that can be believed, by the URLs asked for, and for how many seconds they hold.

    Args:
        document: the front's JSON, parsed; whatever it is.
        urls: what was asked for, in its order.
        fronts: origins that a copy may lie at.
    """
    links = document.get("links") if isinstance(document, dict) else None
    if not isinstance(links, list):
        return {}, _FRESH_DEFAULT_S
    allowed = tuple(f"{origin.rstrip('/')}/".lower() for origin in fronts)
    found = {}
    for url, each in zip(urls, links, strict=False):
        if isinstance(each, dict) and each.get("url") == url:
            found[url] = _read(url, each, allowed)
    fresh = document.get("fresh_s")
    is_number = isinstance(fresh, (int, float)) and not isinstance(fresh, bool)
    is_sane = is_number and 0 <= fresh <= _FRESH_LIMIT_S
    return found, float(fresh) if is_sane else _FRESH_DEFAULT_S


def _read(url: str, each: Mapping[str, Any], allowed: tuple[str, ...]) -> Answer:
    answer, group, date = _text(each, "answer"), _text(each, "group"), _text(each, "date")
    href, copy = (_address(each.get(key), allowed) for key in ("href", "copy"))
    group = group if _WORD.fullmatch(group) else "unknown"
    known = Answer(
        url,
        group=group,
        is_dead=each.get("is_dead") is True,
        words=_words(_text(each, "words")),
        label=_words(_text(each, "label"))[:_LONGEST_LABEL],
    )
    if answer == "none" or not _WORD.fullmatch(answer) or not (href or copy):
        return known
    if answer != "copy":
        return replace(known, answer=answer, href=href)
    # Copies come from an origin of their own; where that is not known, the page around one does.
    date = date if _DATE.fullmatch(date) else ""
    return replace(known, answer=answer, href=href or copy, copy=copy or href, date=date)


def _text(each: Mapping[str, Any], key: str) -> str:
    value = each.get(key)
    return value if isinstance(value, str) else ""


def _address(value: Any, allowed: tuple[str, ...]) -> str:
    """The address, in ASCII; empty when it is none that a reader may be led to."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ADDRESS:
        return ""
    is_ours = value.lower().startswith(allowed) and "\\" not in value
    try:
        key = fetch_key(value, allow_single_label=is_ours)
    except BadUrlError:
        return ""
    if is_ours:
        # As it is: a copy's address may hold a fragment or user information of what it is a copy of.
        return "".join(
            char if 0x20 < ord(char) < 0x7F and char not in "\"'<>" else _escaped(char)
            for char in value
        )
    found = recognise(key)
    return key if found is not None and found.is_known and found.is_usable else ""


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))


def _words(text: str) -> str:
    """The text on one line, without what steers a terminal or turns the direction of letters."""
    shown = "".join(
        " " if unicodedata.category(char) in {"Cc", "Zl", "Zp"} else char
        for char in text[: 2 * _LONGEST_WORDS]
        if unicodedata.category(char) not in {"Cf", "Cs", "Cn", "Co"}
    )
    return " ".join(shown.split())[:_LONGEST_WORDS]
