"""`weboid` on machines that share a dedup index in a real Redis."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.commands import WeboidRunner
from tests.support.services.redis_server import RedisServer
from tests.support.stored_records import RULES, check, index, records

pytestmark = [pytest.mark.browser, pytest.mark.proxy]

SECRET = "correct-horse"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Start a Redis with a password that keeps what it acknowledged."""
    secured = ("--requirepass", SECRET)
    started = RedisServer(tmp_path / "redis", *secured, persistent=True)
    yield started
    started.stop()


def shared(server: RedisServer, password: str = SECRET) -> dict[str, str]:
    """Return the profile's `[proxy]` group."""
    return {"dedup_url": server.url.replace("//", f"//:{password}@")}


def kinds(folder: Path) -> Counter[str]:
    """Count the `response` and `revisit` records."""
    counts = Counter(kind for kind, *_ in records(folder))
    return Counter({kind: counts[kind] for kind in ("response", "revisit") if counts[kind]})


def test_a_second_machine_writes_revisits_only(weboid_with: Callable[..., WeboidRunner], server: RedisServer) -> None:
    """Two collections, one dedup index: the payload is in one of them."""
    weboid = weboid_with(proxy=shared(server))
    url = f"{RULES}/page/plain"
    ran = weboid.archive(url)
    first = weboid.collection.rename(weboid.folder / "first")
    again = weboid.archive(url)
    before = index(weboid.collection, "SELECT url, orig_filename FROM captures ORDER BY url")
    weboid.call("collection", "rebuild", "--profile", str(weboid.profile))

    assert (ran.code, again.code) == (0, 0)
    assert set(kinds(first)) == {"response"}
    assert kinds(weboid.collection) == Counter(revisit=kinds(first)["response"])
    assert index(weboid.collection, "SELECT url, orig_filename FROM captures ORDER BY url") == before
    check(weboid.collection)


def test_a_run_without_its_dedup_index_ends_and_loses_nothing(
    weboid_with: Callable[..., WeboidRunner], server: RedisServer
) -> None:
    """Redis dies after the first page: exit code 3 and the remedy; the same command goes on."""
    weboid = weboid_with(proxy=shared(server))
    urls = [f"{RULES}/page/plain?{number}" for number in range(4)]
    process = weboid.start("archive", "--json", "--workers", "1", "--profile", str(weboid.profile), *urls)
    assert process.stdout is not None
    for line in process.stdout:
        if '"event": "page"' in line:
            server.kill()
            break
    _, err = process.communicate(timeout=120)
    without = weboid.archive(*urls)
    server.start()
    ran = weboid.archive(*urls)
    status = weboid.call("status", "--json").events[0]

    assert (process.returncode, without.code, ran.code) == (3, 3, 0)
    assert "Start Redis there, or correct [proxy] dedup_url." in err
    assert SECRET not in err + without.err
    assert (status["done"], status["dead"]) == (4, 0)
    assert sum(page["attempts"] for page in ran.pages.values()) == len(ran.pages)
    check(weboid.collection)


def test_the_doctor_asks_the_dedup_index(weboid_with: Callable[..., WeboidRunner], server: RedisServer) -> None:
    """It answers, or the remedy says what to do; neither tells the password."""
    weboid = weboid_with(proxy=shared(server))

    def line() -> str:
        ran = weboid.call("doctor", "--profile", str(weboid.profile))
        assert SECRET not in ran.out + ran.err
        lines = ran.out.splitlines()
        place = next(n for n, each in enumerate(lines) if " dedup " in each)
        return " ".join(lines[place : place + 2])

    before = line()
    server.kill()
    after = line()

    assert before.startswith("ok")
    assert "index weboid" in before
    assert after.startswith("bad")
    assert "Start Redis there, or correct [proxy] dedup_url." in after


def test_a_bad_address_is_refused_before_anything_starts(
    weboid_with: Callable[..., WeboidRunner], server: RedisServer
) -> None:
    """Exit code 2, and the password is not in what is said."""
    weboid = weboid_with(proxy=shared(server, f"{SECRET}/more"))
    ran = weboid.call("archive", "--profile", str(weboid.profile), f"{RULES}/page/plain")

    assert ran.code == 2
    assert "[proxy] dedup_url" in ran.err
    assert SECRET not in ran.err + ran.out
    assert not weboid.collection.exists()
