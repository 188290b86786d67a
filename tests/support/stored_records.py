"""Records and index of a collection that a test's run has written."""

import sqlite3
from argparse import Namespace
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from tests.support.sites import hosts

RULES = f"http://{hosts.RULES}"


def records(collection: Path) -> list[tuple[str, str, dict[str, str], bytes]]:
    """Return (type, target, headers, payload) of every record."""
    warc_records = []
    for path in sorted((collection / "archive").glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                headers = record.rec_headers
                target = headers.get_header("WARC-Target-URI") or ""
                payload = record.content_stream().read()
                warc_records.append((record.rec_type, target, dict(headers.headers), payload))
    return warc_records


def index(collection: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows that a query finds in the captures index."""
    database = sqlite3.connect(collection / "db" / "captures.sqlite")
    rows = database.execute(query).fetchall()
    database.close()
    return rows


def run_warcio_check(paths: list[str]) -> None:
    """Fail with the output of `warcio check`, in this process, when it finds a fault."""
    assert paths
    with redirect_stdout(StringIO()) as output:
        code = Checker(Namespace(inputs=paths, verbose=False)).process_all()
    assert code == 0, output.getvalue()


def check(collection: Path) -> None:
    """Assert that `warcio check` finds no fault, and that no file was left open."""
    paths = [str(path) for path in sorted((collection / "archive").glob("*.warc.gz*"))]
    run_warcio_check(paths)
    assert not [path for path in paths if path.endswith(".open")]
