"""The repository of a wiki's Wikidata items, found and opened when an item is first asked for (W35).

    async with Items(api, open_api) as items:
        told = await items.statements(["Q42"], "")      # the repository that the wiki names

What was told is not kept: a page is judged by what its item says when it is read. One more question for
fifty pages is what that costs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from core.errors import ConfigError
from core.urls import host_of
from wiki.api.client import Api
from wiki.api.errors import WikiRefusedError
from wiki.api.items import Statements, read_statements, repository_of, unknown_entities

OpenApi = Callable[[str], Api]


class Items:
    """Asks a wiki's repository; owns its connections."""

    def __init__(self, api: Api, open_api: OpenApi) -> None:
        """Take the wiki's API, and how another is opened; nothing is sent yet.

        Args:
            api: the wiki's, which its opener closes.
            open_api: opens the API at an address, for whoever may be asked there unnamed.
        """
        self._api = api
        self._open = open_api
        self._said = ""
        self._repository: Api | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close what was opened; another question opens it again."""
        opened, self._repository = self._repository, None
        if opened is not None and opened is not self._api:
            await opened.aclose()

    def opened(self, address: str) -> Api:
        """Return another wiki's API, asked unnamed; whoever asks closes it."""
        return self._open(address)

    async def statements(self, items: Sequence[str], said: str) -> Mapping[str, Statements | None]:
        """What items say, as `wiki.api.items.read_statements` tells it.

        Args:
            items: their numbers.
            said: where the repository's api.php is; empty: where the wiki says.

        Raises:
            ConfigError: nobody says where it is, or there is none.
            WikiAwayError, LoggedOutError: the wiki or the repository cannot be asked.
        """
        repository = await self._at(said)
        with _refusing(repository):
            return await read_statements(repository, items)

    async def unknown(self, entries: Sequence[str], said: str) -> list[str]:
        """What the repository does not have, as `wiki.api.items.unknown_entities` tells it.

        Args:
            entries: of `wiki.statements`.
            said: as in `statements`.

        Raises:
            as `statements`.
        """
        repository = await self._at(said)
        with _refusing(repository):
            return await unknown_entities(repository, entries)

    async def _at(self, said: str) -> Api:
        """The repository's API, opened once."""
        if self._repository is None or self._said != said:
            await self.aclose()
            self._repository, self._said = await self._opened(said), said
        return self._repository

    async def _opened(self, said: str) -> Api:
        address = said or await repository_of(self._api)
        if address == self._api.address:  # a wiki may keep its items itself
            return self._api
        opened = self._open(address)
        try:
            if not said and host_of(address) != self._api.host and self._api.is_public is not False:
                await opened.keep_public()  # a wiki on the web leads nobody into a private network
        except BaseException:
            await opened.aclose()
            raise
        return opened


@contextmanager
def _refusing(repository: Api) -> Iterator[None]:
    """Says of what a repository refuses that it was the repository, and which setting leads there."""
    try:
        yield
    except WikiRefusedError as error:
        raise ConfigError(
            f"{repository.host} does not tell what Wikidata items say; item_api may name another "
            f"repository. {error}"
        ) from error
