"""Crawls in the console's API: limits, seeds of weboid.toml, lists, settings for parts of the web."""

from collections.abc import Iterator

import httpx
import pytest

from core.config.settings import Settings
from core.layout import CONFIG_FILE
from crawler.frontier.base import JOB_ORDER, STOP_ORDER, Lane
from crawler.jobs.crawl_orders import parse_job
from crawler.jobs.job_settings import JobSettings
from crawler.profiles import load_profile
from tests.support.console_server import ServedConsole, api_client
from tests.weboid.console.sample_collection import STORY


@pytest.fixture
def client(console: ServedConsole) -> Iterator[httpx.Client]:
    """Yield an HTTP client with an operator's session."""
    with api_client(console.address, console.sessions["operator"]) as it:
        yield it


def test_a_saved_url_is_followed_to_its_copy(client: httpx.Client) -> None:
    """By its location: queued at first, then with the capture and the path of the copy on the front."""
    saved = client.post("/captures", json={"url": STORY})
    document = client.get(saved.headers["location"].removeprefix("/api/v1")).json()

    assert document["item"]["state"] == "queued"
    assert document["capture"]["path"] == f"/page/{document['capture']['timestamp']}/{STORY}"


def test_limits_of_a_running_crawl_are_changed(client: httpx.Client, console: ServedConsole) -> None:
    """Workers follow the changed job; of two operators the second has to read again; both states are logged."""
    client.post("/crawls", json={"urls": "https://limits.example/", "name": "limited", "page_limit": 5})
    seen = {"If-Match": client.get("/crawls/limits", params={"name": "limited"}).headers["etag"]}
    first = client.post("/crawls/limits", json={"name": "limited", "depth": 3}, headers=seen)
    refused = client.post("/crawls/limits", json={"name": "limited", "pages": 9}, headers=seen)
    done = client.post("/crawls/limits", json={"name": "limited", "pages": 0, "seconds": 3600, "lane": "high"})
    jobs = JobSettings(console.frontier, Settings(), clock=console.stores.clock)
    jobs.refresh()
    scope = jobs.settings_for("https://limits.example/", "limited").scope

    assert (first.status_code, refused.status_code, done.status_code) == (200, 412, 200)
    assert (scope.pages, scope.seconds, scope.depth) == (0, 3600, 3)
    assert client.get("/crawls/crawl", params={"name": "limited"}).json()["lane"] == "high"
    assert '"pages": 5' in console.accounts.log_entries(limit=1)[0]["before"]
    assert client.post("/crawls/limits", json={"name": "none", "pages": 1}).status_code == 404


def test_a_crawl_that_is_started_cancels_a_stop(client: httpx.Client, console: ServedConsole) -> None:
    """As `weboid crawl` does; a plan or other limits do not."""
    crawl = {"urls": "https://again.example/", "name": "again"}
    console.frontier.give_order(STOP_ORDER, "", "")
    client.post("/crawls", json={**crawl, "dry_run": True})
    client.post("/crawls/limits", json={"name": "council-2026", "pages": 0})
    before = console.frontier.orders(STOP_ORDER)
    started = client.post("/crawls", json=crawl).json()

    assert started["message"] == "The crawl again was started with 1 seed."
    assert before == {"": ""}
    assert console.frontier.orders(STOP_ORDER) == {}


def test_a_crawl_has_the_settings_of_the_collection(client: httpx.Client, console: ServedConsole) -> None:
    """Those of weboid.toml over its own preset or the chosen one, as `weboid crawl` has them; no other file is read."""
    path = console.layout.root / CONFIG_FILE
    path.write_text('extends = "gentle"\n[visit]\ntimeout_s = 77\n[[seed]]\nurl = "https://own.example/"\n')
    other = console.layout.root / "other.toml"
    other.write_text("[visit]\ntimeout_s = 5\n")
    seeds = {"urls": "https://own.example/"}
    try:
        for name, fields in (("of-file", {}), ("of-preset", {"preset": "mobile"})):
            assert client.post("/crawls", json={**seeds, "name": name, **fields}).status_code == 201
        assert client.post("/crawls/configured", json={"name": "of-seeds"}).status_code == 201
        refused = [client.post("/crawls", json={**seeds, "preset": each}) for each in (str(other), f"{path}@mobile")]
    finally:
        path.unlink()
    jobs = {name: parse_job(name, text).settings for name, text in console.frontier.orders(JOB_ORDER).items()}
    gentle, mobile = load_profile("gentle"), load_profile("mobile")

    assert {jobs[name].visit.timeout_s for name in ("of-file", "of-preset", "of-seeds")} == {77}
    assert jobs["of-file"].politeness == jobs["of-seeds"].politeness == gentle.politeness
    assert jobs["of-preset"].politeness == mobile.politeness != gentle.politeness
    assert [(each.status_code, "There is no preset" in each.text) for each in refused] == [(422, True)] * 2


