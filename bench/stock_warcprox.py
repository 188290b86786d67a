"""Stock warcprox, as its own command runs it, but allowed to reach this machine's origin.

``python -m bench.stock_warcprox FOLDER [SECONDS]``: warcprox's defaults in FOLDER, on a free port, which it
prints with its process id; ends with standard input. It counts what it has archived every SECONDS, by default
every 30 to 60.
"""

import os
import sys
import threading

import warcprox
from warcprox.main import main as warcprox_main
from warcprox.warcproxy import WarcProxyHandler


def main() -> None:
    """Run warcprox until standard input ends."""
    folder = sys.argv[1]
    os.chdir(folder)
    WarcProxyHandler.allow_localhost = True
    if len(sys.argv) > 2:
        processor = warcprox.BaseBatchPostfetchProcessor
        processor.MIN_BATCH_SEC = processor.MAX_BATCH_SEC = float(sys.argv[2])
    answer = os.dup(1)  # warcprox logs to its standard output
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    activate = warcprox.warcproxy.WarcProxy.server_activate

    def announce(self: warcprox.warcproxy.WarcProxy) -> None:
        activate(self)
        os.write(answer, f"{self.server_address[1]} {os.getpid()}\n".encode())

    warcprox.warcproxy.WarcProxy.server_activate = announce

    def watch() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    warcprox_main(["warcprox", "--port", "0", "--dir", folder, "--quiet"])


if __name__ == "__main__":
    main()
