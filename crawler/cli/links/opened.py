"""What commands about rules and searches share: the registry, and a wiki in it by its name."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection

from core.errors import InputError
from crawler.collection import read_collection
from links.books.wikis import Farm, Wiki, all_farms, find_farm, known_wiki, parse_wiki
from links.store.store import Store, open_store


@contextmanager
def opened_store(collection: Path, database_url: str) -> Iterator[Store]:
    """The registry of a collection, closed at the end of the block.

    Raises:
        UnavailableError: there is no collection.
    """
    with closing(open_store(read_collection(collection), database_url)) as store:
        yield store


def wiki_named(rows: Connection, name: str) -> Wiki:
    """The wiki of that name.

    Raises:
        InputError: it is no name, or the registry does not know the wiki.
    """
    return known_wiki(rows, parse_wiki(name))


def farm_named(rows: Connection, name: str) -> Farm:
    """The farm of that name.

    Raises:
        InputError: the registry does not know it.
    """
    found = find_farm(rows, name)
    if found is None:
        known = ", ".join(farm.name for farm in all_farms(rows))
        raise InputError(f"There is no farm {name[:80]!r}; the registry knows {known}.")
    return found
