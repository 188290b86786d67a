"""Fixtures of playback/web/cached_links."""

from tests.playback.web.registry.conftest import filled, registry_builder  # noqa: F401 fixtures
