"""The bell: rung over UDP and HTTP, by real sockets; whoever lies or floods gets nothing."""

import asyncio
import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, UnavailableError
from tests.wiki.feeding.conftest import Ticking
from wiki.feeding.bell import (
    BODY_LIMIT_BYTES,
    LevelAsked,
    LevelRefusedError,
    Ringing,
    SetLevel,
    check_secret,
    hanging,
    is_signed,
    rung_by,
    signature,
)

SECRET = b"0123456789abcdef0123456789abcdef"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CHANGE = {"wiki": "mywiki@farm", "pages": [{"page_id": 7, "rev": 9, "added": [], "removed": []}]}
LEVEL = {
    "wiki": "mywiki@farm",
    "user": "Ann",
    "url": "https://a.net/",
    "level": "html",
    "reason": "",
}


class Hung:
    """A bell that notes who rang."""

    def __init__(self, set_level: SetLevel | None = None) -> None:
        self.rung: list[tuple[str, str | None, tuple[int, ...]]] = []
        self.has_rung = asyncio.Event()
        self.ringing = Ringing(self.ring, SECRET, Ticking(NOW), set_level)

    def ring(self, dbname: str, farm: str | None, pages: tuple[int, ...]) -> bool:
        """Note it."""
        self.rung.append((dbname, farm, pages))
        self.has_rung.set()
        return dbname == "mywiki"


def _ask(
    path: str,
    document: Any,
    *,
    header: Callable[[bytes], str] | None = None,
    set_level: SetLevel | None = None,
    times: int = 1,
) -> tuple[Hung, list[httpx.Response]]:
    """What the bell answers to the same request, so many times."""

    async def ask() -> tuple[Hung, list[httpx.Response]]:
        hung = Hung(set_level)
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        signed = header(body) if header else signature(SECRET, body, at=int(NOW.timestamp()))
        async with (
            hanging("127.0.0.1", 0, hung.ringing) as (host, port),
            httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as client,
        ):
            sent = {"X-Weboid-Signature": signed}
            return hung, [await client.post(path, content=body, headers=sent) for _ in range(times)]

    return asyncio.run(ask())


def test_pages_that_changed_are_rung_for() -> None:
    """A signed request names a wiki and its pages."""
    hung, (answer,) = _ask("/changes", CHANGE)

    assert answer.status_code == 204
    assert hung.rung == [("mywiki", "farm", (7,))]


def test_a_datagram_of_mediawiki_rings() -> None:
    """Its recent changes, a JSON line each; what is none is passed over."""

    async def send() -> Hung:
        hung = Hung()
        async with hanging("127.0.0.1", 0, hung.ringing) as (host, port):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for line in (b"", b"\xff" * 60_000, b"[" * 50_000, b'{"wiki": 7}'):
                    sender.sendto(line, (host, port))
                sender.sendto(b'{"type": "edit", "title": "Foo", "wiki": "mywiki"}', (host, port))
                async with asyncio.timeout(20):
                    await hung.has_rung.wait()
        return hung

    assert asyncio.run(send()).rung == [("mywiki", None, ())]


@pytest.mark.parametrize(
    "header",
    [
        lambda _body: "",
        lambda body: signature(
            b"another secret, as long as it must", body, at=int(NOW.timestamp())
        ),
        lambda body: signature(SECRET, body + b" ", at=int(NOW.timestamp())),
        lambda body: signature(SECRET, body, at=int(NOW.timestamp()) - 301),
        lambda body: signature(SECRET, body, at=int(NOW.timestamp()) + 301),
        lambda body: signature(SECRET, body, at=int(NOW.timestamp())).upper(),
    ],
    ids=["none", "secret", "body", "old", "future", "form"],
)
def test_what_is_not_signed_now_with_the_secret_is_refused(header: Callable[[bytes], str]) -> None:
    """Nothing rings, and the answer is 403."""
    hung, (answer,) = _ask("/changes", CHANGE, header=header)

    assert (answer.status_code, hung.rung) == (403, [])


@pytest.mark.parametrize(
    ("document", "status"),
    [
        (b"", 400),
        (b"[" * 100_000, 400),
        ({}, 400),
        ({**CHANGE, "wiki": "a b"}, 400),
        ({**CHANGE, "pages": [{"page_id": True}]}, 400),
        ({**CHANGE, "pages": [{"page_id": 1}] * 10_001}, 400),
        ({**CHANGE, "wiki": "otherwiki@farm"}, 404),
        (b"x" * (BODY_LIMIT_BYTES + 1), 400),
    ],
    ids=["empty", "deep", "nothing", "name", "page", "many", "unknown", "long"],
)
def test_what_cannot_be_read_is_told(document: Any, status: int) -> None:
    """Each fault has its status, and a sentence."""
    _, (answer,) = _ask("/changes", document)

    assert answer.status_code == status
    assert answer.json()["error"]


def test_a_level_is_set_once_for_a_request() -> None:
    """The same signed request again is refused: whoever overheard it can do nothing with it."""
    asked: list[LevelAsked] = []

    async def set_level(level: LevelAsked) -> str | None:
        asked.append(level)
        return level.level

    _, (first, second) = _ask("/level", LEVEL, set_level=set_level, times=2)

    assert (first.status_code, first.json()) == (200, {"url": "https://a.net/", "level": "html"})
    assert second.status_code == 403
    assert [each.user for each in asked] == ["Ann"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(LevelRefusedError("No right."), 403), (InputError("No level."), 400)],
    ids=["refused", "wrong"],
)
def test_a_level_that_is_refused_is_told(error: Exception, status: int) -> None:
    """403: the user may not; 400: nobody can."""

    async def set_level(_level: LevelAsked) -> str | None:
        raise error

    _, (answer,) = _ask("/level", LEVEL, set_level=set_level)

    assert (answer.status_code, answer.json()) == (status, {"error": str(error)})


def test_levels_are_not_set_where_nobody_sets_them() -> None:
    """404 without somebody who does."""
    _, (answer,) = _ask("/level", LEVEL)

    assert answer.status_code == 404


def test_a_port_that_is_taken_is_told() -> None:
    """The sentence names the address, and what to do."""

    async def twice() -> None:
        hung = Hung()
        async with (
            hanging("127.0.0.1", 0, hung.ringing) as (host, port),
            hanging(host, port, hung.ringing),
        ):
            pass

    with pytest.raises(UnavailableError, match="cannot listen"):
        asyncio.run(twice())


def test_a_short_secret_is_refused() -> None:
    """It could be guessed."""
    with pytest.raises(InputError, match="openssl"):
        check_secret("short")


@given(st.binary(max_size=200), st.text(max_size=120))
def test_nothing_but_a_signature_signs(body: bytes, header: str) -> None:
    """Whatever else stands in the header."""
    assert not is_signed(SECRET, header, body, now=NOW.timestamp())


@given(st.binary(max_size=300))
def test_no_datagram_breaks_the_bell(datagram: bytes) -> None:
    """It tells of a wiki, or of none."""
    assert isinstance(rung_by(datagram), str)
