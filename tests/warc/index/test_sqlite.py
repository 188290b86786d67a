"""The captures index: one contract, held by SQLite and by a real PostgreSQL."""

import random
import string
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config.database_urls import parse_index_url
from core.digests import sha256_digest
from core.errors import CollectionVersionError
from core.page_classes import PageClass
from core.page_manifest import PageInfo, PageScreen, VisitOutcome
from core.url_keys import replay_key
from tests.support.examples import examples
from tests.support.services.postgres import PostgresServer
from warc.dedup.payloads import OriginalRecord, PayloadKey
from warc.index.postgres import PostgresCaptureIndex
from warc.index.protocol import CaptureIndex, CaptureRow, PageIndexRow, QualityRow, columns
from warc.index.sqlite import SqliteCaptureIndex

pytestmark = pytest.mark.proxy

FILES = ("weboid-1.warc.gz", "artifacts-1.warc.gz", "weboid-2.warc.gz")
PAGES = ("one", "two")
DIGESTS = tuple(sha256_digest(text) for text in (b"a", b"b"))
ORDERS = {
    "captures": f"SELECT {columns(CaptureRow)} FROM captures",
    "pages": f"SELECT {columns(PageIndexRow)} FROM pages",
    "payloads": 'SELECT digest, bucket, spelled, filename, "offset", length, url, captured_ms FROM payloads',
    "qualities": f"SELECT {columns(QualityRow)} FROM qualities",
    "files": "SELECT filename, indexed_to, size, sha256, closed_ms FROM files",
}

Index = SqliteCaptureIndex | PostgresCaptureIndex


def contents(index: CaptureIndex) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of the index by table, in an order of their own."""
    ask = index._db.execute
    return {table: sorted(ask(query).fetchall(), key=repr) for table, query in ORDERS.items()}


def row(
    filename: str = FILES[0],
    offset: int = 0,
    *,
    url: str = "http://origin.example/é",
    kind: str = "response",
    digest: str = DIGESTS[0],
    page_id: str | None = "one",
    captured_ms: int = 1_700_000_000_123,
) -> CaptureRow:
    key = replay_key("http://origin.example/" if url.startswith("urn:") else url)
    about = (key, "20231114221320", captured_ms, url, kind, "text/html", 200, digest)
    return CaptureRow(*about, filename, offset, 99, None, None, None, page_id, None)


def page(
    page_id: str = "one",
    *,
    second: int = 0,
    title: str = "T",
    outcome: VisitOutcome = VisitOutcome.COMPLETE,
    page_class: PageClass = PageClass.OK,
) -> PageInfo:
    url = "http://origin.example/page"
    at = f"2023-11-14T22:13:{second:02}.000Z"
    return PageInfo(page_id, url, url, at, outcome, title=title, seconds=1.5, page_class=page_class)


def original(filename: str = FILES[0], offset: int = 0, digest: str = DIGESTS[0]) -> OriginalRecord:
    return OriginalRecord(digest, "http://origin.example/", 1_700_000_000_123, filename, offset, 99)


@pytest.fixture(params=["sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Index]]:
    """Open the same index, again and again."""
    url = request.getfixturevalue("database_url") if request.param == "postgresql" else ""
    with ExitStack() as stack:

        def opened() -> Index:
            index: Index = (
                PostgresCaptureIndex(parse_index_url(url)) if url else SqliteCaptureIndex(tmp_path / "captures.sqlite")
            )
            stack.callback(index.close)
            return index

        yield opened


@pytest.fixture
def index(make: Callable[[], Index]) -> Index:
    """Return an empty index."""
    return make()


def test_a_record_is_there_once_however_often_it_is_added(index: Index) -> None:
    """The first row of a place stays: an answer that was lost may be asked for again."""
    first = row()
    index.add_rows([first])
    index.add_rows([row(url="http://origin.example/other"), row(offset=99)])

    assert contents(index)["captures"] == sorted([first, row(offset=99)], key=repr)


def test_a_batch_is_there_whole_or_not_at_all(index: Index) -> None:
    """An error in the block takes back all of its verbs."""

    def fail() -> None:
        with index.transaction():
            index.add_rows([row()])
            index.add_page(page())
            index.cover(FILES[0], 99)
            index.add_payloads({PayloadKey(DIGESTS[0], "default"): original()})
            index.add_qualities([QualityRow(FILES[0], 0, "one", "images", 0, 1)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not any(contents(index).values())
    with index.transaction():
        index.add_rows([row()])

    assert index.counts()["captures"] == 1


def test_a_page_replaces_what_an_earlier_attempt_left(index: Index) -> None:
    """Its own captures stay, those of before the visit go, and other pages' are left alone."""
    begun = 1_700_000_000_000
    index.add_rows(
        [
            row(offset=0, captured_ms=begun - 1),
            row(offset=1, captured_ms=begun),
            row(offset=2, captured_ms=begun - 1, page_id="two"),
            row(offset=3, captured_ms=begun - 1, page_id=None),
        ]
    )
    index.add_page(page(second=19, title="before"))
    index.add_page(page(second=20, title="after"))
    tables = contents(index)

    assert {each[9] for each in tables["captures"]} == {1, 2, 3}
    assert [each[10] for each in tables["pages"]] == ["after"]
    assert index.outcomes() == {"complete": 1}


