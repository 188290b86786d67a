"""The commands to a frontier, run as a user runs them: pause, stop, add, hosts, queue, monitor."""

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.config.settings import FrontierSettings, PolitenessSettings
from core.layout import Layout
from crawler.collection import open_collection
from crawler.frontier.base import Frontier, FrontierItem, ItemState, NewItem
from crawler.frontier.frontier_export import requeue
from crawler.frontier.sqlite_frontier import open_frontier
from tests.support import loopback
from tests.support.commands import WEBOID, CommandResult, WeboidRunner
from tests.support.services.redis_server import RedisServer
from tests.support.stored_records import RULES

pytestmark = pytest.mark.slow  # many commands, some of them processes of their own

CLOCK = SystemClock()


@pytest.fixture
async def frontier(weboid: WeboidRunner) -> AsyncIterator[Frontier]:
    """Yield the frontier of the collection that the commands are run on; no other process writes to it."""
    async with open_collection(weboid.collection, clock=CLOCK) as collection:
        layout = collection.layout
    with open_frontier(layout, FrontierSettings(), PolitenessSettings()) as opened:
        yield opened


def json_of(ran: CommandResult) -> Any:
    """Return the command's JSON; assert exit code 0 or 1."""
    assert ran.code in {0, 1}, ran.err
    return json.loads(ran.out)


def claim_all(frontier: Frontier) -> list[FrontierItem]:
    """Claim every item whose host may be requested now."""
    return frontier.claim(now=CLOCK.now(), worker="w", limit=100)


def end_three(frontier: Frontier) -> None:
    """Add three items, each of a host of its own, and end them: two dead letters and one done."""
    urls = [f"https://{name}.example/" for name in ("dns", "tls", "done")]
    frontier.add(map(NewItem, urls), now=CLOCK.now())
    for item in claim_all(frontier):
        if item.host == "done.example":
            frontier.complete(item, now=CLOCK.now(), outcome="complete")
        else:
            frontier.fail(item, now=CLOCK.now(), reason=f"{item.host.split('.')[0]}: it failed")


def test_a_pause_is_told_and_holds_until_it_is_ended(weboid: WeboidRunner, frontier: Frontier) -> None:
    """It is in the frontier, so a crawl that starts later keeps it."""
    frontier.add([NewItem("https://a.example/")], now=CLOCK.now())
    paused = json_of(weboid.call("crawl", "pause", "--reason", "a talk", "--json"))
    nothing = claim_all(frontier)
    status_text = weboid.call("status").out
    resumed = json_of(weboid.call("crawl", "resume", "--json"))

    assert (paused["paused"], resumed["paused"]) == ("a talk", None)
    assert nothing == []
    assert "paused: a talk; `weboid crawl resume` resumes it" in status_text
    assert len(claim_all(frontier)) == 1
    assert "It was not paused." in weboid.call("crawl", "resume").out


def test_stop_is_an_order_only_when_somebody_works(weboid: WeboidRunner, frontier: Frontier) -> None:
    """Otherwise it would stop the next run, which nobody asked for."""
    idle = weboid.call("crawl", "stop")
    idle_orders = frontier.orders("stop")
    frontier.add([NewItem("https://a.example/")], now=CLOCK.now())
    claim_all(frontier)
    gently = json_of(weboid.call("crawl", "stop", "--json"))
    at_once = json_of(weboid.call("crawl", "stop", "--now", "--json"))
    given = frontier.orders("stop")
    taken_back = weboid.call("crawl", "resume")

    assert "nothing to stop" in idle.out
    assert idle_orders == {}
    assert (gently["stopping"], at_once["stopping"]) == ("gently", "now")
    assert given == {"": "now"}
    assert "withdrawn" in taken_back.out
    assert frontier.orders("stop") == {}


