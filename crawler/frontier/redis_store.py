"""Redis store of the frontier: connection, key space, Lua scripts, MessagePack coding, server clock, errors."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgpack

from core import errors
from core.config.database_urls import RedisAddress
from core.config.settings import FrontierSettings, PolitenessSettings
from core.timestamps import from_unix_milliseconds as to_moment
from core.urls import identity_and_host, identity_key
from crawler.frontier import base
from crawler.frontier.host_slots import host_report, longest_back_off, longest_rest, longest_wait
from net.redis_client import RedisClient, RedisFault

# The numbers that common.lua gives the states; LATER is a queued item that waits for its moment.
QUEUED, LATER, CLAIMED, DONE, SKIPPED, DEAD = range(6)
STATES = {
    QUEUED: base.ItemState.QUEUED,
    LATER: base.ItemState.QUEUED,
    CLAIMED: base.ItemState.CLAIMED,
    DONE: base.ItemState.DONE,
    SKIPPED: base.ItemState.SKIPPED,
    DEAD: base.ItemState.DEAD,
}
CODES = {state: code for code, state in STATES.items() if code != LATER}

LAST_SHARD = 255  # records are kept in hashes by the first byte of their identity

_CURSOR = re.compile(r"(\d{1,3}):(\d{1,20})", re.ASCII)
_ERRORS = "surrogatepass"


def pack(value: object) -> bytes:
    """Encode a message for a script; Redis's MessagePack has one type for texts and bytes."""
    packed: bytes = msgpack.packb(value, unicode_errors=_ERRORS, use_bin_type=False)
    return packed


def unpack(message: bytes) -> Any:
    """Decode a script's answer; texts are still bytes."""
    return msgpack.unpackb(message, raw=True, strict_map_key=False)


def to_bytes(text: str) -> bytes:
    """Encode a text, lone surrogates included."""
    return text.encode("utf-8", _ERRORS)


def to_text(data: bytes) -> str:
    """Decode a text of `to_bytes`."""
    return data.decode("utf-8", _ERRORS)


def hash_key(key: str) -> bytes:
    """Return the 16-byte hash of an identity key."""
    return blake2b(to_bytes(key), digest_size=16).digest()


def identity_of(url: str) -> bytes:
    """Return the 16-byte hash shared by all spellings of a URL; BadUrlError for no web URL."""
    return hash_key(identity_key(url))


def page_id(salt: bytes, identity: bytes, number: int) -> str:
    """Return the page's identifier, determined by salt, identity and number.

    A UUID of version 8 (RFC 9562, 5.8) of a hash that needs the salt, so that the store need not keep it.
    """
    data = bytearray(blake2b(identity + number.to_bytes(8, "big"), digest_size=16, key=salt).digest())
    data[6] = 0x80 | data[6] & 0x0F
    data[8] = 0x80 | data[8] & 0x3F
    return str(UUID(bytes=bytes(data)))


def parse_cursor(cursor: str) -> tuple[int, str]:
    """Parse a cursor, or raise InputError, into the shard where a scan continues, and the place within."""
    match = _CURSOR.fullmatch(cursor or "0:0")
    if match is None or int(match[1]) > LAST_SHARD or int(match[2]) >= 1 << 64:
        raise errors.InputError(
            f"{cursor[:100]!r} is not a cursor of a scan. Pass the cursor that the last call returned."
        )
    return int(match[1]), match[2]


def unpack_item(row: list[Any], salt: bytes) -> base.FrontierItem:
    """Decode the item in the first ten fields of a script's row."""
    identity, number, lane, attempts, token, host, job, memo, down, body = row[:10]
    url, via, hops, hops_off = unpack(body)
    page = page_id(salt, identity, number), to_text(url), to_text(host), base.Lane(lane), hops, to_text(via)
    return base.FrontierItem(*page, attempts, token, to_text(job), hops_off, to_text(memo), to_text(down))


def unpack_record(row: list[Any], salt: bytes, offset: timedelta) -> base.ItemRecord:
    """Decode the record of a script's row; `offset` is how far its clock is ahead of ours."""
    state, added, ended, outcome, due, worker, claimed, lease, attempts = row[10:]

    def moment(count: int) -> datetime | None:
        return to_moment(count) - offset if count else None

    return base.ItemRecord(
        item=unpack_item(row, salt),
        state=STATES[state],
        added_at=to_moment(added) - offset,
        ended_at=moment(ended),
        outcome=to_text(outcome),
        due_at=moment(due),
        attempts=tuple(
            base.ClaimAttempt(
                to_text(ending),
                to_text(reason),
                to_text(holder),
                to_moment(began) - offset,
                to_moment(finished) - offset,
            )
            for ending, reason, holder, began, finished in map(unpack, attempts)
        ),
        worker=to_text(worker),
        lease_until=moment(lease),
        claimed_at=moment(claimed),
    )


