"""Fixtures of weboid."""

from tests.support.browser_screen import screen, windows  # noqa: F401 fixtures
from tests.support.embed_fixtures import front  # noqa: F401 fixtures
from tests.support.playback_fixtures import collection, site  # noqa: F401 fixtures
from tests.support.proxy_fixtures import certificate, layout, origin, secure_origin, settings  # noqa: F401 fixtures
from tests.wiki.conftest import bot_name, wiki, writer  # noqa: F401 fixtures