def test_enqueue_says_what_became_of_each_url(weboid: WeboidRunner, frontier: Frontier) -> None:
    """New, known, queued again, no URL; and that nobody works."""
    end_three(frontier)
    ran = weboid.call("crawl", "add", "--list", "-", "--again", given="https://done.example/\nnew.example\nno url\n")
    again = json_of(weboid.call("crawl", "add", "http://new.example", "done.example:443", "--json"))

    assert ran.code == 1
    assert "1 added, 1 queued again; 2 in the queue." in ran.out
    assert "Nothing is working on" in ran.out
    assert "line 3" in ran.err
    assert (again["added"], again["duplicates"]) == (1, 1)


def test_enqueue_moves_to_a_lane_and_asks_for_age(weboid: WeboidRunner, frontier: Frontier) -> None:
    """A page that is too young is left alone, and one that was visited does not come back by itself."""
    end_three(frontier)
    young = json_of(weboid.call("crawl", "add", "done.example", "--older-than", "30d", "--json"))
    weboid.call("crawl", "add", "https://z.example/", "https://z.example/2")
    weboid.call("crawl", "add", "https://z.example/2", "https://done.example/", "--lane", "now")
    both = weboid.call("crawl", "add", "a.example", "--again", "--older-than", "1d")

    assert (young["requeued"], young["added"]) == (0, 1)  # http is not https
    assert next(item.url for item in claim_all(frontier)) == "https://z.example/2"
    assert both.code == 2
    done = frontier.find("https://done.example/")
    assert done is not None
    assert done.state == "done"


def test_enqueue_into_a_job_needs_the_job(weboid: WeboidRunner, frontier: Frontier) -> None:
    """Whose scope and budget would hold?"""
    unknown = weboid.call("crawl", "add", "a.example", "--job", "news")
    frontier.give_order("job", "news", "{}")
    known = json_of(weboid.call("crawl", "add", "a.example", "--job", "news", "--json"))
    record = frontier.find("http://a.example/")

    assert unknown.code == 2
    assert "no job 'news'" in unknown.err
    assert known["added"] == 1
    assert record is not None
    assert record.item.job == "news"


def test_a_host_is_left_alone_and_asked_again(weboid: WeboidRunner, frontier: Frontier) -> None:
    """For a time, until a moment, or until it is resumed; its URL names it as well."""
    frontier.add([NewItem("https://a.example/")], now=CLOCK.now())
    blocked = json_of(weboid.call("crawl", "pause", "A.example", "--for", "2h", "--json"))
    longer = weboid.call("crawl", "pause", "https://a.example/x", "--reason", "their wish")
    shown = weboid.call("queue", "hosts", "--blocked")
    nothing = claim_all(frontier)
    resumed = weboid.call("crawl", "resume", "a.example")

    until = datetime.fromisoformat(blocked["blocked_until"])
    assert timedelta(minutes=119) < until - CLOCK.now() <= timedelta(hours=2)
    assert "until it is resumed" in longer.out
    assert "their wish" in shown.out
    assert nothing == []
    assert "1 of its URLs wait" in resumed.out
    assert len(claim_all(frontier)) == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("crawl", "pause", "a b"), "not a host"),
        (("crawl", "pause", "a.example", "--for", "soon"), "not a duration"),
        (("crawl", "pause", "a.example", "--until", "2001-01-01"), "in the past"),
        (("crawl", "pause", "a.example", "--for", "1h", "--until", "2099-01-01"), "not both"),
        (("crawl", "pause", "--for", "1h"), "apply to one host"),
        (("crawl", "resume", "unknown.example"), "has no host"),
        (("queue", "hosts", "unknown.example"), "has no host"),
        (("crawl", "add"), "URLs, or --list"),
        (("queue", "show", "https://unknown.example/"), "does not know"),
        (("queue", "retry"), "Select items"),
        (("queue", "rm"), "Select items"),
        (("queue", "rm", "--match", "(?=a)"), "RE2"),
        (("queue", "ls", "--match", "a{1000}{1000}{1000}"), "cannot be run"),
        (("queue", "import", "nowhere"), "cannot be read"),
        (("queue", "snapshot", "."), "already"),
        (("crawl", "pause", "--frontier", "ftp://x"), "[frontier] url"),
        (("policy", "ls", "--fetch"), "are for a URL"),
        (("policy", "ls", "a.example", "--expired"), "for the list of entries"),
        (("level", "ls", "https://a.example/", "--history"), "only --wiki is possible"),
        (("status", "--listen", "9464"), "HOST:PORT"),
        (("status", "--listen", "203.0.113.1:1"), "Cannot listen"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    weboid: WeboidRunner, frontier: Frontier, arguments: tuple[str, ...], reason: str
) -> None:
    """And changes nothing."""
    ran = weboid.call(*arguments)

    assert ran.code in {2, 3}
    assert reason in ran.err
    assert "Traceback" not in ran.err
    assert frontier.stats(CLOCK.now()).hosts == 0


