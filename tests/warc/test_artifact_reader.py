"""The records that the front reads itself: the very one that is meant, whole, and never too much."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.captures import ArtifactKind, Capture
from core.digests import sha256_digest
from core.errors import BodyTooLargeError, PermanentError
from core.layout import OPEN_SUFFIX
from tests.support.examples import examples
from tests.support.playback_fixtures import CollectionBuilder
from warc.artifact_reader import TEXT_LIMIT, ArtifactReader, RecordPlace

URL = "https://records.example/"
PLACES: dict[Path, RecordPlace] = {}


def place_of(capture: Capture) -> RecordPlace:
    """Return the place of the capture's record as the index has it."""
    at = capture.location
    return RecordPlace(capture.url, at.filename, at.offset, at.length, capture.digest)


def written(builder: CollectionBuilder, body: bytes) -> RecordPlace:
    """Write a page's text among other records and return its place."""
    builder.artifact(ArtifactKind.DOM, URL, b"<p>before</p>", mime="text/html")
    place = place_of(builder.artifact(ArtifactKind.TEXT, URL, body, mime="text/plain"))
    builder.artifact(ArtifactKind.DOM, URL, b"<p>after</p>", mime="text/html")
    return place


def test_a_text_is_read_where_it_lies(collection: CollectionBuilder) -> None:
    """Also from a WARC that is still open, and from one that is not compressed."""
    place = written(collection, "Wörter".encode())
    records = ArtifactReader(collection.layout)
    path: Path = collection.layout.archive / place.filename
    first = records.text(place)
    path.rename(path.with_name(path.name + OPEN_SUFFIX))
    while_open = records.text(place)
    member = gzip.decompress(path.with_name(path.name + OPEN_SUFFIX).read_bytes()[place.offset :][: place.length])
    (collection.layout.archive / "plain-00000.warc").write_bytes(b"junk" + member)
    plain = replace(place, filename="plain-00000.warc", offset=4, length=len(member))

    assert first == while_open == records.text(plain) == "Wörter"


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "urn:text:https://other.example/"},
        {"digest": sha256_digest(b"other")},
        {"digest": ""},
        {"digest": "md4:x"},
        {"offset": 0},
        {"offset": 3},
        {"offset": 10**12},
        {"offset": -1},
        {"length": 20},
        {"length": 0},
        {"filename": "../archive/artifacts-00000.warc.gz"},
        {"filename": "/etc/passwd"},
        {"filename": "http://evil.example/x.warc.gz"},
        {"filename": "gone-00000.warc.gz"},
        {"filename": ".hidden.warc.gz"},
    ],
    ids=str,
)
def test_what_the_index_does_not_speak_of_is_refused(changes: dict[str, object], collection: CollectionBuilder) -> None:
    """A poisoned index leads to nothing (P-20)."""
    place = written(collection, b"words")

    with pytest.raises(PermanentError):
        ArtifactReader(collection.layout).text(replace(place, **changes))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_bomb_costs_its_limit_and_nothing_more(collection: CollectionBuilder) -> None:
    """Decompression stops where no text is as long (P-21)."""
    place = written(collection, b"\0" * 60_000_000)

    with pytest.raises(BodyTooLargeError):
        ArtifactReader(collection.layout).text(place)
    with pytest.raises(BodyTooLargeError):
        ArtifactReader(collection.layout).text(written(collection, b"x" * (TEXT_LIMIT + 1)))


@settings(max_examples=examples(60))
@given(st.binary(max_size=400), st.integers(0, 400))
def test_no_damage_is_shown_as_a_text(collection: CollectionBuilder, damage: bytes, at: int) -> None:
    """Whatever stands where the record was: the text as it was written, or an error of ours."""
    path = collection.layout.archive / "artifacts-00000.warc.gz"
    whole = path.with_name("whole")
    if not whole.exists():
        PLACES[path] = written(collection, b"words")
        path.rename(whole)
    place = PLACES[path]
    data = bytearray(whole.read_bytes())
    data[place.offset + at : place.offset + at + len(damage)] = damage
    path.write_bytes(data)
    try:
        text = ArtifactReader(collection.layout).text(place)
    except PermanentError:
        return
    assert text == "words"


def test_a_manifest_that_is_none_is_an_error_of_ours(collection: CollectionBuilder) -> None:
    """JSON of another kind, or of another version."""
    for body in (b"[]", b"{}", b"\xff", b'{"version": 99}', b"[" * 100_000):
        capture = collection.artifact(ArtifactKind.PAGEINFO, URL, body, mime="application/json")
        with pytest.raises(PermanentError):
            ArtifactReader(collection.layout).manifest(place_of(capture))
