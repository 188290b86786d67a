"""From a saved page to a repaired citation: the whole story, in a real browser on a real MediaWiki.

With ``WEBOID_PICTURES=docs/pictures`` it also makes the pictures of the README and of the tutorial.
"""

import asyncio
import io
import json
import os
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from core.clock import SystemClock
from links.check_history import day_of
from links.checker.due_urls import links_awaiting_browser
from links.states import LinkState
from tests.support import loopback
from tests.support.browser_screen import BrowserScreen
from tests.support.commands import CommandResult
from tests.support.documentation_pictures import save_picture
from tests.support.linked_site import Answer, LinkedSite
from tests.support.wiki_deployment import WITHOUT_SIDE_PARTS, WikiDeployment, article, running_deployment
from tests.support.wiki_writer import BOT_SECRET, make_bot

pytestmark = [
    pytest.mark.browser,
    pytest.mark.proxy,
    pytest.mark.playback,
    pytest.mark.slow,
    pytest.mark.timeout(1_500),
    pytest.mark.asyncio(loop_scope="session"),
]

MUSEUM = "museum.harbour-town.org"
SIZE = (1000, 620)
ARTICLE = (176, 0, 1000, 340)  # the part of a page without the side bar, and of the bot's edit
EDIT = (176, 0, 1000, 620)
NARROW = (790, 620)  # the window of the README's picture, of whose steps these are the titles
LOOP = {
    "wiki-queued": "1. A page is saved: its links are queued",
    "wiki-cached": "2. They are archived: copies beside the links",
    "wiki-dead": "3. Months later a site is gone",
    "wiki-cited": "4. The citation is repaired: it leads to the copy",
}
LOOKS = 300
CITED = f"http://{MUSEUM}/lighthouse"
LASTING = ("www.coastal-times.org", "library.seafarers.org", "www.lamps-and-lenses.org")
CITE_WEB = """<includeonly>[{{#ifeq:{{{url-status|}}}|dead|{{{archive-url|}}}|{{{url}}}}} {{{title}}}]\
{{#if:{{{archive-url|}}}|. Archived on {{{archive-date}}}}}{{#if:{{{access-date|}}}|. Seen on {{{access-date}}}}}.</includeonly>"""
PAGE = "Cape lighthouse"
TEXT = f"""The '''Cape lighthouse''' was lit in 1862.\
<ref>{{{{cite web |url={CITED} |title=The lighthouse at the cape |access-date=2026-11-20}}}}</ref>

Its lens came from Paris [http://{LASTING[2]}/lens], and the ''Coastal Times'' wrote of it for a week: \
http://{LASTING[0]}/1862. The [http://{LASTING[1]}/keepers keepers' log] is kept.

== References ==
<references />
"""
LIGHTHOUSE = (
    "<p>The lighthouse at the cape was lit on the first of May 1862, after six years of building. Its "
    "lens was ground in Paris and came by sea; two men were needed to turn it.</p><p>The keepers lived in "
    "the house beside the tower until 1931, when the light became electric and the last of them left.</p>"
)


