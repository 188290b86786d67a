"""`weboid links`: importing, adding, listing, showing and forgetting."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.layout import COLLECTION_VERSION, Layout
from links.registry.pages import PageName, PutPage, put_pages
from links.rules.link_class import MISSING_TARGET, ClassifiedLink, LinkClass
from tests.support.services.registries import open_registry
from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode

Links = Callable[..., tuple[int, str, str]]
PAGES = (
    "dewiki@WMF\t7\tFoo bar\t0\thttps://a.net/1\n"
    "dewiki@WMF\t7\tFoo bar\t0\thttps://b.net/2\n"
    "dewiki@WMF\t9\tBaz\t0\thttps://a.net/1\n"
)


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Links:
    """Return a function that runs `weboid links` or `weboid wiki` as `main` does: exit code, stdout and stderr."""
    Layout(tmp_path).marker.write_text(f"version = {COLLECTION_VERSION}\n")

    def run(*arguments: str, given: bytes = b"") -> tuple[int, str, str]:
        group = [] if arguments[0] == "wiki" else ["links"]
        command = ["weboid", *group, *arguments, "--collection", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", command)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, output.out, output.err

    return run


@pytest.fixture
def filled(links: Links) -> Links:
    """Return the same function on a registry with two pages."""
    assert links("import", "-", "--json", given=PAGES.encode())[0] == ExitCode.OK
    return links


def _objects(ran: tuple[int, str, str]) -> list[Any]:
    code, out, err = ran
    assert code == ExitCode.OK, err
    return [json.loads(line) for line in out.splitlines()]


def test_import_names_bad_lines_and_writes_the_rest(links: Links, tmp_path: Path) -> None:
    """Compressed or not; the exit code says that some failed."""
    file = tmp_path / "links.tsv.gz"
    file.write_bytes(gzip.compress((PAGES + "dewiki@WMF\tx\tBad\t0\thttps://c.net/\n").encode()))

    code, out, err = links("import", str(file))

    assert code == ExitCode.SOME_FAILED
    assert "Line 4 is skipped: 'x' is not the number" in err
    assert "Wrote 2 pages with 3 links." in out


def test_import_says_what_it_would_write(links: Links) -> None:
    """And writes nothing."""
    summary = _objects(links("import", "-", "--dry-run", "--json", given=PAGES.encode()))[0]

    assert (summary["pages"], summary["links"], summary["dry_run"]) == (2, 3, True)
    assert _objects(links("ls", "--json")) == [{"after": None}]


def test_import_takes_a_dump_of_mediawiki(links: Links) -> None:
    """Its tables of links know neither wiki nor title."""
    dump = b"el_id\tel_from\tel_to_domain_index\tel_to_path\n1\t7\thttps://net.a.\t/1\n"
    summary = _objects(links("import", "-", "--wiki", "dewiki", "--json", given=dump))[0]

    assert summary["wikis"] == ["dewiki@WMF"]
    assert _objects(links("ls", "--json"))[0]["url"] == "https://a.net/1"


def test_import_of_what_is_not_there_says_so(links: Links) -> None:
    """The user mends what was typed."""
    code, _, err = links("import", "nowhere.tsv")

    assert code == ExitCode.INPUT
    assert "nowhere.tsv cannot be read" in err


def test_a_page_is_added_with_its_links(filled: Links) -> None:
    """By its title once it is known; what cannot be asked for is told."""
    code, out, _ = filled("add-page", "dewiki", "Foo bar", "--add", "https://c.net/", "http://http://x/")

    assert code == ExitCode.OK
    assert "Foo bar has 3 links that are watched." in out
    assert "http://http://x/: invalid, doubled-scheme" in out
    assert filled("add-page", "dewiki", "New", "https://c.net/")[0] == ExitCode.INPUT
    documents = _objects(filled("add-page", "dewiki", "New", "--id", "11", "--json", given=b"https://d.net/\n"))
    assert documents[0]["links"] == [{"url": "https://d.net/", "sort": "watched", "note": ""}]
    assert filled("add-page", "dewiki", "New", "https://e.net/")[0] == ExitCode.OK
    pages = _objects(filled("show", "https://d.net/", "--json"))[0]["pages"]
    assert [page["gone"] is not None for page in pages] == [True]


def test_ls_lists_and_goes_on(filled: Links) -> None:
    """URLs, a wiki's links, one host's, a wiki's pages; a page of the answer after the other."""
    first = _objects(filled("ls", "--json", "--limit", "1"))
    rest = _objects(filled("ls", "--json", "--after", first[-1]["after"]))
    assert [each.get("url") for each in (*first[:-1], *rest[:-1])] == ["https://a.net/1", "https://b.net/2"]

    of_wiki = _objects(filled("ls", "--wiki", "dewiki", "--json"))[:-1]
    assert [(each["title"], each["url"]) for each in of_wiki] == [
        ("Foo bar", "https://a.net/1"),
        ("Foo bar", "https://b.net/2"),
        ("Baz", "https://a.net/1"),
    ]
    of_host = _objects(filled("ls", "--wiki", "dewiki", "--host", "https://a.net/", "--json"))[:-1]
    assert [each["title"] for each in of_host] == ["Foo bar", "Baz"]
    pages = _objects(filled("ls", "--wiki", "dewiki", "--pages", "--json"))[:-1]
    assert [each["page_id"] for each in pages] == [7, 9]
    assert "None matches." in filled("ls", "--state", "dead")[1]
    assert filled("ls", "--after", "x")[0] == ExitCode.INPUT
    assert filled("ls", "--wiki", "frwiki")[0] == ExitCode.INPUT


