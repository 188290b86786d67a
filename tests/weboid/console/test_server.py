"""The console's server: sign-in, sessions, forms, roles, and who may not."""

import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.clock import SystemClock
from core.config.settings import Settings
from core.errors import InputError
from core.layout import Layout
from links.registry.database import open_registry_store
from playback.web.rate_limits import TokenRate
from tests.support.clocks import ManualClock
from tests.support.console_server import CHECKED, serving
from weboid.console.accounts import (
    COOKIE,
    FAILURES,
    TOKENS_LIMIT,
    VERIFIED_AT_ONCE,
    AccountStore,
    ConsoleRole,
    SignedInUser,
    SignInDelayError,
    SignInError,
)
from weboid.console.operations import OPERATIONS
from weboid.console.server import create_app, open_stores

PASSWORD = "correct horse battery"
URL = "https://saved.example/"


@dataclass
class ServedAccounts:
    """A served console with an account of each role, named after it."""

    origin: str
    accounts: AccountStore
    clock: ManualClock
    layout: Layout

    def client(self, **headers: str) -> httpx.Client:
        """Return an HTTP client that is not signed in."""
        headers = {"Origin": self.origin, **headers}
        return httpx.Client(base_url=self.origin, headers=headers, timeout=120, verify=False, event_hooks=CHECKED)

    def signed_in(self, role: str) -> httpx.Client:
        """Return an HTTP client with a session of that role."""
        client = self.client()
        secret = self.accounts.use_link(self.accounts.make_link(role))
        client.cookies.set(COOKIE, secret, domain="127.0.0.1")
        return client

    def token(self, role: str, *scopes: str) -> httpx.Client:
        """Return an HTTP client with a token of that role."""
        owner = SignedInUser(role, ConsoleRole(role))
        secret = self.accounts.add_token("t", owner, ConsoleRole(role), scopes=scopes)
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx.Client(base_url=self.origin, headers=headers, timeout=120, verify=False, event_hooks=CHECKED)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedAccounts]:
    """Serve the console of a new collection."""
    layout = Layout(tmp_path_factory.mktemp("console") / "collection")
    layout.marker.parent.mkdir(parents=True)
    layout.frontier_db.parent.mkdir()
    open_registry_store(layout).close()
    clock = ManualClock(SystemClock().now())
    with open_stores(layout, Settings(), clock=clock) as stores:
        for role in ConsoleRole:
            stores.accounts.set_user(role, role, password=PASSWORD if role is ConsoleRole.ADMIN else None)
        with serving(lambda origin: create_app(stores, origin=origin)) as origin:
            yield ServedAccounts(origin, stores.accounts, clock, layout)


@pytest.fixture
def console(whole: ServedAccounts) -> Iterator[ServedAccounts]:
    """Yield the same console; reset its clock afterwards."""
    yield whole
    whole.clock.seconds = 0


def csrf_of(client: httpx.Client) -> str:
    """Return the CSRF token of the session's forms."""
    match = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get("/console").text)
    assert match
    return match[1]


def test_a_password_signs_in_and_sign_out_ends_the_session(console: ServedAccounts) -> None:
    """The cookie is for this site and no script; after the end it is worth nothing."""
    with console.client() as client:
        answer = client.post("/sign-in", data={"name": "admin", "password": PASSWORD})
        assert {"HttpOnly", "SameSite=strict"} <= set(answer.headers["set-cookie"].split("; "))
        secret = client.cookies[COOKIE]
        assert client.get("/console").status_code == 200

        client.post("/do/sign_out", data={"csrf": csrf_of(client)})

        client.cookies.set(COOKIE, secret, domain="127.0.0.1")
        assert client.get("/console").headers["location"] == "/sign-in"


def test_failed_sign_ins_make_the_next_ones_wait(console: ServedAccounts) -> None:
    """Also with the right password, each time longer; an unknown name gets the same answers."""
    waits = []
    with console.client() as client:
        for name in ("nobody", "admin"):
            answers = [client.post("/sign-in", data={"name": name, "password": f"wrong {n}"}) for n in range(6)]
            waits.append([each.headers.get("retry-after", "-") for each in answers])
        console.clock.seconds = 3
        again = client.post("/sign-in", data={"name": "admin", "password": "wrong"})
        right = client.post("/sign-in", data={"name": "admin", "password": PASSWORD})
        german = client.post("/de/sign-in", data={"name": "admin", "password": PASSWORD})
        console.clock.seconds = 10
        later = client.post("/sign-in", data={"name": "admin", "password": PASSWORD})

    assert [each[:5] for each in waits] == [["-"] * 5] * 2
    assert [each[5] for each in waits] == ["2", "2"]
    assert "Name or password is wrong" in again.text
    assert ("Too many failed attempts" in right.text, right.status_code) == (True, 429)
    assert "Zu viele fehlgeschlagene Versuche" in german.text
    assert later.status_code == 303


