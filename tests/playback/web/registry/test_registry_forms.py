"""The form of the registry and its answers (W03-W09, W12, W20, W24, W69)."""

import html
import re
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from core.errors import TransientError
from links.feedback.reporter_limits import ReporterDigests
from links.registry.schema import pages
from links.states import LinkState
from playback.web.rate_limits import ClientAddresses, RateLimitPolicy, parse_networks
from playback.web.registry.registry_forms import TOKEN_S, FormTokens
from tests.support.examples import examples
from tests.support.registry_builder import (
    DEAD,
    FINE,
    FixedRegistry,
    RegistryBuilder,
    RegistryFront,
    open_front,
    stamp_in,
)

pytestmark = pytest.mark.slow

KEY = ReporterDigests(b"x" * 32)
HERE, THERE = "198.51.100.0/24", "203.0.113.0/24"


def result_part(front: RegistryFront, query: str) -> str:
    """Return the result part of the page for a query that the form sends."""
    text = front.get(f"/links?{query}&stamp={front.stamp()}").text
    return text.partition('class="result"')[2]


def fields_of(text: str) -> dict[str, str]:
    """Return the values of the form's fields, by their ids."""
    fields = re.findall(r'<input id="([^"]+)"[^>]* value="([^"]*)"', text)
    return {name: html.unescape(value) for name, value in fields}


def test_the_form_is_filled_in_by_its_address(front: RegistryFront) -> None:
    """Every field, and what it says is shown as it is (W69)."""
    hostile = 'https://a.de/"><script>alert(1)</script>'
    address = f"/links?url={quote(hostile)}&dbname=dewiki%40WMF&pattern=&namespace=4&title="
    text = front.get(address).text

    assert fields_of(text)["url"] == hostile
    assert fields_of(text)["url-wiki"] == "dewiki@WMF"
    assert fields_of(text)["namespace"] == "4"
    assert "<script" not in text


def test_a_single_address_is_answered_when_the_form_asks(front: RegistryFront) -> None:
    """State, time and cause in words, in its normal form (W03, W51)."""
    text = result_part(front, f"url={DEAD.upper().replace('GONE', 'gone')}%23top")

    assert f'<span class="url" dir="ltr">{DEAD}</span>' in text
    assert "Dead since 21 May 2026" in text
    assert "no such page" in text


@pytest.mark.parametrize("name", ["url", "pattern"])
def test_without_the_form_there_is_only_the_form(name: str, front: RegistryFront) -> None:
    """Filled in, to press its button: programs get no answers for single addresses (W20)."""
    query = f"/links?{name}={DEAD}"
    others = {
        "bare": front.get(query),
        "made up": front.get(f"{query}&stamp=1795176000.{'0' * 32}"),
        "fetched": front.get(f"{query}&stamp={front.stamp()}", sec_fetch_mode="cors"),
    }
    front.clock.seconds += 1
    stamp = front.stamp()
    front.clock.seconds += TOKEN_S + 1
    others["old"] = front.get(f"{query}&stamp={stamp}")

    for response in others.values():
        assert response.status_code == 200
        assert "Press its button" in response.text
        assert "Dead" not in response.text
    assert "Dead" in front.get(f"{query}&stamp={front.stamp()}", sec_fetch_mode="navigate").text


def test_a_stamp_is_good_for_its_neighbourhood_alone(registry_builder: RegistryBuilder, tmp_path: Path) -> None:
    """A farm of machines cannot share one."""
    access = RateLimitPolicy(readers=ClientAddresses(parse_networks(["198.51.100.7"])))
    with open_front(tmp_path, FixedRegistry(registry_builder.store), access=access) as front:
        query = f"/links?url={DEAD}&stamp={front.stamp()}"
        elsewhere = front.get(query, x_forwarded_for="203.0.113.9").text
        here = front.get(query).text

    assert "Press its button" in elsewhere
    assert "Dead since 21 May 2026" in here


@given(st.text(max_size=60))
def test_no_stamp_that_others_make_holds(stamp: str) -> None:
    """Whatever it looks like."""
    assert not FormTokens(KEY).take(stamp, "", HERE, 1_000.0)


@given(st.integers(0, 10**10), st.integers(-TOKEN_S, 2 * TOKEN_S))
def test_a_stamp_holds_for_two_hours(made: int, later: int) -> None:
    """From then on, not before, and for its own range."""
    stamp = FormTokens(KEY).make("", HERE, made)

    assert FormTokens(KEY).take(stamp, "", HERE, made + later) == (0 <= later <= TOKEN_S)
    assert not FormTokens(KEY).take(stamp, "", THERE, made)
    assert not FormTokens(ReporterDigests(b"y" * 32)).take(stamp, "", HERE, made)


