"""A copy of a collection's databases in which time may be moved: nothing of it is the real one."""

import json
from contextlib import closing
from pathlib import Path

from sqlalchemy import func, select

from core.clock import SystemClock
from core.errors import ConfigError, InputError, UnavailableError
from core.layout import Layout
from crawler.collection import make_collection
from crawler.snapshot import copy_database
from crawler.trial_mark import mark_of
from links.store.schema import urls
from links.store.store import Store, open_store, open_to_read
from links.store.table_copy import copy_rows

MOST_URLS = 2_000_000  # of a registry in PostgreSQL: about 1 GB in the copy
_NAMES = ("links_db", "captures_db", "decisions_db")


def make_trial_copy(layout: Layout, root: Path, database_url: str = "") -> Layout:
    """Copy registry, captures index and decisions into a new folder that is marked as a trial.

    The frontier, WARCs, logins and keys stay where they are. Of what is in PostgreSQL registry and index
    are copied; decisions are left to the caller, who may read them.

    Args:
        layout: the collection's.
        root: the new folder.
        database_url: of the PostgreSQL that holds the registry; empty: the collection's own files.

    Raises:
        UnavailableError: the collection has no registry.
        ConfigError: the folder is not empty.
        InputError: the registry is too large.
    """
    if not database_url and not layout.links_db.exists():
        raise UnavailableError(f"{layout.root} has no link registry: `weboid wiki add` makes one.")
    if root.exists() and any(root.iterdir()):
        raise ConfigError(f"{root} is not empty: name a new folder for the trial.")
    if database_url:
        return _copy_shared(layout, root, database_url)
    copy = _new_copy(layout, root)
    for name in _NAMES:
        source: Path = getattr(layout, name)
        if source.exists():
            copy_database(source, getattr(copy, name))
    return copy


def _new_copy(layout: Layout, root: Path) -> Layout:
    copy = Layout(root)
    make_collection(copy, SystemClock())
    mark_of(copy).write_text(json.dumps({"copy_of": str(layout.root.absolute())}) + "\n")
    if layout.marker.exists():
        copy.marker.write_bytes(layout.marker.read_bytes())
    return copy


def _copy_shared(layout: Layout, root: Path, database_url: str) -> Layout:
    from proxy.index.snapshot import take_snapshot  # needs PostgreSQL's driver

    store = open_to_read(layout, database_url)
    if store is None:
        raise UnavailableError("The database has no link registry: `weboid wiki add` makes one.")
    with closing(store):
        _check_size(store)
        copy = _new_copy(layout, root)
        with (
            closing(open_store(copy)) as own,
            store.reading() as there,
            own.writing() as here,
        ):
            copy_rows(there, here)
    take_snapshot(database_url, copy.captures_db)
    return copy


def _check_size(store: Store) -> None:
    with store.reading() as rows:
        count = rows.execute(select(func.count()).select_from(urls)).scalar_one()
    if count > MOST_URLS:
        raise InputError(
            f"The registry has {count:,} links, and a trial copies {MOST_URLS:,} at most. Read the wiki "
            "into a collection of its own, without --database and [index] url: `weboid wiki add URL "
            "--collection DIR`, `weboid wiki sweep --now --collection DIR`; then `weboid wiki trial "
            "--collection DIR`."
        )
