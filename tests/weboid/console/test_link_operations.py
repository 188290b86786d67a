"""Links in the console's API."""

from collections.abc import Iterator

import httpx
import pytest

from links.feedback.replacements import ProposalStage
from links.states import LinkState
from tests.support.console_server import ServedConsole, api_client
from tests.support.registry_builder import WIKI, RegistryBuilder
from tests.weboid.console.sample_collection import DAYS_COUNTED

URL = "https://viaduct.org/arches"
OTHER = "https://www.viaduct.org/"


@pytest.fixture
def client(console: ServedConsole) -> Iterator[httpx.Client]:
    """Yield an HTTP client with an operator's session."""
    with api_client(console.address, console.sessions["operator"]) as it:
        yield it


@pytest.fixture
def registry_builder(console: ServedConsole) -> RegistryBuilder:
    """Return the builder of the collection's registry, with one page more."""
    registry_builder = RegistryBuilder(console.stores.registry.store())
    registry_builder.page(3, "Viaduct", URL, OTHER)
    return registry_builder


def test_links_are_listed_by_state_host_pattern_and_page(
    client: httpx.Client, registry_builder: RegistryBuilder
) -> None:
    """In parts, each once; an unknown page is 404."""
    registry_builder.state(OTHER, LinkState.ALIVE)
    urls: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        part = client.get("/links", params={"limit": 10, "cursor": cursor}).json()
        urls += [each["url"] for each in part["links"]]
        cursor = part["next"]
    of_host = client.get("/links", params={"host": "museum.example", "state": "dead"}).json()["links"]
    by_pattern = client.get("/links", params={"pattern": "*.viaduct.org", "wiki": WIKI}).json()["links"]
    page = client.get("/links/page", params={"wiki": WIKI, "title": "Viaduct"}).json()

    assert len(urls) == len(set(urls)) > 36
    assert {(each["state"], each["url"].split("/")[2]) for each in of_host} == {("dead", "museum.example")}
    assert [each["pages"][0]["title"] for each in by_pattern] == ["Viaduct", "Viaduct"]
    assert {each["url"]: each["state"] for each in page["links"]}[OTHER] == "alive"
    assert client.get("/links/page", params={"wiki": WIKI, "title": "None"}).status_code == 404
    assert client.get("/links", params={"cursor": "x"}).status_code == 422


def test_links_by_state_are_read_by_day(client: httpx.Client, console: ServedConsole) -> None:
    """Of the last 90 days, or from a day on."""
    days = client.get("/links/states").json()["days"]
    newest = client.get("/links/states", params={"since": days[-1]["day"]}).json()["days"]

    assert len(days) == DAYS_COUNTED
    assert [each["day"] for each in days] == sorted(each["day"] for each in days)
    assert newest == days[-1:]
    assert newest[0]["links"]["dead"] > days[0]["links"]["dead"]
    assert client.get("/links/states", params={"since": "0001-01-01"}).json()["days"] == days
    assert client.get("/links/states", params={"since": "yesterday"}).status_code == 422


def test_a_link_is_read_with_its_mark_and_checked_before_others(
    client: httpx.Client, registry_builder: RegistryBuilder
) -> None:
    """Marked and checked by a request each; the marks are listed, and removed."""
    assert registry_builder.wiki()
    made = client.post("/links/marks", json={"url": URL, "kind": "permadead", "reason": "sold"})
    link = client.get("/links/link", params={"url": URL}).json()
    marks = client.get("/links/marks").json()["marks"]
    gone = client.post("/links/marks/remove", json={"mark": str(made.json()["numbers"][0])})
    checks = client.post("/links/checks", json={"url": [URL, OTHER]})

    assert (link["state"], link["mark"]["kind"], link["pages"][0]["title"]) == ("permadead", "permadead", "Viaduct")
    assert [each["pattern"] for each in marks] == [link["mark"]["pattern"]]
    assert gone.json()["removed"] == made.json()["numbers"]
    assert (checks.status_code, checks.json()["queued"]) == (202, 2)
    assert client.get("/links/link", params={"url": URL}).json()["due"] < "2020"
    of_host = client.post("/links/checks", json={"host": "Council.example"})
    assert (of_host.status_code, of_host.json()["queued"]) == (202, 12)
    assert client.post("/links/checks", json={"host": "unknown.example"}).status_code == 404
    assert client.post("/links/checks", json={"host": "council.example", "url": URL}).status_code == 422
    assert client.post("/links/checks", json={}).status_code == 422
    assert client.post("/links/checks", json={"url": "https://unknown.example/"}).status_code == 422
    assert client.get("/links/link", params={"url": "https://unknown.example/"}).status_code == 404


def test_many_links_are_compared_before_they_are_marked(
    client: httpx.Client, registry_builder: RegistryBuilder
) -> None:
    """Each has its ETag in If-Match; one that has changed refuses all."""
    assert registry_builder.wiki()
    tags = [client.get("/links/link", params={"url": each}).headers["etag"] for each in (URL, OTHER)]
    marks = {"url": [URL, OTHER], "kind": "always", "reason": "seen"}
    half = client.post("/links/marks", json=marks, headers={"If-Match": tags[0]})
    made = client.post("/links/marks", json=marks, headers={"If-Match": ", ".join(tags)})
    late = client.post("/links/marks", json=marks, headers={"If-Match": ", ".join(tags)})
    many = client.post("/links/marks", json={**marks, "url": [URL] * 201}, headers={"If-Match": tags[0]})
    client.post("/links/marks/remove", json={"mark": list(map(str, made.json()["numbers"]))})

    assert [each.status_code for each in (half, made, late, many)] == [412, 201, 412, 400]


def test_reports_are_listed_and_removed(client: httpx.Client) -> None:
    """Of a reader or of an account."""
    dead = "https://museum.example/cited/6"
    reported = client.post("/links/reports", json={"url": dead})
    listed = client.get("/links/reports").json()["reports"]
    removed = client.post("/links/reports/withdraw", json={"url": dead})

    assert reported.status_code == 201
    assert dead in {each["url"] for each in listed}
    assert removed.json()["withdrawn"] == 1
    assert dead not in {each["url"] for each in client.get("/links/reports").json()["reports"]}


def test_a_replacement_is_approved_as_it_was_seen(
    client: httpx.Client, registry_builder: RegistryBuilder, console: ServedConsole
) -> None:
    """The address that is proposed by now: 409 for another one; the change is logged with both states."""
    number = registry_builder.state("https://council.example/cited/1", LinkState.DEAD)
    registry_builder.replace(number, "https://new.example/1", ProposalStage.WAITING)
    waiting = client.get("/links/replacements", params={"stage": "waiting"}).json()["replacements"]
    link = {"url": "https://council.example/cited/1"}
    tag = {"If-Match": client.get("/links/link", params=link).headers["etag"]}
    other = client.post("/links/replacements/approve", json={**link, "address": "https://new.example/2"})
    taken = client.post("/links/replacements", json={**link, "address": "https://new.example/2"})
    right = client.post("/links/replacements/approve", json={**link, "address": "https://new.example/1"}, headers=tag)
    again = client.post("/links/replacements/remove", json=link, headers=tag)

    assert [(each["url"], each["stage"]) for each in waiting] == [(link["url"], "waiting")]
    assert [each.status_code for each in (other, taken, right, again)] == [409, 409, 200, 412]
    assert client.get("/links/link", params=link).json()["replacement"]["stage"] == "works"
    entry = console.accounts.log_entries(limit=1)[0]
    assert entry["operation"] == "approve_link_replacement"
    assert '"waiting"' in entry["before"]
    assert '"works"' in entry["after"]
