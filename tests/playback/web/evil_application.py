"""Runs in the replay environment: replay's server around an application that says what it should not.

The first line of stdin says which types and headers there are. ``/answer/<status>/<number of a type>``
answers with that status, that type, and every one of the headers.
"""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from playback.replay.header_gate import Policy
from playback.replay.replay_server import ReplayServer, call_on_eof


def application_saying(
    types: list[str], headers: list[tuple[str, str]]
) -> Callable[[dict[str, Any], Callable[..., object]], Iterable[bytes]]:
    """Build an application that answers as the address says."""

    def application(environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
        _, _, status, number = environ["REQUEST_URI"].split("/")
        if status == "failing":
            raise RuntimeError("a secret path")
        start(f"{status} Said So", [("Content-Type", types[int(number)]), *headers])
        return [b"body"]

    return application


def main() -> None:
    """Serve until stdin ends."""
    settings = json.loads(sys.stdin.readline())
    server = ReplayServer(("127.0.0.1", 0))
    hosts = frozenset({f"127.0.0.1:{server.port}"})
    headers = [(name, value) for name, value in settings["headers"]]
    server.answer_with(application_saying(settings["types"], headers), Policy("http://front.test", hosts))
    call_on_eof(sys.stdin.fileno(), server.stop)
    server.start()
    sys.stdout.write(json.dumps({"port": server.port}) + "\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
