"""Fixtures of captures and pools: a proxy and its origins."""

from tests.support.proxy_fixtures import certificate, layout, origin, proxy, secure_origin, settings, start  # noqa: F401 fixtures
