"""What Wikidata items say, told by the repository that a wiki takes its items from (W35).

    address = await repository_of(api)                       # of the repository's api.php
    told = await read_statements(repository, ["Q42", "Q64"]) # by the items that were asked for

A repository is any wiki with Wikibase; Wikimedia's is Wikidata. Every item is told of, or it is an
error: what is left out of an answer that would be too long is asked for again.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from core.errors import BadUrlError, BodyTooLargeError, ConfigError
from core.hosts import BAD_PORTS
from core.urls import fetch_key
from wiki.api.client import Api
from wiki.api.errors import WikiAwayError, WikiRefusedError
from wiki.api.pages import AT_ONCE
from wiki.api.values import a_bool, a_count, a_text, listed, rows_of
from wiki.settings import TEXT_CHARS

ENTITY: Final = re.compile(r"[PQ][1-9][0-9]{0,9}")
_LETTERS: Final = {"item": "Q", "property": "P"}  # old answers have an entity's number alone

log = logging.getLogger(__name__)

Statements = frozenset[str]


async def repository_of(api: Api) -> str:
    """The address of the API of the repository that a wiki says its items are in.

    Raises:
        ConfigError: it does not say, or what it says is no address.
        WikiAwayError, LoggedOutError, WikiRefusedError: as `Api.get`.
    """
    told: Any = await api.get(action="query", meta="wikibase", wbprop="url")
    for name in ("query", "wikibase", "repo", "url"):
        told = told.get(name) if isinstance(told, dict) else None
    found = told if isinstance(told, dict) else {}
    base, path = a_text(found, "base"), a_text(found, "scriptpath")
    address = _address(urljoin(api.address, f"{base}{path}/api.php")) if base else ""
    if not address:
        raise ConfigError(
            f"{api.host} does not say where its pages' Wikidata items are kept. If they are anywhere, "
            "say it by item_api: weboid wiki add … --item-api https://www.wikidata.org/w/api.php."
        )
    return address


async def read_statements(repository: Api, items: Sequence[str]) -> dict[str, Statements | None]:
    """What items say, in the form of `wiki.statements.parse_entry`.

    Args:
        repository: its API.
        items: their numbers, ``Q42``.

    Returns:
        For each: of every statement that is not deprecated its property, and with its value once more,
        where that is an entity or a text. Nothing for an item that is not there; None for one that the
        repository does not tell of, even alone.

    Raises:
        WikiAwayError, LoggedOutError, WikiRefusedError: as `Api.get`.
    """
    found: dict[str, Statements | None] = {}
    for some in listed(list(dict.fromkeys(items)), AT_ONCE):
        found.update(await _read_some(repository, some))
    return found


async def unknown_entities(repository: Api, entries: Sequence[str]) -> list[str]:
    """The properties and items in entries that the repository does not have: they may be misspelt.

    Raises:
        WikiAwayError, LoggedOutError, WikiRefusedError: as `Api.get`; ``no-such-entity`` for a number
            that is too large for any.
    """
    parts = (part.strip() for each in entries for part in each.split("=", 1))
    named = dict.fromkeys(part for part in parts if ENTITY.fullmatch(part))
    unknown: list[str] = []
    for some in listed(list(named), AT_ONCE):
        told = await repository.get(action="wbgetentities", ids=some, props="info")
        rows = {a_text(row, "id"): row for row in rows_of(told, "entities")}
        unknown.extend(each for each in some if a_bool(rows.get(each, {}), "missing"))
    return unknown


async def _read_some(repository: Api, asked: list[str]) -> dict[str, Statements | None]:
    """What these say; what the answer leaves out is asked for again, fewer at a time."""
    found: dict[str, Statements | None] = {}
    try:
        told = await repository.get(action="wbgetentities", ids=asked, props="claims")
        found = dict(_statements(told, asked))
    except BodyTooLargeError:
        pass
    except WikiRefusedError as error:
        # One number that cannot be an item's spoils the answer for all.
        if error.code != "no-such-entity":
            raise
        if len(asked) == 1:
            return {asked[0]: frozenset()}
    left = [each for each in asked if each not in found]
    if len(asked) == 1 and left:
        log.warning("%s does not tell what %s says", repository.host, asked[0])
        return {asked[0]: None}
    middle = (len(left) + 1) // 2 if len(left) == len(asked) else len(left)
    for some in (left[:middle], left[middle:]):
        if some:
            found.update(await _read_some(repository, some))
    return found


def _statements(told: Mapping[str, Any], asked: Sequence[str]) -> Iterator[tuple[str, Statements]]:
    """Of each item that the answer has what it says. A redirect stands under the number asked for."""
    entities = told.get("entities")
    if not isinstance(entities, dict):
        raise _malformed("entities")
    for each in asked:
        entity = entities.get(each)
        if entity is None:
            continue
        if not isinstance(entity, dict):
            raise _malformed("entities")
        yield each, frozenset() if a_bool(entity, "missing") else said_by(entity.get("claims"))


def said_by(claims: Any) -> Statements:
    """What claims say: of each statement that is not deprecated its property, and it with its value.

    Args:
        claims: as the API has them: lists of statements by their properties; an empty list for none.

    Raises:
        WikiAwayError: they are of another form.
    """
    if claims == []:  # PHP's empty array
        return frozenset()
    if not isinstance(claims, dict):
        raise _malformed("claims")
    found = set()
    for name in claims:
        for statement in rows_of(claims, name):
            if statement.get("rank") != "deprecated":
                found.add(name)
                found.update(f"{name}={value}" for value in _values(statement.get("mainsnak")))
    return frozenset(found)


def _values(snak: Any) -> tuple[str, ...]:
    """How a statement's value may be written; not at all: it is unknown, none, or of another kind."""
    if not isinstance(snak, dict):
        raise _malformed("mainsnak")
    data = snak.get("datavalue")
    if snak.get("snaktype") != "value" or not isinstance(data, dict):
        return ()
    value = data.get("value")
    if isinstance(value, str):
        return (value,) if len(value) <= TEXT_CHARS else ()
    if data.get("type") != "wikibase-entityid" or not isinstance(value, dict):
        return ()
    number = a_text(value, "id")
    letter = _LETTERS.get(a_text(value, "entity-type"))
    if not number and letter:
        number = f"{letter}{a_count(value, 'numeric-id')}"
    return (number, number.lower()) if number else ()


def _address(text: str) -> str:
    """The address, when one may be asked there; else nothing."""
    try:
        address = fetch_key(text, allow_single_label=True)
        port = urlsplit(address).port or 80
    except (BadUrlError, ValueError):
        return ""
    return "" if port in BAD_PORTS else address


def _malformed(name: str) -> WikiAwayError:
    return WikiAwayError(
        f"The item repository's answer is not of the form that its API has ({name})."
    )
