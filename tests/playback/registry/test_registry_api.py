"""What the registry answers to programs (W10, W12, W19-W24, W28, W33, W34, W67, W68, W70)."""

import json
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from sqlalchemy import select

from core.errors import TransientError
from core.layout import Layout
from links.history import Run, pack
from links.quirks import HostQuirk, UrlQuirk
from links.stages import Stage
from links.states import State
from links.store.schema import host_quirks, pages, replacements, url_quirks
from links.store.store import Store
from playback.front.registry.answers import order_of
from tests.playback.registry.shelf import (
    CODES,
    DEAD,
    FINE,
    ORIGIN,
    TODAY,
    Front,
    Given,
    Shelf,
    open_front,
)

pytestmark = pytest.mark.slow

BAD = "http://example.com:8o8o/foo/bar"
PROBLEM = "/externalLinkProblem?dbname=dewiki@WMF&pageid=1"
INFO = "/externalLinkInfo?dbname=dewiki@WMF&pageid=1"
EVERY = (
    "/links/api/page?dbname=dewiki@WMF&curid=1",
    PROBLEM,
    INFO,
    "/links/api/list?dbname=dewiki&with=spam",
)


def links_of(front: Front, query: str = "&scope=all") -> list[dict[str, Any]]:
    """The first page's links."""
    found: list[dict[str, Any]] = front.page(f"dbname=dewiki@WMF&curid=1{query}").json()["pages"][
        0
    ]["links"]
    return found


# ---- which pages


def test_a_page_is_told_with_the_links_that_have_findings(front: Front) -> None:
    """Only these by default; what nobody can ask for is one, as it stands on the page (W06, W48)."""
    page = front.page().json()["pages"][0]

    assert (page["title"], page["is_observed"], page["links_total"]) == ("Foo bar", True, 3)
    assert [link["url"] for link in page["links"]] == [BAD, DEAD]
    dead = page["links"][1]
    assert (dead["state"], dead["group"], dead["http"]) == ("dead", "unreachable", 404)
    assert dead["words"] == "Dead for six months"
    assert dead["checked"]["ago"] == "two weeks ago"


def test_all_links_are_told_when_all_are_asked_for(front: Front) -> None:
    """W07."""
    assert {link["url"] for link in links_of(front)} == {BAD, DEAD, FINE}


def test_the_day_on_which_the_page_was_read_is_told(front: Front) -> None:
    """What was added to it since is missing, and the asker can see that (W08)."""
    assert front.page().json()["pages"][0]["links_read"]["ago"] == "three days ago"


def test_pages_come_in_the_order_of_the_question(shelf: Shelf, front: Front) -> None:
    """Several ids, with bars, commas or repeated; then names; each once (W19)."""
    shelf.page(2, "Zweite Seite")
    shelf.page(3, "Dritte")
    asked = "curid=3|1&curid=2,3&titles=zweite_Seite|Unbekannt"
    found = front.page(f"dbname=dewiki@WMF&{asked}").json()["pages"]

    assert [page["page_id"] for page in found] == [3, 1, 2, 2, None]
    assert [page["title"] for page in found][3:] == ["Zweite Seite", "Unbekannt"]
    assert [page["is_observed"] for page in found] == [True, True, True, True, False]


def test_a_moved_page_is_told_with_its_present_name(shelf: Shelf, front: Front) -> None:
    """Its number stays (W33)."""
    shelf.page(1, "Neuer Name", DEAD)

    assert front.page().json()["pages"][0]["title"] == "Neuer Name"


@pytest.mark.parametrize(
    "query",
    [
        "dbname=dewiki@WMF&curid=4711",
        "dbname=nowiki@WMF&curid=1",
        "dbname=dewiki@OSM&curid=1",
        "dbname=dewiki&titles=Spezial:Version",
        "dbname=dewiki&curid=99999999999999999",
    ],
)
def test_a_page_query_is_always_answered(query: str, front: Front) -> None:
    """With whatever is known, if only that nothing is (W10)."""
    answer = front.page(query)

    assert answer.status_code == 200
    page = answer.json()["pages"][0]
    assert (page["is_observed"], page["links"], page["links_read"]) == (False, [], None)


