"""Requests with a body: what is the same request, and what is another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playback.replay.full.request_bodies import BodyRequest, body_parameters, match_body, parse_body_query

JSON, FORM = "application/json; charset=utf-8", "application/x-www-form-urlencoded"


def request(body: bytes, content_type: str = JSON, method: str = "POST") -> BodyRequest:
    """As it was captured."""
    return BodyRequest(method, body_parameters(content_type, body))


@pytest.mark.parametrize(
    ("content_type", "body", "parameters"),
    [
        (FORM, b"b=2&a=1&e=", (("a", "1"), ("b", "2"), ("e", ""))),
        (JSON, b'{"b": [1, {"c": null}], "a": "x"}', ((".a", "x"), (".b.0", "1"), (".b.1.c", "null"))),
        ("text/plain", b"just words", (("", "just words"),)),
        ("", b"", ()),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="q"; filename="f"\r\nContent-Type: a/b\r\n\r\n1\r\n--x--',
            (("q", "1"),),
        ),
    ],
)  # fmt: skip
def test_a_body_is_read_by_its_parameters(
    content_type: str, body: bytes, parameters: tuple[tuple[str, str], ...]
) -> None:
    """Whatever their order."""
    assert body_parameters(content_type, body) == parameters


@pytest.mark.parametrize(
    ("captured", "found"),
    [
        ([b'{"q":"tram"}', b'{"q":"bridge","at":0}', b'{"at":1,"q":"bridge"}'], 2),
        ([b'{"q":"bridge","at":1700000000000}'], None),  # the request has no moment there
        ([b'{"q":"bridge","at":2}'], None),
        ([b'{"q":"tram","at":1}'], None),
        ([], None),
    ],
)
def test_another_request_is_not_taken_for_it(captured: list[bytes], found: int | None) -> None:
    """A reader would see the answer to something that the page did not ask."""
    wanted = request(b'{"q":"bridge","at":1}')

    assert match_body(wanted, ((at, request(body)) for at, body in enumerate(captured))) == found
    assert match_body(wanted, [(0, BodyRequest("PUT", wanted.parameters))]) is None


def test_values_that_are_new_at_each_visit_may_differ() -> None:
    """Where only one captured request is such; of two neither can be told to be the one."""
    body = '{"q":"bridge","at":%d,"id":"%s-1111-2222-3333-444455556666"}'
    one, two, wanted = (request((body % (1700000000000 + at, f"0000000{at}")).encode()) for at in range(3))

    assert match_body(wanted, [("one", one)]) == "one"
    assert match_body(wanted, [("one", one), ("two", two)]) is None
    assert match_body(BodyRequest("POST", None), [("one", one)]) == "one"


@given(st.text(), st.binary(), st.text())
def test_any_query_and_any_body_are_read(url: str, body: bytes, content_type: str) -> None:
    """Marks that our scripts have not written belong to the URL."""
    body_parameters(content_type, body)
    assert parse_body_query(url) is None
    spoilt = f"{url}?__wb_method=POST&__wb_post_type=&__wb_post_data=%%%"
    assert parse_body_query(spoilt) == (url, BodyRequest("POST", ()))
