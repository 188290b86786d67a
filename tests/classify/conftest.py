"""Fixtures of classify."""

from tests.render.conftest import (  # noqa: F401 fixtures
    authority,
    browser,
    clock,
    look,
    proxy,
    settings,
    site,
    stranger,
)
