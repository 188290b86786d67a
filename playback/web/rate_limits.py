"""Client addresses and their rate limits: token buckets (local, Redis), exempt callers, and limits of costly routes.

A request takes one token, or is rejected with the time to wait. Expensive requests are charged afterwards, which
delays the next one. All clients share a global bucket, so changing addresses does not help. Buckets are local unless
`SharedBuckets` shares them; when Redis is unavailable, the local ones apply. Internal callers (network or token) are
exempt. Each costly route has its own threads, and responds 503 or 429 with ``Retry-After``.

``X-Forwarded-For`` is trusted only from a configured proxy (RFC 7239, 8.1) and read from its end: the last address
that is not a configured proxy is the reader's.
"""

import hashlib
import hmac
import inspect
import ipaddress
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import quote

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from core.config.database_urls import RedisAddress
from core.errors import ConfigError
from net.address_policy import rate_limit_prefix
from net.redis_client import redis_connection

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NO_ADDRESS = IPv4Address("0.0.0.0")  # noqa: S104 client of a socket without addresses
_MOST_HOPS = 20
_RELAYED = ("forwarded", "x-forwarded-for", "via")
_LOG = logging.getLogger(__name__)
_HOST_BITS_V6 = 64  # one customer's network; its hosts choose the lower half freely


@dataclass(frozen=True, slots=True)
class ClientAddresses:
    """Determination of client addresses."""

    proxies: tuple[Network, ...] = ()  # whose ``X-Forwarded-For`` is trusted

    def address_of(self, request: Request) -> Address:
        """Return the reader's address; an invalid entry ends the evaluation at the proxy that sent it."""
        address = _parsed(request.client.host if request.client else "") or NO_ADDRESS
        hops = ",".join(request.headers.getlist("x-forwarded-for")).rsplit(",", _MOST_HOPS)
        for text in reversed(hops[-_MOST_HOPS:]):
            if not within(address, self.proxies):
                break
            further = _parsed(text.strip())
            if further is None:
                break
            address = further
        return address

    def is_relayed(self, request: Request) -> bool:
        """Return True for an untrusted proxy, whose clients must not share its exemptions."""
        if not any(name in request.headers for name in _RELAYED):
            return False
        peer = _parsed(request.client.host if request.client else "") or NO_ADDRESS
        if within(peer, self.proxies):
            return False
        _warn_of_proxy(peer)
        return True


@lru_cache(maxsize=64)
def _warn_of_proxy(peer: Address) -> None:
    _LOG.warning("front.unknown_proxy: address=%s: its readers get no rights by network; add it with --behind.", peer)


def within(address: Address, networks: Iterable[Network]) -> bool:
    """Return True when the address is in one of the networks."""
    return any(address.version == each.version and address in each for each in networks)


def reader_prefix(address: Address) -> str:
    """Return the network that counts as one reader: an IPv4 address, or an IPv6 /64.

    >>> reader_prefix(IPv6Address("2001:db8:1:2::3"))
    '2001:db8:1:2::/64'
    """
    if address.version == 4:
        return str(address)
    return str(IPv6Network((int(address), _HOST_BITS_V6), strict=False))


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks from settings: ``10.0.0.0/8``, ``2001:db8::/32``, or a single address."""
    networks = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            raise ConfigError(
                f"{text!r} is not a network; write an address, or one like 10.0.0.0/8: {error}."
            ) from error
    return tuple(networks)


def _parsed(text: str) -> Address | None:
    """Parse an address, unwrapping IPv4-mapped IPv6 and dropping a port; None if invalid."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


# A reader's request waits for it, so a server that hangs is not queried again for a while.
_TIMEOUT_S = 0.2
_RETRY_S = 10.0

# The arithmetic of `playback.web.rate_limits`, by the server's clock, in one step. A bucket is
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
_ANY = -1e9  # a charge is applied regardless of the balance

Bucket = tuple[str, float, float]  # name, tokens a second, burst


