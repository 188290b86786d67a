"""One answer in every format: the data, and JSON, XML, HTML and a gadget's JavaScript of it (W21, W70).

`data_of` is the one place that decides what is told; all formats are made of what it gives. Dates are
told twice: as they are kept, to the day, and in the words that people are shown (W60).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

from links.books.wikis import WikiName
from links.days import date_of
from playback.addresses import escape_url
from playback.front.registry.answers import (
    Answer,
    Link,
    Listed,
    ListKind,
    PageAnswer,
    PageRef,
    Scope,
)
from playback.front.registry.words import ago, cause_of, hint_of, lasting, service_name, standing_of

Data = dict[str, Any]

# What XML 1.0 cannot hold, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ITEMS = {
    "pages": "page",
    "links": "link",
    "history": "run",
    "copies": "copy",
    "hints": "hint",
    "spam": "hit",
}
# Characters that end a script's element or a line of its text, wherever they stand in a string.
_JS_ESCAPES = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029'"})
_SCRIPT = """( function ( mw ) {{
\tvar problems = {problems};
\tmw.hook( "externalLinkProblem/query.answer" ).fire( problems );
}}( window.mediaWiki ) );
"""


def scoped(page: PageAnswer, scope: Scope) -> PageAnswer:
    """The page with the links that the scope asks for."""
    if scope is Scope.ALL:
        return page
    return replace(page, links=tuple(each for each in page.links if each.has_findings))


def data_of(answer: Answer, origin: str) -> Data:
    """The answer as programs get it; `origin` is that of the pages with our own copies."""
    return {
        "wiki": str(answer.wiki),
        "scope": answer.scope.value,
        "as_of": date_of(answer.day).isoformat(),
        "pages": [_page(each, answer.day, origin) for each in answer.pages],
    }


def _page(page: PageAnswer, today: int, origin: str) -> Data:
    return {
        "page_id": page.page_id,
        "title": page.title,
        "namespace": page.namespace,
        "address": page.address or None,
        "is_observed": page.is_observed,
        "links_read": _time(page.listed_day, today),
        "links_total": page.total,
        "links": [_link(each, today, origin) for each in page.links],
    }


def _link(link: Link, today: int, origin: str) -> Data:
    return {
        "url": link.url,
        "state": link.state.name.lower(),
        "group": link.group.value,
        "words": standing_of(link, today),
        "code": link.code,
        "http": link.http,
        "since": _time(link.since_day, today),
        "checked": _time(link.checked_day, today),
        "failures": link.fails,
        "cause": cause_of(link) or None,
        "evidence": link.evidence or None,
        "leads_to": link.led_to or None,
        "mime": link.mime or None,
        "kib": link.kib,
        "history": [
            {
                "code": run.code,
                "http": run.http,
                "first": date_of(run.first_day).isoformat(),
                "last": date_of(run.last_day).isoformat(),
            }
            for run in link.runs
        ],
        "hints": [
            {"kind": note.hint.value, "value": note.text or None, "words": hint_of(note)}
            for note in link.notes
        ],
        "copies": [
            {
                "service": copy.service,
                "name": service_name(copy.service),
                "address": copy.address or None,
                "timestamp": copy.timestamp or None,
            }
            for copy in link.copies
        ],
        "own_copy": own_copy(link, origin) or None,
        "reports": link.reports,
        "replacement": link.replacement or None,
        "spam": [{"list": hit.list, "line": hit.line} for hit in link.spam],
    }


def own_copy(link: Link, origin: str) -> str:
    """The address of our own newest copy; empty without one."""
    return f"{origin}/latest/{escape_url(link.url)}" if link.capture else ""


def _time(day: int | None, today: int) -> Data | None:
    if day is None:
        return None
    return {
        "date": date_of(day).isoformat(),
        "ago": ago(day, today),
        "lasting": lasting(day, today),
    }


def list_data(wiki: WikiName, kind: ListKind, listed: Listed | None) -> Data:
    """A part of a wiki's list as programs get it; of a wiki that nobody knows it is empty."""
    return {
        "wiki": str(wiki),
        "with": kind.value,
        "is_observed": listed is not None,
        "pages": [
            {**_ref(each.page), "links_found": each.links}
            for each in (listed.pages if listed else ())
        ],
        "after": listed.after if listed else None,
        "is_whole": listed.is_whole if listed else True,
    }


def _ref(page: PageRef) -> Data:
    return {
        "page_id": page.page_id,
        "title": page.title,
        "namespace": page.namespace,
        "address": page.address or None,
    }


def as_json(data: Mapping[str, Any]) -> bytes:
    """The data as JSON that may stand anywhere, in ASCII."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()


def as_xml(root: str, data: Mapping[str, Any]) -> bytes:
    """The data as XML: an element for each name, its items in it; what is unknown is left out."""
    element = _element(root, data)
    found: bytes = ET.tostring(element, encoding="utf-8", xml_declaration=True)
    return found


def as_javascript(answer: Answer) -> bytes:
    """The presumably unreachable URLs as a gadget takes them: active JavaScript (W67)."""
    return _SCRIPT.format(problems=_literal(problems_of(answer))).encode("ascii")


def problems_of(answer: Answer) -> list[Data]:
    """The presumably unreachable URLs of all pages, each once (W67)."""
    links = {link.url: link for page in answer.pages for link in page.links}
    return [
        {
            "url": link.url,
            "state": link.state.name.lower(),
            "http": link.http,
            "words": standing_of(link, answer.day),
            "cause": cause_of(link) or None,
            "copies": [copy.address for copy in link.copies if copy.address],
            "replacement": link.replacement or None,
        }
        for link in links.values()
        if link.is_unreachable
    ]


def _literal(value: object) -> str:
    """The value as JavaScript that nothing in it can leave: pure ASCII, no bracket of an element."""
    return json.dumps(value, allow_nan=False).translate(_JS_ESCAPES)


def _element(name: str, value: object) -> ET.Element:
    made = ET.Element(name)
    if isinstance(value, Mapping):
        for key, each in value.items():
            if each is not None:
                made.append(_element(key, each))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            made.append(_element(_ITEMS[name], each))
    elif isinstance(value, bool):
        made.text = "true" if value else "false"
    else:
        made.text = _NOT_XML.sub("\ufffd", str(value))
    return made
