"""A wiki or a farm of the registry by its name."""

from sqlalchemy import Connection

from core.errors import InputError
from links.books.wikis import Farm, Wiki, all_farms, find_farm, known_wiki, parse_wiki


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
