"""Fixtures of net."""

from tests.support.proxy_fixtures import certificate, layout, origin, secure_origin, settings  # noqa: F401 fixtures
