"""What the registry's addresses for programs are, as OpenAPI 3.1; the tests hold the code to it."""

from typing import Any

from links.states import State
from playback.front.registry.answers import Group, Hint, ListKind, Scope
from playback.front.registry.asking import MOST_PAGES
from playback.front.registry.cached.describing import CACHED, CACHED_SCHEMAS, cached_path

_Schema = dict[str, Any]

_TEXT: _Schema = {"type": "string"}
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
    """One of the values of a parameter, or nothing for the default."""
    return _one_of([*values, ""])


_ID = "[1-9][0-9]{0,17}"
_SCHEMAS: dict[str, _Schema] = {
    "Time": _object(
        {"date": _DATE, "ago": _TEXT, "lasting": _TEXT},
        "A day, and how long ago it is in words, in the language of the answer.",
    ),
    "Run": _object(
        {
            "code": {"type": "integer", "minimum": 0, "maximum": 255},
            "http": _or_null({"type": "integer"}),
            "first": _DATE,
            "last": _DATE,
        },
        "Days between which every check gave the same.",
    ),
    "Link": _object(
        {
            "url": {**_TEXT, "description": "Its normal form; of what is no URL, the text."},
            "state": _one_of([state.name.lower() for state in State]),
            "group": _one_of([group.value for group in Group]),
            "words": {**_TEXT, "description": "State and time, e.g. “Dead for six months”."},
            "code": {"type": "integer", "minimum": 0, "maximum": 255},
            "http": _or_null({"type": "integer"}),
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
                        "kind": _one_of([hint.value for hint in Hint]),
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
            "reports": {**_COUNT, "description": "Readers who say that they reach it."},
            "replacement": _or_null({**_TEXT, "description": "Another URL, tested to answer."}),
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
            "links_read": _or_null(_ref("Time")),
            "links_total": _COUNT,
            "links": _list(_ref("Link")),
        },
        "A page that was asked for, in the order of the question. Links that were added to it after"
        " `links_read` are missing.",
    ),
    "Answer": _object(
        {
            "wiki": _TEXT,
            "scope": _one_of([scope.value for scope in Scope]),
            "as_of": _DATE,
            "pages": _list(_ref("Page")),
        }
    ),
    "Problems": _object(
        {
            "wiki": _TEXT,
            "problems": _list(
                _object(
                    {
                        "url": _TEXT,
                        "state": _one_of([state.name.lower() for state in State]),
                        "http": _or_null({"type": "integer"}),
                        "words": _TEXT,
                        "cause": _or_null(_TEXT),
                        "copies": _list(_TEXT),
                        "replacement": _or_null(_TEXT),
                    }
                )
            ),
        }
    ),
    "List": _object(
        {
            "wiki": _TEXT,
            "with": _one_of([kind.value for kind in ListKind]),
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
        "What went wrong (RFC 9457).",
    ),
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


def _pages(*names: str) -> list[_Schema]:
    """The parameters that name pages, and those that all answers about pages have."""
    ids = "Numbers of pages, with | or commas between them, or the parameter several times."
    number = {"type": "string", "pattern": f"^({_ID}([|,]{_ID}){{0,49}})?$"}
    title = {"type": "string", "maxLength": 1_000, "pattern": "^[^\u0000-\u001f\u007f-\u009f]*$"}
    return [
        _DBNAME,
        *(_parameter(name, number, f"{ids} {MOST_PAGES} pages at most.") for name in names),
        _parameter("titles", title, "Names of pages, with | between them."),
        _parameter(
            "scope", _choice([scope.value for scope in Scope]), "Links with findings, or all."
        ),
        _parameter(
            "lang",
            {"type": "string", "pattern": "^([A-Za-z]{2,3}([_\\-][A-Za-z0-9]{2,8}){0,3})?$"},
            "Language of the words; without, what Accept-Language asks for.",
        ),
    ]


def _content(kind: str, schema: _Schema | None = None) -> _Schema:
    return {kind: {"schema": schema or {"type": "string"}}}


_ERRORS = {
    status: {"description": text, "content": _content("application/problem+json", _ref("Problem"))}
    for status, text in (
        ("400", "The question cannot be understood."),
        ("404", "There is no link registry."),
        ("429", "Too many questions; Retry-After says how long to wait."),
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
    """The whole description; `origin` is where it is served, empty when that is unknown."""
    page = _get(
        "page",
        "What is known of the links on pages of a wiki",
        [
            *_pages("curid"),
            _parameter("format", _choice(["json", "xml", "html"]), "json by default."),
            _parameter(
                "ping",
                _choice(["0", "1"]),
                "1: note that the pages are asked for, so that their links are read again soon;"
                " nothing is answered.",
            ),
        ],
        {
            **_content("application/json", _ref("Answer")),
            **_content("application/xml"),
            **_content("text/html"),
        },
    )
    page["get"]["responses"]["204"] = {"description": "The ping was noted, or was about no page."}
    listed = _get(
        "list",
        "A wiki's pages with spam, with unreachable or with doubtful links, in the order of their numbers",
        [
            _DBNAME,
            _parameter(
                "with", _one_of([kind.value for kind in ListKind]), "Which list.", needed=True
            ),
            _parameter(
                "after",
                {"type": "string", "pattern": f"^(0|{_ID})?$"},
                "What the part before gave as `after`.",
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
        "A page's links with findings, as HTML for people",
        [*_pages("pageid"), _parameter("fragment", _choice(["0", "1"]), "1: the lists alone.")],
        _content("text/html"),
    )
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Weboid link registry",
            "version": "1",
            "description": "What is known of the external links on the pages of wikis. Reading only:"
            " nothing is looked at because somebody asks, and of single URLs programs learn only"
            " whether there is a copy, and how they are doing where a page of the wiki has them.",
            "license": {"name": "GPL-3.0-or-later", "identifier": "GPL-3.0-or-later"},
        },
        "paths": {
            "/links/api/page": page,
            "/links/api/list": listed,
            "/externalLinkProblem": problem,
            "/externalLinkInfo": info,
        },
        "components": {"schemas": {**_SCHEMAS, **CACHED_SCHEMAS}},
    }
    made["paths"][CACHED] = cached_path()
    if origin:
        made["servers"] = [{"url": origin}]
    return made
