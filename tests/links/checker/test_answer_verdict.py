"""Servers that answer anything: hundreds of answers put together at random, all at once."""

import asyncio
import gzip
import random

import pytest

from links.check_result import CheckVerdict
from links.checker.answer_verdict import RETRY_LIMIT_S
from tests.support.behaviour_servers import (
    PAGE,
    BehaviourRequest,
    ServerAction,
    Step,
    Steps,
    prober_for,
    serving,
    settings_for,
)

ANSWERS = 400
STARTS = (
    *(b"HTTP/1.1 %d x\r\n" % status for status in (0, 99, 100, 200, 204, 301, 404, 429, 503, 700)),
    *(b"HTTP/1.1 200\n", b"HTTP/9.9 200 OK\r\n", b"HTTP/1.1 -1 x\r\n", b"HTTP/1.1 2000 x\r\n", b""),
    *(b"ICY 200 OK\r\n", b"\r\n\r\nHTTP/1.0 200 OK\r\n", b"HTTP\r\n", b"\x00" * 9, b"\x16\x03\x01"),
)
HEADERS = (
    *(b"Content-Type: text/html\r\n", b"Content-Type: \xff/\xfe\r\n", b"Content-Type\r\n"),
    *(b"Content-Length: 10\r\n", b"Content-Length: -1\r\n", b"Content-Length: 1e9\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n"),
    *(b"Content-Encoding: gzip\r\n", b"Content-Encoding: deflate\r\n", b"Content-Encoding: ,\r\n"),
    *(b"Location: /\r\n", b"Location: \xe2\x80\xae\r\n", b"Location: http://[\r\n"),
    *(b"Location: http://10.0.0.1/\r\n", b"Location: //\r\n", b"Location: ?\r\n"),
    *(b"Retry-After: 9\r\n", b"Retry-After: \xb2\r\n", b"Set-Cookie: =;;\r\n", b": :\r\n"),
    *(b" folded\r\n", b"Refresh: 0;url=/x\r\n", b"Refresh: \xd9\xa3;url=\r\n", b"X: " + b"y" * 9_000),
)
BODIES = (
    *(b"", PAGE, gzip.compress(PAGE), b"5\r\nhello\r\n0\r\n\r\n", b"FFFFFFFFFF\r\n", b"-1\r\n", b"\x00"),
    *(b"<meta http-equiv=refresh content='0;url=http://[::'>", "<title>\u202e</title>".encode("utf-16")),
    *(b"<meta charset=utf-7>+AD4-", b"<meta charset=idna><p>\xff", b"&#1114112;" * 99, bytes(range(256))),
)
ENDS: tuple[Step, ...] = (ServerAction.RESET, b"", b"more")


def anything(rng: random.Random) -> list[Step]:
    headers = b"".join(rng.choices(HEADERS, k=rng.randint(0, 6)))
    end = rng.choice((b"\r\n", b"\n", b""))
    data = rng.choice(STARTS) + headers + end + rng.choice(BODIES)
    at = rng.randint(0, len(data))
    return [data[:at], data[at:], rng.choice(ENDS)]


@pytest.mark.slow
async def test_no_answer_breaks_a_look() -> None:
    """Whatever comes is some finding within bounds, and never a mistake of ours."""
    rng = random.Random(20261121)
    answers = [anything(rng) for _ in range(ANSWERS)]

    def answering(request: BehaviourRequest) -> Steps:
        name = request.path.strip("/")
        return answers[int(name)] if name.isdigit() and int(name) < ANSWERS else [b""]

    async with (
        serving({"a.test:80": answering}) as resolve,
        prober_for(settings_for(resolve, timeout_s=120.0)) as prober,
    ):
        urls = [f"http://a.test/{at}" for at in range(ANSWERS)]
        looks = [prober.probe(url, get_only=at % 2 == 0) for at, url in enumerate(urls)]
        siblings = [prober.probe_sibling(url) for url in urls[:100]]
        findings = await asyncio.gather(*looks, *siblings)
    for each in findings:
        assert not each.note.startswith("fault"), each
        assert each.verdict is not CheckVerdict.INVALID, each
        assert each.retry_after_s is None or 0 <= each.retry_after_s <= RETRY_LIMIT_S
        assert len(each.hops) <= 21
        assert len(each.note) < 500
        assert each.mime.isascii()
