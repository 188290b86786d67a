"""A wiki's administrator: adds the wiki, watches it, saves links of all sorts, restarts everything.

And sees a site die: weeks pass on a copy that `weboid wiki trial --keep` makes, by `--clock-offset`.
"""

import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.journeys.conftest import CommandEnd, ReaderBrowser, RunningCommand, UserShell, profile_of
from tests.journeys.sites import SiteServer, article, paper
from tests.support import loopback
from tests.support.polling import wait_until
from tests.support.services.ports import free_port
from tests.support.sites.mediawiki import RunningWiki, running_wiki
from tests.support.wiki_writer import BOT_SECRET, WikiWriter, make_bot

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PAGE = "Bridges of the old town"
BLUE, YELLOW = (0, 0, 200), (220, 200, 0)
# The first failure is of the first day: five of them, of 18 days at least, make a link dead.
FAILING_DAYS, LAST_DAY = (5, 10, 15), 20

# Parts of the watch that a restart does not need, and a site's death only on the copy of the collection.
UNUSED = ("check", "confirm", "bot", "replace", "purge", "copies", "verify", "mirror", "lists", "scan", "webhooks")


class WikiArchive:
    """`weboid wiki watch` with a front, as the README starts it. `start` may be said again after `stop`."""

    def __init__(self, shell: UserShell, front_port: int, webhook_port: int) -> None:
        self.front = f"http://127.0.0.1:{front_port}"
        self.webhook_port = webhook_port
        self._shell = shell
        self._line = (
            f"weboid wiki watch --listen 127.0.0.1:{front_port} --links-internal 127.0.0.1"
            f" --webhook 127.0.0.1:{webhook_port} --webhook-secret-file webhook.secret --profile profile.toml"
        )
        self._command: RunningCommand | None = None

    def start(self, *without: str) -> None:
        """Start it without these parts; return when the front answers."""
        self._command = self._shell.start(" ".join((self._line, *(f"--without {part}" for part in without))))
        wait_until(self._answers)

    def stop(self) -> None:
        """Press Ctrl-C."""
        assert self._command is not None
        self._command.interrupt()
        assert self._command.ended().code == 0, self._command.err

    def _answers(self) -> bool:
        assert self._command is not None
        assert self._command.process.poll() is None, self._command.err
        try:
            return loopback.get(f"{self.front}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def links(self, wiki: str, *urls: str) -> dict[str, dict[str, Any]]:
        """Return what the front tells the wiki's pages of these links."""
        body = {"wiki": wiki, "urls": list(urls)}
        answer = loopback.post(f"{self.front}/links/api/cached", json=body, timeout=120)
        assert answer.status_code == 200, answer.text
        return {each["url"]: each for each in answer.json()["links"]}


@pytest.fixture
def mill() -> Iterator[SiteServer]:
    """Yield a second cited site, which stays available."""
    running = SiteServer("mill.oldtown.org")
    yield running
    running.stop()


@pytest.fixture
def archive(shell: UserShell, site: SiteServer, mill: SiteServer) -> WikiArchive:
    """Return the archive beside the wiki, configured but not started."""
    (shell.folder / "webhook.secret").write_text("cd" * 32 + "\n")
    (shell.folder / "webhook.secret").chmod(0o600)  # as `umask 077` makes it
    links = {"host_gap_s": 0.1, "contact": "https://wiki.oldtown.org/bot"}
    profile_of(shell.folder / "profile.toml", site, mill, links=links, frontier={"attempts": 2})
    return WikiArchive(shell, free_port(), free_port())


@pytest.fixture
def wiki(archive: WikiArchive, shell: UserShell) -> Iterator[RunningWiki]:
    """Yield a MediaWiki with the extension, configured as the README says."""
    extension = "wiki/mediawiki/Weboid/extension.json"
    settings = f"""
wfLoadExtension( 'Weboid', '{ROOT / extension}' );
$wgWeboidFront = '{archive.front}';
$wgWeboidWebhook = 'http://127.0.0.1:{archive.webhook_port}';
$wgWeboidSecretFile = '{shell.folder / "webhook.secret"}';
$wgJobRunRate = 10;
"""
    with running_wiki(server="self", settings=settings) as running:
        yield running


def save(wiki: RunningWiki, title: str, text: str) -> int:
    """Save a page as its editor does, whose browser is shown it then; return its number."""
    page_id, _ = WikiWriter(wiki.api()).write(title, text)
    assert loopback.get(f"{wiki.base}/index.php?curid={page_id}", timeout=120).status_code == 200
    return page_id


def test_links_of_all_sorts_are_archived_marked_and_keep_their_addresses(
    archive: WikiArchive, wiki: RunningWiki, site: SiteServer, shell: UserShell, reader: ReaderBrowser
) -> None:
    """From the moment a page is saved, on the wiki's own page, and after everything was restarted."""
    alive = site.put("/bridge", article("The old bridge", "It still stands."))
    moved = site.put("/moved", "", status=301, headers={"Location": "/bridge"})
    slow = site.put("/slow", article("The slow mill", "It grinds slowly."), is_held=True)
    forbidden = site.put("/members", "<title>Members only</title><p>Log in.", status=403)
    gone = site.put("/gone", "<title>Gone</title><p>Not here.", status=404)
    pages = paper("rgb(0, 0, 200)", "rgb(220, 200, 0)")
    report = site.put("/report.pdf", pages, content_type="application/pdf")

    added = shell.run(f"weboid wiki add {wiki.base}")
    assert added.code == 0, added.err
    assert "New links are archived at once." in added.out
    name = json.loads(shell.run("weboid wiki ls --json").out)["wikis"][0]["wiki"]

    archive.start()
    cited = (alive, moved, slow, report, forbidden, gone)
    archived = (alive, moved, slow, report)
    page_id = save(wiki, PAGE, "\n".join(f"* [{url} source]" for url in cited))
    wait_until(lambda: site.count("/slow") > 0)
    assert archive.links(name, slow)[slow]["answer"] == "queued"
    site.release()
    wait_until(lambda: {archive.links(name, *cited)[url]["answer"] for url in archived} == {"copy"})
    wait_until(lambda: archive.links(name, *cited)[forbidden]["answer"] not in {"queued", "none"})
    links = archive.links(name, *cited)
    assert links[forbidden]["answer"] != "copy"
    assert links[gone]["answer"] != "copy"

    address = f"{wiki.base}/index.php?curid={page_id}"
    wait_until(lambda: loopback.get(address).text.count("weboid-cached weboid-copy") >= 4)
    shown = reader.document(address)
    place = links[alive]["href"].removeprefix(archive.front)
    assert place in shown  # before it stands the language of the wiki's page
    assert "It still stands." in loopback.get(links[alive]["copy"]).text
    assert_is_shown_page_by_page(links[report]["copy"], reader)

    site.stop()
    archive.stop()
    wiki.restart()
    archive.start(*UNUSED)
    again = archive.links(name, *cited)
    for url in archived:
        assert (again[url]["href"], again[url]["copy"]) == (links[url]["href"], links[url]["copy"])
        for cited_address in (links[url]["href"], links[url]["copy"]):
            assert loopback.get(cited_address, timeout=120).status_code == 200
    assert "It still stands." in loopback.get(again[alive]["copy"]).text
    assert place in reader.document(address)

    # Both go on where they were: what is saved now is archived, too.
    site.start()
    later = site.put("/ferry", article("The ferry", "It came after the restart."))
    save(wiki, "Ferries", f"[{later} source]")
    wait_until(lambda: archive.links(name, later)[later]["answer"] == "copy")
    archive.stop()
    verified = shell.run("weboid verify")
    assert verified.code == 0, verified.out


def assert_is_shown_page_by_page(copy: str, reader: ReaderBrowser) -> None:
    """See that a PDF's copy shows each page as a picture, in order, and nothing of the file runs."""
    shown = loopback.get(copy, timeout=120)
    assert shown.status_code == 200, shown.text
    assert shown.headers["content-type"].startswith("text/html")
    pictures = re.findall(r'<img[^>]* src="([^"]+urn:pdfpage-\d+:[^"]+)"', shown.text)
    colours = []
    for place in pictures:
        answer = loopback.get(httpx.URL(copy).join(place), timeout=120)
        assert answer.headers["content-type"].startswith("image/")
        with Image.open(BytesIO(answer.content)) as picture:
            colours.append(picture.convert("RGB").resize((1, 1)).getpixel((0, 0)))
    assert [is_near(each, BLUE) for each in colours[:1]] == [True]
    assert [is_near(each, YELLOW) for each in colours[1:]] == [True]
    with Image.open(reader.screenshot(copy)) as shot:
        middle = shot.convert("RGB").getpixel((400, 500))
    assert is_near(middle, BLUE), middle


def is_near(colour: Any, wanted: tuple[int, int, int]) -> bool:
    """Return whether a colour is another but for what compression does to it."""
    return all(abs(one - other) <= 24 for one, other in zip(colour, wanted, strict=True))


class WikiTrial:
    """A copy on which weeks pass: `weboid wiki trial --keep trial`, and commands with a moved clock."""

    def __init__(self, shell: UserShell) -> None:
        self._shell = shell
        self.day = 0
        made = shell.run("weboid wiki trial --days 1 --no-bot --keep trial --profile profile.toml")
        assert made.code == 0, made.err

    def run(self, line: str, *, code: int = 0) -> CommandEnd:
        """Run `weboid LINE` on the copy, on its day."""
        offset = f"--clock-offset {self.day}d "
        ran = self._shell.run(f"weboid {offset}{line} --collection trial --profile profile.toml")
        assert ran.code == code, (line, ran.out, ran.err)
        return ran

    def show(self, line: str) -> str:
        """Return what `weboid LINE` prints on the copy, on its day."""
        offset = f"--clock-offset {self.day}d " if self.day else ""
        shown = self._shell.run(f"weboid {offset}{line} --collection trial")
        assert shown.code == 0, shown.err
        return shown.out

    def state(self, url: str) -> str:
        """Return what the registry calls the link."""
        state: str = json.loads(self.show(f"links show {url} --json"))["state"]
        return state

    def pass_weeks(self, url: str) -> list[str]:
        """Check every few days; return the states after that, and after the browser has confirmed."""
        for self.day in (*FAILING_DAYS, LAST_DAY):
            self.run("links check")
        states = [self.state(url)]
        self.run("links confirm")
        return [*states, self.state(url)]


def test_a_site_that_dies_is_found_confirmed_and_mended_once(
    archive: WikiArchive, wiki: RunningWiki, site: SiteServer, shell: UserShell, mill: SiteServer
) -> None:
    """The bot shows its edit, makes it, is undone by a reader, and lets it be."""
    dead = site.put("/hall", article("The hall", "It was pulled down."))
    alive = mill.put("/wheel", article("The wheel", "It turns."))
    added = shell.run(f"weboid wiki add {wiki.base} --category Bridges")
    assert added.code == 0, added.err
    name = json.loads(shell.run("weboid wiki ls --json").out)["wikis"][0]["wiki"]
    archive.start(*UNUSED)
    text = f"The hall.<ref>[{dead} Hall]</ref> A [{alive} wheel].\n\n[[Category:Bridges]]"
    page_id, writer = save(wiki, PAGE, text), WikiWriter(wiki.api())
    wait_until(lambda: {each["answer"] for each in archive.links(name, dead, alive).values()} == {"copy"})
    site.stop()

    trial = WikiTrial(shell)
    assert trial.pass_weeks(dead) == ["dying", "dead"]  # a browser has to see it first
    assert trial.state(alive) == "alive"

    dry = trial.run("wiki bot run --dry-run")
    (line,) = [each for each in dry.out.splitlines() if each.strip().startswith("+The hall.")]
    (copy,) = re.findall(re.escape(archive.front) + r"[^\s|\]}<]+", line)
    assert "It was pulled down." in whole_copy(copy)
    assert current(writer) == text

    switch_on(trial, wiki, archive.front, shell)
    trial.run("wiki bot run")
    mended = current(writer)
    assert mended.splitlines()[0] == line.strip().removeprefix("+")

    # Somebody who reads the wiki takes it back.
    (page,) = writer.ask(action="query", pageids=page_id, prop="revisions")["query"]["pages"]
    writer.act(action="edit", pageid=page_id, undo=page["revisions"][0]["revid"])
    assert current(writer) == text
    trial.run("wiki bot run")
    assert current(writer) == text
    edit = json.loads(trial.show("wiki bot ls --state reverted --json"))
    assert (edit["page_id"], edit["undone_by"]) == (page_id, "Admin")
    assert dead in trial.show("wiki bot review")

    # The real collection knows nothing of it, and the archive goes on.
    real = shell.run(f"weboid links show {dead} --json")
    assert real.code == 0, real.err
    assert json.loads(real.out)["state"] != "dead"
    archive.stop()


def whole_copy(address: str) -> str:
    """Return a cited page of the front, with the copy that it frames."""
    page = loopback.get(address, timeout=120, follow_redirects=True)
    assert page.status_code == 200, page.text
    frames = re.findall(r'<iframe[^>]* src="([^"]+)"', page.text)
    return page.text + "".join(loopback.get(page.url.join(each), timeout=120).text for each in frames)


def switch_on(trial: WikiTrial, wiki: RunningWiki, front: str, shell: UserShell) -> None:
    """Let the copy's bot edit, with an account of its own."""
    password = shell.folder / "bot-password"
    password.write_text(BOT_SECRET)
    password.chmod(0o600)
    account = f"--account {make_bot(wiki)} --password-file {password}"
    trial.run(f"wiki bot on {account} --front {front} --edits-per-minute 600")


def current(writer: WikiWriter) -> str:
    """Return the page's wikitext."""
    query = {"prop": "revisions", "rvprop": "content", "rvslots": "main"}
    (page,) = writer.ask(action="query", titles=PAGE, **query)["query"]["pages"]
    wikitext: str = page["revisions"][0]["slots"]["main"]["content"]
    return wikitext
