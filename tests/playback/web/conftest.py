"""Fixtures of playback/web."""

from tests.playback.web.registry.conftest import filled, registry_builder  # noqa: F401 fixtures
from tests.support.browser_screen import screen, windows  # noqa: F401 fixtures
