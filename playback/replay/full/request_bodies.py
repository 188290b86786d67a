"""Requests with a body, which copies send as the query of a GET, and their comparison with captured ones.

A copy's script (`full.js`) writes method, media type and body into the query, with names as those that
pywb and wabac use. A body is compared by its parameters: fields of a form, or leaves of a JSON text. A
value that is new at each visit, such as a moment or an identifier made at random, need not be the same
where the page's capture has one such request only.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

from playback.replay.capture_lookup import FRESH_VALUE

_QUERY = re.compile(
    r"[?&]__wb_method=(?P<method>[A-Z]{1,20})&__wb_post_type=(?P<type>[^&]*)"
    r"(?:&__wb_post_data=(?P<data>[^&]*))?$"
)
_FIELD = re.compile(r'name="([^"\r\n]{0,1000})"[^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n(.*?)\r\n--', re.DOTALL)
_DEEPEST = 20
_FRESH = re.compile(FRESH_VALUE, re.IGNORECASE)
_T = TypeVar("_T")
Parameters = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BodyRequest:
    """Request of a method that may have a body; `parameters` None: the body is unknown."""

    method: str
    parameters: Parameters | None


def parse_body_query(url: str) -> tuple[str, BodyRequest] | None:
    """Return the URL without what `full.js` added, and the request that it means; None for a GET.

    >>> parse_body_query("https://a.example/s?__wb_method=POST&__wb_post_type=text%2Fplain&__wb_post_data=eA%3D%3D")
    ('https://a.example/s', BodyRequest(method='POST', parameters=(('', 'x'),)))
    """
    match = _QUERY.search(url)
    if match is None:
        return None
    parameters = None
    if match["data"] is not None:
        try:
            body = base64.b64decode(unquote(match["data"]), validate=True)
        except binascii.Error:
            body = b""
        parameters = body_parameters(unquote(match["type"]), body)
    return url[: match.start()], BodyRequest(match["method"], parameters)


def body_parameters(content_type: str, body: bytes) -> Parameters:
    """Return the sorted parameters of a body: of a form, of a JSON text, else the text itself."""
    text = body.decode("utf-8", "replace")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/x-www-form-urlencoded":
        return tuple(sorted(parse_qsl(text, keep_blank_values=True)))
    if media_type == "multipart/form-data":
        return tuple(sorted(_FIELD.findall(text)))
    try:
        return tuple(sorted(_leaves(json.loads(text), "", 0)))
    except (ValueError, RecursionError):
        return (("", text),) if text else ()


def match_body(wanted: BodyRequest, captured: Iterable[tuple[_T, BodyRequest]]) -> _T | None:
    """Return the capture whose request was the same, else the only one that differs in fresh values alone."""
    similar: list[_T] = []
    for capture, request in captured:
        if request.method != wanted.method:
            continue
        if request.parameters == wanted.parameters and wanted.parameters is not None:
            return capture
        if wanted.parameters is None or _lasting(request) == _lasting(wanted):
            similar.append(capture)
    return similar[0] if len(similar) == 1 else None


def _lasting(request: BodyRequest) -> Parameters:
    return tuple((name, "" if _FRESH.fullmatch(value) else value) for name, value in request.parameters or ())


def _leaves(value: Any, name: str, depth: int) -> Iterable[tuple[str, str]]:
    if depth < _DEEPEST and isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}", depth + 1)
    elif depth < _DEEPEST and isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{name}.{at}", depth + 1)
    else:
        yield name, json.dumps(value).strip('"')