def test_an_earlier_visits_manifest_that_is_found_later_changes_nothing(index: Index) -> None:
    """A dead proxy's file is put in order after another proxy has made the page again."""
    index.add_page(page(second=20, title="again"))
    index.add_rows([row(offset=1)])
    index.add_rows([row(FILES[1], captured_ms=1_699_999_999_999)])
    index.add_page(page(second=0, title="before"))
    index.settle([FILES[1]])
    tables = contents(index)

    assert [each[10] for each in tables["pages"]] == ["again"]
    assert [each[8:10] for each in tables["captures"]] == [(FILES[0], 1)]


def test_of_a_skipped_page_only_the_manifest_stays(index: Index) -> None:
    """Nobody is offered it; whichever came first, rows or page, and other pages are left alone."""
    index.add_rows([row(offset=0), row(offset=1, url="urn:pageinfo:http://origin.example/page")])
    index.add_rows([row(offset=2, page_id="two")])
    index.add_page(page(outcome=VisitOutcome.SKIPPED))
    assert {each[9] for each in contents(index)["captures"]} == {1, 2}

    index.add_rows([row(offset=3)])
    index.settle([FILES[0]])
    assert {each[9] for each in contents(index)["captures"]} == {1, 2}
    assert index.outcomes() == {"skipped": 1}


def test_pages_are_counted_by_class(index: Index) -> None:
    """A page has the class of its latest manifest; its evidence is a sentence a line."""
    index.add_page(page("one", page_class=PageClass.CHALLENGE))
    index.add_page(page("two"))
    assert index.classes() == {"challenge": 1, "ok": 1}
    manifest = replace(page("one", second=1), class_score=0.5, class_evidence=("One.", "Two."))
    index.add_page(manifest)

    assert index.classes() == {"ok": 2}
    assert contents(index)["pages"][0][14:17] == ("ok", 0.5, "One.\nTwo.")


def test_the_first_record_of_a_payload_stays(index: Index) -> None:
    """A payload has one original in a bucket, and is found by file and by spelling."""
    key, other = (PayloadKey(DIGESTS[0], bucket) for bucket in ("default", "other"))
    index.add_payloads({key: original(), other: original(FILES[1])})
    index.add_payloads({key: original(FILES[2], 7)})

    assert index.payloads_of(FILES[0]) == {key: original()}
    assert index.payloads_of(FILES[2]) == {}
    assert index.original_spelled(DIGESTS[0], "other") == original(FILES[1])
    assert index.original_spelled(DIGESTS[1], "default") is None


def test_revisits_are_brought_together_with_payloads_that_came_later(index: Index) -> None:
    """By `settle` with what the index has come to know, by `adopt` with what another knows."""
    index.add_rows([row(offset=0, kind="revisit"), row(offset=1, kind="revisit", digest=DIGESTS[1])])
    index.add_payloads({PayloadKey(DIGESTS[0], "default"): original(FILES[2], 7)})
    index.settle([FILES[2]])
    orphans = index.orphans()

    assert list(orphans.values()) == [DIGESTS[1]]
    with index.transaction():
        index.adopt({each: original(FILES[1], 8, DIGESTS[1]) for each in orphans})
    places = sorted(each[11:14] for each in contents(index)["captures"])
    assert places == [(FILES[1], 8, 99), (FILES[2], 7, 99)]


def test_settling_ends_what_interrupted_attempts_left_in_the_files_that_were_added(index: Index) -> None:
    """A capture of before its page's visit goes, in whatever order the files were read."""
    index.add_page(page(second=20))
    index.add_rows([row(captured_ms=1_699_999_999_999), row(offset=1)])
    index.settle([FILES[0]])

    assert [each[9] for each in contents(index)["captures"]] == [1]


def test_a_file_is_covered_closed_and_forgotten(index: Index) -> None:
    """Closing an unknown file does not add it; an empty file is not recorded."""
    index.cover(FILES[0], 100)
    index.cover(FILES[0], 5_000_000_000)
    index.cover(FILES[1], 7)
    for name in (FILES[0], FILES[2]):
        index.close_file(name, size=5, sha256="0" * 64, closed_ms=6)
    index.cover(FILES[1], 0)

    assert contents(index)["files"] == [(FILES[0], 5_000_000_000, 5, "0" * 64, 6)]
    assert [index.indexed_to(name) for name in FILES] == [5_000_000_000, 0, 0]


