"""The webhook: notified over UDP and HTTP, by real sockets; whoever lies or floods gets nothing."""

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from core.errors import InputError, UnavailableError
from links.registry.database import RegistryStore
from links.registry.schema import webhook_signatures
from links.registry.wikis import WikiName
from tests.support.clocks import ManualClock
from weboid.cli.wiki.wiki_watch import signature_store
from wiki.sync.webhook import (
    ANY_WIKI,
    BODY_LIMIT_BYTES,
    LevelRequest,
    RefusedRequestError,
    SetLevel,
    WebhookOptions,
    WikiLevelsRequest,
    check_secret,
    find_signer,
    parse_datagram,
    serve_webhook,
    sign_request,
)

SECRET = b"0123456789abcdef0123456789abcdef"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CHANGE = {"wiki": "mywiki@farm", "pages": [{"page_id": 7, "rev": 9, "added": [], "removed": []}]}
LEVEL = {"wiki": "mywiki@farm", "user": "Ann", "url": "https://a.net/", "level": "html", "reason": ""}


OTHER = b"fedcba9876543210fedcba9876543210"
Header = Callable[[str, bytes], str]


def signed(path: str, body: bytes, *, secret: bytes = SECRET, nonce: str = "0" * 16) -> str:
    """Return a good signature."""
    return sign_request(secret, body, at=int(NOW.timestamp()), nonce=nonce, path=path)


class NotedWebhook:
    """A webhook that notes who rang."""

    def __init__(
        self,
        set_level: SetLevel | None = None,
        used: set[bytes] | None = None,
        watched: Sequence[str] = ("mywiki@farm",),
    ) -> None:
        self.notified: list[tuple[str, str | None, tuple[int, ...]]] = []
        self.has_rung = asyncio.Event()
        self.used = set() if used is None else used
        self.options = WebhookOptions(
            self.notify,
            {ANY_WIKI: SECRET, "other@farm": OTHER},
            ManualClock(NOW),
            self.use,
            lambda: frozenset(watched),
            set_level,
        )

    async def use(self, signature: bytes, _moment: datetime) -> bool:
        """Note it."""
        is_new = signature not in self.used
        self.used.add(signature)
        return is_new

    def notify(self, dbname: str, farm: str | None, pages: tuple[int, ...]) -> bool:
        """Note it."""
        self.notified.append((dbname, farm, pages))
        self.has_rung.set()
        return dbname == "mywiki"


def _ask(
    path: str, document: Any, *, header: Header = signed, noted: NotedWebhook | None = None, times: int = 1
) -> tuple[NotedWebhook, list[httpx.Response]]:
    """Send the same request `times` times; return the webhook and its answers."""

    async def ask() -> tuple[NotedWebhook, list[httpx.Response]]:
        webhook = noted or NotedWebhook()
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        async with (
            serve_webhook("127.0.0.1", 0, webhook.options) as (host, port),
            httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False, verify=False, timeout=120) as client,
        ):
            sent = {"X-Weboid-Signature": header(path, body)}
            return webhook, [await client.post(path, content=body, headers=sent) for _ in range(times)]

    return asyncio.run(ask())


def test_pages_that_changed_are_rung_for() -> None:
    """A signed request names a wiki and its pages."""
    noted, (answer,) = _ask("/changes", CHANGE)

    assert answer.status_code == 204
    assert noted.notified == [("mywiki", "farm", (7,))]


def test_levels_of_the_wiki_come_with_its_changes() -> None:
    """Levels from the wiki's LocalSettings.php are passed on; without them none are set."""
    requests = []

    async def set_wiki_levels(levels: WikiLevelsRequest) -> None:
        requests.append(levels)

    for document in (CHANGE, {**CHANGE, "wiki_levels": {"shown": None, "stored": "text"}}):
        noted = NotedWebhook()
        noted.options = replace(noted.options, set_wiki_levels=set_wiki_levels)
        _, (answer,) = _ask("/changes", document, noted=noted)
        assert answer.status_code == 204
        assert noted.notified

    assert requests == [WikiLevelsRequest(WikiName("mywiki", "farm"), None, "text")]


@pytest.mark.parametrize("levels", [{"stored": "text"}, [], {"shown": 7}, {"shown": "x" * 101}])
def test_levels_that_do_not_hold_keep_no_change_back(levels: object) -> None:
    """Pages are heard all the same, and the answer says why the levels are not."""

    async def refuse(_levels: WikiLevelsRequest) -> None:
        raise InputError("An operator decided it.")

    noted = NotedWebhook()
    noted.options = replace(noted.options, set_wiki_levels=refuse)
    _, (answer,) = _ask("/changes", {**CHANGE, "wiki_levels": levels}, noted=noted)

    assert noted.notified == [("mywiki", "farm", (7,))]
    assert answer.status_code == 200
    assert ("An operator" in answer.text) is (levels == {"stored": "text"})


