"""Registry API for programs (W10, W12, W19-W24, W28, W33, W34, W67, W68, W70)."""

import json
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest
from sqlalchemy import select

from core.errors import TransientError
from core.layout import Layout
from links.check_history import HistoryRun, date_of, pack_history
from links.feedback.replacements import ProposalStage
from links.registry.citations import PageRevision, note_additions
from links.registry.database import RegistryStore
from links.registry.pages import next_stale, number_of
from links.registry.quirks import HostQuirk, UrlQuirk
from links.registry.schema import host_quirks, pages, replacements, url_quirks
from links.states import LinkState
from playback.web.rate_limits import RateLimitPolicy, parse_networks
from playback.web.registry.registry_values import link_order
from tests.support.registry_builder import (
    CODES,
    DEAD,
    FINE,
    ORIGIN,
    TODAY,
    FixedRegistry,
    RegistryBuilder,
    RegistryFront,
    open_front,
)

pytestmark = pytest.mark.slow

BAD = "http://example.com:8o8o/foo/bar"
PROBLEM = "/externalLinkProblem?dbname=dewiki@WMF&pageid=1"
INFO = "/externalLinkInfo?dbname=dewiki@WMF&pageid=1"
EVERY = ("/links/api/page?dbname=dewiki@WMF&curid=1", PROBLEM, INFO, "/links/api/list?dbname=dewiki&with=spam")


def links_of(front: RegistryFront, query: str = "&scope=all") -> list[dict[str, Any]]:
    """Return the links of the first page."""
    links: list[dict[str, Any]] = front.page(f"dbname=dewiki@WMF&curid=1{query}").json()["pages"][0]["links"]
    return links


# ---- which pages


def test_a_page_is_told_with_the_links_that_have_findings(front: RegistryFront) -> None:
    """Only these by default; what nobody can ask for is one, as it stands on the page (W06, W48)."""
    page = front.page().json()["pages"][0]

    assert (page["title"], page["is_observed"], page["links_total"]) == ("Foo bar", True, 3)
    assert [link["url"] for link in page["links"]] == [BAD, DEAD]
    dead = page["links"][1]
    assert (dead["state"], dead["group"], dead["http"]) == ("dead", "unreachable", 404)
    assert dead["words"] == "Dead since 21 May 2026"
    assert dead["checked"]["ago"] == "two weeks ago"


def test_all_links_are_told_when_all_are_asked_for(front: RegistryFront) -> None:
    """W07."""
    assert {link["url"] for link in links_of(front)} == {BAD, DEAD, FINE}


def test_the_day_on_which_the_page_was_read_is_told(front: RegistryFront) -> None:
    """Links added since are missing, and clients can see that (W08)."""
    assert front.page().json()["pages"][0]["links_read"]["ago"] == "three days ago"