class SlowSite(LinkedSite):
    """Site whose pages wait until the story opens it, so that a reader sees their links queued."""

    def __init__(self, pages: Mapping[str, Answer], opened: threading.Event) -> None:
        super().__init__(pages)
        self.open = opened

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request, when it may."""
        self.open.wait(120)
        super().answer(handler)


class MuseumSite(SlowSite):
    """Site whose cited page can be taken down."""

    def __init__(self) -> None:
        self._page = article("The lighthouse at the cape", LIGHTHOUSE)
        pages = {f"{MUSEUM}/lighthouse": self._page, f"{MUSEUM}/": self._page}
        super().__init__(pages, threading.Event())

    def remove_page(self) -> None:
        """Answer 404 for the cited page: it is dead after three failures, a site after five."""
        del self.answers[f"{MUSEUM}/lighthouse"]

    def restore_page(self) -> None:
        """Have the cited page again."""
        self.answers[f"{MUSEUM}/lighthouse"] = self._page


class WikiReader:
    """Somebody who writes and reads the wiki in a browser."""

    def __init__(self, deployment: WikiDeployment, screen: BrowserScreen) -> None:
        self._deployment = deployment
        self._screen = screen
        self._address = f"{deployment.wiki.base}/index.php?title={PAGE.replace(' ', '_')}"
        self._pictures: dict[str, Image.Image] = {}

    async def saves(self) -> None:
        """Write the page and save it, as one does without an account."""
        await self._screen.open(f"{self._address}&action=edit", size=SIZE)
        await self._screen.value(
            f"document.querySelector('#wpTextbox1').value = {json.dumps(TEXT)};"
            "document.querySelector('#wpSave').click()"
        )
        await self._until("it is saved", "!!document.querySelector('.mw-body .reference')")

    async def sees(self, selector: str, name: str, *, links: int = 1) -> None:
        """Come back to the page until that stands at the museum's link, or beside so many links."""
        link = f"a[href='{CITED}']"
        where = f"{link}{selector}" if selector.startswith(".weboid-link") else f"{link} + {selector}"
        mark = selector.rpartition(".")[2]
        for _ in range(LOOKS):
            page = await asyncio.to_thread(loopback.get, self._address)
            if mark not in page.text:  # a request costs a fifth of what the browser does
                await asyncio.sleep(1)
                continue
            await self._screen.open(self._address, size=SIZE)
            if await self._screen.value(
                f"!!document.querySelector({json.dumps(where)})"
                f" && document.querySelectorAll({json.dumps(selector)}).length >= {links}"
            ):
                await self._keep(name)
                return
            await asyncio.sleep(1)
        shown = await self._screen.value("document.querySelector('.mw-parser-output').innerHTML")
        raise AssertionError(f"{where} is not on the page: {shown}")

    async def opens_the_copy(self, name: str) -> None:
        """Follow the link to the copy: the page of the archive, with the copy in a frame."""
        where = f"a[href='{CITED}'] + .weboid-copy a"
        address = await self._screen.value(f"document.querySelector({json.dumps(where)}).href")
        assert address.startswith(f"{self._deployment.front}/")
        await self._screen.open(address, size=SIZE)
        assert await self._screen.value("!!document.querySelector('iframe')")
        frame = await self._screen.value("document.querySelector('iframe').src")
        with urllib.request.urlopen(frame, timeout=120) as answer:
            assert b"lit on the first of May 1862" in answer.read()
        await self._keep(name)

    async def opens(self, address: str, name: str) -> None:
        """Look at any page of the wiki."""
        await self._screen.open(f"{self._deployment.wiki.base}/{address}", size=SIZE)
        await self._screen.value("document.querySelector('.diff-addedline')?.scrollIntoView()")
        await self._keep(name)

    async def _until(self, what: str, is_so: str) -> None:
        for _ in range(LOOKS):
            if await self._screen.value(is_so):
                return
            await asyncio.sleep(0.5)
        raise AssertionError(what)

    async def _keep(self, name: str) -> None:
        if folder := os.environ.get("WEBOID_PICTURES"):
            picture = Image.open(io.BytesIO(await self._screen.picture())).convert("RGB")
            if name in {"wiki-queued", "wiki-cached", "wiki-repaired"}:
                part = picture.crop(EDIT if name == "wiki-repaired" else ARTICLE)
                save_picture(part, Path(folder, f"{name}.png"))
            if name in LOOP:
                await self._screen.send(
                    "Emulation.setDeviceMetricsOverride",
                    width=NARROW[0], height=NARROW[1], deviceScaleFactor=1, mobile=False,
                )  # fmt: skip
                box = await self._screen.value(
                    "(box => [box.left - 14, box.top - 6, box.right + 14, box.bottom + 10])"
                    "(document.querySelector('.mw-parser-output').getBoundingClientRect())"
                )
                picture = Image.open(io.BytesIO(await self._screen.picture())).convert("RGB")
                self._pictures[name] = picture.crop(tuple(map(round, box)))

    def draws_the_loop(self) -> None:
        """Put the sentences with the links side by side, as they were at each step."""
        if folder := os.environ.get("WEBOID_PICTURES"):
            width, height = map(max, zip(*(each.size for each in self._pictures.values()), strict=True))
            gap, head = 24, 44
            sheet = Image.new("RGB", (2 * width + 3 * gap, 2 * (height + head) + gap), "#eef1f4")
            draw = ImageDraw.Draw(sheet)
            for number, (name, caption) in enumerate(LOOP.items()):
                left = gap + number % 2 * (width + gap)
                top = number // 2 * (height + head)
                draw.text((left, top + 12), caption, "#1d2b36", ImageFont.load_default(20))
                sheet.paste("white", (left, top + head, left + width, top + head + height))
                sheet.paste(self._pictures[name], (left, top + head))
            save_picture(sheet, Path(folder, "wiki-loop.png"))


@pytest.fixture
def museum() -> Iterator[MuseumSite]:
    """Yield the cited site, which loses a page."""
    with MuseumSite() as running:
        yield running


@pytest.fixture
def deployment(museum: MuseumSite) -> Iterator[WikiDeployment]:
    """Yield a deployment whose cited sites are the museum and those that last."""
    pages = {f"{host}/": article(host, LIGHTHOUSE) for host in LASTING}
    pages |= {
        f"{LASTING[0]}/1862": article("1862 in the Coastal Times", LIGHTHOUSE),
        f"{LASTING[1]}/keepers": article("The keepers' log", LIGHTHOUSE),
        f"{LASTING[2]}/lens": article("A lens of the first order", LIGHTHOUSE),
    }
    with (
        SlowSite(pages, museum.open) as lasting,
        running_deployment([lasting, museum], php="$wgWeboidShow = 'always'; $wgLogos = false;") as running,
    ):
        yield running


