"""Every closed WARC has a line in SHA256SUMS that outlives the database."""

import hashlib
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from core.layout import Layout
from tests.support.polling import wait_until
from tests.support.proxy_fixtures import ProxyInProcess, ScriptedOrigin, ok
from tests.support.warc_damage import SITE, captures, flip, make_collection, sql
from tests.warc.test_file_check import fetch
from warc.checksums import add_sums, chain_problems, read_chain, read_sums, replace_sums
from warc.rebuild import rebuild_index
from warc.verification import verify_collection

A, B = "a" * 64, "b" * 64


@pytest.fixture
def folder(layout: Layout) -> Layout:
    """Create the folders of an empty collection."""
    layout.archive.mkdir()
    layout.databases.mkdir()
    return layout


@pytest.mark.proxy
async def test_a_closed_file_has_its_checksum_in_the_list_and_in_the_index(
    start: Callable[..., ProxyInProcess], origin: ScriptedOrigin, layout: Layout
) -> None:
    """`sha256sum -c` reads it; the index has size and moment, too. Also after roll-overs."""
    origin.answers = {f"/{n}": ok(os.urandom(3000 + n)) for n in range(3)}
    proxies = [start(name, warc_limit_bytes=1500) for name in ("one", "two")]
    for number in range(3):
        for proxy in proxies:
            await fetch(proxy, f"{SITE}/{number}", page_id=f"{number}-{proxy.port}")
    for proxy in proxies:
        proxy.stop()
    warcs = sorted(layout.archive.glob("*.warc.gz"))
    checked = subprocess.run(
        ["sha256sum", "--strict", "-c", layout.checksums.name],
        cwd=layout.archive,
        capture_output=True,
        text=True,
        check=True,
    )

    assert checked.stdout.count(": OK") == len(warcs) > 6
    rows = sql(layout, "SELECT filename, size, sha256, closed_ms FROM files ORDER BY filename")
    assert rows == [
        (
            path.name,
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns // 1_000_000,
        )
        for path in warcs
    ]


@pytest.mark.proxy
def test_a_file_without_its_line_gets_it_from_the_next_proxy(
    start: Callable[..., ProxyInProcess], layout: Layout
) -> None:
    """A killed proxy had no time; lines that are there stay as they are."""
    layout.root.rmdir()
    make_collection(layout.root, killed=True)
    proxy = start()
    wait_until(lambda: len(read_sums(layout).by_name) == 2)
    proxy.stop()
    text = layout.checksums.read_text()
    layout.checksums.write_text(text.splitlines()[0] + "\n")
    proxy = start("again")
    wait_until(lambda: len(read_sums(layout).by_name) == 2)
    proxy.stop()

    assert sorted(layout.checksums.read_text().splitlines()) == sorted(text.splitlines())
    assert verify_collection(layout).is_sound


@pytest.mark.proxy
def test_a_rebuild_restores_the_list_and_does_not_bless_damage(layout: Layout) -> None:
    """Missing lines are made, empty ones go; a line is never changed to suit a damaged file."""
    layout.root.rmdir()
    make_collection(layout.root)
    whole = read_sums(layout).by_name
    layout.checksums.unlink()
    rebuild_index(layout, bucket="default")
    assert read_sums(layout).by_name == whole

    layout.checksums.write_text(layout.checksums.read_text() + "nonsense\n")
    flip(captures(layout), 400)
    messages: list[str] = []
    rebuild_index(layout, bucket="default", report=messages.append)

    assert read_sums(layout).by_name == whole
    assert read_sums(layout).bad == []
    assert captures(layout).name in messages[0]
    assert "checksum" in {each.kind for each in verify_collection(layout).faults}


def test_lines_of_many_writers_stay_whole(folder: Layout) -> None:
    """Each appends under a lock; a file gets one line."""
    names = [f"weboid-{number}.warc.gz" for number in range(40)]

    def write() -> None:
        for name in names:
            add_sums(folder, {name: A})

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(folder.checksums.read_text().splitlines()) == sorted(f"{A}  {n}" for n in names)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{B}  new\n"),
        (f"{A}  old\n", f"{A}  old\n{B}  new\n"),
        (f"{A}  old", f"{A}  old\n{B}  new\n"),
        (f"{A}  old\n{A[:30]}", f"{A}  old\n{B}  new\n"),
        (f"{A} *new\n", f"{A} *new\n"),
    ],
    ids=["empty", "whole", "no-line-end", "torn", "known"],
)
def test_a_line_is_added_whatever_the_last_writer_left(folder: Layout, before: str, after: str) -> None:
    """A torn line is cut; one that somebody's editor left without its end is ended."""
    folder.checksums.write_text(before)
    add_sums(folder, {"new": B})

    assert folder.checksums.read_text() == after


def test_a_list_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """No error."""
    assert read_sums(Layout(tmp_path)).by_name == {}


def test_each_checksum_is_a_link_of_a_chain(folder: Layout) -> None:
    """A link is the SHA-256 of the link before and the line, so that others can compute it."""
    add_sums(folder, {"one": A})
    add_sums(folder, {"two": B})
    link = "0" * 64
    lines = []
    for name, value in (("one", A), ("two", B)):
        link = hashlib.sha256(f"{link}\n{value}  {name}".encode()).hexdigest()
        lines.append(f"{link}  {value}  {name}\n")

    assert folder.checksum_chain.read_text() == "".join(lines)
    assert read_chain(folder).head == link


def test_a_chain_begins_with_the_checksums_of_older_releases(folder: Layout) -> None:
    """Their lines come first, also after a writer was killed between the two files, or in a line."""
    folder.checksums.write_text(f"{A}  old\n")
    add_sums(folder, {"new": B})
    assert list(read_chain(folder).by_name) == ["old", "new"]

    whole = folder.checksum_chain.read_bytes()
    folder.checksum_chain.write_bytes(whole[:-5])
    add_sums(folder, {"third": A})
    assert folder.checksum_chain.read_bytes().startswith(whole)
    assert list(chain_problems(read_chain(folder), read_sums(folder))) == []


@pytest.mark.parametrize("name", ["SHA256SUMS", "SHA256SUMS.chain"])
@pytest.mark.parametrize("change", ["edit", "remove"])
def test_a_changed_line_breaks_the_chain(folder: Layout, name: str, change: str) -> None:
    """In either file, edited or removed; later lines do not hide it."""
    add_sums(folder, {"one": A, "two": B})
    path = folder.archive / name
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first.replace(A, B), *rest] if change == "edit" else rest))
    add_sums(folder, {"three": A})

    assert list(chain_problems(read_chain(folder), read_sums(folder)))


def test_an_erasure_adds_a_link(folder: Layout) -> None:
    """The replaced line stays in the chain, and links that are known elsewhere stay valid."""
    add_sums(folder, {"one": A, "two": A})
    before = read_chain(folder)
    replace_sums(folder, {"one": B})
    after = read_chain(folder)

    assert list(chain_problems(after, read_sums(folder))) == []
    assert before.links < after.links
    assert after.by_name == {"one": B, "two": A}
