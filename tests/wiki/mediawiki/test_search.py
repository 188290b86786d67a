"""Notices about excluded links in link searches (X06), and the extension's settings in the API."""

import json
import urllib.parse

import pytest

from tests.support.http_listener import SECRET, ReceivedRequest, StubResponse
from tests.support.mediawiki_extension import ExtensionWiki

pytestmark = pytest.mark.slow
ENTRY = {"excluded": True, "entries": ["*.kept<out>.org", "{{too}}.org", 7]}


def _exclude(extended: ExtensionWiki, document: object = ENTRY, status: int = 200) -> None:
    def answer(request: ReceivedRequest) -> StubResponse:
        if request.path.startswith("/links/api/excluded?"):
            return StubResponse(status, json.dumps(document).encode())
        return extended.front.default_answer(request)

    extended.front.answer = answer


def _queries(extended: ExtensionWiki) -> list[dict[str, list[str]]]:
    """Return the queries about exclusions that the front received."""
    parts = [urllib.parse.urlsplit(each.path) for each in extended.front.requests]
    return [urllib.parse.parse_qs(each.query) for each in parts if each.path.endswith("excluded")]


def test_special_page_shows_a_notice(extended: ExtensionWiki) -> None:
    """Escaped, above the results; one request per ten minutes."""
    _exclude(extended)
    query = "&target=*.kept-out.org"
    for _ in range(2):
        page = extended.view("Special:LinkSearch", query).html
        assert "Links to *.kept&lt;out&gt;.org, {{too}}.org may be missing from these results" in page
    assert _queries(extended) == [{"dbname": ["library@example"], "pattern": ["*.kept-out.org"]}]


def test_api_returns_a_warning(extended: ExtensionWiki) -> None:
    """For list=exturlusage."""
    _exclude(extended)
    question = {"action": "query", "list": "exturlusage", "euquery": "kept-out.org"}
    result = extended.writer.ask(**question)
    assert "may be missing from these results" in json.dumps(result["warnings"]["exturlusage"])


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({"excluded": False, "entries": []}, 200),
        ({"excluded": True, "entries": "kept-out.org"}, 200),
        (["excluded"], 200),
        (ENTRY, 503),
        (ENTRY, 404),
    ],
    ids=["nothing", "form", "list", "away", "older front"],
)
def test_invalid_responses_show_no_notice(extended: ExtensionWiki, document: object, status: int) -> None:
    """The search works as without the extension."""
    _exclude(extended, document, status)
    page = extended.view("Special:LinkSearch", "&target=kept-out.org")
    assert page.status == 200
    assert "may be missing" not in page.html


def test_no_request_without_a_pattern(extended: ExtensionWiki) -> None:
    """Nor on other special pages."""
    _exclude(extended)
    extended.view("Special:LinkSearch")
    extended.view("Special:RecentChanges", "&target=kept-out.org")
    assert _queries(extended) == []


def test_siteinfo_contains_the_settings(extended: ExtensionWiki) -> None:
    """For `weboid wiki check`, with a fingerprint of the secret only."""
    result = extended.writer.ask(action="query", meta="siteinfo")["query"]["general"]["weboid"]
    assert result["wiki"] == "library@example"
    assert result["origins"] == [extended.front.address]
    assert (result["front"], result["webhook"]) == (True, True)
    assert result["version"]
    assert len(result["secret"]) == 8
    assert SECRET not in json.dumps(result)
