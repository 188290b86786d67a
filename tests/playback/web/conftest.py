"""Fixtures of playback/web."""

from tests.playback.web.registry.conftest import (  # noqa: F401 fixtures
    filled,
    shelf,
)
