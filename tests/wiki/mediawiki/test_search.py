"""Searches for links say on the wiki what they leave out (X06); the wiki tells how the extension is set."""

import json
import urllib.parse

import pytest

from tests.support.http_listener import SECRET, Heard, Said
from tests.support.mediawiki_extension import Extended

pytestmark = pytest.mark.slow
ENTRY = {"excluded": True, "entries": ["*.kept<out>.org", "{{too}}.org", 7]}


def _excluding(extended: Extended, said: object = ENTRY, status: int = 200) -> None:
    def answer(heard: Heard) -> Said:
        if heard.path.startswith("/links/api/excluded?"):
            return Said(status, json.dumps(said).encode())
        return extended.front.usual(heard)

    extended.front.answer = answer


def _asked(extended: Extended) -> list[dict[str, list[str]]]:
    """What the front was asked about exclusions."""
    parts = [urllib.parse.urlsplit(each.path) for each in extended.front.heard]
    return [urllib.parse.parse_qs(each.query) for each in parts if each.path.endswith("excluded")]


def test_the_special_page_says_what_is_missing(extended: Extended) -> None:
    """Above its results, as text; the front is asked once in ten minutes."""
    _excluding(extended)
    query = "&target=*.kept-out.org"
    for _ in range(2):
        page = extended.view("Special:LinkSearch", query).html
        assert "Links to *.kept&lt;out&gt;.org, {{too}}.org may be missing from these results" in page
    assert _asked(extended) == [{"dbname": ["library@example"], "pattern": ["*.kept-out.org"]}]


def test_the_api_says_what_is_missing(extended: Extended) -> None:
    """As a warning of list=exturlusage."""
    _excluding(extended)
    question = {"action": "query", "list": "exturlusage", "euquery": "kept-out.org"}
    told = extended.writer.ask(**question)
    assert "may be missing from these results" in json.dumps(told["warnings"]["exturlusage"])


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"excluded": False, "entries": []}, 200),
        ({"excluded": True, "entries": "kept-out.org"}, 200),
        (["excluded"], 200),
        (ENTRY, 503),
        (ENTRY, 404),
    ],
    ids=["nothing", "form", "list", "away", "older front"],
)
def test_without_a_clear_answer_nothing_is_said(extended: Extended, said: object, status: int) -> None:
    """The search is what it would be without the extension."""
    _excluding(extended, said, status)
    page = extended.view("Special:LinkSearch", "&target=kept-out.org")
    assert page.status == 200
    assert "may be missing" not in page.html


def test_nobody_is_asked_without_a_pattern(extended: Extended) -> None:
    """Nor on other special pages."""
    _excluding(extended)
    extended.view("Special:LinkSearch")
    extended.view("Special:RecentChanges", "&target=kept-out.org")
    assert _asked(extended) == []


def test_the_wiki_tells_how_the_extension_is_set(extended: Extended) -> None:
    """What `weboid wiki check` compares; of the secret only by what two sides see that it is the same."""
    told = extended.writer.ask(action="query", meta="siteinfo")["query"]["general"]["weboid"]
    assert told["wiki"] == "library@example"
    assert told["origins"] == [extended.front.address]
    assert (told["front"], told["webhook"]) == (True, True)
    assert told["version"]
    assert len(told["secret"]) == 8
    assert SECRET not in json.dumps(told)
