"""The console's HTTP API."""

import fcntl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from core.clock import SystemClock
from core.config.settings import Settings
from core.layout import Layout
from tests.support.examples import examples
from tests.weboid.console.test_server import URL, Served, console, whole  # noqa: F401 fixtures
from weboid.console.accounts import COOKIE, ConsoleRole, SignedInUser
from weboid.console.operations import OPERATIONS, RESOURCES, OperationContext, UnknownThingError
from weboid.console.server import open_stores

METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture
def operator(console: Served) -> Iterator[httpx.Client]:  # noqa: F811
    """A program with an operator's token."""
    with console.token("operator") as client:
        yield client


def test_every_route_needs_a_user_and_its_role(console: Served, operator: httpx.Client) -> None:  # noqa: F811
    """Generated from the description: 401 without a user, 403 for the role below, else another answer."""
    document = operator.get("/api/v1/openapi.json").json()
    routes = [(path, method) for path, each in document["paths"].items() for method in each if method in METHODS]
    clients = {role: console.token(role) for role in ConsoleRole}
    with httpx.Client(base_url=console.origin, headers={"Origin": console.origin}, verify=False) as nobody:
        for path, method in routes:
            address = "/api/v1" + path.replace("{page_id}", "x")
            if path != "/events":
                assert nobody.request(method, address, json={}).status_code == 401, (path, method)
    for path, method in routes:
        role = ConsoleRole(document["paths"][path][method]["x-role"])
        address = "/api/v1" + path.replace("{page_id}", "x")
        for each, client in clients.items():
            if list(ConsoleRole).index(each) < list(ConsoleRole).index(role):
                assert client.request(method, address, json={}).status_code == 403, (path, method, each)
    for client in clients.values():
        client.close()

    assert len(routes) > 30


