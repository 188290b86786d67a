"""Links and bot edits in the console."""

import re
from datetime import UTC, datetime

from links.states import LinkState
from tests.support.console_server import ServedConsole
from tests.support.registry_builder import DEAD, WIKI
from weboid.console.link_pages import state_chart


def test_links_are_found_by_host_state_and_address(console: ServedConsole) -> None:
    """With the last check and since when they fail."""
    host = console.get("/links", q="museum.example").text
    dead = console.get("/links", state="DEAD").text
    one = console.get("/links", q=DEAD).text

    assert "https://museum.example/cited/0" in host
    assert "library.example" not in host
    assert "https://library.example/cited/7" in dead
    assert "https://library.example/cited/0<" not in dead
    assert one.count('name="url" value=') == 1
    assert "No link matches" in console.get("/links", q="none.example").text


def test_links_by_state_are_drawn_over_time(console: ServedConsole) -> None:
    """On both pages, with the numbers as a table; none in a search, none before a second day."""
    links, overview = console.get("/links").text, console.get().text
    chart = state_chart({10: {LinkState.ALIVE: 6, LinkState.DEAD: 2}, 12: {LinkState.ALIVE: 6, LinkState.DEAD: 4}})

    assert links.count("<polygon") == overview.count("<polygon") == 4
    assert "the numbers are in the table below" in links
    assert f'<th scope="row">{datetime.now(UTC):%Y-}' in overview
    assert "<polygon" not in console.get("/links", q="museum.example").text
    assert chart is not None
    assert chart.areas[0] == ("good", "0.0,40.00 600.0,40.00 600.0,100.00 0.0,100.00")
    assert chart.areas[2] == ("bad", "0.0,20.00 600.0,0.00 600.0,40.00 0.0,40.00")
    assert [list(counts) for _, counts in chart.days] == [[6, 0, 4, 0], [6, 0, 2, 0]]
    assert state_chart({10: {LinkState.ALIVE: 6}}) is None


def test_a_link_has_its_history(console: ServedConsole) -> None:
    """Runs of equal results, copies elsewhere, reports, replacement and citing pages."""
    listing = console.get("/links", q=DEAD).text
    number = listing.partition("/console/links/")[2].partition('"')[0]

    text = console.get(f"/links/{number}").text

    assert "wayback" in text
    assert "https://verlag.de/there" in text
    assert "1 reader reports that it works" in text
    assert "Foo bar" in text
    assert console.get("/links/99999999").status_code == 404
    assert console.get("/links/9999999999999999999999").status_code == 404


def test_a_pages_links_are_listed_with_their_states(console: ServedConsole) -> None:
    """From the page that cites them; an unknown page or wiki is none."""
    listing = console.get("/links", q=DEAD).text
    number = listing.partition("/console/links/")[2].partition('"')[0]
    way = "/console/links/page?wiki=dewiki%40WMF&amp;title=Foo+bar"
    text = console.get("/links/page", wiki=WIKI, title="Foo bar").text

    assert way in console.get(f"/links/{number}").text
    assert f"/console/links/{number}" in text
    assert console.get("/links/page", wiki=WIKI, title="None").status_code == 404
    assert console.get("/links/page", wiki="none@None", title="Foo bar").status_code == 404


def test_replacements_and_reports_are_decided_where_they_are_listed(console: ServedConsole) -> None:
    """A reviewer proposes at the link, a curator approves in the list; readers see both without buttons."""
    url, address = "https://library.example/cited/7", "https://library.example/moved/7"
    console.role = "reviewer"
    number = console.get("/links", q=url).text.partition("/console/links/")[2].partition('"')[0]
    link = console.get(f"/links/{number}").text
    form = {"csrf": link.partition('name="csrf" value="')[2].partition('"')[0], "url": url, "address": address}
    proposed = console.post("/do/propose_link_replacement", {**form, "back": f"/console/links/{number}"})
    console.role = "curator"
    text = console.get("/links").text
    csrf = text.partition('name="csrf" value="')[2].partition('"')[0]
    approved = console.post("/do/approve_link_replacement", {**form, "csrf": csrf, "back": "/console/links"})
    console.role = "reader"
    read = console.get("/links").text

    assert 'action="/do/propose_link_replacement"' in link
    assert proposed.headers["location"] == f"/console/links/{number}?done=propose_link_replacement"
    assert approved.headers["location"] == "/console/links?done=approve_link_replacement"
    assert address in read
    assert "Reader reports" in read
    for name in ("approve_link_replacement", "remove_replacement", "withdraw_link_reports", "check_links"):
        assert f"/do/{name}" in text
        assert f"/do/{name}" not in read


def test_marks_are_listed_and_removed(console: ServedConsole) -> None:
    """With reason and author; markup in them is text."""
    console.role = "curator"
    page = console.get("/links").text
    form = {"csrf": page.partition('name="csrf" value="')[2].partition('"')[0], "back": "/console/links"}
    console.post("/do/mark_links", {**form, "url": "museum.example/old/", "kind": "never", "reason": "<b>moved</b>"})
    marked = console.get("/links").text
    number = marked.partition('name="mark" value="')[2].partition('"')[0]
    removed = console.post("/do/remove_marks", {**form, "mark": number})

    assert "museum.example/old/" in marked
    assert "&lt;b&gt;moved&lt;/b&gt;" in marked
    assert "never checked" in marked
    assert removed.headers["location"] == "/console/links?done=remove_marks"
    assert "museum.example/old/" not in console.get("/links").text


def test_the_bots_edits_are_shown_as_differences(console: ServedConsole) -> None:
    """The page lists reverted edits with their reverters, and failed ones."""
    text = console.get("/bot").text
    reverted = console.get("/bot", state="REVERTED").text

    assert "<ins> {{Webarchive|url=https://archive.example/7}}</ins>" in text
    assert "abusefilter-disallowed" in text
    assert "Reverted by Marta" in reverted
    assert "abusefilter-disallowed" not in reverted
    assert "The edit was right" in reverted


def test_pages_to_repair_can_be_left_alone(console: ServedConsole) -> None:
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
    assert first.count("Exclude<") - switched.count("Exclude<") == 1
    assert all(each.endswith("done=switch_bot") for each in done)
    assert ">gone.example</th>" in switched
    assert console.get(place).text.count("Repair again") == 0


def test_what_is_no_wiki_or_page_is_not_found(console: ServedConsole) -> None:
    """Whatever is asked for; nothing is read from elsewhere, and readers see none of it."""
    console.role = "reviewer"
    assert [console.get(f"/links/{number}").status_code for number in ("0", "x", "9" * 5_000)] == [404] * 3
    assert console.get("/bot/repairs", wiki="none@None").status_code == 404
    assert console.get("/bot/repairs", wiki=WIKI, after="x").status_code == 404
    assert console.get("/bot/preview", wiki=WIKI).status_code == 404
    assert console.get("/bot/preview", wiki=WIKI, title="<script>").status_code == 422
    console.role = "reader"
    assert console.get("/bot/repairs", wiki=WIKI).status_code == 403
    assert console.get("/bot/preview", wiki=WIKI, title="Foo bar").status_code == 403
    assert DEAD in console.get("/links", q=DEAD).text