@pytest.mark.parametrize(
    "command", [("crawl", "pause"), ("queue", "hosts"), ("queue", "ls"), ("crawl", "add", "a.example")]
)
def test_without_a_collection_there_is_nothing_to_command(weboid: WeboidRunner, command: tuple[str, ...]) -> None:
    """Nothing is made by looking."""
    ran = weboid.call(*command, "--collection", "nowhere")

    assert ran.code == 3
    assert "no collection at nowhere" in ran.err
    assert not (weboid.folder / "nowhere").exists()


def test_a_frontier_of_another_version_is_named(weboid: WeboidRunner, frontier: Frontier) -> None:
    """By every command, with what to do."""
    frontier.close()
    path = Layout(weboid.collection).frontier_db
    for leftover in path.parent.glob("frontier.sqlite*"):
        leftover.unlink()
    path.write_bytes(b"")
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA user_version = 99; CREATE TABLE x (y)")
    for command in (("status",), ("pause",), ("frontier", "ls")):
        ran = weboid.call(*command)

        assert ran.code == 5, ran.err
        assert "version" in ran.err


def test_items_are_listed_and_shown_with_all_that_is_known(weboid: WeboidRunner, frontier: Frontier) -> None:
    """By state, reason and pattern; the way to an item goes back to its seed."""
    end_three(frontier)
    deep_item = NewItem("https://deep.example/x", hops=2, via="https://mid.example/")
    frontier.add([NewItem("https://mid.example/", hops=1, via="https://done.example/")], now=CLOCK.now())
    frontier.add([deep_item], now=CLOCK.now())
    listed = weboid.call("queue", "ls", "--state", "dead", "--reason", "TLS")
    queued = weboid.call("queue", "ls", "--match", "deep", "--json")
    shown = weboid.call("queue", "show", "deep.example/x")
    facts = json_of(weboid.call("queue", "show", "https://dns.example/", "--json"))

    assert "https://tls.example/" in listed.out
    assert "https://dns.example/" not in listed.out
    assert [facts["url"] for facts in queued.events] == [deep_item.url]
    assert re.search(r"Found on +https://mid.example/", shown.out)
    assert re.search(r"and that +https://done.example/", shown.out)
    assert facts["state"] == "dead"
    assert facts["attempts"][0]["reason"] == "dns: it failed"
    assert facts["slot"]["host"] == "dns.example"


def test_dead_letters_are_retried_by_reason(weboid: WeboidRunner, frontier: Frontier) -> None:
    """A dry run only counts; what is done is not retried by accident."""
    end_three(frontier)
    arguments = ("frontier", "retry", "--state", "dead", "--reason", "dns", "--json")
    dry = json_of(weboid.call(*arguments, "--dry-run"))
    before = frontier.stats(CLOCK.now()).dead
    done = json_of(weboid.call(*arguments))
    named = weboid.call("queue", "retry", "https://tls.example/", "https://done.example/")

    assert (dry, before) == ({"queued_again": 1, "dry_run": True}, 2)
    assert done["queued_again"] == 1
    assert named.code == 1
    assert "1 queued again." in named.out
    assert "crawl add --again" in named.err
    assert frontier.stats(CLOCK.now()).queued == 2


