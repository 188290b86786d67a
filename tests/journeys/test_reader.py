"""A reader finds a page, reads it, compares two captures, cites it, and reports a link."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from html import unescape
from urllib.parse import quote

import pytest

from tests.journeys.conftest import ReaderBrowser, ServeProcess, UserShell, own_form, profile_of
from tests.journeys.sites import SiteServer, article
from tests.support import loopback

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow]

EARLIER = "The bridge opens in spring."
LATER = "The bridge opens in autumn, at last."


@dataclass(frozen=True)
class ReaderCollection:
    """A served collection with a cited page that was archived, changed and archived again; another page."""

    url: str
    shell: UserShell
    served: ServeProcess


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReaderCollection]:
    """Archive the site, and serve the collection once for all readers."""
    site, shell = SiteServer("library.oldtown.org"), UserShell(tmp_path_factory.mktemp("library"))
    with contextlib.ExitStack() as stack:
        stack.callback(site.stop)
        stack.callback(shell.end)
        url = archived_twice(site, shell)
        yield ReaderCollection(url, shell, shell.serve())


def archived_twice(site: SiteServer, shell: UserShell) -> str:
    """Archive the site as its first page changes, and cite that page; return its URL."""
    profile_of(shell.folder / "profile.toml", site)
    changed = site.put("/bridge", article("The old bridge", EARLIER))
    other = site.put("/mill", article("The mill", "It grinds."))
    first = shell.run(f"weboid archive --profile profile.toml {changed} {other}")
    assert first.code == 0, first.err
    site.put("/bridge", article("The old bridge", LATER))
    second = shell.run(f"weboid archive --profile profile.toml --again {changed}")
    assert second.code == 0, second.err
    made = shell.run("weboid wiki set handbook@home --new-farm --farm-hosts '\\.home\\.example$'")
    assert made.code == 0, made.err
    cited = shell.run(f'weboid links add-page handbook@home "Bridges" --id 7 {changed}')
    assert cited.code == 0, cited.err
    return changed


def test_a_reader_finds_reads_compares_and_cites(library: ReaderCollection, reader: ReaderBrowser) -> None:
    """All by links and forms of the front, as they look in a browser."""
    served, url = library.served, library.url
    results_page = reader.document(f"{served.origin}/?q={quote('title:bridge')}")
    assert "The old bridge" in results_page
    assert "The mill" not in results_page

    earlier, later = served.moments(url)
    assert EARLIER in reader.document(served.copy(url).replace(later, earlier))
    assert LATER in reader.document(served.copy(url))
    for modifier in ("tx_", "rd_", "ni_", "wi_"):
        page = served.get(f"/page/{earlier}{modifier}/{url}")
        assert page.status_code == 200
        (frame,) = re.findall(r'<iframe[^>]* src="([^"]+)"', page.text)
        copy = loopback.get(unescape(frame), headers={"Sec-Fetch-Dest": "iframe"})
        assert (copy.status_code, EARLIER in copy.text) == (200, True), modifier
        assert ("<img" in copy.text) == (modifier == "wi_")

    calendar = served.get(f"/url/{url}")
    path = f"/changes/{earlier}/{later}/{url}"
    assert path in unescape(calendar.text)
    changes = reader.document(f"{served.origin}{path}")
    assert re.search(r"<del[^>]*>[^<]*spring", changes)
    assert re.search(r"<ins[^>]*>[^<]*autumn", changes)

    cite = unescape(served.get(f"/cite/{earlier}/{url}").text)
    for part in ("{{cite web", "data-versionurl", "@misc", f"/{earlier}/{url}"):
        assert part in cite


def test_a_program_asks_for_a_moment(library: ReaderCollection) -> None:
    """RFC 7089: the TimeGate leads to the memento of the moment, whose headers tell what it is."""
    served, url = library.served, library.url
    earlier, later = served.moments(url)
    for stamp in (earlier, later):
        moment = datetime.strptime(stamp, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        date = format_datetime(moment, usegmt=True)
        wanted = {"Accept-Datetime": date}
        gate = loopback.get(f"{served.origin}/timegate/{url}", headers=wanted)
        assert (gate.status_code, gate.headers["vary"]) == (302, "accept-datetime")
        memento = loopback.get(gate.headers["location"])
        assert memento.headers["memento-datetime"] == date
        for relation in (f'<{url}>; rel="original"', 'rel="timegate"', 'rel="timemap"'):
            assert relation in memento.headers["link"]
    rows = served.get(f"/cdx?url={quote(url)}&output=json").text.splitlines()
    assert len(rows) == 2


def fields(page: str) -> dict[str, str]:
    """Return the hidden fields of the form on a page, and what it has chosen."""
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
    chosen = re.findall(r'type="radio" name="(\w+)" value="([^"]*)" checked', page)
    return {name: unescape(value) for name, value in [*hidden, *chosen]}


def test_a_reader_reports_that_a_link_can_be_reached(library: ReaderCollection) -> None:
    """The form is read, then sent as a browser sends it; another site's form says nothing."""
    served, url = library.served, library.url
    overview = served.get(f"/links/say?url={quote(url, safe='')}")
    assert overview.status_code == 200
    assert "No reports of reachability" in overview.text
    form = served.get(f"/links/say/report?url={quote(url, safe='')}")
    assert form.status_code == 200
    letter = fields(form.text)
    assert {"url", "token", "reach"} <= letter.keys()

    action = f"{served.origin}/links/say/report"
    foreign = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    assert loopback.post(action, data=letter, headers=foreign).status_code == 403
    sent = loopback.post(action, data=letter, headers=own_form(served.origin))
    assert sent.status_code == 303
    thanks = served.get(sent.headers["location"])
    assert "Thank you" in thanks.text
    assert "1 reader reported it as reachable" in thanks.text
    assert library.shell.run(f"weboid links show {url} --json").lines[0]["reports"] == 1
