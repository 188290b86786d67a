"""A small collection, made by a real proxy, and ways to damage it."""

import asyncio
import os
import shutil
import socket
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from core.config.settings import EgressSettings, ProxySettings, Settings
from core.digests import sha256_digest
from core.layout import Layout
from tests.support.proxy_fixtures import ProxyCommand, ProxyInProcess, ScriptedOrigin, ok
from tests.warc.test_file_check import fetch
from warc.record_builder import record_member

SITE = "http://origin.example"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
)


def make_collection(root: Path, *, killed: bool = False, more: Mapping[str, bytes] | None = None) -> Layout:
    """Make a collection: a response, a chunked one, a picture, revisits of two, and a 304, of two pages.

    Args:
        root: where.
        killed: end the proxy as a crash does, when all is acknowledged.
        more: answers by path, of a third page.
    """
    root.mkdir()
    layout = Layout(root)
    origin = ScriptedOrigin()
    origin.answers = {
        "/a": ok(b"<p>first</p>" * 900),
        "/picture": ok(os.urandom(90_000), mime="image/png"),
        "/chunked": CHUNKED,
        "/same": ok(b"hello!", mime="text/plain"),
        "/again": ok(b"<p>first</p>" * 900),
        "/304": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    }
    for path, answer in (more or {}).items():  # the connection ends with the answer
        origin.answers[path] = closing_with(answer)
    settings = Settings(
        egress=EgressSettings(allow=("127.0.0.0/8",), resolve={"origin.example": f"127.0.0.1:{origin.port}"}),
        proxy=ProxySettings(disk_reserve_bytes=0, seal_grace_s=1.0),
    )
    proxy = (ProxyCommand if killed else ProxyInProcess)(layout, settings, "p", root)
    try:
        asyncio.run(fetch(proxy, f"{SITE}/a", f"{SITE}/picture", f"{SITE}/chunked", page_id="one"))
        asyncio.run(fetch(proxy, f"{SITE}/again", f"{SITE}/same", f"{SITE}/304", page_id="two"))
        if more:
            asyncio.run(fetch(proxy, *(f"{SITE}{path}" for path in more), page_id="three"))
    finally:
        if isinstance(proxy, ProxyCommand):
            proxy.kill()
        else:
            proxy.stop()
        origin.close()
        (root / "p.sock").unlink(missing_ok=True)
    layout.marker.write_text("version = 1\n")
    return layout


def closing_with(answer: bytes) -> Callable[[socket.socket, bytes], None]:
    """Return an answer after which the origin closes the connection."""
    return lambda connection, _: connection.sendall(answer)


def copied(layout: Layout, root: Path) -> Layout:
    """Copy the collection, to damage the copy."""
    shutil.copytree(layout.root, root)
    return Layout(root)


def captures(layout: Layout) -> Path:
    """Return the WARC with the captures, closed or open."""
    (path,) = layout.archive.glob("weboid-*.warc.gz*")
    return path


def flip(path: Path, offset: int) -> None:
    """Turn one bit."""
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 4]))


def sql(layout: Layout, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Run a statement on the index."""
    with closing(sqlite3.connect(layout.captures_db)) as database, database:
        return database.execute(statement, values).fetchall()


def resource(url: str, block: bytes, **changes: str) -> bytes:
    """Return a resource record as a WARC member; `changes` replace headers, `_` standing for `-`."""
    headers = {
        "WARC-Type": "resource",
        "WARC-Record-ID": "<urn:uuid:00000000-0000-4000-8000-000000000000>",
        "WARC-Date": "2026-01-31T12:00:00.000Z",
        "WARC-Target-URI": url,
        "Content-Type": "text/plain",
        "WARC-Block-Digest": sha256_digest(block),
        "WARC-Payload-Digest": sha256_digest(block),
        "Content-Length": str(len(block)),
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    return record_member(list(headers.items()), block)


def tree(layout: Layout) -> dict[str, tuple[int, bytes]]:
    """Return every file's mtime (ns) and content, by path."""
    return {
        str(path.relative_to(layout.root)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(layout.root.rglob("*"))
        if path.is_file()
    }