def test_what_fails_again_while_it_is_retried_is_not_met_twice(frontier: Frontier) -> None:
    """Workers may be as quick as the command, which must end all the same."""
    frontier.add([NewItem("https://a.example/")], now=CLOCK.now())
    seen: set[int] = set()
    counts: list[int] = []
    for _ in range(3):
        now = CLOCK.now() + timedelta(hours=len(counts))
        for item in frontier.claim(now=now, worker="w", limit=1):
            frontier.fail(item, now=now, reason="again")
        counts.append(requeue(frontier, frontier.ls(ItemState.DEAD), seen, now=CLOCK.now()))

    assert counts == [1, 0, 0]
    assert frontier.counts()[ItemState.DEAD] == 1


def test_a_purge_asks_and_what_it_takes_comes_back(weboid: WeboidRunner, frontier: Frontier) -> None:
    """Nothing leaves the books."""
    urls = [f"https://{host}.example/{number}" for host in "ab" for number in range(5)]
    frontier.add(map(NewItem, urls), now=CLOCK.now())
    refused = weboid.call("queue", "rm", "--host", "a.example")
    dry = weboid.call("queue", "rm", "--host", "a.example", "--dry-run")
    before = frontier.stats(CLOCK.now()).queued
    purged = weboid.call("queue", "rm", "--match", r"a\.example/[0-3]", "--yes")
    after = frontier.stats(CLOCK.now())
    back = weboid.call("queue", "retry", "--state", "skipped")

    assert refused.code == 2
    assert "5 items would be skipped: use --yes" in refused.err
    assert "5 would be skipped." in dry.out
    assert before == 10
    assert "4 skipped." in purged.out
    assert (after.queued, after.skipped) == (6, 4)
    assert "4 queued again." in back.out
    assert frontier.stats(CLOCK.now()).queued == 10


def test_a_purge_on_a_terminal_asks_first(weboid: WeboidRunner, frontier: Frontier) -> None:
    """And does nothing when the answer is no."""
    frontier.add([NewItem("https://a.example/")], now=CLOCK.now())
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(WEBOID), "queue", "rm", "https://a.example/"],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=weboid.folder,
    )
    os.write(ours, b"n\n")
    _, err = process.communicate(timeout=120)
    os.close(ours)
    os.close(theirs)

    assert process.returncode == 6
    assert b"Go on?" in err
    assert frontier.stats(CLOCK.now()).queued == 1


def test_what_is_exported_can_be_imported(weboid: WeboidRunner, frontier: Frontier) -> None:
    """By a file or a pipe; the file is there only when it is whole."""
    end_three(frontier)
    frontier.add([NewItem("https://queued.example/")], now=CLOCK.now())
    piped = weboid.call("queue", "export", "-")
    filed = weboid.call("queue", "export", "books.jsonl", "--state", "dead", "--json")
    lines = (weboid.folder / "books.jsonl").read_text().splitlines()
    weboid.call("queue", "rm", "https://queued.example/", "--yes")
    taken = json_of(weboid.call("queue", "import", "-", "--json", given=piped.out))
    dead = weboid.call("queue", "import", "books.jsonl", "--state", "dead")

    assert len(piped.events) == 4
    assert json_of(filed) == {"dead": 2}
    assert len(lines) == 2
    assert [path.name for path in weboid.folder.glob("books*")] == ["books.jsonl"]
    assert (taken["added"], taken["duplicates"], taken["other_states"]) == (0, 1, 3)
    assert "0 added, 2 already known" in dead.out


def test_a_snapshot_can_be_looked_into(weboid: WeboidRunner, frontier: Frontier) -> None:
    """It is a collection; the crawl log is rotated with it."""
    end_three(frontier)
    log = Layout(weboid.collection).crawl_log
    log.write_text('{"outcome": "complete"}\n')
    made = json_of(weboid.call("queue", "snapshot", "copy", "--json"))
    listed = weboid.call("queue", "ls", "--state", "dead", "--collection", "copy")
    shown = weboid.call("status", "--collection", "copy")

    assert Path(weboid.folder / made["log"]).read_text() == '{"outcome": "complete"}\n'
    assert not log.exists()
    assert "2 dead." in listed.err
    assert "2 given up" in shown.out


