"""Fixtures of playback/web/cached_links."""

from tests.playback.web.registry.conftest import filled, shelf  # noqa: F401 fixtures
