"""Fixtures of playback/web."""

from tests.playback.web.registry.conftest import (  # noqa: F401 fixtures
    filled,
    shelf,
)
from tests.support.browser_screen import screen, windows  # noqa: F401 fixtures
