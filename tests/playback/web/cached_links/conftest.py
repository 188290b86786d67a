"""Fixtures of playback/web/cached_links."""

from tests.playback.web.registry.conftest import (  # noqa: F401 fixtures
    filled,
    shelf,
)
