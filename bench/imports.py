"""Import of foreign WARCs: records a second through checks and index, beside cdxj-indexer on the same file.

- ``import_records_s``: records of the file a second of processor time, indexed with all their digests verified.
- ``cdxj_indexer_records_s``: the same file by cdxj-indexer, which verifies none.
- ``pages_s``: pages a second of processor time, with their manifests.
- ``import_rss_mb``: the largest resident set of `weboid import`.

Half of the records are responses of 1.5 KB, one in five of them a page; the others are their requests.
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: its folder must not hide our packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import base64
import gzip
import hashlib
import json
import os
import resource
import subprocess
import tempfile
from contextlib import closing

from bench import report
from bench.proxy import REFERENCE_PYTHON
from warc.index.indexer import index_file
from warc.index.sqlite import SqliteCaptureIndex
from warc.record_builder import header_block, new_record_id


def _record(kind: str, url: str, head: str, body: bytes) -> bytes:
    block = head.encode() + b"\r\n\r\n" + body
    digests = (base64.b32encode(hashlib.sha1(each, usedforsecurity=False).digest()).decode() for each in (body, block))
    payload, whole = digests
    headers = [
        ("WARC-Type", kind),
        ("WARC-Record-ID", new_record_id()),
        ("WARC-Target-URI", url),
        ("WARC-Date", "2026-01-31T12:00:00Z"),
        ("WARC-Payload-Digest", f"sha1:{payload}"),
        ("WARC-Block-Digest", f"sha1:{whole}"),
        ("Content-Type", f"application/http; msgtype={kind}"),
        ("Content-Length", str(len(block))),
    ]
    return gzip.compress(header_block(headers) + block + b"\r\n\r\n", 1)


def _write(path: Path, captures: int) -> None:
    with path.open("wb") as file:
        for number in range(captures):
            url = f"https://site-{number % 50}.example/section/{number}"
            body, mime = hashlib.sha256(url.encode()).digest() * 46, "image/png"
            if number % 5 == 0:
                mime, body = "text/html", f"<title>Page {number}</title>".encode() + b"<p>Words of a page" * 80
            file.write(_record("response", url, f"HTTP/1.1 200 OK\r\nContent-Type: {mime}", body))
            file.write(_record("request", url, "GET / HTTP/1.1\r\nHost: site.example", b""))


def _child_s(*command: str) -> float:
    """Return the processor seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _own_s() -> float:
    usage = os.times()
    return usage.user + usage.system


def main() -> None:
    """Write a file, import it, index it with cdxj-indexer; print the figures."""
    captures = 10_000 if report.arguments(__doc__ or "").quick else 100_000
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        file = Path(folder, "crawl.warc.gz")
        _write(file, captures)
        name = "imported-000000000000-000000000000000000000000-crawl.warc.gz"
        began = _own_s()
        with closing(SqliteCaptureIndex(Path(folder, "captures.sqlite"))) as index:
            indexing = index_file(file, name, index, bucket="default", min_bytes=1)
        indexed_s = _own_s() - began
        program = [sys.executable, "-m", "weboid", "import", str(file), "--json"]
        whole_s = _child_s(*program, "--collection", str(Path(folder, "collection")))
        rss_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
        (line,) = Path(folder, "collection", "reports", "imports.jsonl").read_text().splitlines()
        peer_s = _child_s(str(Path(REFERENCE_PYTHON).with_name("cdxj-indexer")), str(file))
    records = indexing.records
    assert json.loads(line)["records"] == records == 2 * captures
    figures = {
        "import_records_s": records / indexed_s,
        "cdxj_indexer_records_s": records / peer_s,
        "pages_s": captures / 5 / max(whole_s - indexed_s, 0.01),
        "import_rss_mb": rss_mb,
    }
    targets = {"import_records_s": ">= 20000", "import_rss_mb": "<= 250"}
    report.table(
        [(f"{records:,} records", "figure", "target")]
        + [(key, f"{value:,.0f}", targets.get(key, "")) for key, value in figures.items()]
    )
    report.figures("imports", figures)


if __name__ == "__main__":
    main()
