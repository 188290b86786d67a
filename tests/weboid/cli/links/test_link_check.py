"""`weboid links check` and `weboid links passes`."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import update

from core.clock import SystemClock
from core.errors import WeboidError
from core.layout import Layout
from links.check_history import day_of
from links.checker.due_urls import ALL_HOSTS, take_check_lease
from links.registry.database import RegistryStore
from links.registry.schema import urls
from links.url_parts import url_parts_of
from tests.support.check_rows import watch
from tests.support.server_farm import ServerFarm, gone, running_server_farm
from tests.support.services.registries import open_registry
from weboid.cli.main import weboid
from weboid.cli.support.commands import ExitCode, exit_code_for

NAMES = [f"h{number}.example" for number in range(12)]


def today() -> int:
    """Return today's number as the command counts days."""
    return day_of(SystemClock().now())


@pytest.fixture(scope="module")
def farm() -> Iterator[ServerFarm]:
    """Run a server farm in a thread of its own."""
    started: list[ServerFarm] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with running_server_farm() as running:
            started.append(running)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(240)
    yield started[0]
    loop.call_soon_threadsafe(over.set)
    thread.join(240)
    loop.close()


@pytest.fixture(autouse=True)
def _fine_again(farm: ServerFarm) -> None:
    farm.hosts.clear()
    farm.requests.clear()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RegistryStore]:
    """Yield the registry of the collection that commands work on."""
    with closing(open_registry(Layout(tmp_path / "collection"))) as opened:
        yield opened


@pytest.fixture
def profile(farm: ServerFarm, tmp_path: Path) -> Path:
    """Write a profile in which the names resolve to the farm and return its path."""
    lines = ["[links]", "host_gap_s = 0.01", "closer = false", 'contact = "https://example.org/"']
    lines += ["[egress]", 'allow = ["127.0.0.0/8"]', "[egress.resolve]"]
    lines += [f'"{name}" = "127.0.0.1:{farm.port}"' for name in NAMES]
    path = tmp_path / "profile.toml"
    path.write_text("\n".join(lines))
    return path


def _arguments(tmp_path: Path, profile: Path, *words: str) -> list[str]:
    where = ["--collection", str(tmp_path / "collection"), "--profile", str(profile)]
    return ["links", *words, *where]


def _run(tmp_path: Path, profile: Path, *words: str) -> Result:
    return CliRunner().invoke(weboid, _arguments(tmp_path, profile, *words))


def _refused(tmp_path: Path, profile: Path, *words: str) -> tuple[ExitCode, str]:
    """Run a command that fails; return its exit code and message."""
    done = _run(tmp_path, profile, *words)
    if isinstance(done.exception, WeboidError):
        return exit_code_for(done.exception), str(done.exception)
    return ExitCode(done.exit_code), done.output


def _json_lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_what_is_due_is_looked_at(store: RegistryStore, farm: ServerFarm, tmp_path: Path, profile: Path) -> None:
    """State changes are printed with a summary; a second run finds nothing due."""
    farm.hosts["h1.example"] = gone
    watch(store, [f"http://{name}/x" for name in NAMES], day=today())

    done = _run(tmp_path, profile, "check")
    again = _run(tmp_path, profile, "check")

    assert done.exit_code == ExitCode.OK, done.output
    assert "unknown -> dying  http://h1.example/x" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert "12 URLs checked: 11 alive, 1 dying." in done.stderr
    assert "Nothing is due." in again.stderr


def test_machines_get_a_line_for_each_url(
    store: RegistryStore, farm: ServerFarm, tmp_path: Path, profile: Path
) -> None:
    """With what was found, and when it is looked at again."""
    farm.hosts["h1.example"] = gone
    watch(store, ["http://h1.example/x", "http://h2.example/y"], day=today())

    done = _run(tmp_path, profile, "check", "--json")

    checks_by_url = {each["url"]: each for each in _json_lines(done)}
    lost = checks_by_url["http://h1.example/x"]
    assert (lost["state"], lost["verdict"], lost["http"]) == ("dying", "gone", 404)
    assert checks_by_url["http://h2.example/y"]["state"] == "alive"
    assert all(each["due"] > f"{SystemClock().now():%Y-%m-%d}" for each in checks_by_url.values())


