"""A captures index that is lost, or behind the WARCs, is noticed and restored; never started again from nothing."""

import signal
import subprocess
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from core.layout import Layout
from playback.access.decision_store import open_decisions
from playback.web.asgi_app import create_app
from tests.support import loopback
from tests.support.commands import WEBOID, WeboidRunner
from tests.support.sites import hosts
from tests.support.warc_damage import copied, make_collection, sql
from warc.index.database import open_database

pytestmark = [pytest.mark.proxy, pytest.mark.browser, pytest.mark.slow]

PAGE = f"http://{hosts.RULES}/page/plain"


def rows(layout: Layout, names: list[str]) -> list[tuple[object, ...]]:
    """Return what the index has of those WARCs."""
    columns = "url, record_type, filename, offset, orig_filename, orig_offset"
    captures = sql(layout, f"SELECT {columns} FROM captures ORDER BY url, filename, offset")
    return [row for row in captures if row[2] in names]


def names(layout: Layout) -> list[str]:
    """Return the names of its closed WARCs."""
    return sorted(path.name for path in layout.archive.glob("*.warc.gz"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Create a collection whose WARCs are all closed; tests must not change it."""
    layout = make_collection(tmp_path_factory.mktemp("whole") / "collection")
    assert list(layout.archive.glob("*.open")) == []
    return layout


@pytest.fixture
def lost(whole: Layout, weboid: WeboidRunner) -> Layout:
    """Copy it to the command's collection, without its index."""
    layout = copied(whole, weboid.collection)
    for path in layout.databases.glob("captures.sqlite*"):
        path.unlink()
    return layout


def test_archive_restores_a_lost_index_before_it_writes(whole: Layout, lost: Layout, weboid: WeboidRunner) -> None:
    """The rows are those that were lost, revisits and where their payloads lie included."""
    ran = weboid.archive(PAGE)

    assert ran.code == 0, ran.err
    texts = [each["text"] for each in ran.events if each["event"] == "index_restored"]
    assert "does not cover 2 of the collection's 2 closed WARCs" in texts[0]
    assert rows(lost, names(whole)) == rows(whole, names(whole))


def test_an_index_from_an_older_backup_is_completed(whole: Layout, weboid: WeboidRunner) -> None:
    """Missing rows of a WARC are added, present ones stay once; foreign files are left to the import."""
    layout = copied(whole, weboid.collection)
    (name,) = [path.name for path in layout.archive.glob("weboid-*")]
    before = rows(layout, [name])
    half = before[len(before) // 2]
    sql(layout, "DELETE FROM captures WHERE filename = ? AND offset >= ?", name, half[3])
    sql(layout, "DELETE FROM payloads WHERE filename = ? AND offset >= ?", name, half[3])
    sql(layout, "UPDATE files SET indexed_to = ? WHERE filename = ?", half[3], name)

    (layout.archive / "other.warc.gz").write_bytes((layout.archive / name).read_bytes())

    assert weboid.archive(PAGE).code == 0
    assert rows(layout, [name]) == before
    assert rows(layout, ["other.warc.gz"]) == []


def test_status_tells_that_the_index_was_lost(lost: Layout, weboid: WeboidRunner) -> None:
    """For people with the command that restores it, and in --json."""
    assert "INCOMPLETE: 2 of 2 WARCs are not in it; `weboid collection rebuild`" in (
        weboid.call("status", "--collection", str(lost.root)).out
    )
    ran = weboid.call("status", "--json", "--collection", str(lost.root))
    assert '"unindexed": 2' in ran.out


def test_serve_refuses_a_lost_index(lost: Layout, weboid: WeboidRunner) -> None:
    """An archive that seems to be empty is worse than none."""
    ran = weboid.call("serve", "--listen", "127.0.0.1:0", "--collection", str(lost.root))

    assert ran.code != 0
    assert "missing, empty or unreadable" in ran.err
    assert "`weboid collection rebuild`" in ran.err


def origin_of(process: "subprocess.Popen[str]") -> str:
    """Return the address that it prints; what else it says comes before or after."""
    assert process.stdout is not None
    return next(line.strip() for line in process.stdout if line.startswith("http://"))


async def test_the_front_answers_503_when_its_index_goes(whole: Layout, tmp_path: Path) -> None:
    """/healthz says so, too; and all is well again when the index is."""
    layout = copied(whole, tmp_path / "collection")
    with closing(open_database(layout, "")) as database, closing(open_decisions(layout)) as decisions:
        app = create_app(database, decisions, replay_origin="http://replay.test")
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(base_url="http://front.test", transport=transport) as client:
            assert (await client.get("/healthz")).text == "ok\n"
            aside = layout.captures_db.with_suffix(".aside")
            layout.captures_db.rename(aside)
            assert (await client.get("/healthz")).status_code == 503
            assert (await client.get("/")).status_code == 503
            aside.rename(layout.captures_db)
            assert (await client.get("/healthz")).status_code == 200


def test_a_read_only_collection_is_shown_and_served(whole: Layout, weboid: WeboidRunner) -> None:
    """A backup on a medium where nothing can be written. Needs root, for the mount."""
    layout = copied(whole, weboid.collection)
    frontier = weboid.call("crawl", "add", "http://later.example/", "--collection", str(layout.root))
    assert frontier.code == 0, frontier.err
    mount = f"mount --bind {layout.root} {layout.root} && mount -o remount,ro,bind {layout.root}"
    status = subprocess.run(
        [
            *("unshare", "-m", "sh", "-c"),
            f"{mount} && {WEBOID} archive verify {layout.root} && {WEBOID} status --collection {layout.root}",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=weboid.folder,
    )
    assert status.returncode == 0, status.stderr
    assert "1 queued" in status.stdout

    serve = f"{mount} && exec {WEBOID} serve --listen 127.0.0.1:0 --collection {layout.root}"
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", serve],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=weboid.folder,
    )
    origin = origin_of(process)
    try:
        assert loopback.get(f"{origin}/", timeout=120).status_code == 200
        assert loopback.get(f"{origin}/healthz", timeout=120).status_code == 200
        response = loopback.get(f"{origin}/cdx?url=origin.example/a", timeout=120)
        assert response.status_code == 200
        assert "origin" in response.text
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
