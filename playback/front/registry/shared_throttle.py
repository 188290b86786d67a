"""Token buckets in Redis, for fronts of several processes or machines that count readers together (W23)."""

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from core.redis_url import RedisAddress

_LOG = logging.getLogger(__name__)

# A reader's request waits for it, so a server that hangs is left alone for a while.
_TIMEOUT_S = 0.2
_RETRY_S = 10.0

# The arithmetic of `playback.front.registry.throttle`, by the server's clock, in one step. A bucket is
# forgotten when it is full again.
_SCRIPT = """
local cost, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local left, wait = {}, 0
for i, key in ipairs(KEYS) do
  local per_s, burst = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  local have, at = string.match(redis.call('GET', key) or '', '^(%S+) (%S+)$')
  have, at = tonumber(have) or burst, tonumber(at) or now
  left[i] = math.min(burst, have + math.max(now - at, 0) * per_s)
  wait = math.max(wait, (wanted - left[i]) / per_s)
end
if wait > 0.000001 then
  return math.ceil(wait)
end
for i, key in ipairs(KEYS) do
  local per_s, burst = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  local have = math.max(left[i] - cost, -burst)
  local full_ms = math.ceil((burst - have) / per_s * 1000) + 1
  redis.call('SET', key, string.format('%.6f %.6f', have, now), 'PX', full_ms)
end
return 0
"""
_ANY = -1e9  # a charge is counted whatever is left

Bucket = tuple[str, float, float]  # name, tokens a second, burst


class SharedBuckets:
    """Take tokens from buckets in Redis. From any thread; `close` it.

    Names of buckets hold readers' addresses: keys are digests of them, and last as long as the bucket
    is not full.
    """

    def __init__(
        self, address: RedisAddress, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the address; nothing is connected yet."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        options: dict[str, Any] = {
            "db": address.number,
            "username": address.username or None,
            "password": address.password or None,
            "socket_timeout": _TIMEOUT_S,
            "retry": Retry(NoBackoff(), 0),
        }
        if address.path:
            self._redis = redis.Redis(unix_socket_path=address.path, **options)
        else:
            options |= {"socket_connect_timeout": _TIMEOUT_S}
            if address.tls:
                options |= {"ssl": True, "ssl_ca_certs": address.ca_file or None}
            self._redis = redis.Redis(host=address.host, port=address.port, **options)
        self._script = self._redis.register_script(_SCRIPT)
        self._error = redis.RedisError
        self._tag = f"{{weboid:rates:{quote(address.name, safe='')}}}:"
        self._shown = str(address)
        self._monotonic = monotonic
        self._away_until: float | None = None

    def wait_s(self, buckets: Sequence[Bucket]) -> int | None:
        """Take a token of each bucket and return 0, or return the seconds to wait; None: no answer."""
        return self._run(buckets, 1, wanted=1)

    def charge(self, buckets: Sequence[Bucket], cost: float) -> bool:
        """Take so many tokens of each, even when they are not there; return False without an answer."""
        return self._run(buckets, cost, wanted=_ANY) is not None

    def close(self) -> None:
        """End the connections."""
        self._redis.close()

    def _run(self, buckets: Sequence[Bucket], cost: float, *, wanted: float) -> int | None:
        if self._away_until is not None and self._monotonic() < self._away_until:
            return None
        keys = [self._tag + _digest(name) for name, _, _ in buckets]
        rates = [number for _, per_s, burst in buckets for number in (per_s, burst)]
        try:
            wait = int(self._script(keys, [cost, wanted, *rates]))
        except self._error as error:
            if self._away_until is None:
                _LOG.warning(
                    "throttle.local redis=%s error=%s; readers are counted by each process until it "
                    "answers",
                    self._shown,
                    error,
                )
            self._away_until = self._monotonic() + _RETRY_S
            return None
        if self._away_until is not None:
            self._away_until = None
            _LOG.warning("throttle.shared redis=%s", self._shown)
        return wait


def _digest(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
