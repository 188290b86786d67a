"""Fixtures of weboid."""

from tests.support.embed_fixtures import (  # noqa: F401 fixtures
    front,
)
from tests.support.playback_fixtures import (  # noqa: F401 fixtures
    collection,
    site,
)
from tests.support.proxy_fixtures import (  # noqa: F401 fixtures
    certificate,
    layout,
    origin,
    secure_origin,
    settings,
)
from tests.wiki.conftest import (  # noqa: F401 fixtures
    bot_name,
    wiki,
    writer,
)
