"""Webhooks: signatures, batches, retries, the log, and what may be reached; a real receiver on loopback."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from core.clock import SystemClock
from core.config.settings import EgressSettings, Settings
from core.errors import ConfigError, InputError
from core.layout import Layout
from core.playback_check import QaVerdict
from crawler.worker.crawl_events import DiskSpaceLow, PageChecked
from links.check_result import CheckMethod, CheckResult, CheckVerdict, StatusCode
from links.checker.result_store import RecordedResult
from links.states import LinkState
from tests.support.clocks import ShiftedClock
from tests.support.loopback import LoopbackServer
from weboid.app.collection_config import config_faults, read_config
from weboid.app.webhooks.webhook_sender import EXPIRES_S, WebhookEmitter, WebhookSender
from weboid.app.webhooks.webhook_store import (
    QUEUED_DELIVERIES,
    WebhookStore,
    add_webhook,
    read_secrets,
    remove_webhook,
    signed_headers,
)

LOCAL = Settings(egress=EgressSettings(allow=("127.0.0.0/8",)))


class WebhookReceiver:
    """HTTP server that queues requests as (path, headers, body) and answers with `answers`, at the end 204; a page."""

    def __init__(self) -> None:
        self.requests: Queue[tuple[str, dict[str, str], bytes]] = Queue()
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.page = b""  # answers every GET
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.put((self.path, dict(self.headers.items()), body))
                status, headers = receiver.answers.pop(0) if receiver.answers else (204, {})
                self.send_response(status)
                for name, value in {"content-length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(receiver.page)))
                self.end_headers()
                self.wfile.write(receiver.page)

            def log_message(self, *_: object) -> None:
                pass

        self.server = LoopbackServer(Handler)
        self.url = f"{self.server.origin}/hook"

    def verified(self, root: Path) -> dict[str, Any]:
        """Return the next request's JSON, verified by the receivers' library."""
        _, headers, body = self.requests.get(timeout=120)
        secret = read_config(root).webhooks()[0].secret_file.read_text().split()[0]
        return dict(Webhook(secret).verify(body, headers))


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    made = WebhookReceiver()
    with made.server:
        yield made


@pytest.fixture
def root(tmp_path: Path, receiver: WebhookReceiver) -> Path:
    """Return a collection's folder with a webhook for all events at the receiver."""
    add_webhook(tmp_path, receiver.url)
    return tmp_path


async def send(root: Path, store: WebhookStore, clock: ShiftedClock, settings: Settings = LOCAL) -> int:
    async with WebhookSender(root, settings, store, clock) as sender:
        return await sender.send_due()


@pytest.fixture
def store(root: Path) -> Iterator[WebhookStore]:
    with closing(WebhookStore(Layout(root).webhooks_db)) as made:
        yield made


def test_many_events_are_few_signed_deliveries(root: Path, receiver: WebhookReceiver) -> None:
    """250 pages are 3 deliveries of up to 100, all sent when the command ends."""
    with WebhookEmitter(root, LOCAL, clock=SystemClock()) as hooks:
        for number in range(250):
            hooks.put("page.archived", {"url": f"https://example.org/{number}"})

    bodies = [receiver.verified(root) for _ in range(3)]

    urls = [item["url"] for body in bodies for item in body["data"]["items"]]
    assert urls == [f"https://example.org/{number}" for number in range(250)]
    assert {body["type"] for body in bodies} == {"page.archived"}
    assert max(len(body["data"]["items"]) for body in bodies) == 100
    assert receiver.requests.empty()


def test_only_wanted_events_are_sent(tmp_path: Path, receiver: WebhookReceiver) -> None:
    """A webhook gets the events that its table names."""
    add_webhook(tmp_path, receiver.url, ["disk.low"])
    with WebhookEmitter(tmp_path, LOCAL, clock=SystemClock()) as hooks:
        hooks.put("page.archived", {"url": "https://example.org/"})
        hooks.put("disk.low", {"free_bytes": 1, "wanted_bytes": 2})

    assert receiver.verified(tmp_path)["type"] == "disk.low"
    assert receiver.requests.empty()


