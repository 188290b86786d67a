"""Facts that a page states about a link: archives, dates, dead-link tags, paywalls (B04, B05, B07)."""

from datetime import date

import pytest

from tests.wiki.wikitext.reading import TODAY, one, read
from wiki.wikitext.citation_reader import read_citations
from wiki.wikitext.template_map import rules_for

A = "http://a.test/x"
COPY = f"https://web.archive.org/web/20150102030405/{A}"
FIFTH = date(2020, 3, 5)


def test_a_citation_template_says_everything_of_its_link() -> None:
    """Its parameters by what they are for, with their places."""
    text = (
        f"<ref>{{{{cite web |url={A} |title=A title |access-date=5 March 2020 |archive-url={COPY}"
        " |archive-date=2 January 2015 |url-status=dead |url-access=subscription}}</ref>"
    )
    citation = one(text)
    assert (citation.url, citation.title, citation.access_date) == (A, "A title", FIFTH)
    assert (citation.archive_url, citation.archive_date) == (COPY, date(2015, 1, 2))
    assert (citation.status, citation.is_said_dead, citation.is_paywalled) == ("dead", True, True)
    assert citation.reference is not None
    assert text[citation.reference.start : citation.reference.end] == text
    for role, parameter in citation.parameters.items():
        assert text[parameter.inner.start : parameter.inner.end] == parameter.value, role


def test_a_german_citation_is_read_by_its_own_names() -> None:
    """Internetquelle."""
    text = (
        f"{{{{Internetquelle |url={A} |titel=Titel |abruf=2020-03-05 |archiv-url={COPY}"
        " |archiv-datum=2015-01-02 |offline=ja}}"
    )
    citation = one(text, "de")
    assert (citation.url, citation.title, citation.access_date) == (A, "Titel", FIFTH)
    assert (citation.archive_url, citation.archive_date) == (COPY, date(2015, 1, 2))
    assert citation.status == "dead"


@pytest.mark.parametrize(
    ("parameter", "status"),
    [
        ("url-status=live", "live"),
        ("url-status=dead", "dead"),
        ("url-status=deviated", "dead"),
        ("url-status=bot: unknown", "dead"),
        ("url-status=Usurped", "usurped"),
        ("url-status=unfit", "unfit"),
        ("url-status=", ""),
        ("url-status=nonsense", ""),
        ("dead-url=no", "live"),
        ("deadurl=yes", "dead"),
    ],
)
def test_a_status_is_read_in_its_old_and_new_words(parameter: str, status: str) -> None:
    """Parameters were renamed, and pages kept the old ones."""
    assert one(f"{{{{cite web|url={A}|{parameter}}}}}").status == status


def test_an_archives_address_that_does_not_say_of_what_stays() -> None:
    """Its original must be asked for."""
    citation = one("[https://perma.cc/AB12-CD34 b]")
    assert citation.url == citation.archive_url == "https://perma.cc/AB12-CD34"


def test_what_merely_reads_like_an_archives_is_none() -> None:
    """Anybody can serve such an address."""
    citation = one(f"[https://evil.test/web/20150102030405/{A} b]")
    assert (citation.archive_url, citation.url) == ("", f"https://evil.test/web/20150102030405/{A}")


@pytest.mark.parametrize(
    "text",
    [
        f"<ref>[{A} Title], 2004. {{{{dead link|date=May 2020}}}}</ref>",
        f"<ref>[{A} Title]</ref>{{{{dead link}}}}",
        f"<ref name='b c'>[{A} Title]</ref> and text <ref name=\"b c\" />{{{{dead link}}}}",
        f"* [{A} Title], a publisher of some size, in the year 2004 {{{{Dead Link}}}}",
        f"Text [{A} Title] {{{{deadlink}}}} more text",
        f"Text [{A} Title]<!-- c -->{{{{dead link}}}}",
        f"{A}{{{{dead link}}}}",
        f"{{{{cite web|url={A}|title=b}}}}{{{{dead link}}}}",
        f"{{{{cite web|url={A} {{{{dead link}}}}|title=b}}}}",
        f"{{{{cite web|url={A}|title=b {{{{dead link}}}}}}}}",
        f"{{{{infobox|site=[{A} b]{{{{dead link}}}}}}}}",
        f"<ref>{{{{nowrap|[{A} b]}}}} {{{{dead link}}}}</ref>",
        f"{{{{efn|[{A} b] and words {{{{dead link}}}}}}}}",
        f"[{A} Title] {{{{subscription required}}}} {{{{dead link}}}}",
    ],
)
def test_a_dead_link_tag_speaks_of_the_link_before_it(text: str) -> None:
    """In the reference, directly behind it, in the line of a list, in the parameter."""
    citation = one(text)
    assert citation.dead_tag is not None
    assert citation.is_said_dead
    assert citation.is_treated_dead
    assert text[citation.dead_tag.span.start : citation.dead_tag.span.end].startswith("{{")
    assert citation.url == A
    assert not citation.is_malformed


