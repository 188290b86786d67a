"""Tests of `playback.replay.full.pywb_environment`."""

import pytest

from playback.replay.full.pywb_environment import find_pywb_python
from tests.support.playback_fixtures import ROOT

pytestmark = pytest.mark.playback


def test_pywb_is_found_beside_the_project() -> None:
    """Nothing has to be set where `make setup-full` has run."""
    assert find_pywb_python() == ROOT / ".venv-replay" / "bin" / "python"
