"""Settings: typed, frozen, and refusing what they do not know."""

import dataclasses
import doctest
from types import ModuleType

import pytest

from core import captures, digests, hosts, timestamps, url_keys, urls
from core.config.settings import Settings


def test_settings_are_frozen() -> None:
    """Nobody changes them on the way."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().visit.timeout_s = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("module", [digests, hosts, captures, url_keys, timestamps, urls])
def test_the_examples_in_the_docstrings_are_true(module: ModuleType) -> None:
    """Each `>>>` gives what stands below it."""
    assert doctest.testmod(module).failed == 0