def unpack_report(row: list[Any], now: datetime, offset: timedelta) -> base.HostReport:
    """Decode the report of a host at a moment."""
    return host_report([to_text(each) if isinstance(each, bytes) else each for each in row], now, offset)


def pack_offers(items: Iterable[base.NewItem], size: int) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield (number of items, last arguments of ``add.lua``) for batches of `size`; BadUrlError for no web URL."""
    first: dict[bytes, tuple[str, base.NewItem]] = {}
    offered = 0
    for item in items:
        offered += 1
        key, host = identity_and_host(item.url)
        first.setdefault(hash_key(key), (item.host or host, item))
    wanted = list(first.items())
    equal = offered - len(wanted)  # counted with the first batch
    for start in range(0, len(wanted), size):
        some = wanted[start : start + size]
        # Items refer to hosts and jobs by position, from 1 on.
        hosts: dict[str, int] = {}
        jobs: dict[str, int] = {}
        which = [hosts.setdefault(host, len(hosts) + 1) for _, (host, _) in some]
        of_job = [jobs.setdefault(item.job, len(jobs) + 1) for _, (_, item) in some]
        lanes = [item.lane.value for _, (_, item) in some]
        bodies = [pack((item.url, item.via, item.hops, item.hops_off)) for _, (_, item) in some]
        identities = b"".join(identity for identity, _ in some)
        columns = identities, list(hosts), list(jobs), which, lanes, of_job, bodies, equal
        yield len(some) + equal, columns
        equal = 0


CHECK_EVERY_S = 60.0
CLOCK_STEP = timedelta(seconds=1)  # a larger difference to the monotonic clock means that our clock was set
_SAMPLES = 3


@dataclass(eq=False, repr=False)
class ServerClock:
    """Offset of the server's clock, at most a minute old, not from before ours was set; zero without `server_now`."""

    server_now: Callable[[], datetime] | None
    monotonic: Callable[[], float]
    _seen: tuple[datetime, float] | None = field(default=None, init=False)
    _checked: float = field(default=0.0, init=False)
    last: timedelta = field(default=timedelta(0), init=False)  # the last `offset`, for methods without a `now`

    def offset(self, now: datetime) -> timedelta:
        """Return the difference to add to our moments; `now` is the present one."""
        if self.server_now is None:
            return self.last
        tick = self.monotonic()
        is_due = self._seen is None or tick - self._checked > CHECK_EVERY_S
        if self._seen is not None and not is_due:
            moment, then = self._seen
            is_due = abs(now - moment - timedelta(seconds=tick - then)) > CLOCK_STEP
        if is_due:
            # The quickest answer of several counts, at its half-way moment.
            quickest = float("inf")
            for _ in range(_SAMPLES):
                sent = self.monotonic()
                server_time = self.server_now()
                answered = self.monotonic()
                if answered - sent < quickest:
                    quickest = answered - sent
                    middle = timedelta(seconds=(sent + answered) / 2 - tick)
                    self.last = server_time - (now + middle)
            self._checked = tick
        self._seen = now, tick
        return self.last


SCHEMA_VERSION = 1  # keys of another version have a different meaning
_MADE = f"weboid-frontier {SCHEMA_VERSION} "
_ANSWER_TIMEOUT_S = 5.0
_SAVE_POLL_S = 0.2  # poll interval for the dump file
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RedisStore:
    """Frontier's keys at an address, created when there are none. Thread-safe; `close` it.

    Every script is atomic: Redis runs one at a time, and keeps or loses its writes as a whole.

    Raises CollectionVersionError (another program's or version's data), TransientError (no answer), UnavailableError.
    """

    def __init__(
        self, address: RedisAddress, politeness: PolitenessSettings, settings: FrontierSettings, salt: bytes
    ) -> None:
        self._address = address
        self._keys = [address.tag.encode()]
        self._settings = pack(_settings(politeness, settings))
        self._made = b""
        self._server = _client(address)
        try:
            self._made = self._open(salt)
        except BaseException:
            self._server.close()
            raise

    @property
    def salt(self) -> bytes:
        """Return the salt of the frontier's identifiers, chosen when the keys were created."""
        return bytes.fromhex(self._made.decode().removeprefix(_MADE))

    def ask(self, verb: str, *arguments: object, resent: Sequence[object] | None = None) -> Any:
        """Run a script; return its answer. `resent`: its arguments when it may have run already."""
        head = [self._made, self._settings]
        again = None if resent is None else [*head, pack(resent)]
        return self._server.script(verb, self._keys, [*head, pack(arguments)], resent=again)

    def time(self) -> datetime:
        """Return the server's time."""
        seconds, us = self._server.call("TIME")
        return _EPOCH + timedelta(seconds=int(seconds), microseconds=int(us))

    def save(self, wait: Callable[[float], object]) -> str:
        """Save Redis's dump file; return its path, empty when it is not reported; UnavailableError if it fails."""
        began, _ = self._server.call("TIME")
        self._server.call("BGSAVE", "SCHEDULE")
        while True:
            info = self._server.call("INFO", "persistence")
            is_over = not int(info["rdb_bgsave_in_progress"])
            if is_over and info["rdb_last_bgsave_status"] != "ok":
                raise errors.UnavailableError(
                    f"The Redis at {self._address} could not write its dump file: its own log says why."
                )
            if is_over and int(info["rdb_last_save_time"]) >= int(began):
                try:
                    folder, name = (_configured(self._server, key) for key in ("dir", "dbfilename"))
                except errors.UnavailableError:
                    return ""
                return f"{folder[0]}/{name[0]}" if folder and name else ""
            wait(_SAVE_POLL_S)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _open(self, salt: bytes) -> bytes:
        identity = _MADE + salt.hex()
        stored: bytes = self._server.script("open", self._keys, [b"", self._settings, pack(identity)])
        if not stored.startswith(_MADE.encode()):
            content = stored.decode("utf-8", "replace")[:100] or "something else"
            raise errors.CollectionVersionError(
                f"The frontier {self._address.name} at {self._address} is no frontier of version "
                f"{SCHEMA_VERSION} (it says {content!r}): use the release that made it, or another name"
                " with ?frontier=NAME in [frontier] url."
            )
        return stored


