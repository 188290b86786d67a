"""The store of decisions: SQLite and a real PostgreSQL keep one contract."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from core.config.database_urls import parse_index_url
from core.errors import TransientError
from core.layout import Layout
from playback.access import takedowns as book
from playback.access.decision_store import (
    DecisionStore,
    PostgresDecisionStore,
    SqliteDecisionStore,
    WatchedValue,
    open_decisions,
)
from playback.access.takedowns import Takedown, TakedownEffect, TakedownKind, TakedownSubject
from tests.support.playback_fixtures import ROOT

pytestmark = pytest.mark.playback

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
URL = "https://a.example/page"
Open = Callable[[], DecisionStore]


def takedown(what: str = URL, kind: TakedownKind = TakedownKind.URL, **changes: object) -> Takedown:
    """Return a take-down that is not stored yet."""
    values = {
        "number": 0,
        "kind": kind,
        "what": what,
        "timestamp": "",
        "effect": TakedownEffect.BLOCK,
        "reason": "Somebody asked.",
        "ticket": "T-1",
        "actor": "anna",
        "decided_at": NOW,
        "expires_at": None,
    }
    return Takedown(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open the same store again and again."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    with ExitStack() as stack:

        def open_one() -> DecisionStore:
            store: DecisionStore
            if url:
                ticks = iter(range(1_000_000))
                store = PostgresDecisionStore(parse_index_url(url), monotonic=lambda: float(next(ticks)))
            else:
                store = SqliteDecisionStore(tmp_path / "db" / "decisions.sqlite")
            stack.callback(store.close)
            return store

        yield open_one


def test_a_store_that_is_not_there_yet_decides_nothing(opened: Open) -> None:
    """Playback may be started first; the first decision counts in it."""
    reader, writer = opened(), opened()
    live = book.LiveTakedowns(reader)
    assert (reader.version(), len(live.now()), book.list_takedowns(reader)) == (0, 0, [])
    book.add_takedowns(writer, [takedown()])

    assert live.now().on(TakedownSubject(URL), NOW) == takedown(number=1)


def test_a_change_counts_at_the_next_question(opened: Open) -> None:
    """In every process that has the store open, whatever was changed by whom."""
    one, two, reader = opened(), opened(), opened()
    live = book.LiveTakedowns(reader)
    book.add_takedowns(one, [takedown()])
    assert live.now().on(TakedownSubject(URL), NOW) is not None
    book.add_takedowns(two, [takedown("https://b.example/")])
    assert live.now().on(TakedownSubject("https://b.example/"), NOW) is not None
    book.lift_takedowns(one, [1], actor="bert", reason="a mistake", now=NOW)
    assert live.now().on(TakedownSubject(URL), NOW) is None
    assert len(live.now()) == 1


def test_what_was_lifted_stays_in_the_books(opened: Open) -> None:
    """The record keeps who lifted it, when and why; lifting it again changes nothing."""
    store = opened()
    first = takedown(effect=TakedownEffect.HIDE, expires_at=NOW + timedelta(days=1))
    book.add_takedowns(store, [first, takedown("https://b.example/")])
    book.lift_takedowns(store, [1], actor="bert", reason="a mistake", now=NOW + timedelta(hours=1))
    book.lift_takedowns(store, [1], actor="carl", reason="again", now=NOW + timedelta(hours=2))

    lifted, held = book.list_takedowns(opened())
    assert lifted == replace(
        first, number=1, lifted_at=NOW + timedelta(hours=1), lifted_by="bert", lifted_reason="a mistake"
    )
    assert (held.number, held.lifted_at) == (2, None)
    assert not lifted.holds(NOW)
    assert held.holds(NOW)


def test_all_changes_are_kept_or_none(opened: Open) -> None:
    """One that cannot be made takes the others with it, and the version stays."""
    store = opened()
    book.add_takedowns(store, [takedown()])
    before = store.version()
    wrong = ("INSERT INTO no_such_table (x) VALUES (:x)", {"x": 1})
    good = ("UPDATE takedowns SET reason = :reason", {"reason": "changed"})
    with pytest.raises(TransientError, match="not stored"):
        store.change([good, wrong])

    assert store.version() == before
    assert book.list_takedowns(store)[0].reason == "Somebody asked."


def test_many_writers_at_once_lose_nothing(opened: Open) -> None:
    """Each take-down has a number of its own, and a reader that follows has them all."""
    stores = [opened() for _ in range(4)]
    live = book.LiveTakedowns(opened())
    book.add_takedowns(stores[0], [takedown()])
    assert len(live.now()) == 1

    def write(store: DecisionStore, name: int) -> None:
        for count in range(10):
            book.add_takedowns(store, [takedown(f"https://{name}.example/{count}")])

    threads = [threading.Thread(target=write, args=each) for each in zip(stores, range(4), strict=True)]
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):
        live.now()
    for each in threads:
        each.join()

    assert [each.number for each in book.list_takedowns(stores[1])] == list(range(1, 42))
    assert len(live.now()) == 41


def test_what_is_watched_is_made_again_after_a_change(opened: Open) -> None:
    """And only then."""
    made = []
    store = opened()

    def load(source: DecisionStore) -> int:
        made.append(1)
        return len(book.list_takedowns(source))

    watched = WatchedValue(opened(), load)
    assert (watched.now(), watched.now()) == (0, 0)
    book.add_takedowns(store, [takedown()])
    assert (watched.now(), watched.now(), len(made)) == (1, 1, 2)


def test_of_a_change_only_what_is_new_is_read(opened: Open) -> None:
    """However many take-downs there are."""
    writer, reader = opened(), opened()
    book.add_takedowns(writer, [takedown(f"https://a.example/{n}") for n in range(500)])
    live = book.LiveTakedowns(reader)
    assert len(live.now()) == 500
    read: list[int] = []
    rows = reader.rows

    def counting(query: str, values: dict[str, object]) -> list[object]:
        fetched_rows = rows(query, values)
        read.append(len(fetched_rows))
        return fetched_rows

    reader.rows = counting  # type: ignore[assignment, method-assign]
    book.add_takedowns(writer, [takedown("https://b.example/")])
    assert len(live.now()) == 501
    assert sum(read) <= 3


def test_a_store_that_went_away_shows_nothing(tmp_path: Path) -> None:
    """Nothing of ours removes it, so its absence is no decision."""
    layout = Layout(tmp_path)
    store = open_decisions(layout)
    live = book.LiveTakedowns(store)
    book.add_takedowns(store, [takedown()])
    live.now()
    layout.decisions_db.rename(tmp_path / "away")
    with pytest.raises(TransientError, match="missing"):
        live.now()
    (tmp_path / "away").rename(layout.decisions_db)
    assert len(live.now()) == 1
    store.close()


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 and then nothing", b"x" * 9000])
def test_a_file_that_is_no_store_is_an_error(content: bytes, tmp_path: Path) -> None:
    """It is never taken for an empty one."""
    path = tmp_path / "decisions.sqlite"
    path.write_bytes(content)
    with pytest.raises(TransientError, match="cannot be read"):
        SqliteDecisionStore(path).version()


_AS_NOBODY = """
import os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from playback.access.decision_store import SqliteDecisionStore
from playback.access.takedowns import LiveTakedowns
store = SqliteDecisionStore(Path({path!r}))
live = LiveTakedowns(store)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for line in sys.stdin:
    print(len(live.now()), flush=True)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that every user may enter; pytest's own are only for their owner."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_readers_need_no_right_to_write(open_folder: Path) -> None:
    """From a folder that they cannot write to, they see every change, too."""
    folder = open_folder / "db"
    path = folder / "decisions.sqlite"
    writer = SqliteDecisionStore(path)
    code = _AS_NOBODY.format(root=str(ROOT), path=str(path))
    book.add_takedowns(writer, [takedown()])
    writer.close()
    folder.chmod(0o555)
    path.chmod(0o444)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        questions, answers = reader.stdin, reader.stdout
        assert questions is not None
        assert answers is not None

        def seen() -> str:
            print("?", file=questions, flush=True)
            return answers.readline().strip()

        assert seen() == "1"
        folder.chmod(0o755)
        path.chmod(0o644)
        book.add_takedowns(writer, [takedown("https://b.example/")])
        folder.chmod(0o555)
        assert seen() == "2"  # while the writer has it open
        folder.chmod(0o755)
        book.add_takedowns(writer, [takedown("https://c.example/")])
        writer.close()
        folder.chmod(0o555)
        assert seen() == "3"  # and at rest
        questions.close()
    folder.chmod(0o755)


def test_a_server_that_is_away_is_an_error() -> None:
    """So playback says that it cannot answer, and shows nothing."""
    store = PostgresDecisionStore(parse_index_url("postgresql://nobody@127.0.0.1:1/none"))
    with pytest.raises(TransientError, match="cannot be read"):
        store.version()
    with pytest.raises(TransientError, match="not stored"):
        book.add_takedowns(store, [takedown()])
    store.close()


def test_the_version_of_a_server_is_kept_for_a_tenth_of_a_second(database_url: str) -> None:
    """A page's parts are asked for at once; each asks, one is told by the server."""
    clock = [0.0]
    store = PostgresDecisionStore(parse_index_url(database_url), monotonic=lambda: clock[0])
    other = PostgresDecisionStore(parse_index_url(database_url))
    assert store.version() == 0
    book.add_takedowns(other, [takedown()])
    clock[0] = 0.09
    assert store.version() == 0
    clock[0] = 0.1
    assert store.version() > 0
    store.close()
    other.close()
