"""The proxy process: ``python -m proxy --collection DIR --control SOCKET``.

Reads its settings as one JSON line from standard input, recovers what a crash left, prints one JSON
line ``{"ready": true, "port": …, "spki": …, "recovered": […]}`` and serves until standard input
ends or SIGTERM comes; so it never outlives the process that started it. What was handed over is
written before it exits.
"""

import argparse
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

from core.errors import IndexUnavailableError, WeboidError
from core.layout import Layout
from core.settings import Settings, settings_from
from core.timestamps import moment
from proxy.control import ControlServer
from proxy.exchange import now_ms
from proxy.recovered import Recovered
from proxy.recovery import put_in_order
from proxy.server import ArchivingProxy
from proxy.spool import spool_folder
from proxy.tally import Tally

# Blocked threads hand the interpreter over at most this late; the default of 5 ms is an eternity
# for a proxy whose requests take half of one.
SWITCH_INTERVAL_S = 0.0005
# Nothing here is in cycles but exceptions now and then; looking for them every 700 objects, through
# all that a visit has gathered, was a tenth of the work.
GC_THRESHOLD = 50_000
RETRY_S = 1.0  # between two looks whether the index is back


def main() -> None:
    """Run the proxy until it is told to stop."""
    parser = argparse.ArgumentParser(prog="proxy", description=__doc__)
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--control", type=Path, required=True)
    parser.add_argument("--tally", type=Path, help="where the proxies of a run count together")
    parser.add_argument("--slot", type=int, default=0, help="this one's place in the tally")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="proxy %(levelname)s %(name)s %(message)s")
    _tune()
    settings = settings_from(json.loads(sys.stdin.readline()))
    layout = Layout(arguments.collection)
    try:
        recovered = _put_in_order(layout, settings)
    except WeboidError as error:
        sys.exit(f"proxy: {error}")

    with spool_folder(layout.root) as spool:
        proxy = ArchivingProxy(
            layout,
            settings,
            now_ms=now_ms,
            spool_folder=spool,
            tally=Tally(arguments.tally, arguments.slot),
        )
        control = ControlServer(arguments.control, proxy)
        for server in (proxy, control):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        ready = {
            "ready": True,
            "port": proxy.server_address[1],
            "spki": proxy.ca.spki,
            "recovered": [each.to_dict() for each in recovered],
        }
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        _wait_for_the_end()
        control.shutdown()
        control.server_close()
        proxy.shutdown()
        proxy.close()
        logging.shutdown()


def _put_in_order(layout: Layout, settings: Settings) -> list[Recovered]:
    """Recover; an index of several machines that does not answer yet is waited for."""
    deadline = time.monotonic() + settings.index.patience_s
    while True:
        try:
            return put_in_order(layout, settings.proxy, now=moment(now_ms()), index=settings.index)
        except IndexUnavailableError:
            if time.monotonic() >= deadline:
                raise
        threading.Event().wait(RETRY_S)


def _tune() -> None:
    """Set what the interpreter and the system's resolver go by, for a process of many threads."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()  # what is imported stays
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    # The system's resolver would spend half a minute on a name whose servers keep silent, and a
    # page can name many; who runs us may say otherwise (resolv.conf(5)).
    os.environ.setdefault("RES_OPTIONS", "timeout:3 attempts:2")


def _wait_for_the_end() -> None:
    """Return when standard input ends or SIGTERM comes; SIGINT is the parent's business."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            continue
        over.set()

    threading.Thread(target=watch, daemon=True).start()
    over.wait()


if __name__ == "__main__":
    main()
