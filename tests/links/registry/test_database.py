"""The way to the registry's database."""

import pytest
from sqlalchemy import insert, select

from links.registry.database import RegistryStore
from links.registry.schema import hosts

HOST = {
    "name": "example.org",
    "domain_index": "org.example.",
    "domain": "example.org",
    "bucket": 1,
}


def test_what_is_written_can_be_read(store: RegistryStore) -> None:
    """A block that ends well is kept."""
    with store.writing() as rows:
        rows.execute(insert(hosts), [HOST])

    with store.reading() as rows:
        assert rows.execute(select(hosts.c.name)).scalar_one() == "example.org"


def test_a_block_that_fails_keeps_nothing(store: RegistryStore) -> None:
    """All of it, or nothing."""

    def fail() -> None:
        with store.writing() as rows:
            rows.execute(insert(hosts), [HOST])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    with store.reading() as rows:
        assert rows.execute(select(hosts)).all() == []
