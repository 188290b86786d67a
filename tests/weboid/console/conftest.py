"""The console over a collection in the middle of a crawl."""

from collections.abc import Iterator
from functools import partial

import argon2
import pytest

from tests.support.console_server import ServedConsole, serve_console
from tests.weboid.console.sample_collection import make_collection

# Of no password, with parameters that cost nothing.
QUICK_HASH = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$5PG0vp6EI8K5hW9L1y6S8f0NHCpxI4m7o2c9a2VqH0o"


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Let passwords cost nothing: how long a sign-in takes is not held here."""
    quick = partial(argon2.PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("argon2.PasswordHasher", quick)
        patch.setattr("weboid.console.accounts._UNKNOWN", QUICK_HASH)
        yield


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """Serve the console of the sample collection."""
    with serve_console(make_collection(tmp_path_factory.mktemp("console") / "collection")) as it:
        yield it


@pytest.fixture
def console(served: ServedConsole) -> Iterator[ServedConsole]:
    """Yield the same console for an operator, without a status that was read during an earlier test."""
    served.role = "operator"
    served.stores.status.status(is_fresh=True)
    yield served
    served.role = "operator"
