"""Stock warcprox, as its own command runs it, but allowed to reach this machine's origin.

``python -m bench.stock_warcprox FOLDER [SECONDS]``: warcprox's defaults in FOLDER, on a free port, which it
prints with its process id; ends with standard input. It counts what it has archived every SECONDS, by default
every 30 to 60, and waits a minute, not five seconds, for its databases, which then are two.
"""

import contextlib
import functools
import os
import sqlite3
import sys
import threading
import time
from pathlib import Path

import warcprox
from warcprox.main import main as warcprox_main
from warcprox.warcproxy import WarcProxyHandler


def main() -> None:
    """Run warcprox until standard input ends."""
    folder = sys.argv[1]
    os.chdir(folder)
    WarcProxyHandler.allow_localhost = True
    options = ["--port", "0", "--dir", folder, "--quiet"]
    if len(sys.argv) > 2:
        processor = warcprox.BaseBatchPostfetchProcessor
        processor.MIN_BATCH_SEC = processor.MAX_BATCH_SEC = float(sys.argv[2])
        sqlite3.connect = functools.partial(sqlite3.connect, timeout=60)  # type: ignore[assignment]
        options += ["--stats-db-file", f"{folder}/statistics.sqlite"]
    answer = os.dup(1)  # warcprox logs to its standard output
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    activate = warcprox.warcproxy.WarcProxy.server_activate

    def announce(line: bytes) -> None:
        """Announce the service when the threads that archive have their tables; before, they fail."""
        made: set[str] = set()
        while not {"dedup", "buckets_of_stats"} <= made:
            time.sleep(0.02)
            for path in Path(folder).glob("*.sqlite"):
                with contextlib.closing(sqlite3.connect(path)) as database:
                    made |= {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
        os.write(answer, line)

    def activated(self: warcprox.warcproxy.WarcProxy) -> None:
        activate(self)
        line = f"{self.server_address[1]} {os.getpid()}\n".encode()
        threading.Thread(target=announce, args=(line,), daemon=True).start()

    warcprox.warcproxy.WarcProxy.server_activate = activated

    def watch() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    warcprox_main(["warcprox", *options])


if __name__ == "__main__":
    main()