def test_reasons_from_the_web_move_no_cursor(weboid: WeboidRunner, frontier: Frontier) -> None:
    """A server's words are shown, never obeyed."""
    frontier.add([NewItem("https://a.example/")], now=CLOCK.now())
    (item,) = claim_all(frontier)
    frontier.fail(item, now=CLOCK.now(), reason="http: \x1b[2J\x07\u202eevil\nsecond line")
    for command in (("status",), ("frontier", "ls", "--state", "dead"), ("frontier", "show", item.url)):
        out = weboid.call(*command).out

        assert "evil" in out
        assert not set(out) & set("\x1b\x07\u202e")


def test_the_status_draws_the_last_hour(weboid: WeboidRunner, frontier: Frontier) -> None:
    """Rate, picture, reasons, hosts; none of it wider than the terminal."""
    end_three(frontier)
    out = weboid.call("status").out
    facts = json_of(weboid.call("status", "--json"))["frontier"]

    assert re.search(r"Last hour +·+█.? max 3", out) or re.search(r"Last hour +·+[▁-█]+", out)
    assert "Given up, latest" in out
    assert sum(each["done"] for each in facts["minutes"]) == 1
    assert facts["per_minute"]["10"] > 0


def test_a_monitor_serves_until_it_is_told_to_end(weboid: WeboidRunner, frontier: Frontier) -> None:
    """It prints its address; SIGTERM ends it."""
    process = weboid.start("status", "--listen", "127.0.0.1:0")
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        frontier.add([NewItem("https://a.example/")], now=CLOCK.now())
        while not (stats := loopback.get(f"{address}/stats.json")).json()["queued"]:
            pass  # what it read at its start holds for half a second
        metrics = loopback.get(f"{address}/metrics")
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)

    assert stats.json()["queued"] == 1
    assert 'weboid_frontier_items{state="queued"} 1.0' in metrics.text
    assert (process.returncode, err) == (0, "")


def test_the_status_is_watched_until_it_is_told_to_end(weboid: WeboidRunner, frontier: Frontier) -> None:
    """It follows what happens; Ctrl-C ends it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(WEBOID), "status", "--watch"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=weboid.folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "40"},
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    while b"0 queued" not in seen:
        seen += os.read(ours, 65_536)
    frontier.add([NewItem("https://a.example/")], now=CLOCK.now())
    while b"1 queued" not in seen:
        seen += os.read(ours, 65_536)
    process.send_signal(signal.SIGINT)
    while True:  # a terminal whose program is stopped by a full buffer would never end
        try:
            if not os.read(ours, 65_536):
                break
        except OSError:
            break
    os.close(ours)
    _, err = process.communicate(timeout=120)

    assert (process.returncode, err) == (0, b"")


def test_the_commands_work_on_a_frontier_that_machines_share(weboid: WeboidRunner, tmp_path: Path) -> None:
    """In Redis, from a machine without any collection; what cannot be read is said there, too."""
    server = RedisServer(tmp_path / "redis")
    shared = ("--frontier", f"{server.url}?frontier=news")
    try:
        added = json_of(weboid.call("crawl", "add", "https://a.example/", "b.example", "--json", *shared))
        weboid.call("crawl", "pause", "a.example", *shared)
        paused = json_of(weboid.call("crawl", "pause", "--wait", "--json", *shared))
        stopped = json_of(weboid.call("crawl", "stop", "--json", *shared))
        status = json_of(weboid.call("status", "--json", *shared))
        weboid.call("crawl", "add", "https://a.example/", "--lane", "now", *shared)
        exported = weboid.call("queue", "export", "-", *shared)
        purged = weboid.call("queue", "rm", "--host", "b.example", "--yes", *shared)
        retried = weboid.call("queue", "retry", "--state", "skipped", *shared)
        misled = weboid.call("queue", "snapshot", "copy", *shared)
        snapshot = json_of(weboid.call("queue", "snapshot", "--json", *shared))
    finally:
        server.stop()
    away = weboid.call("status", *shared)

    assert added["added"] == 2
    assert (paused["claimed"], stopped["stopping"]) == (0, "gently")
    assert status["frontier"]["stats"]["paused"] == paused["paused"]
    assert [each["host"] for each in status["frontier"]["blocked"]] == ["a.example"]
    assert "root" not in status
    lanes = {facts["url"]: facts["lane"] for facts in exported.events}
    assert lanes == {"https://a.example/": "now", "http://b.example/": "standard"}
    assert ("1 skipped." in purged.out, "1 queued again." in retried.out) == (True, True)
    assert (misled.code, "BGSAVE" in misled.err) == (2, True)
    assert Path(snapshot["file"]).stat().st_size
    assert (away.code, "does not answer" in away.err) == (3, True)


def _next_page(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Read a run's events up to the next page and return that one."""
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "page":
            return dict(event)
    raise AssertionError("the run ended")


