"""Settings: typed, frozen, and refusing what they do not know."""

import dataclasses

import pytest

from core.config.settings import Settings


def test_settings_are_frozen() -> None:
    """Nobody changes them on the way."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().visit.timeout_s = 1.0  # type: ignore[misc]
