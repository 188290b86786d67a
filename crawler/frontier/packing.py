"""What the Redis frontier's scripts are told and answer, as bytes: identities, items, records.

Texts are UTF-8 in which lone surrogates keep their code points, so that every `str` comes back.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgpack

from core.errors import InputError
from core.timestamps import moment as to_moment
from core.urls import identity_key
from crawler.frontier.base import (
    Attempt,
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
    """A message for a script; Redis's own MessagePack knows no type for bytes but that of texts."""
    packed: bytes = msgpack.packb(value, unicode_errors=_ERRORS, use_bin_type=False)
    return packed


def unpack(message: bytes) -> Any:
    """What a script answered; texts are still bytes."""
    return msgpack.unpackb(message, raw=True, strict_map_key=False)


def to_bytes(text: str) -> bytes:
    """The text, as it is kept."""
    return text.encode("utf-8", _ERRORS)


def to_text(kept: bytes) -> str:
    """The text that was kept."""
    return kept.decode("utf-8", _ERRORS)


def hashed(key: str) -> bytes:
    """The 16 bytes that stand for an identity key."""
    return blake2b(to_bytes(key), digest_size=16).digest()


def identity_of(url: str) -> bytes:
    """The 16 bytes that stand for all spellings of a URL.

    Raises:
        BadUrlError: it is no web URL.
    """
    return hashed(identity_key(url))


def pack_body(item: NewItem) -> bytes:
    """What of an item the scripts keep without looking into it."""
    return pack((item.url, item.via, item.hops, item.hops_off))


def page_id(salt: bytes, identity: bytes, number: int) -> str:
    """The page's identifier: the same as often as it is asked for, another for another number.

    A UUID of version 8 (RFC 9562, 5.8), made of a hash that nobody else makes without the salt, so
    that the store need not keep it.
    """
    data = bytearray(
        blake2b(identity + number.to_bytes(8, "big"), digest_size=16, key=salt).digest()
    )
    data[6] = 0x80 | data[6] & 0x0F
    data[8] = 0x80 | data[8] & 0x3F
    return str(UUID(bytes=bytes(data)))


def cursor_of(cursor: str) -> tuple[int, str]:
    """The shard where a scan goes on, and the place within.

    Raises:
        InputError: no scan has told that cursor.
    """
    match = _CURSOR.fullmatch(cursor or "0:0")
    if match is None or int(match[1]) > LAST_SHARD or int(match[2]) >= 1 << 64:
        raise InputError(f"A scan goes on from the cursor that it told; {cursor[:100]!r} is none.")
    return int(match[1]), match[2]


def item_of(row: list[Any], salt: bytes) -> FrontierItem:
    """The item that a script tells in its first ten fields."""
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


def record_of(row: list[Any], salt: bytes, offset: timedelta) -> ItemRecord:
    """The record that a script tells; `offset` is how far its clock is ahead of ours."""
    state, added, ended, outcome, due, worker, claimed, lease, attempts = row[10:]

    def moment(count: int) -> datetime | None:
        return to_moment(count) - offset if count else None

    return ItemRecord(
        item=item_of(row, salt),
        state=STATES[state],
        added_at=to_moment(added) - offset,
        ended_at=moment(ended),
        outcome=to_text(outcome),
        due_at=moment(due),
        attempts=tuple(_attempts(attempts, offset)),
        worker=to_text(worker),
        lease_until=moment(lease),
        claimed_at=moment(claimed),
    )


def _attempts(log: list[bytes], offset: timedelta) -> Iterable[Attempt]:
    for ending, reason, worker, claimed, ended in map(unpack, log):
        yield Attempt(
            to_text(ending),
            to_text(reason),
            to_text(worker),
            to_moment(claimed) - offset,
            to_moment(ended) - offset,
        )


def report_of(row: list[Any], now: datetime, offset: timedelta) -> HostReport:
    """The report of a host that a script tells, at a moment."""
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
