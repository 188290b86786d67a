"""Captures in OutbackCDX: sent, found, adopted by their pages, and never guessed at."""

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from core.captures import ArtifactKind, Capture, RecordLocation, RecordType, artifact_uri
from core.errors import ConfigError, TransientError
from core.page_classes import PageClass
from core.timestamps import timestamp14, timestamp14_at, unix_milliseconds
from core.url_keys import replay_key
from playback.replay.capture_lookup import CaptureLookup
from tests.support.examples import examples
from tests.support.playback_fixtures import NOW, CollectionBuilder, fetch, png, running_replay, serving
from tests.support.services.outback import NAMES, OutbackServer, running_outback
from warc.index.database import SqliteDatabase
from warc.index.outback import CAPTURES_INDEX, OutbackCdx, cdx_line, parse_cdx, parse_outback_url
from weboid.cli.main import weboid

pytestmark = pytest.mark.playback

SECOND = NOW.replace(microsecond=0)
AT = timestamp14(NOW)


@pytest.fixture
def outback() -> Iterator[tuple[OutbackServer, str]]:
    """Yield a server of the test's own, and its URL."""
    with running_outback() as it:
        yield it


def row_of(capture: Capture) -> dict[str, Any]:
    """Return the capture as a row of `captures`."""
    original = capture.original
    return {
        "url": capture.url,
        "urlkey": capture.urlkey,
        "captured_ms": unix_milliseconds(capture.captured_at),
        "record_type": capture.record_type,
        "mime": capture.mime,
        "status": capture.status,
        "digest": capture.digest,
        "filename": capture.location.filename,
        "offset": capture.location.offset,
        "length": capture.location.length,
        "orig_filename": original and original.filename,
        "orig_offset": original and original.offset,
        "orig_length": original and original.length,
        "page_id": None,
        "truncated": None,
        "login": None,
    }


_digests = st.binary(min_size=32, max_size=32).map(lambda value: f"sha256:{value.hex()}")
_places = st.builds(RecordLocation, st.just("weboid-1.warc.gz"), st.integers(0, 2**40), st.integers(1, 2**40))


@given(
    st.sampled_from(["https://a.example/x?y=%20", "http://b.example:81/", "urn:dom:https://a.example/"]),
    st.sampled_from(["text/html", "", "image/png"]),
    st.sampled_from([200, 404, None]),
    _digests,
    _places,
    st.none() | _places,
    st.integers(0, 4_000_000_000),
)
def test_a_capture_comes_back_as_it_was_sent(
    url: str,
    mime: str,
    status: int | None,
    digest: str,
    location: RecordLocation,
    original: RecordLocation | None,
    second: int,
) -> None:
    """To the second, and without its page: what the protocol has no field for."""
    kind = RecordType.RESOURCE if url.startswith("urn:") else RecordType.RESPONSE
    made = Capture(
        url, replay_key(url), NOW, RecordType.REVISIT if original else kind, mime, status, digest,
        location, original,
    )  # fmt: skip
    row = row_of(made) | {"captured_ms": second * 1000}
    server = OutbackServer()
    assert server.post("x", cdx_line(row))[0] == 200
    _, body = server.query("x", {"url": [url], "fl": [",".join(NAMES)]})
    assert parse_cdx(body) == row


@given(st.text(max_size=80))
def test_whatever_a_server_says_is_a_row_or_nothing(line: str) -> None:
    """A line with other fields, words for numbers, or a digest that is none."""
    assert parse_cdx(line) is None
    fields = ["k", line, "https://a.example/", "-", "-", "-", "-", "-", "1", "2", "f"]
    row = parse_cdx(" ".join(fields))
    assert row is None or row["url"] == "https://a.example/"


@pytest.mark.parametrize(
    "url",
    ["http://a/b", "cdx+http://a", "cdx+http://a/", "cdx+ftp://a/b", "cdx+http://u:p@a/b",
     "cdx+http://a:99999/b", "cdx+http://a/b?c", "cdx+http:///b"],
)  # fmt: skip
def test_what_names_no_collection_is_refused(url: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigError, match="captures index"):
        parse_outback_url(url)


# ------------------------------------------------------------------------------- look-ups


@contextlib.contextmanager
def index_of(collection: CollectionBuilder, url: str) -> Iterator[CaptureLookup]:
    """Open the collection's index, with the server as a further source."""
    with (
        closing(SqliteDatabase(collection.layout.captures_db)) as database,
        closing(OutbackCdx(parse_outback_url(url), timeout_s=1)) as source,
    ):
        yield CaptureLookup(database, beyond=source.near)


def moved(collection: CollectionBuilder, url: str) -> None:
    """Send every capture to the server, and take it out of the index."""
    assert push(collection, url).return_value == 0
    collection._database.execute("DELETE FROM captures")


def push(collection: CollectionBuilder, url: str, *options: str) -> Result:
    """Run `weboid collection push`."""
    collection.layout.marker.write_text("version = 1\n")
    where = ["--collection", str(collection.layout.root)]
    command = ["collection", "push", url, *where, *options]
    return CliRunner().invoke(weboid, command, standalone_mode=False)


