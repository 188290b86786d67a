"""OpenAPI 3.1 description of the registry API."""

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
_TEXT: _Schema = {"type": "string"}
_ADDRESS: _Schema = {"type": ["string", "null"]}
_WIKI = r"^([A-Za-z0-9][A-Za-z0-9_.:\-]{0,63}(@[A-Za-z0-9][A-Za-z0-9_.\-]{0,39})?)?$"
_CACHED_LANGUAGE = r"^([A-Za-z][A-Za-z0-9_\-]{0,34})?$"
_LINK: dict[str, _Schema] = {
    "url": {**_TEXT, "description": "As received."},
    "spelling": {
        **_ADDRESS,
        "description": "Spelling on the page, if the link state is disclosed.",
    },
    "answer": {"type": "string", "enum": [each.value for each in CopyState]},
    "href": {**_ADDRESS, "description": "The reader page to link to."},
    "copy": {**_ADDRESS, "description": "The copy itself (URI-M)."},
    "date": {
        "type": ["string", "null"],
        "description": "Time of the capture.",
        "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$",
    },
    "service": {**_ADDRESS, "description": "The other archive that has the copy."},
    "state": {"type": ["string", "null"], "enum": [*(s.name.lower() for s in LinkState), None]},
    "group": {"type": "string", "enum": [each.value for each in Group]},
    "is_dead": {"type": "boolean"},
    "mime": {**_ADDRESS, "description": "Kind of file, if it is not a web page, e.g. `pdf`."},
    "kib": {
        "type": ["integer", "null"],
        "minimum": 0,
        "description": "Length of that file in KiB.",
    },
    "words": {**_TEXT, "description": "Description of link and copy for readers."},
    "label": {**_TEXT, "description": "Label to show next to the link."},
    "is_new": {"type": "boolean", "description": "Nothing is known yet; it may be queued soon."},
    "next_at": {
        "type": ["string", "null"],
        "description": "Queued: time before which no attempt is made.",
        "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$",
    },
    "checked": {
        "type": ["string", "null"],
        "description": "Day of the last check of the link.",
        "pattern": r"^\d{4}-\d\d-\d\d$",
    },
}
_PAGE: dict[str, _Schema] = {
    "is_observed": {"type": "boolean"},
    "links_read": {
        "type": ["string", "null"],
        "description": "Day on which the registry read the page's links.",
        "pattern": r"^\d{4}-\d\d-\d\d$",
    },
    "revision": {"type": ["integer", "null"], "description": "Revision the links were read from."},
    "request": {
        "type": ["string", "null"],
        "enum": [*(state.value for state in RequestState), None],
        "description": "For a page that is not observed: state of the request to read it.",
    },
    "note": {"type": ["string", "null"], "description": "The same in words."},
}
CACHED_SCHEMAS: dict[str, _Schema] = {
    "CachedQuestion": {
        "type": "object",
        "properties": {
            "wiki": {
                "type": ["string", "null"],
                "pattern": _WIKI,
                "description": "The page's wiki; without it, no link state is disclosed.",
            },
            "page_id": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": 2**63 - 1,
                "description": "The page that contains the links; link states are disclosed only for links on"
                " it. Not needed by internal callers.",
            },
            "urls": {"type": "array", "items": _TEXT, "maxItems": MOST_URLS},
            "lang": {"type": ["string", "null"], "pattern": _CACHED_LANGUAGE},
        },
        "required": ["urls"],
    },
    "CachedAnswer": {
        "type": "object",
        "properties": {
            "wiki": {"type": ["string", "null"]},
            "fresh_s": {
                "type": "integer",
                "minimum": 1,
                "description": "Minimum time in seconds before the next request.",
            },
            "is_whole": {
                "type": "boolean",
                "description": "False when a store could not be read; repeat the request.",
            },
            "page": {
                "type": ["object", "null"],
                "properties": _PAGE,
                "required": list(_PAGE),
                "additionalProperties": False,
                "description": "The requested page.",
            },
            "links": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": _LINK,
                    "required": list(_LINK),
                    "additionalProperties": False,
                },
            },
        },
        "required": ["wiki", "fresh_s", "is_whole", "page", "links"],
        "additionalProperties": False,
    },
}
_PROBLEMS = {
    "400": "The request is invalid.",
    "408": "The request did not arrive in time.",
    "413": "The request has more than 300,000 bytes.",
    "415": "The request has another content type.",
    "429": "Too many requests; see Retry-After.",
}


