"""A reviewer: a check finds the copy that lost its look, the page is captured again, both are offered."""

import re

import pytest
from PIL import Image

from tests.journeys.conftest import ReaderBrowser, UserShell, own_form, profile_of
from tests.journeys.sites import SiteServer
from tests.support import loopback

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow]

SHEET = (
    "body { margin: 0; background: #063; color: #fff; font: 30px/1.5 sans-serif }"
    "h1 { height: 300px; margin: 0; background: #a30 } p { margin: 40px; width: 300px }"
)
RED = (0xAA, 0x33, 0)  # of the headline
HUGE = f"/* {'What nobody reads. ' * 70_000} */{SHEET}"  # beyond what playback reads (docs/explanation/serving.md)


def test_a_broken_copy_is_found_and_captured_again(site: SiteServer, shell: UserShell, reader: ReaderBrowser) -> None:
    """The first capture is kept under its moment; the better one is what readers are offered."""
    profile_of(shell.folder / "profile.toml", site)
    words = "".join(f"<p>Paragraph {number} of the handbook." for number in range(12))
    html = '<!DOCTYPE html><html lang="en"><title>{}</title><link rel="stylesheet" href="{}">'
    bad = site.put("/bad", f"{html.format('Bad', '/huge.css')}<h1>Handbook</h1>{words}")
    good = site.put("/good", f"{html.format('Good', '/fine.css')}<h1>Handbook</h1>{words}")
    site.put("/huge.css", HUGE, content_type="text/css")
    site.put("/fine.css", SHEET, content_type="text/css")
    archived = shell.run(f"weboid archive --profile profile.toml {bad} {good}")
    assert archived.code == 0, archived.err

    site.put("/huge.css", SHEET, content_type="text/css")  # the site mends it
    checked = shell.run("weboid qa --profile profile.toml --json")
    assert checked.code == 1, checked.err
    verdicts = {each["url"]: each["verdict"] for each in checked.lines if each["event"] == "check"}
    assert verdicts == {bad: "broken", good: "good"}
    written = shell.run("weboid qa ls --html --out report.html")
    assert written.code == 0, written.err
    report = reader.file(shell.folder / "report.html")
    assert bad in report
    assert "/huge.css" in report

    # A person sees what no machine did, and marks it.
    served = shell.serve("--reviewers 127.0.0.1")
    (page_id,) = {each["page_id"] for each in checked.lines if each.get("url") == good}
    place = f"/quality/{page_id}/images"
    form = served.get(place)
    assert form.status_code == 200
    (token,) = re.findall(r'name="token" value="([^"]+)"', form.text)
    letter = {"token": token, "act": "bad", "note": "The headline is wrong.", "by": "Ann"}
    marked = loopback.post(f"{served.origin}{place}", data=letter, headers=own_form(served.origin))
    assert marked.status_code == 303, marked.text
    assert "The headline is wrong." in served.get(place).text
    broken = shell.run("weboid qa ls --verdict broken --json").lines
    assert [each["url"] for each in broken] == [bad, good]
    assert (broken[1]["machine"], broken[1]["person"]) == ("good", "broken")

    # Both are captured again; what was broken has a better capture now.
    repaired = shell.run("weboid qa repair --profile profile.toml --json")
    assert repaired.code == 0, repaired.err
    states = {each["url"]: each["state"] for each in repaired.lines if each["event"] == "repaired"}
    assert states == {bad: "done-better", good: "done-better"}
    assert (site.count("/bad"), site.count("/good")) == (2, 2)
    newest = served.copy(bad)
    earlier, later = served.moments(bad)
    with Image.open(reader.screenshot(newest)) as shot:
        assert shot.convert("RGB").getpixel((5, 5)) == RED
    old = newest.replace(later, earlier)
    assert "Paragraph 0 of the handbook." in loopback.get(old).text
    with Image.open(reader.screenshot(old)) as shot:
        assert shot.convert("RGB").getpixel((5, 5)) != RED
    assert shell.run("weboid verify").code == 0