def test_lost_records_take_with_them_what_refers_to_them(index: Index) -> None:
    """Rows, payloads, the places of revisits, and pages whose manifest is among them."""
    index.add_rows([row(offset=at, url=f"http://origin.example/{at}") for at in (0, 50, 100)])
    index.add_rows([row(FILES[1], 50, url="urn:pageinfo:http://origin.example/")])
    index.add_rows([row(FILES[2], 0, kind="revisit")])
    index.add_payloads({PayloadKey(DIGESTS[0], "default"): original(offset=50)})
    index.settle()
    index.add_page(page(second=0))
    for name in FILES:
        index.cover(name, 200)

    assert index.forget(FILES[0], 50, 100) == 1
    tables = contents(index)
    assert [each[9] for each in tables["captures"] if each[8] == FILES[0]] == [0, 100]
    assert len(index.orphans()) == 1
    assert tables["payloads"] == []
    assert index.outcomes() == {"complete": 1}
    assert index.forget(FILES[1], 0) == 1
    assert index.outcomes() == {}
    assert index.indexed_to(FILES[1]) == 0


def test_a_check_is_there_once_and_goes_with_its_record(index: Index) -> None:
    """Of its file the place tells which it is; its page stays, whatever becomes of the check."""
    first = QualityRow(FILES[1], 50, "one", "images", 1_700_000_000_123, 1)
    index.add_page(page())
    index.add_qualities([first, first._replace(offset=99, level="full")])
    index.add_qualities([first._replace(quality=2), first._replace(filename=FILES[0])])
    assert len(contents(index)["qualities"]) == index.counts()["qualities"] == 3
    assert first in contents(index)["qualities"]

    index.forget(FILES[1], 50, 99)
    assert [each[:2] for each in contents(index)["qualities"]] == [(FILES[1], 99), (FILES[0], 50)]
    assert index.outcomes() == {"complete": 1}


def test_whatever_a_page_says_of_itself_can_be_kept(index: Index) -> None:
    """Long addresses that do not compress, every character, the largest numbers."""
    letters = random.Random(1)
    long = "".join(letters.choices(string.ascii_letters + string.digits, k=100_000))
    names = [f"http://origin.example/{long[:60_000]}{end}" for end in "ab"]
    rows = [row(offset=at, url=url, captured_ms=(1 << 62)) for at, url in enumerate(names)]
    index.add_rows([*rows, row(offset=1 << 61, url="http://origin.example/\U0001f600")])
    index.add_page(page(title=f"nul \0 and {long}\U0001f600"))
    tables = contents(index)

    assert [each for each in tables["captures"] if each[9] < 2] == sorted(rows, key=repr)
    assert tables["pages"][0][10].replace("\0", "\ufffd") == f"nul \ufffd and {long}\U0001f600"


def test_an_empty_index_is_made_once_however_many_come_at_once(make: Callable[[], Index]) -> None:
    """Eight openers meet; all of them then write into the same tables."""
    start, failed = threading.Barrier(8), []

    def come(number: int) -> None:
        start.wait()
        try:
            with closing(make()) as index, index.transaction():
                index.add_rows([row(offset=number)])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=come, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert failed == []
    assert make().counts()["captures"] == 8


def test_an_index_of_another_version_is_refused(make: Callable[[], Index]) -> None:
    """Whoever opens it is told what to run."""
    with closing(make()) as index:
        if isinstance(index, PostgresCaptureIndex):
            index._db.execute("UPDATE version SET number = 99")
        else:
            index._db.execute("PRAGMA user_version = 99")

    with pytest.raises(CollectionVersionError, match="weboid collection rebuild"):
        make()


# ------------------------------------------------------------------------------- the same, always

