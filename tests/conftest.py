"""What every suite may use, started once: the test web, a PostgreSQL."""

import signal
from collections.abc import Iterator

import pytest

from tests.examples import register
from tests.services.postgres import PostgresServer
from tests.sites.web import TestWeb

register()


def pytest_configure() -> None:
    """Let SIGINT mean what it means at a terminal.

    A shell without job control starts what it runs in the background with SIGINT ignored, and the
    commands that the tests start would inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL; a test that harms it starts its own."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def database_url(postgres: PostgresServer) -> str:
    """The URL of a new database in it."""
    return postgres.database()
