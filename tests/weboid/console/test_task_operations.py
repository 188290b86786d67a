"""Exports, imports and quality checks in the console's API."""

import os
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from core.layout import Layout
from core.playback_check import PlaybackCheck, QaVerdict
from links.registry.database import open_registry_store
from qa.check_store import store_checks
from qa.check_table import CheckedPage
from tests.support.console_server import ServedConsole, api_client, serve_console
from tests.support.playback_fixtures import CollectionBuilder
from tests.support.polling import wait_until
from weboid.console.accounts import COOKIE
from weboid.console.background_tasks import QUEUED_LIMIT

pytestmark = pytest.mark.slow  # tasks are commands, each a process
URL = "https://library.org/opening-hours"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """Serve the console of a collection with a page."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("tasks") / "collection")
    builder.layout.marker.write_text('version = 1\nname = "Example Library"\n')
    builder.page(URL, "<h1>Opening hours</h1>", title="Opening hours", text="Open on Sundays")
    builder.response(URL, b"<h1>Opening hours</h1>")
    builder.close()
    with serve_console(builder.layout) as it:
        yield it


@pytest.fixture
def client(served: ServedConsole) -> Iterator[httpx.Client]:
    """Yield an HTTP client with an operator's session."""
    with api_client(served.address, served.sessions["operator"]) as it:
        yield it


