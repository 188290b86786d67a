"""The commands on a captures index in PostgreSQL, as a user types them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import WeboidRunner
from tests.support.services.redis_server import RedisServer
from tests.support.stored_records import RULES

pytestmark = [pytest.mark.browser, pytest.mark.proxy]


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """Start the Redis of the dedup index that belongs to the captures index."""
    server = RedisServer(tmp_path / "redis")
    yield server
    server.stop()


def test_every_command_reads_and_writes_the_index_that_it_is_told(
    weboid: WeboidRunner, redis_server: RedisServer, database_url: str
) -> None:
    """`archive`, `status`, `verify`, `collection rebuild` and `doctor`; the collection has none of its own."""
    profile = weboid.profile.read_text()
    assert "[proxy]\n" in profile
    dedup = f'[proxy]\ndedup_url = "{redis_server.url}"\n'
    weboid.profile.write_text(profile.replace("[proxy]\n", dedup))
    options = ("--database", database_url)
    page = f"{RULES}/page/plain"
    assert weboid.archive(page, *options).summary["outcomes"] == {"complete": 1}
    assert weboid.archive(page, *options).summary["outcomes"] == {}
    status = json.loads(weboid.call("status", "--json", *options).out)
    assert status["outcomes"] == {"complete": 1}
    assert status["responses"] >= 1
    verified = weboid.call("verify", *options)
    assert verified.code == 0, verified.out
    rebuilt = weboid.call("collection", "rebuild", "--profile", str(weboid.profile), *options)
    assert "captures of 1 page in" in rebuilt.out
    assert weboid.call("verify", *options).code == 0
    refused = weboid.call("status", "--database", "postgresql://127.0.0.1:1/none")
    assert (refused.code, "Start PostgreSQL there" in refused.err) == (3, True)

    weboid.profile.write_text(f'{weboid.profile.read_text()}\n[index]\nurl = "{database_url}"\n')
    findings = json.loads(weboid.call("doctor", "--profile", str(weboid.profile), "--json").out)
    assert {each["subject"]: each["health"] for each in findings}["index"] == "good"

    assert not (weboid.collection / "db" / "captures.sqlite").exists()
