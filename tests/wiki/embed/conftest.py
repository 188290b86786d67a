"""Fixtures of wiki/embed."""

from tests.support.embed_fixtures import (  # noqa: F401 fixtures
    front,
    proxied,
)