def ended(client: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    """Assert that the task was accepted (202), wait until it is over and return it."""
    assert answer.status_code == 202, answer.text
    task: dict[str, Any] = {}

    def is_over() -> bool:
        task.update(client.get(answer.headers["location"].removeprefix("/api/v1")).json())
        return task["state"] not in ("queued", "running", "stopping")

    wait_until(is_over)
    return task


def test_an_export_is_downloaded_and_imported(client: httpx.Client, served: ServedConsole, tmp_path: Path) -> None:
    """As a WACZ file, in parts too; another collection imports what is uploaded, and shows the page."""
    task = ended(client, client.post("/exports", json={"urls": [URL], "title": "Hours"}))
    (file,) = task["files"]
    address = {"task": str(task["id"]), "name": file["name"]}
    whole = client.get("/tasks/file", params=address)
    part = client.get("/tasks/file", params=address, headers={"Range": "bytes=0-3"})
    (tmp_path / "a.wacz").write_bytes(whole.content)

    assert (task["state"], task["actor"], task["result"]["pages"]) == ("done", "Olu", 1)
    assert "datapackage.json" in zipfile.ZipFile(tmp_path / "a.wacz").namelist()
    assert (part.status_code, part.content) == (206, b"PK\x03\x04")
    assert client.get("/tasks/file", params={**address, "name": "../output.jsonl"}).status_code == 404

    other = Layout(tmp_path / "other")
    for folder in (other.root, other.databases, other.archive):
        folder.mkdir(exist_ok=True)
    other.marker.write_text('version = 1\nname = "Other"\n')
    with (
        serve_console(other) as console,
        httpx.Client(base_url=f"{console.address}/api/v1", headers={"Origin": console.address}, timeout=120) as there,
    ):
        there.cookies.set(COOKIE, console.sessions["operator"])
        up = [there.post("/imports/files", params={"name": "a.wacz"}, content=whole.content) for _ in range(2)]
        listed = there.get("/imports/files").json()["files"]
        imported = ended(there, there.post("/imports", json={"names": ["a.wacz"]}))
        captures = there.get("/captures", params={"q": "url:library.org"}).json()["captures"]

    assert [each.status_code for each in up] == [201, 409]
    assert listed == [{"name": "a.wacz", "bytes": len(whole.content)}]
    assert imported["state"] == "done", imported
    assert [each["title"] for each in captures] == ["Opening hours"]


def test_only_files_of_the_folder_are_imported(client: httpx.Client, served: ServedConsole, tmp_path: Path) -> None:
    """No path of the machine, also not by a link, no option, no other scheme; the list has what can be imported."""
    outside, incoming = tmp_path / "out.warc", served.layout.incoming
    outside.touch()
    incoming.mkdir(exist_ok=True)
    for name, target in (("out.warc", outside), ("loop", incoming / "loop"), ("gone.warc", tmp_path / "gone")):
        (incoming / name).symlink_to(target)
    assert client.get("/imports/files").json() == {"files": [{"name": "out.warc", "bytes": 0}]}
    answers = [
        client.post("/imports", json=fields)
        for fields in (
            {"names": ["/etc/passwd"]}, {"names": ["../weboid.toml"]}, {"names": ["none.warc.gz"]},
            {"urls": ["file:///etc/passwd"]}, {}, {"names": ["a" * 300]}, {"names": ["loop"]}, {"names": ["out.warc"]},
        )
    ]  # fmt: skip
    uploads = [client.post("/imports/files", params={"name": name}, content=b"x") for name in ("../a.warc", "a.sh")]
    with httpx.Client(base_url=f"{served.address}/api/v1", headers={"Origin": served.address}, timeout=120) as reader:
        reader.cookies.set(COOKIE, served.sessions["curator"])
        large = reader.post("/imports/files", params={"name": "a.warc"}, content=b"x" * (5 << 20))

    assert {each.status_code for each in (*answers, *uploads)} == {422}
    assert large.status_code in (403, 413)


def test_a_failed_task_tells_why_and_too_many_are_refused(client: httpx.Client) -> None:
    """The command's own error; 429 when the queue is full; those that wait are stopped."""
    failed = ended(client, client.post("/exports", json={"jobs": ["none"]}))
    # Until one is refused: some may end meanwhile.
    answers = [client.post("/exports", json={"jobs": ["none"]})]
    while answers[-1].status_code != 429 and len(answers) < 10 * QUEUED_LIMIT:
        answers.append(client.post("/exports", json={"jobs": ["none"]}))
    for task in client.get("/tasks", params={"limit": 100}).json()["tasks"]:
        client.post("/tasks/stop", json={"task": task["id"]})

    assert failed["state"] == "failed"
    assert "has archived a page" in str(failed["error"])
    assert len(answers) > QUEUED_LIMIT
    assert (answers[-1].status_code, answers[-1].headers["retry-after"]) == (429, "60")
    assert client.get("/tasks", params={"limit": 100}).json()["tasks"][0]["state"] in ("stopped", "stopping", "failed")


def test_a_command_that_cannot_start_fails_and_the_next_runs(client: httpx.Client) -> None:
    """A NUL in a filter is in no command line."""
    failed = ended(client, client.post("/exports", json={"hosts": ["a\0.example"]}))

    assert (failed["state"], failed["error"]) == ("failed", "The command cannot run: embedded null byte.")
    assert ended(client, client.post("/exports", json={"urls": [URL]}))["state"] == "done"


def test_results_of_checks_are_listed_and_written_into_a_report(client: httpx.Client, served: ServedConsole) -> None:
    """The worst first, in parts, filtered; the report is a file of a task."""
    open_registry_store(served.layout).close()
    checks = [
        PlaybackCheck(
            page_id=str(uuid4()), url=f"{URL}?{n}", level="images", captured_at="2026-11-20T10:00:00Z",
            checked_at="2026-11-21T10:00:00Z", engine="1", verdict=verdict, score=score,
        )
        for n, (verdict, score) in enumerate(((QaVerdict.GOOD, 0.99), (QaVerdict.BROKEN, 0.2), (QaVerdict.GOOD, 0.9)))
    ]  # fmt: skip
    with served.stores.registry.store().writing() as rows:
        store_checks(rows, [CheckedPage(check, "library.org") for check in checks], datetime.now(UTC))
    first = client.get("/quality/checks", params={"limit": 2}).json()
    second = client.get("/quality/checks", params={"limit": 2, "cursor": first["next"]}).json()
    broken = client.get("/quality/checks", params={"verdict": "broken", "host": "library.org"}).json()["checks"]
    report = ended(client, client.post("/quality/reports", json={}))
    page = client.get("/tasks/file", params={"task": str(report["id"]), "name": "report.html"})
    worst = {key: broken[0][key] for key in ("page_id", "level")}
    seen = {"If-Match": client.get("/quality/check", params=worst).headers["etag"]}
    rated = [
        client.post("/quality/reviews", json={**worst, "action": "good", "note": "An old layout"}, headers=seen)
        for _ in range(2)
    ]
    unknown = client.post("/quality/reviews", json={"page_id": "x", "level": "images", "action": "bad"})

    assert [each.status_code for each in (*rated, unknown)] == [201, 412, 404]
    assert [rated[0].json()[key] for key in ("verdict", "machine", "reviewed_by", "note")] == [
        *("good", "broken", "Olu", "An old layout")
    ]
    client.post("/quality/reviews", json={**worst, "action": "clear"})
    assert [each["score"] for each in (*first["checks"], *second["checks"])] == [0.2, 0.9, 0.99]
    assert [each["url"] for each in broken] == [f"{URL}?1"]
    assert client.get("/quality").json()["verdicts"] == {"good": 2, "broken": 1, "doubtful": 0, "unchecked": 0}
    assert page.headers["content-disposition"] == 'attachment; filename="report.html"'


def test_an_upload_is_stored_once(client: httpx.Client, served: ServedConsole) -> None:
    """A repeated one with its key is answered as the first; parts of uploads that ended are removed after a day."""
    incoming = served.layout.incoming
    incoming.mkdir(exist_ok=True)
    parts = [incoming / f".{name}.warc.gz.0.part" for name in ("old", "new")]
    for each in parts:
        each.write_bytes(b"x")
    os.utime(parts[0], (1e9, 1e9))
    sent = {"params": {"name": "once.warc"}, "headers": {"Idempotency-Key": "upload-1"}}
    first, second = (client.post("/imports/files", content=b"WARC", **sent) for _ in range(2))  # type: ignore[arg-type]
    other = client.post("/imports/files", content=b"another", **sent)  # type: ignore[arg-type]

    assert (first.status_code, first.json()) == (201, second.json())
    assert other.status_code == 422
    assert sorted(each.name for each in incoming.iterdir() if "once" in each.name) == ["once.warc"]
    assert [each.exists() for each in parts] == [False, True]
    for name in ("once.warc", parts[1].name):
        (incoming / name).unlink()
