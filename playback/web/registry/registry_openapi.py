"""OpenAPI 3.1 description of the registry API."""

from collections.abc import Iterable
from enum import Enum
from typing import Any

from links.feedback.page_requests import RequestState
from links.states import LinkState
from playback.web.cached_links.cached_answer import CopyState
from playback.web.cached_links.cached_request import MOST_URLS
from playback.web.registry.registry_values import (
    LINK_FIELDS,
    MOST_PAGES,
    Group,
    LinkHint,
    LinkScope,
    WikiListKind,
)

_Schema = dict[str, Any]

CACHED = "/links/api/cached"
_ID = "[1-9][0-9]{0,17}"
_WIKI_NAME = r"[A-Za-z0-9][A-Za-z0-9_.:\-]{0,63}(@[A-Za-z0-9][A-Za-z0-9_.\-]{0,39})?"


def _text(description: str = "", **more: Any) -> _Schema:
    return _described({"type": "string", **more}, description)


def _pattern(pattern: str, description: str = "") -> _Schema:
    return _text(description, pattern=f"^{pattern}$")


def _integer(description: str = "", **more: int) -> _Schema:
    return _described({"type": "integer", **more}, description)


def _described(schema: _Schema, description: str) -> _Schema:
    return {**schema, "description": description} if description else schema


def _or_null(schema: _Schema) -> _Schema:
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {"oneOf": [schema, {"type": "null"}]}
    made = {**schema, "type": [kind, "null"]}
    return {**made, "enum": [*schema["enum"], None]} if "enum" in schema else made


def _object(properties: dict[str, _Schema], description: str = "", **more: Any) -> _Schema:
    made = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }
    return _described(made, description)


def _list(schema: _Schema, **more: int) -> _Schema:
    return {"type": "array", "items": schema, **more}


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _texts(*names: str) -> dict[str, _Schema]:
    """Return properties with texts; null where the name has a question mark."""
    return {name.rstrip("?"): _or_null(_TEXT) if name[-1] == "?" else _TEXT for name in names}


def _one_of(values: Iterable[Enum], description: str = "") -> _Schema:
    return _text(description, enum=[each.value for each in values])


