"""`weboid webhooks`, and the events of an archiving run."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.support.commands import WeboidRunner
from tests.weboid.app.webhooks.test_webhook_sender import WebhookReceiver, receiver  # noqa: F401 a fixture

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "reference" / "webhook.schema.json").read_text())


@pytest.fixture
def weboid(tmp_path: Path) -> WeboidRunner:
    """Return a runner on a collection that may reach loopback."""
    made = WeboidRunner(tmp_path, tmp_path / "profile.toml")
    assert made.call("init", "--contact", "me@example.org").code == 0
    with (made.collection / "weboid.toml").open("a") as file:
        file.write('\n[egress]\nallow = ["127.0.0.0/8"]\n[proxy]\ndisk_reserve_bytes = 0\n')
    return made


def test_webhooks_are_added_tested_listed_and_removed(weboid: WeboidRunner, receiver: WebhookReceiver) -> None:  # noqa: F811
    """Each command ends with the result in its exit code, and its JSON has the facts."""
    assert weboid.call("webhooks", "add", receiver.url, "--event", "disk.low").code == 0
    receiver.answers = [(500, {})]
    failed = weboid.call("webhooks", "send", "--test", receiver.url)
    sent = weboid.call("webhooks", "send", "--test", receiver.url, "--json")
    listed = json.loads(weboid.call("webhooks", "ls", "--json").out)
    logged = json.loads(weboid.call("webhooks", "ls", "--deliveries", "--json").out)
    due = weboid.call("webhooks", "send", "--json")

    assert (failed.code, failed.out) == (1, "Not delivered: HTTP 500.\n")
    assert (sent.code, json.loads(sent.out)["status"]) == (0, 204)
    assert [(each["url"], each["events"], each["queued"]) for each in listed] == [(receiver.url, ["disk.low"], 0)]
    assert sorted(each["state"] for each in logged) == ["delivered", "failed"]
    assert json.loads(due.out) == {"attempts": 0}
    assert weboid.call("config", "check").code == 0
    assert weboid.call("webhooks", "add", receiver.url).code == 2
    assert weboid.call("webhooks", "rm", receiver.url).code == 0
    assert weboid.call("webhooks", "send", "--test", receiver.url).code == 2


@pytest.mark.browser
@pytest.mark.proxy
def test_a_run_reports_pages_changes_and_its_end(weboid: WeboidRunner, receiver: WebhookReceiver) -> None:  # noqa: F811
    """The second capture of a page with another text is a change; every body follows the schema."""
    assert weboid.call("webhooks", "add", receiver.url).code == 0
    page = receiver.url.replace("/hook", "/page")
    bodies: list[dict[str, Any]] = []
    for text in ("A first text", "Quite another text"):
        receiver.page = f"<title>{text}</title><p>{text}".encode()
        assert weboid.run("archive", page, "--again").code == 0
        while not bodies or bodies[-1]["type"] != "crawl.finished":
            bodies.append(receiver.verified(weboid.collection))
        bodies.append({"type": ""})

    bodies = [each for each in bodies if each["type"]]
    types = [each["type"] for each in bodies]
    assert types == ["page.archived", "crawl.finished", "page.archived", "page.changed", "crawl.finished"]
    archived, _, _, changed, _ = (each["data"]["items"][0] for each in bodies)
    assert (archived["url"], archived["title"]) == (page, "A first text")
    assert (changed["title"], changed["previous_page_id"]) == ("Quite another text", archived["page_id"])
    for each in bodies:
        jsonschema_rs.validate(SCHEMA, each)