def test_the_very_url_comes_first_and_then_the_nearest(
    collection: CollectionBuilder, outback: tuple[OutbackServer, str]
) -> None:
    """As from SQL; what both have is found once, and equals by another key are not found."""
    server, url = outback
    page = "https://a.example/page"
    far = [
        collection.response(page, b"a", at=SECOND + timedelta(seconds=50)),
        collection.response(page, b"b", at=SECOND - timedelta(seconds=20)),
        collection.response("http://a.example/page", b"c", at=SECOND + timedelta(seconds=1)),
    ]
    moved(collection, url)
    near = collection.response(page, b"d", at=SECOND - timedelta(seconds=30))
    collection.index(far[1])  # here and there
    server.collections["weboid"] |= {
        (replay_key(page), 1, "x", 1): {
            **next(iter(server.collections["weboid"].values())),
            "original": "https://other.example/",
            "urlkey": replay_key(page),
        }
    }
    with index_of(collection, url) as index:
        captures = list(index.captures(page, SECOND))
        close = list(index.captures(page, SECOND, window=timedelta(seconds=25)))

    assert captures == [far[1], near, far[0], far[2]]
    assert close == [far[1], far[2]]


def test_an_artifact_is_found_by_its_url_near_its_pages_moment(
    collection: CollectionBuilder, outback: tuple[OutbackServer, str]
) -> None:
    """Not that of another capture of the page, and with its page's take-downs."""
    _, url = outback
    page = "https://a.example/page"
    page_id = collection.page(page, "<p>one", at=SECOND)
    other = collection.page(page, "<p>two", at=SECOND + timedelta(days=1))
    moved(collection, url)
    with index_of(collection, url) as index:
        one, two = index.page(page, SECOND), index.page(page, SECOND + timedelta(days=1))
        assert one is not None
        assert two is not None
        doms = [index.artifact(each, ArtifactKind.DOM) for each in (one, two)]
        text = index.artifact(one, ArtifactKind.TEXT)
        (direct, *_) = index.captures(artifact_uri(ArtifactKind.DOM, page), SECOND)

    assert [dom and dom.page_id for dom in doms] == [page_id, other]
    assert [dom and dom.captured_at for dom in doms] == [SECOND, SECOND + timedelta(days=1)]
    assert text is None
    assert direct.page_id == page_id


def test_a_challenge_stays_no_copy(collection: CollectionBuilder, outback: tuple[OutbackServer, str]) -> None:
    """A capture is adopted by the page that has its URL and moment."""
    _, url = outback
    page = "https://a.example/wall"
    page_id = collection.page(page, at=SECOND, page_class=PageClass.CHALLENGE)
    collection.response(page, b"<p>prove it", at=SECOND + timedelta(seconds=2), page_id=page_id)
    moved(collection, url)
    with index_of(collection, url) as index:
        assert index.page(page, SECOND) is None
        assert list(index.documents(page, SECOND)) == []
        assert [each.page_id for each in index.captures(page, SECOND)] == [page_id]


_far = st.lists(
    st.tuples(
        st.sampled_from(["https://a.example/Page", "http://a.example/page", "https://a.example/page"]),
        st.integers(-60, 60),
        st.booleans(),
    ),
    max_size=16,  # of more on one side of the moment, SQL gives the nearest 16, OutbackCDX all
    unique_by=lambda each: each[1],
)


@settings(max_examples=examples(8))
@given(_far, st.sampled_from(["https://a.example/page", "http://a.example/page"]), st.integers(-70, 70))
def test_it_makes_no_difference_where_a_capture_lies(
    tmp_path_factory: pytest.TempPathFactory, placements: list[tuple[str, int, bool]], url: str, second: int
) -> None:
    """In SQL, in OutbackCDX, or in both: the same captures in the same order."""
    folder, at = (tmp_path_factory.mktemp("far"), SECOND + timedelta(seconds=second, milliseconds=400))
    captures = [
        Capture(
            each, replay_key(each), SECOND + timedelta(seconds=when), RecordType.RESPONSE,
            "text/html", 200, f"sha256:{number:064x}", RecordLocation("weboid-1.warc.gz", number, 9),
        )
        for number, (each, when, _) in enumerate(placements)
    ]  # fmt: skip
    server, answers = OutbackServer(), []
    for name, here in (("all", [True] * len(placements)), ("some", [each[2] for each in placements])):
        with closing(CollectionBuilder(folder / name)) as builder:
            for capture, is_here in zip(captures, here, strict=True):
                if is_here:
                    builder.index(capture)
                else:
                    server.post("weboid", cdx_line(row_of(capture)))
            server.collections.setdefault("weboid", {})

            def near(target: str, at_ms: int, limit: int) -> list[dict[str, Any]]:
                wanted = {"url": target, "sort": "closest", "closest": timestamp14_at(at_ms)}
                query = {name: [value] for name, value in wanted.items()}
                _, body = server.query("weboid", {**query, "limit": [str(limit)], "fl": [",".join(NAMES)]})
                return [row for line in body.splitlines() if (row := parse_cdx(line)) is not None]

            with closing(SqliteDatabase(builder.layout.captures_db)) as database:
                index = CaptureLookup(database, beyond=near)
                answers.append(
                    [list(index.captures(url, at)),
                     list(index.captures(url, at, window=timedelta(seconds=25)))]
                )  # fmt: skip
    assert answers[0] == answers[1]


