"""Fixtures of the tests of the core."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def replay_python() -> Path:
    """Return the Python interpreter of the environment with pywb."""
    return Path(__file__).parents[2] / ".venv-replay" / "bin" / "python"
