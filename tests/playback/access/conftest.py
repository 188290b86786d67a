"""Fixtures of access tests: scanners."""

from collections.abc import Iterator

import pytest

from tests.support.services.clamav import ClamdServer


@pytest.fixture(scope="package")
def clamd() -> Iterator[ClamdServer]:
    """One daemon for all tests that do not harm it."""
    server = ClamdServer()
    yield server
    server.stop()


@pytest.fixture
def mortal() -> Iterator[ClamdServer]:
    """A daemon that a test may harm."""
    server = ClamdServer()
    yield server
    server.stop()
