"""Fixtures of access tests: scanners."""

from collections.abc import Iterator

import pytest

from tests.support.services.clamav import ClamdServer


@pytest.fixture(scope="package")
def clamd() -> Iterator[ClamdServer]:
    """Start one clamd for the tests that leave it as it is."""
    server = ClamdServer()
    yield server
    server.stop()


@pytest.fixture
def mortal() -> Iterator[ClamdServer]:
    """Start a clamd for one test, which may sign, restart or stop it."""
    server = ClamdServer()
    yield server
    server.stop()
