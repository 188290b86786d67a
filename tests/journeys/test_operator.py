"""An operator's bad days: a take-down, a level, a full disk, a lost index, a backup, an upgrade."""

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.journeys.conftest import Reader, Shell, profile_of
from tests.journeys.sites import SiteServer, article

pytestmark = [pytest.mark.browser, pytest.mark.proxy, pytest.mark.playback, pytest.mark.slow]

# Made by `weboid` of revision 34828e8, on its own code and a site as in sites.py: `archive --list` of
# /old/0 and /old/1 of library.oldtown.org, `links import` of a page that cites both, `level set html --link`
# of the first, `takedown add` of the second. Only the authority's keys (`ca/`) were left out.
PREVIOUS = Path(__file__).parent / "stored" / "collection-34828e8.tar.gz"
MB = 1 << 20


@pytest.fixture
def pages(site: SiteServer, shell: Shell) -> list[str]:
    """Two pages to archive, and the profile for it."""
    profile_of(shell.folder / "profile.toml", site)
    return [
        site.put(f"/page/{number}", article(f"Page {number}", f"Words of page {number}."))
        for number in range(2)
    ]


def archive(shell: Shell, *urls: str, code: int = 0) -> str:
    """Run `weboid archive` and return all that it says."""
    ran = shell.run(f"weboid archive --profile profile.toml {' '.join(urls)}")
    assert ran.code == code, ran.err
    return ran.out + ran.err


def test_a_copy_is_taken_down_and_comes_back(
    pages: list[str], shell: Shell, reader: Reader
) -> None:
    """From the next request on, on the front and in replay, with everything running and warm."""
    archive(shell, *pages)
    served = shell.serve()
    copies = [served.copy(url) for url in pages]
    for url, copy in zip(pages, copies, strict=True):
        assert served.get(f"/latest/{url}").status_code == 200
        assert httpx.get(copy).status_code == 200

    added = shell.run(f'weboid takedown add {pages[0]} --reason "By order 7." --ticket T-12')
    assert added.code == 0, added.err
    for address in (f"{served.origin}/latest/{pages[0]}", copies[0]):
        answer = httpx.get(address, follow_redirects=True)
        assert answer.status_code == 451
        assert "blocked-by" in answer.headers["link"]
        assert "T-12" not in answer.text
    assert "By order 7." in served.get(f"/latest/{pages[0]}").text
    assert "Words of page 0." not in reader.document(copies[0])
    assert httpx.get(copies[1]).status_code == 200
    proof = shell.run(f"weboid takedown prove {pages[0]}")
    assert proof.code == 0, proof.out + proof.err

    lifted = shell.run('weboid takedown lift 1 --reason "The order was set aside."')
    assert lifted.code == 0, lifted.err
    assert served.get(f"/latest/{pages[0]}").status_code == 200
    assert "Words of page 0." in reader.document(copies[0])
    history = shell.run("weboid takedown list --json")
    assert history.code == 0


def test_a_level_is_lowered_and_set_back(pages: list[str], shell: Shell) -> None:
    """Text without the picture while it holds; the page with its look before and after."""
    archive(shell, *pages)
    served = shell.serve()
    copy = served.copy(pages[0])
    assert "<img" in httpx.get(copy).text

    assert shell.run(f"weboid level set text --link {pages[0]}").code == 0
    shown = httpx.get(copy, follow_redirects=True)
    assert (shown.status_code, "Words of page 0." in shown.text) == (200, True)
    assert "<img" not in shown.text
    told = shell.run(f"weboid level show {pages[0]}")
    assert "text" in told.out
    assert "<img" in httpx.get(served.copy(pages[1]), follow_redirects=True).text

    assert shell.run(f"weboid level clear --link {pages[0]}").code == 0
    assert "<img" in httpx.get(copy).text


