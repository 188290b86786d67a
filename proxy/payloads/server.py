"""The way to a Redis server: scripts run, redirections followed, errors put in our terms."""

import logging
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from core.dedup_url import DedupAddress
from core.errors import DedupUnavailableError

log = logging.getLogger(__name__)

# A batch waits for the answer, and all visits wait for the batch.
CONNECT_TIMEOUT_S = 2.0
ANSWER_TIMEOUT_S = 3.0
RETRIES = 2
MAX_MOVES = 3  # a cluster's node names the right one; it may be wrong while the cluster changes


class RedisServer:
    """The Redis that an address names. Thread-safe; `close` it.

    Every script may be sent twice: an answer that was lost is asked for again.
    """

    def __init__(self, address: DedupAddress) -> None:
        """Take the address; nothing is connected yet.

        Raises:
            DedupUnavailableError: the client library is not installed.
        """
        try:
            import redis
            from redis.backoff import ExponentialBackoff
            from redis.retry import Retry
        except ImportError as error:
            raise DedupUnavailableError(
                "[proxy] dedup_url needs the Redis client: run .venv/bin/pip install 'redis>=5'."
            ) from error
        self._redis = redis
        self._address = address
        self._retry: Callable[[], Any] = lambda: Retry(ExponentialBackoff(0.5, 0.05), RETRIES)
        folder = files("proxy.payloads").joinpath("lua")
        self._common = folder.joinpath("common.lua").read_text()
        self._folder = folder
        self._texts: dict[str, str] = {}
        # Of a cluster we come to know more nodes than the address names.
        self._nodes: dict[tuple[str, int], Any] = {}
        self._first = self._node = (address.host, address.port)

    def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes | int]) -> Any:
        """What the script of that name answers.

        Raises:
            DedupUnavailableError: the server does not answer, or refuses.
        """
        text = self._texts.get(name)
        if text is None:
            text = self._common + self._folder.joinpath(f"{name}.lua").read_text()
            self._texts[name] = text
        return self._ask(lambda client: client.register_script(text)(keys, arguments))

    def set_for(self, key: bytes, value: bytes, milliseconds: int) -> None:
        """Set a key that expires.

        Raises:
            DedupUnavailableError: as `script`.
        """
        self._ask(lambda client: client.set(key, value, px=milliseconds))

    def delete(self, keys: Sequence[bytes]) -> None:
        """Delete the keys.

        Raises:
            DedupUnavailableError: as `script`.
        """
        self._ask(lambda client: client.delete(*keys))

    def close(self) -> None:
        """End the connections."""
        for client in self._nodes.values():
            client.close()

    def _connected(self, host: str, port: int) -> Any:
        address = self._address
        options: dict[str, Any] = {
            "db": address.number,
            "username": address.username or None,
            "password": address.password or None,
            "protocol": 2,
            "retry": self._retry(),
            "socket_timeout": ANSWER_TIMEOUT_S,
        }
        if address.path:
            return self._redis.Redis(unix_socket_path=address.path, **options)
        options |= {"socket_connect_timeout": CONNECT_TIMEOUT_S, "socket_keepalive": True}
        if address.tls:
            options |= {"ssl": True, "ssl_ca_certs": address.ca_file or None}
        return self._redis.Redis(host=host, port=port, **options)

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        try:
            for _ in range(MAX_MOVES):
                try:
                    return question(self._client())
                except self._redis.exceptions.MovedError as moved:
                    # All our keys lie in one slot, so the node that has it is the one to ask.
                    self._node = (moved.host or self._node[0], moved.port)
            return question(self._client())
        except (self._redis.RedisError, OSError) as error:
            self._node = self._first
            # Without its cause: a library's error may hold what it sent, the password included.
            raise self._as_ours(error) from None

    def _client(self) -> Any:
        client = self._nodes.get(self._node)
        if client is None:
            client = self._nodes[self._node] = self._connected(*self._node)
        return client

    def _as_ours(self, error: Exception) -> DedupUnavailableError:
        errors = self._redis.exceptions
        words = " ".join(str(error).split()).rstrip(".")
        if self._address.password:
            words = words.replace(self._address.password, "***")
        place = f"The dedup index at {self._address}"
        if isinstance(
            error, errors.AuthenticationError | errors.AuthorizationError | errors.NoPermissionError
        ):
            text = f"{place} refuses us: {words}. Correct user and password in [proxy] dedup_url."
        elif isinstance(error, errors.ConnectionError | errors.TimeoutError | OSError):
            text = f"{place} does not answer: {words}. Start Redis there, or correct [proxy] dedup_url."
        else:
            text = f"{place} cannot be used: {words}. Redis's own log says more."
        return DedupUnavailableError(text)
