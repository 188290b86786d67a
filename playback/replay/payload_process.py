"""Payload reader for the malware scanner: entry point of its process.

Archived content can attack the program that unpacks it, so the scanner reads it through this process.
A request is a line of JSON that names a record; the answer is a line of JSON with the sizes of the
bodies, then the bodies. Memory use is bounded by the limit of the request.

    > {"filename": "…", "offset": 0, "length": 99, "url": "https://…", "type": "response", "limit": 25000000}
    < {"sizes": [812, 411]}           the content, then the body as it is stored where that differs
    < {"error": "too-large"}          or "unreadable: …"
"""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import BodyTooLargeError, PermanentError
from core.layout import Layout
from warc.content_decoder import decode_blocks
from warc.record_reader import dechunked, open_record

TOO_LARGE = "too-large"


def main() -> None:
    """Answer requests on stdin until it ends; the only argument is the collection."""
    layout = Layout(Path(sys.argv[1]))
    for line in sys.stdin.buffer:
        bodies: list[bytes] = []
        try:
            bodies = read_bodies(layout, json.loads(line))
            head: dict[str, Any] = {"sizes": [len(body) for body in bodies]}
        except BodyTooLargeError:
            head = {"error": TOO_LARGE}
        except PermanentError as error:
            head = {"error": f"unreadable: {error}"}
        except Exception as error:  # noqa: BLE001 archived bytes may provoke any error
            head = {"error": f"unreadable: {type(error).__name__}: {error}"}
        sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + b"".join(bodies))
        sys.stdout.buffer.flush()


def read_bodies(layout: Layout, asked: dict[str, Any]) -> list[bytes]:
    """Return the record's decoded content, and its body as stored when that differs.

    A body with unknown content codings is returned as stored.

    Raises:
        BodyTooLargeError: either is longer than the limit.
        PermanentError: the record is missing, damaged, or not the requested one.
    """
    limit = int(asked["limit"])
    place = asked["filename"], int(asked["offset"]), int(asked["length"])
    with open_record(layout.archive, *place) as record:
        target = record.warc.get("warc-target-uri").strip("<>")
        if (target, record.warc.get("warc-type")) != (asked["url"], asked["type"]):
            raise PermanentError("the index points at another record")
        content, codings = record.content, ""
        if record.http is not None:
            codings = record.http.get("content-encoding")
            if record.http.get("transfer-encoding").lower() == "chunked":
                content = dechunked(content)
        stored = decode_blocks(content, "", limit=limit)
    if not codings:
        return [stored]
    try:
        decoded = decode_blocks(iter([stored]), codings, limit=limit)
    except BodyTooLargeError:
        raise
    except PermanentError:
        return [stored]
    return [decoded] if decoded == stored else [decoded, stored]


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        main()
