"""`weboid links ls`, `exclude` and `spam`, on a registry that a feeder fills."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.layout import COLLECTION_VERSION, Layout
from links.registry.database import RegistryStore
from links.registry.pages import PageName, PutPage, drop_pages, find_pages, put_pages
from links.registry.wikis import WikiName, ensure_wiki, find_wiki
from links.rules.link_class import classify_link
from links.rules.wiki_rules import RuleBook
from tests.support.services.registries import open_registry
from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode

TODAY = 3_600
CC = "https://creativecommons.org/licenses/by-sa/4.0"
Links = Callable[..., tuple[int, str, str]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RegistryStore]:
    """Yield the registry of a collection, with a wiki."""
    Layout(tmp_path).marker.write_text(f"version = {COLLECTION_VERSION}\n")
    with closing(open_registry(Layout(tmp_path))) as opened:
        with opened.writing() as rows:
            ensure_wiki(rows, WikiName("dewiki"), day=TODAY)
        yield opened


@pytest.fixture
def links(
    store: RegistryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Links:
    """Return a function that runs `weboid links` as `main` does: exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        where = () if arguments[0] == "interwiki" else ("--collection", str(tmp_path))
        command = ["weboid", "links", *arguments, *where]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, output.out, output.err

    return run


def facts(ran: tuple[int, str, str], code: ExitCode = ExitCode.OK) -> Any:
    """Return the command's JSON; assert its exit code."""
    assert ran[0] == code, ran[2]
    return json.loads(ran[1])


def feed(store: RegistryStore, pages: dict[int, list[str]], *, day: int = TODAY) -> None:
    """Put pages into the registry as a feeder does, by the wiki's present rules."""
    with store.writing() as rows:
        wiki = find_wiki(rows, WikiName("dewiki"))
        assert wiki is not None
        rules = RuleBook().rules_of(rows, wiki.id)
        put = [
            PutPage(PageName(number, f"Page {number}"), tuple(classify_link(url, rules) for url in cited))
            for number, cited in pages.items()
        ]
        put_pages(rows, wiki.id, put, day=day)


def stale(store: RegistryStore) -> list[int]:
    """Return the ids of pages that must be read again."""
    with store.reading() as rows:
        wiki = find_wiki(rows, WikiName("dewiki"))
        assert wiki is not None
        pages_by_number = find_pages(rows, wiki.id, range(1, 20))
    return sorted(number for number, page in pages_by_number.items() if page.is_stale)


def test_a_search_finds_links_with_their_pages(store: RegistryStore, links: Links) -> None:
    """As JSON with what is needed to go on, and as lines for people."""
    feed(store, {1: ["http://far.org/a", "https://www.far.org/b"], 2: ["http://far.org/a"]})

    first = facts(links("ls", "*.far.org", "--limit", "1", "--json"))
    rest = facts(links("ls", "*.far.org", "--after", first["after"], "--json"))
    code, out, err = links("ls", "*.far.org", "--wiki", "dewiki", "--namespace", "0")

    assert [link["url"] for link in first["links"]] == ["http://far.org/a"]
    assert [page["title"] for page in first["links"][0]["pages"]] == ["Page 1", "Page 2"]
    assert [link["url"] for link in rest["links"]] == ["https://www.far.org/b"]
    assert (rest["after"], rest["warnings"]) == ("", [])
    assert (code, err) == (ExitCode.OK, "")
    assert "Page 1 (dewiki@WMF), Page 2 (dewiki@WMF)" in out
    assert facts(links("ls", "far.org", "--state", "working", "--json"))["links"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ls", "*"), "must name a host"),
        (("ls", "far.org", "--host", "far.org"), "leave out --host"),
        (("ls", "--namespace", "0"), "needs PATTERN"),
        (("ls", "far.org", "--after", "x"), "take `after`"),
        (("ls", "far.org", "--wiki", "nowiki"), "has no wiki nowiki@WMF"),
        (("exclude", "a.org/x*", "--wiki", "dewiki"), "omit it"),
        (("exclude", "a.org/x", "--as", "domain", "--wiki", "dewiki"), "no path"),
        (("exclude", "--remove", "a.org", "--wiki", "dewiki"), "has no pattern 'a.org'"),
        (("spam", "add", __file__), "--farm NAME, or --wiki"),
        (("spam", "add", __file__, "--farm", "none"), "the registry knows"),
        (("spam", "rm", "x", "--wiki", "dewiki"), "There is no list"),
        (("spam", "show", "--wiki", "dewiki", "--after", "1-x"), "not a position"),
    ],
)
def test_what_cannot_be_done_is_said(links: Links, arguments: tuple[str, ...], message: str) -> None:
    """With the cause or the next step, as what the user has to mend."""
    code, _, err = links(*arguments)

    assert code == ExitCode.INPUT
    assert message in " ".join(err.split())