def test_of_two_operators_at_a_host_the_second_reads_again(client: httpx.Client) -> None:
    """Also at one with waiting pages, whose next visit is always now."""
    host = {"host": "journal.example"}
    seen = {"If-Match": client.get("/hosts/block", params=host).headers["etag"]}
    codes = [client.post("/hosts/pause", json=host, headers=seen).status_code for _ in range(2)]
    paused = {"If-Match": client.get("/hosts/block", params=host).headers["etag"]}
    codes.append(client.post("/hosts/resume", json=host, headers=paused).status_code)

    assert codes == [200, 412, 200]


def test_the_delay_of_a_host_is_set_while_crawls_run(client: httpx.Client, console: ServedConsole) -> None:
    """Longer than the longest, too; other settings of the part of the web stay."""
    client.post("/sheets", json={"prefix": "slow.example", "settings": {"visit": {"timeout_s": 90}}})
    client.post("/hosts/delay", json={"host": "slow.example", "delay_s": 60})
    jobs = JobSettings(console.frontier, Settings(), clock=console.stores.clock)
    jobs.refresh()
    settings = jobs.settings_for("https://slow.example/a", "")
    wrong = client.post("/sheets", json={"prefix": "slow.example", "settings": {"visit": {"no": 1}}})
    file = client.post("/sheets", json={"prefix": "slow.example", "settings": {"policy": {"lists": ["/etc/passwd"]}}})
    sheets = client.get("/sheets").json()["sheets"]
    removed = [client.post("/sheets/remove", json={"prefix": "slow.example"}).status_code for _ in range(2)]

    assert (settings.politeness.min_delay_s, settings.politeness.max_delay_s) == (60, 60)
    assert settings.visit.timeout_s == 90
    assert wrong.status_code == 422
    assert "policy.lists names a program or a file" in file.text
    assert [each["settings"]["visit"] for each in sheets] == [{"timeout_s": 90}]
    assert removed == [200, 404]


def test_seeds_of_the_configuration_are_crawled(client: httpx.Client, console: ServedConsole) -> None:
    """Each with its own scope; without any it says what to do."""
    nothing = client.post("/crawls/configured", json={})
    config = console.layout.root / "weboid.toml"
    config.write_text(
        '[[seed]]\nurl = "https://one.example/"\n[[seed]]\nurl = "https://two.example/a"\nscope = "page"\n'
    )
    try:
        trial = client.post("/crawls/configured", json={"dry_run": True, "name": "own"}).json()
        done = client.post("/crawls/configured", json={"name": "own"})
    finally:
        config.unlink()

    assert nothing.status_code == 422
    assert [(each["name"], each["scope"]) for each in trial["crawls"]] == [("own", "prefix"), ("own-1", "page")]
    assert (trial["added"], done.status_code, done.json()["added"]) == (0, 201, 2)


def test_a_list_is_queued_without_its_faulty_lines(client: httpx.Client, console: ServedConsole) -> None:
    """Known URLs are queued again only with `again`."""
    lines = "https://list.example/a\nhttps://list.example/b\nno url\n"
    first = client.post("/lists", json={"urls": lines, "lane": "high"}).json()
    again = client.post("/lists", json={"urls": ["https://list.example/a"]}).json()

    assert (first["queued"], len(first["problems"]), again["queued"], again["known"]) == (2, 1, 0, 1)
    queued = console.frontier.find("https://list.example/a")
    assert queued is not None
    assert queued.item.lane is Lane.HIGH
    assert client.post("/lists", json={"urls": ["x"] * 10_001}).status_code == 422