def durability_warnings(address: RedisAddress) -> list[str]:
    """Return warnings about settings of the server that may lose a frontier, as sentences; errors as `RedisStore`."""
    warnings = []
    with closing(_client(address)) as server:
        reply = server.call("INFO")
        info = reply if isinstance(reply, dict) else {}
        if not info.get("aof_enabled"):
            try:
                has_snapshots = any(_configured(server, "save"))
            except errors.UnavailableError:
                has_snapshots = True
            warnings.append(
                f"The Redis at {address} loses its latest writes in a crash: set 'appendonly yes'."
                if has_snapshots
                else f"The Redis at {address} stores nothing on disk: set 'appendonly yes', since a restart loses the "
                "whole frontier."
            )
    policy = str(info.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):
        warnings.append(
            f"The Redis at {address} evicts keys when memory is short (maxmemory-policy {policy}): set it to "
            f"noeviction."
        )
    return warnings


def _configured(server: RedisClient, key: str) -> list[str]:
    """Return the server's configured values for the key; UnavailableError when it does not report it."""
    reply = server.call("CONFIG", "GET", key)
    values = list(reply.values()) if isinstance(reply, dict) else list(reply)[1:]
    return [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in values]


def _client(address: RedisAddress) -> RedisClient:
    as_error = partial(_map_fault, f"The frontier {address.name} at {address}")
    return RedisClient(address, "crawler.frontier", as_error, answer_timeout_s=_ANSWER_TIMEOUT_S)


def _map_fault(place: str, fault: RedisFault, words: str) -> errors.WeboidError:
    match fault:
        case RedisFault.MISSING:
            return errors.UnavailableError(f"[frontier] url needs the Redis client: {words}.")
        case RedisFault.REFUSED:
            return errors.UnavailableError(
                f"{place} refuses the login: {words}. Correct user and password in [frontier] url."
            )
        case RedisFault.SILENT | RedisFault.SOON:
            return errors.TransientError(
                f"{place} does not answer: {words}. Start Redis there, or correct [frontier] url."
            )
        case RedisFault.FULL:
            return errors.DiskFullError(
                f"{place} has no space left: {words}. Give Redis more memory or disk, then resume."
            )
        case RedisFault.OTHER:
            pass  # its words say more
    if "WEBOID-BROKEN" in words:
        return errors.InvariantError(
            f"{place}: its records contradict each other: {words}. Were keys evicted or deleted?"
        )
    if "WEBOID-OTHER false" in words:
        return errors.UnavailableError(
            f"{place} no longer exists: Redis has lost it, or it was deleted. Set"
            " 'appendonly yes' in Redis, and start again."
        )
    if "WEBOID-OTHER" in words:
        return errors.CollectionVersionError(f"{place} was replaced by another since it was opened: start again.")
    return errors.UnavailableError(f"{place} cannot be used: {words}. Redis's own log says more.")


def _settings(politeness: PolitenessSettings, settings: FrontierSettings) -> list[object]:
    """Return the settings that every script gets, as common.lua reads them."""
    millisecond = timedelta(milliseconds=1)
    return [
        max(politeness.visits_per_host, 1),
        politeness.delay_factor,
        round(politeness.min_delay_s * 1e6),
        round(politeness.max_delay_s * 1e6),
        longest_rest(politeness) // millisecond,
        base.CLOCK_SLACK // millisecond,
        round(settings.lease_s * 1000),
        1 if settings.order == "random" else 0,
        base.CLOCK_MARGIN // millisecond,
        longest_back_off(politeness) // millisecond,
        longest_wait(politeness) // millisecond,
    ]
