"""Wikidata items of pages: the Wikibase repository of a wiki and its statements.

Every item has a result, or an error is raised: items left out of an oversized answer are requested again.
Results are not cached: a page is classified by its item's statements at the time of reading.
"""

import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from core.errors import BodyTooLargeError, ConfigError
from core.hosts import BAD_PORTS
from core.urls import host_of
from wiki.api import models
from wiki.api.client import WikiApi
from wiki.api.transport import absolute_address
from wiki.settings import TEXT_CHARS

ENTITY: Final = re.compile(r"[PQ][1-9][0-9]{0,9}")
_LETTERS: Final = {"item": "Q", "property": "P"}  # old answers have an entity's number alone

log = logging.getLogger(__name__)

Statements = frozenset[str]


async def repository_address(api: WikiApi) -> str:
    """Return the API address of the wiki's Wikibase repository; raises ConfigError if it has none."""
    answer: Mapping[str, Any] = await api.get(action="query", meta="wikibase", wbprop="url")
    for name in ("query", "wikibase", "repo", "url"):
        answer = models.object_field(answer, name)
    base, path = models.text_field(answer, "base"), models.text_field(answer, "scriptpath")
    address = absolute_address(api.address, f"{base}{path}/api.php") if base else ""
    if not address or urlsplit(address).port in BAD_PORTS:
        raise ConfigError(
            f"{api.host} does not name the repository of its pages' Wikidata items. If there is one, set "
            "item_api: weboid wiki add … --item-api https://www.wikidata.org/w/api.php."
        )
    return address


async def read_statements(repository: WikiApi, items: Sequence[str]) -> dict[str, Statements | None]:
    """Return items' statements as `parse_statement` has them, by requested id; None: left out even when alone."""
    batches = models.split_batches(dict.fromkeys(items))
    return {item: known for some in batches for item, known in (await _read_some(repository, some)).items()}


async def unknown_entities(repository: WikiApi, entries: Sequence[str]) -> list[str]:
    """Return properties and items in entries that the repository does not have: likely misspelt; as `WikiApi.get`."""
    parts = (part.strip() for each in entries for part in each.split("=", 1))
    named = dict.fromkeys(part for part in parts if ENTITY.fullmatch(part))
    unknown: list[str] = []
    for some in models.split_batches(named):
        answer = await repository.get(action="wbgetentities", ids=some, props="info")
        rows = {models.text_field(row, "id"): row for row in models.json_rows(answer, "entities")}
        unknown.extend(each for each in some if models.bool_field(rows.get(each, {}), "missing"))
    return unknown


async def _read_some(repository: WikiApi, ids: list[str]) -> dict[str, Statements | None]:
    """Read statements; request items that the answer leaves out again in smaller batches."""
    statements_by_id: dict[str, Statements | None] = {}
    try:
        statements_by_id = dict(_statements(await repository.get(action="wbgetentities", ids=ids, props="claims"), ids))
    except BodyTooLargeError:
        pass
    except models.WikiRefusedError as error:
        # One number that cannot be an item's spoils the answer for all.
        if error.code != "no-such-entity":
            raise
        if len(ids) == 1:
            return {ids[0]: frozenset()}
    left = [each for each in ids if each not in statements_by_id]
    if len(ids) == 1 and left:
        log.warning("%s does not return the statements of %s", repository.host, ids[0])
        return {ids[0]: None}
    middle = (len(left) + 1) // 2 if len(left) == len(ids) else len(left)
    for some in filter(None, (left[:middle], left[middle:])):
        statements_by_id.update(await _read_some(repository, some))
    return statements_by_id


def _statements(answer: Mapping[str, Any], properties: Sequence[str]) -> Iterator[tuple[str, Statements]]:
    """Yield (requested item, statements); a redirect is listed under the requested id."""
    entities = answer.get("entities")
    if not isinstance(entities, dict):
        raise _malformed_answer("entities")
    for each, entity in ((each, entities[each]) for each in properties if entities.get(each) is not None):
        if not isinstance(entity, dict):
            raise _malformed_answer("entities")
        yield each, frozenset() if models.bool_field(entity, "missing") else parse_claims(entity.get("claims"))


