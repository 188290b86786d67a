"""An archivist has a list: archives it, is interrupted, goes on, verifies, looks, hands the files on."""

import subprocess
from pathlib import Path

import httpx
import pytest
from PIL import Image

from tests.journeys.conftest import PROGRAMS, ReaderBrowser, UserShell, profile_of
from tests.journeys.sites import SiteServer, article
from tests.support import loopback
from tests.support.polling import wait_until
from tests.support.services.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow]

REPLAY = PROGRAMS.parents[1] / ".venv-replay" / "bin"
COUNT = 4
ARCHIVE = "weboid archive --list urls.txt --profile profile.toml --workers 1"


LOOK = {(0, 0x66, 0x33), (0, 0xAA, 0)}  # of the style sheet, of the picture


def colours(shot: Image.Image) -> set[object]:
    """Return the colours along the left side of a picture."""
    pixels = shot.convert("RGB")
    return {pixels.getpixel((x, y)) for x in (5, 100) for y in range(pixels.height)}


class StockPywb:
    """Stock pywb with a collection of these WARCs or WACZ files, as its manual says."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        folder.mkdir()
        self._folder = folder
        self._run("init", "ours")
        self._run("add", "--unpack-wacz", "ours", *map(str, files))
        port = free_port()
        self.origin = f"http://127.0.0.1:{port}"
        self._log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            [str(REPLAY / "wayback"), "--bind", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            stdout=self._log,
            stderr=self._log,
        )
        wait_until(self._answers)

    def _run(self, *words: str) -> None:
        command = [str(REPLAY / "wb-manager"), *words]
        subprocess.run(command, cwd=self._folder, capture_output=True, check=True)

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self._folder / "log").read_text()
        try:
            return loopback.get(f"{self.origin}/ours/").status_code == 200
        except httpx.TransportError:
            return False

    def end(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(120)
        self._log.close()


@pytest.fixture
def listed(site: SiteServer, shell: UserShell) -> list[str]:
    """Write a list of one site's pages, the second of which is slow to answer, and a profile; return the URLs."""
    urls = [
        site.put(f"/article/{number}", article(f"Article {number}", f"Words of article {number}."))
        for number in range(COUNT)
    ]
    site.put("/article/1", article("Article 1", "Words of article 1."), is_held=True)
    (shell.folder / "urls.txt").write_text("\n".join(urls) + "\n")
    profile_of(shell.folder / "profile.toml", site)
    return urls


def test_an_archivist_archives_a_list_and_hands_it_on(
    listed: list[str], site: SiteServer, shell: UserShell, reader: ReaderBrowser
) -> None:
    """Interrupted and gone on with, verified, replayed by Weboid and by stock pywb."""
    # Ctrl-C while the second page is under way: it is finished, the others are left.
    run = shell.start(f"{ARCHIVE} --json")
    run.until("page")
    wait_until(lambda: site.count("/article/1") == 1)
    run.interrupt()
    site.release()
    interrupted = run.ended()
    assert interrupted.code == 6, interrupted.err
    assert interrupted.lines[-1]["left"] == COUNT - 2

    # The same command goes on, and does nothing twice.
    again = shell.run(f"{ARCHIVE} --json")
    assert again.code == 0, again.err
    assert [site.count(f"/article/{number}") for number in range(COUNT)] == [1] * COUNT
    verified = shell.run("weboid verify collection")
    assert verified.code == 0, verified.out

    # The site goes; the copies stay.
    site.stop()
    served = shell.serve()
    assert served.get(f"/latest/{listed[2]}").status_code == 200
    memento = served.copy(listed[2])
    document = reader.document(memento)
    assert "Words of article 2." in document
    with Image.open(reader.screenshot(memento)) as shot:
        assert colours(shot) >= LOOK

    warcs = sorted((shell.folder / "collection" / "archive").glob("*.warc.gz"))
    pywb = StockPywb(shell.folder / "pywb", warcs)
    try:
        stamp = memento.split("/c/")[1].split("/")[0]
        same = loopback.get(f"{pywb.origin}/ours/{stamp}mp_/{listed[2]}")
        assert (same.status_code, "Words of article 2." in same.text) == (200, True)
        replayed = reader.screenshot(f"{pywb.origin}/ours/{stamp}mp_/{listed[2]}")
        with Image.open(replayed) as shot:
            assert colours(shot) >= LOOK
    finally:
        pywb.end()
