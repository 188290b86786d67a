"""`weboid verify` and what `weboid archive` says of interrupted files."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.commands import WeboidRunner, profile_for
from tests.support.sites.web import TestWeb
from tests.support.stored_records import RULES
from warc.index.database import SCHEMA_VERSION

pytestmark = [pytest.mark.browser, pytest.mark.proxy]

URL = f"{RULES}/page/plain"


@pytest.fixture(scope="module")
def archived(web: TestWeb, tmp_path_factory: pytest.TempPathFactory) -> WeboidRunner:
    """Archive one page; tests must not change the collection."""
    folder = tmp_path_factory.mktemp("archived")
    weboid = WeboidRunner(folder, profile_for(web, folder / "profile.toml"))
    weboid.archive(URL)
    return weboid


@pytest.fixture
def weboid(archived: WeboidRunner, tmp_path: Path) -> WeboidRunner:
    """Return a runner in a folder of its own with a copy of that collection."""
    shutil.copytree(archived.collection, tmp_path / "collection")
    return WeboidRunner(tmp_path, archived.profile)


def captures(weboid: WeboidRunner) -> Path:
    """Return the path of the WARC with the captures."""
    (path,) = (weboid.collection / "archive").glob("weboid-*.warc.gz")
    return path


def interrupt(weboid: WeboidRunner, garbage: bytes) -> Path:
    """Make the WARC look as if its writer had died in the middle of a record."""
    path = captures(weboid)
    (weboid.collection / "archive" / "SHA256SUMS").unlink()
    with path.open("ab") as file:
        file.write(garbage)
    path.rename(f"{path}.open")
    return path


def test_what_was_archived_is_sound_until_a_bit_is_flipped(weboid: WeboidRunner) -> None:
    """0 and a sentence; 1, and the fault with its place and what to do, for people and machines."""
    sound = weboid.call("verify", str(weboid.collection))
    path = captures(weboid)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    text = weboid.call("verify")
    faulty = weboid.call("verify", "--json", "--collection", str(weboid.collection))
    quick = weboid.call("verify", "--quick")
    verdict = json.loads(faulty.out)

    assert (sound.code, text.code, faulty.code, quick.code) == (0, 1, 1, 0)
    assert "no fault" in sound.out
    assert path.name in text.out
    assert "Restore the file from a copy" in text.out
    assert {each["kind"] for each in verdict["faults"]} == {"checksum", "gzip"}
    assert {each["file"] for each in verdict["faults"]} == {path.name}


def test_archive_takes_urls_and_options_as_before(weboid: WeboidRunner) -> None:
    """Only the first word `verify` is a command; everything else is archived."""
    listed = weboid.folder / "urls.txt"
    listed.write_text(f"{URL}\n")
    assert "1 URL would be archived" in weboid.call("archive", "--dry-run", URL).out
    assert "2 URLs" in weboid.call("archive", "--list", "urls.txt", f"{URL}?2", "--dry-run").out
    assert weboid.call("archive", "--collection", "elsewhere").code == 2
    assert weboid.call("archive", "--nonsense").code == 2
    assert "[URL]..." in weboid.call("archive", "--help").out
    assert "SHA256SUMS" in weboid.call("verify", "--help").out
    assert weboid.call("verify", "nowhere").code == 3


def test_archive_notes_what_it_did_to_interrupted_files(weboid: WeboidRunner) -> None:
    """A JSON event and a line in reports/."""
    path = interrupt(weboid, b"garbage")
    verified = weboid.call("verify")
    ran = weboid.archive(URL, f"{URL}?more")
    (event,) = (each for each in ran.events if each["event"] == "recovered")
    report = (weboid.collection / "reports" / "recovered.jsonl").read_text()

    assert f"{path.name}: It was interrupted" in verified.out
    assert (ran.code, event["filename"], event["cut"], event["outcome"]) == (0, path.name, 7, "closed")
    assert json.loads(report)["text"] == event["text"]
    assert weboid.call("verify").code == 0


def test_archive_says_what_it_did_to_interrupted_files(weboid: WeboidRunner) -> None:
    """In a sentence, also when there is nothing to archive."""
    path = interrupt(weboid, b"garbage")
    ran = weboid.run("archive", "--profile", str(weboid.profile), URL)

    assert f"recovered {path.name} was interrupted: closed, 7 bytes" in ran.out


def test_a_loss_is_said_on_standard_error(weboid: WeboidRunner) -> None:
    """A loss of data that was safely stored is reported, with the command that rebuilds the index."""
    path = interrupt(weboid, b"")
    lost = path.with_name(f"{path.name}.open")
    with lost.open("r+b") as file:
        file.truncate(lost.stat().st_size // 2)
    ran = weboid.run("archive", "--profile", str(weboid.profile), URL)

    assert "LOST" in ran.err
    assert "weboid collection rebuild" in ran.err


@pytest.mark.parametrize("command", [("archive", f"{URL}?new"), ("index", "rebuild")])
def test_an_index_of_another_version_asks_for_a_rebuild(weboid: WeboidRunner, command: tuple[str, ...]) -> None:
    """Archiving refuses it with a sentence and its exit code; the rebuild goes on."""
    with closing(sqlite3.connect(weboid.collection / "db" / "captures.sqlite")) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    ran = weboid.call(*command, "--profile", str(weboid.profile))

    if command[0] == "archive":
        assert ran.code == 5
        assert "weboid collection rebuild" in ran.err
    else:
        assert ran.code == 0
        assert weboid.call("verify").code == 0


def test_a_rebuild_passes_over_what_is_damaged(weboid: WeboidRunner) -> None:
    """The rest is indexed; what was passed over is said on standard error."""
    path = captures(weboid)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    ran = weboid.call("collection", "rebuild")

    assert ran.code == 0
    assert f"{path.name} is damaged at" in ran.err
    assert "captures of 1 page in" in ran.out
