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
from schemathesis.specs.openapi import checks

from core.clock import SystemClock
from core.config.settings import Settings
from core.layout import Layout
from tests.support.console_server import ServedConsole, api_client, api_document
from tests.support.examples import examples
from tests.support.registry_builder import WIKI
from tests.weboid.console.test_server import URL, ServedAccounts, console, whole  # noqa: F401 fixtures
from weboid.console.accounts import COOKIE, ConsoleRole, SignedInUser
from weboid.console.operations import OPERATIONS, RESOURCES, OperationContext, UnknownThingError
from weboid.console.server import open_stores

METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture
def operator(console: ServedAccounts) -> Iterator[httpx.Client]:  # noqa: F811
    """Yield an HTTP client with an operator's token."""
    with console.token("operator") as client:
        yield client


def test_every_route_needs_a_user_and_its_role(console: ServedAccounts, operator: httpx.Client) -> None:  # noqa: F811
    """Generated from the description: 401 without a user, 403 for the role below, else another answer."""
    document = operator.get("/api/v1/openapi.json").json()
    routes = [(path, method) for path, each in document["paths"].items() for method in each if method in METHODS]
    clients = {role: console.token(role) for role in ConsoleRole}
    with httpx.Client(base_url=console.origin, headers={"Origin": console.origin}, verify=False, timeout=120) as nobody:
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


def test_a_body_is_limited(console: ServedAccounts, operator: httpx.Client) -> None:  # noqa: F811
    """Also one without a length, which nobody without an account can have read."""

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * (1 << 16)

    with httpx.Client(
        base_url=console.origin, headers={"Origin": console.origin}, verify=False, timeout=120
    ) as stranger:
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
            RESOURCES["list_links"].perform(context)


def test_scopes_limit_a_token(console: ServedAccounts) -> None:  # noqa: F811
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

    with httpx.Client(base_url=operator.base_url, headers=operator.headers, verify=False, timeout=120) as other:
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


def test_what_a_change_replaced_is_logged(console: ServedAccounts, operator: httpx.Client) -> None:  # noqa: F811
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
    queued_urls: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        part = operator.get("/api/v1/queue/items", params={"cursor": cursor}).json()
        queued_urls += [each["url"] for each in part["items"]]
        cursor = part["next"]

    assert len(queued_urls) == len(set(queued_urls))
    assert set(urls) <= set(queued_urls)


