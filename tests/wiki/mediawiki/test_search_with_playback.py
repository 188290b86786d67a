"""Notices about excluded links with a real front, in MediaWiki 1.39 and 1.43 (X06)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.commands import WeboidRunner
from tests.support.mediawiki_extension import ExtensionWiki, extended_wiki
from tests.support.sites.versions import LATER, MACHINES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
WIKI = "library@example"
NOTE = "may be missing from these results"


@dataclass(frozen=True)
class SearchedArchive:
    """A wiki with the extension, and the archive with its front."""

    extended: ExtensionWiki
    weboid: WeboidRunner

    def exclude(self, *words: str) -> None:
        """Change the wiki's exclusions with `weboid links exclude`; reset the wiki's cache."""
        done = self.weboid.call("links", "exclude", *words, f"--wiki={WIKI}")
        assert done.code == 0, done
        self.extended.reset()

    def page(self, target: str) -> str:
        """Return the HTML of Special:LinkSearch."""
        page = self.extended.view("Special:LinkSearch", f"&target={quote(target)}")
        assert page.status == 200
        return page.html

    def warning(self, query: str, **more: str) -> str:
        """Return the warning of list=exturlusage, or an empty text."""
        question = {"action": "query", "list": "exturlusage", "euquery": query, **more}
        result = self.extended.writer.ask(**question)
        assert "exturlusage" in result["query"]
        warning: str = result.get("warnings", {}).get("exturlusage", {}).get("warnings", "")
        return warning


@pytest.fixture(scope="module", params=[MACHINES, LATER], ids=str)
def searched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchedArchive]:
    """Run `weboid serve` with a registry that knows the wiki; yield it and the wiki."""
    folder: Path = tmp_path_factory.mktemp("searched")
    weboid = WeboidRunner(folder, folder / "profile.toml")
    known = weboid.call("wiki", "set", WIKI, "--new-farm", "--url=http://127.0.0.1:9/api.php")
    assert known.code == 0, known
    serving = weboid.start("serve", "--listen", "127.0.0.1:0", "--links-internal", "127.0.0.1")
    try:
        assert serving.stdout is not None
        origin = serving.stdout.readline().strip()
        assert origin.startswith("http://"), serving.communicate(timeout=120)
        front = f"$wgWeboidFront = '{origin}';"
        with extended_wiki(front, request.param) as extended:
            extended.writer.write("Page", "[https://www.kept-out.org/a A] [https://found.org/ F]")
            yield SearchedArchive(extended, weboid)
    finally:
        serving.terminate()
        serving.communicate(timeout=120)


# Excluded entries that are named, by pattern; empty: none.
PATTERNS = {
    "*.kept-out.org": "kept-out.org",
    "kept-out.org": "kept-out.org",
    "https://www.kept-out.org/a": "kept-out.org",
    "http://half.org": "",
    "https://half.org/maps/1": "https://half.org/maps",
    "half.org": "https://half.org/maps",
    "found.org": "",
    "*.org": "https://half.org/maps, kept-out.org",
    "no pattern at all [": "",
}


def test_page_and_api_name_the_excluded_entries(searched: SearchedArchive) -> None:
    """Only if links are excluded."""
    searched.exclude("add", "kept-out.org", "https://half.org/maps")
    for pattern, entry in PATTERNS.items():
        for text in (searched.page(pattern), searched.warning(pattern)):
            assert (NOTE in text) == bool(entry), pattern
            assert not entry or f"Links to {entry} {NOTE}" in text
    searched.exclude("remove", "kept-out.org", "https://half.org/maps")


def test_a_removed_entry_is_not_named(searched: SearchedArchive) -> None:
    """There is no notice either if the archive does not know the wiki."""
    searched.exclude("add", "kept-out.org")
    assert NOTE in searched.page("kept-out.org")
    searched.extended.configure(Wiki="unknown@example")
    assert NOTE not in searched.page("kept-out.org")
    searched.extended.configure()
    searched.exclude("remove", "kept-out.org")
    assert NOTE not in searched.page("kept-out.org")
    assert searched.warning("kept-out.org") == ""
