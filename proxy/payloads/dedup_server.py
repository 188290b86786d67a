"""The Redis that keeps a shared dedup index: its scripts, and its faults in the proxy's words."""

from core.errors import DedupUnavailableError
from core.redis_url import RedisAddress
from proxy.redis_server import Fault, Manners, RedisServer


def dedup_server(address: RedisAddress) -> RedisServer:
    """The server at the address; nothing is connected yet.

    Raises:
        DedupUnavailableError: the client library is not installed. All that is asked of the server
            raises the same when it does not answer or refuses.
    """

    def as_error(fault: Fault, words: str) -> DedupUnavailableError:
        place = f"The dedup index at {address}"
        texts = {
            Fault.MISSING: f"[proxy] dedup_url needs the Redis client: {words}.",
            Fault.REFUSED: f"{place} refuses us: {words}. Correct user and password in"
            " [proxy] dedup_url.",
            Fault.SILENT: f"{place} does not answer: {words}. Start Redis there, or correct"
            " [proxy] dedup_url.",
            Fault.SOON: f"{place} does not answer yet: {words}. Try again in a moment.",
        }
        cannot = f"{place} cannot be used: {words}. Redis's own log says more."
        return DedupUnavailableError(texts.get(fault, cannot))

    return RedisServer(address, Manners("proxy.payloads", as_error))