def test_show_says_all_that_is_known(filled: Links) -> None:
    """Another spelling of the URL is the same URL."""
    code, out, _ = filled("show", "HTTPS://A.net:443/1#top")

    assert code == ExitCode.OK
    lines = out.splitlines()
    assert lines[:2] == ["https://a.net/1", "  unknown"]
    assert [line.split(",")[0] for line in lines if "dewiki" in line] == ["  dewiki@WMF: Foo bar", "  dewiki@WMF: Baz"]
    assert filled("show", "https://nobody.net/")[0] == ExitCode.INPUT


def test_show_tells_of_links_that_are_not_watched(filled: Links, tmp_path: Path) -> None:
    """W48, W50: why, and on which pages, as the text stands there."""
    lost, bad = "https://de.wikipedia.org/wiki/Nowhere", "http://a.net:8o8o/"
    with closing(open_registry(Layout(tmp_path))) as store, store.writing() as rows:
        links = (
            ClassifiedLink(lost, LinkClass.MISSING, note=MISSING_TARGET),
            ClassifiedLink(bad, LinkClass.INVALID, note="port"),
        )
        put_pages(rows, 1, [PutPage(PageName(77, "Linking"), links)], day=3_000)

    assert "a wiki of the farm has no such page" in filled("show", lost)[1]
    (link,) = _objects(filled("show", lost, "--json"))
    assert (link["is_watched"], link["reason"]) == (False, "missing-target")
    assert [page["title"] for page in link["pages"]] == ["Linking"]
    assert "no valid address (port)" in filled("show", bad)[1]


def test_wikis_are_added_with_their_farms(links: Links) -> None:
    """A farm is made when it is asked for."""
    assert links("wiki", "set", "my@home")[0] == ExitCode.INPUT
    made = links("wiki", "set", "my@home", "--new-farm", "--set", "public=false", "--json")
    assert _objects(made)[0]["settings"] == {"public": False}
    changed = links("wiki", "set", "my@home", "--url", "https://w.home.net/api.php", "--json")
    assert _objects(changed)[0]["settings"] == {"public": False}
    assert "https://w.home.net/api.php" in links("wiki", "ls")[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--set", "pubic=false"), "'pubic' is not a setting of a wiki; there is feed, bot"),
        (("--set", "public=maybe"), "write true, false, a number"),
        (("--set", "public"), "write KEY=VALUE"),
        (("--url", "home.net"), "write https://wiki.example.org/w/api.php"),
    ],
)
def test_a_setting_that_no_wiki_has_is_refused(options: tuple[str, ...], words: str, links: Links) -> None:
    """With what to write; nothing is stored."""
    code, _, err = links("wiki", "set", "my@home", "--new-farm", *options)
    assert (code, words in err) == (ExitCode.INPUT, True)
    assert "my@home" not in links("wiki", "ls")[1]


def test_what_a_feed_cannot_use_is_not_stored(links: Links) -> None:
    """W35: the entry is named, and the form that is expected."""
    code, _, err = links("wiki", "set", "my@home", "--new-farm", "--set", 'feed={"properties": ["Q5"]}')
    assert (code, "'Q5'" in err, "P31=Q5" in err) == (ExitCode.INPUT, True, True)
    assert "my@home" not in links("wiki", "ls")[1]


def test_purge_says_what_it_forgets(filled: Links) -> None:
    """Nothing, of what came today."""
    assert "Would delete nothing." in filled("purge", "--dry-run")[1]
    assert _objects(filled("purge", "--json"))[0]["urls"] == 0
