"""The console's file of accounts."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.errors import TransientError
from weboid.console.accounts import AccountStore, ConsoleRole

ANOTHER = (
    "import sqlite3, sys; it = sqlite3.connect(sys.argv[1]); it.execute('DELETE FROM users'); it.commit(); it.close()"
)


def test_another_process_leaves_the_log_of_an_open_file(tmp_path: Path) -> None:
    """Two stores of one process, as of a console; `weboid console user` ends meanwhile, and is not the last to close."""
    path, clock = tmp_path / "console.sqlite", SystemClock()
    with closing(AccountStore(path, clock)) as store, closing(AccountStore(path, clock)) as second:
        store.set_user("ada", ConsoleRole.ADMIN)
        subprocess.run([sys.executable, "-c", ANOTHER, str(path)], check=True)

        assert path.with_name("console.sqlite-wal").exists()
        assert (store.users(), second.users()) == ([], [])


def test_a_locked_file_is_an_error_that_passes(tmp_path: Path) -> None:
    """Of another program, such as a backup: the store says so, and works again afterwards."""
    path = tmp_path / "console.sqlite"
    with closing(AccountStore(path, SystemClock())) as store, closing(sqlite3.connect(path)) as backup:
        store._connection.execute("PRAGMA busy_timeout = 10")
        backup.execute("BEGIN IMMEDIATE")
        with pytest.raises(TransientError, match="database is locked"):
            store.users()
        backup.rollback()

        assert store.users() == []
