"""MessagePack coding of items and records for the Redis frontier's Lua scripts.

Texts are UTF-8 in which lone surrogates keep their code points, so that every `str` comes back.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgpack

from core.errors import InputError
from core.timestamps import from_unix_milliseconds as to_moment
from core.urls import identity_and_host, identity_key
from crawler.frontier.base import (
    ClaimAttempt,
    FrontierItem,
    HostReport,
    ItemRecord,
    ItemState,
    Lane,
    NewItem,
)

# The numbers that common.lua gives the states; LATER is a queued item that waits for its moment.
QUEUED, LATER, CLAIMED, DONE, SKIPPED, DEAD = range(6)
STATES = {
    QUEUED: ItemState.QUEUED,
    LATER: ItemState.QUEUED,
    CLAIMED: ItemState.CLAIMED,
    DONE: ItemState.DONE,
    SKIPPED: ItemState.SKIPPED,
    DEAD: ItemState.DEAD,
}
CODES = {state: code for code, state in STATES.items() if code != LATER}

# Records are kept in hashes by the first byte of their identity.
LAST_SHARD = 255

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


def to_text(kept: bytes) -> str:
    """Decode a text of `to_bytes`."""
    return kept.decode("utf-8", _ERRORS)


def hash_key(key: str) -> bytes:
    """Return the 16-byte hash of an identity key."""
    return blake2b(to_bytes(key), digest_size=16).digest()


def identity_of(url: str) -> bytes:
    """Return the 16-byte hash shared by all spellings of a URL; BadUrlError for no web URL."""
    return hash_key(identity_key(url))


def page_id(salt: bytes, identity: bytes, number: int) -> str:
    """Return the page's identifier, determined by salt, identity and number.

    A UUID of version 8 (RFC 9562, 5.8), made of a hash that cannot be computed without the salt, so
    that the store need not keep it.
    """
    data = bytearray(
        blake2b(identity + number.to_bytes(8, "big"), digest_size=16, key=salt).digest()
    )
    data[6] = 0x80 | data[6] & 0x0F
    data[8] = 0x80 | data[8] & 0x3F
    return str(UUID(bytes=bytes(data)))


def parse_cursor(cursor: str) -> tuple[int, str]:
    """Parse a cursor, or raise InputError, into the shard where a scan continues, and the place within."""
    match = _CURSOR.fullmatch(cursor or "0:0")
    if match is None or int(match[1]) > LAST_SHARD or int(match[2]) >= 1 << 64:
        raise InputError(
            f"{cursor[:100]!r} is no cursor of a scan. Pass the one that the last call returned."
        )
    return int(match[1]), match[2]


def unpack_item(row: list[Any], salt: bytes) -> FrontierItem:
    """Decode the item in the first ten fields of a script's row."""
    identity, number, lane, attempts, token, host, job, memo, down, body = row[:10]
    url, via, hops, hops_off = unpack(body)
    return FrontierItem(
        id=page_id(salt, identity, number),
        url=to_text(url),
        host=to_text(host),
        lane=Lane(lane),
        hops=hops,
        via=to_text(via),
        attempts=attempts,
        token=token,
        job=to_text(job),
        hops_off=hops_off,
        memo=to_text(memo),
        host_down=to_text(down),
    )


def unpack_record(row: list[Any], salt: bytes, offset: timedelta) -> ItemRecord:
    """Decode the record of a script's row; `offset` is how far its clock is ahead of ours."""
    state, added, ended, outcome, due, worker, claimed, lease, attempts = row[10:]

    def moment(count: int) -> datetime | None:
        return to_moment(count) - offset if count else None

    return ItemRecord(
        item=unpack_item(row, salt),
        state=STATES[state],
        added_at=to_moment(added) - offset,
        ended_at=moment(ended),
        outcome=to_text(outcome),
        due_at=moment(due),
        attempts=tuple(
            ClaimAttempt(
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


def unpack_report(row: list[Any], now: datetime, offset: timedelta) -> HostReport:
    """Decode the report of a host at a moment."""
    name, waiting, active, next_ms, blocked, down, reason, done, stored, busy, mean, failures = row

    def future(count: float) -> datetime | None:
        moment = to_moment(round(count)) - offset
        return moment if moment > now else None

    blocked_until, down_until = future(blocked), future(down)
    ready = blocked_until if down_until else max(blocked_until or now, future(next_ms) or now)
    return HostReport(
        host=to_text(name),
        waiting=waiting,
        active=active,
        ready_at=ready or now,
        done=done,
        bytes=stored,
        busy=timedelta(milliseconds=busy),
        mean=timedelta(milliseconds=mean),
        failures=failures,
        blocked_until=blocked_until,
        blocked_reason=to_text(reason) if blocked_until or down_until else "",
        down_until=down_until,
    )


def pack_offers(items: Iterable[NewItem], size: int) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield (number of items, last arguments of ``add.lua``) for batches of `size`.

    The first of equal items counts. Raises BadUrlError for no web URL.
    """
    first: dict[bytes, tuple[str, NewItem]] = {}
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