def test_named_urls_are_looked_at_at_once(
    store: RegistryStore, farm: ServerFarm, tmp_path: Path, profile: Path
) -> None:
    """URLs given as arguments are checked whether they are due or not, in any spelling."""
    watch(store, ["http://h1.example/x", "http://h2.example/y"], day=today() + 5)

    done = _run(tmp_path, profile, "check", "HTTP://H1.example/x#top", "--json")

    assert done.exit_code == ExitCode.OK, done.output
    assert [each["url"] for each in _json_lines(done)] == ["http://h1.example/x"]
    assert {each.host for each in farm.requests} == {"h1.example"}


def test_a_url_that_is_not_watched_is_refused(store: RegistryStore, tmp_path: Path, profile: Path) -> None:
    """Nobody can have us ask for anything: only what a page has."""
    code, message = _refused(tmp_path, profile, "check", "http://h1.example/other")

    assert code is ExitCode.INPUT
    assert "does not watch" in message


def test_named_urls_are_left_to_the_checker_at_work(
    store: RegistryStore, farm: ServerFarm, tmp_path: Path, profile: Path
) -> None:
    """Two would ask their hosts faster than allowed; it looks at them before all else."""
    ids = watch(store, ["http://h1.example/x"], day=today() + 5)
    with store.writing() as rows:
        take_check_lease(rows, ALL_HOSTS, "another", now=int(SystemClock().now().timestamp()), length_s=3600)

    done = _run(tmp_path, profile, "check", "http://h1.example/x")

    assert done.exit_code == ExitCode.OK
    assert "(another)" in done.stderr
    assert farm.requests == []
    with store.reading() as rows:
        row = rows.execute(urls.select().where(urls.c.id == ids["http://h1.example/x"])).one()
    assert row.due_day == 0


def test_a_dry_run_says_what_is_due(store: RegistryStore, farm: ServerFarm, tmp_path: Path, profile: Path) -> None:
    """By host, and asks nobody."""
    watch(store, [f"http://h1.example/{n}" for n in range(3)] + ["http://h2.example/"], day=today())

    plain = _run(tmp_path, profile, "check", "--dry-run")
    facts = json.loads(_run(tmp_path, profile, "check", "--dry-run", "--json").stdout)

    assert plain.stdout.splitlines()[0] == "4 URLs are due."
    assert facts["hosts"] == [{"host": "h1.example", "due": 3}, {"host": "h2.example", "due": 1}]
    assert farm.requests == []


def test_a_limit_is_kept(store: RegistryStore, farm: ServerFarm, tmp_path: Path, profile: Path) -> None:
    """The rest stays due."""
    watch(store, [f"http://{name}/x" for name in NAMES], day=today())

    assert _run(tmp_path, profile, "check", "--limit", "5").exit_code == ExitCode.OK
    assert "7 URLs checked" in _run(tmp_path, profile, "check").stderr


@pytest.mark.parametrize(
    "words",
    [("--part", "3/2"), ("http://h1.example/", "--watch"), ("http://h1.example/", "--part", "1/2")],
    ids=["no-part", "named-watch", "named-part"],
)
def test_what_does_not_go_together_is_refused(
    store: RegistryStore, tmp_path: Path, profile: Path, words: tuple[str, ...]
) -> None:
    """Before anything is asked."""
    assert _refused(tmp_path, profile, "check", *words)[0] is ExitCode.INPUT


def test_without_a_registry_it_says_how_to_make_one(tmp_path: Path, profile: Path) -> None:
    """And makes none by itself."""
    code, message = _refused(tmp_path, profile, "check")

    assert code is ExitCode.UNAVAILABLE
    assert "weboid links import" in message
    assert not (tmp_path / "collection").exists()


