"""The Redis that keeps a frontier: opened, checked, asked by scripts; its errors mapped to ours."""

from collections.abc import Sequence
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
from crawler.frontier.base import CLOCK_SLACK
from crawler.frontier.packing import pack
from crawler.politeness import longest_rest
from proxy.redis_server import Fault, Manners, RedisServer

# Another version's keys mean something else.
SCHEMA_VERSION = 1
_MADE = f"weboid-frontier {SCHEMA_VERSION} "
_ANSWER_TIMEOUT_S = 5.0
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
        self._server = RedisServer(
            address, Manners("crawler.frontier", self._as_error, _ANSWER_TIMEOUT_S)
        )
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

    def warnings(self) -> list[str]:
        """What in the server's configuration may lose the frontier, as sentences.

        Servers that keep their configuration to themselves are believed.
        """
        found = []
        said = self._server.call("INFO")
        info = said if isinstance(said, dict) else {}
        if not info.get("aof_enabled"):
            found.append(
                f"The Redis at {self._address} loses what it was told last when it dies: give it"
                " 'appendonly yes'."
                if self._snapshots()
                else f"The Redis at {self._address} keeps nothing on disk: give it 'appendonly yes',"
                " or a restart loses the whole frontier."
            )
        policy = str(info.get("maxmemory_policy", ""))
        if policy.startswith("allkeys"):
            found.append(
                f"The Redis at {self._address} throws keys away when memory is short"
                f" (maxmemory-policy {policy}): set it to noeviction."
            )
        return found

    def close(self) -> None:
        """End the connections."""
        self._server.close()

    def _snapshots(self) -> bool:
        try:
            said = self._server.call("CONFIG", "GET", "save")
        except UnavailableError:
            return True
        values = list(said.values()) if isinstance(said, dict) else list(said)[1:]
        return any(values)

    def _open(self, salt: bytes) -> bytes:
        wish = _MADE + salt.hex()
        made: bytes = self._server.script("open", self._keys, [b"", self._settings, pack(wish)])
        if not made.startswith(_MADE.encode()):
            raise self._other(made)
        return made

    def _other(self, made: bytes) -> CollectionVersionError:
        found = made.decode("utf-8", "replace")[:100] or "something else"
        return CollectionVersionError(
            f"{self._place()} is no frontier of version {SCHEMA_VERSION} (it says {found!r}): use the"
            " version that made it, or another name with ?frontier=NAME in [frontier] url."
        )

    def _place(self) -> str:
        return f"The frontier {self._address.name} at {self._address}"

    def _as_error(self, fault: Fault, words: str) -> WeboidError:
        place = self._place()
        match fault:
            case Fault.MISSING:
                return UnavailableError(f"[frontier] url needs the Redis client: {words}.")
            case Fault.REFUSED:
                return UnavailableError(
                    f"{place} refuses us: {words}. Correct user and password in [frontier] url."
                )
            case Fault.SILENT | Fault.SOON:
                return TransientError(
                    f"{place} does not answer: {words}. Start Redis there, or correct"
                    " [frontier] url."
                )
            case Fault.FULL:
                return DiskFullError(
                    f"{place} cannot grow: {words}. Give Redis more memory or disk, then go on."
                )
            case Fault.OTHER:
                return self._as_other(words)

    def _as_other(self, words: str) -> WeboidError:
        place = self._place()
        if "WEBOID-BROKEN" in words:
            return InvariantError(
                f"The books of {place} contradict: {words}. Has Redis thrown keys away, or did"
                " somebody delete some?"
            )
        if "WEBOID-OTHER false" in words:
            return UnavailableError(
                f"{place} is gone: Redis has lost it, or somebody deleted it. Give Redis"
                " 'appendonly yes', and begin anew."
            )
        if "WEBOID-OTHER" in words:
            return CollectionVersionError(
                f"{place} was replaced by another since it was opened: begin anew."
            )
        return UnavailableError(f"{place} cannot be used: {words}. Redis's own log says more.")


def _settings(politeness: PolitenessSettings, settings: FrontierSettings) -> list[object]:
    """What every script is told, as common.lua reads it."""
    return [
        max(politeness.visits_per_host, 1),
        politeness.delay_factor,
        round(politeness.min_delay_s * 1e6),
        round(politeness.max_delay_s * 1e6),
        longest_rest(politeness) // timedelta(milliseconds=1),
        CLOCK_SLACK // timedelta(milliseconds=1),
        round(settings.lease_s * 1000),
        1 if settings.order == "random" else 0,
    ]
