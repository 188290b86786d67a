"""The Redis that keeps a frontier: opened, checked, asked by scripts; its errors mapped to ours."""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from core.errors import (
    CollectionVersionError,
    DiskFullError,
    InvariantError,
    TransientError,
    UnavailableError,
    WeboidError,
)
from core.redis_url import RedisAddress
from core.settings import FrontierSettings, PolitenessSettings
from crawler.frontier.base import CLOCK_MARGIN, CLOCK_SLACK
from crawler.frontier.packing import pack
from crawler.politeness import longest_back_off, longest_rest, longest_wait
from proxy.redis_server import Fault, Manners, RedisServer

# Another version's keys mean something else.
SCHEMA_VERSION = 1
_MADE = f"weboid-frontier {SCHEMA_VERSION} "
_ANSWER_TIMEOUT_S = 5.0
_SAVE_LOOK_S = 0.2  # between two looks whether a dump file is written
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RedisStore:
    """The frontier's keys at an address, made when there are none. Thread-safe; `close` it.

    Every script is atomic: Redis runs one at a time, and what it wrote is kept or lost as a whole.

    Raises:
        CollectionVersionError: what is there is another program's or another version's.
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
        self._server = RedisServer(address, _manners(address))
        try:
            self._made = self._open(salt)
        except BaseException:
            self._server.close()
            raise

    @property
    def salt(self) -> bytes:
        """What the frontier's identifiers are made with; it was chosen when the keys were made."""
        return bytes.fromhex(self._made.decode().removeprefix(_MADE))

    def ask(self, verb: str, *arguments: object, resent: Sequence[object] | None = None) -> Any:
        """What the verb's script answers.

        Args:
            verb: the script.
            arguments: what it is told.
            resent: what it is told when it may have run already; None: the same.
        """
        head = [self._made, self._settings]
        again = None if resent is None else [*head, pack(resent)]
        return self._server.script(verb, self._keys, [*head, pack(arguments)], resent=again)

    def time(self) -> datetime:
        """The server's time."""
        seconds, us = self._server.call("TIME")
        return _EPOCH + timedelta(seconds=int(seconds), microseconds=int(us))

    def save(self, wait: Callable[[float], object]) -> str:
        """Let Redis write its dump file; return where, as far as it tells.

        Args:
            wait: waits so many seconds.

        Raises:
            UnavailableError: the user may not, or Redis could not write it.
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
                return self._dump_file()
            wait(_SAVE_LOOK_S)

    def _dump_file(self) -> str:
        try:
            folder, name = (_configured(self._server, key) for key in ("dir", "dbfilename"))
        except UnavailableError:
            return ""
        return f"{folder[0]}/{name[0]}" if folder and name else ""

    def warnings(self) -> list[str]:
        """See `look_at`."""
        return _warnings(self._server, self._address)

    def close(self) -> None:
        """End the connections."""
        self._server.close()

    def _open(self, salt: bytes) -> bytes:
        wish = _MADE + salt.hex()
        made: bytes = self._server.script("open", self._keys, [b"", self._settings, pack(wish)])
        if not made.startswith(_MADE.encode()):
            raise self._other(made)
        return made

    def _other(self, made: bytes) -> CollectionVersionError:
        found = made.decode("utf-8", "replace")[:100] or "something else"
        return CollectionVersionError(
            f"The frontier {self._address.name} at {self._address} is no frontier of version {SCHEMA_VERSION} (it says {found!r}): use the"
            " version that made it, or another name with ?frontier=NAME in [frontier] url."
        )


def look_at(address: RedisAddress) -> list[str]:
    """What in the server's configuration may lose a frontier, as sentences; nothing is left behind.

    Servers that keep their configuration to themselves are believed.

    Raises:
        TransientError, UnavailableError: as `RedisStore`.
    """
    with closing(RedisServer(address, _manners(address))) as server:
        return _warnings(server, address)


def _warnings(server: RedisServer, address: RedisAddress) -> list[str]:
    found = []
    said = server.call("INFO")
    info = said if isinstance(said, dict) else {}
    if not info.get("aof_enabled"):
        found.append(
            f"The Redis at {address} loses what it was told last when it dies: give it"
            " 'appendonly yes'."
            if _snapshots(server)
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


def _snapshots(server: RedisServer) -> bool:
    try:
        return any(_configured(server, "save"))
    except UnavailableError:
        return True


def _configured(server: RedisServer, key: str) -> list[str]:
    """Return what the server's configuration says for the key, if anything.

    Raises:
        UnavailableError: it keeps that to itself.
    """
    said = server.call("CONFIG", "GET", key)
    values = list(said.values()) if isinstance(said, dict) else list(said)[1:]
    return [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in values]


def _manners(address: RedisAddress) -> Manners:
    place = f"The frontier {address.name} at {address}"
    return Manners(
        "crawler.frontier", lambda fault, words: _as_error(place, fault, words), _ANSWER_TIMEOUT_S
    )


def _as_error(place: str, fault: Fault, words: str) -> WeboidError:
    match fault:
        case Fault.MISSING:
            return UnavailableError(f"[frontier] url needs the Redis client: {words}.")
        case Fault.REFUSED:
            return UnavailableError(
                f"{place} refuses us: {words}. Correct user and password in [frontier] url."
            )
        case Fault.SILENT | Fault.SOON:
            return TransientError(
                f"{place} does not answer: {words}. Start Redis there, or correct [frontier] url."
            )
        case Fault.FULL:
            return DiskFullError(
                f"{place} cannot grow: {words}. Give Redis more memory or disk, then go on."
            )
        case Fault.OTHER:
            return _as_other(place, words)


def _as_other(place: str, words: str) -> WeboidError:
    if "WEBOID-BROKEN" in words:
        return InvariantError(
            f"{place}: its books contradict: {words}. Has Redis thrown keys away, or did somebody"
            " delete some?"
        )
    if "WEBOID-OTHER false" in words:
        return UnavailableError(
            f"{place} is gone: Redis has lost it, or somebody deleted it. Give Redis 'appendonly"
            " yes', and begin anew."
        )
    if "WEBOID-OTHER" in words:
        return CollectionVersionError(
            f"{place} was replaced by another since it was opened: begin anew."
        )
    return UnavailableError(f"{place} cannot be used: {words}. Redis's own log says more.")


def _settings(politeness: PolitenessSettings, settings: FrontierSettings) -> list[object]:
    """What every script is told, as common.lua reads it."""
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