def test_a_datagram_of_mediawiki_rings() -> None:
    """Its recent changes, a JSON line each; what is none is passed over."""

    async def send() -> NotedWebhook:
        noted = NotedWebhook()
        async with serve_webhook("127.0.0.1", 0, noted.options) as (host, port):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for line in (b"", b"\xff" * 60_000, b"[" * 50_000, b'{"wiki": 7}'):
                    sender.sendto(line, (host, port))
                sender.sendto(b'{"type": "edit", "title": "Foo", "wiki": "mywiki"}', (host, port))
                async with asyncio.timeout(120):
                    await noted.has_rung.wait()
        return noted

    assert asyncio.run(send()).notified == [("mywiki", None, ())]


def _at(shift_s: int) -> Header:
    moment = int(NOW.timestamp()) + shift_s
    return lambda path, body: sign_request(SECRET, body, at=moment, nonce="0" * 16, path=path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (lambda _path, _body: "", "missing"),
        (lambda path, body: signed(path, body, secret=b"another secret, as long as it must"), "secret"),
        (lambda path, body: signed(path, body + b" "), "wrong"),
        (lambda _path, body: signed("/level", body), "wrong"),
        (_at(-301), "301 s old"),
        (_at(301), "clocks"),
        (lambda path, body: signed(path, body).upper(), "wrong"),
        (lambda _path, _body: f"t={int(NOW.timestamp())},v1={'0' * 64}", "update the wiki's extension"),
    ],
    ids=["none", "secret", "body", "path", "old", "future", "form", "release"],
)
def test_what_is_not_signed_now_with_the_secret_is_refused(header: Header, message: str) -> None:
    """Nothing notifies, and the answer is 403."""
    noted, (answer,) = _ask("/changes", CHANGE, header=header)

    assert (answer.status_code, noted.notified) == (403, [])
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("wiki", "secret", "status"),
    [
        ("mywiki@farm", SECRET, 204),
        ("mywiki@farm", OTHER, 403),
        ("other@farm", OTHER, 404),  # signed by itself, but not watched
        ("other@farm", SECRET, 403),
        ("third@farm", SECRET, 403),
    ],
)
@pytest.mark.parametrize("path", ["/changes", "/test"])
def test_a_secret_signs_for_its_own_wiki_alone(path: str, wiki: str, secret: bytes, status: int) -> None:
    """The one without a name signs for the only wiki that is watched."""
    document = {**CHANGE, "wiki": wiki}
    _, (answer,) = _ask(path, document, header=lambda p, b: signed(p, b, secret=secret))

    assert answer.status_code == status


def test_a_secret_without_a_wiki_signs_for_none_of_several() -> None:
    """Else one wiki's server could set levels in the name of another's users."""
    noted = NotedWebhook(watched=("mywiki@farm", "third@farm"))
    _, (answer,) = _ask("/changes", CHANGE, noted=noted)

    assert answer.status_code == 403
    assert "--webhook-secret-file mywiki@farm=FILE" in answer.json()["error"]


def test_a_test_rings_for_nobody() -> None:
    """It proves secret, clock and name."""
    noted, (answer,) = _ask("/test", {"wiki": "mywiki@farm", "pages": []})

    assert (answer.status_code, noted.notified) == (204, [])


def test_a_stored_level_is_asked_for_by_a_path_of_its_own() -> None:
    """The document is that of a level."""
    requests = []

    async def set_level(level: LevelRequest) -> str | None:
        requests.append(level)
        return level.level

    for path in ("/level", "/stored-level"):
        _, (answer,) = _ask(path, LEVEL, noted=NotedWebhook(set_level))
        assert answer.status_code == 200
    assert [each.is_stored for each in requests] == [False, True]
    assert requests[0] == replace(requests[1], is_stored=False)


@pytest.mark.parametrize("path", ["/changes", "/level"])
def test_a_signature_counts_once_also_after_a_restart(path: str, store: RegistryStore) -> None:
    """Whoever overheard a request can do nothing with it."""
    document = CHANGE if path == "/changes" else LEVEL

    async def set_level(level: LevelRequest) -> str | None:
        return level.level

    statuses = []
    for _ in range(2):
        noted = NotedWebhook(set_level)
        noted.options = replace(noted.options, use_signature=signature_store(store))
        statuses += [each.status_code for each in _ask(path, document, noted=noted, times=2)[1]]

    assert statuses[1:] == [403, 403, 403]
    assert statuses[0] in {200, 204}