@pytest.mark.parametrize("fault", ["gone", "hangs", "error", "no collection", "too much"])
def test_a_server_that_does_not_answer_is_an_error(
    collection: CollectionBuilder, outback: tuple[OutbackServer, str], fault: str
) -> None:
    """Never "not captured"; it goes on when the server is back."""
    server, url = outback
    collection.response("https://a.example/", b"a", at=SECOND)
    moved(collection, url)
    rows = server.collections["weboid"]
    with index_of(collection, url) as index:
        assert len(list(index.captures("https://a.example/", SECOND))) == 1
        if fault == "gone":
            server.status, server.raw = 503, "gone"
        elif fault == "hangs":
            server.hang.clear()
        elif fault == "error":
            server.status = 500
        elif fault == "no collection":
            server.collections.clear()
        else:
            server.raw = "x" * 9_000_000
        with pytest.raises(TransientError, match="captures index"):
            list(index.captures("https://a.example/", SECOND))
        server.status, server.raw = 200, None
        server.hang.set()
        server.collections["weboid"] = rows
        assert len(list(index.captures("https://a.example/", SECOND))) == 1


# ------------------------------------------------------------------------------- the command


def test_what_was_sent_is_not_sent_again(collection: CollectionBuilder, outback: tuple[OutbackServer, str]) -> None:
    """In batches, from where the last one ended; all of it on demand, and then it is there once."""
    server, url = outback
    for number in range(5):
        collection.response(f"https://a.example/{number}", b"%d" % number)
    first = push(collection, url, "--batch", "2", "--json")
    second = push(collection, url, "--json")
    collection.response("https://a.example/new", b"new")
    planned = push(collection, url, "--dry-run", "--json")
    third = push(collection, url, "--json")
    again = push(collection, url, "--all", "--json")

    counts = [json.loads(each.output)["captures"] for each in (first, second, planned, third, again)]
    assert counts == [5, 0, 1, 1, 6]
    assert len(server.collections["weboid"]) == 6


def test_a_push_that_breaks_off_goes_on_where_it_was(
    collection: CollectionBuilder, outback: tuple[OutbackServer, str]
) -> None:
    """The error is told; nothing that was taken is sent again, nothing else is left out."""
    server, url = outback
    for number in range(4):
        collection.response(f"https://a.example/{number}", b"%d" % number)
    post = server.post

    def failing(name: str, body: str) -> tuple[int, str]:
        if "/2 " in body:
            return 500, "no more room"
        return post(name, body)

    server.post = failing  # type: ignore[method-assign]
    broken = push(collection, url, "--batch", "2")
    server.post = post  # type: ignore[method-assign]
    rest = push(collection, url, "--json")

    assert isinstance(broken.exception, TransientError)
    assert json.loads(rest.output)["captures"] == 2
    assert len(server.collections["weboid"]) == 4


# ------------------------------------------------------------------------------- readers


def test_readers_are_served_from_it_and_told_when_it_is_away(
    collection: CollectionBuilder, outback: tuple[OutbackServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page with its picture, a revisit; 503 while it is away, and again when it is back."""
    server, url = outback
    page, picture = "https://a.example/page", "https://a.example/i.png"
    collection.page(page, "<p>the copy")
    first = collection.response(picture, png(), mime="image/png")
    collection.revisit("https://a.example/again.png", first)
    moved(collection, url)
    monkeypatch.setitem(os.environ, CAPTURES_INDEX, url)
    targets = (
        f"/c/{AT}/{page}", f"/c/{AT}im_/{picture}", f"/c/{AT}im_/https://a.example/again.png",
    )  # fmt: skip
    with running_replay(collection.layout.root) as replay:
        assert [replay.get(each).status for each in targets] == [200, 200, 200]
        assert "the copy" in replay.get(targets[0]).text
        server.status = 500
        assert [replay.get(each).status for each in targets] == [503, 503, 503]
        server.status = 200
        assert [replay.get(each).status for each in targets] == [200, 200, 200]


def test_what_was_captured_with_a_login_is_told_to_no_other_index(
    collection: CollectionBuilder, outback: tuple[OutbackServer, str]
) -> None:
    """One that knows of it all the same leads nobody to it: the record says whose it is."""
    server, url = outback
    public, members = "https://a.example/", "https://a.example/members"
    collection.response(public, b"<p>public</p>", at=SECOND)
    secret = collection.response(members, b"<p>members</p>", at=SECOND, login="club")

    assert push(collection, url).return_value == 0

    assert [each["original"] for each in server.collections["weboid"].values()] == [public]
    server.post("weboid", cdx_line(row_of(secret)))
    collection._database.execute("DELETE FROM captures")
    with serving(collection, captures_index=url) as served:
        moment = timestamp14(SECOND)
        assert "public" in fetch(served.replay, f"/c/{moment}/{public}").text
        assert fetch(served.replay, f"/c/{moment}/{members}").status == 404