def test_pages_come_in_the_order_of_the_question(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Several ids, with bars, commas or repeated; then names; each once (W19)."""
    registry_builder.page(2, "Zweite Seite")
    registry_builder.page(3, "Dritte")
    query = "curid=3|1&curid=2,3&titles=zweite_Seite|Unbekannt"
    pages = front.page(f"dbname=dewiki@WMF&{query}").json()["pages"]

    assert [page["page_id"] for page in pages] == [3, 1, 2, 2, None]
    assert [page["title"] for page in pages][3:] == ["Zweite Seite", "Unbekannt"]
    assert [page["is_observed"] for page in pages] == [True, True, True, True, False]


def test_a_moved_page_is_told_with_its_present_name(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Its number stays (W33)."""
    registry_builder.page(1, "Neuer Name", DEAD)

    assert front.page().json()["pages"][0]["title"] == "Neuer Name"


@pytest.mark.parametrize(
    "query",
    ["dbname=dewiki@WMF&curid=4711", "dbname=dewiki&titles=Spezial:Version", "dbname=dewiki&curid=99999999999999999"],
)
def test_a_page_query_is_always_answered(query: str, front: RegistryFront) -> None:
    """With whatever is known, if only that nothing is (W10)."""
    answer = front.page(query)

    assert answer.status_code == 200
    page = answer.json()["pages"][0]
    assert (page["is_observed"], page["links"], page["links_read"]) == (False, [], None)


@pytest.mark.parametrize("name", ["nowiki@WMF", "dewiki@OSM"])
@pytest.mark.parametrize(
    "path",
    [
        "/links/api/page?curid=1", "/links/api/page?curid=1&ping=1", "/links/api/page?titles=Foo",
        "/externalLinkProblem?pageid=1", "/externalLinkInfo?pageid=1",
        "/links/api/list?with=spam",
    ],
)  # fmt: skip
def test_a_wiki_that_nobody_knows_is_an_error(path: str, name: str, front: RegistryFront) -> None:
    """A misspelt name is not taken for a page without links."""
    answer = front.get(f"{path}&dbname={name}")

    assert answer.status_code == 404
    assert "This wiki is not known here" in answer.json()["detail"]
    form = front.get(f"/links?dbname={name}&curid=1")
    assert (form.status_code, "This wiki is not known here" in form.text) == (404, True)


def test_an_answer_says_whether_it_is_of_the_revision_that_the_asker_has(
    registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """W08: where it is not, the page is read again soon."""
    page, query = number_of(registry_builder.wiki(), 1), "dbname=dewiki@WMF&curid=1"
    with registry_builder.store.writing() as rows:
        note_additions(rows, [PageRevision(page, 70, None, "", TODAY)], [], day=TODAY)

    def page_state(more: str) -> tuple[int | None, bool | None, bool]:
        page_document = front.page(query + more).json()["pages"][0]
        with registry_builder.store.reading() as rows:
            stale = bool(next_stale(rows, registry_builder.wiki(), limit=1))
        return page_document["revision"], page_document["is_current"], stale

    assert page_state("") == (70, None, False)
    assert page_state("&revid=70") == (70, True, False)
    assert page_state("&revid=71") == (70, False, True)
    several = front.page(query + "|2&revid=70").json()["pages"]
    assert [page["is_current"] for page in several] == [None, None]


def test_links_to_pages_of_the_farm_that_are_not_there_get_a_hint(
    registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """W50: with what a page's reading found, also in what gadgets load."""
    lost = "https://de.wikipedia.org/wiki/No_such_page"
    registry_builder.missing(5, "Linking", lost)
    (link,) = front.page("dbname=dewiki@WMF&curid=5").json()["pages"][0]["links"]

    assert (link["url"], link["state"], link["group"]) == (lost, "dead", "unreachable")
    assert [each["kind"] for each in link["hints"]] == ["missing-target"]
    assert link["since"]["date"] == date_of(TODAY - 3).isoformat()
    problems = front.get("/externalLinkProblem?dbname=dewiki@WMF&pageid=5&format=json").json()
    assert [each["url"] for each in problems["problems"]] == [lost]


def test_ftp_links_are_told_as_not_checked(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """W44: with the reason, among all links of the page; nobody is led there."""
    registry_builder.page(5, "Files", "ftp://files.net/a", FINE)
    (link,) = [
        each
        for each in front.page("dbname=dewiki@WMF&curid=5&scope=all").json()["pages"][0]["links"]
        if each["url"] != FINE
    ]

    assert (link["url"], link["state"]) == ("ftp://files.net/a", "excluded")
    assert [each["kind"] for each in link["hints"]] == ["ftp"]
    assert front.page("dbname=dewiki@WMF&curid=5").json()["pages"][0]["links"] == []
    assert 'href="ftp:' not in front.get("/links?dbname=dewiki@WMF&curid=5&scope=all").text


def test_a_links_spelling_is_that_of_its_page(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """A17: what a browser makes of the address, so that a gadget finds it again."""
    spelled, url = "https://verlag.de/%7Ea?q=%2d", "https://verlag.de/~a?q=-"
    registry_builder.page(5, "Spelled", spelled, FINE)
    links = front.page("dbname=dewiki@WMF&curid=5&scope=all").json()["pages"][0]["links"]
    listed = front.get("/links/api/links?dbname=dewiki@WMF").json()["links"]

    assert {each["url"]: each["spelling"] for each in links} == {url: spelled, FINE: FINE}
    assert spelled in {each["spelling"] for each in listed}


SECRET = "https://geheim.de/only"
TELLING = (
    "/links/api/page?dbname=hauswiki&curid=1&scope=all", "/externalLinkProblem?dbname=hauswiki&pageid=1",
    "/externalLinkInfo?dbname=hauswiki&pageid=1&scope=all",
    "/links/api/list?dbname=hauswiki&with=unreachable", "/links/list?dbname=hauswiki&with=unreachable",
    "/links?dbname=hauswiki&curid=1&scope=all", f"/links?url={SECRET}&dbname=hauswiki&stamp=STAMP",
    f"/links?url={SECRET}&dbname=dewiki&farm=1&stamp=STAMP",
    f"/links?url={DEAD}&dbname=dewiki&farm=1&stamp=STAMP",
    "/links?pattern=*.geheim.de&dbname=hauswiki&stamp=STAMP", "/links?pattern=*.geheim.de&stamp=STAMP",
)  # fmt: skip


@pytest.mark.parametrize("path", TELLING)
def test_a_private_wiki_is_told_to_internal_callers_alone(
    path: str, registry_builder: RegistryBuilder, tmp_path: Path
) -> None:
    """Neither its titles nor links that it alone has (L12)."""
    registry_builder.page(1, "Interna", SECRET, DEAD, wiki="hauswiki@WMF")
    registry_builder.state(SECRET, LinkState.DEAD)
    registry_builder.settings({"public": False}, "hauswiki@WMF")
    texts = {}
    for peer in ("198.51.100.7", "10.0.0.7"):
        access = RateLimitPolicy(internal=parse_networks(["10.0.0.0/8"]))
        with open_front(tmp_path, FixedRegistry(registry_builder.store), access=access, peer=peer) as front:
            texts[peer] = front.get(path.replace("STAMP", front.stamp())).text

    assert "Interna" not in texts["198.51.100.7"]
    assert "Dead" not in texts["198.51.100.7"] or f"url={DEAD}" in path
    assert "hauswiki" in texts["10.0.0.7"] or "geheim" in texts["10.0.0.7"]


def test_without_a_farm_the_default_one_is_meant(front: RegistryFront) -> None:
    """W24."""
    assert front.page("dbname=dewiki&curid=1").json()["wiki"] == "dewiki@WMF"
    assert front.page("dbname=dewiki@wmf&curid=1").json()["pages"][0]["is_observed"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("dbname=dewiki@WMF", "Specify a page"),
        ("curid=1", "dbname"),
        ("dbname=de wiki&curid=1", "dbname"),
        ("dbname=dewiki@WMF&curid=0", "positive integer"),
        ("dbname=dewiki@WMF&curid=-1", "positive integer"),
        ("dbname=dewiki@WMF&curid=1e3", "positive integer"),
        ("dbname=dewiki@WMF&curid=٣", "positive integer"),
        ("dbname=dewiki@WMF&titles=a%00b", "control"),
        ("dbname=dewiki@WMF&curid=1&scope=some", "scope"),
        ("dbname=dewiki@WMF&curid=1&format=yaml", "format"),
        ("dbname=dewiki@WMF&curid=" + "|".join(map(str, range(1, 52))), "50 pages"),
    ],
    ids=["none", "wiki", "odd-wiki", "zero", "minus", "float", "digits", "nul", "scope", "format", "51"],
)
def test_what_cannot_be_asked_is_refused_with_a_reason(query: str, message: str, front: RegistryFront) -> None:
    """As a problem of RFC 9457."""
    answer = front.page(query)

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert message in answer.json()["detail"]


@pytest.mark.parametrize("name", ["url", "urls", "q", "pattern"])
def test_programs_get_no_answer_for_single_urls(name: str, front: RegistryFront) -> None:
    """Not even beside a page that has it (W20)."""
    answer = front.page(f"dbname=dewiki@WMF&curid=1&{name}={DEAD}")

    assert answer.status_code == 400
    assert "single URLs" in answer.json()["detail"]


# ---- what is told of a link


def test_a_link_is_told_with_all_that_is_known(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """History, evidence, hints, copies, reports, the tested replacement (W06, W30, W54, W57)."""
    number = registry_builder.state(
        DEAD,
        LinkState.DEAD,
        mime="pdf",
        kib=12,
        history=pack_history(
            (HistoryRun(CODES.FINE, TODAY - 400, TODAY - 190), HistoryRun(CODES.NOT_FOUND, TODAY - 183, TODAY - 1))
        ),
    )
    registry_builder.seen(number, "http: 404", "https://verlag.de/")
    registry_builder.add(
        url_quirks, url_id=number, kind=UrlQuirk.MOVED, value="https://verlag.de/new", first_day=TODAY, last_day=TODAY
    )
    registry_builder.copy(
        number, "wayback", "https://web.archive.org/web/20200101000000/https://verlag.de/", "20200101000000"
    )
    registry_builder.copy(number, "archive-it")
    registry_builder.report(number)
    registry_builder.add(
        replacements,
        url_id=number,
        address="https://verlag.de/there",
        state=ProposalStage.WORKS,
        moment=0,
        reporter=b"x" * 16,
        tested_day=TODAY,
    )
    (link,) = [link for link in links_of(front) if link["url"] == DEAD]

    assert [(run["http"], run["first"]) for run in link["history"]] == [(200, "2025-10-16"), (404, "2026-05-21")]
    assert (link["mime"], link["kib"], link["evidence"], link["leads_to"]) == (
        "pdf",
        12,
        "http: 404",
        "https://verlag.de/",
    )
    assert link["hints"] == [
        {"kind": "moved", "value": "https://verlag.de/new", "words": "The page has moved permanently."}
    ]
    assert [copy["service"] for copy in link["copies"]] == ["archive-it", "wayback"]
    assert (link["copies"][0]["address"], link["copies"][1]["timestamp"]) == (None, "20200101000000")
    assert (link["reports"], link["replacement"]) == (1, "https://verlag.de/there")
    assert "no such page" in link["cause"]


@pytest.mark.parametrize("stage", [ProposalStage.WAITING, ProposalStage.FAILED])
def test_an_untested_replacement_is_told_to_nobody(
    stage: ProposalStage, registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """Nor one whose test failed (W17)."""
    number = registry_builder.state(DEAD, LinkState.DEAD)
    registry_builder.add(
        replacements, url_id=number, address="https://evil.org/", state=stage, moment=0, reporter=b"x" * 16
    )

    assert "evil" not in front.page().text


def test_what_is_over_is_not_told(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Reports after six months, quirks after theirs (W14, W47, W56)."""
    number = registry_builder.state(DEAD, LinkState.DEAD)
    host = registry_builder.host_of(number)
    registry_builder.report(number, expires_day=TODAY - 1)
    registry_builder.add(url_quirks, url_id=number, kind=UrlQuirk.MOVED, value="x", first_day=0, last_day=TODAY - 180)
    registry_builder.add(host_quirks, host_id=host, kind=HostQuirk.SERVER_ERROR, first_day=0, last_day=TODAY - 100)
    registry_builder.add(host_quirks, host_id=host, kind=99, first_day=TODAY, last_day=TODAY)
    (link,) = [link for link in links_of(front) if link["url"] == DEAD]

    assert (link["reports"], link["hints"]) == (0, [])


@pytest.mark.parametrize(
    ("host", "since", "kinds"),
    [
        ("verlag.de", TODAY - 101, ["server-error"]),
        ("verlag.de", TODAY - 100, []),  # not consolidated yet
        ("de", TODAY - 101, []),  # a top-level domain is nobody's host
    ],
)
def test_a_hosts_quirks_are_told_once_consolidated_and_hold_below_it(
    host: str, since: int, kinds: list[str], registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """Of the host itself and of its subdomains, once they stand for more than 100 days (W47)."""
    deep = "https://a.b.verlag.de/gone"
    registry_builder.page(1, "Foo bar", DEAD, deep)
    registry_builder.state(deep, LinkState.DEAD)
    row = registry_builder.host_of(registry_builder.state(f"https://{host}/", LinkState.DEAD))
    days = {"first_day": since, "last_day": TODAY}
    registry_builder.add(host_quirks, host_id=row, kind=HostQuirk.SERVER_ERROR, **days)

    hints = {link["url"]: [each["kind"] for each in link["hints"]] for link in links_of(front)}
    assert hints == {DEAD: kinds, deep: kinds}


def test_a_url_that_works_again_has_no_replacement(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """It is shown in the place of what cannot be reached alone (W17)."""
    registry_builder.replace(
        registry_builder.state(FINE, LinkState.ALIVE), "https://verlag.de/there", ProposalStage.WORKS
    )
    (link,) = [link for link in links_of(front) if link["url"] == FINE]
    assert link["replacement"] is None

    registry_builder.state(FINE, LinkState.DEAD)
    (link,) = [link for link in links_of(front) if link["url"] == FINE]
    assert link["replacement"] == "https://verlag.de/there"


def test_a_presumption_is_told_as_a_note(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """At once, and the state stays what was observed (W16)."""
    number = registry_builder.state(DEAD, LinkState.DEAD)
    days = {"first_day": TODAY, "last_day": TODAY}
    kind = HostQuirk.PRESUMED_REACHABLE
    registry_builder.add(host_quirks, host_id=registry_builder.host_of(number), kind=kind, **days)
    (link,) = [link for link in links_of(front) if link["url"] == DEAD]

    assert [each["kind"] for each in link["hints"]] == ["presumed-reachable"]
    assert (link["state"], link["group"]) == ("dead", "unreachable")


def test_spam_that_is_gone_is_not_told(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Its row is the trace back; the page, its list and the form tell what is there (W05, W52)."""
    url = "https://spam.top/buy"
    registry_builder.spam(registry_builder.page(1, "Foo bar", FINE), url, last_day=TODAY - 4)

    assert links_of(front, "") == []
    assert front.get("/links/api/list?dbname=dewiki@WMF&with=spam").json()["pages"] == []
    response = front.get(f"/links?url={url}&dbname=dewiki&stamp={front.stamp()}")
    assert "Blocked as spam" not in response.text


def test_spam_is_told_with_its_list_and_not_its_state(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """It is not looked at, and stays on no list of URLs (W52)."""
    page = registry_builder.page(1, "Foo bar", FINE)
    registry_builder.spam(page, "https://spam.top/buy")
    (link,) = links_of(front, "")

    assert (link["url"], link["state"]) == ("https://spam.top/buy", "excluded")
    assert link["spam"] == [{"list": "MediaWiki:Spam-blacklist", "line": 7}]
    assert '<a class="url" dir="ltr" href="https://spam.top' not in front.get(INFO).text


def test_our_own_copy_is_told(registry_builder: RegistryBuilder, tmp_path: Path) -> None:
    """As the address of its newest copy, under either scheme; no copy, no address."""
    registry_builder.captured("http" + DEAD.removeprefix("https"))
    with open_front(tmp_path, FixedRegistry(registry_builder.store)) as front:
        copy_by_url = {link["url"]: link["own_copy"] for link in links_of(front)}

    assert copy_by_url[DEAD] == f"{ORIGIN}/latest/{DEAD}"
    assert copy_by_url[FINE] is None


# ---- formats


def facts_of(element: ET.Element) -> Any:
    """Return an XML element of the answer in the form of the JSON, without its nulls."""
    if element.tag in ("pages", "links", "history", "hints", "copies", "spam"):
        return [facts_of(each) for each in element]
    if len(element):
        return {each.tag: facts_of(each) for each in element}
    return element.text or ""


def plain(value: Any) -> Any:
    """Return a JSON value in the form of the XML: every scalar is text, nulls are left out."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_json_and_xml_tell_the_same(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """One formatter makes both (W21, W70)."""
    registry_builder.page(1, "<&>\"' 猫", DEAD, FINE, "http://a\x01b\ufffe.de/")
    query = "dbname=dewiki@WMF&curid=1|9&scope=all"
    as_json = front.page(query).json()
    as_xml = front.page(query + "&format=xml")

    assert as_xml.headers["content-type"].startswith("application/xml")
    bad = plain(as_json)
    for link in bad["pages"][0]["links"]:
        for name in ("url", "spelling"):
            link[name] = link[name].replace("\x01", "\ufffd").replace("\ufffe", "\ufffd")
    assert facts_of(ET.fromstring(as_xml.content)) == bad


def test_html_is_a_list_in_the_order_of_hosts(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Top-level domain, then down; port, scheme, path (W68)."""
    wanted = [
        "https://zoo.com/", "http://verlag.de/a", "http://verlag.de/b", "https://verlag.de/a",
        "http://verlag.de:81/", "https://a.verlag.de/", "https://b.verlag.de/", "https://anton.org/",
    ]  # fmt: skip
    registry_builder.page(1, "Foo", *reversed(wanted))
    text = front.get(INFO + "&scope=all").text

    assert re.findall(r'<p class="target"><a class="url" dir="ltr" href="([^"]+)"', text) == wanted
    assert "<ul" in text
    assert sorted(wanted, key=link_order) == wanted


def test_a_fragment_is_the_list_alone_and_its_addresses_are_whole(front: RegistryFront) -> None:
    """It may stand on a page of any site."""
    for path in ("/links/api/page?format=html&dbname=dewiki@WMF&curid=1", INFO + "&fragment=1"):
        text = front.get(path).text

        assert text.lstrip().startswith("<section")
        assert f'href="{ORIGIN}/links?url=' in text


HOSTILE = "https://verlag.de/</script><script>alert(1)</script>\"'\u2028\u2029]]>&amp;${1}`"


def test_the_script_says_what_nobody_can_leave(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Whatever stands in a URL: ASCII, and no sign of markup (W67)."""
    registry_builder.page(1, "Foo", DEAD, "http://x</script>\u2028'\\\"/")
    answer = front.get(PROBLEM)
    inner = re.fullmatch(
        r"/\* Weboid [^\n*]+, GPL-3\.0-or-later\. Made by http\S+/links/api/source \*/\n"
        r"\( function \( mw \) \{\n\tvar problems = (\[.*\]);\n"
        r'\tmw\.hook\( "externalLinkProblem/query\.answer" \)\.fire\( problems \);\n'
        r"\}\( window\.mediaWiki \) \);\n",
        answer.text,
    )

    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.text.isascii()
    assert not set("<>&'\u2028") & set(answer.text)
    assert inner is not None
    urls = {each["url"] for each in json.loads(inner[1])}
    assert urls == {"http://x</script>\u2028'\\\"/", DEAD}


@pytest.mark.parametrize("name", ["callback", "jsonp", "hook"])
def test_nobody_names_what_the_script_calls(name: str, front: RegistryFront) -> None:
    """A name from outside would be code from outside."""
    assert front.get(f"{PROBLEM}&{name}=alert(1)//").text == front.get(PROBLEM).text


def test_problems_are_those_that_a_reader_does_not_reach(
    registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """Dead, usurped and invalid ones; not those that only refuse us (W67)."""
    registry_builder.page(1, "Foo", DEAD, FINE, BAD, "https://casino.de/", "https://zeitung.de/")
    registry_builder.state("https://casino.de/", LinkState.USURPED)
    registry_builder.state("https://zeitung.de/", LinkState.BLOCKED)
    problems = front.get(PROBLEM + "&format=json").json()["problems"]

    assert [each["url"] for each in problems] == [BAD, "https://casino.de/", DEAD]


def test_the_words_are_in_the_language_that_is_asked_for(front: RegistryFront) -> None:
    """By parameter, else by the browser's wish, else English (W11, W68)."""
    query = "dbname=dewiki@WMF&curid=1"
    german = front.page(query + "&lang=de-AT")

    assert german.json()["pages"][0]["links"][1]["words"] == "Tot seit dem 21. Mai 2026"
    assert german.headers["content-language"] == "de"
    assert front.page(query, accept_language="de").json() == german.json()
    assert front.page(query + "&lang=tlh").headers["content-language"] == "en"
    assert '<html lang="de">' in front.get(INFO + "&lang=de").text


# ---- what asking does


def refresh_states(store: RegistryStore) -> dict[int, tuple[int | None, bool]]:
    """Return by page the day of the last request, and whether its links are to be read again."""
    with store.reading() as rows:
        page_rows = rows.execute(select(pages.c.page_id, pages.c.asked_day, pages.c.is_stale))
        return {row.page_id: (row.asked_day, bool(row.is_stale)) for row in page_rows}


def test_a_question_is_noted_once_a_day(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """The day alone, and nothing becomes stale (W34)."""
    assert refresh_states(registry_builder.store)[1] == (None, False)
    front.page()
    assert refresh_states(registry_builder.store)[1] == (TODAY, False)
    front.clock.seconds += 86_400
    front.page("dbname=dewiki@WMF&titles=foo_bar")
    assert refresh_states(registry_builder.store)[1] == (TODAY + 1, False)


def test_a_ping_hands_the_page_to_the_feeder_and_tells_nothing(
    registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """Also when it was asked for today (W22)."""
    registry_builder.page(2, "Andere")
    front.page()
    answer = front.page("dbname=dewiki@WMF&curid=1|4711&ping=1")

    assert (answer.status_code, answer.content) == (204, b"")
    assert refresh_states(registry_builder.store) == {1: (TODAY, True), 2: (None, False)}


def test_asking_again_on_the_same_day_writes_nothing(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Repeated requests keep no writer waiting."""
    front.page("dbname=dewiki@WMF&curid=1&ping=1")
    written: list[str] = []
    registry_builder.on_write(written.append)
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
    """Yield the list of what this process connects to or looks up during the test."""
    if not _hooked:
        sys.addaudithook(_audit)  # it stays for ever
        _hooked.append(True)
    _watched.append([])
    yield _watched[-1]
    _watched.pop()


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
def test_no_request_makes_a_row_or_a_connection(
    method: str, registry_builder: RegistryBuilder, front: RegistryFront, connections: list[str]
) -> None:
    """Nobody injects a URL, and nothing is looked at because somebody asks (W12, W28)."""
    before = registry_builder.counts()
    allowed = (200, 204, 400, 404) if method in ("GET", "HEAD") else (405,)
    for path in FORMS_OF_ASKING:
        answer = front.get(path.replace("STAMP", front.stamp()), method=method)
        assert answer.status_code in allowed, path

    after = {**registry_builder.counts(), "link_asked_pages": 0}  # pages for the feeder to judge: no URL
    assert after == before
    assert connections == []


def test_the_watch_for_connections_sees_one(connections: list[str]) -> None:
    """Else the test above would prove nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=120).close()

    assert connections


# ---- who is told what


def test_no_page_of_another_farm_is_told(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Two wikis of one name in two farms (W24)."""
    registry_builder.page(1, "Ways", "https://osm.info/", wiki="dewiki@OSM")
    wmf = front.page("dbname=dewiki@WMF&curid=1").json()["pages"][0]
    osm = front.page("dbname=dewiki@OSM&curid=1").json()["pages"][0]

    assert (wmf["title"], osm["title"]) == ("Foo bar", "Ways")


@pytest.mark.parametrize("path", EVERY)
def test_any_site_may_read_and_none_may_send(path: str, front: RegistryFront) -> None:
    """CORS without credentials; no other method than GET and HEAD; nothing is sniffed."""
    answer = front.get(path, origin="https://de.wikipedia.org")
    preflight = front.get(
        path, method="OPTIONS", origin="https://de.wikipedia.org", access_control_request_headers="api-user-agent"
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
    with open_front(tmp_path, FixedRegistry(TransientError("gone"))) as front:
        answer = front.get(path)
        home = front.get("/")

    if path == "/links":  # the form itself needs no registry
        assert answer.status_code == 200
        return
    assert (answer.status_code, home.status_code) == (503, 200)
    assert answer.headers["retry-after"] == "30"
    assert "registry is temporarily unavailable" in answer.text


@pytest.mark.parametrize("source", [FixedRegistry(None), None], ids=["not-begun", "none"])
def test_without_a_registry_the_front_is_as_before(source: FixedRegistry | None, tmp_path: Path) -> None:
    """No address of it is there."""
    with open_front(tmp_path, source) as front:
        status_by_path = {path: front.get(path).status_code for path in (*EVERY, "/links", "/")}

    assert set(status_by_path.values()) == {404, 200}
    assert status_by_path["/"] == 200
    assert list(status_by_path.values()).count(200) == 1


def test_a_broken_registry_is_one_that_is_away(registry_builder: RegistryBuilder, tmp_path: Path) -> None:
    """A real file that was torn is no reason for a crash."""
    registry_builder.store.close()
    layout = Layout(tmp_path)
    for path in layout.links_db.parent.glob("links.sqlite*"):
        path.unlink()
    layout.links_db.write_bytes(b"no database at all" * 1000)
    with open_front(tmp_path, registry_builder.reopened(tmp_path)) as front:
        answers = [
            front.page().status_code,
            front.get("/links?dbname=dewiki&curid=1").status_code,
            front.get("/").status_code,
        ]

    assert answers == [503, 503, 200]


# ---- lists


def test_a_list_goes_on_where_it_ended(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """By the number of its last page; each page once, in order (W05)."""
    for number in range(100, 230):
        registry_builder.page(number, f"Seite {number}", DEAD)
    page_ids: list[int] = []
    after: int | None = 0
    while after is not None:
        part = front.get(f"/links/api/list?dbname=dewiki&with=unreachable&after={after}").json()
        page_ids += [page["page_id"] for page in part["pages"]]
        assert len(part["pages"]) <= 50
        after = part["after"]

    assert page_ids == [1, *range(100, 230)]


def test_lists_hold_what_they_say(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Spam, unreachable, doubtful; what a page no longer has puts it on none (W05)."""
    registry_builder.page(2, "Zweifel", "https://langsam.de/")
    registry_builder.state("https://langsam.de/", LinkState.DYING)
    registry_builder.spam(registry_builder.page(3, "Werbung"), "https://spam.top/")
    registry_builder.page(4, "Geheilt", DEAD)
    registry_builder.page(4, "Geheilt", day=TODAY)

    def listed(kind: str) -> list[str]:
        document = front.get(f"/links/api/list?dbname=dewiki@WMF&with={kind}").json()
        return [page["title"] for page in document["pages"]]

    assert listed("spam") == ["Werbung"]
    assert listed("unreachable") == ["Foo bar"]
    assert listed("doubtful") == ["Zweifel"]


def test_a_list_may_be_of_one_site(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Pages with unreachable links to a domain, from the beginning of a path on (W05)."""
    below = "https://a.verlag.de/x/1"
    registry_builder.page(2, "Unten", below)
    registry_builder.page(3, "Anders", "https://anders.de/")
    for url in (below, "https://anders.de/"):
        registry_builder.state(url, LinkState.DEAD)

    def listed(domain: str) -> list[str]:
        query = f"dbname=dewiki@WMF&with=unreachable&domain={domain}"
        titles = [page["title"] for page in front.get(f"/links/api/list?{query}").json()["pages"]]
        text = front.get(f"/links/list?{query}").text.partition('class="result"')[2]
        assert [title for title in ("Foo bar", "Unten", "Anders") if title in text] == titles
        return titles

    assert listed("verlag.de") == ["Foo bar", "Unten"]
    assert listed("verlag.de/gone") == ["Foo bar"]
    assert listed("a.verlag.de/x/") == ["Unten"]
    odd = front.get("/links/api/list?dbname=dewiki@WMF&with=unreachable&domain=/x.*/")
    assert (odd.status_code, "Enter a host name" in odd.json()["detail"]) == (400, True)


def test_a_wikis_links_by_state_go_on(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Each with its page, a part after the other, none twice (complaint of bots)."""
    urls = [f"https://viele.de/{number:03}" for number in range(230)]
    registry_builder.page(7, "Viele", *urls)
    for url in urls:
        registry_builder.state(url, LinkState.DEAD)
    part: dict[str, Any] = {"after": ""}
    page_links = []
    while part["after"] is not None:
        front.clock.seconds += 60
        query = f"dbname=dewiki@WMF&state=unreachable&fields=state&after={part['after']}"
        part = front.get(f"/links/api/links?{query}").json()
        page_links += [(link["page"]["page_id"], link["url"]) for link in part["links"]]

    assert len(page_links) == len(set(page_links)) == 231
    assert set(page_links) == {(1, DEAD), *((7, url) for url in urls)}
    assert set(part["links"][0]) == {"page", "page_has_it_since", "url", "state"}


def test_what_changed_since_a_day_is_told(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Links whose state is so since then, and those that a page has since then."""
    registry_builder.page(2, "Neu", "https://neu.de/", day=TODAY - 1)
    registry_builder.page(3, "Alt", "https://alt.de/", day=TODAY - 90)
    registry_builder.page(4, "Anders", "https://anders.de/", day=TODAY - 90)
    changed = pack_history(
        (HistoryRun(CODES.FINE, TODAY - 90, TODAY - 9), HistoryRun(CODES.NOT_FOUND, TODAY - 1, TODAY))
    )
    registry_builder.state("https://anders.de/", LinkState.DYING, history=changed, first_fail_day=TODAY - 1)
    since = date_of(TODAY - 2).isoformat()
    document = front.get(f"/links/api/links?dbname=dewiki@WMF&since={since}").json()

    urls = {link["url"] for link in document["links"]}
    assert urls == {"https://neu.de/", "https://anders.de/"}
    for odd in ("since=gestern", "state=odd", "after=x", "fields=odd"):
        assert front.get(f"/links/api/links?dbname=dewiki@WMF&{odd}").status_code == 400


def test_the_normal_form_of_any_url_is_told(front: RegistryFront) -> None:
    """And why a text has none; nothing of what is known of it (W51)."""
    given = ["HTTP://Example.ORG./%7euser/?#top", "http://example.com:8o8o/"]
    query = urlencode([("url", each) for each in given])
    normal_forms = front.get(f"/links/api/normalise?{query}").json()["urls"]

    assert [each["given"] for each in normal_forms] == given
    assert [each["url"] for each in normal_forms] == ["http://example.org/~user/", None]
    assert (normal_forms[0]["fault"], "port" in normal_forms[1]["fault"].lower()) == (None, True)
    assert front.get("/links/api/normalise").status_code == 400


def test_what_a_wiki_keeps_out_of_link_search_is_told(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """For the wiki's own search pages: the entry, and why (X06)."""
    registry_builder.settings({"excluded_domains": ["doi.org"]})
    met = front.get("/links/api/excluded?dbname=dewiki&pattern=*.doi.org").json()
    other = front.get("/links/api/excluded?dbname=dewiki&pattern=*.de").json()

    assert (met["excluded"], met["entry"], "excludes links" in met["reason"]) == (True, "doi.org", True)
    assert (other["excluded"], other["entry"], other["reason"]) == (False, None, None)
    assert front.get("/links/api/excluded?dbname=dewiki&pattern=").status_code == 400
    assert front.get("/links/api/excluded?dbname=nowiki&pattern=*.de").status_code == 404


@pytest.mark.parametrize(
    ("code", "evidence", "status_fields"),
    [
        (CODES.NOT_FOUND, "", (404, "not-found", 404)),
        (CODES.DNS_UNKNOWN, "dns: nxdomain", (None, "dns-unknown", 502)),
        (CODES.BAD_REQUEST, "http: 400", (400, "bad-request", 500)),
        (CODES.NONE, "", (None, "none", None)),
    ],
)
def test_a_status_is_what_the_server_gave(
    code: int, evidence: str, status_fields: tuple[Any, ...], registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """Null where none answered; the reason has a name, and the mapped status one of its own (W55)."""
    number = registry_builder.state(DEAD, LinkState.DEAD, code=code)
    if evidence:
        registry_builder.seen(number, evidence)
    (link,) = [link for link in links_of(front) if link["url"] == DEAD]

    assert (link["http"], link["reason"], link["mapped_http"]) == status_fields
    assert link["status_byte"] == code


def test_a_question_may_ask_for_some_fields(front: RegistryFront) -> None:
    """The URL always; the gadget's list has the same links (one object)."""
    page = front.page("dbname=dewiki@WMF&curid=1&fields=state,http").json()["pages"][0]
    problems = front.get(PROBLEM + "&format=json&fields=state,http").json()["problems"]

    assert all(set(link) == {"url", "state", "http"} for link in page["links"])
    assert problems == page["links"]
    assert front.page("dbname=dewiki@WMF&curid=1&fields=odd").status_code == 400


# ---- both databases


def test_both_databases_answer_alike(either: RegistryBuilder, tmp_path: Path) -> None:
    """Pages, lists, a ping, the form's questions."""
    either.fill()
    with open_front(tmp_path, FixedRegistry(either.store)) as front:
        page = front.page("dbname=dewiki@WMF&curid=1&titles=Foo bar&scope=all").json()["pages"]
        ping = front.page("dbname=dewiki@WMF&curid=1&ping=1").status_code
        listed = front.get("/links/api/list?dbname=dewiki&with=unreachable").json()["pages"]
        url = front.get(f"/links?url={DEAD}&dbname=dewiki&farm=1&stamp={front.stamp()}")
        pattern_response = front.get(f"/links?pattern=*.de&dbname=dewiki&status=unreachable&stamp={front.stamp()}")

    assert page[0] == page[1]
    assert [link["state"] for link in page[0]["links"]] == ["invalid", "alive", "dead"]
    assert (ping, refresh_states(either.store)[1]) == (204, (TODAY, True))
    assert [each["title"] for each in listed] == ["Foo bar"]
    assert "Foo bar" in url.text
    assert DEAD in pattern_response.text
    assert FINE not in pattern_response.text
