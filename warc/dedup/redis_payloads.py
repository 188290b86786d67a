"""Dedup index in Redis, shared by several machines.

A process holds a lock on the file of its name, by which the next process of the collection recognises the claims of a
dead one at once; other machines rely on its heartbeat, a key with an expiry. A payload's key is the hash tag, the
bucket, and the digest's raw bytes. Its value begins with a letter: ``c`` and a process's name for a claim, ``o`` and
the packed original.

A process that stalls longer than its heartbeat counts as dead but may resume later: then `settle` returns the lost
keys. Operations that a lost connection left undone are queued, and run before any new claim and with every heartbeat;
if the process dies first, recovery publishes the records.
"""

import logging
import os
import re
import secrets
import socket
import struct
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from core.config.database_urls import RedisAddress
from core.errors import DedupUnavailableError
from net.backoff import ExponentialBackoff
from net.redis_client import RedisClient, RedisFault
from warc.dedup.payloads import Claim, OriginalRecord, PayloadIndex, PayloadKey
from warc.local_storage import PresenceFile, dead_presences


def dedup_server(address: RedisAddress) -> RedisClient:
    """Return a client for the server, whose requests raise DedupUnavailableError when it fails."""

    def as_error(fault: RedisFault, words: str) -> DedupUnavailableError:
        place = f"The dedup index at {address}"
        texts = {
            RedisFault.MISSING: f"[proxy] dedup_url needs the Redis client: {words}.",
            RedisFault.REFUSED: f"{place} refuses the login: {words}. Correct user and password in [proxy] dedup_url.",
            RedisFault.SILENT: f"{place} does not answer: {words}. Start Redis there, or correct [proxy] dedup_url.",
            RedisFault.SOON: f"{place} does not answer yet: {words}. Try again in a moment.",
        }
        cannot = f"{place} cannot be used: {words}. Redis's own log says more."
        return DedupUnavailableError(texts.get(fault, cannot))

    return RedisClient(address, "warc.dedup", as_error)


_SHA256 = re.compile("sha256:([0-9a-f]{64})")
_NUMBERS = struct.Struct(">cqQQ")  # the letter, captured_ms, offset, length


def payload_key(tag: str, key: PayloadKey) -> bytes:
    """Return the Redis key of a payload: SHA-256 as 32 bytes, any other digest as text.

    >>> payload_key("{t}", PayloadKey("sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", "a:b"))
    b'{t}:a%3Ab:sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A'
    """
    named = _SHA256.fullmatch(key.digest)
    digest = key.digest.encode() if named is None else bytes.fromhex(named[1])
    return f"{tag}:{quote(key.bucket, safe='')}:".encode() + digest


def pack_original(key: PayloadKey, original: OriginalRecord) -> bytes:
    """Encode the value of a payload that is on disk."""
    numbers = _NUMBERS.pack(b"o", original.captured_ms, original.offset, original.length)
    spelled = "" if original.digest == key.digest else original.digest
    return numbers + "\0".join((original.filename, spelled, original.url)).encode()


def unpack_original(key: PayloadKey, value: bytes) -> OriginalRecord:
    """Decode a value of `pack_original`, or raise DedupUnavailableError."""
    try:
        _, captured_ms, offset, length = _NUMBERS.unpack_from(value)
        filename, spelled, url = value[_NUMBERS.size :].decode().split("\0", 2)
    except (struct.error, ValueError) as error:
        raise DedupUnavailableError(
            "The dedup index contains values of another program: give it another database number, "
            "or another name with ?index=NAME in [proxy] dedup_url."
        ) from error
    return OriginalRecord(spelled or key.digest, url, captured_ms, filename, offset, length)


log = logging.getLogger(__name__)

HEARTBEAT_S = 10.0  # a process without a heartbeat for this long counts as dead
BEATS = 3  # heartbeats sent in that time
CLAIM_MS = 86_400_000  # unrequested claims of dead processes expire after a day
FIRST_POLL_S = 0.002  # a batch takes some milliseconds
LAST_POLL_S = 0.05
KEYS_AT_ONCE = 1_000  # a script blocks all other clients
_CLAIMS = {b"y": Claim.YOURS, b"b": Claim.BUSY}  # answers of the script `claim`


