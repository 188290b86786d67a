"""Fixtures of classify."""

from tests.render.conftest import (  # noqa: F401 fixtures
    clock,
    look,
    settings,
)
