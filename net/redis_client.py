"""Redis client: scripts, redirections, and errors in the caller's terms."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum, auto
from importlib.resources import files
from typing import Any

from core.config.database_urls import RedisAddress, error_words
from core.errors import WeboidError

# Callers block until the answer, and others wait for them.
CONNECT_TIMEOUT_S = 2.0
ANSWER_TIMEOUT_S = 3.0
RETRIES = 2
MAX_MOVES = 3  # a cluster's node names the right one; it may be wrong while the cluster changes

# Errors of a server that is temporarily unavailable: loading data, or cluster failover.
_SOON = ("LOADING", "BUSY ", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "READONLY", "NOREPLICAS")
# MISCONF: it cannot write to its disk, and refuses writes until it can.
_FULL = ("OOM ", "MISCONF")


class RedisFault(Enum):
    """Kind of a server fault, as far as callers distinguish them."""

    MISSING = auto()  # the client library is not installed
    REFUSED = auto()  # user, password or rights
    SILENT = auto()  # it does not answer
    SOON = auto()  # it answers that it is loading
    FULL = auto()  # it has no room
    OTHER = auto()


def redis_connection(address: RedisAddress, *, answer_timeout_s: float, connect_timeout_s: float) -> Any:
    """Return a client of the redis library that attempts each command once."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    options: dict[str, Any] = {
        "db": address.number,
        "username": address.username or None,
        "password": address.password or None,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": answer_timeout_s,
    }
    if address.path:
        return redis.Redis(unix_socket_path=address.path, **options)
    options |= {"socket_connect_timeout": connect_timeout_s, "socket_keepalive": True}
    if address.tls:
        options |= {"ssl": True, "ssl_ca_certs": address.ca_file or None}
    return redis.Redis(host=address.host, port=address.port, **options)


class RedisClient:
    """Client of a Redis server. Thread-safe; `close` it. Commands may be sent twice, after a lost answer.

    Errors have no cause: a library's error may contain the password.
    """

    def __init__(
        self,
        address: RedisAddress,
        package: str,
        as_error: Callable[[RedisFault, str], WeboidError],
        *,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        """Set it up; `package` has the scripts (``lua``, each after ``common.lua``), `as_error` makes what is raised."""
        self._address, self._as_error, self._answer_timeout_s = address, as_error, answer_timeout_s
        try:
            import redis
            from redis.backoff import ExponentialBackoff
            from redis.retry import Retry
        except ImportError:
            raise as_error(RedisFault.MISSING, "run .venv/bin/pip install 'redis>=5'") from None
        self._redis = redis
        # Repeated here, so that the second attempt can use the `resent` arguments.
        self._retry: Callable[[], Any] = lambda: Retry(ExponentialBackoff(0.5, 0.05), RETRIES)
        self._folder = files(package).joinpath("lua")
        self._common = self._folder.joinpath("common.lua").read_text()
        self._scripts: dict[str, Any] = {}
        # In a cluster more nodes are discovered than the address names.
        self._nodes: dict[tuple[str, int], Any] = {}
        self._first = self._node = (address.host, address.port)

    def script(
        self,
        name: str,
        keys: Sequence[bytes],
        arguments: Sequence[bytes | int],
        *,
        resent: Sequence[bytes | int] | None = None,
    ) -> Any:
        """Run the script ``name.lua``; `resent` are the arguments when it may have run already."""
        again = arguments if resent is None else resent

        def run(client: Any, turn: int) -> Any:
            if (script := self._scripts.get(name)) is None:
                text = self._common + self._folder.joinpath(f"{name}.lua").read_text()
                script = self._scripts[name] = client.register_script(text)
            return script(keys, again if turn else arguments, client=client)

        return self._run(run)

    def call(self, *command: bytes | str | int) -> Any:
        """Run a command and return its result, undecoded."""
        return self._run(lambda client, _turn: client.execute_command(*command))

    def close(self) -> None:
        """Close the connections."""
        for client in self._nodes.values():
            client.close()

    def _run(self, command: Callable[[Any, int], Any]) -> Any:
        turns = iter(range(RETRIES + 1))
        try:
            return self._retry().call_with_retry(lambda: self._run_once(command, next(turns)), lambda _error: None)
        except (self._redis.RedisError, OSError) as error:
            self._node = self._first
            raise self._as_error(self._fault(error), error_words(error, self._address.password)) from None

    def _run_once(self, command: Callable[[Any, int], Any], turn: int) -> Any:
        for _ in range(MAX_MOVES):
            try:
                return command(self._client(), turn)
            except self._redis.exceptions.MovedError as moved:
                # All our keys are in one slot, so its node is used.
                self._node = (moved.host or self._node[0], moved.port)
        return command(self._client(), turn)

    def _client(self) -> Any:
        if (client := self._nodes.get(self._node)) is None:
            address = replace(self._address, host=self._node[0], port=self._node[1])
            limits = {"answer_timeout_s": self._answer_timeout_s, "connect_timeout_s": CONNECT_TIMEOUT_S}
            client = self._nodes[self._node] = redis_connection(address, **limits)
        return client

    def _fault(self, error: Exception) -> RedisFault:
        errors = self._redis.exceptions
        words = str(error)
        if isinstance(error, errors.AuthenticationError | errors.AuthorizationError | errors.NoPermissionError):
            return RedisFault.REFUSED
        soon = errors.BusyLoadingError | errors.ReadOnlyError | errors.MasterDownError
        soon |= errors.ClusterDownError | errors.TryAgainError
        if isinstance(error, soon) or words.startswith(_SOON):
            return RedisFault.SOON
        if isinstance(error, errors.ConnectionError | errors.TimeoutError | OSError):
            return RedisFault.SILENT
        if isinstance(error, errors.OutOfMemoryError) or words.startswith(_FULL):
            return RedisFault.FULL
        return RedisFault.OTHER
