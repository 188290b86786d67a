"""Tables and pictures in plain text: they fit, and nothing in them steers a terminal."""

import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from core.config.settings import FrontierSettings, PolitenessSettings
from core.layout import Layout
from crawler.frontier.base import PROXY_SERVICE, WORKER_SERVICE, Frontier, NewItem
from crawler.frontier.sqlite_frontier import open_frontier
from crawler.status.collection_status import CollectionHoldings, CollectionStatus, CopyCheckSummary, read_overview
from crawler.status.status_server import families
from weboid.app.text_table import clean, fitted, sparkline, table
from weboid.cli.crawl.crawl_status import status_lines

NOW = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[3]
CHECKS = CopyCheckSummary({"good": 1}, {1: {"good": 1.0}}, {"begun": 1}, {1: {"done": 1.0}}, 1)
HOLDINGS = CollectionHoldings("collection", True, {"complete": 1}, 1, 2, 3, 4, 5, 6, 7)


@given(st.text(), st.integers(1, 30))
def test_a_text_is_cut_to_its_width_whatever_is_in_it(text: str, columns: int) -> None:
    """East Asian characters take two columns; control characters are replaced, not counted."""
    cut = fitted(text, columns)

    assert cell_len(cut) <= columns
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} for char in cut)


@given(st.text())
def test_a_text_without_control_characters_is_shown_as_it_is(text: str) -> None:
    """And one with them keeps its length."""
    assert len(clean(text)) == len(text)
    if text.isprintable():
        assert clean(text) == text


_CELLS = st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=5)


@given(rows=_CELLS, columns=st.integers(40, 200))
def test_a_table_has_a_line_a_row_and_none_is_too_wide(rows: list[tuple[str, str, str]], columns: int) -> None:
    """The head is the first."""
    lines = table(("a", "b>", "c"), rows, columns=columns, indent="  ")

    assert len(lines) == len(rows) + 1
    assert all(cell_len(line) <= columns for line in lines)


def test_nothing_is_cut_where_no_terminal_reads() -> None:
    """A script that reads the table gets whole URLs."""
    url = "https://a.example/" + "x" * 500

    assert url in table(("n>", "url"), [("1", url)], columns=None)[1]


@given(st.lists(st.floats(0, 1e9), max_size=70))
def test_a_sparkline_has_a_sign_for_each_value(values: list[float]) -> None:
    """Nothing is a dot, the highest is as high as a line."""
    drawn = sparkline(values)

    assert len(drawn) == len(values)
    for value, sign in zip(values, drawn, strict=True):
        assert (sign == "·") == (value == 0)
        if value and value == max(values):
            assert sign == "█"


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    """Yield a frontier with items in several states, long names, and notes of proxies and workers."""
    layout = Layout(tmp_path)
    layout.databases.mkdir()
    with open_frontier(layout, FrontierSettings(), PolitenessSettings()) as opened:
        long = "x" * 60
        hosts = [f"{long}.h{number}.example" for number in range(12)]
        opened.add([NewItem(f"https://{host}/{long}", job=long) for host in hosts], now=NOW)
        opened.add([NewItem(f"https://{host}/2") for host in hosts], now=NOW)
        opened.give_order("job", long, "{}")
        for number, item in enumerate(opened.claim(now=NOW, worker=long, limit=10)):
            if number % 3 == 0:
                opened.fail(item, now=NOW, reason=f"{long}: {long}")
            elif number % 3 == 1:
                opened.skip(item, now=NOW, reason=f"日本語{long}")
        opened.block_until(hosts[11], NOW.replace(year=2100), long, now=NOW)
        for number in range(7):
            opened.put_note(PROXY_SERVICE, f"{long}{number}", '{"free_bytes": 1, "reserve_bytes": 2}', now=NOW)
            opened.put_note(WORKER_SERVICE, f"w{number}", '{"visits": "many", "address": [1]}', now=NOW)
        yield opened


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_status_fits_any_terminal(frontier: Frontier, columns: int) -> None:
    """However long names and reasons are; each section is cut, and says how much is not shown."""
    status = CollectionStatus(NOW, HOLDINGS, read_overview(frontier, now=NOW))
    lines = status_lines(status, columns=columns)

    assert max(map(cell_len, lines)) <= columns
    assert "  and 2 more" in lines
    assert len(lines) < 80


def test_the_status_says_what_is_wrong(frontier: Frontier) -> None:
    """A disk below the reserve, a pause, a stop."""
    frontier.give_order("stop", "", "now")
    stopping = "\n".join(status_lines(CollectionStatus(NOW, HOLDINGS, read_overview(frontier, now=NOW)), columns=None))
    frontier.pause("the disk is moved")
    paused = "\n".join(status_lines(CollectionStatus(NOW, HOLDINGS, read_overview(frontier, now=NOW)), columns=None))

    assert "no page starts until there is more" in stopping
    assert "stopping at once" in stopping
    assert "LOW" in stopping
    assert "paused: the disk is moved" in paused
    assert "Left " not in paused


def test_the_page_about_metrics_names_every_metric(frontier: Frontier) -> None:
    """No more, no less."""
    status = CollectionStatus(NOW, HOLDINGS, read_overview(frontier, now=NOW), CHECKS)
    made = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in families(status, version="1")
    }
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")

    assert set(re.findall(r"weboid_[a-z_]+", text)) == made
