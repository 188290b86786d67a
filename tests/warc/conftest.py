"""Fixtures of warc."""

from tests.support.playback_fixtures import collection  # noqa: F401 fixtures
from tests.support.proxy_fixtures import (  # noqa: F401 fixtures
    certificate,
    layout,
    origin,
    proxy,
    secure_origin,
    settings,
    start,
    start_process,
)
from tests.support.services.s3_server import s3  # noqa: F401 fixture