_TEXT = _text()
_DATE = _text(format="date")
_BOOLEAN: _Schema = {"type": "boolean"}
_COUNT = _integer(minimum=0)
_DAY = r"\d{4}-\d\d-\d\d"
_MOMENT = rf"{_DAY}T\d\d:\d\d:\d\dZ"
_STATE = _text(enum=[state.name.lower() for state in LinkState])
_REQUEST = _one_of(
    RequestState, "For a page that is not observed: state of the request to read it."
)
_NOTE = _text("The same in words.")
_REVISION = _integer("Revision the links were read from.")
_ANSWERED: dict[str, _Schema] = {
    "http": _or_null(_integer("HTTP status of the server.")),
    "status_byte": _integer(minimum=0, maximum=255),
    "reason": _or_null(_text("Name of the status byte, e.g. `dns-unknown`.")),
}
_PAGE_REFERENCE: dict[str, _Schema] = {
    "page_id": _integer(),
    "title": _TEXT,
    "namespace": _integer(),
    "address": _or_null(_TEXT),
}
_LINK: dict[str, _Schema] = {
    "url": _text("Normal form; for an invalid URL, the text."),
    "spelling": _text(
        "Spelling on the page as parsed by a browser, without the fragment."
        " Without a page, the normal form."
    ),
    "state": _STATE,
    "group": _one_of(Group),
    "words": _text("State and its first day, e.g. “Dead since 21 May 2026”."),
    **_ANSWERED,
    "mapped_http": _or_null(
        _integer("HTTP status for the result, assigned if there was no response (W55).")
    ),
    "since": _or_null(_ref("Time")),
    "checked": _or_null(_ref("Time")),
    "failures": _COUNT,
    **_texts("cause?", "evidence?", "leads_to?", "mime?"),
    "kib": _or_null(_COUNT),
    "history": _list(_ref("Run")),
    "hints": _list(_object({"kind": _one_of(LinkHint), "value": _or_null(_TEXT), "words": _TEXT})),
    "copies": _list(_object(_texts("service", "name", "address?", "timestamp?"))),
    "own_copy": _or_null(_text("The copy in this archive.")),
    "reports": _integer("Number of readers who report it as reachable.", minimum=0),
    "replacement": _or_null(_text("Replacement URL, tested.")),
    "spam": _list(_object({"list": _TEXT, "line": _integer()})),
}
_CACHED_LINK: dict[str, _Schema] = {
    "url": _text("As received."),
    "spelling": _or_null(_text("Spelling on the page, if the link state is disclosed.")),
    "answer": _one_of(CopyState),
    "href": _or_null(_text("The reader page to link to.")),
    "copy": _or_null(_text("The copy itself (URI-M).")),
    "date": _or_null(_pattern(_MOMENT, "Time of the capture.")),
    "service": _or_null(_text("The other archive that has the copy.")),
    "state": _or_null(_STATE),
    "group": _one_of(Group),
    "is_dead": _BOOLEAN,
    "mime": _or_null(_text("Kind of file, if it is not a web page, e.g. `pdf`.")),
    "kib": _or_null(_integer("Length of that file in KiB.", minimum=0)),
    "words": _text("Description of link and copy for readers."),
    "label": _text("Label to show next to the link."),
    "is_new": _described(_BOOLEAN, "Nothing is known yet; it may be queued soon."),
    "next_at": _or_null(_pattern(_MOMENT, "Queued: time before which no attempt is made.")),
    "checked": _or_null(_pattern(_DAY, "Day of the last check of the link.")),
}
_SCHEMAS: dict[str, _Schema] = {
    "Time": _object(
        {"date": _DATE, **_texts("ago", "lasting")},
        "A day, and the time since then in words, in the language of the answer.",
    ),
    "Run": _object(
        {**_ANSWERED, "first": _DATE, "last": _DATE},
        "Period in which all checks had the same result.",
    ),
    "Link": _object(_LINK, required=["url"]),  # `fields` leaves out the rest
    "Page": _object(
        {
            "page_id": _or_null(_integer()),
            "namespace": _or_null(_integer()),
            **_texts("title?", "address?"),
            "is_observed": _BOOLEAN,
            "request": _or_null(_REQUEST),
            "note": _or_null(_NOTE),
            "revision": _or_null(_REVISION),
            "is_current": _or_null(_described(_BOOLEAN, "True if it equals `revid`.")),
            "links_read": _or_null(_ref("Time")),
            "links_total": _COUNT,
            "links": _list(_ref("Link")),
        },
        "A requested page, in request order. Links added after `links_read` are missing.",
    ),
    "Answer": _object(
        {"wiki": _TEXT, "scope": _one_of(LinkScope), "as_of": _DATE, "pages": _list(_ref("Page"))}
    ),
    "Problems": _object({"wiki": _TEXT, "problems": _list(_ref("Link"))}),
    "Links": _object(
        {**_texts("wiki", "after?"), "as_of": _DATE, "links": _list(_ref("LinkOfPage"))}
    ),
    "Normal": _object({"urls": _list(_object(_texts("given", "url?", "fault?")))}),
    "Excluded": _object(
        {
            **_texts("wiki", "pattern", "entry?", "reason?"),
            "excluded": _BOOLEAN,
            "entries": _list(_TEXT),
        }
    ),
    "List": _object(
        {
            "wiki": _TEXT,
            "with": _one_of(WikiListKind),
            "is_observed": _BOOLEAN,
            "pages": _list(_object({**_PAGE_REFERENCE, "links_found": _COUNT})),
            "after": _or_null(_integer()),
            "is_whole": _BOOLEAN,
        }
    ),
    "Problem": _object(
        {**_texts("type", "title", "detail"), "status": _integer()}, "Problem document (RFC 9457)."
    ),
    "LinkOfPage": _object(
        {"page": _object(_PAGE_REFERENCE), "page_has_it_since": _DATE, **_LINK},
        required=["page", "page_has_it_since", "url"],
    ),
    "CachedQuestion": {
        "type": "object",
        "properties": {
            "wiki": _or_null(
                _pattern(
                    f"({_WIKI_NAME})?", "The page's wiki; without it, no link state is disclosed."
                )
            ),
            "page_id": _or_null(
                _integer(
                    "The page that contains the links; link states are disclosed only for links on"
                    " it. Not needed by internal callers.",
                    minimum=0,
                    maximum=2**63 - 1,
                )
            ),
            "urls": _list(_TEXT, maxItems=MOST_URLS),
            "lang": _or_null(_pattern(r"([A-Za-z][A-Za-z0-9_\-]{0,34})?")),
        },
        "required": ["urls"],
    },
    "CachedAnswer": _object(
        {
            "wiki": _or_null(_TEXT),
            "fresh_s": _integer("Minimum time in seconds before the next request.", minimum=1),
            "is_whole": _described(
                _BOOLEAN, "False when a store could not be read; repeat the request."
            ),
            "page": _or_null(
                _object(
                    {
                        "is_observed": _BOOLEAN,
                        "links_read": _or_null(
                            _pattern(_DAY, "Day on which the registry read the page's links.")
                        ),
                        "revision": _or_null(_REVISION),
                        "request": _or_null(_REQUEST),
                        "note": _or_null(_NOTE),
                    },
                    "The requested page.",
                )
            ),
            "links": _list(_object(_CACHED_LINK)),
        }
    ),
}