async def test_a_link_is_archived_dies_is_repaired_and_lives_again(
    deployment: WikiDeployment, museum: MuseumSite, screen: BrowserScreen
) -> None:
    """Saved, queued, copied; gone, found dead, offered its copy; repaired, taken back; alive."""
    reader = WikiReader(deployment, screen)
    deployment.writer.write("Template:Cite web", CITE_WEB)
    added = deployment.add()
    assert added.code == 0, added
    with deployment.watched(*WITHOUT_SIDE_PARTS):
        await asyncio.to_thread(deployment.until, "the front", lambda: deployment.cached(CITED))
        await reader.saves()
        await reader.sees(".weboid-queued", "wiki-queued", links=4)
        museum.open.set()
        await reader.sees(".weboid-copy", "wiki-cached", links=4)
        await reader.opens_the_copy("wiki-copy")

        museum.remove_page()
        await weeks_pass(deployment, until=LinkState.DEAD)
        await asyncio.to_thread(deployment.forget_answers)
        await reader.sees(".weboid-link.weboid-unreachable", "wiki-dead")

        await asyncio.to_thread(bot_repairs, deployment)
        diff = f"index.php?title={PAGE.replace(' ', '_')}&diff=cur&oldid=prev"
        await reader.opens(diff, "wiki-repaired")
        await reader.opens(f"index.php?title={PAGE.replace(' ', '_')}", "wiki-cited")
        reader.draws_the_loop()
        await asyncio.to_thread(take_back_newest_edit, deployment)

        museum.restore_page()
        await weeks_pass(deployment, until=LinkState.ALIVE)
        await asyncio.to_thread(deployment.forget_answers)
        await reader.sees(".weboid-link.weboid-working", "wiki-back")


def bot_repairs(deployment: WikiDeployment) -> None:
    """Switch the bot on and run it; assert that it adds the copy to the citation and changes nothing else."""
    password = deployment.weboid.folder / "bot-password"
    password.write_text(BOT_SECRET)
    password.chmod(0o600)
    account = (f"--account={make_bot(deployment.wiki)}", f"--password-file={password}")
    # The wiki's other pages have dead links, too: fast enough to see them all mended.
    options = (*account, f"--front={deployment.front}", "--edits-per-minute=600")
    switched = deployment.call("wiki", "bot", "on", *options)
    assert switched.code == 0, switched
    ran = run_bot(deployment)
    match = re.search(r" ?\|archive-url=(\S+) ?\|archive-date=[^|}]+\|url-status=dead", current(deployment))
    assert match is not None, (ran, current(deployment))
    assert current(deployment).replace(match[0], "") == TEXT.rstrip()
    assert match[1].startswith(f"{deployment.front}/")
    with urllib.request.urlopen(match[1], timeout=120) as answer:
        assert answer.status == 200


def take_back_newest_edit(deployment: WikiDeployment) -> None:
    """Let a reader take the bot's edit back."""
    (rev,) = deployment.writer.ask(action="query", titles=PAGE, prop="revisions")["query"]["pages"]
    undone = deployment.writer.act(action="edit", title=PAGE, undo=rev["revisions"][0]["revid"])
    assert undone["edit"]["result"] == "Success", undone
    assert current(deployment) == TEXT.rstrip()


def run_bot(deployment: WikiDeployment) -> CommandResult:
    """Run the bot until it ends."""
    ran = deployment.run("wiki", "bot", "run", "--json", f"--profile={deployment.weboid.profile}")
    assert ran.code == 0, ran
    return ran


def current(deployment: WikiDeployment) -> str:
    """Return the page's current wikitext."""
    parameters = {"prop": "revisions", "rvprop": "content", "rvslots": "main"}
    (page,) = deployment.writer.ask(action="query", titles=PAGE, **parameters)["query"]["pages"]
    text: str = page["revisions"][0]["slots"]["main"]["content"]
    return text


async def weeks_pass(deployment: WikiDeployment, *, until: LinkState) -> None:
    """Let the checker look every few days, and the browser when it is asked, until the link is so."""
    for _ in range(12):
        if (await asyncio.to_thread(deployment.states))[CITED] is until:
            return
        await asyncio.to_thread(deployment.pass_days, 5)
        if not deployment.is_due(CITED):  # a dead link is looked at less often
            continue
        await asyncio.to_thread(deployment.until, "a look", looked_today(deployment))
        await asyncio.to_thread(deployment.until, "the browser's word", lambda: browser_has_spoken(deployment))
    raise AssertionError(f"{CITED} is {deployment.states()[CITED]}")


def looked_today(deployment: WikiDeployment) -> Callable[[], bool]:
    """Return a function that returns True when the link was checked today."""
    return lambda: deployment.checked_day(CITED) == day_of(SystemClock().now())


def browser_has_spoken(deployment: WikiDeployment) -> bool:
    """Have what the browser saw booked, as the household does every few minutes; whether none waits."""
    if not is_browser_awaited(deployment):
        return True
    profile = f"--profile={deployment.weboid.profile}"
    booked = deployment.call("links", "confirm", "--hand-over", profile)
    assert booked.code == 0, booked
    return not is_browser_awaited(deployment)


def is_browser_awaited(deployment: WikiDeployment) -> bool:
    """Tell whether a link waits for a browser check."""
    with deployment.store() as store, store.reading() as rows:
        return bool(links_awaiting_browser(rows, limit=1))