def test_each_source_of_news_has_its_event(root: Path, receiver: WebhookReceiver) -> None:
    """A full disk, a broken copy and a dead link; good copies, and links that were dead before, are no news."""
    finding = CheckResult(StatusCode.OTHER_CONTENT, CheckVerdict.GONE, CheckMethod.GET, http=404)
    dead, old = (
        RecordedResult(
            1, f"https://example.org/{before.name}", finding, before, LinkState.DEAD, None, awaits_opinion=False
        )
        for before in (LinkState.DYING, LinkState.DEAD)
    )
    with WebhookEmitter(root, LOCAL, clock=SystemClock()) as hooks:
        hooks.note(DiskSpaceLow(1, 2))
        for verdict in (QaVerdict.BROKEN, QaVerdict.GOOD):
            hooks.note(PageChecked("https://example.org/", "1", "images", verdict, 0.5, "a reason"))
        hooks.put_results([dead, old])

    bodies = [receiver.verified(root) for _ in range(3)]
    items = {body["type"]: body["data"]["items"] for body in bodies}
    assert {kind: len(each) for kind, each in items.items()} == {"disk.low": 1, "qa.failed": 1, "link.died": 1}
    assert items["link.died"][0]["url"] == "https://example.org/DYING"


def test_old_and_changed_deliveries_do_not_verify(root: Path) -> None:
    """The signature covers time and body; each secret of the file signs, so that secrets can be replaced."""
    path = read_config(root).webhooks()[0].secret_file
    old = path.read_text().strip()
    path.write_text("whsec_" + "QUJD" * 10 + f"\n{old}\n")
    body, now = b'{"a":1}', datetime.now(UTC)
    headers = signed_headers(read_secrets(path), "msg_1", body, now=now)

    assert [Webhook(each).verify(body, headers) for each in path.read_text().split()] == [{"a": 1}] * 2
    with pytest.raises(WebhookVerificationError):
        Webhook(old).verify(b'{"a":2}', headers)
    late = signed_headers(read_secrets(path), "msg_1", body, now=now - timedelta(minutes=6))
    with pytest.raises(WebhookVerificationError):
        Webhook(old).verify(body, late)


@pytest.mark.parametrize(("status", "headers"), [(500, {}), (302, {"location": "/elsewhere"}), (404, {})])
async def test_failures_are_repeated_with_the_same_id(
    root: Path, receiver: WebhookReceiver, store: WebhookStore, status: int, headers: dict[str, str]
) -> None:
    """Errors and redirects are tried again after a pause; the log has the result of the last attempt."""
    receiver.answers = [(status, headers)]
    store.add(receiver.url, "disk.low", b"{}", now=ShiftedClock().now().timestamp())

    assert await send(root, store, ShiftedClock()) == 1
    (failed,) = store.deliveries()
    assert (failed.state, failed.attempts, failed.status) == ("queued", 1, status)
    assert await send(root, store, ShiftedClock()) == 0
    assert await send(root, store, ShiftedClock(timedelta(seconds=6))) == 1

    (sent,) = store.deliveries()
    assert (sent.state, sent.attempts, sent.status, sent.reason) == ("delivered", 2, 204, "")
    ids = [receiver.requests.get(timeout=120)[1]["webhook-id"] for _ in range(2)]
    assert ids == [sent.id, sent.id]
    assert receiver.requests.empty()


async def test_retries_end_after_a_day(root: Path, receiver: WebhookReceiver, store: WebhookStore) -> None:
    """Pauses grow to two hours; more than a day later the delivery has failed, after a dozen or two attempts."""
    receiver.answers = [(500, {})] * 100
    made = store.add(receiver.url, "disk.low", b"{}", now=ShiftedClock().now().timestamp())
    clock = ShiftedClock()
    while (delivery := store.deliveries()[0]).state == "queued":
        clock.offset = datetime.fromtimestamp(delivery.due, UTC) - datetime.now(UTC) + timedelta(seconds=1)
        assert await send(root, store, clock) == 1

    assert (delivery.id, delivery.state) == (made, "failed")
    assert 15 <= delivery.attempts <= 30
    assert 86_400 < (delivery.tried or 0) - delivery.made < EXPIRES_S


@pytest.mark.parametrize(("status", "state"), [(410, "failed"), (503, "queued")])
async def test_answers_decide_about_the_next_attempt(
    root: Path, receiver: WebhookReceiver, store: WebhookStore, status: int, state: str
) -> None:
    """410 ends a delivery; Retry-After delays every delivery of the receiver."""
    receiver.answers = [(status, {"retry-after": "3600"})]
    now = ShiftedClock().now().timestamp()
    for number in range(2):
        store.add(receiver.url, "disk.low", b"{}", now=now - 2 + number)
    await send(root, store, ShiftedClock())

    second, first = store.deliveries()
    assert first.state == state
    assert (second.due > now + 3_500) == (status == 503)