def _parameter(name: str, description: str, schema: _Schema, *, needed: bool = False) -> _Schema:
    return {
        "name": name,
        "in": "query",
        "required": needed,
        "description": description,
        "schema": schema,
    }


def _choice(name: str, description: str, *values: str) -> _Schema:
    return _parameter(name, description, _text(enum=[*values, ""]))


_DBNAME = {
    **_parameter(
        *("dbname", "The wiki: `dbname@farm`; without a farm, WMF.", _pattern(_WIKI_NAME)),
        needed=True,
    ),
    "example": "dewiki@WMF",
}
_LANGUAGE = _parameter(
    "lang",
    "Language of the texts; by default, negotiated by Accept-Language.",
    _pattern("([A-Za-z]{2,3}([_\\-][A-Za-z0-9]{2,8}){0,3})?"),
)
_STATES = f"({'|'.join([*_STATE['enum'], *(group.value for group in Group)])})"
_FIELD = f"({'|'.join(sorted(LINK_FIELDS))})"
_FIELDS = _parameter(
    "fields",
    "Fields of each link, separated by commas; all by default.",
    _pattern(f"({_FIELD}(,{_FIELD}){{0,30}})?"),
)
_AFTER = "The value of `after` in the previous part."


def _pages(page_number: str) -> list[_Schema]:
    """Return the parameters that select pages, and those common to all answers about pages."""
    return [
        _DBNAME,
        _parameter(
            page_number,
            "Numbers of pages, with | or commas between them, or the parameter several times."
            f" {MOST_PAGES} pages at most.",
            _pattern(f"({_ID}([|,]{_ID}){{0,49}})?"),
        ),
        _parameter(
            "titles",
            "Names of pages, with | between them.",
            _text(maxLength=1_000, pattern="^[^\u0000-\u001f\u007f-\u009f]*$"),
        ),
        _choice("scope", "Links with findings, or all.", *(each.value for each in LinkScope)),
        _parameter(
            "revid",
            "For a single page, its current revision: `is_current` is true if the links were read"
            " from it; if not, the page is scheduled to be read again.",
            _pattern(f"({_ID})?"),
        ),
        _LANGUAGE,
        _FIELDS,
    ]


def _content(kind: str, schema: _Schema = _TEXT) -> _Schema:
    return {kind: {"schema": schema}}


def _json(name: str) -> _Schema:
    return _content("application/json", _ref(name))


def _answers(content: _Schema, text: str, problems: dict[str, str]) -> _Schema:
    problem = _content("application/problem+json", _ref("Problem"))
    made: _Schema = {
        "200": {"description": text, "content": content},
        **{code: {"description": each, "content": problem} for code, each in problems.items()},
    }
    made["429"]["headers"] = {"Retry-After": {"schema": _integer()}}
    return made