@pytest.fixture
def small_disk(shell: Shell) -> Iterator[Path]:
    """The collection lies on a file system of 64 MB, of which a file takes 40. Needs root."""
    folder = shell.folder / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=True)
    (folder / "collection").mkdir()
    (shell.folder / "collection").symlink_to(folder / "collection")
    (folder / "filler").write_bytes(os.urandom(40 * MB))
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_a_run_which_goes_on_when_there_is_room(
    pages: list[str], site: SiteServer, shell: Shell, small_disk: Path
) -> None:
    """One line says what to do; nothing was begun, and nothing is lost."""
    profile_of(shell.folder / "profile.toml", site, proxy={"disk_reserve_bytes": 30 * MB})
    said = archive(shell, "--no-wait", *pages, code=4)
    assert "free some space" in said
    assert site.count("/page/0") == 0

    (small_disk / "filler").unlink()
    archive(shell, "--no-wait", *pages)
    assert site.count("/page/0") == site.count("/page/1") == 1
    assert shell.run("weboid archive verify").code == 0


def lose_the_index(shell: Shell) -> None:
    """Delete the captures index, as a disk does."""
    lost = list((shell.folder / "collection" / "db").glob("captures.sqlite*"))
    assert lost
    for file in lost:
        file.unlink()


def test_a_lost_index_is_told_and_made_again(pages: list[str], shell: Shell) -> None:
    """By `weboid index rebuild`, which `status` and `serve` name, or by the next `weboid archive`."""
    archive(shell, pages[0])
    lose_the_index(shell)
    assert "`weboid index rebuild`" in shell.run("weboid status").out
    refused = shell.run("weboid serve --port 0")
    assert refused.code != 0
    assert "`weboid index rebuild`" in refused.err

    rebuilt = shell.run("weboid index rebuild")
    assert rebuilt.code == 0, rebuilt.err
    served = shell.serve()
    assert "Words of page 0." in httpx.get(served.copy(pages[0])).text
    served.command.end()

    lose_the_index(shell)
    archive(shell, pages[1])
    assert "INCOMPLETE" not in shell.run("weboid status").out
    served = shell.serve()
    for number, url in enumerate(pages):
        assert f"Words of page {number}." in httpx.get(served.copy(url)).text
    assert shell.run("weboid archive verify").code == 0


def test_a_backup_that_cannot_be_written_is_served(pages: list[str], shell: Shell) -> None:
    """A copy of the folder on a medium where nothing can be written. Needs root, for the mount."""
    archive(shell, *pages)
    subprocess.run(["cp", "-a", "collection", "backup"], cwd=shell.folder, check=True)
    mount = "mount --bind backup backup && mount -o remount,ro,bind backup"
    served = shell.serve("--collection backup", before=mount)

    assert served.get("/healthz").text == "ok\n"
    assert pages[0] in served.get("/").text
    for number, url in enumerate(pages):
        assert f"Words of page {number}." in httpx.get(served.copy(url)).text
    verify = shell.run(f"unshare -m sh -c '{mount} && weboid archive verify backup'")
    assert verify.code == 0, verify.out + verify.err
    status = shell.run(f"unshare -m sh -c '{mount} && weboid status --collection backup'")
    assert status.code == 0, status.err


def test_the_collection_of_the_previous_release_is_gone_on_with(
    site: SiteServer, shell: Shell
) -> None:
    """Its pages, its level, its take-down and its links hold; what it has is not archived again."""
    with tarfile.open(PREVIOUS) as stored:
        stored.extractall(shell.folder, filter="data")
    profile_of(shell.folder / "profile.toml", site)
    first, withheld = (site.url(f"/old/{number}") for number in range(2))
    new = site.put("/new", article("New", "Words of a new article."))

    served = shell.serve()
    before = httpx.get(served.copy(first), follow_redirects=True)
    assert "Words of old article 0." in before.text
    served.command.end()

    archive(shell, first, withheld, new)
    assert [site.count(path) for path in ("/old/0", "/old/1", "/new")] == [0, 0, 1]
    verified = shell.run("weboid archive verify")
    assert verified.code == 0, verified.out

    served = shell.serve()
    assert "Words of a new article." in httpx.get(served.copy(new)).text
    old = httpx.get(served.copy(first), follow_redirects=True)
    assert "Words of old article 0." in old.text
    assert "<img" not in old.text  # the level that the previous release was given
    assert served.get(f"/latest/{withheld}").status_code == 451
    cited = shell.run(f"weboid links show {first} --json")
    assert cited.code == 0, cited.err
    assert cited.lines[0]["pages"][0]["title"] == "Old"