_rows = st.builds(
    row,
    st.sampled_from(FILES),
    st.integers(0, 3),
    url=st.sampled_from(("http://a.example/", "http://B.example/%C3%A9?q", "urn:pageinfo:http://a.example/")),
    kind=st.sampled_from(("response", "revisit")),
    digest=st.sampled_from(DIGESTS),
    page_id=st.sampled_from((None, *PAGES)),
    captured_ms=st.integers(1_699_999_999_998, 1_700_000_000_002),
)
_pages = st.builds(
    page,
    st.sampled_from(PAGES),
    second=st.integers(18, 21),
    outcome=st.sampled_from((VisitOutcome.COMPLETE, VisitOutcome.SKIPPED)),
    page_class=st.sampled_from(PageClass),
)
_qualities = st.builds(
    QualityRow,
    st.sampled_from(FILES),
    st.integers(0, 3),
    st.sampled_from(PAGES),
    st.sampled_from(("images", "full")),
    st.integers(0, 2),
    st.integers(0, 2),
)
_keys = st.builds(PayloadKey, st.sampled_from(DIGESTS), st.sampled_from(("default", "other")))
_originals = st.builds(original, st.sampled_from(FILES), st.integers(0, 3), st.sampled_from(DIGESTS))
_names = st.sampled_from(FILES)
_verbs = st.one_of(
    st.tuples(st.just("add_rows"), st.lists(_rows, max_size=6)),
    st.tuples(st.just("add_page"), _pages),
    st.tuples(st.just("add_payloads"), st.dictionaries(_keys, _originals, max_size=3)),
    st.tuples(st.just("add_qualities"), st.lists(_qualities, max_size=4)),
    st.tuples(st.just("cover"), _names, st.integers(0, 3)),
    st.tuples(st.just("forget"), _names, st.integers(0, 3), st.integers(0, 4)),
    st.tuples(st.just("settle")),
)


@settings(max_examples=examples(20))
@given(st.lists(_verbs, max_size=12))
def test_both_hold_the_same_after_any_history(postgres: PostgresServer, history: list[tuple[Any, ...]]) -> None:
    """The same verbs lead to the same rows and give the same answers."""
    with (
        TemporaryDirectory() as folder,
        closing(SqliteCaptureIndex(Path(folder) / "captures.sqlite")) as one,
        closing(PostgresCaptureIndex(parse_index_url(_emptied(postgres)))) as two,
    ):
        for verb, *arguments in history:
            answers = [getattr(each, verb)(*arguments) for each in (one, two)]
            assert answers[0] == answers[1]
        assert contents(one) == contents(two)
        assert one.counts() == two.counts()
        assert one.outcomes() == two.outcomes()
        assert one.classes() == two.classes()
        assert sorted(one.orphans().values()) == sorted(two.orphans().values())
        for name in FILES:
            assert one.payloads_of(name) == two.payloads_of(name)
        for digest, bucket in product(DIGESTS, ("default", "other")):
            originals = [each.original_spelled(digest, bucket) for each in (one, two)]
            assert (originals[0] is None) == (originals[1] is None)


_DATABASES: dict[int, str] = {}


def _emptied(postgres: PostgresServer) -> str:
    """Return the URL of an index with empty tables; one database serves all examples."""
    if postgres.port not in _DATABASES:
        _DATABASES[postgres.port] = postgres.database()
    url = _DATABASES[postgres.port]
    with closing(PostgresCaptureIndex(parse_index_url(url))) as index:
        index._db.execute("TRUNCATE captures, pages, payloads, qualities, files")
    return url


def logins_of(index: Index) -> dict[tuple[str, int], str | None]:
    """Return the login of each capture, by its file and offset."""
    return {(each[8], each[9]): each[16] for each in contents(index)["captures"]}


def test_what_a_page_of_a_login_left_is_of_the_login(index: Index) -> None:
    """Its manifest marks what is there, also records that do not say so; of other pages nothing."""
    index.add_rows([row(), row(FILES[1], url="urn:dom:http://origin.example/")])
    index.add_rows([row(FILES[2], page_id="two"), row(FILES[2], 9, page_id=None)])

    index.add_page(replace(page(), login="club"))
    index.add_page(page("two"))

    assert logins_of(index) == {(FILES[0], 0): "club", (FILES[1], 0): "club", (FILES[2], 0): None, (FILES[2], 9): None}


@pytest.mark.parametrize("has_manifest", [True, False])
def test_what_is_added_file_by_file_is_marked_in_the_end(index: Index, *, has_manifest: bool) -> None:
    """In any order of the files; of a visit without a manifest by another record of it."""
    if has_manifest:
        index.add_page(replace(page(), login="club"))
    else:
        index.add_rows([row()._replace(login="club")])
    late = [row(FILES[1], url="urn:dom:http://origin.example/"), row(FILES[1], 9, page_id="two")]
    index.add_rows(late)

    index.settle()

    assert logins_of(index).pop((FILES[1], 0)) == "club"
    assert logins_of(index)[FILES[1], 9] is None


def test_how_a_page_was_seen_is_in_its_row(index: Index) -> None:
    """Device and first language, as far as the manifest says them."""
    phone = PageScreen(412, 915, 2.0, mobile=True, language="de-DE,de;q=0.9")
    index.add_page(replace(page(), screen=phone))
    index.add_page(replace(page("two"), screen=PageScreen(1280, 800)))
    index.add_page(page("three"))

    screens = {each[0]: each[17:] for each in contents(index)["pages"]}
    assert screens == {"one": ("phone", "de-DE", ""), "two": ("desktop", "", ""), "three": ("", "", "")}
