"""Tests of `net.http_head`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classify.challenge import detect_guard
from classify.page_excerpt import page_refresh_target, parse_page_excerpt, says_not_found, says_parked
from net.http_head import LenientHead, end_of_head, may_begin, parse_head

TOKEN = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)


VALUE = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)


@given(st.integers(100, 999), st.lists(st.tuples(TOKEN, VALUE), max_size=20), st.sampled_from(["\r\n", "\n"]))
def test_a_head_is_read_as_it_was_written(status: int, headers: list[tuple[str, str]], end: str) -> None:
    """What is written by the rules is read back, with either end of lines."""
    text = end.join([f"HTTP/1.1 {status} x", *(f"{name}: {value}" for name, value in headers)])
    data = f"{text}{end}{end}body".encode()
    at = end_of_head(data)
    assert data[at:] == b"body"
    assert parse_head(data[:at]) == LenientHead(status, tuple(headers))


@given(st.binary(max_size=500))
def test_no_bytes_break_the_reading_of_heads(data: bytes) -> None:
    """Any bytes are a head or none."""
    for wire in (data, b"HTTP/1.1 200 OK\r\n" + data):
        at = end_of_head(wire)
        assert 0 <= at <= len(wire)
        found = parse_head(wire)
        if found is not None:
            assert found.length is None or found.length >= 0
            assert found.mime == found.mime.lower()
        may_begin(wire)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_a_head_that_comes_in_pieces_ends_at_the_same_place(body: bytes, cut: int) -> None:
    """Looking again from where one has looked finds the same end."""
    data = b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n" + body
    whole = end_of_head(data)
    first = end_of_head(data[:cut])
    assert (first or end_of_head(data, min(cut, len(data)))) == whole


@pytest.mark.parametrize(
    "piece",
    [
        *("<script", "<!--", "<title", "<h1", "<meta ", "<", "<style>x", "domain ", "this domain "),
        *("<meta http-equiv=refresh content=", "&amp;", "&#", "not ", "page  ", "404 "),
    ],
)
def test_reading_a_page_takes_time_by_its_length_alone(piece: str) -> None:
    """Twice as much of the same takes no more than a few times as long: no pattern explodes."""

    def took(times: int) -> float:
        body = (piece * times).encode()
        best = 1e9
        for _ in range(3):
            began = time.process_time()
            page = parse_page_excerpt(body)
            says_parked(page)
            says_not_found(page, "http://a.test/")
            page_refresh_target(page)
            detect_guard(LenientHead(403), body)
            best = min(best, time.process_time() - began)
        return best

    assert took(60_000 // len(piece)) < max(40 * took(6_000 // len(piece)), 0.5)


def test_an_article_that_names_a_guard_is_no_guard_s_page() -> None:
    """A page about captchas is a page."""
    body = b"<title>How Cloudflare works</title>" + b"<p>challenge-platform/ and cf_chl_ explained</p>" * 9
    assert detect_guard(LenientHead(200), body) == ""
