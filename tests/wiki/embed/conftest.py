"""Fixtures of wiki/embed."""

from tests.support.embed_fixtures import front, proxied  # noqa: F401 fixtures
