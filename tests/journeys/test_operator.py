"""An operator's bad days: a take-down, a level, an upgrade."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.journeys.conftest import ReaderBrowser, UserShell, profile_of
from tests.journeys.sites import SiteServer, article, picture
from tests.support import loopback

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow]

# Made by `weboid` of revision 34828e8, on its own code and a site as in sites.py: `archive --list` of
# /old/0 and /old/1 of library.oldtown.org, `links import` of a page that cites both, `level set html --link`
# of the first, `takedown add` of the second. Only the authority's keys (`ca/`) were left out.
PREVIOUS = Path(__file__).parent / "stored" / "collection-34828e8.tar.gz"


@pytest.fixture
def pages(site: SiteServer, shell: UserShell) -> list[str]:
    """Serve two pages and write the profile for them; return their URLs."""
    profile_of(shell.folder / "profile.toml", site)
    return [site.put(f"/page/{number}", article(f"Page {number}", f"Words of page {number}.")) for number in range(2)]


def archive(shell: UserShell, *urls: str) -> None:
    """Run `weboid archive`."""
    ran = shell.run(f"weboid archive --profile profile.toml {' '.join(urls)}")
    assert ran.code == 0, ran.err


def test_a_copy_is_taken_down_then_limited_and_comes_back(
    pages: list[str], shell: UserShell, reader: ReaderBrowser
) -> None:
    """From the next request on, on the front and in replay, with everything running and warm."""
    archive(shell, *pages)
    served = shell.serve()
    copies = [served.copy(url) for url in pages]
    for url, copy in zip(pages, copies, strict=True):
        assert served.get(f"/latest/{url}").status_code == 200
        assert loopback.get(copy).status_code == 200

    added = shell.run(f'weboid takedown add {pages[0]} --reason "By order 7." --ticket T-12')
    assert added.code == 0, added.err
    for address in (f"{served.origin}/latest/{pages[0]}", copies[0]):
        answer = loopback.get(address, follow_redirects=True)
        assert answer.status_code == 451
        assert "blocked-by" in answer.headers["link"]
        assert "T-12" not in answer.text
    assert "By order 7." in served.get(f"/latest/{pages[0]}").text
    assert "Words of page 0." not in reader.document(copies[0])
    assert loopback.get(copies[1]).status_code == 200
    proof = shell.run(f"weboid takedown prove {pages[0]}")
    assert proof.code == 0, proof.out + proof.err

    lifted = shell.run('weboid takedown rm 1 --reason "The order was set aside."')
    assert lifted.code == 0, lifted.err
    assert served.get(f"/latest/{pages[0]}").status_code == 200
    assert "Words of page 0." in reader.document(copies[0])

    # A level: text without the picture while it holds; the page with its look before and after.
    copy = copies[0]
    assert "<img" in loopback.get(copy).text
    assert shell.run(f"weboid level set text --link {pages[0]}").code == 0
    shown = loopback.get(copy, follow_redirects=True)
    assert (shown.status_code, "Words of page 0." in shown.text) == (200, True)
    assert "<img" not in shown.text
    assert "text" in shell.run(f"weboid level ls {pages[0]}").out
    assert "<img" in loopback.get(served.copy(pages[1]), follow_redirects=True).text

    assert shell.run(f"weboid level rm --link {pages[0]}").code == 0
    assert "<img" in loopback.get(copy).text


def test_a_capture_that_the_host_confirmed_is_taken_down(site: SiteServer, shell: UserShell) -> None:
    """Page and picture of a 304 are shown from the first capture's records, until the later one is taken down."""
    validators = {"ETag": '"1"', "Cache-Control": "no-cache"}
    site.put("/picture.png", picture(), content_type="image/png", headers=validators)
    url = site.put("/confirmed", article("Confirmed", "Words of a confirmed article."), headers=validators)
    profile_of(shell.folder / "profile.toml", site)
    archive(shell, url)
    archive(shell, url, "--again")
    assert [site.count(path) for path in ("/confirmed", "/picture.png")] == [2, 2]
    served = shell.serve()
    copy = served.copy(url)
    shown = loopback.get(copy)
    assert "Words of a confirmed article." in shown.text
    assert "<img" in shown.text

    timestamp = re.search(r"\d{14}", copy)
    assert timestamp is not None
    added = shell.run(f"weboid takedown add {url} --capture {timestamp[0]} --reason Order")
    assert added.code == 0, added.err
    assert loopback.get(copy).status_code == 451
    earlier = served.get(f"/latest/{url}")
    assert earlier.status_code == 200
    assert timestamp[0] not in str(earlier.url)
    proof = shell.run(f"weboid takedown prove {url}")
    assert proof.code == 0, proof.out + proof.err


def test_the_collection_of_the_previous_release_is_gone_on_with(site: SiteServer, shell: UserShell) -> None:
    """Its pages, its level, its take-down and its links hold; what it has is not archived again."""
    subprocess.run(["tar", "-xf", PREVIOUS, "-C", shell.folder], check=True)
    profile_of(shell.folder / "profile.toml", site)
    first, withheld = (site.url(f"/old/{number}") for number in range(2))
    new = site.put("/new", article("New", "Words of a new article."))

    served = shell.serve()
    before = loopback.get(served.copy(first), follow_redirects=True)
    assert "Words of old article 0." in before.text
    served.command.end()

    archive(shell, first, withheld, new)
    assert [site.count(path) for path in ("/old/0", "/old/1", "/new")] == [0, 0, 1]
    verified = shell.run("weboid verify")
    assert verified.code == 0, verified.out

    served = shell.serve()
    assert "Words of a new article." in loopback.get(served.copy(new)).text
    old = loopback.get(served.copy(first), follow_redirects=True)
    assert "Words of old article 0." in old.text
    assert "<img" not in old.text  # the level that the previous release was given
    assert served.get(f"/latest/{withheld}").status_code == 451
    cited = shell.run(f"weboid links show {first} --json")
    assert cited.code == 0, cited.err
    assert cited.lines[0]["pages"][0]["title"] == "Old"
