"""A real wiki behind a server that breaks: whatever fails and when, the next rounds make it good."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import WeboidError
from links.registry.wikis import change_wiki, ensure_wiki, parse_wiki
from tests.support.sites.mediawiki import Wiki
from tests.support.wiki_front import Answer, Asked, Front, fronting
from tests.support.wiki_writer import Writer
from tests.wiki.sync.conftest import Fed, opened

pytestmark = pytest.mark.slow

BROKEN = [
    Answer(503, b"<html>Service unavailable</html>"),
    Answer(200, b"<html>log in first</html>", {"Content-Type": "text/html"}),
    Answer(200, b'{"query": {"pa', {"Content-Type": "application/json"}),
    Answer.refusing("readonly", "The wiki is read-only."),
    Answer.refusing("internal_api_error_DBQueryError", "A database error."),
]
KINDS = ["503", "login", "half", "readonly", "database"]


@pytest.fixture(scope="module")
def front(wiki: Wiki) -> Iterator[Front]:
    """A server in front of the wiki."""
    with fronting(wiki.base) as running:
        yield running


@pytest.fixture
def behind(front: Front, tmp_path: Path) -> Iterator[Fed]:
    """A registry that is fed through that server."""
    front.script = None
    store = opened(tmp_path)
    with store.writing() as rows:
        known = ensure_wiki(rows, parse_wiki("testwiki"), day=0)
        known = change_wiki(rows, known, url=front.api)
    made = Fed(store, known, front.api, attempts=1)
    made.rounds(sweeps=False)
    yield made
    front.script = None
    store.close()


@pytest.mark.parametrize("broken", BROKEN, ids=KINDS)
def test_a_question_that_fails_is_made_good(behind: Fed, front: Front, writer: Writer, broken: Answer) -> None:
    """At each place in a round: nothing is half done, nothing lost, nothing told twice."""
    title = f"Outage {KINDS[BROKEN.index(broken)]}"
    page_id, _ = writer.write(title, "https://outage.net/")

    for place in (1, 2, 4):
        left = place

        def breaking(_asked: Asked) -> Answer | None:
            nonlocal left
            left -= 1
            return broken if left == 0 else None

        front.script = breaking
        try:
            behind.rounds(sweeps=False)
        except WeboidError:
            assert left <= 0
        front.script = None
    behind.rounds(sweeps=False)

    assert behind.links(page_id) == ["https://outage.net/"]
    assert behind.taken(page_id) == ["https://outage.net/"]
