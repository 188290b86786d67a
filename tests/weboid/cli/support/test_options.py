"""Tests of `weboid.cli.support.options`."""

from pathlib import Path

import pytest

from core.clock import CLOCK_OFFSET
from core.config.settings import Settings
from core.errors import ConfigError
from weboid.cli.support.options import SharedStores, with_database


def test_no_store_of_several_machines_is_opened_with_a_moved_clock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A trial's folder does not make a trial of the database, queue or index that is named beside it."""
    named = "postgresql://archive@127.0.0.1:9/archive"
    settings = with_database(Settings(), named)
    monkeypatch.setenv(CLOCK_OFFSET, "10d")
    assert with_database(Settings(), "") == Settings()
    with pytest.raises(ConfigError, match="--database"):
        with_database(Settings(), named)
    with pytest.raises(ConfigError, match="--database"):
        with_database(settings, "")
    with pytest.raises(ConfigError, match="--frontier"):
        SharedStores(frontier_url="redis://127.0.0.1:9/0?frontier=a").applied_to(Settings())
    with pytest.raises(ConfigError, match="--dedup"):
        SharedStores(dedup_url="redis://127.0.0.1:9/0?index=a").applied_to(Settings())
