"""`weboid links copies` and `weboid links recognise`."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import insert, update

from core.errors import ConfigError
from core.layout import COLLECTION_VERSION, Layout
from core.page_classes import PageClass
from core.page_manifest import VisitOutcome
from core.timestamps import timestamp14
from links.archives.archive_client import ArchiveClient
from links.check_history import day_of_date
from links.registry.archive_backlog import due_links
from links.registry.citations import CitationRow, put_citations
from links.registry.pages import LinkRef, number_of
from links.registry.schema import copies, refs, urls
from links.registry.urls import ensure_urls
from links.registry.wikis import change_wiki, ensure_wiki, parse_wiki
from links.states import LinkState
from tests.support.loopback import LoopbackServer
from tests.support.playback_fixtures import NOW, CollectionBuilder
from tests.support.services.registries import open_registry
from weboid.cli.main import main
from weboid.cli.support.commands import ExitCode

pytestmark = pytest.mark.slow

A, B = "http://a.test/", "http://b.test/"
W = "https://web.archive.org/web/20130115102033/http://a.test/"
Links = Callable[..., tuple[int, str, str]]


class _TimeMapArchive(BaseHTTPRequestHandler):
    """An archive with TimeMaps, which has two good copies of one page."""

    def do_GET(self) -> None:
        """Serve the TimeMap of one URL and its two mementos; answer 404 for all else."""
        origin = f"http://archive.example:{self.connection.getsockname()[1]}"
        headers = {"Content-Type": "text/html"}
        if self.path == f"/timemap/{A}":
            lines = [f'<{A}>; rel="original"']
            lines.append(f'<{origin}/20130115102033/{A}>; rel="memento"; datetime="Tue, 15 Jan 2013 10:20:33 GMT"')
            lines.append(f'<{origin}/20250115102033/{A}>; rel="memento"; datetime="Wed, 15 Jan 2025 10:20:33 GMT"')
            status, body = 200, ",\n".join(lines)
        elif self.path == f"/20130115102033/{A}":
            status, body = 200, "<title>A page</title>"
            headers["Memento-Datetime"] = "Tue, 15 Jan 2013 10:20:33 GMT"
        elif self.path == f"/20250115102033/{A}":
            status, body = 200, "<title>A newer page</title>"
            headers["Memento-Datetime"] = "Wed, 15 Jan 2025 10:20:33 GMT"
        else:
            status, body = 404, "none"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the library's name
        """Say nothing."""


@pytest.fixture
def archive() -> Iterator[int]:
    """Serve the archive and yield its port."""
    with LoopbackServer(_TimeMapArchive) as server:
        yield server.server_port


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Links:
    """Return a function that runs `weboid links` on a registry with two dead links: exit code, stdout and stderr."""
    Layout(tmp_path).marker.write_text(f"version = {COLLECTION_VERSION}\n")
    store = open_registry(Layout(tmp_path))
    with store.writing() as rows:
        ensure_urls(rows, [A, B], day=3_000)
        rows.execute(update(urls).values(state=int(LinkState.DEAD)))
    store.close()
    monkeypatch.setattr("links.archives.archive_client.ArchiveClient", partial(ArchiveClient, gap_s=0.0))

    def run(*arguments: str) -> tuple[int, str, str]:
        command = ["weboid", "links", *arguments]
        if arguments[0] == "copies":
            command += ["--collection", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        answer = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, answer.out, answer.err

    return run


@pytest.fixture
def profile(tmp_path: Path, archive: int) -> str:
    """Write a profile that names the archive and return its path."""
    file = tmp_path / "profile.toml"
    file.write_text(
        '[egress]\nallow = ["127.0.0.0/8"]\nresolve = { "archive.example" = "127.0.0.1" }\n'
        f'[links]\narchives = ["timemap http://archive.example:{archive}/timemap/{{url}}"]\n'
    )
    return str(file)


def _objects(ran: tuple[int, str, str]) -> list[Any]:
    code, out, err = ran
    assert code == ExitCode.OK, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def cited_on(tmp_path: Path, links: Links) -> Callable[..., None]:
    """Return a function that makes pages cite the first link, with access dates in those years or without."""

    def cite(*years: int | None) -> None:
        store = open_registry(Layout(tmp_path))
        with store.writing() as rows:
            number = ensure_urls(rows, [A], day=3_000)[A]
            cited = []
            for page, year in enumerate(years, 1):
                rows.execute(insert(refs), [{"page": page, "url_id": number, "first_day": 9_500 + page}])
                day = None if year is None else day_of_date(date(year, 6, 1))
                cited.append(CitationRow(LinkRef(page, number), "citation", day))
            put_citations(rows, [row.link.page for row in cited], cited, day=9_600)
        store.close()

    return cite


def test_the_version_is_of_the_day_on_which_the_link_was_cited(
    links: Links, cited_on: Callable[..., None], profile: str
) -> None:
    """B06: the earliest access date that a page tells; the version of the other day is kept, too."""
    cited_on(2026, 2015, None)

    searches = _objects(links("copies", "find", "--profile", profile, "--json"))

    assert "/20130115102033/" in searches[0]["best"]["address"]


def test_without_a_date_the_day_counts_on_which_a_page_was_seen_with_the_link(
    links: Links, cited_on: Callable[..., None], profile: str
) -> None:
    """That was long after the newest version."""
    cited_on(None)

    searches = _objects(links("copies", "find", "--profile", profile, "--json"))

    assert "/20250115102033/" in searches[0]["best"]["address"]


def test_our_own_crawler_archives_a_living_link_that_no_archive_has(
    links: Links, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B12: it is wanted for the page that has it, as if it had just been found there."""
    unreachable = Mock(side_effect=ConfigError("The wiki has no address."))
    monkeypatch.setattr("weboid.app.wiki.wiki_clients.open_wiki_api", unreachable)
    store = open_registry(Layout(tmp_path))
    with store.writing() as rows:
        wiki = change_wiki(rows, ensure_wiki(rows, parse_wiki("w@WMF"), day=1), url="https://w.example/api.php")
        ids = ensure_urls(rows, [B], day=3_000)
        rows.execute(update(urls).where(urls.c.id == ids[B]).values(state=int(LinkState.ALIVE)))
        page = number_of(wiki.id, 7)
        rows.execute(insert(refs), [{"page": page, "url_id": ids[B], "first_day": 9_000}])

    search = _objects(links("copies", "find", B, "--profile", profile, "--json"))

    assert search[0]["is_wanted"]
    with store.reading() as rows:
        waiting = due_links(rows, wiki.id, now=datetime.now(UTC), limit=5)
    store.close()
    assert [(row.page, row.url_id) for row in waiting] == [(page, ids[B])]