def cached_path() -> _Schema:
    """Return the description of ``/links/api/cached``."""
    question = {"schema": {"$ref": "#/components/schemas/CachedQuestion"}}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses: _Schema = {
        "200": {
            "description": "One entry for each URL, in request order.",
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/CachedAnswer"}}
            },
        },
        **{code: {"description": text, "content": problem} for code, text in _PROBLEMS.items()},
    }
    responses["429"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return {
        "post": {
            "operationId": "cached",
            "summary": "Cached copies for the links of a page, and the crawl state of links"
            " without a copy",
            "requestBody": {"required": True, "content": {"application/json": question}},
            "responses": responses,
        }
    }


_COUNT: _Schema = {"type": "integer", "minimum": 0}
_DATE: _Schema = {"type": "string", "format": "date"}


def _or_null(schema: _Schema) -> _Schema:
    kind = schema.get("type")
    if isinstance(kind, str):
        return {**schema, "type": [kind, "null"]}
    return {"oneOf": [schema, {"type": "null"}]}


def _object(properties: dict[str, _Schema], description: str = "") -> _Schema:
    made: _Schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {**made, "description": description} if description else made


def _list(schema: _Schema) -> _Schema:
    return {"type": "array", "items": schema}


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _one_of(values: list[str]) -> _Schema:
    return {"type": "string", "enum": values}


def _choice(values: list[str]) -> _Schema:
    """Return the schema of an optional parameter with these values."""
    return _one_of([*values, ""])


_ANSWERED: dict[str, _Schema] = {
    "http": _or_null({"type": "integer", "description": "HTTP status of the server."}),
    "status_byte": {"type": "integer", "minimum": 0, "maximum": 255},
    "reason": _or_null({**_TEXT, "description": "Name of the status byte, e.g. `dns-unknown`."}),
}
_ID = "[1-9][0-9]{0,17}"
_SCHEMAS: dict[str, _Schema] = {
    "Time": _object(
        {"date": _DATE, "ago": _TEXT, "lasting": _TEXT},
        "A day, and the time since then in words, in the language of the answer.",
    ),
    "Run": _object(
        {
            **_ANSWERED,
            "first": _DATE,
            "last": _DATE,
        },
        "Period in which all checks had the same result.",
    ),
    "Link": _object(
        {
            "url": {**_TEXT, "description": "Normal form; for an invalid URL, the text."},
            "spelling": {
                **_TEXT,
                "description": "Spelling on the page as parsed by a browser, without the fragment."
                " Without a page, the normal form.",
            },
            "state": _one_of([state.name.lower() for state in LinkState]),
            "group": _one_of([group.value for group in Group]),
            "words": {**_TEXT, "description": "State and duration, e.g. “Dead for six months”."},
            **_ANSWERED,
            "mapped_http": _or_null(
                {
                    "type": "integer",
                    "description": "HTTP status for the result, assigned if there was no response (W55).",
                }
            ),
            "since": _or_null(_ref("Time")),
            "checked": _or_null(_ref("Time")),
            "failures": _COUNT,
            "cause": _or_null(_TEXT),
            "evidence": _or_null(_TEXT),
            "leads_to": _or_null(_TEXT),
            "mime": _or_null(_TEXT),
            "kib": _or_null(_COUNT),
            "history": _list(_ref("Run")),
            "hints": _list(
                _object(
                    {
                        "kind": _one_of([hint.value for hint in LinkHint]),
                        "value": _or_null(_TEXT),
                        "words": _TEXT,
                    }
                )
            ),
            "copies": _list(
                _object(
                    {
                        "service": _TEXT,
                        "name": _TEXT,
                        "address": _or_null(_TEXT),
                        "timestamp": _or_null(_TEXT),
                    }
                )
            ),
            "own_copy": _or_null({**_TEXT, "description": "The copy in this archive."}),
            "reports": {**_COUNT, "description": "Number of readers who report it as reachable."},
            "replacement": _or_null({**_TEXT, "description": "Replacement URL, tested."}),
            "spam": _list(_object({"list": _TEXT, "line": {"type": "integer"}})),
        }
    ),
    "Page": _object(
        {
            "page_id": _or_null({"type": "integer"}),
            "title": _or_null(_TEXT),
            "namespace": _or_null({"type": "integer"}),
            "address": _or_null(_TEXT),
            "is_observed": {"type": "boolean"},
            "request": _or_null(
                {
                    **_one_of([state.value for state in RequestState]),
                    "description": "For a page that is not observed: state of the request to read"
                    " it.",
                }
            ),
            "note": _or_null({**_TEXT, "description": "The same in words."}),
            "revision": _or_null(
                {"type": "integer", "description": "Revision the links were read from."}
            ),
            "is_current": _or_null(
                {"type": "boolean", "description": "True if it equals `revid`."}
            ),
            "links_read": _or_null(_ref("Time")),
            "links_total": _COUNT,
            "links": _list(_ref("Link")),
        },
        "A requested page, in request order. Links added after `links_read` are missing.",
    ),
    "Answer": _object(
        {
            "wiki": _TEXT,
            "scope": _one_of([scope.value for scope in LinkScope]),
            "as_of": _DATE,
            "pages": _list(_ref("Page")),
        }
    ),
    "Problems": _object({"wiki": _TEXT, "problems": _list(_ref("Link"))}),
    "Links": _object(
        {
            "wiki": _TEXT,
            "as_of": _DATE,
            "links": _list(_ref("LinkOfPage")),
            "after": _or_null(_TEXT),
        }
    ),
    "Normal": _object(
        {"urls": _list(_object({"given": _TEXT, "url": _or_null(_TEXT), "fault": _or_null(_TEXT)}))}
    ),
    "Excluded": _object(
        {
            "wiki": _TEXT,
            "pattern": _TEXT,
            "excluded": {"type": "boolean"},
            "entry": _or_null(_TEXT),
            "entries": _list(_TEXT),
            "reason": _or_null(_TEXT),
        }
    ),
    "List": _object(
        {
            "wiki": _TEXT,
            "with": _one_of([kind.value for kind in WikiListKind]),
            "is_observed": {"type": "boolean"},
            "pages": _list(
                _object(
                    {
                        "page_id": {"type": "integer"},
                        "title": _TEXT,
                        "namespace": {"type": "integer"},
                        "address": _or_null(_TEXT),
                        "links_found": _COUNT,
                    }
                )
            ),
            "after": _or_null({"type": "integer"}),
            "is_whole": {"type": "boolean"},
        }
    ),
    "Problem": _object(
        {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT},
        "Problem document (RFC 9457).",
    ),
}

_SCHEMAS["Link"]["required"] = ["url"]  # `fields` leaves out the rest
_SCHEMAS["LinkOfPage"] = {
    **_object(
        {
            "page": _object(
                {
                    "page_id": {"type": "integer"},
                    "title": _TEXT,
                    "namespace": {"type": "integer"},
                    "address": _or_null(_TEXT),
                }
            ),
            "page_has_it_since": _DATE,
            **_SCHEMAS["Link"]["properties"],
        }
    ),
    "required": ["page", "page_has_it_since", "url"],
}

_DBNAME = {
    "name": "dbname",
    "in": "query",
    "required": True,
    "description": "The wiki: `dbname@farm`; without a farm, WMF.",
    "schema": {
        "type": "string",
        "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.:\-]{0,63}(@[A-Za-z0-9][A-Za-z0-9_.\-]{0,39})?$",
    },
    "example": "dewiki@WMF",
}


def _parameter(name: str, schema: _Schema, description: str, *, needed: bool = False) -> _Schema:
    return {
        "name": name,
        "in": "query",
        "required": needed,
        "description": description,
        "schema": schema,
    }


_LANGUAGE = _parameter(
    "lang",
    {"type": "string", "pattern": "^([A-Za-z]{2,3}([_\\-][A-Za-z0-9]{2,8}){0,3})?$"},
    "Language of the texts; by default, negotiated by Accept-Language.",
)
_STATE = f"({'|'.join([*(s.name.lower() for s in LinkState), *(g.value for g in Group)])})"
_FIELD = f"({'|'.join(sorted(LINK_FIELDS))})"
_FIELDS = _parameter(
    "fields",
    {"type": "string", "pattern": f"^({_FIELD}(,{_FIELD}){{0,30}})?$"},
    "Fields of each link, separated by commas; all by default.",
)


def _pages(*names: str) -> list[_Schema]:
    """Return the parameters that select pages, and those common to all answers about pages."""
    ids = "Numbers of pages, with | or commas between them, or the parameter several times."
    number = {"type": "string", "pattern": f"^({_ID}([|,]{_ID}){{0,49}})?$"}
    title = {"type": "string", "maxLength": 1_000, "pattern": "^[^\u0000-\u001f\u007f-\u009f]*$"}
    return [
        _DBNAME,
        *(_parameter(name, number, f"{ids} {MOST_PAGES} pages at most.") for name in names),
        _parameter("titles", title, "Names of pages, with | between them."),
        _parameter(
            "scope", _choice([scope.value for scope in LinkScope]), "Links with findings, or all."
        ),
        _parameter(
            "revid",
            {"type": "string", "pattern": f"^({_ID})?$"},
            "For a single page, its current revision: `is_current` is true if the links were read"
            " from it; if not, the page is scheduled to be read again.",
        ),
        _LANGUAGE,
        _FIELDS,
    ]


def _content(kind: str, schema: _Schema | None = None) -> _Schema:
    return {kind: {"schema": schema or {"type": "string"}}}


_ERRORS = {
    status: {"description": text, "content": _content("application/problem+json", _ref("Problem"))}
    for status, text in (
        ("400", "The request is invalid."),
        ("404", "There is no link registry, or it does not know the wiki."),
        ("429", "Too many requests; see Retry-After."),
        ("503", "The registry cannot be read at the moment."),
    )
}
_ERRORS["429"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}


def _get(name: str, summary: str, parameters: list[_Schema], answers: _Schema) -> _Schema:
    responses = {"200": {"description": "The answer.", "content": answers}, **_ERRORS}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "parameters": parameters,
            "responses": responses,
        }
    }


