"""The real sites are real: a wiki that can be edited, manuals, applications, a browser that agrees."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.support.services.processes import arguments, browser_path
from tests.support.sites import hosts
from tests.support.sites.client import client
from tests.support.sites.docs import library
from tests.support.sites.mediawiki import ADMIN, PASSWORD, RunningWiki, running_wiki
from tests.support.sites.spa import applications
from tests.support.sites.web import TestWeb

pytestmark = pytest.mark.real

NOBODY = 65_534


@pytest.fixture(scope="module")
def web() -> Iterator[TestWeb]:
    with TestWeb.start() as running:
        yield running


@pytest.fixture(scope="module")
def wiki() -> Iterator[RunningWiki]:
    with running_wiki(server="self", settings="$wgSitename = 'A wiki of my own';") as running:
        yield running


def _visit(web: TestWeb, url: str, home: Path) -> str:
    """Return the final DOM of a page as a real browser sees it, without a proxy and with its sandbox."""
    command = [
        browser_path(),
        "--headless",
        "--disable-gpu",
        f"--user-data-dir={home / 'profile'}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        *web.chromium_arguments(),
        url,
    ]
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
        for folder in (home, *home.parents):
            if folder == Path(tempfile.gettempdir()):
                break
            folder.chmod(folder.stat().st_mode | 0o055)
        drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        command = [*drop, *command]
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout


def test_there_are_fifty_real_pages_and_all_answer(web: TestWeb) -> None:
    """Distinct URLs on three kinds of sites; every fourth of each is asked for, and is 200."""
    urls = web.urls.real_pages
    with client(web, timeout_s=60) as http:
        statuses = {
            url: http.get(url).status_code
            for host in (hosts.WIKI, hosts.DOCS, hosts.SPA)
            for url in [each for each in urls if urlsplit(each).hostname == host][::4]
        }

    assert len(set(urls)) == len(urls) >= 50
    assert {urlsplit(url).hostname for url in urls} == {hosts.WIKI, hosts.DOCS, hosts.SPA}
    assert {url: status for url, status in statuses.items() if status != 200} == {}


def test_an_article_has_pictures_tables_templates_and_external_links(web: TestWeb) -> None:
    """An article has pictures, tables, references and external links, and its pictures are served."""
    with client(web, timeout_s=60) as http:
        page = next(
            text
            for title in web.wiki.titles[1:]  # type: ignore[union-attr]  # it was asked for
            if re.search(
                'class="thumb|typeof="mw:File/Thumb', text := http.get(f"http://{hosts.WIKI}/wiki/{title}").text
            )
        )
        pictures = [part.split('"')[0] for part in page.split(' src="')[1:]]
        stored = [path for path in pictures if path.startswith("/images/")]
        answer = http.get(f"http://{hosts.WIKI}{stored[0]}")

    assert 'class="wikitable"' in page
    assert f"https://{hosts.DOCS}/handbook/" in page
    assert 'class="external text"' in page
    assert 'class="references"' in page
    assert answer.headers["content-type"].startswith("image/")


def test_the_wiki_links_to_itself_under_the_scheme_it_was_asked_by(web: TestWeb) -> None:
    """One wiki answers on http and on https, without sending readers from one to the other."""
    with client(web, timeout_s=60) as http:
        for scheme in ("http", "https"):
            moved = http.get(f"{scheme}://{hosts.WIKI}/")

            assert moved.status_code == 301
            assert moved.headers["location"] == f"{scheme}://{hosts.WIKI}/wiki/Main_Page"


def test_a_wiki_of_ones_own_can_be_edited(wiki: RunningWiki) -> None:
    """Log in through the API, save a page, read it back; the shared template is untouched."""
    with httpx.Client(timeout=120, trust_env=False) as http:

        def call(**fields: str) -> dict[str, object]:
            answer = http.post(wiki.api(), data={"format": "json", **fields}).json()
            assert isinstance(answer, dict)
            return answer

        def token(kind: str) -> str:
            tokens = call(action="query", meta="tokens", type=kind)
            return str(json.loads(json.dumps(tokens))["query"]["tokens"][f"{kind}token"])

        name = {"lgname": ADMIN, "lgpassword": PASSWORD, "lgtoken": token("login")}
        logged_in = call(action="login", **name)
        saved = call(action="edit", title="Mine", text="Own [https://a.example/ words].", token=token("csrf"))
        page = http.get(f"{wiki.base}/wiki/Mine").text

    assert json.loads(json.dumps(logged_in))["login"]["result"] == "Success"
    assert json.loads(json.dumps(saved))["edit"]["result"] == "Success"
    assert 'href="https://a.example/"' in page
    assert "A wiki of my own" in page


def test_maintenance_scripts_run_on_ones_own_wiki(wiki: RunningWiki) -> None:
    """The command line of MediaWiki works on the copy's database."""
    assert "Template:Article" not in wiki.titles
    assert "{{{title}}}" in wiki.maintain("getText.php", "Template:Article")