def parse_claims(claims: Any) -> Statements:
    """Return each property of claims that are not deprecated, alone and with its value; raises WikiAwayError."""
    if claims == []:  # PHP's empty array
        return frozenset()
    if not isinstance(claims, dict):
        raise _malformed_answer("claims")
    statements = set()
    for name in claims:
        for statement in models.json_rows(claims, name):
            if statement.get("rank") != "deprecated":
                statements.add(name)
                statements.update(f"{name}={value}" for value in _values(statement.get("mainsnak")))
    return frozenset(statements)


def _values(snak: Any) -> tuple[str, ...]:
    """Return the spellings of a statement's value; empty for unknown, no value, or other types."""
    if not isinstance(snak, dict):
        raise _malformed_answer("mainsnak")
    data = snak.get("datavalue")
    if snak.get("snaktype") != "value" or not isinstance(data, dict):
        return ()
    value = data.get("value")
    if isinstance(value, str):
        return (value,) if len(value) <= TEXT_CHARS else ()
    if data.get("type") != "wikibase-entityid" or not isinstance(value, dict):
        return ()
    number = models.text_field(value, "id")
    letter = _LETTERS.get(models.text_field(value, "entity-type"))
    if not number and letter:
        number = f"{letter}{models.count_field(value, 'numeric-id')}"
    return (number, number.lower()) if number else ()


def _malformed_answer(name: str) -> models.WikiAwayError:
    return models.WikiAwayError(f"The item repository's answer does not match its API ({name}).")


OpenApi = Callable[[str], WikiApi]


class WikibaseRepository(AbstractAsyncContextManager["WikibaseRepository"]):
    """Client of a wiki's Wikibase repository; owns its connections."""

    def __init__(self, api: WikiApi, open_api: OpenApi) -> None:
        self._api = api
        self.open_api = open_api  # opens another wiki's API, without credentials; the caller closes it
        self._items_at = ""
        self._repository: WikiApi | None = None

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the next request opens them again."""
        opened, self._repository = self._repository, None
        if opened is not None and opened is not self._api:
            await opened.aclose()

    async def statements(self, items: Sequence[str], items_at: str) -> Mapping[str, Statements | None]:
        """Return statements as `read_statements`, from the api.php at `items_at`; empty: the one that the wiki names.

        Raises ConfigError: there is no repository; WikiAwayError, LoggedOutError: it is unavailable.
        """
        async with self._open_repository(items_at) as repository:
            return await read_statements(repository, items)

    async def unknown(self, entries: Sequence[str], items_at: str) -> list[str]:
        """Return the entries that the repository does not have, as `unknown_entities`."""
        async with self._open_repository(items_at) as repository:
            return await unknown_entities(repository, entries)

    @asynccontextmanager
    async def _open_repository(self, items_at: str) -> AsyncIterator[WikiApi]:
        """Yield the repository; its refusals name it and its setting."""
        repository = await self._at(items_at)
        try:
            yield repository
        except models.WikiRefusedError as error:
            raise ConfigError(
                f"{repository.host} does not return statements of Wikidata items; item_api can name another repository. {error}"
            ) from error

    async def _at(self, items_at: str) -> WikiApi:
        if self._repository is not None and self._items_at == items_at:
            return self._repository
        await self.aclose()
        address = items_at or await repository_address(self._api)
        repository = self._api  # a wiki may keep its items itself
        if address != repository.address:
            repository = self.open_api(address)
            is_elsewhere = not items_at and host_of(address) != self._api.host
            try:
                if is_elsewhere and self._api.is_public is not False:
                    await repository.keep_public()  # a public wiki must not lead into a private network
            except BaseException:
                await repository.aclose()
                raise
        self._repository, self._items_at = repository, items_at
        return repository