def test_an_excluded_host_is_counted_and_told_of(store: RegistryStore, links: Links) -> None:
    """From suggestion to entry to warning, and back (X04 to X07, X10)."""
    feed(store, {number: [CC, f"{CC}/deed", f"http://far.org/{number}"] for number in range(1, 6)})

    hosts = facts(links("exclude", "--suggest", "--wiki", "dewiki", "--json"))["hosts"]
    assert [(each["host"], each["pages"], each["urls"]) for each in hosts] == [
        ("creativecommons.org", 5, 2),
        ("far.org", 5, 5),
    ]
    assert hosts[0]["links_per_url"] == 5.0
    only = links("exclude", "--suggest", "--wiki", "dewiki", "--urls", "3")[1]
    assert "creativecommons.org" in only
    assert "far.org" not in only

    add = ("exclude", "creativecommons.org", "--wiki", "dewiki")
    tried = facts(links(*add, "--dry-run", "--json"))
    assert (tried["entries"][0]["known_links"], stale(store)) == (2, [])
    assert links("exclude", "--wiki", "dewiki")[1] == "Nothing is excluded.\n"
    assert "known links to it: 2" in links(*add)[1]
    assert stale(store) == [1, 2, 3, 4, 5]

    feed(store, {number: [CC, f"{CC}/deed"] for number in range(1, 6)}, day=TODAY + 1)
    with store.writing() as rows:
        wiki = find_wiki(rows, WikiName("dewiki"))
        assert wiki is not None
        drop_pages(rows, wiki.id, [5], day=TODAY + 1)
    listed = facts(links("exclude", "--wiki", "dewiki", "--json"))["entries"]
    assert [(each["links"], each["pages"], each["as"]) for each in listed] == [(8, 4, "pattern")]
    on_wiki = ("ls", "*.creativecommons.org", "--wiki", "dewiki")
    search = facts(links(*on_wiki, "--json"))
    assert search["links"] == []
    assert facts(links("ls", "*.creativecommons.org", "--json"))["links"] == []
    assert facts(links("exclude", "--suggest", "--wiki", "dewiki", "--json"))["hosts"] == []
    assert "dewiki@WMF keeps links to creativecommons.org out" in search["warnings"][0]
    assert "creativecommons.org" in links(*on_wiki)[2]

    remove = ("exclude", "--remove", "creativecommons.org", "--wiki", "dewiki")
    assert facts(links(*remove, "--dry-run", "--json"))["removed"] == ["creativecommons.org"]
    assert "read again: 4." in links(*remove)[1]
    back = facts(links(*on_wiki, "--json"))["links"]
    assert [(link["url"], len(link["pages"])) for link in back] == [(CC, 4), (f"{CC}/deed", 4)]
    assert stale(store) == [1, 2, 3, 4]