def description(origin: str) -> dict[str, Any]:
    """Return the OpenAPI document; `origin` is the server, empty when unknown."""
    page = _get(
        "page",
        "Information about the links on pages of a wiki",
        [
            *_pages("curid"),
            _parameter("format", _choice(["json", "xml", "html"]), "json by default."),
            _parameter(
                "ping",
                _choice(["0", "1"]),
                "1: record a request for the pages, so that their links are read again soon;"
                " the response is empty.",
            ),
        ],
        {
            **_content("application/json", _ref("Answer")),
            **_content("application/xml"),
            **_content("text/html"),
        },
    )
    page["get"]["responses"]["204"] = {"description": "The ping was recorded, or named no page."}
    listed = _get(
        "list",
        "A wiki's pages with spam, unreachable or doubtful links, by page number",
        [
            _DBNAME,
            _parameter(
                "with", _one_of([kind.value for kind in WikiListKind]), "Which list.", needed=True
            ),
            _parameter(
                "after",
                {"type": "string", "pattern": f"^(0|{_ID})?$"},
                "The value of `after` in the previous part.",
            ),
            _parameter(
                "domain",
                {
                    "type": "string",
                    "pattern": "^([a-z]{2,20}[.][a-z]{2,10}(/[a-z0-9/]{0,20})?)?$",
                    "example": "example.org/path",
                },
                "Only links to that domain and its subdomains, optionally with a path prefix.",
            ),
            _parameter("format", _choice(["json", "xml"]), "json by default."),
        ],
        {**_content("application/json", _ref("List")), **_content("application/xml")},
    )
    problem = _get(
        "problem",
        "The presumably unreachable URLs of pages, as JavaScript that fires a hook of MediaWiki",
        [
            *_pages("pageid"),
            _parameter("format", _choice(["js", "json"]), "js by default."),
        ],
        {
            **_content("text/javascript"),
            **_content("application/json", _ref("Problems")),
        },
    )
    info = _get(
        "info",
        "A page's links with findings, as HTML",
        [*_pages("pageid"), _parameter("fragment", _choice(["0", "1"]), "1: the lists alone.")],
        _content("text/html"),
    )
    links = _get(
        "links",
        "A wiki's links by state, each with a page that has it, or those that changed since a day",
        [
            _DBNAME,
            _parameter(
                "state",
                {"type": "string", "pattern": f"^({_STATE}(,{_STATE}){{0,20}})?$"},
                "States or groups, separated by commas; all by default.",
            ),
            _parameter(
                "since",
                {"type": "string", "pattern": "^(20[2-9][0-9]-0[1-9]-[01][1-9])?$"},
                "Only links in their state, or on the page, since that day or later.",
            ),
            _parameter(
                "after",
                {"type": "string", "pattern": "^([0-9]{1,18}-[0-9]{1,18})?$"},
                "The value of `after` in the previous part.",
            ),
            _FIELDS,
            _LANGUAGE,
        ],
        _content("application/json", _ref("Links")),
    )
    normal = _get(
        "normalise",
        "The normal form of URLs",
        [
            {
                **_parameter("url", _list({**_TEXT, "minLength": 1}), "Up to 50.", needed=True),
                "schema": {**_list({**_TEXT, "minLength": 1}), "minItems": 1, "maxItems": 50},
            }
        ],
        _content("application/json", _ref("Normal")),
    )
    excluded = _get(
        "excluded",
        "Exclusion of links that match a pattern from a wiki's link search, with the reason",
        [
            _DBNAME,
            _parameter(
                "pattern",
                {"type": "string", "pattern": "^([*][.])?[a-z]{2,20}[.][a-z]{2,10}(/[a-z]{0,9})?$"},
                "As for link search.",
                needed=True,
            ),
        ],
        _content("application/json", _ref("Excluded")),
    )
    source = _get(
        "source",
        "Source code that generates the gadget script, in exactly this version",
        [],
        _content("text/plain"),
    )
    source["get"]["responses"] = {
        status: source["get"]["responses"][status] for status in ("200", "429")
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
        "paths": {
            "/links/api/page": page,
            "/links/api/list": listed,
            "/links/api/links": links,
            "/links/api/normalise": normal,
            "/links/api/excluded": excluded,
            "/links/api/source": source,
            "/externalLinkProblem": problem,
            "/externalLinkInfo": info,
        },
        "components": {"schemas": {**_SCHEMAS, **CACHED_SCHEMAS}},
    }
    made["paths"][CACHED] = cached_path()
    if origin:
        made["servers"] = [{"url": origin}]
    return made
