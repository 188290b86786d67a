"""The bot in the console's pages; a preview is in `test_bot_operations`, where there is a wiki."""

import re

from tests.support.console_server import Console
from tests.support.registry_shelf import DEAD, WIKI


def test_the_bots_edits_are_shown_as_differences(console: Console) -> None:
    """The page lists reverted edits with their reverters, and failed ones."""
    text = console.get("/bot").text
    reverted = console.get("/bot", state="REVERTED").text

    assert "<ins> {{Webarchive|url=https://archive.example/7}}</ins>" in text
    assert "abusefilter-disallowed" in text
    assert "Reverted by Marta" in reverted
    assert "abusefilter-disallowed" not in reverted
    assert "The edit was right" in reverted


def test_pages_to_repair_can_be_left_alone(console: Console) -> None:
    """A page by its button, a domain by the form; both are listed with the way back."""
    console.role = "curator"
    place = f"/bot/repairs?wiki={WIKI}"
    first = console.get(place).text
    csrf = re.search(r'name="csrf" value="([^"]+)"', first)
    assert csrf is not None
    fields = {"csrf": csrf[1], "back": f"/console{place}", "wiki": WIKI, "enabled": "false"}
    done = [
        console.post("/do/switch_bot", {**fields, **what}).headers["location"]
        for what in ({"title": "Foo bar"}, {"domain": "<b>gone.example"}, {"domain": "gone.example"})
        if "<" not in str(what) or console.post("/do/switch_bot", {**fields, **what}).status_code != 422
    ]
    switched = console.get(place).text
    console.post("/do/switch_bot", {**fields, "title": "Foo bar", "enabled": "true"})
    console.post("/do/switch_bot", {**fields, "domain": "gone.example", "enabled": "true"})

    assert "Foo bar" in first
    assert first.count("Leave alone") - switched.count("Leave alone") == 1
    assert all(each.endswith("done=switch_bot") for each in done)
    assert ">gone.example</th>" in switched
    assert console.get(place).text.count("Repair again") == 0


def test_what_is_no_wiki_or_page_is_not_found(console: Console) -> None:
    """Whatever is asked for; nothing is read from elsewhere, and readers see none of it."""
    console.role = "reviewer"
    assert console.get("/bot/repairs", wiki="none@None").status_code == 404
    assert console.get("/bot/repairs", wiki=WIKI, after="x").status_code == 404
    assert console.get("/bot/preview", wiki=WIKI).status_code == 404
    assert console.get("/bot/preview", wiki=WIKI, title="<script>").status_code == 422
    console.role = "reader"
    assert console.get("/bot/repairs", wiki=WIKI).status_code == 403
    assert console.get("/bot/preview", wiki=WIKI, title="Foo bar").status_code == 403
    assert DEAD in console.get("/links", q=DEAD).text
