"""Statements of Wikidata items, from a repository that answers as Wikibase does."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ConfigError
from tests.support.examples import examples
from tests.support.wiki_proxy import ProxiedResponse
from tests.wiki.api.conftest import ApiAt, PauseRecorder
from tests.wiki.repository import RepositoryServer, claims, repository, statement
from wiki.api.models import ThrottledError, WikiAwayError, WikiRefusedError
from wiki.api.wikidata import parse_claims, read_statements, repository_address, unknown_entities

PROPERTIES = st.sampled_from(["P31", "P279", "P856"])
VALUES = st.sampled_from(["Q5", "Q6", "https://a.org/", "x=y", 5])
RANKS = st.sampled_from(["preferred", "normal", "deprecated"])
KINDS = st.sampled_from(["value", "somevalue", "novalue"])


@pytest.fixture
def items() -> Iterator[RepositoryServer]:
    """Yield a repository of a few items."""
    with repository() as made:
        made.put("Q1", statement("P31", "Q5"))
        made.put("Q2", statement("P31", "Q6"), statement("P213", "0000 0001"))
        made.put("Q3")
        made.redirects["Q4"] = "Q1"
        yield made


@given(st.lists(st.tuples(PROPERTIES, VALUES, RANKS, KINDS), max_size=8))
@settings(max_examples=examples(30))
def test_an_item_says_what_its_statements_say_that_hold(statements: list[tuple[str, Any, str, str]]) -> None:
    """Deprecated ones do not; an unknown value, none, or a quantity counts for the property alone."""
    entries = parse_claims(claims(*(statement(p, v, rank=r, snaktype=k) for p, v, r, k in statements)))
    holding = [(p, v, k) for p, v, r, k in statements if r != "deprecated"]
    plain = {each for each in entries if "=" not in each}
    assert plain == {p for p, _, _ in holding}
    valued = {f"{p}={v}" for p, v, k in holding if k == "value" and isinstance(v, str)}
    numbers = {each.replace("=Q", "=q") for each in valued if "=Q" in each}
    assert entries - plain == valued | numbers


async def test_every_item_is_told_of(items: RepositoryServer, api_at: ApiAt) -> None:
    """One that was merged says what the other does; one that is not there says nothing."""
    async with api_at(items.api) as api:
        statements_by_item = await read_statements(api, ["Q1", "Q2", "Q3", "Q4", "Q9"])
    person = frozenset({"P31", "P31=Q5", "P31=q5"})
    assert statements_by_item["Q1"] == statements_by_item["Q4"] == person
    assert statements_by_item["Q2"] == frozenset(["P31", "P31=Q6", "P31=q6", "P213", "P213=0000 0001"])
    assert statements_by_item["Q3"] == statements_by_item["Q9"] == frozenset()
    assert len(items.id_lists) == 1


async def test_items_are_asked_for_fifty_at_a_time(items: RepositoryServer, api_at: ApiAt) -> None:
    """Each once, and what an answer has no room for once more."""
    items.fits = 20
    numbers = [f"Q{number}" for number in range(10, 130)]
    async with api_at(items.api) as api:
        statements_by_item = await read_statements(api, [*numbers, *numbers])
    assert statements_by_item == dict.fromkeys(numbers, frozenset())
    assert [each.count("|") + 1 for each in items.id_lists] == [50, 30, 10, 50, 30, 10, 20]


async def test_an_item_that_is_never_told_of_is_not_known(items: RepositoryServer, api_at: ApiAt) -> None:
    """Whoever decides by it must refuse; one number too large for any spoils nothing."""
    async with api_at(items.api) as api:
        assert (await read_statements(api, ["Q1", "Q9999999999"]))["Q1"]
        assert (await read_statements(api, ["Q9999999999"])) == {"Q9999999999": frozenset()}
        items.fits = 0
        assert await read_statements(api, ["Q1", "Q2", "Q3"]) == dict.fromkeys(["Q1", "Q2", "Q3"])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ProxiedResponse.api_error("maxlag", "Waiting: 6 seconds lagged.", Retry_After="5"), ThrottledError),
        (ProxiedResponse(429, b"", {"Retry-After": "7"}), ThrottledError),
        (ProxiedResponse(503, b"<html>"), WikiAwayError),
        (ProxiedResponse.of_json({"entities": [], "success": 1}), WikiAwayError),
        (ProxiedResponse.of_json({"entities": {"Q1": {"id": "Q1", "claims": 5}}}), WikiAwayError),
        (ProxiedResponse.of_json({"entities": {"Q1": {"claims": {"P31": [{}]}}}}), WikiAwayError),
        (ProxiedResponse.api_error("badvalue", "Unrecognized value for action."), WikiRefusedError),
    ],
    ids=["lagging", "often", "away", "entities", "claims", "snak", "no-repository"],
)
async def test_a_repository_in_trouble_is_an_error(
    items: RepositoryServer, api_at: ApiAt, pauses: PauseRecorder, answer: ProxiedResponse, error: type[Exception]
) -> None:
    """As a wiki in trouble is: nothing half understood comes back."""
    items.instead = answer
    async with api_at(items.api, attempts=2) as api:
        with pytest.raises(error):
            await read_statements(api, ["Q1"])
    assert (5 in pauses.slept, 7 in pauses.slept) == (b"maxlag" in answer.body, answer.status == 429)


async def test_what_a_repository_does_not_have_is_told(items: RepositoryServer, api_at: ApiAt) -> None:
    """Of properties and items; any other value may be as it is."""
    items.put("P31")
    async with api_at(items.api) as api:
        unknown = await unknown_entities(api, ["P31=Q1", "P32=https://a.org/", "P31 = Q77"])
    assert unknown == ["P32", "Q77"]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ({"base": "https://www.wikidata.org", "scriptpath": "/w"}, "https://www.wikidata.org/w/api.php"),
        ({"base": "//data.example.org", "scriptpath": ""}, "http://data.example.org/api.php"),
        ({"base": "https://me:pw@data.example.org", "scriptpath": "/w"}, "https://data.example.org/w/api.php"),
        ({"base": "file:///etc/passwd", "scriptpath": ""}, ""),
        ({"base": "http://data.example.org:25", "scriptpath": ""}, ""),
        ({"base": 5}, ""),
        (None, ""),
    ],
    ids=str,
)
async def test_a_wiki_says_where_its_items_are(items: RepositoryServer, api_at: ApiAt, url: Any, address: str) -> None:
    """In the form of Wikibase Client; what is no address of the web's is none."""
    items.instead = ProxiedResponse.of_json({"query": {"wikibase": {"repo": {"url": url}}} if url else {}})
    async with api_at(items.api) as api:
        if address:
            assert await repository_address(api) == address
        else:
            with pytest.raises(ConfigError, match="item_api"):
                await repository_address(api)