def test_spam_lists_are_kept_and_their_hits_shown(store: RegistryStore, links: Links, tmp_path: Path) -> None:
    """A farm's list and a wiki's: loaded, tried, scanned for, listed, forgotten (W52, W05)."""
    black, white, blocked = (tmp_path / name for name in ("Spam-blacklist", "Spam-whitelist", "Blocked.json"))
    black.write_text("casino\n(?<=x)y\n")
    white.write_text("good-casino\n")
    blocked.write_text('[{"domain": "bad.org"}]')
    feed(store, {1: ["http://casino.org/", "http://far.org/"], 2: ["http://far.org/"]})

    tried = facts(links("spam", "add", str(black), "--farm", "WMF", "--dry-run", "--json"), ExitCode.SOME_FAILED)
    assert ([each["line"] for each in tried["problems"]], tried["lines"]) == ([2], 1)
    assert facts(links("spam", "ls", "--json"))["lists"] == []
    code, out, err = links("spam", "add", str(black), "--farm", "WMF")
    assert (code, "lines in use: 1." in out, "line 2" in err) == (ExitCode.SOME_FAILED, True, True)
    for file in (white, blocked):
        assert links("spam", "add", str(file), "--wiki", "dewiki")[0] == ExitCode.OK
    spam_lists = facts(links("spam", "ls", "--json"))["lists"]
    assert [(each["of"], each["kind"]) for each in spam_lists] == [
        ("WMF", "blacklist"),
        ("dewiki@WMF", "domains"),
        ("dewiki@WMF", "whitelist"),
    ]
    text = links("spam", "show", "http://a-casino.org/", "http://good-casino.org/", "x.bad.org")[2]
    assert "--wiki" in text
    text = links("spam", "show", "http://a-casino.org/", "http://good-casino.org/", "x.bad.org", "--wiki", "dewiki")[1]
    assert text.splitlines() == [
        "http://a-casino.org/: spam (farm: Spam-blacklist, line 1)",
        "http://good-casino.org/: watched",
        "x.bad.org: spam (wiki: Blocked.json, line 1)",
    ]

    tested = facts(links("spam", "show", "http://a-casino.org/", "--wiki", "dewiki", "--json"))
    assert tested["url"] == "http://a-casino.org/"

    scanned = facts(links("spam", "run", "--wiki", "dewiki", "--json"))
    assert (list(scanned["links"]), scanned["pages_marked"]) == (["http://casino.org/"], 1)
    assert stale(store) == [1]
    feed(store, {1: ["http://casino.org/", "http://far.org/"]}, day=TODAY + 1)
    hits = facts(links("spam", "show", "--wiki", "dewiki", "--json"))["hits"]
    assert [(each["title"], each["url"], each["line"]) for each in hits] == [("Page 1", "http://casino.org/", 1)]
    assert "farm: Spam-blacklist, line 1" in links("spam", "show", "--wiki", "dewiki")[1]
    on_wiki = facts(links("ls", "casino.org", "--wiki", "dewiki", "--json"))
    assert on_wiki["links"] == []

    assert links("spam", "rm", "Spam-blacklist", "--farm", "WMF")[0] == ExitCode.OK
    feed(store, {1: ["http://casino.org/"]}, day=TODAY + 2)
    assert links("spam", "show", "--wiki", "dewiki")[1] == "No page of dewiki@WMF has such a link.\n"


def test_interwiki_links_become_urls_that_are_imported(store: RegistryStore, links: Links, tmp_path: Path) -> None:
    """Direct links and indirect ones of a page, in one import (W49)."""
    known, table = tmp_path / "map.json", tmp_path / "iwlinks.tsv"
    prefixes = [
        {"prefix": "doi", "url": "https://dx.doi.org/$1"},
        {"prefix": "en", "local": "", "url": "https://en.wikipedia.org/wiki/$1"},
    ]
    known.write_text(json.dumps({"query": {"interwikimap": prefixes}}))
    table.write_text("iwl_from\tiwl_prefix\tiwl_title\n7\tdoi\t10.1000/a_b\n7\ten\tX\nbad\n")

    code, out, err = links("interwiki", str(known), str(table))
    both = tmp_path / "both"
    both.write_text(f"7\thttp://far.org/\n{out}")
    links("import", str(both), "--wiki", "dewiki")
    matches = facts(links("ls", "*.org", "--wiki", "dewiki", "--json"))["links"]

    assert (code, err) == (ExitCode.SOME_FAILED, "Line 4 is not a page ID, prefix and title separated by tabs.\n")
    assert out == '{"page_id": 7, "url": "https://dx.doi.org/10.1000/a_b"}\n'
    assert [link["url"] for link in matches] == ["https://dx.doi.org/10.1000/a_b", "http://far.org/"]
