"""`POST /links/api/cached` as OpenAPI 3.1 describes it; the tests hold the code to it."""

from typing import Any

from links.books.asked_pages import RequestState
from links.states import State
from playback.front.registry.answers import Group
from playback.front.registry.cached.asking import MOST_URLS
from playback.front.registry.cached.saying import Told

_Schema = dict[str, Any]

CACHED = "/links/api/cached"
_TEXT: _Schema = {"type": "string"}
_ADDRESS: _Schema = {"type": ["string", "null"]}
_WIKI = r"^([A-Za-z0-9][A-Za-z0-9_.:\-]{0,63}(@[A-Za-z0-9][A-Za-z0-9_.\-]{0,39})?)?$"
_LANGUAGE = r"^([A-Za-z][A-Za-z0-9_\-]{0,34})?$"
_LINK: dict[str, _Schema] = {
    "url": {**_TEXT, "description": "As it was sent."},
    "spelling": {
        **_ADDRESS,
        "description": "As the page has it, where the registry tells how the link is doing.",
    },
    "answer": {"type": "string", "enum": [each.value for each in Told]},
    "href": {**_ADDRESS, "description": "The page to lead a reader to."},
    "copy": {**_ADDRESS, "description": "The copy itself (URI-M)."},
    "date": {
        "type": ["string", "null"],
        "description": "When it was made.",
        "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$",
    },
    "service": {**_ADDRESS, "description": "The other archive that has the copy."},
    "state": {"type": ["string", "null"], "enum": [*(s.name.lower() for s in State), None]},
    "group": {"type": "string", "enum": [each.value for each in Group]},
    "is_dead": {"type": "boolean"},
    "mime": {**_ADDRESS, "description": "What is no web page: its kind, e.g. `pdf`."},
    "kib": {"type": ["integer", "null"], "minimum": 0, "description": "That file's length."},
    "words": {**_TEXT, "description": "For people: of the link, and of its copy."},
    "label": {**_TEXT, "description": "A word to stand beside the link."},
    "is_new": {"type": "boolean", "description": "Nothing is known; it may soon be queued."},
    "next_at": {
        "type": ["string", "null"],
        "description": "Queued: no attempt is made before.",
        "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$",
    },
    "checked": {
        "type": ["string", "null"],
        "description": "When the link was last looked at.",
        "pattern": r"^\d{4}-\d\d-\d\d$",
    },
}
_PAGE: dict[str, _Schema] = {
    "is_observed": {"type": "boolean"},
    "links_read": {
        "type": ["string", "null"],
        "description": "The day on which the registry read its links.",
        "pattern": r"^\d{4}-\d\d-\d\d$",
    },
    "revision": {"type": ["integer", "null"], "description": "That they were read from."},
    "request": {
        "type": ["string", "null"],
        "enum": [*(state.value for state in RequestState), None],
        "description": "Of a page that is not observed: what becomes of the request to read it.",
    },
    "note": {"type": ["string", "null"], "description": "The same for people."},
}
CACHED_SCHEMAS: dict[str, _Schema] = {
    "CachedQuestion": {
        "type": "object",
        "properties": {
            "wiki": {
                "type": ["string", "null"],
                "pattern": _WIKI,
                "description": "Whose page it is; without one, of no link it is told how it is doing.",
            },
            "page_id": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": 2**63 - 1,
                "description": "The page that has the links; only of links that it has it is told how"
                " they are doing. Internal callers need none.",
            },
            "urls": {"type": "array", "items": _TEXT, "maxItems": MOST_URLS},
            "lang": {"type": ["string", "null"], "pattern": _LANGUAGE},
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
                "description": "Ask again no sooner than after so many seconds.",
            },
            "is_whole": {
                "type": "boolean",
                "description": "False when a store could not be read: ask again.",
            },
            "page": {
                "type": ["object", "null"],
                "properties": _PAGE,
                "required": list(_PAGE),
                "additionalProperties": False,
                "description": "The page that the question names.",
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
    "400": "The question cannot be understood.",
    "408": "The question did not arrive in time.",
    "413": "The question has more than 300,000 bytes.",
    "415": "The question is of another type.",
    "429": "Too many questions; Retry-After says how long to wait.",
}


def cached_path() -> _Schema:
    """The address, described."""
    question = {"schema": {"$ref": "#/components/schemas/CachedQuestion"}}
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses: _Schema = {
        "200": {
            "description": "One answer for each URL, in the order of the question.",
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
            "summary": "What stands beside the links of a page: cached copies, and what becomes of"
            " links that have none",
            "requestBody": {"required": True, "content": {"application/json": question}},
            "responses": responses,
        }
    }