def test_used_signatures_are_forgotten_when_they_are_too_old(store: RegistryStore) -> None:
    """They would be refused for their age anyway."""

    async def use_ten() -> list[bool]:
        use = signature_store(store)
        return [await use(bytes([k] * 32), NOW + timedelta(seconds=300 * k)) for k in range(10)]

    assert all(asyncio.run(use_ten()))
    with store.reading() as rows:
        signature_count = rows.execute(select(func.count()).select_from(webhook_signatures)).scalar_one()
    assert signature_count == 3


@pytest.mark.parametrize("begun", [b"", b"POST /changes HTTP/1.1\r\nHo"], ids=["idle", "begun"])
def test_idle_connections_do_not_silence_the_bell(begun: bytes) -> None:
    """Those that have waited longest make room."""

    async def flood() -> int:
        noted = NotedWebhook()
        body = json.dumps(CHANGE).encode()
        async with serve_webhook("127.0.0.1", 0, noted.options) as (host, port):
            idle = [await asyncio.open_connection(host, port) for _ in range(120)]
            for _, writer in idle:
                writer.write(begun)
            async with httpx.AsyncClient(trust_env=False, verify=False, timeout=120) as client:
                headers = {"X-Weboid-Signature": signed("/changes", body)}
                address = f"http://{host}:{port}/changes"
                answer = await client.post(address, content=body, headers=headers)
            for _, writer in idle:
                writer.close()
        return answer.status_code

    assert asyncio.run(flood()) == 204


@pytest.mark.parametrize(
    ("document", "status"),
    [
        (b"", 400),
        (b"[" * 100_000, 400),
        ({}, 400),
        ({**CHANGE, "wiki": "a b"}, 400),
        ({**CHANGE, "pages": [{"page_id": True}]}, 400),
        ({**CHANGE, "pages": [{"page_id": 1}] * 10_001}, 400),
        (b"x" * (BODY_LIMIT_BYTES + 1), 400),
    ],
    ids=["empty", "deep", "nothing", "name", "page", "many", "long"],
)
def test_what_cannot_be_read_is_told(document: Any, status: int) -> None:
    """Each fault has its status, and a sentence."""
    _, (answer,) = _ask("/changes", document)

    assert answer.status_code == status
    assert answer.json()["error"]


def test_a_level_is_set() -> None:
    """For the user whom the wiki names."""
    requests: list[LevelRequest] = []

    async def set_level(level: LevelRequest) -> str | None:
        requests.append(level)
        return level.level

    _, (answer,) = _ask("/level", LEVEL, noted=NotedWebhook(set_level))

    assert (answer.status_code, answer.json()) == (200, {"url": "https://a.net/", "level": "html"})
    assert [each.user for each in requests] == ["Ann"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(RefusedRequestError("No right."), 403), (InputError("No level."), 400)],
    ids=["refused", "wrong"],
)
def test_a_level_that_is_refused_is_told(error: Exception, status: int) -> None:
    """403: the user may not; 400: nobody can."""

    async def set_level(_level: LevelRequest) -> str | None:
        raise error

    _, (answer,) = _ask("/level", LEVEL, noted=NotedWebhook(set_level))

    assert (answer.status_code, answer.json()) == (status, {"error": str(error)})


def test_levels_are_not_set_where_nobody_sets_them() -> None:
    """404 without somebody who does."""
    _, (answer,) = _ask("/level", LEVEL)

    assert answer.status_code == 404


def test_a_port_that_is_taken_is_told() -> None:
    """The sentence names the address, and what to do."""

    async def twice() -> None:
        noted = NotedWebhook()
        async with (
            serve_webhook("127.0.0.1", 0, noted.options) as (host, port),
            serve_webhook(host, port, noted.options),
        ):
            pass

    with pytest.raises(UnavailableError, match=r"Cannot listen on .*choose another"):
        asyncio.run(twice())


def test_a_short_secret_is_refused() -> None:
    """It could be guessed."""
    with pytest.raises(InputError, match="openssl"):
        check_secret("short")


@given(st.binary(max_size=200), st.text(max_size=120))
def test_nothing_but_a_signature_signs(body: bytes, header: str) -> None:
    """Whatever else stands in the header."""
    assert find_signer({"": SECRET}, header, body, now=NOW.timestamp(), path="/level") is None


@given(st.binary(max_size=300))
def test_no_datagram_breaks_the_bell(datagram: bytes) -> None:
    """It tells of a wiki, or of none."""
    assert isinstance(parse_datagram(datagram), str)
