"""Tests of `weboid.app.collection_snapshot`."""

from pathlib import Path

import pytest

from core.errors import InputError
from core.layout import CONFIG_FILE, Layout
from links.registry.database import open_registry_store
from weboid.app import collection_snapshot

COPY = "trial"


def test_a_registry_that_is_too_large_is_refused_with_the_way_to_try_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str
) -> None:
    """Nothing is copied then."""
    layout = Layout(tmp_path / "collection")
    open_registry_store(layout, database_url).close()
    monkeypatch.setattr(collection_snapshot, "COPY_URLS_LIMIT", -1)
    with pytest.raises(InputError, match="`weboid wiki sweep --now --collection DIR`"):
        collection_snapshot.make_trial_copy(layout, tmp_path / COPY, database_url)
    assert not (tmp_path / COPY).exists()


def test_a_trial_has_the_configuration_of_its_collection(tmp_path: Path) -> None:
    """Its commands are run without the original."""
    layout = Layout(tmp_path / "collection")
    open_registry_store(layout).close()
    (layout.root / CONFIG_FILE).write_text('extends = "wiki"\n')

    copy = collection_snapshot.make_trial_copy(layout, tmp_path / COPY)

    assert (copy.root / CONFIG_FILE).read_text() == 'extends = "wiki"\n'