def test_changes_are_logged(console: ServedAccounts, operator: httpx.Client) -> None:  # noqa: F811
    """The audit log has actor, operation and result, of refused changes, too; it never has passwords."""
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
def test_events_end_with_their_session_or_token(console: ServedAccounts, ends: str) -> None:  # noqa: F811
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
def no_tasks(whole: ServedAccounts) -> Iterator[None]:  # noqa: F811
    """Hold the lock of the background tasks, as another console would: what is generated is queued only."""
    path = whole.layout.root / "cache" / "tasks" / ".lock"
    path.parent.mkdir(parents=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def described(whole: ServedAccounts) -> Iterator[tuple[Any, str]]:  # noqa: F811
    """Yield the description as the API gives it, and an operator's authorization: one token for all routes."""
    with whole.token("operator") as client:
        document = client.get("/api/v1/openapi.json").json()
        yield schemathesis.openapi.from_dict(document), client.headers["authorization"]


# What any value may be of: settings as their own pages describe them, announcements of processes, results of commands.
UNTYPED = {
    *("FrontierOverview.proxies.*", "FrontierOverview.workers.*", "WikiFacts.settings", "TaskFacts.result"),
    *("QueuedTask.result", "SettingFacts.value", "SettingFacts.default", "ProfileFacts.sheets[]"),
    *("SheetFacts.settings.*", "ChangedSheet.settings.*"),
}


def untyped(schema: dict[str, Any], place: str) -> Iterator[str]:
    """Yield the places of a schema that take any value, or any object."""
    if not schema.keys() & {"type", "enum", "const", "anyOf", "$ref"}:
        yield place
    elif schema.get("type") == "object" and "properties" not in schema:
        inner = schema.get("additionalProperties")
        yield from untyped(inner, f"{place}.*") if isinstance(inner, dict) else [place]
    for name, each in schema.get("properties", {}).items():
        yield from untyped(each, f"{place}.{name}")
    for each in schema.get("anyOf", ()):
        yield from untyped(each, place)
    if "items" in schema:
        yield from untyped(schema["items"], f"{place}[]")


def referenced(schema: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return `schemas` with the named schemas that a schema refers to, directly or through others."""
    if isinstance(schema, list):
        for each in schema:
            referenced(each, schemas)
    elif isinstance(schema, dict):
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name and name not in schemas:
            schemas[name] = api_document()["components"]["schemas"][name]
            referenced(schemas[name], schemas)
        for each in schema.values():
            referenced(each, schemas)
    return schemas


def test_every_answer_is_described_with_its_fields() -> None:
    """No answer is any value or any object, nor is a field of one but those that are listed; objects have no others."""
    schemas: dict[str, Any] = {}
    for path, methods in api_document()["paths"].items():
        for method, each in methods.items():
            for status, response in each["responses"].items():
                for media_type, content in response.get("content", {}).items():
                    if "json" in media_type:
                        assert not list(untyped(content["schema"], "")), (path, method, status)
                        referenced(content["schema"], schemas)

    assert {place for name, each in schemas.items() for place in untyped(each, name)} == UNTYPED
    assert [name for name, each in schemas.items() if "properties" in each and each["additionalProperties"]] == []


LIBRARY, GONE, NEW = "https://library.example/cited/1", "https://library.example/cited/7", "https://new.example/"
SEEDS = '[[seed]]\nurl = "https://seed.example/"\n'
# One request for each operation and resource, in an order in which each finds what it needs.
REQUESTS: dict[str, Any] = {
    "save_capture": {"url": NEW}, "read_item": {"url": NEW}, "move_items": {"url": NEW}, "drop_items": {"url": NEW},
    "create_crawl": {"urls": NEW, "name": "answers"}, "change_limits": {"name": "answers", "pages": 7},
    "read_job": {"name": "council-2026"}, "read_limits": {"name": "council-2026"}, "stop_crawl": {}, "pause_crawl": {}, "read_crawl": {}, "resume_crawl": {},
    "pause_host": {"host": "museum.example"}, "read_host": {"host": "museum.example"},
    "read_block": {"host": "museum.example"}, "change_password": {"password": "correct horse battery"},
    "resume_host": {"host": "museum.example"}, "retry_items": {"state": "dead"}, "queue_list": {"urls": [NEW, "x"]},
    "add_policy": {"pattern": "new.example", "reason": "full", "duration": "1d"}, "list_policy": {},
    "remove_policy": lambda had: {"entry_id": had["add_policy"]["id"]},
    "add_takedown": {"url": NEW}, "read_takedowns": {}, "lift_takedown": {"number": 1},
    "set_level": {"domain": "new.example", "level": "text"}, "read_level": {"link": NEW},
    "set_user": {"name": "New", "role": "reader"}, "list_users": {}, "remove_user": {"name": "New"},
    "add_token": {"name": "new"}, "list_tokens": {},
    "remove_token": lambda had: {"id": had["list_tokens"]["tokens"][0]["id"]},
    "list_links": {"host": "library.example"}, "read_link_states": {}, "check_links": {"url": LIBRARY},
    "read_page_links": {"wiki": WIKI, "title": "Steam engine"},
    "mark_links": {"url": LIBRARY, "kind": "permadead", "reason": "sold"}, "read_link": {"url": LIBRARY},
    "list_marks": {}, "remove_marks": {"mark": LIBRARY},
    "report_links": {"url": GONE}, "list_link_reports": {}, "withdraw_link_reports": {"url": GONE},
    "propose_link_replacement": {"url": GONE, "address": "https://museum.example/moved"},
    "list_link_replacements": {},
    "approve_link_replacement": {"url": GONE, "address": "https://museum.example/moved"},
    "remove_replacement": {"url": GONE},
    "list_bots": {}, "read_bot": {"wiki": WIKI}, "set_bot": {"wiki": WIKI, "enabled": False},
    "switch_bot": {"wiki": WIKI, "enabled": False, "domain": "new.example"}, "list_pages_to_repair": {"wiki": WIKI},
    "list_bot_edits": {"state": "reverted"},
    "read_edit": lambda had: {"edit": had["list_bot_edits"]["edits"][0]["edit"]},
    "review_edit": lambda had: {"edit": had["read_edit"]["edit"], "verdict": "accept"},
    "list_wikis": {}, "list_profiles": {}, "read_profile": {"name": "default"}, "list_logins": {},
    "read_storage": {}, "read_settings": {}, "search_texts": {"q": "all"},
    "write_settings": lambda had: {"text": had["read_settings"]["text"] + SEEDS},
    "crawl_configured": {}, "set_host_delay": {"host": "new.example", "delay_s": 3}, "list_sheets": {},
    "set_sheet": {"prefix": "new.example", "settings": {"visit": {"timeout_s": 90}}},
    "remove_sheet": {"prefix": "new.example"}, "list_tasks": {}, "list_incoming_files": {}, "read_quality": {},
    "list_quality_checks": {}, "who_am_i": {}, "read_status": {}, "list_captures": {},
    "read_capture": lambda had: {"page_id": had["list_captures"]["captures"][0]["page_id"]},
    "list_queue": {}, "scan_queue": {"state": "dead"}, "list_hosts": {}, "list_crawls": {}, "read_health": {},
    "read_audit": {},
}  # fmt: skip
# They need a wiki to edit, or commands that run: the tests of their modules compare the answers.
ELSEWHERE = {
    *("preview_repair", "approve_repair", "skip_repair", "start_export", "start_import", "start_quality_run"),
    *("start_quality_report", "stop_task", "read_task", "download_task_file", "remove_incoming_file", "upload_file"),
    *("review_copy", "read_quality_check", "send_events"),
}


def test_answers_are_as_described(served: ServedConsole) -> None:
    """Those of each operation and resource, at a collection in the middle of a crawl; the client compares them."""
    had: dict[str, Any] = {}
    routes = {
        each["operationId"]: (method, path)
        for path, methods in api_document()["paths"].items()
        for method, each in methods.items()
    }
    with api_client(served.address, served.sessions["admin"]) as client:
        for name, fields in REQUESTS.items():
            given_fields = fields(had) if callable(fields) else fields
            method, path = routes[name]
            how = "params" if method == "get" else "json"
            response = client.request(method, path.format(**given_fields), **{how: given_fields})
            assert response.status_code < 300, (name, response.text)
            had[name] = response.json()

    assert routes.keys() - REQUESTS.keys() == ELSEWHERE


READ = ("list_captures", "read_capture", "list_queue", "scan_queue", "list_hosts", "read_audit")
CONFORMANCE = [checks.response_schema_conformance, checks.content_type_conformance, checks.status_code_conformance]
NAMES = [*sorted(OPERATIONS), *READ, *sorted(RESOURCES), "upload_file"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_is_described_is_an_internal_error(
    whole: ServedAccounts,  # noqa: F811
    described: tuple[Any, str],
    name: str,
) -> None:
    """Whatever it says: a result, or a problem that names what is wrong, each in its described form."""
    api, authorization = described

    @given(case=api.find_operation_by_id(name).as_strategy())
    @settings(max_examples=examples(5), suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
    def hold(case: Any) -> None:
        answer = case.call(base_url=f"{whole.origin}/api/v1", headers={"Authorization": authorization})
        assert answer.status_code < 500, answer.text
        case.validate_response(answer, checks=CONFORMANCE)

    hold()