def test_without_a_farm_the_default_one_is_meant(front: Front) -> None:
    """W24."""
    assert front.page("dbname=dewiki&curid=1").json()["wiki"] == "dewiki@WMF"
    assert front.page("dbname=dewiki@wmf&curid=1").json()["pages"][0]["is_observed"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("dbname=dewiki@WMF", "Name a page"),
        ("curid=1", "dbname"),
        ("dbname=de wiki&curid=1", "dbname"),
        ("dbname=dewiki@WMF&curid=0", "whole number"),
        ("dbname=dewiki@WMF&curid=-1", "whole number"),
        ("dbname=dewiki@WMF&curid=1e3", "whole number"),
        ("dbname=dewiki@WMF&curid=٣", "whole number"),
        ("dbname=dewiki@WMF&titles=a%00b", "control"),
        ("dbname=dewiki@WMF&curid=1&scope=some", "scope"),
        ("dbname=dewiki@WMF&curid=1&format=yaml", "format"),
        ("dbname=dewiki@WMF&curid=" + "|".join(map(str, range(1, 52))), "50 pages"),
    ],
    ids=[
        "none",
        "wiki",
        "odd-wiki",
        "zero",
        "minus",
        "float",
        "digits",
        "nul",
        "scope",
        "format",
        "51",
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_reason(query: str, said: str, front: Front) -> None:
    """As a problem of RFC 9457."""
    answer = front.page(query)

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.json()["detail"]


@pytest.mark.parametrize("name", ["url", "urls", "q", "pattern"])
def test_programs_get_no_answer_for_single_urls(name: str, front: Front) -> None:
    """Not even beside a page that has it (W20)."""
    answer = front.page(f"dbname=dewiki@WMF&curid=1&{name}={DEAD}")

    assert answer.status_code == 400
    assert "Single URLs" in answer.json()["detail"]


# ---- what is told of a link


def test_a_link_is_told_with_all_that_is_known(shelf: Shelf, front: Front) -> None:
    """History, evidence, hints, copies, reports, the tested replacement (W06, W30, W54, W57)."""
    number = shelf.state(
        DEAD,
        State.DEAD,
        mime="pdf",
        kib=12,
        history=pack(
            (
                Run(CODES.FINE, TODAY - 400, TODAY - 190),
                Run(CODES.NOT_FOUND, TODAY - 183, TODAY - 1),
            )
        ),
    )
    shelf.seen(number, "http: 404", "https://verlag.de/")
    shelf.add(
        url_quirks,
        url_id=number,
        kind=UrlQuirk.MOVED,
        value="https://verlag.de/new",
        first_day=TODAY,
        last_day=TODAY,
    )
    shelf.copy(
        number,
        "wayback",
        "https://web.archive.org/web/20200101000000/https://verlag.de/",
        "20200101000000",
    )
    shelf.copy(number, "archive-it")
    shelf.report(number)
    shelf.add(
        replacements,
        url_id=number,
        address="https://verlag.de/there",
        state=Stage.WORKS,
        moment=0,
        reporter=b"x" * 16,
        tested_day=TODAY,
    )
    (link,) = [link for link in links_of(front) if link["url"] == DEAD]

    assert [(run["http"], run["first"]) for run in link["history"]] == [
        (200, "2025-10-16"),
        (404, "2026-05-21"),
    ]
    assert (link["mime"], link["kib"], link["evidence"], link["leads_to"]) == (
        "pdf",
        12,
        "http: 404",
        "https://verlag.de/",
    )
    assert link["hints"] == [
        {"kind": "moved", "value": "https://verlag.de/new", "words": "It has moved for good."}
    ]
    assert [copy["service"] for copy in link["copies"]] == ["archive-it", "wayback"]
    assert (link["copies"][0]["address"], link["copies"][1]["timestamp"]) == (
        None,
        "20200101000000",
    )
    assert (link["reports"], link["replacement"]) == (1, "https://verlag.de/there")
    assert "no such page" in link["cause"]


@pytest.mark.parametrize("stage", [Stage.WAITING, Stage.FAILED])
def test_an_untested_replacement_is_told_to_nobody(
    stage: Stage, shelf: Shelf, front: Front
) -> None:
    """Nor one whose test failed (W17)."""
    number = shelf.state(DEAD, State.DEAD)
    shelf.add(
        replacements,
        url_id=number,
        address="https://evil.org/",
        state=stage,
        moment=0,
        reporter=b"x" * 16,
    )

    assert "evil" not in front.page().text


def test_what_is_over_is_not_told(shelf: Shelf, front: Front) -> None:
    """Reports after six months, quirks after theirs (W14, W47, W56)."""
    number = shelf.state(DEAD, State.DEAD)
    host = shelf.host_of(number)
    shelf.report(number, expires_day=TODAY - 1)
    shelf.add(
        url_quirks, url_id=number, kind=UrlQuirk.MOVED, value="x", first_day=0, last_day=TODAY - 180
    )
    shelf.add(
        host_quirks, host_id=host, kind=HostQuirk.SERVER_ERROR, first_day=0, last_day=TODAY - 100
    )
    shelf.add(host_quirks, host_id=host, kind=99, first_day=TODAY, last_day=TODAY)
    (link,) = [link for link in links_of(front) if link["url"] == DEAD]

    assert (link["reports"], link["hints"]) == (0, [])


def test_spam_is_told_with_its_list_and_not_its_state(shelf: Shelf, front: Front) -> None:
    """It is not looked at, and stays on no list of URLs (W52)."""
    page = shelf.page(1, "Foo bar", FINE)
    shelf.spam(page, "https://spam.top/buy")
    (link,) = links_of(front, "")

    assert (link["url"], link["state"]) == ("https://spam.top/buy", "excluded")
    assert link["spam"] == [{"list": "MediaWiki:Spam-blacklist", "line": 7}]
    assert '<a class="url" dir="ltr" href="https://spam.top' not in front.get(INFO).text


def test_our_own_copy_is_told(shelf: Shelf, tmp_path: Path) -> None:
    """As the address of its newest copy, under either scheme; no copy, no address."""
    shelf.captured("http" + DEAD.removeprefix("https"))
    with open_front(tmp_path, Given(shelf.store)) as front:
        told = {link["url"]: link["own_copy"] for link in links_of(front)}

    assert told[DEAD] == f"{ORIGIN}/latest/{DEAD}"
    assert told[FINE] is None


# ---- formats


def facts_of(element: ET.Element) -> Any:
    """What an element of the answer holds, in the form of the JSON, its nulls left out."""
    if element.tag in ("pages", "links", "history", "hints", "copies", "spam"):
        return [facts_of(each) for each in element]
    if len(element):
        return {each.tag: facts_of(each) for each in element}
    return element.text or ""


def plain(value: Any) -> Any:
    """The JSON in the form of the XML."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_json_and_xml_tell_the_same(shelf: Shelf, front: Front) -> None:
    """One formatter makes both (W21, W70)."""
    shelf.page(1, "<&>\"' 猫", DEAD, FINE, "http://a\x01b\ufffe.de/")
    query = "dbname=dewiki@WMF&curid=1|9&scope=all"
    as_json = front.page(query).json()
    as_xml = front.page(query + "&format=xml")

    assert as_xml.headers["content-type"].startswith("application/xml")
    bad = plain(as_json)
    for link in bad["pages"][0]["links"]:
        link["url"] = link["url"].replace("\x01", "\ufffd").replace("\ufffe", "\ufffd")
    assert facts_of(ET.fromstring(as_xml.content)) == bad


def test_html_is_a_list_in_the_order_of_hosts(shelf: Shelf, front: Front) -> None:
    """Top-level domain, then down; port, scheme, path (W68)."""
    wanted = [
        "https://zoo.com/", "http://verlag.de/a", "http://verlag.de/b", "https://verlag.de/a",
        "http://verlag.de:81/", "https://a.verlag.de/", "https://b.verlag.de/", "https://anton.org/",
    ]  # fmt: skip
    shelf.page(1, "Foo", *reversed(wanted))
    text = front.get(INFO + "&scope=all").text

    assert re.findall(r'<p class="target"><a class="url" dir="ltr" href="([^"]+)"', text) == wanted
    assert "<ul" in text
    assert sorted(wanted, key=order_of) == wanted


def test_a_fragment_is_the_list_alone_and_its_addresses_are_whole(front: Front) -> None:
    """It may stand on a page of any site."""
    for path in ("/links/api/page?format=html&dbname=dewiki@WMF&curid=1", INFO + "&fragment=1"):
        text = front.get(path).text

        assert text.lstrip().startswith("<section")
        assert f'href="{ORIGIN}/links?url=' in text


HOSTILE = "https://verlag.de/</script><script>alert(1)</script>\"'\u2028\u2029]]>&amp;${1}`"


def test_the_script_says_what_nobody_can_leave(shelf: Shelf, front: Front) -> None:
    """Whatever stands in a URL: ASCII, and no sign of markup (W67)."""
    shelf.page(1, "Foo", DEAD, "http://x</script>\u2028'\\\"/")
    answer = front.get(PROBLEM)
    inner = re.fullmatch(
        r"\( function \( mw \) \{\n\tvar problems = (\[.*\]);\n"
        r'\tmw\.hook\( "externalLinkProblem/query\.answer" \)\.fire\( problems \);\n'
        r"\}\( window\.mediaWiki \) \);\n",
        answer.text,
    )

    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.text.isascii()
    assert not set("<>&'\u2028") & set(answer.text)
    assert inner is not None
    told = {each["url"] for each in json.loads(inner[1])}
    assert told == {"http://x</script>\u2028'\\\"/", DEAD}


@pytest.mark.parametrize("name", ["callback", "jsonp", "hook"])
def test_nobody_names_what_the_script_calls(name: str, front: Front) -> None:
    """A name from outside would be code from outside."""
    assert front.get(f"{PROBLEM}&{name}=alert(1)//").text == front.get(PROBLEM).text


def test_problems_are_those_that_a_reader_does_not_reach(shelf: Shelf, front: Front) -> None:
    """Dead, usurped and invalid ones; not those that only refuse us (W67)."""
    shelf.page(1, "Foo", DEAD, FINE, BAD, "https://casino.de/", "https://zeitung.de/")
    shelf.state("https://casino.de/", State.USURPED)
    shelf.state("https://zeitung.de/", State.BLOCKED)
    found = front.get(PROBLEM + "&format=json").json()["problems"]

    assert [each["url"] for each in found] == [BAD, "https://casino.de/", DEAD]


def test_the_words_are_in_the_language_that_is_asked_for(front: Front) -> None:
    """By parameter, else by the browser's wish, else English (W11, W68)."""
    query = "dbname=dewiki@WMF&curid=1"
    german = front.page(query + "&lang=de-AT")

    assert german.json()["pages"][0]["links"][1]["words"] == "Tot seit sechs Monaten"
    assert german.headers["content-language"] == "de"
    assert front.page(query, accept_language="de").json() == german.json()
    assert front.page(query + "&lang=tlh").headers["content-language"] == "en"
    assert '<html lang="de">' in front.get(INFO + "&lang=de").text


# ---- what asking does


def asked(store: Store) -> dict[int, tuple[int | None, bool]]:
    """When each page was last asked for, and whether its links are to be read again."""
    with store.reading() as rows:
        found = rows.execute(select(pages.c.page_id, pages.c.asked_day, pages.c.is_stale))
        return {row.page_id: (row.asked_day, bool(row.is_stale)) for row in found}


def test_a_question_is_noted_once_a_day(shelf: Shelf, front: Front) -> None:
    """The day alone, and nothing becomes stale (W34)."""
    assert asked(shelf.store)[1] == (None, False)
    front.page()
    assert asked(shelf.store)[1] == (TODAY, False)
    front.clock.seconds += 86_400
    front.page("dbname=dewiki@WMF&titles=foo_bar")
    assert asked(shelf.store)[1] == (TODAY + 1, False)


def test_a_ping_hands_the_page_to_the_feeder_and_tells_nothing(shelf: Shelf, front: Front) -> None:
    """Also when it was asked for today (W22)."""
    shelf.page(2, "Andere")
    front.page()
    answer = front.page("dbname=dewiki@WMF&curid=1|4711&ping=1")

    assert (answer.status_code, answer.content) == (204, b"")
    assert asked(shelf.store) == {1: (TODAY, True), 2: (None, False)}


def test_asking_again_on_the_same_day_writes_nothing(shelf: Shelf, front: Front) -> None:
    """Who asks a thousand times keeps no writer waiting."""
    front.page("dbname=dewiki@WMF&curid=1&ping=1")
    written: list[str] = []
    shelf.on_write(written.append)
    front.page("dbname=dewiki@WMF&curid=1&ping=1")
    front.page()

    assert written == []


CONNECTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
_watched: list[list[str]] = []
_hooked: list[bool] = []


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _watched and event in CONNECTS:
        _watched[-1].append(f"{event} {arguments}")


NEW = "https://injected.org/x"
FORMS_OF_ASKING = (
    f"/links/api/page?dbname=dewiki@WMF&curid=1&url={NEW}",
    "/links/api/page?dbname=dewiki@WMF&curid=77",
    "/links/api/page?dbname=dewiki@WMF&curid=77&ping=1",
    "/links/api/page?dbname=newwiki@NEW&curid=77&ping=1",
    f"/links/api/page?dbname=dewiki@WMF&titles={NEW}&ping=1",
    f"/externalLinkProblem?dbname=dewiki@WMF&titles={NEW}",
    f"/externalLinkInfo?dbname=dewiki@WMF&titles={NEW}",
    f"/links?url={NEW}",
    f"/links?url={NEW}&stamp=STAMP",
    f"/links?url={NEW}&dbname=dewiki&farm=1&stamp=STAMP",
    f"/links?url={DEAD}&dbname=dewiki&farm=1&stamp=STAMP",
    "/links?pattern=*.injected.org&stamp=STAMP",
    f"/links?dbname=dewiki&title={NEW}",
    "/links/list?dbname=neuwiki&with=spam",
    "/links/api/list?dbname=neuwiki&with=doubtful",
)


@pytest.fixture
def connections() -> Iterator[list[str]]:
    """What this process connects to or looks up meanwhile."""
    if not _hooked:
        sys.addaudithook(_audit)  # it stays for ever
        _hooked.append(True)
    _watched.append([])
    yield _watched[-1]
    _watched.pop()


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
def test_no_request_makes_a_row_or_a_connection(
    method: str, shelf: Shelf, front: Front, connections: list[str]
) -> None:
    """Nobody injects a URL, and nothing is looked at because somebody asks (W12, W28)."""
    before = shelf.counts()
    allowed = (200, 204, 400) if method in ("GET", "HEAD") else (405,)
    for path in FORMS_OF_ASKING:
        answer = front.get(path.replace("STAMP", front.stamp()), method=method)
        assert answer.status_code in allowed, path

    assert shelf.counts() == before
    assert connections == []


def test_the_watch_for_connections_sees_one(connections: list[str]) -> None:
    """Else the test above would prove nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=10).close()

    assert connections


# ---- who is told what


def test_no_page_of_another_farm_is_told(shelf: Shelf, front: Front) -> None:
    """Two wikis of one name in two farms (W24)."""
    shelf.page(1, "Ways", "https://osm.info/", wiki="dewiki@OSM")
    wmf = front.page("dbname=dewiki@WMF&curid=1").json()["pages"][0]
    osm = front.page("dbname=dewiki@OSM&curid=1").json()["pages"][0]

    assert (wmf["title"], osm["title"]) == ("Foo bar", "Ways")


@pytest.mark.parametrize("path", EVERY)
def test_any_site_may_read_and_none_may_send(path: str, front: Front) -> None:
    """CORS without credentials; no other method than GET and HEAD; nothing is sniffed."""
    answer = front.get(path, origin="https://de.wikipedia.org")
    preflight = front.get(
        path,
        method="OPTIONS",
        origin="https://de.wikipedia.org",
        access_control_request_headers="api-user-agent",
    )

    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "access-control-allow-credentials" not in answer.headers
    assert "set-cookie" not in answer.headers
    assert preflight.headers["access-control-allow-methods"] == "GET, HEAD"
    assert front.get(path, method="HEAD").status_code == 200
    assert front.get(path, method="POST").status_code == 405


@pytest.mark.parametrize("path", [*EVERY, "/links", "/links/list?dbname=dewiki&with=spam"])
def test_a_registry_that_is_away_is_told_in_words(path: str, tmp_path: Path) -> None:
    """503 with the time to come back; the archive's own pages go on."""
    with open_front(tmp_path, Given(TransientError("gone"))) as front:
        answer = front.get(path)
        home = front.get("/")

    if path == "/links":  # the form itself needs no registry
        assert answer.status_code == 200
        return
    assert (answer.status_code, home.status_code) == (503, 200)
    assert answer.headers["retry-after"] == "30"
    assert "registry cannot be read at the moment" in answer.text


@pytest.mark.parametrize("source", [Given(None), None], ids=["not-begun", "none"])
def test_without_a_registry_the_front_is_as_before(source: Given | None, tmp_path: Path) -> None:
    """No address of it is there."""
    with open_front(tmp_path, source) as front:
        found = {path: front.get(path).status_code for path in (*EVERY, "/links", "/")}

    assert set(found.values()) == {404, 200}
    assert found["/"] == 200
    assert list(found.values()).count(200) == 1


def test_a_broken_registry_is_one_that_is_away(shelf: Shelf, tmp_path: Path) -> None:
    """A real file that was torn is no reason for a crash."""
    shelf.store.close()
    layout = Layout(tmp_path)
    for path in layout.links_db.parent.glob("links.sqlite*"):
        path.unlink()
    layout.links_db.write_bytes(b"no database at all" * 1000)
    with open_front(tmp_path, shelf.reopened(tmp_path)) as front:
        answers = [
            front.page().status_code,
            front.get("/links?dbname=dewiki&curid=1").status_code,
            front.get("/").status_code,
        ]

    assert answers == [503, 503, 200]


# ---- lists


def test_a_list_goes_on_where_it_ended(shelf: Shelf, front: Front) -> None:
    """By the number of its last page; each page once, in order (W05)."""
    for number in range(100, 230):
        shelf.page(number, f"Seite {number}", DEAD)
    found: list[int] = []
    after: int | None = 0
    while after is not None:
        part = front.get(f"/links/api/list?dbname=dewiki&with=unreachable&after={after}").json()
        found += [page["page_id"] for page in part["pages"]]
        assert len(part["pages"]) <= 50
        after = part["after"]

    assert found == [1, *range(100, 230)]


def test_lists_hold_what_they_say(shelf: Shelf, front: Front) -> None:
    """Spam, unreachable, doubtful; what a page no longer has puts it on none (W05)."""
    shelf.page(2, "Zweifel", "https://langsam.de/")
    shelf.state("https://langsam.de/", State.DYING)
    shelf.spam(shelf.page(3, "Werbung"), "https://spam.top/")
    shelf.page(4, "Geheilt", DEAD)
    shelf.page(4, "Geheilt", day=TODAY)

    def listed(kind: str) -> list[str]:
        found = front.get(f"/links/api/list?dbname=dewiki@WMF&with={kind}").json()
        return [page["title"] for page in found["pages"]]

    assert listed("spam") == ["Werbung"]
    assert listed("unreachable") == ["Foo bar"]
    assert listed("doubtful") == ["Zweifel"]


def test_a_list_of_a_wiki_that_nobody_knows_is_empty(front: Front) -> None:
    """And says so."""
    found = front.get("/links/api/list?dbname=nowiki&with=spam&format=xml")

    assert ET.fromstring(found.content).findtext("is_observed") == "false"


# ---- both databases


def test_both_databases_answer_alike(either: Shelf, tmp_path: Path) -> None:
    """Pages, lists, a ping, the form's questions."""
    either.fill()
    with open_front(tmp_path, Given(either.store)) as front:
        page = front.page("dbname=dewiki@WMF&curid=1&titles=Foo bar&scope=all").json()["pages"]
        ping = front.page("dbname=dewiki@WMF&curid=1&ping=1").status_code
        listed = front.get("/links/api/list?dbname=dewiki&with=unreachable").json()["pages"]
        url = front.get(f"/links?url={DEAD}&dbname=dewiki&farm=1&stamp={front.stamp()}")
        found = front.get(
            f"/links?pattern=*.de&dbname=dewiki&status=unreachable&stamp={front.stamp()}"
        )

    assert page[0] == page[1]
    assert [link["state"] for link in page[0]["links"]] == ["invalid", "alive", "dead"]
    assert (ping, asked(either.store)[1]) == (204, (TODAY, True))
    assert [each["title"] for each in listed] == ["Foo bar"]
    assert "Foo bar" in url.text
    assert DEAD in found.text
    assert FINE not in found.text
