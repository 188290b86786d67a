"""Tests of `wiki.api.revisions`."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sites.mediawiki import ADMIN, Wiki
from tests.support.wiki_front import Front
from tests.support.wiki_writer import Writer
from tests.wiki.api.conftest import ApiAt
from wiki.api.page_query import read_pages
from wiki.api.revisions import (
    REVISIONS_AT_ONCE,
    first_revision_with,
    has_url,
    read_revisions,
    read_texts,
    spread_evenly,
)

slow = pytest.mark.slow


@slow
async def test_revisions_come_newest_first_with_what_is_known_of_them(
    wiki: Wiki, front: Front, api_at: ApiAt, writer: Writer
) -> None:
    """What is hidden is empty, and a hidden text is left out."""
    wiki.maintain("createAndPromote.php", "--force", "--custom-groups", "suppress", ADMIN)
    made = [writer.write("Pg history", f"text {number}") for number in range(4)]
    page = made[0][0]
    writer.act(
        action="revisiondelete", type="revision", ids=made[1][1], hide="content|comment|user"
    )
    async with api_at(front.api) as api:
        found = [each async for each in read_revisions(api, page)]
        assert [each async for each in read_revisions(api, 999_999)] == []
        texts = await read_texts(api, [rev for _, rev in made])
    assert [each.rev_id for each in found] == [rev for _, rev in reversed(made)]
    assert [each.user for each in found] == ["Admin", "Admin", "", "Admin"]
    assert found[0].parent_id == found[1].rev_id
    assert sorted(texts.values()) == ["text 0", "text 2", "text 3"]


@slow
async def test_the_revision_that_brought_a_url_is_found_in_few_questions(
    wiki: Wiki, front: Front, api_at: ApiAt
) -> None:
    """B06: without an access date, the day on which the link came."""
    made = "".join(
        f"<revision><timestamp>2020-01-01T00:{number:02}:00Z</timestamp><contributor><username>Admin"
        "</username></contributor><model>wikitext</model><format>text/x-wiki</format><text>text "
        f"{number}{' [https://example.com/came x]' if number >= 17 else ''}</text></revision>"
        for number in range(40)
    )
    title = "<page><title>Pg came</title><ns>0</ns><id>1</id>"
    wiki.maintain("importDump.php", text=f"<mediawiki>{title}{made}</page></mediawiki>")
    async with api_at(front.api) as api:
        (now,) = await read_pages(api, titles=["Pg came"])
        page = now.page_id
        front.seen.clear()
        found = await first_revision_with(api, page, "https://example.com/came")
        asked = len(front.seen)
        first = await first_revision_with(api, page, "text")
        assert await first_revision_with(api, page, "https://example.com/never") is None
        assert await first_revision_with(api, 999_999, "https://example.com/came") is None
    assert found is not None
    assert found.moment.minute == 17
    assert found.user == "Admin"
    assert asked <= 4
    assert first is not None
    assert first.moment.minute == 0


@given(st.integers(0, 10_000), st.integers(0, 10_000))
@settings(deadline=None)
def test_looking_back_ends_for_any_history(length: int, added: int) -> None:
    """Every step narrows the place, and the right one is found in few steps."""
    with_it, without = 0, length + 1
    added = min(added, length)
    steps = 0
    while between := spread_evenly(with_it, without):
        steps += 1
        for each in between:
            if each <= added:
                with_it = each
            else:
                without = each
                break
    assert with_it == added
    assert steps <= 5
    assert len(spread_evenly(0, length)) <= REVISIONS_AT_ONCE


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("[https://a.org/x?b=1&c=2 t]", True),
        ("[http://a.org/x?b=1&amp;c=2 t]", True),
        ("{{cite|url=//a.org/x?b=1&c=2#part}}", True),
        ("https://a.org/x?b=1", False),
    ],
)
def test_a_url_is_known_in_the_forms_in_which_people_write_it(text: str, has: bool) -> None:
    """Http or https, escaped or not."""
    assert has_url(text, "https://a.org/x?b=1&c=2") is has
