"""Fixtures of captures and pools: a proxy and its origins."""

from tests.support.proxy_fixtures import (  # noqa: F401 fixtures
    certificate,
    layout,
    origin,
    proxy,
    secure_origin,
    settings,
    start,
)
