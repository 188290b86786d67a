"""Links and bot edits in the console."""

from tests.support.console_server import Console
from tests.support.registry_shelf import DEAD


def test_links_are_found_by_host_state_and_address(console: Console) -> None:
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


def test_a_link_has_its_history(console: Console) -> None:
    """Runs of equal results, copies elsewhere, reports, replacement and citing pages."""
    found = console.get("/links", q=DEAD).text
    number = found.partition("/console/links/")[2].partition('"')[0]

    text = console.get(f"/links/{number}").text

    assert "wayback" in text
    assert "https://verlag.de/there" in text
    assert "1 reader reports that it works" in text
    assert "Foo bar" in text
    assert console.get("/links/99999999").status_code == 404
    assert console.get("/links/9999999999999999999999").status_code == 404


def test_the_bots_edits_are_shown_as_differences(console: Console) -> None:
    """What was reverted, by whom, and what failed."""
    text = console.get("/bot").text
    reverted = console.get("/bot", state="REVERTED").text

    assert "<ins> {{Webarchive|url=https://archive.example/7}}</ins>" in text
    assert "abusefilter-disallowed" in text
    assert "Reverted by Marta" in reverted
    assert "abusefilter-disallowed" not in reverted
    assert "The edit was right" in reverted
