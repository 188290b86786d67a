"""What every suite may use: the test web, started once."""

from collections.abc import Iterator

import pytest

from tests.sites.web import TestWeb


@pytest.fixture(scope="session")
def web() -> Iterator[TestWeb]:
    """The rule pages and galleries, under ordinary names on loopback."""
    with TestWeb.start(real=False) as running:
        yield running


@pytest.fixture(scope="session")
def real_web() -> Iterator[TestWeb]:
    """The same with MediaWiki, Debian's manuals and applications from npm."""
    with TestWeb.start(real=True) as running:
        yield running
