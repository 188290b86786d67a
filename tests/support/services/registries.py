"""Registries in a file, as a new collection has one, without taking every migration each time."""

import functools
import tempfile
from pathlib import Path

from core.layout import Layout
from links.registry.database import RegistryStore, open_registry_store


def open_registry(layout: Layout, url: str = "") -> RegistryStore:
    """Open the registry of a collection, or the one that `url` names; a missing file is copied from an empty one.

    Only a test of how tables are made has a reason to make them again.
    """
    path = layout.links_db
    if not url and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_empty())
    return open_registry_store(layout, url)


@functools.cache
def _empty() -> bytes:
    """Return the file of an empty registry."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(Path(folder))
        open_registry_store(layout).close()
        return layout.links_db.read_bytes()
