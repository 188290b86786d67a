"""Who claims payloads: a name for each process, and a file that tells whether it lives.

A process holds a lock on the file of its name for as long as it lives. So the next process of the
same collection knows at once whose claims are a dead process's, and need not wait until their
heartbeats have run out. On other machines only the heartbeat tells.
"""

import fcntl
import os
import secrets
import socket
from pathlib import Path


class Owner:
    """This process's name, and its file. `close` it when its claims are given up.

    Attributes:
        name: sixteen characters, never used again.
        about: machine and process, for people who look into the index.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = secrets.token_hex(8)
        self.about = f"{socket.gethostname()} {os.getpid()}"
        self._path = folder / self.name
        unlocked = folder / f".{self.name}"
        self._file = unlocked.open("x")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        unlocked.rename(self._path)  # known to others only when it is locked

    def close(self) -> None:
        """Say that nothing of this process is left."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def dead_owners(folder: Path) -> list[Path]:
    """The files of the collection's processes that died; names are never used again."""
    dead = []
    for path in sorted(folder.glob("[!.]*")):
        try:
            with path.open("r+b") as file:  # NFS gives an exclusive lock only to who may write
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileNotFoundError):
            continue  # it lives, or somebody has buried it
        dead.append(path)
    return dead
