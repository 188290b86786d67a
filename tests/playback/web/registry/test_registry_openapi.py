"""The description of the registry's addresses, held to what they do (OpenAPI 3.1)."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from core.errors import InputError
from core.layout import Layout
from links.feedback.reports import RequestState
from links.states import LinkState
from playback.web.cached_links.cached_answer import CopyState
from playback.web.cached_links.cached_request import MOST_URLS
from playback.web.rate_limits import RateLimitPolicy, ReaderRates, TokenRate
from playback.web.registry.registry_api import api_description
from playback.web.registry.registry_forms import parse_pattern
from playback.web.registry.registry_values import LINK_FIELDS, Group, LinkHint, LinkScope, WikiListKind
from tests.support.examples import examples
from tests.support.registry_builder import FixedRegistry, RegistryBuilder, open_front
from tests.support.services.registries import open_registry

pytestmark = pytest.mark.slow  # servers of its own: seconds, not milliseconds

PATH = "/links/api/openapi.json"
# A body at fault may be too large besides.
JUDGED = {"checks": {"negative_data_rejection": {"expected-statuses": [400, 404, 405, 413, 415, 429, 503]}}}
MANY = ReaderRates(TokenRate(1e6, 1e6), TokenRate(1e6, 1e6), TokenRate(1e6, 1e6))


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield the OpenAPI description as the real application serves it."""
    root: Path = tmp_path_factory.mktemp("described")
    opened = open_registry(Layout(root))
    registry_builder = RegistryBuilder(opened, root)
    registry_builder.fill_richly()
    with open_front(root, FixedRegistry(opened), access=RateLimitPolicy(rates=MANY), origin=None) as front:
        yield schemathesis.openapi.from_asgi(PATH, front.app, config=schemathesis.Config.from_dict(JUDGED))
    opened.close()


SCHEMAS = api_description()["components"]["schemas"]
LINK = SCHEMAS["Link"]["properties"]
CACHED = SCHEMAS["CachedAnswer"]["properties"]["links"]["items"]["properties"]
LISTS = {
    "state": (LINK["state"], [state.name.lower() for state in LinkState]),
    "group": (LINK["group"], [*Group]),
    "hint": (LINK["hints"]["items"]["properties"]["kind"], [*LinkHint]),
    "scope": (SCHEMAS["Answer"]["properties"]["scope"], [*LinkScope]),
    "list": (SCHEMAS["List"]["properties"]["with"], [*WikiListKind]),
    "request": (SCHEMAS["Page"]["properties"]["request"], [*RequestState, None]),
    "copy": (CACHED["answer"], [*CopyState]),
    "state of a cached link": (CACHED["state"], [*LINK["state"]["enum"], None]),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_values_is_that_of_the_code(name: str) -> None:
    """A value that is new in the code has to be described."""
    schema, values = LISTS[name]
    assert schema["enum"] == values


def test_limits_and_link_fields_are_those_of_the_code() -> None:
    """The description is data; what the API checks is not made from it."""
    parameters = {
        each["name"]: each["schema"] for each in api_description()["paths"]["/links/api/links"]["get"]["parameters"]
    }
    every = ",".join(sorted(LINK_FIELDS))
    states = ",".join([*LINK["state"]["enum"], *Group])

    assert set(LINK) == LINK_FIELDS
    assert re.fullmatch(parameters["fields"]["pattern"], every)
    assert re.fullmatch(parameters["state"]["pattern"], states)
    assert SCHEMAS["CachedQuestion"]["properties"]["urls"]["maxItems"] == MOST_URLS


PATHS = [(path, method) for path, item in sorted(api_description()["paths"].items()) for method in item]
READ = [path for path, method in PATHS if method == "get"]
ASKED = [
    (path, method, mode)
    for path, method in PATHS
    for mode in GenerationMode
    # What takes nothing cannot be asked wrongly.
    if mode is GenerationMode.POSITIVE or api_description()["paths"][path][method].get("parameters") != []
]


def test_every_address_for_programs_is_described(described: Any) -> None:
    """The routes of the front say which there are; the description itself is how it is found."""
    routes = {
        (route.path, method.lower())
        for route in described.app.routes
        if route.path.startswith(("/links/api/", "/external"))
        for method in route.methods - {"HEAD", "OPTIONS"}
    }

    assert routes - {(PATH, "get")} == set(PATHS)


@pytest.mark.parametrize("path", READ)
def test_a_full_answer_has_the_form_that_is_described(path: str, described: Any) -> None:
    """With everything that can be known of a link; random questions seldom meet a page."""
    operation = described[path]["GET"]
    for query in ({"curid": "1", "scope": "all"}, {"pageid": "1"}, {"with": "unreachable"}):
        for form in ("json", "xml", ""):
            given_all = {"dbname": "dewiki@WMF", "format": form, **query}
            names = {each["name"] for each in described.raw_schema["paths"][path]["get"]["parameters"]}
            parameters = {name: value for name, value in given_all.items() if name in names}
            if "pageid" in parameters or "curid" in parameters or "with" in parameters:
                operation.Case(query=parameters).call_and_validate()


def test_a_full_answer_about_links_has_the_form_that_is_described(described: Any) -> None:
    """A dead link with a copy elsewhere, one that works, and what is no link."""
    urls = ["https://verlag.de/gone", "https://verlag.de/fine", "#x"]
    operation = described["/links/api/cached"]["POST"]
    body = {"wiki": "dewiki@WMF", "page_id": 1, "urls": urls}
    case = operation.Case(body=body, media_type="application/json")
    answer = case.call_and_validate().json()

    assert [link["answer"] for link in answer["links"]] == ["copy", "none", "none"]


def is_pattern_beyond_description(case: Any) -> bool:
    """Return whether its pattern of links is understood, and of another form than those that are described.

    A word or a URL is a pattern, too. Which of them are drawn depends on the constants of all loaded modules.
    """
    schemas = {each.name: each.definition["schema"] for each in case.operation.query}
    for name in {"pattern", "domain"} & case.query.keys():
        text = case.query[name]
        if isinstance(text, str) and not re.search(schemas[name]["pattern"], text):
            with suppress(InputError):
                parse_pattern(text)
                return True
    return False


def test_a_pattern_of_another_form_than_those_described_is_no_fault(described: Any) -> None:
    """Whatever is drawn: the description names the usual forms, the API takes more."""
    case = described["/links/api/excluded"]["GET"].Case(
        query={"dbname": "dewiki@WMF", "pattern": "https://Verlag.de/x"}
    )

    assert case.call().status_code == 200
    assert is_pattern_beyond_description(case)
    for pattern in ("verlag.de", "*.", "a b"):
        case.query["pattern"] = pattern
        assert not is_pattern_beyond_description(case)


@pytest.mark.parametrize(("path", "method", "mode"), ASKED, ids=lambda value: getattr(value, "value", value))
def test_the_application_does_as_described(path: str, method: str, mode: GenerationMode, described: Any) -> None:
    """Whatever is asked, as described or not: codes, types, headers and bodies are those named."""

    @settings(
        max_examples=examples(10), derandomize=True, database=None,
        phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=described[path][method.upper()].as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        names = [case.query.get(name) for name in ("curid", "pageid", "titles")]
        is_without_page = (
            method == "get" and "list" not in path and not any(str(each or "").strip(" _|") for each in names)
        )
        # That one of two parameters is needed cannot be described; it is answered with a reason.
        unfit = [positive_data_acceptance] if is_without_page else []
        unfit += [negative_data_rejection] if is_pattern_beyond_description(case) else []
        case.call_and_validate(excluded_checks=unfit)

    ask()