def test_passes_are_shown(store: RegistryStore, farm: ServerFarm, tmp_path: Path, profile: Path) -> None:
    """With how much was due, and how much was done."""
    watch(store, [f"http://{name}/x" for name in NAMES], day=today())
    empty = _run(tmp_path, profile, "passes")
    _run(tmp_path, profile, "check")

    plain = _run(tmp_path, profile, "passes")
    facts = json.loads(_run(tmp_path, profile, "passes", "--json").stdout)

    assert "There was no pass yet" in empty.stdout
    assert plain.stdout.splitlines()[0].split() == ["began", "part", "due", "done", "a", "second", "took"]
    assert [(each["due"], each["done"]) for each in facts["passes"]] == [(12, 12)]
    assert facts["passes"][0]["ended"] is not None
    assert [each["links"] for each in facts["states"]] == [{"alive": 12}]
    assert f"Links by state, {facts['states'][0]['day']}" in plain.stdout
    assert "alive 12 → 12" in plain.stdout


def test_urls_that_wait_too_long_are_told(
    store: RegistryStore, farm: ServerFarm, tmp_path: Path, profile: Path
) -> None:
    """A pass that takes longer than its four weeks is a warning, with what would help (W38)."""
    ids = watch(store, [f"http://{name}/x" for name in NAMES], day=today())
    with store.writing() as rows:
        late = ids["http://h3.example/x"]
        rows.execute(update(urls).values(due_day=today() - 40))
        rows.execute(update(urls).where(urls.c.id == late).values(due_day=today() - 30))

    done = _run(tmp_path, profile, "check", "--limit", "11")

    assert "due for 30 days" in done.stderr
    assert "--part" in done.stderr


@pytest.mark.slow
def test_sigint_ends_a_watching_check_gracefully(
    store: RegistryStore, farm: ServerFarm, tmp_path: Path, profile: Path
) -> None:
    """Checks in progress are recorded, and their hosts are free for the next run at once."""
    begun = threading.Event()
    farm.on_request = begun.set
    watch(store, [f"http://{name}/x" for name in NAMES], day=today())
    command = [sys.executable, "-c", "from weboid.cli.main import main; main()"]
    command += _arguments(tmp_path, profile, "check", "--watch")
    root = str(Path(__file__).parents[4])
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root}) as process:
        if begun.wait(240):
            process.send_signal(signal.SIGINT)
        else:
            process.kill()
        _, errors = process.communicate(timeout=240)

    assert process.returncode == ExitCode.OK, errors
    assert "Stopping" in errors
    with store.reading() as rows:
        looked = {row.id for row in rows.execute(urls.select()) if row.checked_day is not None}
        by_key = {row.key: row.id for row in rows.execute(urls.select())}
    assert {by_key[url_parts_of(f"http://{each.host}/x").key] for each in farm.requests} == looked
    assert _run(tmp_path, profile, "check").exit_code == ExitCode.OK


@pytest.mark.slow
def test_a_registry_in_a_database_needs_no_collection(database_url: str, tmp_path: Path) -> None:
    """A checker of a cluster has the database alone: no folder, no frontier, no dedup index."""
    nowhere = tmp_path / "nowhere"
    stores = ("--database", database_url, "--collection", str(nowhere))
    for words in (
        "check --dry-run",
        "check --limit 1",
        "passes",
        "confirm --no-visit",
        "confirm --dry-run",
        "ls --limit 1",
    ):
        ran = CliRunner().invoke(weboid, ["links", *words.split(), *stores])
        assert ran.exit_code == 0, (words, ran.output)
    assert not nowhere.exists()


@pytest.mark.parametrize(
    ("limits", "code", "notice"),
    [
        ((120, 65_536), ExitCode.OK, ""),
        ((400, 400), ExitCode.OK, "so 100 links are checked at the same time, not 500"),
        ((80, 80), ExitCode.INPUT, "too few for any check: raise it to 1,600"),
    ],
    ids=["raised", "fewer", "refused"],
)
def test_the_limit_of_open_files_fits_the_connections(
    store: RegistryStore,
    tmp_path: Path,
    profile: Path,
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    code: ExitCode,
    notice: str,
) -> None:
    """The soft limit is raised; where the hard one forbids it, that is reported (W41)."""
    watch(store, [], day=today())
    set_limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, both: set_limits.append(both))

    ended, output = _refused(tmp_path, profile, "check")

    assert ended == code, output
    assert notice in output if notice else "files" not in output
    assert set_limits == [(1_600 if not notice else limits[1], limits[1])]