def test_a_body_is_limited(console: Served, operator: httpx.Client) -> None:  # noqa: F811
    """Also one without a length, which nobody without an account can have read."""

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * (1 << 16)

    with httpx.Client(base_url=console.origin, headers={"Origin": console.origin}, verify=False) as stranger:
        assert stranger.post("/api/v1/captures", content=endless()).status_code == 401
    answer = operator.post("/api/v1/captures", content=endless(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")


def test_a_saved_url_is_followed(operator: httpx.Client) -> None:
    """202 with where it is found; then its state in the queue."""
    answer = operator.post("/api/v1/captures", json={"url": "https://followed.example/a#b"})
    item = operator.get(answer.headers["location"])

    assert answer.status_code == 202
    assert item.json()["item"]["state"] == "queued"


def test_errors_are_problem_details(operator: httpx.Client) -> None:
    """RFC 9457 for every kind of error, with the fields that are wrong."""
    answers = [
        operator.post("/api/v1/captures", json={"url": 7, "other": 1}),
        operator.post("/api/v1/captures", content=b"{", headers={"Content-Type": "application/json"}),
        operator.post("/api/v1/captures", json={"url": "no url"}),
        operator.get("/api/v1/captures/none"),
        operator.get("/api/v1/nothing"),
        operator.delete("/api/v1/captures"),
    ]

    assert [each.status_code for each in answers] == [422, 422, 422, 404, 404, 405]
    assert {each.headers["content-type"] for each in answers} == {"application/problem+json"}
    assert [each["field"] for each in answers[0].json()["errors"]] == ["url", "other"]


def test_operations_on_links_name_what_is_missing(tmp_path: Path) -> None:
    """A collection without a registry is no internal error."""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    with open_stores(layout, Settings(), clock=SystemClock()) as stores:
        context = OperationContext(stores, SignedInUser("ada", ConsoleRole.ADMIN))
        with pytest.raises(UnknownThingError, match="weboid wiki add"):
            RESOURCES["list_links"].read(context, RESOURCES["list_links"].query())


def test_scopes_limit_a_token(console: Served) -> None:  # noqa: F811
    """To the operations that it names."""
    with console.token("operator", "save_capture") as client:
        assert client.post("/api/v1/captures", json={"url": URL}).status_code == 202
        assert client.post("/api/v1/crawl/pause", json={}).status_code == 403
        assert client.get("/api/v1/queue").status_code == 403


def test_a_repeated_request_is_carried_out_once(operator: httpx.Client) -> None:
    """Also when both are under way at the same time; another request with the key is refused."""
    headers = {"Idempotency-Key": "once"}
    body = {"pattern": "once.example", "reason": "seen"}
    answers: list[httpx.Response] = []

    def send() -> None:
        answers.append(operator.post("/api/v1/policy", json=body, headers=headers))

    with httpx.Client(base_url=operator.base_url, headers=operator.headers, verify=False) as other:
        threads = [threading.Thread(target=send) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        differs = other.post("/api/v1/policy", json={**body, "reason": "twice"}, headers=headers)

    assert len({each.text for each in answers}) == 1
    assert answers[0].status_code == 201
    assert differs.status_code == 422


def test_an_unchanged_resource_is_not_sent_again(operator: httpx.Client) -> None:
    """Its ETag comes back as 304."""
    first = operator.get("/api/v1/crawls")
    again = operator.get("/api/v1/crawls", headers={"If-None-Match": first.headers["etag"]})

    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_of_two_operators_the_second_learns_of_the_first(operator: httpx.Client) -> None:
    """If-Match with the state that was seen: 412 after it has changed."""
    operator.post("/api/v1/captures", json={"url": URL})
    operator.post("/api/v1/crawl/resume", json={})  # of what an earlier test paused
    seen = {"If-Match": operator.get("/api/v1/crawl").headers["etag"]}

    first = operator.post("/api/v1/crawl/pause", json={}, headers=seen)
    second = operator.post("/api/v1/crawl/resume", json={}, headers=seen)
    third = operator.post("/api/v1/crawl/resume", json={}, headers={"If-Match": "*"})

    assert [each.status_code for each in (first, second, third)] == [200, 412, 200]
    assert operator.post("/api/v1/hosts/pause", json={"host": "saved.example"}, headers=seen).status_code == 412
    assert operator.post("/api/v1/queue/retry", json={"state": "dead"}, headers=seen).status_code == 412
    assert operator.post("/api/v1/lists", json={"urls": [URL]}, headers=seen).status_code == 400  # no resource


def test_what_a_change_replaced_is_logged(console: Served, operator: httpx.Client) -> None:  # noqa: F811
    """A level, a take-down, a queued page and a token have a state to compare with, and its change in the audit log."""
    level = {"domain": "level.example"}
    seen = {"If-Match": operator.get("/api/v1/levels", params=level).headers["etag"]}
    operator.post("/api/v1/captures", json={"url": "https://dropped.example/"})
    codes = [
        operator.post("/api/v1/levels", json={**level, "level": "text"}, headers=seen).status_code,
        operator.post("/api/v1/levels", json={**level, "level": "images"}, headers=seen).status_code,
        operator.post("/api/v1/queue/drop", json={"url": "https://dropped.example/"}).status_code,
        operator.post("/api/v1/takedowns", json={"url": "https://gone.example/"}).status_code,
    ]
    entries = console.accounts.log_entries(limit=3)

    assert codes == [200, 412, 200, 201]
    assert [each["operation"] for each in entries] == ["add_takedown", "drop_items", "set_level"]
    assert (entries[2]["before"], entries[2]["after"]) == ('{"rule": null}', '{"rule": "text"}')
    assert '"queued"' in entries[1]["before"]
    assert '"skipped"' in entries[1]["after"]
    assert "gone.example" in entries[0]["after"]


@pytest.mark.slow
def test_a_queue_of_any_length_is_read_in_parts(operator: httpx.Client) -> None:
    """Each of 10,000 items once."""
    urls = [f"https://many.example/{number}" for number in range(10_000)]
    crawl = {"urls": urls, "scope": "page", "name": "many"}
    assert operator.post("/api/v1/crawls", json=crawl, timeout=120).status_code == 201
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        part = operator.get("/api/v1/queue/items", params={"cursor": cursor}).json()
        found += [each["url"] for each in part["items"]]
        cursor = part["next"]

    assert len(found) == len(set(found))
    assert set(urls) <= set(found)


def test_changes_are_logged(console: Served, operator: httpx.Client) -> None:  # noqa: F811
    """Who, what, and its result; refused ones too; passwords never."""
    operator.post("/api/v1/queue/retry", json={"url": "https://unknown.example/"})
    with console.token("admin") as admin:
        admin.post("/api/v1/users", json={"name": "new", "role": "reader", "password": "a long secret"})
        entries = admin.get("/api/v1/audit", params={"limit": 2}).json()["entries"]

    assert [(each["operation"], each["outcome"][:7]) for each in entries] == [
        ("set_user", "done"),
        ("retry_items", "refused"),
    ]
    assert entries[0]["actor"] == "admin:t"
    assert "a long secret" not in str(entries)


def test_events_tell_of_changes(operator: httpx.Client) -> None:
    """The counts at once, and again when they change."""
    with operator.stream("GET", "/api/v1/events") as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        first = next(lines)
        operator.post("/api/v1/captures", json={"url": "https://event.example/"})

        assert next(lines) != first


@pytest.mark.parametrize("ends", ["sign_out", "remove_token"])
def test_events_end_with_their_session_or_token(console: Served, ends: str) -> None:  # noqa: F811
    """A stream that began before is no way to see more."""
    client = console.signed_in("reader") if ends == "sign_out" else console.token("reader")
    with client, client.stream("GET", "/api/v1/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        if ends == "sign_out":
            console.accounts.sign_out(client.cookies[COOKIE])
        else:
            console.accounts.remove_token(console.accounts.tokens()[0]["id"])

        assert len(list(lines)) < 20  # ends


@pytest.fixture(scope="module", autouse=True)
def no_tasks(whole: Served) -> Iterator[None]:  # noqa: F811
    """Another console runs the background tasks: what is generated is queued only."""
    path = whole.layout.root / "cache" / "tasks" / ".lock"
    path.parent.mkdir(parents=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def described(whole: Served) -> Iterator[tuple[Any, str]]:  # noqa: F811
    """The description as the API gives it, and the authorization of an operator: one token for all routes."""
    with whole.token("operator") as client:
        document = client.get("/api/v1/openapi.json").json()
        yield schemathesis.openapi.from_dict(document), client.headers["authorization"]


READ = ("list_captures", "read_capture", "list_queue", "scan_queue", "list_hosts", "read_audit")
NAMES = [*sorted(OPERATIONS), *READ, *sorted(RESOURCES), "upload_file"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_is_described_is_an_internal_error(
    whole: Served,  # noqa: F811
    described: tuple[Any, str],
    name: str,
) -> None:
    """Whatever it says: a result, or a problem that names what is wrong."""
    api, authorization = described

    @given(case=api.find_operation_by_id(name).as_strategy())
    @settings(max_examples=examples(5), suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
    def hold(case: Any) -> None:
        answer = case.call(base_url=f"{whole.origin}/api/v1", headers={"Authorization": authorization})
        assert answer.status_code < 500, answer.text

    hold()
