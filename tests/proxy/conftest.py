"""Fixtures of proxy."""

from tests.support.control_proxy import stands  # noqa: F401 fixture
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
