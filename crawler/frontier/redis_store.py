"""Redis connection of the frontier: key space, Lua scripts, server clock, error mapping."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from core.config.database_urls import RedisAddress
from core.config.settings import FrontierSettings, PolitenessSettings
from core.errors import (
    CollectionVersionError,
    DiskFullError,
    InvariantError,
    TransientError,
    UnavailableError,
    WeboidError,
)
from crawler.frontier.base import CLOCK_MARGIN, CLOCK_SLACK
from crawler.frontier.politeness import longest_back_off, longest_rest, longest_wait
from crawler.frontier.redis_codec import pack
from net.redis_client import RedisClient, RedisClientOptions, RedisFault

CHECK_EVERY_S = 60.0
# A larger difference to the monotonic clock means that our clock was set.
CLOCK_STEP = timedelta(seconds=1)
_SAMPLES = 3


@dataclass(eq=False, repr=False)
class ServerClock:
    """Offset of the server's clock, never older than a minute, nor from before our clock was set.

    Without `server_now` our own time counts.
    """

    server_now: Callable[[], datetime] | None
    monotonic: Callable[[], float]
    _seen: tuple[datetime, float] | None = field(default=None, init=False)
    _checked: float = field(default=0.0, init=False)
    _offset: timedelta = field(default=timedelta(0), init=False)

    @property
    def last(self) -> timedelta:
        """Return the last `offset`, for methods without a `now` argument."""
        return self._offset

    def offset(self, now: datetime) -> timedelta:
        """Return the difference to add to our moments; `now` is the present one."""
        if self.server_now is None:
            return self._offset
        tick = self.monotonic()
        if self._is_due(now, tick):
            self._offset = self._measured(now, tick, self.server_now)
            self._checked = tick
        self._seen = now, tick
        return self._offset

    def _is_due(self, now: datetime, tick: float) -> bool:
        if self._seen is None or tick - self._checked > CHECK_EVERY_S:
            return True
        seen, then = self._seen
        return abs(now - seen - timedelta(seconds=tick - then)) > CLOCK_STEP

    def _measured(
        self, now: datetime, tick: float, server_now: Callable[[], datetime]
    ) -> timedelta:
        """Measure the offset several times; the quickest answer counts, at its half-way moment."""
        quickest, offset = float("inf"), timedelta(0)
        for _ in range(_SAMPLES):
            asked = self.monotonic()
            said = server_now()
            answered = self.monotonic()
            if answered - asked < quickest:
                quickest = answered - asked
                offset = said - (now + timedelta(seconds=(asked + answered) / 2 - tick))
        return offset


# Another version's keys mean something else.
SCHEMA_VERSION = 1
_MADE = f"weboid-frontier {SCHEMA_VERSION} "
_ANSWER_TIMEOUT_S = 5.0
_SAVE_POLL_S = 0.2  # poll interval for the dump file
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RedisStore:
    """Frontier's keys at an address, created when there are none. Thread-safe; `close` it.

    Every script is atomic: Redis runs one at a time, and keeps or loses its writes as a whole.

    Raises:
        CollectionVersionError: the data is another program's or another version's.
        TransientError: the server does not answer.
        UnavailableError: it cannot be used.
    """

    def __init__(
        self,
        address: RedisAddress,
        politeness: PolitenessSettings,
        settings: FrontierSettings,
        salt: bytes,
    ) -> None:
        self._address = address
        self._keys = [address.tag.encode()]
        self._settings = pack(_settings(politeness, settings))
        self._made = b""
        self._server = RedisClient(address, _connection_options(address))
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
        """Save Redis's dump file; return its path, empty when Redis does not report it.

        Raises UnavailableError if the user may not, or Redis could not write it.
        """
        began, _ = self._server.call("TIME")
        self._server.call("BGSAVE", "SCHEDULE")
        while True:
            info = self._server.call("INFO", "persistence")
            is_over = not int(info["rdb_bgsave_in_progress"])
            if is_over and info["rdb_last_bgsave_status"] != "ok":
                raise UnavailableError(
                    f"The Redis at {self._address} could not write its dump file: its own log says why."
                )
            if is_over and int(info["rdb_last_save_time"]) >= int(began):
                try:
                    folder, name = (_configured(self._server, key) for key in ("dir", "dbfilename"))
                except UnavailableError:
                    return ""
                return f"{folder[0]}/{name[0]}" if folder and name else ""
            wait(_SAVE_POLL_S)

    def warnings(self) -> list[str]:
        """See `durability_warnings`."""
        return _warnings(self._server, self._address)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _open(self, salt: bytes) -> bytes:
        wish = _MADE + salt.hex()
        made: bytes = self._server.script("open", self._keys, [b"", self._settings, pack(wish)])
        if not made.startswith(_MADE.encode()):
            found = made.decode("utf-8", "replace")[:100] or "something else"
            raise CollectionVersionError(
                f"The frontier {self._address.name} at {self._address} is no frontier of version {SCHEMA_VERSION} (it says {found!r}): use the"
                " version that made it, or another name with ?frontier=NAME in [frontier] url."
            )
        return made


def durability_warnings(address: RedisAddress) -> list[str]:
    """Return warnings about server settings that may lose a frontier, as sentences; writes nothing.

    Servers that do not disclose their configuration give none. Errors are those of `RedisStore`.
    """
    with closing(RedisClient(address, _connection_options(address))) as server:
        return _warnings(server, address)


def _warnings(server: RedisClient, address: RedisAddress) -> list[str]:
    found = []
    said = server.call("INFO")
    info = said if isinstance(said, dict) else {}
    if not info.get("aof_enabled"):
        try:
            has_snapshots = any(_configured(server, "save"))
        except UnavailableError:
            has_snapshots = True
        found.append(
            f"The Redis at {address} loses what it was told last when it dies: give it"
            " 'appendonly yes'."
            if has_snapshots
            else f"The Redis at {address} keeps nothing on disk: give it 'appendonly yes', or a"
            " restart loses the whole frontier."
        )
    policy = str(info.get("maxmemory_policy", ""))
    if policy.startswith("allkeys"):
        found.append(
            f"The Redis at {address} throws keys away when memory is short (maxmemory-policy"
            f" {policy}): set it to noeviction."
        )
    return found


def _configured(server: RedisClient, key: str) -> list[str]:
    """Return the server's configured values for the key; UnavailableError when it does not tell."""
    said = server.call("CONFIG", "GET", key)
    values = list(said.values()) if isinstance(said, dict) else list(said)[1:]
    return [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in values]


