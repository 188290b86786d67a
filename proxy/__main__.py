"""Recorder process: python -m proxy --collection DIR --control SOCKET.

Reads its settings as one JSON line from standard input, runs crash recovery, prints one JSON line
``{"ready": true, "port": …, "spki": …, "recovered": […]}`` and serves until standard input ends, so that it never
outlives its parent process. Accepted records are written before it exits.
"""

import argparse
import json
import logging
import os
import signal
import sys
from functools import partial
from pathlib import Path

from core.config.profile import settings_from
from core.errors import WeboidError
from core.layout import Layout
from proxy.limits import ByteCounter
from proxy.process import run_proxy, tune_interpreter


def main() -> None:
    """Run the proxy until standard input ends or a termination signal arrives."""
    parser = argparse.ArgumentParser(prog="proxy", description=__doc__)
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--control", type=Path, required=True)
    parser.add_argument("--tally", type=Path, help="file in which the proxies of a run count together")
    parser.add_argument("--slot", type=int, default=0, help="position of this proxy in that file")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="proxy %(levelname)s %(name)s %(message)s")
    # A signal to the process group (a terminal's Ctrl-C, systemd's KillMode=control-group) is for the
    # parent: it finishes the pages in progress, which need this proxy, and then closes our input.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tune_interpreter()
    settings = settings_from(json.loads(sys.stdin.readline()))
    tally = partial(ByteCounter, arguments.tally, arguments.slot)
    try:
        with run_proxy(Layout(arguments.collection), settings, control=arguments.control, tally=tally) as started:
            ready = {
                "ready": True,
                "port": started.proxy.server_address[1],
                "spki": started.proxy.ca.spki,
                "recovered": [each.to_dict() for each in started.recovered],
            }
            sys.stdout.write(json.dumps(ready) + "\n")
            sys.stdout.flush()
            while os.read(sys.stdin.fileno(), 4096):  # until it ends
                continue
    except WeboidError as error:
        sys.exit(f"proxy: {error}")
    logging.shutdown()


if __name__ == "__main__":
    main()