class RedisPayloadIndex(PayloadIndex):
    """Dedup index in Redis. One thread claims and settles, another renews the heartbeat."""

    shared = True

    def __init__(self, address: RedisAddress, folder: Path, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        """Connect, and find dead processes by their lock files in `folder`; raises DedupUnavailableError."""
        self._tag = address.tag
        self._heartbeat_s, self._lease_ms = heartbeat_s, round(heartbeat_s * 1000)
        # Queued operations: an original to add; None: a claim to release
        self._pending: dict[PayloadKey, OriginalRecord | None] = {}
        self._turn = threading.Lock()  # queued operations are run by one thread at a time, and not during a claim
        self._over = threading.Event()
        self._silent = False
        self._server = dedup_server(address)
        self._dead = dead_presences(folder)
        name = secrets.token_hex(8)  # sixteen characters, never used again
        self._presence = PresenceFile(folder / name)
        self._heartbeat, self._name = self._heartbeat_of(name), name.encode()
        # Machine and process, for people who inspect the index.
        self._about = f"{socket.gethostname()} {os.getpid()}".encode()
        try:
            self.check()
        except DedupUnavailableError:
            self._presence.close()
            self._server.close()
            raise
        self._pulse = threading.Thread(target=self._keep_alive, name="heartbeat", daemon=True)
        self._pulse.start()

    def check(self) -> None:
        """Renew the heartbeat, which checks that the server answers."""
        self._server.call("SET", self._heartbeat, self._about, "PX", self._lease_ms)

    def claim(self, keys: Collection[PayloadKey], also: Sequence[str] = ()) -> dict[PayloadKey, OriginalRecord | Claim]:
        """Claim each key; return its original, or the state of its claim; one round trip."""
        if not keys:
            return {}
        with self._turn:
            self._run_pending()
            claimed = [payload_key(self._tag, PayloadKey(key.digest, b)) for key in keys for b in (key.bucket, *also)]
            arguments = (self._name, self._about, self._lease_ms, CLAIM_MS, 1 + len(also))
            try:
                answers = self._server.script("claim", (self._heartbeat, *claimed), arguments)
                return {
                    key: _CLAIMS.get(each) or unpack_original(key, each)
                    for key, each in zip(keys, answers, strict=True)
                }
            except DedupUnavailableError:
                self._add_pending(dict.fromkeys(keys))  # the claims may have been made although the answer is lost
                raise

    def find(self, keys: Collection[PayloadKey], also: Sequence[str] = ()) -> dict[PayloadKey, OriginalRecord]:
        """Return the known originals; nothing is claimed."""
        originals: dict[PayloadKey, OriginalRecord] = {}
        for bucket in (None, *also):
            for some in _key_batches([key for key in keys if key not in originals]):
                candidates = [key if bucket is None else PayloadKey(key.digest, bucket) for key in some]
                for key, value in zip(some, self._script("find", candidates), strict=True):
                    if value:
                        originals[key] = unpack_original(key, value)
        return originals

    def settle(self, originals: Mapping[PayloadKey, OriginalRecord]) -> frozenset[PayloadKey]:
        """Mark the originals as known, all or none; return the lost keys, none while they are queued for the server."""
        if not originals:
            return frozenset()
        keys = list(originals)
        values = [pack_original(key, original) for key, original in originals.items()]
        try:
            lost = self._script("settle", keys, self._about, self._lease_ms, *values)
        except DedupUnavailableError as error:
            log.warning("payloads.pending count=%d error=%s", len(keys), error)
            with self._turn:
                self._add_pending(originals)
            return frozenset()
        return frozenset(keys[place - 1] for place in lost)

    def release(self, keys: Collection[PayloadKey]) -> None:
        """Release claims."""
        if not keys:
            return
        try:
            self._script("release", keys)
        except DedupUnavailableError:
            with self._turn:
                self._add_pending(dict.fromkeys(keys))

    def wait(self, keys: Collection[PayloadKey], timeout_s: float) -> None:
        """Wait until one of the keys is not claimed by another living process any more."""
        deadline = time.monotonic() + timeout_s
        pauses = ExponentialBackoff(FIRST_POLL_S, LAST_POLL_S)
        while keys and not self._script("look", keys):
            left = deadline - time.monotonic()
            if left <= 0 or self._over.wait(min(pauses.next_s(), left)):
                return

    def add(self, originals: Mapping[PayloadKey, OriginalRecord]) -> None:
        """Add payloads of records in WARCs; replaces claims of this collection's dead processes."""
        dead = "".join(path.name for path in self._dead).encode()
        for keys in _key_batches(list(originals)):
            self._script("add", keys, dead, *(pack_original(key, originals[key]) for key in keys))

    def release_dead(self) -> None:
        """Release the claims of this collection's dead processes."""
        for path in self._dead:
            self._server.call("DEL", self._heartbeat_of(path.name))
            path.unlink(missing_ok=True)
            log.info("payloads.freed owner=%s", path.name)
        self._dead.clear()

    def close(self) -> None:
        """Run queued operations and remove the heartbeat, which invalidates every claim."""
        self._over.set()
        self._pulse.join()
        try:
            with self._turn:
                self._run_pending()
            self._server.call("DEL", self._heartbeat)
        except DedupUnavailableError as error:
            log.warning("payloads.left pending=%d error=%s", len(self._pending), error)
        self._presence.close()
        self._server.close()

    def _keep_alive(self) -> None:
        while not self._over.wait(self._heartbeat_s / BEATS):
            try:
                self.check()
                with self._turn:
                    self._run_pending()
                self._silent = False
            except DedupUnavailableError as error:
                if not self._silent:  # once per outage
                    log.warning("payloads.unavailable error=%s", error)
                self._silent = True

    def _add_pending(self, operations: Mapping[PayloadKey, OriginalRecord | None]) -> None:
        """Add operations to the queue; publishing a record takes precedence over a release."""
        for key, operation in operations.items():
            if operation is not None or self._pending.get(key) is None:
                self._pending[key] = operation

    def _run_pending(self) -> None:
        """Run the queued operations, with the lock held; after a stall this may keep a second `response`."""
        if not self._pending:
            return
        self.add({key: original for key, original in self._pending.items() if original is not None})
        for keys in _key_batches([key for key, original in self._pending.items() if original is None]):
            self._script("release", keys)
        self._pending.clear()

    def _script(self, name: str, keys: Collection[PayloadKey], *arguments: bytes | int) -> Any:
        named = (self._heartbeat, *(payload_key(self._tag, key) for key in keys))
        return self._server.script(name, named, (self._name, *arguments))

    def _heartbeat_of(self, name: str) -> bytes:
        return f"{self._tag}:alive:{name}".encode()


def _key_batches(keys: Sequence[PayloadKey]) -> list[Sequence[PayloadKey]]:
    return [keys[at : at + KEYS_AT_ONCE] for at in range(0, len(keys), KEYS_AT_ONCE)]
