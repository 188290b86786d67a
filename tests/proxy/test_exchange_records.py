"""What WARCs say of themselves: who archived, and which record a revisit refers to."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from core.config.settings import Settings
from core.layout import Layout
from proxy.exchange_records import user_agent_of
from tests.support.proxy_fixtures import Browser, Origin, Proxy, Record, check, ok, records

SITE = "http://origin.example"
OPERATOR = "https://library.example/archive"


def fields(record: Record) -> dict[str, str]:
    """The fields of a `warcinfo` record."""
    return dict(line.split(": ", 1) for line in record.payload.decode().splitlines())


async def fetch(proxy: Proxy, *paths: str, headers: str = "") -> None:
    """Visit, fetch the paths, seal."""
    async with proxy.client.visit("p", bucket="default") as visit:
        given = visit.credentials
        with closing(Browser(proxy.port, given.username, given.password)) as browser:
            for path in paths:
                await asyncio.to_thread(browser.get, SITE + path, headers=headers)
            await visit.seal(grace_s=5)


@pytest.mark.proxy
async def test_warcinfo_names_operator_user_agent_and_robots_rule(
    settings: Settings, origin: Origin, layout: Layout, tmp_path: Path
) -> None:
    """Beside software and format (U11)."""
    told = replace(
        settings,
        links=replace(settings.links, contact=OPERATOR),
        policy=replace(settings.policy, robots="obey"),
        proxy=replace(
            settings.proxy, title="Handbooks", description="All\r\nof them", operator="The Library", profile="news"
        ),
    )
    origin.answers["/"] = ok(b"<p>page")
    proxy = Proxy(layout, told, "proxy", tmp_path)
    try:
        await fetch(proxy, "/", headers="User-Agent: Mozilla/5.0 (Test)\r\n")
    finally:
        proxy.stop()
    check(layout)

    (info,) = [record for record in records(layout) if record.kind == "warcinfo"]
    said = fields(info)
    assert (said["operator"], said["contact"], said["profile"]) == ("The Library", OPERATOR, "news")
    assert said["software"].startswith("Weboid ")
    assert said["robots"] == "obey"
    assert (said["isPartOf"], said["description"]) == ("Handbooks", "All of them")
    assert said["http-header-user-agent"] == "Mozilla/5.0 (Test)"
    assert said["format"] == "WARC File Format 1.1"
    assert said["conformsTo"].startswith("http://iipc.github.io/warc-specifications/")


@pytest.mark.parametrize(
    ("request_", "agent"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nuser-agent:  A  B\r\n\r\n", "A B"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nUser-Agent: body", ""),
        (b"GET / HTTP/1.1\r\nUser-Agent: " + b"x" * 5000 + b"\r\n\r\n", "x" * 1000),
        (b"", ""),
    ],
)
def test_user_agent_is_read_from_the_head_alone(request_: bytes, agent: str) -> None:
    """On one line, and no longer than anybody would read."""
    assert user_agent_of(request_) == agent


@pytest.mark.proxy
async def test_revisit_names_the_record_it_refers_to(
    start: Callable[..., Proxy], origin: Origin, layout: Layout
) -> None:
    """In the same batch and in a later one; not where another process wrote the original."""
    origin.answers["/one"] = origin.answers["/two"] = ok(b"the same payload")
    first = start("first")
    await fetch(first, "/one", "/two")
    await fetch(first, "/one")
    first.stop()
    second = start("second")
    await fetch(second, "/two")
    second.stop()
    check(layout)

    written = records(layout)
    (response,) = [record for record in written if record.kind == "response"]
    named = [each.headers.get("WARC-Refers-To") for each in written if each.kind == "revisit"]
    assert sorted(named, key=str) == [*[response.headers["WARC-Record-ID"]] * 2, None]


@pytest.mark.proxy
async def test_a_304_is_a_revisit_of_what_it_confirms(
    start: Callable[..., Proxy], origin: Origin, layout: Layout
) -> None:
    """By the profile server-not-modified (WARC/1.1, 6.7.3); of an unknown copy it refers to nothing."""
    proxy = start("one")
    not_modified = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    async with proxy.client.visit("p", bucket="default") as visit:
        given = visit.credentials
        with closing(Browser(proxy.port, given.username, given.password)) as browser:
            origin.answers["/a"] = ok(b"the payload")
            await asyncio.to_thread(browser.get, f"{SITE}/a")
            origin.answers["/a"] = origin.answers["/b"] = not_modified
            await asyncio.to_thread(browser.get, f"{SITE}/a", headers='If-None-Match: "1"\r\n')
            await asyncio.to_thread(browser.get, f"{SITE}/b", headers='If-None-Match: "2"\r\n')
            entries = await visit.seal(grace_s=5)
    check(layout)

    response, known, unknown = [each for each in records(layout) if each.kind in ("response", "revisit")]
    assert [each.kept for each in entries] == ["response", "revisit", "revisit"]
    assert (response.kind, known.kind, unknown.kind) == ("response", "revisit", "revisit")
    for each in (known, unknown):
        assert each.headers["WARC-Profile"].endswith("/revisit/server-not-modified")
        assert "WARC-Truncated" not in each.headers
    assert known.headers["WARC-Refers-To"] == response.headers["WARC-Record-ID"]
    assert known.headers["WARC-Refers-To-Target-URI"] == f"{SITE}/a"
    assert known.headers["WARC-Refers-To-Date"] == response.headers["WARC-Date"]
    assert known.headers["WARC-Payload-Digest"] == response.headers["WARC-Payload-Digest"]
    assert not [name for name in unknown.headers if name.startswith("WARC-Refers-To")]
