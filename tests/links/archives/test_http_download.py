"""Downloads of files that are imported: continued where they broke off, and never from this machine's network."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from core.config.settings import EgressSettings
from core.errors import InputError, TransientError
from links.archives.archive_client import HttpFetch
from net.address_policy import is_own
from tests.support.loopback import LoopbackServer

DATA = bytes(range(256)) * 2_000
LIMIT = 1_000_000


class _InterruptedFile(BaseHTTPRequestHandler):
    """One file with an entity tag; the first answer breaks off in its midst."""

    requests: list[str | None]
    tag = '"one"'
    coding = ""

    def do_GET(self) -> None:
        start = 0
        wanted = self.headers["Range"]
        self.requests.append(wanted)
        if wanted and self.headers["If-Range"] == self.tag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            is_whole = start == len(DATA)
            self.send_response(416 if is_whole else 206)
            span = "*" if is_whole else f"{start}-{len(DATA) - 1}"
            self.send_header("Content-Range", f"bytes {span}/{len(DATA)}")
        else:
            self.send_response(200)
        self.send_header("ETag", self.tag)
        if self.coding:
            self.send_header("Content-Encoding", self.coding)
        self.send_header("Content-Length", str(len(DATA) - start))
        self.end_headers()
        self.wfile.write(DATA[start:] if len(self.requests) > 1 else DATA[start:100_000])
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def address() -> Iterator[tuple[str, type[_InterruptedFile]]]:
    """Run the server; yield its origin and its handler."""
    handler = type("Handler", (_InterruptedFile,), {"requests": []})
    with LoopbackServer(handler) as server:
        yield server.origin, handler


async def download(origin: str, target: Path, *, limit: int = LIMIT, is_trusted: bool = True) -> None:
    """Download the file of the origin."""
    origins = [origin] if is_trusted else []
    async with HttpFetch(EgressSettings(), is_own=is_own, user_agent="test", origins=origins) as fetch:
        await fetch.download(f"{origin}/a.warc.gz", target, limit_bytes=limit, on_progress=lambda *_: None)


@pytest.mark.parametrize("is_changed", [False, True])
async def test_a_broken_download_is_continued(
    address: tuple[str, type[_InterruptedFile]], tmp_path: Path, is_changed: bool
) -> None:
    """From its last byte on; from the beginning when the file is another one by now."""
    origin, files = address
    with pytest.raises(TransientError):
        await download(origin, tmp_path / "a.part")
    assert 0 < (tmp_path / "a.part").stat().st_size < len(DATA)
    if is_changed:
        files.tag = '"two"'

    await download(origin, tmp_path / "a.part")

    assert (tmp_path / "a.part").read_bytes() == DATA
    assert files.requests == [None, "bytes=100000-"]


@pytest.mark.parametrize("tag", ['W/"one"', ""])
async def test_a_file_without_a_strong_validator_is_sent_again(
    address: tuple[str, type[_InterruptedFile]], tmp_path: Path, tag: str
) -> None:
    """Its halves might be of two versions (RFC 9110, 13.1.5)."""
    origin, files = address
    files.tag = tag
    with pytest.raises(TransientError, match="broke off"):
        await download(origin, tmp_path / "a.part")

    await download(origin, tmp_path / "a.part")

    assert (tmp_path / "a.part").read_bytes() == DATA
    assert files.requests == [None, None]


async def test_a_whole_file_is_not_sent_again(address: tuple[str, type[_InterruptedFile]], tmp_path: Path) -> None:
    """The import of it was interrupted."""
    (tmp_path / "a.part").write_bytes(DATA)
    (tmp_path / "a.validator").write_text(address[1].tag)

    await download(address[0], tmp_path / "a.part")

    assert (tmp_path / "a.part").read_bytes() == DATA
    assert address[1].requests == [f"bytes={len(DATA)}-"]


async def test_a_content_coding_is_not_undone(address: tuple[str, type[_InterruptedFile]], tmp_path: Path) -> None:
    """Servers state one for each file whose name ends with .gz."""
    address[1].coding = "gzip"
    address[1].requests.append(None)  # no answer breaks off

    await download(address[0], tmp_path / "a.part")

    assert (tmp_path / "a.part").read_bytes() == DATA


async def test_a_file_over_the_limit_is_refused(address: tuple[str, type[_InterruptedFile]], tmp_path: Path) -> None:
    """By its length, before a byte is stored."""
    with pytest.raises(InputError, match="limit"):
        await download(address[0], tmp_path / "a.part", limit=1_000)
    assert not list(tmp_path.iterdir())


async def test_an_address_of_this_machine_is_refused(
    address: tuple[str, type[_InterruptedFile]], tmp_path: Path
) -> None:
    """It is not asked."""
    with pytest.raises(InputError, match="cannot be downloaded"):
        await download(address[0], tmp_path / "a.part", is_trusted=False)
    assert address[1].requests == []
