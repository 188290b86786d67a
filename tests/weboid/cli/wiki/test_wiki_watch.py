"""`weboid wiki watch` and `sweep` on a real wiki, killed and started again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from core.layout import Layout
from links.registry.schema import pages, refs
from links.registry.urls import urls_by_id
from tests.support.services.registries import open_registry
from tests.support.sites.mediawiki import RunningWiki
from tests.support.wiki_writer import WikiWriter
from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode
from weboid.cli.wiki.wiki_watch import has_holder_ended, lease_holder_name

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, list[Any], str]]
ROOT = Path(__file__).parents[4]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wiki: RunningWiki) -> Run:
    """Return a function that runs `weboid wiki …` with JSON on a collection that knows the wiki."""

    def command(*arguments: str) -> tuple[int, list[Any], str]:
        line = ["weboid", "wiki", *arguments, "--json", "--collection", str(tmp_path / "c")]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, [json.loads(each) for each in output.out.splitlines()], output.err

    assert command("add", wiki.base, "--name", "mywiki@home")[0] == ExitCode.OK
    return command


@contextmanager
def _watching(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a watch in a process of its own and kill it afterwards."""
    line = [*(sys.executable, "-m", "weboid"), "wiki", "watch", "--feed-only", "--json"]
    process = subprocess.Popen(
        [*line, "--collection", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _registry(folder: Path) -> dict[str, set[str]]:
    """Return the URLs of the registry by the titles of the pages that cite them."""
    store = open_registry(Layout(folder))
    with store.reading() as rows:
        urls_by_title: dict[str, set[str]] = {}
        for number, title in rows.execute(select(pages.c.id, pages.c.title)).all():
            query = select(refs.c.url_id).where(refs.c.page == number, refs.c.gone_day.is_(None))
            ids = rows.execute(query).scalars()
            urls_by_title[title] = {row.url for row in urls_by_id(rows, ids).values()}
    store.close()
    return urls_by_title


def _titles(writer: WikiWriter) -> set[str]:
    """Return the titles of the wiki's articles."""
    response = writer.ask(action="query", list="allpages", aplimit=500, apfilterredir="nonredirects")
    return {page["title"] for page in response["query"]["allpages"]}


def test_a_watch_that_is_killed_or_ended_loses_nothing(run: Run, writer: WikiWriter, tmp_path: Path) -> None:
    """SIGKILL in the middle of the first sweep: the next finds what is missing. SIGTERM ends it well."""
    for number in range(5):
        writer.write(f"Killed {number:02}", f"https://killed.net/{number}")
    for number, ending in enumerate((signal.SIGKILL, signal.SIGTERM)):
        writer.write(f"Before {number}", f"https://before.net/{number}")  # so that a round has news
        with _watching(tmp_path / "c") as process:
            assert process.stdout is not None
            assert process.stdout.readline()  # its first round is over
            writer.write(f"Meanwhile {number}", f"https://meanwhile.net/{number}")
            process.send_signal(ending)
            assert process.wait(180) == (ExitCode.OK if ending is signal.SIGTERM else -ending)

    code, _, err = run("watch", "--once")

    assert code == ExitCode.OK, err
    urls_by_title = _registry(tmp_path / "c")
    assert urls_by_title.keys() == _titles(writer)
    for number in range(5):
        assert urls_by_title[f"Killed {number:02}"] == {f"https://killed.net/{number}"}
    for number in range(2):
        assert urls_by_title[f"Before {number}"] == {f"https://before.net/{number}"}
        assert urls_by_title[f"Meanwhile {number}"] == {f"https://meanwhile.net/{number}"}


def test_a_sweep_tells_first_what_it_would_do(run: Run, writer: WikiWriter, tmp_path: Path) -> None:
    """--dry-run writes nothing; the sweep then finds as much; another one is not due."""
    writer.write("Swept", "https://swept.net/ https://www.example.com/")
    count = len(_titles(writer))

    code, (summary,), _ = run("sweep", "--dry-run")
    assert (code, summary["pages"]) == (ExitCode.OK, count)
    assert summary["links"]["example"] >= 1
    assert _registry(tmp_path / "c") == {}

    code, (summary,), _ = run("sweep")
    assert (code, summary["pages"]) == (ExitCode.OK, count)
    assert _registry(tmp_path / "c")["Swept"] == {"https://swept.net/"}

    code, (summary,), _ = run("sweep")
    assert (code, summary["pages"]) == (ExitCode.OK, 0)
    code, (summary,), _ = run("sweep", "--now")
    assert (code, summary["pages"]) == (ExitCode.OK, count)


def test_a_category_and_what_is_below_it_can_be_read_at_once(run: Run, writer: WikiWriter, tmp_path: Path) -> None:
    """Without a sweep; --namespace alike, and refused where its pages are not observed."""
    writer.write("Category:Swept below", "[[Category:Swept top]]")
    writer.write("In tree", "https://tree.net/ [[Category:Swept below]]")

    code, (summary,), _ = run("sweep", "--category", "Swept top", "mywiki@home")
    assert (code, summary["trouble"]) == (ExitCode.OK, "")
    urls_by_title = _registry(tmp_path / "c")
    assert urls_by_title["In tree"] == {"https://tree.net/"}
    assert len(urls_by_title) < len(_titles(writer))

    code, (summary,), _ = run("sweep", "--namespace", "4", "mywiki@home")
    assert "namespace 4" in summary["trouble"]
    code, (summary,), _ = run("sweep", "--namespace", "0", "mywiki@home")
    assert _registry(tmp_path / "c").keys() == _titles(writer)


def test_a_wiki_that_is_not_known_is_named(run: Run) -> None:
    """With exit code 2, and what to do."""
    code, _, err = run("watch", "--once", "nowiki@home")

    assert code == ExitCode.INPUT
    assert "weboid wiki add" in err


def test_a_secret_without_an_address_to_listen_on_is_refused(run: Run) -> None:
    """It would be ignored, and the wiki's notifications would find nobody."""
    code, _, message = run("watch", "--webhook-secret-file", "secret")

    assert code == ExitCode.INPUT
    assert "add --webhook HOST:PORT" in message


def test_a_process_knows_which_holders_have_ended() -> None:
    """Of this machine's processes; of others it cannot know."""
    mine = lease_holder_name()
    host, pid, _ = mine.rsplit("-", 2)

    assert has_holder_ended(mine)  # a name that we do not have any more
    assert not has_holder_ended(f"{host}-{os.getppid()}-00000000")
    assert has_holder_ended(f"{host}-{2**31 - 1}-00000000")
    assert not has_holder_ended(f"another-{pid}-00000000")
    assert not has_holder_ended("")