_PROBLEMS = {
    "400": "The request is invalid.",
    "404": "There is no link registry, or it does not know the wiki.",
    "429": "Too many requests; see Retry-After.",
    "503": "The registry cannot be read at the moment.",
}
_CACHED_PROBLEMS = {
    "400": _PROBLEMS["400"],
    "408": "The request did not arrive in time.",
    "413": "The request has more than 300,000 bytes.",
    "415": "The request has another content type.",
    "429": _PROBLEMS["429"],
}
# Address, name, summary, parameters and content of the answer.
_Route = tuple[str, str, str, list[_Schema], _Schema]
_ROUTES: tuple[_Route, ...] = (
    (
        "/links/api/page",
        "page",
        "Information about the links on pages of a wiki",
        [
            *_pages("curid"),
            _choice("format", "json by default.", "json", "xml", "html"),
            _choice(
                "ping",
                "1: record a request for the pages, so that their links are read again soon;"
                " the response is empty.",
                *("0", "1"),
            ),
        ],
        {**_json("Answer"), **_content("application/xml"), **_content("text/html")},
    ),
    (
        "/links/api/list",
        "list",
        "A wiki's pages with spam, unreachable or doubtful links, by page number",
        [
            _DBNAME,
            _parameter("with", "Which list.", _one_of(WikiListKind), needed=True),
            _parameter("after", _AFTER, _pattern(f"(0|{_ID})?")),
            _parameter(
                "domain",
                "Only links to that domain and its subdomains, optionally with a path prefix.",
                {
                    **_pattern("([a-z]{2,20}[.][a-z]{2,10}(/[a-z0-9/]{0,20})?)?"),
                    "example": "example.org/path",
                },
            ),
            _choice("format", "json by default.", "json", "xml"),
        ],
        {**_json("List"), **_content("application/xml")},
    ),
    (
        "/links/api/links",
        "links",
        "A wiki's links by state, each with a page that has it, or those that changed since a day",
        [
            _DBNAME,
            _parameter(
                "state",
                "States or groups, separated by commas; all by default.",
                _pattern(f"({_STATES}(,{_STATES}){{0,20}})?"),
            ),
            _parameter(
                "since",
                "Only links in their state, or on the page, since that day or later.",
                _pattern("(20[2-9][0-9]-0[1-9]-[01][1-9])?"),
            ),
            _parameter("after", _AFTER, _pattern("([0-9]{1,18}-[0-9]{1,18})?")),
            _FIELDS,
            _LANGUAGE,
        ],
        _json("Links"),
    ),
    (
        "/links/api/normalise",
        "normalise",
        "The normal form of URLs",
        [
            _parameter(
                *("url", "Up to 50.", _list(_text(minLength=1), minItems=1, maxItems=50)),
                needed=True,
            )
        ],
        _json("Normal"),
    ),
    (
        "/links/api/excluded",
        "excluded",
        "Exclusion of links that match a pattern from a wiki's link search, with the reason",
        [
            _DBNAME,
            _parameter(
                "pattern",
                "As for link search.",
                _pattern("([*][.])?[a-z]{2,20}[.][a-z]{2,10}(/[a-z]{0,9})?"),
                needed=True,
            ),
        ],
        _json("Excluded"),
    ),
    (
        "/links/api/source",
        "source",
        "Source code that generates the gadget script, in exactly this version",
        [],
        _content("text/plain"),
    ),
    (
        "/externalLinkProblem",
        "problem",
        "The presumably unreachable URLs of pages, as JavaScript that fires a hook of MediaWiki",
        [*_pages("pageid"), _choice("format", "js by default.", "js", "json")],
        {**_content("text/javascript"), **_json("Problems")},
    ),
    (
        "/externalLinkInfo",
        "info",
        "A page's links with findings, as HTML",
        [*_pages("pageid"), _choice("fragment", "1: the lists alone.", "0", "1")],
        _content("text/html"),
    ),
)


def description(origin: str) -> dict[str, Any]:
    """Return the OpenAPI document; `origin` is the server, empty when unknown."""
    paths: _Schema = {
        path: {
            "get": {
                "operationId": name,
                "summary": summary,
                "parameters": parameters,
                "responses": _answers(content, "The answer.", _PROBLEMS),
            }
        }
        for path, name, summary, parameters, content in _ROUTES
    }
    pinged = {"description": "The ping was recorded, or named no page."}
    paths["/links/api/page"]["get"]["responses"]["204"] = pinged
    source = paths["/links/api/source"]["get"]["responses"]
    del source["400"], source["404"], source["503"]
    paths[CACHED] = {
        "post": {
            "operationId": "cached",
            "summary": "Cached copies for the links of a page, and the crawl state of links"
            " without a copy",
            "requestBody": {"required": True, "content": _json("CachedQuestion")},
            "responses": _answers(
                _json("CachedAnswer"), "One entry for each URL, in request order.", _CACHED_PROBLEMS
            ),
        }
    }
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Weboid link registry",
            "version": "1",
            "description": "Information about the external links on pages of wikis. Read-only:"
            " requests cause no checks. For single URLs, only the existence of a copy is"
            " disclosed, and the link state if a page of the wiki contains them.",
            "license": {"name": "GPL-3.0-or-later", "identifier": "GPL-3.0-or-later"},
        },
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }
    if origin:
        made["servers"] = [{"url": origin}]
    return made
