"""Another record with the payload that a revisit refers to, where the record it names is gone.

What a record says of its payload is what somebody wrote there: here the payload itself is hashed, before
any of it stands in for another.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from core.captures import Capture
from core.digests import Digest
from core.errors import InputError
from playback.replay.records import Record, dechunked

Twins = Callable[[str], Sequence[Capture]]
"""Captures that the index files under that digest, a few of them, which may be shown."""

# MD5 can be made to fit by whoever wants to.
_TRUSTED = frozenset({"sha1", "sha256", "sha512"})


def holds_payload(
    record: Record, digest: str, by_turns: Callable[[Iterator[bytes]], Iterable[bytes]]
) -> bool:
    """Whether the record's payload has that digest; the payload is read for it.

    Archives hash a chunked body as it is stored, or without its chunks: either will do.

    Raises:
        PermanentError: the record is damaged.
    """
    try:
        wanted = Digest.parse(digest)
    except InputError:
        return False
    if wanted.algorithm not in _TRUSTED:
        return False
    stored = hashlib.new(wanted.algorithm, usedforsecurity=False)
    if record.http is None or record.http.get("transfer-encoding").lower() != "chunked":
        for block in by_turns(record.content):
            stored.update(block)
        return stored.hexdigest() == wanted.value

    def tapped() -> Iterator[bytes]:
        for block in by_turns(record.content):
            stored.update(block)
            yield block

    plain = hashlib.new(wanted.algorithm, usedforsecurity=False)
    blocks = tapped()
    for block in dechunked(blocks):
        plain.update(block)
    for _ in blocks:  # what stands behind the last chunk
        pass
    return wanted.value in (stored.hexdigest(), plain.hexdigest())
