"""Fixtures of playback."""

from tests.support.playback_fixtures import (  # noqa: F401 fixtures
    archived,
    browser,
    collection,
    full,
    in_replay,
    leak_listener,
    leaks,
    served,
    site,
)