def test_attempts_at_the_same_time_have_to_wait_too(console: ServedAccounts) -> None:
    """Most of twenty passwords are not even looked at."""

    def attempt(number: int) -> type[Exception]:
        with pytest.raises(SignInError) as error:
            console.accounts.sign_in("admin", f"wrong {number}", peer="192.0.2.3")
        return error.type

    with ThreadPoolExecutor(20) as pool:
        kinds = list(pool.map(attempt, range(20)))

    assert kinds.count(SignInDelayError) >= 20 - FAILURES - VERIFIED_AT_ONCE


def test_failures_elsewhere_do_not_lock_an_account(console: ServedAccounts) -> None:
    """Only the address with the failures waits, at last for every name."""
    for number in range(20):
        with pytest.raises(SignInError):
            console.accounts.sign_in("admin" if number < 5 else f"x{number}", "wrong", peer="192.0.2.1")
    with pytest.raises(SignInDelayError):
        console.accounts.sign_in("other", "wrong", peer="192.0.2.1")

    assert console.accounts.sign_in("admin", PASSWORD, peer="192.0.2.2")


def test_requests_of_an_account_are_limited(console: ServedAccounts, monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with the time to wait; other accounts go on, and so do the account's other tokens."""
    monkeypatch.setattr("weboid.console.server.ACCOUNT_RATE", TokenRate(0.01, 3))
    with console.token("reader") as client, console.token("curator") as other:
        answers = [client.get("/api/v1/me") for _ in range(5)]
        others = [other.get("/api/v1/me").status_code for _ in range(3)]

    assert [each.status_code for each in answers[-2:]] == [429, 429]
    assert int(answers[-1].headers["retry-after"]) > 50
    assert answers[-1].headers["content-type"] == "application/problem+json"
    assert others == [200, 200, 200]


def test_a_link_signs_in_once(console: ServedAccounts) -> None:
    """After a click, not by being looked at; it is over after half an hour."""
    key = console.accounts.make_link("admin")
    late = console.accounts.make_link("admin")
    with console.client() as client:
        assert client.get("/enter", params={"key": key}).status_code == 200
        assert [client.post("/enter", data={"key": key}).status_code for _ in range(2)] == [303, 401]
        console.clock.seconds = 31 * 60
        assert client.post("/enter", data={"key": late}).status_code == 401


def test_a_locked_file_of_accounts_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 and when to try again, for every way to sign in, pages and the API; a link is not used up."""
    monkeypatch.setattr("weboid.console.accounts.BUSY_TIMEOUT_S", 0.2)
    layout = Layout(tmp_path / "collection")
    layout.databases.mkdir(parents=True)
    with (
        open_stores(layout, Settings(), clock=SystemClock()) as stores,
        serving(lambda origin: create_app(stores, origin=origin)) as origin,
        httpx.Client(base_url=origin, headers={"Origin": origin}, verify=False, timeout=120) as client,
        closing(sqlite3.connect(layout.console_db, isolation_level=None)) as other,
    ):
        key = stores.accounts.make_link("ada")
        session = {"Cookie": f"{COOKIE}={stores.accounts.use_link(stores.accounts.make_link('ada'))}"}
        other.execute("BEGIN IMMEDIATE")
        refused = [
            client.post("/enter", data={"key": key}),
            client.post("/sign-in", data={"name": "ada", "password": PASSWORD}),
            client.get("/console", headers=session),
            client.get("/api/v1/me", headers=session),
        ]
        german = client.post("/de/enter", data={"key": key}).text
        other.execute("ROLLBACK")
        entered = client.post("/enter", data={"key": key})

    assert [(each.status_code, each.headers.get("retry-after")) for each in refused] == [(503, "5")] * 4
    assert f'value="{key}"' in refused[0].text
    assert "does not answer at the moment" in refused[1].text
    assert "Eine Datenbank antwortet gerade nicht" in german
    assert entered.status_code == 303


def test_sign_ins_are_in_the_audit_log(console: ServedAccounts) -> None:
    """With the account's name and how; by a link, too."""
    with console.client() as client:
        client.post("/enter", data={"key": console.accounts.make_link("curator")})
        client.post("/sign-in", data={"name": "admin", "password": PASSWORD})
    lines = [(each["actor"], each["operation"], each["fields"]) for each in console.accounts.log_entries(limit=2)]

    assert lines == [("admin", "sign_in", '{"peer": "127.0.0.1"}'), ("curator", "sign_in", '{"by": "link"}')]


def test_every_answer_has_the_headers_of_a_private_page(console: ServedAccounts) -> None:
    """Of pages, API, style sheets and redirects: nothing guesses its type, frames it or lists it."""
    with console.signed_in("reader") as client:
        answers = [client.get(path) for path in ("/console", "/api/v1/me", "/static/console.css", "/", "/healthz")]

    for each in answers:
        assert each.headers["X-Content-Type-Options"] == "nosniff", each.url
        assert each.headers["X-Frame-Options"] == "DENY", each.url
        assert "noindex" in each.headers["X-Robots-Tag"], each.url


def test_a_page_that_refreshes_itself_leads_to_the_sign_in(console: ServedAccounts) -> None:
    """As a whole, in its language, when its session has ended."""
    with console.client(**{"HX-Request": "true"}) as client:
        answer = client.get("/de/console/crawl")

    assert (answer.status_code, answer.headers["HX-Redirect"]) == (401, "/de/sign-in")


def test_sign_in_links_go_with_a_removed_account(console: ServedAccounts) -> None:
    """Its sign-in link is refused, also when another account gets its name."""
    console.accounts.set_user("leaver", ConsoleRole.ADMIN)
    keys = [console.accounts.make_link("leaver") for _ in range(2)]
    console.accounts.remove_user("leaver")
    with console.client() as client:
        first = client.post("/enter", data={"key": keys[0]}).status_code
        console.accounts.set_user("leaver", ConsoleRole.READER)
        second = client.post("/enter", data={"key": keys[1]}).status_code
    console.accounts.remove_user("leaver")

    assert (first, second) == (401, 401)


def test_an_account_has_a_bounded_number_of_tokens(console: ServedAccounts) -> None:
    """Tokens that are over do not count."""
    owner = SignedInUser("maker", ConsoleRole.READER)
    console.accounts.set_user("maker", ConsoleRole.READER)
    for _ in range(TOKENS_LIMIT):
        console.accounts.add_token("t", owner, ConsoleRole.READER, age=timedelta(minutes=5))
    with pytest.raises(InputError, match="remove one first"):
        console.accounts.add_token("t", owner, ConsoleRole.READER)
    console.clock.seconds = 6 * 60
    console.accounts.add_token("t", owner, ConsoleRole.READER)
    console.accounts.remove_user("maker")


def test_requests_with_other_idempotency_keys_do_not_wait(console: ServedAccounts) -> None:
    """One is answered while another is carried out."""

    def slow() -> dict[str, Any]:
        return {"inner": console.accounts.answer_once("b", "y", lambda: {"n": 1})}

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(console.accounts.answer_once, "a", "x", slow).result(timeout=120) == {"inner": {"n": 1}}


def test_forms_of_other_sites_change_nothing(console: ServedAccounts) -> None:
    """Another origin, none, another session's token and none: each is refused."""
    with console.signed_in("operator") as client, console.signed_in("admin") as other:
        token, foreign = csrf_of(client), csrf_of(other)
        fields = {"url": "https://forged.example/", "csrf": token}
        codes = [
            client.post("/do/save_capture", data=fields, headers={"Origin": "https://evil.example"}).status_code,
            client.post("/do/save_capture", data=fields, headers={"Origin": "null"}).status_code,
            client.post("/do/save_capture", data={**fields, "csrf": foreign}).status_code,
            client.post("/do/save_capture", data={"url": fields["url"]}).status_code,
            client.post("/api/v1/captures", json={"url": fields["url"]}, headers={"Origin": "null"}).status_code,
        ]
        known = client.get("/api/v1/queue/item", params={"url": fields["url"]}).status_code
        program = httpx.post(f"{console.origin}/api/v1/captures", json={"url": URL}, timeout=120)

    assert codes == [403] * 5
    assert program.status_code == 401  # it has no session that another site could use
    assert known == 404


def test_a_form_with_too_many_fields_is_refused(console: ServedAccounts) -> None:
    """Also by the sign-in, which is open to everybody."""
    with console.signed_in("operator") as client:
        codes = [
            client.post(path, data={str(number): "" for number in range(20_001)}).status_code
            for path in ("/sign-in", "/do/save_capture", "/console/crawl/new")
        ]

    assert codes == [413] * 3


def test_a_form_returns_to_its_page_and_nowhere_else(console: ServedAccounts) -> None:
    """With the operation's message; addresses of other sites lead to the overview."""
    with console.signed_in("operator") as client:
        token = csrf_of(client)

        def target(back: str) -> str:
            fields = {"csrf": token, "back": back, "url": URL}
            return str(client.post("/do/save_capture", data=fields).headers["location"])

        assert target("/console/crawl?q=1") == "/console/crawl?q=1&done=save_capture"
        for back in (
            "https://evil.example/console",
            "//evil.example/console",
            "/\\evil.example/console",
            "/\t/e/console",
        ):
            assert target(back) == "/console?done=save_capture"


def test_a_session_that_ends_in_the_middle_of_a_form(console: ServedAccounts) -> None:
    """The form is not carried out; the sign-in shows what was entered, without passwords and as text."""
    with console.signed_in("operator") as client:
        token = csrf_of(client)
        console.clock.seconds = 13 * 3_600
        fields = {"csrf": token, "urls": "https://late.example/\nhttps://two.example/</textarea>", "password": "geheim"}
        answers = [client.post(path, data=fields) for path in ("/do/create_crawl", "/de/console/crawl/new")]

        assert [each.status_code for each in answers] == [401, 401]
        assert "https://two.example/&lt;/textarea&gt;" in answers[0].text
        assert not any(token in each.text or "geheim" in each.text for each in answers)
        assert "Ihre Sitzung ist beendet" in answers[1].text
        assert 'action="/de/sign-in"' in answers[1].text
        assert client.get("/console").headers["location"] == "/sign-in"


def test_a_refused_form_shows_what_was_entered(console: ServedAccounts) -> None:
    """Beside the reason, as text, without passwords."""
    with console.signed_in("admin") as client:
        fields = {"csrf": csrf_of(client), "pattern": "re:(", "reason": "a long <b>reason</b>"}
        wrong = client.post("/do/add_policy", data=fields).text
        account = {"csrf": fields["csrf"], "name": "a:b", "role": "reader", "password": "very secret one"}
        secret = client.post("/do/set_user", data=account).text

    assert "not a regular expression" in wrong
    assert 'value="a long &lt;b&gt;reason&lt;/b&gt;"' in wrong
    assert 'value="a:b"' in secret
    assert "very secret one" not in secret


def test_a_form_is_refused_in_the_language_of_its_page(console: ServedAccounts) -> None:
    """For a missing field, for fields that do not go together, and with the values of the text."""
    with console.signed_in("admin") as client:
        token = csrf_of(client)
        account = {"name": "eve", "role": "reader", "password": "short"}
        forms: tuple[tuple[str, dict[str, str]], ...] = (
            ("add_policy", {"pattern": "a.example"}),
            ("retry_items", {}),
            ("set_user", account),
            ("remove_token", {"id": "7"}),
        )
        english, german = (
            [client.post(f"{language}/do/{name}", data={"csrf": token, **fields}).text for name, fields in forms]
            for language in ("", "/de")
        )

    for text, message in zip(
        english, ("reason: Field required", "Name one URL", "at least 10 characters", "no token 7"), strict=True
    ):
        assert message in text
    for text, message in zip(
        german, ("ist erforderlich", "einen Zustand an: dead", "mindestens 10 Zeichen", "kein Token 7"), strict=True
    ):
        assert message in text


def test_a_page_that_refreshes_itself_does_not_keep_the_session(console: ServedAccounts) -> None:
    """Twelve hours after the last request of a person it is over."""
    codes = []
    for headers in ({"HX-Request": "true"}, {}):
        console.clock.seconds = 0
        with console.signed_in("reader") as client:
            for hours in (7, 14):
                console.clock.seconds = hours * 3_600
                codes.append(client.get("/console", headers=headers).status_code)

    assert codes == [200, 401, 200, 200]


def test_a_token_gets_the_chosen_operations(console: ServedAccounts) -> None:
    """One or several of a form; it is shown once."""
    with console.signed_in("operator") as client:
        token = csrf_of(client)
        for chosen in (["read"], ["read", "save_capture"]):
            form = {"csrf": token, "name": "chosen", "role": "operator", "duration": "1d", "scopes": chosen}
            assert "weboid_" in client.post("/do/add_token", data=form).text
            assert console.accounts.tokens("operator")[0]["scopes"] == chosen


def test_a_user_changes_the_own_password(console: ServedAccounts) -> None:
    """With the present one; other sessions end, the own one stays. One who has none sets it without."""
    console.accounts.set_user("changer", ConsoleRole.READER)
    with console.signed_in("changer") as client, console.signed_in("changer") as other:

        def change(current: str, password: str) -> httpx.Response:
            fields = {"csrf": csrf_of(client), "current": current, "password": password, "back": "/console/users"}
            return client.post("/do/change_password", data=fields)

        first = change("", PASSWORD)
        wrong, short = change("wrong", "another long one"), change(PASSWORD, "short")
        second = change(PASSWORD, "another long one")
        codes = [each.get("/console").status_code for each in (client, other)]
        signed_in = client.post("/sign-in", data={"name": "changer", "password": "another long one"}).status_code
    logged = [f"{each['fields']} {each['outcome']}" for each in console.accounts.log_entries(limit=5)]
    console.accounts.remove_user("changer")

    assert [each.status_code for each in (first, wrong, short, second)] == [303, 422, 422, 303]
    assert (codes, signed_in) == ([200, 303], 303)
    assert not any(PASSWORD in each or "another" in each for each in logged)


def test_tokens_and_accounts_of_a_provider_change_no_password(console: ServedAccounts) -> None:
    """The provider decides who comes in, and a token is no person."""
    secret = console.accounts.sign_in_subject("https://id.example 7", "Provided", ConsoleRole.READER)
    user = console.accounts.session(secret)
    assert user is not None
    with pytest.raises(InputError, match="Only accounts that sign in with a password"):
        console.accounts.change_password(user, "", PASSWORD)
    with console.token("admin") as client:
        refused = client.post("/api/v1/me/password", json={"current": PASSWORD, "password": "another long one"})
    console.accounts.remove_user("Provided")

    assert refused.status_code == 422


def test_a_changed_role_ends_the_sessions(console: ServedAccounts) -> None:
    """And a removed account those of its tokens."""
    console.accounts.set_user("guest", ConsoleRole.OPERATOR)
    owner = SignedInUser("guest", ConsoleRole.OPERATOR)
    secret = console.accounts.add_token("t", owner, ConsoleRole.OPERATOR)
    with console.signed_in("guest") as client:
        assert client.get("/console").status_code == 200
        console.accounts.set_user("guest", ConsoleRole.READER)
        assert client.get("/console").status_code == 303
    role = console.accounts.token(secret)
    console.accounts.remove_user("guest")

    assert role is not None
    assert role.role is ConsoleRole.READER  # a token has no higher role than its owner
    assert console.accounts.token(secret) is None


def test_every_form_needs_its_role(console: ServedAccounts) -> None:
    """Each operation, by an account of the role below it."""
    below = dict(zip(list(ConsoleRole)[1:], ConsoleRole, strict=False))
    clients: dict[ConsoleRole, tuple[httpx.Client, str]] = {}
    for role in ConsoleRole:
        client = console.signed_in(role)
        clients[role] = client, csrf_of(client)
    for operation in OPERATIONS.values():
        if operation.role in below:
            client, token = clients[below[operation.role]]
            answer = client.post(f"/do/{operation.name}", data={"csrf": token})
            assert answer.status_code == 403, operation.name
        client, token = clients[operation.role]
        enough: Any = client.post(f"/do/{operation.name}", data={"csrf": token, "unknown": "1"})
        assert enough.status_code == 422, operation.name
    for client, _ in clients.values():
        client.close()


def test_failed_sign_ins_behind_a_proxy_are_counted_by_client(tmp_path: Path) -> None:
    """With an https origin the proxy on this machine names them; without one the header is not believed."""
    layout = Layout(tmp_path / "collection")
    layout.databases.mkdir(parents=True)

    def codes(given: str) -> list[int]:
        def sign_in(password: str, address: str) -> int:
            headers = {"Host": host, "Origin": f"{scheme}://{host}", "X-Forwarded-For": address}
            return client.post("/sign-in", data={"name": "ada", "password": password}, headers=headers).status_code

        with serving(lambda own: create_app(stores, origin=given or own)) as own:
            scheme, _, host = (given or own).partition("://")
            with httpx.Client(base_url=own, verify=False, timeout=120) as client:
                for n in range(5):
                    sign_in(f"wrong {n}", "203.0.113.7")
                return [sign_in(PASSWORD, f"203.0.113.{n}") for n in (7, 8)]

    with open_stores(layout, Settings(), clock=ManualClock(SystemClock().now())) as stores:
        stores.accounts.set_user("ada", ConsoleRole.ADMIN, password=PASSWORD)

        assert codes("https://console.example") == [429, 303]
        assert codes("") == [429, 429]
