"""`weboid embed filter` and `weboid embed urls`, as people type them."""

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from core.errors import ConfigError, UnavailableError
from tests.support.embed_front import StubFront, answer_of
from tests.support.embed_upstream import page, running_upstream
from weboid.cli.main import weboid
from weboid.cli.support.commands import ExitCode
from wiki.embed.page_marker import remove_marks

pytestmark = pytest.mark.slow

URL = "https://cited.example.com/x"
HTML = f'<p>Straße <a href="{URL}">x</a> <a href="https://me.example/own">own</a></p>\r\n'.encode()


def run(*arguments: object, data: bytes | None = None) -> Result:
    """Run a command; the result's `return_value` is the exit code of the process."""
    return CliRunner().invoke(weboid, [str(each) for each in arguments], input=data, standalone_mode=False)


def embed(front: StubFront, *arguments: object, data: bytes | None = None) -> Result:
    """Run the filter with its front and wiki."""
    return run("embed", "filter", "--front", front.origin, "--wiki", "me@me", *arguments, data=data)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Write a site of a few files, with symbolic links to a file inside and to one outside."""
    root = tmp_path / "site"
    (root / "guide").mkdir(parents=True)
    (root / "index.html").write_bytes(HTML)
    (root / "guide" / "ä b.HTM").write_bytes(HTML.replace(b"/x", b"/y"))
    (root / "plain.html").write_bytes(b"<p>no links</p>")
    (root / "style.css").write_bytes(b"a { }")
    (root / "latest.html").symlink_to("index.html")
    (tmp_path / "secret.html").write_bytes(b"secret")
    (root / "outside.html").symlink_to("../secret.html")
    (root / "index.html").chmod(0o640)
    os.utime(root / "index.html", ns=(10**18, 10**18))
    return root


def test_a_pipe_is_marked(front: StubFront) -> None:
    """Standard input to standard output, and nothing else there."""
    done = embed(front, "--base", "https://me.example/", data=HTML)

    assert done.return_value == ExitCode.OK
    assert remove_marks(done.stdout_bytes) == HTML
    assert done.stdout_bytes.count(b"<sup") == 1


def test_a_pipe_passes_as_it_is_while_the_front_is_away(front: StubFront) -> None:
    """With a word on the other stream, and an exit code that a script can see."""
    front.status = 500

    done = embed(front, data=HTML)

    assert done.return_value == ExitCode.UNAVAILABLE
    assert done.stdout_bytes == HTML
    assert "The front did not answer" in done.stderr


def test_files_are_marked_in_place(front: StubFront, site: Path) -> None:
    """Only those that change are written; mode and moment stay, other files and links too."""
    before = {path: path.lstat().st_mtime_ns for path in site.rglob("*")}

    done = embed(front, site, "--in-place", "--json", "--base", "https://me.example/")

    summary = json.loads(done.stdout)
    assert sorted(summary["changed"]) == ["guide/ä b.HTM", "index.html"]
    assert (summary["pages"], summary["links"], summary["unanswered"], summary["copied"]) == (3, 2, 0, 0)
    index = site / "index.html"
    assert remove_marks(index.read_bytes()) == HTML != index.read_bytes()
    assert stat.S_IMODE(index.stat().st_mode) == 0o640
    assert {path: path.lstat().st_mtime_ns for path in site.rglob("*") if path.is_file()} == {
        path: moment for path, moment in before.items() if path.is_file()
    }
    assert (site / "latest.html").is_symlink()
    assert len(front.queries) == 1


def test_a_second_run_changes_nothing_until_something_is_known(front: StubFront, site: Path) -> None:
    """And then only what is new; --keep leaves the old marks."""
    embed(front, site, "--in-place")
    first = (site / "index.html").read_bytes()

    again = json.loads(embed(front, site, "--in-place", "--json").stdout)
    front.link_answer = lambda url: answer_of(url, front.origin, dead=True)
    keep_summary = json.loads(embed(front, site, "--in-place", "--json", "--keep").stdout)
    later = json.loads(embed(front, site, "--in-place", "--json").stdout)

    assert (again["changed"], keep_summary["changed"]) == ([], [])
    assert len(later["changed"]) == 2
    assert b"weboid-unreachable" in (site / "index.html").read_bytes() != first


def test_marks_are_removed_to_the_byte(front: StubFront, site: Path) -> None:
    """Whoever has enough of it has the site back; nobody is asked."""
    before = {path.name: path.read_bytes() for path in site.rglob("*.[hH]*")}
    embed(front, site, "--in-place")
    front.queries.clear()

    done = embed(front, site, "--in-place", "--remove")

    assert done.return_value == ExitCode.OK
    assert {path.name: path.read_bytes() for path in site.rglob("*.[hH]*")} == before
    assert front.queries == []


def test_marks_stay_while_the_front_is_away(front: StubFront, site: Path) -> None:
    """An archive that is down takes nothing off a site."""
    embed(front, site, "--in-place")
    before = (site / "index.html").read_bytes()
    front.status = 500

    done = embed(front, site, "--in-place", "--json")

    assert done.return_value == ExitCode.UNAVAILABLE
    assert json.loads(done.stdout)["unanswered"] == 2
    assert (site / "index.html").read_bytes() == before


def test_a_marked_copy_of_a_site_has_all_its_files(front: StubFront, site: Path, tmp_path: Path) -> None:
    """Links within it stay links; what leads out of it is left out. The site itself stays as it is."""
    out = tmp_path / "marked"

    first = json.loads(embed(front, site, "--out", out, "--json").stdout)
    second = json.loads(embed(front, site, "--out", out, "--json").stdout)

    assert remove_marks((out / "index.html").read_bytes()) == HTML == (site / "index.html").read_bytes()
    assert (out / "plain.html").read_bytes() == b"<p>no links</p>"
    assert (out / "style.css").read_bytes() == b"a { }"
    assert (out / "latest.html").readlink() == Path("index.html")
    assert not os.path.lexists(out / "outside.html")
    assert (len(first["changed"]), first["copied"]) == (3, 2)
    assert (second["changed"], second["copied"]) == ([], 0)


def test_a_check_writes_nothing_and_says_what_would_change(front: StubFront, site: Path) -> None:
    """Its exit code tells a build."""
    checked = embed(front, site, "--check")
    embed(front, site, "--in-place")
    again = embed(front, site, "--check")

    assert checked.return_value == ExitCode.SOME_FAILED
    assert "would change  index.html" in checked.stdout
    assert again.return_value == ExitCode.OK


def test_a_page_that_somebody_else_writes_meanwhile_is_left_to_them(front: StubFront, site: Path) -> None:
    """A file that was changed after it was read is not overwritten."""

    def body(question: dict[str, Any]) -> bytes:
        (site / "index.html").write_bytes(b"new")
        links = [answer_of(url, front.origin) for url in question["urls"]]
        return json.dumps({"links": links}).encode()

    front.make_body = body

    done = embed(front, site, "--in-place", "--json")

    assert (site / "index.html").read_bytes() == b"new"
    assert list(json.loads(done.stdout)["passed_over"]) == ["index.html"]
    assert done.return_value == ExitCode.SOME_FAILED


def test_a_run_that_is_stopped_leaves_whole_files(front: StubFront, site: Path) -> None:
    """Killed while it waits for the front: every file is as it was, and the next run goes on."""
    front.released.clear()
    command = [sys.executable, "-m", "weboid", "embed", "filter", str(site), "--in-place"]
    process = subprocess.Popen([*command, "--front", front.origin, "--wiki", "me@me", "--timeout", "60"])
    while not front.queries:
        assert process.poll() is None
        front.released.wait(0.02)
    process.kill()
    process.wait()
    front.released.set()

    assert (site / "index.html").read_bytes() == HTML
    assert embed(front, site, "--in-place").return_value == ExitCode.OK
    assert (site / "index.html").read_bytes() != HTML


REFUSED = {
    "no-place": ["SITE"],
    "two-places": ["SITE", "--in-place", "--check"],
    "out-within": ["SITE", "--out", "SITE/x"],
    "pipe-in-place": ["--in-place"],
    "pipe-and-file": ["-", "SITE", "--in-place"],
    "not-there": ["SITE/missing", "--in-place"],
    "no-selector": ["SITE", "--in-place", "--only", "a b"],
    "no-host": ["SITE", "--in-place", "--own", "a b"],
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_meant_is_refused(arguments: list[str], front: StubFront, site: Path) -> None:
    """With a sentence, before anything is read."""
    done = embed(front, *(each.replace("SITE", str(site)) for each in arguments))

    assert done.exception is not None
    assert front.queries == []


def test_the_links_of_a_site_are_listed_as_the_registry_reads_them(site: Path, tmp_path: Path) -> None:
    """A line for each page; importing them makes the registry watch them."""
    listed = run("embed", "urls", site, "--base", "https://me.example/", "--wiki", "handbook@me")
    lines = [json.loads(line) for line in listed.stdout.splitlines()]

    assert [(each["title"], each["urls"]) for each in lines] == [
        ("guide/ä b.HTM", ["https://cited.example.com/y"]),
        ("/", [URL]),
    ]
    assert all(each["wiki"] == "handbook@me" and 0 < each["page_id"] < 1 << 40 for each in lines)

    collection = tmp_path / "collection"
    file = tmp_path / "links.jsonl"
    file.write_text(listed.stdout)
    run("wiki", "set", "handbook@me", "--new-farm", "--collection", collection)
    done = run("links", "import", file, "--collection", collection, "--json")
    summary = json.loads(done.stdout)
    assert (summary["pages"], summary["links"], summary["bad_lines"]) == (2, 2, 0)


def test_plain_addresses_are_listed_once(site: Path) -> None:
    """For `weboid archive --list -`."""
    (site / "again.html").write_bytes(HTML)

    listed = run("embed", "urls", site, "--plain", "--base", "https://me.example/")

    assert listed.stdout.splitlines() == [URL, "https://cited.example.com/y"]


def test_two_runs_at_once_do_each_other_no_harm(front: StubFront, site: Path) -> None:
    """Each file is written at once, or not at all."""
    for number in range(60):
        (site / f"{number}.html").write_bytes(HTML)
    command = [sys.executable, "-m", "weboid", "embed", "filter", str(site), "--in-place", "--json"]
    more = ["--front", front.origin, "--wiki", "me@me"]
    runs = [subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL) for _ in range(2)]

    assert {process.wait(120) for process in runs} <= {ExitCode.OK, ExitCode.SOME_FAILED}
    embed(front, site, "--in-place")
    texts = {(site / f"{number}.html").read_bytes() for number in range(60)}
    assert len(texts) == 1
    assert remove_marks(texts.pop()) == HTML
    assert [path.name for path in site.iterdir() if path.name.startswith(".")] == []


def test_the_proxy_starts_says_where_and_ends_when_it_is_asked_to(front: StubFront) -> None:
    """As a service manager does it."""
    with running_upstream() as upstream:
        upstream.answer = lambda _: page(HTML)
        command = [sys.executable, "-m", "weboid", "embed", "proxy", "--listen", "127.0.0.1:0"]
        more = ["--upstream", upstream.origin, "--front", front.origin, "--wiki", "me@me"]
        process = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True)
        with process:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            with urllib.request.urlopen(address, timeout=120) as answer:
                assert remove_marks(answer.read()) == HTML
            process.terminate()
            assert process.wait(120) in {ExitCode.OK, -signal.SIGTERM}


def test_a_proxy_that_cannot_start_says_why(front: StubFront) -> None:
    """An address that is none, a port that is taken."""
    options = ("embed", "proxy", "--front", front.origin, "--wiki", "me@me")
    taken = front.origin.removeprefix("http://")

    assert isinstance(run(*options, "--upstream", "me.example").exception, ConfigError)
    assert isinstance(run(*options, "--upstream", "http://me.example/wiki").exception, ConfigError)
    full = run(*options, "--upstream", "http://me.example", "--listen", taken)
    assert isinstance(full.exception, UnavailableError)
