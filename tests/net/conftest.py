"""Fixtures of net."""

from tests.support.proxy_fixtures import (  # noqa: F401 fixtures
    certificate,
    layout,
    origin,
    secure_origin,
    settings,
)