@pytest.mark.parametrize(
    "text",
    [
        f"[{A} Title]\n\n{{{{dead link}}}}",
        f"[{A} Title] {'and so on ' * 30}{{{{dead link}}}}",
        f"{{{{dead link}}}} [{A} Title]",
        f"<ref>{A}</ref> Another sentence about it. {{{{dead link}}}}",
        f"<ref>{A}</ref><ref name=b />{{{{dead link}}}}",
        f"<nowiki>{{{{dead link}}}}</nowiki> {A}",
    ],
)
def test_a_dead_link_tag_far_away_speaks_of_something_else(text: str) -> None:
    """In another paragraph, far on in running text, before the link, or behind other text."""
    assert one(text).dead_tag is None


def test_each_tag_speaks_of_its_own_link() -> None:
    """Two links in a reference, the second of them dead."""
    first, second = read(f"<ref>[{A} b] [http://c.test/ d] {{{{dead link}}}}</ref>")
    assert (first.dead_tag, second.dead_tag is not None) == (None, True)


@pytest.mark.parametrize("link", ["[//a.test/x b]", "{{URL|a.test/x}}", "{{URL|1=http://a.test/x}}"])
def test_an_archive_template_belongs_to_a_link_without_its_scheme(link: str) -> None:
    """Whatever MediaWiki or a template puts in front of it."""
    assert one(f"* {link} {{{{webarchive|url={COPY}}}}}").archive_url == COPY


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (f"<ref>[{A} b]. Retrieved 5 March 2020.</ref>", "en"),
        (f"<ref>[{A} b], accessed March 5, 2020</ref>", "en"),
        (f"* [{A} b] Retrieved on 2020-03-05", "en"),
        (f"<ref>[{A} b], abgerufen am 5. März 2020.</ref>", "de"),
        (f"<ref>{A} Zugriff am 05.03.2020</ref>", "de"),
        (f"<ref>{A} (Letzter Zugriff: 5.3.2020)</ref>", "de"),
    ],
)
def test_an_access_date_is_read_from_words_behind_a_link(text: str, language: str) -> None:
    """Links without a template take the date from the words behind them."""
    assert one(text, language).access_date == FIFTH


def test_an_access_date_belongs_to_one_link() -> None:
    """The last one before it."""
    first, second = read(f"<ref>[{A} b], [http://b.test c]. Retrieved 5 March 2020</ref>")
    assert (first.access_date, second.access_date) == (None, FIFTH)


def test_a_human_can_ask_bots_to_leave_a_link_alone() -> None:
    """``{{cbignore}}`` beside it."""
    assert one(f"<ref>[{A} b]</ref>{{{{cbignore}}}}").is_held
    assert one(f"<ref>{{{{cite web|url={A}}}}} {{{{cbignore}}}}</ref>").is_held
    assert not one(f"[{A} b]").is_held


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        (f"<ref>{A}</ref>", True),
        (f"<ref>[{A} A title].</ref>", True),
        (f"<ref> [{A}] {{{{dead link}}}}</ref>", True),
        (f"<ref>[{A} b], 2004</ref>", False),
        (f"<ref>[{A} b] [http://b.test c]</ref>", False),
        (f"<ref>[{A} b|c]</ref>", False),
        (f"<ref>[{A} {{{{b}}}}]</ref>", False),
        (f"<ref>{A}{{{{x}}}}</ref>", False),
        (f"<ref>{A} {{{{x}}}}</ref>", False),
        (f"<ref>{A}<!-- do not touch --></ref>", False),
        (f"{A}", False),
        (f"{{{{efn|{A}}}}}", False),
        (f"<ref>{{{{cite web|url={A}}}}}</ref>", False),
    ],
)
def test_a_link_that_is_all_of_its_reference_can_become_a_template(text: str, is_so: bool) -> None:
    """A reference is converted only if nothing that a reader sees would be lost (B15)."""
    assert read(text)[0].is_convertible is is_so


def test_an_archive_without_a_status_leads_readers_to_the_copy() -> None:
    """On a wiki whose templates do so: the link is treated as dead, though nobody said that it is."""
    text = f"{{{{cite web|url={A}|archive-url={COPY}}}}}"
    citation = one(text)
    assert (citation.is_treated_dead, citation.is_said_dead, citation.status) == (True, False, "")
    assert not one(text, "de").is_treated_dead
    assert not one(text.replace("}}", "|url-status=live}}")).is_treated_dead


@pytest.mark.parametrize("value", [f"{{{{URL|{A}}}}}", "{{URL|a.test/x}}", f"[{A}]", f"[{A} b]"])
def test_a_link_where_a_url_should_be_is_read(value: str) -> None:
    """As readers of the page have it; no bot writes into that template."""
    citation = one(f"{{{{cite web|url={value}|title=b}}}}")
    assert (citation.url, citation.within, citation.is_malformed) == (A, "cite web", False)


def test_own_addresses_are_copies_when_we_say_which_are_ours() -> None:
    """A wiki's pages may cite this archive itself."""
    text = f"[https://archive.example/page/20150102030405/{A} b]"
    (citation,) = read_citations(text, rules_for("en"), today=TODAY, own=["https://archive.example"])
    assert (citation.url, citation.archive_date) == (A, date(2015, 1, 2))
    other = f"[https://evil.test/page/20150102030405/{A} b]"
    (citation,) = read_citations(other, rules_for("en"), today=TODAY, own=["https://archive.example"])
    assert (citation.url, citation.archive_url) == (citation.address, "")
