"""The console over a collection in the middle of a crawl."""

from collections.abc import Iterator

import pytest

from tests.support.console_server import Console, serve_console
from tests.weboid.console.sample_collection import make_collection


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The console of the sample collection."""
    with serve_console(make_collection(tmp_path_factory.mktemp("console") / "collection")) as it:
        yield it


@pytest.fixture
def console(served: Console) -> Iterator[Console]:
    """The same, looked at by an operator, without a status that was read during an earlier test."""
    served.role = "operator"
    served.stores.status.status(is_fresh=True)
    yield served
    served.role = "operator"