async def test_private_addresses_need_permission(root: Path, receiver: WebhookReceiver, store: WebhookStore) -> None:
    """Without [egress] allow nothing is sent to loopback, by address or by name; the log says why."""
    receiver_by_name = receiver.url.replace("127.0.0.1", "localhost")
    add_webhook(root, receiver_by_name)
    for url in (receiver.url, receiver_by_name):
        store.add(url, "disk.low", b"{}", now=ShiftedClock().now().timestamp())

    assert await send(root, store, ShiftedClock(), Settings()) == 2

    assert receiver.requests.empty()
    assert [each.reason for each in store.deliveries() if "[egress] allow" not in each.reason] == []


def test_a_killed_process_loses_no_delivery(root: Path, receiver: WebhookReceiver) -> None:
    """The next process sends what the killed one had claimed, after the lease."""
    script = (
        "import os, signal, sys, time; from pathlib import Path; from weboid.app.webhooks.webhook_store import WebhookStore\n"
        f"store = WebhookStore(Path({str(Layout(root).webhooks_db)!r}))\n"
        f"store.add({receiver.url!r}, 'disk.low', b'{{}}', now=time.time())\n"
        "assert store.claim(now=time.time()); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parents[4])
    assert ended.returncode == -signal.SIGKILL

    with WebhookEmitter(root, LOCAL, clock=ShiftedClock(timedelta(seconds=61))):
        _, headers, body = receiver.requests.get(timeout=120)
    assert (headers["webhook-id"][:4], body) == ("msg_", b"{}")


def test_the_queue_of_a_receiver_is_bounded(store: WebhookStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest deliveries fail when a receiver was away for too long."""
    assert QUEUED_DELIVERIES >= 10_000
    monkeypatch.setattr("weboid.app.webhooks.webhook_store.QUEUED_DELIVERIES", 2)
    ids = [store.add("https://example.org/", "disk.low", b"{}", now=float(number)) for number in range(3)]

    (failed,) = store.deliveries(state="failed")
    assert (failed.id, failed.reason) == (ids[0], "the queue is full")


def test_deliveries_of_a_removed_webhook_end(root: Path, receiver: WebhookReceiver) -> None:
    """Removal takes the table and the secret; nothing more is sent."""
    secret = read_config(root).webhooks()[0].secret_file
    assert secret.stat().st_mode & 0o077 == 0
    remove_webhook(root, receiver.url)
    assert not secret.exists()
    assert read_config(root).webhooks() == ()
    with pytest.raises(InputError, match="webhooks ls"):
        remove_webhook(root, receiver.url)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('url = "https://example.org/"', "line 2: a webhook needs secret_file"),
        ('secret_file = "s"', "line 2: a webhook needs url"),
        ('url = "https://example.org/"\nsecret_file = "s"\nevents = ["page"]', "line 5: events must be"),
        ('url = "https://example.org/"\nsecret_file = "s"\nsecret = "x"', "line 5: a webhook has no 'secret'"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, text: str, fault: str) -> None:
    """`weboid config check` and every command that sends events report them."""
    (tmp_path / "weboid.toml").write_text(f"# a comment\n[[webhooks]]\n{text}\n")

    assert any(fault in each for each in config_faults(read_config(tmp_path)))
    with pytest.raises(ConfigError, match="line"):
        WebhookEmitter(tmp_path, LOCAL, clock=SystemClock())


def test_a_webhook_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    """Comments and other tables stay as they were."""
    text = "# ours\n[visit]\ntimeout_s = 50 # slow\n"
    (tmp_path / "weboid.toml").write_text(text)
    add_webhook(tmp_path, "https://example.org/a", ["link.died"])
    add_webhook(tmp_path, "https://example.org/b")
    remove_webhook(tmp_path, "https://example.org/a")

    written = (tmp_path / "weboid.toml").read_text()
    assert written.startswith(text)
    assert [each.url for each in read_config(tmp_path).webhooks()] == ["https://example.org/b"]
    assert json.loads(json.dumps(read_config(tmp_path).document))["visit"] == {"timeout_s": 50}
