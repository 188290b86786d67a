"""Fixtures of classify."""

from tests.render.conftest import authority, browser, clock, look, proxy, settings, site, stranger  # noqa: F401 fixtures