@pytest.mark.browser
@pytest.mark.proxy
def test_commands_reach_a_run_and_nothing_is_lost(weboid: WeboidRunner) -> None:
    """Pause, add, resume, stop: each takes effect in the run that goes on, and the next ends it."""
    pages = [f"{RULES}/page/plain?{number}" for number in range(12)]
    urgent = f"{RULES}/page/plain?urgent"
    listed = weboid.folder / "list.txt"
    listed.write_text("\n".join(pages))
    command = ("archive", "--json", "--profile", str(weboid.profile), "--list", str(listed))
    process = weboid.start(*command, "--workers", "1")
    try:
        seen = [_next_page(process)["url"]]
        paused = json_of(weboid.call("crawl", "pause", "--wait", "--json"))
        added = json_of(weboid.call("crawl", "add", urgent, "--lane", "now", "--json"))
        state = json_of(weboid.call("status", "--json"))
        weboid.call("crawl", "resume")
        while seen[-1] != urgent:
            seen.append(_next_page(process)["url"])
        weboid.call("crawl", "stop", "--wait")
        out, _ = process.communicate(timeout=120)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    rest = [json.loads(line) for line in out.splitlines()]
    summary = rest[-1]
    seen += [each["url"] for each in rest if each["event"] == "page"]
    again = weboid.run(*command)

    assert (paused["paused"] is not None, paused["claimed"]) == (True, 0)
    assert (added["added"], added["worked_on"]) == (1, True)
    assert (state["in_use"], state["claimed"], state["frontier"]["stats"]["paused"]) == (True, 0, paused["paused"])
    # What was done before the pause was in `state`; the urgent page came first after it, or second
    # when it was the other lanes' turn.
    assert seen.index(urgent) - state["done"] in (0, 1)
    assert process.returncode == 6
    assert summary["left"] == 13 - len(seen) > 0
    assert again.code == 0
    assert sorted([*seen, *again.pages]) == sorted([*pages, urgent])


@pytest.mark.browser
@pytest.mark.proxy
def test_what_was_enqueued_is_archived_by_a_run_without_urls(weboid: WeboidRunner, frontier: Frontier) -> None:
    """The list need not be given again."""
    weboid.call("crawl", "add", f"{RULES}/page/plain?later")
    ran = weboid.archive()
    log = Layout(weboid.collection).crawl_log.read_text().splitlines()

    assert list(ran.pages) == [f"{RULES}/page/plain?later"]
    assert [json.loads(line)["outcome"] for line in log] == ["complete"]
    assert frontier.stats(CLOCK.now()).done == 1


@pytest.mark.browser
@pytest.mark.proxy
def test_a_paused_host_is_visited_when_it_is_resumed(weboid: WeboidRunner, frontier: Frontier) -> None:
    """The run notices it by itself."""
    host = RULES.removeprefix("http://")
    pages = [f"{RULES}/page/plain?{number}" for number in range(2)]
    frontier.add(map(NewItem, pages), now=CLOCK.now())
    json_of(weboid.call("crawl", "pause", host, "--json"))
    process = weboid.start("archive", "--json", "--profile", str(weboid.profile), *pages)
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "started"
        status = json_of(weboid.call("status", "--json"))
        weboid.call("crawl", "resume", host)
        out, _ = process.communicate(timeout=120)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise

    assert (status["queued"], status["claimed"], status["done"]) == (2, 0, 0)
    assert [each["host"] for each in status["frontier"]["blocked"]] == [host]
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["outcomes"] == {"complete": 2}
