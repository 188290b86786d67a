"""A real redis-server, started by a test and ended by it."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import redis

from tests.support.polling import wait_until
from tests.support.services.ports import free_port


class RedisServer:
    """`redis-server` on a free loopback port. `start` may be called again after `kill`."""

    def __init__(self, folder: Path, *options: str, persistent: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self._options = ["--dir", str(folder), "--save", "", "--logfile", "", *options]
        self._options += ["--appendonly", "yes", "--appendfsync", "always"] if persistent else []
        self.start()

    @property
    def url(self) -> str:
        """Return the URL for `dedup_url`."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        named = [] if "--tls-port" in self._options else ["--port", str(self.port)]
        self.process = subprocess.Popen(
            ["redis-server", "--bind", "127.0.0.1", *named, *self._options], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if "Ready to accept connections" in line:
                break
        else:
            raise AssertionError("".join(lines))
        self._listener = threading.Thread(target=_hear, args=(self.process.stdout,), daemon=True)
        self._listener.start()

    def client(self) -> Any:
        """Return a plain client, to inspect the server directly."""
        return redis.Redis(port=self.port)

    def kill(self) -> None:
        """End it as a crash would."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(120)
        self._listener.join()

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process.poll() is None:
            self.kill()


@contextmanager
def two_nodes(folder: Path) -> Iterator[tuple[RedisServer, RedisServer]]:
    """Run a cluster of two nodes: the first has no slot, the second all of them; both know it."""
    with ExitStack() as stack:
        nodes, clients, buses = [], [], []
        for name in ("first", "second"):
            buses.append(str(free_port()))
            options = ("--cluster-enabled", "yes", "--cluster-port", buses[-1])
            node = RedisServer(folder / name, *options)
            stack.callback(node.stop)
            nodes.append(node)
            clients.append(stack.enter_context(node.client()))
        clients[1].execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        clients[0].execute_command("CLUSTER MEET", "127.0.0.1", nodes[1].port, buses[1])
        wait_until(lambda: all(map(_whole, clients)))
        yield nodes[0], nodes[1]


def _whole(client: Any) -> bool:
    """Return whether the node knows which node has which slot."""
    return bool(client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")


def _hear(stream: IO[str]) -> None:
    with stream:
        for _ in stream:
            continue