class SharedBuckets:
    """Token buckets in Redis, under digests of the client addresses. Thread-safe; `close` after use."""

    def __init__(self, address: RedisAddress, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Store the address; connections are opened on first use."""
        import redis

        self._redis = redis_connection(address, answer_timeout_s=_TIMEOUT_S, connect_timeout_s=_TIMEOUT_S)
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
        """Take `cost` tokens of each bucket, even below zero; return False without an answer."""
        return self._run(buckets, cost, wanted=_ANY) is not None

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def _run(self, buckets: Sequence[Bucket], cost: float, *, wanted: float) -> int | None:
        if self._away_until is not None and self._monotonic() < self._away_until:
            return None
        keys = [self._tag + hashlib.blake2b(name.encode(), digest_size=16).hexdigest() for name, _, _ in buckets]
        rates = [number for _, per_s, burst in buckets for number in (per_s, burst)]
        try:
            wait = int(self._script(keys, [cost, wanted, *rates]))
        except self._error as error:
            if self._away_until is None:
                _LOG.warning(
                    "throttle.local redis=%s error=%s; each process counts readers by itself until it answers",
                    self._shown,
                    error,
                )
            self._away_until = self._monotonic() + _RETRY_S
            return None
        if self._away_until is not None:
            self._away_until = None
            _LOG.warning("throttle.shared redis=%s", self._shown)
        return wait


MOST_BUCKETS = 20_000
_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class TokenRate:
    """Refill rate in tokens per second, and capacity of a bucket."""

    per_s: float
    burst: float


@dataclass(frozen=True, slots=True)
class ReaderRates:
    """Rates for one reader, one address range and all readers together."""

    reader: TokenRate = TokenRate(5, 60)
    range: TokenRate = TokenRate(15, 180)
    everybody: TokenRate = TokenRate(300, 3_000)


class RequestThrottle:
    """Request counter with at most `MOST_BUCKETS` token buckets, or `shared` ones under `name`. Thread-safe."""

    def __init__(
        self,
        rates: ReaderRates,
        *,
        shared: SharedBuckets | None = None,
        name: str = "",
        stored: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Create the buckets; `stored` returns the text of a bucket (`texts_of`) that an earlier process has stored."""
        self._rates = rates
        self._shared = shared
        self._stored = stored
        self._name = name
        self._lock = threading.Lock()
        # Tokens left and time of the last update; the least recently used first.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, address: Address, now: float) -> int:
        """Count a request and return 0, or return the whole seconds to wait."""
        return self.wait_of(self._of(address), now)

    def wait_of(self, buckets: Sequence[Bucket], now: float) -> int:
        """Take a token of each bucket and return 0, or return the whole seconds to wait."""
        if self._shared is not None:
            shared_wait = self._shared.wait_s(buckets)
            if shared_wait is not None:
                return shared_wait
        with self._lock:
            left = self._left(buckets, now)
            waits = [(1 - left[name]) / per_s for name, per_s, _ in buckets]
            if max(waits) > _ROUNDING_S:
                return math.ceil(max(waits) - _ROUNDING_S)
            self._take(buckets, left, 1, now)
            return 0

    def charge(self, address: Address, now: float, cost: float) -> None:
        """Charge additional tokens for an accepted request, or give some back; the balance may become negative."""
        buckets = self._of(address)
        if self._shared is not None and self._shared.charge(buckets, cost):
            return
        with self._lock:
            self._take(buckets, self._left(buckets, now), cost, now)

    def texts_of(self, address: Address, now: float) -> dict[str, tuple[str, float]]:
        """Return the buckets of an address as texts to store, each with the seconds until it is full; none if shared."""
        if self._shared is not None:
            return {}
        buckets = self._of(address)
        with self._lock:
            left = self._left(buckets, now)
        return {name: (f"{left[name]:.6f} {now:.3f}", (burst - left[name]) / per_s) for name, per_s, burst in buckets}

    def _of(self, address: Address) -> list[Bucket]:
        rates = self._rates
        named = (
            (reader_prefix(address), rates.reader),
            (f"range {rate_limit_prefix(address)}", rates.range),
            ("", rates.everybody),
        )
        return [(f"{self._name} {name}", rate.per_s, rate.burst) for name, rate in named]

    def _left(self, buckets: Sequence[Bucket], now: float) -> dict[str, float]:
        left = {}
        for name, per_s, burst in buckets:
            have, at = self._buckets.get(name) or self._restored(name, now) or (burst, now)
            left[name] = min(burst, have + max(now - at, 0.0) * per_s)
        return left

    def _restored(self, name: str, now: float) -> tuple[float, float] | None:
        """Return the stored state of a bucket; a time in the future was written by a wrong clock and does not count."""
        text = self._stored(name)
        if text is None:
            return None
        have, at = map(float, text.split())
        return (have, at) if at <= now else None

    def _take(self, buckets: Sequence[Bucket], left: Mapping[str, float], cost: float, now: float) -> None:
        for name, _, burst in buckets:
            self._buckets[name] = (max(left[name] - cost, -burst), now)
            self._buckets.move_to_end(name)
        while len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)


FORM_RATES = ReaderRates(TokenRate(0.5, 15), TokenRate(2, 60), TokenRate(30, 300))