@pytest.mark.parametrize("command", [("copies", "find"), ("passes",)])
def test_an_admin_is_told_that_nobody_is_asked(links: Links, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Dead links without a copy, and no archive in the profile: the setting is named."""
    code, out, err = links(*command, "--collection", str(tmp_path))

    assert code == ExitCode.OK
    assert "2 links have no copy; no archive is configured: name some in [links] archives" in out + err


def test_copies_are_found_for_links_without(
    links: Links, cited_on: Callable[..., None], profile: str, archive: int
) -> None:
    """All dead links that have none: one has a copy, the other is unfixable and asked no more."""
    cited_on(2014)
    searches = _objects(links("copies", "find", "--profile", profile, "--json"))

    assert [(each["url"], each["outcome"]) for each in searches] == [(A, "found"), (B, "unfixable")]
    address = f"http://archive.example:{archive}/20130115102033/{A}"
    assert searches[0]["best"] == {"archive": f"archive.example:{archive}", "address": address}
    assert _objects(links("copies", "find", "--dry-run", "--profile", profile, "--json")) == []
    (shown,) = _objects(links("copies", B, "--json"))
    assert (shown["copies"], shown["asked"]["outcome"]) == ([], "unfixable")


def test_a_capture_of_an_error_ends_no_search(
    links: Links, cited_on: Callable[..., None], profile: str, archive: int, tmp_path: Path
) -> None:
    """It is no copy: the archives are asked, and theirs is the best."""
    cited_on(2014)
    with closing(CollectionBuilder(tmp_path, is_there=True)) as builder:
        builder.page(A, "<p>Not found</p>", status=404, page_class=PageClass.HTTP_ERROR)
        builder.page(B, None, outcome=VisitOutcome.FAILED, status=None)
    searches = _objects(links("copies", "find", "--profile", profile, "--json"))

    archive_url = f"http://archive.example:{archive}/20130115102033/{A}"
    assert [each["best"] and each["best"]["address"] for each in searches] == [archive_url, None]
    assert [each["outcome"] for each in searches] == ["found", "unfixable"]
    for url in (A, B):
        (shown,) = _objects(links("copies", url, "--json"))
        assert shown["own"] is None


def test_our_own_capture_is_among_the_copies(links: Links, tmp_path: Path) -> None:
    """In `links copies` and in `links show`, by the address that readers know."""
    with closing(CollectionBuilder(tmp_path, is_there=True)) as builder:
        builder.page(A, "<p>A page</p>")
    path = f"/page/{timestamp14(NOW)}/{A}"

    (shown,) = _objects(links("copies", A, "--front", "https://archive.example", "--json"))
    assert shown["own"]["address"] == f"https://archive.example{path}"
    assert path in links("copies", A)[1]
    (known,) = _objects(links("show", A, "--collection", str(tmp_path), "--json"))
    assert [copy["address"] for copy in known["copies"]] == [path]
    assert f"weboid: {path}" in links("show", A, "--collection", str(tmp_path))[1]


def test_people_are_told_what_was_found(links: Links, profile: str) -> None:
    """A line a link, the best copy marked."""
    code, out, _ = links("copies", "find", "--profile", profile)

    assert code == ExitCode.OK
    assert f"{A}: found" in out
    assert " * archive.example" in out
    assert f"{B}: dead, without a copy in any archive" in out


def test_nobody_is_asked_without_a_setting(links: Links) -> None:
    """And that is said."""
    code, out, err = links("copies", "find", A)

    assert code == ExitCode.OK
    assert "try again later" in out
    assert "1 link has no copy; no archive is configured: name some in [links] archives" in err


def test_a_version_is_chosen_locked_and_dropped(links: Links) -> None:
    """By an administrator, who is whoever has the command line."""
    (chosen,) = _objects(links("copies", "set", A, "wayback", W, "--json"))
    assert [each["address"] for each in chosen["copies"]] == [W]
    assert links("copies", A, "--lock")[0] == ExitCode.OK
    (shown,) = _objects(links("copies", A, "--json"))
    (copy,) = shown["copies"]
    assert (copy["archive"], copy["address"], copy["is_locked"]) == ("wayback", W, True)
    assert copy["chosen_by"]
    assert "(locked)" in links("copies", A)[1]
    assert links("copies", "set", A, "wayback", "")[0] == ExitCode.OK
    assert "(no version is chosen)" in links("copies", A, "--unlock")[1]

    (left,) = _objects(links("copies", "rm", A, "wayback", "--json"))
    assert left["copies"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("copies", "set", A, "wayback", W.replace(A, B)), "a copy of http://b.test/"),
        (("copies", "set", A, "perma", W), "to the archive wayback"),
        (("copies", "rm", A, "wayback"), "has no copy in"),
        (("copies", A, "--lock"), "no copies yet"),
        (("copies", "http://c.test/"), "is not watched"),
        (("copies",), "Missing argument 'URL'"),
        (("copies", "set", A), "Name ARCHIVE and ADDRESS"),
    ],
)
def test_mistakes_are_told_with_the_next_step(links: Links, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, nothing changed."""
    code, _, err = links(*arguments)

    assert code == ExitCode.INPUT
    assert message in " ".join(err.split())


def test_copies_are_looked_at(links: Links, profile: str, tmp_path: Path) -> None:
    """Those that are due: listed first, then looked at, then not due any more."""
    links("copies", "find", "--profile", profile)
    assert _objects(links("copies", "check", "--dry-run", "--profile", profile, "--json")) == []
    store = open_registry(Layout(tmp_path))
    with store.writing() as rows:
        rows.execute(update(copies).values(due_day=1))
    store.close()

    assert len(_objects(links("copies", "check", "--dry-run", "--profile", profile, "--json"))) == 1
    (looked,) = _objects(links("copies", "check", "--profile", profile, "--json"))
    assert (looked["url"], looked["outcome"], looked["verdict"]) == (A, "good", "good")
    assert links("copies", "check", "--profile", profile)[1] == "0 copies checked.\n"


def test_an_address_is_recognised(links: Links) -> None:
    """The output names archive, URL and time, and whether the copy is of the page given with `--of`."""
    code, out, _ = links("recognise", f"archive.is/2013.01.15-102033/{A}", "--of", A)
    assert code == ExitCode.OK
    assert "archive.today" in out
    assert f"https://archive.today/20130115102033/{A}" in out
    assert "yes" in out

    code, out, _ = links("recognise", W, "https://example.org/", "--json", "--of", B)

    assert code == ExitCode.SOME_FAILED
    answer = [json.loads(line) for line in out.splitlines()]
    assert [(each["service"], each["belongs"]) for each in answer] == [("wayback", False), (None, None)]


def test_an_address_is_asked_for(links: Links, profile: str, archive: int) -> None:
    """With --ask the archive has its say, too."""
    address = f"http://archive.example:{archive}/20130115102033/{A}"

    (answer,) = _objects(links("recognise", address, "--ask", "--of", A, "--profile", profile, "--json"))

    assert answer["seen"]["verdict"] == "good"
    assert answer["is_known"] is False
