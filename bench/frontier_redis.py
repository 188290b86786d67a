"""The Redis frontier as `bench.frontier` measures it: a server of its own, filled by a script.

The script writes what ``add.lua`` and ``complete.lua`` would have written, without asking whether a
URL is known; bytes are what the server has allocated since it was empty.
"""

import atexit
import socket
import subprocess
from pathlib import Path
from typing import Any

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from bench.frontier_load import HOSTS, JOB, KNOWN, VIA, url_of
from core.config.database_urls import RedisUse, parse_redis_url
from crawler.frontier.redis_frontier import RedisFrontier
from crawler.frontier.redis_store import identity_of

_AT_ONCE = 20_000
_FILL = """
local T, first, last, done = KEYS[1] .. ':', tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local hosts, via, known = tonumber(ARGV[4]), ARGV[5], ARGV[6]
local call = redis.call
local SLOT = '>dI6I6I4I4I4I4I4I5I6I6dBdI3'
math.randomseed(first)
if first == 1 then
  for number = 0, hosts - 1 do
    local host, name = struct.pack('>I4', number + 1), 'www.host' .. number .. '.example.org'
    call('HSET', T .. 'n', name, host)
    call('HSET', T .. 's', host, struct.pack(SLOT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1,
      done and 0 or 3, 0, #name) .. name)
    if not done then call('ZADD', T .. 'r2', 0, host) end
  end
end
local queues = {}
for number = first, last do
  local host_number = number * 7919 % hosts
  local host = struct.pack('>I4', host_number + 1)
  local url = 'https://www.host' .. host_number .. '.example.org/some/path/of/usual/length/page-'
    .. number .. '.html?section=1'
  local id = #known > 0 and string.sub(known, 16 * (number - first) + 1, 16 * (number - first) + 16)
    or struct.pack('>I4I4I4I4', math.random(0, 2147483647) * 2, math.random(0, 2147483647) * 2,
      math.random(0, 2147483647) * 2, math.random(0, 2147483647) * 2)
  local body = cmsgpack.pack({ url, via, 1, 0 })
  local state, tail = 0, ''
  if done then
    state, tail = 3, cmsgpack.pack({ 1767225600000 + number, number, 'complete', '', 0 })
    call('ZADD', T .. 'e3:' .. math.floor(number / 128), number, id)
  end
  call('HSET', T .. 'i' .. string.sub(id, 1, 1), id, struct.pack('>Bc4I6I6I6I2I2I3I3',
    state * 4 + 2, host, number, 1767225600000, 0, 0, 0, 1, #body) .. body .. tail)
  local queue = queues[host] or {}
  queue[#queue + 1] = id
  queues[host] = queue
end
local total = last - first + 1
call('HINCRBY', KEYS[1], done and 'done' or 'queued', total)
call('HINCRBY', T .. 'j1', done and 'done' or 'queued', total)
call('HINCRBY', KEYS[1], 'number', total)
if done then
  call('HINCRBY', KEYS[1], 'place3', total)
else
  for host, ids in pairs(queues) do
    call('RPUSH', T .. 'q2' .. host, unpack(ids))
    local _, size = math.frexp(call('HINCRBY', T .. 'w2', host, #ids))
    call('ZADD', T .. 'longest', size, '2' .. host)
  end
end
"""


class RedisKept:
    """A frontier in a server of its own, which keeps nothing on disk."""

    def __init__(self, folder: Path, name: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = int(listener.getsockname()[1])
        self._process = subprocess.Popen(
            [
                "redis-server",
                "--bind",
                "127.0.0.1",
                "--port",
                str(port),
                "--save",
                "",
                "--dir",
                str(folder),
                "--logfile",
                str(folder / f"{name}.log"),
            ]
        )
        atexit.register(self._process.kill)  # also when the benchmark fails
        self._client: Any = redis.Redis(port=port, retry=Retry(ConstantBackoff(0.05), 200))
        self._client.ping()
        address = parse_redis_url(f"redis://127.0.0.1:{port}/0", RedisUse.FRONTIER)
        self._tag = address.tag
        self._empty = self._used()
        self.frontier = RedisFrontier(address, server_time=False)

    def fill(self, size: int, *, done: bool = False) -> None:
        """See `FrontierUnderLoad.fill`."""
        job = f"{self._tag}:j1"
        self._client.hset(f"{self._tag}:jobs", JOB, 1)
        self._client.hset(job, mapping={"name": JOB, "began": 0})
        self._client.hset(self._tag, mapping={"jobs": 1, "hosts": HOSTS})
        fill = self._client.register_script(_FILL)
        for first in range(1, size + 1, _AT_ONCE):
            last = min(first + _AT_ONCE - 1, size)
            numbers = range(first, last + 1) if first <= KNOWN else ()
            known = b"".join(identity_of(url_of(number)) for number in numbers)
            fill([self._tag], [first, last, int(done), HOSTS, VIA, known])

    def bytes(self) -> int:
        """Return the bytes that the server has allocated, less those of an empty server."""
        return self._used() - self._empty

    def close(self) -> None:
        """End the server."""
        self.frontier.close()
        self._client.close()
        self._process.kill()
        self._process.wait()

    def _used(self) -> int:
        return int(self._client.info("memory")["used_memory"])