def _connection_options(address: RedisAddress) -> RedisClientOptions:
    place = f"The frontier {address.name} at {address}"
    return RedisClientOptions(
        "crawler.frontier", lambda fault, words: _map_fault(place, fault, words), _ANSWER_TIMEOUT_S
    )


def _map_fault(place: str, fault: RedisFault, words: str) -> WeboidError:
    match fault:
        case RedisFault.MISSING:
            return UnavailableError(f"[frontier] url needs the Redis client: {words}.")
        case RedisFault.REFUSED:
            return UnavailableError(
                f"{place} refuses us: {words}. Correct user and password in [frontier] url."
            )
        case RedisFault.SILENT | RedisFault.SOON:
            return TransientError(
                f"{place} does not answer: {words}. Start Redis there, or correct [frontier] url."
            )
        case RedisFault.FULL:
            return DiskFullError(
                f"{place} cannot grow: {words}. Give Redis more memory or disk, then go on."
            )
        case RedisFault.OTHER:
            return _map_other_fault(place, words)


def _map_other_fault(place: str, words: str) -> WeboidError:
    if "WEBOID-BROKEN" in words:
        return InvariantError(
            f"{place}: its books contradict: {words}. Has Redis thrown keys away, or did somebody"
            " delete some?"
        )
    if "WEBOID-OTHER false" in words:
        return UnavailableError(
            f"{place} does not exist any more: Redis has lost it, or it was deleted. Set"
            " 'appendonly yes' in Redis, and start again."
        )
    if "WEBOID-OTHER" in words:
        return CollectionVersionError(
            f"{place} was replaced by another since it was opened: start again."
        )
    return UnavailableError(f"{place} cannot be used: {words}. Redis's own log says more.")


def _settings(politeness: PolitenessSettings, settings: FrontierSettings) -> list[object]:
    """Return the settings that every script gets, as common.lua reads them."""
    millisecond = timedelta(milliseconds=1)
    return [
        max(politeness.visits_per_host, 1),
        politeness.delay_factor,
        round(politeness.min_delay_s * 1e6),
        round(politeness.max_delay_s * 1e6),
        longest_rest(politeness) // millisecond,
        CLOCK_SLACK // millisecond,
        round(settings.lease_s * 1000),
        1 if settings.order == "random" else 0,
        CLOCK_MARGIN // millisecond,
        longest_back_off(politeness) // millisecond,
        longest_wait(politeness) // millisecond,
    ]
