"""Overview, progress, queue and log of the console."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from core.timestamps import warc_date
from crawler.frontier.base import MinuteCounts, NewItem
from crawler.status.collection_status import CollectionHoldings, CollectionStatus
from tests.support.console_server import ServedConsole
from tests.weboid.console.sample_collection import NOW, log_line
from weboid.console import crawl_pages
from weboid.console.crawl_pages import minute_chart, search_log

HOLDINGS = CollectionHoldings("", False, {}, 0, 0, 0, 1, 10, free_bytes=3_000, reserve_bytes=600)


def minutes(*counts: tuple[int, int, int], stored: int = 0) -> list[MinuteCounts]:
    """Return consecutive minutes with these results, the newest last."""
    return [MinuteCounts(NOW + timedelta(minutes=place), *each, stored) for place, each in enumerate(counts)]


def test_a_chart_stacks_the_results_of_each_minute() -> None:
    """The largest minute fills the height; the newest is at the right; results without pages have no bar."""
    chart = minute_chart(minutes((1, 0, 1), (2, 1, 1)))

    assert (chart.most, chart.done, chart.skipped, chart.dead) == (4, 3, 1, 2)
    assert list(chart.bars) == [
        ("done", 591, 50.0, 50.0),
        ("skipped", 591, 25.0, 25.0),
        ("dead", 591, 0.0, 25.0),
        ("done", 581, 75.0, 25.0),
        ("dead", 581, 50.0, 25.0),
    ]
    assert minute_chart(minutes((0, 0, 0))).bars == ()


@pytest.mark.parametrize(("stored", "left"), [(50, 2), (200, 0), (0, None)])
def test_days_left_at_the_rate_of_the_last_hour(console: ServedConsole, stored: int, left: int | None) -> None:
    """2,400 bytes above the reserve; nothing is promised without a rate."""
    view = console.stores.status.status().frontier
    assert view is not None
    ended = replace(view, minutes=tuple(minutes((1, 0, 0), stored=stored)))
    assert CollectionStatus(NOW, HOLDINGS, ended).days_left == left


def test_the_log_is_searched_by_words_and_outcome(tmp_path: Path) -> None:
    """Newest first; every word must be in the line; a broken line and a line of another kind are left out."""
    log = tmp_path / "crawl.jsonl"
    lines = [log_line(NOW, "complete", f"https://a.example/{number}") for number in range(3)]
    lines += [
        "not JSON a.example\n",
        '["a.example"]\n',
        log_line(NOW, "failed", "https://A.example/x", reason="dns: a"),
    ]
    log.write_text("".join(lines))

    entries, further = search_log(log, ["a.example"], "")
    failed, _ = search_log(log, ["a.example", "dns"], "failed")

    assert [line["url"][-1] for line in entries] == ["x", "2", "1", "0"]
    assert entries[0]["time"] == warc_date(NOW)[:19].replace("T", " ")
    assert [line["reason"] for line in failed] == ["dns: a"]
    assert further == 0
    assert search_log(tmp_path / "none", [], "") == ([], 0)


def test_a_long_log_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part ends where the next begins, and no line is lost or shown twice."""
    monkeypatch.setattr(crawl_pages, "LOG_READ_BYTES", 500)
    log = tmp_path / "crawl.jsonl"
    log.write_text("".join(log_line(NOW, "complete", f"https://a.example/{number}") for number in range(40)))
    numbers: list[int] = []
    before: int | None = None
    for _ in range(60):
        lines, further = search_log(log, [], "", before=before)
        numbers += [int(line["url"].rpartition("/")[2]) for line in lines]
        if not further:
            break
        before = further

    assert numbers == list(range(39, -1, -1))


def test_the_overview_counts(console: ServedConsole) -> None:
    """Pages, queue, causes with the next step, hosts in trouble, edits of the bot."""
    text = console.get().text

    stats = console.frontier.stats(NOW)
    assert f"<strong>{stats.queued:,}</strong>" in text
    assert "The name does not resolve" in text
    assert "refuses.example" in text
    assert "status 429" in text
    assert "Steam engine" in text  # a page that the bot edited


def test_markup_of_the_web_stays_text(console: ServedConsole) -> None:
    """In titles, addresses and reasons."""
    pages = [console.get(path).text for path in ("", "/crawl", "/captures", "/crawl/log")]
    captured = console.get("/captures", q="hostile.example").text

    assert all("<img src=x" not in text for text in pages)
    assert "&lt;img src=x onerror=" in captured


def test_the_queue_is_listed_by_state_and_host(console: ServedConsole) -> None:
    """An address alone finds its item in any state."""
    waiting = console.get("/crawl/queue", host="refuses.example").text
    dead = console.get("/crawl/queue", state="dead").text
    one = console.get("/crawl/queue", q="refuses.example/3").text

    assert "https://refuses.example/16" in waiting
    assert "https://library.example/wait/" not in waiting
    assert "deadline: settle" in dead
    assert one.count('<span class="url" dir="ltr">https://refuses.example/') == 1


@pytest.mark.parametrize("query", ["state=none", "host=%00", "q=%ff", "q=" + "x" * 9000])
def test_a_queue_query_that_makes_no_sense_finds_nothing_wrong(query: str, console: ServedConsole) -> None:
    """It is answered, not refused with a traceback."""
    assert console.get(f"/crawl/queue?{query}").status_code == 200


def test_an_estimate_queues_nothing(console: ServedConsole) -> None:
    """The form comes back with scope, count and problems."""
    before = console.frontier.stats(NOW).queued
    form = {
        "urls": "https://new.example/docs/a\nnew.example/docs/b\nnot a url\n",
        "scope": "prefix",
        "page_limit": "40",
    }
    text = console.post("/console/crawl/new", form).text

    assert "2 addresses" in text
    assert "new.example/docs/…" in text
    assert "at most 40 pages" in text
    assert "line 3" in text
    assert 'formaction="/do/create_crawl"' in text
    assert console.frontier.stats(NOW).queued == before


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"page_limit": "9" * 5_000}, "page_limit"),
        ({"page_limit": "1e3"}, "page_limit"),
        ({"preset": "none"}, "none"),
        ({"name": "a b"}, "a b"),
        ({"urls": "not a url"}, "line 1"),
        ({"urls": "x\n" * 10_001}, "10,001 lines"),
    ],
)
def test_a_crawl_that_cannot_start_has_no_estimate(console: ServedConsole, fields: dict[str, str], fault: str) -> None:
    """The form comes back as it was entered, with its fault."""
    form = {"urls": "https://new.example/", "scope": "prefix", "name": "kept", **fields}
    text = console.post("/console/crawl/new", form).text

    assert re.search(f'role="alert">[^<]*{fault}', text)
    assert f'value="{form["name"]}"' in text
    assert "create_crawl" not in text


def test_an_estimate_says_that_a_crawl_is_known(console: ServedConsole) -> None:
    """Its settings and those of the form would be mixed up."""
    form = {"urls": "https://council.example/", "name": "council-2026"}
    known = console.post("/console/crawl/new", form).text
    new = console.post("/console/crawl/new", {**form, "name": "council-2027"}).text

    assert "There is a crawl council-2026" in known
    assert "There is a crawl" not in new


def test_a_long_queue_is_shown_in_part(console: ServedConsole) -> None:
    """Of a host with many items the first are read and shown."""
    console.frontier.add([NewItem(f"https://large.example/{number}") for number in range(20_000)], now=NOW)

    text = console.get("/crawl/queue", host="large.example").text

    assert text.count('<span class="url" dir="ltr">https://large.example/') == crawl_pages.LISTED
