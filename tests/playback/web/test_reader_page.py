"""Whatever is asked, the front answers in its own words, under its policy, and never fails (P-18)."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.timestamps import timestamp14
from playback.web.reader_page import VIEWS
from tests.support.examples import examples
from tests.support.playback_fixtures import NOW, CollectionBuilder, ServedCollection, fetch, serving

pytestmark = pytest.mark.playback

TS = timestamp14(NOW)
URL = "https://odd.example/a"
# What a request line may hold; everything else is refused by the server before us.
_rest = st.text(st.sampled_from("/%<>\"'{}[]|\\^`~:;@&=+$,?.*()!-_0123456789abcdefXY"), max_size=60)
_places = st.one_of(
    _rest,
    _rest.map(lambda rest: f"{URL}{rest}"),
    st.from_regex(r"\A[0-9]{0,16}/https?://odd\.example/[a-z%<>\"'?&=]{0,9}\Z"),
    st.tuples(st.from_regex(r"\A[0-9]{4,14}\Z"), st.sampled_from([URL, "x", "%", "//"])).map("/".join),
    st.sampled_from(
        [
            f"00000000000000/{URL}", f"00010101000000/{URL}", f"99991231235959/{URL}",
            f"20260230000000/{URL}", f"0000/{URL}", f"9999/{URL}", f"202613/{URL}",
            f"00010101000000/99991231235959/{URL}", f"{TS}/{TS}/{URL}", f"{TS}/{TS}/{TS}/{URL}",
            f"{TS}tx_/{URL}", f"{TS}xx_/{URL}",
        ]
    ),
)  # fmt: skip
_views = st.sampled_from([*VIEWS, "latest", "url", "changes", "static", "w/wiki/page", "de/page", "de"])
_value = st.text(st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from("%_\\:'\""), max_size=40)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCollection]:
    """Serve a collection with one page."""
    builder = CollectionBuilder(tmp_path_factory.mktemp("odd") / "collection")
    builder.page(URL, "<p>x</p>", text="x")
    with serving(builder) as it:
        yield it
    builder.close()


def check(served: ServedCollection, target: str, **headers: str) -> None:
    """Assert that the front answers without a server error, under its own policy and without scripts."""
    reply = fetch(served.front, target, headers=headers or None)
    assert reply.status < 500, target
    if reply.status not in (400, 421):  # the server's own, or no page at all
        assert "default-src 'none'" in reply["Content-Security-Policy"], target
        assert reply["X-Content-Type-Options"] == "nosniff"
    if reply.status in (301, 302, 307):
        assert reply["Location"].startswith(("/", served.front)), target
        assert not reply["Location"].startswith("//"), target
    text = reply.body.decode(errors="replace")
    assert "<script" not in text.lower()
    assert "javascript:" not in text.lower().replace("&#", "") or 'href="javascript' not in text


@settings(max_examples=examples(70))
@given(_views, _places)
def test_no_path_is_too_odd(odd: ServedCollection, view: str, rest: str) -> None:
    """Percent signs, quotes, braces, dates that are none, urns, dots and slashes."""
    check(odd, f"/{view}/{rest}")


@settings(max_examples=examples(40))
@given(_value, _value, _value, st.sampled_from(["host:", "url:", "title:", ""]))
def test_no_search_is_too_odd(odd: ServedCollection, words: str, before: str, where: str, kind: str) -> None:
    """Words, places and cursors of any text."""
    from urllib.parse import urlencode

    query = urlencode({"q": kind + words, "before": before, "in": where})
    check(odd, f"/?{query}")
    check(odd, f"/api/pages?{query}")


@pytest.mark.parametrize(
    "target",
    [
        "/?before=99999999999999999999.x",
        "/?before=-9999999999999999.x&q=a",
        "/?after=9999999999999999.x",
        "/?q=" + "a" * 5_000,
        "/?q=%00%FF%ED%A0%80",
        "/?q=host:" + "a." * 200,
        "/?q=host:[::1",
        "/?q=url:http://[",
        "/?q=url:https://odd.example:99999/",
        "/?q=" + "a+" * 200,
        "/?&&=;;&q",
        "/de/de/page/https://odd.example/a",
        "//evil.example/page/x",
        "/de//evil.example/",
        "/url/0001/" + URL,
        "/url/9998/" + URL,
        "/url/99991231235959/" + URL,
        "/url/00010101000000/" + URL,
    ],
)
def test_known_oddities(odd: ServedCollection, target: str) -> None:
    """Numbers, dates and hosts at the edge of what a database or a library takes."""
    check(odd, target)


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1:1:2", "[", "a" * 300, "<script>"])
def test_no_host_is_too_odd(odd: ServedCollection, host: str) -> None:
    """Only our own is answered."""
    check(odd, "/", Host=host)
    check(odd, f"/page/{TS}/{URL}", Host=host)