@dataclass(frozen=True, slots=True)
class RateLimitPolicy:
    """Settings of rate limits."""

    readers: ClientAddresses = field(default_factory=ClientAddresses)
    internal: tuple[Network, ...] = ()
    token: str = field(default="", repr=False)  # of exempt callers (``Bearer``); empty: none
    rates: ReaderRates = field(default_factory=ReaderRates)
    form_rates: ReaderRates = FORM_RATES  # for the form (W20)
    shared: SharedBuckets | None = None  # by several fronts; None: local buckets


class BusyError(Exception):
    """Rate limit exceeded; `seconds` is the time to wait."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class RateLimiter:
    """Rate limiter for requests under a policy; different names count separately. Thread-safe."""

    def __init__(
        self, access: RateLimitPolicy, name: str = "links", monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._access = access
        self._monotonic = monotonic
        self._programs = RequestThrottle(access.rates, shared=access.shared, name=name)
        self._form = RequestThrottle(access.form_rates, shared=access.shared, name=f"{name} form")

    def address_of(self, request: Request) -> Address:
        """Return the client's address."""
        return self._access.readers.address_of(request)

    def range_of(self, request: Request) -> str:
        """Return the client's address range, to which form tokens are bound."""
        return rate_limit_prefix(self.address_of(request))

    def is_internal(self, request: Request) -> bool:
        """Return True for an exempt caller."""
        is_known = not self._access.readers.is_relayed(request)
        if is_known and within(self.address_of(request), self._access.internal):
            return True
        sent = request.headers.get("authorization", "")
        wanted = f"Bearer {self._access.token}"
        same = hmac.compare_digest(sent.encode("utf-8", "replace"), wanted.encode())
        return bool(self._access.token) and same

    def count(self, request: Request, *, is_form: bool = False) -> None:
        """Count an API or form request; raise BusyError above the rate limit."""
        if not self.is_internal(request):
            throttle = self._form if is_form else self._programs
            wait = throttle.wait_s(self.address_of(request), self._monotonic())
            if wait:
                raise BusyError(wait)

    def charge(self, request: Request, cost: float) -> None:
        """Charge additional tokens for an accepted API request."""
        if cost > 0 and not self.is_internal(request):
            self._programs.charge(self.address_of(request), self._monotonic(), cost)


# A reader browsing a calendar sends a few requests a second, a program listing a site more.
COSTLY_RATES = ReaderRates(TokenRate(10, 300), TokenRate(30, 900), TokenRate(300, 3_000))
_BUSY_RETRY_S = 5


class BlockStream(StreamingResponse):
    """Streaming response whose blocks are produced in the threads of its route."""

    def __init__(self, blocks: Iterator[bytes], headers: dict[str, str]) -> None:
        super().__init__((), headers=headers)
        self.blocks = blocks
        self.on_end: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and call `on_end` in any case."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.on_end()


class LoadLimit:
    """Runner of endpoints in dedicated threads, with a bounded number of waiting requests."""

    def __init__(self, rate_limiter: RateLimiter, *, threads: int, most_waiting: int) -> None:
        self._rate_limiter = rate_limiter
        self._limiter = anyio.CapacityLimiter(threads)
        self._most = threads + most_waiting
        self._count = 0

    def __call__(
        self, endpoint: Callable[[Request], Response], *, when: Callable[[Request], bool] = lambda _: True
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint with limits; requests for which `when` is false have none."""
        assert not inspect.iscoroutinefunction(endpoint)

        async def answer(request: Request) -> Response:
            if not when(request):
                return await anyio.to_thread.run_sync(endpoint, request)
            try:
                self._rate_limiter.count(request)
            except BusyError as error:
                raise HTTPException(429, headers={"Retry-After": str(error.seconds)}) from None
            if self._count >= self._most:
                raise HTTPException(503, headers={"Retry-After": str(_BUSY_RETRY_S)})
            self._count += 1
            is_streaming = False
            try:
                response = await anyio.to_thread.run_sync(endpoint, request, limiter=self._limiter)
                if isinstance(response, BlockStream):
                    response.body_iterator = self._streamed(response.blocks)
                    response.on_end = self._end
                    is_streaming = True
                return response
            finally:
                if not is_streaming:
                    self._end()

        return answer

    async def _streamed(self, blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
        while True:
            block = await anyio.to_thread.run_sync(next, blocks, None, limiter=self._limiter)
            if block is None:
                return
            yield block

    def _end(self) -> None:
        self._count -= 1


def load_limits(access: RateLimitPolicy, monotonic: Callable[[], float]) -> tuple[LoadLimit, LoadLimit]:
    """Return the limits of lists and searches, and those of comparisons, which use a core for a second."""
    rate_limiter = RateLimiter(replace(access, rates=COSTLY_RATES), "pages", monotonic)
    return LoadLimit(rate_limiter, threads=4, most_waiting=28), LoadLimit(rate_limiter, threads=1, most_waiting=7)