def test_a_stamp_answers_one_question(front: RegistryFront) -> None:
    """One that was scraped is worth no more than the page it came from (W20)."""
    stamp = front.stamp()
    first = front.get(f"/links?url={DEAD}&stamp={stamp}").text
    for again in (f"url={DEAD}", f"url={FINE}", "pattern=*.de"):
        assert "Press its button" in front.get(f"/links?{again}&stamp={stamp}").text
    assert "Dead since 21 May 2026" in first


def test_a_filled_forms_stamp_answers_that_question_alone(front: RegistryFront) -> None:
    """It is bound to the URL; the wiki and its like may still be chosen (W20)."""
    stamp = stamp_in(front.get(f"/links?url={DEAD}").text)

    assert "Press its button" in front.get(f"/links?url={FINE}&stamp={stamp}").text
    answer = front.get(f"/links?url={DEAD}&dbname=dewiki&stamp={stamp}").text
    assert "Dead since 21 May 2026" in answer


def test_who_does_not_say_to_navigate_presses_the_filled_forms_button(front: RegistryFront) -> None:
    """A missing Sec-Fetch-Mode is no sign of a person; an old browser needs one press more (W20)."""
    query = f"/links?url={DEAD}"
    filled = front.get(f"{query}&stamp={front.stamp()}", sec_fetch_mode=None).text

    assert "Press its button" in filled
    answer = front.get(f"{query}&stamp={stamp_in(filled)}", sec_fetch_mode=None).text
    assert "Dead since 21 May 2026" in answer


def test_a_stamp_holds_at_every_front_of_the_collection(registry_builder: RegistryBuilder, tmp_path: Path) -> None:
    """And after a restart: they share the collection's key (W71)."""
    with open_front(tmp_path, FixedRegistry(registry_builder.store)) as front:
        stamp = front.stamp()
    with open_front(tmp_path, FixedRegistry(registry_builder.store)) as other:
        answer = other.get(f"/links?url={DEAD}&stamp={stamp}").text

    assert "Dead since 21 May 2026" in answer


def test_what_is_on_no_watched_page_is_not_known(front: RegistryFront) -> None:
    """And is not looked at because somebody asks (W12, W28)."""
    assert "not on any watched page" in result_part(front, "url=https://neu.de/")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("url=http://example.com:8o8o/", "The port is not a number"),
        ("url=http://docs/about.htm", "contains no dot"),
        ("url=mailto:a@b.de", "Only http and https"),
        ("url=http%3A%2F%2Fa.de%2F%E2%80%8B", "invisible"),
        ("pattern=test.*.com", "test.*.com"),
        ("pattern=*.de&namespace=x", "Namespaces are numbers"),
        ("pattern=*.de&after=x%2Fy", "after"),
        ("pattern=*.de&status=odd", "no such filter"),
        ("title=a%01b&dbname=dewiki", "control characters"),
        ("title=Foo", "Specify the wiki"),
        ("dbname=dewiki&title=&curid=&scope=problems", "title or the ID of a page"),
        ("curid=x&dbname=dewiki", "positive integer"),
        ("url=https://a.de/&dbname=de wiki", "Specify the wiki"),
    ],
)
def test_a_mistake_is_explained_and_the_form_stays_filled_in(query: str, message: str, front: RegistryFront) -> None:
    """Nobody has to type it all again."""
    answer = front.get(f"/links?{query}&stamp={front.stamp()}")
    name = query.partition("=")[0].replace("dbname", "page-wiki")

    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert message in html.unescape(answer.text)
    assert fields_of(answer.text)[name]


@pytest.mark.parametrize(
    ("status", "urls"), [("working", {FINE}), ("unreachable", {DEAD}), ("doubtful", set()), ("", {DEAD})]
)
def test_a_page_is_filtered_by_status(status: str, urls: set[str], front: RegistryFront) -> None:
    """Working, unreachable or doubtful; by default what has findings (W04)."""
    text = result_part(front, f"dbname=dewiki&title=foo_bar&status={status}")

    assert set(re.findall(r'<p class="target"><a[^>]* href="([^"]+)"', text)) == urls


