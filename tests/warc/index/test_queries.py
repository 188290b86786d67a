"""All pages of an index in parts: every one once, those of a page together, on both databases."""

from itertools import pairwise

import pytest

from core.page_manifest import VisitOutcome
from core.url_keys import replay_key
from tests.warc.index.test_database import URLS, Both, both, page  # noqa: F401 a fixture
from warc.index import queries
from warc.index.queries import OFFERED, captures_of_pages, page_rows

pytestmark = pytest.mark.playback


@pytest.mark.parametrize("batch", [1, 3, 1_000])
def test_every_page_comes_once(
    both: Both,  # noqa: F811 the fixture
    batch: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the size of the parts, in the order of the keys, keys of any length included."""
    monkeypatch.setattr(queries, "_PAGE_BATCH", batch)
    make, database = both
    assert list(page_rows(database, OFFERED)) == []
    writer = make()
    for number, url in enumerate(URLS * 2):
        writer.add_page(page(f"id-{number:02}", url, second=number % 5))
    writer.add_page(page("failed", outcome=VisitOutcome.FAILED))

    rows = list(page_rows(database, OFFERED))

    assert sorted(row["page_id"] for row in rows) == [f"id-{n:02}" for n in range(len(URLS) * 2)]
    keys = [(row["urlkey"], row["captured_ms"], row["page_id"]) for row in rows]
    assert all(one < other for one, other in pairwise(keys))


def test_the_captures_of_a_page_come_together(both: Both) -> None:  # noqa: F811 the fixture
    """The web's two schemes are one page; what shares a key and differs in case is another."""
    make, database = both
    writer = make()
    for number, url in enumerate([*URLS, *URLS]):
        writer.add_page(page(f"id-{number:02}", url, second=50 - number))

    groups = list(captures_of_pages(database, OFFERED))

    assert sum(map(len, groups)) == 2 * len(URLS)
    by_urls = {frozenset(row["url"] for row in rows): len(rows) for rows in groups}
    assert by_urls[frozenset(URLS[:2])] == 4
    assert [by_urls[frozenset({url})] for url in URLS[2:]] == [2, 2, 2, 2]
    assert replay_key(URLS[2]) == replay_key(URLS[3])
    for rows in groups:
        assert all(one["captured_ms"] <= other["captured_ms"] for one, other in pairwise(rows))
