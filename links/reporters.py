"""Who said something, without knowing who it was: a keyed digest of an address range or a name.

The key is a file of the collection, made at first use. Without it nobody can tell from a digest whose
it is, nor try all addresses until one fits; who removes the file makes all digests strangers. Fronts
on several machines that share a registry need the same file to count a reader once.
"""

import contextlib
import os
import secrets
from hashlib import blake2b
from pathlib import Path

from core.errors import UnavailableError
from core.layout import Layout

KEY_FILE = "reporters.key"
REPORTER_BYTES = 16
_KEY_BYTES = 32


class Reporters:
    """Makes digests of those who report."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of_range(self, addresses: str) -> bytes:
        """The reporter at an address range, e.g. ``192.0.2.0/24``."""
        return self.digest("range", addresses)

    def of_name(self, name: str) -> bytes:
        """The reporter of that user name, of this machine or a wiki's."""
        return self.digest("name", name)

    def digest(self, purpose: str, text: str, *, size: int = REPORTER_BYTES) -> bytes:
        """A digest that only holders of the key can make; each purpose has its own."""
        person = blake2b(purpose.encode(), digest_size=blake2b.PERSON_SIZE).digest()
        data = text.encode("utf-8", "surrogatepass")
        return blake2b(data, digest_size=size, key=self._key, person=person).digest()


def open_reporters(layout: Layout) -> Reporters:
    """Those of the collection; its key is made when there is none yet, readable by its owner alone.

    Raises:
        UnavailableError: the key can neither be read nor made, or is none.
    """
    path = layout.databases / KEY_FILE
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise UnavailableError(
            f"The key of reports, {path}, can neither be read nor made: {error}."
        ) from error
    if len(key) != _KEY_BYTES:
        raise UnavailableError(
            f"{path} is no key of reports: it has {len(key)} bytes, not {_KEY_BYTES}."
            " Remove it, and a new one is made."
        )
    return Reporters(key)


def _make(path: Path) -> None:
    """Write a new key beside the place and link it there, so that nobody reads half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(secrets.token_bytes(_KEY_BYTES))
            opened.flush()
            os.fsync(opened.fileno())
        with contextlib.suppress(FileExistsError):  # somebody was faster: theirs it is
            os.link(partial, path)
    finally:
        partial.unlink()
