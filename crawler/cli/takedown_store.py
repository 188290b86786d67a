"""What the commands of `weboid takedown` open."""

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from crawler.collection import read_collection
from playback.database import Database, open_database
from playback.decisions.store import DecisionStore, open_decisions


@dataclass(frozen=True, slots=True)
class Opened:
    """A collection's index and decisions; `close` both by the stack that opened them."""

    database: Database
    decisions: DecisionStore


def opened(stack: ExitStack, collection: Path, database_url: str) -> Opened:
    """Index and decisions of a collection."""
    layout = read_collection(collection)
    database = stack.enter_context(closing(open_database(layout, database_url)))
    decisions = stack.enter_context(closing(open_decisions(layout, database_url)))
    return Opened(database, decisions)
