"""Records and index of a collection that a test's run has written."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from tests.support.sites import hosts

RULES = f"http://{hosts.RULES}"


def records(collection: Path) -> list[tuple[str, str, dict[str, str], bytes]]:
    """(type, target, headers, payload) of every record."""
    found = []
    for path in sorted((collection / "archive").glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                headers = record.rec_headers
                target = headers.get_header("WARC-Target-URI") or ""
                payload = record.content_stream().read()
                found.append((record.rec_type, target, dict(headers.headers), payload))
    return found


def index(collection: Path, query: str) -> list[tuple[Any, ...]]:
    """What the captures index says."""
    database = sqlite3.connect(collection / "db" / "captures.sqlite")
    rows = database.execute(query).fetchall()
    database.close()
    return rows


def check(collection: Path) -> None:
    """`warcio check` finds no fault, and no file was left open."""
    paths = [str(path) for path in sorted((collection / "archive").glob("*.warc.gz*"))]
    command = [str(Path(sys.executable).with_name("warcio")), "check", *paths]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert paths
    assert not [path for path in paths if path.endswith(".open")]