def test_code_and_settings_of_the_wiki_are_not_served(wiki: RunningWiki) -> None:
    """Only entry points, pictures and what skins bring along."""
    paths = ("/LocalSettings.php", "/maintenance/install.php", "/images/../LocalSettings.php", "/vendor/x")
    with httpx.Client(timeout=120, trust_env=False) as http:
        status_by_path = {path: http.get(wiki.base + path).status_code for path in paths}

    assert set(status_by_path.values()) == {404}


def test_a_wiki_ends_with_its_block(tmp_path: Path) -> None:
    """No worker of PHP stays behind, and the copy is gone."""
    with running_wiki() as mine:
        folder, address = mine.folder, f"127.0.0.1:{mine.port}"
        assert [each for each in psutil.process_iter() if address in arguments(each)]

    assert [each for each in psutil.process_iter() if address in arguments(each)] == []
    assert not folder.exists()


def test_the_manuals_hold_pictures_and_pdfs() -> None:
    """Hundreds of pages; every PDF is one."""
    shelf = library()

    assert len(shelf.pages) > 100
    assert len(list(shelf.root.rglob("*.png"))) > 20
    assert shelf.pdfs
    for path in shelf.pdfs:
        assert (shelf.root / path.lstrip("/")).read_bytes().startswith(b"%PDF-")


def test_nothing_in_the_cache_leads_out_of_it() -> None:
    """Unpacked packages keep no link into the system, so a copy serves the same everywhere."""
    for root in (library().root, applications().root):
        assert [path for path in root.rglob("*") if path.is_symlink()] == []


@pytest.mark.browser
def test_a_browser_builds_the_application(web: TestWeb, tmp_path: Path) -> None:
    """Swagger UI's source holds an empty element; its DOM holds the interface's operations."""
    url = next(url for url in web.urls.real_pages if "docExpansion=list" in url)
    with client(web) as http:
        source = http.get(url).text
    dom = _visit(web, url, tmp_path)

    assert "opblock" not in source
    assert dom.count("opblock-summary-path") > 10


@pytest.mark.browser
def test_a_browser_asks_for_all_of_a_gallery(web: TestWeb, tmp_path: Path) -> None:
    """Over TLS under the gallery's name, all 91 subresources, each once."""
    web.clear()
    dom = _visit(web, web.gallery(77), tmp_path)
    urls = [seen.url for seen in web.requests()]

    assert "<h1>Gallery 77</h1>" in dom
    assert sorted(url for url in urls if url in set(web.gallery_subresources(77))) == sorted(
        web.gallery_subresources(77)
    )


@pytest.mark.browser
def test_a_browser_reads_every_coding_and_brings_a_font(web: TestWeb, tmp_path: Path) -> None:
    """Brotli over https as browsers accept it, frames across hosts, a typeface from the page."""
    coded = _visit(web, f"https://{hosts.RULES}/encoding/br", tmp_path)
    web.clear()
    framed = _visit(web, f"http://{hosts.RULES}/frames", tmp_path)
    _visit(web, f"http://{hosts.RULES}/fonts", tmp_path)
    urls = {seen.url for seen in web.requests()}

    assert "<h1>Coded br</h1>" in coded
    assert "<h1>Frames</h1>" in framed
    assert f"http://{hosts.OTHER}/picture/7.jpg" in urls
    assert f"http://{hosts.RULES}/font.ttf" in urls


def test_the_wikis_front_keeps_what_shared_caches_may_keep(web: TestWeb) -> None:
    """An article comes from the wiki once; a reader with a cookie always gets a fresh one."""
    url = f"http://{hosts.WIKI}/wiki/Special:Random"  # a redirect is never kept
    article = f"http://{hosts.WIKI}/wiki/Category:Articles"
    with client(web, timeout_s=60) as http:
        first, again = http.get(article), http.get(article)
        personal = http.get(article, headers={"Cookie": "own=1"})
        places = {http.get(url).headers["location"] for _ in range(12)}

    # MediaWiki notes in each page how long its making took, and when.
    assert first.content == again.content
    assert personal.status_code == 200
    assert len(places) > 1


def test_an_edit_through_the_front_is_seen_at_once(web: TestWeb) -> None:
    """A request that may change something empties the cache."""
    page = f"http://{hosts.WIKI}/wiki/Sandbox"
    api = f"http://{hosts.WIKI}/api.php"
    edit = {"action": "edit", "format": "json", "title": "Sandbox", "token": "+\\"}
    # Whoever edits has a cookie from then on; the reader has none, and reads from the cache.
    with client(web, timeout_s=60) as editor, client(web, timeout_s=60) as reader:
        for text in ("New words.", "Newer words."):
            answer = editor.post(api, data={**edit, "text": text}).json()

            assert answer["edit"]["result"] == "Success"
            assert text in reader.get(page).text
            assert reader.get(page).content == reader.get(page).content