@pytest.mark.parametrize("status", ["working", "unreachable"])
def test_a_pattern_is_filtered_by_status_and_namespace(
    status: str, registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """And names pages of the wiki that was named, of no other (W03, W24)."""
    registry_builder.page(1, "Fremd", DEAD, FINE, wiki="dewiki@OSM")
    text = result_part(front, f"pattern=*.de&dbname=dewiki&status={status}&namespace=0")
    no_match = result_part(front, f"pattern=*.de&dbname=dewiki&status={status}&namespace=6")

    assert (DEAD in text, FINE in text) == (status == "unreachable", status == "working")
    assert "Foo bar" in text
    assert "Fremd" not in text
    assert "No address on a watched page matches" in no_match


def test_a_pattern_without_a_wiki_names_no_pages(front: RegistryFront) -> None:
    """Nobody knows whose they would be (W24)."""
    text = result_part(front, "pattern=verlag.de")

    assert DEAD in text
    assert "Foo bar" not in text


def test_a_search_says_what_the_wiki_keeps_out(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """And how it is found nevertheless; a search that meets no such entry says nothing (X06, X10)."""
    registry_builder.settings({"excluded_domains": ["doi.org"]})
    met = result_part(front, "pattern=*.doi.org&dbname=dewiki")
    other = result_part(front, "pattern=*.de&dbname=dewiki")

    assert 'insource:"doi.org"' in html.unescape(met)
    assert "excludes links" not in other


def test_a_long_answer_goes_on(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """To the next part, each address once, and the way carries what the form sent."""
    wanted = {f"https://viele.de/{number:03}" for number in range(120)}
    registry_builder.page(7, "Viele", *wanted)
    path, urls = f"/links?pattern=viele.de&dbname=dewiki&stamp={front.stamp()}", []
    while path:
        text = front.get(path).text
        urls += re.findall(r'<p class="target"><a[^>]* href="([^"]+)"', text)
        more = re.search(r'rel="next" href="([^"]+)"', text)
        path = html.unescape(more[1]) if more else ""

    assert len(urls) == len(wanted)
    assert set(urls) == wanted


def test_a_blocked_address_is_told_to_its_own_wiki(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """With its list and its pages; other wikis' blocks are nobody else's business (W06, W52)."""
    registry_builder.spam(registry_builder.page(5, "Werbung"), "https://spam.top/buy")
    own = result_part(front, "url=https://spam.top/buy&dbname=dewiki")
    other = result_part(front, "url=https://spam.top/buy&dbname=frwiki")

    assert "Blocked as spam by MediaWiki:Spam-blacklist, line 7" in own
    assert "Werbung" in own
    assert 'href="https://spam.top' not in own
    assert "spam-blacklist" not in other.lower()


def test_other_pages_are_told_for_one_wiki_or_its_farm(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Pages that had it lately among them; never another farm's (W09, W24)."""
    registry_builder.page(2, "Auch hier", DEAD)
    registry_builder.page(2, "Auch hier")  # it went
    registry_builder.page(1, "Schwester", DEAD, wiki="frwiki")
    registry_builder.page(1, "Fremd", DEAD, wiki="dewiki@OSM")
    own = result_part(front, f"url={DEAD}&dbname=dewiki")
    farm = result_part(front, f"url={DEAD}&dbname=dewiki&farm=1")

    assert [title in own for title in ("Foo bar", "Auch hier", "Schwester", "Fremd")] == [True, True, False, False]
    assert [title in farm for title in ("Foo bar", "Schwester", "Fremd")] == [True, True, False]


def test_the_first_hundred_other_pages_are_told(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """A template's link is on thousands, and the page says that there are more (W09)."""
    for number in range(2, 130):
        registry_builder.page(number, f"Seite {number}", DEAD)
    text = result_part(front, f"url={DEAD}&dbname=dewiki")

    assert text.count("Seite ") == 99
    assert "Only the first pages" in text


def test_nothing_but_the_web_becomes_a_link(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Addresses of copies and replacements come from outside, too; nor does a usurped domain."""
    number = registry_builder.state(DEAD, LinkState.USURPED, code=83)
    registry_builder.copy(number, "odd", "javascript:alert(1)", "20200101000000")
    registry_builder.seen(number, "redirect", "javascript:alert(2)")
    text = result_part(front, "dbname=dewiki&curid=1")
    addresses = [html.unescape(each) for each in re.findall(r'href="([^"]*)"', text)]

    assert all(each.startswith(("https://", "http://", "/")) for each in addresses)
    assert DEAD not in addresses
    assert "Do not follow" in text


def test_titles_and_texts_are_text(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """Whatever a wiki calls its pages."""
    registry_builder.page(1, "<b>Foo & 'bar'</b>", "http://x<script>alert(1)</script>", DEAD)
    for path in ("/links?dbname=dewiki&curid=1", "/links/list?dbname=dewiki&with=unreachable"):
        text = front.get(path).text

        assert "&lt;b&gt;Foo &amp; &#39;bar&#39;&lt;/b&gt;" in text
        assert "<script" not in text


def test_lists_lead_to_their_pages(front: RegistryFront) -> None:
    """From a list of the wiki to what is known of a page (W05)."""
    text = front.get("/de/links/list?dbname=dewiki&with=unreachable").text
    match = re.search(r'<ul class="uses">\s*<li><a href="([^"]+)"', text)

    assert match is not None
    address = html.unescape(match[1])
    assert urlsplit(address).path == "/de/links"
    assert "Tot seit dem 21. Mai 2026" in front.get(address).text


def test_a_page_keeps_its_language_when_it_is_changed(front: RegistryFront) -> None:
    """The address of another language asks for nothing else."""
    text = front.get("/externalLinkInfo?dbname=dewiki@WMF&lang=de&pageid=1").text
    english = re.search(r'<a href="(/en/[^"]+)" lang="en"', text)

    assert english is not None
    assert '<html lang="en">' in front.get(html.unescape(english[1])).text


def test_the_language_is_a_field_of_the_form(front: RegistryFront) -> None:
    """The answer is in it, and so is what leads on (W69)."""
    form = front.get("/links").text
    assert '<select id="lang" name="lang">' in form
    answer = front.get("/links?dbname=dewiki&curid=1&scope=all&lang=de").text

    assert '<html lang="de">' in answer
    assert '<option value="de" lang="de" selected>' in answer
    assert front.get("/links?dbname=dewiki&curid=1&lang=xx").status_code == 200


def test_what_is_no_pattern_is_said_in_the_readers_language(front: RegistryFront) -> None:
    """In English also why (W11)."""
    query = "links?pattern=ftp://a.de/"

    assert "not ftp" in front.get(f"/en/{query}").text
    assert "Nach diesem Muster kann nicht gesucht werden" in html.unescape(front.get(f"/de/{query}").text)
    answer = front.get("/links/api/excluded?dbname=dewiki&pattern=*", accept_language="de")
    assert "Nach diesem Muster kann nicht gesucht werden" in answer.json()["detail"]


def test_a_pattern_is_searched_in_several_namespaces(registry_builder: RegistryBuilder, front: RegistryFront) -> None:
    """In some, or in those that the wiki observes (W03)."""
    for namespace, title in ((0, "Artikel"), (4, "Projekt"), (2, "Benutzer")):
        url = f"https://n{namespace}.viele.de/"
        registry_builder.page(20 + namespace, title, url)
        with registry_builder.store.writing() as rows:
            where = pages.c.title == title
            rows.execute(update(pages).where(where).values(namespace=namespace))
    registry_builder.settings({"feed": {"namespaces": [0, 2]}})

    def matching_titles(namespaces: str) -> list[str]:
        text = result_part(front, f"pattern=*.viele.de&dbname=dewiki&namespace={namespaces}")
        return [each for each in ("Artikel", "Projekt", "Benutzer") if each in text]

    assert matching_titles("") == ["Artikel", "Projekt", "Benutzer"]
    assert matching_titles("0,4") == ["Artikel", "Projekt"]
    assert matching_titles("content") == ["Artikel", "Benutzer"]


def test_a_search_without_a_wiki_warns_of_what_any_wiki_keeps_out(
    registry_builder: RegistryBuilder, front: RegistryFront
) -> None:
    """As the command line does (X06)."""
    registry_builder.settings({"excluded_domains": ["doi.org"]})

    assert "excludes links" in result_part(front, "pattern=*.doi.org")
    assert "excludes links" not in result_part(front, "pattern=*.viele.de")


def test_answers_are_kept_by_nobody(front: RegistryFront) -> None:
    """The form's stamp is one reader's, and no machine lists the pages."""
    answer = front.get("/links")

    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-robots-tag"].startswith("noindex")
    assert "access-control-allow-origin" not in answer.headers
    assert "set-cookie" not in answer.headers


def test_a_registry_that_is_away_keeps_the_form(tmp_path: Path) -> None:
    """The form keeps what was typed."""
    with open_front(tmp_path, FixedRegistry(TransientError("gone"))) as front:
        answer = front.get("/links?dbname=dewiki&title=Foo")

    assert answer.status_code == 503
    assert fields_of(answer.text)["title"] == "Foo"
    assert "is temporarily unavailable" in answer.text


NAMES = (
    "url", "pattern", "dbname", "title", "titles", "curid", "pageid", "namespace", "status",
    "scope", "farm", "with", "after", "stamp", "lang", "format", "ping", "fragment",
)  # fmt: skip
PATHS = (
    "/links", "/links/list", "/links/api/page", "/links/api/list", "/externalLinkProblem",
    "/externalLinkInfo", "/de/links",
)  # fmt: skip
VALUES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["dewiki@WMF", "1", "*.de", DEAD, "Foo bar", "spam", "all", "-1", "%", "\x00", "٣"]),
)


@settings(max_examples=examples(150))
@given(path=st.sampled_from(PATHS), query=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_no_question_is_too_odd(path: str, query: dict[str, str], front: RegistryFront) -> None:
    """Whatever is asked: an answer, a reason, or patience; never a fault of ours."""
    front.clock.seconds += 3_600
    query = {name: value if name != "stamp" else front.stamp() for name, value in query.items()}
    answer = front.get(f"{path}?{urlencode(query)}")

    assert answer.status_code in (200, 204, 400, 404)
    assert "<script" not in answer.text
