"""Formats of registry answers, all from `data_of`: data, JSON, XML and gadget JavaScript (W21, W70).

Dates are given twice: exact to the day, and in the rounded words shown to readers (W60).
"""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any
from xml.etree import ElementTree as ET

from core.json_values import json_facts
from links.check_history import date_of
from links.check_result import answered_status, reason_of
from links.registry.wikis import WikiName
from playback.url_paths import escape_url
from playback.web.registry.link_messages import (
    ago,
    cause_of,
    for_duration,
    hint_of,
    request_words,
    service_name,
    standing_of,
)
from playback.web.registry.registry_lists import FoundLinks, WikiQuestion
from playback.web.registry.registry_values import LinkRecord, PageReference, RegistryAnswer, WikiListKind, WikiListPart

Data = dict[str, Any]
Fields = frozenset[str]  # of a link; empty: all
ALL_FIELDS: Fields = frozenset()

SOURCE_PATH = "/links/api/source"  # of this module, in exactly this version
# Characters invalid in XML 1.0, even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ITEMS = {"pages": "page", "links": "link", "history": "run", "copies": "copy", "hints": "hint", "spam": "hit"}
# Characters that end a script element or a line, even within a string.
_JS_ESCAPES = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029'"})
_SCRIPT = """/* Weboid {version}, GPL-3.0-or-later. Made by {source} */
( function ( mw ) {{
\tvar problems = {problems};
\tmw.hook( "externalLinkProblem/query.answer" ).fire( problems );
}}( window.mediaWiki ) );
"""


def data_of(answer: RegistryAnswer, origin: str, fields: Fields = ALL_FIELDS) -> Data:
    """Convert the answer to JSON-compatible data; `origin` is that of the reader pages."""
    return {
        "wiki": str(answer.wiki),
        "scope": answer.scope.value,
        "as_of": date_of(answer.day).isoformat(),
        "pages": [
            {
                **json_facts(page, "page_id title namespace is_observed revision is_current", links_total="total"),
                "address": page.address or None,
                "request": page.request.value if page.request else None,
                "note": request_words(page.request) or None,
                "links_read": _time(page.listed_day, answer.day),
                "links": [select_fields(_link(each, answer.day, origin), fields) for each in page.links],
            }
            for page in answer.pages
        ],
    }


def _link(link: LinkRecord, today: int, origin: str) -> Data:
    return {
        **json_facts(link, "url state kib reports", mapped_http="http", failures="fails"),
        "status_byte": link.code,
        "spelling": link.spelling or link.url,
        "group": link.group.value,
        "words": standing_of(link),
        "http": answered_status(link.code, link.evidence),
        "reason": reason_of(link.code) or None,
        "since": _time(link.since_day, today),
        "checked": _time(link.checked_day, today),
        "cause": cause_of(link) or None,
        "evidence": link.evidence or None,
        "leads_to": link.led_to or None,
        "mime": link.mime or None,
        "history": [
            {
                "http": answered_status(run.code),
                "status_byte": run.code,
                "reason": reason_of(run.code) or None,
                "first": date_of(run.first).isoformat(),
                "last": date_of(run.last).isoformat(),
            }
            for run in link.runs
        ],
        "hints": [{"kind": note.hint.value, "value": note.text or None, "words": hint_of(note)} for note in link.notes],
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
        "replacement": link.replacement or None,
        "spam": [{"list": hit.list, "line": hit.line} for hit in link.spam],
    }


def own_copy(link: LinkRecord, origin: str) -> str:
    """Return the address of this archive's newest copy; empty without one."""
    return f"{origin}/latest/{escape_url(link.url)}" if link.capture else ""


def _time(day: int | None, today: int) -> Data | None:
    if day is None:
        return None
    return {"date": date_of(day).isoformat(), "ago": ago(day, today), "lasting": for_duration(day, today)}


def list_data(wiki: WikiName, kind: WikiListKind, listed: WikiListPart) -> Data:
    """Convert a part of a wiki's page list to JSON-compatible data."""
    return {
        "wiki": str(wiki),
        "with": kind.value,
        "is_observed": True,
        "pages": [{**_ref(page), "links_found": links} for page, links in listed.pages],
        "after": listed.after,
        "is_whole": listed.is_whole,
    }


def links_data(question: WikiQuestion, part: FoundLinks, origin: str) -> Data:
    """Convert a part of a wiki's links to JSON-compatible data, each with its page."""
    return {
        "wiki": str(question.wiki),
        "as_of": date_of(part.day).isoformat(),
        "links": [
            {
                "page": _ref(each.page),
                "page_has_it_since": date_of(each.first_day).isoformat(),
                **select_fields(_link(each.link, part.day, origin), question.fields),
            }
            for each in part.links
        ],
        "after": part.after or None,
    }


def _ref(page: PageReference) -> Data:
    return {"page_id": page.page_id, "title": page.title, "namespace": page.namespace, "address": page.address or None}


def as_json(data: Mapping[str, Any]) -> bytes:
    """Encode the data as JSON in ASCII, safe for embedding."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()


def xml_text(text: str) -> str:
    """Return the text without characters that XML 1.0 forbids."""
    return _NOT_XML.sub("\ufffd", text)


def as_xml(root: str, data: Mapping[str, Any]) -> bytes:
    """Encode the data as XML: one element for each name; unknown values are omitted."""
    document: bytes = ET.tostring(_element(root, data), encoding="utf-8", xml_declaration=True)
    return document


def as_javascript(problems: Sequence[Data], origin: str) -> bytes:
    """Encode the result of `problems_of` as JavaScript for a gadget (W67)."""
    values = {
        "version": version("weboid"),
        "source": f"{origin}{SOURCE_PATH}",
        "problems": json.dumps(problems, allow_nan=False).translate(_JS_ESCAPES),
    }
    return _SCRIPT.format_map(values).encode("ascii", "replace")


def problems_of(answer: RegistryAnswer, origin: str, fields: Fields = ALL_FIELDS) -> list[Data]:
    """Return the presumably unreachable URLs of all pages, each once (W67)."""
    links = {link.url: link for page in answer.pages for link in page.links}
    return [select_fields(_link(link, answer.day, origin), fields) for link in links.values() if link.is_unreachable]


def select_fields(link: Data, fields: Fields) -> Data:
    """Return the requested fields of a link; the URL is always included."""
    if not fields:
        return link
    return {name: value for name, value in link.items() if name == "url" or name in fields}


def _element(name: str, value: object) -> ET.Element:
    element = ET.Element(name)
    if isinstance(value, Mapping):
        for key, each in value.items():
            if each is not None:
                element.append(_element(key, each))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            element.append(_element(_ITEMS[name], each))
    elif isinstance(value, bool):
        element.text = "true" if value else "false"
    else:
        element.text = xml_text(str(value))
    return element
